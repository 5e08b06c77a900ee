//! What the outputs of a sweep's settings must differ by to be told apart, and what is said where they do not.

use super::spread;
use crate::report::figures::{counted, percent, significant};
use crate::report::sweep::SweepRow;
use crate::sweep::{self, Best, Candidate};

/// Part of an output that the number of requests must leave open for it to be few: of 20,000 in either run it is 2 %.
const FEW_LEAVE_OPEN: f64 = 0.02;

/// What outputs must differ by more than to be told apart.
#[derive(Clone, Copy)]
pub(super) enum Noise {
    /// Their intervals, where any has one.
    Intervals,
    /// What the number of requests in whole runs leaves open: this part of the output.
    Number(f64),
    /// [`super::ALIKE_WITHIN`].
    Little,
}

impl Noise {
    pub(super) fn of(rows: &[SweepRow<'_>]) -> Noise {
        let by_number = rows.iter().filter_map(SweepRow::known_by_number);
        match by_number.max_by(f64::total_cmp) {
            Some(part) => Noise::Number(part),
            None if rows.iter().any(|row| row.interval("output_throughput").is_some()) => Noise::Intervals,
            None => Noise::Little,
        }
    }

    /// Whether so few requests were sent that nothing is told apart by them.
    pub(super) fn is_of_few(self) -> bool {
        matches!(self, Noise::Number(part) if part >= FEW_LEAVE_OPEN)
    }

    /// Which of them stands out. Of so few requests that their number decides nothing is known, however far apart they are.
    pub(super) fn best(self, candidates: &[Option<Candidate>]) -> Best {
        match (self, sweep::best(candidates)) {
            (Noise::Number(_), Best::Overlapping { tokens_per_s, .. }) => {
                let kept = candidates.iter().flatten().filter(|one| one.keeps);
                Best::Alike {
                    least: kept.map(|one| one.output.0).fold(tokens_per_s, f64::min),
                    most: tokens_per_s,
                }
            }
            (_, best) => best,
        }
    }

    /// That none of them stands out.
    pub(super) fn alike(self, within: &str, least: f64, most: f64) -> String {
        let tokens = spread(least, most, significant);
        match self {
            Noise::Number(part) if part < FEW_LEAVE_OPEN => {
                format!("; output{within} alike within {}, {tokens} tok/s", percent(part))
            }
            Noise::Intervals => format!("; output{within} alike within noise, {tokens} tok/s"),
            Noise::Little => format!("; output{within} alike within 1 %, {tokens} tok/s"),
            Noise::Number(part) => format!(
                "; which has the most output{within} cannot be told from so few requests, {tokens} tok/s ± {}: a longer run tells",
                percent(part)
            ),
        }
    }

    /// How many others may serve as much as the best.
    pub(super) fn others(self, number: usize) -> String {
        let others = counted(number as u64, "other");
        match self {
            _ if number == 0 => String::new(),
            Noise::Intervals => format!(" ({others} within noise of it)"),
            Noise::Little => format!(" ({others} within 1 % of it)"),
            Noise::Number(part) if part < FEW_LEAVE_OPEN => {
                let coincide = if number == 1 { "coincides" } else { "coincide" };
                format!(" ({others} {coincide} with it within {})", percent(part))
            }
            Noise::Number(_) => format!(" ({others} cannot be told from it by so few requests)"),
        }
    }
}
