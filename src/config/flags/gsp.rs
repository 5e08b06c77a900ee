//! SGLang's `generated-shared-prefix` data set: system prompts, each with a number of questions, shuffled over all (B-27).
//!
//! Defaults are those of `sglang.bench_serving` 0.5.x (`sample_generated_shared_prefix_requests`). The data set has as many
//! requests as it has questions: that client does not look at `--num-prompts` here, and neither does this. Left out:
//! lengths that vary (`--gsp-range-ratio` below 1), several turns and requests in order of groups, which are refused.

use toml::Value;

use super::editor::{Editor, count};
use super::{GroupDistribution, TrafficFlags};
use crate::config::scalar::Count;

const GROUPS: u64 = 64;
const PROMPTS_PER_GROUP: u64 = 16;
const SYSTEM_PROMPT_LEN: i64 = 2048;
const QUESTION_LEN: i64 = 128;
const OUTPUT_LEN: i64 = 256;

/// Requests that the data set has.
pub(in crate::config) fn prompts(flags: &TrafficFlags) -> u64 {
    let groups = flags.gsp_num_groups.map_or(GROUPS, |Count(groups)| groups);
    let each = flags
        .gsp_prompts_per_group
        .map_or(PROMPTS_PER_GROUP, |Count(prompts)| prompts);
    groups.saturating_mul(each)
}

/// The flags of the data set, with SGLang's defaults.
pub(super) fn generated_shared_prefix(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let flag = "dataset-name";
    let or = |value: Option<Count>, default: i64| value.map_or(Value::Integer(default), count);
    let groups = "workload.prefix.groups";
    let zipf = zipf(editor, flags);
    editor.set("workload.num_prompts", count(Count(prompts(flags))), flag);
    let number = flags.gsp_num_groups.unwrap_or(Count(GROUPS));
    editor.set(&format!("{groups}.count"), count(number), flag);
    editor.set(
        &format!("{groups}.prefix_len"),
        or(flags.gsp_system_prompt_len, SYSTEM_PROMPT_LEN),
        flag,
    );
    editor.set(&format!("{groups}.exact_shares"), zipf.is_none(), flag);
    editor.set_some(&format!("{groups}.zipf"), zipf, "gsp-zipf-alpha");
    editor.set(
        "workload.lengths.fixed.input_len",
        or(flags.gsp_question_len, QUESTION_LEN),
        flag,
    );
    let output = flags.gsp_output_len.or(flags.output_len);
    editor.set("workload.lengths.fixed.output_len", or(output, OUTPUT_LEN), flag);
}

/// The exponent, where popularity follows Zipf's law.
fn zipf(editor: &mut Editor<'_>, flags: &TrafficFlags) -> Option<f64> {
    let is_zipf = flags.gsp_group_distribution == Some(GroupDistribution::Zipf);
    match (is_zipf, flags.gsp_zipf_alpha) {
        (true, None) => {
            editor.wrong(
                "gsp-group-distribution",
                "`--gsp-group-distribution zipf` needs an exponent",
                "give --gsp-zipf-alpha 1.0",
            );
            None
        }
        (false, Some(_)) => {
            editor.wrong(
                "gsp-zipf-alpha",
                "`--gsp-zipf-alpha` needs Zipf's law",
                "give --gsp-group-distribution zipf",
            );
            None
        }
        (_, alpha) => alpha,
    }
}
