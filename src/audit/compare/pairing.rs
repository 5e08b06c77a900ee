//! Which run of one file stands beside which of another.
//!
//! A single run with a single run; else only what was run alike. Of several that were, those of one name come first (an id, or
//! the file's name where it holds one run), then those of the same figures. What is left is paired in its order, and with whom
//! else it could have been is said: a pair that was chosen because it agrees would say nothing.

use super::super::case::{may_agree, printed_slack, printed_time_slack};
use super::Roles;
use super::said::other_burst;
use crate::results::{Measured, ResultFile};

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair<'a> {
    /// Of the first file.
    pub predicted: &'a Measured,
    /// Of the second.
    pub measured: &'a Measured,
    /// Who else may be meant, where nothing tells.
    pub doubt: Option<String>,
}

/// Pairs the rows of two files. Rows without a partner come back by place.
#[must_use]
pub fn pairs<'a>(predicted: &'a ResultFile, measured: &'a ResultFile) -> (Vec<Pair<'a>>, Vec<String>) {
    let (rows, others) = (&predicted.rows, &measured.rows);
    if let ([one], [other]) = (&rows[..], &others[..]) {
        let pair = Pair {
            predicted: one,
            measured: other,
            doubt: None,
        };
        return (vec![pair], Vec::new());
    }
    let alike = |row: &Measured| -> Vec<usize> {
        let is_alike = |to: &usize| run_alike(row, &others[*to]);
        (0..others.len()).filter(is_alike).collect()
    };
    let alike: Vec<Vec<usize>> = rows.iter().map(alike).collect();
    let mut partners: Vec<Option<usize>> = vec![None; rows.len()];
    let mut taken = vec![false; others.len()];
    let mut pair_where = |is_pair: &dyn Fn(usize, usize) -> bool| {
        for at in 0..rows.len() {
            let is_it = |to: &usize| !taken[*to] && is_pair(at, *to);
            let partner = alike[at].iter().copied().find(is_it);
            if let (None, Some(to)) = (partners[at], partner) {
                (partners[at], taken[to]) = (Some(to), true);
            }
        }
        (partners.clone(), taken.clone())
    };
    let is_of_one_name = |at: usize, to: usize| {
        let names = name(predicted, &rows[at]).zip(name(measured, &others[to]));
        names.is_some_and(|(one, other)| one == other)
    };
    pair_where(&is_of_one_name);
    let (sure, were_taken) = pair_where(&|at, to| has_figures_of(&rows[at], &others[to]));
    let (partners, taken) = pair_where(&|_, _| true);
    let doubt = |at: usize, to: usize| {
        let first = (0..rows.len()).filter(|row| sure[*row].is_none() && alike[*row].contains(&to));
        let second = alike[at].iter().filter(|other| !were_taken[**other]);
        let several = [
            several("first", first.map(|row| &rows[row]).collect()),
            several("second", second.map(|other| &others[*other]).collect()),
        ];
        let several: Vec<String> = several.into_iter().flatten().collect();
        (sure[at].is_none() && !several.is_empty()).then(|| {
            format!(
                "the pairing is ambiguous: {}, and neither names nor figures tell which is meant; the first that is left is taken",
                several.join(", ")
            )
        })
    };
    let pair = |(at, to): (usize, usize)| Pair {
        predicted: &rows[at],
        measured: &others[to],
        doubt: doubt(at, to),
    };
    let found = partners
        .iter()
        .enumerate()
        .filter_map(|(at, to)| Some((at, (*to)?)));
    let roles = rows.first().zip(others.first());
    let heads = roles
        .map_or(Roles::Alike, |(one, other)| Roles::of(one, other))
        .heads();
    let left = |which: &str, row: &Measured| format!("{which} {} ({})", row.place, row.setup.load);
    let ours = rows.iter().zip(&partners).filter(|(_, to)| to.is_none());
    let theirs = others.iter().zip(&taken).filter(|(_, taken)| !**taken);
    let alone = ours
        .map(|(row, _)| left(heads[0], row))
        .chain(theirs.map(|(row, _)| left(heads[1], row)));
    (found.map(pair).collect(), alone.collect())
}

/// The rows of a file, where they are more than one.
fn several(which: &str, rows: Vec<&Measured>) -> Option<String> {
    const SHOWN: usize = 5;
    let names: Vec<&str> = rows.iter().take(SHOWN).map(|row| row.place.as_str()).collect();
    let more = match rows.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (rows.len() > 1).then(|| format!("{}{more} of the {which} file were run alike", names.join(", ")))
}

/// What a row is called, if by anything but its place in the file.
fn name<'a>(file: &'a ResultFile, row: &'a Measured) -> Option<&'a str> {
    let is_counted = row.place.starts_with("line ") || row.place.starts_with('[');
    match row.place.as_str() {
        "" if file.rows.len() == 1 => {
            let mut name = file.name.rsplit(['/', '\\']).next()?;
            for ending in [".gz", ".json", ".jsonl", ".csv", ".txt", ".log"] {
                name = name.strip_suffix(ending).unwrap_or(name);
            }
            Some(name)
        }
        "" => None,
        _ if is_counted => None,
        place => Some(place.strip_prefix("row ").unwrap_or(place)),
    }
}

/// The same load, and nothing known that differs.
fn run_alike(one: &Measured, other: &Measured) -> bool {
    let (a, b) = (&one.setup, &other.setup);
    let differ = |x: &Option<String>, y: &Option<String>| matches!((x, y), (Some(x), Some(y)) if x != y);
    let lengths = |x: Option<f64>, y: Option<f64>| x.zip(y).is_none_or(|(x, y)| (x / y - 1.0).abs() < 0.2);
    a.load == b.load
        && other_burst(a, b).is_none()
        && !differ(&a.gpu, &b.gpu)
        && (a.family.is_empty() || b.family.is_empty() || a.family == b.family)
        && lengths(a.input_tokens, b.input_tokens)
        && lengths(a.output_tokens, b.output_tokens)
}

/// Whether all figures that both have are the same to the digits that are written, and these are more than one.
fn has_figures_of(one: &Measured, other: &Measured) -> bool {
    /// What is written in more digits than it is known by.
    const TOLERANCE: f64 = 5e-4;
    let (a, b) = (&one.outcome, &other.outcome);
    let rates = [
        (a.request_throughput, b.request_throughput),
        (a.output_throughput, b.output_throughput),
        (a.total_throughput, b.total_throughput),
    ];
    let rates = rates.into_iter().filter_map(|(x, y)| Some((x?, y?)));
    let rates = rates.map(|(x, y)| may_agree((x, printed_slack(x)), (y, printed_slack(y)), TOLERANCE));
    let times = one.latencies().into_iter().zip(other.latencies());
    let times = times.flat_map(|((_, x), (_, y))| {
        let percents =
            [50.0, 90.0, 95.0, 99.0].map(|percent| x.percentile(percent).zip(y.percentile(percent)));
        [x.mean.zip(y.mean)].into_iter().chain(percents).flatten()
    });
    let times = times.map(|(x, y)| {
        let slack = |seconds: f64| (seconds, printed_time_slack(seconds));
        may_agree(slack(x), slack(y), TOLERANCE)
    });
    let same: Vec<bool> = rates.chain(times).collect();
    same.len() > 1 && same.iter().all(|is_same| *is_same)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{moved, run};
    use super::*;
    use crate::results::Load;

    fn file(name: &str, rows: Vec<Measured>) -> ResultFile {
        let name = name.to_owned();
        ResultFile { name, rows }
    }

    /// A run whose first tokens come so many times later.
    fn of(place: &str, times: f64) -> Measured {
        let mut row = run();
        row.place = place.to_owned();
        moved(&mut row.ttft, |ttft| times * ttft);
        row
    }

    fn told(one: &ResultFile, other: &ResultFile) -> Vec<(String, String, bool)> {
        let (pairs, _) = pairs(one, other);
        let told = |pair: &Pair<'_>| {
            let (one, other) = (&pair.predicted.place, &pair.measured.place);
            (one.clone(), other.clone(), pair.doubt.is_some())
        };
        pairs.iter().map(told).collect()
    }

    fn expected(pairs: &[(&str, &str, bool)]) -> Vec<(String, String, bool)> {
        let owned =
            |(one, other, doubt): &(&str, &str, bool)| ((*one).to_owned(), (*other).to_owned(), *doubt);
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn rows_pair_by_load_and_the_rest_are_named() {
        let of = |rate: f64| {
            let mut row = run();
            (row.setup.load, row.place) = (Load::Open { rate }, format!("rate {rate}"));
            row
        };
        let (one, other) = (
            file("a", vec![of(1.0), of(4.0)]),
            file("b", vec![of(4.0), of(2.0)]),
        );
        let (pairs, alone) = pairs(&one, &other);
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].doubt, None);
        assert_eq!(alone, ["first rate 1 (1 req/s)", "second rate 2 (2 req/s)"]);
    }

    #[test]
    fn of_rows_that_were_run_alike_the_same_one_is_taken() {
        let table = file("t.csv", vec![of("row a", 1.0), of("row s", 2.0)]);
        let same = file("x.json", vec![of("", 2.0)]);
        assert_eq!(told(&table, &same), expected(&[("row s", "", false)]));
        assert_eq!(told(&same, &table), expected(&[("", "row s", false)]));
        // A name says it of other figures, too.
        let named = file("runs/s.json.gz", vec![of("", 3.0)]);
        assert_eq!(told(&table, &named), expected(&[("row s", "", false)]));
        let renamed = file("u.csv", vec![of("row s", 1.0), of("row a", 2.0)]);
        assert_eq!(
            told(&table, &renamed),
            expected(&[("row a", "row a", false), ("row s", "row s", false)])
        );
    }

    #[test]
    fn where_nothing_tells_the_candidates_are_named() {
        let table = file(
            "t.csv",
            vec![of("row a", 1.0), of("row s", 2.0), of("row c", 4.0)],
        );
        let other = file("x.json", vec![of("", 3.0)]);
        let (found, alone) = pairs(&table, &other);
        assert_eq!(found[0].predicted.place, "row a");
        let doubt = found[0].doubt.as_deref().unwrap();
        assert!(
            doubt.starts_with(
                "the pairing is ambiguous: row a, row s, row c of the first file were run alike"
            ),
            "{doubt}"
        );
        assert_eq!(alone.len(), 2);
        // One that is told by its name is no candidate for another.
        let others = file(
            "u.csv",
            vec![of("row z", 3.0), of("row a", 9.0), of("row c", 9.0)],
        );
        assert_eq!(
            told(&table, &others),
            expected(&[
                ("row a", "row a", false),
                ("row s", "row z", false),
                ("row c", "row c", false)
            ])
        );
    }
}
