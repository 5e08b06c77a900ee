//! What served a row: its card, formats, ranks and engine, in the words of a scenario file.

use super::super::words::{after, server_flags, stated_cache};
use super::{Draft, Reading, quoted};
use crate::hardware;

impl Draft<'_> {
    /// The card, and the bridge that a remark behind its name tells of: `A100-PCIe-80GB (NVLink pair)`. A name without its
    /// variant may be any that has so much memory.
    pub(super) fn gpu(&mut self, said: &str) {
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
    pub(super) fn precision(&mut self) -> Result<(), String> {
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
            // Products of these are in 16 bits, as in vLLM's Marlin kernel; `int8` by itself is W8A8.
            "gptq-int8" | "gptq-marlin-int8" | "awq-int8" | "int8-w8a16" | "w8a16" => Some("w8a16"),
            "int8" | "int8-w8a8" | "w8a8" => Some("int8"),
            "nvfp4" | "fp4" => Some("nvfp4"),
            other => return Err(format!("the precision `{other}` is not modelled")),
        };
        if let Some(quantization) = quantization {
            self.entry("quantization", &quoted(quantization));
        }
        self.cache_precision(&written)
    }

    /// What the cache is in, if not in the model's format: said for itself, or as `kv-fp8` behind the weights' format.
    fn cache_precision(&mut self, written: &str) -> Result<(), String> {
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

    /// How many GPUs share the work, and how.
    pub(super) fn ranks(&mut self) {
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

    /// The engine with its version, its flags and the memory of its cache.
    pub(super) fn engine(&mut self) -> Result<(), String> {
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
        self.profile(&engine, version);
        self.flags(engine.eq_ignore_ascii_case("sglang"));
        Ok(())
    }

    /// The profile of the version that served, or the newest.
    fn profile(&mut self, engine: &str, version: Option<String>) {
        if let Some(other) = other_profile(engine, version.as_deref()) {
            let asked = version
                .as_ref()
                .map_or(engine.to_owned(), |version| format!("{engine}@{version}"));
            self.readings.push(Reading {
                instead_of: format!("profile = {}\n", quoted(&asked)),
                put: format!("profile = {}\n", quoted(other)),
            });
        }
        match version {
            Some(version) => self.entry("profile", &quoted(&format!("{engine}@{version}"))),
            None => {
                self.assume(format!("the version of {engine} is not said: the newest profile"));
                self.entry("profile", &quoted(engine));
            }
        }
    }

    /// The flags of the server that a scenario knows, and the size of the cache where only the notes tell it.
    fn flags(&mut self, is_sglang: bool) {
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
}

/// The profile that a version between two of them, or none, could as well have been nearest to.
pub(super) fn other_profile(engine: &str, version: Option<&str>) -> Option<&'static str> {
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
    use super::super::plan;
    use crate::results::{Load, Measured, Tool};

    /// What a row's precision becomes in its scenario.
    fn quantization(precision: &str) -> Option<String> {
        let mut row = Measured::new(Tool::Table, "row a");
        row.setup.model = Some("Qwen/Qwen3-8B".into());
        row.setup.gpu = Some("H100-SXM-80GB".into());
        row.setup.engine = Some("vllm".into());
        row.setup.precision = Some(precision.into());
        row.setup.load = Load::Closed { clients: 1 };
        row.setup.num_prompts = Some(60);
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(128.0), Some(16.0));
        let plan = plan(&row, &|_| None).unwrap();
        let scenario: toml::Table = toml::from_str(&plan.scenario).unwrap();
        let said = scenario["model"].get("quantization")?;
        said.as_str().map(str::to_owned)
    }

    #[test]
    fn eight_bits_of_gptq_are_of_the_weights_only() {
        for weight_only in ["gptq-int8", "gptq-marlin-int8", "awq-int8", "int8-w8a16"] {
            assert_eq!(
                quantization(weight_only).as_deref(),
                Some("w8a16"),
                "{weight_only}"
            );
        }
        assert_eq!(quantization("int8").as_deref(), Some("int8"));
        assert_eq!(quantization("gptq-marlin-int4").as_deref(), Some("gptq"));
        assert_eq!(quantization("bf16"), None);
    }
}
