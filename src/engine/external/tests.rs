//! The seam of tokens from outside, with a connector that does what a test says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Asked, Connector, Leaving, Offer, Share};
use crate::cost::linear::LinearCost;
use crate::engine::{EngineConfig, KvGroups, Policy, Replica, ScheduleRecord, VersionSwitches};
use crate::facts::{Completion, Fact, Observer};
use crate::ids::{ReplicaId, RequestId, SegmentId};
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::{Prompt, Request};

const SECOND: Picos = Picos(PICOS_PER_SECOND);

/// What is offered to each request, and how long its load takes; `None` is told from outside.
#[derive(Default)]
struct Script {
    offers: BTreeMap<u64, (Offer, Option<Picos>)>,
    stall: Picos,
    store_per_token: Picos,
    stored: Vec<(u64, u32, u32)>,
    holds: bool,
    left: Vec<(u64, Leaving)>,
}

struct Scripted(Rc<RefCell<Script>>);

impl Connector for Scripted {
    fn look_up(&mut self, _: Picos, asked: &Asked<'_>) -> Offer {
        let script = self.0.borrow();
        let offer = script.offers.get(&asked.request.id.0).map(|offer| offer.0);
        // As a transfer from another replica: it is there once.
        match offer {
            Some(offer) if !asked.resumed => offer,
            _ => Offer::Nothing,
        }
    }

    fn load(&mut self, now: Picos, asked: &Asked<'_>, _: u32) -> Option<Picos> {
        let mut script = self.0.borrow_mut();
        let (offer, takes) = script.offers[&asked.request.id.0];
        if let (Offer::WithStep(_), Some(takes)) = (offer, takes) {
            script.stall += takes;
        }
        takes.map(|takes| now + takes)
    }

    fn step(&mut self, _: Picos, compute: Picos, shares: &[Share<'_>]) -> Picos {
        let mut script = self.0.borrow_mut();
        let mut time = compute + std::mem::take(&mut script.stall);
        for share in shares {
            time += script.store_per_token * u64::from(share.to - share.from);
            script.stored.push((share.request.id.0, share.from, share.to));
        }
        time
    }

    fn leaves(&mut self, _: Picos, request: &Request, why: Leaving) -> bool {
        let mut script = self.0.borrow_mut();
        script.left.push((request.id.0, why));
        script.holds
    }

    fn restart(&mut self, _: Picos) {}
}

pub(in crate::engine) fn config() -> EngineConfig {
    EngineConfig {
        profile: "test".into(),
        max_model_len: 100,
        max_num_seqs: 8,
        max_num_batched_tokens: 100,
        enable_chunked_prefill: true,
        long_prefill_token_threshold: 0,
        policy: Policy::Fcfs,
        block_size: 4,
        num_gpu_blocks: 101,
        kv_groups: KvGroups::ONE,
        enable_prefix_caching: true,
        watermark_blocks: 0,
        prefill_schedule_interval: 1,
        stages: 1,
        queue_depth: 1,
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos(PICOS_PER_SECOND / 1000),
        speculation: None,
        switches: VersionSwitches::VLLM_0_33,
    }
}

pub(in crate::engine) fn request(id: u64, arrival: Picos, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request {
        id: RequestId(id),
        arrival,
        client_queue_time: Picos::ZERO,
        prompt_tokens,
        output_tokens,
        max_tokens: output_tokens,
        priority: 0,
        class: 0,
        prompt: Prompt::Unique,
        output_segment: SegmentId(1000 + id),
        session: None,
        ignore_eos: true,
        deadline: None,
    }
}

struct Deaf;

impl Observer for Deaf {
    fn observe(&mut self, _: &Fact<'_>) {}
}

/// A replica whose steps take a second, and its script.
fn replica(config: EngineConfig, script: Script) -> (Replica, Rc<RefCell<Script>>) {
    let script = Rc::new(RefCell::new(script));
    let cost = LinearCost::new(1.0, 0.0, 0.0);
    let mut replica = Replica::new(ReplicaId(0), config, Box::new(cost), false);
    replica.connect(Box::new(Scripted(Rc::clone(&script))));
    replica.keep_log();
    (replica, script)
}

fn offers(list: &[(u64, Offer, Option<Picos>)]) -> Script {
    let offers = list.iter().map(|&(id, offer, takes)| (id, (offer, takes)));
    Script {
        offers: offers.collect(),
        ..Script::default()
    }
}

pub(in crate::engine) fn send(replica: &mut Replica, requests: &[Request]) {
    for request in requests {
        assert!(replica.offer(request.arrival, &mut request.clone()).is_ok());
    }
}

pub(in crate::engine) fn run(replica: &mut Replica, until: Picos) -> Vec<Completion> {
    let mut all = Vec::new();
    loop {
        let mut ended = Vec::new();
        replica.run(until, &mut Deaf, &mut ended);
        if ended.is_empty() {
            return all;
        }
        all.append(&mut ended);
    }
}

/// Steps as `scheduled+duration: id@computed+tokens …`, in milliseconds.
pub(in crate::engine) fn told(log: &[ScheduleRecord]) -> Vec<String> {
    let ms = |at: Picos| at.0 / (PICOS_PER_SECOND / 1000);
    let line = |step: &ScheduleRecord| {
        let shares = step
            .shares
            .iter()
            .map(|(id, computed, tokens)| format!("{}@{computed}+{tokens}", id.0));
        let shares: Vec<String> = shares.collect();
        format!(
            "{}+{}: {}",
            ms(step.scheduled),
            ms(step.duration),
            shares.join(" ")
        )
    };
    log.iter().map(line).collect()
}

#[test]
fn a_load_with_the_step_makes_the_whole_batch_wait() {
    let script = offers(&[(1, Offer::WithStep(6), Some(SECOND * 3))]);
    let (mut replica, _) = replica(config(), script);
    send(
        &mut replica,
        &[request(0, Picos::ZERO, 4, 3), request(1, Picos(1), 10, 1)],
    );
    run(&mut replica, Picos::MAX);
    let expected = ["0+1000: 0@0+4", "1000+4000: 0@4+1 1@6+4", "5000+1000: 0@5+1"];
    assert_eq!(told(&replica.take_log()), expected);
}

#[test]
fn what_is_stored_lengthens_the_step_that_computed_it() {
    let script = Script {
        store_per_token: Picos(PICOS_PER_SECOND / 10),
        ..Script::default()
    };
    let (mut replica, script) = replica(config(), script);
    send(&mut replica, &[request(0, Picos::ZERO, 5, 3)]);
    run(&mut replica, Picos::MAX);
    let expected = ["0+1500: 0@0+5", "1500+1000: 0@5+1", "2500+1000: 0@6+1"];
    assert_eq!(told(&replica.take_log()), expected);
    // Decode steps of the pack are not shown to the connector.
    assert_eq!(script.borrow().stored, [(0, 0, 5)]);
}

#[test]
fn a_load_aside_takes_blocks_but_neither_a_slot_nor_budget() {
    let script = offers(&[(1, Offer::Aside(9), Some(Picos(2_500_000_000_000)))]);
    let config = EngineConfig {
        max_num_seqs: 2,
        ..config()
    };
    let (mut replica, _) = replica(config, script);
    let requests = [
        request(0, Picos::ZERO, 4, 8),
        request(1, Picos::ZERO, 9, 2),
        request(2, Picos::ZERO, 4, 2),
    ];
    send(&mut replica, &requests);
    run(&mut replica, Picos::MAX);
    let log = replica.take_log();
    // Complete at 2.5 s, noticed at 3 s; the whole prompt came, so its last token is computed again (PD-12).
    let expected = [
        "0+1000: 0@0+4 2@0+4",
        "1000+1000: 0@4+1 2@4+1",
        "2000+1000: 0@5+1",
        "3000+1000: 0@6+1 1@8+1",
        "4000+1000: 0@7+1 1@9+1",
    ];
    assert_eq!(told(&log)[..5], expected);
    let free: Vec<u32> = log.iter().map(|step| step.free_blocks).collect();
    assert_eq!(free[..5], [95, 93, 95, 95, 95]);
    assert_eq!((log[2].running, log[2].waiting, log[3].waiting), (1, 1, 0));
    assert_eq!(replica.pool.free(), 100);
}

#[test]
fn a_leap_is_cut_where_a_load_ends() {
    let script = offers(&[(1, Offer::Aside(9), Some(Picos(10_500_000_000_000)))]);
    let (mut replica, _) = replica(config(), script);
    send(
        &mut replica,
        &[request(0, Picos::ZERO, 4, 40), request(1, Picos::ZERO, 9, 1)],
    );
    run(&mut replica, Picos::MAX);
    let log = told(&replica.take_log());
    assert_eq!(log[10..12], ["10000+1000: 0@13+1", "11000+1000: 0@14+1 1@8+1"]);
    assert_eq!(log.len(), 40);
}

#[test]
fn an_idle_loop_looks_once_a_millisecond() {
    let script = offers(&[(0, Offer::Aside(9), Some(Picos(2_000_400_000_000)))]);
    let (mut replica, _) = replica(config(), script);
    send(&mut replica, &[request(0, Picos::ZERO, 10, 1)]);
    // Somebody who arrives meanwhile is seen at the next pass, too.
    send(&mut replica, &[request(1, Picos(1_300_000_000), 4, 1)]);
    run(&mut replica, Picos::MAX);
    let expected = ["2+1000: 1@0+4", "2001+1000: 0@9+1"];
    assert_eq!(told(&replica.take_log()), expected);
}

#[test]
fn a_load_whose_end_is_not_known_ends_when_it_is_told() {
    let script = offers(&[(0, Offer::Aside(10), None)]);
    let (mut replica, _) = replica(config(), script);
    send(&mut replica, &[request(0, Picos::ZERO, 10, 1)]);
    run(&mut replica, SECOND);
    assert_eq!(replica.next(), None);
    replica.loaded(RequestId(0), SECOND);
    run(&mut replica, Picos::MAX);
    assert_eq!(told(&replica.take_log()), ["1000+1000: 0@9+1"]);
}

#[test]
fn what_was_loaded_is_found_in_the_prefix_cache() {
    let script = offers(&[(0, Offer::Aside(9), Some(SECOND))]);
    let (mut replica, _) = replica(config(), script);
    let shared = Prompt::Pieces(request(0, SECOND, 12, 1).prompt_pieces().collect());
    let requests = [(0, Picos::ZERO), (1, SECOND * 2)].map(|(id, arrival)| Request {
        prompt: shared.clone(),
        ..request(id, arrival, 12, 1)
    });
    send(&mut replica, &requests);
    let ended = run(&mut replica, Picos::MAX);
    let expected = ["1000+1000: 0@9+3", "2000+1000: 1@8+4"];
    assert_eq!(told(&replica.take_log()), expected);
    assert_eq!((ended[0].cached_tokens, ended[1].cached_tokens), (0, 8));
}

#[test]
fn blocks_of_a_client_who_gave_up_are_held_until_the_load_ends() {
    let script = offers(&[(0, Offer::Aside(9), Some(SECOND * 5))]);
    let (mut replica, script) = replica(config(), script);
    let handle = replica
        .offer(Picos::ZERO, &mut request(0, Picos::ZERO, 9, 1))
        .expect("it fits");
    run(&mut replica, SECOND);
    assert!(replica.abort(handle, SECOND, &mut Deaf).is_some());
    assert_eq!((replica.inside(), replica.pool.free()), (0, 97));
    run(&mut replica, SECOND * 5);
    assert_eq!(replica.pool.free(), 97);
    run(&mut replica, Picos::MAX);
    assert_eq!((replica.pool.free(), replica.next()), (100, None));
    assert_eq!(script.borrow().left, [(0, Leaving::GivenUp)]);
}

#[test]
fn who_gave_up_after_the_load_frees_its_blocks_at_once() {
    let script = offers(&[(1, Offer::Aside(9), Some(SECOND))]);
    let config = EngineConfig {
        max_num_seqs: 1,
        ..config()
    };
    let (mut replica, _) = replica(config, script);
    let mut late = request(1, Picos::ZERO, 9, 1);
    let handle = replica.offer(Picos::ZERO, &mut late).expect("it fits");
    send(&mut replica, &[request(0, Picos::ZERO, 4, 9)]);
    run(&mut replica, SECOND * 3);
    let free = replica.pool.free();
    assert!(replica.abort(handle, SECOND * 3, &mut Deaf).is_some());
    assert_eq!(replica.pool.free(), free + 3);
    run(&mut replica, Picos::MAX);
    assert_eq!(replica.pool.free(), 100);
}

#[test]
fn a_preempted_sequence_computes_what_had_been_loaded() {
    let script = offers(&[(1, Offer::Aside(9), Some(SECOND))]);
    let config = EngineConfig {
        num_gpu_blocks: 7,
        enable_prefix_caching: false,
        ..config()
    };
    let (mut replica, script) = replica(config, script);
    send(
        &mut replica,
        &[request(0, Picos::ZERO, 8, 9), request(1, Picos::ZERO, 9, 6)],
    );
    run(&mut replica, Picos::MAX);
    let log = told(&replica.take_log());
    assert_eq!(log[1], "1000+1000: 0@8+1 1@8+1");
    assert!(log.iter().any(|line| line.contains("1@0+")), "{log:?}");
    assert!(script.borrow().left.contains(&(1, Leaving::Preempted)));
}

#[test]
fn blocks_that_are_held_back_keep_others_waiting_until_they_are_released() {
    let config = EngineConfig {
        num_gpu_blocks: 4,
        ..config()
    };
    let script = Script {
        holds: true,
        ..Script::default()
    };
    let (mut replica, _) = replica(config, script);
    send(
        &mut replica,
        &[request(0, Picos::ZERO, 9, 1), request(1, Picos::ZERO, 9, 1)],
    );
    run(&mut replica, SECOND * 4);
    assert_eq!((replica.inside(), replica.pool.free()), (1, 0));
    let now = SECOND * 4 + Picos(300_000_000);
    assert!(replica.release_held_back(RequestId(0), now));
    assert!(!replica.release_held_back(RequestId(0), now));
    run(&mut replica, Picos::MAX);
    assert_eq!(told(&replica.take_log()), ["0+1000: 0@0+9", "4001+1000: 1@0+9"]);
    assert!(replica.release_held_back(RequestId(1), SECOND * 9));
    assert_eq!(replica.pool.free(), 3);
}

#[test]
fn a_load_leaves_prefills_under_way_what_they_lack() {
    let config = EngineConfig {
        num_gpu_blocks: 9,
        max_num_batched_tokens: 8,
        ..config()
    };
    let script = offers(&[(1, Offer::Aside(16), Some(SECOND))]);
    let (mut replica, _) = replica(config, script);
    send(
        &mut replica,
        &[request(0, Picos::ZERO, 20, 2), request(1, Picos(1), 16, 1)],
    );
    run(&mut replica, Picos::MAX);
    let log = replica.take_log();
    // Six blocks are free at 1 s, of which the prefill needs three: the load of four must wait.
    let free: Vec<u32> = log.iter().map(|step| step.free_blocks).collect();
    assert_eq!(free[..3], [6, 4, 3]);
    assert_eq!(told(&log)[4], "5000+1000: 1@15+1");
}
