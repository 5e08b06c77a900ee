//! Settings that every engine has under a name of its own and that mean the same, where an axis says which engine serves: each cell
//! has them in its engine's words, whichever were used.
//!
//! They are the longest sequence and the most requests that run at once. A budget of tokens and a share of the memory are none:
//! `max_num_batched_tokens` and `chunked_prefill_size`, `gpu_memory_utilization` and `mem_fraction_static` mean other things, and
//! stay refused where another engine serves. An axis wins over a flag, and the engine's own words over another's.

use super::Swept;
use crate::config::flags::ScenarioFlags;
use crate::config::scalar::{Context, Count};
use crate::config::version::EngineKind;

/// Names of one setting: vLLM's, SGLang's and TensorRT-LLM's.
const CONTEXT: [&str; 3] = ["max-model-len", "context-length", "max-seq-len"];
const REQUESTS: [&str; 3] = ["max-num-seqs", "max-running-requests", "max-batch-size"];

/// Says them as the engine does that the axis names.
pub(super) fn in_the_engine_s_words(flags: &mut ScenarioFlags, swept: &mut Swept) {
    if !swept.flags.iter().any(|flag| flag == "engine") {
        return;
    }
    let Some(engine) = flags.server.engines.engine.profile.as_deref() else {
        return;
    };
    let own = match EngineKind::of(Some(engine)) {
        EngineKind::Vllm | EngineKind::Scheduled(_) => 0,
        EngineKind::Sglang => 1,
        EngineKind::Trtllm => 2,
    };
    // The longest that fits is what vLLM alone looks for.
    let longest = flags.server.engines.engine.max_model_len == Some(Context::Longest);
    if !longest {
        let mut said = [
            flags
                .server
                .engines
                .engine
                .max_model_len
                .and_then(Context::tokens),
            flags.server.engines.sglang.context_length,
            flags.server.engines.trtllm.max_seq_len,
        ];
        turn(&mut said, own, CONTEXT, swept);
        flags.server.engines.engine.max_model_len = said[0].map(Context::Tokens);
        (
            flags.server.engines.sglang.context_length,
            flags.server.engines.trtllm.max_seq_len,
        ) = (said[1], said[2]);
    }
    let mut said = [
        flags.server.engines.engine.max_num_seqs,
        flags.server.engines.sglang.max_running_requests,
        flags.server.engines.trtllm.max_batch_size,
    ];
    turn(&mut said, own, REQUESTS, swept);
    flags.server.engines.engine.max_num_seqs = said[0];
    (
        flags.server.engines.sglang.max_running_requests,
        flags.server.engines.trtllm.max_batch_size,
    ) = (said[1], said[2]);
}

/// Moves what is said of a setting to one of its names; an axis of another name is one of that name then.
fn turn(said: &mut [Option<Count>; 3], own: usize, names: [&str; 3], swept: &mut Swept) {
    let is_swept = |at: usize| swept.flags.iter().any(|flag| flag == names[at]);
    let axes: Vec<usize> = (0..3).filter(|&at| is_swept(at)).collect();
    let mut from = axes.iter().copied().chain([own, 0, 1, 2]);
    // Two axes of one setting are none that could be said once.
    let Some(from) = from.find(|&at| said[at].is_some()).filter(|_| axes.len() < 2) else {
        return;
    };
    let value = said[from];
    *said = [None; 3];
    said[own] = value;
    swept.flags.retain(|flag| !names.contains(&flag.as_str()));
    swept
        .flags
        .extend((!axes.is_empty()).then(|| names[own].to_owned()));
}

#[cfg(test)]
mod tests {
    use super::super::with_values;
    use super::*;

    fn cell(flags: &ScenarioFlags, values: &[(&str, &str)]) -> (ScenarioFlags, Swept) {
        let values: Vec<(String, String)> = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        with_values(flags, &values).unwrap()
    }

    #[test]
    fn each_engine_has_the_context_in_its_own_words() {
        let mut flags = ScenarioFlags::default();
        flags.server.engines.engine.max_model_len = Some("8192".parse().unwrap());
        flags.server.engines.trtllm.max_batch_size = Some("64".parse().unwrap());
        let said = |engine: &str| {
            let (flags, _) = cell(&flags, &[("engine", engine)]);
            (
                flags.server.engines.engine.max_model_len.is_some()
                    && flags.server.engines.engine.max_num_seqs.is_some(),
                flags.server.engines.sglang.context_length.is_some()
                    && flags.server.engines.sglang.max_running_requests.is_some(),
                flags.server.engines.trtllm.max_seq_len.is_some()
                    && flags.server.engines.trtllm.max_batch_size.is_some(),
            )
        };
        assert_eq!(said("vllm@0.33"), (true, false, false));
        assert_eq!(said("static"), (true, false, false));
        assert_eq!(said("sglang"), (false, true, false));
        assert_eq!(said("tensorrt-llm@1.2"), (false, false, true));
        // Without such an axis they are whose they are.
        let (same, _) = cell(&flags, &[("seed", "1")]);
        assert!(
            same.server.engines.engine.max_model_len.is_some()
                && same.server.engines.trtllm.max_batch_size.is_some()
        );
    }

    #[test]
    fn an_engine_s_own_words_win_and_axes_before_them() {
        let mut flags = ScenarioFlags::default();
        flags.server.engines.sglang.context_length = Some("4096".parse().unwrap());
        flags.server.engines.engine.max_model_len = Some("2048".parse().unwrap());
        let (own, _) = cell(&flags, &[("engine", "sglang")]);
        assert_eq!(
            own.server.engines.sglang.context_length,
            flags.server.engines.sglang.context_length
        );
        assert_eq!(own.server.engines.engine.max_model_len, None);
        let (axis, swept) = cell(&flags, &[("engine", "sglang"), ("max-model-len", "8192")]);
        assert_eq!(
            axis.server.engines.sglang.context_length,
            Some("8192".parse().unwrap())
        );
        assert_eq!(swept.flags, ["engine", "context-length"]);
        let (other, swept) = cell(&flags, &[("engine", "tensorrt-llm"), ("max-num-seqs", "8")]);
        assert_eq!(
            other.server.engines.trtllm.max_seq_len,
            Some("2048".parse().unwrap())
        );
        assert_eq!(
            other.server.engines.trtllm.max_batch_size,
            Some("8".parse().unwrap())
        );
        assert_eq!(swept.flags, ["engine", "max-batch-size"]);
        let twice = [
            ("engine", "sglang"),
            ("max-model-len", "1024"),
            ("context-length", "2048"),
        ];
        assert!(
            cell(&flags, &twice)
                .0
                .server
                .engines
                .engine
                .max_model_len
                .is_some(),
            "left as it is, and refused"
        );
    }
}
