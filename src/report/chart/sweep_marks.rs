//! The marks of a sweep's panels: points with their intervals, the lines that join them, and what is written beside them.

use super::super::figures;
use super::super::sweep_view::{Kind, Standing, SweepFigure};
use super::panel::{EndLabel, Panel};
use super::place::Place;
use super::scene::{Anchor, Colour, Font, Picture};

/// What the points of a line look like: lines are told apart by their marks, also where colours are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Funnel,
    Plus,
    Cross,
}

impl Marker {
    /// Of lines in their order, as many as there are colours.
    pub(super) fn of(line: usize) -> Marker {
        const MARKERS: [Marker; 7] = [
            Marker::Circle,
            Marker::Square,
            Marker::Triangle,
            Marker::Diamond,
            Marker::Funnel,
            Marker::Plus,
            Marker::Cross,
        ];
        MARKERS[line % MARKERS.len()]
    }

    pub(super) fn draw(self, picture: &mut Picture, at: (f64, f64), radius: f64, colour: Colour) {
        match self.corners() {
            None => picture.dot(at, radius, colour),
            Some(corners) => {
                let corner = |(x, y): (f64, f64)| (at.0 + radius * x, at.1 + radius * y);
                picture.area(corners.into_iter().map(corner).collect(), colour);
            }
        }
    }

    /// With a white heart.
    pub(super) fn hollow(self, picture: &mut Picture, at: (f64, f64), radius: f64, colour: Colour) {
        self.draw(picture, at, radius, colour);
        self.draw(picture, at, radius - 1.5, Colour::WHITE);
    }

    /// Around the middle, of about the area of a circle of radius 1; `None` of a circle.
    fn corners(self) -> Option<Vec<(f64, f64)>> {
        /// Half the width of a bar of a plus, and half its length.
        const BAR: (f64, f64) = (0.5, 1.35);
        let plus = || {
            let (w, l) = BAR;
            let arm = [(-w, -l), (w, -l), (w, -w), (l, -w), (l, w), (w, w)];
            let other = arm.map(|(x, y)| (-x, -y));
            [arm, other].concat()
        };
        Some(match self {
            Marker::Circle => return None,
            Marker::Square => vec![(-0.95, -0.95), (0.95, -0.95), (0.95, 0.95), (-0.95, 0.95)],
            Marker::Triangle => vec![(0.0, -1.35), (1.25, 0.85), (-1.25, 0.85)],
            Marker::Funnel => vec![(0.0, 1.35), (1.25, -0.85), (-1.25, -0.85)],
            Marker::Diamond => vec![(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
            Marker::Plus => plus(),
            Marker::Cross => {
                let turned = |(x, y): (f64, f64)| ((x - y) * 0.5f64.sqrt(), (x + y) * 0.5f64.sqrt());
                plus().into_iter().map(turned).collect()
            }
        })
    }
}

/// A point of one panel in pixels.
pub(super) struct Mark {
    pub(super) at: (f64, f64),
    /// Heights of the interval's ends.
    pub(super) ends: (f64, f64),
    /// The interval goes on below the scale, so that its lower end is none.
    pub(super) is_open: bool,
    pub(super) value: f64,
    pub(super) standing: Standing,
    /// Off the scale of the foot, so that no line leads there.
    pub(super) is_apart: bool,
}

impl Mark {
    pub(super) fn draw(&self, picture: &mut Picture, colour: Colour, marker: Marker) {
        let (x, _) = self.at;
        // An interval within the dot is not seen.
        if self.ends.0 - self.ends.1 > 6.0 {
            let faint = colour.faded(0.55);
            picture.line(vec![(x, self.ends.0), (x, self.ends.1)], faint, 1.4);
            let lower = Some(self.ends.0).filter(|_| !self.is_open);
            for end in lower.into_iter().chain([self.ends.1]) {
                picture.line(vec![(x - 3.0, end), (x + 3.0, end)], faint, 1.4);
            }
        }
        match self.standing {
            Standing::Settled => marker.draw(picture, self.at, 3.2, colour),
            Standing::Unsure | Standing::Unstable => marker.hollow(picture, self.at, 3.8, colour),
        }
    }
}

/// The line through marks that have an order; dashed from and to what is unstable.
pub(super) fn join(picture: &mut Picture, marks: &[Mark], colour: Colour, is_ordered: bool) {
    let is_joined = |pair: &&[Mark]| is_ordered && pair.iter().all(|mark| !mark.is_apart);
    for pair in marks.windows(2).filter(is_joined) {
        let is_dashed = pair.iter().any(|mark| mark.standing == Standing::Unstable);
        match is_dashed {
            true => picture.dashes(pair[0].at, pair[1].at, colour, 1.4),
            false => picture.line(vec![pair[0].at, pair[1].at], colour, 2.0),
        }
    }
}

/// The value at a line's end; what is unstable has none that could be quoted, and says so.
pub(super) fn end_label(
    panel: &Panel,
    figure: &SweepFigure,
    marks: &[Mark],
    colour: Colour,
) -> Option<EndLabel> {
    let last = marks.last()?;
    Some(EndLabel {
        at: (panel.right, last.at.1),
        text: match last.standing {
            Standing::Unstable => "unstable".to_owned(),
            Standing::Settled | Standing::Unsure => written(figure, last.value),
        },
        colour,
    })
}

/// A value beside its mark.
pub(super) struct Told {
    text: String,
    /// Middle of its baseline.
    at: (f64, f64),
    pub(super) place: Place,
}

/// The value above each mark of words, below where the heading is near, and to the right of it where the foot is near, too; none of
/// what is unstable.
pub(super) fn values(panel: &Panel, figure: &SweepFigure, marks: &[Mark]) -> Vec<Told> {
    let told = |mark: &Mark| {
        let above = mark.ends.1.min(mark.at.1) - 8.0;
        let below = mark.ends.0.max(mark.at.1) + 16.0;
        let text = written(figure, mark.value);
        let half = Font::NOTE.width(&text) / 2.0 + 3.0;
        let (x, y) = if above - 10.0 >= panel.top {
            (mark.at.0, above)
        } else if below + 3.0 < panel.bottom {
            (mark.at.0, below)
        } else {
            (mark.at.0 + 6.0 + half, mark.at.1 + 4.0)
        };
        Told {
            at: (x, y),
            place: Place {
                left: x - half,
                top: y - 10.0,
                right: x + half,
                bottom: y + 3.0,
            },
            text,
        }
    };
    let quoted = marks.iter().filter(|mark| mark.standing != Standing::Unstable);
    quoted.map(told).collect()
}

/// Writes a value on white: a rule may pass there.
pub(super) fn tell(picture: &mut Picture, Told { text, at, place }: &Told) {
    picture.rectangle(
        (place.left, place.top),
        (place.right, place.bottom),
        Colour::WHITE,
    );
    picture.text(*at, text, Font::NOTE, Anchor::Middle, Colour::INK);
}

fn written(figure: &SweepFigure, value: f64) -> String {
    match figure.kind {
        Kind::Latency => figures::time(value),
        Kind::Rate => figures::significant(value),
        Kind::Share => figures::percent(value),
    }
}
