//! The queue of the books that a run is, where it is exactly one, and its closed form.
//!
//! One sequence at a time and Poisson arrivals are M/G/1, whatever its steps (`closed_form/single_server.rs`). Else only an ideal
//! server is one: its steps last what was said. With steps of one length every place serves by itself, and answers without memory make it
//! M/M/c (Erlang 1917); steps that last as long as they have tokens share one processor among all who are inside, whose mean response time
//! does not depend on the law of the answers (Kleinrock 1976, "Queueing Systems" II, 4.4); users who think make either of them a finite
//! source (the machine repairman; Kleinrock 1975, I, 3.8). These are births and deaths (`closed_form/birth_death.rs`). Prompts of one
//! token, so that an answer of n tokens takes n steps.
//!
//! The mean service time and the load are the run's own, by Little's law on the server, so that what is compared is the law and not the
//! draw. Left out: that whoever comes waits for the end of the step under way, half a step on average; answers of fewer than
//! 20 tokens on average, of which that is no small part, have no closed form here.

mod birth_death;
mod single_server;

use self::birth_death::Seen;
use self::single_server::SingleServer;
use super::{RunResult, Verdict};
use crate::cost::linear::LinearCost;
use crate::engine::sglang::QueuePolicy;
use crate::engine::{EngineSpec, Policy};
use crate::metrics::Summary;
use crate::sim::Scenario;
use crate::units::Picos;
use crate::workload::{Arrivals, Lengths, MemorylessLength, Prefix, WorkloadSpec};

/// Steps of a mean service, from which on half a step is small.
const STEPS_MIN: f64 = 20.0;

/// What the books say of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedForm {
    /// Its name: `M/M/4`.
    pub queue: String,
    /// How it is found, in symbols.
    pub formula: &'static str,
    /// What must be known of that, to stand behind its value.
    pub note: &'static str,
    /// Load of a server, ρ.
    pub utilisation: f64,
    /// Mean service time in seconds, as the run had it.
    pub service_s: f64,
    /// Its coefficient of variation, where the law needs it.
    pub service_cv: Option<f64>,
    /// Mean wait in seconds; `None` where nobody waits and all are served at once.
    pub wait_s: Option<f64>,
    /// Mean response time in seconds, wait and service: what one is inside.
    pub response_s: f64,
    /// Requests per second, where the queue decides them and not what is offered.
    pub per_s: Option<f64>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClosedForm {
    /// Several replicas, or pools.
    SeveralServers,
    /// The engine serves in another order than that of arrival, or sleeps between its passes.
    NotAsTheyCome,
    /// Steps that last the longer the more is in them, and places for several.
    Machine,
    /// An ideal server whose steps last some time and some more for what is in them.
    MixedSteps,
    /// Classes, shared prefixes, clients that leave or hold back, or prompts of several tokens.
    NotPlain,
    /// Neither Poisson arrivals nor users who think.
    Arrivals,
    /// Answers that remember how long they have been, or are so short that half a step counts.
    Lengths,
    /// What the run itself has: a queue that grows, too little to be steady, lost requests, or no place for all that share a processor.
    Run,
}

impl NoClosedForm {
    /// In words, to stand behind what has none.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            NoClosedForm::SeveralServers => "several servers share what comes, and the books have one queue",
            NoClosedForm::NotAsTheyCome => {
                "the server serves in another order than that of arrival, or decides steps ahead (--no-async-scheduling does not)"
            }
            NoClosedForm::Machine => {
                "a step lasts the longer the more sequences are in it: an ideal server (--step-time 1ms), or one sequence at a time \
                 (--max-num-seqs 1), is a queue of the books"
            }
            NoClosedForm::MixedSteps => {
                "a step lasts some time and some more for each token: one of both (--step-time 1ms, or 1ms/token) is a queue of the books"
            }
            NoClosedForm::NotPlain => {
                "classes, shared prefixes, clients that leave or hold requests back, or prompts of more than one token are in no queue of the books"
            }
            NoClosedForm::Arrivals => "what comes is neither Poisson nor of users who think",
            NoClosedForm::Lengths => {
                "answers are not without memory, or of fewer than 20 tokens on average ([workload.lengths.geometric] has such)"
            }
            NoClosedForm::Run => {
                "the run does not tell enough: its queue grows, it is too short to be steady, requests are lost, or a shared processor was full"
            }
        }
    }
}

/// A queue of the books.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Queue {
    /// M/G/1.
    SingleServer,
    /// M/M/c.
    Servers(u32),
    /// M/G/1-PS, with room for so many.
    Shared(u32),
    /// So many users who think, of a mean in seconds.
    Finite {
        users: u32,
        think_s: f64,
        servers: u32,
        serves: Serves,
    },
}

/// Who is inside is served by as many as there are places, or all by one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Serves {
    Each,
    Shared,
}

/// Why a scenario is no queue of the books, whatever its run; `None` of one that is. `steps` is how long the steps of an ideal server last.
#[must_use]
pub fn no_queue(scenario: &Scenario, steps: Option<LinearCost>) -> Option<NoClosedForm> {
    queue(scenario, steps).err()
}

/// What the closed form says of a run.
///
/// # Errors
/// Why it has none.
pub fn closed_form(
    scenario: &Scenario,
    steps: Option<LinearCost>,
    result: &RunResult,
) -> Result<ClosedForm, NoClosedForm> {
    let queue = queue(scenario, steps)?;
    let stretch = result.steady.as_ref().unwrap_or(&result.whole);
    of_run(queue, stretch, result).ok_or(NoClosedForm::Run)
}

/// The queue that a scenario is.
fn queue(scenario: &Scenario, steps: Option<LinearCost>) -> Result<Queue, NoClosedForm> {
    let (pool, workload) = (scenario.first_pool(), &scenario.workload);
    if scenario.pools.len() > 1 || pool.replicas > 1 {
        return Err(NoClosedForm::SeveralServers);
    }
    let places = pool.engine.max_num_seqs();
    if places > 1 && steps.is_none() {
        return Err(NoClosedForm::Machine);
    }
    if !serves_as_they_come(&pool.engine) {
        return Err(NoClosedForm::NotAsTheyCome);
    }
    let is_poisson = matches!(workload.arrivals, Arrivals::Poisson { .. });
    if places == 1 && is_poisson && workload.client.max_concurrency.is_none() {
        return Ok(Queue::SingleServer);
    }
    let serves = serves(&steps.ok_or(NoClosedForm::Machine)?).ok_or(NoClosedForm::MixedSteps)?;
    if !is_plain(workload) {
        return Err(NoClosedForm::NotPlain);
    }
    let forgets = matches!(
        &workload.lengths,
        Lengths::Memoryless { output: MemorylessLength::Drawn { mean, .. }, .. } if *mean >= STEPS_MIN
    );
    if serves == Serves::Each && !forgets {
        return Err(NoClosedForm::Lengths);
    }
    match (&workload.arrivals, serves) {
        (Arrivals::Poisson { .. }, Serves::Each) => Ok(Queue::Servers(places)),
        (Arrivals::Poisson { .. }, Serves::Shared) => Ok(Queue::Shared(places)),
        // Without a time to think they are always inside, and the law is no finite source's.
        (Arrivals::Users { users, think_time }, _) if *think_time > Picos::ZERO => match serves {
            Serves::Shared if *users > places => Err(NoClosedForm::Run),
            _ => Ok(Queue::Finite {
                users: *users,
                think_s: think_time.seconds(),
                servers: if serves == Serves::Each { places } else { 1 },
                serves,
            }),
        },
        _ => Err(NoClosedForm::Arrivals),
    }
}

/// What a run of that queue says of its server, put into the closed form; `None` where that is too little.
fn of_run(queue: Queue, stretch: &Summary, result: &RunResult) -> Option<ClosedForm> {
    if stretch.lost() > 0 || result.verdict == Verdict::Unstable {
        return None;
    }
    let is_steady = result.verdict == Verdict::Stable;
    let seen = |serves| Seen::of(stretch, serves);
    match queue {
        Queue::SingleServer => {
            let steady = result.steady.as_ref().filter(|_| is_steady)?;
            SingleServer::of(steady).map(SingleServer::closed_form)
        }
        Queue::Servers(places) => seen(Serves::Each).filter(|_| is_steady)?.many_servers(places),
        Queue::Shared(places) => {
            let has_room = stretch.occupancy.running_max < places;
            seen(Serves::Shared).filter(|_| is_steady && has_room)?.shared()
        }
        Queue::Finite {
            users,
            think_s,
            servers,
            serves,
        } => Some(seen(serves)?.finite(users, think_s, servers, serves)),
    }
}

/// First come, first served; of a scheduler of one's own nobody knows.
fn serves_as_they_come(engine: &EngineSpec) -> bool {
    match engine {
        // A loop that decides ahead sleeps between its passes, and who comes meanwhile waits for no server.
        EngineSpec::Vllm(config) => config.policy == Policy::Fcfs && !config.is_asynchronous(),
        EngineSpec::Sglang(config) => config.policy == QueuePolicy::Fcfs && !config.overlap_schedule,
        EngineSpec::Trtllm(_) => true,
        EngineSpec::Scheduled(_) => false,
    }
}

/// One stream of prompts of one token, of whom each is served until it is done.
fn is_plain(workload: &WorkloadSpec) -> bool {
    workload.classes.is_empty()
        && workload.prefix == Prefix::None
        && workload.endings.is_none()
        && workload.client.max_concurrency.is_none()
        && workload.lengths.constants().0 == Some(1)
}

/// How steps of so long serve; `None` of those that do neither.
fn serves(steps: &LinearCost) -> Option<Serves> {
    let [per_step, per_token, per_pair] = steps.seconds();
    match (per_step > 0.0, per_token > 0.0, per_pair > 0.0) {
        (true, false, false) => Some(Serves::Each),
        (false, true, false) => Some(Serves::Shared),
        _ => None,
    }
}
