//! Scales and their ticks: linear or logarithmic, with readable numbers.

use super::super::figures;

/// How a quantity is written on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    /// Seconds, shown as ms or s.
    Time,
    /// A plain number.
    Number,
    /// A fraction, shown in %.
    Share,
    /// FLOP/s with a prefix.
    FlopsPerS,
}

impl Quantity {
    /// `value` as a tick label: no more digits than it has.
    pub(super) fn label(self, value: f64) -> String {
        let (size, unit) = match self {
            Quantity::Number => return short(value),
            Quantity::Share => return format!("{} %", short(value * 100.0)),
            Quantity::Time if value == 0.0 => return "0".into(),
            Quantity::Time => prefix(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
            Quantity::FlopsPerS => prefix(
                value,
                &[
                    (1e15, "PFLOP/s"),
                    (1e12, "TFLOP/s"),
                    (1e9, "GFLOP/s"),
                    (1e6, "MFLOP/s"),
                ],
            ),
        };
        format!("{} {unit}", short(value / size))
    }
}

fn prefix(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let fits = units.iter().find(|(size, _)| value.abs() >= size * (1.0 - 1e-9));
    fits.or(units.last()).copied().unwrap_or((1.0, ""))
}

/// At most three significant figures without trailing zeros: `0.5`, `20`, `1,000`.
fn short(value: f64) -> String {
    let text = figures::significant(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// Labelled ticks of a logarithmic axis of less than two decades: two tell no law.
const TICKS_MIN: usize = 3;
/// Leading figures of ticks where there is much room.
const EIGHT: [f64; 7] = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0];
/// The same of an axis that is hardly a part of a decade.
const TWELVE: [f64; 12] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

/// A range of values laid over a range of pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    quantity: Quantity,
}

impl Axis {
    /// From zero (or the smallest value, if negative) to a little above the largest.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, quantity: Quantity) -> Axis {
        let (low, high) = extent(values.into_iter()).unwrap_or((0.0, 1.0));
        let low = low.min(0.0);
        let high = if high > low {
            high + 0.06 * (high - low)
        } else {
            low + 1.0
        };
        Axis {
            low,
            high,
            logarithmic: false,
            quantity,
        }
    }

    /// From a little below the smallest positive value to a little above the largest.
    pub(super) fn log(values: impl IntoIterator<Item = f64>, quantity: Quantity) -> Axis {
        let (low, high) = extent(values.into_iter().filter(|value| *value > 0.0)).unwrap_or((0.1, 1.0));
        // At least most of a decade, so that a flat curve looks flat and one point has a place.
        let margin = (high / low).powf(0.06).max((4.0 / (high / low)).sqrt());
        Axis {
            low: low / margin,
            high: high * margin,
            logarithmic: true,
            quantity,
        }
    }

    /// Exactly these limits.
    pub(super) fn fixed(low: f64, high: f64, quantity: Quantity) -> Axis {
        Axis {
            low,
            high,
            logarithmic: false,
            quantity,
        }
    }

    pub(super) fn low(&self) -> f64 {
        self.low
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end, held to these ends.
    pub(super) fn position(&self, value: f64) -> f64 {
        let raw = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        raw.clamp(0.0, 1.0)
    }

    /// Whether `value` is within the limits.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && value >= self.low && value <= self.high
    }

    /// Round values with their labels, about `wanted` of them.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = if self.logarithmic {
            self.log_ticks(wanted)
        } else {
            self.linear_ticks(wanted)
        };
        values
            .into_iter()
            .map(|value| (value, self.quantity.label(value)))
            .collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let scale = if self.quantity == Quantity::Share {
            100.0
        } else {
            1.0
        };
        let rough = (self.high - self.low) * scale / wanted.max(1) as f64;
        let decade = 10f64.powi(rough.log10().floor() as i32);
        let steps = [1.0, 2.0, 5.0, 10.0].map(|round| round * decade);
        let at = steps.iter().position(|step| *step >= rough * 0.999).unwrap_or(3);
        let range = |step: f64| {
            let first = (self.low * scale / step).ceil() as i64;
            let last = (self.high * scale / step).floor() as i64;
            (step, first, last)
        };
        // One tick alone tells no scale.
        let mut finer = steps[..=at].iter().rev().map(|&step| range(step));
        let (step, first, last) = finer
            .find(|(_, first, last)| last > first)
            .unwrap_or_else(|| range(steps[at]));
        (first..=last).map(|index| index as f64 * step / scale).collect()
    }

    /// Powers of ten, with 2 and 5 between them (or 3) where there is room, and more where there is much or where fewer than
    /// [`TICKS_MIN`] would be left of less than two decades; thinned where there are too many.
    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let mut between: &[f64] = match decades * 3.0 <= wanted as f64 + 1.0 {
            true if decades * 7.0 <= wanted as f64 => &EIGHT,
            true => &[1.0, 2.0, 5.0],
            false if decades * 2.0 <= wanted as f64 + 1.0 => &[1.0, 3.0],
            false => &[1.0],
        };
        for finer in [&[1.0, 3.0][..], &[1.0, 2.0, 5.0], &EIGHT, &TWELVE] {
            let shown = self.leads(between).count();
            if decades >= 2.0 || shown >= TICKS_MIN {
                break;
            }
            if finer.len() > between.len() {
                between = finer;
            }
        }
        let stride = if between.len() == 1 {
            (decades / wanted.max(1) as f64).ceil().max(1.0) as i32
        } else {
            1
        };
        let ticks = self.leads(between);
        let ticks = ticks.filter(|(exponent, _)| exponent.rem_euclid(stride) == 0);
        ticks.map(|(_, value)| value).collect()
    }

    /// The numbers with these leading figures that the axis shows, each with its power of ten.
    fn leads(&self, leads: &[f64]) -> impl Iterator<Item = (i32, f64)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        (first..=last)
            .flat_map(move |exponent| {
                leads
                    .iter()
                    .map(move |lead| (exponent, lead * 10f64.powi(exponent)))
            })
            .filter(|(_, value)| self.shows(*value))
    }
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|value| value.is_finite())
        .fold(None, |extent, value| match extent {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, wanted: usize) -> String {
        axis.ticks(wanted)
            .into_iter()
            .map(|(_, label)| label)
            .collect::<Vec<_>>()
            .join(" | ")
    }

    #[test]
    fn ticks_are_round_and_carry_their_unit() {
        assert_eq!(
            labels(Axis::linear([3.0, 27.0], Quantity::Number), 6),
            "0 | 5 | 10 | 15 | 20 | 25"
        );
        assert_eq!(
            labels(Axis::linear([0.0, 93.0], Quantity::Number), 2),
            "0 | 50",
            "two at least"
        );
        assert_eq!(
            labels(Axis::log([0.03, 2.1], Quantity::Time), 8),
            "50 ms | 100 ms | 200 ms | 500 ms | 1 s | 2 s"
        );
        assert_eq!(
            labels(Axis::log([0.15, 0.6], Quantity::Number), 6),
            "0.15 | 0.2 | 0.3 | 0.4 | 0.5"
        );
        assert_eq!(
            labels(Axis::log([0.0273, 0.032], Quantity::Time), 4),
            "15 ms | 20 ms | 30 ms | 40 ms | 50 ms"
        );
        assert_eq!(
            labels(Axis::log([0.001, 200.0], Quantity::Time), 4),
            "10 ms | 1 s | 100 s"
        );
        assert_eq!(
            labels(Axis::fixed(0.0, 1.0, Quantity::Share), 5),
            "0 % | 20 % | 40 % | 60 % | 80 % | 100 %"
        );
        assert_eq!(
            labels(Axis::linear([0.0, 0.11], Quantity::Share), 3),
            "0 % | 5 % | 10 %"
        );
    }

    #[test]
    fn a_logarithmic_axis_of_less_than_two_decades_has_three_ticks_at_least() {
        for at in 0..200 {
            let low = 10f64.powf(f64::from(at) / 50.0 - 3.0);
            for ratio in [1.0, 1.3, 3.0, 9.0, 40.0, 90.0] {
                let axis = Axis::log([low, low * ratio], Quantity::Time);
                let ticks = axis.ticks(4);
                let is_long = (axis.high() / axis.low()).log10() >= 2.0;
                assert!(is_long || (3..=9).contains(&ticks.len()), "{axis:?}: {ticks:?}");
            }
        }
    }

    #[test]
    fn no_value_and_one_value_still_make_an_axis() {
        for axis in [
            Axis::linear([], Quantity::Number),
            Axis::log([], Quantity::Time),
            Axis::log([0.2], Quantity::Time),
        ] {
            assert!(axis.low() < axis.high() && !axis.ticks(5).is_empty(), "{axis:?}");
        }
        assert!(Axis::linear([0.0, 0.0], Quantity::Number).high() > 0.0);
    }
}
