//! One coordinate system within a picture: grid, ticks, curves and their labels.

use super::axis::Axis;
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};

/// Space between a curve's end and its label.
const LABEL_GAP: f64 = 8.0;
/// Smallest distance between the baselines of two labels.
const LABEL_LINE: f64 = 16.0;

/// Rules of a panel that has names beside its limits, about so many.
const TICKS: usize = 5;

/// A rectangle of a picture with an axis along each side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

/// What stands beside the last point of a curve.
#[derive(Clone, Debug)]
pub(super) struct EndLabel {
    pub(super) at: (f64, f64),
    pub(super) text: String,
    pub(super) colour: Colour,
}

impl Panel {
    /// The pixel of a value pair, held inside the panel.
    pub(super) fn pixel(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            self.pixel_x(x),
            self.bottom - self.y.position(y) * (self.bottom - self.top),
        )
    }

    pub(super) fn pixel_x(&self, x: f64) -> f64 {
        self.left + self.x.position(x) * (self.right - self.left)
    }

    /// Horizontal rules with labels at their left, and the panel's heading above.
    pub(super) fn rules(&self, picture: &mut Picture, heading: &str, wanted: usize) {
        for (value, label) in self.y.ticks(wanted) {
            let (_, y) = self.pixel((self.x.low(), value));
            picture.line(vec![(self.left, y), (self.right, y)], Colour::RULE, 1.0);
            picture.text(
                (self.left - 8.0, y + 4.0),
                &label,
                Font::TICK,
                Anchor::End,
                Colour::GREY,
            );
        }
        picture.text(
            (self.left, self.top - 10.0),
            heading,
            Font::HEADING,
            Anchor::Start,
            Colour::INK,
        );
    }

    /// The line at the foot, with tick marks.
    pub(super) fn foot(&self, picture: &mut Picture, wanted: usize) {
        picture.line(
            vec![(self.left, self.bottom), (self.right, self.bottom)],
            Colour::AXIS,
            1.0,
        );
        for (value, _) in self.x.ticks(wanted) {
            let x = self.pixel_x(value);
            picture.line(vec![(x, self.bottom), (x, self.bottom + 4.0)], Colour::AXIS, 1.0);
        }
    }

    /// Labels under the foot, and the name of the axis under them. A label that would touch its neighbour is left out.
    pub(super) fn foot_labels(&self, picture: &mut Picture, name: &str, wanted: usize) {
        let mut free_from = f64::NEG_INFINITY;
        for (value, label) in self.x.ticks(wanted) {
            let (x, half) = (self.pixel_x(value), Font::TICK.width(&label) / 2.0);
            if x - half < free_from {
                continue;
            }
            free_from = x + half + 6.0;
            picture.text(
                (x, self.bottom + 18.0),
                &label,
                Font::TICK,
                Anchor::Middle,
                Colour::GREY,
            );
        }
        let middle = (self.left + self.right) / 2.0;
        picture.text(
            (middle, self.bottom + 38.0),
            name,
            Font::SUBTITLE,
            Anchor::Middle,
            Colour::INK,
        );
    }

    /// A curve through value pairs; points that are not finite are left out.
    pub(super) fn curve(&self, picture: &mut Picture, points: &[(f64, f64)], colour: Colour, width: f64) {
        picture.line(self.pixels(points), colour, width);
    }

    /// The pixels of those value pairs that are finite.
    pub(super) fn pixels(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        finite.map(|&point| self.pixel(point)).collect()
    }

    /// A dashed rule over the whole width, with its name above the right (or left) end.
    pub(super) fn limit(&self, picture: &mut Picture, y: f64, name: &str, anchor: Anchor) {
        if !self.y.shows(y) {
            return;
        }
        let (_, height) = self.pixel((self.x.low(), y));
        picture.dashes((self.left, height), (self.right, height), Colour::INK, 1.2);
        let x = if anchor == Anchor::End {
            self.right - 4.0
        } else {
            self.left + 4.0
        };
        picture.text((x, height - 5.0), name, Font::NOTE, anchor, Colour::INK);
    }

    /// Limits as dashed lines, each with its name above or below it where least is `drawn`, as pixels, and no other name stands.
    pub(super) fn limits(&self, picture: &mut Picture, limits: &[(f64, String)], drawn: &[(f64, f64)]) {
        /// Distance between two places that are tried along a line.
        const STEP: f64 = 12.0;
        let shown = limits.iter().filter(|(y, _)| self.y.shows(*y));
        let shown: Vec<(f64, &str)> = shown
            .map(|(y, name)| (self.pixel((self.x.low(), *y)).1, name.as_str()))
            .collect();
        let lines = shown
            .iter()
            .flat_map(|&(y, _)| dense(&[(self.left, y), (self.right, y)]));
        let ticks = self.y.ticks(TICKS).into_iter();
        let rules = ticks.flat_map(|(value, _)| {
            let (_, y) = self.pixel((self.x.low(), value));
            dense(&[(self.left, y), (self.right, y)])
        });
        // A rule behind a name is less of a pity than a curve.
        let (lines, rules): (Vec<_>, Vec<_>) = (lines.collect(), rules.collect());
        let page = Place {
            left: self.left,
            top: self.top,
            right: self.right,
            bottom: self.bottom,
        };
        let mut taken: Vec<Place> = Vec::new();
        for &(height, name) in &shown {
            picture.dashes((self.left, height), (self.right, height), Colour::INK, 1.2);
            let width = Font::NOTE.width(name);
            let places = ((self.right - self.left - width - 8.0) / STEP).max(0.0) as usize;
            let candidates = (0..=places).flat_map(|place| {
                let left = self.left + 4.0 + STEP * place as f64;
                [height - 16.0, height + 4.0].map(|top| Place {
                    left,
                    top,
                    right: left + width,
                    bottom: top + 12.0,
                })
            });
            let cost = |place: &Place| {
                8 * place.covers(drawn, 2.0) + 8 * place.covers(&lines, 0.0) + place.covers(&rules, 0.0)
            };
            if let Some(place) = best(candidates, cost, &taken, &page) {
                taken.push(place);
                let at = (place.left, place.bottom - 1.0);
                picture.text(at, name, Font::NOTE, Anchor::Start, Colour::INK);
            }
        }
    }

    /// Writes labels to the right of the curves' ends, moved apart where they would overlap.
    pub(super) fn end_labels(&self, picture: &mut Picture, mut labels: Vec<EndLabel>) {
        labels.sort_by(|a, b| a.at.1.total_cmp(&b.at.1));
        let wanted: Vec<f64> = labels.iter().map(|label| label.at.1).collect();
        let placed = spread(&wanted, LABEL_LINE, (self.top, self.bottom));
        for (label, y) in labels.iter().zip(placed) {
            let x = label.at.0 + LABEL_GAP;
            picture.text(
                (x, y + 4.0),
                &label.text,
                Font::LABEL,
                Anchor::Start,
                label.colour,
            );
        }
    }
}

/// Heights at least `gap` apart, in the order given (ascending), near the wanted ones and within the limits if they fit.
fn spread(wanted: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    // Neighbours that are too close become a cluster around their mean; clusters that touch are merged.
    let mut clusters: Vec<(f64, usize)> = Vec::new();
    for &height in wanted {
        clusters.push((height, 1));
        while let [.., (above, above_size), (below, below_size)] = clusters[..] {
            let needed = gap * (above_size + below_size) as f64 / 2.0;
            if below - above >= needed {
                break;
            }
            let size = above_size + below_size;
            let mean = (above * above_size as f64 + below * below_size as f64) / size as f64;
            let half = gap * (size - 1) as f64 / 2.0;
            clusters.truncate(clusters.len() - 2);
            clusters.push((mean.min(high - half).max(low + half), size));
        }
    }
    let cluster = |(middle, size): (f64, usize)| {
        (0..size).map(move |index| middle + gap * (index as f64 - (size - 1) as f64 / 2.0))
    };
    clusters.into_iter().flat_map(cluster).collect()
}

/// Title and subtitle at a picture's head; returns the height below them.
pub(super) fn head(picture: &mut Picture, left: f64, subtitle: &str) -> f64 {
    let width = picture.width - left - 24.0;
    let mut y = 32.0;
    for line in wrapped(&picture.title.clone(), Font::TITLE, width) {
        picture.text((left, y), &line, Font::TITLE, Anchor::Start, Colour::INK);
        y += 22.0;
    }
    for line in wrapped(subtitle, Font::SUBTITLE, width) {
        picture.text((left, y), &line, Font::SUBTITLE, Anchor::Start, Colour::GREY);
        y += 17.0;
    }
    y
}

/// Breaks a text at spaces into lines no wider than `width`; a word that is wider is broken where it must be.
pub(super) fn wrapped(text: &str, font: Font, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if font.width(&format!("{line} {word}")) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(broken(word, font, width)),
        }
    }
    lines
}

/// A word in pieces no wider than `width`, of a letter at least.
fn broken(word: &str, font: Font, width: f64) -> Vec<String> {
    if font.width(word) <= width {
        return vec![word.to_owned()];
    }
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let last = pieces.len() - 1;
        let longer = format!("{}{letter}", pieces[last]);
        if pieces[last].is_empty() || font.width(&longer) <= width {
            pieces[last] = longer;
        } else {
            pieces.push(letter.to_string());
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_as_little_as_needed() {
        assert_eq!(spread(&[10.0, 50.0], 16.0, (0.0, 100.0)), [10.0, 50.0]);
        assert_eq!(spread(&[20.0, 22.0], 16.0, (0.0, 100.0)), [13.0, 29.0]);
        assert_eq!(spread(&[2.0, 2.0, 2.0], 16.0, (0.0, 100.0)), [0.0, 16.0, 32.0]);
        assert_eq!(spread(&[], 16.0, (0.0, 100.0)), [0.0; 0]);
    }

    #[test]
    fn long_titles_are_wrapped() {
        let lines = wrapped("one two three four", Font::TITLE, 80.0);
        assert!(
            lines.len() > 1 && lines.iter().all(|line| Font::TITLE.width(line) <= 80.0),
            "{lines:?}"
        );
        let lines = wrapped("a path/to/a/profile.toml", Font::NOTE, 60.0);
        assert!(
            lines.iter().all(|line| Font::NOTE.width(line) <= 60.0),
            "{lines:?}"
        );
        assert_eq!(lines.concat(), "apath/to/a/profile.toml");
    }
}
