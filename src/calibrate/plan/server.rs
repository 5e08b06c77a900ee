//! What served a row: its card, formats, ranks and engine, in the words of a scenario file.

use toml::Value;

use super::super::words::{after, cache_format, stated_cache};
use super::flags::Said;
use super::version::{NEWEST_PROFILE, other_profile, released_by};
use super::{Draft, Reading, gpu_line, harness, quoted};
use crate::hardware;
use crate::model::{self, Quantization};

/// What served a row.
pub(super) enum Serves {
    /// Sarathi-Serve, of which the row's flags say the chunk.
    Sarathi,
    /// An engine, and its version where it is known.
    Engine { name: String, version: Option<String> },
}

/// The name of a card, and the remark behind it.
pub(super) fn gpu_name(said: &str) -> (&str, &str) {
    let (name, remark) = said.split_once('(').unwrap_or((said, ""));
    (name.trim(), remark)
}

/// As a scenario names it: `vllm@0.11.0`.
fn profile(engine: &str, version: Option<&str>) -> String {
    match version {
        Some(version) => format!("{engine}@{version}"),
        None => engine.to_owned(),
    }
}

impl Draft<'_> {
    /// The card, and the bridge that a remark behind its name tells of: `A100-PCIe-80GB (NVLink pair)`. A name without its
    /// variant may be any that has so much memory.
    pub(super) fn gpu(&mut self, said: &str) {
        let (name, remark) = gpu_name(said);
        let meant = hardware::readings(name);
        let others = meant
            .iter()
            .skip(1)
            .filter(|other| other.memory == meant[0].memory);
        self.readings.extend(others.map(|other| Reading {
            instead_of: gpu_line(name),
            put: gpu_line(&other.id),
        }));
        self.text += &gpu_line(name);
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
            .to_lowercase()
            .replace('_', "-");
        let model = setup
            .model
            .as_deref()
            .and_then(|name| model::find_checkpoint(name).ok());
        let stored = model.map_or(Quantization::None, |(model, _)| model.quantization);
        let quantization = match word.as_str() {
            "" | "bf16" | "bfloat16" | "fp16/bf16" => None,
            "fp16" | "half" => {
                self.entry_of_column("precision", ("model", "dtype"), &Value::from("float16"))?;
                None
            }
            "mxfp4" | "fp4" if stored == Quantization::Mxfp4 => None,
            "int4" | "int4-w4a16" | "w4a16" if matches!(stored, Quantization::Int4 { .. }) => None,
            "fp8" | "fp8-static" | "fp8-dynamic" | "fp8-block" | "fp8-e4m3" | "w8a8-fp8" => Some("fp8"),
            "int4" => {
                self.assume("precision `int4` is AWQ's: groups of 128 channels with zero points".to_owned());
                Some("awq")
            }
            "awq" | "awq-marlin" | "awq-int4" | "int4-awq" => Some("awq"),
            "gptq-marlin-int4" | "gptq-int4" | "int4-gptq" | "int4-w4a16" | "w4a16" | "gptq" => Some("gptq"),
            // Products of these are in 16 bits, as in vLLM's Marlin kernel; `int8` by itself is W8A8.
            "gptq-int8" | "gptq-marlin-int8" | "awq-int8" | "int8-w8a16" | "w8a16" => Some("w8a16"),
            "int8" | "int8-w8a8" | "w8a8" => Some("int8"),
            "nvfp4" | "fp4" => Some("nvfp4"),
            other => return Err(format!("the precision `{other}` is not modelled")),
        };
        match quantization {
            Some(quantization) => {
                self.entry_of_column("precision", ("model", "quantization"), &Value::from(quantization))?;
            }
            None if !word.is_empty() => {
                if let Some(asked) = self.said.keys.get("model.quantization") {
                    let taken = format!(
                        "precision `{word}` is that of the products: the flags say --quantization {asked}"
                    );
                    self.assume(taken);
                }
            }
            None => {}
        }
        self.cache_precision(&written)
    }

    /// What the cache is in, if not in the model's format: said for itself, or as `kv-fp8` behind the weights' format.
    fn cache_precision(&mut self, written: &str) -> Result<(), String> {
        let behind = written.to_lowercase();
        let behind = behind
            .split_once("kv-")
            .map(|(_, rest)| rest.split(' ').next().unwrap_or(rest).to_owned());
        let own = self
            .row
            .setup
            .kv_cache_dtype
            .clone()
            .map(|own| own.to_lowercase());
        if let (Some(behind), Some(own)) = (&behind, &own)
            && behind != own
        {
            return Err(format!(
                "the row contradicts itself: its precision says a KV cache in `{behind}`, its kv_cache_dtype `{own}`"
            ));
        }
        let said = own.or(behind).unwrap_or_default();
        let (cache, leaves_windows_out) = cache_format(&said);
        let key = ("model", "kv_cache_dtype");
        if leaves_windows_out {
            if cache != "fp8" {
                return Err(format!("the KV cache type `{said}` is not modelled"));
            }
            let (skipped, windows) = ("kv_cache_dtype_skip_layers", vec![Value::from("sliding_window")]);
            self.entry_of_column("kv_cache_dtype", ("model", skipped), &Value::Array(windows))?;
        }
        match cache.as_str() {
            "" => Ok(()),
            "auto" | "bf16" | "bfloat16" | "fp16" | "float16" => {
                let is_narrow = |value: &Value| value.as_str().is_some_and(|value| value.starts_with("fp8"));
                match self.said.take("model.kv_cache_dtype").filter(is_narrow) {
                    Some(other) => Err(format!(
                        "the row contradicts itself: its kv_cache_dtype is `{cache}`, its flags say {other}"
                    )),
                    None => Ok(()),
                }
            }
            "fp8" | "fp8_e4m3" | "fp8_e5m2" => {
                let value = self.said.take("model.kv_cache_dtype");
                let is_same = |value: &Value| value.as_str().is_some_and(|value| value.starts_with("fp8"));
                let value = value
                    .filter(is_same)
                    .unwrap_or_else(|| Value::from(cache.as_str()));
                self.entry_of_column("kv_cache_dtype", key, &value)
            }
            other => Err(format!("the KV cache type `{other}` is not modelled")),
        }
    }

    /// What served, its version by the row's date where nothing else tells it. Reads the row's flags, which may name an image.
    pub(super) fn engine(&mut self) -> Result<Serves, String> {
        let name = self.engine_name()?;
        if name.starts_with("sarathi") {
            return Ok(Serves::Sarathi);
        }
        let setup = &self.row.setup;
        let written = setup.engine_version.as_deref().unwrap_or_default();
        let own = written
            .split_whitespace()
            .next()
            .map(|version| version.trim_start_matches('v').to_owned());
        let by_date = released_by(&name, &setup.date);
        if ["vllm", "sglang", "tensorrt-llm"].contains(&name.as_str()) {
            let version = own.clone().or(by_date.clone());
            self.said = Said::of(&setup.flags, &profile(&name, version.as_deref()))?;
        } else if !setup.flags.is_empty() {
            let flags = &setup.flags;
            self.said
                .ignored
                .push(format!("`{flags}` has no effect: flags of {name} are not read"));
        }
        for (key, value) in harness::keys(setup) {
            if !self.said.keys.contains_key(&key) {
                self.assumptions.push(format!(
                    "{key} = {value}, as the benchmark's launch scripts have it"
                ));
                self.said.keys.insert(key, value);
            }
        }
        let tagged = self.tagged(&name, own.as_deref())?;
        let known = own.or(tagged);
        if known.is_none() {
            let date = &setup.date;
            let taken = match &by_date {
                Some(version) => format!("taken to be {version}, the newest on the row's day, {date}"),
                None if name == "vllm" && !date.is_empty() => {
                    format!("the newest profile, for its date, `{date}`, is not of the form 2026-11-22")
                }
                None => "the newest profile".to_owned(),
            };
            self.assume(format!("the version of {name} is not said: {taken}"));
        }
        Ok(Serves::Engine {
            name,
            version: known.or(by_date),
        })
    }

    /// The version that the image of a pasted command has, which starts the engine that the row names.
    fn tagged(&mut self, name: &str, version: Option<&str>) -> Result<Option<String>, String> {
        let tag = self.said.take_tag(name)?;
        if let (Some(version), Some(tag)) = (version, &tag)
            && is_another_release(version, tag)
        {
            return Err(format!(
                "the row contradicts itself: its version is {version}, its flags start an image of {tag}"
            ));
        }
        Ok(tag)
    }

    /// In lower case.
    fn engine_name(&self) -> Result<String, String> {
        let setup = &self.row.setup;
        if let Some(pools @ 2..) = setup.pools {
            return Err(format!(
                "the result is that of {pools} pools, which a row does not describe: run their scenario again"
            ));
        }
        let engine = setup
            .engine
            .as_deref()
            .ok_or("the row does not name its engine")?;
        let name = engine.to_lowercase();
        let is_fork = ["fork", "plugin"].iter().any(|word| name.contains(word));
        if is_fork && !name.starts_with("sarathi") {
            return Err(format!("the engine `{engine}` is not modelled"));
        }
        Ok(match name.as_str() {
            "trtllm" | "trt-llm" | "tensorrt_llm" => "tensorrt-llm".to_owned(),
            _ => name,
        })
    }

    /// The model, by the name of the shape that ships. Experts in fp8 are those of the publisher's own checkpoint where one
    /// is known: an engine that quantizes by itself runs other kernels.
    pub(super) fn model(&mut self, name: &str) -> Result<(), String> {
        let mut shipped = shipped_name(name).to_owned();
        let precision = self.row.setup.precision.as_deref().unwrap_or_default();
        if let Some(served) = self.said.model.take() {
            if model::is_other(shipped_name(&served), &shipped) {
                return Err(format!(
                    "the row contradicts itself: its model is `{name}`, its flags serve `{served}`"
                ));
            }
            if let Some(stored) = stored_otherwise(&shipped, &served) {
                if is_16_bits(precision) {
                    return Err(format!(
                        "the row contradicts itself: its precision is `{precision}`, its flags serve `{served}`, in {stored}"
                    ));
                }
                self.assume(format!(
                    "the weights are those that its flags serve, {served}, in {stored}"
                ));
                shipped = served;
            }
        }
        let is_fp8 = precision.to_lowercase().starts_with("fp8");
        let own = format!("{shipped}-FP8");
        if is_fp8 && is_publishers(&own) {
            self.assume(format!("fp8 is that of the publisher's checkpoint, {own}"));
            self.readings.push(Reading {
                instead_of: format!("name = {}\n", quoted(&own)),
                put: format!("name = {}\n", quoted(&shipped)),
            });
            shipped = own;
        }
        self.entry("name", &quoted(&shipped));
        self.positions(&shipped);
        Ok(())
    }

    /// Positions for requests that are longer than the model's config allows: the row's were answered, so its server took more.
    fn positions(&mut self, name: &str) {
        const KEY: &str = "max_position_embeddings";
        let is_told = self.said.keys.contains_key(&format!("model.{KEY}"));
        let found = model::find_checkpoint(name).ok().filter(|_| !is_told);
        let Some((needed, (model, _))) = self.longest_request().zip(found) else {
            return;
        };
        let allowed = model.max_position;
        let tokens = (needed.ceil() as u32).checked_next_power_of_two();
        if let Some(tokens) = tokens.filter(|_| needed > f64::from(allowed)) {
            self.assume(format!(
                "requests of {needed:.0} tokens are longer than the model's {allowed}: {KEY} = {tokens}"
            ));
            self.entry(KEY, &tokens.to_string());
        }
    }

    /// The server's section: its profile, its flags and the memory of its cache.
    pub(super) fn server(&mut self, serves: Serves) -> Result<(), String> {
        let (engine, version) = match serves {
            Serves::Sarathi => return self.sarathi(),
            Serves::Engine { name, version } => (name, version),
        };
        let mut profile = profile(&engine, version.as_deref());
        let skips_layers = self.text.contains("\nkv_cache_dtype_skip_layers = ");
        match other_profile(&engine, version.as_deref()) {
            // The flag came between the two profiles, so a version that takes it is the newer one here.
            Some(other) if skips_layers && other == NEWEST_PROFILE => {
                self.assume(format!(
                    "{profile} is taken for {other}, the profile with layers left out of the KV cache's format"
                ));
                profile = other.to_owned();
            }
            Some(other) if !skips_layers => self.readings.push(Reading {
                instead_of: format!("profile = {}\n", quoted(&profile)),
                put: format!("profile = {}\n", quoted(other)),
            }),
            Some(_) | None => {}
        }
        self.entry("profile", &quoted(&profile));
        let sizes = [
            "engine.gpu_memory_utilization",
            "engine.kv_cache_memory_bytes",
            "engine.num_gpu_blocks_override",
        ];
        let has_size = sizes.iter().any(|key| self.said.keys.contains_key(*key));
        self.rest_of("engine");
        let takes_bytes = !["sglang", "tensorrt-llm"].contains(&engine.as_str());
        if let Some(bytes) = stated_cache(&self.row.setup.notes).filter(|_| takes_bytes && !has_size) {
            self.assume("the KV cache is as large as the notes say that it was");
            self.entry("kv_cache_memory_bytes", &bytes.to_string());
        }
        for section in ["sglang", "trtllm", "batching"] {
            if self
                .said
                .keys
                .keys()
                .any(|key| key.starts_with(&format!("{section}.")))
            {
                self.line(&format!("\n[{section}]"));
                self.rest_of(section);
            }
        }
        Ok(())
    }

    /// Sarathi-Serve, whose chunked prefill vLLM 0.6 took over: running requests first, then a prompt's next chunk.
    fn sarathi(&mut self) -> Result<(), String> {
        let flags = format!("{} {}", self.row.setup.flags, self.row.setup.workload);
        let chunk = after(&flags, "chunk_size=").ok_or("the row does not say its chunk_size")?;
        self.assume("Sarathi-Serve batches as the chunked prefill of vLLM 0.6 does");
        self.entry("profile", "\"vllm@0.6\"");
        self.entry("enable_chunked_prefill", "true");
        self.entry("max_num_batched_tokens", &format!("{chunk:.0}"));
        self.entry("max_num_seqs", &format!("{:.0}", chunk.min(256.0)));
        Ok(())
    }
}

/// Whether two versions differ in their first two numbers, which say what an engine does; `nightly` has none.
fn is_another_release(one: &str, other: &str) -> bool {
    let release = |version: &str| -> Option<[u32; 2]> {
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        Some([numbers.next()??, numbers.next()??])
    };
    let releases = release(one).zip(release(other));
    releases.is_some_and(|(one, other)| one != other)
}

/// How the served checkpoint stores its layers, if otherwise than the one that the row names.
fn stored_otherwise(named: &str, served: &str) -> Option<String> {
    let stored = |name: &str| Some(model::find_checkpoint(name).ok()?.0.quantization);
    let served = stored(served)?;
    (served != Quantization::None && stored(named)? != served).then(|| served.name())
}

fn is_16_bits(precision: &str) -> bool {
    ["bf16", "bfloat16", "fp16", "float16", "half"].contains(&precision.to_lowercase().as_str())
}

/// Whether there is a publisher's own checkpoint of this name with experts in fp8: in blocks, as no engine stores them by itself.
fn is_publishers(name: &str) -> bool {
    let found = model::find_checkpoint(name);
    found.is_ok_and(|(shape, _)| shape.has_experts() && shape.quantization == Quantization::Fp8Block)
}

/// The shipped id that a name in another case means.
fn shipped_name(name: &str) -> &str {
    model::names()
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use crate::results::{Load, Measured, Tool};

    /// What a row's precision becomes in its scenario.
    fn quantization(precision: &str) -> Option<String> {
        quantization_of("Qwen/Qwen3-8B", precision)
    }

    fn quantization_of(model: &str, precision: &str) -> Option<String> {
        let mut row = Measured::new(Tool::Table, "row a");
        row.setup.model = Some(model.into());
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

    #[test]
    fn four_bits_are_the_checkpoint_s_own_where_it_has_them() {
        for (precision, expected) in [
            ("int4", "awq"),
            ("w4a16", "gptq"),
            ("awq_int4", "awq"),
            ("fp4", "nvfp4"),
        ] {
            assert_eq!(quantization(precision).as_deref(), Some(expected), "{precision}");
        }
        assert_eq!(quantization_of("openai/gpt-oss-20b", "fp4"), None);
        assert_eq!(quantization_of("moonshotai/Kimi-K2.5", "int4"), None);
    }
}
