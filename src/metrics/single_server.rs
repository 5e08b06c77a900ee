//! For tests: hand-made streams of facts, first-come-first-served servers among them, which know nothing of engines.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::cost::{Chunk, StepLoad};
use crate::ids::{ReplicaId, RequestId, SegmentId};
use crate::rng::{Purpose, stream};
use crate::sim::{Completion, Fact, Observer, Outcome, Steps};
use crate::units::Picos;
use crate::workload::{Prompt, Request};

/// Servers with unit mean service time behind one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Arrivals per service time.
    pub(crate) rate: f64,
    /// Requests sent.
    pub(crate) requests: u64,
    pub(crate) seed: u64,
    /// How many.
    pub(crate) servers: u32,
    /// Service times are exponential rather than constant.
    pub(crate) exponential: bool,
    /// Most requests in flight; the others wait in the client.
    pub(crate) client_limit: usize,
    /// Stop at the last arrival instead of draining.
    pub(crate) stop_early: bool,
    /// Tell twice that this one left.
    pub(crate) doubled: Option<u64>,
}

impl Server {
    pub(crate) fn mm1(rate: f64, requests: u64, seed: u64) -> Server {
        Server {
            rate,
            requests,
            seed,
            servers: 1,
            client_limit: usize::MAX,
            exponential: true,
            stop_early: false,
            doubled: None,
        }
    }
}

fn exponential(rng: &mut ChaCha8Rng, mean: f64) -> Picos {
    Picos::from_seconds(-mean * (1.0 - rng.random::<f64>()).ln())
}

pub(crate) fn request(id: u64, arrival: Picos) -> Request {
    Request {
        id: RequestId(id),
        arrival,
        client_queue_time: Picos::ZERO,
        prompt_tokens: 8,
        output_tokens: 1,
        max_tokens: 1,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: SegmentId(id),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

/// A request in service: end, number, arrival, begin, server.
type Service = (Picos, u64, Picos, Picos, u32);

/// Tells `observer` the whole run; returns when it stopped.
pub(crate) fn run(server: &Server, observer: &mut impl Observer) -> Picos {
    let mut gaps = stream(server.seed, Purpose::Arrivals, 0);
    let mut services = stream(server.seed, Purpose::Lengths, 0);
    let mut queue = VecDeque::new();
    let mut in_service: BinaryHeap<Reverse<Service>> = BinaryHeap::new();
    let mut idle: Vec<u32> = (0..server.servers).rev().collect();
    let mut next = exponential(&mut gaps, 1.0 / server.rate);
    let (mut sent, mut now) = (0, Picos::ZERO);
    let mut client = VecDeque::new();
    let mut client_waits = Vec::new();
    while sent < server.requests || !(server.stop_early || in_service.is_empty()) {
        let departs = in_service.peek().map_or(Picos::MAX, |first| first.0.0);
        if sent < server.requests && next < departs {
            now = next;
            client.push_back(now);
            sent += 1;
            next = now + exponential(&mut gaps, 1.0 / server.rate);
        } else if let Some(Reverse(service)) = in_service.pop() {
            now = service.0;
            idle.push(service.4);
            let client_queue_time = client_waits[service.1 as usize];
            serve(
                observer,
                &service,
                client_queue_time,
                server.doubled == Some(service.1),
            );
        }
        while in_service.len() + queue.len() < server.client_limit
            && let Some(wished) = client.pop_front()
        {
            let id = client_waits.len() as u64;
            client_waits.push(now - wished);
            observer.observe(&Fact::Arrived {
                request: &Request {
                    client_queue_time: now - wished,
                    ..request(id, now)
                },
            });
            queue.push_back((id, now));
        }
        while !idle.is_empty() && !queue.is_empty() {
            let (Some(place), Some((id, arrival))) = (idle.pop(), queue.pop_front()) else {
                break;
            };
            let service = if server.exponential {
                exponential(&mut services, 1.0)
            } else {
                Picos::from_seconds(1.0)
            };
            in_service.push(Reverse((now + service, id, arrival, now, place)));
            observer.observe(&admitted(id, now, arrival));
        }
    }
    now
}

fn admitted<'a>(id: u64, now: Picos, waiting_since: Picos) -> Fact<'a> {
    let (replica, id) = (ReplicaId(0), RequestId(id));
    Fact::Admitted {
        now,
        replica,
        id,
        waiting_since,
        queued_since: waiting_since,
        known_tokens: 8,
        cached_tokens: 0,
        resumed: false,
    }
}

fn serve(
    observer: &mut impl Observer,
    &(end, id, arrival, begin, place): &Service,
    client_queue_time: Picos,
    doubled: bool,
) {
    let load = StepLoad {
        chunks: vec![Chunk { computed: 0, new: 8 }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    let steps = Steps {
        replica: ReplicaId(place),
        ..steps(begin, end, 1, Picos::ZERO, 0, &load)
    };
    observer.observe(&Fact::Steps(&steps));
    observer.observe(&Fact::FirstToken {
        now: end,
        replica: ReplicaId(place),
        id: RequestId(id),
        arrival,
    });
    for _ in 0..=u32::from(doubled) {
        let completion = Completion {
            client_queue_time,
            ..completion(id, arrival, begin, end, 1)
        };
        observer.observe(&Fact::Ended(&completion));
    }
}

pub(crate) fn steps<'a>(
    begin: Picos,
    end: Picos,
    count: u64,
    increment: Picos,
    gap_seqs: u32,
    load: &'a StepLoad,
) -> Steps<'a> {
    let total = (end - begin).0 - increment.0 * (count * (count - 1) / 2);
    Steps {
        replica: ReplicaId(0),
        begin,
        end,
        count,
        duration: Picos(total / count),
        duration_increment: increment,
        gap_seqs,
        gap: Picos(total / count),
        handed: gap_seqs,
        seen: None,
        load,
        recomputed_tokens: 0,
        running: 1,
        waiting: 0,
        free_blocks: 99,
        free_meanwhile: 99,
        kv_slots: load.decode_seqs,
    }
}

pub(crate) fn completion(
    id: u64,
    arrival: Picos,
    first_scheduled: Picos,
    end: Picos,
    output_tokens: u32,
) -> Completion {
    Completion {
        id: RequestId(id),
        replica: ReplicaId(0),
        outcome: Outcome::Completed,
        arrival,
        client_queue_time: Picos::ZERO,
        first_scheduled,
        first_token: Some(end),
        end,
        prompt_tokens: 8,
        output_tokens,
        cached_tokens: 0,
        preemptions: 0,
        waiting_time: first_scheduled.saturating_sub(arrival),
    }
}

/// Tells of two sequences that decode together: the first gives five tokens, the second three with a preemption
/// between. Returns the end.
pub(crate) fn two_sequences(observer: &mut impl Observer) -> Picos {
    let load = StepLoad {
        decode_seqs: 2,
        ..StepLoad::default()
    };
    let leap = |begin, end, count, increment, gap_seqs| {
        steps(ms(begin), ms(end), count, ms(increment), gap_seqs, &load)
    };
    let (id, replica) = (RequestId(1), ReplicaId(0));
    for id in [0, 1] {
        observer.observe(&Fact::Arrived {
            request: &request(id, Picos::ZERO),
        });
        observer.observe(&admitted(id, Picos::ZERO, Picos::ZERO));
    }
    observer.observe(&Fact::Steps(&leap(0, 100, 1, 0, 0)));
    for id in [0, 1] {
        observer.observe(&Fact::FirstToken {
            now: ms(100),
            replica,
            id: RequestId(id),
            arrival: Picos::ZERO,
        });
    }
    observer.observe(&Fact::Steps(&leap(100, 110, 1, 0, 2)));
    let running_since = Picos::ZERO;
    observer.observe(&Fact::Preempted {
        now: ms(110),
        replica,
        id,
        running_since,
        lost_tokens: 9,
    });
    observer.observe(&Fact::Steps(&leap(110, 133, 2, 1, 1)));
    let (now, waiting_since) = (ms(133), ms(110));
    let (known_tokens, cached_tokens, resumed) = (10, 0, true);
    observer.observe(&Fact::Admitted {
        now,
        replica,
        id,
        waiting_since,
        queued_since: waiting_since,
        known_tokens,
        cached_tokens,
        resumed,
    });
    observer.observe(&Fact::Steps(&leap(133, 153, 1, 0, 1)));
    observer.observe(&Fact::Gap {
        now: ms(153),
        replica,
        id,
        gap: ms(43),
        seen: ms(43),
    });
    let first = completion(0, Picos::ZERO, Picos::ZERO, ms(153), 5);
    observer.observe(&Fact::Ended(&Completion {
        first_token: Some(ms(100)),
        ..first.clone()
    }));
    observer.observe(&Fact::Ended(&Completion {
        id,
        first_token: Some(ms(100)),
        output_tokens: 3,
        waiting_time: ms(23),
        preemptions: 1,
        ..first
    }));
    ms(153)
}

fn ms(milliseconds: u64) -> Picos {
    Picos(milliseconds * 1_000_000_000)
}
