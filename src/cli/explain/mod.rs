//! `plimsoll explain`: what a request's time is made of, what binds, and what each change alone would do.

mod questions;
mod tried;

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use self::questions::{Question, Questions, by_default};
use self::tried::{Planned, plan, reason};
use super::disk::Disk;
use super::progress::Progress;
use super::run::{or_quickstart, quotable};
use super::terminal::Terminal;
use super::{Exit, files, interrupt, knee, present, remarks, subject, theory};
use crate::analysis::{Outcome, Verdict, simulate_watched};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::Said;
use crate::config::{Assembled, Diagnostic, Diagnostics, Place, Resolved, RunLength, assemble_run, resolve};
use crate::metrics::{Anatomy, Records};
use crate::report::explained::{self, Explained, Found, Kind, Tried, WhatIf};
use crate::report::figures::{count, significant};
use crate::report::{self, EngineWords, KneeView, Sought, chart};
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
this load. A change is marked * where both intervals are apart, which is beyond chance. --what-if FLAGS asks own questions in place of those,
`--what-if default` those, too, `--what-if none` none. Knees take most of the time; --no-knee leaves them out. Ctrl-C prints what is finished.")]
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
    let (asked, left_out) = all_questions(args, &common, own, (&resolved, &outcome));
    let no_knee = why_no_knee(args, &resolved);
    let base = Planned {
        document: input.document.clone(),
        resolved,
    };
    let found = try_all(&base, &asked, (&outcome, no_knee.is_none()), terminal);
    let view = view(
        &base,
        &input,
        &outcome,
        Told {
            anatomy,
            found,
            asked,
            left_out,
            no_knee,
        },
    );
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
    let is_auto = matches!(base.resolved.length, RunLength::Auto { .. });
    Ok(match outcome.result.violations.is_empty() {
        false => Exit::Failure,
        true if interrupt::is_asked() => Exit::Interrupted,
        true if is_auto && outcome.result.quotable().is_none() => Exit::NoSteadyState,
        true => Exit::Ok,
    }
    .into())
}

/// What the user asks beside, or in place of, the default questions; `None` of a word that stands for others.
fn own_questions(texts: &[String]) -> Result<Vec<(String, Said)>, Diagnostics> {
    let place = || Place::Flag("--what-if".to_owned());
    let mut own: Vec<(String, Said)> = Vec::new();
    let mut problems = Vec::new();
    for text in texts.iter().filter(|text| !is_word(text)) {
        match Said::parse(text) {
            Err(problem) => problems.push(problem.at(place())),
            Ok(said) if said.words.is_empty() => problems.push(
                Diagnostic::new("`--what-if` without flags changes nothing")
                    .at(place())
                    .help("write its flags in quotes: --what-if \"--max-num-seqs 64\""),
            ),
            Ok(said) => {
                let name = said.name.clone().unwrap_or_else(|| said.words.join(" "));
                match own.iter().any(|(known, _)| *known == name) {
                    false => own.push((name, said)),
                    true => problems
                        .push(Diagnostic::new(format!("the change `{name}` is given twice")).at(place())),
                }
            }
        }
    }
    match problems.is_empty() {
        true => Ok(own),
        false => Err(Diagnostics(problems)),
    }
}

/// `default` or `none`.
fn is_word(text: &str) -> bool {
    matches!(text.trim(), "default" | "none")
}

/// The user's own changes; one that is wrong is an error, where a default one is left out.
fn plan_own(common: &ScenarioFlags, own: Vec<(String, Said)>) -> Result<Vec<Asked>, Diagnostics> {
    let (mut asked, mut problems) = (Vec::new(), Vec::new());
    for (name, said) in own {
        let flags = said.words.join(" ");
        match plan(common, &said) {
            Ok(planned) => asked.push(Asked {
                question: Question {
                    name,
                    flags,
                    kind: Kind::Own,
                },
                planned,
            }),
            Err(wrong) => problems.extend(wrong.0.into_iter().map(|mut problem| {
                problem.message = format!("the change `{name}`: {}", problem.message);
                problem
            })),
        }
    }
    match problems.is_empty() {
        true => Ok(asked),
        false => Err(Diagnostics(problems)),
    }
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

/// What is tried, and what is not, with the reason.
fn all_questions(
    args: &Args,
    common: &ScenarioFlags,
    own: Vec<Asked>,
    (resolved, outcome): (&Resolved, &Outcome),
) -> (Vec<Asked>, Vec<(String, String)>) {
    let says = |word: &str| args.what_ifs.iter().any(|text| text.trim() == word);
    let Questions { asked, mut left_out } = match args.what_ifs.is_empty() || says("default") {
        true => by_default(resolved, outcome),
        false => Questions::default(),
    };
    let mut all = Vec::new();
    for question in asked {
        let planned = Said::parse(&question.flags)
            .map_err(Diagnostics::from)
            .and_then(|said| plan(common, &said));
        match planned {
            Ok(planned) => all.push(Asked { question, planned }),
            Err(wrong) => left_out.push((question.name, reason(&wrong))),
        }
    }
    all.extend(own);
    (all, left_out)
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
    changes: Vec<Option<Tried>>,
}

/// Tries all, as many at once as there are cores: the run of each first, so that whoever stops the searches has those.
fn try_all(
    base: &Planned,
    asked: &[Asked],
    (outcome, with_knees): (&Outcome, bool),
    terminal: &Terminal,
) -> Findings {
    let searches = if with_knees { asked.len() + 1 } else { 0 };
    let total = (asked.len() + searches) as u64;
    let progress = Mutex::new((Progress::new(terminal, Some(total), "runs and searches"), 0));
    let done = || {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.1 += 1;
        let done = progress.1;
        progress.0.at(done);
    };
    let requests = outcome.result.whole.sent;
    let runs = each(asked.len(), |at| {
        let tried = tried::run(&asked[at].planned.resolved, requests)?;
        done();
        Some(tried)
    });
    let mut knees = each(searches, |at| {
        let planned = at.checked_sub(1).map_or(base, |change| &asked[change].planned);
        let found = tried::search(planned)?;
        done();
        Some(found)
    });
    drop(progress);
    let of_base = knees.first_mut().and_then(Option::take);
    let mut knees = knees.into_iter().skip(1);
    let with_knee = |run: Option<Tried>| {
        let found = knees.next().flatten();
        let knee = found.map_or(Found::Nothing, |(knee, _)| knee);
        run.map(|run| Tried { knee, ..run })
    };
    Findings {
        base: of_base,
        changes: runs.into_iter().map(with_knee).collect(),
    }
}

/// What `one` says of each number, on as many cores as there are, one at a time and the first ones first; `None` of what was not begun, or
/// not finished, when the user asked to stop.
fn each<T: Send + Sync>(count: usize, one: impl Fn(usize) -> Option<T> + Sync) -> Vec<Option<T>> {
    let found: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let try_one = |at: usize| {
        let value = if interrupt::is_asked() { None } else { one(at) };
        value.map(|value| found[at].set(value));
    };
    (0..count).into_par_iter().with_max_len(1).for_each(try_one);
    found.into_iter().map(OnceLock::into_inner).collect()
}

/// What was found out, beside the run.
struct Told {
    anatomy: Anatomy,
    found: Findings,
    asked: Vec<Asked>,
    left_out: Vec<(String, String)>,
    no_knee: Option<String>,
}

fn view(base: &Planned, input: &Assembled, outcome: &Outcome, told: Told) -> Explained {
    let resolved = &base.resolved;
    let result = &outcome.result;
    let words = EngineWords::of(&resolved.scenario.first_pool().engine);
    let of = knee::sought(resolved);
    let load_value = match of {
        Sought::Rate => mean_rate(&resolved.scenario.workload),
        Sought::InFlight | Sought::Users => in_flight(&resolved.scenario.workload).map(f64::from),
    };
    let (knee, search) = told.found.base.unwrap_or((Found::Nothing, None));
    let missing = told
        .found
        .changes
        .iter()
        .filter(|change| change.is_none())
        .count();
    let what_ifs = told.asked.into_iter().zip(told.found.changes);
    let shown = result.quotable();
    let pressed = present::pressure(resolved, result).map(|pressure| pressure.limiter());
    Explained {
        subject: subject::subject(resolved),
        scenario: resolved.scenario_name(),
        seed: resolved.scenario.seed,
        load: match (load_value, of) {
            (Some(rate), Sought::Rate) => format!("{} req/s", significant(rate)),
            (Some(number), _) => format!("{} {}", count(number as u64), of.unit()),
            (None, _) => "all requests at once".to_owned(),
        },
        load_value,
        of,
        base: Tried {
            knee,
            ..tried::of_run(resolved, outcome)
        },
        anatomies: quotable(told.anatomy, result),
        p50_ttft_s: shown.and_then(|shown| shown.ttft.quantile_s(0.5)),
        bound: pressed.map(|limiter| {
            (
                report::resource(limiter, words).to_owned(),
                report::limiter_code(limiter),
            )
        }),
        at_knee: search.and_then(|search| search.limited_by),
        what_ifs: what_ifs
            .map(|(asked, tried)| WhatIf {
                name: asked.question.name,
                flags: asked.question.flags,
                kind: asked.question.kind,
                tried,
            })
            .collect(),
        left_out: told.left_out,
        no_knee: told.no_knee,
        words,
        audits: audits(resolved, outcome),
        trust: present::trust(resolved),
        assumptions: present::assumptions(resolved),
        notes: notes(resolved, input, outcome),
        interrupted: interrupt::is_asked().then_some(missing),
    }
}

/// Little's law, and what the books say of a queue that they have.
fn audits(resolved: &Resolved, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let little = ("L = λW", report::little_law(&outcome.result));
    let theory = match outcome.result.verdict {
        Verdict::Unstable | Verdict::TooShort => None,
        _ => theory::of_run(resolved, outcome),
    };
    let theory = theory.unwrap_or_else(|| format!("no closed form: {}", theory::why_none(resolved)));
    vec![little, ("vs theory", theory)]
}

/// What else must be said of the run.
fn notes(resolved: &Resolved, input: &Assembled, outcome: &Outcome) -> Vec<String> {
    let mut notes: Vec<String> = outcome.result.violations.clone();
    let why = outcome.result.reasons.first().cloned();
    notes.extend(why.filter(|_| outcome.result.quotable().is_none()));
    if resolved
        .scenario
        .pools
        .iter()
        .any(|pool| pool.engine.answers_whole())
    {
        notes.push(
            "answers leave whole: a first token comes with the last of its batch, and what the batch takes beyond the own prompt is \
             interference"
                .to_owned(),
        );
    }
    let theory = theory::of_run(resolved, outcome);
    let remarks = remarks::of_run(resolved, outcome);
    notes.extend(
        remarks
            .into_iter()
            .filter(|remark| theory.as_ref() != Some(remark)),
    );
    notes.extend(input.ignored.iter().cloned());
    notes
}
