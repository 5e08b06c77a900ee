//! Several schedulers that step together: the naive twin of data-parallel attention with experts (V1-85).
//!
//! Every rank schedules by itself; a step of all begins when each has launched its own and lasts as long as the slowest
//! rank needs. A rank that schedules nothing runs a dummy of one token. Every `sync_interval` steps the ranks agree whether
//! anybody has a request left. Aborts and LMCache are left out.

use std::collections::VecDeque;

use super::scheduler::{Index, Scheduler, Share};
use super::sequence::Sequence;
use super::{Scheduled, TwinConfig, TwinOutcome, TwinRequest};

/// How ranks step together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TwinRanks {
    /// Steps between two agreements.
    pub(crate) sync_interval: u64,
    /// Batches whose graphs were captured, ascending: where all ranks decode, each replays the graph that holds the largest.
    pub(crate) captured: &'static [u64],
}

/// What is asked of the cost of one rank's share of a step.
#[derive(Debug)]
pub(crate) struct TwinShare<'a> {
    /// Who computes how much; nobody in a dummy.
    pub(crate) scheduled: &'a [Scheduled],
    /// Tokens of the largest rank's batch, if all ranks replay the graph for it.
    pub(crate) padded: Option<u64>,
    /// Tokens of all ranks together, padding and dummies included.
    pub(crate) all_tokens: u64,
}

/// The whole run.
#[derive(Debug, Default)]
pub(crate) struct TwinRanksRun {
    /// Outcomes of each rank's requests, in the order they were given.
    pub(crate) outcomes: Vec<Vec<TwinOutcome>>,
    /// Steps that all ranks have run.
    pub(crate) steps: u64,
    /// Time of these.
    pub(crate) stepping_ps: u64,
    /// Ranks' shares of steps that were dummies, and their time.
    pub(crate) dummies: u64,
    /// Time of ranks in dummies.
    pub(crate) idle_ps: u128,
    /// Time of ranks with work beyond their own share.
    pub(crate) waited_ps: u128,
}

/// A step in flight.
struct Launched {
    /// Of each rank.
    shares: Vec<Vec<Share>>,
    /// What each rank needs by itself.
    own_ps: Vec<u64>,
    duration_ps: u64,
    end_ps: u64,
}

/// Serves each rank's requests to the end.
pub(crate) fn simulate_ranks(
    config: &TwinConfig,
    ranks: &[Vec<TwinRequest>],
    how: TwinRanks,
    cost: &mut dyn FnMut(&TwinShare<'_>) -> u64,
) -> TwinRanksRun {
    let mut schedulers: Vec<Scheduler> = ranks
        .iter()
        .map(|requests| Scheduler::new(config, requests))
        .collect();
    let mut arrivals: Vec<VecDeque<Index>> = ranks
        .iter()
        .map(|requests| {
            let mut order: Vec<Index> = (0..requests.len()).collect();
            order.sort_by_key(|&index| (requests[index].arrival_ps, requests[index].id));
            order.into()
        })
        .collect();
    let next_arrival = |arrivals: &[VecDeque<Index>]| {
        let firsts = arrivals.iter().zip(ranks);
        firsts
            .filter_map(|(queue, requests)| queue.front().map(|&index| requests[index].arrival_ps))
            .min()
    };
    let mut run = TwinRanksRun::default();
    let mut in_flight: VecDeque<Launched> = VecDeque::new();
    let (mut gpu_free_ps, mut is_running, mut steps_in_wave) = (0, false, 0);
    let mut pass_ps = next_arrival(&arrivals);
    loop {
        let end_ps = in_flight.front().map(|launched| launched.end_ps);
        match (pass_ps, end_ps) {
            (Some(now_ps), end_ps) if end_ps.is_none_or(|end_ps| now_ps < end_ps) => {
                pass_ps = None;
                if !is_running {
                    (is_running, steps_in_wave) = (true, 0);
                }
                while in_flight.len() < config.queue_depth {
                    for (rank, scheduler) in schedulers.iter_mut().enumerate() {
                        while let Some(&index) = arrivals[rank].front()
                            && ranks[rank][index].arrival_ps <= now_ps
                        {
                            arrivals[rank].pop_front();
                            scheduler.add(index);
                        }
                    }
                    let launched = launch(&mut schedulers, now_ps.max(gpu_free_ps), now_ps, how, cost);
                    gpu_free_ps = launched.end_ps;
                    in_flight.push_back(launched);
                }
            }
            (_, Some(now_ps)) => {
                let launched = in_flight.pop_front().expect("it was just looked at");
                for (rank, scheduler) in schedulers.iter_mut().enumerate() {
                    let later: Vec<&[Share]> = in_flight
                        .iter()
                        .map(|later| later.shares[rank].as_slice())
                        .collect();
                    scheduler.update_from_output(&launched.shares[rank], &later, now_ps);
                }
                account(&mut run, &launched);
                if is_running {
                    steps_in_wave += 1;
                    let all_done = !schedulers.iter().any(Scheduler::has_requests);
                    if steps_in_wave % how.sync_interval == 0 && all_done {
                        is_running = false;
                        pass_ps = next_arrival(&arrivals).map(|at_ps| at_ps.max(now_ps));
                    } else {
                        pass_ps = Some(now_ps);
                    }
                }
            }
            _ => break,
        }
    }
    run.outcomes = schedulers
        .iter()
        .map(|scheduler| scheduler.sequences.iter().map(outcome).collect())
        .collect();
    run
}

/// Every rank decides its share of the next step.
fn launch(
    schedulers: &mut [Scheduler],
    begin_ps: u64,
    now_ps: u64,
    how: TwinRanks,
    cost: &mut dyn FnMut(&TwinShare<'_>) -> u64,
) -> Launched {
    let mut shares = Vec::new();
    let mut scheduled: Vec<Vec<Scheduled>> = Vec::new();
    for scheduler in schedulers.iter_mut() {
        let decision = match scheduler.has_requests() {
            true => scheduler.schedule(now_ps).shares,
            false => Vec::new(),
        };
        let named = decision.iter().map(|share| {
            let id = scheduler.sequences[share.sequence].request.id;
            (id, share.computed, share.n)
        });
        scheduled.push(named.collect());
        shares.push(decision);
    }
    let tokens: Vec<u64> = scheduled
        .iter()
        .map(|shares| shares.iter().map(|share| u64::from(share.2)).sum())
        .collect();
    let largest = tokens.iter().copied().max().unwrap_or(0).max(1);
    let decodes = shares.iter().flatten().all(|share| share.n == 1 && share.samples);
    let graph = how.captured.iter().find(|&&captured| captured >= largest);
    let (padded, all_tokens) = match graph {
        Some(captured) if decodes => (Some(largest), captured * tokens.len() as u64),
        _ => (None, tokens.iter().map(|&tokens| tokens.max(1)).sum()),
    };
    let own_ps: Vec<u64> = scheduled
        .iter()
        .map(|scheduled| {
            cost(&TwinShare {
                scheduled,
                padded,
                all_tokens,
            })
        })
        .collect();
    let duration_ps = own_ps.iter().copied().max().expect("there are ranks");
    Launched {
        shares,
        own_ps,
        duration_ps,
        end_ps: begin_ps + duration_ps,
    }
}

fn account(run: &mut TwinRanksRun, launched: &Launched) {
    run.steps += 1;
    run.stepping_ps += launched.duration_ps;
    for (shares, own_ps) in launched.shares.iter().zip(&launched.own_ps) {
        if shares.is_empty() {
            run.dummies += 1;
            run.idle_ps += u128::from(launched.duration_ps);
        } else {
            run.waited_ps += u128::from(launched.duration_ps - own_ps);
        }
    }
}

/// Reads off what became of a sequence.
fn outcome(sequence: &Sequence) -> TwinOutcome {
    TwinOutcome {
        id: sequence.request.id,
        cached_tokens: sequence.cached_tokens,
        token_times_ps: sequence.token_times_ps.clone(),
        preemptions: sequence.preemptions,
        is_aborted: false,
    }
}
