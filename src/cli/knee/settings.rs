//! `-L gpu h100,l40s`: the knee of every combination of values, what each costs, and which is cheapest.

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;

use super::super::outputs::{Format, Outputs, Writer};
use super::super::plan::{Common, Plan, Planned};
use super::super::reported::unread;
use super::super::{Exit, cells, files, interrupt, mix, present, rent, subject};
use super::one::Asked;
use super::searches::{Setting, Turns, objects, search_all};
use super::{Args, Bracket, Terminal, in_flight, no_promise, set_by_the_search};
use crate::config::axes::{Axis, Cell};
use crate::config::{Assembled, Diagnostic, Diagnostics, Place, Resolved};
use crate::report::chart::{self, Picture};
use crate::report::figures::{count, counted};
use crate::report::knees::{self, KneeRow, Knees, Ranking};
use crate::report::{self, KneeView, Sizing, Sought};
use crate::sweep;

/// Most settings of one command.
const SETTINGS_MAX: usize = 10_000;

/// Searches every setting's knee and prints them.
///
/// # Errors
/// What is wrong where no setting can be searched, and files that cannot be written.
pub(super) fn execute(
    args: &Args,
    (common, input): (&Common<'_>, &Assembled),
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let settings = combinations(args, common)?;
    let mut sizings: Vec<Option<Sizing>> = Vec::new();
    let mut first: Option<Sought> = None;
    let judge = |index: usize, resolved: &Resolved| {
        promised(resolved)?;
        rent::check_for_knee(resolved)?;
        super::refuse_recorded(resolved)?;
        if in_flight::is_loop(resolved) {
            in_flight::check(args, resolved)?;
        }
        comparable(*first.get_or_insert(in_flight::sought(resolved)), resolved)?;
        let sizing = args.sizing.of(resolved, &settings[index].document);
        sizing.map(|sizing| sizings.push(sizing))
    };
    let Some(mut plan) = Plan::of(settings.clone(), (0, 1), judge)? else {
        terminal.notes(&["interrupted before any setting was searched".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    (plan.runs.iter_mut()).for_each(|cell| cell.resolved.precision_acts());
    if args.sizing.for_rate.is_some() {
        plan.runs.iter_mut().for_each(|cell| cell.resolved.router_acts());
    }
    let outputs = args.output.resolve(&input.results, Writer::Knee)?;
    let unread = unread(&input.document, &outputs, Writer::Knee);
    say(input, &plan, &outputs, &unread, terminal);
    for cell in &mut plan.runs {
        cell.resolved.said_before(&[], &outputs.notes);
        cell.resolved.said_before(&input.notes, &input.ignored);
    }
    if args.output.dry_run {
        return cells::put(&plan, out, terminal);
    }
    outputs.check_places()?;
    terminal.notes(&outputs.told);
    let bracket = Bracket {
        min_rate: args.min_rate,
        max_rate: args.max_rate,
    };
    let asked = plan.runs.iter().zip(sizings).map(|(cell, sizing)| {
        let of_cell = [
            &cell.resolved.ignored,
            &unread,
            &set_by_the_search(&cell.resolved),
        ];
        let asked = Asked {
            resolved: &cell.resolved,
            document: &settings[cell.index].document,
            bracket,
            sizing,
            rent: None,
            ignored: of_cell.map(Vec::as_slice).concat(),
            is_bare: false,
        };
        (cell, asked)
    });
    search(&plan, &asked.collect::<Vec<_>>(), args, &outputs, out, terminal)
}

/// Every combination of the axes' values.
///
/// # Errors
/// What is wrong with an axis, and more settings than one waits for.
pub(in crate::cli) fn combinations(args: &Args, common: &Common<'_>) -> Result<Vec<Cell>, Diagnostics> {
    let axes = args.axes.given()?;
    let lengths = axes.iter().map(|axis| axis.values.len());
    let cells = match args.axes.link {
        true => lengths.max().unwrap_or(0),
        false => lengths.fold(1usize, usize::saturating_mul),
    };
    let cells = cells.saturating_mul(args.axes.variants.len().max(1));
    if cells > SETTINGS_MAX {
        let problem = Diagnostic::new(format!("these axes make {} settings", count(cells as u64)));
        let most = count(SETTINGS_MAX as u64);
        return Err(problem
            .help(format!("a search takes a second or more: at most {most}"))
            .into());
    }
    common.cells(&axes)
}

/// Searches and prints. With `-o FILE.jsonl` finished settings are kept as they come, and a search that was interrupted goes on
/// where it stopped.
fn search(
    plan: &Plan,
    asked: &[(&Planned, Asked<'_>)],
    args: &Args,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let is_jsonl = outputs.format == Format::Jsonl;
    let kept = outputs.file.as_deref().filter(|_| is_jsonl);
    // What decides a knee and its cost beside the scenario.
    let beside = format!("{:?}", (args.min_rate, args.max_rate, args.sizing));
    let cells = plan.cells(is_jsonl.then_some(&beside));
    // Nobody else writes the file until it is whole.
    let turns = Turns::one(cells.len());
    let (settings, keeper) = search_all(plan, asked, (&cells, kept), &turns, terminal)?;
    let mut objects = objects(&settings, turns.told)?;
    knees::place(&mut objects);
    if let Some(why) = nothing_searched(plan, &objects) {
        anyhow::bail!(why);
    }
    let is_cut = interrupt::is_asked();
    match is_jsonl {
        true if is_cut && kept.is_some() => {}
        true => files::put(&sweep::to_jsonl(&cells, &objects)?, outputs.file.as_deref(), out)?,
        false => put(plan, &settings, outputs, out, terminal)?,
    }
    if let Some(error) = keeper.error {
        let path = kept.unwrap_or_default();
        return Err(
            anyhow::Error::new(error).context(format!("cannot keep every finished setting in {path}"))
        );
    }
    if is_cut {
        terminal.notes(&[interrupted(&settings, kept)]);
    }
    if let Some(folder) = &outputs.charts {
        let said = said_of_all(plan);
        let all = Ranking::of(&objects, &plan.labels(), said);
        draw(&all, &settings, folder, terminal)?;
    }
    let is_kept = |object: &Value| object["state"] == "kept";
    Ok(match (is_cut, objects.iter().any(is_kept)) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    }
    .into())
}

pub(in crate::cli) fn interrupted(settings: &[Setting], kept: Option<&str>) -> String {
    let is_whole = |setting: &&Setting| setting.row().is_none_or(KneeRow::is_whole);
    let whole = settings.iter().filter(is_whole).count();
    let of = counted(settings.len() as u64, "setting");
    let goes_on = match kept {
        Some(path) => format!("the same command goes on from {path}"),
        None => "what was found until then is printed. With -o FILE.jsonl the same command would go on from where it stopped".to_owned(),
    };
    format!("interrupted: {whole} of {of} were searched to their end; {goes_on}")
}

/// Axes that the search sets itself.
pub(super) fn contradicted(axes: &[Axis]) -> Vec<Diagnostic> {
    axes.iter().filter_map(contradicts).collect()
}

fn contradicts(axis: &Axis) -> Option<Diagnostic> {
    let name = axis.name.trim_start_matches('-').replace('_', "-");
    let last = name.rsplit('.').next().unwrap_or(&name);
    let is_of_all = !name.contains('.') || name.starts_with("workload.arrivals.");
    (last == "request-rate" && is_of_all).then(|| {
        Diagnostic::new("knee looks for the rate itself, and an axis sets it")
            .at(Place::of_axis(&axis.name))
            .help("leave it out, or `plimsoll sweep` runs at given rates")
    })
}

/// Whether there is a promise that a rate could keep.
fn promised(resolved: &Resolved) -> Result<(), Diagnostics> {
    match resolved.slo.is_empty() {
        true => Err(no_promise().into()),
        false => Ok(()),
    }
}

/// Whether its knee is a number of what the first one's is.
///
/// # Errors
/// It is not.
fn comparable(first: Sought, resolved: &Resolved) -> Result<(), Diagnostics> {
    let own = in_flight::sought(resolved);
    match own == first {
        true => Ok(()),
        false => Err(Diagnostic::new(format!(
            "its knee is a number of {}, and that of the first setting one of {}",
            own.axis(),
            first.axis()
        ))
        .help("search settings of one kind of traffic beside each other")
        .into()),
    }
}

/// Why no setting could be searched: once where that is the same of all, as of one.
fn nothing_searched(plan: &Plan, objects: &[Value]) -> Option<String> {
    let why = |object: &Value| match object["state"] == "failed" {
        true => object["why"].as_str().map(str::to_owned),
        false => None,
    };
    let reasons: Vec<String> = objects.iter().map(why).collect::<Option<_>>()?;
    let first = reasons.first()?;
    if reasons.iter().all(|reason| reason == first) {
        return Some(first.clone());
    }
    let told = plan.labels().into_iter().zip(&reasons);
    let told = told.map(|(labels, why)| format!("{}: {why}", knees::name(labels)));
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
        notes.extend(set_by_the_search(&cell.resolved));
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

/// Where the prices are from, each card once.
pub(in crate::cli) fn prices(plan: &Plan) -> String {
    rent::prices(plan.runs.iter().flat_map(|cell| &cell.resolved.scenario.pools))
}

/// Writes all settings in any other form than lines of JSON.
fn put(
    plan: &Plan,
    settings: &[Setting],
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let knees = Knees {
        subject: subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
        rows: settings.iter().filter_map(Setting::row).cloned().collect(),
        price_source: prices(plan),
    };
    let file = outputs.file.as_deref();
    let text = match outputs.format {
        Format::Csv => knees::csv(&knees),
        Format::Md => knees::md(&knees),
        Format::Json | Format::Jsonl => {
            format!("[{}]\n", report::json::knee_settings(&knees).join(", "))
        }
        Format::Table => knees::text(&knees, terminal.width().filter(|_| file.is_none())),
    };
    files::put(&text, file, out)
}

/// What stands over the picture of all: what is served, what is promised where that is the same of all, and the prices.
pub(in crate::cli) fn said_of_all(plan: &Plan) -> Vec<String> {
    let resolved = || plan.runs.iter().map(|cell| &cell.resolved);
    let promised = |resolved: &Resolved| {
        let slo = &resolved.slo;
        let (limits, classes) = (present::printed_limits(slo), present::class_promises(resolved));
        report::promised(&limits, &classes, &present::promises(slo), slo.attainment).join(", ")
    };
    let promised = subject::agreed(resolved().map(promised));
    let said = [
        subject::of_all(resolved()),
        promised.unwrap_or_default(),
        prices(plan),
    ];
    said.into_iter().filter(|phrase| !phrase.is_empty()).collect()
}

/// The picture of all settings, and one of each that was searched in this command.
pub(in crate::cli) fn draw(
    all: &Ranking,
    settings: &[Setting],
    folder: &str,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let named = |(index, setting): (usize, &Setting)| {
        let row = setting.row()?;
        let priced = row.priced()?;
        let titled = KneeView {
            subject: format!("{} · {}", priced.view.subject, row.name()),
            ..priced.view.clone()
        };
        Some((format!("knee-cell{index:03}"), chart::knee(&titled)))
    };
    let of_all = ("knees".to_owned(), chart::ranking(all));
    let each = settings.iter().enumerate().filter_map(named);
    let pictures: Vec<(String, Picture)> = std::iter::once(of_all).chain(each).collect();
    let before = settings.iter().filter(|setting| setting.row().is_none()).count();
    if before > 0 {
        terminal.notes(&[format!(
            "{} read back: in the picture of all, and without one of its own",
            counted(before as u64, "setting")
        )]);
    }
    files::save_pictures(folder, &pictures, terminal)
}
