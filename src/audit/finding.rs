//! A finding: what is claimed, the arithmetic with its numbers, and what to run instead.

use crate::units::Picos;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Breaks nothing, but must be known to read the figure.
    Note,
    /// Possible only by an unlikely story, which the finding tells.
    Doubtful,
    /// A column cannot be what its name says, or the run cannot be what it is called.
    Impossible,
}

impl Severity {
    /// As reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Doubtful => "doubtful",
            Severity::Impossible => "impossible",
        }
    }
}

/// Which law a finding is about; names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The time to first token is the time of the whole answer.
    TtftIsE2el,
    /// Gaps count empty chunks, or do not add up to the answer.
    ItlAddsUp,
    /// TPOT is not `(e2el − ttft) / (n − 1)`.
    TpotDefinition,
    /// Counts, tokens, seconds and throughput contradict each other.
    CountsAgree,
    /// Requests failed.
    Failures,
    /// Throughput counts prompt tokens.
    PromptTokensCounted,
    /// More in flight than the limit allows.
    AboveTheLimit,
    /// Fewer in flight than the limit: the loop was not full.
    BelowTheLimit,
    /// A limit that nobody stated held requests back.
    HiddenLimit,
    /// The server was slower than the rate.
    Overload,
    /// Too few answers, too short a run.
    TooShort,
    /// The first requests were slower.
    WarmUp,
    /// Percentiles out of order, or further out than mean and deviation allow.
    Percentiles,
    /// A percentile of too few samples.
    FewSamples,
    /// A token faster than the weights can be read.
    DecodeBound,
    /// A prompt faster than the peak allows.
    PrefillBound,
    /// Rows of a table contradict each other.
    RowsContradict,
    /// Two figures of a table count different things.
    NotComparable,
    /// The file names another model than was said.
    OtherModel,
    /// Times are a thousandth of what they can be, or a thousand times as long: another unit than their names say.
    Unit,
}

impl Check {
    /// As reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Check::TtftIsE2el => "ttft-is-e2el",
            Check::ItlAddsUp => "itl-adds-up",
            Check::TpotDefinition => "tpot-definition",
            Check::CountsAgree => "counts-agree",
            Check::Failures => "failures",
            Check::PromptTokensCounted => "prompt-tokens-counted",
            Check::AboveTheLimit => "above-the-limit",
            Check::BelowTheLimit => "below-the-limit",
            Check::HiddenLimit => "hidden-limit",
            Check::Overload => "overload",
            Check::TooShort => "too-short",
            Check::WarmUp => "warm-up",
            Check::Percentiles => "percentiles",
            Check::FewSamples => "few-samples",
            Check::DecodeBound => "decode-bound",
            Check::PrefillBound => "prefill-bound",
            Check::RowsContradict => "rows-contradict",
            Check::NotComparable => "not-comparable",
            Check::OtherModel => "other-model",
            Check::Unit => "unit",
        }
    }
}

/// Something found in a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How sure it is.
    pub severity: Severity,
    /// Which law.
    pub check: Check,
    /// What is claimed, one sentence.
    pub claim: String,
    /// The numbers that show it.
    pub arithmetic: String,
    /// What to run, or how to read the figure; empty for most notes.
    pub rerun: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, check: Check, claim: impl Into<String>) -> Finding {
        Finding {
            severity,
            check,
            claim: claim.into(),
            arithmetic: String::new(),
            rerun: String::new(),
        }
    }

    pub(super) fn shown(mut self, arithmetic: impl Into<String>) -> Finding {
        self.arithmetic = arithmetic.into();
        self
    }

    pub(super) fn rerun(mut self, rerun: &str) -> Finding {
        self.rerun = rerun.to_owned();
        self
    }
}

/// Seconds in three significant figures and a unit; a power of ten where there is none.
pub(super) fn time(seconds: f64) -> String {
    /// Below it no unit has digits left.
    const LEAST_S: f64 = 1e-9;
    let time = Picos::try_from_seconds(seconds).filter(|_| seconds == 0.0 || seconds >= LEAST_S);
    time.map_or_else(|| format!("{seconds:.2e} s"), |time| time.to_string())
}

/// A number in four significant figures.
pub(super) fn show(value: f64) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.3e}");
    }
    let digits = if value == 0.0 || !value.is_finite() {
        0
    } else {
        3 - value.abs().log10().floor() as i32
    };
    let text = format!("{value:.*}", digits.clamp(0, 6) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_size_are_short() {
        for (seconds, expected) in [
            (1e300, "1.00e300 s"),
            (-1e300, "-1.00e300 s"),
            (4e-13, "4.00e-13 s"),
            (0.0, "0 ns"),
            (1.5, "1.50 s"),
        ] {
            assert_eq!(time(seconds), expected);
        }
    }
}
