//! A scheduler of one's own, shortest job first, against first come, first served, on the same traffic:
//! `cargo run --release --example shortest_job_first`.

use plimsoll::analysis::{Experiment, simulate};
use plimsoll::config::{Document, NoFiles, resolve};
use plimsoll::engine::scheduled::ScheduledConfig;
use plimsoll::engine::scheduler::{Scheduler, StepPlan};
use plimsoll::metrics::Records;

/// 16 requests run at once, and nobody is ever preempted: who is admitted holds blocks for its whole answer.
struct Seats(bool);

impl Scheduler for Seats {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        for sequence in plan.running().collect::<Vec<_>>() {
            plan.compute(sequence.id, 1).expect("its blocks are reserved");
        }
        if self.0 {
            plan.sort_waiting_by_key(|request| request.max_tokens);
        }
        while let (true, Some(head)) = (plan.running().len() < 16, plan.waiting().next()) {
            let whole = head.prompt_tokens + head.max_tokens;
            if plan.compute_reserving(head.id, head.known_tokens, whole).is_err() {
                break; // No blocks for it now; somebody's end will free some.
            }
        }
        plan.repeat_while_spare(0); // The next steps would be decided alike, so they may be leapt over.
    }
}

const SCENARIO: &str = r#"
model.name = "meta-llama/Llama-3.1-8B-Instruct"
cluster.gpu = "H100-SXM-80GB"
engine.max_model_len = 8192
workload.num_prompts = 4000
workload.arrivals.poisson.request_rate = 8.0
workload.lengths.lognormal.correlation = 0.0
workload.lengths.lognormal.input = { median = 300.0, sigma = 0.8, max = 4000 }
workload.lengths.lognormal.output = { median = 150.0, sigma = 1.0, max = 4000 }
"#;

/// (mean, p99) of the end-to-end latency in seconds under either policy.
pub fn latency(shortest_first: bool) -> Option<(f64, f64)> {
    let document = Document::parse("seats.toml", SCENARIO).expect("it is TOML");
    let mut scenario = resolve(document, &NoFiles).expect("it is valid").scenario;
    let engine = &mut scenario.pools[0].engine;
    let seats = move || Seats(shortest_first);
    *engine = ScheduledConfig::own("seats", engine.num_gpu_blocks(), 8192, seats).into();
    let experiment = Experiment::of_whole_run(Records::None);
    let e2el = simulate(&scenario, &experiment, |_| true).result.whole.e2el;
    Some((e2el.mean_s()?, e2el.quantile_s(0.99)?))
}

/// Prints both.
#[expect(clippy::print_stdout, reason = "an example prints its result")]
pub fn main() {
    println!("first come, first served: (mean, p99) = {:.2?} s", latency(false));
    println!("shortest job first:       (mean, p99) = {:.2?} s", latency(true));
}
