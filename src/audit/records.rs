//! What one request of a file says of itself: its clock, its parts and its whole must agree, whatever the others say.

use super::finding::{Check, Finding, Severity, show, time};
use crate::results::{Measured, RequestTimes};

/// Times of one request may differ by this share, and by what a second clock of the same client is off.
const TOLERANCE: f64 = 0.02;
const OTHER_CLOCK_S: f64 = 0.05;
/// The same of one clock.
const SAME_CLOCK_S: f64 = 0.001;

pub(super) fn check(row: &Measured, found: &mut Vec<Finding>) {
    clock(row, found);
    steps(row, found);
    gaps(row, found);
}

/// How many requests break a law, and the first that does in numbers.
fn broken(row: &Measured, law: impl Fn(&RequestTimes) -> Option<String>) -> Option<String> {
    let mut told = row
        .requests
        .iter()
        .enumerate()
        .filter_map(|(index, request)| Some((index, law(request)?)));
    let (index, first) = told.next()?;
    let count = 1 + told.count();
    let all = row.requests.len();
    Some(format!(
        "{count} of {all} requests; request {}: {first}",
        index + 1
    ))
}

/// A law that requests may break: those that do, how sure it is, and what it says of them.
type Law = (Option<String>, Severity, &'static str);

/// The findings of laws that are broken.
fn told(
    laws: impl IntoIterator<Item = Law>,
    check: Check,
    rerun: &'static str,
) -> impl Iterator<Item = Finding> {
    let finding = move |(shown, severity, claim): Law| {
        Some(Finding::new(severity, check, claim).shown(shown?).rerun(rerun))
    };
    laws.into_iter().filter_map(finding)
}

/// From start to end is the latency, and what it takes to close the connection.
fn clock(row: &Measured, found: &mut Vec<Finding>) {
    /// A server may end its stream this long after the last token.
    const CLOSING_S: f64 = 0.5;
    const CLOSING: f64 = 0.1;
    let span = |request: &RequestTimes| Some(request.end_s? - request.start_s?);
    let backwards = broken(row, |request| {
        let span = span(request).filter(|span| *span < 0.0)?;
        Some(format!("it ended {} before it was sent", time(-span)))
    });
    let parts = |span: f64, whole: f64| format!("end − start = {}, latency {}", time(span), time(whole));
    let forwards = |request: &RequestTimes| span(request).filter(|span| *span >= 0.0).zip(request.e2el_s);
    let longer = broken(row, |request| {
        let (span, whole) = forwards(request)?;
        let thousand = match (900.0..1100.0).contains(&(whole / span)) {
            true => ": one of the two is in a unit of a thousandth",
            false => "",
        };
        (whole > span * (1.0 + TOLERANCE) + OTHER_CLOCK_S).then(|| parts(span, whole) + thousand)
    });
    let shorter = broken(row, |request| {
        let (span, whole) = forwards(request)?;
        (whole < span * (1.0 - CLOSING) - CLOSING_S).then(|| parts(span, whole))
    });
    let laws = [
        (
            backwards,
            Severity::Impossible,
            "requests ended before they were sent",
        ),
        (
            longer,
            Severity::Impossible,
            "requests took longer than from their start to their end",
        ),
        (
            shorter,
            Severity::Doubtful,
            "requests ended long after their latency was over",
        ),
    ];
    let rerun = "look at the units of start, end and latency, and at who wrote them";
    found.extend(told(laws, Check::CountsAgree, rerun));
}

/// What a record calls its time per token is `(latency − ttft) / (n − 1)` of the same record.
fn steps(row: &Measured, found: &mut Vec<Finding>) {
    const ROUNDED: f64 = 0.05;
    let shown = broken(row, |request| {
        let (stated, own) = request.stated_tpot_s.zip(request.tpot_s())?;
        let differs = (stated - own).abs() > ROUNDED * own.abs() + SAME_CLOCK_S / 10.0;
        differs.then(|| {
            format!(
                "({} − {}) / {} = {}, not {}",
                time(request.e2el_s.unwrap_or_default()),
                time(request.ttft_s),
                show(request.output_tokens - 1.0),
                time(own),
                time(stated)
            )
        })
    });
    let Some(shown) = shown else { return };
    let claim = "times between tokens are not (latency − ttft) / (n − 1) of their own requests";
    let finding = Finding::new(Severity::Impossible, Check::TpotDefinition, claim).shown(shown);
    found.push(finding.rerun("compute it for each request from its own times and tokens"));
}

/// The gaps between the chunks of an answer are the answer after its first chunk.
fn gaps(row: &Measured, found: &mut Vec<Finding>) {
    /// A last chunk without a token may come later, and lists of gaps may be cut.
    const LAST_CHUNK: f64 = 0.1;
    const WHOLE_LIST: f64 = 0.95;
    let sums = |request: &RequestTimes| {
        let rest = request.e2el_s? - request.ttft_s;
        let listed = !request.itls_s.is_empty() && rest >= 0.0;
        listed.then(|| (request.itls_s.iter().sum::<f64>(), rest))
    };
    let parts = |request: &RequestTimes, sum: f64, rest: f64| {
        format!(
            "{} gaps are {}, e2el − ttft = {}",
            request.itls_s.len(),
            time(sum),
            time(rest)
        )
    };
    let longer = broken(row, |request| {
        let (sum, rest) = sums(request)?;
        (sum > rest * (1.0 + TOLERANCE) + SAME_CLOCK_S).then(|| parts(request, sum, rest))
    });
    let shorter = broken(row, |request| {
        let (sum, rest) = sums(request)?;
        let is_whole = request.itls_s.len() as f64 + 1.0 >= WHOLE_LIST * request.output_tokens;
        (is_whole && sum < rest * (1.0 - LAST_CHUNK) - SAME_CLOCK_S).then(|| parts(request, sum, rest))
    });
    let laws = [
        (
            longer,
            Severity::Impossible,
            "gaps of requests are longer than their answers",
        ),
        (
            shorter,
            Severity::Doubtful,
            "gaps of requests do not add up to their answers",
        ),
    ];
    let rerun = "look at which of the two lists was changed, and at their units";
    found.extend(told(laws, Check::ItlAddsUp, rerun));
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::super::{Known, audit};
    use super::*;
    use crate::results::{Tool, read};

    /// What is wrong with three records of 100 tokens, 10 ms each after 100 ms, in which words were replaced.
    fn after(words: &[(&str, &str)]) -> String {
        let gaps = ["10.0"; 99].join(",");
        let record = |index: u32| {
            format!(
                r#"{{"metadata": {{"request_start_ns": 17600000{index}0000000000, "request_end_ns": 17600000{index}1095000000,
                "benchmark_phase": "profiling"}}, "metrics": {{"time_to_first_token": {{"value": 100.0, "unit": "ms"}},
                "request_latency": {{"value": 1090.0, "unit": "ms"}}, "output_sequence_length": {{"value": 100}},
                "inter_chunk_latency": {{"value": [{gaps}], "unit": "ms"}},
                "inter_token_latency": {{"value": 10.0, "unit": "ms"}}}}, "error": null}}"#
            )
        };
        let changed = |record: String| {
            words
                .iter()
                .fold(record, |text, (from, to)| text.replace(from, to))
        };
        let text: Vec<String> = (1..4).map(record).map(changed).collect();
        let rows = read(text.join("\n").as_bytes(), "profile_export.jsonl")
            .unwrap()
            .rows;
        assert_eq!(rows[0].requests.len(), 3);
        let told = audit(&rows, &Known::default());
        let told = told[0]
            .findings
            .iter()
            .filter(|finding| finding.severity > Severity::Note);
        let words = told.map(|finding| format!("{}: {}", finding.claim, finding.arithmetic));
        words.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn a_record_that_contradicts_itself_is_told() {
        assert_eq!(after(&[]), "");
        assert_eq!(
            after(&[(
                r#"token_latency": {"value": 10.0"#,
                r#"token_latency": {"value": 5.0"#
            )]),
            "times between tokens are not (latency − ttft) / (n − 1) of their own requests: 3 of 3 requests; request 1: \
             (1.09 s − 100 ms) / 99 = 10.0 ms, not 5.00 ms"
        );
        let longer = after(&[(r#"length": {"value": 100}"#, r#"length": {"value": 650}"#)]);
        assert!(longer.contains("/ 649 = 1.53 ms, not 10.0 ms"), "{longer}");
        let late = after(&[("1095000000", "2095000000")]);
        assert_eq!(
            late,
            "requests ended long after their latency was over: 3 of 3 requests; request 1: end − start = 2.10 s, latency \
             1.09 s"
        );
        let early = after(&[(r#"0000000000, "request_end"#, r#"6000000000, "request_end"#)]);
        assert!(
            early.contains("requests ended before they were sent: 3 of 3 requests; request 1: it ended 4.9"),
            "{early}"
        );
        let micros = after(&[
            (r#"0000000000, "request_end"#, r#"0000000, "request_end"#),
            ("1095000000,", "1095000,"),
        ]);
        assert!(
            micros.contains("latency 1.09 s: one of the two is in a unit of a thousandth"),
            "{micros}"
        );
    }

    fn listed(gap_s: f64, e2el_s: f64) -> Measured {
        let mut row = Measured::new(Tool::VllmBench, "");
        let request = RequestTimes {
            ttft_s: 0.1,
            e2el_s: Some(e2el_s),
            itls_s: vec![gap_s; 99],
            output_tokens: 100.0,
            ..RequestTimes::default()
        };
        row.requests = vec![request; 30];
        row
    }

    #[test]
    fn gaps_are_the_answer_after_its_first_chunk() {
        assert_eq!(found(&[listed(0.01, 1.09)]), "");
        assert_eq!(found(&[listed(0.005, 1.09)]), "doubtful itl-adds-up");
        assert_eq!(found(&[listed(0.02, 1.09)]), "impossible itl-adds-up");
        // Lists that were cut say nothing.
        let mut cut = listed(0.01, 1.09);
        cut.requests
            .iter_mut()
            .for_each(|request| request.itls_s.truncate(5));
        cut.itl.mean = Some(0.02);
        assert_eq!(found(&[cut]), "");
        // A file without latencies, whose gaps are half of the means that it states.
        let mut halved = listed(0.005, 0.595);
        (halved.tpot.mean, halved.itl.mean) = (Some(0.01), Some(0.01));
        assert_eq!(
            found(&[halved]),
            "impossible counts-agree, impossible counts-agree"
        );
    }

    #[test]
    fn those_in_flight_by_their_own_times_are_within_the_limit() {
        let sent = |at: &dyn Fn(usize) -> f64| {
            let mut row = listed(0.01, 1.09);
            row.setup.max_concurrency = Some(4);
            for (index, request) in row.requests.iter_mut().enumerate() {
                request.start_s = Some(at(index));
            }
            found(&[row])
        };
        assert_eq!(sent(&|_| 0.0), "impossible above-the-limit");
        assert_eq!(
            sent(&|index| (index / 4) as f64 * 1.09),
            "",
            "four at a time, in step"
        );
    }
}
