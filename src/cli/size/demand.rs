//! What is wanted: a rate, or a closed loop of users who think or of requests in flight; where it is from, and how much more than
//! that is bought for.

use super::super::knee::Wanted;
use super::Args;
use crate::analysis::knee::Loop;
use crate::config::{Diagnostic, Diagnostics, Place, Resolved};
use crate::report::figures::{count, significant};
use crate::report::purchases::DemandView;
use crate::units::Picos;
use crate::workload::{self, Arrivals, Request, mean_rate};

/// The smallest rate that is bought for, requests per second: below it dollars per token say nothing.
const RATE_MIN: f64 = 1e-6;
/// Most users or requests in flight: a run of twenty answers each takes a minute.
const LOOP_MAX: u32 = 100_000;
/// Most times as much as is asked for.
const HEADROOM_MAX: f64 = 100.0;

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// Requests per second, the headroom in it; of a closed loop what it would send if answers took no time, or one second where nobody
    /// thinks.
    pub(super) rate: f64,
    /// The closed loop, if it is one, the headroom in it.
    pub(super) of_loop: Option<Loop>,
    /// Factor on what was asked for.
    pub(super) headroom: f64,
    /// Who asked for it.
    source: Source,
    /// Most that the client of a rate has in flight.
    pub(super) in_flight_max: Option<u32>,
    /// Requests per second in the busiest minute of a trace, the headroom in it.
    busiest: Option<f64>,
}

/// Who says how much is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    ForRate,
    RequestRate,
    Trace,
    Scenario,
    Loop,
}

/// What is wrong with the flags of the demand by themselves.
pub(super) fn problems(args: &Args) -> Vec<Diagnostic> {
    let flag = |flag: &str, message: String| Diagnostic::new(message).at(Place::Flag(flag.to_owned()));
    let mut problems = Vec::new();
    if let Some(rate) = args
        .for_rate
        .filter(|rate| !(rate.is_finite() && (RATE_MIN..=1e9).contains(rate)))
    {
        let message = format!("--for-rate {rate} is not a rate from 1e-6 to 1e9 requests per second");
        problems.push(flag("--for-rate", message));
    }
    let is_right = |headroom: &f64| (1.0..=HEADROOM_MAX).contains(headroom);
    if let Some(headroom) = args.headroom.filter(|headroom| !is_right(headroom)) {
        let message = format!("--headroom {headroom} is not a factor from 1 to {HEADROOM_MAX}");
        problems.push(flag("--headroom", message).help("1.25 buys for a quarter more than is asked for"));
    }
    let traffic = &args.scenario.traffic;
    if args.for_rate.is_some() && traffic.users.is_some() {
        let message = "--for-rate and --users are two demands".to_owned();
        problems.push(flag("--for-rate", message).help("leave one of the two out"));
    } else if args.for_rate.is_some() && traffic.request_rate.is_some() {
        let message = "--for-rate and --request-rate are two demands".to_owned();
        problems.push(
            flag("--for-rate", message)
                .help("leave one of the two out: both are requests per second to buy for"),
        );
    }
    problems
}

impl Demand {
    /// That of a setting's traffic; `lacks_rate` where nobody gave a rate.
    ///
    /// # Errors
    /// None, or more than is simulated.
    pub(super) fn of(args: &Args, resolved: &Resolved, lacks_rate: bool) -> Result<Demand, Diagnostics> {
        let headroom = args.headroom.unwrap_or(1.0);
        let spec = &resolved.scenario.workload;
        let of_loop = closed(resolved, headroom)?;
        if let Some(of_loop) = of_loop {
            if let Some(rate) = args.for_rate {
                let problem = Diagnostic::new(
                    "--for-rate is a demand, and so are the requests in flight of a closed loop",
                );
                let problem = problem
                    .at(Place::Flag("--for-rate".to_owned()))
                    .help("leave one of the two out");
                let open = format!(
                    "or give --request-rate {rate} in its place: then --max-concurrency is a limit on who send at that rate"
                );
                return Err(match of_loop.is_users {
                    true => problem.into(),
                    false => problem.help(open).into(),
                });
            }
            if args.disaggregated {
                return Err(no_pools().into());
            }
            return Ok(Demand {
                rate: of_loop.rate(if of_loop.think_s > 0.0 { 0.0 } else { 1.0 }),
                of_loop: Some(of_loop),
                headroom,
                source: Source::Loop,
                in_flight_max: None,
                busiest: None,
            });
        }
        let own = mean_rate(spec).filter(|_| !lacks_rate);
        let source = match (args.for_rate, &spec.arrivals) {
            (Some(_), _) => Source::ForRate,
            _ if args.scenario.traffic.request_rate.is_some() => Source::RequestRate,
            (_, Arrivals::Replay { .. }) => Source::Trace,
            _ => Source::Scenario,
        };
        let Some(asked) = args.for_rate.or(own) else {
            return Err(none().into());
        };
        let rate = asked * headroom;
        let busiest = match (&spec.arrivals, own) {
            (Arrivals::Replay { requests, time_scale }, Some(own)) => {
                busiest_minute(requests, time_scale * own / rate)
            }
            _ => None,
        };
        Ok(Demand {
            rate,
            of_loop: None,
            headroom,
            source,
            in_flight_max: spec.client.max_concurrency,
            busiest,
        })
    }

    /// The question to each replica.
    pub(super) fn wanted(&self, spares: u64) -> Wanted {
        Wanted {
            rate: self.rate,
            of_loop: self.of_loop,
            spares,
            asker: "size",
        }
    }

    /// As a report has it.
    pub(super) fn told(&self) -> DemandView {
        DemandView {
            rate: self.of_loop.is_none().then_some(self.rate),
            of_loop: self.of_loop,
            in_flight_max: self.in_flight_max,
            headroom: self.headroom,
            source: self.source(),
        }
    }

    fn source(&self) -> String {
        let busiest = self.busiest.map_or(String::new(), |busiest| {
            format!(", whose busiest minute has {} req/s", significant(busiest))
        });
        let of = match self.source {
            Source::ForRate => "as --for-rate says".to_owned(),
            Source::RequestRate => "as --request-rate says".to_owned(),
            Source::Trace => "the trace's own mean".to_owned(),
            Source::Scenario => "the scenario's own".to_owned(),
            Source::Loop => return String::new(),
        };
        of + &busiest
    }
}

fn no_pools() -> Diagnostic {
    Diagnostic::new("--disaggregated counts prefill and decode replicas for a rate, and a closed loop has none of its own")
        .at(Place::Flag("--disaggregated".to_owned()))
        .help("give --for-rate: N users who think for Z and wait for R send N / (Z + R) requests per second")
}

fn none() -> Diagnostic {
    Diagnostic::new("no demand is given: how much is what to buy for?")
        .help("give --for-rate 100 (requests per second in all)")
        .help("or --users 2000 --think-time 45s, or --request-rate inf --max-concurrency 64")
        .help("or --trace FILE, or a scenario, which have a rate of their own")
}

/// The closed loop of a traffic, with so many times as many in it.
///
/// # Errors
/// A client that lets in fewer than its users, and more than are simulated.
fn closed(resolved: &Resolved, headroom: f64) -> Result<Option<Loop>, Diagnostics> {
    let spec = &resolved.scenario.workload;
    let Some(number) = workload::in_flight(spec) else {
        return Ok(None);
    };
    let think = match spec.arrivals {
        Arrivals::Users { think_time, .. } => Some(think_time),
        _ => None,
    };
    if think.is_some() && spec.client.max_concurrency.is_some() {
        let problem = Diagnostic::new(
            "max_concurrency holds users back at their client, where their wait is in no latency: what is bought would hang on it",
        );
        return Err(problem.help("leave it out").into());
    }
    let number = f64::from(number) * headroom;
    if number > f64::from(LOOP_MAX) {
        let problem = Diagnostic::new(format!(
            "a closed loop of {} is more than is simulated, {}",
            count(number as u64),
            count(LOOP_MAX.into())
        ));
        let help = "buy for a part of them: replicas behind a router serve parts of them alike; or give --for-rate: N users who think for Z and \
                    wait for R send N / (Z + R) requests per second";
        return Err(problem.help(help).into());
    }
    Ok(Some(Loop {
        number: number.ceil() as u32,
        is_users: think.is_some(),
        think_s: think.map_or(0.0, Picos::seconds),
    }))
}

/// A setting whose requests come at random where a closed loop sends them, at a rate that a search begins with.
pub(super) fn opened(resolved: &Resolved, start_rate: f64) -> Resolved {
    let mut opened = resolved.clone();
    if workload::in_flight(&resolved.scenario.workload).is_some() {
        opened.scenario.workload = workload::opened(&resolved.scenario.workload, start_rate);
    }
    opened
}

/// Requests per second in the busiest minute of a trace that is stretched so; `None` of one that does not last for several.
fn busiest_minute(requests: &[Request], stretched: f64) -> Option<f64> {
    const MINUTE_S: f64 = 60.0;
    const SEVERAL: f64 = 3.0;
    let at = |request: &Request| request.arrival.seconds() * stretched;
    let (first, last) = (at(requests.first()?), at(requests.last()?));
    if last - first < SEVERAL * MINUTE_S {
        return None;
    }
    let mut from = 0;
    let mut most = 0;
    for (index, request) in requests.iter().enumerate() {
        while at(request) - at(&requests[from]) >= MINUTE_S {
            from += 1;
        }
        most = most.max(index + 1 - from);
    }
    Some(most as f64 / MINUTE_S)
}
