//! Which rows of a table may be scored: each once, and none with a figure that no run has.
//!
//! A row twice would count twice in its family. A figure beyond [`SECONDS_MAX`] is no measurement, and an error of it would
//! drown all others. What is merely impossible for its server is an audit's to say, and is scored.

use crate::results::Measured;

/// Longest latency: a hundred days, beyond any run and within the 213 that a simulation can last.
const SECONDS_MAX: f64 = 8.64e6;
/// Most tokens or requests a second: a thousand times what any cluster serves.
const RATE_MAX: f64 = 1e12;

/// Rows that differ, and of each that is left out a sentence.
#[must_use]
pub fn once(rows: Vec<Measured>) -> (Vec<Measured>, Vec<String>) {
    let mut kept: Vec<Measured> = Vec::new();
    let mut told = Vec::new();
    for row in rows {
        match kept.iter().find(|other| is_same(other, &row)) {
            Some(other) => told.push(format!(
                "{} holds the same as {}: counted once",
                row.place, other.place
            )),
            None => kept.push(row),
        }
    }
    (kept, told)
}

/// A row's own name is part of it; the line that it stands in is not.
fn is_same(one: &Measured, other: &Measured) -> bool {
    let is_line = |row: &Measured| row.place.starts_with("line ");
    let are_lines = is_line(one) && is_line(other);
    if !are_lines && one.place != other.place {
        return false;
    }
    if (one.tpot.mean, one.ttft.mean) != (other.tpot.mean, other.ttft.mean) {
        // Most rows differ here, and this looks at two numbers instead of all.
        return false;
    }
    let place = other.place.clone();
    Measured { place, ..one.clone() } == *other
}

/// What is wrong with each row that has a figure which no run has: the first such figure.
#[must_use]
pub fn impossible(rows: &[Measured]) -> Vec<String> {
    let of_row = |row: &Measured| {
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
        let (name, value, most, unit) = times.chain(rates).find(|(_, value, most, _)| value > most)?;
        Some(format!(
            "{}: {name} is {value:.3e} {unit}, and no run has more than {most:.1e}",
            row.place
        ))
    };
    rows.iter().filter_map(of_row).collect()
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
