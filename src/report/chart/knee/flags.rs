//! The names of the knee and of saturation above the first panel, with their rates and intervals.

use super::FIRST_HEADING;
use crate::analysis::Estimate;
use crate::report::chart::panel::Panel;
use crate::report::chart::scene::{Anchor, Colour, Font, Picture};
use crate::report::figures;
use crate::report::views::KneeView;

/// Height above the first panel at which a name ends.
const FLAG_FOOT: f64 = 30.0;

/// The names of the knee and of saturation above the first panel, each beside its line: the knee's to the left where there is
/// room, saturation's to the right of its line and of the other name.
pub(super) fn flags(picture: &mut Picture, view: &KneeView, panel: &Panel) {
    let flag = |estimate: Estimate, told: String| Flag::bracketed(estimate, told, view);
    // Whoever sends as much as the knee must be within it.
    let knee = view.knee.map(|knee| {
        let told = format!("knee {}", view.of.told(knee.value));
        (knee, flag(knee, told))
    });
    let mut taken = panel.left;
    if let Some((knee, flag)) = &knee {
        let line = panel.pixel_x(knee.value);
        let left = line - 6.0 - flag.width;
        let x = if left >= panel.left { left } else { line + 6.0 };
        taken = x + flag.width;
        flag.draw(picture, panel, (x, line), Colour::BLUE, None);
    }
    if let Some(saturation) = view.ceiling() {
        let name = match view.client {
            Some(_) => "the client pushes at most",
            None => "saturates at",
        };
        let flag = view.saturates_below().map_or_else(
            || {
                flag(
                    saturation,
                    format!("{name} {} req/s", figures::significant(saturation.value)),
                )
            },
            Flag::open,
        );
        let line = panel.pixel_x(saturation.value);
        let room = picture.width - 12.0 - flag.width;
        let beside = knee
            .as_ref()
            .map_or(line + 6.0, |_| (line + 6.0).max(taken + 12.0));
        // Its line begins below the other name where it would run through it.
        let below = knee.as_ref().filter(|_| line < taken + 6.0).map(|_| FLAG_FOOT);
        flag.draw(
            picture,
            panel,
            (beside.min(room), line),
            Colour::VERMILLION,
            below,
        );
    }
}

/// A name with its rate and its interval, in two lines.
struct Flag {
    lines: [(String, Font); 2],
    width: f64,
}

impl Flag {
    /// A load that was bracketed, `told` as its name and figure.
    fn bracketed(estimate: Estimate, told: String, view: &KneeView) -> Flag {
        let interval = view.of.interval(estimate);
        Flag::of(told, format!("{} {interval}", view.certainty()))
    }

    /// Saturation that nothing bounds from below.
    fn open(high: f64) -> Flag {
        Flag::of(
            format!("saturates below {} req/s", figures::significant(high)),
            "none was seen to be stable".to_owned(),
        )
    }

    fn of(first: String, second: String) -> Flag {
        Flag {
            width: Font::LABEL.width(&first).max(Font::NOTE.width(&second)),
            lines: [(first, Font::LABEL), (second, Font::NOTE)],
        }
    }

    /// Writes it at `x` beside its line, which begins above the words, or so far above the panel.
    fn draw(
        &self,
        picture: &mut Picture,
        panel: &Panel,
        (x, line): (f64, f64),
        colour: Colour,
        below: Option<f64>,
    ) {
        for (index, (text, font)) in self.lines.iter().enumerate() {
            let at = (x, panel.top - 54.0 + 16.0 * index as f64);
            picture.text(at, text, *font, Anchor::Start, colour);
        }
        // The heading of the panel stands between the flag and the panel.
        let heading = panel.left + Font::HEADING.width(FIRST_HEADING) + 6.0;
        let foot = if line < heading { 26.0 } else { 0.0 };
        let top = panel.top - below.unwrap_or(64.0);
        picture.line(vec![(line, top), (line, panel.top - foot)], colour, 1.5);
    }
}
