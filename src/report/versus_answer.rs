//! The answer of a comparison: who is better in what, by more than chance and by enough for a word.

use super::figures::{counted, percent};
use super::versus::{Row, Versus};
use super::versus_caveats::contrary_move;
use super::versus_measures::{Better, Unit, effect, is_significant, moved, told, written};
use crate::stats::Interval;

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
    // How many, and the largest of them.
    let told = |wanted: bool| {
        let rows = largest_first(&rows, wanted);
        let first = rows.first()?;
        let most = if rows.len() > 1 { "most " } else { "" };
        let said = format!("{most}{} {}", first.measure.label, moved(first, 0));
        Some((counted(rows.len() as u64, "figure"), rows.len(), said))
    };
    match (told(true), told(false)) {
        (None, None) => of_two(versus, &rows),
        (Some((better, _, most)), None) => format!("{b} is better than {a} in {better}: {most}"),
        (None, Some((worse, _, most))) => format!("{b} is worse than {a} in {worse}: {most}"),
        (Some((better, _, most)), Some((_, worse, least))) => {
            format!("{b} is better than {a} in {better} ({most}), worse in {worse} ({least})")
        }
    }
}

/// The figures of the second of two that are better, or worse, the largest difference first.
fn largest_first(rows: &[Row], wanted: bool) -> Vec<&Row> {
    let mut told: Vec<&Row> = rows.iter().filter(|row| judged(row, 0) == Some(wanted)).collect();
    told.sort_by(|a, b| effect(b, 0).total_cmp(&effect(a, 0)));
    told
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
        (largest_first(rows, wanted).into_iter())
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
        (true, true) if rows.iter().any(is_small) => {
            format!("no difference above 1 % between {a} and {b}")
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

/// Whether a figure that counts moved by more than chance, and by too little for a word.
fn is_small(row: &Row) -> bool {
    let interval = row.differences[0].map(|difference| told(row.measure.unit, &difference));
    let is_known = |interval: &Interval| interval.value != 0.0 && is_significant(interval);
    row.measure.decides && interval.is_some_and(|interval| is_known(&interval)) && !is_moved(row, 0)
}

/// How a variant stands to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// As good, by more than chance.
    Alike,
    /// So few seeds do not say which is better.
    NotToldApart,
    /// Worse.
    Worse,
}

/// Part of a figure within which all of an interval must lie for two to be alike.
const ALIKE_WITHIN: f64 = 0.05;

fn beside_best(row: &Row, at: usize, best: usize) -> Beside {
    let (Some(mine), Some(other)) = (row.means[at], row.means[best]) else {
        return Beside::Worse;
    };
    let sign = if row.measure.better == Better::Higher {
        1.0
    } else {
        -1.0
    };
    let lead = sign * (other - mine);
    // Against the base each has an interval of its own, as it is told: of what is relative a part of the base.
    let base = row.means[0].unwrap_or_default().abs();
    let half = |of: usize| match of {
        0 => 0.0,
        other => row.differences[other - 1].map_or(0.0, |difference| {
            let told = told(row.measure.unit, &difference);
            match row.measure.unit != Unit::Share && difference.relative.is_some() {
                true => told.half_width * base,
                false => told.half_width,
            }
        }),
    };
    let half = half(at).hypot(half(best));
    if lead >= WORTH_TELLING * other.abs() && half < lead {
        Beside::Worse
    } else if half + lead.abs() <= ALIKE_WITHIN * other.abs() {
        Beside::Alike
    } else {
        Beside::NotToldApart
    }
}

/// Most figures of which it is told who is best.
const TOLD_MOST: usize = 4;

/// Who is best in what, and how far from the base, the largest difference first; where nobody stands out, that.
fn of_many(versus: &Versus, rows: &[Row]) -> Vec<String> {
    const TOLD: [(&str, &str, &str); 7] = [
        ("mean_ttft_s", "lowest mean TTFT", "mean TTFT"),
        ("p99_ttft_s", "lowest p99 TTFT", "p99 TTFT"),
        ("mean_tpot_s", "lowest mean TPOT", "mean TPOT"),
        ("p99_tpot_s", "lowest p99 TPOT", "p99 TPOT"),
        ("p99_itl_s", "lowest p99 ITL", "p99 ITL"),
        ("p99_e2el_s", "lowest p99 E2EL", "p99 E2EL"),
        ("output_throughput", "highest throughput", "throughput"),
    ];
    let mut alike = Vec::new();
    let mut differ: Vec<(f64, &str, String)> = Vec::new();
    for (key, words, name) in TOLD {
        let Some(row) = rows.iter().find(|row| row.measure.key == key) else {
            continue;
        };
        let others = 0..row.differences.len();
        let sure = others.filter(|&at| judged(row, at).is_some());
        let largest = sure.map(|at| effect(row, at)).max_by(f64::total_cmp);
        match largest.zip(best(versus, row)) {
            Some((effect, best)) => differ.push((effect, name, format!("{words} {best}"))),
            None => alike.push(name),
        }
    }
    differ.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rest = differ.split_off(differ.len().min(TOLD_MOST));
    let mut parts: Vec<String> = differ.into_iter().map(|(_, _, said)| said).collect();
    if !rest.is_empty() {
        let names: Vec<&str> = rest.iter().map(|(_, name, _)| *name).collect();
        let differ = if names.len() == 1 { "differs" } else { "differ" };
        parts.push(format!("{} {differ}, too", names.join(", ")));
    }
    if !alike.is_empty() {
        parts.push(format!("{} no different by more than chance", alike.join(", ")));
    }
    parts
}

/// `512 (8.50 ms, −81 % [−83, −79] to off), 2048 not told apart`: who is best in a figure; `None` without one.
fn best(versus: &Versus, row: &Row) -> Option<String> {
    let base = &versus.variants[0].name;
    let sign = if row.measure.better == Better::Higher {
        -1.0
    } else {
        1.0
    };
    let rank = |at: usize| row.means[at].map_or(f64::INFINITY, |mean| sign * mean);
    // The base is the best unless somebody is better by more than chance.
    let better = (0..row.differences.len())
        .filter(|&at| judged(row, at) == Some(true))
        .map(|at| at + 1);
    let best = better.min_by(|&a, &b| rank(a).total_cmp(&rank(b))).unwrap_or(0);
    let from_base = match best {
        0 => String::new(),
        other => format!(", {} to {base}", moved(row, other - 1)),
    };
    let figure = written(row.measure.unit, row.means[best]?);
    let standing = |wanted: Beside, words: &str| {
        let others = (0..row.means.len()).filter(|&at| at != best && beside_best(row, at, best) == wanted);
        let others: Vec<&str> = others.map(|at| versus.variants[at].name.as_str()).collect();
        match others.is_empty() {
            true => String::new(),
            false => format!(", {} {words}", others.join(" and ")),
        }
    };
    Some(format!(
        "{} ({figure}{from_base}){}{}",
        versus.variants[best].name,
        standing(Beside::Alike, "alike"),
        standing(Beside::NotToldApart, "not told apart"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::versus_measures::MEASURES;
    use super::*;
    use crate::analysis::Difference;

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
        let beside = beside_best;
        assert_eq!(
            (beside(&near, 1, 0), beside(&near, 2, 0)),
            (Beside::Alike, Beside::Worse)
        );
        // Behind by more than a per cent, and by less than chance.
        let noisy = row([500.0, 640.0, 610.0], 30.0);
        assert_eq!(
            (beside(&noisy, 2, 1), beside(&noisy, 0, 1)),
            (Beside::NotToldApart, Beside::Worse)
        );
        // Of what may be half or twice as much nobody knows that it is alike, however near the means lie.
        let unknown = row([451.0, 545.0, 452.0], 400.0);
        assert_eq!(
            (beside(&unknown, 1, 0), beside(&unknown, 2, 0)),
            (Beside::NotToldApart, Beside::NotToldApart)
        );
        // The base is as far from the best as is told of it, whatever the absolute difference scatters by.
        let mut paired = row([500.0, 640.0, 610.0], 200.0);
        for (difference, value) in paired.differences.iter_mut().flatten().zip([0.28, 0.22]) {
            difference.relative = Some(Interval {
                value,
                half_width: 0.01,
            });
        }
        assert_eq!(
            (beside(&paired, 0, 1), beside(&paired, 2, 1)),
            (Beside::Worse, Beside::Worse)
        );
        let close = row([500.0, 640.0, 636.0], 3.0);
        assert_eq!(beside(&close, 2, 1), Beside::Alike);
    }
}
