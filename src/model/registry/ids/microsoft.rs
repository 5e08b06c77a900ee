//! Microsoft's.

use super::super::{Shipped, shipped};

#[rustfmt::skip]
pub(super) const MICROSOFT: &[Shipped] = &[
    shipped("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"),
    shipped("microsoft/Phi-3-mini-128k-instruct", "phi-3-mini-128k"),
    shipped("microsoft/Phi-3-medium-4k-instruct", "phi-3-medium-4k"),
    shipped("microsoft/Phi-3-medium-128k-instruct", "phi-3-medium-128k"),
    shipped("microsoft/Phi-3.5-mini-instruct", "phi-3-mini-128k"),
    shipped("microsoft/phi-4", "phi-4"),
    shipped("microsoft/Phi-4-mini-instruct", "phi-4-mini"),
    shipped("microsoft/Phi-4-reasoning", "phi-4").context(32_768),
    shipped("microsoft/Phi-4-reasoning-plus", "phi-4").context(32_768),
    shipped("microsoft/Phi-4-mini-reasoning", "phi-4-mini"),
    shipped("microsoft/Phi-3.5-MoE-instruct", "phi-3.5-moe"),
    shipped("microsoft/phi-2", "phi-2"),
    shipped("microsoft/phi-1_5", "phi-1.5"),
    shipped("microsoft/phi-1", "phi-1.5"),
];
