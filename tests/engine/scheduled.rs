//! Engines whose scheduler is separate: golden trace G5, corner cases, closed forms, leaps
//! against steps, and what becomes of a scheduler that errs.

use std::fmt::Write as _;

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::scheduled::policies::{HfConfig, HfOrder, PreemptionMode, StaticConfig, V0Config};
use plimsoll::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use plimsoll::engine::scheduler::{Denied, Scheduler, SequenceId, StepPlan};
use plimsoll::engine::{Policy, ScheduleRecord};
use plimsoll::ids::RequestId;
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;

use crate::runs::{cost, request, run};
use crate::sglang_leaps::Told;

/// vLLM V0 in its default mode: budget 64, blocks of 4, an ample pool.
pub(crate) fn v0(enable_chunked_prefill: bool) -> ScheduledConfig {
    ScheduledConfig {
        profile: "vllm@0.6".into(),
        max_model_len: 64,
        max_num_seqs: 256,
        max_num_batched_tokens: 64,
        block_size: 4,
        num_gpu_blocks: 1000,
        enable_prefix_caching: false,
        swap_blocks: 0,
        swap_time_per_block: Picos::ZERO,
        scheduler: SchedulerChoice::VllmV0(V0Config {
            enable_chunked_prefill,
            policy: Policy::Fcfs,
            preemption_mode: PreemptionMode::Recompute,
            delay_factor: 0.0,
            async_output_proc: false,
        }),
    }
}

/// Static batching of `batch_size` rows.
pub(crate) fn fixed(batch_size: u32, batch_timeout: Picos, release_rows_early: bool) -> ScheduledConfig {
    ScheduledConfig {
        profile: "static".into(),
        max_num_seqs: batch_size,
        block_size: 1,
        num_gpu_blocks: 100_000,
        scheduler: SchedulerChoice::Static(StaticConfig {
            batch_size,
            batch_timeout,
            release_rows_early,
            max_model_len: 64,
        }),
        ..v0(false)
    }
}

/// Transformers' continuous batching with a margin of a fifth of the blocks.
pub(crate) fn hf(order: HfOrder, max_batch_tokens: u32, num_gpu_blocks: u32) -> ScheduledConfig {
    ScheduledConfig {
        profile: "hf-cb".into(),
        max_num_batched_tokens: max_batch_tokens,
        num_gpu_blocks,
        scheduler: SchedulerChoice::HfContinuous(HfConfig {
            order,
            max_batch_tokens,
            margin_blocks: (0.2 * f64::from(num_gpu_blocks)).ceil() as u32,
        }),
        ..v0(false)
    }
}

/// Serves the requests with steps of one second; one line a step, `A7 B12` or with victims `A1 !B`.
fn serve(config: &ScheduledConfig, requests: &[Request]) -> (Vec<String>, Told) {
    let (log, told) = run(
        config.clone(),
        requests,
        LinearCost::new(1.0, 0.0, 0.0),
        false,
        true,
    );
    let letter = |id: RequestId| char::from(b'A' + u8::try_from(id.0).unwrap());
    let line = |record: &ScheduleRecord| {
        let mut line = String::new();
        for &(id, _, tokens) in &record.shares {
            write!(line, " {}{tokens}", letter(id)).unwrap();
        }
        for &id in &record.preempted {
            write!(line, " !{}", letter(id)).unwrap();
        }
        line.trim_start().to_owned()
    };
    (log.iter().map(line).collect(), told)
}

/// (who, end in seconds) in the order of leaving.
fn ends(told: &Told) -> Vec<(char, f64)> {
    let name = |id: RequestId| char::from(b'A' + u8::try_from(id.0).unwrap());
    let ends = told.completions.iter();
    ends.map(|end| (name(end.id), end.end.seconds())).collect()
}

#[test]
fn g5_a_prompt_stalls_the_decodes() {
    let requests = [request('A', 0, 7, 4), request('B', 15, 12, 2)];
    let (steps, told) = serve(&v0(false), &requests);
    assert_eq!(steps, ["A7", "A1", "B12", "A1 B1", "A1"]);
    assert_eq!(ends(&told), [('B', 4.0), ('A', 5.0)]);
    let first: Vec<(f64, u64)> = told
        .story
        .iter()
        .filter(|event| event.0 == 'T')
        .map(|event| (event.1.seconds(), event.2.0))
        .collect();
    assert_eq!(first, [(1.0, 0), (3.0, 1)]);
    // A's tokens come at 1, 2, 4 and 5 s, B's second at 4: one gap holds the prompt of B.
    let gaps: Vec<(f64, u64)> = told.gaps.iter().map(|(gap, n)| (gap.seconds(), *n)).collect();
    assert_eq!(gaps, [(1.0, 3), (2.0, 1)]);
    // The same with chunks: B's prompt shares A's step.
    let (steps, _) = serve(&v0(true), &requests);
    assert_eq!(steps, ["A7", "A1", "A1 B12", "A1 B1"]);
}

#[test]
fn v0_decides_a_step_before_it_knows_who_has_ended() {
    let asynchronous = |chunked| {
        let mut config = v0(chunked);
        if let SchedulerChoice::VllmV0(v0) = &mut config.scheduler {
            v0.async_output_proc = true;
        }
        config
    };
    // G5 again: the clients notice nothing, and the batch drains a step later.
    let requests = [request('A', 0, 7, 4), request('B', 15, 12, 2)];
    let (steps, told) = serve(&asynchronous(false), &requests);
    assert_eq!(steps, ["A7", "A1", "B12", "A1 B1", "A1 B1", "A1"]);
    assert_eq!(ends(&told), [('B', 4.0), ('A', 5.0)]);
    let (steps, _) = serve(&asynchronous(true), &requests);
    assert_eq!(steps, ["A7", "A1", "A1 B12", "A1 B1", "A1 B1"]);
    // Whoever waits for the seat waits a step longer.
    let config = ScheduledConfig {
        max_num_seqs: 1,
        ..asynchronous(false)
    };
    let (steps, told) = serve(&config, &[request('A', 0, 4, 1), request('B', 0, 4, 1)]);
    assert_eq!(steps, ["A4", "A1", "B4", "B1"]);
    assert_eq!(ends(&told), [('A', 1.0), ('B', 3.0)]);
}

#[test]
fn c5_v0_fails_a_prompt_larger_than_the_pool_and_serves_the_next() {
    let config = ScheduledConfig {
        num_gpu_blocks: 6,
        ..v0(false)
    };
    let requests = [request('A', 0, 25, 2), request('B', 0, 8, 2)];
    let (steps, told) = serve(&config, &requests);
    assert_eq!(steps, ["B8", "B1"]);
    assert_eq!(told.completions[0].outcome, Outcome::Rejected);
    assert_eq!(told.completions[1].outcome, Outcome::Completed);
}

#[test]
fn c11_v0_fails_a_prompt_above_the_budget_unless_it_chunks() {
    let requests = [request('A', 0, 20, 2), request('B', 0, 8, 2)];
    let small = |chunked| ScheduledConfig {
        max_num_batched_tokens: 16,
        ..v0(chunked)
    };
    let (steps, told) = serve(&small(false), &requests);
    assert_eq!(steps, ["B8", "B1"]);
    assert_eq!(told.completions[0].outcome, Outcome::Rejected);
    let (steps, told) = serve(&small(true), &requests);
    assert_eq!(steps, ["A16", "A4 B8", "A1 B1"]);
    assert!(
        told.completions
            .iter()
            .all(|end| end.outcome == Outcome::Completed)
    );
}

#[test]
fn c34_decodes_starve_while_a_prompt_comes_with_each_step() {
    let mut requests = vec![request('A', 0, 4, 3)];
    requests.extend((0..8).map(|n| request(char::from(b'B' + n), 5 + 10 * u64::from(n), 4, 1)));
    let (steps, told) = serve(&v0(false), &requests);
    assert_eq!(steps[..9], ["A4", "B4", "C4", "D4", "E4", "F4", "G4", "H4", "I4"]);
    assert_eq!(steps[9..], ["A1", "A1"]);
    assert_eq!(told.gaps.keys().next_back(), Some(&Picos::from_seconds(9.0)));
}

#[test]
fn v0_preempts_the_newest_and_computes_it_anew_at_once() {
    // 5 blocks of 4: A holds 2, B 2, and both want a third in the same step.
    let config = ScheduledConfig {
        num_gpu_blocks: 5,
        ..v0(false)
    };
    let requests = [request('A', 0, 8, 3), request('B', 0, 7, 4)];
    let (steps, told) = serve(&config, &requests);
    // A takes the last block; B has room in its own, but no block is free, of which V0 wants one. B's own blocks are
    // free then, so that its prompt stalls A at once, which pushes it out again.
    assert_eq!(steps, ["A8 B7", "A1 !B", "B8", "A1 !B", "B9", "B1"]);
    assert_eq!(told.completions[1].preemptions, 2);
}

#[test]
fn v0_swaps_out_and_in_and_the_bus_holds_the_step_up() {
    let mut config = ScheduledConfig {
        num_gpu_blocks: 5,
        swap_blocks: 4,
        swap_time_per_block: Picos::from_seconds(0.25),
        ..v0(false)
    };
    if let SchedulerChoice::VllmV0(v0) = &mut config.scheduler {
        v0.preemption_mode = PreemptionMode::Swap;
    }
    let requests = [
        request('A', 0, 8, 3),
        request('B', 0, 7, 4),
        request('C', 15, 4, 1),
    ];
    let (steps, told) = serve(&config, &requests);
    // B comes back before C may start.
    assert_eq!(steps, ["A8 B7", "A1 !B", "A1 B1", "C4", "B1", "B1"]);
    // Two blocks out, two in: half a second each.
    assert_eq!(ends(&told).last(), Some(&('B', 7.0)));
    config.swap_blocks = 1;
    let (_, told) = serve(&config, &requests);
    assert!(
        !told.drained,
        "without room in the host's memory the process dies"
    );
}

#[test]
fn v0_waits_for_company_by_its_delay_factor() {
    let mut config = v0(false);
    let requests = [
        request('A', 0, 4, 9),
        request('B', 11, 4, 1),
        request('C', 12, 4, 1),
    ];
    let (steps, _) = serve(&config, &requests);
    assert_eq!(steps[..3], ["A4", "A1", "B4 C4"]);
    if let SchedulerChoice::VllmV0(v0) = &mut config.scheduler {
        v0.delay_factor = 2.0;
    }
    // A's prompt took a second: B waits two, and C, which is younger, until the next decision.
    let (steps, _) = serve(&config, &requests);
    assert_eq!(steps[..6], ["A4", "A1", "A1", "A1", "B4 C4", "A1"]);
}

#[test]
fn v0_makes_way_for_a_higher_priority() {
    let mut config = v0(false);
    config.max_num_seqs = 1;
    if let SchedulerChoice::VllmV0(v0) = &mut config.scheduler {
        v0.policy = Policy::Priority;
    }
    let mut requests = [request('A', 0, 4, 4), request('B', 15, 4, 2)];
    requests[0].priority = 1;
    let (steps, _) = serve(&config, &requests);
    // The step that preempts A computes nothing, so the next decision comes at once.
    assert_eq!(steps, ["A4", "A1", "B4", "B1", "A6", "A1"]);
}

#[test]
fn st2_st3_rows_are_padded_and_computed_to_the_end() {
    let requests = [request('A', 0, 4, 2), request('B', 0, 6, 5)];
    let (steps, told) = serve(&fixed(2, Picos::ZERO, false), &requests);
    assert_eq!(steps, ["A6 B6", "A1 B1", "A1 B1", "A1 B1", "A1 B1"]);
    assert_eq!(ends(&told), [('A', 5.0), ('B', 5.0)]);
    // C-35, ST-4: the time to the first token is the whole time.
    assert!(
        told.completions
            .iter()
            .all(|end| end.first_token == Some(end.end))
    );
    let (_, told) = serve(&fixed(2, Picos::ZERO, true), &requests);
    assert_eq!(ends(&told), [('A', 2.0), ('B', 5.0)]);
    assert_eq!((told.at_once, told.gaps.len()), (5, 0));
}

#[test]
fn st1_a_batch_closes_when_it_is_full_or_the_oldest_has_waited() {
    let requests = [
        request('A', 0, 4, 1),
        request('B', 3, 4, 1),
        request('C', 6, 4, 1),
        request('D', 50, 4, 1),
    ];
    let (steps, told) = serve(&fixed(2, Picos::from_seconds(0.5), false), &requests);
    assert_eq!(steps, ["A4 B4", "C4", "D4"]);
    // A and B at once when B comes; C half a second after it came, but not before the batch is done; D after its wait.
    assert_eq!(ends(&told), [('A', 1.3), ('B', 1.3), ('C', 2.3), ('D', 6.5)]);
}

#[test]
fn st6_saturated_throughput_is_a_batch_for_each_batch_time() {
    let mut requests: Vec<Request> = (0..64).map(|_| request('A', 0, 10, 8)).collect();
    (0..)
        .zip(&mut requests)
        .for_each(|(id, one)| one.id = RequestId(id));
    let batch = |rows: f64| {
        let prefill = 0.006 + 2e-5 * 10.0 * rows + 1.5e-9 * rows * 55.0;
        let decode = |step: f64| 0.006 + 2e-5 * rows + 1.5e-9 * rows * (10.0 + step);
        prefill + (1..8).map(|step| decode(f64::from(step))).sum::<f64>()
    };
    for rows in [1, 4, 16] {
        let (_, told) = run(fixed(rows, Picos::ZERO, false), &requests, cost(), false, false);
        let end = told.completions.last().unwrap().end.seconds();
        let expected = 64.0 / f64::from(rows) * batch(f64::from(rows));
        assert!(
            (end - expected).abs() < 1e-6,
            "{rows} rows: {end} s, by hand {expected} s"
        );
    }
}

#[test]
fn q19_a_batch_server_is_stable_below_a_batch_for_each_batch_time() {
    // Five steps of a second make every batch last 5 s: four rows serve 0.8 requests a second.
    let arrivals = |rate: f64| -> Vec<Request> {
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let mut now = 0.0;
        let sent = (0..4000).map(|id| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            now -= (((dice >> 11) as f64 + 1.0) / (1u64 << 53) as f64).ln() / rate;
            Request {
                id: RequestId(id),
                arrival: Picos::from_seconds(now),
                ..request('A', 0, 10, 5)
            }
        });
        sent.collect()
    };
    let serve = |rate: f64| {
        let requests = arrivals(rate);
        let cost = LinearCost::new(1.0, 0.0, 0.0);
        let (_, told) = run(fixed(4, Picos::ZERO, false), &requests, cost, false, false);
        let waits = told
            .completions
            .iter()
            .map(|end| (end.first_scheduled - end.arrival).seconds());
        let mean_wait = waits.sum::<f64>() / told.completions.len() as f64;
        let busy = told.busy.seconds() / told.last_end.seconds();
        (mean_wait, busy, told.last_end.seconds())
    };
    let (wait, busy, _) = serve(0.4);
    assert!(
        wait >= busy * 5.0 / 2.0,
        "who finds it busy waits half a batch at least: {wait} s at {busy}"
    );
    assert!(
        wait < 10.0 && busy < 0.999,
        "half the load is stable: {wait} s, busy {busy}"
    );
    let (wait, busy, end) = serve(1.2);
    assert!(
        (end / (4000.0 / 0.8) - 1.0).abs() < 0.01,
        "beyond it serves 0.8 a second: {end} s"
    );
    assert!(
        wait > 500.0 && busy > 0.99,
        "and the queue grows: {wait} s, busy {busy}"
    );
}

#[test]
fn st8_prefills_wait_while_little_of_the_cache_is_free() {
    // Ten blocks of 4, so that prefills beside others need two free.
    let requests = [
        request('A', 0, 16, 3),
        request('B', 0, 16, 3),
        request('C', 0, 4, 2),
    ];
    let (steps, _) = serve(&hf(HfOrder::Fifo, 64, 10), &requests);
    assert_eq!(steps[0], "A16 B16 C4");
    assert_eq!(steps[1], "A1");
    let requests = [
        request('A', 0, 16, 3),
        request('B', 0, 20, 3),
        request('C', 0, 4, 2),
    ];
    let (steps, _) = serve(&hf(HfOrder::Fifo, 64, 10), &requests);
    assert_eq!(steps, ["A16 B20", "A1", "A1", "B1 C4", "B1 C1"]);
}

#[test]
fn st7_who_comes_first_in_transformers() {
    let requests = [request('A', 0, 4, 4), request('B', 5, 9, 2)];
    let (steps, _) = serve(&hf(HfOrder::Fifo, 5, 100), &requests);
    assert_eq!(steps, ["A4", "A1 B4", "A1 B4", "A1 B1", "B1"]);
    let (steps, _) = serve(&hf(HfOrder::PrefillFirst, 5, 100), &requests);
    assert_eq!(steps, ["A4", "A1 B4", "B5", "A1 B1", "A1"]);
}

#[test]
fn st9_a_full_cache_without_preemption_hangs_and_says_so() {
    let config = hf(HfOrder::PrefillFirst, 64, 4);
    let (steps, told) = serve(&config, &[request('A', 0, 8, 5), request('B', 0, 8, 5)]);
    assert_eq!(steps, ["A8 B8"]);
    assert!(!told.drained);
}

/// Tries what is not allowed, then does what is.
#[derive(Default)]
struct Reckless {
    earlier: Option<SequenceId>,
}

impl Scheduler for Reckless {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        let free = plan.free_blocks();
        if let Some(gone) = self.earlier.filter(|&id| plan.get(id).is_none()) {
            assert_eq!(plan.compute(gone, 1), Err(Denied::Gone));
            assert_eq!(plan.preempt(gone), Err(Denied::Gone));
        }
        if let Some(head) = plan.waiting().next() {
            let missing = head.missing_tokens();
            let asked = missing + 1;
            assert_eq!(
                plan.compute(head.id, asked),
                Err(Denied::Tokens { asked, missing })
            );
            assert_eq!(
                plan.compute(head.id, 0),
                Err(Denied::Tokens { asked: 0, missing })
            );
            assert_eq!(plan.preempt(head.id), Err(Denied::NotRunning));
            assert_eq!(plan.swap_in(head.id), Err(Denied::NotSwapped));
            let all = plan.total_blocks() * plan.block_size();
            let denied = plan.compute_reserving(head.id, missing, all + 1);
            assert!(matches!(denied, Err(Denied::NoBlocks { .. })));
            assert_eq!(plan.free_blocks(), free, "what is denied changes nothing");
            self.earlier = Some(head.id);
            plan.compute(head.id, missing).unwrap();
            assert_eq!(plan.compute(head.id, 1), Err(Denied::GivenAlready));
            assert_eq!(plan.reject(head.id), Err(Denied::NotWaiting));
            assert!(matches!(plan.swap_out(head.id), Err(Denied::NoSwapSpace { .. })));
            // Who was given tokens may lose them again.
            plan.preempt(head.id).unwrap();
            assert_eq!(plan.free_blocks(), free, "blocks in = blocks out");
            plan.compute(head.id, missing).unwrap();
            return;
        }
        let running: Vec<_> = plan.running().collect();
        for one in running {
            plan.compute(one.id, 1).unwrap();
        }
    }
}

#[test]
fn an_illegal_action_is_denied_and_changes_nothing() {
    let config = ScheduledConfig::own("reckless", 100, 64, Reckless::default);
    let requests = [request('A', 0, 7, 4), request('B', 15, 12, 2)];
    let (steps, told) = serve(&config, &requests);
    assert_eq!(steps, ["A7 !A", "A1", "B12 !B", "A1 B1", "A1"]);
    assert!(told.drained && told.completions.len() == 2);
}

/// Gives everybody who decodes a token, by one word if it may, and changes its mind every so often.
struct Fickle {
    in_one_word: bool,
    decisions: u32,
}

impl Scheduler for Fickle {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        self.decisions += 1;
        let in_one_word = self.in_one_word && !self.decisions.is_multiple_of(5);
        if !in_one_word || plan.decode_all(64, 0).is_none() {
            for one in plan.running().collect::<Vec<_>>() {
                plan.compute(one.id, 1).unwrap();
            }
        }
        assert!(plan.running().all(|one| one.given_tokens == 1));
        if self.decisions.is_multiple_of(7)
            && let Some(second) = plan.running().nth(1)
        {
            assert_eq!(plan.compute(second.id, 1), Err(Denied::GivenAlready));
            plan.preempt(second.id).unwrap();
        } else if let Some(head) = plan.waiting().next() {
            let missing = plan.missing_tokens(head.id).unwrap();
            plan.compute(head.id, missing).unwrap();
        }
    }
}

#[test]
fn one_word_for_all_who_decode_is_as_good_as_their_names() {
    let requests: Vec<Request> = ('A'..='M')
        .zip(0..)
        .map(|(name, at)| request(name, 20 * at, 3 + at as u32, 4 + 5 * (at as u32 % 4)))
        .collect();
    for enable_prefix_caching in [false, true] {
        let [named, told] = [false, true].map(|in_one_word| {
            let fickle = move || Fickle {
                in_one_word,
                decisions: 0,
            };
            let config = ScheduledConfig {
                enable_prefix_caching,
                ..ScheduledConfig::own("fickle", 100, 64, fickle)
            };
            serve(&config, &requests)
        });
        assert_eq!(told.0, named.0);
        assert_eq!(told.1, named.1);
        assert!(told.1.drained && told.1.completions.len() == requests.len());
        assert!(
            named.0.iter().any(|step| step.contains('!')),
            "somebody is preempted"
        );
    }
}

#[test]
fn the_example_shows_what_shortest_job_first_gains_and_costs() {
    let (fcfs, fcfs_tail) = crate::example::latency(false).expect("requests are answered");
    let (shortest, shortest_tail) = crate::example::latency(true).expect("requests are answered");
    assert!(
        shortest < 0.9 * fcfs,
        "mean latency {shortest} s against {fcfs} s"
    );
    assert!(
        shortest_tail > fcfs_tail,
        "the long ones pay: {shortest_tail} s against {fcfs_tail} s"
    );
}

/// Never does anything.
struct Idle;

impl Scheduler for Idle {
    fn schedule(&mut self, _: &mut StepPlan<'_>) {}
}

#[test]
fn a_scheduler_that_lets_nobody_go_on_hangs_its_server() {
    let config = ScheduledConfig::own("idle", 100, 64, || Idle);
    let (steps, told) = serve(&config, &[request('A', 0, 7, 4)]);
    assert!(steps.is_empty() && !told.drained && told.completions.is_empty());
}
