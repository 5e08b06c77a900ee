//! What users can write, and what they are told.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const BASE: &str = r#"
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

fn resolve_text(text: &str) -> Result<Resolved, Diagnostics> {
    resolve(Document::parse("a.toml", text)?, &NoFiles)
}

/// The message for the base scenario with one line put in the place of another.
fn told(line: &str, instead: &str) -> String {
    assert!(BASE.contains(line), "`{line}` is not in the base");
    match resolve_text(&BASE.replacen(line, instead, 1)) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn the_base_scenario_is_valid() {
    if let Err(problems) = resolve_text(BASE) {
        panic!("{problems}");
    }
}

#[test]
fn every_shipped_scenario_resolves_and_so_does_its_spelt_out_form() {
    for (name, text) in files::SHIPPED.iter().filter(|(name, _)| !name.starts_with("workloads/")) {
        let document = Document::parse(name, text).unwrap_or_else(|problem| panic!("{}", problem.render(false)));
        let axes = axes::of_scenario(&document).unwrap();
        for cell in axes::cells(&document, &axes, false).unwrap_or_else(|problems| panic!("{name}: {problems}")) {
            let first = resolve(cell.document, &NoFiles).unwrap_or_else(|problems| panic!("{name}: {problems}"));
            let spelt_out = resolved_toml(&first);
            let second = resolve_text(&spelt_out).unwrap_or_else(|problems| panic!("{name}: {problems}\n{spelt_out}"));
            assert_eq!(first.scenario.engine, second.scenario.engine, "{name}");
            assert_eq!(first.scenario.workload, second.scenario.workload, "{name}");
            assert_eq!(first.scenario.frontend, second.scenario.frontend, "{name}");
            assert_eq!(first.scenario.seed, second.scenario.seed, "{name}");
            assert_eq!((&first.placement, first.length), (&second.placement, second.length), "{name}");
            assert_eq!((&first.model, &first.device, &first.slo), (&second.model, &second.device, &second.slo), "{name}");
            assert_eq!(spelt_out.split("\n\n").nth(1), resolved_toml(&second).split("\n\n").nth(1), "{name}");
        }
    }
}

#[test]
fn an_old_engine_spelt_out_is_accepted_again() {
    let text = BASE.replace("[engine]", "[engine]\nprofile = \"vllm@0.11\"");
    let first = resolve_text(&text).unwrap();
    let second = resolve_text(&resolved_toml(&first)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(first.scenario.engine, second.scenario.engine);
    assert!(!first.scenario.engine.switches.reserve_full_isl);
    assert_eq!(first.scenario.engine.queue_depth, 1);
}

#[test]
fn the_schema_is_the_committed_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == scenario_schema(), "write it anew: cargo run -- schema > scenarios/schema.json");
}

#[test]
fn assumed_values_name_their_reason() {
    let resolved = resolve_text(BASE).unwrap();
    let text: Vec<String> =
        resolved.assumptions().filter(|value| !value.key.ends_with("calibration")).map(|value| format!("{} = {} {:?}", value.key, value.value, value.source)).collect();
    assert_snapshot!(text.join("\n"), @"");
}

#[test]
fn mistakes_are_located_and_mended() {
    assert_snapshot!(told("request_rate = 4.0", "request_rte = 4.0"), @"");
    assert_snapshot!(told("request_rate = 4.0", "request_rate = -4.0"), @"");
    assert_snapshot!(told("request_rate = 4.0", "request_rate = nan"), @"");
    assert_snapshot!(told("request_rate = 4.0", "request_rate = \"fast\""), @"");
    assert_snapshot!(told("max_model_len = 8192", "gpu_memory_utilization = 92"), @"");
    assert_snapshot!(told("max_model_len = 8192", "max_num_seqs = 0"), @"");
    assert_snapshot!(told("max_model_len = 8192", "max_num_seqs = -1"), @"");
    assert_snapshot!(told("max_model_len = 8192", "enable_prefix_caching = 1"), @"");
    assert_snapshot!(told("max_model_len = 8192", "scheduling_policy = \"fcsf\""), @"");
    assert_snapshot!(told("max_model_len = 8192", "profile = \"sglang@0.5.4\""), @"");
    assert_snapshot!(told("max_model_len = 8192", "profile = \"vllm@0.11\"\nwatermark = 0.1"), @"");
    assert_snapshot!(told("max_model_len = 8192", "max_model_len = 900000"), @"");
    assert_snapshot!(told("max_model_len = 8192", "max_model_len = 1024"), @"");
    assert_snapshot!(told("max_model_len = 8192", "enable_chunked_prefill = false\nmax_num_batched_tokens = 2048"), @"");
    assert_snapshot!(told("input_len = 1024", "input_len = 0"), @"");
    assert_snapshot!(told("[workload.lengths.fixed]", "[workload.lengths.fxed]"), @"");
    assert_snapshot!(told("[workload.lengths.fixed]", "[workload.lengths.random]\ninput_len = 1\noutput_len = 1\n[workload.lengths.fixed]"), @"");
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"RTX4090-24G\""), @"");
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\nreplicas = 2"), @"");
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"T4\""), @"");
    assert_snapshot!(told("Llama-3.1-8B-Instruct", "Llama-3.1-8B-Instrukt"), @"");
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\n[cluster.router.cache_aware]"), @"");
    assert_snapshot!(told("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]"), @"");
    assert_snapshot!(told("[engine]", "[slo.goodput]\nttft = 500\n[engine]"), @"");
    assert_snapshot!(told("[engine]", "[slo.percentiles]\np99_speed = \"5 ms\"\n[engine]"), @"");
    assert_snapshot!(told("[engine]", "[slo]\nattainment = 99\n[engine]"), @"");
    assert_snapshot!(told("[engine]", "[engine"), @"");
}

#[test]
fn all_problems_are_told_at_once() {
    let text = BASE.replace("request_rate = 4.0", "request_rate = 0").replace("max_model_len", "max_model_length").replace("1024", "\"many\"");
    assert_eq!(resolve_text(&text).err().map(|problems| problems.0.len()), Some(3));
}

#[test]
fn an_empty_input_says_what_is_missing() {
    let problems = resolve(Document::default(), &NoFiles).err().unwrap();
    assert_snapshot!(problems.to_string(), @"");
}

#[test]
fn a_long_run_is_accepted_where_the_clock_can_show_it() {
    let text = |rate: &str| BASE.replace("request_rate = 4.0", &format!("request_rate = {rate}")).replace("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]");
    assert!(resolve_text(&text("1e6")).is_ok());
    assert!(resolve_text(&text("1e4")).is_err());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in r#"(\[?[a-z_.]{0,12}\]?( = )?[-0-9a-z".{}\[\], ]{0,12}\n){0,8}"#) {
        if let Ok(document) = Document::parse("f.toml", &text) {
            if let Err(problems) = resolve(document, &NoFiles) {
                prop_assert!(!problems.to_string().is_empty());
            }
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
