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
pub(super) enum Setting {
    /// In this command.
    Here(KneeRow),
    /// In an earlier one, as its file has it.
    Before(Value),
}

impl Setting {
    /// Where it was searched in this command.
    pub(super) fn row(&self) -> Option<&KneeRow> {
        match self {
            Setting::Here(row) => Some(row),
            Setting::Before(_) => None,
        }
    }

    /// Its object, as files have it.
    ///
    /// # Errors
    /// None that is known: what is read was just written.
    pub(super) fn object(&self) -> Result<Value, serde_json::Error> {
        match self {
            Setting::Here(row) => serde_json::from_str(&report::json::knee_setting(row)),
            Setting::Before(object) => Ok(object.clone()),
        }
    }
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

/// Every setting in the order of the axes, whatever the number of cores, and the file that what was finished is kept in. With `kept`
/// what that file already holds is not searched again.
///
/// # Errors
/// A file that holds something else.
pub(super) fn search_all(
    plan: &Plan,
    asked: &[(&Planned, Asked<'_>)],
    (cells, kept): (&[sweep::Cell], Option<&str>),
    terminal: &Terminal,
) -> anyhow::Result<(Vec<Setting>, Keeper<std::fs::File>)> {
    let (finished, mut keeper) = match kept {
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
    let one = |cell: &sweep::Cell| {
        let searched = asked.binary_search_by_key(&cell.index, |(planned, _)| planned.index);
        let (labels, found) = match (searched, plan.refused(cell.index)) {
            (Ok(at), _) => (&asked[at].0.labels, search(&asked[at], &goes_on)),
            (Err(_), Some(refused)) => (&refused.labels, refused.found()),
            (Err(_), None) => unreachable!("a cell of the plan is run or refused"),
        };
        let labels: Labels = labels.clone();
        let row = rows[cell.index].get_or_init(|| KneeRow { labels, found });
        match row.is_whole() {
            true => Ok(serde_json::from_str(&report::json::knee_setting(row))?),
            false => Err(Unkept::Cut),
        }
    };
    let results = sweep::run(cells, finished, one, |told| keeper.append(told.line));
    drop(progress);
    let mut settings = Vec::with_capacity(cells.len());
    for (row, result) in rows.into_iter().zip(results) {
        settings.push(match (row.into_inner(), result) {
            (_, Err(Unkept::Json(error))) => return Err(error.into()),
            (Some(row), _) => Setting::Here(row),
            (None, Ok(object)) => Setting::Before(object),
            (None, Err(Unkept::Cut)) => unreachable!("what was cut has its row"),
        });
    }
    Ok((settings, keeper))
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
