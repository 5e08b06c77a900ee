//! The answer of a comparison: who is better in what, by more than chance and by enough for a word.

use super::figures::{counted, percent};
use super::versus::{Row, Versus};
use super::versus_caveats::contrary_move;
use super::versus_measures::{Better, is_significant, moved, told, written};

/// Relative difference from which one speaks of better and worse.
const WORTH_TELLING: f64 = 0.01;

/// The first line.
#[must_use]
pub fn answer(versus: &Versus) -> String {
    let rows = versus.rows();
    let text = if versus.variants.len() == 2 {
        of_two(versus, &rows)
    } else {
        of_many(versus, &rows).join("; ")
    };
    let shares = |key: &str, words: &str| {
        let row = rows.iter().find(|row| row.measure.key == key)?;
        let shares = row.means.iter().map(|mean| mean.map_or("–".into(), percent));
        Some(format!("{words} {}", shares.collect::<Vec<_>>().join(" → ")))
    };
    let moved = [
        shares("hit_rate", "; hit rate"),
        shares("tier_hit_rate", "; from KV tiers"),
    ];
    let moved: String = moved.into_iter().flatten().collect();
    cut(versus) + &text + &moved
}

/// What the first words are of a comparison that was stopped: after some of its seeds, or after all and before what follows
/// from them.
fn cut(versus: &Versus) -> String {
    let Some(asked) = versus.interrupted_of else {
        return String::new();
    };
    let seeds = versus.seeds();
    match seeds as u64 >= u64::from(asked) {
        true => format!("INTERRUPTED after all {}: ", counted(u64::from(asked), "seed")),
        false => format!(
            "INTERRUPTED after {seeds} of {}: ",
            counted(u64::from(asked), "seed")
        ),
    }
}

/// The answer as a chart's title: the figures themselves are drawn.
pub(super) fn headline(versus: &Versus) -> String {
    cut(versus) + &finding(versus)
}

fn finding(versus: &Versus) -> String {
    let rows = versus.rows();
    if versus.variants.len() != 2 {
        return of_many(versus, &rows).into_iter().next().unwrap_or_default();
    }
    let [a, b] = [&versus.variants[0].name, &versus.variants[1].name];
    let count = |wanted: bool| rows.iter().filter(|row| judged(row, 0) == Some(wanted)).count();
    match (count(true), count(false)) {
        (0, 0) => of_two(versus, &rows),
        (better, 0) => format!("{b} is better than {a} in {}", counted(better as u64, "figure")),
        (0, worse) => format!("{b} is worse than {a} in {}", counted(worse as u64, "figure")),
        (better, worse) => format!(
            "{b} is better than {a} in {}, worse in {worse}",
            counted(better as u64, "figure")
        ),
    }
}

/// Whether a difference is worth a word, and good.
pub(super) fn judged(row: &Row, at: usize) -> Option<bool> {
    let interval = told(row.measure.unit, &row.differences[at]?);
    let tells = row.measure.decides && is_moved(row, at);
    tells.then_some((interval.value > 0.0) == (row.measure.better == Better::Higher))
}

/// Whether a difference is more than chance, and enough for a word.
pub(super) fn is_moved(row: &Row, at: usize) -> bool {
    let interval = row.differences[at].map(|difference| told(row.measure.unit, &difference));
    interval.is_some_and(|interval| is_significant(&interval) && interval.value.abs() >= WORTH_TELLING)
}

fn of_two(versus: &Versus, rows: &[Row]) -> String {
    let [a, b] = [&versus.variants[0].name, &versus.variants[1].name];
    let moves = |wanted: bool| -> Vec<String> {
        rows.iter()
            .filter(|row| judged(row, 0) == Some(wanted))
            .map(|row| format!("{} {}{}", row.measure.label, moved(row, 0), beside(versus, row)))
            .collect()
    };
    let (gains, losses) = (moves(true), moves(false));
    match (gains.is_empty(), losses.is_empty()) {
        (false, true) => format!("{b} is better than {a}: {}", gains.join(", ")),
        (true, false) => format!("{a} is better than {b}, which has {}", losses.join(", ")),
        (false, false) => format!("{b} trades: {}, for {}", gains.join(", "), losses.join(", ")),
        (true, true) if versus.seeds() < 2 => {
            format!("{a} and {b} side by side: one run of each bounds no difference")
        }
        (true, true) => format!(
            "no difference between {a} and {b} that {} would show",
            counted(versus.seeds() as u64, "seed")
        ),
    }
}

/// What the steady stretches say of a figure of the second of two, where that is the contrary.
fn beside(versus: &Versus, row: &Row) -> String {
    let contrary = contrary_move(versus, row.measure, 0);
    contrary.map_or_else(String::new, |moved| format!(" (in the steady stretches {moved})"))
}

/// Whether a variant is no worse than the best by more than chance and by enough for a word.
fn is_alike(row: &Row, at: usize, best: usize) -> bool {
    let (Some(mine), Some(other)) = (row.means[at], row.means[best]) else {
        return false;
    };
    let sign = if row.measure.better == Better::Higher {
        1.0
    } else {
        -1.0
    };
    let lead = sign * (other - mine);
    if lead < WORTH_TELLING * other.abs() {
        return true;
    }
    // Against the base each has an interval of its own.
    let half = |of: usize| match of {
        0 => 0.0,
        other => row.differences[other - 1].map_or(0.0, |difference| difference.absolute.half_width),
    };
    let (mine, other) = (half(at), half(best));
    (mine * mine + other * other).sqrt() >= lead
}

/// Who is best in what, and how far from the base; where nobody stands out, that.
fn of_many(versus: &Versus, rows: &[Row]) -> Vec<String> {
    const TOLD: [(&str, &str, &str); 4] = [
        ("mean_ttft_s", "lowest mean TTFT", "mean TTFT"),
        ("p99_ttft_s", "lowest p99 TTFT", "p99 TTFT"),
        ("p99_itl_s", "lowest p99 ITL", "p99 ITL"),
        ("output_throughput", "highest throughput", "throughput"),
    ];
    let base = &versus.variants[0].name;
    let mut alike = Vec::new();
    let mut parts = Vec::new();
    for (key, words, name) in TOLD {
        let Some(row) = rows.iter().find(|row| row.measure.key == key) else {
            continue;
        };
        let others = 0..row.differences.len();
        let is_told = others.clone().any(|at| judged(row, at).is_some());
        let sign = if row.measure.better == Better::Higher {
            -1.0
        } else {
            1.0
        };
        let rank = |at: usize| row.means[at].map_or(f64::INFINITY, |mean| sign * mean);
        // The base is the best unless somebody is better by more than chance.
        let better = others
            .filter(|&at| judged(row, at) == Some(true))
            .map(|at| at + 1);
        let best = better.min_by(|&a, &b| rank(a).total_cmp(&rank(b))).unwrap_or(0);
        match (is_told, row.means[best]) {
            (true, Some(mean)) => {
                let from_base = match best {
                    0 => String::new(),
                    other => format!(", {} to {base}", moved(row, other - 1)),
                };
                let figure = written(row.measure.unit, mean);
                let others = (0..row.means.len()).filter(|&at| at != best && is_alike(row, at, best));
                let others: Vec<&str> = others.map(|at| versus.variants[at].name.as_str()).collect();
                let others = match others.is_empty() {
                    true => String::new(),
                    false => format!(", {} alike", others.join(" and ")),
                };
                parts.push(format!(
                    "{words} {} ({figure}{from_base}){others}",
                    versus.variants[best].name
                ));
            }
            _ => alike.push(name),
        }
    }
    if !alike.is_empty() {
        parts.push(format!("{} no different by more than chance", alike.join(", ")));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::versus_measures::MEASURES;
    use super::*;
    use crate::analysis::Difference;
    use crate::stats::Interval;

    #[test]
    fn who_differs_by_hardly_anything_from_the_best_is_alike() {
        let measure = MEASURES
            .into_iter()
            .find(|measure| measure.key == "output_throughput");
        let row = |means: [f64; 3], half_width: f64| Row {
            measure: measure.expect("it is one of them"),
            means: means.map(Some).to_vec(),
            differences: (means[1..].iter())
                .map(|mean| {
                    let absolute = Interval {
                        value: mean - means[0],
                        half_width,
                    };
                    Some(Difference {
                        absolute,
                        relative: None,
                    })
                })
                .collect(),
        };
        // Ahead of the best by a fifth of a per cent, and far behind it.
        let near = row([602.0, 603.0, 400.0], 0.1);
        assert!(is_alike(&near, 1, 0) && !is_alike(&near, 2, 0));
        // Behind by more than a per cent, and by less than chance.
        let noisy = row([500.0, 640.0, 610.0], 30.0);
        assert!(is_alike(&noisy, 2, 1) && !is_alike(&noisy, 0, 1));
    }
}
