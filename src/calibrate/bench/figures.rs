//! Which figures of a row show the host, and why the others do not.

use crate::calibrate::runs::Figure;
use crate::config::Resolved;
use crate::results::{Load, Measured, Stats, Tool};

/// Clients of a closed loop up to which the time to first token is the engine's and not other prompts'.
const FEW: u64 = 4;
/// Share of the offered rate that a run completes at least if it keeps up.
const KEEPS_UP: f64 = 0.95;
/// Wait, as a share of an answer's time, from which on a run that completes less than it is offered has a queue.
const QUEUES: f64 = 0.25;

type Found = (Vec<(Figure, f64)>, Vec<String>);

/// Figures with their values in the figure's unit, and what was left.
pub(super) fn of(row: &Measured, resolved: &Resolved) -> Found {
    let (mut found, mut left) = match row.setup.load {
        Load::StaticBatch { batch } => of_batch(row, batch, resolved),
        Load::Closed { clients } => of_loop(row, clients <= FEW, clients > FEW, CLOSED),
        Load::Open { rate } if !is_queue(row, rate) => of_loop(row, true, false, ""),
        Load::Trace => of_loop(row, true, false, ""),
        Load::Open { .. } => of_loop(row, false, true, SATURATED),
        Load::Mixed { .. } | Load::Users { .. } | Load::Sessions { .. } => of_loop(row, true, false, ""),
        Load::Burst | Load::Offline | Load::Unknown => of_loop(row, false, true, BURST),
    };
    found.retain(|(figure, value)| {
        let is_usable = value.is_finite() && *value > 0.0;
        if !is_usable {
            left.push(format!(
                "{}: it is {value}, which is no measurement",
                figure.name()
            ));
        }
        is_usable
    });
    left.extend(tails(row));
    (found, left)
}

const CLOSED: &str =
    "in a closed loop it is the wait behind other prompts, which the throughput holds already";
const SATURATED: &str = "above saturation it is the queue's, which grows with the run, and not the engine's";
const BURST: &str = "all requests were sent at once: it is the queue's and not the engine's";

/// Whether an open loop's requests waited for each other longer and longer.
fn is_queue(row: &Measured, rate: f64) -> bool {
    let outcome = &row.outcome;
    let per_duration = outcome
        .completed
        .zip(outcome.duration_s)
        .map(|(n, s)| n as f64 / s);
    let completed = outcome.request_throughput.or(per_duration);
    let answer = row.tpot.centre().zip(row.setup.output_tokens);
    let waits = row.ttft.median.or(row.ttft.mean).zip(answer);
    let waits = waits.is_none_or(|(ttft, (tpot, tokens))| ttft > QUEUES * tpot * tokens);
    completed.is_some_and(|completed| completed < KEEPS_UP * rate) && waits
}

/// Time per token, and either the time to first token or the throughput.
fn of_loop(row: &Measured, has_ttft: bool, has_throughput: bool, why: &str) -> Found {
    let (mut found, mut left) = (Vec::new(), Vec::new());
    let mut tpot = centre(&row.tpot, Figure::TpotMean, Figure::TpotP50);
    let mut itl = row.itl.mean.map(|mean| (Figure::ItlMean, 1e3 * mean));
    if row.setup.output_tokens.is_some_and(|tokens| tokens <= 1.0) && (tpot.is_some() || itl.is_some()) {
        left.push("tpot and itl: an answer of one token has no gap".to_owned());
        (tpot, itl) = (None, None);
    }
    match (tpot, itl) {
        (Some(tpot), itl) => {
            found.push(tpot);
            if itl.is_some() {
                left.push("itl: the same gaps as tpot, and chunks may hold several tokens".to_owned());
            }
        }
        (None, Some(itl)) => found.push(itl),
        (None, None) => {}
    }
    // The median first: a mean holds the few that waited.
    let ttft = row.ttft.median.map(|median| (Figure::TtftP50, 1e3 * median));
    let ttft = ttft.or(row.ttft.mean.map(|mean| (Figure::TtftMean, 1e3 * mean)));
    match ttft {
        Some(ttft) if has_ttft => found.push(ttft),
        Some(_) => left.push(format!("ttft: {why}")),
        None => {}
    }
    let rate = throughput(row);
    match rate {
        Some(rate) if has_throughput => found.push(rate),
        Some(_) if matches!(row.setup.load, Load::Closed { .. }) => {
            left.push("throughput: it follows from ttft, tpot and the limit in flight".to_owned());
        }
        Some(_) => left.push("throughput: it is the offered rate, not the server's".to_owned()),
        None => {}
    }
    if !row.e2el.is_empty() {
        if found.is_empty() {
            found.extend(centre(&row.e2el, Figure::E2elMean, Figure::E2elP50));
        } else {
            left.push("e2el: it follows from ttft, tpot and lengths".to_owned());
        }
    }
    (found, left)
}

fn centre(stats: &Stats, mean: Figure, median: Figure) -> Option<(Figure, f64)> {
    let of_mean = stats.mean.map(|value| (mean, 1e3 * value));
    of_mean.or(stats.median.map(|value| (median, 1e3 * value)))
}

fn throughput(row: &Measured) -> Option<(Figure, f64)> {
    let outcome = &row.outcome;
    let counted = outcome.completed.zip(outcome.duration_s.filter(|s| *s > 0.0));
    let requests = outcome
        .request_throughput
        .or(counted.map(|(completed, seconds)| completed as f64 / seconds));
    let requests = requests.map(|rate| (Figure::RequestThroughput, rate));
    requests.or(outcome
        .output_throughput
        .map(|rate| (Figure::OutputThroughput, rate)))
}

/// A fixed batch: its latency, or its passes where the tool tells them apart.
fn of_batch(row: &Measured, batch: u64, resolved: &Resolved) -> Found {
    let mut left = Vec::new();
    if row.tool != Tool::SglangOneBatch {
        let latency = row.e2el.median.or(row.e2el.mean);
        let figure = if row.tool == Tool::VllmLatency {
            Figure::E2elMax
        } else {
            Figure::E2elP50
        };
        return (
            latency
                .map(|seconds| (figure, 1e3 * seconds))
                .into_iter()
                .collect(),
            left,
        );
    }
    let mut found: Vec<(Figure, f64)> = row
        .tpot
        .median
        .map(|step| (Figure::TpotP50, 1e3 * step))
        .into_iter()
        .collect();
    let tokens = batch as f64 * row.setup.input_tokens.unwrap_or(0.0);
    let budget = f64::from(resolved.scenario.first_pool().engine.prompt_tokens_per_step());
    match row.ttft.median {
        Some(pass) if tokens <= budget => found.push((Figure::TtftP50, 1e3 * pass)),
        Some(_) => left.push(format!(
            "ttft: one pass over {tokens:.0} tokens, which the scheduler's budget of {budget:.0} would cut"
        )),
        None => {}
    }
    left.push("total latency: the sum of the passes that are taken".to_owned());
    (found, left)
}

/// Percentiles and deviations that no fit uses: of gaps, [`super::spread`] tells.
fn tails(row: &Measured) -> Option<String> {
    let names: Vec<&str> = row
        .latencies()
        .into_iter()
        .filter(|(name, stats)| *name != "itl" && (!stats.percentiles.is_empty() || stats.std.is_some()))
        .map(|(name, _)| name)
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "percentiles and deviations of {}: a tail holds chance and queueing; centres are fitted",
            names.join(", ")
        )
    })
}
