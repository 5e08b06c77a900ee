//! Traces through the public reader: own fixtures of every format, damaged files, and, where the data folder is at hand
//! (`PLIMSOLL_DATA`), the published files against the numbers that their publishers' documents give.

mod damaged;
mod fitted;
mod published;

use std::fmt::Write as _;
use std::path::Path;

use plimsoll::workload::trace::{self, Format, ReadOptions, TimeUnit, Trace, TraceError};
use plimsoll::workload::{Piece, Prompt, Request};

const FIXTURES: [&str; 16] = [
    "azure.csv",
    "burstgpt.csv",
    "vidur_lengths.csv",
    "vidur_trace.csv",
    "splitwise.csv",
    "mooncake.jsonl",
    "mooncake.jsonl.gz",
    "hash16.jsonl",
    "bailian.jsonl",
    "llmservingsim.jsonl",
    "apex.jsonl",
    "sharegpt.json",
    "vllm_bench.json",
    "servegen.tar.gz",
    "weka.jsonl",
    "weka.tar.gz",
];

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/traces")
            .join(name),
    )
    .unwrap()
}

fn read(bytes: &[u8], name: &str) -> Result<Trace, TraceError> {
    trace::read(bytes, name, &ReadOptions::default())
}

fn read_fixture(name: &str) -> Trace {
    read(&fixture(name), name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_format_is_recognised_and_described() {
    let mut all = String::new();
    for name in FIXTURES {
        let text = trace::describe(&read_fixture(name)).text();
        writeln!(all, "=== {name}\n{text}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn gzip_changes_nothing() {
    assert_eq!(
        read_fixture("mooncake.jsonl").requests,
        read_fixture("mooncake.jsonl.gz").requests
    );
}

#[test]
fn times_keep_their_last_decimal_and_cross_midnight() {
    let arrivals: Vec<u64> = read_fixture("azure.csv")
        .requests
        .iter()
        .map(|request| request.arrival.0)
        .collect();
    assert_eq!(arrivals[2..4], [1_250_000_000_000, 1_250_000_100_000]);
    assert_eq!(arrivals[5], 9_750_000_000_000);
}

fn pieces(request: &Request) -> Vec<(u64, u32)> {
    match &request.prompt {
        Prompt::Unique => Vec::new(),
        Prompt::Pieces(pieces) => pieces
            .iter()
            .map(|&Piece { segment, tokens, .. }| (segment.0, tokens))
            .collect(),
    }
}

#[test]
fn hash_ids_become_shared_pieces_and_the_last_is_partial() {
    let trace = read_fixture("mooncake.jsonl");
    assert_eq!(trace.block, Some(512));
    assert_eq!(pieces(&trace.requests[0]), [(0, 512), (1, 512), (2, 176)]);
    assert_eq!(
        pieces(&trace.requests[1]),
        [(0, 512), (1, 512), (3, 512), (4, 164)]
    );
    for request in &trace.requests {
        assert_eq!(
            pieces(request).iter().map(|piece| piece.1).sum::<u32>(),
            request.prompt_tokens
        );
    }
}

#[test]
fn ids_for_full_blocks_only_leave_a_unique_rest() {
    let trace = read_fixture("hash16.jsonl");
    assert_eq!(trace.block, Some(16));
    let (first, second) = (pieces(&trace.requests[0]), pieces(&trace.requests[1]));
    assert_eq!((first[0], first[1], first[2].1), ((0, 16), (1, 16), 8));
    assert_eq!(second, [(0, 16), (1, 16), (2, 16)]);
    assert_eq!(trace.requests[2].prompt, Prompt::Unique);
}

#[test]
fn token_ids_are_hashed_as_the_prefix_cache_does() {
    let trace = read_fixture("llmservingsim.jsonl");
    let shared = |a: usize, b: usize| {
        pieces(&trace.requests[a])
            .iter()
            .zip(pieces(&trace.requests[b]))
            .filter(|(a, b)| **a == *b)
            .count()
    };
    assert_eq!((shared(0, 1), shared(0, 2)), (2, 0));
}

#[test]
fn failed_requests_are_left_out_and_counted() {
    let trace = read_fixture("burstgpt.csv");
    assert_eq!(trace.requests.len(), 3);
    assert_eq!(
        trace.notes,
        ["left out 1 row with 0 response tokens (failed requests)"]
    );
    assert_eq!(read_fixture("vllm_bench.json").requests.len(), 3);
}

#[test]
fn conversations_are_followed() {
    assert_eq!(read_fixture("bailian.jsonl").sessions, [0, 1, 0, 2]);
}

#[test]
fn answers_have_identities_of_their_own() {
    for name in FIXTURES {
        let trace = read_fixture(name);
        let mut own: Vec<u64> = trace
            .requests
            .iter()
            .map(|request| request.output_segment.0)
            .collect();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), trace.requests.len(), "{name}");
        let prompts = trace.requests.iter().flat_map(pieces).map(|piece| piece.0);
        assert!(
            prompts
                .into_iter()
                .all(|segment| own.binary_search(&segment).is_err()),
            "{name}"
        );
    }
}

/// The whole message for a bad file.
fn complaint(text: &str, format: Option<Format>) -> String {
    trace::read(
        text.as_bytes(),
        "bad",
        &ReadOptions {
            format,
            ..ReadOptions::default()
        },
    )
    .unwrap_err()
    .to_string()
}

#[test]
fn bad_numbers_are_located_and_all_told() {
    insta::assert_snapshot!(complaint(
        "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,2\n-1,10,2\nnan,-3,2\n1,12.5,0\n2,,99999999999\n3,10\n",
        None
    ));
    insta::assert_snapshot!(complaint(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,0,3\n2023-13-16 18:17:03,5,3\n2023-11-16,5,3\n",
        None
    ));
    insta::assert_snapshot!(complaint(
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": [1, 2]}\n\
             {\"timestamp\": NaN, \"input_length\": 600, \"output_length\": 3}\n\
             {\"timestamp\": 0, \"input_length\": -6, \"output_length\": 3}\n\
             {\"timestamp\": 0, \"input_length\": \"six\", \"output_length\": 3}\n\
             {\"timestamp\": 0, \"output_length\": 3}\n\
             {\"delay\": 5, \"input_length\": 6, \"output_length\": 3}\n\
             {\"timestamp\": 0, \"input_length\": 600, \"outp",
        None
    ));
}

#[test]
fn files_that_are_no_trace_say_what_would_be_one() {
    insta::assert_snapshot!(complaint("", None));
    insta::assert_snapshot!(complaint("TIMESTAMP,ContextTokens,GeneratedTokens\n", None));
    insta::assert_snapshot!(complaint("a,b\n1,2\n", Some(Format::Azure)));
    insta::assert_snapshot!(complaint(
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": [1, 2, 3, 4, 5, 6, 7]}\n",
        None
    ));
}

#[test]
fn a_cut_gzip_is_no_silent_half() {
    let packed = fixture("mooncake.jsonl.gz");
    for end in 3..packed.len() {
        assert!(read(&packed[..end], "cut.gz").is_err(), "{end}");
    }
}

#[test]
fn a_small_file_cannot_fill_the_memory() {
    let options = ReadOptions {
        bytes_max: 100,
        ..ReadOptions::default()
    };
    let error = trace::read(&fixture("mooncake.jsonl.gz"), "big.gz", &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("unpacks to more than"), "{error}");
}

#[test]
fn an_option_without_use_is_refused() {
    let options = ReadOptions {
        time_unit: Some(TimeUnit::S),
        vllm_filter: true,
        ..ReadOptions::default()
    };
    let error = trace::read(&fixture("azure.csv"), "a", &options)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("option: `time_unit` does not apply to Azure CSV"),
        "{error}"
    );
    assert!(error.contains("option: `vllm_filter` does not apply"), "{error}");
}

#[test]
fn a_unit_can_be_named() {
    let options = ReadOptions {
        time_unit: Some(TimeUnit::S),
        ..ReadOptions::default()
    };
    let trace = trace::read(&fixture("mooncake.jsonl"), "m", &options).unwrap();
    assert_eq!(trace.requests[4].arrival.seconds(), 9000.0);
    assert_eq!(trace.time_unit, Some(TimeUnit::S));
}

#[test]
fn a_trace_is_replayed_or_lends_its_lengths() {
    use plimsoll::workload::{Arrivals, Lengths};
    let trace = read_fixture("vidur_trace.csv");
    assert!(
        matches!(trace.replay(2.0), Some(Arrivals::Replay { requests, time_scale: 2.0 }) if requests.len() == 3)
    );
    let lengths = read_fixture("vidur_lengths.csv");
    assert_eq!(lengths.replay(1.0), None);
    assert_eq!(
        lengths.lengths(),
        Lengths::Empirical {
            pairs: [(74, 918), (290, 905), (1402, 711)].into()
        }
    );
}
