//! A sweep in the shape that charts take: the figures of each point, and what they are worth.
//!
//! Figures are those of the table: of the steady stretch where a run has one, else of the whole run, or of whole runs all of
//! them; an interval is one of the stretch and belongs to no figure of a whole run. Past saturation they are
//! marked, because they grow with the length of the run. Several seeds of one point are told by their mean with Student's t.
//! Left out: whether differences between points are more than chance, which `compare` asks.

use std::collections::BTreeMap;

use serde_json::Value;

use super::sweep::SweepRow;
use super::sweep_answer::answer;
use super::sweep_layout::{Spot, SweepLayout};
use super::views::{Limit, Promise};
use crate::analysis::{CONFIDENCE, Estimate};
use crate::stats::{Running, student_t};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Seconds.
    Latency,
    /// Something per second.
    Rate,
    /// A fraction.
    Share,
}

/// One panel of the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepFigure {
    /// Its key in a run's object; latencies are in ms there.
    pub key: &'static str,
    /// Its name for people.
    pub heading: &'static str,
    /// What it counts.
    pub kind: Kind,
    /// The latency that a limit may be on, and which percentile of it this is.
    pub of: Option<(&'static str, f64)>,
}

const fn latency(
    key: &'static str,
    heading: &'static str,
    metric: &'static str,
    percentile: f64,
) -> SweepFigure {
    SweepFigure {
        key,
        heading,
        kind: Kind::Latency,
        of: Some((metric, percentile)),
    }
}

const fn plain(key: &'static str, heading: &'static str, kind: Kind) -> SweepFigure {
    SweepFigure {
        key,
        heading,
        kind,
        of: None,
    }
}

/// The figures, two a row.
pub const FIGURES: [SweepFigure; 12] = [
    latency("median_ttft_ms", "Time to first token, median", "ttft", 50.0),
    latency("p99_ttft_ms", "Time to first token, p99", "ttft", 99.0),
    latency("median_tpot_ms", "Time per output token, median", "tpot", 50.0),
    latency("p99_tpot_ms", "Time per output token, p99", "tpot", 99.0),
    latency("median_itl_ms", "Gaps between tokens, median", "itl", 50.0),
    latency("p99_itl_ms", "Gaps between tokens, p99", "itl", 99.0),
    latency("median_e2el_ms", "End to end, median", "e2el", 50.0),
    latency("p99_e2el_ms", "End to end, p99", "e2el", 99.0),
    plain("output_throughput", "Output tokens per second", Kind::Rate),
    plain("request_throughput", "Requests completed per second", Kind::Rate),
    plain("good", "Requests within the SLO", Kind::Share),
    plain("hit_rate", "Prefix hit rate", Kind::Share),
];

/// What a point's figures are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Of a steady state, or of a finite experiment.
    Settled,
    /// Critical, or too short to tell.
    Unsure,
    /// The queue or the batch grew, or the run was ended for it: figures are those of that one run.
    Unstable,
}

/// One point of every panel.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// Where it is drawn.
    pub spot: Spot,
    /// The worst of its runs'.
    pub standing: Standing,
    /// In the order of [`FIGURES`], times in seconds; `None` where the runs have no such figure. The ends of an interval
    /// are its value where nothing bounds it.
    pub figures: Vec<Option<Estimate>>,
}

/// A sweep to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepView {
    /// The answer of the table.
    pub title: String,
    /// `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What is drawn where.
    pub layout: SweepLayout,
    /// In order of panes, lines and values.
    pub points: Vec<SweepPoint>,
    /// Limits that every good request keeps, the same in all runs.
    pub limits: Vec<Limit>,
    /// Share of requests that must be good.
    pub attainment: f64,
    /// Limits on percentiles and means, the same in all runs.
    pub promises: Vec<Promise>,
    /// Most runs of one point.
    pub seeds: usize,
    /// Figures are of whole runs, though some have a steady stretch.
    pub of_whole: bool,
}

impl SweepView {
    /// The figures of all runs at their places; `rows` are in the order of the cells that `layout` was made from.
    #[must_use]
    pub fn of(rows: &[SweepRow<'_>], layout: SweepLayout, subject: String) -> SweepView {
        let mut runs: BTreeMap<Spot, Vec<&SweepRow<'_>>> = BTreeMap::new();
        for (spot, row) in layout.spots.iter().zip(rows) {
            if row.is_simulated() {
                runs.entry(*spot).or_default().push(row);
            }
        }
        SweepView {
            title: answer(rows),
            subject,
            seeds: runs.values().map(Vec::len).max().unwrap_or(0),
            points: runs.into_iter().map(|(spot, runs)| point(spot, &runs)).collect(),
            layout,
            limits: Vec::new(),
            attainment: 1.0,
            promises: Vec::new(),
            of_whole: rows.iter().any(|row| row.of_whole),
        }
    }
}

fn point(spot: Spot, runs: &[&SweepRow<'_>]) -> SweepPoint {
    let standing = runs.iter().map(|run| standing(run)).max();
    let standing = standing.unwrap_or(Standing::Settled);
    let estimate = |figure: &SweepFigure| match runs {
        [run] => one(run, figure, standing),
        _ => mean(runs, figure, standing),
    };
    SweepPoint {
        spot,
        standing,
        figures: FIGURES.iter().map(estimate).collect(),
    }
}

/// What a run's figures are worth.
pub(super) fn standing(run: &SweepRow<'_>) -> Standing {
    let is_cut = run
        .run
        .pointer("/plimsoll/ended_by")
        .is_some_and(Value::is_string);
    match run.verdict() {
        _ if is_cut => Standing::Unstable,
        "unstable" | "no_answers" | "collapsed" => Standing::Unstable,
        "critical" | "too_short" => Standing::Unsure,
        _ => Standing::Settled,
    }
}

/// A figure of a run; latencies of 0 are none: nobody was answered, or answers left whole.
fn value(run: &SweepRow<'_>, figure: &SweepFigure) -> Option<f64> {
    match figure.key {
        "good" => run.good(),
        "hit_rate" => run.hit_rate(),
        key => match figure.kind {
            Kind::Latency => Some(run.figure(key)? / 1e3).filter(|seconds| *seconds > 0.0),
            _ => run.figure(key),
        },
    }
}

/// A figure of one run, with the interval that its steady stretch gives.
fn one(run: &SweepRow<'_>, figure: &SweepFigure, standing: Standing) -> Option<Estimate> {
    let value = value(run, figure)?;
    let scale = match figure.kind {
        Kind::Latency => 1e-3,
        _ => 1.0,
    };
    let known = run
        .interval(figure.key)
        .filter(|_| standing != Standing::Unstable);
    let (low, high) = known.map_or((value, value), |(low, high)| (low * scale, high * scale));
    Some(Estimate { value, low, high })
}

/// The mean of a figure over runs that differ in their seed, with Student's t; `None` unless all have it.
fn mean(runs: &[&SweepRow<'_>], figure: &SweepFigure, standing: Standing) -> Option<Estimate> {
    let values: Vec<f64> = runs.iter().map(|run| value(run, figure)).collect::<Option<_>>()?;
    let mut seen = Running::default();
    values.into_iter().for_each(|value| seen.add(value));
    let n = seen.count() as f64;
    let half = match standing {
        Standing::Unstable => 0.0,
        _ => student_t(CONFIDENCE, n - 1.0) * (seen.variance() / n).sqrt(),
    };
    Some(Estimate {
        value: seen.mean(),
        low: seen.mean() - half,
        high: seen.mean() + half,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(runs: &[(&str, &str, Value)]) -> SweepView {
        let settings: Vec<Vec<(String, String)>> = runs
            .iter()
            .map(|(rate, seed, _)| {
                vec![
                    ("request-rate".to_owned(), (*rate).to_owned()),
                    ("seed".to_owned(), (*seed).to_owned()),
                ]
            })
            .collect();
        let labels: Vec<&[(String, String)]> = settings.iter().map(Vec::as_slice).collect();
        let rows: Vec<SweepRow<'_>> = runs
            .iter()
            .zip(&labels)
            .map(|((_, _, run), settings)| SweepRow {
                of_whole: false,
                settings,
                run,
                attainment: None,
            })
            .collect();
        SweepView::of(&rows, SweepLayout::of(&labels).unwrap(), String::new())
    }

    fn run(verdict: &str, tokens: f64) -> Value {
        json!({
            "output_throughput": tokens, "median_ttft_ms": 40.0, "median_tpot_ms": 0.0,
            "plimsoll": {"verdict": verdict, "intervals_95": {"output_throughput": [tokens - 5.0, tokens + 5.0]}},
        })
    }

    fn throughput(point: &SweepPoint) -> Estimate {
        let at = FIGURES
            .iter()
            .position(|figure| figure.key == "output_throughput")
            .unwrap();
        point.figures[at].unwrap()
    }

    #[test]
    fn one_run_has_its_own_interval_and_past_saturation_none() {
        let view = view(&[
            ("2", "0", run("stable", 100.0)),
            ("30", "0", run("unstable", 300.0)),
        ]);
        let [below, beyond] = &view.points[..] else {
            panic!("two points");
        };
        assert_eq!(below.standing, Standing::Settled);
        assert_eq!((throughput(below).low, throughput(below).high), (95.0, 105.0));
        assert_eq!(beyond.standing, Standing::Unstable);
        assert_eq!((throughput(beyond).low, throughput(beyond).high), (300.0, 300.0));
        // Milliseconds in files, seconds here; a gap of 0 is none.
        assert_eq!(below.figures[0].unwrap().value, 0.04);
        assert_eq!(below.figures[2], None);
    }

    /// An interval of the steady stretch around a figure of the whole run may not even hold it.
    #[test]
    fn whole_runs_have_no_intervals_of_their_steady_stretches() {
        let one = run("stable", 100.0);
        let settings = [("request-rate".to_owned(), "2".to_owned())];
        let drawn = |of_whole| {
            let row = SweepRow {
                of_whole,
                settings: &settings,
                run: &one,
                attainment: None,
            };
            let layout = SweepLayout::of(&[&settings]).unwrap();
            let view = SweepView::of(&[row], layout, String::new());
            let known = throughput(&view.points[0]);
            (view.of_whole, known.low, known.high)
        };
        assert_eq!(drawn(false), (false, 95.0, 105.0));
        assert_eq!(drawn(true), (true, 100.0, 100.0));
    }

    #[test]
    fn seeds_are_one_point_as_sure_as_they_agree_and_as_sound_as_the_worst() {
        let view = view(&[
            ("2", "0", run("stable", 90.0)),
            ("2", "1", run("too_short", 110.0)),
            ("4", "0", run("stable", 200.0)),
            ("4", "1", Value::Null),
        ]);
        assert_eq!((view.points.len(), view.seeds), (2, 2));
        assert_eq!(view.points[0].standing, Standing::Unsure);
        // t for one degree of freedom is 12.706, times √(200/2).
        let known = throughput(&view.points[0]);
        assert!(
            known.value == 100.0 && (known.high - known.low - 2.0 * 127.06).abs() < 0.1,
            "{known:?}"
        );
        assert_eq!(
            throughput(&view.points[1]).value,
            200.0,
            "what is not finished is left out"
        );
    }
}
