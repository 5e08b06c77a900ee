//! The first line of a sweep: which setting serves the most within the SLO, and whether more than chance is behind it.
//!
//! Law: what may meet the SLO and serves more than the setting that surely keeps it is named beside it. What an unstable run
//! serves is no steady figure, so none is ranked beside one that is not. Where all serve what they are offered, output tells
//! nothing, and the lowest latencies are named ([`lowest`]). Who is sent more than others is not held against them ([`loads`]), and
//! who is asked for less is no better for it ([`slos`]).

mod loads;
mod lowest;
mod noise;
pub(super) mod setting;
mod slos;

use self::noise::Noise;
use self::setting::{Setting, apart_from_seeds};
use super::figures::{counted, percent, significant};
use super::sweep::SweepRow;
use crate::sweep::{Best, Candidate};

/// Outputs without intervals are alike where they differ by less than this part of them.
const ALIKE_WITHIN: f64 = 0.01;

/// The first line: how many runs, whether that is all of them, how many cannot be, and which served the most.
pub(super) fn answer(rows: &[SweepRow<'_>]) -> String {
    let finished = rows.iter().filter(|row| row.is_simulated()).count();
    let misfits = rows.iter().filter(|row| row.is_misfit()).count();
    let refused = rows.iter().filter(|row| row.is_refused()).count();
    let all = counted((rows.len() - misfits - refused) as u64, "run");
    let all = match finished + misfits + refused < rows.len() {
        true => format!("INTERRUPTED: {finished} of {all} finished"),
        false => all,
    };
    let unstable = rows.iter().filter(|row| row.is_unstable()).count();
    all + &some(misfits, "cell does not fit", "cells do not fit")
        + &some(refused, "cell is refused", "cells are refused")
        + &some(unstable, "is unstable", "are unstable")
        + &slos::told(rows).unwrap_or_else(|| under_one_slo(rows))
}

/// `; 2 are unstable`; nothing of none.
fn some(number: usize, one: &str, more: &str) -> String {
    match number {
        0 => String::new(),
        1 => format!("; 1 {one}"),
        number => format!("; {number} {more}"),
    }
}

/// How many runs miss the SLO, and which are the best of those that do not.
fn under_one_slo(rows: &[SweepRow<'_>]) -> String {
    let settled = || rows.iter().filter(|row| !row.is_unstable());
    let open = settled().filter(|row| row.is_open()).count();
    if none_keeps(rows) && open == 0 {
        return "; none meets the SLO".to_owned();
    }
    let broken = settled().filter(|row| row.breaks() && !row.is_open()).count();
    let within = match (rows.iter().any(SweepRow::is_promised), broken, open) {
        (false, ..) => "",
        (true, 0, 0) => " within the SLO",
        (true, _, 0) => " within it",
        (true, ..) => " surely within it",
    };
    let [sure, open_yet] = best(rows, within);
    some(broken, "misses the SLO", "miss the SLO")
        + &some(open, "is too short for the SLO", "are too short for the SLO")
        + &sure.text
        + &sure.beside
        + &open_yet.text
}

/// What there is to say of the best.
#[derive(Default)]
struct Told<'r, 's> {
    /// Which it is, and what it serves.
    text: String,
    /// How its latencies and costs compare.
    beside: String,
    /// Its runs, or all of several that are alike.
    runs: Vec<&'r SweepRow<'s>>,
}

/// The best that surely meet the SLO, and those that may meet it and serve more.
fn best<'r, 's>(rows: &'r [SweepRow<'s>], within: &str) -> [Told<'r, 's>; 2] {
    let noise = Noise::of(rows);
    let tried = apart_from_seeds(rows);
    let of = |asked: Vec<Setting<'r, 's>>, within: &str| {
        let told = loads::heaviest(&tried, &asked, within, noise);
        told.unwrap_or_else(|| among(&asked.iter().collect::<Vec<_>>(), within, noise))
    };
    let ranked = ranked(&tried);
    let sure = ranked.iter().filter_map(Setting::kept);
    let sure = sure.map(|one| one.output.2).fold(f64::NEG_INFINITY, f64::max);
    let open = ranked.iter().map(|setting| setting.if_more_and_undecided(sure));
    let mut open = of(open.collect(), " where the SLO is not decided");
    if !open.text.is_empty() {
        open.text += &format!(" ({} so far)", so_far(&open.runs));
    }
    [of(ranked, within), open]
}

/// Which of them stands out, or what their outputs have in common.
fn among<'r, 's>(settings: &[&Setting<'r, 's>], within: &str, noise: Noise) -> Told<'r, 's> {
    let served: Vec<Option<Candidate>> = settings.iter().map(|setting| setting.served).collect();
    let most = |index: usize, tokens_per_s: f64, chance: &str| {
        let (setting, tokens) = (settings[index], significant(tokens_per_s));
        let (at, seeds) = (setting.at(), setting.seeds());
        Told {
            text: format!("; most output{within} {tokens} tok/s{at}{seeds}{chance}"),
            beside: String::new(),
            runs: setting.runs.clone(),
        }
    };
    match noise.best(&served) {
        Best::NoneKeeps => Told::default(),
        Best::Alike { least, most } => {
            let alike: Vec<&Setting<'r, 's>> = (settings.iter().copied())
                .filter(|setting| setting.kept().is_some())
                .collect();
            let lowest = match lowest::lowest(&alike) {
                // That there are few requests is said already.
                none if none.is_empty() && !noise.is_of_few() => lowest::unranked(&alike),
                lowest => lowest,
            };
            Told {
                text: noise.alike(within, least, most),
                beside: lowest + &lowest::cheapest(&alike),
                runs: alike.iter().flat_map(|setting| setting.runs.clone()).collect(),
            }
        }
        Best::Overlapping {
            index, tokens_per_s, ..
        } => most(
            index,
            tokens_per_s,
            ", though the runs' intervals overlap: more prompts would tell",
        ),
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        } => most(index, tokens_per_s, &noise.others(within_noise)),
    }
}

/// The settings that are held against each other: where the queue grows without end a run's output is what the engine can do at
/// most, whatever it was asked for, so such a setting is not ranked beside one that serves.
fn ranked<'r, 's>(settings: &[Setting<'r, 's>]) -> Vec<Setting<'r, 's>> {
    let serves = |setting: &&Setting<'_, '_>| {
        let mut runs = setting.runs.iter();
        setting.is_served() && runs.any(|run| run.is_simulated() && run.verdict() != "no_answers")
    };
    let has_settled = settings.iter().any(|setting| serves(&setting));
    let kept = settings
        .iter()
        .filter(|setting| !has_settled || setting.is_served());
    kept.cloned().collect()
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

/// Whether there is an SLO, and no finished run meets it.
#[must_use]
pub fn none_keeps(rows: &[SweepRow<'_>]) -> bool {
    let mut finished = rows.iter().filter(|row| row.is_simulated()).peekable();
    finished.peek().is_some() && finished.all(SweepRow::breaks)
}

#[cfg(test)]
mod tests;
