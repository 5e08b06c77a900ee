//! Flags of vLLM V0, of static batching and of Transformers: what they become, and what is refused.

use super::*;
use crate::config::tests::served;
use crate::config::{Document, NoFiles, Resolved, capacity, resolve, serving};
use crate::cost::calibration::Direction;
use crate::engine::EngineSpec;
use crate::sim::Role;

fn document(engine: &str) -> Document {
    served("Llama-3.1-8B-Instruct", "", engine)
}

fn resolved(engine: &str) -> (ScheduledConfig, Resolved) {
    let run = resolve(document(engine), &NoFiles).unwrap_or_else(|problems| panic!("{problems:?}"));
    match run.scenario.first_pool().engine.clone() {
        EngineSpec::Scheduled(config) => (config, run),
        other => panic!("{} is not of these engines", other.profile()),
    }
}

fn refused(engine: &str) -> Vec<String> {
    let problems = resolve(document(engine), &NoFiles).map(|_| ()).unwrap_err();
    problems.0.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn v0_has_its_own_defaults() {
    let (short, run) = resolved("profile = \"vllm@0.6\"\nmax_model_len = 8192");
    assert_eq!(
        (short.max_num_batched_tokens, short.max_num_seqs, short.block_size),
        (8192, 256, 16)
    );
    assert!(!short.enable_prefix_caching && run.memory.is_some());
    // 4 GiB of 128 KiB a token, and 2 MiB over a bus of 64 GB/s.
    assert_eq!(short.swap_blocks, 2048);
    assert!((30e-6..40e-6).contains(&short.swap_time_per_block.seconds()));
    // V0-14: contexts above 32,768 tokens switch chunked prefill on.
    let (long, _) = resolved("profile = \"vllm@0.6\"");
    assert_eq!(long.max_num_batched_tokens, 2048);
    assert!(matches!(long.scheduler, SchedulerChoice::VllmV0(v0) if v0.enable_chunked_prefill));
}

#[test]
fn v0_processes_output_asynchronously_where_graphs_are_used() {
    for (flags, expected) in [
        ("", true),
        ("disable_async_output_proc = true", false),
        ("enforce_eager = true", false),
    ] {
        let (config, _) = resolved(&format!("profile = \"vllm@0.6\"\nmax_model_len = 8192\n{flags}"));
        let SchedulerChoice::VllmV0(v0) = config.scheduler else {
            panic!("V0 was asked for")
        };
        assert_eq!(v0.async_output_proc, expected, "{flags}");
    }
}

#[test]
fn swaps_take_what_measured_copies_take() {
    let (_, run) = resolved("profile = \"vllm@0.6\"\nmax_model_len = 8192");
    let device = &run.device;
    let document = document("profile = \"vllm@0.6\"\nmax_model_len = 8192");
    let (mut judge, raw) = Judge::new(document);
    let flags = serving::flags(&mut judge, &raw, Some(&run.model), Some(device), (1, Role::Both));
    let serving::Flags::Scheduled(flags) = flags else {
        panic!("V0 is of these engines");
    };
    let mut calibration = run.parameters.clone();
    let copies = |gbs: f64| Copies {
        alpha_us: 10.0,
        per_copy_us: 2.0,
        gbs,
    };
    calibration.copies.insert(Direction::HostToDevice, copies(50.0));
    let one_way = flags.swap_seconds(2e6);
    let unmeasured = flags.with_copies(&calibration, 32);
    // One way alone is no pair.
    assert_eq!(unmeasured.swap_seconds(2e6), one_way);
    calibration.copies.insert(Direction::DeviceToHost, copies(25.0));
    let measured = unmeasured.with_copies(&calibration, 32);
    // 64 pieces of 2 us each way, and 2 MB at 50 and at 25 GB/s.
    assert!((measured.swap_seconds(2e6) - (128e-6 + 60e-6)).abs() < 1e-9);
}

#[test]
fn every_engine_fits_as_it_runs_and_says_what_it_assumes() {
    for engine in ["vllm@0.6", "static", "hf-cb"] {
        let flags = format!("profile = \"{engine}\"\nmax_model_len = 4096");
        let (config, run) = resolved(&flags);
        assert_eq!(config.profile, engine);
        let alone = capacity(document(&flags), &NoFiles).unwrap();
        let plan = crate::engine::memory::plan(&alone.device, &alone.model, &alone.options).unwrap();
        assert_eq!(
            plan.num_gpu_blocks
                .min(if engine == "hf-cb" { 4096 } else { u32::MAX }),
            config.num_gpu_blocks
        );
        assert_eq!(
            run.notes.iter().any(|note| note.contains("Memory: weights")),
            engine != "vllm@0.6"
        );
    }
}

#[test]
fn what_an_engine_has_not_is_refused() {
    let check = |engine: &str, expected: &str| assert_eq!(refused(engine), [expected], "{engine}");
    let steps = "profile = \"vllm@0.6\"\nmax_model_len = 4096\nnum_scheduler_steps = 8";
    check(steps, "`num_scheduler_steps` other than 1 is not modelled yet");
    let watermark = "profile = \"vllm@0.6\"\nmax_model_len = 4096\nwatermark = 0.1";
    check(watermark, "`watermark` is not a flag of vLLM 0.6");
    let budget = "profile = \"static\"\nmax_num_batched_tokens = 64";
    check(
        budget,
        "`max_num_batched_tokens` is not a flag of static batching",
    );
    let delay = "max_model_len = 4096\nscheduler_delay_factor = 0.5";
    check(
        delay,
        "`scheduler_delay_factor` is not a flag of vLLM's V1 engine",
    );
    let small = "profile = \"vllm@0.6\"\nmax_model_len = 4096\nmax_num_batched_tokens = 2048";
    check(
        small,
        "`max_num_batched_tokens` must hold the longest prompt when chunked prefill is off",
    );
}

#[test]
fn keys_for_another_of_the_engines_are_named_not_refused() {
    let flags = "profile = \"hf-cb\"\nmax_model_len = 4096\n[batching]\nbatch_timeout = \"50 ms\"\nsafety_margin = 0.5";
    let (config, run) = resolved(flags);
    let margin = config.num_gpu_blocks / 2;
    assert!(matches!(config.scheduler, SchedulerChoice::HfContinuous(hf) if hf.margin_blocks == margin));
    assert!(
        run.notes
            .iter()
            .any(|note| note.starts_with("batch_timeout has no effect"))
    );
    let run = resolve(document("max_model_len = 4096\nswap_space = 8.0"), &NoFiles).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("never swaps")));
}
