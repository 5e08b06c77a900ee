//! Who hears behind hears the same, and what is drawn ahead is what is drawn.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Ahead, Behind};
use crate::facts::{Fact, Observer};
use crate::metrics::single_server::{Server, run};
use crate::units::Picos;
use crate::workload::{
    Arrivals, Client, Draws, Generator, Lengths, Prefix, Request, Source, Traffic, WorkloadSpec,
};

/// Writes down whatever it hears, until something that it cannot bear.
#[derive(Default)]
struct Listener {
    heard: Vec<String>,
    dreads: Option<u64>,
}

impl Observer for Listener {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Arrived { request } = fact {
            assert_ne!(self.dreads, Some(request.id.0), "a dreadful request");
        }
        self.heard.push(format!("{fact:?}"));
    }
}

#[test]
fn who_hears_behind_hears_all_in_order() {
    for requests in [1, 300, 20_000] {
        let server = Server::mm1(0.7, requests, 1);
        let (mut here, mut behind) = (Listener::default(), Behind::of(Listener::default()));
        run(&server, &mut here);
        run(&server, &mut behind);
        assert!(behind.caught_up().heard == here.heard, "{requests} requests");
        // It may be told more after it was asked for.
        run(&server, &mut here);
        run(&server, &mut behind);
        assert!(
            behind.into_inner().heard == here.heard,
            "{requests} requests twice"
        );
    }
}

#[test]
fn a_panic_of_who_hears_behind_is_one_of_the_run() {
    // In the first batch, in one that others follow, in the last.
    for dreads in [Some(0), Some(9_000), Some(19_999)] {
        let told = catch_unwind(AssertUnwindSafe(|| {
            let heard = Vec::new();
            let mut behind = Behind::of(Listener { heard, dreads });
            run(&Server::mm1(0.7, 20_000, 1), &mut behind);
            behind.into_inner().heard.len()
        }));
        let panic = told.expect_err("the listener panics");
        let text = panic.downcast_ref::<String>().expect("its message is kept");
        assert!(text.contains("a dreadful request"), "{text}");
    }
}

fn spec(arrivals: Arrivals, num_prompts: u64) -> WorkloadSpec {
    WorkloadSpec {
        arrivals,
        lengths: Lengths::RandomVllm {
            input_len: 512,
            output_len: 128,
            range_ratio: 0.5,
            output_range_ratio: 0.5,
        },
        prefix: Prefix::Groups {
            count: 7,
            prefix_len: 64,
            zipf: 1.0,
            exact_shares: false,
        },
        client: Client {
            max_concurrency: None,
            rescale_arrivals: false,
            draws: Draws::Own,
            timeout: Some(Picos::from_seconds(3.0)),
            priorities: vec![(0, 0.5), (1, 0.5)],
        },
        num_prompts: Some(num_prompts),
        duration: None,
        endings: None,
        classes: Vec::new(),
    }
}

/// All requests, each answered at once, and what the source tells of itself after each.
fn drawn(mut source: impl Source) -> Vec<(Request, Option<f64>, bool, Picos)> {
    let mut all = Vec::new();
    while let Some(at) = source.next_arrival() {
        let request = source.take();
        assert_eq!(request.arrival, at);
        source.ended(request.id, at);
        source.next_arrival();
        all.push((
            request,
            source.mean_output_tokens(),
            source.clock_exhausted(),
            source.fresh_until(),
        ));
    }
    all
}

#[test]
fn what_is_drawn_ahead_is_what_is_drawn() {
    let request_rate = 5.0;
    let users = |users| Arrivals::Users {
        users,
        think_time: Picos::from_seconds(0.1),
    };
    let ramp = Arrivals::Ramp {
        start_rate: 1.0,
        end_rate: 9.0,
        exponential: false,
    };
    // The last ends with the clock: 213 days.
    let slow = Arrivals::Constant { request_rate: 1e-3 };
    for (arrivals, requests) in [
        (Arrivals::Poisson { request_rate }, 20_000),
        (Arrivals::Poisson { request_rate }, 4_096),
        (Arrivals::Poisson { request_rate }, 8_192),
        (Arrivals::AllAtOnce, 10_000),
        (ramp, 10_000),
        (users(4), 10_000),
        (slow, 20_000),
    ] {
        let spec = spec(arrivals, requests);
        let (here, ahead) = (Generator::new(&spec, 3), Ahead::of(Generator::new(&spec, 3)));
        assert!(drawn(here) == drawn(ahead), "{:?} {requests}", spec.arrivals);
    }
}

#[test]
fn drawing_ahead_may_be_broken_off() {
    let spec = spec(Arrivals::Poisson { request_rate: 5.0 }, 1_000_000);
    let mut ahead = Ahead::of(Generator::new(&spec, 3));
    for _ in 0..30_000 {
        assert!(ahead.next_arrival().is_some());
        ahead.take();
    }
}
