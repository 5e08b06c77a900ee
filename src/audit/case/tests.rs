//! Digits that were rounded, units, and what a pass takes.

use super::super::compare;
use super::super::finding::Check;
use super::super::tests::{after, findings, found, sound};
use super::*;
use crate::results::read;

#[test]
fn a_rate_of_one_digit_may_have_been_rounded_up_from_below() {
    let mut row = sound();
    (row.setup.num_prompts, row.outcome.completed) = (Some(10), Some(10));
    row.outcome.request_throughput = Some(0.03);
    (row.outcome.output_throughput, row.outcome.total_throughput) = (None, None);
    let mut contradicts = |duration_s: f64| {
        row.outcome.duration_s = Some(duration_s);
        let found = findings(&[row.clone()]);
        found.iter().any(|finding| finding.check == Check::CountsAgree)
    };
    assert!(!contradicts(399.6), "10 / 399.6 is 0.02503");
    assert!(contradicts(430.0), "10 / 430 is 0.0233");
}

#[test]
fn printed_digits_say_how_exactly_a_number_is_known() {
    assert!((printed_slack(0.13) - 0.005 / 0.13).abs() < 1e-12);
    assert!((printed_time_slack(21.0 / 1e3) - 0.5 / 21.0).abs() < 1e-9);
    assert!(printed_time_slack(7.383_123_456_789 / 1e3) < 1e-9);
    assert!((printed_slack(400.0) - 0.5 / 400.0).abs() < 1e-12);
    assert_eq!(printed_slack(0.0), 0.0);
}

#[test]
fn a_file_that_lacks_its_gaps_is_no_worse_than_one_that_has_them() {
    let with = |lists: &str| {
        let each = |of: fn(usize) -> String| (0..60).map(of).collect::<Vec<_>>().join(",");
        let ttfts = each(|index| format!("{}", 0.05 + 0.001 * (index % 7) as f64));
        let starts = each(|index| format!("{}", 0.5 * index as f64));
        let (lengths, inputs) = (each(|_| "21".into()), each(|_| "64".into()));
        let lists = lists.replace("EACH", &each(|_| format!("[{}]", ["0.04"; 20].join(","))));
        let lists = lists.replace("CUT", &each(|_| "[0.04]".into()));
        let text = format!(
            r#"{{"backend": "vllm", "request_rate": 2.0, "num_prompts": 60, "completed": 60, "duration": 30.4,
            "total_input_tokens": 3840, "total_output_tokens": 1260, "request_throughput": 1.9737, "mean_ttft_ms": 52.9,
            "mean_tpot_ms": 40.0, "input_lens": [{inputs}], "output_lens": [{lengths}], "ttfts": [{ttfts}],
            "start_times": [{starts}]{lists}}}"#
        );
        read(text.as_bytes(), "detailed.json").unwrap().rows.remove(0)
    };
    let whole = with(", \"itls\": [EACH]");
    assert_eq!(found(std::slice::from_ref(&whole)), "note few-samples");
    assert!((whole.e2el.mean.unwrap() - 0.8529).abs() < 1e-3);
    for lists in ["", ", \"itls\": []", ", \"itls\": [CUT]"] {
        let row = with(lists);
        let told = found(std::slice::from_ref(&row));
        assert!(
            ["", "note few-samples"].contains(&told.as_str()),
            "{lists}: {told}"
        );
        assert!(row.e2el.is_empty() && row.requests.len() == 60, "{lists}");
        // Nothing has moved, and nothing is said of what is not known.
        let compared = compare::compare(&whole, &row);
        assert!(compared.figure("mean e2el").is_none(), "{lists}");
    }
}

#[test]
fn seconds_in_columns_of_milliseconds_are_told_as_the_unit() {
    let shorten = |row: &mut Measured| {
        for stats in [&mut row.ttft, &mut row.tpot, &mut row.itl, &mut row.e2el] {
            for value in [&mut stats.mean, &mut stats.median, &mut stats.std]
                .into_iter()
                .flatten()
            {
                *value /= 1000.0;
            }
            for (_, value) in &mut stats.percentiles {
                *value /= 1000.0;
            }
        }
    };
    assert_eq!(after(shorten), "impossible unit");
    // Without the machine the clients tell, and without both nothing does.
    let unknown = after(|row| {
        shorten(row);
        row.setup.gpu = None;
    });
    assert_eq!(unknown, "impossible unit");
    let open = after(|row| {
        shorten(row);
        row.setup.gpu = None;
        row.setup.max_concurrency = None;
        row.setup.load = Load::Open { rate: 8.0 };
    });
    assert!(!open.contains("unit"), "{open}");
    // One time that is wrong is no matter of units.
    let one = after(|row| row.tpot.mean = Some(0.000_007_4));
    assert!(!one.contains("unit"), "{one}");
}

/// Whoever writes only medians is held to the same laws: no gap outlasts its answer, and no first token comes before a pass.
#[test]
fn a_first_token_and_a_gap_take_what_a_pass_takes() {
    let bare = |first: f64, step: f64, gpu: Option<&str>| {
        let mut row = Measured::new(Tool::VllmBench, "");
        row.setup.gpu = gpu.map(str::to_owned);
        row.setup.model = Some("meta-llama/Llama-3.1-8B-Instruct".into());
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(120.0), Some(128.0));
        row.ttft.median = Some(first);
        row.tpot.median = Some(step);
        row.e2el.median = Some(0.919);
        row
    };
    let h100 = Some("H100-SXM-80GB");
    assert_eq!(found(&[bare(0.020, 0.00718, h100)]), "");
    assert_eq!(
        found(&[bare(0.020, 7.18, h100)]),
        "impossible tpot-definition, doubtful prefill-bound"
    );
    // 15.0 GB of weights take 4.48 ms of 3.35 TB/s.
    assert_eq!(found(&[bare(0.00002, 0.00718, h100)]), "impossible prefill-bound");
    assert_eq!(found(&[bare(0.00002, 0.00718, None)]), "doubtful prefill-bound");
}
