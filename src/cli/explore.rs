//! `plimsoll explore`: a page in the browser whose controls are a scenario's flags, and whose answers are simulations.

mod site;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::page::{self, Explorer};
use super::terminal::Terminal;
use super::{Exit, interrupt};
use crate::config::flags::ScenarioFlags;

/// Longest that a page waits for an answer.
const LONGEST: Duration = Duration::from_secs(60);

/// Turn a scenario's knobs in the browser, and see queue, batch and latencies move.
///
/// A page of this program, shown to this machine: rate, lengths, GPU, model and engine flags are sliders; each turn is a whole simulation, the same as `run` and
/// `knee`, in some hundredths of a second. It shows the verdict, latencies, Little's law and the knee, plays the first requests through queue and batch in slow
/// motion, asks for predictions, and gives the command line that does the same. Nothing is loaded from the network.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll explore                    # the quickstart scenario: open the address that it prints
  plimsoll explore meta-llama/Llama-3.1-8B-Instruct --gpu l40s --request-rate 2 --input-len 512 --output-len 128
  plimsoll explore chunked-prefill --port 0
  plimsoll explore Qwen/Qwen3-8B --gpu h100 --users 50 --think-time 10s --input-len 800 --output-len 200
  plimsoll explore --host 0.0.0.0     # for a class: whoever can reach this machine

Without arguments: the quickstart scenario. The address behind the # of the page keeps what was turned: send it, or bookmark it. Ctrl-C ends it; exit code 0.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub(crate) scenario: ScenarioFlags,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    /// The words behind the command that say what to simulate.
    #[arg(skip)]
    pub(crate) typed: Vec<String>,
}

/// Where the page is shown.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Page")]
pub(crate) struct PlaceFlags {
    /// Address or name to listen at; 0.0.0.0 for everybody who can reach this machine.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,
    /// Port to listen at; 0 for any that is free.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    port: u16,
}

/// Flags that say where the page is shown, or how words are: no words of a run. By how many values each has.
const OWN: [(&str, usize); 4] = [("--host", 1), ("--port", 1), ("--color", 1), ("--quiet", 0)];

/// What was typed behind the command: words that `run` takes.
pub(super) fn typed(args: &[String]) -> Vec<String> {
    page::typed(args, "explore", &OWN)
}

/// Where the page is found: where every address of this machine leads to it, by that of this machine itself, too.
fn places(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        false => format!("http://{address}/"),
        true => {
            let port = address.port();
            format!(
                "http://localhost:{port}/ (elsewhere http://ADDRESS:{port}/, by this machine's name or address)"
            )
        }
    }
}

/// Shows the page until Ctrl-C.
///
/// # Errors
/// Everything that is wrong with the scenario, and an address that cannot be listened at.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let nothing_yet = interrupt::at_once();
    let (explorer, notes) = Explorer::new(args.scenario.clone(), args.typed.clone(), Some(LONGEST))?;
    terminal.notes(&notes);
    let PlaceFlags { host, port } = &args.place;
    let socket = TcpListener::bind((host.as_str(), *port)).with_context(|| {
        format!("cannot listen at {host}, port {port}: another --port (0 for one that is free), or a --host of this machine")
    })?;
    let address = socket.local_addr()?;
    let subject = explorer.start().subject.clone();
    writeln!(
        out,
        "{subject}: open {} in a browser; Ctrl-C ends it",
        places(address)
    )?;
    out.flush()?;
    drop(nothing_yet);
    site::show(socket, explorer)?;
    Ok(Exit::Ok.into())
}
