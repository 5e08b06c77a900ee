//! The latency that reaches its limit first, its p99, against offered load in a few lines of text: logarithmic height, linear rate.

use super::figures::{significant, significant_down, time};
use super::views::{KneePoint, KneeView};

/// Most columns of the curve, and the fewest that show one.
const COLUMNS: (usize, usize) = (64, 20);
/// Columns beside the curve: names on its left, the limit's name and the axis's unit on its right.
const BESIDE: usize = 27;
/// Lines of the curve, eight levels each.
const LINES: usize = 4;
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the quoted part of the curve, the objective and the knee; empty where nothing can be quoted.
/// Within `width` columns in all.
#[must_use]
pub fn sparkline(view: &KneeView, width: usize) -> String {
    let columns = width.saturating_sub(BESIDE).clamp(COLUMNS.1, COLUMNS.0);
    let metric = nearest_to_its_limit(view);
    let quoted: Vec<(f64, f64)> = view
        .points
        .iter()
        .filter_map(|point| Some((point.request_rate, p99_s(point, metric)?)))
        .filter(|(_, seconds)| *seconds > 0.0)
        .collect();
    let limit = limit_s(view, metric);
    let Some(scale) = Scale::new(view, &quoted, limit, columns) else {
        return String::new();
    };

    let heights: Vec<Option<f64>> = (0..columns)
        .map(|column| scale.height_at(column, &quoted))
        .collect();
    let knee = view.knee.map(|knee| scale.column(knee.value));
    let limit_line = limit.map(|limit_s| (scale.height(limit_s).floor() as usize).min(LINES - 1));
    let title = format!("p99 {}", metric.to_uppercase());
    let mut text = String::new();
    for line in (0..LINES).rev() {
        let name = match line {
            line if line == LINES - 1 => title.as_str(),
            line if line == LINES - 2 => "(log)",
            _ => "",
        };
        text += &format!(" {name:>9} │");
        for (column, height) in heights.iter().enumerate() {
            text.push(cell(
                *height,
                line,
                knee == Some(column),
                limit_line == Some(line),
            ));
        }
        if let (Some(limit_s), true) = (limit, limit_line == Some(line)) {
            text += &format!(" SLO {}", time(limit_s));
        }
        text = text.trim_end().to_string() + "\n";
    }
    let is_of_classes = limit.is_none()
        && (view.classes.iter()).any(|class| class.limits.iter().any(|limit| limit.metric == metric));
    let why = match is_of_classes {
        true => "            of all requests; each SLO is of a class, and has no line here\n",
        false => "",
    };
    text + &foot(&scale, view, knee) + why
}

/// The latencies that the curve may show.
const SHOWN: [&str; 3] = ["ttft", "tpot", "e2el"];

fn p99_s(point: &KneePoint, metric: &str) -> Option<f64> {
    let quantiles = match metric {
        "tpot" => point.tpot,
        "e2el" => point.e2el,
        _ => point.ttft,
    };
    quantiles.map(|quantiles| quantiles.p99_s)
}

fn limit_s(view: &KneeView, metric: &str) -> Option<f64> {
    let mut limits = view.limits.iter();
    limits
        .find(|limit| limit.metric == metric)
        .map(|limit| limit.limit_s)
}

/// The latency whose p99 is the largest share of its limit at the highest rate within the SLO, or at the lowest rate of all
/// if none is; TTFT where none has a limit.
fn nearest_to_its_limit(view: &KneeView) -> &'static str {
    let quoted = || view.points.iter().filter(|point| point.ttft.is_some());
    let kept = |point: &&KneePoint| view.knee.is_some_and(|knee| point.request_rate <= knee.value);
    let Some(point) = quoted().rfind(kept).or(quoted().next()) else {
        return SHOWN[0];
    };
    let share = |metric: &str| Some(p99_s(point, metric)? / limit_s(view, metric)?);
    let shares = SHOWN
        .into_iter()
        .filter_map(|metric| Some((metric, share(metric)?)));
    let nearest = shares.reduce(|best, other| if other.1 > best.1 { other } else { best });
    nearest.map_or(SHOWN[0], |(metric, _)| metric)
}

/// A block where the curve reaches, else the knee's or the objective's rule.
fn cell(height: Option<f64>, line: usize, at_knee: bool, at_limit: bool) -> char {
    let filled = height.map_or(0.0, |height| (height - line as f64).clamp(0.0, 1.0));
    match (LEVELS[(filled * 8.0).round() as usize], at_knee, at_limit) {
        (' ', true, _) => '┊',
        (' ', _, true) => '┄',
        (block, _, _) => block,
    }
}

/// The axis of rates: a mark under the knee, numbers at the ends and at the knee where they fit.
fn foot(scale: &Scale, view: &KneeView, knee: Option<usize>) -> String {
    let mut axis: Vec<char> = vec!['─'; scale.columns];
    let mut numbers: Vec<char> = vec![' '; scale.columns + 8];
    let mut write = |column: usize, text: &str| {
        let start = column.saturating_sub(text.chars().count() / 2);
        let place = start..start + text.chars().count();
        let free = start.saturating_sub(1)..(place.end + 1).min(numbers.len());
        if place.end <= numbers.len() && numbers[free].iter().all(|cell| *cell == ' ') {
            for (index, letter) in place.zip(text.chars()) {
                numbers[index] = letter;
            }
        }
    };
    write(0, "0");
    if let (Some(column), Some(estimate)) = (knee, view.knee) {
        axis[column] = '▲';
        write(column, &significant_down(estimate.value));
    }
    write(scale.columns - 1, &significant(scale.rate_max));
    let axis: String = axis.into_iter().collect();
    let numbers: String = numbers.into_iter().collect();
    format!(" {:>9} └{axis} req/s\n {:>9}  {}\n", "", "", numbers.trim_end())
}

/// Rates over columns, logarithms of seconds over lines.
struct Scale {
    columns: usize,
    rate_max: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn new(view: &KneeView, quoted: &[(f64, f64)], limit: Option<f64>, columns: usize) -> Option<Scale> {
        quoted.first()?;
        let rate_max = view
            .points
            .iter()
            .map(|point| point.request_rate)
            .fold(0.0, f64::max);
        let seconds = || quoted.iter().map(|(_, seconds)| *seconds).chain(limit);
        let low = seconds().fold(f64::INFINITY, f64::min);
        let high = seconds().fold(0.0, f64::max);
        // The lowest value stands an eighth of a line high, so that it is seen.
        (rate_max > 0.0).then(|| Scale {
            columns,
            rate_max,
            low: low / 1.3,
            high: high.max(low * 1.3) * 1.05,
        })
    }

    fn column(&self, rate: f64) -> usize {
        ((rate / self.rate_max * (self.columns - 1) as f64).round() as usize).min(self.columns - 1)
    }

    /// Height in lines.
    fn height(&self, seconds: f64) -> f64 {
        (seconds / self.low).ln() / (self.high / self.low).ln() * LINES as f64
    }

    /// Height at a column: between simulated rates the logarithm is interpolated; beyond them nothing is drawn.
    fn height_at(&self, column: usize, quoted: &[(f64, f64)]) -> Option<f64> {
        if let Some((_, seconds)) = quoted.iter().rev().find(|(rate, _)| self.column(*rate) == column) {
            return Some(self.height(*seconds));
        }
        let rate = column as f64 * self.rate_max / (self.columns - 1) as f64;
        let pair = quoted
            .windows(2)
            .find(|pair| pair[0].0 <= rate && rate <= pair[1].0)?;
        let part = (rate - pair[0].0) / (pair[1].0 - pair[0].0);
        let (from, to) = (self.height(pair[0].1), self.height(pair[1].1));
        Some(from + part * (to - from))
    }
}
