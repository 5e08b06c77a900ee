//! The labs that ship, in the order of the course.

use super::{Lab, read};

macro_rules! labs {
    ($($name:literal,)*) => {
        &[$((concat!($name, ".toml"), include_str!(concat!("labs/", $name, ".toml")))),*]
    };
}

/// Each one's file name and text.
pub const SHIPPED: &[(&str, &str)] = labs! {
    "01-serving-basics",
    "02-offline-throughput",
    "03-roofline",
    "04-paged-attention",
    "05-prefix-caching",
    "06-radix-attention",
    "07-continuous-batching",
    "08-chunked-prefill",
    "09-scheduling-policies",
    "10-cuda-graphs",
    "11-speculative-decoding",
    "12-quantization",
    "13-tensor-parallelism",
    "14-mixture-of-experts",
    "15-kv-offloading",
    "16-prefill-decode-disaggregation",
};

/// All of them.
///
/// # Panics
/// Never: a test reads them all.
#[must_use]
pub fn all() -> Vec<Lab> {
    SHIPPED.iter().map(|(name, text)| parsed(name, text)).collect()
}

/// One by its number (`3`, `03`), its name (`roofline`) or both (`03-roofline`), and its text.
///
/// # Panics
/// Never: a test reads them all.
#[must_use]
pub fn find(name: &str) -> Option<(Lab, &'static str)> {
    let name = name.trim_end_matches(".toml");
    let (file, text) = SHIPPED.iter().find(|(file, _)| {
        let whole = file.trim_end_matches(".toml");
        let (number, word) = whole.split_once('-').unwrap_or(("", whole));
        let is_number = name.parse::<u32>().is_ok_and(|asked| Ok(asked) == number.parse());
        is_number || name == word || name == whole
    })?;
    Some((parsed(file, text), text))
}

/// Names, for those who mistype one.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(file, _)| {
        let whole = file.trim_end_matches(".toml");
        whole.split_once('-').map_or(whole, |(_, word)| word)
    })
}

fn parsed(name: &str, text: &str) -> Lab {
    read(name, text).expect("a test reads every shipped lab")
}
