//! What a synthetic request costs: peek, take and report its end. The budget of the plain path is 60 ns.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Client, Generator, Lengths, Prefix, Traffic, WorkloadSpec};

const REQUESTS: u64 = 100_000;

fn poisson() -> WorkloadSpec {
    WorkloadSpec {
        arrivals: Arrivals::Poisson { request_rate: 10.0 },
        lengths: Lengths::Fixed {
            input_len: 512,
            output_len: 128,
        },
        prefix: Prefix::None,
        client: Client::default(),
        num_prompts: Some(REQUESTS),
        duration: None,
        endings: None,
        classes: Vec::new(),
    }
}

fn drain(spec: &WorkloadSpec) -> u64 {
    let mut traffic = Generator::new(spec, 0);
    let mut tokens = 0;
    while let Some(now) = traffic.next_arrival() {
        let request = black_box(traffic.take());
        tokens += u64::from(request.output_tokens);
        traffic.ended(request.id, now);
    }
    tokens
}

fn generate(criterion: &mut Criterion) {
    let mut rescaled = poisson();
    rescaled.client.rescale_arrivals = true;
    let mut random = poisson();
    random.lengths = Lengths::RandomVllm {
        input_len: 512,
        output_len: 128,
        range_ratio: 0.5,
        output_range_ratio: 0.5,
    };
    let mut groups = poisson();
    groups.prefix = Prefix::Groups {
        count: 1000,
        prefix_len: 256,
        zipf: 1.0,
        exact_shares: false,
    };
    let mut closed = poisson();
    closed.arrivals = Arrivals::AllAtOnce;
    closed.client.max_concurrency = Some(64);
    let mut users = poisson();
    users.arrivals = Arrivals::Users {
        users: 64,
        think_time: Picos::from_seconds(1.0),
    };
    let mut sessions = poisson();
    sessions.prefix = Prefix::Sessions {
        turns: 5.0,
        fixed_turns: false,
        think_time: Picos::from_seconds(1.0),
        shared_system_len: 0,
    };
    let mut group = criterion.benchmark_group("workload");
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, spec) in [
        ("poisson", poisson()),
        ("rescaled", rescaled),
        ("random_lengths", random),
        ("groups", groups),
        ("closed", closed),
        ("users", users),
        ("sessions", sessions),
    ] {
        group.bench_function(name, |bencher| bencher.iter(|| drain(&spec)));
    }
    group.finish();
}

criterion_group!(benches, generate);
criterion_main!(benches);
