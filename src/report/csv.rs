//! Tables for other programs: a header, one row a request, a run or a rate; units in the names, full precision.
//!
//! A figure that does not exist is an empty cell. Column names agree with the JSON where both have the figure.

use csv::Writer;

use super::json::ttft_s;
use super::views::{Counted, KneePoint, KneeView, PoolMeta, Quantiles, ResultMeta, Sizing, verdict_word};
use crate::analysis::knee::Fleet;
use crate::analysis::{Estimate, RunResult};
use crate::metrics::RequestRecord;
use crate::sim::Outcome;

const IN_MEMORY: &str = "rows of equal length are written into memory";

/// One row a request, in order of sending; the header alone where records were not kept. A run that was stopped before
/// its end has a last row without a request, whose outcome is `interrupted`. Where there are classes or pools, the last
/// columns name those of the request; one that was refused was in no pool.
#[must_use]
pub fn requests(result: &RunResult, meta: &ResultMeta) -> String {
    let is_interrupted = meta.interrupted.is_some();
    let mut head = vec![
        "id",
        "replica",
        "outcome",
        "start_time_s",
        "client_queue_time_s",
        "queue_time_s",
        "waiting_time_s",
        "ttft_s",
        "tpot_s",
        "latency_s",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "preemptions",
    ];
    head.extend((!meta.classes.is_empty()).then_some("class"));
    head.extend((!meta.pools.is_empty()).then_some("pool"));
    let mut records: Vec<&RequestRecord> = result.records.iter().flatten().collect();
    records.sort_by_key(|record| record.completion.id);
    let mark = is_interrupted.then(|| {
        let mut row = vec![String::new(); head.len()];
        row[2] = "interrupted".into();
        row
    });
    let named = |record: &RequestRecord| {
        let mut row = request(record);
        if !meta.classes.is_empty() {
            let class = meta.classes.get(record.class as usize);
            row.push(class.map_or(String::new(), |class| class.name.clone()));
        }
        if !meta.pools.is_empty() {
            row.push(pool(record, &meta.pools).unwrap_or_default());
        }
        row
    };
    write(&head, records.into_iter().map(named).chain(mark))
}

/// The name of the pool that answered or lost a request: replicas are numbered through over the pools.
fn pool(record: &RequestRecord, pools: &[PoolMeta]) -> Option<String> {
    let told = &record.completion;
    let mut before = 0;
    let mut reaches = pools.iter().map(|pool| {
        before += pool.replicas;
        (before, pool)
    });
    let own = reaches.find(|(end, _)| told.replica.0 < *end);
    own.filter(|_| told.outcome != Outcome::Rejected)
        .map(|(_, pool)| pool.name.clone())
}

fn request(record: &RequestRecord) -> Vec<String> {
    let told = &record.completion;
    let latency_s = (told.end - told.arrival).seconds();
    let ttft_s = ttft_s(record);
    let gaps = told
        .output_tokens
        .checked_sub(1)
        .filter(|gaps| *gaps > 0 && told.outcome == Outcome::Completed);
    let tpot_s = ttft_s
        .zip(gaps)
        .map(|(ttft_s, gaps)| (latency_s - ttft_s) / f64::from(gaps));
    vec![
        told.id.0.to_string(),
        told.replica.0.to_string(),
        outcome(told.outcome).into(),
        told.arrival.seconds().to_string(),
        told.client_queue_time.seconds().to_string(),
        (told.first_scheduled - told.arrival).seconds().to_string(),
        told.waiting_time.seconds().to_string(),
        cell(ttft_s),
        cell(tpot_s),
        latency_s.to_string(),
        told.prompt_tokens.to_string(),
        told.cached_tokens.to_string(),
        told.output_tokens.to_string(),
        told.preemptions.to_string(),
    ]
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::TimedOut => "timed_out",
        Outcome::Rejected => "rejected",
        Outcome::Failed => "failed",
    }
}

/// One row a simulated rate of a knee search. Where replicas were counted, every row has the same figures of the fleet.
#[must_use]
pub fn knee(view: &KneeView) -> String {
    let fleet = view.sizing.as_ref().map(fleet);
    let head: Vec<&str> = KNEE
        .into_iter()
        .chain(fleet.iter().flatten().map(|(name, _)| *name))
        .collect();
    let rows = view.points.iter().map(|point| {
        let fleet = fleet.iter().flatten().map(|(_, figure)| figure.clone());
        knee_row(point).into_iter().chain(fleet).collect()
    });
    let mark = (view.is_interrupted || view.is_cut_after).then(|| {
        let mut row = vec![String::new(); head.len()];
        row[1] = "interrupted".into();
        row
    });
    write(&head, rows.chain(mark))
}

/// Columns of a knee search; latencies in milliseconds.
const KNEE: [&str; 25] = [
    "request_rate",
    "verdict",
    "requests",
    "attainment",
    "median_ttft_ms",
    "p99_ttft_ms",
    "p99_ttft_low_ms",
    "p99_ttft_high_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "median_itl_ms",
    "p99_itl_ms",
    "median_e2el_ms",
    "p99_e2el_ms",
    "request_throughput",
    "request_throughput_low",
    "request_throughput_high",
    "output_throughput",
    "running",
    "waiting",
    "kv_usage",
    "growth_per_s",
    "refused",
    "given_up",
    "failed",
];

fn knee_row(point: &KneePoint) -> Vec<String> {
    let p50 = |quantiles: Option<Quantiles>| cell(quantiles.map(|quantiles| quantiles.p50_s * 1e3));
    let p99 = |quantiles: Option<Quantiles>| cell(quantiles.map(|quantiles| quantiles.p99_s * 1e3));
    let throughput = |of: fn(Estimate) -> f64| cell(point.request_throughput.map(of));
    let p99_ttft_high = point.p99_ttft.map(|estimate| estimate.high * 1e3);
    vec![
        point.request_rate.to_string(),
        verdict_word(point.verdict).into(),
        point.requests.to_string(),
        cell(point.attainment),
        p50(point.ttft),
        p99(point.ttft),
        cell(point.p99_ttft.map(|estimate| estimate.low * 1e3)),
        cell(p99_ttft_high.filter(|high| high.is_finite())),
        p50(point.tpot),
        p99(point.tpot),
        p50(point.itl),
        p99(point.itl),
        p50(point.e2el),
        p99(point.e2el),
        throughput(|estimate| estimate.value),
        throughput(|estimate| estimate.low),
        throughput(|estimate| estimate.high),
        cell(point.output_throughput),
        cell(point.running),
        cell(point.waiting),
        cell(point.kv_usage),
        point.growth_per_s.to_string(),
        point.refused.to_string(),
        point.given_up.to_string(),
        point.failed.to_string(),
    ]
}

/// The columns of a fleet, with the names that they have in JSON.
fn fleet(sizing: &Sizing) -> Vec<(&'static str, String)> {
    let fleet = sizing.fleet.as_ref();
    let whole = |of: fn(&Fleet) -> u64| fleet.map_or(String::new(), |fleet| of(fleet).to_string());
    vec![
        ("for_rate", sizing.demand.rate.to_string()),
        ("replicas", whole(|fleet| fleet.replicas)),
        ("replicas_low", whole(|fleet| fleet.replicas_95.0)),
        (
            "replicas_high",
            fleet
                .and_then(|fleet| fleet.replicas_95.1)
                .map_or(String::new(), |most| most.to_string()),
        ),
        ("gpus", whole(|fleet| fleet.gpus)),
        ("usd_per_hour", cell(fleet.and_then(|fleet| fleet.usd_per_hour))),
        (
            "usd_per_million_output_tokens",
            cell(fleet.and_then(|fleet| fleet.usd_per_million_output_tokens)),
        ),
        (
            "usd_per_million_tokens",
            cell(fleet.and_then(|fleet| fleet.usd_per_million_tokens)),
        ),
        (
            "counted_by",
            match &sizing.counted {
                None => String::new(),
                Some(Counted::ByKnee(_)) => "knee".to_owned(),
                Some(Counted::BySimulation { .. }) => "simulation".to_owned(),
            },
        ),
    ]
}

fn cell(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

pub(super) fn write<H: AsRef<[u8]>>(head: &[H], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(head).expect(IN_MEMORY);
    for row in rows {
        writer.write_record(row).expect(IN_MEMORY);
    }
    let bytes = writer.into_inner().expect(IN_MEMORY);
    String::from_utf8(bytes).expect("strings are UTF-8")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::fixtures;
    use super::super::views::{ClassPromise, Interrupted};
    use super::*;

    #[test]
    fn classes_and_pools_are_named() {
        let named = |name: &str| ClassPromise {
            request_rate: None,
            name: name.to_owned(),
            limits: Vec::new(),
        };
        let meta = ResultMeta {
            classes: vec![named("chat"), named("code")],
            ..fixtures::meta()
        };
        let mut run = fixtures::recorded_run();
        run.records.as_mut().unwrap()[0].class = 1;
        let text = requests(&run, &meta);
        let last: Vec<&str> = text
            .lines()
            .map(|line| line.rsplit(',').next().unwrap())
            .collect();
        assert_eq!(last, ["class", "chat", "code"]);
    }

    #[test]
    fn a_request_that_failed_has_no_first_token() {
        let cut = ResultMeta {
            interrupted: Some(Interrupted {
                ended: 2,
                asked: None,
            }),
            ..fixtures::meta()
        };
        assert_snapshot!(requests(&fixtures::recorded_run(), &cut), @r"
        id,replica,outcome,start_time_s,client_queue_time_s,queue_time_s,waiting_time_s,ttft_s,tpot_s,latency_s,input_tokens,cached_tokens,output_tokens,preemptions
        0,0,completed,0.25,0.002,0.001,0.001,0.05,0.012499999999999997,0.075,1024,512,3,0
        1,0,timed_out,0.5,0.002,0.001,0.001,,,1,1024,512,0,0
        ,,interrupted,,,,,,,,,,,
        ");
    }

    #[test]
    fn a_run_without_records_has_a_header_alone() {
        assert_eq!(
            requests(&fixtures::stable_run(), &fixtures::meta())
                .lines()
                .count(),
            1
        );
    }

    #[test]
    fn a_knee_point_past_saturation_quotes_no_latency() {
        let text = knee(&fixtures::knee_view());
        assert_snapshot!(text.lines().last().unwrap(), @"28,unstable,20000,,,,,,,,,,,,27.6,27.2,28,,,,,0.4,0,0,0");
    }

    /// The keys of a JSON object as a table has them: an interval's value under its name, its ends beside it.
    fn flat(object: &serde_json::Map<String, serde_json::Value>) -> std::collections::BTreeSet<String> {
        let mut keys = std::collections::BTreeSet::new();
        for (key, value) in object {
            match value.as_object() {
                Some(interval) => keys.extend(interval.keys().map(|end| match end.as_str() {
                    "value" => key.clone(),
                    end => format!("{key}_{end}"),
                })),
                None => assert!(keys.insert(key.clone())),
            }
        }
        keys
    }

    #[test]
    fn the_columns_of_a_knee_search_are_the_keys_of_its_json() {
        let mut view = fixtures::knee_view();
        view.sizing = Some(fixtures::sizing());
        let json: serde_json::Value = serde_json::from_str(&super::super::json::knee(&view)).unwrap();
        let text = knee(&view);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let head: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let points = json["points"].as_array().unwrap();
        let of_points: std::collections::BTreeSet<String> = head[..KNEE.len()].iter().cloned().collect();
        assert_eq!(of_points, flat(points[0].as_object().unwrap()));
        // serde_json reads the last digit as it likes.
        let alike = |cell: Option<f64>, value: &serde_json::Value| match (cell, value.as_f64()) {
            (Some(cell), Some(value)) => (cell - value).abs() <= 1e-12 * value.abs(),
            (cell, value) => cell == value,
        };
        // A fleet's columns are some of the keys of its object, and hold the same numbers.
        let sizing = json["sizing"].as_object().unwrap();
        for (row, point) in reader.records().map(Result::unwrap).zip(points) {
            let number = |name: &str| {
                row[head.iter().position(|head| head == name).unwrap()]
                    .parse::<f64>()
                    .ok()
            };
            for key in [
                "request_rate",
                "p99_ttft_ms",
                "p99_ttft_high_ms",
                "output_throughput",
                "kv_usage",
                "growth_per_s",
            ] {
                assert!(alike(number(key), &point[key]), "{key}");
            }
            assert!(alike(
                number("request_throughput_low"),
                &point["request_throughput"]["low"]
            ));
            for key in &head[KNEE.len()..] {
                assert!(alike(number(key), &sizing[key.as_str()]), "{key}");
            }
        }
    }
}
