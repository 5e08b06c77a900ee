//! What a command line says altogether: a scenario, pasted commands and flags, layered into one document.

mod ground;

pub use ground::Ground;

use super::axes::{self, Swept};
use super::checkpoint;
use super::diagnostic::{Diagnostic, Diagnostics, Place};
use super::document::{Document, Source};
use super::files::{self, Files, NoFiles};
use super::flags::{self, By, ClientKind, ScenarioFlags};
use super::overlooked;
use super::pasted::{self, ResultFlags};
use super::report::{self, apply_report};
use super::resolve::resolve;
use crate::model::is_same_name;

/// The layers of one command line.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// Everything that was said.
    pub document: Document,
    /// What a pasted benchmark command says about its result.
    pub results: ResultFlags,
    /// Sentences that belong beside the result.
    pub notes: Vec<String>,
    /// Those of the notes that name something without effect.
    pub ignored: Vec<String>,
}

/// The scenario that a command without arguments runs.
pub const QUICKSTART: &str = "quickstart";

/// Layers flags over pasted commands over the scenario file.
///
/// # Errors
/// Every flag that cannot be understood, or the file's first syntax error.
pub fn assemble(flags: &ScenarioFlags, files: &dyn Files) -> Result<Assembled, Diagnostics> {
    layered(flags, files)?.read()
}

/// The same for a whole run: where a flag cannot be understood, what else is wrong with what was given is told with it.
///
/// # Errors
/// Every flag that cannot be understood and every value that cannot be honoured, or the file's first syntax error.
pub fn assemble_run(flags: &ScenarioFlags, files: &dyn Files) -> Result<Assembled, Diagnostics> {
    layered(flags, files)?.judged(files)
}

fn layered(flags: &ScenarioFlags, files: &dyn Files) -> Result<Layered, Diagnostics> {
    Ok(Ground::of(flags, files)?.under(flags, &Swept::default(), files))
}

/// What was given, layer by layer, right or wrong.
struct Layered {
    assembled: Assembled,
    /// What could not be understood.
    problems: Vec<Diagnostic>,
    /// A part is missing for that.
    is_cut: bool,
}

impl Layered {
    /// The document, unless something of it could not be understood.
    fn read(self) -> Result<Assembled, Diagnostics> {
        match self.problems.is_empty() {
            true => Ok(self.assembled),
            false => Err(Diagnostics(self.problems)),
        }
    }

    /// The same; where something is wrong, all that is.
    fn judged(mut self, files: &dyn Files) -> Result<Assembled, Diagnostics> {
        self.problems.extend(axes::wrong_names(&self.assembled.document));
        if self.problems.is_empty() {
            return Ok(self.assembled);
        }
        if !self.is_cut
            && let Err(more) = resolve(self.assembled.document, files)
        {
            // What is missing may stand behind the flag that was not understood.
            let is_given =
                |problem: &Diagnostic| problem.misfit.is_none() && !matches!(problem.place, Place::Nowhere);
            for problem in more.0.into_iter().filter(is_given) {
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
        Err(Diagnostics(self.problems))
    }
}

/// A trace brings its own lengths, so it takes the place of the traffic that a scenario only starts from; what the scenario's
/// file says of lengths itself stays, and contradicts it.
fn without_base(document: &mut Document) -> Option<String> {
    let key = "workload.base";
    let base = document.get(key).and_then(toml::Value::as_str)?.to_owned();
    document.remove(key);
    Some(format!(
        "the trace takes the place of {base}, the traffic that the scenario starts from"
    ))
}

/// What the command of a server says by itself: the keys of a scenario that it sets, and what of it has no effect. `engine` is
/// the one that served, as `vllm@0.11`, where something else than the command says so.
///
/// # Errors
/// What of it cannot be honoured.
pub fn served(command: &str, engine: Option<&str>) -> Result<(Document, Vec<String>), Diagnostics> {
    let mut layers = Layers::default();
    layers.serve_cmd(command, engine, None, &NoFiles);
    layers.judge_halves();
    match layers.problems.is_empty() {
        true => Ok((layers.document, layers.ignored)),
        false => Err(Diagnostics(layers.problems)),
    }
}

/// Puts the flags of one variant upon a document; what is wrong with them.
pub(super) fn overlay(document: &mut Document, flags: &ScenarioFlags) -> Vec<Diagnostic> {
    every_flag(document, flags, By::Command("variant "))
}

/// Puts flags upon a document; what is wrong with them.
pub(super) fn every_flag(document: &mut Document, flags: &ScenarioFlags, by: By<'_>) -> Vec<Diagnostic> {
    let mut problems = flags::apply_serve(document, &flags.server, by);
    problems.extend(flags::apply_traffic(document, &flags.traffic, by));
    problems.extend(flags::apply_slo(document, &flags.slo, by));
    problems
}

/// A document that layers are put upon, the lowest first.
#[derive(Clone, Debug, Default)]
struct Layers {
    document: Document,
    notes: Vec<String>,
    ignored: Vec<String>,
    problems: Vec<Diagnostic>,
    /// A pasted command could not be understood at all, so that what it said is missing.
    is_cut: bool,
    /// `--disaggregation-mode` as it was given: before it where, behind it what.
    halves: Vec<(&'static str, String)>,
}

impl Layers {
    /// A positional that names no scenario is the model.
    fn positional(&mut self, flags: &ScenarioFlags) {
        let Some(target) = flags.target.as_deref().filter(|target| !is_scenario(target)) else {
            return;
        };
        self.document
            .set("model.name", toml::Value::from(target), "MODEL");
        if flags.server.machines.model.is_some() {
            self.problems.push(
                Diagnostic::new(format!("`{target}` and `--model` both name the model")).help("keep one"),
            );
        }
    }

    /// The command of a server that `engine` names beside it, as the positional argument may name its model.
    fn serve_cmd(
        &mut self,
        command: &str,
        engine: Option<&str>,
        positional: Option<&str>,
        files: &dyn Files,
    ) {
        let pasted::Server {
            flags: parsed,
            ignored,
            problems,
        } = match pasted::serve(command, engine, files) {
            Ok(server) => server,
            Err(wrong) => {
                self.is_cut = true;
                return self.problems.extend(wrong);
            }
        };
        self.problems.extend(problems);
        self.ignore(ignored);
        let target = parsed
            .target
            .clone()
            .or_else(|| parsed.server.machines.model.clone());
        if let (Some(own), Some(served)) = (positional, &target)
            && !is_same_name(own, served)
        {
            self.problems.push(
                Diagnostic::new(format!(
                    "`{own}` and `--serve-cmd`, which serves `{served}`, name two models"
                ))
                .at(Place::Flag("--serve-cmd".to_owned()))
                .help("leave the argument out, or give --model to replace the command's"),
            );
        }
        if let Some(model) = target {
            let of_scenario = match self.document.source("model.name") {
                Some(Source::File { .. }) => self.document.get("model.name").and_then(toml::Value::as_str),
                _ => None,
            };
            if let Some(own) = of_scenario.filter(|own| !is_same_name(own, &model)) {
                self.notes.push(format!(
                    "--serve-cmd serves {model}, which takes the place of the scenario's {own}"
                ));
            }
            self.document
                .set("model.name", toml::Value::from(model), "--serve-cmd MODEL");
        }
        self.half(&parsed, "--serve-cmd ");
        let mut server = parsed.server;
        server.machines.model = None;
        let wrong = flags::apply_serve(&mut self.document, &server, By::Command("--serve-cmd "));
        self.problems.extend(wrong);
    }

    /// Whose client the command starts, and what it says about its result; `None` if it is not understood.
    fn bench_cmd(&mut self, command: &str, flags: &ScenarioFlags) -> Option<(ClientKind, ResultFlags)> {
        let bench = match pasted::bench(command) {
            Ok(bench) => bench,
            Err(wrong) => {
                self.is_cut = true;
                self.problems.extend(wrong);
                return None;
            }
        };
        let from = "--bench-cmd ";
        self.notes.extend(bench.notes);
        self.ignore(bench.ignored);
        self.problems.extend(bench.problems);
        let document = &mut self.document;
        let in_document = document.get("model.name").and_then(toml::Value::as_str);
        let served = flags
            .server
            .machines
            .model
            .as_deref()
            .or(in_document)
            .map(str::to_owned);
        match (bench.model, served) {
            (Some(model), None) => {
                document.set("model.name", toml::Value::from(model), "--bench-cmd --model");
            }
            (Some(asked), Some(served)) if !is_same_name(&asked, &served) && !has_alias(flags) => {
                self.problems.push(
                    Diagnostic::new(format!(
                        "`--bench-cmd` asks for `{asked}`, and `{served}` is served"
                    ))
                    .at(Place::Flag("--bench-cmd --model".to_owned()))
                    .help("vLLM answers 404 to a model that it does not serve; give both the same name"),
                );
            }
            _ => {}
        }
        let traffic = bench.traffic;
        let by = By::Command(from);
        self.problems.extend(flags::apply_traffic(document, &traffic, by));
        self.notes.extend(flags::random_ids(&traffic));
        self.problems.extend(flags::apply_slo(document, &bench.slo, by));
        self.notes.extend(flags::meant_in_seconds(&bench.slo));
        self.problems.extend(apply_report(document, &bench.results, from));
        report::vllm_defaults(document);
        self.ignore(overlooked::lengths(&traffic, from));
        Some((bench.client, bench.results))
    }

    /// The command line's own flags, which replace what pasted commands said, and what axes set beside them.
    fn flags(&mut self, flags: &ScenarioFlags, swept: &Swept) {
        let pasted: Vec<_> = ["--serve-cmd ", "--bench-cmd "]
            .iter()
            .flat_map(|command| self.document.set_by(command))
            .collect();
        self.ignore(overlooked::lengths(&flags.traffic, ""));
        self.ignore(overlooked::burstiness(&flags.traffic).into_iter().collect());
        self.half(flags, "");
        let document = &mut self.document;
        // A key that is swept is there for the flags that need it, and wins over those that set it, too.
        swept.set_keys(document);
        self.problems
            .extend(every_flag(document, flags, By::Cell(&swept.flags)));
        self.problems.extend(swept.set_keys(document));
        self.notes.extend(flags::without_last_limit(document, &flags.slo));
        self.notes.extend(flags::replaced_limits(&flags.slo));
        self.notes.extend(flags::meant_in_seconds(&flags.slo));
        self.notes.extend(overlooked::overridden(document, pasted));
        self.judge_halves();
        self.notes.extend(overlooked::another_engine(flags));
    }

    /// Remembers which half of prefill and decode a server is to be.
    fn half(&mut self, flags: &ScenarioFlags, from: &'static str) {
        let mode = flags.server.disaggregation.disaggregation_mode.clone();
        self.halves.extend(mode.map(|mode| (from, mode)));
    }

    /// One server is half of a pair: nothing is told of it alone, and where pools of both kinds are given its other flags hold for both.
    fn judge_halves(&mut self) {
        const FLAG: &str = "--disaggregation-mode";
        let has_both = ["cluster.prefill", "cluster.decode"]
            .iter()
            .all(|key| self.document.get(key).is_some());
        let has_roles = has_both || self.document.get("cluster.pools.0.role").is_some();
        for (from, mode) in std::mem::take(&mut self.halves) {
            let within = match from.trim_end() {
                "" => String::new(),
                command => format!("in {command}: "),
            };
            match mode.as_str() {
                "null" => self.ignore(vec![format!("{within}{FLAG} null has no effect: this is the default")]),
                "prefill" | "decode" if has_roles => {
                    self.notes.push(format!(
                        "{within}{FLAG} {mode} starts one server of a pool: how many prefill and decode is what is given beside it, and the \
                         other flags hold for both kinds"
                    ));
                }
                "prefill" | "decode" => self.problems.push(
                    Diagnostic::new(format!("{within}`{FLAG} {mode}` starts one server of a pair"))
                        .at(Place::Flag(format!("{from}{FLAG}")))
                        .help(
                            "say how many of each there are: --prefill 1 --decode 1 (run, knee, sweep, compare), or [[cluster.pools]] with a \
                             role each",
                        ),
                ),
                _ => self.problems.push(
                    Diagnostic::new(format!("{within}`{FLAG} {mode}`: there is no such mode"))
                        .at(Place::Flag(format!("{from}{FLAG}")))
                        .help("write prefill or decode"),
                ),
            }
        }
    }

    /// Notes what was given and has no effect.
    fn ignore(&mut self, sentences: Vec<String>) {
        self.ignored.extend(sentences.iter().cloned());
        self.notes.extend(sentences);
    }
}

/// Whether the server answers to a name of its own.
fn has_alias(flags: &ScenarioFlags) -> bool {
    let command = flags.serve_cmd.as_deref();
    command.is_some_and(|command| {
        command.contains("--served-model-name") || command.contains("--served_model_name")
    })
}

/// Whether a positional argument is a scenario rather than a model.
pub(crate) fn is_scenario(target: &str) -> bool {
    target.ends_with(".toml")
        || files::is_standard_input(target)
        || files::SHIPPED.iter().any(|(name, _)| *name == target)
}

/// What to say of a positional that is no model and nearly the name of a scenario: without it nothing else is given, and
/// that is not worth a word.
fn misspelt(target: &str, files: &dyn Files) -> Option<Diagnostic> {
    if let Some(problem) = unnamed(target, files) {
        return Some(problem);
    }
    let is_path = target.contains(['/', '.', '\\']);
    if is_path
        || crate::model::find_checkpoint(target).is_ok()
        || checkpoint::config_of(target, files).is_some()
    {
        return None;
    }
    let [near] = crate::nearest::nearest(target, scenario_names(), 1)[..] else {
        return None;
    };
    let problem = Diagnostic::new(format!("`{target}` is no scenario and no bundled model"));
    Some(problem.help(format!("did you mean the scenario `{near}`?")))
}

/// What to say of a positional that is a file with a scenario in it, which its name does not say.
fn unnamed(target: &str, files: &dyn Files) -> Option<Diagnostic> {
    let text = files::decoded(files.read(target).ok()?).ok()?;
    let document = Document::parse(target, &text).ok()?;
    let is_scenario = ["workload", "cluster", "model", "engine"]
        .iter()
        .any(|key| document.get(key).is_some());
    let problem = Diagnostic::new(format!(
        "`{target}` holds a scenario, whose name must end in .toml"
    ));
    is_scenario.then(|| problem.help(format!("rename the file, or write --scenario {target}")))
}

/// Names of the shipped scenarios, without workloads.
fn scenario_names() -> impl Iterator<Item = &'static str> {
    files::SHIPPED
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !name.contains('/'))
}

fn scenario(
    flags: &ScenarioFlags,
    files: &dyn Files,
    notes: &mut Vec<String>,
) -> Result<Document, Diagnostics> {
    let positional = flags.target.as_deref().filter(|target| is_scenario(target));
    let (name, flag) = match (positional, flags.scenario.as_deref()) {
        (Some(_), Some(_)) => {
            return Err(Diagnostic::new("two scenarios are given")
                .help("keep the argument or --scenario")
                .into());
        }
        (Some(name), None) => (name, "SCENARIO"),
        (None, Some(name)) => (name, "--scenario"),
        (None, None) => {
            return match flags.target.as_deref().and_then(|target| misspelt(target, files)) {
                Some(problem) => Err(problem.into()),
                None => Ok(Document::default()),
            };
        }
    };
    // A path that exists is what the user means, also where a shipped scenario has that name.
    let by_path = files.read(name);
    let name = match files::is_standard_input(name) {
        true => "standard input",
        false => name,
    };
    if let Ok(bytes) = by_path {
        let text = files::decoded(bytes).map_err(|what| Diagnostic::new(format!("{name} {what}")))?;
        return Ok(Document::parse(name, &text)?);
    }
    if let Some(shipped) = files::find(name, files) {
        notes.extend(shipped.note());
        return Ok(Document::parse(&shipped.name, &shipped.text)?);
    }
    if let (Err(error), true) = (&by_path, files.is_there(name)) {
        let problem = Diagnostic::new(format!("the scenario `{name}` cannot be read"));
        return Err(problem
            .at(Place::Flag(flag.to_string()))
            .label(error.clone())
            .into());
    }
    let known: Vec<&str> = scenario_names().collect();
    let mut problem =
        Diagnostic::new(format!("there is no scenario `{name}`")).at(Place::Flag(flag.to_string()));
    if let Err(error) = by_path {
        problem = problem.label(error);
    }
    if let [near, ..] = crate::nearest::nearest(name.trim_end_matches(".toml"), known.iter().copied(), 1)[..]
    {
        problem = problem.help(format!("did you mean `{near}`?"));
    }
    Err(problem.help(format!("shipped are {}", known.join(", "))).into())
}
