//! Results of benchmark tools as end-to-end runs: each row of a file a scenario, and the figures of it that show the host.
//!
//! What was run comes from the file first (load, lengths of every request, engine, GPU), then from what the user said
//! beside it; what neither says is an error that names what to add. Taken are only centres: a tail holds chance and
//! queueing. Traps: above saturation TTFT is the queue's; in a closed loop it is the other prompts'; a fixed batch's
//! latency is that of its last request; a scheduler's budget cuts what a bench without one runs in one pass.
//! Law: everything that a row says is either taken or named among what was left.

mod agrees;
mod figures;
mod impossible;
mod lengths;
mod spread;

use super::plan::{Plan, Unmade, Unplanned, plan};
use super::runs::{Figure, Run};
use crate::config::{Document, Files, Resolved, resolve};
use crate::hardware;
use crate::model::{is_other, is_same_name};
use crate::quantity::significant;
use crate::results::{Load, Measured, ResultFile, Setup, Tool};
use lengths::{Recorded, WithFile, equal, load_key};

/// What the user said beside a file.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Scenario, pasted commands and flags, layered.
    pub document: Document,
    /// Load and lengths, each for where the file has none.
    pub setup: Setup,
    /// Whose host is fitted.
    pub engine: String,
    /// Its version, where said.
    pub version: Option<String>,
    /// It was said of this one file, which then is taken to name its model otherwise.
    pub is_of_file: bool,
}

/// What a file gave.
#[derive(Default)]
pub struct Taken {
    /// Runs to simulate.
    pub runs: Vec<Run>,
    /// What was taken of each row, and what had to be assumed.
    pub took: Vec<String>,
    /// What was not, and why: the place and the reason.
    pub left: Vec<(String, String)>,
    /// Rows of which nothing could be taken: the place, the reason and the remedy.
    pub refused: Vec<(String, String)>,
    /// What cannot be of rows that were taken all the same: the place and the contradiction.
    pub impossible: Vec<(String, String)>,
}

/// Requests of a simulated open loop at most, where every one of them is drawn: more only cost time.
const REQUESTS_MAX: u64 = 4000;
/// Requests of a run that is repeated whole, because it is not open: a second for each time it is simulated.
const REQUESTS_OF_A_RUN_MAX: u64 = 1_000_000;
/// Share of failed requests above which a run is another one than it says.
const FAILED_MAX: f64 = 0.05;

/// The runs of a file; `input` is remembered in each.
pub fn runs(file: &ResultFile, said: &Said, files: &dyn Files, input: usize) -> Taken {
    let mut taken = Taken::default();
    for row in &file.rows {
        let place = match row.place.as_str() {
            "" => file.name.clone(),
            place => format!("{}, {place}", file.name),
        };
        match take(row, &place, said, files, input) {
            Ok((run, told)) => {
                taken.took.push(format!("{place}: {}", told.took));
                let left = told.left.into_iter().map(|left| (place.clone(), left));
                taken.left.extend(left);
                let impossible = told.impossible.into_iter().map(|what| (place.clone(), what));
                taken.impossible.extend(impossible);
                taken.runs.push(run);
            }
            Err(reason) => taken.refused.push((place, reason)),
        }
    }
    taken
}

/// In words, for people.
struct Told {
    took: String,
    left: Vec<String>,
    impossible: Vec<String>,
}

fn take(
    row: &Measured,
    place: &str,
    said: &Said,
    files: &dyn Files,
    input: usize,
) -> Result<(Run, Told), String> {
    whole(row)?;
    let mut filled = row.clone();
    let mut assumptions = fill(&mut filled, said)?;
    let mut impossible = impossible::check(&filled)?;
    let recorded = Recorded::of(&filled);
    let planned = plan(&filled, &|name| Some(name.to_owned())).map_err(|reason| remedy(&reason))?;
    let (resolved, planned) = resolved(&filled, planned, said, recorded.as_ref(), files)?;
    impossible.extend(impossible::for_the_machine(&filled, &resolved));
    // Mean lengths and the law around them are the plan's guess, which the lists of all requests replace.
    let is_replaced = |what: &String| recorded.is_some() && what.contains("lengths");
    assumptions.extend(
        planned
            .assumptions
            .iter()
            .filter(|what| !is_replaced(what))
            .cloned(),
    );
    let scattered = match recorded {
        Some(_) => None,
        None => scattered(&filled, &planned, said, files),
    };
    if scattered.is_some() {
        assumptions.push(equal(&filled));
    }
    assumptions.extend(one_gpu(&resolved));
    let (measured, mut left) = figures::of(&filled, &resolved);
    let tails = spread::of(&filled, scattered.is_none(), &mut left);
    if measured.is_empty() {
        return Err(format!(
            "it has no figure that shows the host; what it has was left: {}",
            left.join("; ")
        ));
    }
    let told = Told {
        took: took(&filled, &measured, recorded.as_ref(), &assumptions),
        left: left
            .into_iter()
            .chain(row.left.iter().map(|left| format!("{}: {}", left.what, left.why)))
            .collect(),
        impossible,
    };
    let run = Run {
        label: label(&filled, place),
        load: load_key(&filled, &resolved),
        family: format!(
            "{} on {}, {}",
            resolved.model.name, resolved.device.id, resolved.placement.engine
        ),
        is_offline: matches!(filled.setup.load, Load::StaticBatch { .. } | Load::Offline)
            || filled.tool == Tool::TrtllmBench,
        resolved,
        scattered,
        in_seconds: in_seconds(&filled),
        measured,
        tails,
        input,
    };
    Ok((run, told))
}

/// That one GPU served, where neither the file nor what was said beside it says how many.
fn one_gpu(resolved: &Resolved) -> Option<String> {
    let mut values = resolved.provenance.iter();
    let is_assumed = values.any(|value| value.key == "cluster.tensor_parallel_size" && value.is_assumed());
    is_assumed.then(|| "one GPU held the model, TP1 (--tensor-parallel-size)".to_owned())
}

/// The field of a row's file that its one figure is of, where that is in seconds and figures are in milliseconds.
fn in_seconds(row: &Measured) -> Option<&'static str> {
    (row.tool == Tool::VllmLatency).then_some("avg_latency")
}

/// The scenario of a row as if its lengths had scattered, where neither the row nor what was said tells that they were equal.
fn scattered(row: &Measured, planned: &Plan, said: &Said, files: &dyn Files) -> Option<Resolved> {
    let reading = planned.scattered.as_ref()?;
    if said.document.get("workload.lengths").is_some() {
        return None;
    }
    let (resolved, _) = resolved(row, planned.read_as(reading), said, None, files).ok()?;
    Some(resolved)
}

/// Whether a row is a run that can be repeated at all.
fn whole(row: &Measured) -> Result<(), String> {
    if row.outcome.completed == Some(0) {
        return Err("no request was answered".to_owned());
    }
    let (failed, completed) = (
        row.outcome.failed.unwrap_or(0) as f64,
        row.outcome.completed.unwrap_or(0) as f64,
    );
    if failed > FAILED_MAX * (failed + completed) {
        return Err(format!(
            "{failed:.0} of {:.0} requests failed: what was served is not what was sent",
            failed + completed
        ));
    }
    Ok(())
}

/// Puts what was said where a row has nothing; what had to be assumed.
fn fill(row: &mut Measured, said: &Said) -> Result<Vec<String>, String> {
    let mut assumptions = Vec::new();
    let setup = &mut row.setup;
    let text = |key: &str| {
        let value = said.document.get(key).and_then(toml::Value::as_str);
        value.map(str::to_owned)
    };
    let named = setup.model.take();
    setup.model = text("model.name").or_else(|| named.clone());
    if let (Some(said), Some(named)) = (&setup.model, &named)
        && !is_same_name(said, named)
    {
        assumptions.push(format!("the model that it names, {named}, is {said}"));
    }
    if setup.model.is_none() {
        return Err(
            "it does not name its model: add --model, or --serve-cmd \"vllm serve MODEL …\"".to_owned(),
        );
    }
    let fitted = text("cluster.gpu");
    match &setup.gpu {
        Some(own) => assumptions.extend(other_card(own, fitted.as_deref())?),
        None => setup.gpu = fitted,
    }
    let found = setup.engine.as_deref().and_then(engine_of);
    if let Some(found) = found.filter(|found| *found != said.engine) {
        return Err(format!(
            "it ran on {found}, and {} is fitted; --engine {found} fits that engine's host",
            said.engine,
        ));
    }
    if let (Some(model), Some(named)) = (&setup.model, &named)
        && is_other(model, named)
        && !said.is_of_file
    {
        return Err(format!(
            "it names the model {named}, and {model} is said beside it; leave that out where files name their models, or write \
             FILE= before a --serve-cmd or --scenario to say it of this file alone"
        ));
    }
    if found.is_none() {
        assumptions.push(format!("it does not name its engine: {}", said.engine));
    }
    setup.engine = Some(said.engine.clone());
    let of_profile = text("engine.profile");
    let of_profile = of_profile.and_then(|profile| Some(profile.split_once('@')?.1.to_owned()));
    let version = said.version.clone().or(of_profile);
    setup.engine_version = version.or(setup.engine_version.take());
    if row.tool == Tool::VllmLatency && said.document.get("engine.enable_prefix_caching").is_none() {
        assumptions.push(
            "no prompt was cached, as the command has it of itself; versions before that did cache (say so by --scenario)"
                .to_owned(),
        );
    }
    if row.tool == Tool::Plimsoll {
        assumptions.push("a prediction of this program stands for a measurement".to_owned());
    }
    assumptions.extend(agrees::check(row, said)?);
    load(row, said)?;
    lengths::check(row, &said.document)?;
    Ok(assumptions)
}

/// What is assumed of a run on another card than the one that is fitted.
fn other_card(own: &str, fitted: Option<&str>) -> Result<Option<String>, String> {
    let card = |name: &str| hardware::find(name.split('(').next().unwrap_or(name).trim()).ok();
    let Some((ran_on, _)) = card(own) else {
        return Err(format!(
            "its GPU `{own}` is not known; `plimsoll hw` lists those that are"
        ));
    };
    let fitted = fitted.and_then(card).filter(|(fitted, _)| fitted.id != ran_on.id);
    Ok(fitted.map(|(fitted, _)| {
        format!(
            "it ran on {}, not on {}: the host is taken to be as fast on both (--runs-on {} leaves such runs out)",
            ran_on.id, fitted.id, fitted.id
        )
    }))
}

/// The engine that a name means; endpoints such as `openai` are no engines.
fn engine_of(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let known = [
        ("sglang", "sglang"),
        ("tensorrt", "trtllm"),
        ("trt", "trtllm"),
        ("vllm", "vllm"),
    ];
    known
        .into_iter()
        .find(|(part, _)| name.contains(part))
        .map(|(_, engine)| engine)
}

/// How requests were sent, how many and how long.
fn load(row: &mut Measured, said: &Said) -> Result<(), String> {
    let (setup, known) = (&mut row.setup, &said.setup);
    if row.tool == Tool::VllmLatency && !matches!(known.load, Load::StaticBatch { .. }) {
        return Err(
            "a latency of `vllm bench latency` says neither batch nor lengths: add --batch-size, --input-len and \
             --output-len, or --bench-cmd \"vllm bench latency …\""
                .to_owned(),
        );
    }
    if setup.load == Load::Unknown {
        setup.load = match known.load {
            Load::Unknown => load_of(&said.document),
            load => load,
        };
        setup.max_concurrency = setup.max_concurrency.or(known.max_concurrency);
    }
    setup.input_tokens = setup.input_tokens.or(known.input_tokens);
    setup.output_tokens = setup.output_tokens.or(known.output_tokens);
    let answered = row.outcome.completed.filter(|completed| *completed > 0);
    setup.num_prompts = setup.num_prompts.or(answered).or(known.num_prompts);
    match setup.load {
        Load::StaticBatch { batch } => setup.num_prompts = Some(batch),
        Load::Open { .. } => setup.num_prompts = setup.num_prompts.map(|count| count.min(REQUESTS_MAX)),
        _ => {}
    }
    match setup.num_prompts {
        Some(count) if count > REQUESTS_OF_A_RUN_MAX => Err(format!(
            "it has {count} requests, and a fit simulates every run some hundred times: at most {REQUESTS_OF_A_RUN_MAX} are taken"
        )),
        _ => Ok(()),
    }
}

/// The load of a scenario.
fn load_of(document: &Document) -> Load {
    let number = |key: &str| super::number(document.get(key)?);
    let rate = ["poisson", "gamma", "constant"]
        .iter()
        .find_map(|law| number(&format!("workload.arrivals.{law}.request_rate")))
        .or_else(|| number("workload.request_rate"));
    if let Some(rate) = rate {
        return Load::Open { rate };
    }
    if document.get("workload.arrivals.trace").is_some() {
        return Load::Trace;
    }
    match number("workload.client.max_concurrency") {
        Some(clients) => Load::Closed {
            clients: clients as u64,
        },
        None if document.get("workload.arrivals").is_some() => Load::Burst,
        None => Load::Unknown,
    }
}

/// The plan's reason with what to add.
fn remedy(reason: &Unplanned) -> String {
    match reason {
        Unplanned::Load => {
            "it does not say how requests were sent; add --request-rate or --max-concurrency, or --bench-cmd \
                            \"vllm bench serve …\""
                .to_owned()
        }
        Unplanned::Lengths(what) => format!(
            "it does not say how long {what} are; add --input-len and --output-len, or --bench-cmd \"vllm bench serve …\""
        ),
        Unplanned::Row(why) => why.clone(),
    }
}

/// The scenario of a row with what the user said put over it.
fn resolved(
    row: &Measured,
    planned: Plan,
    said: &Said,
    recorded: Option<&Recorded>,
    files: &dyn Files,
) -> Result<(Resolved, Plan), String> {
    let attempt = |plan: &Plan| -> Result<Resolved, Unmade> {
        let mut document = Document::parse("run.toml", &plan.scenario).map_err(|problem| problem.message)?;
        if row.tool == Tool::VllmLatency {
            // vLLM 0.33 `benchmarks/latency.py` sets it so; prompts repeat in every iteration.
            document.set(
                "engine.enable_prefix_caching",
                toml::Value::Boolean(false),
                "vllm bench latency",
            );
        }
        lay_over(
            &mut document,
            &said.document,
            row.setup.load != load_of(&said.document),
        );
        if let Some(recorded) = recorded {
            recorded.put(&mut document);
        }
        let files = WithFile { recorded, files };
        resolve(document, &files).map_err(|problems| {
            Unmade::of(&problems, |problem| {
                let help = problem
                    .help
                    .first()
                    .map_or(String::new(), |help| format!("; {help}"));
                problem.sentence() + &help
            })
        })
    };
    planned.attempt(row, attempt)
}

/// Puts every value of one document over another; of the traffic only what the file does not know better: its load.
fn lay_over(document: &mut Document, said: &Document, knows_load: bool) {
    let mut leaves = Vec::new();
    walk(said.table(), "", &mut leaves);
    for (key, value) in leaves {
        let is_load = [
            "workload.arrivals",
            "workload.client.max_concurrency",
            "workload.num_prompts",
            "workload.request_rate",
        ]
        .iter()
        .any(|part| key.starts_with(part));
        let is_run = ![
            "sweep",
            "slo",
            "report",
            "assumed",
            "cluster.gpu",
            "workload.duration",
        ]
        .iter()
        .any(|part| key.starts_with(part));
        if is_run && !(is_load && knows_load) {
            document.set(&key, value, "the flags beside the file");
        }
    }
}

fn walk(table: &toml::Table, path: &str, leaves: &mut Vec<(String, toml::Value)>) {
    for (key, value) in table {
        let key = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match value {
            toml::Value::Table(table) if !table.is_empty() => walk(table, &key, leaves),
            value => leaves.push((key, value.clone())),
        }
    }
}

fn label(row: &Measured, place: &str) -> String {
    let setup = &row.setup;
    let tokens = |tokens: Option<f64>| tokens.map_or("?".to_owned(), |tokens| format!("{tokens:.0}"));
    format!(
        "{place}: {}, {}+{} tokens",
        setup.load,
        tokens(setup.input_tokens),
        tokens(setup.output_tokens)
    )
}

fn took(
    row: &Measured,
    measured: &[(Figure, f64)],
    recorded: Option<&Recorded>,
    assumptions: &[String],
) -> String {
    let figures: Vec<String> = measured
        .iter()
        .map(|(figure, value)| match in_seconds(row) {
            Some(field) => format!("{field} {} s, as {}", significant(value / 1e3), figure.name()),
            None => format!("{} {}", figure.name(), significant(*value)),
        })
        .collect();
    let mut text = format!("{}, {}: {}", row.tool.name(), row.setup.load, figures.join(", "));
    if let Some(recorded) = recorded {
        text += &format!("; {}", recorded.words());
    }
    // A remark on a figure that no fit uses is of no use here.
    let is_of_use = |taken: &&String| !taken.starts_with("max_concurrent_requests");
    for taken in row.taken.iter().filter(is_of_use) {
        text += &format!("; {taken}");
    }
    for assumption in assumptions {
        text += &format!("; assumed: {assumption}");
    }
    text
}
