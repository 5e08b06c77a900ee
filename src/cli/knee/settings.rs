//! `-L gpu h100,l40s`: the knee of every combination of values, what each costs, and which is cheapest.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;

use rayon::prelude::*;

use super::super::outputs::{Format, Outputs, Writer};
use super::super::plan::{Plan, Planned};
use super::super::progress::Progress;
use super::super::reported::unread;
use super::super::{Exit, cells, files, interrupt, mix, subject};
use super::one::{Asked, Searched, search_one};
use super::{Args, Bracket, Terminal, lengths_of_its_own, no_promise};
use crate::config::axes::Axis;
use crate::config::{Assembled, Diagnostic, Diagnostics, Place, Resolved, Server};
use crate::cost::uncertainty::Component;
use crate::report::chart::{self, Picture};
use crate::report::figures::{count, counted, significant};
use crate::report::knees::{self, Found, KneeRow, Knees, Labels, Priced};
use crate::report::{self, KneeView, Sizing};
use crate::sim::Pool;

/// Most settings of one command.
const SETTINGS_MAX: usize = 10_000;

/// Searches every setting's knee and prints them.
///
/// # Errors
/// What is wrong with a setting, and files that cannot be written.
pub(super) fn execute(
    args: &Args,
    input: &Assembled,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let axes = args.axes.given()?;
    let lengths = axes.iter().map(|axis| axis.values.len());
    let cells = match args.axes.link {
        true => lengths.max().unwrap_or(0),
        false => lengths.fold(1usize, usize::saturating_mul),
    };
    if cells > SETTINGS_MAX {
        let problem = Diagnostic::new(format!("these axes make {} settings", count(cells as u64)));
        let most = count(SETTINGS_MAX as u64);
        return Err(Diagnostics::from(
            problem.help(format!("a search takes a second or more: at most {most}")),
        )
        .into());
    }
    let settings = args.axes.cells(&axes, &args.scenario, input)?;
    let mut sizings: Vec<Option<Sizing>> = Vec::new();
    let judge = |index: usize, resolved: &Resolved| {
        let sizing = promised(resolved).and_then(|()| args.sizing.of(resolved, &settings[index].document));
        sizing.map(|sizing| sizings.push(sizing))
    };
    let Some(mut plan) = Plan::of(settings.clone(), (0, 1), judge)? else {
        terminal.notes(&["interrupted before any setting was searched".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    let outputs = args.output.resolve(&input.results, Writer::Knee)?;
    let unread = unread(&input.document, &outputs, Writer::Knee);
    say(input, &plan, &outputs, &unread, terminal);
    for cell in &mut plan.runs {
        cell.resolved.said_before(&[], &outputs.notes);
        cell.resolved.said_before(&input.notes, &input.ignored);
    }
    if args.output.dry_run {
        const PLAIN: usize = 100;
        let Some(text) = cells::describe(&plan, terminal.width().unwrap_or(PLAIN)) else {
            return Ok(Exit::Interrupted.into());
        };
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    let asked: Vec<(&Planned, Asked<'_>)> = plan
        .runs
        .iter()
        .zip(sizings)
        .map(|(cell, sizing)| {
            let asked = Asked {
                resolved: &cell.resolved,
                document: &settings[cell.index].document,
                bracket: Bracket {
                    min_rate: args.min_rate,
                    max_rate: args.max_rate,
                },
                sizing,
                ignored: [
                    cell.resolved.ignored.clone(),
                    unread.clone(),
                    lengths_of_its_own(&cell.resolved),
                ]
                .concat(),
            };
            (cell, asked)
        })
        .collect();
    let found = search_all(&asked, args.sizing.price, terminal);
    if let Some(why) = nothing_searched(&plan, &found) {
        anyhow::bail!(why);
    }
    let knees = Knees {
        subject: subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
        rows: rows(&plan, found),
        price_source: prices(&plan, args.sizing.price),
    };
    put(&knees, &outputs, out, terminal)?;
    Ok(match (interrupt::is_asked(), knees.is_any_kept()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    }
    .into())
}

/// Axes that the search sets itself, or that one price for all contradicts.
pub(super) fn contradicted(axes: &[Axis], price: Option<f64>) -> Vec<Diagnostic> {
    axes.iter().filter_map(|axis| contradicts(axis, price)).collect()
}

fn contradicts(axis: &Axis, price: Option<f64>) -> Option<Diagnostic> {
    let name = axis.name.trim_start_matches('-').replace('_', "-");
    let last = name.rsplit('.').next().unwrap_or(&name);
    let is_of_all = !name.contains('.') || name.starts_with("workload.arrivals.");
    if last == "request-rate" && is_of_all {
        let problem = Diagnostic::new("knee looks for the rate itself, and an axis sets it")
            .at(Place::Flag(format!("sweep over {}", axis.name)))
            .help("leave it out, or `plimsoll sweep` runs at given rates");
        return Some(problem);
    }
    (last == "gpu" && price.is_some() && axis.values.len() > 1).then(|| {
        Diagnostic::new("one price for several GPUs ranks nothing")
            .at(Place::Flag("--price".to_owned()))
            .help(
                "leave it out for the list prices, or write each card's own into a profile: \
                 `plimsoll hw show GPU`",
            )
    })
}

/// Whether there is a promise that a rate could keep.
fn promised(resolved: &Resolved) -> Result<(), Diagnostics> {
    match resolved.slo.is_empty() {
        true => Err(no_promise().into()),
        false => Ok(()),
    }
}

/// Why no setting could be searched: once where that is the same of all, as of one.
fn nothing_searched(plan: &Plan, found: &[Found]) -> Option<String> {
    let why = |found: &Found| match found {
        Found::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let reasons: Vec<String> = found.iter().map(why).collect::<Option<_>>()?;
    let first = reasons.first().filter(|_| plan.refused.is_empty())?;
    if reasons.iter().all(|reason| reason == first) {
        return Some(first.clone());
    }
    let told = plan.runs.iter().zip(&reasons).map(|(cell, why)| {
        let named = cell
            .labels
            .iter()
            .map(|(axis, value)| format!("{axis} = {value}"));
        format!("{}: {why}", named.collect::<Vec<_>>().join(", "))
    });
    Some(told.collect::<Vec<_>>().join("\n"))
}

/// What there is to say before anything is searched, once however many settings it is true of.
fn say(input: &Assembled, plan: &Plan, outputs: &Outputs, unread: &[String], terminal: &Terminal) {
    let mut notes: Vec<String> = [&input.notes, &outputs.notes, unread].concat();
    if outputs.why {
        notes.push("--why has no effect with -L and -S: ask it of one setting".to_owned());
    }
    for cell in &plan.runs {
        notes.extend(cell.resolved.notes.iter().cloned());
        notes.extend(lengths_of_its_own(&cell.resolved));
        notes.extend(mix::scaling_note(&cell.resolved));
    }
    let mut told: Vec<String> = Vec::new();
    for note in notes {
        if !told.contains(&note) {
            told.push(note);
        }
    }
    terminal.notes(&told);
    terminal.notes(&plan.refusals());
}

/// Every setting's search, as many at once as there are cores: in the order of the settings whatever their number.
fn search_all(asked: &[(&Planned, Asked<'_>)], price: Option<f64>, terminal: &Terminal) -> Vec<Found> {
    let progress = Mutex::new((Progress::new(terminal, None, "runs"), 0));
    let goes_on = || {
        if let Ok(mut progress) = progress.lock() {
            progress.1 += 1;
            let done = progress.1;
            progress.0.at(done);
        }
        !interrupt::is_asked()
    };
    let one = |(cell, asked): &(&Planned, Asked<'_>)| {
        if interrupt::is_asked() {
            return Found::NotRun;
        }
        match search_one(asked, &mut |_| goes_on(), &mut |_| goes_on()) {
            Ok(searched) => Found::Knee(Box::new(priced(&cell.resolved, searched, price))),
            Err(error) => Found::Failed(format!("{error:#}")),
        }
    };
    asked.par_iter().map(one).collect()
}

fn priced(resolved: &Resolved, searched: Searched, price: Option<f64>) -> Priced {
    let pools = &resolved.scenario.pools;
    Priced {
        view: searched.view,
        is_cut: searched.is_cut,
        gpus: pools
            .iter()
            .map(|pool| u64::from(pool.gpus) * u64::from(pool.replicas))
            .sum(),
        usd_per_hour: usd_per_hour(resolved, price),
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

/// US dollars per hour of all that is simulated, or why that is not known.
fn usd_per_hour(resolved: &Resolved, price: Option<f64>) -> Result<f64, String> {
    if !resolved.scenario.cluster.scalers.is_empty() {
        return Err(
            "its replicas come and go with the load; `run` tells what a run of them costs".to_owned(),
        );
    }
    let of_pool = |pool: &Pool| {
        let each = price.or(pool.price.as_ref().map(|price| price.usd_per_hour));
        let each = each.ok_or_else(|| format!("the profile of {} has no [price]", pool.device))?;
        Ok(each * f64::from(pool.gpus) * f64::from(pool.replicas))
    };
    resolved.scenario.pools.iter().map(of_pool).sum()
}

/// Every setting in the order of the axes.
fn rows(plan: &Plan, found: Vec<Found>) -> Vec<KneeRow> {
    let searched = plan.runs.iter().zip(found);
    let searched = searched.map(|(cell, found)| (cell.index, &cell.labels, found));
    let refused = plan.refused.iter().map(|cell| {
        let found = match cell.is_misfit {
            true => Found::DoesNotFit(cell.why.clone()),
            false => Found::Refused {
                in_short: cell.in_short.clone(),
                why: cell.why.clone(),
            },
        };
        (cell.index, &cell.labels, found)
    });
    let mut all: Vec<(usize, &Labels, Found)> = searched.chain(refused).collect();
    all.sort_by_key(|(index, ..)| *index);
    let row = |(_, labels, found): (usize, &Labels, Found)| KneeRow {
        labels: labels.clone(),
        found,
    };
    all.into_iter().map(row).collect()
}

/// Where the prices are from, each card once.
fn prices(plan: &Plan, price: Option<f64>) -> String {
    if let Some(price) = price {
        return format!("{} $ per GPU-hour, as given", significant(price));
    }
    let mut told: Vec<String> = Vec::new();
    let pools = plan.runs.iter().flat_map(|cell| &cell.resolved.scenario.pools);
    for pool in pools {
        let Some(price) = &pool.price else {
            continue;
        };
        let one = format!("{} {:.2} ({})", pool.device, price.usd_per_hour, price.date);
        if !told.contains(&one) {
            told.push(one);
        }
    }
    match told.is_empty() {
        true => String::new(),
        false => format!("assumed list prices, $ per GPU-hour: {}", told.join(", ")),
    }
}

fn put(knees: &Knees, outputs: &Outputs, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<()> {
    let file = outputs.file.as_deref();
    let lines = || report::json::knees(&knees.rows);
    let text = match outputs.format {
        Format::Table => knees::text(knees, terminal.width().filter(|_| file.is_none())),
        Format::Json => format!("[{}]\n", lines().join(", ")),
        Format::Jsonl => lines().join("\n") + "\n",
        Format::Csv => knees::csv(knees),
        Format::Md => knees::md(knees),
    };
    files::put(&text, file, out)?;
    if interrupt::is_asked() {
        let whole = knees.rows.iter().filter(|row| row.is_whole()).count();
        terminal.notes(&[format!(
            "interrupted: {whole} of {} were searched to their end, and what was found until then is printed",
            counted(knees.rows.len() as u64, "setting")
        )]);
    }
    let Some(folder) = &outputs.charts else {
        return Ok(());
    };
    let named = |(index, row): (usize, &KneeRow)| {
        let priced = row.priced()?;
        let titled = KneeView {
            subject: format!("{} · {}", priced.view.subject, row.name()),
            ..priced.view.clone()
        };
        Some((format!("knee-cell{index:03}"), chart::knee(&titled)))
    };
    let pictures: Vec<(String, Picture)> = knees.rows.iter().enumerate().filter_map(named).collect();
    if !pictures.is_empty() {
        files::save_pictures(folder, &pictures, terminal)?;
    }
    Ok(())
}
