//! Which rows of a table may be scored: each once, and none with a figure that no run has.
//!
//! A row twice would count twice in its family. A figure beyond [`SECONDS_MAX`] is no measurement, and an error of it would
//! drown all others; one that is off by a thousand is named. What is merely impossible for its server is an audit's to say, and is scored.

use std::collections::BTreeMap;

use super::predict::{Compared, Figure, Row};
use crate::results::{Measured, Stats};

/// Longest latency: a hundred days, beyond any run and within the 213 that a simulation can last.
const SECONDS_MAX: f64 = 8.64e6;
/// Most tokens or requests a second: a thousand times what any cluster serves.
const RATE_MAX: f64 = 1e12;

/// Rows that are left out and named one by one; of a table that was pasted twice all would say the same.
const TOLD: usize = 5;

/// Rows that differ, and a sentence of each that is left out, or of how many.
#[must_use]
pub fn once(rows: Vec<Measured>) -> (Vec<Measured>, Vec<String>) {
    // Rows without their places, which are kept beside them, and where those of each key are.
    let mut kept: Vec<(String, Measured)> = Vec::new();
    let mut known: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    let mut told = Vec::new();
    for mut row in rows {
        let alike = known.entry(key(&row)).or_default();
        let place = std::mem::take(&mut row.place);
        match alike.iter().find(|&&index| kept[index].1 == row) {
            Some(&index) => told.push(format!(
                "{place} holds the same as {}: counted once",
                kept[index].0
            )),
            None => {
                alike.push(kept.len());
                kept.push((place, row));
            }
        }
    }
    if told.len() > TOLD {
        let more = told.len() - TOLD;
        told.truncate(TOLD);
        told.push(format!(
            "… {more} more rows hold the same as others, each counted once"
        ));
    }
    let placed = |(place, row): (String, Measured)| Measured { place, ..row };
    (kept.into_iter().map(placed).collect(), told)
}

/// What rows that are the same have in common, and few others: a name and the bits of figures.
type Key = (Option<String>, Vec<Option<u64>>);

/// A row's own name is part of it; the line that it stands in is not.
fn key(row: &Measured) -> Key {
    let name = (!row.place.starts_with("line ")).then(|| row.place.clone());
    let of_latency = |(_, stats): (_, &Stats)| {
        let percentiles = stats.percentiles.iter().map(|(_, value)| Some(*value));
        let single = [stats.mean, stats.median, stats.min, stats.max];
        single.into_iter().chain(percentiles).collect::<Vec<_>>()
    };
    let rates = [
        row.outcome.request_throughput,
        row.outcome.output_throughput,
        row.outcome.total_throughput,
    ];
    let figures = row.latencies().into_iter().flat_map(of_latency).chain(rates);
    // Adding zero makes −0 the 0 that it equals.
    let bits = |value: f64| (value + 0.0).to_bits();
    (name, figures.map(|figure| figure.map(bits)).collect())
}

/// What is wrong with each row that has a figure which no run has, with its place.
#[must_use]
pub fn impossible(rows: &[Measured]) -> Vec<String> {
    let of_row = |row: &Measured| {
        let figure = impossible_figure(row)?;
        Some(match row.place.is_empty() {
            true => figure,
            false => format!("{}: {figure}", row.place),
        })
    };
    rows.iter().filter_map(of_row).collect()
}

/// The first figure of a row that no run has.
#[must_use]
pub fn impossible_figure(row: &Measured) -> Option<String> {
    let times = row.latencies().into_iter().flat_map(|(name, stats)| {
        let named = [stats.mean, stats.median, stats.std, stats.min, stats.max];
        let percentiles = stats.percentiles.iter().map(|(_, value)| *value);
        let all = named.into_iter().flatten().chain(percentiles);
        all.map(move |seconds| (name, seconds, SECONDS_MAX, "s"))
    });
    let outcome = &row.outcome;
    let rates = [
        ("request throughput", outcome.request_throughput),
        ("output throughput", outcome.output_throughput),
        ("total throughput", outcome.total_throughput),
    ];
    let rates = rates
        .into_iter()
        .filter_map(|(name, rate)| Some((name, rate?, RATE_MAX, "a second")));
    let duration = outcome
        .duration_s
        .map(|seconds| ("duration", seconds, SECONDS_MAX, "s"));
    let (name, value, most, unit) = times
        .chain(rates)
        .chain(duration)
        .find(|(_, value, most, _)| value > most)?;
    Some(format!(
        "{name} is {value:.3e} {unit}, and no run has more than {most:.1e} {unit}"
    ))
}

/// What a column's unit may be off by, either way of a thousand: what predictions are off by, three times over.
const ABOUT_THOUSAND: std::ops::RangeInclusive<f64> = 300.0..=3000.0;

/// What to say of rows all of whose times are about a thousandth, or a thousand times, of what is predicted.
#[must_use]
pub fn off_by_thousand(rows: &[Row]) -> Vec<String> {
    let told = |row: &Row| {
        let figures = row.outcome.figures().iter();
        let times: Vec<&Compared> = figures
            .filter(|one| one.figure != Figure::Throughput && one.measured > 0.0 && one.predicted > 0.0)
            .collect();
        // First tokens alone may have waited for as long.
        if times.iter().all(|one| one.figure == Figure::Ttft) {
            return None;
        }
        let all = |of: &dyn Fn(&Compared) -> f64| times.iter().all(|one| ABOUT_THOUSAND.contains(&of(one)));
        let (what, unit) = if all(&|one| one.predicted / one.measured) {
            ("a thousandth", "seconds")
        } else if all(&|one| one.measured / one.predicted) {
            ("a thousand times", "microseconds")
        } else {
            return None;
        };
        let names: Vec<&str> = times.iter().map(|one| one.name.as_str()).collect();
        Some(format!(
            "{}: {} are about {what} of what is predicted: the columns are of milliseconds, and these look like {unit}",
            row.place,
            names.join(", ")
        ))
    };
    rows.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &str) -> Vec<Measured> {
        let text = format!("id,model,ttft_mean_ms,tpot_p99_ms,req_throughput\n{lines}");
        crate::results::read(text.as_bytes(), "t.csv").unwrap().rows
    }

    #[test]
    fn a_row_that_stands_twice_counts_once_and_is_told() {
        let (kept, told) = once(rows(
            ",a,1,2,3\n,a,1,2,3\n,a,1,2,4\nr1,a,1,2,3\nr2,a,1,2,3\nr1,a,1,2,3\n",
        ));
        let places: Vec<&str> = kept.iter().map(|row| row.place.as_str()).collect();
        assert_eq!(places, ["line 2", "line 4", "row r1", "row r2"]);
        assert_eq!(
            told,
            [
                "line 3 holds the same as line 2: counted once",
                "row r1 holds the same as row r1: counted once"
            ]
        );
    }

    #[test]
    fn many_rows_without_means_are_told_apart() {
        // 30,000 rows whose only figure is no mean: held against each other they would be half a billion pairs.
        let lines: String = (0..30_000)
            .map(|line| format!(",a,,{},\n", 1 + line / 2))
            .collect();
        let (kept, told) = once(rows(&lines));
        // Few of them are named.
        assert_eq!((kept.len(), told.len()), (15_000, 6));
    }

    #[test]
    fn a_figure_that_no_run_has_is_named() {
        assert!(impossible(&rows(",a,1,2,3\n")).is_empty());
        for (line, name) in [
            (",a,1e308,2,3\n", "line 2: ttft"),
            (",a,1,1e300,3\n", "line 2: tpot"),
            (",a,1,2,1e15\n", "line 2: request throughput"),
        ] {
            let told = impossible(&rows(line));
            assert!(told.len() == 1 && told[0].starts_with(name), "{told:?}");
        }
        let both = impossible(&rows(",a,1e308,2,3\n,a,1,2,3\n,a,1,2,1e15\n"));
        assert_eq!(both.len(), 2, "{both:?}");
    }
}
