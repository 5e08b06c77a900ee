//! The only user of the drawing library: scenes to SVG text and PNG bytes.
//!
//! The library snaps every coordinate to an integer, so a scene is drawn on a finer canvas than asked for: eight times
//! for SVG, whose `width` and `height` are then rewritten while `viewBox` stays, and six times for PNG, averaged down to
//! twice the nominal size. Text is placed by its baseline, which the two back ends define differently.
//! Leaves out: kerning, rotated text, dashes (scenes cut their own).

use std::sync::Once;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, RGBAColor, ShapeStyle, TextStyle, register_font};

use super::png;
use super::scene::{Anchor, Colour, Picture, Shape, Weight};

/// Canvas units of an SVG per nominal pixel.
const SVG_SCALE: f64 = 8.0;
/// Canvas pixels of a PNG per nominal pixel, before averaging.
const PNG_SCALE: u32 = 6;
/// PNG pixels per nominal pixel.
const PNG_DENSITY: u32 = 2;
/// The embedded font comes first, so that a viewer who has Inter sees what was laid out.
const FAMILY: &str = "Inter, Helvetica, Arial, sans-serif";
/// What the library divides a font size by before it writes it into an SVG.
const SVG_SIZE_PER_EM: f64 = 1.24;
/// Ascent plus descent of Inter in em: the rasteriser's notion of a font's size.
const INTER_HEIGHT_PER_EM: f64 = 3408.0 / 2816.0;
/// Baseline of top-anchored SVG text below its anchor, in em (`dy="0.76em"`).
const SVG_TOP_TO_BASELINE: f64 = 0.76;

const CANNOT_FAIL: &str = "drawing into memory with an embedded font has no way to fail";

/// Draws a scene as an SVG document.
pub(super) fn svg(picture: &Picture) -> String {
    let (width, height) = (picture.width, picture.height);
    let size = (
        (width * SVG_SCALE).round() as u32,
        (height * SVG_SCALE).round() as u32,
    );
    let mut text = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut text, size);
        let pen = Pen {
            scale: SVG_SCALE,
            size_per_em: SVG_SIZE_PER_EM,
            baseline: |em, _| SVG_TOP_TO_BASELINE * em,
        };
        pen.draw(&mut backend, picture);
        backend.present().expect(CANNOT_FAIL);
    }
    let canvas = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let nominal =
        format!("<svg width=\"{width}\" height=\"{height}\" role=\"img\" stroke-linejoin=\"round\"");
    let named = text.replacen(&canvas, &nominal, 1);
    named.replacen(
        ">\n",
        &format!(">\n<title>{}</title>\n", escape(&picture.title)),
        1,
    )
}

/// Draws a scene as a PNG image of twice its nominal size.
pub(super) fn png(picture: &Picture) -> Vec<u8> {
    let size = (
        picture.width.round() as u32 * PNG_SCALE,
        picture.height.round() as u32 * PNG_SCALE,
    );
    let mut pixels = vec![255u8; size.0 as usize * size.1 as usize * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut pixels, size);
        let baseline = |_, size: f64| (size / 2.0).floor();
        let pen = Pen {
            scale: f64::from(PNG_SCALE),
            size_per_em: INTER_HEIGHT_PER_EM,
            baseline,
        };
        pen.draw(&mut backend, picture);
        backend.present().expect(CANNOT_FAIL);
    }
    let factor = (PNG_SCALE / PNG_DENSITY) as usize;
    let (width, averaged) = average(&pixels, size.0 as usize, factor);
    png::encode(width as u32, &averaged)
}

/// Width of a line of text in nominal pixels.
pub(super) fn text_width(text: &str, size: f64, weight: Weight) -> f64 {
    /// Widths come back as integers: measure large and scale.
    const MEASURED_AT: f64 = 1000.0;
    let (width, _) = font(MEASURED_AT * INTER_HEIGHT_PER_EM, weight)
        .box_size(text)
        .expect(CANNOT_FAIL);
    f64::from(width) * size / MEASURED_AT
}

/// How one back end wants its numbers.
struct Pen {
    scale: f64,
    /// Library font size per em.
    size_per_em: f64,
    /// Distance from the top anchor to the baseline, from the em and the library font size in canvas units.
    baseline: fn(f64, f64) -> f64,
}

impl Pen {
    fn draw<B: DrawingBackend>(&self, backend: &mut B, picture: &Picture) {
        let page = [
            (0.0, 0.0),
            (picture.width, 0.0),
            (picture.width, picture.height),
            (0.0, picture.height),
        ];
        backend
            .fill_polygon(self.points(&page), &rgba(Colour::WHITE))
            .expect(CANNOT_FAIL);
        for shape in &picture.shapes {
            self.shape(backend, shape);
        }
    }

    fn shape<B: DrawingBackend>(&self, backend: &mut B, shape: &Shape) {
        match shape {
            Shape::Line {
                points,
                colour,
                width,
            } => {
                let stroke_width = (width * self.scale).round().max(1.0) as u32;
                let style = ShapeStyle {
                    color: rgba(*colour),
                    filled: false,
                    stroke_width,
                };
                backend.draw_path(self.points(points), &style).expect(CANNOT_FAIL);
            }
            Shape::Area { points, colour } => {
                backend
                    .fill_polygon(self.points(points), &rgba(*colour))
                    .expect(CANNOT_FAIL);
            }
            Shape::Dot { at, radius, colour } => {
                let radius = (radius * self.scale).round().max(1.0) as u32;
                backend
                    .draw_circle(self.point(*at), radius, &rgba(*colour), true)
                    .expect(CANNOT_FAIL);
            }
            Shape::Text {
                at,
                text,
                size,
                weight,
                anchor,
                colour,
            } => {
                let em = size * self.scale;
                let font_size = em * self.size_per_em;
                let raised = (
                    at.0 * self.scale,
                    at.1 * self.scale - (self.baseline)(em, font_size),
                );
                let horizontal = match anchor {
                    Anchor::Start => HPos::Left,
                    Anchor::Middle => HPos::Center,
                    Anchor::End => HPos::Right,
                };
                let colour = rgba(*colour);
                let pos = Pos::new(horizontal, VPos::Top);
                let style = TextStyle::from(font(font_size, *weight)).color(&colour).pos(pos);
                backend
                    .draw_text(text, &style, (rounded(raised.0), rounded(raised.1)))
                    .expect(CANNOT_FAIL);
            }
        }
    }

    fn point(&self, at: (f64, f64)) -> (i32, i32) {
        (rounded(at.0 * self.scale), rounded(at.1 * self.scale))
    }

    /// Neighbours that fall on one canvas point are dropped: the rasteriser cannot join a stroke of no length.
    fn points(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        let mut canvas: Vec<(i32, i32)> = points.iter().map(|&at| self.point(at)).collect();
        canvas.dedup();
        canvas
    }
}

fn rounded(value: f64) -> i32 {
    value.round() as i32
}

fn rgba(colour: Colour) -> RGBAColor {
    RGBAColor(colour.red, colour.green, colour.blue, colour.alpha)
}

fn font(size: f64, weight: Weight) -> FontDesc<'static> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let regular = include_bytes!("../../../assets/fonts/Inter-Regular-Latin.otf");
        let semibold = include_bytes!("../../../assets/fonts/Inter-SemiBold-Latin.otf");
        for (style, bytes) in [
            (FontStyle::Normal, &regular[..]),
            (FontStyle::Bold, &semibold[..]),
        ] {
            assert!(
                register_font(FAMILY, style, bytes).is_ok(),
                "the embedded font is a valid OpenType file"
            );
        }
    });
    let style = match weight {
        Weight::Regular => FontStyle::Normal,
        Weight::Bold => FontStyle::Bold,
    };
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// Averages squares of `factor` × `factor` pixels; returns the new width in pixels and the image.
fn average(pixels: &[u8], width: usize, factor: usize) -> (usize, Vec<u8>) {
    let (columns, rows) = (width / factor, pixels.len() / 3 / width / factor);
    let mut averaged = Vec::with_capacity(columns * rows * 3);
    let mut sums = vec![0u32; columns * 3];
    for band in pixels.chunks_exact(width * 3 * factor).take(rows) {
        sums.fill(0);
        for line in band.chunks_exact(width * 3) {
            for (column, square) in line.chunks_exact(factor * 3).take(columns).enumerate() {
                for (index, value) in square.iter().enumerate() {
                    sums[column * 3 + index % 3] += u32::from(*value);
                }
            }
        }
        averaged.extend(sums.iter().map(|sum| (sum / (factor * factor) as u32) as u8));
    }
    (columns, averaged)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averaging_halves_both_sides() {
        let black_and_white = [0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert_eq!(average(&black_and_white, 2, 2), (1, vec![191, 191, 191]));
    }

    #[test]
    fn text_is_measured_with_the_embedded_font() {
        let narrow = text_width("iii", 12.0, Weight::Regular);
        let wide = text_width("MMM", 12.0, Weight::Regular);
        assert!(
            narrow < wide / 2.0 && wide > 24.0 && wide < 36.0,
            "{narrow} {wide}"
        );
    }
}
