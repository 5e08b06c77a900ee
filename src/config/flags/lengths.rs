//! The traffic's flags: how long prompts and outputs are, and what prompts share.

use clap::ValueEnum;
use toml::Value;

use super::editor::{Editor, count};
use super::gsp::generated_shared_prefix;
use super::{ClientKind, Dataset, TrafficFlags};
use crate::config::scalar::Count;

/// Lengths and sharing, by the data set.
pub(super) fn lengths(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    match flags.dataset_name {
        Some(Dataset::Sharegpt | Dataset::Burstgpt | Dataset::Custom) => from_file(editor, flags),
        None if flags.dataset_path.is_some() => from_file(editor, flags),
        Some(Dataset::TimedTrace) => match &flags.dataset_path {
            Some(path) => {
                editor.set("workload.arrivals.trace.path", path.clone(), "dataset-path");
                editor.document.give_way("workload.lengths");
            }
            None => editor.wrong(
                "dataset-name",
                "`--dataset-name timed_trace` needs its file",
                "give --dataset-path FILE",
            ),
        },
        Some(Dataset::PrefixRepetition) => prefix_repetition(editor, flags),
        Some(Dataset::GeneratedSharedPrefix) => generated_shared_prefix(editor, flags),
        Some(Dataset::Sonnet) => {
            let (key, flag) = ("workload.lengths.random", "dataset-name");
            editor.set(&format!("{key}.input_len"), 350, flag);
            editor.set(&format!("{key}.output_len"), 150, flag);
            editor.set("workload.prefix.groups.count", 1, flag);
            editor.set("workload.prefix.groups.prefix_len", 200, flag);
        }
        Some(Dataset::Random | Dataset::RandomIds) | None => random(editor, flags),
    }
    strays(editor, flags);
}

/// What is known of `random-ids` (SGLang 0.5.4 `sample_random_requests`): its lengths are those of `random`, and behind them it
/// draws a token of the vocabulary for each prompt, ahead of the gaps.
pub(in crate::config) fn random_ids(flags: &TrafficFlags) -> Option<String> {
    let is_asked = flags.client == Some(ClientKind::Sglang) && flags.dataset_name == Some(Dataset::RandomIds);
    is_asked.then(|| {
        "random-ids has the lengths of random, and here its instants, too: its own lie behind draws that depend on the tokenizer"
            .to_owned()
    })
}

/// Flags of a data set that is not the chosen one.
fn strays(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let repetition = [
        (
            "prefix-repetition-prefix-len",
            flags.prefix_repetition_prefix_len.is_some(),
        ),
        (
            "prefix-repetition-suffix-len",
            flags.prefix_repetition_suffix_len.is_some(),
        ),
        (
            "prefix-repetition-num-prefixes",
            flags.prefix_repetition_num_prefixes.is_some(),
        ),
        (
            "prefix-repetition-output-len",
            flags.prefix_repetition_output_len.is_some(),
        ),
    ];
    let shared = [
        ("gsp-num-groups", flags.gsp_num_groups.is_some()),
        ("gsp-prompts-per-group", flags.gsp_prompts_per_group.is_some()),
        ("gsp-system-prompt-len", flags.gsp_system_prompt_len.is_some()),
        ("gsp-question-len", flags.gsp_question_len.is_some()),
        ("gsp-output-len", flags.gsp_output_len.is_some()),
        ("gsp-group-distribution", flags.gsp_group_distribution.is_some()),
        ("gsp-zipf-alpha", flags.gsp_zipf_alpha.is_some()),
    ];
    let sharegpt = [("sharegpt-output-len", flags.sharegpt_output_len.is_some())];
    let custom = [("custom-output-len", flags.custom_output_len.is_some())];
    let of_data_sets: [(Dataset, &[(&str, bool)]); 4] = [
        (Dataset::PrefixRepetition, &repetition),
        (Dataset::GeneratedSharedPrefix, &shared),
        (Dataset::Sharegpt, &sharegpt),
        (Dataset::Custom, &custom),
    ];
    for (dataset, own) in of_data_sets {
        let strays = own
            .iter()
            .filter(|(_, is_given)| *is_given && flags.dataset_name != Some(dataset));
        for (flag, _) in strays {
            let name = dataset.to_possible_value().expect("no data set is hidden");
            editor.wrong(
                flag,
                format!("`--{flag}` belongs to another data set"),
                format!("give --dataset-name {}", name.get_name()),
            );
        }
    }
}

fn random(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    refuse_two_lengths(editor, flags);
    shared_by_all(editor, flags.random_prefix_len);
    let input = flags
        .random_input_len
        .map(|len| (len, "random-input-len"))
        .or(flags.input_len.map(|len| (len, "input-len")));
    let output = flags
        .random_output_len
        .map(|len| (len, "random-output-len"))
        .or(flags.output_len.map(|len| (len, "output-len")));
    let law = match flags.client {
        Some(ClientKind::Sglang) => "random_sglang",
        _ => "random",
    };
    // Without a name SGLang's client would take another data set.
    let has_defaults = flags.client == Some(ClientKind::Sglang) && flags.dataset_name.is_some();
    if input.is_none() && output.is_none() && flags.random_range_ratio.is_none() && !has_defaults {
        return;
    }
    // The other length may stand in the scenario, as long as it is a plain one there.
    let before = editor
        .chosen("workload.lengths")
        .filter(|(kind, _)| matches!(kind.as_str(), "fixed" | "random" | "random_sglang"));
    let kept = |key: &str| {
        before
            .as_ref()
            .and_then(|(_, table)| table.get(key))
            .and_then(Value::as_integer)
    };
    let length = |given: Option<(Count, &'static str)>, key: &str, of_client: Option<i64>| match given {
        Some((len, flag)) => Some((count(len), flag)),
        None => kept(key).or(of_client).map(|len| (Value::Integer(len), "client")),
    };
    let (of_input, of_output) = match flags.client {
        Some(ClientKind::Vllm) => (Some(1024), Some(128)),
        Some(ClientKind::Sglang) => (Some(1024), Some(1024)),
        Some(ClientKind::Plain) | None => (None, None),
    };
    let input = length(input, "input_len", of_input);
    let output = length(output, "output_len", of_output);
    let (Some((input, input_flag)), Some((output, output_flag))) = (input, output) else {
        let (given, missing) = if flags.output_len.or(flags.random_output_len).is_some() {
            ("output-len", "input-len")
        } else {
            ("input-len", "output-len")
        };
        editor.wrong(
            given,
            format!("`--{given}` needs `--{missing}`: a request has a prompt and an output"),
            format!("give --{missing} TOKENS"),
        );
        return;
    };
    let of_file = |key: &str| before.as_ref()?.1.get(key)?.as_float();
    let (ratio, of_outputs) = match flags.random_range_ratio {
        // A file's own spread of outputs gives way, too.
        Some(ratio) => (
            Some(ratio.input),
            ratio
                .output
                .or(of_file("output_range_ratio").map(|_| ratio.input)),
        ),
        None => (of_file("range_ratio"), of_file("output_range_ratio")),
    };
    editor.set(&format!("workload.lengths.{law}.input_len"), input, input_flag);
    editor.set(&format!("workload.lengths.{law}.output_len"), output, output_flag);
    editor.set_some(
        &format!("workload.lengths.{law}.range_ratio"),
        ratio,
        "random-range-ratio",
    );
    editor.set_some(
        &format!("workload.lengths.{law}.output_range_ratio"),
        of_outputs,
        "random-range-ratio",
    );
}

/// A length by its general name and by that of the data set.
fn refuse_two_lengths(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let twice = [
        ("input-len", flags.input_len, flags.random_input_len),
        ("output-len", flags.output_len, flags.random_output_len),
    ];
    for (flag, general, own) in twice {
        if let (Some(general), Some(own)) = (general, own)
            && general != own
        {
            editor.wrong(
                flag,
                format!(
                    "`--{flag} {}` and `--random-{flag} {}` set the same length",
                    general.0, own.0
                ),
                "keep one",
            );
        }
    }
}

/// Tokens in front of every prompt.
fn shared_by_all(editor: &mut Editor<'_>, prefix: Option<Count>) {
    let Some(prefix) = prefix else { return };
    if prefix.0 == 0 {
        editor.document.give_way("workload.prefix");
    } else {
        editor.set("workload.prefix.groups.count", 1, "random-prefix-len");
        editor.set(
            "workload.prefix.groups.prefix_len",
            count(prefix),
            "random-prefix-len",
        );
    }
}

fn from_file(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let Some(path) = &flags.dataset_path else {
        let help = "give --dataset-path FILE with token counts, or --input-len and --output-len";
        editor.wrong("dataset-name", "this data set is a file, and none is given", help);
        return;
    };
    editor.set("workload.lengths.file.path", path.clone(), "dataset-path");
    if flags.dataset_name == Some(Dataset::Sharegpt) {
        editor.set("workload.lengths.file.filter", "sharegpt", "dataset-name");
    }
    let output = flags
        .sharegpt_output_len
        .map(|len| (len, "sharegpt-output-len"))
        .or(flags.custom_output_len.map(|len| (len, "custom-output-len")))
        .or(flags.output_len.map(|len| (len, "output-len")));
    if let Some((len, flag)) = output {
        editor.set("workload.lengths.file.output_len", count(len), flag);
    }
}

fn prefix_repetition(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    // vLLM's defaults of this data set are part of its name.
    let name = "dataset-name";
    let given = |value: Option<Count>, flag: &'static str| value.map(|value| (count(value), flag));
    let or =
        |given: Option<(Value, &'static str)>, default: i64| given.unwrap_or((Value::Integer(default), name));
    let output = given(flags.prefix_repetition_output_len, "prefix-repetition-output-len")
        .or(given(flags.output_len, "output-len"));
    let lengths = [
        (
            "workload.prefix.groups.count",
            or(
                given(
                    flags.prefix_repetition_num_prefixes,
                    "prefix-repetition-num-prefixes",
                ),
                10,
            ),
        ),
        (
            "workload.prefix.groups.prefix_len",
            or(
                given(flags.prefix_repetition_prefix_len, "prefix-repetition-prefix-len"),
                256,
            ),
        ),
        (
            "workload.lengths.fixed.input_len",
            or(
                given(flags.prefix_repetition_suffix_len, "prefix-repetition-suffix-len"),
                256,
            ),
        ),
        ("workload.lengths.fixed.output_len", or(output, 128)),
    ];
    for (key, (value, flag)) in lengths {
        editor.set(key, value, flag);
    }
    // Equal shares need a number of requests; without one each request draws its prefix.
    let is_counted = flags.num_prompts.is_some() || editor.document.get("workload.num_prompts").is_some();
    editor.set(
        "workload.prefix.groups.exact_shares",
        is_counted || flags.client == Some(ClientKind::Vllm),
        name,
    );
}
