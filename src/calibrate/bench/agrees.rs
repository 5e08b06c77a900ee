//! What was said beside a file against what stands in it.

use super::Said;
use super::lengths::LENGTHS_APART;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;
    use crate::results::Tool;

    /// Of a row with this setup, beside which the other is said, and these ranks.
    fn checked(of_file: Setup, beside: Setup, ranks: Option<u32>) -> Result<Vec<String>, String> {
        let row = Measured {
            setup: of_file,
            ..Measured::new(Tool::VllmBench, "line 2")
        };
        let text = ranks.map(|ranks| format!("[cluster]\ntensor_parallel_size = {ranks}\n"));
        let said = Said {
            document: Document::parse("said", &text.unwrap_or_default()).unwrap(),
            setup: beside,
            ..Said::default()
        };
        check(&row, &said)
    }

    fn of_ranks(tensor_parallel: Option<u32>) -> Setup {
        Setup {
            tensor_parallel,
            ..Setup::default()
        }
    }

    fn of_load(load: Load) -> Setup {
        Setup {
            load,
            ..Setup::default()
        }
    }

    #[test]
    fn another_number_of_ranks_is_refused() {
        let refused = checked(of_ranks(Some(2)), Setup::default(), Some(4)).unwrap_err();
        assert!(refused.contains("is 2, and 4 is said"), "{refused}");
        for (of_file, beside) in [(Some(4), Some(4)), (None, Some(4)), (Some(2), None)] {
            let told = checked(of_ranks(of_file), Setup::default(), beside);
            assert_eq!(told, Ok(Vec::new()), "{of_file:?}, {beside:?}");
        }
    }

    #[test]
    fn what_was_sent_stays_as_in_the_file() {
        let told = |of_file, beside| checked(of_load(of_file), of_load(beside), None).unwrap();
        let rate = |rate| Load::Open { rate };
        assert_eq!(
            told(rate(4.0), rate(5.0)),
            ["its request rate is 4 as in the file, and not 5 as is said beside it"]
        );
        // Digits that a print has left.
        assert!(told(rate(4.0), rate(4.02)).is_empty());
        let clients = |clients| Load::Closed { clients };
        let limits = told(clients(8), clients(16));
        assert!(
            limits.len() == 1 && limits[0].contains("requests in flight is 8"),
            "{limits:?}"
        );
        let kinds = told(rate(4.0), clients(16));
        assert!(
            kinds.len() == 1 && kinds[0].contains("it was sent as in the file"),
            "{kinds:?}"
        );
        for (of_file, beside) in [(rate(4.0), Load::Unknown), (Load::Unknown, clients(16))] {
            assert!(told(of_file, beside).is_empty());
        }
    }

    #[test]
    fn a_limit_on_an_open_load_is_one_on_clients() {
        let limited = Setup {
            max_concurrency: Some(32),
            ..of_load(Load::Open { rate: 4.0 })
        };
        let told = checked(limited, of_load(Load::Closed { clients: 16 }), None).unwrap();
        assert!(
            told.len() == 2 && told[1].contains("is 32 as in the file, and not 16"),
            "{told:?}"
        );
    }

    #[test]
    fn lengths_may_be_rounded_and_counts_may_not() {
        let of = |input: f64, prompts: u64| Setup {
            input_tokens: Some(input),
            num_prompts: Some(prompts),
            ..Setup::default()
        };
        assert_eq!(checked(of(1000.0, 200), of(1100.0, 200), None), Ok(Vec::new()));
        let told = checked(of(1000.0, 200), of(1300.0, 210), None).unwrap();
        assert!(
            told.len() == 2 && told[0].contains("number of requests is 200"),
            "{told:?}"
        );
        assert!(
            told[1].contains("mean prompt in tokens is 1000 as in the file, and not 1300"),
            "{told:?}"
        );
    }
}
