//! `plimsoll working-set`: how large a prefix cache the prompts of a scenario or trace can use.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use super::disk::Disk;
use super::progress::Progress;
use super::terminal::Terminal;
use super::{Exit, files, interrupt, rent, subject};
use crate::analysis::{Looked, TEXTS_MAX, WorkingSet};
use crate::config::flags::ScenarioFlags;
use crate::config::{QUICKSTART, Resolved, RunLength, assemble, resolve};
use crate::report::chart;
use crate::report::working_set::{self, PoolMark, WorkingSetView};
use crate::workload::{is_closed, open};

/// Requests that are looked at where nobody says how many.
const PROMPTS: u64 = 20_000;

/// What to look at.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll working-set prefix-lpm
  plimsoll working-set meta-llama/Llama-3.1-8B-Instruct --gpu l40s --trace conversation_trace.jsonl --charts pictures
  plimsoll working-set meta-llama/Llama-3.1-8B-Instruct --gpu h100 --dataset-name generated-shared-prefix --request-rate 4

One pass over the requests gives the hit rate of every size (Mattson's stack distances, least recently used). Nothing is
simulated: requests come one after the other. `plimsoll trace FILE --working-set` needs no GPU or model.")]
pub struct Args {
    /// Whose prompts.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// What to write.
    #[command(flatten)]
    pub output: CurveFlags,
}

/// Where a curve goes.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct CurveFlags {
    /// Form of the result.
    #[arg(long, value_name = "FORM")]
    pub format: Option<CurveFormat>,
    /// Write the result to a file instead of the screen.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Draw the curve, SVG and PNG, into a folder.
    #[arg(long, value_name = "DIR")]
    pub charts: Option<String>,
}

/// Form of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CurveFormat {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// One object.
    Json,
    /// A row for each size.
    Csv,
}

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let mut flags = args.scenario.clone();
    if flags.target.is_none()
        && flags.scenario.is_none()
        && flags.server.machines.model.is_none()
        && flags.serve_cmd.is_none()
    {
        flags.scenario = Some(QUICKSTART.to_owned());
    }
    let input = assemble(&flags, &Disk)?;
    let resolved = resolve(input.document, &Disk)?;
    rent::no_cost(
        &resolved,
        "--price has no effect on working-set, which tells no cost",
        "leave it out",
    )?;
    drop(nothing_yet);
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    check_places(&args.output)?;
    let scenario = &resolved.scenario;
    let most = match resolved.length {
        RunLength::Auto { .. } => {
            terminal.notes(&[format!(
                "{PROMPTS} requests are looked at; --num-prompts says otherwise"
            )]);
            PROMPTS
        }
        _ => u64::MAX,
    };
    let clients = scenario.workload.parts();
    if clients.len() > 1 && clients.iter().any(|client| is_closed(client)) {
        anyhow::bail!(
            "without a server nobody knows when a closed loop sends among other clients: leave its class out for `working-set`"
        );
    }
    let traffic = open(&scenario.workload, scenario.seed);
    let name = match &scenario.workload.arrivals {
        _ if scenario.workload.listed().is_some() => "the trace".to_owned(),
        _ => {
            let target = flags.target.as_deref().or(flags.scenario.as_deref());
            target
                .filter(|target| !target.contains('/'))
                .unwrap_or("the workload")
                .to_owned()
        }
    };
    let asked = match most {
        u64::MAX => scenario.workload.num_prompts,
        most => Some(most),
    };
    let mut progress = Progress::new(terminal, asked, "requests");
    let block = scenario.first_pool().engine.block_size();
    let (curve, looked) = WorkingSet::of_traffic(traffic, most, block, |done| progress.at(done));
    drop(progress);
    let view = WorkingSetView {
        subject: name,
        curve,
        pool: Some(pool(&resolved)),
        looked,
    };
    put(&view, &args.output, out, terminal)?;
    Ok(exit(&view, terminal).into())
}

/// How a command ends that printed a curve; what is to be said of one that is of fewer requests than were asked for.
pub(super) fn exit(view: &WorkingSetView, terminal: &Terminal) -> Exit {
    match view.looked {
        Looked::AtAll => Exit::Ok,
        Looked::UntilStopped => Exit::Interrupted,
        Looked::UntilFull => {
            let most = view.curve.requests;
            terminal.notes(&[format!(
                "{TEXTS_MAX} different texts are as many as are held in memory; --num-prompts {most} looks at those requests only"
            )]);
            Exit::Failure
        }
    }
}

/// The KV pool of one replica.
pub(super) fn pool(resolved: &Resolved) -> PoolMark {
    let engine = &resolved.scenario.first_pool().engine;
    // vLLM counts a null block that nobody has (V1-29).
    let nulls = u32::from(engine.vllm().is_some());
    let memory = resolved.memory.as_ref();
    let ranks = f64::from(resolved.placement.gpus());
    PoolMark {
        name: subject::replica(resolved),
        blocks: u64::from((engine.num_gpu_blocks() - nulls) / engine.kv_groups()),
        bytes_per_token: memory
            .map(|plan| plan.kv_pool.0 as f64 / plan.tokens_in_all_layers() as f64 * ranks),
        replicas: resolved.scenario.cluster.replicas,
        caches: engine.caches_prefixes(),
    }
}

/// Finds out beforehand whether everything can be written.
pub(super) fn check_places(flags: &CurveFlags) -> anyhow::Result<()> {
    if let Some(file) = flags.output.as_deref().filter(|file| *file != "-") {
        files::check_file(std::path::Path::new(file), "--output")?;
    }
    if let Some(folder) = &flags.charts {
        files::check_folder(std::path::Path::new(folder))?;
    }
    Ok(())
}

/// Writes a curve.
pub(super) fn put(
    view: &WorkingSetView,
    flags: &CurveFlags,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let text = match flags.format.unwrap_or_default() {
        CurveFormat::Table => {
            let width = terminal.width().filter(|_| flags.output.is_none());
            working_set::text(view, width)
        }
        CurveFormat::Json => working_set::json(view),
        CurveFormat::Csv => working_set::csv(view),
    };
    files::put(&text, flags.output.as_deref(), out)?;
    if let Some(folder) = &flags.charts {
        files::save_pictures(folder, &[("working-set", chart::working_set(view))], terminal)?;
    }
    Ok(())
}
