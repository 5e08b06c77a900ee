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
use super::one::{Asked, search_one};
use super::{Args, Bracket, Terminal, lengths_of_its_own, no_promise};
use crate::analysis::knee::{Knee, Point};
use crate::config::axes::{Axis, Cell};
use crate::config::{Assembled, Diagnostic, Diagnostics, Place, Resolved};
use crate::report::figures::{counted, significant};
use crate::report::knees::{self, Found, KneeRow, Knees, Priced};
use crate::report::{self, Sizing, chart};

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
    let settings = args.axes.cells(&axes, &args.scenario, input)?;
    let Some(plan) = Plan::of(settings.clone(), (0, 1))? else {
        terminal.notes(&["interrupted before any setting was searched".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    let sizings = sizings(args, &plan, &settings)?;
    let outputs = args.output.resolve(&input.results, Writer::Knee)?;
    say(input, &plan, &outputs, terminal);
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
                ignored: [cell.resolved.ignored.clone(), lengths_of_its_own(&cell.resolved)].concat(),
            };
            (cell, asked)
        })
        .collect();
    let found = search_all(&asked, args.sizing.price, terminal)?;
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
    let problem = |axis: &Axis| {
        match axis.name.trim_start_matches('-').replace('_', "-").as_str() {
        "request-rate" => Some(
            Diagnostic::new("knee looks for the rate itself, and an axis sets it")
                .at(Place::Flag(format!("axis {}", axis.name)))
                .help("leave it out, or `plimsoll sweep` runs at given rates"),
        ),
        "gpu" if price.is_some() => Some(
            Diagnostic::new("one price for several GPUs ranks nothing")
                .at(Place::Flag("--price".to_owned()))
                .help("leave it out for the list prices, or write each card's own into a profile: `plimsoll hw show GPU`"),
        ),
        _ => None,
    }
    };
    axes.iter().filter_map(problem).collect()
}

/// What to count replicas for in each setting.
///
/// # Errors
/// Settings that promise nothing, and what cannot be counted.
fn sizings(args: &Args, plan: &Plan, settings: &[Cell]) -> Result<Vec<Option<Sizing>>, Diagnostics> {
    let mut problems: Vec<Diagnostic> = Vec::new();
    if plan.runs.iter().any(|cell| cell.resolved.slo.is_empty()) {
        problems.push(no_promise());
    }
    let of = |cell: &Planned| args.sizing.of(&cell.resolved, &settings[cell.index].document);
    let mut all = Vec::new();
    for sizing in plan.runs.iter().map(of) {
        match sizing {
            Ok(sizing) => all.push(sizing),
            Err(wrong) => problems.extend(
                wrong
                    .0
                    .into_iter()
                    .filter(|new| !problems.contains(new))
                    .collect::<Vec<_>>(),
            ),
        }
    }
    match problems.is_empty() {
        true => Ok(all),
        false => Err(Diagnostics(problems)),
    }
}

/// What there is to say before anything is searched, once however many settings it is true of.
fn say(input: &Assembled, plan: &Plan, outputs: &Outputs, terminal: &Terminal) {
    let mut notes: Vec<String> = [input.notes.clone(), outputs.notes.clone()].concat();
    notes.extend(unread(&input.document, outputs, Writer::Knee));
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
}

/// Every setting's search, as many at once as there are cores; `None` of one that was not begun when the user stopped.
fn search_all(
    asked: &[(&Planned, Asked<'_>)],
    price: Option<f64>,
    terminal: &Terminal,
) -> anyhow::Result<Vec<Option<Priced>>> {
    let progress = Mutex::new((Progress::new(terminal, Some(asked.len() as u64), "settings"), 0));
    let one = |(cell, asked): &(&Planned, Asked<'_>)| {
        if interrupt::is_asked() {
            return Ok(None);
        }
        let searched = search_one(asked, &mut |_| !interrupt::is_asked(), &mut |_| {
            !interrupt::is_asked()
        })?;
        if let Ok(mut progress) = progress.lock() {
            progress.1 += 1;
            let done = progress.1;
            progress.0.at(done);
        }
        let (gpus, usd_per_hour) = cost(&cell.resolved, price);
        Ok(Some(Priced {
            output_tokens_per_s: output_at_knee(&searched.knee),
            view: searched.view,
            gpus,
            usd_per_hour,
        }))
    };
    asked.par_iter().map(one).collect()
}

/// GPUs of all that is simulated, and US dollars per hour where every price is known.
fn cost(resolved: &Resolved, price: Option<f64>) -> (u64, Option<f64>) {
    let (mut gpus, mut usd) = (0, Some(0.0));
    for pool in &resolved.scenario.pools {
        let own = u64::from(pool.gpus) * u64::from(pool.replicas);
        let each = price.or(pool.price.as_ref().map(|price| price.usd_per_hour));
        gpus += own;
        usd = usd.zip(each).map(|(sum, each)| sum + each * own as f64);
    }
    (gpus, usd)
}

/// Output tokens per second at the highest rate within the promise: those of a request as the nearest run had them.
fn output_at_knee(knee: &Knee) -> Option<f64> {
    let rate = knee.within_slo?.value;
    let output = |point: &Point| point.tokens_each.map(|(_, output)| output);
    Some(rate * knee.up_to(rate).find_map(output)?)
}

/// Every setting in the order of the axes.
fn rows(plan: &Plan, found: Vec<Option<Priced>>) -> Vec<KneeRow> {
    let searched = plan.runs.iter().zip(found).map(|(cell, priced)| {
        let found = priced.map_or(Found::NotRun, |priced| Found::Knee(Box::new(priced)));
        (cell.index, &cell.labels, found)
    });
    let misfits = plan.misfits.iter().map(|cell| {
        let found = Found::DoesNotFit(cell.why.clone());
        (cell.index, &cell.labels, found)
    });
    let mut all: Vec<_> = searched.chain(misfits).collect();
    all.sort_by_key(|(index, ..)| *index);
    let row = |(_, labels, found): (usize, &Vec<(String, String)>, Found)| KneeRow {
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
    format!("assumed list prices, $ per GPU-hour: {}", told.join(", "))
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
        let done = knees.rows.iter().filter(|row| row.found != Found::NotRun).count();
        terminal.notes(&[format!(
            "interrupted; {} was begun, and what was found until then is printed",
            counted(done as u64, "setting")
        )]);
    }
    let Some(folder) = &outputs.charts else {
        return Ok(());
    };
    let named = |(index, row): (usize, &KneeRow)| {
        let priced = row.priced()?;
        Some((format!("knee-cell{index:03}"), chart::knee(&priced.view)))
    };
    let pictures: Vec<_> = knees.rows.iter().enumerate().filter_map(named).collect();
    let pictures: Vec<(&str, chart::Picture)> = pictures
        .iter()
        .map(|(name, picture)| (name.as_str(), picture.clone()))
        .collect();
    files::save_pictures(folder, &pictures, terminal)?;
    Ok(())
}
