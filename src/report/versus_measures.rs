//! The figures by which variants are held against each other, and how a figure and its difference are written.

use super::figures::{count, percent, significant, time};
use super::versus::Row;
use crate::analysis::Difference;
use crate::stats::Interval;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Time,
    /// A fraction.
    Share,
    /// A number of tokens or of events.
    Count,
    /// Something per second.
    Rate,
}

/// Which way a figure should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Down.
    Lower,
    /// Up.
    Higher,
}

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name in files; times are in seconds.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Which way it should move.
    pub better: Better,
    /// It counts for the answer.
    pub decides: bool,
}

const fn measure(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    decides: bool,
) -> Measure {
    Measure {
        key,
        label,
        unit,
        better,
        decides,
    }
}

/// The figures, in the order of the table.
pub const MEASURES: [Measure; 22] = {
    use Better::{Higher, Lower};
    use Unit::{Count, Rate, Share, Time};
    [
        measure("hit_rate", "prefix hit rate", Share, Higher, false),
        measure("tier_hit_rate", "from KV tiers", Share, Higher, false),
        measure(
            "saved_prefill_tokens",
            "prompt tokens saved",
            Count,
            Higher,
            false,
        ),
        measure("evicted_tokens", "tokens evicted", Count, Lower, false),
        measure("mean_ttft_s", "mean TTFT", Time, Lower, true),
        measure("p99_ttft_s", "p99 TTFT", Time, Lower, true),
        measure("mean_ttft_hit_s", "mean TTFT, warm", Time, Lower, false),
        measure("mean_ttft_miss_s", "mean TTFT, cold", Time, Lower, false),
        measure("mean_tpot_s", "mean TPOT", Time, Lower, true),
        measure("p99_tpot_s", "p99 TPOT", Time, Lower, true),
        measure("p99_itl_s", "p99 ITL", Time, Lower, true),
        measure("p99_e2el_s", "p99 E2EL", Time, Lower, true),
        measure("request_throughput", "requests/s", Rate, Higher, false),
        measure("output_throughput", "output tok/s", Rate, Higher, true),
        measure("attainment", "within the SLO", Share, Higher, true),
        measure("longest_wait_s", "longest wait", Time, Lower, true),
        measure("overtaken_share", "overtaken", Share, Lower, false),
        measure("preemptions", "preemptions", Count, Lower, false),
        measure("lost_share", "lost", Share, Lower, true),
        measure("prefill_busy", "prefill busy", Share, Higher, false),
        measure("decode_busy", "decode busy", Share, Higher, false),
        measure("transfer_share", "transfer of TTFT", Share, Lower, false),
    ]
};

/// The interval by which a difference is told: in points for shares, else relative where there is something to relate to.
pub(crate) fn told(unit: Unit, difference: &Difference) -> Interval {
    match (unit, difference.relative) {
        (Unit::Share, _) | (_, None) => difference.absolute,
        (_, Some(relative)) => relative,
    }
}

/// The ends of an interval of a difference, as far as they are possible: a share lies between 0 and 1, so no difference of two
/// shares is beyond ±1, and nothing that is counted or timed falls by more than all of it.
pub(crate) fn ends(unit: Unit, is_relative: bool, interval: &Interval) -> (f64, f64) {
    let least = match (unit, is_relative) {
        (Unit::Share, false) | (_, true) => -1.0,
        _ => f64::NEG_INFINITY,
    };
    let most = match (unit, is_relative) {
        (Unit::Share, false) => 1.0,
        _ => f64::INFINITY,
    };
    (interval.low().max(least), interval.high().min(most))
}

/// How large a difference is, whatever its sign: the logarithm of a ratio, so that a fifth of it is as much as five times it; of
/// shares their points. 0 where there is nothing to relate to.
pub(crate) fn effect(row: &Row, at: usize) -> f64 {
    let Some(difference) = row.differences[at] else {
        return 0.0;
    };
    match (row.measure.unit, difference.relative) {
        (Unit::Share, _) => difference.absolute.value.abs(),
        (_, Some(relative)) => relative.value.max(-1.0).ln_1p().abs(),
        (_, None) => 0.0,
    }
}

/// Whether an interval leaves zero out.
pub(crate) fn is_significant(interval: &Interval) -> bool {
    interval.half_width < interval.value.abs()
}

/// Mean number from which nobody misses its fraction.
const COUNTED: f64 = 100.0;

/// A value for people.
pub(crate) fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => time(value),
        Unit::Share => percent(value),
        // A mean over seeds of what hardly ever happens.
        Unit::Count if value.abs() < COUNTED && value.fract() != 0.0 => significant(value),
        Unit::Count => count(value.round() as u64),
        Unit::Rate => significant(value),
    }
}

/// `−31 % [−36, −27]`, in points for shares; without an interval where there is none.
pub(crate) fn moved(row: &Row, at: usize) -> String {
    let Some(difference) = row.differences[at] else {
        return "–".to_owned();
    };
    match (row.measure.unit, difference.relative) {
        (unit @ Unit::Share, _) => {
            let interval = difference.absolute;
            hundredths(&interval, ends(unit, false, &interval), "points")
        }
        (unit, Some(relative)) => hundredths(&relative, ends(unit, true, &relative), "%"),
        (unit, None) => format!("+{}", written(unit, difference.absolute.value)),
    }
}

/// Ratio from which a change is a multiple and no percentage.
const MANY_TIMES: f64 = 10.0;

fn hundredths(interval: &Interval, (low, high): (f64, f64), unit: &str) -> String {
    let largest = 100.0 * interval.value.abs();
    let decimals = usize::from(largest < 9.95);
    let signed = |value: f64| {
        let digits = format!("{:.decimals$}", (100.0 * value).abs());
        let is_zero = digits.trim_matches(['0', '.']).is_empty();
        let sign = match value {
            _ if is_zero => "",
            value if value < 0.0 => "−",
            _ => "+",
        };
        format!("{sign}{digits}")
    };
    if unit == "%" && interval.value >= MANY_TIMES - 1.0 {
        let times = |value: f64| significant(1.0 + value);
        let said = format!("{} times", times(interval.value));
        return match interval.half_width.is_infinite() {
            true => said,
            false => format!("{said} [{}, {}]", times(low), times(high)),
        };
    }
    if interval.half_width.is_infinite() {
        return format!("{} {unit}", signed(interval.value));
    }
    format!(
        "{} {unit} [{}, {}]",
        signed(interval.value),
        signed(low),
        signed(high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_falls_by_more_than_all_of_it() {
        let measure = |key: &str| MEASURES.into_iter().find(|measure| measure.key == key).unwrap();
        let wide = |value: f64| Interval {
            value,
            half_width: 0.58,
        };
        let row = |key: &str, relative: Option<Interval>| Row {
            measure: measure(key),
            means: vec![Some(1.0), Some(0.3)],
            differences: vec![Some(Difference {
                absolute: wide(-0.66),
                relative,
            })],
        };
        assert_eq!(moved(&row("attainment", None), 0), "−66 points [−100, −8]");
        assert_eq!(
            moved(&row("mean_ttft_s", Some(wide(494.58))), 0),
            "496 times [495, 496]"
        );
        assert_eq!(
            moved(&row("mean_ttft_s", Some(wide(-0.66))), 0),
            "−66 % [−100, −8]"
        );
        assert_eq!(ends(Unit::Share, false, &wide(0.66)).1, 1.0);
        assert!(ends(Unit::Time, true, &wide(0.66)).1 > 1.2);
    }
}
