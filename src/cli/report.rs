//! `plimsoll report`: a run, its knee and what explains both, as one file of HTML that opens anywhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::prelude::*;

use super::page::kept::{self, Found, Kept, Point};
use super::page::{
    self, Explained, Explorer, Problem, Ran, Reel, Refused, Searched, Start, Stops, Unanswered,
};
use super::progress::Progress;
use super::terminal::Terminal;
use super::{Exit, clock, files, interrupt};
use crate::config::argv;
use crate::config::axes::Axis;
use crate::config::flags::ScenarioFlags;
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::counted;

/// What to put into a report.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll report -o quickstart.html
  plimsoll report quickstart --request-rate 12 --title \"Chat, 12 req/s\" -o chat.html
  plimsoll report chunked-prefill -L max-num-batched-tokens 512,2048,8192 -L request-rate 4,8,12 -o class.html
  plimsoll report Qwen/Qwen3-8B --gpu h100 --users 50 --think-time 10s --input-len 800 --output-len 200 --no-what-if -o users.html

Without a scenario or model: the quickstart scenario. The file holds the verdict, latencies with intervals, what times are made of, settings changed one at a
time, the knee over load, and a film of the first requests through queue and batch; it opens in any browser, offline and without plimsoll, prints as a
document, and names the commands that compute it again. -L makes a control of a flag: each of its values is simulated, all combinations of several, and
whoever opens the file turns them; what is tried one at a time is left out then. A combination that is refused says why in its place. Ctrl-C writes what is
finished. Exit codes are those of `run`; with -L, 0.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub(crate) scenario: ScenarioFlags,
    /// Write the report to this file; `-` is the screen.
    #[arg(short, long, value_name = "FILE", help_heading = "Report")]
    output: String,
    /// A control of the report: a flag, and its values with commas.
    #[arg(
        short = 'L',
        num_args = 2,
        value_names = ["FLAG", "VALUES"],
        action = clap::ArgAction::Append,
        help_heading = "Report"
    )]
    turned: Vec<String>,
    /// Its heading.
    #[arg(long, value_name = "TEXT", help_heading = "Report")]
    title: Option<String>,
    /// Look for no knee.
    #[arg(long, help_heading = "Report")]
    no_knee: bool,
    /// Change no settings, which takes most of the time.
    #[arg(long, help_heading = "Report")]
    no_what_if: bool,
    /// Film no requests, which take most of the file.
    #[arg(long, help_heading = "Report")]
    no_film: bool,
    /// The words behind the command that say what to simulate.
    #[arg(skip)]
    pub(crate) typed: Vec<String>,
}

/// Flags of the report itself: no words of a run. By how many values each has.
const OWN: [(&str, usize); 9] = [
    ("--output", 1),
    ("-o", 1),
    ("-L", 2),
    ("--title", 1),
    ("--no-knee", 0),
    ("--no-what-if", 0),
    ("--no-film", 0),
    ("--color", 1),
    ("--quiet", 0),
];

/// What was typed behind the command: words that `run` takes.
pub(super) fn typed(args: &[String]) -> Vec<String> {
    page::typed(args, "report", &OWN)
}

/// What is set for an answer, by flag.
type Flags = BTreeMap<String, String>;

/// Most combinations of a report.
const POINTS_MAX: usize = 1000;

/// Writes the report.
///
/// # Errors
/// Everything that is wrong with the input, and a file that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let axes = axes(&args.turned)?;
    let (explorer, notes) = explorer(args, &axes)?;
    let mut axes: Vec<Stops> = (axes.iter())
        .map(|axis| explorer.stops(&axis.name, &axis.values))
        .collect();
    let points = points(&axes);
    let (begins_at, start) = beginning(&explorer, &axes, &points)?;
    for axis in &mut axes {
        axis.value.clone_from(&begins_at[&axis.flag]);
    }
    if args.output != "-" {
        files::check_file(Path::new(&args.output), "--output")?;
    }
    drop(nothing_yet);
    terminal.notes(&notes);

    let simulated = simulate(args, &explorer, (&axes, &points), terminal);
    let Some(first) = simulated.runs.iter().find(|point| point.flags == begins_at) else {
        terminal.notes(&["interrupted before anything was simulated: nothing is written".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    let exit = match &first.found {
        Found::Answer(ran) if axes.is_empty() => ran.exit(),
        _ => Exit::Ok as u8,
    };
    let said = headlines(&simulated);
    let missing = points.len() - simulated.runs.len();
    let kept = Kept {
        version: env!("CARGO_PKG_VERSION"),
        made: format!("{} UTC", clock::now().strftime("%Y-%m-%d %H:%M")),
        title: args.title.as_deref(),
        start: &start,
        axes: &axes,
        runs: simulated.runs,
        knees: simulated.knees,
        explained: simulated.explained,
    };
    let html = kept::html(&kept);
    files::put(&html, Some(&args.output), out)?;
    if args.output != "-" {
        out.write_all(said.as_bytes())?;
        let size = html.len() as f64 / 1e6;
        writeln!(out, "{}: {size:.1} MB, opens in any browser", args.output)?;
    }
    if interrupt::is_asked() {
        let what = match missing {
            0 => "what was not finished is not in it".to_owned(),
            some => format!("{} not in it", counted(some as u64, "combination")),
        };
        terminal.notes(&[format!("interrupted: {what}")]);
        return Ok(Exit::Interrupted.into());
    }
    Ok(ExitCode::from(exit))
}

/// The user's axes.
///
/// # Errors
/// All that is wrong with them.
fn axes(turned: &[String]) -> Result<Vec<Axis>, Diagnostics> {
    let (mut axes, mut problems): (Vec<Axis>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
    for pair in turned.chunks(2) {
        let [flag, values] = pair else { continue };
        let name = match canonical(flag) {
            Ok(name) => name,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        match Axis::list(&name, values) {
            Err(problem) => problems.push(problem),
            Ok(axis) => {
                let is_twice = axes.iter().any(|known| known.name == name);
                let repeated = (axis.values.iter().enumerate())
                    .find(|(at, value)| axis.values[..*at].iter().any(|other| is_same(other, value)))
                    .map(|(_, value)| format!("`-L {name}` has the value {value} twice"));
                let twice =
                    is_twice.then(|| format!("`-L {name}` is given twice: write all its values with commas"));
                problems.extend(repeated.into_iter().chain(twice).map(Diagnostic::new));
                axes.push(axis);
            }
        }
    }
    let count = (axes.iter()).try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        let message = format!(
            "the values of {} make more than {POINTS_MAX} combinations",
            counted(axes.len() as u64, "flag")
        );
        problems.push(
            Diagnostic::new(message)
                .help("a report holds each of them: take fewer values; `plimsoll sweep` has tables of more"),
        );
    }
    match problems.is_empty() {
        true => Ok(axes),
        false => Err(Diagnostics(
            (problems.into_iter())
                .map(|problem| problem.at(Place::Flag("-L".to_owned())))
                .collect(),
        )),
    }
}

/// A flag as it is called in full, `tp` and `max_num_seqs` as well as their long forms.
fn canonical(flag: &str) -> Result<String, Diagnostic> {
    if flag.contains('.') {
        let problem = Diagnostic::new(format!("`-L {flag}` is the path of a key"));
        return Err(problem.help("a control of a report is a flag: -L max-num-seqs 64,256"));
    }
    let name = flag.trim_start_matches('-').replace('_', "-");
    let normal = argv::normalise(&[format!("--{name}=1")]);
    let known = normal.args.iter().find_map(|word| word.strip_prefix("--"));
    Ok(known.map_or(name.clone(), |known| {
        known.split('=').next().unwrap_or(known).to_owned()
    }))
}

/// `4` and `4.0` are one number.
fn is_same(one: &str, other: &str) -> bool {
    one == other || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}

/// The scenario, which may say all only with a value of each axis.
fn explorer(args: &Args, axes: &[Axis]) -> Result<(Explorer, Vec<String>), Diagnostics> {
    let (flags, typed) = (&args.scenario, &args.typed);
    let as_it_is = Explorer::new(flags.clone(), typed.clone(), None);
    if as_it_is.is_ok() || axes.is_empty() {
        return as_it_is;
    }
    let first = (axes.iter())
        .filter_map(|axis| Some((axis.name.clone(), axis.values.first()?.clone())))
        .collect();
    Explorer::upon(flags.clone(), typed.clone(), None, &words(&first))
}

/// Where the page begins: with the scenario's own values, or else with the first combination that is not refused.
///
/// # Errors
/// What is wrong with the former, where all are refused.
fn beginning(explorer: &Explorer, axes: &[Stops], points: &[Flags]) -> Result<(Flags, Start), Diagnostics> {
    let own: Flags = (axes.iter())
        .map(|axis| (axis.flag.clone(), axis.value.clone()))
        .collect();
    let start = |flags: &Flags| explorer.kept_start(&words(flags), axes);
    let wrong = match start(&own) {
        Ok(found) => return Ok((own, found)),
        Err(wrong) => wrong,
    };
    let mut others = points
        .iter()
        .filter_map(|flags| Some((flags.clone(), start(flags).ok()?)));
    others.next().ok_or(wrong)
}

/// All combinations, the last axis the fastest.
fn points(axes: &[Stops]) -> Vec<Flags> {
    axes.iter().fold(vec![Flags::new()], |points, axis| {
        let with_each = |point: &Flags| {
            let with = |value: &String| {
                let mut point = point.clone();
                point.insert(axis.flag.clone(), value.clone());
                point
            };
            axis.values.iter().map(with).collect::<Vec<_>>()
        };
        points.iter().flat_map(with_each).collect()
    })
}

/// A combination as words of a command line.
fn words(flags: &Flags) -> Vec<String> {
    flags
        .iter()
        .map(|(flag, value)| format!("--{flag}={value}"))
        .collect()
}

/// What is asked for: what is set for it, and as words of a command line.
struct Asked {
    flags: Flags,
    words: Vec<String>,
}

impl Asked {
    fn all_of(flags: &Flags) -> Asked {
        Asked {
            flags: flags.clone(),
            words: words(flags),
        }
    }

    /// Without the load, which a knee looks for: it is a word only where the scenario has none of its own, and a search has to begin somewhere.
    fn but_the_load(flags: &Flags, explorer: &Explorer) -> Asked {
        let mut others = flags.clone();
        if let Some(load) = explorer.load() {
            others.remove(load);
        }
        Asked {
            words: words(if explorer.has_own_load() { &others } else { flags }),
            flags: others,
        }
    }
}

/// What was simulated before the user asked to stop.
struct Simulated {
    runs: Vec<Point<Ran>>,
    knees: Vec<Point<Searched>>,
    explained: Option<Explained>,
}

fn simulate(
    args: &Args,
    explorer: &Explorer,
    (axes, points): (&[Stops], &[Flags]),
    terminal: &Terminal,
) -> Simulated {
    let goes_on = || !interrupt::is_asked();
    let reel = (!args.no_film).then(|| reel(points.len()));
    let run = |words: &[String]| {
        let ran = explorer.run_with(words, reel, true, &goes_on);
        ran.map(|ran| ran.kept(axes))
    };
    let asked: Vec<Asked> = points.iter().map(Asked::all_of).collect();
    let runs = each(&asked, "runs", terminal, run);
    let mut asked: Vec<Asked> = Vec::new();
    for point in points.iter().filter(|_| !args.no_knee) {
        let of_knee = Asked::but_the_load(point, explorer);
        if asked.iter().all(|known| known.flags != of_knee.flags) {
            asked.push(of_knee);
        }
    }
    let knees = each(&asked, "searches", terminal, |words| {
        explorer.knee_with(words, &goes_on)
    });
    let is_explained = points.len() == 1 && points[0].is_empty() && !args.no_what_if;
    let explained = is_explained.then(|| explorer.explain_with(&[], !args.no_knee, terminal, &goes_on));
    Simulated {
        runs,
        knees,
        explained: explained.and_then(Result::ok),
    }
}

/// How much of each run is filmed: of many less, so that a browser opens the file.
fn reel(points: usize) -> Reel {
    let share = |all: usize, least: usize, most: usize| (all / points).clamp(least, most);
    Reel {
        requests: share(10_000, 100, page::LONG.requests),
        rows: share(300_000, 3_000, page::LONG.rows),
    }
}

/// The answer for each combination, or why there is none, as many at once as there are cores; without those that were not finished when the user
/// asked to stop.
fn each<T: Send>(
    all: &[Asked],
    what: &'static str,
    terminal: &Terminal,
    one: impl Fn(&[String]) -> Result<T, Unanswered> + Sync,
) -> Vec<Point<T>> {
    let progress = Mutex::new((Progress::new(terminal, Some(all.len() as u64), what), 0));
    let find = |Asked { flags, words }: &Asked| {
        let found = match one(words) {
            Ok(answer) => Found::Answer(answer),
            Err(Unanswered::Gone) => return None,
            Err(Unanswered::Wrong { command, problems }) => Found::Problem(Refused {
                command: Some(command),
                problems,
            }),
        };
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.1 += 1;
        let done = progress.1;
        progress.0.at(done);
        Some(Point {
            flags: flags.clone(),
            found,
        })
    };
    let found: Vec<Option<Point<T>>> = all.par_iter().with_max_len(1).map(find).collect();
    found.into_iter().flatten().collect()
}

/// What the report says first, in a line each.
fn headlines(simulated: &Simulated) -> String {
    let mut said = String::new();
    let mut add = |flags: &Flags, line: &str| {
        let at = (flags.iter())
            .map(|(flag, value)| format!("{flag} {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        let at = if at.is_empty() { at } else { at + ": " };
        said += &format!("{at}{line}\n");
    };
    let why = |refused: &Refused| {
        let first = refused.problems.first().map(Problem::message);
        format!("not possible: {}", first.unwrap_or("no reason is given"))
    };
    for Point { flags, found } in &simulated.runs {
        match found {
            Found::Answer(ran) => add(flags, ran.headline()),
            Found::Problem(refused) => add(flags, &why(refused)),
        }
    }
    for Point { flags, found } in &simulated.knees {
        match found {
            Found::Answer(found) => add(flags, found.headline()),
            Found::Problem(refused) => add(
                flags,
                &format!("no knee: {}", why(refused).trim_start_matches("not possible: ")),
            ),
        }
    }
    said
}
