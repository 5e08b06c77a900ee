//! Published tables give away what is wrong with them, sound ones raise no alarm, and no value in a file makes the audit panic.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::results::{published, read};

fn course() -> Vec<Measured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results/course_tables.json");
    read(&std::fs::read(path).unwrap(), "course").unwrap().rows
}

/// What `arithmetic_found` of the same file lists, which is not read.
#[test]
fn the_courses_tables_give_away_what_is_wrong_with_them() {
    let rows = course();
    let audited = audit(&rows, &Known::default());
    let find = |place: &str, check: Check| {
        let row = audited
            .iter()
            .find(|row| row.place == place)
            .unwrap_or_else(|| panic!("{place}"));
        row.findings
            .iter()
            .find(|finding| finding.check == check)
            .cloned()
    };
    let all: Vec<&AuditedRow> = audited
        .iter()
        .filter(|row| row.place.starts_with("week1"))
        .collect();
    assert_eq!(all.len(), 20);
    for row in all {
        let finding = find(&row.place, Check::TtftIsE2el).unwrap();
        assert_eq!(finding.severity, Severity::Impossible);
        assert!(
            finding.claim.contains("128 tokens") && finding.arithmetic.contains("127.75 and 128.03"),
            "{finding:?}"
        );
    }
    for gpu in ["H200-SXM", "H100-SXM", "A100-PCIE-80GB", "L40S"] {
        let finding = find(&format!("week1 vllm {gpu}, all at once"), Check::HiddenLimit).unwrap();
        assert!(
            finding.arithmetic.contains("30.0 in flight") || finding.arithmetic.contains("30.1 in flight"),
            "{finding:?}"
        );
        assert!(
            finding.arithmetic.contains("150 requests in 5 waves")
                && finding.arithmetic.contains("32 among them")
        );
        let offline = find(&format!("week2 {gpu}, offline"), Check::NotComparable).unwrap();
        assert!(
            offline.claim.contains("prompt and output tokens here")
                && (offline.arithmetic.contains("held 30.") || offline.arithmetic.contains("held 29.9")),
            "{offline:?}"
        );
    }
    let same = find("week1 vllm L40S, 10 req/s", Check::HiddenLimit).unwrap();
    assert!(same.arithmetic.contains("= 30.4 in flight"), "{same:?}");
    assert!(
        find("week1 vllm H200-SXM, 10 req/s", Check::HiddenLimit).is_none(),
        "7 in flight reach no limit"
    );
    for (gpu, needed, grown) in [
        ("A100-PCIE-80GB", "710 ms", "442 ms"),
        ("L40S", "612 ms", "578 ms"),
    ] {
        let finding = find(&format!("week2 {gpu}, batch 32"), Check::PrefillBound).unwrap();
        assert_eq!(finding.severity, Severity::Impossible);
        assert!(
            finding.arithmetic.contains(needed) && finding.arithmetic.contains(grown),
            "{finding:?}"
        );
    }
    assert!(
        audited
            .iter()
            .filter(|row| row.place.starts_with("section"))
            .all(|row| row.worst() != Some(Severity::Impossible))
    );
}

/// Whether who measured says that something is wrong with a row.
fn admits_a_fault(row: &Measured) -> bool {
    let faults = [
        "empty SSE",
        "client caps",
        "cache hits",
        "prefix hit rate",
        "not stated",
        "few prompts",
        "+-25%",
    ];
    faults.iter().any(|fault| row.setup.notes.contains(fault))
}

#[test]
#[expect(clippy::print_stderr, reason = "the rates are for people")]
fn sound_published_rows_raise_no_alarm() {
    let Some(data) = published::data("published rows are not audited") else {
        return;
    };
    let file = read(
        &std::fs::read(data.join("groundtruth/serving/measured.csv")).unwrap(),
        "measured.csv",
    )
    .unwrap();
    let audited = audit(&file.rows, &Known::default());
    let (mut sound, mut alarms, mut empty_events, mut caught, mut capped) = (0, Vec::new(), 0, 0, 0);
    for (row, audited) in file.rows.iter().zip(&audited) {
        let has = |check: Check| audited.findings.iter().any(|finding| finding.check == check);
        if row.setup.confidence == "high" && !admits_a_fault(row) {
            sound += 1;
            alarms.extend(
                audited
                    .findings
                    .iter()
                    .filter(|finding| finding.severity > Severity::Note),
            );
        }
        if row.setup.notes.contains("empty SSE") {
            empty_events += 1;
            caught += usize::from(has(Check::ItlAddsUp));
        }
        // Offered 123 to 183 a second, answered 101 to 103.
        let overloaded = row.outcome.request_throughput.is_some_and(|rate| rate > 100.0);
        if row.setup.notes.contains("client caps") && overloaded {
            capped += usize::from(has(Check::HiddenLimit));
        }
    }
    eprintln!(
        "{} alarms on {sound} sound rows; {caught} of {empty_events} rows with empty events caught",
        alarms.len()
    );
    assert!(alarms.is_empty(), "{alarms:#?}");
    assert!(sound >= 89, "{sound}");
    assert_eq!((caught, empty_events, capped), (15, 15, 3));
}

proptest! {
    #[test]
    fn no_value_makes_the_audit_panic(key in 0usize..40, value in "[0-9]{1,15}|0|0\\.[0-9]{3}|null|1e-300|1e300") {
        for name in ["vllm.json", "sglang.jsonl", "guidellm_v2.json", "inference_perf.json", "course_tables.json"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results").join(name);
            let text = std::fs::read_to_string(path).unwrap();
            let values: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
            let Some(start) = values.get(key) else { continue };
            let length = text[*start..].find([',', '}', '\n']).unwrap_or(0);
            let changed = format!("{}{value}{}", &text[..*start], &text[start + length..]);
            if let Ok(file) = read(changed.as_bytes(), name) {
                drop(audit(&file.rows, &Known::default()));
            }
        }
    }
}
