//! Plain servers, a cost that is easy to reckon with, and traffic from a list.

use std::collections::VecDeque;

use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{
    Change, ClusterSpec, Disaggregation, Flow, Lease, LinkRate, LoadFailure, Outages, Payroll,
};
use plimsoll::cost::{Breakdown, DecodeCost, StepCost, StepLoad};
use plimsoll::engine::sglang::{QueuePolicy, SglangConfig, SglangSwitches};
use plimsoll::engine::{EngineConfig, EngineSpec};
use plimsoll::facts::{Completion, Fact, Observer, Outcome};
use plimsoll::ids::RequestId;
use plimsoll::metrics::scraped::{EngineInfo, EngineMetrics, Scraped};
use plimsoll::metrics::{
    Fleet, LittleCheck, Observation, Recorder, RecorderOptions, Records, Room, SloLimits,
};
use plimsoll::sim::{Admission, Frontend, Pause, Retries, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Request, Traffic};

/// So many picoseconds for each token of a prompt, and for a step that decodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainCost {
    pub(crate) prompt_2048: Picos,
    pub(crate) decode: Picos,
    pub(crate) per_kv_token: Picos,
}

impl StepCost for PlainCost {
    fn decode(&mut self, _: u32) -> DecodeCost {
        DecodeCost {
            base: self.decode,
            per_kv_token: self.per_kv_token,
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos::ZERO,
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        let new: u64 = load.chunks.iter().map(|chunk| u64::from(chunk.new)).sum();
        let decode = if load.decode_seqs > 0 {
            self.decode(load.decode_seqs)
                .at(load.decode_kv_tokens, load.decode_longest)
        } else {
            Picos::ZERO
        };
        Picos(self.prompt_2048.0 * new / 2048) + decode
    }

    fn breakdown(&self, _: &StepLoad) -> Breakdown {
        unreachable!("nobody asks why")
    }
}

/// A prefill of 2048 tokens takes 30 ms, a decode step 8 ms.
pub(crate) const G7: PlainCost = PlainCost {
    prompt_2048: Picos(30_000_000_000),
    decode: Picos(8_000_000_000),
    per_kv_token: Picos(0),
};

/// Requests in order of arrival.
pub(crate) struct Listed(pub(crate) VecDeque<Request>);

impl Traffic for Listed {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.front().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.0.pop_front().unwrap()
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// SGLang 0.5.23 with pages of one token.
pub(crate) fn sglang(pool: u32, chunk: u32, radix_cache: bool) -> SglangConfig {
    SglangConfig {
        profile: "sglang@0.5.23".into(),
        context_length: 8192,
        max_running_requests: 64,
        chunked_prefill_size: Some(chunk),
        max_prefill_tokens: 16384,
        prefill_decode_interval: 0,
        prefill_max_requests: None,
        policy: QueuePolicy::Fcfs,
        priority: None,
        page_size: 1,
        max_total_tokens: pool,
        radix_cache,
        enable_mixed_chunk: false,
        overlap_schedule: false,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        drafts: None,
        switches: SglangSwitches::V0_5_23,
        seed: 0,
        eos_segment: None,
    }
    .with_conservativeness(1.0)
}

/// Llama-3.1-8B over 25 GB/s each way, 1 ms a hop, no latency.
pub(crate) fn pools(flow: Flow, prefill: u32, decode: u32) -> Disaggregation {
    let link = LinkRate {
        send: 25_000_000_000,
        receive: 25_000_000_000,
    };
    Disaggregation {
        flow,
        prefill,
        prefill_policy: Policy::RoundRobin,
        decode,
        decode_policy: Policy::RoundRobin,
        kv_bytes_per_token: 131_072,
        layers: 32,
        links: vec![link; (prefill + decode) as usize],
        latency: Picos::ZERO,
        handshake: Picos::ZERO,
        lease: Lease::Renewed(Picos(30_000_000_000_000)),
        on_load_failure: LoadFailure::Fail,
        transfer_failure_rate: 0.0,
        hop: Picos(1_000_000_000),
        receive_buffer: u64::MAX,
        host_bytes_per_s: vec![50_000_000_000; (prefill + decode) as usize],
        num_reserved_decode_tokens: 512,
    }
}

/// What a run told.
pub(crate) struct Told {
    pub(crate) seen: Observation,
    pub(crate) stories: Vec<Completion>,
    pub(crate) pause: Pause,
    pub(crate) payroll: Payroll,
    /// When replicas began or ceased to serve.
    pub(crate) service: Vec<(Picos, i32)>,
}

/// Listens for a recorder and for what servers show, and keeps the stories.
struct Both<'a> {
    recorder: &'a mut Recorder,
    scraped: &'a mut Scraped,
    stories: &'a mut Vec<Completion>,
    clock: Picos,
}

impl Observer for Both<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        let now = match fact {
            Fact::Admitted { now, .. }
            | Fact::Preempted { now, .. }
            | Fact::HandedOver { now, .. }
            | Fact::FirstToken { now, .. }
            | Fact::Gap { now, .. } => *now,
            _ => self.clock,
        };
        assert!(now >= self.clock, "facts about requests come in order of time");
        self.clock = now;
        if let Fact::Ended(story) = fact {
            self.stories.push((*story).clone());
        }
        self.recorder.observe(fact);
        self.scraped.observe(fact);
    }
}

/// What goes wrong in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upsets {
    pub(crate) changes: Vec<Change>,
    pub(crate) outages: Option<Outages>,
    pub(crate) retries: Option<Retries>,
    /// Around every server.
    pub(crate) frontend: Frontend,
}

/// Runs requests to the end; every law is checked.
pub(crate) fn run(
    engines: [EngineSpec; 2],
    cost: PlainCost,
    spec: &Disaggregation,
    requests: &[Request],
    stepwise: bool,
) -> Told {
    run_upset(engines, cost, spec, &Upsets::default(), requests, stepwise)
}

/// The same where replicas come and go.
pub(crate) fn run_upset(
    engines: [EngineSpec; 2],
    cost: PlainCost,
    spec: &Disaggregation,
    upsets: &Upsets,
    requests: &[Request],
    stepwise: bool,
) -> Told {
    let [prefill, decode] = engines;
    let roles = (0..spec.prefill)
        .map(|_| &prefill)
        .chain((0..spec.decode).map(|_| &decode));
    let servers: Vec<Server> = roles
        .map(|engine| Server {
            engine: engine.clone(),
            cost: Box::new(cost),
            frontend: upsets.frontend,
        })
        .collect();
    let block_sizes: Vec<u32> = servers.iter().map(|server| server.engine.block_size()).collect();
    let infos = servers
        .iter()
        .map(|server| EngineInfo::of("", "m", &server.engine));
    let mut scraped = Scraped::of(infos);
    let cluster = ClusterSpec {
        disaggregation: Some(spec.clone()),
        changes: upsets.changes.clone(),
        outages: upsets.outages,
        ..ClusterSpec::of(spec.prefill + spec.decode, Policy::RoundRobin)
    };
    let traffic = Listed(requests.iter().cloned().collect());
    let admission = Admission {
        retries: upsets.retries,
        ..Admission::default()
    };
    let mut simulation = Simulation::of_servers(servers, &cluster, 0, traffic).admitting(&admission);
    let pools = vec![0; block_sizes.len()];
    let rooms = simulation.total_blocks().zip(block_sizes);
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet {
            pools,
            rooms: rooms
                .map(|(kv_blocks, block_size)| Room {
                    kv_blocks,
                    block_size,
                })
                .collect(),
        },
        slo: SloLimits::default(),
        records: Records::WithItls,
    });
    let mut stories = Vec::new();
    let mut both = Both {
        recorder: &mut recorder,
        scraped: &mut scraped,
        stories: &mut stories,
        clock: Picos::ZERO,
    };
    // Pauses tell everything so far, as a run that is watched does.
    let mut until = Until::DRAINED;
    let pause = loop {
        if stepwise {
            until.ended = simulation.counts().ended + 1;
        }
        let pause = simulation.advance(until, &mut both);
        let counts = simulation.counts();
        check_shown(both.scraped, counts.sent - counts.ended);
        if stepwise {
            // A run may be cut short wherever one looks at it.
            check_places(&both.recorder.clone().finish(simulation.now()));
        }
        match pause {
            Pause::EnoughEnded => {}
            pause => break pause,
        }
    };
    let seen = recorder.finish(simulation.now());
    check_places(&seen);
    check_done(&scraped, spec, &stories);
    Told {
        seen,
        stories,
        pause,
        payroll: simulation.payroll(),
        service: simulation.service().to_vec(),
    }
}

/// Whoever is inside is shown by one server, or is on the way.
fn check_shown(scraped: &Scraped, inside: u64) {
    let shown = scraped.engines().into_iter();
    let shown: u64 = shown
        .map(|engine| engine.running + engine.waiting + engine.deferred)
        .sum();
    assert_eq!(shown + scraped.elsewhere(), inside);
}

/// A request is done once on a replica that decodes, and on one that prefills at least as often.
fn check_done(scraped: &Scraped, spec: &Disaggregation, stories: &[Completion]) {
    let engines = scraped.engines();
    let (prefill, decode) = engines.split_at(spec.prefill as usize);
    let done = |engines: &[EngineMetrics]| -> u64 {
        let each = engines.iter().map(|engine| engine.success.iter().sum::<u64>());
        each.sum()
    };
    let completed = stories
        .iter()
        .filter(|story| story.outcome == Outcome::Completed)
        .count() as u64;
    assert_eq!(done(decode), completed);
    assert!(done(prefill) >= completed);
    assert!(
        engines
            .iter()
            .all(|engine| engine.ttft.count() >= engine.e2e.count())
    );
    let tokens: u64 = decode.iter().map(|engine| engine.generation_tokens).sum();
    let delivered: u64 = stories.iter().map(|story| u64::from(story.output_tokens)).sum();
    assert!(
        tokens >= delivered,
        "{tokens} tokens of which {delivered} were delivered"
    );
}

/// Little's law at every place, and all places together are the system.
fn check_places(seen: &Observation) {
    assert_eq!(seen.violations, Vec::<String>::new());
    let close = |check: &LittleCheck| (check.l - check.lambda * check.w).abs() < 1e-6 * check.l.max(1e-3);
    let front_ends = seen.little.front_ends.unwrap();
    let mut sum = front_ends.l;
    assert!(close(&front_ends));
    for replica in &seen.by_replica {
        assert!(close(&replica.inside) && close(&replica.waiting) && close(&replica.running));
        assert!((replica.inside.l - replica.waiting.l - replica.running.l).abs() < 1e-6);
        assert!(close(&replica.crossing));
        sum += replica.inside.l + replica.crossing.l;
    }
    let system = seen.little.system.l;
    assert!(
        (sum - system).abs() < 1e-6 * system.max(1.0),
        "{sum} against {system}"
    );
    for link in seen.relays.iter().flat_map(|relays| &relays.links) {
        assert!(close(&link.sent.in_flight) && close(&link.received.in_flight));
    }
}

/// A vLLM engine for pools.
pub(crate) fn vllm() -> EngineConfig {
    EngineConfig {
        idle_pass_sleep: Picos(1_000_000_000),
        speculation: None,
        ..crate::common::ample_engine()
    }
}
