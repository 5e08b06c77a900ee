//! Commands that people already run, taken apart: `vllm serve …`, `python -m sglang.launch_server …`, `trtllm-serve …`,
//! `vllm bench serve …` and `python -m sglang.bench_serving …`; what `aiperf`, `genai-perf` and `guidellm` send, in vLLM's words.

mod around;
mod clients;
mod environment;
mod options;
mod others;
mod visible;

use clap::{Args, CommandFactory, FromArgMatches, Parser};

use around::{Bare, Missing};

use super::argv;
use super::diagnostic::{Diagnostic, Place};
use super::files::Files;
use super::flags::{ClientKind, ScenarioFlags, SloFlags, TrafficFlags};
use super::raw::RawEngine;
use super::scalar::Count;
use super::trtllm;
use super::version::{self, EngineKind, Scheduled};

/// How the two commands may begin; module and script forms of older versions included.
const SERVE: [&[&str]; 10] = [
    &["vllm", "serve"],
    &["python", "-m", "vllm.entrypoints.openai.api_server"],
    &["python3", "-m", "vllm.entrypoints.openai.api_server"],
    &["vllm.entrypoints.openai.api_server"],
    &["python", "-m", "sglang.launch_server"],
    &["python3", "-m", "sglang.launch_server"],
    &["sglang.launch_server"],
    &["sglang", "serve"],
    &["trtllm-serve", "serve"],
    &["trtllm-serve"],
];
const BENCH: [&[&str]; 6] = [
    &["vllm", "bench", "serve"],
    &["benchmark_serving.py"],
    &["python", "-m", "sglang.bench_serving"],
    &["python3", "-m", "sglang.bench_serving"],
    &["sglang.bench_serving"],
    &["bench_serving.py"],
];

/// The flag that holds a server's command.
const SERVE_CMD: &str = "--serve-cmd";

/// The profile of vLLM's V0 engine.
const V0: &str = "vllm@0.6";

/// The version that an image's tag names: `v0.11.0`, `v0.6.6.post1`, `v0.5.4-cu126`, `rocm6.4.1_vllm_0.9.1_20250702`; `None` of
/// `latest`, `nightly` and of NVIDIA's months, `25.09-py3`.
fn tagged(tag: &str) -> Option<&str> {
    let of_tag = tag
        .split(['-', '_', '+'])
        .map(|part| part.trim_start_matches("vllm"));
    of_tag.map(|part| part.trim_start_matches('v')).find(|part| {
        let mut numbers = version::numbers(part);
        let begins = numbers.next().flatten().zip(numbers.next().flatten());
        begins.is_some_and(|(major, _)| major < FIRST_YEAR)
    })
}

/// Versions from which on are years.
const FIRST_YEAR: u32 = 20;

/// The version that is installed in front of a command: `pip install vllm==0.8.5`.
fn installed<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| {
        let (package, version) = word.split_once("==")?;
        let package = package.split('[').next()?.replace('_', "-");
        (package == name).then_some(version)
    })
}

/// Flags of `vllm bench serve` that say what to write.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Results")]
pub struct ResultFlags {
    /// Percentiles to report, `50,90,99`.
    #[arg(long, value_name = "LIST")]
    pub metric_percentiles: Option<String>,
    /// Metrics to report percentiles of: ttft, tpot, itl, e2el.
    #[arg(long, value_name = "LIST")]
    pub percentile_metrics: Option<String>,
    /// Save the result as JSON that tools for `vllm bench serve` read.
    #[arg(long)]
    pub save_result: bool,
    /// Save the lists of every request's lengths and times, too; with or without --save-result.
    #[arg(long)]
    pub save_detailed: bool,
    /// Folder of the saved result.
    #[arg(long, value_name = "DIR")]
    pub result_dir: Option<String>,
    /// Its name; default {label}-{rate}qps-{model}-{date}.json.
    #[arg(long, value_name = "NAME")]
    pub result_filename: Option<String>,
    /// Pairs to keep in the saved result.
    #[arg(long, value_name = "KEY=VALUE", num_args = 0..)]
    pub metadata: Vec<String>,
    /// First part of the saved result's name.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Save the result behind those that its file holds already; it needs --result-filename.
    #[arg(long)]
    pub append_result: bool,
    /// The API that a pasted client speaks, as its result names it; it is no flag of this command line.
    #[arg(skip)]
    pub backend: Option<String>,
    /// The model by the name under which a pasted client asks for it.
    #[arg(skip)]
    pub asked_for: Option<String>,
}

/// `vllm serve`, as far as it is understood.
#[derive(Parser, Debug)]
#[command(name = "vllm serve", no_binary_name = true, disable_help_flag = true)]
struct Serve {
    #[command(flatten)]
    flags: ScenarioFlags,
}

/// `vllm bench serve`, as far as it is understood.
#[derive(Parser, Debug)]
#[command(name = "vllm bench serve", no_binary_name = true, disable_help_flag = true)]
struct Bench {
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    traffic: TrafficFlags,
    #[command(flatten)]
    slo: SloFlags,
    #[command(flatten)]
    results: ResultFlags,
}

/// Whether words hold the command of a server, whatever stands around it.
#[must_use]
pub fn starts_server(words: &[String]) -> bool {
    around::strip(words, &SERVE, true).is_ok()
}

/// Whether a server has a flag of this name, with an effect here or without.
#[must_use]
pub fn is_server_flag(name: &str) -> bool {
    let command = Serve::command();
    let own = command.get_arguments().any(|arg| arg.get_long() == Some(name));
    own || argv::is_known(name)
}

/// Whether a flag is one of servers with an effect here, and none of clients.
#[must_use]
pub fn is_flag_of_servers_alone(name: &str) -> bool {
    let has = |command: clap::Command| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    has(Serve::command()) && !has(Bench::command())
}

/// The engine that a command starts; vLLM where it is none.
#[must_use]
pub fn engine_of(command: &str) -> &'static str {
    let words = shlex::split(&in_one_line(command).0).unwrap_or_default();
    around::strip(&words, &SERVE, true).map_or("vllm", |bare| started(&bare))
}

/// The engine that a program is.
fn started(bare: &Bare) -> &'static str {
    match bare.program.contains("trtllm-serve") {
        true => "tensorrt-llm",
        false if is_sglangs(bare) => "sglang",
        false => "vllm",
    }
}

/// Whether the program that a command runs is SGLang's: its name says so, not what stands around it.
fn is_sglangs(bare: &Bare) -> bool {
    ["sglang", "bench_serving.py"]
        .iter()
        .any(|start| bare.program.contains(start))
}

/// A command over several lines as one, for the shell drops a backslash with its line's end, and what was taken otherwise than a shell takes it, as sentences: a line that is a
/// comment, which would end the command there, and a blank behind the backslash at a line's end.
fn in_one_line(command: &str) -> (String, Vec<String>) {
    let (mut whole, mut told) = (String::new(), Vec::new());
    let lines: Vec<&str> = command.lines().collect();
    let is_over_lines = lines.len() > 1;
    for line in lines {
        if is_over_lines && line.trim_start().starts_with('#') {
            told.push(format!("the line `{}` is a comment and is left out", line.trim()));
            continue;
        }
        let Some(before) = line.trim_end().strip_suffix('\\').filter(|_| is_over_lines) else {
            whole = whole + line + "\n";
            continue;
        };
        if line.ends_with([' ', '\t']) {
            told.push(format!(
                "a blank stands behind the backslash of the line `{}`, where a shell would end the command: the next line is taken \
                 to belong to it",
                line.trim()
            ));
        }
        whole = whole + before + " ";
    }
    (whole, told)
}

/// What the command of a server says. What cannot be honoured is told, and the rest judged all the same.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) flags: ScenarioFlags,
    pub(super) ignored: Vec<String>,
    pub(super) problems: Vec<Diagnostic>,
}

/// The command of a server, as far as it is understood. `asked` is the engine that the command line names beside it.
///
/// # Errors
/// Why it is no such command.
pub(super) fn serve(
    command: &str,
    asked: Option<&str>,
    files: &dyn Files,
) -> Result<Server, Vec<Diagnostic>> {
    let parsed = parse::<Serve>(command, SERVE_CMD, &SERVE, Some(files))?;
    let (bare, words) = (parsed.bare, parsed.words);
    let mut server = Server {
        flags: parsed.said.flags,
        ignored: parsed.ignored,
        problems: parsed.problems,
    };
    let name = started(&bare);
    if name == "tensorrt-llm" {
        server.problems.extend(trtllm::asked::problems(&words, SERVE_CMD));
    }
    server.take_profile(&bare, &words, name, asked.is_some());
    let profile = server.flags.server.engines.engine.profile.clone();
    let asked = asked.or(profile.as_deref());
    let serves_v0 = EngineKind::of(asked) == EngineKind::Scheduled(Scheduled::V0);
    server.take_settings(&bare.settings, name, serves_v0);
    server.problems.extend(visible::too_few(
        &server.flags,
        &bare.settings,
        (&words, name),
        SERVE_CMD,
    ));
    let wants_v0 = |(name, value): &(String, String)| name == "VLLM_USE_V1" && value == "0";
    if !serves_v0 && bare.settings.iter().any(wants_v0) {
        server.wrong(
            "`VLLM_USE_V1=0` asks for the V0 engine",
            format!("give --engine {V0}, which is V0's profile, or leave the setting out"),
        );
    }
    Ok(server)
}

impl Server {
    fn wrong(&mut self, what: &str, help: impl Into<String>) {
        let problem = Diagnostic::new(format!("in {SERVE_CMD}: {what}"));
        let problem = problem.at(Place::Flag(SERVE_CMD.to_string()));
        self.problems.push(problem.help(help));
    }

    /// The engine `name` in the version that its image or its package has, unless a flag of the command names one.
    fn take_profile(&mut self, bare: &Bare, words: &[String], name: &str, is_asked: bool) {
        if self.flags.server.engines.engine.profile.is_some() {
            return;
        }
        let tag = bare.image.as_ref().map(|image| image.tag.as_deref());
        let version = tag.flatten().and_then(tagged).or_else(|| installed(words, name));
        if let (Some(tag), None, false) = (tag, version, is_asked) {
            let tag = tag.map_or("no tag".to_string(), |tag| format!("the tag {tag}"));
            self.ignored.push(format!(
                "in {SERVE_CMD}: the image has {tag}, which says no version: the newest profile of {name} is used, and --engine names another"
            ));
        }
        self.flags.server.engines.engine.profile = match version {
            Some(version) => Some(format!("{name}@{version}")),
            None => (name != "vllm").then(|| name.to_string()),
        };
    }

    /// What the environment says that no flag does.
    fn take_settings(&mut self, settings: &[(String, String)], name: &str, serves_v0: bool) {
        if uses_lmcache(&self.flags.server.engines.engine) {
            let keys = settings.iter();
            self.flags.server.lmcache = keys
                .filter_map(|(name, value)| environment::lmcache_key(name, value))
                .collect();
        }
        match environment::output_slice(settings).filter(|_| name == "vllm" && !serves_v0) {
            Some(Ok(outputs)) => {
                self.flags.server.engines.engine.output_proc_chunk_size = Some(Count(outputs))
            }
            Some(Err(what)) => self.wrong(
                &what,
                "write how many outputs of a step an API server takes at once, 128 where nobody says",
            ),
            None => {}
        }
    }
}

/// Whether LMCache keeps KV for the engine.
fn uses_lmcache(engine: &RawEngine) -> bool {
    let connector = engine.kv_transfer_config.as_deref().unwrap_or_default();
    connector.contains("LMCache") || engine.kv_offloading_backend.as_deref() == Some("lmcache")
}

/// What a `vllm bench serve` command says.
pub(super) struct Benchmark {
    /// Whose client it starts.
    pub(super) client: ClientKind,
    pub(super) model: Option<String>,
    pub(super) traffic: TrafficFlags,
    pub(super) slo: SloFlags,
    pub(super) results: ResultFlags,
    /// How another client's words were read, as sentences.
    pub(super) notes: Vec<String>,
    pub(super) ignored: Vec<String>,
    pub(super) problems: Vec<Diagnostic>,
}

/// A benchmark command, as far as it is understood.
pub(super) fn bench(command: &str) -> Result<Benchmark, Vec<Diagnostic>> {
    let words = shlex::split(&in_one_line(command).0).unwrap_or_default();
    if let Some(read) = clients::in_vllms_words(&words) {
        let read = read?;
        let args = read.words.iter().map(String::as_str);
        let args = shlex::try_join(args).expect("words of a command have no byte 0");
        let mut said = bench(&format!("vllm bench serve {args}"))?;
        // Nothing of vLLM's client but its words: it rescales no arrivals, and its clock starts when a request is sent.
        said.client = ClientKind::Plain;
        said.traffic.client = Some(ClientKind::Plain);
        said.notes = read.notes;
        let ignored = read
            .ignored
            .into_iter()
            .map(|told| format!("in --bench-cmd: {told}"));
        said.ignored.extend(ignored);
        return Ok(said);
    }
    let parsed = parse::<Bench>(command, "--bench-cmd", &BENCH, None)?;
    let bare = parsed.bare;
    let Bench {
        model,
        mut traffic,
        slo,
        results,
    } = parsed.said;
    let client = match is_sglangs(&bare) {
        true => ClientKind::Sglang,
        false => ClientKind::Vllm,
    };
    let by_default = match client {
        // `--backend` of the script that came before the command was `vllm`.
        ClientKind::Vllm if bare.program == "benchmark_serving.py" => Some("vllm"),
        ClientKind::Vllm => Some("openai"),
        ClientKind::Sglang | ClientKind::Plain => None,
    };
    let results = ResultFlags {
        backend: bare.backend.or(by_default.map(str::to_owned)),
        asked_for: model.clone(),
        ..results
    };
    traffic.client.get_or_insert(client);
    Ok(Benchmark {
        client,
        model,
        traffic,
        slo,
        results,
        notes: Vec::new(),
        ignored: parsed.ignored,
        problems: parsed.problems,
    })
}

/// A command, as far as it is understood.
struct Parsed<P> {
    said: P,
    bare: Bare,
    /// All of its words, those around it included.
    words: Vec<String>,
    ignored: Vec<String>,
    problems: Vec<Diagnostic>,
}

/// `flag` holds the command. Of a server its `files` of options are read.
fn parse<P: FromArgMatches + CommandFactory>(
    command: &str,
    flag: &str,
    starts: &[&[&str]],
    files_of_server: Option<&dyn Files>,
) -> Result<Parsed<P>, Vec<Diagnostic>> {
    let problem = |message: String| Diagnostic::new(message).at(Place::Flag(flag.to_string()));
    let (line, told) = in_one_line(command);
    let Some(words) = shlex::split(&line) else {
        return Err(vec![problem(format!("`{flag}` has a quote that does not end"))]);
    };
    let missing = |missing| match missing {
        Missing::Unknown => others::told(&words, flag, starts),
        Missing::Idle(image) => problem(format!(
            "in {flag}: the image {} serves only with a command of its own, and none follows",
            image.name
        ))
        .help(format!("write `{}` behind the image", image.command())),
    };
    let mut bare =
        around::strip(&words, starts, files_of_server.is_some()).map_err(|why| vec![missing(why)])?;
    let mut without_effect = Vec::new();
    match files_of_server {
        None => bare.backend = others::taken(&mut bare.args, &["--backend", "--endpoint-type"]),
        Some(files) => {
            let args = std::mem::take(&mut bare.args);
            (bare.args, without_effect) = options::expand(args, started(&bare), files)?;
        }
    }
    let normal = argv::normalise(&bare.args);
    let mut problems = normal.problems;
    for problem in &mut problems {
        if let Place::Flag(name) = &problem.place {
            problem.place = Place::Flag(format!("{flag} {name}"));
        }
        problem.message = format!("in {flag}: {}", problem.message);
    }
    let mut args = normal.args;
    if let Some(what) = unexpanded(&args) {
        problems.push(problem(format!("in {flag}: {what}")).help(
            "write its value there, or put the command in double quotes, within which your shell expands it",
        ));
        return Err(problems);
    }
    let rules = argv::last_wins(P::command(), argv::Replaced::All);
    let settings = bare.settings.iter();
    let ignored = settings
        .map(|(name, value)| environment::told(name, value))
        .chain(told)
        .chain(bare.dropped.clone())
        .chain(without_effect)
        .chain(normal.ignored)
        .chain(argv::repeated(&args, &rules, argv::Replaced::All))
        .map(|reason| format!("in {flag}: {reason}"))
        .collect();
    loop {
        let matches = rules.clone().try_get_matches_from(&args);
        let error = match matches.and_then(|matches| P::from_arg_matches(&matches)) {
            Ok(said) => {
                return Ok(Parsed {
                    said,
                    bare,
                    words,
                    ignored,
                    problems,
                });
            }
            Err(error) => error,
        };
        problems.push(argv::unparsable(&error, flag, Place::Flag(flag.to_string())));
        if !leave_out(&mut args, &error) {
            return Err(problems);
        }
    }
}

/// The variables of a shell that arguments with an effect hold, as a sentence.
fn unexpanded(args: &[String]) -> Option<String> {
    let variable = |arg: &String| {
        let (_, rest) = arg.split_once('$')?;
        let name = rest.strip_prefix('{').unwrap_or(rest);
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name = name.split(|letter| !is_of_name(letter)).next()?;
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        is_name.then(|| format!("`${name}`"))
    };
    let mut names: Vec<String> = args.iter().filter_map(variable).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("{}: variables of a shell are not expanded", names.join(", ")))
}

/// Takes a flag that is not known, and what may be its value, out of the arguments; whether there is one.
fn leave_out(args: &mut Vec<String>, error: &clap::Error) -> bool {
    let Some(unknown) = argv::unknown(error).filter(|unknown| unknown.starts_with("--")) else {
        return false;
    };
    let is_it = |arg: &String| arg.split('=').next() == Some(unknown);
    let Some(at) = args.iter().position(is_it) else {
        return false;
    };
    let has_value = !args[at].contains('=') && args.get(at + 1).is_some_and(|next| !next.starts_with('-'));
    args.drain(at..=at + usize::from(has_value));
    true
}

#[cfg(test)]
mod tests;
