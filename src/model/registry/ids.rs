//! Every id that resolves without a network, a table for each maker or line of descent. Of ids that end alike the first is meant.

mod deepseek;
mod early;
mod glm;
mod google;
mod llama;
mod microsoft;
mod mistral;
mod others;
mod qwen;

use super::Shipped;

/// All tables, in the order of listings.
pub(super) const TABLES: [&[Shipped]; 9] = [
    llama::LLAMA,
    qwen::QWEN,
    mistral::MISTRAL,
    google::GOOGLE,
    microsoft::MICROSOFT,
    deepseek::DEEPSEEK,
    glm::GLM,
    others::OTHERS,
    early::EARLY,
];
