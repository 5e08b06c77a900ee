//! What users can write, and what they are told.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

pub(super) const BASE: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
[engine]
max_model_len = 8192
[workload.arrivals.poisson]
request_rate = 4.0
[workload.lengths.fixed]
input_len = 1024
output_len = 128
"#;

pub(super) fn resolve_text(text: &str) -> Result<Resolved, Diagnostics> {
    resolve(Document::parse("a.toml", text)?, &NoFiles)
}

/// The scenario of a model on H100s that gets a short request a second. `cluster` goes on in `[cluster]`, `rest` in `[engine]`, which
/// other tables may follow.
pub(super) fn served(model: &str, cluster: &str, rest: &str) -> Document {
    let text = format!(
        "[model]\nname = \"{model}\"\n[cluster]\ngpu = \"h100\"\n{cluster}\n[engine]\n{rest}\n\
         [workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 100\noutput_len = 10\n"
    );
    Document::parse("test.toml", &text).unwrap()
}

pub(super) fn resolve_served(model: &str, cluster: &str, rest: &str) -> Result<Resolved, Diagnostics> {
    resolve(served(model, cluster, rest), &NoFiles)
}

/// The message for a scenario with one line put in the place of another.
pub(super) fn told_of(base: &str, line: &str, instead: &str) -> String {
    assert!(base.contains(line), "`{line}` is not in the base");
    match resolve_text(&base.replacen(line, instead, 1)) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems.to_string(),
    }
}

pub(super) fn told(line: &str, instead: &str) -> String {
    told_of(BASE, line, instead)
}

#[test]
fn the_base_scenario_is_valid() {
    if let Err(problems) = resolve_text(BASE) {
        panic!("{problems}");
    }
}

#[test]
fn every_shipped_scenario_resolves_and_so_does_its_spelt_out_form() {
    for (name, text) in files::SHIPPED
        .iter()
        .filter(|(name, _)| !name.starts_with("workloads/"))
    {
        let document =
            Document::parse(name, text).unwrap_or_else(|problem| panic!("{}", problem.render(false)));
        let axes = axes::of_scenario(&document).unwrap();
        let ground = Ground::from(document);
        let flags = flags::ScenarioFlags::default();
        let cells = axes::cells(ground.document(), &axes, false, |values| {
            Ok(ground.cell(&flags, values, &NoFiles)?.document)
        });
        for cell in cells.unwrap_or_else(|problems| panic!("{name}: {problems}")) {
            let first =
                resolve(cell.document, &NoFiles).unwrap_or_else(|problems| panic!("{name}: {problems}"));
            let spelt_out = resolved_toml(&first);
            let second =
                resolve_text(&spelt_out).unwrap_or_else(|problems| panic!("{name}: {problems}\n{spelt_out}"));
            assert_eq!(
                first.scenario.first_pool().engine,
                second.scenario.first_pool().engine,
                "{name}"
            );
            assert_eq!(first.scenario.workload, second.scenario.workload, "{name}");
            assert_eq!(
                first.scenario.first_pool().frontend,
                second.scenario.first_pool().frontend,
                "{name}"
            );
            assert_eq!(first.scenario.seed, second.scenario.seed, "{name}");
            assert_eq!(
                (&first.placement, first.length),
                (&second.placement, second.length),
                "{name}"
            );
            assert_eq!(
                (&first.model, &first.device, &first.slo),
                (&second.model, &second.device, &second.slo),
                "{name}"
            );
            assert_eq!(
                spelt_out.split("\n\n").nth(1),
                resolved_toml(&second).split("\n\n").nth(1),
                "{name}"
            );
        }
    }
}

#[test]
fn an_old_engine_spelt_out_is_accepted_again() {
    let text = BASE.replace("[engine]", "[engine]\nprofile = \"vllm@0.11\"");
    let first = resolve_text(&text).unwrap();
    let second = resolve_text(&resolved_toml(&first)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        first.scenario.first_pool().engine,
        second.scenario.first_pool().engine
    );
    assert!(
        !first
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .switches
            .reserve_full_isl
    );
    assert_eq!(first.scenario.first_pool().engine.vllm().unwrap().queue_depth, 1);
}

#[test]
fn engines_of_one_server_share_its_api_servers() {
    let front = |engine: &str| {
        let text = format!(
            "[model]\nname = \"Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"h100\"\ndata_parallel_size = 4\n[engine]\n{engine}\n\
             [workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 100\noutput_len = 10\n"
        );
        let resolved = resolve_text(&text).unwrap_or_else(|problems| panic!("{problems}"));
        let frontend = resolved.scenario.first_pool().frontend;
        (frontend.servers.get(), frontend.is_shared)
    };
    // As many as engines where nobody says, and one before that was so.
    assert_eq!(front(""), (4, true));
    assert_eq!(front("profile = \"vllm@0.11\""), (1, true));
    assert_eq!(front("api_server_count = 2"), (2, true));
    assert_eq!(front("profile = \"sglang\""), (1, true));
}

#[test]
fn the_schema_is_the_committed_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == scenario_schema(),
        "write it anew: cargo run -- schema > scenarios/schema.json"
    );
}

#[test]
fn assumed_values_name_their_reason() {
    let resolved = resolve_text(BASE).unwrap();
    let text: Vec<String> = resolved
        .assumptions()
        .filter(|value| !value.key.ends_with("calibration"))
        .map(|value| format!("{} = {} {:?}", value.key, value.value, value.source))
        .collect();
    assert_snapshot!(text.join("\n"), @r#"
    workload.seed = 0 Assumption("the first seed")
    cluster.tensor_parallel_size = 1 Assumption("one GPU")
    engine.profile = vllm@0.33 Assumption("the newest profile")
    engine.enable_chunked_prefill = true Profile("vllm@0.33")
    engine.enable_prefix_caching = true Profile("vllm@0.33")
    engine.max_num_batched_tokens = 8192 Profile("vllm@0.33 on H100-SXM-80GB")
    engine.max_num_seqs = 1024 Profile("vllm@0.33 on H100-SXM-80GB")
    engine.block_size = 16 Profile("vllm@0.33")
    engine.long_prefill_token_threshold = 0 Profile("vllm@0.33")
    engine.prefill_schedule_interval = 1 Profile("vllm@0.33")
    engine.stream_interval = 1 Profile("vllm@0.33")
    engine.output_proc_chunk_size = 128 Profile("vllm@0.33")
    engine.gpu_memory_utilization = 0.92 Profile("vllm@0.33")
    engine.watermark = 0 Profile("vllm@0.33")
    engine.scheduler_reserve_full_isl = true Profile("vllm@0.33")
    engine.async_scheduling = true Profile("vllm@0.33")
    engine.scheduling_policy = fcfs Profile("vllm@0.33")
    engine.cudagraph_mode = full_and_piecewise Profile("vllm@0.33")
    workload.precision = 0.02 Assumption("the run goes on until its 95 % intervals are so narrow")
    "#);
}

/// The law of arrivals and the spread of lengths decide how requests meet: that nobody gave them is told, also of a file that spells the
/// run out.
#[test]
fn a_rate_and_lengths_alone_say_what_is_assumed_of_them() {
    use super::flags::tests::resolve_line;
    let machine = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 100 --output-len 10";
    let of = |resolved: &Resolved| -> Vec<String> {
        let traffic = |key: &str| key.starts_with("workload.arrivals") || key.starts_with("workload.lengths");
        let told = resolved.assumptions().filter(|value| traffic(&value.key));
        told.map(|value| format!("{} = {}", value.key, value.value))
            .collect()
    };
    let told = |flags: &str| {
        of(&resolve_line(&format!("{machine} {flags}")).unwrap_or_else(|wrong| panic!("{wrong}")))
    };
    let (law, spread) = (
        "workload.arrivals = poisson",
        "workload.lengths.random.range_ratio = 0",
    );
    assert_eq!(told("--request-rate 4"), [law, spread]);
    assert_eq!(told("--request-rate 4 --burstiness 1"), [spread]);
    assert_eq!(told("--request-rate 4 --burstiness 0.5"), [spread]);
    assert_eq!(told("--max-concurrency 4 --num-prompts 9"), [spread]);
    assert_eq!(told("--request-rate 4 --random-range-ratio 0"), [law]);
    let first =
        resolve_line(&format!("{machine} --request-rate 4")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let written = resolved_toml(&first);
    let again = resolve_text(&written).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(of(&again), [law, spread]);
    let changed = written.replace("[workload.arrivals.poisson]", "[workload.arrivals.constant]");
    let changed = resolve_text(&changed).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(of(&changed), [spread]);
    // A file that chooses the law gives it.
    assert_eq!(
        of(&resolve_text(BASE).unwrap_or_else(|wrong| panic!("{wrong}"))),
        Vec::<String>::new()
    );
}

#[test]
fn tokens_sent_several_at_a_time_are_noted() {
    for engine in ["max_model_len = 8192", "profile = \"sglang@0.5.4\""] {
        let at = |interval: u32| {
            let text = BASE.replace(
                "max_model_len = 8192",
                &format!("{engine}\nstream_interval = {interval}"),
            );
            resolve_text(&text).unwrap().notes.join("; ")
        };
        assert!(at(10).contains("gaps of up to 10 of them"), "{}", at(10));
        assert!(!at(1).contains("stream_interval"), "{}", at(1));
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let text = BASE
        .replace("request_rate = 4.0", "request_rate = 0")
        .replace("max_model_len", "max_model_length")
        .replace("1024", "\"many\"");
    assert_eq!(
        resolve_text(&text).err().map(|problems| problems.0.len()),
        Some(3)
    );
}

#[test]
fn an_empty_input_says_what_is_missing() {
    let problems = resolve(Document::default(), &NoFiles).err().unwrap();
    assert_snapshot!(problems.to_string(), @r#"
    error: no model is given
     |
     = help: give its Hugging Face id, meta-llama/Llama-3.1-8B-Instruct (`plimsoll models` lists the bundled ones)

    error: no GPU is given
     |
     = help: give --gpu H100-SXM-80GB (`plimsoll hw` lists the known ones)

    error: no traffic is given: how many requests arrive?
     |
     = help: give --request-rate 4, --users 100 --think-time 30s, --max-concurrency 32, --trace FILE, or [workload.arrivals.poisson] request_rate = 4.0
    "#);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in r#"(\[?[a-z_.]{0,12}\]?( = )?[-0-9a-z".{}\[\], ]{0,12}\n){0,8}"#) {
        if let Err(problems) = Document::parse("f.toml", &text).map_err(Diagnostics::from).and_then(|document| resolve(document, &NoFiles)) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }

    #[test]
    fn no_value_in_a_known_key_makes_the_reader_panic(
        key in prop::sample::select(vec![
            "engine.max_num_seqs", "engine.max_num_batched_tokens", "engine.max_model_len", "engine.block_size", "engine.watermark",
            "engine.gpu_memory_utilization", "engine.num_gpu_blocks_override", "engine.kv_cache_memory_bytes", "engine.cudagraph_capture_sizes",
            "cluster.tensor_parallel_size", "workload.num_prompts", "workload.duration", "workload.precision", "workload.seed",
            "workload.arrivals.poisson.request_rate", "workload.arrivals.gamma.burstiness", "workload.lengths.fixed.input_len",
            "workload.arrivals.mmpp.states", "workload.lengths.quantiles.input", "slo.attainment", "slo.goodput.ttft", "workload.client.timeout",
            "workload.prefix.groups.count", "model.quantization", "cluster.gpu", "cluster.calibration", "model", "workload.lengths",
        ]),
        value in prop_oneof![
            any::<i64>().prop_map(toml::Value::Integer), any::<f64>().prop_map(toml::Value::Float), any::<bool>().prop_map(toml::Value::Boolean),
            "[0-9a-z .]{0,8}".prop_map(toml::Value::String), prop::collection::vec(any::<i64>().prop_map(toml::Value::Integer), 0..4).prop_map(toml::Value::Array),
        ],
    ) {
        let mut document = Document::parse("a.toml", BASE).unwrap();
        document.set(key, value, "--flag");
        if let Err(problems) = resolve(document, &NoFiles) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }
}

/// Every key path of a table that holds a plain value.
fn leaves(path: &str, table: &toml::Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match value {
            toml::Value::Table(inner) => leaves(&path, inner, found),
            _ => found.push(path),
        }
    }
}

#[test]
fn one_mistake_is_told_once() {
    let resolved = resolve_text(BASE).unwrap_or_else(|problems| panic!("{problems}"));
    let mut whole: toml::Table = toml::from_str(&resolved_toml(&resolved)).unwrap();
    whole.remove("assumed");
    let mut keys = Vec::new();
    leaves("", &whole, &mut keys);
    assert!(keys.len() > 20, "{keys:?}");
    keys.extend(
        [
            "max_num_scheduled_tokens",
            "max_num_active_seqs",
            "max_num_queued_reqs",
        ]
        .map(|key| format!("engine.{key}")),
    );
    keys.extend(
        ["replicas", "data_parallel_size", "pipeline_parallel_size"].map(|key| format!("cluster.{key}")),
    );
    keys.push("workload.num_prompts".into());
    let bad = [
        "-1",
        "0",
        "1",
        "3",
        "92",
        "70000",
        "2000000000",
        "9223372036854775807",
        "-0.5",
        "1e300",
        "nan",
        "\"nonsense\"",
        "true",
        "[]",
    ];
    let mut refused = 0;
    for key in &keys {
        for bad in bad {
            let mut document = Document::parse("a.toml", &toml::to_string(&whole).unwrap()).unwrap();
            let value: toml::Table = toml::from_str(&format!("x = {bad}")).unwrap();
            document.set(key, value["x"].clone(), "--the-flag");
            let Err(Diagnostics(problems)) = resolve(document, &NoFiles) else {
                continue;
            };
            refused += 1;
            let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            assert_eq!(told.len(), 1, "{key} = {bad}: {told:?}");
        }
    }
    assert!(refused > 4 * keys.len(), "{refused}");
}
