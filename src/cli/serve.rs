//! `plimsoll serve`: a server for real clients, whose timing is the simulation's.

mod names;
mod pasted;
mod told;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use self::pasted::Pasted;
use self::told::{Classes, closing, opening, status};
use super::disk::Disk;
use super::terminal::Terminal;
use super::{Exit, files, interrupt, present};
use crate::config::flags::{ScenarioFlags, ServerFlags};
use crate::config::{Assembled, Diagnostics, Resolved, argv, assemble, resolve, without_traffic};
use crate::serve::desk::House;
use crate::serve::pacer::Tally;
use crate::serve::server::{Server, Terms};
use crate::workload::Endings;

/// Answer OpenAI's API with the timing of a simulated server.
///
/// Real clients (vllm bench serve, GuideLLM, AIPerf, curl, a router, an autoscaler) send what they like; what they get is filler text, token by token when the
/// simulated engine has it: the same scheduler and step times as `run`, on the wall clock. /metrics has vLLM's names.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll serve meta-llama/Llama-3.1-8B-Instruct --gpu h100
  plimsoll serve Qwen/Qwen3-8B --gpu l40s --replicas 4 --router least_requests --port 0
  plimsoll serve --gpu h100 --serve-cmd \"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64\" --speed 10
  plimsoll serve quickstart --output-len 250
  curl localhost:8000/v1/completions --json  '{\"prompt\": \"Say so\", \"max_tokens\": 20, \"stream\": true}'

There is no tokenizer: prompts are counted by --chars-per-token, prompts of token ids exactly. Answers are as long as max_tokens where the client says ignore_eos, and without --output-len always. Ctrl-C ends it, with what it has done; exit code 0.")]
pub struct Args {
    /// Model, or scenario: Hugging Face id, the path of a config.json or of its folder, or a scenario, whose traffic is left out.
    #[arg(value_name = "MODEL|SCENARIO")]
    pub target: Option<String>,
    /// Scenario file or shipped scenario, where the model is given too.
    #[arg(long, value_name = "SCENARIO")]
    pub scenario: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    /// A whole `vllm serve …`, `python -m sglang.launch_server …` or `trtllm-serve …` command to take model and engine flags from.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub serve_cmd: Option<String>,
    #[command(flatten)]
    pub(crate) towards: Towards,
}

/// How it stands towards its clients.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Serving")]
pub(crate) struct Towards {
    /// Address or name to listen at, 127.0.0.1 if none is given; 0.0.0.0 for everybody who can reach this machine.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Port to listen at, 8000 if none is given; 0 for any that is free.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Names that clients may call the model by; the first is the one answers carry. Default: the model's id.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    served_model_name: Vec<String>,
    /// How fast the simulated clock goes: 10 serves ten hours of traffic in one, and clients see a tenth of every time; what answers and
    /// /metrics say of times is on that clock.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = speed)]
    speed: f64,
    /// Mean tokens of answers that clients let end by themselves (geometric, cut at max_tokens); without it they are as long as they may be.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    output_len: Option<u32>,
    /// Characters of Latin text that make a token; each Chinese, Japanese or Korean one is one.
    #[arg(long, default_value_t = 4.0, value_name = "N", value_parser = chars_per_token)]
    chars_per_token: f64,
    /// Of every random choice: where answers end, which replica gets a request. Default: the scenario's, or 0.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write what clients asked for as a trace (Mooncake's JSON lines) that `run --trace`, `knee` and `trace` read: a row as each request ends, times
    /// of the simulated clock.
    #[arg(long, value_name = "FILE")]
    save_trace: Option<String>,
    /// /metrics has the names that vLLM has given up, too.
    #[arg(long)]
    metrics_deprecated: bool,
}

/// A speed that a clock of 213 days can go at.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.001..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("a factor from 0.001 to 1000".to_owned()),
    }
}

fn chars_per_token(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(chars) if (1.0..=100.0).contains(&chars) => Ok(chars),
        _ => Err("a number of characters from 1 to 100".to_owned()),
    }
}

impl Args {
    /// The servers, in the words of a run.
    fn flags(&self) -> ScenarioFlags {
        ScenarioFlags {
            target: self.target.clone(),
            scenario: self.scenario.clone(),
            server: self.server.clone(),
            serve_cmd: self.serve_cmd.clone(),
            ..ScenarioFlags::default()
        }
    }
}

/// Serves until Ctrl-C.
///
/// # Errors
/// Everything that is wrong with the input, and an address that cannot be listened at.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let nothing_yet = interrupt::at_once();
    let towards = args
        .towards
        .over(&Pasted::of(args.serve_cmd.as_deref().unwrap_or_default())?);
    let mut input = assemble(&args.flags(), &Disk)?;
    input.notes.retain(|note| {
        !argv::SERVING
            .iter()
            .any(|flag| note.contains(&format!("--{flag} has no effect")))
    });
    let (mut notes, mut resolved) = servers(input)?;
    resolved.scenario.seed = towards.seed.unwrap_or(resolved.scenario.seed);
    let house = house(&towards, &resolved)?;
    towards.check_trace()?;
    let socket = listen(&towards)?;
    notes.extend(answers_note(&towards));
    terminal.notes(&notes);
    let endings = (towards.output_len).map(|mean| Endings::Hazard {
        per_token: 1.0 / f64::from(mean),
    });
    let terms = Terms {
        speed: towards.speed,
        endings,
        limits: present::limits(&resolved.slo),
        trace: towards.trace()?,
    };
    let classes = Classes::of(&resolved.scenario, &terms);
    let server = Server::start(socket, &resolved.scenario, house, terms)?;
    drop(nothing_yet);
    write!(out, "{}", opening(&resolved, &server, towards.speed))?;
    out.flush()?;
    watch(&server, &classes, terminal);
    let is_asked = interrupt::is_asked();
    let done = server.close()?;
    write!(out, "{}", closing(&done, &classes))?;
    let has_trace = told::trace(done.ends.trace, towards.save_trace.as_deref(), terminal);
    let tally = done.tally;
    if is_asked {
        return Ok(if has_trace { Exit::Ok } else { Exit::Failure }.into());
    }
    terminal.error(&anyhow::anyhow!(match tally.is_livelocked {
        true =>
            "sequences preempt each other for ever, and nobody would get another token: give the KV cache more room, or fewer sequences at once",
        false => "the simulated clock shows no later time than 213 days: start again",
    }));
    Ok(Exit::Failure.into())
}

impl Towards {
    /// These, and what they leave out as the pasted command has it.
    fn over(&self, pasted: &Pasted) -> Towards {
        let mut all = self.clone();
        all.host = all.host.or_else(|| pasted.host.clone());
        all.port = all.port.or(pasted.port);
        if all.served_model_name.is_empty() {
            all.served_model_name.clone_from(&pasted.names);
        }
        all
    }

    /// Finds out whether the trace can be written, before anybody is let in.
    fn check_trace(&self) -> anyhow::Result<()> {
        let Some(file) = &self.save_trace else {
            return Ok(());
        };
        anyhow::ensure!(
            file != "-",
            "--save-trace writes beside what serve says of itself and not to the screen\n  help: name a file, as --save-trace asked.jsonl"
        );
        files::check_file(Path::new(file), "--save-trace")?;
        let holds_something = std::fs::metadata(file).is_ok_and(|there| there.is_file() && there.len() > 0);
        anyhow::ensure!(
            !holds_something,
            "--save-trace {file}: that file holds something, and hours of traffic are not replaced unasked\n  help: name another file, or take it away"
        );
        Ok(())
    }

    /// The file that the trace goes to, empty.
    fn trace(&self) -> anyhow::Result<Option<Box<dyn Write + Send>>> {
        let Some(file) = &self.save_trace else {
            return Ok(None);
        };
        let place = Path::new(file);
        let created = files::Rows::create(place).with_context(|| format!("cannot write {file}"))?;
        Ok(Some(Box::new(created)))
    }
}

/// The socket that clients are to come to.
fn listen(towards: &Towards) -> anyhow::Result<TcpListener> {
    let host = towards.host.as_deref().unwrap_or("127.0.0.1");
    let port = towards.port.unwrap_or(8000);
    TcpListener::bind((host, port)).with_context(|| {
        format!("cannot listen at {host}, port {port}: another --port (0 for one that is free), or a --host of this machine")
    })
}

/// What serves, without traffic.
fn servers(mut input: Assembled) -> Result<(Vec<String>, Resolved), Diagnostics> {
    let notes = without_traffic(&mut input.document, &Disk)?;
    input.notes.extend(notes);
    let resolved = resolve(input.document, &Disk)?;
    input.notes.extend(resolved.notes.iter().cloned());
    Ok((input.notes, resolved))
}

/// How long answers are where clients do not say.
fn answers_note(towards: &Towards) -> Option<String> {
    towards.output_len.is_none().then(|| {
        "answers are as long as their max_tokens; --output-len lets them end by themselves, at so many tokens on average".to_owned()
    })
}

/// What clients may ask of the server itself.
fn house(towards: &Towards, resolved: &Resolved) -> anyhow::Result<House> {
    let pool = resolved.scenario.first_pool();
    let created = SystemTime::now().duration_since(UNIX_EPOCH);
    let pools = resolved.scenario.pools.iter();
    Ok(House {
        names: names::of(&resolved.scenario, &towards.served_model_name)?,
        // Whether the pool that a request comes to takes it, that pool says.
        max_model_len: pools.map(|pool| pool.engine.max_model_len()).max().unwrap_or(0),
        engine: pool.engine.profile().to_owned(),
        chars_per_token: towards.chars_per_token,
        created: created.map_or(0, |since| since.as_secs()),
        deprecated_metrics: towards.metrics_deprecated,
    })
}

/// Watches it until Ctrl-C, and says now and then how it is.
fn watch(server: &Server, classes: &Classes, terminal: &Terminal) {
    const LOOK: Duration = Duration::from_millis(50);
    let bar = terminal.shows_progress().then(|| {
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template");
        ProgressBar::new_spinner().with_style(style)
    });
    let every = match bar {
        Some(_) => Duration::from_millis(500),
        None => Duration::from_secs(10),
    };
    let mut said = Instant::now();
    let mut last = Tally::default();
    while !interrupt::is_asked() && !server.is_over() {
        server.wait(LOOK);
        if said.elapsed() < every {
            continue;
        }
        let tally = server.tally();
        let line = status(&tally, &last, said.elapsed(), classes);
        match &bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None if terminal.tells_progress()
                && tally.asked + tally.output_tokens != last.asked + last.output_tokens =>
            {
                terminal.progress(&line);
            }
            None => {}
        }
        (said, last) = (Instant::now(), tally);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
