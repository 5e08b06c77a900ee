//! The foot of a sweep's panels: swept values at their places, numbers to scale, everything else side by side.

use super::super::sweep_layout::Swept;
use super::panel::Panel;
use super::scene::{Anchor, Colour, Font, Picture};

/// Least ratio of the largest to the smallest value for which a logarithmic foot is considered.
const SPAN: f64 = 8.0;
/// Share of the width that stays free left and right of the numbers.
const MARGIN: f64 = 0.04;
/// Neighbours that are nearer than this share of the width lie on one another; values then stand side by side.
const CROWDED: f64 = 0.012;
/// Share of the width that the slot of `inf` takes.
const ENDLESS: f64 = 0.16;
/// Between labels that stand in one row.
const GAP: f64 = 7.0;
/// From one row of labels to the next.
const LINE: f64 = 15.0;

/// An axis as people call it: of a key path its last part with what it belongs to, in words; a flag as it is.
pub(super) fn axis_name(name: &str) -> String {
    let one = |name: &str| {
        let parts: Vec<&str> = name.split('.').collect();
        match parts[..] {
            [] | [_] => name.to_owned(),
            [_, own] => own.replace('_', " "),
            [.., of, own] => format!("{of} {own}").replace('_', " "),
        }
    };
    let names = name.split(", ").map(one);
    names.collect::<Vec<_>>().join(", ")
}

/// Where each swept value lies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Foot {
    /// The axis, and how it is scaled.
    pub(super) name: String,
    labels: Vec<String>,
    /// In 0..=1 of the width.
    places: Vec<f64>,
    /// To scale.
    is_scale: bool,
    /// Neighbours are neighbours by more than the order in which they were written.
    pub(super) is_ordered: bool,
    /// The place of `inf` at the right of a scale that it is not on.
    endless: Option<usize>,
}

impl Foot {
    pub(super) fn of(swept: &Swept) -> Foot {
        let count = swept.values.len().max(1) as f64;
        let side_by_side = || {
            (0..swept.values.len())
                .map(|at| (at as f64 + 0.5) / count)
                .collect()
        };
        let numbers = swept.numbers_or_inf();
        let endless = numbers
            .as_ref()
            .and_then(|numbers| numbers.iter().position(|number| number.is_infinite()));
        let scaled = numbers.and_then(|numbers| scaled_beside(numbers, endless));
        let (places, is_scale, told) = match scaled {
            Some((places, true)) => (places, true, ", logarithmic"),
            Some((places, false)) => (places, true, ""),
            None => (side_by_side(), false, ""),
        };
        let unit = if swept.is_rate() {
            ", requests per second"
        } else {
            ""
        };
        Foot {
            name: format!("{}{unit}{told}", axis_name(&swept.name)),
            labels: swept.values.iter().map(|value| last_part(value)).collect(),
            places,
            is_scale,
            is_ordered: swept.is_ordered(),
            endless,
        }
    }

    /// Whether a value stands apart from the scale.
    pub(super) fn is_apart(&self, at: usize) -> bool {
        self.endless == Some(at)
    }

    /// The pixel of a value.
    pub(super) fn x(&self, panel: &Panel, at: usize) -> f64 {
        panel.left + self.places[at] * (panel.right - panel.left)
    }

    /// Pixels between the marks of `lines` lines at one place of a foot without scale.
    pub(super) fn apart(&self, panel: &Panel, lines: usize) -> f64 {
        if self.is_scale || lines < 2 {
            return 0.0;
        }
        let slot = (panel.right - panel.left) / self.places.len().max(1) as f64;
        (slot / (lines + 1) as f64).min(14.0)
    }

    /// Whether a value can stand beside each mark.
    pub(super) fn has_room_for_values(&self, panel: &Panel, lines: usize) -> bool {
        !self.is_scale && lines < 2 && (panel.right - panel.left) / self.places.len().max(1) as f64 >= 60.0
    }

    /// The line at the foot with a tick at each value.
    pub(super) fn rule(&self, picture: &mut Picture, panel: &Panel) {
        let bottom = panel.bottom;
        picture.line(
            vec![(panel.left, bottom), (panel.right, bottom)],
            Colour::AXIS,
            1.0,
        );
        for at in 0..self.places.len() {
            let x = self.x(panel, at);
            picture.line(vec![(x, bottom), (x, bottom + 4.0)], Colour::AXIS, 1.0);
        }
    }

    /// The values under the foot. Numbers that would touch their neighbour are left out; words are shortened and set in several rows.
    pub(super) fn labels(&self, picture: &mut Picture, panel: &Panel) {
        let rows = self.rows(panel);
        let slot = (panel.right - panel.left) / self.places.len().max(1) as f64;
        let mut free_from = vec![f64::NEG_INFINITY; rows];
        for (at, label) in self.labels.iter().enumerate() {
            let row = at % rows;
            let label = match self.is_scale {
                true => label.clone(),
                false => shortened(label, (slot * rows as f64 - GAP).max(36.0)),
            };
            let half = Font::TICK.width(&label) / 2.0;
            // A long word at the side moves inwards.
            let room = (panel.left - 56.0 + half, panel.right + 50.0 - half);
            let x = self.x(panel, at).min(room.1).max(room.0);
            if self.is_scale && x - half < free_from[row] {
                continue;
            }
            free_from[row] = x + half + GAP;
            let y = panel.bottom + 18.0 + LINE * row as f64;
            picture.text((x, y), &label, Font::TICK, Anchor::Middle, Colour::GREY);
        }
    }

    /// The name of the axis under the values.
    pub(super) fn title(&self, picture: &mut Picture, panel: &Panel) {
        let middle = (panel.left + panel.right) / 2.0;
        let y = panel.bottom + 38.0 + LINE * (self.rows(panel) - 1) as f64;
        picture.text(
            (middle, y),
            &self.name,
            Font::SUBTITLE,
            Anchor::Middle,
            Colour::INK,
        );
    }

    /// Height of the values alone.
    pub(super) fn height_of_labels(&self, panel_width: f64) -> f64 {
        LINE * self.rows_in(panel_width) as f64
    }

    /// Height of labels and name.
    pub(super) fn height(&self, panel_width: f64) -> f64 {
        46.0 + LINE * (self.rows_in(panel_width) - 1) as f64
    }

    fn rows(&self, panel: &Panel) -> usize {
        self.rows_in(panel.right - panel.left)
    }

    /// Rows in which words stand without touching, three at most.
    fn rows_in(&self, width: f64) -> usize {
        if self.is_scale {
            return 1;
        }
        let slot = width / self.places.len().max(1) as f64;
        let widest = self
            .labels
            .iter()
            .map(|label| Font::TICK.width(label))
            .fold(0.0, f64::max);
        let rows = ((widest + GAP) / slot).ceil().clamp(1.0, 3.0) as usize;
        rows.min(self.labels.len().max(1))
    }
}

/// The finite numbers to scale, and `inf` in a slot of its own at the right of them.
fn scaled_beside(mut numbers: Vec<f64>, endless: Option<usize>) -> Option<(Vec<f64>, bool)> {
    let Some(at) = endless else {
        return scaled(&numbers);
    };
    numbers.remove(at);
    let (mut places, is_log) = scaled(&numbers)?;
    places.iter_mut().for_each(|place| *place *= 1.0 - ENDLESS);
    places.insert(at, 1.0 - MARGIN);
    Some((places, is_log))
}

/// Numbers to scale, and whether the scale is logarithmic: the one that sets the nearest neighbours further apart, a
/// logarithm only where the values span it. `None` for one value, and where values would lie on one another.
fn scaled(numbers: &[f64]) -> Option<(Vec<f64>, bool)> {
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    let spread = |scale: fn(f64) -> f64| -> (Vec<f64>, f64) {
        let (low, high) = (scale(first), scale(last));
        let place = |number: &f64| (scale(*number) - low) / (high - low);
        let places: Vec<f64> = numbers.iter().map(place).collect();
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
        let nearest = gaps.fold(f64::INFINITY, f64::min);
        (places, nearest)
    };
    if last <= first {
        return None;
    }
    let (places, nearest) = spread(|value| value);
    let linear = (places, nearest, false);
    let (places, nearest, is_log) = match first > 0.0 && last / first >= SPAN {
        true => {
            let (places, nearest) = spread(f64::ln);
            if nearest > linear.1 {
                (places, nearest, true)
            } else {
                linear
            }
        }
        false => linear,
    };
    let inside = |place: f64| MARGIN + (1.0 - 2.0 * MARGIN) * place;
    (nearest >= CROWDED).then(|| (places.into_iter().map(inside).collect(), is_log))
}

/// What follows the last slash of a path or of a model's name.
pub(super) fn last_part(value: &str) -> String {
    let last = value.rsplit('/').next().unwrap_or(value);
    if last.is_empty() {
        value.to_owned()
    } else {
        last.to_owned()
    }
}

/// A word with its middle left out, no wider than `width`.
pub(super) fn shortened(word: &str, width: f64) -> String {
    let letters: Vec<char> = word.chars().collect();
    let cut = |kept: usize| -> String {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let head: String = letters[..head].iter().collect();
        let tail: String = letters[letters.len() - tail..].iter().collect();
        format!("{head}…{tail}")
    };
    if Font::TICK.width(word) <= width {
        return word.to_owned();
    }
    let fits = |kept: &usize| Font::TICK.width(&cut(*kept)) <= width;
    let kept = (2..letters.len()).rev().find(fits).unwrap_or(2);
    cut(kept.min(letters.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foot(values: &[&str]) -> Foot {
        Foot::of(&Swept {
            name: "x".to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        })
    }

    #[test]
    fn a_scale_is_logarithmic_where_that_sets_values_apart() {
        assert_eq!(
            foot(&["512", "1024", "2048", "4096", "8192"]).name,
            "x, logarithmic"
        );
        for linear in [
            &["2", "4", "6", "8", "10", "12", "14", "16"][..],
            &["1024", "2048"],
            &["0", "512", "8192"],
        ] {
            let foot = foot(linear);
            assert!(foot.is_scale && foot.name == "x", "{foot:?}");
        }
        assert!(
            !foot(&["0", "1", "100000"]).is_scale,
            "0 and 1 would be one point"
        );
    }

    #[test]
    fn a_rate_without_end_stands_apart_at_the_right() {
        let foot = foot(&["1", "8", "inf"]);
        assert!(foot.is_scale && foot.is_ordered, "{foot:?}");
        assert_eq!([0, 1, 2].map(|at| foot.is_apart(at)), [false, false, true]);
        assert!(foot.places[1] < 0.84 && foot.places[2] > 0.9, "{foot:?}");
    }

    #[test]
    fn words_and_shares_stand_side_by_side() {
        let policies = foot(&["fcfs", "lpm"]);
        assert_eq!(
            (policies.places.as_slice(), policies.is_ordered),
            (&[0.25, 0.75][..], false)
        );
        let shares = foot(&["1 : 3", "2 : 2"]);
        assert!(!shares.is_scale && shares.is_ordered);
        assert!(!foot(&["4"]).is_scale);
    }

    #[test]
    fn long_words_lose_their_middle() {
        assert_eq!(shortened("fcfs", 100.0), "fcfs");
        let short = shortened("a-very-long-name-of-a-policy", 80.0);
        assert!(
            short.starts_with("a-v") && short.contains('…') && Font::TICK.width(&short) <= 80.0,
            "{short}"
        );
        assert_eq!(last_part("meta-llama/Llama-3.1-8B"), "Llama-3.1-8B");
    }
}
