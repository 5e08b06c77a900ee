//! A scheduler of one's own: shortest job first against first come, first served, on the same traffic.
//!
//!     cargo run --release --example shortest_job_first
//!
//! The policy is `Seats` below. Everything else (KV blocks, token counts, steps, endings, time) is the engine's.

use plimsoll::config::{Document, NoFiles, resolve};
use plimsoll::engine::scheduled::ScheduledConfig;
use plimsoll::engine::scheduler::{Scheduler, StepPlan};
use plimsoll::sim::{Completion, Fact, Observer, Simulation, Until};
use plimsoll::workload::Generator;

/// So many requests run at once, and nobody is ever preempted: who is admitted holds blocks for its whole answer.
struct Seats {
    seats: usize,
    shortest_first: bool,
}

impl Scheduler for Seats {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        let running: Vec<_> = plan.running().collect();
        for sequence in running {
            plan.compute(sequence.id, 1).expect("its blocks are reserved");
        }
        if self.shortest_first {
            plan.sort_waiting_by_key(|request| request.max_tokens);
        }
        while plan.running().len() < self.seats
            && let Some(head) = plan.waiting().next()
        {
            let whole = head.prompt_tokens + head.max_tokens;
            if plan.compute_reserving(head.id, head.known_tokens, whole).is_err() {
                break; // No blocks for it now; somebody's end will free some.
            }
        }
        plan.repeat_while_spare(0); // The next steps would be decided alike, so they may be leapt over.
    }
}

/// What is served, and the traffic: answers between 1 and some thousand tokens, at most of what 16 seats can serve.
const SCENARIO: &str = r#"
    [model]
    name = "meta-llama/Llama-3.1-8B-Instruct"
    [cluster]
    gpu = "H100-SXM-80GB"
    [engine]
    max_model_len = 8192
    [workload]
    num_prompts = 4000
    [workload.arrivals.poisson]
    request_rate = 8.0
    [workload.lengths.lognormal]
    correlation = 0.0
    input = { median = 300.0, sigma = 0.8, max = 4000 }
    output = { median = 150.0, sigma = 1.0, max = 4000 }
"#;

/// End-to-end latencies in seconds.
#[derive(Default)]
struct Latencies(Vec<f64>);

impl Observer for Latencies {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(Completion { arrival, end, .. }) = fact {
            self.0.push((*end - *arrival).seconds());
        }
    }
}

/// (mean, p99) of the latency under either policy.
pub fn latency(shortest_first: bool) -> (f64, f64) {
    let document = Document::parse("example.toml", SCENARIO).expect("it is TOML");
    let resolved = resolve(document, &NoFiles).unwrap_or_else(|problems| panic!("{problems:?}"));
    let scenario = &resolved.scenario;
    let server = scenario.first_pool();
    let blocks = server.engine.num_gpu_blocks();
    let engine = ScheduledConfig::own("seats", blocks, 8192, move || Seats {
        seats: 16,
        shortest_first,
    });
    let traffic = Generator::new(&scenario.workload, scenario.seed);
    let mut simulation = Simulation::new(engine, (server.cost)(), server.frontend, traffic);
    let mut latencies = Latencies::default();
    simulation.advance(Until::DRAINED, &mut latencies);
    let Latencies(mut all) = latencies;
    all.sort_by(f64::total_cmp);
    (
        all.iter().sum::<f64>() / all.len() as f64,
        all[all.len() * 99 / 100],
    )
}

/// Prints both.
#[expect(clippy::print_stdout, reason = "an example prints its result")]
pub fn main() {
    println!("{:<24}{:>10}{:>10}", "latency (s)", "mean", "p99");
    for (name, shortest_first) in [("first come, first served", false), ("shortest job first", true)] {
        let (mean, p99) = latency(shortest_first);
        println!("{name:<24}{mean:>10.2}{p99:>10.2}");
    }
}
