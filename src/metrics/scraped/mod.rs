//! What Prometheus would scrape from the servers of a run: the metrics of vLLM's V1 engine (0.33), kept as facts come.
//!
//! Every replica is an *engine* of its own, numbered as replicas are. What a metric counts is what vLLM's `IterationStats` and
//! `SchedulerStats` (`vllm/v1/metrics/stats.py`) count, with these instants:
//!
//! * a server has a request from when the routers send it there, not from when its client did: what stands before is no part of
//!   its TTFT and its stay;
//! * queue: from the engine's queue to the first step; prefill: from there to the end of the step that gives the first token; decode: from
//!   there until the answer leaves the engine; inference: both. How long an answer takes from the engine to its client is in none;
//! * prompt tokens count when a request has its first token, all at once, and so do those computed in the tokens of that step;
//!   steps that bring no token to anybody are no iterations;
//! * a request that its client gives up, that is refused, or that is lost with its replica is no success for any reason, and in no histogram of
//!   requests that are done: vLLM forgets it likewise (`OutputProcessor.abort_requests`).
//!
//! Between two servers a request is done on the one that prefilled, with one token, because of its length, and comes anew to the one that
//! decodes, whose prompt tokens are from elsewhere. So each counts it, as two vLLM servers behind a proxy do.
//!
//! Not as vLLM has it, because facts do not tell it:
//!
//! * gaps between tokens are those that clients see, which are others than the engine's where the front end is behind;
//! * the KV in use within a run of alike steps grows evenly, and is 0 where nobody is inside; what a prefill replica keeps for transfers
//!   alone is not in it;
//! * SGLang's replicas that decode what another prefilled tell of no look-ups, and a first token that is there before its request is
//!   scheduled is a prefill of no time;
//! * two steps of a pipeline that end at one instant are one iteration;
//! * counters go on where a replica has failed and come back, whose real server would begin again at zero.
//!
//! Law: a run that leaps and one that takes each step show the same, but for the KV within a run of alike steps.

mod buckets;
mod engine;
mod histogram;
mod life;

pub use engine::{EngineInfo, EngineMetrics, FinishReason};
pub use histogram::Histogram;

use self::life::{AtServer, Life, Place};
use crate::ids::RequestId;
use crate::sim::{Completion, Fact, Observer, Outcome, Scenario};
use crate::units::Picos;
use crate::window::Window;

/// The observer. A fact costs what it changes: a run of steps a few divisions, however long it is.
#[derive(Clone, Debug)]
pub struct Scraped {
    engines: Vec<EngineMetrics>,
    inside: Window<Life>,
}

impl Scraped {
    /// Of the replicas of a scenario, before it runs.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Scraped {
        let engines = scenario.pools.iter().flat_map(|pool| {
            let info = EngineInfo::of(&pool.name, &pool.model, &pool.engine);
            std::iter::repeat_n(info, pool.replicas as usize)
        });
        Scraped::of(engines)
    }

    /// Of these replicas.
    #[must_use]
    pub fn of(engines: impl IntoIterator<Item = EngineInfo>) -> Scraped {
        Scraped {
            engines: engines.into_iter().map(EngineMetrics::new).collect(),
            inside: Window::default(),
        }
    }

    /// What each engine shows now, in the order of replicas: a visit to everybody inside.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineMetrics> {
        let mut engines = self.engines.clone();
        for (_, life) in self.inside.iter() {
            match life.place {
                Place::Waiting(replica) => engines[replica].waiting += 1,
                Place::Deferred(replica) => engines[replica].deferred += 1,
                Place::Running(replica) => engines[replica].running += 1,
                Place::Outside | Place::Leaving => {}
            }
        }
        for engine in &mut engines {
            engine.close_step();
            if engine.running + engine.waiting + engine.deferred == 0 {
                engine.kv_usage = 0.0;
            }
        }
        engines
    }

    /// Requests inside that no engine shows: before the routers, between servers, and on their way back to their clients.
    #[must_use]
    pub fn elsewhere(&self) -> u64 {
        let is_elsewhere = |life: &Life| matches!(life.place, Place::Outside | Place::Leaving);
        self.inside.iter().filter(|(_, life)| is_elsewhere(life)).count() as u64
    }

    /// What befalls a request that is inside.
    fn befall(&mut self, id: RequestId, fact: &Fact<'_>) {
        let Some(life) = self.inside.get_mut(id) else {
            return;
        };
        match *fact {
            Fact::Sent {
                now, replica, entry, ..
            } => {
                life.replica = replica.0 as usize;
                life.place = Place::Waiting(life.replica);
                // Ranks that share requests out have it before one of them gets it.
                life.at_server.arrival = now.min(entry);
            }
            Fact::Admitted {
                now,
                replica,
                queued_since,
                known_tokens,
                cached_tokens,
                resumed,
                ..
            } => {
                life.replica = replica.0 as usize;
                life.place = Place::Running(life.replica);
                life.at_server.known_tokens = known_tokens;
                let engine = &mut self.engines[life.replica];
                if life.at_server.scheduled.is_none() {
                    life.at_server.scheduled = Some((queued_since, now));
                    life.at_server.cached_tokens = cached_tokens;
                }
                if !resumed && engine.info.enable_prefix_caching {
                    engine.prefix_queries += u64::from(known_tokens);
                    engine.prefix_hits += u64::from(cached_tokens);
                }
            }
            Fact::Loaded {
                replica,
                cached_tokens,
                tokens,
                ..
            } if life.at_server.preemptions == 0 => {
                let engine = &mut self.engines[replica.0 as usize];
                engine.looked_outside(&mut life.at_server, cached_tokens, tokens);
            }
            Fact::Preempted { replica, .. } => {
                life.place = Place::Waiting(replica.0 as usize);
                life.at_server.preemptions += 1;
                self.engines[replica.0 as usize].preemptions += 1;
            }
            Fact::HandedOver { now, from, .. } => {
                let engine = &mut self.engines[from.0 as usize];
                engine.first_token(life, now);
                engine.done(life, now, FinishReason::Length, 1);
                life.place = Place::Outside;
                life.at_server = AtServer {
                    arrival: now,
                    is_handed_over: true,
                    ..AtServer::default()
                };
            }
            Fact::Crossing { to, .. } => {
                life.replica = to.0 as usize;
                life.place = Place::Deferred(life.replica);
            }
            Fact::Crossed { to, .. } => life.place = Place::Waiting(to.0 as usize),
            Fact::FirstToken { now, replica, .. } => {
                self.engines[replica.0 as usize].first_token(life, now);
            }
            Fact::Burst { now, tokens, .. } => {
                self.engines[life.replica].tokens_at(now, tokens.into(), 0);
            }
            Fact::Returned(_) => (life.place, life.at_server) = (Place::Outside, AtServer::default()),
            Fact::Leaving { now, .. } => {
                life.place = Place::Leaving;
                life.at_server.left = Some(now);
            }
            _ => {}
        }
    }

    fn ended(&mut self, story: &Completion) {
        let Some(life) = self.inside.remove(story.id) else {
            return;
        };
        if story.outcome != Outcome::Completed {
            return;
        }
        let reason = match life.ends_at {
            Some(tokens) if tokens == story.output_tokens => FinishReason::Stop,
            _ => FinishReason::Length,
        };
        let end = life.at_server.left.unwrap_or(story.end);
        self.engines[story.replica.0 as usize].done(&life, end, reason, story.output_tokens);
    }

    fn gap(&mut self, replica: usize, now: Picos, gap: Picos) {
        self.engines[replica].itl.add_time(gap);
        self.engines[replica].tokens_at(now, 1, 0);
    }
}

impl Observer for Scraped {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => self.engines[steps.replica.0 as usize].steps(steps),
            Fact::Gap {
                now, replica, seen, ..
            } => self.gap(replica.0 as usize, now, seen),
            Fact::Arrived { request } => drop(self.inside.insert(request.id, Life::of(request))),
            Fact::Rejected { request, .. } => drop(self.inside.remove(request.id)),
            Fact::Ended(story) => self.ended(story),
            Fact::Returned(part) => self.befall(part.id, fact),
            Fact::Sent { id, .. }
            | Fact::Admitted { id, .. }
            | Fact::Loaded { id, .. }
            | Fact::Preempted { id, .. }
            | Fact::HandedOver { id, .. }
            | Fact::Crossing { id, .. }
            | Fact::Crossed { id, .. }
            | Fact::FirstToken { id, .. }
            | Fact::Burst { id, .. }
            | Fact::Leaving { id, .. } => self.befall(id, fact),
            Fact::Verified { .. }
            | Fact::Transferred { .. }
            | Fact::Released { .. }
            | Fact::Relayed(_)
            | Fact::Links { .. }
            | Fact::Tiers { .. } => {}
        }
    }
}
