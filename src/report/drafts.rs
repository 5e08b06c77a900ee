//! What the acceptance that is given makes of a verification, as arithmetic.

use super::figures::significant;
use crate::engine::Speculates;

/// How near to powers of the first rate the others are where one α was given.
const ALIKE: f64 = 1e-9;

/// The arithmetic of shares of verifications that accept their first 1, 2, … drafts; `None` where nobody said them.
#[must_use]
pub fn acceptance(speculates: Speculates<'_>) -> Option<String> {
    let rates = speculates.acceptance;
    let first = *rates.first()?;
    let sum: f64 = rates.iter().sum();
    let terms: Vec<String> = rates.iter().map(|rate| significant(*rate)).collect();
    let is_power = |(at, rate): (usize, &f64)| (rate - first.powi(at as i32 + 1)).abs() < ALIKE;
    let powers = match rates.iter().enumerate().all(is_power) && rates.len() > 1 {
        true => {
            let powers = (2..=rates.len()).map(|power| format!(" + α{}", superscript(power)));
            format!(
                "1 + α{} with α = {} is ",
                powers.collect::<String>(),
                significant(first)
            )
        }
        false => String::new(),
    };
    Some(format!(
        "{powers}1 + {} = {} tokens a verification; ({}) ÷ {} = {} of all drafts stand, which {}",
        terms.join(" + "),
        significant(1.0 + sum),
        terms.join(" + "),
        speculates.drafts,
        super::figures::percent(sum / f64::from(speculates.drafts)),
        speculates.logged,
    ))
}

fn superscript(number: usize) -> String {
    let digit = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => char::from_u32(other as u32 - '0' as u32 + 0x2070).unwrap_or(other),
    };
    number.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of vLLM's.
    fn of(acceptance: &[f64]) -> Speculates<'_> {
        let drafts = acceptance.len() as u32;
        Speculates {
            drafts,
            levels: drafts,
            acceptance,
            names_ahead: false,
            logged: "vLLM logs as `Avg Draft acceptance rate`",
        }
    }

    #[test]
    fn one_rate_is_told_by_its_powers_and_several_by_themselves() {
        let told = acceptance(of(&[0.7, 0.49, 0.343])).unwrap();
        assert!(
            told.starts_with(
                "1 + α + α² + α³ with α = 0.700 is 1 + 0.700 + 0.490 + 0.343 = 2.53 tokens a verification; "
            ),
            "{told}"
        );
        assert!(told.contains("÷ 3 = 51.1 % of all drafts stand"), "{told}");
        let told = acceptance(of(&[0.8, 0.5])).unwrap();
        assert!(told.starts_with("1 + 0.800 + 0.500 = 2.30 tokens"), "{told}");
        assert_eq!(acceptance(of(&[])), None);
        assert_eq!(superscript(14), "¹⁴");
    }
}
