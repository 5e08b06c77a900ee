//! What rows say in words: numbers in their notes.

use crate::results::Setup;

/// The number that follows a word.
pub(super) fn after(text: &str, word: &str) -> Option<f64> {
    let rest = text.split(word).nth(1)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// `input ~217k tokens` of all requests: tokens of one.
pub(super) fn stated_total(setup: &Setup, word: &str) -> Option<f64> {
    let total = after(&setup.notes, word)?;
    let rest = setup.notes.split(word).nth(1)?;
    let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let total = if unit.starts_with('k') {
        1000.0 * total
    } else {
        total
    };
    let requests = setup.num_prompts.filter(|requests| *requests > 0)?;
    Some(total / requests as f64)
}

/// `44 workers x 10 = 440 requests in flight`.
pub(super) fn stated_limit(notes: &str) -> Option<u64> {
    let words: Vec<&str> = notes
        .split(|c: char| c.is_whitespace() || c == ',' || c == ';')
        .collect();
    let at = words
        .windows(3)
        .position(|three| three == ["requests", "in", "flight"])?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

/// `available KV cache 12.02 GiB per GPU`, in bytes.
pub(super) fn stated_cache(notes: &str) -> Option<u64> {
    let rest = notes.split("available KV cache ").nth(1)?;
    let (size, _) = rest.split_once(" per GPU")?;
    let bytes = crate::quantity::parse_bytes(size).ok()?;
    (bytes.0 > 0).then_some(bytes.0)
}

/// What tables write behind a cache's format where layers with a window are left out of it: `fp8 skip-SW`.
const LEFT_OUT: &str = "skip-sw";

/// Whether a word says that layers with a window are left out of an 8-bit cache.
pub(super) fn leaves_windows_out(word: &str) -> bool {
    word.eq_ignore_ascii_case(LEFT_OUT)
}

/// The format of a cache, and whether layers with a window are left out of it.
pub(super) fn cache_format(said: &str) -> (String, bool) {
    let said = said.trim().to_lowercase();
    match said.strip_suffix(LEFT_OUT) {
        Some(format) => (format.trim_end().to_owned(), true),
        None => (said, false),
    }
}

/// Whether a server's log showed hits in its prefix cache: `running/waiting/kv%/prefix_hit%: 1/0/0.4/49.2`.
pub(super) fn had_hits(notes: &str) -> bool {
    let samples = notes.split("prefix_hit%:").nth(1).unwrap_or_default();
    let share = |sample: &str| sample.rsplit('/').next()?.parse::<f64>().ok();
    samples
        .split_whitespace()
        .filter_map(share)
        .any(|share| share > 0.0)
}
