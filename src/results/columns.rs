//! Columns and figures of which a reader makes nothing: names that are not known, and what a name may mean.

use super::measured::Measured;
use super::table::{KNOWN, OTHER_NAMES, RATES};
use crate::nearest::nearest;

impl Measured {
    /// Figures that the file gives as NaN.
    pub fn not_measured(&self) -> impl Iterator<Item = &str> {
        let left = self.left.iter().filter(|left| left.why == NOT_A_NUMBER);
        left.map(|left| left.what.as_str())
    }
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
    fn a_figure_that_is_nan_is_named() {
        let table = rows("model,ttft_mean_ms,tpot_mean_ms\nm,NaN,2\nm,1,2\n");
        assert_eq!(table[0].not_measured().collect::<Vec<_>>(), ["ttft_mean_ms"]);
        assert_eq!(table[1].not_measured().count(), 0);
    }
}
