//! Trace files: their requests, and when they are sent again.

use super::arrivals::Senders;
use super::recorded;
use super::spaces::Among;
use crate::config::files::Files;
use crate::config::judge::Judge;
use crate::config::raw::{RawTimeUnit, RawTrace};
use crate::units::Picos;
use crate::workload::Arrivals;
use crate::workload::trace::{self, ReadOptions, TimeUnit, Trace};

/// The requests of a trace at its own times, scaled, or its conversations.
pub(super) fn replay(
    judge: &mut Judge,
    raw: &RawTrace,
    among: &mut Among<'_>,
    files: &dyn Files,
) -> Option<Senders> {
    let key = |name: &str| format!("workload.arrivals.trace.{name}");
    let options = ReadOptions {
        time_unit: raw.time_unit.map(time_unit),
        ..ReadOptions::default()
    };
    let mut trace = read_trace(judge, &key("path"), &raw.path, &options, files)?;
    if trace.conversations.is_some() {
        return recorded::conversations(judge, raw, trace);
    }
    recorded::refuse_beside_instants(judge, raw, &trace);
    if let Some(space) = &raw.hash_space {
        among.share_hash_ids(judge, &key("hash_space"), space, &mut trace)?;
    }
    if !trace.has_arrivals {
        let help =
            "draw lengths from it instead: --dataset-path FILE --request-rate 4, or [workload.lengths.file]";
        judge.wrong_help(
            &key("path"),
            "has no arrival times",
            format!("a {} has lengths only", trace.format),
            help,
        );
        return None;
    }
    let coarse_s = spread(judge, raw, &mut trace);
    let time_scale = time_scale(judge, raw, &trace)?;
    if let Some(grid_s) = coarse_s {
        judge.notes.push(told_of_ticks(&trace, grid_s, time_scale));
    }
    let last = trace.requests.last().map_or(0.0, |last| last.arrival.seconds());
    if Picos::try_from_seconds(last * time_scale).is_none() {
        judge.wrong(
            &key("time_scale"),
            "stretches the trace past the end of the clock",
            "a run can last 213 days",
        );
        return None;
    }
    Some(Senders::from(Arrivals::Replay {
        requests: trace.requests.into(),
        time_scale,
    }))
}

/// Spreads requests over the ticks of a coarse clock, where that is asked for; else the seconds of a tick, if the clock is one.
fn spread(judge: &mut Judge, raw: &RawTrace, trace: &mut Trace) -> Option<f64> {
    if let Some(given) = raw.spread_ticks {
        judge.given("workload.arrivals.trace.spread_ticks", given);
    }
    let grid_s = trace.grid_s();
    if raw.spread_ticks != Some(true) {
        return grid_s;
    }
    match grid_s {
        Some(grid_s) => trace.spread_ticks(grid_s),
        None => judge.ignore("spread_ticks has no effect: the trace's times sit on no grid".to_string()),
    }
    None
}

/// The factor on arrival times; `None` was reported.
fn time_scale(judge: &mut Judge, raw: &RawTrace, trace: &Trace) -> Option<f64> {
    let key = |name: &str| format!("workload.arrivals.trace.{name}");
    Some(match (raw.time_scale, raw.request_rate) {
        (Some(_), Some(_)) => {
            judge.wrong_help(
                &key("request_rate"),
                "contradicts time_scale",
                "both set the rate",
                "keep one",
            );
            return None;
        }
        (Some(scale), None) => {
            judge.given(&key("time_scale"), scale);
            judge.number(&key("time_scale"), scale, |scale| scale > 0.0, "must be above 0");
            if judge.is_wrong(&[&key("time_scale")]) {
                return None;
            }
            scale
        }
        (None, Some(rate)) => {
            let asked = judge.rate(&key("request_rate"), rate)?;
            let last = trace.requests.last().map_or(0.0, |last| last.arrival.seconds());
            let scale = trace.requests.len() as f64 / asked / last;
            if !scale.is_finite() {
                judge.wrong(
                    &key("request_rate"),
                    "cannot be reached by scaling",
                    "all requests of the trace arrive at once",
                );
                return None;
            }
            judge.notes.push(format!(
                "arrival times of the trace are multiplied by {scale:.4} to reach {asked} requests/s"
            ));
            scale
        }
        (None, None) => 1.0,
    })
}

/// What a coarse clock does to a replay: all of a tick come at once, and scaled they come at once still.
fn told_of_ticks(trace: &Trace, grid_s: f64, time_scale: f64) -> String {
    let ticks = trace
        .requests
        .chunk_by(|one, next| one.arrival == next.arrival)
        .count();
    let together = trace.requests.len() as f64 / ticks.max(1) as f64;
    let scaled = match time_scale == 1.0 {
        true => String::new(),
        false => format!(", {:.1} s as they are scaled", grid_s * time_scale),
    };
    format!(
        "the trace's times sit on a grid of {grid_s} s{scaled}: the {together:.1} requests of a tick, on average, come at one instant, and \
         waits are of that clock as much as of the server; --spread-ticks spreads them over their tick"
    )
}

fn time_unit(raw: RawTimeUnit) -> TimeUnit {
    match raw {
        RawTimeUnit::S => TimeUnit::S,
        RawTimeUnit::Ms => TimeUnit::Ms,
        RawTimeUnit::Us => TimeUnit::Us,
        RawTimeUnit::Ns => TimeUnit::Ns,
    }
}

/// Reads a trace file; its assumptions become notes.
pub(super) fn read_trace(
    judge: &mut Judge,
    key: &str,
    path: &str,
    options: &ReadOptions,
    files: &dyn Files,
) -> Option<Trace> {
    judge.given(key, path);
    let bytes = match files.read_trace(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            judge.senseless(key, "cannot be read", error);
            return None;
        }
    };
    match trace::read(&bytes, path, options) {
        Ok(trace) => {
            judge
                .notes
                .extend(trace.notes.iter().map(|note| format!("{path}: {note}")));
            judge.notes.extend(
                trace
                    .warnings
                    .iter()
                    .map(|warning| format!("warning: {path}: {warning}")),
            );
            Some(trace)
        }
        Err(error) => {
            judge.senseless(key, "is not a readable trace", error.to_string());
            None
        }
    }
}
