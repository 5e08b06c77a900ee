//! Settings side by side: one row each with a dot and its interval, the best on top; those that cannot be told from it on a band of
//! their own, and those without a rank in grey with their reason.

use super::super::figures::counted;
use super::super::knees::{Measure, Ranked, Ranking};
use super::super::sought::Sought;
use super::axis::{Axis, Quantity};
use super::panel::{Panel, head, wrapped};
use super::scene::{Anchor, Colour, Font, Picture};
use super::sweep_foot::shortened;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 24.0;
/// A row of one line.
const ROW: f64 = 26.0;
/// From one line of a row to the next.
const LINE: f64 = 15.0;
/// Widest that names are before they take several lines.
const NAMES: f64 = 250.0;
/// Most settings that are drawn, and most that are listed without a rank.
const DRAWN: usize = 60;
const LISTED: usize = 30;

/// All settings by rank.
#[must_use]
pub fn ranking(ranking: &Ranking) -> Picture {
    let mut picture = Picture::new(&ranking.title, WIDTH, 0.0);
    let top = head(&mut picture, LEFT, &ranking.said.join(" · ")) + 14.0;
    let rows = &ranking.ranked[..ranking.ranked.len().min(DRAWN)];
    let panel = panel(ranking, rows, top);
    let mut y = top;
    if !rows.is_empty() {
        y = draw_ranked(&mut picture, ranking, rows, panel);
    }
    y = list_others(&mut picture, ranking, panel.left, y + 8.0);
    picture.height = y + 18.0;
    picture
}

/// The rectangle of the dots, whose foot is set when all rows are.
fn panel(ranking: &Ranking, rows: &[Ranked], top: f64) -> Panel {
    let widest = |texts: &mut dyn Iterator<Item = &str>, font: Font| {
        texts.map(|text| font.width(text)).fold(0.0, f64::max)
    };
    let others = ranking.others.iter().take(LISTED).map(|(name, _)| name);
    let mut names = rows.iter().map(|row| &row.name).chain(others).map(String::as_str);
    let names = widest(&mut names, Font::NOTE).max(Font::HEADING.width(&ranking.axes));
    let figures = widest(&mut rows.iter().map(|row| row.figures.as_str()), Font::NOTE);
    let values = rows
        .iter()
        .flat_map(|row| [row.value, row.interval.0, row.interval.1]);
    Panel {
        left: LEFT + names.clamp(40.0, NAMES) + 16.0,
        top,
        right: WIDTH - LEFT - figures - 18.0,
        bottom: top,
        x: Axis::log(values, Quantity::Number),
        y: Axis::fixed(0.0, 1.0, Quantity::Number),
    }
}

/// The rows that have a rank in their two groups, over one axis; returns the height below it.
fn draw_ranked(picture: &mut Picture, ranking: &Ranking, rows: &[Ranked], mut panel: Panel) -> f64 {
    const TICKS: usize = 6;
    const HEADING: f64 = 24.0;
    picture.text(
        (LEFT, panel.top + 12.0),
        &shortened(&ranking.axes, panel.left - LEFT - 10.0),
        Font::HEADING,
        Anchor::Start,
        Colour::INK,
    );
    let (alike, apart) = rows.split_at(rows.iter().take_while(|row| row.is_alike).count());
    let [alike_are, apart_are] = said(ranking.measure, alike.len());
    let heights = |rows: &[Ranked]| rows.iter().map(|row| height(&row.name, panel.left)).sum::<f64>();
    let first = panel.top + HEADING + heights(alike);
    let second = match apart.is_empty() {
        true => first,
        false => first + HEADING + 6.0 + heights(apart),
    };
    panel.bottom = second + 6.0;
    let band = Colour::GREEN.faded(0.1);
    picture.rectangle(
        (LEFT - 8.0, panel.top + HEADING - 3.0),
        (WIDTH - LEFT + 8.0, first + 1.0),
        band,
    );
    rules(picture, &panel, HEADING, TICKS);
    picture.text(
        (panel.left, panel.top + 12.0),
        alike_are,
        Font::HEADING,
        Anchor::Start,
        Colour::GREEN,
    );
    let mut y = panel.top + HEADING;
    for row in alike {
        y = draw(picture, &panel, row, Colour::GREEN, y);
    }
    if !apart.is_empty() {
        // On white: rules pass there.
        let width = Font::HEADING.width(apart_are) + 6.0;
        picture.rectangle(
            (panel.left - 3.0, y + 7.0),
            (panel.left + width, y + 24.0),
            Colour::WHITE,
        );
        picture.text(
            (panel.left, y + 20.0),
            apart_are,
            Font::HEADING,
            Anchor::Start,
            Colour::INK,
        );
        y += HEADING + 6.0;
        for row in apart {
            y = draw(picture, &panel, row, Colour::BLUE, y);
        }
    }
    let more = ranking.ranked.len() - rows.len();
    if more > 0 {
        let told = format!(
            "{} more: the table, CSV and JSON have them",
            counted(more as u64, "setting")
        );
        picture.text(
            (panel.left, y + 16.0),
            &told,
            Font::NOTE,
            Anchor::Start,
            Colour::GREY,
        );
        panel.bottom = y + 26.0;
    }
    panel.foot(picture, TICKS);
    let name = axis(ranking.measure, rows);
    panel.foot_labels(picture, &name, TICKS);
    panel.bottom + 48.0
}

/// What the two groups are.
fn said(measure: Measure, alike: usize) -> [&'static str; 2] {
    match (measure, alike) {
        (Measure::Served(_), 1) => ["serves the most", "serve less"],
        (Measure::Served(_), _) => ["serves the most, and what cannot be told from it", "serve less"],
        (_, 1) => ["cheapest", "dearer"],
        (_, _) => ["cheapest, and what cannot be told from it", "dearer"],
    }
}

fn axis(measure: Measure, rows: &[Ranked]) -> String {
    let unit = match measure {
        Measure::MillionTokens => "$ per million output tokens, 90 % interval",
        Measure::Hour => "$ per hour, 90 % interval",
        Measure::UserHour => "$ per hour of a user, 90 % interval",
        Measure::Served(Sought::Rate) => "requests per second within the SLO, interval by chance",
        Measure::Served(Sought::InFlight) => "requests in flight within the SLO, interval by chance",
        Measure::Served(Sought::Users) => "users within the SLO, interval by chance",
    };
    let chance = match rows.iter().any(|row| row.is_by_chance) {
        true => " (thin: by chance alone)",
        false => "",
    };
    format!("{unit}{chance}, logarithmic")
}

/// Vertical rules at the ticks, below the headings.
fn rules(picture: &mut Picture, panel: &Panel, below: f64, ticks: usize) {
    for (value, _) in panel.x.ticks(ticks) {
        let x = panel.pixel_x(value);
        picture.line(vec![(x, panel.top + below), (x, panel.bottom)], Colour::RULE, 1.0);
    }
}

/// A setting; returns the height below it.
fn draw(picture: &mut Picture, panel: &Panel, row: &Ranked, colour: Colour, top: f64) -> f64 {
    let lines = lines(&row.name, panel.left);
    let bottom = top + height(&row.name, panel.left);
    let middle = (top + bottom) / 2.0;
    let mut y = middle + 4.0 - LINE * (lines.len() - 1) as f64 / 2.0;
    for line in &lines {
        picture.text((LEFT, y), line, Font::NOTE, Anchor::Start, Colour::INK);
        y += LINE;
    }
    let (low, high) = row.interval;
    let x = |value: f64| panel.pixel_x(value);
    let width = if row.is_by_chance { 1.0 } else { 2.0 };
    picture.line(vec![(x(low), middle), (x(high), middle)], colour, width);
    // An end that is open, or beyond what the axis shows, is an arrowhead.
    for (end, sign) in [(low, -1.0), (high, 1.0)] {
        if !panel.x.shows(end) {
            let (tip, back) = (x(end), x(end) - 9.0 * sign);
            picture.area(
                vec![(tip, middle), (back, middle - 5.0), (back, middle + 5.0)],
                colour,
            );
        }
    }
    picture.dot((x(row.value), middle), 4.0, colour);
    picture.text(
        (panel.right + 14.0, middle + 4.0),
        &row.figures,
        Font::NOTE,
        Anchor::Start,
        colour,
    );
    bottom
}

/// What has no rank, with its reason; returns the height below it.
fn list_others(picture: &mut Picture, ranking: &Ranking, left: f64, mut y: f64) -> f64 {
    /// Lines of a reason.
    const LINES: usize = 2;
    if ranking.others.is_empty() {
        return y;
    }
    picture.text(
        (LEFT, y + 14.0),
        "without a rank",
        Font::HEADING,
        Anchor::Start,
        Colour::GREY,
    );
    y += 22.0;
    for (name, why) in ranking.others.iter().take(LISTED) {
        let names = lines(name, left);
        let mut reason = wrapped(why, Font::NOTE, WIDTH - LEFT - left);
        if reason.len() > LINES {
            reason.truncate(LINES);
            reason[LINES - 1].push_str(" …");
        }
        for (x, lines) in [(LEFT, &names), (left, &reason)] {
            for (at, line) in lines.iter().enumerate() {
                let at = (x, y + 14.0 + LINE * at as f64);
                picture.text(at, line, Font::NOTE, Anchor::Start, Colour::GREY);
            }
        }
        y += LINE * names.len().max(reason.len()) as f64 + 5.0;
    }
    let more = ranking.others.len().saturating_sub(LISTED);
    if more > 0 {
        let told = format!(
            "{} more: CSV and JSON have them all",
            counted(more as u64, "setting")
        );
        picture.text((LEFT, y + 14.0), &told, Font::NOTE, Anchor::Start, Colour::GREY);
        y += LINE + 5.0;
    }
    y
}

/// A name as it stands left of the panel.
fn lines(name: &str, left: f64) -> Vec<String> {
    wrapped(name, Font::NOTE, left - LEFT - 12.0)
}

fn height(name: &str, left: f64) -> f64 {
    ROW + LINE * (lines(name, left).len().max(1) - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures;
    use super::*;

    #[test]
    fn every_setting_is_drawn_or_listed_and_those_alike_are_of_one_colour() {
        let of = fixtures::ranking(6, 2);
        let svg = ranking(&of).svg();
        let dots = |colour: &str| {
            let circles = svg.split('<').filter(|tag| tag.starts_with("circle"));
            circles.filter(|tag| tag.contains(colour)).count()
        };
        let alike = of.ranked.iter().filter(|row| row.is_alike).count();
        assert_eq!(
            (dots("#009E73"), dots("#0072B2")),
            (alike, of.ranked.len() - alike)
        );
        for (name, why) in &of.others {
            let begins = why.split(" + ").next().unwrap();
            assert!(
                svg.contains(name.as_str()) && svg.contains(begins),
                "{name} {why}"
            );
        }
    }

    #[test]
    fn no_end_of_many_settings_is_lost_in_silence() {
        let of = fixtures::ranking(200, 70);
        let svg = ranking(&of).svg();
        assert!(
            svg.contains("140 settings more") && svg.contains("40 settings more"),
            "{svg}"
        );
    }
}
