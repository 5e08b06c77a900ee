//! What a slice of one step is called, and what it says.

use super::events::Args;
use crate::cost::{Chunk, StepLoad};
use crate::sim::Steps;

/// `prefill 2560 in 3 + decode 37`: tokens of prompts in so many chunks, and sequences that decode. Perfetto colours slices by their names
/// without numbers, so the form is the same whatever they are, and numbers have no commas.
pub(super) fn name(load: &StepLoad) -> String {
    let prefill: u64 = load.chunks.iter().map(|chunk| u64::from(chunk.new)).sum();
    let parts = [
        (
            !load.chunks.is_empty(),
            format!("prefill {prefill} in {}", load.chunks.len()),
        ),
        (load.decode_seqs > 0, format!("decode {}", load.decode_seqs)),
        (load.drafts > 0, format!("drafts {}", load.drafts)),
    ];
    let parts = parts.into_iter().filter(|(is_there, _)| *is_there);
    let parts: Vec<String> = parts.map(|(_, part)| part).collect();
    match parts.is_empty() {
        true => "no tokens".to_owned(),
        false => parts.join(" + "),
    }
}

/// The kind of step, to filter by.
pub(super) fn category(load: &StepLoad) -> &'static str {
    match (load.chunks.is_empty(), load.decode_seqs) {
        (true, _) => "decode",
        (false, 0) => "prefill",
        (false, _) => "mixed",
    }
}

/// What is known of step `index` of a run; who runs and waits, and blocks, only of the first of a new batch.
pub(super) fn args(steps: &Steps<'_>, index: u64, used_blocks: Option<u32>) -> Args {
    let load = steps.load;
    let mut args = Args::default().with("tokens", load.tokens());
    if !load.chunks.is_empty() {
        let list = |of: fn(&Chunk) -> u32| {
            let each: Vec<String> = load.chunks.iter().map(|chunk| of(chunk).to_string()).collect();
            format!("[{}]", each.join(","))
        };
        args = args
            .with("chunk_tokens", list(|chunk| chunk.new))
            .with("chunk_computed_before", list(|chunk| chunk.computed));
    }
    if load.decode_seqs > 0 {
        let kv_tokens = load.decode_kv_tokens + index * u64::from(load.decode_seqs);
        args = args
            .with("decodes", load.decode_seqs)
            .with("decode_kv_tokens", kv_tokens);
    }
    if load.drafts > 0 {
        args = args.with("draft_tokens", load.drafts);
    }
    if steps.recomputed_tokens > 0 {
        args = args.with("recomputed_tokens", steps.recomputed_tokens);
    }
    match used_blocks {
        Some(used) => args
            .with("running", steps.running)
            .with("waiting", steps.waiting)
            .with("kv_blocks_used", used)
            .with("kv_blocks_free", steps.free_meanwhile),
        None => args,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_named_by_its_tokens() {
        let chunk = |new| Chunk { computed: 0, new };
        let mut load = StepLoad::of_decodes(37, 100);
        assert_eq!((name(&load), category(&load)), ("decode 37".to_owned(), "decode"));
        load.chunks = vec![chunk(1024), chunk(1024), chunk(512)];
        assert_eq!(
            (name(&load), category(&load)),
            ("prefill 2560 in 3 + decode 37".to_owned(), "mixed")
        );
        load.decode_seqs = 0;
        assert_eq!(
            (name(&load), category(&load)),
            ("prefill 2560 in 3".to_owned(), "prefill")
        );
        load.chunks.clear();
        assert_eq!(name(&load), "no tokens");
    }
}
