//! `plimsoll explain`: what a request's time is made of, what binds, and what each change alone would do.

mod own;
mod questions;
mod tried;
mod view;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use self::own::{Own, own_questions, plan_own};
use self::questions::{AtTheKnee, Question, Questions, by_default};
use self::tried::{Planned, plan, reason};
use self::view::{Told, view};
use super::disk::Disk;
use super::progress::Progress;
use super::run::{self, or_quickstart};
use super::terminal::Terminal;
use super::{Exit, files, interrupt, present};
use crate::analysis::{Outcome, simulate_watched};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::Said;
use crate::config::{Diagnostics, Resolved, assemble_run, resolve};
use crate::metrics::{Anatomy, Records};
use crate::report::explained::{self, Found, Missing, Tried};
use crate::report::{self, KneeView, chart};
use crate::workload::{in_flight, mean_rate};

/// What to explain.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll explain
  plimsoll explain quickstart --request-rate 12
  plimsoll explain chunked-prefill --no-knee --charts pictures
  plimsoll explain meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 20 --input-len 1024 --output-len 128 --goodput ttft:500 tpot:50
  plimsoll explain quickstart --what-if \"--max-num-seqs 64\" --what-if \"small: --gpu l40s\"
  plimsoll explain quickstart --what-if default --what-if \"--async-scheduling=false\"

Without arguments: the quickstart scenario. A time to first token is taken apart into the front end, the wait in the queue by what its head lacked,
what the prompt alone takes, and what others in the same steps add: of all requests, of those about p50, p90 and p99, and of the slowest. A time per
output token likewise. Then settings are changed, each alone and under the same arrivals: what becomes of the knee, and of p99 TTFT, ITL and TPOT at
this load. A figure is marked * where its interval and that of the scenario as it is are apart. --what-if FLAGS asks own questions in place of those,
`--what-if default` those, too, `--what-if none` none. Knees take most of the time; --no-knee leaves them out. Ctrl-C prints what is finished. Exit codes
are those of `run`: 3 where the SLO is not met at this load, 4 where no steady state was reached in a run without --num-prompts or --duration.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// A change, its flags in quotes; give several: `--what-if "-tp 2" --what-if "small: --gpu l40s"`. `default`: those that are asked
    /// without any; `none`: none.
    #[arg(
        long = "what-if",
        value_name = "[NAME:] FLAGS",
        allow_hyphen_values = true,
        help_heading = "Questions"
    )]
    pub what_ifs: Vec<String>,
    /// Look for no knees, which takes most of the time.
    #[arg(long, help_heading = "Questions")]
    pub no_knee: bool,
    /// Form of the result.
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = super::text_or(&["json"]), help_heading = "Output")]
    pub format: String,
    /// Write the result to a file instead of the screen.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<String>,
    /// Draw what times to first token are made of, SVG and PNG, into a folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub charts: Option<String>,
}

/// A question, ready to be tried.
struct Asked {
    question: Question,
    planned: Planned,
}

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let (common, note) = or_quickstart(args.scenario.clone());
    let own = own_questions(&args.what_ifs)?;
    let input = assemble_run(&common, &Disk)?;
    let resolved = resolve(input.document.clone(), &Disk)?;
    let own = plan_own(&common, own)?;
    drop(nothing_yet);
    if let Some(file) = &args.output {
        files::check_file(Path::new(file), "--output")?;
    }
    if let Some(folder) = &args.charts {
        files::check_folder(Path::new(folder))?;
    }
    let notes = [
        note.into_iter().collect(),
        input.notes.clone(),
        resolved.notes.clone(),
    ]
    .concat();
    terminal.notes(&notes);
    if input.document.get("sweep").is_some() {
        terminal.notes(&["the scenario has a [sweep]: this explains what stands outside".to_owned()]);
    }
    let Some((outcome, anatomy)) = simulate_as_it_is(&resolved, terminal) else {
        terminal.notes(&["interrupted before the scenario itself was simulated".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    let questions = all_questions(args, &common, own, (&resolved, &outcome));
    let no_knee = why_no_knee(args, &resolved);
    let base = Planned {
        document: input.document.clone(),
        resolved,
    };
    let with_knees = no_knee.is_none();
    let (found, left_out) = try_all(&base, questions, (&common, &outcome, with_knees), terminal);
    let told = Told {
        anatomy,
        found,
        left_out,
        no_knee,
    };
    let view = view(&base, &input, &outcome, told);
    let file = args.output.as_deref();
    let text = match args.format.as_str() {
        "json" => report::json::explained(&view) + "\n",
        _ => explained::text(&view, terminal.style(file)),
    };
    files::put(&text, file, out)?;
    if let Some(folder) = &args.charts {
        let subject = format!("{}, {}", view.subject, view.load);
        let pictures = [("anatomy", chart::anatomy(&view.anatomies, &subject))];
        files::save_pictures(folder, &pictures, terminal)?;
    }
    Ok(match run::exit(&base.resolved, &outcome) {
        Exit::Failure => Exit::Failure,
        _ if interrupt::is_asked() => Exit::Interrupted,
        of_run => of_run,
    }
    .into())
}

/// The scenario's own run, and what its requests' times are made of; `None` where the user asked to stop.
fn simulate_as_it_is(resolved: &Resolved, terminal: &Terminal) -> Option<(Outcome, Anatomy)> {
    let mut progress = Progress::new(terminal, resolved.scenario.workload.num_prompts, "requests");
    let mut anatomy = Anatomy::of(&resolved.scenario);
    let experiment = present::experiment(resolved, Records::None);
    let outcome = simulate_watched(&resolved.scenario, &experiment, &mut anatomy, |ended| {
        progress.at(ended)
    });
    (!outcome.is_interrupted).then_some((outcome, anatomy))
}

/// What is tried, what may be once the knee is known, and what is not, with the reason.
struct All {
    asked: Vec<Asked>,
    at_the_knee: Vec<AtTheKnee>,
    left_out: Vec<(String, String)>,
}

impl All {
    /// A default question: one that is refused is left out.
    fn ask(&mut self, common: &ScenarioFlags, question: Question) {
        let planned = Said::parse(&question.flags)
            .map_err(Diagnostics::from)
            .and_then(|said| plan(common, &said));
        match planned {
            Ok(planned) => self.asked.push(Asked { question, planned }),
            Err(wrong) => self.left_out.push((question.name, reason(&wrong))),
        }
    }
}

fn all_questions(
    args: &Args,
    common: &ScenarioFlags,
    own: Own,
    (resolved, outcome): (&Resolved, &Outcome),
) -> All {
    let says = |word: &str| args.what_ifs.iter().any(|text| text.trim() == word);
    let by_default = match args.what_ifs.is_empty() || says("default") {
        true => by_default(resolved, outcome),
        false => Questions::default(),
    };
    let mut all = All {
        asked: Vec::new(),
        at_the_knee: by_default.at_the_knee,
        left_out: by_default.left_out,
    };
    for question in by_default.asked {
        all.ask(common, question);
    }
    all.asked.extend(own.asked);
    all.left_out.extend(own.left_out);
    all
}

/// Why no knee is looked for.
fn why_no_knee(args: &Args, resolved: &Resolved) -> Option<String> {
    if args.no_knee {
        return Some("--no-knee leaves them out".to_owned());
    }
    if resolved.slo.is_empty() {
        return Some(
            "there is no SLO to meet: give --goodput ttft:500 tpot:50 (ms per request), or --slo 'p99_ttft_ms<=500'".to_owned(),
        );
    }
    let is_loop = in_flight(&resolved.scenario.workload).is_some();
    let has_rate = mean_rate(&resolved.scenario.workload).is_some();
    (!is_loop && !has_rate)
        .then(|| "the traffic has no rate that could be raised: all requests are sent at once".to_owned())
}

/// What came of the scenario's own search and of each change; `None` of what the user did not wait for.
struct Findings {
    base: Option<(Found, Option<KneeView>)>,
    changes: Vec<(Asked, Option<Tried>)>,
}

impl Findings {
    /// What the user did not wait for.
    fn missing(&self, with_knees: bool) -> Missing {
        let has_no_knee =
            |tried: &Option<Tried>| tried.as_ref().is_none_or(|tried| tried.knee == Found::Nothing);
        let changes = || self.changes.iter().map(|(_, tried)| tried);
        let knees = changes().filter(|tried| has_no_knee(tried)).count() + usize::from(self.base.is_none());
        Missing {
            changes: changes().filter(|tried| tried.is_none()).count(),
            knees: if with_knees { knees } else { 0 },
        }
    }
}

/// Tries all, as many at once as there are cores: the run of each and the scenario's own knee first, so that whoever stops the searches has
/// those. What is pressed at that knee decides what else is asked.
fn try_all(
    base: &Planned,
    mut questions: All,
    (common, outcome, with_knees): (&ScenarioFlags, &Outcome, bool),
    terminal: &Terminal,
) -> (Findings, Vec<(String, String)>) {
    let run_each = |asked: &[Asked]| {
        let requests = outcome.result.whole.sent;
        let run = |at: usize| tried::run(&asked[at].planned.resolved, requests);
        each(asked.len(), "runs of changes", terminal, run)
    };
    let search_own = || if with_knees { tried::search(base) } else { None };
    let (mut runs, own) = rayon::join(|| run_each(&questions.asked), search_own);
    let of_own = own.as_ref().and_then(|(_, view)| view.as_ref());
    let pressed = of_own.and_then(|view| view.hardest_pressed);
    for may_matter in std::mem::take(&mut questions.at_the_knee) {
        match pressed == Some(may_matter.pressed) {
            true => questions.ask(common, may_matter.question),
            false => questions
                .left_out
                .push((may_matter.question.name, may_matter.why_not)),
        }
    }
    runs.extend(run_each(&questions.asked[runs.len()..]));
    let searches = if with_knees { questions.asked.len() } else { 0 };
    let search = |at: usize| tried::search(&questions.asked[at].planned);
    let mut knees = each(searches, "searches", terminal, search).into_iter();
    let with_knee = |run: Option<Tried>| {
        let found = knees.next().flatten();
        let knee = found.map_or(Found::Nothing, |(knee, _)| knee);
        run.map(|run| Tried { knee, ..run })
    };
    let tried: Vec<Option<Tried>> = runs.into_iter().map(with_knee).collect();
    let found = Findings {
        base: own,
        changes: questions.asked.into_iter().zip(tried).collect(),
    };
    (found, questions.left_out)
}

/// What `one` says of each number, on as many cores as there are, one at a time and the first ones first; `None` of what was not begun, or
/// not finished, when the user asked to stop.
fn each<T: Send + Sync>(
    count: usize,
    what: &'static str,
    terminal: &Terminal,
    one: impl Fn(usize) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let progress = Mutex::new((Progress::new(terminal, Some(count as u64), what), 0));
    let done = || {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.1 += 1;
        let done = progress.1;
        progress.0.at(done);
    };
    let found: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let try_one = |at: usize| {
        let value = if interrupt::is_asked() { None } else { one(at) };
        let is_there = value.is_some_and(|value| found[at].set(value).is_ok());
        if is_there {
            done();
        }
    };
    (0..count).into_par_iter().with_max_len(1).for_each(try_one);
    found.into_iter().map(OnceLock::into_inner).collect()
}
