//! Numbers for people: three significant figures and a unit. Files keep full precision and never come here.

/// A share below it is named by this bound, in per cent: nobody decides on its digits.
const LEAST_PERCENT: f64 = 1e-4;

/// Three significant figures, thousands grouped: `0.0123`, `7.41`, `24.2`, `412`, `1,280`; `1.2e-12` where zeros would
/// hide the figures. What has no bound is said in words.
#[must_use]
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "–" } else { "not bounded" }.into();
    }
    crate::quantity::significant_grouped(value)
}

/// Three significant figures of what must not be said larger than it is: a rate within a promise, the lower end of an interval.
#[must_use]
pub fn significant_down(value: f64) -> String {
    significant(to_three(value, -1.0))
}

/// Three significant figures of what must not be said smaller than it is: a bound from above.
#[must_use]
pub fn significant_up(value: f64) -> String {
    significant(to_three(value, 1.0))
}

/// The nearest value of three figures, or the next one in that direction where the nearest lies in the other.
fn to_three(value: f64, direction: f64) -> f64 {
    let nearest: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let is_beyond = (nearest - value) * direction >= -1e-9 * value.abs();
    if value == 0.0 || !value.is_finite() || is_beyond {
        return nearest;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    format!("{:.2e}", nearest + direction * unit)
        .parse()
        .unwrap_or(nearest)
}

/// An interval whose ends are rounded outwards: what is said of it holds.
#[must_use]
pub fn interval_outwards(low: f64, high: f64) -> String {
    interval(to_three(low, -1.0), to_three(high, 1.0))
}

/// A count, exact: `12,345`.
#[must_use]
pub fn count(value: u64) -> String {
    crate::quantity::grouped(&value.to_string())
}

/// A count and what is counted, with its plural: `1 request`, `12,345 requests`.
#[must_use]
pub fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value))
}

/// A duration given in seconds: `412 ms`, `18.3 ms`, `24.2 s`, `7.50 µs`.
#[must_use]
pub fn time(seconds: f64) -> String {
    with_prefix(seconds, &TIMES)
}

const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];

/// `[34.1, 35.1] ms`: both ends in the unit of the upper one and rounded alike, so that they never cross.
#[must_use]
pub fn time_interval(low_s: f64, high_s: f64) -> String {
    if !high_s.is_finite() {
        return format!("[{}, {}]", time(low_s), time(high_s));
    }
    let (size, name) = prefix(round_to_three(high_s), &TIMES);
    let end = |seconds: f64| significant(round_to_three(seconds) / size);
    format!("[{}, {}] {name}", end(low_s), end(high_s))
}

/// A fraction as a percentage: `15.0 %`, `0.320 %`, `99.9 %`; `100 %` is the whole, to the last digit.
#[must_use]
pub fn percent(fraction: f64) -> String {
    if fraction.is_finite() && (0.9995..1.0).contains(&fraction) {
        // Three figures would round a share that is not whole up to 100 %.
        return format!("{:.2} %", (fraction * 1e4).floor() / 1e2);
    }
    if fraction > 1.0 + 1e-9 && fraction < 1.005 {
        // Nor down to it one that is more than the whole, by more than a sum's last bit.
        return format!("{:.2} %", (fraction * 1e4).ceil() / 1e2);
    }
    share(fraction * 100.0)
}

/// A fraction as a percentage, with as many more digits as tell it from another one: `98.96 %` beside `99.0 %`.
#[must_use]
pub fn percent_beside(fraction: f64, other: f64) -> String {
    let said = percent(fraction);
    if fraction == other || said != percent(other) {
        return said;
    }
    let digits = |places: usize| {
        (
            format!("{:.places$} %", fraction * 100.0),
            format!("{:.places$} %", other * 100.0),
        )
    };
    let apart = (2..=6).map(digits).find(|(one, other)| one != other);
    apart.map_or(said, |(one, _)| one)
}

/// A share that is promised, as it was given: `99.0 %`, `99.999 %`.
#[must_use]
pub fn percent_promised(share: f64) -> String {
    /// As many decimals as a promise may be given with, and no float's last digits.
    const DECIMALS: usize = 10;
    let said = percent(share);
    let exact = format!("{:.DECIMALS$}", share * 100.0);
    let is_exact = |said: &str| said.trim_end_matches(" %").parse() == exact.parse::<f64>();
    match is_exact(&said) {
        true => said,
        false => format!("{} %", exact.trim_end_matches('0').trim_end_matches('.')),
    }
}

/// A relative error as a percentage with its sign: `+4.20 %`, `−0.880 %`.
#[must_use]
pub fn signed_percent(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "−" } else { "+" };
    format!("{sign}{}", share(100.0 * fraction.abs()))
}

fn share(percent: f64) -> String {
    if !percent.is_finite() {
        return significant(percent);
    }
    if percent != 0.0 && percent.abs() < LEAST_PERCENT {
        return format!("<{LEAST_PERCENT} %");
    }
    format!("{} %", significant(percent))
}

/// A 95 % interval, or any other: `[22.9, 25.3]`, `[22.9, not bounded]`.
#[must_use]
pub fn interval(low: f64, high: f64) -> String {
    format!("[{}, {}]", significant(low), significant(high))
}

/// Floating-point operations per second: `989 TFLOP/s`.
#[must_use]
pub fn flops_per_s(value: f64) -> String {
    with_prefix(
        value,
        &[
            (1e15, "PFLOP/s"),
            (1e12, "TFLOP/s"),
            (1e9, "GFLOP/s"),
            (1e6, "MFLOP/s"),
            (1.0, "FLOP/s"),
        ],
    )
}

/// Bytes per second: `3.35 TB/s`.
#[must_use]
pub fn bytes_per_s(value: f64) -> String {
    with_prefix(
        value,
        &[
            (1e12, "TB/s"),
            (1e9, "GB/s"),
            (1e6, "MB/s"),
            (1e3, "kB/s"),
            (1.0, "B/s"),
        ],
    )
}

/// Memory in binary units: `512 MiB`.
#[must_use]
pub fn memory(bytes: f64) -> String {
    with_prefix(
        bytes,
        &[
            (1024.0_f64.powi(4), "TiB"),
            (1024.0_f64.powi(3), "GiB"),
            (1024.0_f64.powi(2), "MiB"),
            (1024.0, "KiB"),
            (1.0, "B"),
        ],
    )
}

/// The largest unit in which the rounded value is at least one; the smallest unit for what is smaller.
fn with_prefix(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return significant(value);
    }
    let (figures, name) = scaled(value, units);
    format!("{figures} {name}")
}

/// Three significant figures of a value in the unit that becomes it, and that unit's name.
pub fn scaled<'a>(value: f64, units: &[(f64, &'a str)]) -> (String, &'a str) {
    let rounded = round_to_three(value);
    let (size, name) = prefix(rounded, units);
    (significant(rounded / size), name)
}

/// The unit of a value that has been rounded.
fn prefix<'a>(rounded: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = units
        .iter()
        .find(|(size, _)| rounded.abs() >= size * (1.0 - 1e-12));
    let zero = units.iter().find(|(size, _)| *size <= 1e-3).or(units.last());
    let unit = if rounded == 0.0 {
        zero
    } else {
        fits.or(units.last())
    };
    unit.copied().unwrap_or((1.0, ""))
}

/// Rounds to three significant figures, so that units are chosen after rounding: 999.7 ms is 1.00 s.
fn round_to_three(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_quoted_with_all_its_digits() {
        for (share, expected) in [
            (0.99, "99.0 %"),
            (0.9, "90.0 %"),
            (1.0, "100 %"),
            (0.995, "99.5 %"),
            (0.9995, "99.95 %"),
            (0.99999, "99.999 %"),
            (0.999_999_9, "99.99999 %"),
            (0.9876, "98.76 %"),
        ] {
            assert_eq!(percent_promised(share), expected);
        }
    }

    #[test]
    fn people_get_three_significant_figures() {
        for (value, expected) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (7.405, "7.41"),
            (9.996, "10.0"),
            (24.21, "24.2"),
            (412.4, "412"),
            (1279.6, "1,280"),
            (-1_234_567.0, "-1,230,000"),
            (f64::NAN, "–"),
            (f64::INFINITY, "not bounded"),
            (1.234e-12, "1.23e-12"),
        ] {
            assert_eq!(significant(value), expected);
        }
    }

    #[test]
    fn what_is_promised_is_rounded_to_the_side_that_keeps_it() {
        for (value, expected) in [
            (13.16, "13.1"),
            (13.2, "13.2"),
            (13.24, "13.2"),
            (9.999, "9.99"),
            (0.5, "0.500"),
            (0.0, "0"),
        ] {
            assert_eq!(significant_down(value), expected);
        }
        for (value, expected) in [(13.14, "13.2"), (13.16, "13.2"), (13.2, "13.2"), (9.991, "10.0")] {
            assert_eq!(significant_up(value), expected);
        }
        assert_eq!(interval_outwards(12.96, 13.52), "[12.9, 13.6]");
        assert_eq!(interval_outwards(22.9, 25.3), "[22.9, 25.3]");
        assert_eq!(interval_outwards(99.96, 999.6), "[99.9, 1,000]");
        assert_eq!(interval_outwards(1.0, f64::INFINITY), "[1.00, not bounded]");
    }

    #[test]
    fn a_share_beside_another_has_the_digits_that_tell_them_apart() {
        assert_eq!(percent_beside(0.9896, 0.99), "98.96 %");
        assert_eq!(percent_beside(0.989_98, 0.99), "98.998 %");
        assert_eq!(percent_beside(0.99, 0.99), "99.0 %");
        assert_eq!(percent_beside(0.5, 0.99), "50.0 %");
    }

    #[test]
    fn the_ends_of_an_interval_are_rounded_alike() {
        assert_eq!(time_interval(0.034_12, 0.035_08), "[34.1, 35.1] ms");
        assert_eq!(time_interval(0.2, 1.2), "[0.200, 1.20] s");
        assert_eq!(time_interval(0.2, f64::INFINITY), "[200 ms, not bounded]");
        // Halves, which are rounded one way in seconds and may be rounded the other way in milliseconds.
        for tenths in 100..10_000 {
            let half = (f64::from(tenths) * 10.0 + 5.0) * 1e-5;
            let text = time_interval(half, half);
            let (low, high) = text[1..text.find(']').unwrap()].split_once(", ").unwrap();
            assert_eq!(low, high, "{half}");
        }
    }

    #[test]
    fn the_unit_is_chosen_after_rounding() {
        assert_eq!(time(0.9997), "1.00 s");
        assert_eq!(time(0.412), "412 ms");
        assert_eq!(time(7.5e-6), "7.50 µs");
        assert_eq!(time(0.0), "0 ms");
        assert_eq!(time(90.0), "90.0 s");
        assert_eq!(flops_per_s(989e12), "989 TFLOP/s");
        assert_eq!(bytes_per_s(3.35e12), "3.35 TB/s");
    }

    #[test]
    fn a_share_that_is_not_whole_never_reads_100_percent() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.99999), "99.99 %");
        assert_eq!(percent(1.000_001), "100.01 %");
        assert_eq!(percent(1.003), "100.30 %");
        assert_eq!(percent(1.006), "101 %");
        assert_eq!(percent(1.0 + f64::EPSILON), "100 %");
        assert_eq!(percent(0.15), "15.0 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(3e-12), "<0.0001 %");
        assert_eq!(percent(f64::INFINITY), "not bounded");
        assert_eq!(signed_percent(-1e-11), "−<0.0001 %");
        assert_eq!(signed_percent(0.0042), "+0.420 %");
        assert_eq!(interval(22.9, f64::INFINITY), "[22.9, not bounded]");
    }

    #[test]
    fn counts_are_exact() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }
}
