//! The core as one function: a scenario and its seed in, a judged result out.
//!
//! No input or output, no clock: the caller may be asked now and then whether to go on, and is told how far the run is.

use super::books::{Books, Both, Nobody};
use super::bursts::cycle_s;
use super::conversations::Conversations;
use super::in_service;
use super::judge::judge_beside;
use super::longer::settles_in;
use super::refusals::{self, RefusedAgain};
use super::silent;
use super::users::Thinkers;
use super::{
    Decision, Load, LoadKind, Precision, RunResult, Verdict, bursts_span_s, decide, failures_span_s,
};
use crate::cluster::{LockStepAccount, Payroll};
use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, Room, SloLimits, Summary};
use crate::sim::{Counts, Observer, Pause, Scenario, Simulation, Until};
use crate::threads::{Ahead, Behind};
use crate::units::Picos;
use crate::workload::{Arrivals, Class, Generator, Promise, Source, Superposition};

/// How to observe a run, and how long to let it go on.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Goodput limits.
    pub slo: SloLimits,
    /// Per-request records.
    pub records: Records,
    /// What the judgement asks for.
    pub precision: Precision,
    /// Stop as soon as the precision is reached; else the traffic ends the run.
    pub stops_when_precise: bool,
    /// Stop, as if interrupted, once more requests than this were not good or had no answer: who asks only whether a share of
    /// a known number of requests is good has its answer then.
    pub bad_max: Option<u64>,
    /// Send no more requests than these where several clients send, whoever would send them. A number of requests in the
    /// workload is another traffic: who has no end of its own goes on until that many, and not with those who have one.
    pub sent_max: Option<u64>,
    /// An overloaded run goes on until so many requests have ended, where it would stop by itself as soon as the overload is seen:
    /// its figures are those of its length, and compare with those of another of the same length only.
    pub overloaded_min: u64,
    /// Judge the run. Else only its figures as a whole are asked for, which takes a third of the time of a short run, and
    /// nothing else of the result holds.
    pub is_judged: bool,
}

impl Experiment {
    /// Traffic to its end, without promises: what a prediction of a whole measured run needs.
    #[must_use]
    pub fn of_whole_run(records: Records) -> Experiment {
        Experiment {
            slo: SloLimits::default(),
            records,
            precision: Precision::default(),
            stops_when_precise: false,
            bad_max: None,
            sent_max: None,
            overloaded_min: 0,
            is_judged: true,
        }
    }
}

/// A run and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The judged result.
    pub result: RunResult,
    /// Requests by how far they got, refused ones by reason.
    pub counts: Counts,
    /// Where replicas come and go with the load, what that came to.
    pub scaling: Option<Scaling>,
    /// Where ranks step together, what that has cost.
    pub lock_step: Option<LockStepAccount>,
    /// Tokens whose cached KV was evicted, over the whole run.
    pub evicted_tokens: u64,
    /// The caller asked to stop: the result covers only what was simulated until then.
    pub is_interrupted: bool,
    /// Sequences preempted each other for ever, or a closed loop was refused for ever, and the run was ended there.
    pub is_livelocked: bool,
    /// A closed loop sent the next request as soon as one was refused, and was refused again.
    pub refused_again: Option<RefusedAgain>,
    /// The 213 days of the clock ended before the traffic did.
    pub clock_ended: bool,
    /// Failures and orders at given times that found nothing to change: the replica was off, or had failed already.
    pub changes_without_effect: u64,
    /// How often a replica failed, where all of them fail at random and nothing else stops one; `None` where that is not
    /// counted.
    pub failures: Option<u64>,
    /// More requests were inside at once than are held in memory, [`IN_FLIGHT_MAX`], and the run was ended there.
    pub is_overfull: bool,
}

/// Replicas that came and went.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Seconds that the replicas of each pool were paid for.
    pub replica_s: Vec<f64>,
    /// How often a replica was started.
    pub started: u64,
    /// How often a start was cancelled before the replica served.
    pub cancelled: u64,
    /// How often one was drained.
    pub drained: u64,
    /// Seconds at which the number of replicas in service changed, and that number from then on.
    pub in_service: Vec<(f64, u32)>,
}

/// Requests that have ended between two questions to the caller.
const STRIDE: u64 = 1 << 16;
/// Turns of the loop between two questions, for where hardly anybody ends: a millisecond of work.
const TURNS: u64 = 1 << 9;

/// Requests that may be inside at once where the load asks nobody: beyond it this machine's memory, not the server,
/// would decide. At [`IN_FLIGHT_BYTES`] each they take 2.6 GB. No engine runs more than some thousand of them.
pub const IN_FLIGHT_MAX: u64 = 5_000_000;
/// Memory that a request takes while it waits, measured: 1.56 GB for three million.
pub const IN_FLIGHT_BYTES: u64 = 520;
/// Requests inside from which a run that chooses its own length asks whether it is overloaded, long before enough have
/// ended: first at this many, then at each doubling.
const CROWD: u64 = 1 << 17;

/// Simulates a scenario. `go_on` is told the number of requests that have ended and may stop the run.
pub fn simulate(scenario: &Scenario, experiment: &Experiment, mut go_on: impl FnMut(u64) -> bool) -> Outcome {
    simulate_seen_by(scenario, experiment, &mut Nobody, &mut go_on)
}

/// The same to the last bit, where other cores have nothing to do: those of [`crate::threads`] help.
pub fn simulate_in_threads(
    scenario: &Scenario,
    experiment: &Experiment,
    mut go_on: impl FnMut(u64) -> bool,
) -> Outcome {
    let is_of_one_client = !matches!(scenario.workload.arrivals, Arrivals::Superposed { .. });
    // Who stops at so many bad ones looks at the books all the time.
    if !is_of_one_client || experiment.bad_max.is_some() {
        return simulate(scenario, experiment, go_on);
    }
    let traffic = Ahead::of(Generator::new(&scenario.workload, scenario.seed));
    simulate_traffic(scenario, experiment, traffic, Behind::of, &mut Nobody, &mut go_on)
}

/// All of a run of traffic to its end, or to so many requests sent where several clients send.
pub(crate) fn simulate_whole(scenario: &Scenario, sent_max: Option<u64>) -> Summary {
    let experiment = Experiment {
        sent_max,
        is_judged: false,
        ..Experiment::of_whole_run(Records::None)
    };
    simulate(scenario, &experiment, |_| true).result.whole
}

/// Simulates a scenario while somebody else looks on, too.
pub fn simulate_watched(
    scenario: &Scenario,
    experiment: &Experiment,
    mut watcher: &mut dyn Observer,
    mut go_on: impl FnMut(u64) -> bool,
) -> Outcome {
    simulate_seen_by(scenario, experiment, &mut watcher, &mut go_on)
}

/// The same for one kind of watcher, of which there are two: somebody and nobody.
fn simulate_seen_by(
    scenario: &Scenario,
    experiment: &Experiment,
    watcher: &mut impl Observer,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Outcome {
    // Each kind of traffic has a loop of its own, so that none asks which it is with every request.
    let (workload, seed) = (&scenario.workload, scenario.seed);
    match workload.arrivals {
        Arrivals::Superposed { .. } => {
            let traffic = Superposition::new(workload, seed).at_most(experiment.sent_max.unwrap_or(u64::MAX));
            simulate_traffic(scenario, experiment, traffic, |books| books, watcher, go_on)
        }
        _ => {
            let traffic = Generator::new(workload, seed);
            simulate_traffic(scenario, experiment, traffic, |books| books, watcher, go_on)
        }
    }
}

fn simulate_traffic<S: Source, B: Books>(
    scenario: &Scenario,
    experiment: &Experiment,
    traffic: S,
    keep: impl FnOnce(Recorder) -> B,
    watcher: &mut impl Observer,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Outcome {
    let mut simulation = Simulation::of_scenario(scenario, traffic);
    let rooms = simulation.total_blocks().zip(scenario.block_sizes());
    let room = |(kv_blocks, block_size)| Room {
        kv_blocks,
        block_size,
    };
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet {
            rooms: rooms.map(room).collect(),
            pools: scenario.pool_of_each(),
        },
        slo: experiment.slo,
        records: experiment.records,
    })
    .with_classes(class_limits(scenario, experiment.slo));
    if !experiment.is_judged {
        recorder = recorder.in_one_stretch();
    }
    let kind = LoadKind::of_scenario(scenario);
    let mut books = keep(recorder);
    let mut seen = Both {
        books: &mut books,
        watcher,
    };
    let span_s = failures_span_s(scenario).max(bursts_span_s(&scenario.workload));
    let load = |simulation: &Simulation<S>| load(kind, scenario, span_s, simulation);
    let at_once = refusals::at_once_at_most(&scenario.workload);
    let end = advance(&mut simulation, &mut seen, experiment, at_once, &load, go_on);
    let load = Load {
        all_send: simulation.traffic().all_sent(),
        ..load(&simulation)
    };
    let seen = books.close().finish(simulation.now());
    let mut result = judge_beside(seen, load, &experiment.precision, |sent| {
        settles_in(scenario, experiment, sent)
    });
    let silent = silent::told(&result, &scenario.workload);
    // Where somebody never began, that was waited for, and no precision.
    let gave_up = gave_up(&result, experiment).filter(|_| silent.is_none());
    result.reasons.extend(silent.or(gave_up));
    if end == End::Overfull {
        overfull(&mut result);
    }
    let scaling = scaling(scenario, &simulation);
    if let Some(scaling) = &scaling {
        in_service::share_out(&mut result, &scaling.in_service, scenario.cluster.replicas);
    }
    Outcome {
        result,
        counts: simulation.counts(),
        scaling,
        lock_step: simulation.lock_step().cloned(),
        evicted_tokens: simulation.evicted_tokens(),
        is_interrupted: end == End::Interrupted,
        is_livelocked: matches!(end, End::Livelocked | End::RefusedForEver),
        refused_again: RefusedAgain::of(&simulation, at_once, end == End::RefusedForEver),
        clock_ended: end == End::ClockEnded || simulation.traffic().clock_exhausted(),
        changes_without_effect: simulation.payroll().without_effect,
        failures: failures(scenario, &simulation),
        is_overfull: end == End::Overfull,
    }
}

/// What came of the autoscalers, if there are any.
fn scaling(scenario: &Scenario, simulation: &Simulation<impl Source>) -> Option<Scaling> {
    if scenario.cluster.scalers.is_empty() {
        return None;
    }
    let Payroll {
        paid,
        started,
        cancelled,
        drained,
        ..
    } = simulation.payroll();
    let mut replica_s = vec![0.0; scenario.pools.len()];
    for (pool, paid) in scenario.pool_of_each().into_iter().zip(paid) {
        replica_s[pool as usize] += paid.seconds();
    }
    let mut serving = 0;
    let in_service = simulation.service().iter().map(|&(at, more)| {
        serving += more;
        (at.seconds(), serving.unsigned_abs())
    });
    Some(Scaling {
        in_service: in_service.collect(),
        replica_s,
        started,
        cancelled,
        drained,
    })
}

/// What is promised to each class: limits of its own, or those of all.
#[must_use]
pub fn class_limits(scenario: &Scenario, of_all: SloLimits) -> Vec<SloLimits> {
    let limits = |class: &Class| match class.promise {
        promise if promise == Promise::default() => of_all,
        Promise { ttft, tpot, e2el } => SloLimits { ttft, tpot, e2el },
    };
    scenario.workload.classes.iter().map(limits).collect()
}

/// Why a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The traffic ended, or the precision was reached.
    Regular,
    /// The caller had enough.
    Interrupted,
    /// Sequences preempt each other for ever.
    Livelocked,
    /// A closed loop is refused and sends again for ever.
    RefusedForEver,
    /// The clock can show no later instants.
    ClockEnded,
    /// More are inside than are held in memory.
    Overfull,
}

/// Simulates until the traffic ends, the caller stops it or the precision is reached.
fn advance<S: Source>(
    simulation: &mut Simulation<S>,
    seen: &mut Both<'_, impl Books, impl Observer>,
    experiment: &Experiment,
    at_once: Option<u64>,
    load: &impl Fn(&Simulation<S>) -> Load,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> End {
    let mut target = match experiment.stops_when_precise {
        true => experiment.precision.min_requests,
        false => u64::MAX,
    };
    let mut crowd = CROWD;
    let kind = load(simulation).kind;
    loop {
        let until = Until {
            ended: target.min(simulation.counts().ended + STRIDE),
            time: Picos::LAST,
        };
        let pause = simulation.advance_a_while(until, TURNS, seen);
        match pause {
            Pause::Drained => return End::Regular,
            Pause::Livelock => return End::Livelocked,
            Pause::TimeUp => return End::ClockEnded,
            Pause::Breath | Pause::EnoughEnded => {}
        }
        let [refused, _] = simulation.refused_at_once();
        if refused.at == simulation.now() && refusals::is_for_ever(refused, at_once) {
            hear_all(simulation, seen);
            return End::RefusedForEver;
        }
        let ended = simulation.counts().ended;
        let is_lost = experiment.bad_max.is_some_and(|most| {
            let (ended, good) = seen.books.recorder().ended_and_good();
            ended - good > most
        });
        if is_lost || !go_on(ended) {
            hear_all(simulation, seen);
            return End::Interrupted;
        }
        let inside = simulation.counts().sent - ended;
        // Whatever is sent all at once was counted beforehand, and a closed loop holds no more than its limit.
        if inside >= IN_FLIGHT_MAX && matches!(kind, LoadKind::Open | LoadKind::Varying) {
            hear_all(simulation, seen);
            return End::Overfull;
        }
        let is_crowded = experiment.stops_when_precise && inside >= crowd;
        if ended < target && !is_crowded {
            continue;
        }
        if is_crowded {
            hear_all(simulation, seen);
            crowd = crowd.max(inside) * 2;
        }
        let recorder = seen.books.recorder();
        match decide(recorder, load(simulation), &experiment.precision) {
            Decision::Stop(Verdict::Unstable) if ended < experiment.overloaded_min => {
                target = target.max(experiment.overloaded_min);
            }
            Decision::Stop(Verdict::Unstable) => return End::Regular,
            Decision::Continue(more) if ended >= target => target = ended + more,
            Decision::Stop(_) if ended >= target && is_rare(simulation, recorder, experiment) => {
                target = ended * 2;
            }
            Decision::Stop(_) if ended >= target => return End::Regular,
            Decision::Continue(_) | Decision::Stop(_) => {}
        }
    }
}

/// Requests of every client that a run of several has before it stops: what is precise for all together may rest on a loop
/// that sends most of them, and says nothing of a class of which hardly any came.
const OF_A_CLIENT: u64 = 1000;

fn is_rare(simulation: &Simulation<impl Source>, recorder: &Recorder, experiment: &Experiment) -> bool {
    let has_several = simulation.traffic().all_send().is_some();
    let may_go_on = simulation.counts().sent < experiment.precision.max_requests;
    let rarest = recorder.rarest_class().unwrap_or(u64::MAX);
    has_several && may_go_on && rarest < OF_A_CLIENT
}

/// Tells the observers all that happened until now, without going on.
fn hear_all(simulation: &mut Simulation<impl Source>, seen: &mut impl Observer) {
    let reached = Until {
        ended: simulation.counts().ended,
        time: Picos::MAX,
    };
    simulation.advance(reached, seen);
}

fn load(kind: LoadKind, scenario: &Scenario, span_s: f64, simulation: &Simulation<impl Source>) -> Load {
    let cycle_s = cycle_s(&scenario.workload);
    Load {
        kind,
        output_tokens: simulation.traffic().mean_output_tokens(),
        all_send: simulation.traffic().all_send(),
        fresh_until: simulation.traffic().fresh_until(),
        span_s,
        is_disturbed: cycle_s > 0.0 || (span_s > 0.0 && failures(scenario, simulation) != Some(0)),
        cycle_s,
        servers_change: kind == LoadKind::Varying && LoadKind::of(&scenario.workload) == LoadKind::Open,
        users: Thinkers::of(&scenario.workload),
        conversations: Conversations::of(&scenario.workload),
    }
}

/// How often a replica ceased to serve; unknown where an order or an autoscaler may have stopped it, or nobody tells.
fn failures(scenario: &Scenario, simulation: &Simulation<impl Source>) -> Option<u64> {
    let cluster = &scenario.cluster;
    let service = simulation.service();
    let is_told = cluster.scalers.is_empty() && cluster.changes.is_empty() && !service.is_empty();
    let ceased = || service.iter().filter(|(_, more)| *more < 0).count() as u64;
    is_told.then(ceased)
}

/// A run that was ended because too many were inside is overloaded, whatever else it shows.
fn overfull(result: &mut RunResult) {
    if result.verdict != Verdict::Unstable {
        // What else was said is said of a run that is too short for it.
        result.reasons.clear();
        let span_s = result.whole.duration_s.max(f64::MIN_POSITIVE);
        result.growth_per_s = result.whole.inside as f64 / span_s;
    }
    (result.verdict, result.steady, result.steady_window_s) = (Verdict::Unstable, None, None);
    result.intervals.clear();
    result.class_attainment.clear();
    let reason = format!(
        "{IN_FLIGHT_MAX} requests are inside after {:.3} s, as many as are held in memory ({:.1} GB): the run was ended there",
        result.whole.duration_s,
        (IN_FLIGHT_MAX * IN_FLIGHT_BYTES) as f64 / 1e9,
    );
    result.reasons.insert(0, reason);
}

/// What to say of a run that reached its longest length before its precision.
fn gave_up(result: &RunResult, experiment: &Experiment) -> Option<String> {
    let Precision {
        relative,
        max_requests,
        attainment,
        ..
    } = experiment.precision;
    let is_longest = result.whole.sent >= max_requests && result.steady.is_some();
    (experiment.stops_when_precise && is_longest).then(|| {
        let promise = attainment.map_or("", |_| ", or did not decide on the SLO");
        format!(
            "{max_requests} requests did not bring every mean latency within {} %{promise}; give --num-prompts for more",
            relative * 100.0
        )
    })
}
