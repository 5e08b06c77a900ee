//! Numbers for people: thousands apart, three significant figures.

/// `443440` as `443,440`.
pub use crate::report::figures::count as grouped;
use crate::report::figures::scaled;

/// Three significant figures with a decimal prefix: `443440` as `443k`, `8.03e9` as `8.03G`.
#[must_use]
pub fn short(value: f64) -> String {
    let (figures, prefix) = prefixed(value);
    figures + prefix
}

/// Three significant figures, a space, a decimal prefix and the unit: `13.9586e9` `FLOP` as `14.0 GFLOP`.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    let (figures, prefix) = prefixed(value);
    format!("{figures} {prefix}{unit}")
}

/// At most two decimals, none that are zero: `4164.5`, `72`.
#[must_use]
pub fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn prefixed(value: f64) -> (String, &'static str) {
    scaled(
        value,
        &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_figures_and_a_prefix() {
        assert_eq!(short(443_440.0), "443k");
        assert_eq!(short(70_882.0), "70.9k");
        assert_eq!(short(999_700.0), "1.00M");
        assert_eq!(short(12.34), "12.3");
        assert_eq!(short(0.0), "0");
        assert_eq!(with_unit(13.9586e9, "FLOP"), "14.0 GFLOP");
        assert_eq!(plain(4164.5), "4164.5");
        assert_eq!(plain(72.0), "72");
    }
}
