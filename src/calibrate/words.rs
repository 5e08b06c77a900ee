//! What rows say in words: numbers in their notes, the server's flags in the ways in which tables write them.

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

/// Whether a server's log showed hits in its prefix cache: `running/waiting/kv%/prefix_hit%: 1/0/0.4/49.2`.
pub(super) fn had_hits(notes: &str) -> bool {
    let samples = notes.split("prefix_hit%:").nth(1).unwrap_or_default();
    let share = |sample: &str| sample.rsplit('/').next()?.parse::<f64>().ok();
    samples
        .split_whitespace()
        .filter_map(share)
        .any(|share| share > 0.0)
}

/// Engine keys in the two ways in which tables write them: `--max-num-seqs=128`, `max_num_seqs=128`.
pub(super) fn server_flags(flags: &str, is_sglang: bool) -> Vec<(String, String)> {
    const SGLANG_NUMBERS: [&str; 8] = [
        "context_length",
        "mem_fraction_static",
        "max_total_tokens",
        "max_running_requests",
        "chunked_prefill_size",
        "max_prefill_tokens",
        "schedule_conservativeness",
        "page_size",
    ];
    const SGLANG_SWITCHES: [&str; 4] = [
        "disable_radix_cache",
        "enable_mixed_chunk",
        "disable_overlap_schedule",
        "disable_cuda_graph",
    ];
    const NUMBERS: [&str; 6] = [
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
        "block_size",
        "long_prefill_token_threshold",
    ];
    const SWITCHES: [&str; 4] = [
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "enforce_eager",
        "async_scheduling",
    ];
    let (numbers, switches): (&[&str], &[&str]) = if is_sglang {
        (&SGLANG_NUMBERS, &SGLANG_SWITCHES)
    } else {
        (&NUMBERS, &SWITCHES)
    };
    let words: Vec<&str> = flags.split_whitespace().collect();
    let mut found: Vec<(String, String)> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*word, words.get(at + 1).copied()),
        };
        let key = name.trim_start_matches('-').replace('-', "_");
        let key = if key == "gpu_mem_util" {
            "gpu_memory_utilization".to_owned()
        } else {
            key
        };
        let (switch, on) = key
            .strip_prefix("no_")
            .map_or((key.as_str(), true), |switch| (switch, false));
        if switches.contains(&switch) && name.starts_with("--") {
            found.push((switch.to_owned(), on.to_string()));
        } else if numbers.contains(&key.as_str()) && value.is_some_and(|value| value.parse::<f64>().is_ok()) {
            found.push((key, value.unwrap_or_default().to_owned()));
        }
    }
    if flags.contains("prefix caching on") && !is_sglang {
        found.push(("enable_prefix_caching".to_owned(), "true".to_owned()));
    }
    found.dedup_by(|a, b| a.0 == b.0);
    found
}
