//! Flags, low level: what was typed, and the edits of the scenario that it means.
//!
//! A flag edits the scenario as if its key had been written in the file. Flags of the engine, the model and the
//! cluster are keys of the same name; those of traffic and promises follow `vllm bench serve` and are translated here.

use clap::{Args, ValueEnum};
use toml::{Table, Value};

use super::diagnostic::{Diagnostic, Place};
use super::document::Document;
use super::raw::{RawCluster, RawEngine, RawModel, RawRampStrategy, RawTimeUnit};
use super::scalar::{Count, Rate};
use super::slo::{Metric, parse_statistic};

/// Everything that says what to simulate.
#[derive(Args, Clone, Debug, Default)]
pub struct ScenarioFlags {
    /// Model, or scenario: a file ending in .toml or the name of a shipped one.
    #[arg(value_name = "MODEL|SCENARIO")]
    pub target: Option<String>,
    /// Scenario file or shipped scenario, where the model is given too.
    #[arg(long, value_name = "SCENARIO")]
    pub scenario: Option<String>,
    /// Model: Hugging Face id of a bundled shape, or the path of a config.json.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub model: Option<String>,
    #[command(flatten)]
    pub(crate) shape: RawModel,
    #[command(flatten)]
    pub(crate) cluster: RawCluster,
    #[command(flatten)]
    pub(crate) engine: RawEngine,
    /// vLLM's compilation config as JSON (-cc); its CUDA-graph keys are used.
    #[arg(long, value_name = "JSON", help_heading = "Engine (vLLM's flags)")]
    pub compilation_config: Option<String>,
    #[command(flatten)]
    pub(crate) traffic: TrafficFlags,
    #[command(flatten)]
    pub(crate) slo: SloFlags,
    /// A whole `vllm serve …` command to take model and engine flags from.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub serve_cmd: Option<String>,
    /// A whole `vllm bench serve …` command to take traffic from, with that client's defaults.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub bench_cmd: Option<String>,
}

/// The traffic, in the words of `vllm bench serve`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Traffic (vllm bench serve's flags)")]
pub struct TrafficFlags {
    /// Requests per second; inf sends everything at once.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub request_rate: Option<Rate>,
    /// Shape of the gamma law of gaps: 1 is Poisson, less is burstier, inf is constant.
    #[arg(long, value_name = "SHAPE", allow_negative_numbers = true)]
    pub burstiness: Option<f64>,
    /// Most requests in flight; without a rate a closed loop.
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<Count>,
    /// Requests to send; left out, as many as the asked precision needs.
    #[arg(long, value_name = "N")]
    pub num_prompts: Option<Count>,
    /// Stop sending after so long, `600s`.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Relative half-width of the 95 % interval at which an automatic run stops.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub precision: Option<f64>,
    /// Prompt tokens.
    #[arg(long, value_name = "TOKENS")]
    pub input_len: Option<Count>,
    /// Output tokens.
    #[arg(long, value_name = "TOKENS")]
    pub output_len: Option<Count>,
    /// Prompt tokens of the random data set.
    #[arg(long, value_name = "TOKENS")]
    pub random_input_len: Option<Count>,
    /// Output tokens of the random data set.
    #[arg(long, value_name = "TOKENS")]
    pub random_output_len: Option<Count>,
    /// Spread of the random lengths around the given ones; 0 is exact.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub random_range_ratio: Option<f64>,
    /// Tokens in front of every prompt, the same for all, added to its length.
    #[arg(long, value_name = "TOKENS")]
    pub random_prefix_len: Option<Count>,
    /// Which lengths to draw.
    #[arg(long, value_name = "NAME")]
    pub dataset_name: Option<Dataset>,
    /// File of the data set; token counts, not text.
    #[arg(long, value_name = "FILE")]
    pub dataset_path: Option<String>,
    /// Output tokens of every ShareGPT request.
    #[arg(long, value_name = "TOKENS")]
    pub sharegpt_output_len: Option<Count>,
    /// Tokens of each prefix of the prefix_repetition data set.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_prefix_len: Option<Count>,
    /// Tokens of each suffix.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_suffix_len: Option<Count>,
    /// Number of prefixes.
    #[arg(long, value_name = "N")]
    pub prefix_repetition_num_prefixes: Option<Count>,
    /// Output tokens.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_output_len: Option<Count>,
    /// Replay a trace file: Mooncake, Azure, BurstGPT, vLLM --save-detailed and others, recognised by content.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<String>,
    /// Factor on the trace's arrival times; 2 halves the rate.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub time_scale: Option<f64>,
    /// Unit of the trace's time stamps where its format leaves it open.
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<RawTimeUnit>,
    /// Users who send, wait for the answer, think and send again.
    #[arg(long, value_name = "N")]
    pub users: Option<Count>,
    /// Mean of their think time, `30s`.
    #[arg(long, value_name = "TIME")]
    pub think_time: Option<String>,
    /// How the rate goes from --ramp-up-start-rps to --ramp-up-end-rps.
    #[arg(long, value_name = "SHAPE")]
    pub ramp_up_strategy: Option<RawRampStrategy>,
    /// Requests per second at the first request.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub ramp_up_start_rps: Option<Rate>,
    /// Requests per second at the last.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub ramp_up_end_rps: Option<Rate>,
    /// Whose habits the client has: vllm rescales arrivals and has the defaults of `vllm bench serve`.
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<ClientKind>,
    /// The client gives up after so long, `300s`.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Seed of every random stream.
    #[arg(long, value_name = "N")]
    pub seed: Option<Count>,
    /// A workload to start from: a shipped one (workloads/azure-conv-2023) or a file.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
}

/// vLLM's `--dataset-name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake")]
pub enum Dataset {
    /// Lengths around the given ones.
    Random,
    /// Lengths of a ShareGPT file, filtered as vLLM does.
    Sharegpt,
    /// Lengths of a BurstGPT file; its arrival times are not used (--trace uses them).
    Burstgpt,
    /// Prefixes that repeat.
    PrefixRepetition,
    /// Lengths of any file.
    Custom,
    /// A Mooncake trace with its arrival times.
    TimedTrace,
    /// Prompts of 550 tokens, 200 of them shared, answers of 150.
    Sonnet,
}

/// Whose habits the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientKind {
    /// `vllm bench serve`.
    Vllm,
    /// Nobody's: arrivals as drawn.
    Plain,
}

/// What is promised.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Promises")]
pub struct SloFlags {
    /// Limits per request in ms, all of which a good one meets: `ttft:500 tpot:50 e2el:10000`.
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// Share of requests that must be good.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub attainment: Option<f64>,
    /// Limit on a percentile: `p99_ttft_ms<=500`.
    #[arg(long, value_name = "STATISTIC<=MS", num_args = 1..)]
    pub slo: Vec<String>,
}

/// Collects edits and problems.
struct Editor<'a> {
    document: &'a mut Document,
    /// `--bench-cmd ` before flags that stand in a pasted command.
    from: &'a str,
    problems: Vec<Diagnostic>,
}

impl Editor<'_> {
    fn set(&mut self, key: &str, value: impl Into<Value>, flag: &str) {
        let flag = format!("{}--{flag}", self.from);
        self.document.set(key, value.into(), &flag);
    }

    fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>, flag: &str) {
        if let Some(value) = value {
            self.set(key, value, flag);
        }
    }

    fn wrong(&mut self, flag: &str, message: impl Into<String>, help: impl Into<String>) {
        let flag = format!("{}--{flag}", self.from);
        self.problems
            .push(Diagnostic::new(message).at(Place::Flag(flag)).help(help));
    }

    /// The one choice at `key` and its table.
    fn chosen(&self, key: &str) -> Option<(String, Table)> {
        let (name, value) = self.document.get(key)?.as_table()?.iter().next()?;
        Some((name.clone(), value.as_table().cloned().unwrap_or_default()))
    }
}

fn count(value: Count) -> Value {
    // Counts above i64 cannot occur in TOML; they stay text and are refused where their limits are known.
    i64::try_from(value.0).map_or_else(|_| Value::String(value.0.to_string()), Value::Integer)
}

/// Applies the model's, cluster's and engine's flags. `from` is put before flag names in messages.
pub(super) fn apply_serve(document: &mut Document, flags: &ScenarioFlags, from: &str) -> Vec<Diagnostic> {
    let mut editor = Editor {
        document,
        from,
        problems: Vec::new(),
    };
    editor.set_some("model.name", flags.model.clone(), "model");
    let tables = [
        ("model", Table::try_from(&flags.shape)),
        ("cluster", Table::try_from(&flags.cluster)),
        ("engine", Table::try_from(&flags.engine)),
    ];
    for (section, table) in tables {
        for (key, value) in table.expect("format types are representable in TOML") {
            let flag = if key == "profile" {
                "engine".to_string()
            } else {
                key.replace('_', "-")
            };
            editor.set(&format!("{section}.{key}"), value, &flag);
        }
    }
    if let Some(json) = &flags.compilation_config {
        compilation_config(&mut editor, json);
    }
    editor.problems
}

/// The CUDA-graph keys of vLLM's compilation config.
fn compilation_config(editor: &mut Editor<'_>, json: &str) {
    let flag = "compilation-config";
    let Ok(serde_json::Value::Object(config)) = serde_json::from_str(json) else {
        editor.wrong(
            flag,
            "`--compilation-config` is not a JSON object",
            "write it like '{\"cudagraph_mode\": \"PIECEWISE\"}'",
        );
        return;
    };
    for (key, value) in config {
        match (key.as_str(), &value) {
            ("cudagraph_mode", serde_json::Value::String(mode)) => {
                editor.set("engine.cudagraph_mode", mode.to_lowercase(), flag)
            }
            ("max_cudagraph_capture_size", serde_json::Value::Number(size)) => {
                editor.set(
                    "engine.max_cudagraph_capture_size",
                    size.as_i64().unwrap_or(0),
                    flag,
                );
            }
            ("cudagraph_capture_sizes", serde_json::Value::Array(sizes)) => {
                let sizes: Vec<Value> = sizes
                    .iter()
                    .map(|size| Value::Integer(size.as_i64().unwrap_or(0)))
                    .collect();
                editor.set("engine.cudagraph_capture_sizes", sizes, flag);
            }
            _ => {
                let message = format!("`--compilation-config`: `{key}` is not modelled");
                editor.wrong(
                    flag,
                    message,
                    "cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size are",
                );
            }
        }
    }
}

/// Applies the traffic's flags.
pub(super) fn apply_traffic(document: &mut Document, flags: &TrafficFlags, from: &str) -> Vec<Diagnostic> {
    let mut editor = Editor {
        document,
        from,
        problems: Vec::new(),
    };
    editor.set_some("workload.base", flags.workload.clone(), "workload");
    editor.set_some("workload.seed", flags.seed.map(count), "seed");
    editor.set_some(
        "workload.num_prompts",
        flags.num_prompts.map(count),
        "num-prompts",
    );
    editor.set_some("workload.duration", flags.duration.clone(), "duration");
    editor.set_some("workload.precision", flags.precision, "precision");
    editor.set_some("workload.client.timeout", flags.timeout.clone(), "timeout");
    if let Some(client) = flags.client {
        editor.set(
            "workload.client.rescale_arrivals",
            client == ClientKind::Vllm,
            "client",
        );
    }
    lengths(&mut editor, flags);
    arrivals(&mut editor, flags);
    editor.problems
}

/// The defaults of `vllm bench serve`, where nothing else was said.
pub(super) fn vllm_client_defaults(document: &mut Document) {
    let of = "vllm bench serve";
    document.set_default("workload.num_prompts", Value::Integer(1000), of);
    document.set_default("workload.client.rescale_arrivals", Value::Boolean(true), of);
    if document.get("workload.arrivals").is_none() {
        document.set_default("workload.arrivals.all_at_once", Value::Table(Table::new()), of);
    }
    if document.get("workload.lengths").is_none() && document.get("workload.arrivals.trace").is_none() {
        document.set_default("workload.lengths.random.input_len", Value::Integer(1024), of);
        document.set_default("workload.lengths.random.output_len", Value::Integer(128), of);
    }
}

fn arrivals(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let before = editor.chosen("workload.arrivals");
    let asked = [
        ("users", flags.users.is_some()),
        ("trace", flags.trace.is_some()),
        ("ramp-up-strategy", flags.ramp_up_strategy.is_some()),
    ];
    let asked: Vec<&str> = asked
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
        .collect();
    if let [first, second, ..] = asked[..] {
        editor.wrong(
            second,
            format!("`--{second}` and `--{first}` both say when requests arrive"),
            "keep one",
        );
    }
    if let Some(path) = &flags.trace {
        editor.set("workload.arrivals.trace.path", path.clone(), "trace");
        // A trace brings its lengths and its sharing: those of the scenario it replaces go.
        editor.document.remove("workload.lengths");
        editor.document.remove("workload.prefix");
    }
    let is_trace = flags.trace.is_some() || before.as_ref().is_some_and(|(kind, _)| kind == "trace");
    for (flag, is_given) in [
        ("time-scale", flags.time_scale.is_some()),
        ("time-unit", flags.time_unit.is_some()),
    ] {
        if is_given && !is_trace {
            editor.wrong(flag, format!("`--{flag}` needs a trace"), "give --trace FILE");
        }
    }
    if is_trace {
        editor.set_some(
            "workload.arrivals.trace.time_scale",
            flags.time_scale,
            "time-scale",
        );
        let unit = flags
            .time_unit
            .map(|unit| Value::try_from(unit).expect("a unit variant is a string"));
        editor.set_some("workload.arrivals.trace.time_unit", unit, "time-unit");
    }
    let is_users = flags.users.is_some() || before.as_ref().is_some_and(|(kind, _)| kind == "users");
    editor.set_some("workload.arrivals.users.users", flags.users.map(count), "users");
    match (&flags.think_time, is_users) {
        (Some(_), false) => editor.wrong("think-time", "`--think-time` needs users", "give --users N"),
        (Some(time), true) => editor.set("workload.arrivals.users.think_time", time.clone(), "think-time"),
        (None, true)
            if editor
                .document
                .get("workload.arrivals.users.think_time")
                .is_none() =>
        {
            editor.wrong(
                "users",
                "`--users` needs a think time",
                "give --think-time 30s (0s sends again at once)",
            );
        }
        (None, _) => {}
    }
    ramp(editor, flags);
    editor.set_some(
        "workload.client.max_concurrency",
        flags.max_concurrency.map(count),
        "max-concurrency",
    );
    if flags.request_rate.is_some() || flags.burstiness.is_some() {
        if let [first, ..] = asked[..]
            && first != "trace"
        {
            editor.wrong(
                "request-rate",
                format!("`--request-rate` and `--{first}` both say when requests arrive"),
                "keep one",
            );
        } else {
            rate(editor, flags, before);
        }
    } else if flags.max_concurrency.is_some()
        && editor.document.get("workload.arrivals").is_none()
        && flags.workload.is_none()
    {
        editor.set("workload.arrivals.all_at_once", Table::new(), "max-concurrency");
    }
}

fn ramp(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let ends = [
        ("ramp-up-start-rps", "start_rate", flags.ramp_up_start_rps),
        ("ramp-up-end-rps", "end_rate", flags.ramp_up_end_rps),
    ];
    let Some(strategy) = flags.ramp_up_strategy else {
        for (flag, _, value) in ends {
            if value.is_some() {
                editor.wrong(
                    flag,
                    format!("`--{flag}` needs a strategy"),
                    "give --ramp-up-strategy linear or exponential",
                );
            }
        }
        return;
    };
    let strategy = Value::try_from(strategy).expect("a unit variant is a string");
    editor.set("workload.arrivals.ramp.strategy", strategy, "ramp-up-strategy");
    for (flag, key, value) in ends {
        match value {
            Some(rate) => editor.set(&format!("workload.arrivals.ramp.{key}"), rate.0, flag),
            None => editor.wrong(
                flag,
                format!("`--ramp-up-strategy` needs `--{flag}`"),
                format!("give --{flag} RATE"),
            ),
        }
    }
}

/// A rate and a burstiness, each from its flag or else from the arrivals that there are.
fn rate(editor: &mut Editor<'_>, flags: &TrafficFlags, before: Option<(String, Table)>) {
    let flag = if flags.request_rate.is_some() {
        "request-rate"
    } else {
        "burstiness"
    };
    let kind = if flags.trace.is_some() {
        "trace"
    } else {
        before.as_ref().map_or("", |(kind, _)| kind)
    };
    if (kind == "trace" || kind == "profile") && flags.burstiness.is_none() {
        editor.set_some(
            &format!("workload.arrivals.{kind}.request_rate"),
            flags.request_rate.map(|rate| rate.0),
            flag,
        );
        return;
    }
    let number = |key: &str| {
        let value = before.as_ref()?.1.get(key)?;
        value
            .as_float()
            .or_else(|| value.as_integer().map(|value| value as f64))
            .or_else(|| value.as_str()?.parse().ok())
    };
    let Some(rate) = flags
        .request_rate
        .map(|rate| rate.0)
        .or_else(|| number("request_rate"))
    else {
        editor.wrong(flag, "`--burstiness` needs a rate", "give --request-rate RATE");
        return;
    };
    let was_constant = kind == "constant" && flags.burstiness.is_none();
    let burstiness = flags.burstiness.or_else(|| number("burstiness")).unwrap_or(1.0);
    let flag = |given: bool, own: &'static str| if given { own } else { flag };
    let rate_flag = flag(flags.request_rate.is_some(), "request-rate");
    if rate == f64::INFINITY {
        editor.set("workload.arrivals.all_at_once", Table::new(), rate_flag);
    } else if was_constant || burstiness == f64::INFINITY {
        editor.set("workload.arrivals.constant.request_rate", rate, rate_flag);
    } else if burstiness == 1.0 {
        editor.set("workload.arrivals.poisson.request_rate", rate, rate_flag);
    } else {
        editor.set("workload.arrivals.gamma.request_rate", rate, rate_flag);
        editor.set(
            "workload.arrivals.gamma.burstiness",
            burstiness,
            flag(flags.burstiness.is_some(), "burstiness"),
        );
    }
}

fn lengths(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    match flags.dataset_name {
        Some(Dataset::Sharegpt | Dataset::Burstgpt | Dataset::Custom) => from_file(editor, flags),
        None if flags.dataset_path.is_some() => from_file(editor, flags),
        Some(Dataset::TimedTrace) => match &flags.dataset_path {
            Some(path) => {
                editor.set("workload.arrivals.trace.path", path.clone(), "dataset-path");
                editor.document.remove("workload.lengths");
            }
            None => editor.wrong(
                "dataset-name",
                "`--dataset-name timed_trace` needs its file",
                "give --dataset-path FILE",
            ),
        },
        Some(Dataset::PrefixRepetition) => prefix_repetition(editor, flags),
        Some(Dataset::Sonnet) => {
            let (key, flag) = ("workload.lengths.random", "dataset-name");
            editor.set(&format!("{key}.input_len"), 350, flag);
            editor.set(&format!("{key}.output_len"), 150, flag);
            editor.set("workload.prefix.groups.count", 1, flag);
            editor.set("workload.prefix.groups.prefix_len", 200, flag);
        }
        Some(Dataset::Random) | None => random(editor, flags),
    }
    let is_repetition = flags.dataset_name == Some(Dataset::PrefixRepetition);
    let strays = [
        (
            "prefix-repetition-prefix-len",
            flags.prefix_repetition_prefix_len,
            is_repetition,
        ),
        (
            "prefix-repetition-suffix-len",
            flags.prefix_repetition_suffix_len,
            is_repetition,
        ),
        (
            "prefix-repetition-num-prefixes",
            flags.prefix_repetition_num_prefixes,
            is_repetition,
        ),
        (
            "prefix-repetition-output-len",
            flags.prefix_repetition_output_len,
            is_repetition,
        ),
        (
            "sharegpt-output-len",
            flags.sharegpt_output_len,
            flags.dataset_name == Some(Dataset::Sharegpt),
        ),
    ];
    for (flag, value, belongs) in strays {
        if value.is_some() && !belongs {
            let dataset = if flag.starts_with("sharegpt") {
                "sharegpt"
            } else {
                "prefix_repetition"
            };
            editor.wrong(
                flag,
                format!("`--{flag}` belongs to another data set"),
                format!("give --dataset-name {dataset}"),
            );
        }
    }
}

fn random(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let input = flags
        .random_input_len
        .map(|len| (len, "random-input-len"))
        .or(flags.input_len.map(|len| (len, "input-len")));
    let output = flags
        .random_output_len
        .map(|len| (len, "random-output-len"))
        .or(flags.output_len.map(|len| (len, "output-len")));
    if let Some(prefix) = flags.random_prefix_len {
        if prefix.0 == 0 {
            editor.document.remove("workload.prefix");
        } else {
            editor.set("workload.prefix.groups.count", 1, "random-prefix-len");
            editor.set(
                "workload.prefix.groups.prefix_len",
                count(prefix),
                "random-prefix-len",
            );
        }
    }
    let is_vllm = flags.client == Some(ClientKind::Vllm);
    if input.is_none() && output.is_none() && flags.random_range_ratio.is_none() {
        return;
    }
    // The other length may stand in the scenario, as long as it is a plain one there.
    let before = editor
        .chosen("workload.lengths")
        .filter(|(kind, _)| matches!(kind.as_str(), "fixed" | "random"));
    let kept = |key: &str| {
        before
            .as_ref()
            .and_then(|(_, table)| table.get(key))
            .and_then(Value::as_integer)
    };
    let length = |given: Option<(Count, &'static str)>, key: &str, vllm: i64| match given {
        Some((len, flag)) => Some((count(len), flag)),
        None => kept(key)
            .or(is_vllm.then_some(vllm))
            .map(|len| (Value::Integer(len), "client")),
    };
    let input = length(input, "input_len", 1024);
    let output = length(output, "output_len", 128);
    let (Some((input, input_flag)), Some((output, output_flag))) = (input, output) else {
        let (given, missing) = if flags.output_len.or(flags.random_output_len).is_some() {
            ("output-len", "input-len")
        } else {
            ("input-len", "output-len")
        };
        editor.wrong(
            given,
            format!("`--{given}` needs `--{missing}`: a request has a prompt and an output"),
            format!("give --{missing} TOKENS"),
        );
        return;
    };
    let ratio = flags
        .random_range_ratio
        .or_else(|| before.as_ref()?.1.get("range_ratio")?.as_float());
    editor.set("workload.lengths.random.input_len", input, input_flag);
    editor.set("workload.lengths.random.output_len", output, output_flag);
    editor.set_some("workload.lengths.random.range_ratio", ratio, "random-range-ratio");
}

fn from_file(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let Some(path) = &flags.dataset_path else {
        let help = "give --dataset-path FILE with token counts, or --input-len and --output-len";
        editor.wrong("dataset-name", "this data set is a file, and none is given", help);
        return;
    };
    editor.set("workload.lengths.file.path", path.clone(), "dataset-path");
    if flags.dataset_name == Some(Dataset::Sharegpt) {
        editor.set("workload.lengths.file.filter", "sharegpt", "dataset-name");
    }
    let output = flags
        .sharegpt_output_len
        .map(|len| (len, "sharegpt-output-len"))
        .or(flags.output_len.map(|len| (len, "output-len")));
    if let Some((len, flag)) = output {
        editor.set("workload.lengths.file.output_len", count(len), flag);
    }
}

fn prefix_repetition(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    // vLLM's defaults of this data set are part of its name.
    let or = |value: Option<Count>, default: i64| value.map_or(Value::Integer(default), count);
    let flag = "dataset-name";
    editor.set(
        "workload.prefix.groups.count",
        or(flags.prefix_repetition_num_prefixes, 10),
        flag,
    );
    editor.set(
        "workload.prefix.groups.prefix_len",
        or(flags.prefix_repetition_prefix_len, 256),
        flag,
    );
    // Equal shares need a number of requests; without one each request draws its prefix.
    let is_counted = flags.num_prompts.is_some() || editor.document.get("workload.num_prompts").is_some();
    editor.set(
        "workload.prefix.groups.exact_shares",
        is_counted || flags.client == Some(ClientKind::Vllm),
        flag,
    );
    editor.set(
        "workload.lengths.fixed.input_len",
        or(flags.prefix_repetition_suffix_len, 256),
        flag,
    );
    let output = flags.prefix_repetition_output_len.or(flags.output_len);
    editor.set("workload.lengths.fixed.output_len", or(output, 128), flag);
}

/// Applies the promises' flags.
pub(super) fn apply_slo(document: &mut Document, flags: &SloFlags, from: &str) -> Vec<Diagnostic> {
    let mut editor = Editor {
        document,
        from,
        problems: Vec::new(),
    };
    editor.set_some("slo.attainment", flags.attainment, "attainment");
    // AIPerf writes all limits in one string, vLLM one each.
    for limit in flags.goodput.iter().flat_map(|limits| limits.split_whitespace()) {
        let parsed = limit
            .split_once(':')
            .map(|(metric, ms)| (Metric::from_name(metric), ms.parse::<f64>()));
        match parsed {
            Some((Some(Metric::Itl), _)) => {
                editor.wrong(
                    "goodput",
                    format!("`{limit}`: a request has many gaps"),
                    "limit its mean with tpot, or gaps with --slo p99_itl_ms<=50",
                );
            }
            Some((Some(metric), Ok(ms))) => editor.set(
                &format!("slo.goodput.{}", metric.name()),
                format!("{ms} ms"),
                "goodput",
            ),
            _ => editor.wrong(
                "goodput",
                format!("`{limit}` is not a limit per request"),
                "write METRIC:MS with ttft, tpot or e2el, like ttft:500",
            ),
        }
    }
    for limit in &flags.slo {
        let parsed = limit
            .split_once("<=")
            .or_else(|| limit.split_once(':'))
            .map(|(name, ms)| (parse_statistic(name), name, ms.trim().parse::<f64>()));
        match parsed {
            Some((Some(_), name, Ok(ms))) => {
                let name = name.trim().trim_end_matches("_ms").replace('.', "_");
                editor.set(&format!("slo.percentiles.{name}"), format!("{ms} ms"), "slo");
            }
            _ => editor.wrong(
                "slo",
                format!("`{limit}` is not a limit on a percentile"),
                "write it like 'p99_ttft_ms<=500' (quote it: < is special in a shell)",
            ),
        }
    }
    editor.problems
}
