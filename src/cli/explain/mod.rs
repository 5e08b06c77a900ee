//! `plimsoll explain`: what a request's time is made of, what binds, and what each change alone would do.

mod inquiry;
mod own;
mod questions;
mod tried;
mod view;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub(super) use self::inquiry::Waiting;
use self::inquiry::{Inquiry, inquire};
use self::own::{Own, own_questions, plan_own};
use self::tried::{Common, Planned};
use super::disk::Disk;
use super::run::{self, or_quickstart};
use super::terminal::Terminal;
use super::{Exit, files, interrupt};
use crate::analysis::Outcome;
use crate::config::flags::ScenarioFlags;
use crate::config::{Diagnostics, assemble_run, resolve};
use crate::report::explained::{self, Explained};
use crate::report::{self, Style, chart};

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

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let (flags, note) = or_quickstart(args.scenario.clone());
    let common = Common {
        flags: &flags,
        words: &[],
    };
    let own = own_questions(&args.what_ifs)?;
    let input = assemble_run(&flags, &Disk)?;
    let resolved = resolve(input.document.clone(), &Disk)?;
    let own = plan_own(common, own)?;
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
    let says_default = || args.what_ifs.iter().any(|text| text.trim() == "default");
    let inquiry = Inquiry {
        common,
        input: &input,
        by_default: args.what_ifs.is_empty() || says_default(),
        own,
        is_bare: args.no_knee,
    };
    let goes_on = || !interrupt::is_asked();
    let waiting = Waiting {
        terminal,
        goes_on: &goes_on,
    };
    let Some((base, outcome, view)) = inquire(resolved, inquiry, waiting) else {
        terminal.notes(&["interrupted before the scenario itself was simulated".to_owned()]);
        return Ok(Exit::Interrupted.into());
    };
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

/// What there is to say, for whoever shows it elsewhere than on a terminal.
pub(super) struct Words {
    /// As text.
    pub(super) said: String,
    /// As one JSON object.
    pub(super) json: String,
    /// What the command would end with.
    pub(super) exit: Exit,
}

/// Explains a scenario with words of flags upon it, by the questions that are asked by default, as far as somebody waits; `None` where nobody waited for its own run.
///
/// # Errors
/// Everything that is wrong with the flags.
pub(super) fn told(
    flags: &ScenarioFlags,
    words: &[String],
    with_knees: bool,
    waiting: Waiting,
) -> Result<Option<Words>, Diagnostics> {
    let common = Common { flags, words };
    let input = common.assembled()?;
    let resolved = resolve(input.document.clone(), &Disk)?;
    let inquiry = Inquiry {
        common,
        input: &input,
        by_default: true,
        own: Own::default(),
        is_bare: !with_knees,
    };
    let found = inquire(resolved, inquiry, waiting);
    let words = |(base, outcome, view): (Planned, Outcome, Explained)| Words {
        said: explained::text(&view, Style::default()),
        json: report::json::explained(&view),
        exit: run::exit(&base.resolved, &outcome),
    };
    Ok(found.map(words))
}
