//! From a row of a table to a scenario, in the words of a scenario file, with all that had to be assumed.

mod lengths;

use std::fmt::Write as _;

use super::words::{after, server_flags, stated_cache, stated_limit};
use crate::hardware;
use crate::results::{Load, Measured};

/// Requests for each client of a closed loop whose number of prompts is not known: ten waves.
const WAVES: u64 = 10;
/// Largest number of requests that is simulated where the row does not say how many.
const UNKNOWN_REQUESTS: u64 = 2000;
/// A run to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// A scenario file.
    pub scenario: String,
    /// What the row does not say and the scenario must.
    pub assumptions: Vec<String>,
    /// Other ways to read the row.
    pub readings: Vec<Reading>,
}

/// What a row may as well mean: a part of its scenario, and what could stand there.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    instead_of: String,
    put: String,
}

impl Plan {
    /// The same run, read in another way.
    #[must_use]
    pub fn read_as(&self, reading: &Reading) -> Plan {
        Plan {
            scenario: self.scenario.replacen(&reading.instead_of, &reading.put, 1),
            ..self.clone()
        }
    }

    /// The same run with a context of a power of two that holds four mean requests.
    #[must_use]
    fn with_context(&self, row: &Measured) -> Plan {
        let mean = row.setup.input_tokens.unwrap_or(512.0) + row.setup.output_tokens.unwrap_or(512.0);
        let context = ((4.0 * mean) as u64).clamp(1, 1 << 24).next_power_of_two();
        let mut assumptions = self.assumptions.clone();
        assumptions.push(format!(
            "the model's whole context does not fit: max_model_len {context}"
        ));
        let engine = format!("\n[engine]\nmax_model_len = {context}");
        let scenario = self.scenario.replacen("\n[engine]", &engine, 1);
        Plan {
            scenario,
            assumptions,
            readings: self.readings.clone(),
        }
    }

    /// Makes something of the plan. A server whose model's whole context does not fit was started with a shorter one,
    /// whatever the row says; the plan that was made use of comes back.
    ///
    /// # Errors
    /// What `make` says of the plan as it is.
    pub fn attempt<T>(
        self,
        row: &Measured,
        make: impl Fn(&Plan) -> Result<T, String>,
    ) -> Result<(T, Plan), String> {
        let reason = match make(&self) {
            Ok(made) => return Ok((made, self)),
            Err(reason) => reason,
        };
        if !reason.starts_with("does not fit: one request") || self.scenario.contains("max_model_len") {
            return Err(reason);
        }
        let shorter = self.with_context(row);
        let made = make(&shorter).map_err(|_| reason)?;
        Ok((made, shorter))
    }

    /// The same run with other traffic of the same law.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Plan {
        Plan {
            scenario: self
                .scenario
                .replacen("\nseed = 0\n", &format!("\nseed = {seed}\n"), 1),
            ..self.clone()
        }
    }
}

/// The scenario that a row describes. `trace` finds the path of a recorded trace by the name that a row gives it.
///
/// # Errors
/// Why the row cannot be modelled, as one sentence.
pub fn plan(row: &Measured, trace: &dyn Fn(&str) -> Option<String>) -> Result<Plan, String> {
    let setup = &row.setup;
    let model = setup.model.as_deref().ok_or("the row does not name its model")?;
    let gpu = setup.gpu.as_deref().ok_or("the row does not name its GPU")?;
    if setup.speculates() {
        return Err("speculative decoding is not modelled".to_owned());
    }
    let mut draft = Draft {
        row,
        text: String::new(),
        assumptions: Vec::new(),
        readings: Vec::new(),
    };
    draft.line("[model]");
    draft.entry("name", &quoted(shipped_name(model)));
    draft.precision()?;
    draft.line("\n[cluster]");
    draft.gpu(gpu);
    draft.ranks();
    draft.engine()?;
    draft.workload(trace)?;
    Ok(Plan {
        scenario: draft.text,
        assumptions: draft.assumptions,
        readings: draft.readings,
    })
}

/// The shipped id that a name in another case means.
fn shipped_name(name: &str) -> &str {
    crate::model::names()
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or(name)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A scenario as far as it is written.
struct Draft<'a> {
    row: &'a Measured,
    text: String,
    assumptions: Vec<String>,
    readings: Vec<Reading>,
}

impl Draft<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn entry(&mut self, key: &str, value: &str) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn assume(&mut self, what: impl Into<String>) {
        self.assumptions.push(what.into());
    }

    /// The card, and the bridge that a remark behind its name tells of: `A100-PCIe-80GB (NVLink pair)`. A name without its
    /// variant may be any that has so much memory.
    fn gpu(&mut self, said: &str) {
        let (name, remark) = said.split_once('(').unwrap_or((said, ""));
        let name = name.trim();
        let line = |name: &str| format!("gpu = {}\n", quoted(name));
        let meant = hardware::readings(name);
        let others = meant
            .iter()
            .skip(1)
            .filter(|other| other.memory == meant[0].memory);
        self.readings.extend(others.map(|other| Reading {
            instead_of: line(name),
            put: line(&other.id),
        }));
        self.text += &line(name);
        let takes_bridge = meant.first().is_some_and(|card| card.nvlink_bridge.is_some());
        if takes_bridge && remark.to_lowercase().contains("nvlink") {
            self.entry("nvlink_bridge", "true");
        }
    }

    /// `bf16`, `fp8 (gemm fp8, moe fp8)`, `awq-marlin`, `bf16+kv-fp8` …
    fn precision(&mut self) -> Result<(), String> {
        let setup = &self.row.setup;
        let written = setup.precision.clone().unwrap_or_default();
        let word = written
            .split(['+', '('])
            .next()
            .unwrap_or_default()
            .trim()
            .to_lowercase();
        let native = setup
            .model
            .as_deref()
            .is_some_and(|model| model.to_lowercase().contains("gpt-oss"));
        let quantization = match word.as_str() {
            "" | "bf16" | "bfloat16" | "fp16/bf16" => None,
            "fp16" | "half" => {
                self.entry("dtype", "\"float16\"");
                None
            }
            "mxfp4" | "fp4" if native => None,
            "fp8" | "fp8-static" | "fp8-dynamic" => Some("fp8"),
            "awq" | "awq-marlin" => Some("awq"),
            "gptq-marlin-int4" | "int4-w4a16" | "gptq" => Some("gptq"),
            "gptq-int8" | "int8" => Some("int8"),
            "nvfp4" | "fp4" => Some("nvfp4"),
            other => return Err(format!("the precision `{other}` is not modelled")),
        };
        if let Some(quantization) = quantization {
            self.entry("quantization", &quoted(quantization));
        }
        let cache = self
            .row
            .setup
            .kv_cache_dtype
            .clone()
            .unwrap_or_default()
            .to_lowercase();
        let cache = if written.contains("kv-fp8") {
            "fp8".to_owned()
        } else {
            cache
        };
        match cache.as_str() {
            "" | "auto" | "bf16" | "bfloat16" => {}
            "fp8" => self.entry("kv_cache_dtype", "\"fp8\""),
            other => return Err(format!("the KV cache type `{other}` is not modelled")),
        }
        Ok(())
    }

    fn ranks(&mut self) {
        let setup = &self.row.setup;
        let replicas = match setup.router {
            Some(_) => "replicas",
            None => "data_parallel_size",
        };
        let all = [
            ("tensor_parallel_size", setup.tensor_parallel.or(setup.n_gpus)),
            ("pipeline_parallel_size", setup.pipeline_parallel),
            (replicas, setup.data_parallel),
        ];
        for (key, ranks) in all {
            if let Some(ranks) = ranks.filter(|ranks| *ranks > 1) {
                self.entry(key, &ranks.to_string());
            }
        }
        if let Some(router) = &self.row.setup.router {
            self.entry("router", &quoted(router));
        }
    }

    fn engine(&mut self) -> Result<(), String> {
        let setup = &self.row.setup;
        if let Some(pools) = setup.pools {
            return Err(format!(
                "the result is that of {pools} pools, which a row does not describe: run their scenario again"
            ));
        }
        let engine = setup.engine.clone().ok_or("the row does not name its engine")?;
        if engine.to_lowercase().starts_with("sarathi") {
            return self.sarathi();
        }
        let fork = ["fork", "plugin"]
            .iter()
            .any(|word| engine.to_lowercase().contains(word));
        if fork {
            return Err(format!("the engine `{engine}` is not modelled"));
        }
        let version = setup
            .engine_version
            .as_deref()
            .and_then(|version| version.split_whitespace().next());
        let version = version.map(|version| version.trim_start_matches('v').to_owned());
        self.line("\n[engine]");
        if let Some(other) = other_profile(&engine, version.as_deref()) {
            let asked = version
                .as_ref()
                .map_or(engine.clone(), |version| format!("{engine}@{version}"));
            self.readings.push(Reading {
                instead_of: format!("profile = {}\n", quoted(&asked)),
                put: format!("profile = {}\n", quoted(other)),
            });
        }
        match version {
            Some(version) => self.entry("profile", &quoted(&format!("{engine}@{version}"))),
            None => {
                self.assume(format!("the version of {engine} is not said: the newest profile"));
                self.entry("profile", &quoted(&engine));
            }
        }
        let is_sglang = engine.eq_ignore_ascii_case("sglang");
        if is_sglang {
            self.line("\n[sglang]");
        }
        let flags = server_flags(&self.row.setup.flags, is_sglang);
        let sizes = [
            "gpu_memory_utilization",
            "max_total_tokens",
            "mem_fraction_static",
        ];
        let has_size = flags.iter().any(|(key, _)| sizes.contains(&key.as_str()));
        for (key, value) in flags {
            self.entry(&key, &value);
        }
        if let Some(bytes) = stated_cache(&self.row.setup.notes).filter(|_| !is_sglang && !has_size) {
            self.assume("the KV cache is as large as the notes say that it was");
            self.entry("kv_cache_memory_bytes", &bytes.to_string());
        }
        Ok(())
    }

    /// Sarathi-Serve, whose chunked prefill vLLM 0.6 took over: running requests first, then a prompt's next chunk.
    fn sarathi(&mut self) -> Result<(), String> {
        let flags = format!("{} {}", self.row.setup.flags, self.row.setup.workload);
        let chunk = after(&flags, "chunk_size=").ok_or("the row does not say its chunk_size")?;
        self.assume("Sarathi-Serve batches as the chunked prefill of vLLM 0.6 does");
        self.line("\n[engine]");
        self.entry("profile", "\"vllm@0.6\"");
        self.entry("enable_chunked_prefill", "true");
        self.entry("max_num_batched_tokens", &format!("{chunk:.0}"));
        self.entry("max_num_seqs", &format!("{:.0}", chunk.min(256.0)));
        Ok(())
    }

    fn workload(&mut self, trace: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        self.line("\n[workload]\nseed = 0");
        let setup = &self.row.setup;
        if setup.load == Load::Trace {
            return self.replay(trace);
        }
        let requests = match (setup.num_prompts, setup.load) {
            (Some(requests), _) if requests > 0 => requests,
            (_, Load::Closed { clients }) => {
                let requests = (clients * WAVES).clamp(20, UNKNOWN_REQUESTS.max(clients));
                self.assume(format!("the number of requests is not said: {requests}"));
                requests
            }
            (_, Load::StaticBatch { batch }) => batch,
            _ => {
                self.assume(format!("the number of requests is not said: {UNKNOWN_REQUESTS}"));
                UNKNOWN_REQUESTS
            }
        };
        self.entry("num_prompts", &requests.to_string());
        self.arrivals()?;
        self.lengths()
    }

    fn replay(&mut self, trace: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        let name = self
            .row
            .setup
            .trace
            .clone()
            .ok_or("the row does not name its trace")?;
        let path = trace(&name).ok_or_else(|| format!("the trace `{name}` is not at hand (--traces DIR)"))?;
        self.line("\n[workload.arrivals.trace]");
        self.entry("path", &quoted(&path));
        Ok(())
    }

    fn arrivals(&mut self) -> Result<(), String> {
        let setup = &self.row.setup;
        let mut limit = setup.max_concurrency;
        let mut is_scaled = false;
        match setup.load {
            Load::Open { rate } => {
                // inference-perf's "constant" load draws exponential gaps and scales them to the run's length
                // (`ConstantLoadTimer.start_timer`), as `vllm bench serve` does: only the number is constant.
                is_scaled = setup.workload.to_lowercase().contains("inference-perf");
                self.line("\n[workload.arrivals.poisson]");
                self.entry("request_rate", &format!("{rate:?}"));
                limit = limit.or_else(|| stated_limit(&setup.notes));
            }
            Load::Closed { .. } | Load::Burst | Load::Offline => {
                self.line("\n[workload.arrivals.all_at_once]")
            }
            Load::StaticBatch { .. } => {
                self.assume("a static batch is sent all at once to an engine that batches continuously");
                self.line("\n[workload.arrivals.all_at_once]");
            }
            Load::Trace | Load::Unknown => {
                return Err("the row does not say how requests were sent".to_owned());
            }
        }
        if limit.is_some() || is_scaled {
            self.line("\n[workload.client]");
        }
        if let Some(limit) = limit {
            self.entry("max_concurrency", &limit.to_string());
        }
        if is_scaled {
            self.entry("rescale_arrivals", "true");
        }
        Ok(())
    }
}

/// The profile that a version between two of them, or none, could as well have been nearest to.
fn other_profile(engine: &str, version: Option<&str>) -> Option<&'static str> {
    const OLDEST: (u32, &str) = (11, "vllm@0.11");
    const NEWEST: (u32, &str) = (33, "vllm@0.33");
    if engine != "vllm" {
        return None;
    }
    let Some(version) = version else {
        return Some(OLDEST.1);
    };
    let minor: u32 = version.strip_prefix("0.")?.split('.').next()?.parse().ok()?;
    let is_between = OLDEST.0 < minor && minor < NEWEST.0;
    let is_older = minor - OLDEST.0.min(minor) <= NEWEST.0.saturating_sub(minor);
    is_between.then_some(if is_older { NEWEST.1 } else { OLDEST.1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Tool;

    fn row(load: Load) -> Measured {
        let mut row = Measured::new(Tool::Table, "row a");
        row.setup.model = Some("Meta-Llama/Llama-3.1-8B-Instruct".into());
        row.setup.gpu = Some("A100-PCIe-80GB (NVLink pair)".into());
        row.setup.engine = Some("vllm".into());
        row.setup.engine_version = Some("v0.11.0 (a remark)".into());
        row.setup.load = load;
        row.setup.num_prompts = Some(60);
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(204.1), Some(63.0));
        row
    }

    fn planned(row: &Measured) -> Plan {
        let plan = plan(row, &|_| None).unwrap();
        toml::from_str::<toml::Table>(&plan.scenario).unwrap();
        plan
    }

    #[test]
    fn a_sweep_of_prefills_reaches_over_the_lengths_that_nobody_told() {
        let mut row = row(Load::Closed { clients: 1 });
        (row.setup.input_tokens, row.setup.output_tokens) = (None, None);
        row.setup.workload = "single cache-miss prefill sweep".into();
        let plan = planned(&row);
        assert!(
            plan.scenario.contains("input_len = 8192\noutput_len = 1\n"),
            "{}",
            plan.scenario
        );
        let others: Vec<Plan> = plan
            .readings
            .iter()
            .map(|reading| plan.read_as(reading))
            .collect();
        for length in ["input_len = 2048\n", "input_len = 32768\n"] {
            assert!(
                others.iter().any(|other| other.scenario.contains(length)),
                "{length}"
            );
        }
        row.setup.workload = String::new();
        assert!(super::plan(&row, &|_| None).is_err());
    }

    #[test]
    fn an_open_loop_keeps_its_flags_its_law_and_the_limit_of_its_client() {
        let mut row = row(Load::Open { rate: 31.4 });
        row.setup.workload = "inference-perf shared_prefix: system 128 + question 64".into();
        row.setup.notes = "client caps 44 workers x 10 = 440 requests in flight, so it plateaus".into();
        row.setup.flags =
            "--gpu_memory_utilization=0.9 --max-model-len=512 --no-enable-prefix-caching".into();
        (row.setup.tensor_parallel, row.setup.precision) = (Some(2), Some("fp8 (gemm fp8, moe fp8)".into()));
        insta::assert_snapshot!(planned(&row).scenario, @r#"
        [model]
        name = "meta-llama/Llama-3.1-8B-Instruct"
        quantization = "fp8"

        [cluster]
        gpu = "A100-PCIe-80GB"
        nvlink_bridge = true
        tensor_parallel_size = 2

        [engine]
        profile = "vllm@0.11.0"
        gpu_memory_utilization = 0.9
        max_model_len = 512
        enable_prefix_caching = false

        [workload]
        seed = 0
        num_prompts = 60

        [workload.arrivals.poisson]
        request_rate = 31.4

        [workload.client]
        max_concurrency = 440
        rescale_arrivals = true

        [workload.lengths.fixed]
        input_len = 204
        output_len = 63
        "#);
    }

    #[test]
    fn closed_loops_bursts_and_lengths_have_their_own_words() {
        let text = |load: Load, workload: &str| {
            let mut row = row(load);
            row.setup.workload = workload.into();
            if let Load::Closed { clients } = load {
                row.setup.max_concurrency = Some(clients);
            }
            planned(&row).scenario
        };
        let closed = text(
            Load::Closed { clients: 8 },
            "random isl=1024 osl=8192 range_ratio=0.8",
        );
        assert!(closed.contains("[workload.arrivals.all_at_once]\n\n[workload.client]\nmax_concurrency = 8"));
        assert!(closed.contains(
            "[workload.lengths.random_sglang]\ninput_len = 1024\noutput_len = 8192\nrange_ratio = 0.8"
        ));
        assert!(text(Load::Burst, "random isl<=1000 osl<=1000").contains("input_len = 408"));
        assert!(text(Load::Burst, "ShareGPT").contains("[workload.lengths.lognormal]"));
        assert!(text(Load::StaticBatch { batch: 4 }, "").contains("all_at_once"));
    }

    #[test]
    fn what_a_row_leaves_open_is_read_both_ways() {
        let mut row = row(Load::Burst);
        row.setup.workload = "ShareGPT".into();
        row.setup.gpu = Some("H100-80GB".into());
        row.setup.engine_version = Some("0.18.0".into());
        let plan = planned(&row);
        let read: Vec<String> = plan
            .readings
            .iter()
            .map(|one| plan.read_as(one).scenario)
            .collect();
        assert_eq!(read.len(), 3);
        for (scenario, part) in read
            .iter()
            .zip(["H100-PCIE-80GB", "vllm@0.33", "[workload.lengths.fixed]"])
        {
            assert!(
                scenario.contains(part) && !plan.scenario.contains(part),
                "{scenario}"
            );
        }
        assert_eq!(other_profile("vllm", Some("0.11.2")), None);
        assert_eq!(other_profile("vllm", Some("0.9.2")), None);
        assert_eq!(other_profile("vllm", None), Some("vllm@0.11"));
    }

    #[test]
    fn a_cache_and_hits_that_notes_tell_of_are_taken() {
        let mut row = row(Load::Burst);
        row.setup.gpu = Some("A100-80GB".into());
        row.setup.input_tokens = Some(1024.0);
        row.setup.notes = "available KV cache 12.02 GiB per GPU; engine log samples \
                           running/waiting/kv%/prefix_hit%: 1/0/0.4/49.2 0/0/0.0/49.2"
            .into();
        let plan = planned(&row);
        assert!(
            plan.scenario.contains("kv_cache_memory_bytes = 12906376724"),
            "{}",
            plan.scenario
        );
        let read = plan.read_as(plan.readings.last().unwrap()).scenario;
        assert!(
            read.contains("input_len = 16\n") && read.contains("prefix_len = 1008"),
            "{read}"
        );
        // A flag of the server's goes before a remark.
        row.setup.flags = "--gpu_memory_utilization=0.9".into();
        assert!(!planned(&row).scenario.contains("kv_cache_memory_bytes"));
    }

    #[test]
    fn clients_of_a_closed_loop_may_be_in_step_or_not() {
        let mut row = row(Load::Closed { clients: 8 });
        row.setup.workload = "random isl=1024 osl=128".into();
        let plan = planned(&row);
        let read = plan.read_as(plan.readings.last().unwrap()).scenario;
        let law = "[workload.lengths.random]\ninput_len = 204\noutput_len = 63\nrange_ratio = 0.111\n";
        assert!(read.contains(law), "{read}");
        assert!(
            plan.scenario
                .contains("[workload.lengths.fixed]\ninput_len = 204\noutput_len = 63\n"),
            "{}",
            plan.scenario
        );
    }

    #[test]
    fn what_cannot_be_modelled_is_said() {
        let reason = |change: &dyn Fn(&mut Measured)| {
            let mut row = row(Load::Burst);
            change(&mut row);
            plan(&row, &|_| None).unwrap_err()
        };
        assert_eq!(
            reason(&|row| row.setup.flags = "--speculative-algorithm EAGLE3".into()),
            "speculative decoding is not modelled"
        );
        assert_eq!(
            reason(&|row| row.setup.precision = Some("int3".into())),
            "the precision `int3` is not modelled"
        );
        assert_eq!(
            reason(&|row| row.setup.output_tokens = None),
            "the row does not say how long answers are"
        );
        assert!(
            reason(&|row| row.setup.engine = Some("somebody's vLLM fork".into())).contains("not modelled")
        );
        let sarathi = |row: &mut Measured| row.setup.engine = Some("sarathi-serve (vLLM fork)".into());
        assert_eq!(reason(&sarathi), "the row does not say its chunk_size");
        let trace =
            |row: &mut Measured| (row.setup.load, row.setup.trace) = (Load::Trace, Some("a.jsonl".into()));
        assert_eq!(
            reason(&trace),
            "the trace `a.jsonl` is not at hand (--traces DIR)"
        );
    }

    #[test]
    fn prompts_that_were_cached_share_a_prefix() {
        let mut row = row(Load::Open { rate: 5.0 });
        row.setup.notes = "prefix caching is on: about 98 % of prompt tokens are cache hits".into();
        row.setup.input_tokens = Some(591.6);
        let scenario = planned(&row).scenario;
        assert!(
            scenario.contains("input_len = 16\n") && scenario.contains("prefix_len = 576"),
            "{scenario}"
        );
    }
}
