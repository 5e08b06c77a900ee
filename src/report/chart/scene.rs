//! A picture as a list of shapes in nominal pixels, y downwards: what charts make and `canvas` draws.

use super::canvas;

/// A finished chart.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The sentence that the chart says, for readers who cannot see it too.
    pub title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

impl Picture {
    pub(super) fn new(title: &str, width: f64, height: f64) -> Picture {
        Picture {
            title: title.to_string(),
            width,
            height,
            shapes: Vec::new(),
        }
    }

    /// An SVG document; equal charts give equal bytes.
    #[must_use]
    pub fn svg(&self) -> String {
        canvas::svg(self)
    }

    /// A PNG image of twice the nominal size.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        canvas::png(self)
    }

    pub(super) fn line(&mut self, points: Vec<(f64, f64)>, colour: Colour, width: f64) {
        if points.len() > 1 {
            self.shapes.push(Shape::Line {
                points,
                colour,
                width,
            });
        }
    }

    /// A straight dashed line: dashes of 5 pixels, gaps of 4.
    pub(super) fn dashes(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour, width: f64) {
        const DASH: f64 = 5.0;
        const PERIOD: f64 = 9.0;
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |distance: f64| {
            let part = (distance / length).min(1.0);
            (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1))
        };
        let mut start = 0.0;
        while start < length {
            self.line(vec![at(start), at(start + DASH)], colour, width);
            start += PERIOD;
        }
    }

    pub(super) fn area(&mut self, points: Vec<(f64, f64)>, colour: Colour) {
        self.shapes.push(Shape::Area { points, colour });
    }

    pub(super) fn rectangle(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), colour: Colour) {
        self.area(
            vec![(left, top), (right, top), (right, bottom), (left, bottom)],
            colour,
        );
    }

    pub(super) fn dot(&mut self, at: (f64, f64), radius: f64, colour: Colour) {
        self.shapes.push(Shape::Dot { at, radius, colour });
    }

    /// A dot with a white heart.
    pub(super) fn ring(&mut self, at: (f64, f64), radius: f64, colour: Colour) {
        self.dot(at, radius, colour);
        self.dot(at, radius - 1.5, Colour::WHITE);
    }

    pub(super) fn text(&mut self, at: (f64, f64), text: &str, font: Font, anchor: Anchor, colour: Colour) {
        let Font { size, weight } = font;
        self.shapes.push(Shape::Text {
            at,
            text: text.to_string(),
            size,
            weight,
            anchor,
            colour,
        });
    }
}

/// One thing to draw.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        colour: Colour,
        width: f64,
    },
    Area {
        points: Vec<(f64, f64)>,
        colour: Colour,
    },
    Dot {
        at: (f64, f64),
        radius: f64,
        colour: Colour,
    },
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        weight: Weight,
        anchor: Anchor,
        colour: Colour,
    },
}

/// Where a text's anchor lies on its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Regular or semi-bold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

/// Size in pixels per em, and weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) weight: Weight,
}

impl Font {
    pub(super) const TITLE: Font = Font {
        size: 17.0,
        weight: Weight::Bold,
    };
    pub(super) const SUBTITLE: Font = Font {
        size: 12.5,
        weight: Weight::Regular,
    };
    pub(super) const HEADING: Font = Font {
        size: 12.5,
        weight: Weight::Bold,
    };
    pub(super) const LABEL: Font = Font {
        size: 12.0,
        weight: Weight::Bold,
    };
    pub(super) const NOTE: Font = Font {
        size: 11.5,
        weight: Weight::Regular,
    };
    pub(super) const TICK: Font = Font {
        size: 11.5,
        weight: Weight::Regular,
    };

    pub(super) fn width(self, text: &str) -> f64 {
        canvas::text_width(text, self.size, self.weight)
    }
}

/// A colour with opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Colour {
    pub(super) red: u8,
    pub(super) green: u8,
    pub(super) blue: u8,
    pub(super) alpha: f64,
}

/// Okabe and Ito's palette, safe for colour-blind readers, and the greys of axes.
impl Colour {
    pub(super) const WHITE: Colour = Colour::opaque(255, 255, 255);
    pub(super) const BLUE: Colour = Colour::opaque(0, 114, 178);
    pub(super) const VERMILLION: Colour = Colour::opaque(213, 94, 0);
    pub(super) const GREEN: Colour = Colour::opaque(0, 158, 115);
    pub(super) const PURPLE: Colour = Colour::opaque(204, 121, 167);
    pub(super) const ORANGE: Colour = Colour::opaque(230, 159, 0);
    pub(super) const SKY: Colour = Colour::opaque(86, 180, 233);
    pub(super) const INK: Colour = Colour::opaque(34, 34, 34);
    pub(super) const GREY: Colour = Colour::opaque(96, 96, 96);
    pub(super) const RULE: Colour = Colour::opaque(225, 225, 225);
    pub(super) const AXIS: Colour = Colour::opaque(150, 150, 150);

    const fn opaque(red: u8, green: u8, blue: u8) -> Colour {
        Colour {
            red,
            green,
            blue,
            alpha: 1.0,
        }
    }

    pub(super) const fn faded(self, alpha: f64) -> Colour {
        Colour { alpha, ..self }
    }
}
