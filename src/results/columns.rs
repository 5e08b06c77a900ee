//! Columns and figures of which a reader makes nothing: names that are not known, and what a name may mean.

use super::measured::{Measured, ResultFile, Tool};
use super::names::{KNOWN, OTHER_NAMES, RATES};
use crate::nearest::nearest;

impl Measured {
    /// Figures that the file gives as NaN.
    pub fn not_measured(&self) -> impl Iterator<Item = &str> {
        let left = self.left.iter().filter(|left| left.why == NOT_A_NUMBER);
        left.map(|left| left.what.as_str())
    }
}

/// What to say of a table of which no figure was read at all, and by which names figures are.
#[must_use]
pub fn no_figure(file: &ResultFile) -> Option<String> {
    let is_bare = |row: &Measured| {
        let outcome = &row.outcome;
        let rates = [
            outcome.request_throughput,
            outcome.output_throughput,
            outcome.total_throughput,
            outcome.duration_s,
        ];
        let has_times = row.latencies().iter().any(|(_, stats)| !stats.is_empty());
        let is_answered = outcome.completed != Some(0);
        row.tool == Tool::Table && is_answered && !has_times && rates.iter().all(Option::is_none)
    };
    if file.rows.is_empty() || !file.rows.iter().all(is_bare) {
        return None;
    }
    let strange = strange_columns(&file.rows)
        .into_iter()
        .map(|(name, meant)| match meant {
            Some(meant) => format!("`{name}` (did you mean `{meant}`?)"),
            None => format!("`{name}`"),
        });
    let strange: Vec<String> = strange.collect();
    let left = match strange.is_empty() {
        true => String::new(),
        false => format!("\n  not known: {}", strange.join(", ")),
    };
    Some(format!(
        "{}: no figure was read{left}\n  help: figures are in columns such as `ttft_mean_ms`: `ttft`, `tpot`, `itl` or `e2e`, then \
         `mean`, `std`, `min`, `max` or a percentile such as `p50` or `p99`, then `ms`; and in {}",
        file.name,
        RATES.map(|name| format!("`{name}`")).join(", ")
    ))
}

/// Why a column is left.
pub(super) const STRANGE: &str = "is no column that is known";
/// Why a figure is left, in any file.
pub(super) const NOT_A_NUMBER: &str = "NaN, which is no measurement";

/// Columns that no row was read by, each with the one that may be meant.
#[must_use]
pub fn strange_columns(rows: &[Measured]) -> Vec<(String, Option<String>)> {
    let left = rows.iter().flat_map(|row| &row.left);
    let mut names: Vec<&str> = left
        .filter(|left| left.why == STRANGE)
        .map(|left| left.what.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| (name.to_owned(), meant(name)))
        .collect()
}

/// `ttft_mean_ms` of `ttft` and of `TTFT (ms)`, `tpot_p99_ms` of `p99 tpot`; of others the column that is spelt alike.
fn meant(name: &str) -> Option<String> {
    let words: Vec<String> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    let metric = words.iter().find_map(|word| match word.as_str() {
        "ttft" | "tpot" | "itl" | "e2e" => Some(word.as_str()),
        "e2el" | "latency" => Some("e2e"),
        _ => None,
    });
    if let Some(metric) = metric {
        let statistic = words.iter().find_map(|word| match word.as_str() {
            "median" => Some("p50"),
            "std" | "min" | "max" => Some(word.as_str()),
            percentile
                if percentile
                    .strip_prefix('p')
                    .is_some_and(|rest| rest.parse::<f64>().is_ok()) =>
            {
                Some(percentile)
            }
            _ => None,
        });
        return Some(format!("{metric}_{}_ms", statistic.unwrap_or("mean")));
    }
    let known = KNOWN
        .into_iter()
        .chain(RATES)
        .chain(OTHER_NAMES.map(|(other, _)| other));
    nearest(name, known, 1).first().map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Measured> {
        crate::results::read(text.as_bytes(), "t.csv").unwrap().rows
    }

    #[test]
    fn a_column_that_is_not_known_is_named_with_the_one_that_may_be_meant() {
        let table = "model,ttft,TPOT (ms),p99 itl,output_tok_s,modell\nm,1,2,3,4,5\nm,1,2,3,4,5\n";
        let found = strange_columns(&rows(table));
        let meant = |name: &str| {
            let (_, meant) = found.iter().find(|(strange, _)| strange == name).unwrap();
            meant.as_deref()
        };
        assert_eq!(meant("ttft"), Some("ttft_mean_ms"));
        assert_eq!(meant("tpot (ms)"), Some("tpot_mean_ms"));
        assert_eq!(meant("p99 itl"), Some("itl_p99_ms"));
        assert_eq!(meant("modell"), Some("model"));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_column_of_no_known_statistic_is_named_as_it_is_written() {
        let header =
            "id,ttft_avg_ms,avg_ttft_ms,client_ttft_ms,ttft_foo_ms,ttft_p101_ms,median_tpot_ms,itl_p99.9_ms";
        let rows = rows(&format!("{header}\nx,1,2,3,4,5,6,7\n"));
        let found: Vec<(String, Option<String>)> = strange_columns(&rows);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "avg_ttft_ms",
            "client_ttft_ms",
            "ttft_avg_ms",
            "ttft_foo_ms",
            "ttft_p101_ms",
        ];
        assert_eq!(names, expected);
        assert!(rows[0].ttft.is_empty());
        assert_eq!(rows[0].tpot.median, Some(0.006));
        assert_eq!(rows[0].itl.percentile(99.9), Some(0.007));
    }

    #[test]
    fn a_table_without_a_figure_says_which_columns_are_known() {
        let told = |text: &str| no_figure(&crate::results::read(text.as_bytes(), "t.csv").unwrap());
        let bare = told("id,ttft_ms,tpot_ms,e2e_ms\nx,1,2,3\ny,1,2,3\n").unwrap();
        assert!(bare.starts_with("t.csv: no figure was read\n"), "{bare}");
        assert!(
            bare.contains("`ttft_ms` (did you mean `ttft_mean_ms`?)"),
            "{bare}"
        );
        assert!(bare.contains("`output_tok_s`"), "{bare}");
        assert_eq!(told("id,ttft_ms,tpot_mean_ms\nx,1,\ny,1,2\n"), None);
        assert_eq!(told("id,ttft_ms,duration_s\nx,1,2\n"), None);
    }

    #[test]
    fn a_figure_that_is_nan_is_named() {
        let table = rows("model,ttft_mean_ms,tpot_mean_ms\nm,NaN,2\nm,1,2\n");
        assert_eq!(table[0].not_measured().collect::<Vec<_>>(), ["ttft_mean_ms"]);
        assert_eq!(table[1].not_measured().count(), 0);
    }
}
