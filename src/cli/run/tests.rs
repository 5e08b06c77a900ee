//! What is seen of a real engine over time, against what its requests held.

use super::*;
use crate::analysis::Experiment;
use crate::config::{Document, NoFiles};
use crate::metrics::{LoadOverTime, Room};

/// Requests of 2048 tokens and 256 more, by an engine that schedules ahead or not, whose steps are taken one by one or leapt over.
fn moderate(schedules_ahead: bool, scatters: bool) -> Resolved {
    let jitter = if scatters {
        "step_jitter = \"cv=0.05\"\n"
    } else {
        ""
    };
    let text = format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n{jitter}\
         [engine]\nprofile = \"vllm@0.33\"\nasync_scheduling = {schedules_ahead}\nenable_prefix_caching = false\n\
         [workload]\nnum_prompts = 400\n[workload.arrivals.poisson]\nrequest_rate = 1.0\n\
         [workload.lengths.fixed]\ninput_len = 2048\noutput_len = 256\n"
    );
    resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap()
}

#[test]
fn the_blocks_in_use_are_those_that_who_runs_holds_however_far_ahead_steps_are_scheduled() {
    for (schedules_ahead, scatters) in [(false, false), (false, true), (true, false), (true, true)] {
        let resolved = moderate(schedules_ahead, scatters);
        let engine = &resolved.scenario.pools[0].engine;
        let kv_blocks = engine.usable_blocks();
        let room = Room {
            kv_blocks,
            block_size: engine.block_size(),
        };
        let mut seen = LoadOverTime::new(vec![room], vec![0]);
        let experiment = Experiment::of_whole_run(Records::None);
        let outcome = simulate_watched(&resolved.scenario, &experiment, &mut seen, |_| true);
        let result = &outcome.result;
        let case = format!("ahead {schedules_ahead}, one by one {scatters}");
        assert_eq!(result.violations, Vec::<String>::new(), "{case}");
        let end = Picos::from_seconds(result.whole.duration_s);
        let points = seen.finish(end).remove(0);
        let mean = |of: fn(&LoadPoint) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let (running, used) = (mean(|point| point.running), mean(|point| point.kv_usage));
        // 128 blocks from the admission on, one more for every 16 tokens that follow: 136.5 on average while it decodes.
        let each = used * f64::from(kv_blocks) / running;
        assert!((135.3..137.2).contains(&each), "{case}: {each} blocks a sequence");
        let whole = &result.whole.occupancy;
        assert!(
            (whole.kv_usage / used - 1.0).abs() < 0.01,
            "{case}: {} {used}",
            whole.kv_usage
        );
        let series = &result.series;
        let by_series = series.iter().map(|point| point.kv_usage).sum::<f64>() / series.len() as f64;
        assert!(
            (by_series / used - 1.0).abs() < 0.01,
            "{case}: {by_series} {used}"
        );
        // The way back to the client is no part of the batch.
        assert!(
            (running / whole.running - 1.0).abs() < 0.01,
            "{case}: {running} {}",
            whole.running
        );
    }
}

/// A prompt that fills a step is bound by compute, on one card and on each of several.
#[test]
fn a_replica_of_several_gpus_reaches_as_much_of_its_roof_as_one() {
    let reached = |cluster: &str| {
        let text = format!(
            "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n{cluster}\n\
             [engine]\nprofile = \"vllm@0.33\"\n[workload]\nnum_prompts = 4\n[workload.arrivals.poisson]\nrequest_rate = 1.0\n\
             [workload.lengths.fixed]\ninput_len = 8192\noutput_len = 2\n"
        );
        let resolved = resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap();
        let pool = resolved.scenario.first_pool();
        let mut load = StepLoad::default();
        load.add(0, 8192);
        let seconds = (pool.cost)().step(&load).seconds();
        let view = roofline(pool, &resolved.servers[0], &[(load, seconds, 1)], String::new());
        (view.gpus, view.steps[0].flops / seconds / view.peak_flops_per_s)
    };
    let (gpus, alone) = reached("");
    assert_eq!(gpus, 1);
    assert!((0.5..1.0).contains(&alone), "{alone}");
    for (cluster, number) in [
        ("tensor_parallel_size = 4", 4),
        ("pipeline_parallel_size = 2", 2),
        ("tensor_parallel_size = 2\npipeline_parallel_size = 2", 4),
    ] {
        let (gpus, share) = reached(cluster);
        assert_eq!(gpus, number);
        // Less by what all-reduces and the way between stages take.
        assert!(
            (0.6 * alone..1.02 * alone).contains(&share),
            "{cluster}: {share} of {alone}"
        );
    }
}
