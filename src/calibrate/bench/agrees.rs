//! What was said beside a file against what stands in it.

use super::{LENGTHS_APART, Said};
use crate::quantity::significant;
use crate::results::{Load, Measured, Setup};

/// Refuses another number of ranks than a row has, which would be another server. Of load and lengths the row's own stay, and what is
/// said otherwise is told, as sentences.
pub(super) fn check(row: &Measured, said: &Said) -> Result<Vec<String>, String> {
    let (setup, known) = (&row.setup, &said.setup);
    let ranks = said.document.get("cluster.tensor_parallel_size");
    let ranks = ranks.and_then(toml::Value::as_integer).map(|ranks| ranks as f64);
    let rate = |load: Load| match load {
        Load::Open { rate } => Some(rate),
        _ => None,
    };
    let clients = |setup: &Setup| match setup.load {
        Load::Closed { clients } => Some(clients),
        _ => setup.max_concurrency,
    };
    let batch = |load: Load| match load {
        Load::StaticBatch { batch } => Some(batch as f64),
        _ => None,
    };
    let count = |count: Option<u64>| count.map(|count| count as f64);
    if let (Some(of_file), Some(beside)) = (setup.tensor_parallel.map(f64::from), ranks)
        && of_file != beside
    {
        return Err(format!(
            "its tensor-parallel size is {of_file}, and {beside} is said beside it; leave that out, or write FILE= before a \
             --serve-cmd or --scenario that is for another file"
        ));
    }
    let is_other_kind = ![Load::Unknown, setup.load].contains(&known.load)
        && std::mem::discriminant(&known.load) != std::mem::discriminant(&setup.load)
        && setup.load != Load::Unknown;
    let kinds = [
        ("request rate", rate(setup.load), rate(known.load), SAME),
        (
            "limit on requests in flight",
            count(clients(setup)),
            count(clients(known)),
            SAME,
        ),
        ("batch size", batch(setup.load), batch(known.load), SAME),
        (
            "number of requests",
            count(setup.num_prompts),
            count(known.num_prompts),
            SAME,
        ),
        (
            "mean prompt in tokens",
            setup.input_tokens,
            known.input_tokens,
            LENGTHS_APART,
        ),
        (
            "mean answer in tokens",
            setup.output_tokens,
            known.output_tokens,
            LENGTHS_APART,
        ),
    ];
    let stays = |(what, of_file, beside, apart): (&str, Option<f64>, Option<f64>, f64)| {
        let (of_file, beside) = (of_file?, beside?);
        let differ = (beside - of_file).abs() > apart * of_file.abs();
        differ.then(|| {
            format!(
                "its {what} is {} as in the file, and not {} as is said beside it",
                exactly(of_file),
                exactly(beside)
            )
        })
    };
    let kind = is_other_kind.then(|| {
        format!(
            "it was sent as in the file, {}, and not as is said beside it, {}",
            setup.load, known.load
        )
    });
    Ok(kind
        .into_iter()
        .chain(kinds.into_iter().filter_map(stays))
        .collect())
}

/// Whole numbers in full.
fn exactly(value: f64) -> String {
    match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => significant(value),
    }
}

/// How far a number that is said may be from the file's: digits that a print has left.
const SAME: f64 = 0.01;
