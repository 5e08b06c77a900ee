//! The one form that every tool's result takes: what was run as far as it is known, and what came out.
//!
//! Definitions, the same for every tool: `ttft` is send to first token, after the client's own limit on requests in
//! flight; `tpot` is one value a request, `(e2el − ttft) / (output tokens − 1)`; `itl` is every gap between streamed
//! chunks, of all requests together; `e2el` is send to last token. Times are seconds. A figure that a tool defines
//! otherwise is converted where its file allows it, else it is not here and a [`Left`] says why.

use super::load::Load;
use super::settings::Settings;
use crate::stats::{self, Interval};

/// What stands in the words of a workload before the share of their means that lengths lie within.
pub const AROUND: &str = "lengths±";

/// What a result file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFile {
    /// The file, as the caller named it.
    pub name: String,
    /// One for each run; at least one.
    pub rows: Vec<Measured>,
}

/// Which tool wrote a result, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// `vllm bench serve --save-result`.
    VllmBench,
    /// What `vllm bench serve` prints.
    VllmBlock,
    /// Plimsoll's own JSON: a prediction.
    Plimsoll,
    /// `sglang.bench_serving --output-file`.
    SglangBench,
    /// What `sglang.bench_serving` prints.
    SglangBlock,
    /// AIPerf's records, one a request.
    AiperfRecords,
    /// AIPerf's aggregate.
    AiperfAggregate,
    /// AIPerf's console table.
    AiperfConsole,
    /// GenAI-Perf's aggregate.
    GenaiPerfAggregate,
    /// GenAI-Perf's console table.
    GenaiPerfConsole,
    /// GuideLLM's report.
    Guidellm,
    /// llmperf's summary.
    LlmperfSummary,
    /// llmperf's individual responses.
    LlmperfResponses,
    /// One stage of inference-perf.
    InferencePerf,
    /// The client of SemiAnalysis InferenceX.
    Inferencex,
    /// `trtllm-bench throughput`.
    TrtllmBench,
    /// `vllm bench latency`, saved or printed.
    VllmLatency,
    /// `sglang.bench_one_batch`, saved or printed.
    SglangOneBatch,
    /// A CSV table with one row a run.
    Table,
    /// The tables of the serving course.
    CourseTables,
}

impl Tool {
    /// As messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::VllmBench => "vllm bench serve",
            Tool::VllmBlock => "vllm bench serve (printed)",
            Tool::Plimsoll => "plimsoll",
            Tool::SglangBench => "sglang.bench_serving",
            Tool::SglangBlock => "sglang.bench_serving (printed)",
            Tool::AiperfRecords => "AIPerf records",
            Tool::AiperfAggregate => "AIPerf",
            Tool::AiperfConsole => "AIPerf (printed)",
            Tool::GenaiPerfAggregate => "GenAI-Perf",
            Tool::GenaiPerfConsole => "GenAI-Perf (printed)",
            Tool::Guidellm => "GuideLLM",
            Tool::LlmperfSummary => "llmperf summary",
            Tool::LlmperfResponses => "llmperf responses",
            Tool::InferencePerf => "inference-perf",
            Tool::Inferencex => "InferenceX",
            Tool::TrtllmBench => "trtllm-bench",
            Tool::VllmLatency => "vllm bench latency",
            Tool::SglangOneBatch => "sglang.bench_one_batch",
            Tool::Table => "CSV table",
            Tool::CourseTables => "course tables",
        }
    }
}

/// One run: what it was and what came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Where in the file it stands: `line 2`, `row r00212`, `week1 vllm L40S rate inf`; empty where the file is one run.
    pub place: String,
    /// Who wrote it.
    pub tool: Tool,
    /// What was run.
    pub setup: Setup,
    /// What came out, but for latencies.
    pub outcome: Outcome,
    /// Send to first token, s.
    pub ttft: Stats,
    /// Time per output token after the first, one value a request, s.
    pub tpot: Stats,
    /// Gaps between streamed chunks, all requests together, s.
    pub itl: Stats,
    /// Send to last token, s.
    pub e2el: Stats,
    /// Every request, where the file has them all.
    pub requests: Vec<RequestTimes>,
    /// Lists of requests that are not as long as they must be, which are not taken.
    pub miscounted: Option<Miscounted>,
    /// What the file itself says of its worth; only Plimsoll's own say it.
    pub own: Option<Own>,
    /// Keys of figures whose value is NaN.
    pub not_numbers: Vec<String>,
    /// What a figure was converted from or taken as.
    pub taken: Vec<String>,
    /// What the file says and is not here, and why.
    pub left: Vec<Left>,
}

impl Measured {
    /// A run of which nothing is known yet.
    #[must_use]
    pub fn new(tool: Tool, place: impl Into<String>) -> Measured {
        Measured {
            place: place.into(),
            tool,
            setup: Setup::default(),
            outcome: Outcome::default(),
            ttft: Stats::default(),
            tpot: Stats::default(),
            itl: Stats::default(),
            e2el: Stats::default(),
            requests: Vec::new(),
            miscounted: None,
            own: None,
            not_numbers: Vec::new(),
            taken: Vec::new(),
            left: Vec::new(),
        }
    }

    /// The four latencies with the names that files give them.
    #[must_use]
    pub fn latencies(&self) -> [(&'static str, &Stats); 4] {
        [
            ("ttft", &self.ttft),
            ("tpot", &self.tpot),
            ("itl", &self.itl),
            ("e2el", &self.e2el),
        ]
    }

    pub(super) fn leave(&mut self, what: &str, why: &str) {
        self.left.push(Left {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }

    /// Mean lengths from totals, where only those are known, and the version out of an engine's name.
    pub(super) fn complete(mut self) -> Measured {
        let (setup, outcome) = (&mut self.setup, &mut self.outcome);
        if let Some((engine, version)) = setup.engine.as_deref().and_then(super::text::engine_and_version) {
            setup.engine_version.get_or_insert_with(|| version.to_owned());
            setup.engine = Some(engine.to_owned());
        }
        let each = |total: Option<f64>| {
            let completed = outcome.completed.filter(|completed| *completed > 0)?;
            Some(total? / completed as f64)
        };
        setup.input_tokens = setup.input_tokens.or(each(outcome.input_tokens));
        setup.output_tokens = setup.output_tokens.or(each(outcome.output_tokens));
        self
    }
}

/// How the lengths of a file's lists contradict its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miscounted {
    /// Whether all lists are of one length and shorter than there were answers: a part of the run.
    pub is_part: bool,
    /// The lengths.
    pub words: String,
}

/// A result's judgement of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// `stable`, `too_short` …
    pub verdict: String,
    /// Seed of its traffic.
    pub seed: Option<u64>,
    /// 95 % intervals of its steady stretch by the keys of the file: `mean_ttft_ms`, `p90_tpot_ms`, `throughput` …, in that unit.
    pub intervals: Vec<(String, Interval)>,
    /// By which factors the model may be off, 90 %, by the keys of the file.
    pub model: Vec<(String, (f64, f64))>,
    /// Requests that had ended when the run was interrupted; `None` where it is whole.
    pub interrupted_after: Option<u64>,
}

impl Own {
    /// The 95 % interval under a key.
    #[must_use]
    pub fn interval(&self, key: &str) -> Option<Interval> {
        let found = self.intervals.iter().find(|(name, _)| name == key);
        found.map(|(_, interval)| *interval)
    }
}

/// What was run, as far as a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// GPU as the file names it.
    pub gpu: Option<String>,
    /// GPUs of the server.
    pub n_gpus: Option<u32>,
    /// Tensor-parallel ranks.
    pub tensor_parallel: Option<u32>,
    /// Pipeline stages.
    pub pipeline_parallel: Option<u32>,
    /// Data-parallel ranks.
    pub data_parallel: Option<u32>,
    /// Pools of unlike servers, 1 where there are none; `None` where the file does not say.
    pub pools: Option<u32>,
    /// Whether some servers prefill and others decode; `None` where the file does not say.
    pub is_disaggregated: Option<bool>,
    /// The router between as many servers as there are data-parallel ranks; `None` where one server has them.
    pub router: Option<String>,
    /// Expert-parallel ranks.
    pub expert_parallel: Option<u32>,
    /// Model as the file names it.
    pub model: Option<String>,
    /// `vllm`, `sglang` …
    pub engine: Option<String>,
    /// Its version.
    pub engine_version: Option<String>,
    /// Precision of the weights, as written.
    pub precision: Option<String>,
    /// Type of the KV cache, as written.
    pub kv_cache_dtype: Option<String>,
    /// How requests were sent.
    pub load: Load,
    /// Shape of the gaps between arrivals (gamma): 1 is Poisson; `None` where the file does not say.
    pub burstiness: Option<f64>,
    /// The client's limit on requests in flight; `None` where it had none or the file does not say.
    pub max_concurrency: Option<u64>,
    /// Requests that were to be sent.
    pub num_prompts: Option<u64>,
    /// Mean prompt, tokens.
    pub input_tokens: Option<f64>,
    /// Mean answer, tokens.
    pub output_tokens: Option<f64>,
    /// Whether all prompts and all answers have one length; `None` where the file does not say.
    pub has_fixed_lengths: Option<bool>,
    /// The trace that was replayed, as the file names it.
    pub trace: Option<String>,
    /// The workload in the file's words.
    pub workload: String,
    /// Whether answers leave the server in one piece, so that nothing is streamed.
    pub answers_whole: bool,
    /// The day of the measurement, as far as a table says it: `2025-11`, `2025-11-03`; else empty.
    pub date: String,
    /// Flags of server or client as written.
    pub flags: String,
    /// Settings of the run by their names, as far as the file tells them apart.
    pub settings: Settings,
    /// Remarks of who measured.
    pub notes: String,
    /// Family or table that the row belongs to; rows are compared within it.
    pub family: String,
    /// Whether the row may fit a calibration, `calibrate`, or only check one, `validate`; empty where not said.
    pub suggested_use: String,
    /// Who vouches for it: `high`, `medium` …; empty where not said.
    pub confidence: String,
}

/// What came out, but for latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests that were answered.
    pub completed: Option<u64>,
    /// Requests that were not.
    pub failed: Option<u64>,
    /// First send to last answer, s.
    pub duration_s: Option<f64>,
    /// Prompt tokens of answered requests.
    pub input_tokens: Option<f64>,
    /// Tokens of their answers.
    pub output_tokens: Option<f64>,
    /// Answers per second.
    pub request_throughput: Option<f64>,
    /// Prompt tokens per second.
    pub input_throughput: Option<f64>,
    /// Answer tokens per second.
    pub output_throughput: Option<f64>,
    /// Both per second.
    pub total_throughput: Option<f64>,
    /// Most requests in flight, as the tool counts them (some count whole seconds).
    pub peak_in_flight: Option<f64>,
    /// Mean requests in flight, as the tool reports it.
    pub mean_in_flight: Option<f64>,
    /// Most tokens of answers in a whole second, as the tool counts them (a chunk as one).
    pub peak_output_throughput: Option<f64>,
    /// Answers per second that met all limits that were asked for.
    pub goodput: Option<f64>,
    /// Share of prompt tokens that were found in the server's own prefix cache.
    pub cached_share: Option<f64>,
    /// Mean wait in the client, for its limit on requests in flight, that is in no latency, s.
    pub client_queue_s: Option<f64>,
}

/// Statistics of one latency, s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Values behind them, where the file says.
    pub samples: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// 50th percentile.
    pub median: Option<f64>,
    /// The same under its other name, where a file has both.
    pub p50: Option<f64>,
    /// Standard deviation.
    pub std: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Percentiles but for the median: percent and value, ascending.
    pub percentiles: Vec<(f64, f64)>,
    /// Set where the values do not come from the tool but from its other figures.
    pub derived: Option<&'static str>,
}

impl Stats {
    /// Statistics of values, by the definitions of `vllm bench serve`; empty for none.
    #[must_use]
    pub fn of(values: &[f64], percents: &[f64]) -> Stats {
        if values.is_empty() {
            return Stats::default();
        }
        let mut running = stats::Running::default();
        values.iter().for_each(|value| running.add(*value));
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let squares = values.iter().map(|value| (value - running.mean()).powi(2));
        Stats {
            samples: Some(values.len() as u64),
            mean: Some(running.mean()),
            median: stats::quantile_sorted(&sorted, 0.5),
            p50: None,
            std: Some((squares.sum::<f64>() / values.len() as f64).sqrt()),
            min: sorted.first().copied(),
            max: sorted.last().copied(),
            percentiles: percents
                .iter()
                .filter_map(|percent| Some((*percent, stats::quantile_sorted(&sorted, percent / 100.0)?)))
                .collect(),
            derived: None,
        }
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let single = [self.mean, self.median, self.min, self.max];
        single.iter().all(Option::is_none) && self.percentiles.is_empty()
    }

    /// The `percent`-th percentile, if the file has it.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        if percent == 50.0 {
            return self.median;
        }
        let found = self.percentiles.iter().find(|(known, _)| *known == percent);
        found.map(|(_, value)| *value)
    }

    /// The mean, or where there is none the median.
    #[must_use]
    pub fn centre(&self) -> Option<f64> {
        self.mean.or(self.median)
    }

    /// Puts a value under the name that a tool has for its statistic, `Mean`, `avg`, `MAXIMUM`, `p99`; others are passed over.
    pub(super) fn put(&mut self, statistic: &str, value: f64) {
        match statistic.to_lowercase().as_str() {
            "mean" | "avg" | "average" => self.mean = Some(value),
            "median" => self.median = Some(value),
            "std" => self.std = Some(value),
            "min" | "minimum" => self.min = Some(value),
            "max" | "maximum" => self.max = Some(value),
            other => {
                if let Some(Ok(percent)) = other.strip_prefix('p').map(str::parse) {
                    self.put_percentile(percent, value);
                }
            }
        }
    }

    /// Adds the median and the percentiles of `other`; what is there already stays.
    pub(super) fn put_percentiles(&mut self, other: &Stats) {
        self.median = self.median.or(other.median);
        for (percent, value) in &other.percentiles {
            self.put_percentile(*percent, *value);
        }
    }

    /// Adds a percentile in its place; 50 is the median, and what is there already stays.
    pub fn put_percentile(&mut self, percent: f64, value: f64) {
        if percent == 50.0 {
            match self.median {
                None => self.median = Some(value),
                Some(_) => self.p50 = Some(value),
            }
            return;
        }
        let at = self.percentiles.partition_point(|(known, _)| *known < percent);
        if self
            .percentiles
            .get(at)
            .is_none_or(|(known, _)| *known != percent)
        {
            self.percentiles.insert(at, (percent, value));
        }
    }
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestTimes {
    /// When it was sent, s from any origin; `None` where the file does not say.
    pub start_s: Option<f64>,
    /// When its record says that it ended, s from the same origin; `None` where the file does not say.
    pub end_s: Option<f64>,
    /// Send to first token, s.
    pub ttft_s: f64,
    /// Send to last token, s; `None` where the file does not say.
    pub e2el_s: Option<f64>,
    /// Gaps between its chunks, s; empty where the file does not say.
    pub itls_s: Vec<f64>,
    /// Time per output token after the first as its record says it, s; `None` where the file does not.
    pub stated_tpot_s: Option<f64>,
    /// Prompt tokens; `None` where the file does not say.
    pub input_tokens: Option<f64>,
    /// Tokens of the answer.
    pub output_tokens: f64,
}

impl RequestTimes {
    /// Time per output token after the first, s; `None` for an answer of one token, or whose end is unknown.
    #[must_use]
    pub fn tpot_s(&self) -> Option<f64> {
        let decoding_s = self.e2el_s? - self.ttft_s;
        (self.output_tokens > 1.0).then(|| decoding_s / (self.output_tokens - 1.0))
    }
}

/// Something that a file says and that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its name in the file.
    pub what: String,
    /// Why.
    pub why: String,
}
