//! `plimsoll report`: a run, its knee and what explains both, as one file of HTML that opens anywhere.

mod turned;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::prelude::*;

use self::turned::{Flags, Turned};
use super::page::kept::{self, Found, Kept, Point};
use super::page::{self, Explained, Explorer, Problem, Ran, Reel, Refused, Searched, Unanswered};
use super::progress::Progress;
use super::terminal::Terminal;
use super::{Exit, clock, files, interrupt};
use crate::config::flags::ScenarioFlags;
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

/// Writes the report.
///
/// # Errors
/// Everything that is wrong with the input, and a file that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    anyhow::ensure!(
        args.title.as_ref().is_none_or(|title| !title.trim().is_empty()),
        "--title is empty: leave it out, and the heading says what is simulated"
    );
    let mut turned = Turned::new(&args.scenario, &args.typed, &args.turned)?;
    if args.output != "-" {
        files::check_file(Path::new(&args.output), "--output")?;
    }
    drop(nothing_yet);
    terminal.notes(&turned.notes);

    let simulated = simulate(args, &turned, terminal);
    let is_first = |point: &&Point<Ran>| point.flags == turned.begins_at;
    let first = simulated.runs.iter().find(is_first).or(simulated.runs.first());
    let Some(first) = first else {
        terminal.notes(&["interrupted before anything was simulated: nothing is written".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
    let exit = match &first.found {
        Found::Answer(ran) if turned.axes.is_empty() => ran.exit(),
        _ => Exit::Ok as u8,
    };
    if first.flags != turned.begins_at {
        turned.begin_at(&first.flags.clone())?;
    }
    let said = headlines(&simulated);
    let missing = turned.points.len() - simulated.runs.len();
    let kept = Kept {
        version: env!("CARGO_PKG_VERSION"),
        made: format!("{} UTC", clock::now().strftime("%Y-%m-%d %H:%M")),
        title: args.title.as_deref(),
        start: &turned.start,
        axes: &turned.axes,
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

/// What is asked for: what is set for it, and as words of a command line.
struct Asked {
    flags: Flags,
    words: Vec<String>,
}

impl Asked {
    fn all_of(flags: &Flags, explorer: &Explorer) -> Asked {
        Asked {
            flags: flags.clone(),
            words: explorer.words_of(flags),
        }
    }

    /// Without the load, which a knee looks for: it is a word only where the scenario has none of its own, and a search has to begin somewhere.
    fn but_the_load(flags: &Flags, turned: &Turned) -> Asked {
        let mut others = flags.clone();
        if let Some(load) = turned.load {
            others.remove(load);
        }
        let has_own = turned.explorer.own_load() == turned.load;
        Asked {
            words: turned.explorer.words_of(if has_own { &others } else { flags }),
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

fn simulate(args: &Args, turned: &Turned, terminal: &Terminal) -> Simulated {
    let Turned {
        explorer,
        axes,
        points,
        ..
    } = turned;
    let goes_on = || !interrupt::is_asked();
    let reel = (!args.no_film).then(|| reel(points.len()));
    let run = |words: &[String]| {
        let ran = explorer.run_with(words, reel, true, &goes_on);
        ran.map(|ran| ran.kept(axes))
    };
    let asked: Vec<Asked> = points
        .iter()
        .map(|flags| Asked::all_of(flags, explorer))
        .collect();
    let runs = each(&asked, "runs", terminal, run);
    let mut asked: Vec<Asked> = Vec::new();
    for point in points.iter().filter(|_| !args.no_knee) {
        let of_knee = Asked::but_the_load(point, turned);
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
        first.unwrap_or("no reason is given").to_owned()
    };
    for Point { flags, found } in &simulated.runs {
        match found {
            Found::Answer(ran) => add(flags, ran.headline()),
            Found::Problem(refused) => add(flags, &format!("not possible: {}", why(refused))),
        }
    }
    for Point { flags, found } in &simulated.knees {
        match found {
            Found::Answer(found) => add(flags, found.headline()),
            Found::Problem(refused) => add(flags, &format!("no knee: {}", why(refused))),
        }
    }
    said
}
