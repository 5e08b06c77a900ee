//! The first line of a sweep: which setting serves the most within the SLO, and whether more than chance is behind it.
//!
//! Law: what may meet the SLO and serves more than the setting that surely keeps it is named beside it. What an unstable run
//! serves is no steady figure, so none is ranked beside one that is not. Where all serve what they are offered, output tells
//! nothing, and the lowest latencies are named ([`lowest`]). Who is sent more than others is not held against them ([`loads`]).

mod loads;
mod lowest;

use super::figures::{counted, percent, significant};
use super::sweep::SweepRow;
use super::sweep_layout::is_named;
use crate::analysis::CONFIDENCE;
use crate::stats::{Running, student_t};
use crate::sweep::{self, Best, Candidate};

/// Outputs without intervals are alike where they differ by less than this part of them.
const ALIKE_WITHIN: f64 = 0.01;

/// Part of an output that the number of requests must leave open for it to be few: of 20,000 in either run it is 2 %.
const FEW_LEAVE_OPEN: f64 = 0.02;

/// The first line: how many runs, whether that is all of them, how many cannot be, and which served the most.
pub(super) fn answer(rows: &[SweepRow<'_>]) -> String {
    let best = best(rows);
    let finished = rows.iter().filter(|row| row.is_simulated()).count();
    let misfits = rows.iter().filter(|row| row.is_misfit()).count();
    let refused = rows.iter().filter(|row| row.is_refused()).count();
    let all = counted((rows.len() - misfits - refused) as u64, "run");
    let unfit = match misfits {
        0 => String::new(),
        1 => "; 1 cell does not fit".to_owned(),
        more => format!("; {more} cells do not fit"),
    };
    let unfit = match refused {
        0 => unfit,
        1 => unfit + "; 1 cell is refused",
        more => format!("{unfit}; {more} cells are refused"),
    };
    match finished + misfits + refused < rows.len() {
        true => format!("INTERRUPTED: {finished} of {all} finished{unfit}{best}"),
        false => format!("{all}{unfit}{best}"),
    }
}

/// Which run served the most among those that meet the SLO, whether more than chance is behind it, and which may keep it
/// and serves more.
fn best(rows: &[SweepRow<'_>]) -> String {
    let tried = settings_apart_from_seeds(rows);
    let groups = ranked(tried.clone());
    let candidates: Vec<Option<Candidate>> = groups.iter().map(|(_, runs)| together(runs)).collect();
    let is_promised = rows.iter().any(SweepRow::is_promised);
    let unstable = rows.iter().filter(|row| row.is_unstable()).count();
    let settled = || rows.iter().filter(|row| !row.is_unstable());
    let open = settled().filter(|row| row.is_open()).count();
    let unstable = match unstable {
        0 => String::new(),
        1 => "; 1 is unstable".to_owned(),
        more => format!("; {more} are unstable"),
    };
    if none_keeps(rows) && open == 0 {
        return unstable + "; none meets the SLO";
    }
    let broken = settled().filter(|row| row.breaks() && !row.is_open()).count();
    let breaks = match broken {
        0 => String::new(),
        1 => "; 1 misses the SLO".to_owned(),
        more => format!("; {more} miss the SLO"),
    };
    let undecided = match open {
        0 => String::new(),
        1 => "; 1 is too short for the SLO".to_owned(),
        more => format!("; {more} are too short for the SLO"),
    };
    let surely = if open > 0 { " surely" } else { "" };
    let within = match (is_promised, broken + open) {
        (false, _) => String::new(),
        (true, 0) => " within the SLO".to_owned(),
        (true, _) => format!("{surely} within it"),
    };
    let noise = Noise::of(rows);
    let best = match loads::by_load(&tried, &groups, &candidates) {
        Some(loads) => loads::told(&loads, &within, noise),
        None => among(&groups.iter().collect::<Vec<_>>(), &candidates, &within, noise),
    };
    unstable + &breaks + &undecided + &best + &more_undecided(&groups, &candidates, noise)
}

/// Which of them stands out, or what their outputs have in common.
fn among(
    groups: &[&Setting<'_, '_>],
    candidates: &[Option<Candidate>],
    within: &str,
    noise: Noise,
) -> String {
    match noise.best(candidates) {
        Best::NoneKeeps => String::new(),
        Best::Alike { least, most } => {
            let told = noise.alike(within, least, most);
            let kept = groups.iter().zip(candidates);
            let kept = kept.filter(|(_, one)| one.is_some_and(|one| one.keeps));
            let kept: Vec<&Setting<'_, '_>> = kept.map(|(group, _)| *group).collect();
            let lowest = match lowest::lowest(&kept) {
                // That there are few requests is said already.
                none if none.is_empty() && !noise.is_of_few() => lowest::unranked(&kept),
                lowest => lowest,
            };
            told + &lowest + &lowest::cheapest(&kept)
        }
        Best::Overlapping {
            index, tokens_per_s, ..
        } => {
            most(within, tokens_per_s, groups[index])
                + ", though the runs' intervals overlap: more prompts would tell"
        }
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        } => most(within, tokens_per_s, groups[index]) + &noise.others(within_noise),
    }
}

/// The settings that are held against each other: where the queue grows without end a run's output is what the engine can do at
/// most, whatever it was asked for, so such a setting is not ranked beside one that serves.
fn ranked<'r, 's>(groups: Vec<Setting<'r, 's>>) -> Vec<Setting<'r, 's>> {
    let serves = |(_, runs): &Setting<'_, '_>| {
        (runs.iter()).any(|run| run.is_simulated() && run.verdict() != "no_answers")
    };
    let has_settled = groups.iter().any(|group| serves(group) && is_served(group));
    let kept = |group: &Setting<'_, '_>| !has_settled || is_served(group);
    groups.into_iter().filter(kept).collect()
}

/// The setting that serves the most.
fn most(within: &str, tokens_per_s: f64, (settings, runs): &Setting<'_, '_>) -> String {
    let tokens = significant(tokens_per_s);
    format!(
        "; most output{within} {tokens} tok/s{}{}",
        at(settings),
        seeds(runs)
    )
}

/// `, mean of 3 seeds`; nothing of one.
fn seeds(runs: &[&SweepRow<'_>]) -> String {
    match runs.len() {
        1 => String::new(),
        seeds => format!(", mean of {}", counted(seeds as u64, "seed")),
    }
}

/// What outputs must differ by more than to be told apart.
#[derive(Clone, Copy)]
enum Noise {
    /// Their intervals, where any has one.
    Intervals,
    /// What the number of requests in whole runs leaves open: this part of the output.
    Number(f64),
    /// [`ALIKE_WITHIN`].
    Little,
}

impl Noise {
    fn of(rows: &[SweepRow<'_>]) -> Noise {
        let by_number = rows.iter().filter_map(SweepRow::known_by_number);
        match by_number.max_by(f64::total_cmp) {
            Some(part) => Noise::Number(part),
            None if rows.iter().any(|row| row.interval("output_throughput").is_some()) => Noise::Intervals,
            None => Noise::Little,
        }
    }

    /// Whether so few requests were sent that nothing is told apart by them.
    fn is_of_few(self) -> bool {
        matches!(self, Noise::Number(part) if part >= FEW_LEAVE_OPEN)
    }

    /// Which of them stands out. Of so few requests that their number decides nothing is known, however far apart they are.
    fn best(self, candidates: &[Option<Candidate>]) -> Best {
        match (self, sweep::best(candidates)) {
            (Noise::Number(_), Best::Overlapping { tokens_per_s, .. }) => {
                let kept = candidates.iter().flatten().filter(|one| one.keeps);
                Best::Alike {
                    least: kept.map(|one| one.output.0).fold(tokens_per_s, f64::min),
                    most: tokens_per_s,
                }
            }
            (_, best) => best,
        }
    }

    /// That none of them stands out.
    fn alike(self, within: &str, least: f64, most: f64) -> String {
        let tokens = spread(least, most, significant);
        match self {
            Noise::Number(part) if part < FEW_LEAVE_OPEN => {
                format!("; output{within} alike within {}, {tokens} tok/s", percent(part))
            }
            Noise::Intervals => format!("; output{within} alike within noise, {tokens} tok/s"),
            Noise::Little => format!("; output{within} alike within 1 %, {tokens} tok/s"),
            Noise::Number(part) => format!(
                "; which has the most output{within} cannot be told from so few requests, {tokens} tok/s ± {}: a longer run tells",
                percent(part)
            ),
        }
    }

    /// How many others may serve as much as the best.
    fn others(self, number: usize) -> String {
        let others = counted(number as u64, "other");
        match self {
            _ if number == 0 => String::new(),
            Noise::Intervals => format!(" ({others} within noise of it)"),
            Noise::Little => format!(" ({others} within 1 % of it)"),
            Noise::Number(part) if part < FEW_LEAVE_OPEN => {
                let coincide = if number == 1 { "coincides" } else { "coincide" };
                format!(" ({others} {coincide} with it within {})", percent(part))
            }
            Noise::Number(_) => format!(" ({others} cannot be told from it by so few requests)"),
        }
    }
}

/// Which setting, of those that may meet the SLO, serves the most, where it is more than any that surely keeps it.
fn more_undecided(groups: &[Setting<'_, '_>], candidates: &[Option<Candidate>], noise: Noise) -> String {
    let sure = candidates.iter().flatten().filter(|one| one.keeps);
    let sure = sure.map(|one| one.output.2).fold(f64::NEG_INFINITY, f64::max);
    let may_keep = |runs: &[&SweepRow<'_>]| {
        let finished = || runs.iter().filter(|run| run.is_simulated());
        finished().any(|run| run.is_open()) && finished().all(|run| run.is_open() || run.keeps())
    };
    let open: Vec<Option<Candidate>> = (groups.iter().zip(candidates))
        .map(|((_, runs), one)| {
            let keeps = may_keep(runs);
            one.filter(|one| one.output.1 > sure)
                .map(|one| Candidate { keeps, ..one })
        })
        .collect();
    match noise.best(&open) {
        Best::NoneKeeps => String::new(),
        Best::Alike { least, most } => {
            let alike = groups.iter().zip(&open);
            let alike = alike.filter(|(_, one)| one.is_some_and(|one| one.keeps));
            let runs: Vec<&SweepRow<'_>> = alike.flat_map(|((_, runs), _)| runs.iter().copied()).collect();
            let undecided = match noise {
                // More requests tell both.
                Noise::Number(_) => "",
                Noise::Intervals | Noise::Little => ", not decided",
            };
            let so_far = so_far(&runs);
            format!("{}{undecided} ({so_far} so far)", noise.alike("", least, most))
        }
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        }
        | Best::Overlapping {
            index,
            tokens_per_s,
            others: within_noise,
        } => {
            let (settings, runs) = &groups[index];
            format!(
                "; {} tok/s{}{} not decided ({} so far)",
                significant(tokens_per_s),
                at(settings),
                noise.others(within_noise),
                so_far(runs)
            )
        }
    }
}

/// Whether no run of it is unstable.
fn is_served((_, runs): &Setting<'_, '_>) -> bool {
    !runs.iter().any(|run| run.is_unstable())
}

/// `8.67 ms to 10.7 ms`, or `about 8.67 ms`.
fn spread(least: f64, most: f64, figure: fn(f64) -> String) -> String {
    match [least, most].map(figure) {
        [least, most] if least == most => format!("about {most}"),
        [least, most] => format!("{least} to {most}"),
    }
}

/// What is seen of an SLO that is not decided: `100 % good`, of several runs `at least 99.2 % good`; `met` where no share is
/// asked.
fn so_far(runs: &[&SweepRow<'_>]) -> String {
    let mut good: Vec<f64> = runs.iter().filter_map(|run| run.good()).collect();
    good.sort_by(f64::total_cmp);
    match good[..] {
        [least, .., most] if percent(least) != percent(most) => format!("at least {} good", percent(least)),
        [least, ..] => format!("{} good", percent(least)),
        [] if runs.iter().all(|run| run.keeps()) => "met".to_owned(),
        [] => "not met".to_owned(),
    }
}

/// What was set, and the runs that have it.
type Setting<'r, 's> = (Labels, Vec<&'r SweepRow<'s>>);

/// Axes and values.
type Labels = Vec<(String, String)>;

/// Runs that differ in their seed alone are one setting, told without the seed.
fn settings_apart_from_seeds<'r, 's>(rows: &'r [SweepRow<'s>]) -> Vec<Setting<'r, 's>> {
    let mut groups: Vec<Setting<'_, '_>> = Vec::new();
    for row in rows {
        let is_seed = |setting: &&(String, String)| is_named(&setting.0, "seed");
        let seeds = |row: &SweepRow<'s>| -> Vec<String> {
            let seeds = row.settings.iter().filter(is_seed);
            seeds.map(|(_, seed)| seed.clone()).collect()
        };
        let settings: Vec<_> = row.settings.iter().filter(|set| !is_seed(set)).cloned().collect();
        let is_its = |group: &&mut Setting<'r, 's>| {
            group.0 == settings && group.1.iter().all(|run| seeds(run) != seeds(row))
        };
        match groups.iter_mut().find(is_its) {
            Some((_, runs)) => runs.push(row),
            None => groups.push((settings, vec![row])),
        }
    }
    groups
}

/// The runs of a setting as one: their mean output with its interval, by the runs' own where all have one, else by how far
/// the runs lie apart. The promise is kept where every run keeps it. `None` where none has an output.
fn together(runs: &[&SweepRow<'_>]) -> Option<Candidate> {
    let known: Vec<(f64, f64, f64)> = runs.iter().filter_map(|run| run.output()).collect();
    let output = pooled(&known)?;
    let finished = runs.iter().filter(|run| run.is_simulated());
    Some(Candidate {
        output,
        keeps: finished.into_iter().all(|run| run.keeps() && !run.is_open()),
    })
}

/// The mean of a figure over runs that differ in their seed, least and most, by the runs' own intervals where all have one, else
/// by how far the runs lie apart; of one run without an interval, by [`ALIKE_WITHIN`].
fn pooled(known: &[(f64, f64, f64)]) -> Option<(f64, f64, f64)> {
    let number = known.len() as f64;
    let mut means = Running::default();
    known.iter().for_each(|(value, ..)| means.add(*value));
    let have_intervals = known.iter().all(|(_, low, high)| high > low);
    // Where nothing is known of chance, what is nearly the same is no difference.
    let least = if have_intervals {
        0.0
    } else {
        ALIKE_WITHIN / 2.0 * means.mean()
    };
    let half = if known.is_empty() {
        return None;
    } else if known.len() == 1 {
        let (_, low, high) = known[0];
        (known[0].0 - low, high - known[0].0)
    } else if have_intervals {
        let squares = |end: fn(&(f64, f64, f64)) -> f64| -> f64 {
            known.iter().map(|one| end(one).powi(2)).sum::<f64>().sqrt() / number
        };
        (squares(|one| one.0 - one.1), squares(|one| one.2 - one.0))
    } else {
        let half = student_t(CONFIDENCE, number - 1.0) * (means.variance() / number).sqrt();
        (half, half)
    };
    Some((
        means.mean(),
        means.mean() - half.0.max(least),
        means.mean() + half.1.max(least),
    ))
}

/// Whether there is a promise, and no finished run keeps it.
#[must_use]
pub fn none_keeps(rows: &[SweepRow<'_>]) -> bool {
    let mut finished = rows.iter().filter(|row| row.is_simulated()).peekable();
    finished.peek().is_some() && finished.all(SweepRow::breaks)
}

/// `rate = 4, gpu = h100`.
fn named(settings: &[(String, String)]) -> String {
    let parts = settings.iter().map(|(axis, value)| format!("{axis} = {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// A figure's mean over runs that differ in their seed; `None` unless all have it.
fn mean_of(runs: &[&SweepRow<'_>], key: &str) -> Option<f64> {
    let known: Vec<f64> = runs.iter().map(|run| run.figure(key)).collect::<Option<_>>()?;
    Some(known.iter().sum::<f64>() / known.len() as f64)
}

/// ` at rate = 4, gpu = h100`; nothing where nothing was set.
fn at(settings: &[(String, String)]) -> String {
    match named(settings) {
        none if none.is_empty() => none,
        parts => format!(" at {parts}"),
    }
}

#[cfg(test)]
mod tests;
