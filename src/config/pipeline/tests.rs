use crate::config::tests::{BASE, resolve_text};
use crate::config::{Resolved, resolved_toml};
use crate::units::{BytesPerSec, Picos};

/// The base scenario with these lines in `[cluster]` and these in `[engine]`.
fn resolved(cluster: &str, engine: &str) -> Result<Resolved, String> {
    let text = BASE.replacen("[cluster]\n", &format!("[cluster]\n{cluster}\n"), 1);
    let text = text.replacen("[engine]\n", &format!("[engine]\n{engine}\n"), 1);
    resolve_text(&text).map_err(|problems| problems.to_string())
}

fn told(cluster: &str, engine: &str) -> Resolved {
    resolved(cluster, engine).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(cluster: &str, engine: &str, why: &str) {
    let Err(problems) = resolved(cluster, engine) else {
        panic!("{cluster} {engine} is taken");
    };
    assert!(problems.contains(why), "{problems}");
}

#[test]
fn stages_and_cards_are_told_to_engine_and_placement() {
    let staged = told("pipeline_parallel_size = 4\ntensor_parallel_size = 2", "");
    let engine = staged.scenario.first_pool().engine.vllm().unwrap();
    assert_eq!((engine.stages, engine.queue_depth), (4, 5));
    assert_eq!((staged.placement.stages(), staged.placement.gpus()), (4, 8));
    assert_eq!(staged.scenario.first_pool().gpus, 8);
    let synchronous = told("pipeline_parallel_size = 4", "async_scheduling = false");
    let engine = synchronous.scenario.first_pool().engine.vllm().unwrap();
    assert_eq!((engine.stages, engine.queue_depth), (4, 4));
    let mut cost = (staged.scenario.first_pool().cost)();
    assert_eq!(cost.stages().map(|stages| stages.count()), Some(4));
}

#[test]
fn one_stage_is_no_pipeline() {
    let one = told("pipeline_parallel_size = 1", "");
    assert!(one.placement.pipeline.is_none());
    assert_eq!(
        one.scenario.first_pool().engine,
        told("", "").scenario.first_pool().engine
    );
}

#[test]
fn more_stages_leave_more_room_for_kv() {
    let blocks = |stages: u32| {
        let staged = told(&format!("pipeline_parallel_size = {stages}"), "");
        staged.memory.unwrap().num_gpu_blocks
    };
    let (one, two, four) = (blocks(1), blocks(2), blocks(4));
    // Weights are parted, too, so it is more than so many times.
    assert!(two > 2 * one && four > 2 * two, "{one} {two} {four}");
}

#[test]
fn the_link_is_nvlink_inside_a_node_and_a_network_beyond() {
    let of = |cluster: &str| told(cluster, "").placement.pipeline.unwrap().link;
    let near = of("pipeline_parallel_size = 8");
    assert_eq!(
        (near.latency, near.bandwidth),
        (Picos(10_000_000), BytesPerSec(450e9))
    );
    let far = of("pipeline_parallel_size = 16");
    assert_eq!(
        (far.latency, far.bandwidth),
        (Picos(30_000_000), BytesPerSec(50e9))
    );
    let given = of("pipeline_parallel_size = 2\nstage_link = \"10 GB/s\"\nstage_link_latency = \"1 ms\"");
    assert_eq!(
        (given.latency, given.bandwidth),
        (Picos(1_000_000_000), BytesPerSec(10e9))
    );
    let named = of("pipeline_parallel_size = 2\nstage_link = \"eth-100\"");
    assert_eq!(named.bandwidth, BytesPerSec(12.5e9));
}

#[test]
fn the_spelt_out_input_reproduces_the_stages() {
    let first = told("pipeline_parallel_size = 3", "");
    let again = resolve_text(&resolved_toml(&first)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(again.placement, first.placement);
    assert_eq!(
        again.scenario.first_pool().engine,
        first.scenario.first_pool().engine
    );
    assert_eq!(resolved_toml(&again), resolved_toml(&first));
}

#[test]
fn a_default_that_does_not_go_with_stages_gives_way_to_them() {
    let asynchronous = |resolved: &crate::config::Resolved| {
        let value = resolved.value("engine.async_scheduling");
        value.and_then(|value| value.as_bool()).expect("it is spelt out")
    };
    // By default since 0.14, and beside stages only in the newest profile.
    assert!(asynchronous(&told("", "profile = \"vllm@0.18\"")));
    assert!(!asynchronous(&told(
        "pipeline_parallel_size = 2",
        "profile = \"vllm@0.18\""
    )));
    assert!(asynchronous(&told("pipeline_parallel_size = 2", "")));
}

#[test]
fn what_does_not_go_with_stages_is_refused_by_name() {
    let two = "pipeline_parallel_size = 2";
    refused(two, "profile = \"sglang@0.5.23\"", "must be 1");
    refused(two, "profile = \"tensorrt-llm@1.2\"", "must be 1");
    refused(two, "profile = \"vllm@0.6\"", "must be 1");
    refused(two, "profile = \"hf-cb\"", "must be 1");
    refused(
        two,
        "profile = \"vllm@0.11\"\nasync_scheduling = true",
        "does not start with both",
    );
    refused(
        two,
        "[engine.speculative_config]\nmethod = \"ngram\"\nnum_speculative_tokens = 3",
        "is not modelled beside --pipeline-parallel-size",
    );
    refused(
        "pipeline_parallel_size = 2\ndata_parallel_size = 2",
        "",
        "beside --data-parallel-size",
    );
    refused(
        "pipeline_parallel_size = 33",
        "",
        "is larger than the model is deep",
    );
    refused("pipeline_parallel_size = 0", "", "must be at least 1");
    refused("stage_link = \"nvlink\"", "", "has no effect");
    refused(
        "pipeline_parallel_size = 2\nstage_link = \"string\"",
        "",
        "names no link",
    );
    refused(
        "pipeline_parallel_size = 2\nstage_link = \"3 B/s\"",
        "",
        "is no bandwidth of a link",
    );
}
