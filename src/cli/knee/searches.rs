//! The searches of all settings, as many at once as there are cores. With `-o FILE.jsonl` what an earlier command finished is read
//! back in place of a search.

use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use super::super::kept::{Keeper, Kept};
use super::super::plan::{Plan, Planned};
use super::super::progress::Progress;
use super::super::{interrupt, rent};
use super::one::{Asked, search_one};
use super::{Terminal, in_flight};
use crate::config::{Resolved, Server};
use crate::cost::uncertainty::Component;
use crate::report::knees::{Found, KneeRow, Labels, Priced};
use crate::report::{self, KneeView};
use crate::sweep::{self, Finished};

/// What came of a setting.
pub(in crate::cli) enum Setting {
    /// In this command.
    Here(KneeRow),
    /// In an earlier one, as its file has it.
    Before(Value),
}

impl Setting {
    /// Where it was searched in this command.
    pub(in crate::cli) fn row(&self) -> Option<&KneeRow> {
        match self {
            Setting::Here(row) => Some(row),
            Setting::Before(_) => None,
        }
    }
}

/// The objects of all settings, as files have them.
///
/// # Errors
/// None that is known: what is read was just written.
pub(in crate::cli) fn objects(settings: &[Setting], told: Told<'_>) -> serde_json::Result<Vec<Value>> {
    let object = |(index, setting): (usize, &Setting)| match setting {
        Setting::Here(row) => told(index, row),
        Setting::Before(object) => Ok(object.clone()),
    };
    settings.iter().enumerate().map(object).collect()
}

/// Why a setting is not kept.
enum Unkept {
    /// The user stopped before all of it was known.
    Cut,
    Json(serde_json::Error),
}

impl From<serde_json::Error> for Unkept {
    fn from(error: serde_json::Error) -> Unkept {
        Unkept::Json(error)
    }
}

/// Why a setting is not worth its search, by its number and from what came of all in the turns before.
pub(in crate::cli) type Pruned<'a> = &'a dyn Fn(usize, &[Option<Value>]) -> Option<String>;

/// The object of a setting that was searched here, by its number, as files have it.
pub(in crate::cli) type Told<'a> = &'a (dyn Fn(usize, &KneeRow) -> serde_json::Result<Value> + Sync);

/// In which turns settings are searched, and what is not worth a search once those before it are known.
pub(in crate::cli) struct Turns<'a> {
    /// Settings by their numbers; those of a turn are searched side by side.
    pub(in crate::cli) turns: Vec<Vec<usize>>,
    /// Which of them are not.
    pub(in crate::cli) pruned: Pruned<'a>,
    pub(in crate::cli) told: Told<'a>,
}

impl Turns<'_> {
    /// All side by side.
    pub(in crate::cli) fn one(settings: usize) -> Turns<'static> {
        Turns {
            turns: vec![(0..settings).collect()],
            pruned: &|_, _| None,
            told: &|_, row| serde_json::from_str(&report::json::knee_setting(row)),
        }
    }
}

/// Every setting in the order of the axes, whatever the number of cores, and the file that what was finished is kept in. With `kept`
/// what that file already holds is not searched again.
///
/// # Errors
/// A file that holds something else.
pub(in crate::cli) fn search_all(
    plan: &Plan,
    asked: &[(&Planned, Asked<'_>)],
    (cells, kept): (&[sweep::Cell], Option<&str>),
    turns: &Turns<'_>,
    terminal: &Terminal,
) -> anyhow::Result<(Vec<Setting>, Keeper<std::fs::File>)> {
    let (mut finished, mut keeper) = match kept {
        Some(path) => Kept::SETTINGS.resume(path, cells, terminal)?,
        None => (Finished::default(), Keeper::new(None)),
    };
    let progress = Mutex::new((Progress::new(terminal, None, "runs"), 0));
    let goes_on = || {
        if let Ok(mut progress) = progress.lock() {
            progress.1 += 1;
            let done = progress.1;
            progress.0.at(done);
        }
        !interrupt::is_asked()
    };
    let rows: Vec<OnceLock<KneeRow>> = cells.iter().map(|_| OnceLock::new()).collect();
    let mut objects: Vec<Option<Value>> = vec![None; cells.len()];
    let told = turns.told;
    for turn in &turns.turns {
        let of_turn: Vec<sweep::Cell> = turn.iter().map(|&index| cells[index].clone()).collect();
        let pruned = turn.iter().map(|&index| (turns.pruned)(index, &objects));
        let pruned: Vec<(usize, Option<String>)> = turn.iter().copied().zip(pruned).collect();
        let why_pruned = |index: usize| pruned.iter().find(|(own, _)| *own == index)?.1.clone();
        let one = |cell: &sweep::Cell| {
            let searched = asked.binary_search_by_key(&cell.index, |(planned, _)| planned.index);
            let (labels, found) = match (searched, plan.refused(cell.index)) {
                (Ok(at), _) => {
                    let found = match why_pruned(cell.index) {
                        Some(why) => Found::Pruned(why),
                        None => search(&asked[at], &goes_on),
                    };
                    (&asked[at].0.labels, found)
                }
                (Err(_), Some(refused)) => (&refused.labels, refused.found()),
                (Err(_), None) => unreachable!("a cell of the plan is run or refused"),
            };
            let labels: Labels = labels.clone();
            let row = rows[cell.index].get_or_init(|| KneeRow { labels, found });
            match row.is_whole() {
                true => Ok(told(cell.index, row)?),
                false => Err(Unkept::Cut),
            }
        };
        let before = finished.split_off(&of_turn);
        let results = sweep::run(&of_turn, before, one, |told| keeper.append(told.line));
        for (&index, result) in turn.iter().zip(results) {
            objects[index] = match result {
                Ok(object) => Some(object),
                Err(Unkept::Cut) => None,
                Err(Unkept::Json(error)) => return Err(error.into()),
            };
        }
    }
    drop(progress);
    let settings = rows
        .into_iter()
        .zip(objects)
        .map(|(row, object)| match (row.into_inner(), object) {
            (Some(row), _) => Setting::Here(row),
            (None, Some(object)) => Setting::Before(object),
            (None, None) => unreachable!("what was cut has its row"),
        });
    Ok((settings.collect(), keeper))
}

fn search((cell, asked): &(&Planned, Asked<'_>), goes_on: &(impl Fn() -> bool + Sync)) -> Found {
    if interrupt::is_asked() {
        return Found::NotRun;
    }
    let searched = match in_flight::is_loop(asked.resolved) {
        true => Ok(in_flight::search_one(asked, &mut |_| goes_on()).knee),
        false => search_one(asked, &mut |_| goes_on(), &mut |_| goes_on()).map(|searched| searched.view),
    };
    match searched {
        Ok(view) => Found::Knee(Box::new(priced(&cell.resolved, view))),
        Err(error) => Found::Failed(format!("{error:#}")),
    }
}

fn priced(resolved: &Resolved, view: KneeView) -> Priced {
    let pools = &resolved.scenario.pools;
    Priced {
        is_cut: view.is_interrupted || view.is_cut_after,
        view,
        gpus: pools
            .iter()
            .map(|pool| u64::from(pool.gpus) * u64::from(pool.replicas))
            .sum(),
        rent: rent::of(resolved),
        parameters: Component::ALL
            .into_iter()
            .map(|part| (part, parameters(resolved, part)))
            .collect(),
    }
}

/// What names the parameters that a part of the step time rests on: weights in another format are multiplied by other kernels.
fn parameters(resolved: &Resolved, part: Component) -> String {
    let of_weights = matches!(part, Component::Linear | Component::Experts);
    let of_server = |server: &Server| {
        let rest = format!("{} by {}", server.device.id, server.calibration.name);
        match of_weights {
            true => format!("{rest} in {}", server.model.quantization.name()),
            false => rest,
        }
    };
    let names: Vec<String> = resolved.servers.iter().map(of_server).collect();
    names.join(", ")
}
