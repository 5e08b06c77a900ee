//! No bytes make a reader panic, and what it accepts is lawful.

use std::fmt::Write as _;

use plimsoll::workload::Prompt;
use plimsoll::workload::trace::{self, Format, ReadOptions, TimeUnit, Trace, TraceError};
use proptest::prelude::*;

use super::{FIXTURES, fixture, pieces, read};

fn options() -> impl Strategy<Value = ReadOptions> {
    let format = proptest::option::of(prop::sample::select(<Format as clap::ValueEnum>::value_variants()));
    let unit = proptest::option::of(prop::sample::select(
        <TimeUnit as clap::ValueEnum>::value_variants(),
    ));
    (
        format,
        unit,
        proptest::option::of(0u32..600),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(format, time_unit, block, skip_empty, vllm_filter)| ReadOptions {
                format,
                time_unit,
                block,
                skip_empty,
                vllm_filter,
                bytes_max: 1 << 20,
                ..ReadOptions::default()
            },
        )
}

/// What every trace that is accepted obeys, and every refusal.
fn check_lawful(outcome: Result<Trace, TraceError>) {
    match outcome {
        Err(error) => {
            assert!(error.total > 0 && !error.problems.is_empty() && !error.to_string().is_empty());
            assert!(error.problems.len() as u64 <= error.total);
        }
        Ok(trace) => {
            assert!(!trace.requests.is_empty());
            assert!(
                trace
                    .requests
                    .windows(2)
                    .all(|pair| pair[0].arrival <= pair[1].arrival)
            );
            for (index, request) in trace.requests.iter().enumerate() {
                assert_eq!(request.id.0, index as u64);
                assert!(request.prompt_tokens > 0 && request.output_tokens > 0);
                let covered = pieces(request).iter().map(|piece| piece.1).sum::<u32>();
                assert!(request.prompt == Prompt::Unique || covered == request.prompt_tokens);
            }
            let described = trace::describe(&trace);
            assert!(!described.text().contains("NaN") && serde_json::to_string(&described).is_ok());
            if let Ok(fitted) = trace::fit(&trace, &plimsoll::analysis::hit_rates) {
                let _ = fitted.spec();
                assert!(fitted.toml("x", None).parse::<toml::Table>().is_ok());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), options in options()) {
        check_lawful(trace::read(&bytes, "fuzz", &options));
    }

    #[test]
    fn no_mutation_of_a_good_file_makes_a_reader_panic(
        name in prop::sample::select(&FIXTURES[..]),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, proptest::sample::select(EDITS)), 1..6),
        options in options(),
        look in any::<bool>(),
    ) {
        let mut bytes = fixture(name);
        for (at, removed, inserted) in edits {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..(at + removed).min(bytes.len()), inserted.iter().copied());
            if bytes.is_empty() {
                break;
            }
        }
        let options = if look { ReadOptions { format: None, ..options } } else { options };
        check_lawful(trace::read(&bytes, name, &options));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn whatever_can_be_described_can_be_fitted(
        gaps_ms in proptest::collection::vec(prop_oneof![Just(0u64), 1u64..5_000, Just(3_000), Just(100_000_000)], 64..200),
        longest in 1u32..100_000,
    ) {
        let mut text = String::from("{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 9}\n");
        let mut now = 0;
        for (index, gap) in gaps_ms.iter().enumerate() {
            now += gap;
            let (input, output) = (1 + gap.wrapping_mul(7919) % u64::from(longest), 1 + index);
            let ids: Vec<u64> = (0..input.div_ceil(512)).map(|id| id + 1000 * (gap % 3)).collect();
            writeln!(text, "{{\"timestamp\": {now}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": {ids:?}}}").unwrap();
        }
        check_lawful(read(text.as_bytes(), "random"));
    }
}

/// What a mutation puts in.
const EDITS: &[&[u8]] = &[
    b"",
    b"0",
    b"9",
    b"-",
    b".",
    b"e308",
    b"NaN",
    b"inf",
    b"\n",
    b"\r",
    b",",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b":",
    b"99999999999999999999",
    b"\xff",
    b"\0",
    b" ",
    b"1e-320",
    b"true",
];
