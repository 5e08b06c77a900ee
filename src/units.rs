//! Physical quantities as types, so that bytes cannot be added to tokens and a clock cannot be a float.
//!
//! Simulated time is an integer number of picoseconds: 2⁶⁴ ps are 213 days, and a sum of step times is exact
//! whatever the order of additions. Rates and work are `f64`: they are physics, they never order events.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// An instant of simulated time, or a length of it, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

/// Picoseconds in a second.
pub const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

/// Most tokens that a flag of an engine counts: far more than any server holds.
pub(crate) const FLAG_TOKENS_MAX: u64 = 1 << 30;

/// Longest prompt or output that a workload may ask for, and longest text of a conversation.
pub(crate) const TEXT_TOKENS_MAX: u32 = 1 << 28;

/// Most tokens of a row of a trace: what is above counts something else.
pub(crate) const ROW_TOKENS_MAX: u32 = 1 << 24;

/// Beyond this every float is whole.
const EXACT: f64 = (1u64 << 52) as f64;

/// `value.round() as u64` of what is not negative and below 2⁵²; `f64::round` is a call where the baseline of the processor has
/// no instruction for it.
#[inline]
pub(crate) fn rounded(value: f64) -> u64 {
    let whole = value as i64;
    (whole + i64::from(value - whole as f64 >= 0.5)) as u64
}

impl Picos {
    /// The start of every run.
    pub const ZERO: Picos = Picos(0);
    /// Later than anything that happens.
    pub const MAX: Picos = Picos(u64::MAX);
    /// The longest step, delay or wait: 30 days.
    pub const DELAY_MAX: Picos = Picos(30 * 86_400 * PICOS_PER_SECOND);
    /// When runs end: one delay before the clock does, so that no sum of an instant and a delay passes its end.
    pub const LAST: Picos = Picos(u64::MAX - Picos::DELAY_MAX.0);

    /// Rounds a duration in seconds to the nearest picosecond.
    ///
    /// # Panics
    /// If `seconds` is negative, not finite, or beyond the 213 days that a clock can show. Values that a user
    /// can write go through [`Picos::try_from_seconds`].
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Picos {
        Picos::try_from_seconds(seconds).expect("a duration is finite, not negative and below 213 days")
    }

    /// Rounds a duration in seconds to the nearest picosecond; `None` if it is negative, not finite or too long.
    #[must_use]
    pub fn try_from_seconds(seconds: f64) -> Option<Picos> {
        Picos::nearest(seconds * PICOS_PER_SECOND as f64)
    }

    /// Rounds a number of picoseconds to the nearest; `None` if it is negative, not finite or past the end of the clock.
    #[inline]
    pub(crate) fn nearest(picos: f64) -> Option<Picos> {
        if (0.0..EXACT).contains(&picos) {
            return Some(Picos(rounded(picos)));
        }
        let picos = picos.round();
        (picos >= 0.0 && picos < u64::MAX as f64).then_some(Picos(picos as u64))
    }

    /// The same length in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND as f64
    }

    /// The same length in milliseconds.
    #[must_use]
    pub fn millis(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, or zero where `earlier` is later.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }

    /// `self + length`, `None` past the end of the clock.
    #[inline]
    #[must_use]
    pub fn checked_add(self, length: Picos) -> Option<Picos> {
        self.0.checked_add(length.0).map(Picos)
    }
}

impl Add for Picos {
    type Output = Picos;
    #[inline]
    fn add(self, other: Picos) -> Picos {
        Picos(self.0 + other.0)
    }
}
impl AddAssign for Picos {
    #[inline]
    fn add_assign(&mut self, other: Picos) {
        self.0 += other.0;
    }
}
impl Sub for Picos {
    type Output = Picos;
    #[inline]
    fn sub(self, other: Picos) -> Picos {
        Picos(self.0 - other.0)
    }
}
impl SubAssign for Picos {
    #[inline]
    fn sub_assign(&mut self, other: Picos) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Picos {
    type Output = Picos;
    #[inline]
    fn mul(self, times: u64) -> Picos {
        Picos(self.0 * times)
    }
}
impl Sum for Picos {
    #[inline]
    fn sum<I: Iterator<Item = Picos>>(parts: I) -> Picos {
        Picos(parts.map(|part| part.0).sum())
    }
}
impl fmt::Display for Picos {
    /// Three significant figures and a unit: `412 ms`, `18.3 ms`, `24.2 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let (value, unit) = match seconds {
            s if s >= 1.0 => (s, "s"),
            s if s >= 1e-3 => (s * 1e3, "ms"),
            s if s >= 1e-6 => (s * 1e6, "µs"),
            s => (s * 1e9, "ns"),
        };
        write!(f, "{} {unit}", crate::quantity::significant(value))
    }
}

/// A duration in floating point: what the cost formulas produce, before it is rounded once to [`Picos`].
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// An amount of memory. `GB` is 10⁹ bytes and `GiB` 2³⁰.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// In units of 10⁹ bytes.
    #[must_use]
    pub fn gb(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// In units of 2³⁰ bytes.
    #[must_use]
    pub fn gib(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }
    /// From units of 2³⁰ bytes, rounded to the nearest byte.
    #[cfg(test)]
    pub(crate) fn from_gib(gib: f64) -> Bytes {
        Bytes((gib * (1u64 << 30) as f64).round() as u64)
    }
}

/// Floating-point operations; a multiply-add counts two.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Flops(pub f64);

/// Bytes moved per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct BytesPerSec(pub f64);

/// Floating-point operations per second, dense.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct FlopsPerSec(pub f64);

macro_rules! quantity {
    ($($name:ident),*) => {$(
        impl Add for $name { type Output = $name; fn add(self, other: $name) -> $name { $name(self.0 + other.0) } }
        impl AddAssign for $name { fn add_assign(&mut self, other: $name) { self.0 += other.0; } }
        impl Sub for $name { type Output = $name; fn sub(self, other: $name) -> $name { $name(self.0 - other.0) } }
        impl Sum for $name { fn sum<I: Iterator<Item = $name>>(parts: I) -> $name { $name(parts.map(|part| part.0).sum()) } }
    )*};
}
quantity!(Seconds, Bytes, Flops, BytesPerSec, FlopsPerSec);

impl Mul<f64> for Seconds {
    type Output = Seconds;
    #[inline]
    fn mul(self, times: f64) -> Seconds {
        Seconds(self.0 * times)
    }
}
impl Mul<f64> for Flops {
    type Output = Flops;
    #[inline]
    fn mul(self, times: f64) -> Flops {
        Flops(self.0 * times)
    }
}
impl Mul<f64> for BytesPerSec {
    type Output = BytesPerSec;
    #[inline]
    fn mul(self, times: f64) -> BytesPerSec {
        BytesPerSec(self.0 * times)
    }
}
impl Mul<f64> for FlopsPerSec {
    type Output = FlopsPerSec;
    #[inline]
    fn mul(self, times: f64) -> FlopsPerSec {
        FlopsPerSec(self.0 * times)
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    #[inline]
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0 * times)
    }
}
impl Div<FlopsPerSec> for Flops {
    type Output = Seconds;
    #[inline]
    fn div(self, rate: FlopsPerSec) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}
impl Div<BytesPerSec> for Bytes {
    type Output = Seconds;
    #[inline]
    fn div(self, rate: BytesPerSec) -> Seconds {
        Seconds(self.0 as f64 / rate.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_the_language() {
        let mut value: f64 = 0.124_999_9;
        while value < 4e15 {
            for near in [
                value,
                f64::from_bits(value.to_bits() - 1),
                value.floor() + 0.5,
                value.floor() + 0.499_999,
            ] {
                assert_eq!(rounded(near), near.round() as u64, "{near}");
            }
            value *= 1.37;
        }
        assert_eq!(rounded(0.499_999_999_999_999_94), 0);
    }

    #[test]
    fn seconds_round_to_the_nearest_picosecond() {
        assert_eq!(Picos::from_seconds(0.029_344), Picos(29_344_000_000));
        assert_eq!(Picos::try_from_seconds(-1e-9), None);
        assert_eq!(Picos::try_from_seconds(f64::NAN), None);
        assert_eq!(Picos::try_from_seconds(1e9), None);
    }

    #[test]
    fn people_get_three_significant_figures() {
        assert_eq!(Picos::from_seconds(0.412).to_string(), "412 ms");
        assert_eq!(Picos::from_seconds(0.018_34).to_string(), "18.3 ms");
        assert_eq!(Picos::from_seconds(7.5e-6).to_string(), "7.50 µs");
    }
}
