//! What a fleet of so many replicas is loaded with and costs.
//!
//! Replicas are counted by simulating them ([`super::count`]). Where that cannot be done it is `N = ⌈R / knee⌉`, with the interval of
//! the knee carried through: every replica is then taken to get `R / N`, with the same law of arrivals as the one that was
//! simulated. For Poisson arrivals that is on the safe side: strict round robin gives each replica Erlang gaps, which are smoother,
//! and a router that looks at loads evens them out further. Arrivals in bursts it counts far too many for, since every replica is
//! taken to have bursts of its own.
//!
//! What the model's doubt makes of a number is the number for a knee so much lower, or higher ([`scales`]).

use super::count::{Count, CountEnding};
use crate::analysis::Estimate;
use crate::analysis::costs::usd_per_million;

/// What a fleet must carry, and what its GPUs cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Requests per second in all.
    pub rate: f64,
    /// GPUs of one replica.
    pub gpus_per_replica: u32,
    /// US dollars per GPU-hour, if known.
    pub usd_per_gpu_hour: Option<f64>,
}

/// Users of a closed loop, or requests that it keeps in flight, whom replicas are counted for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// How many.
    pub number: u32,
    /// Users, who think between an answer and the next request.
    pub is_users: bool,
    /// Mean of their think time in seconds; 0 of requests in flight.
    pub think_s: f64,
}

impl Loop {
    /// Requests per second that all of them send while an answer takes so many seconds: Little's law of a closed loop, `N = λ(Z + R)`.
    #[must_use]
    pub fn rate(&self, answer_s: f64) -> f64 {
        f64::from(self.number) / (self.think_s + answer_s)
    }
}

/// Replicas of one kind that carry a [`Demand`] within the SLO.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// How many, the spares among them.
    pub replicas: u64,
    /// Those of them that may be lost, beyond the fewest that carry the demand.
    pub spares: u64,
    /// Replicas that the demand needs at most, as a real number: between the last number that does not meet the SLO and the first that
    /// does, where the slack of both crosses zero.
    pub needed: f64,
    /// What tells that.
    pub needed_by: NeededBy,
    /// The ends of its 95 % interval, fewest first; `None` where the interval has no upper end.
    pub replicas_95: (u64, Option<u64>),
    /// At the two ends of the model's 90 % interval, fewest first; `None` where that is not known, and at the slow end where the
    /// knee there [does not scale](scales).
    pub replicas_model_90: Option<(u64, Option<u64>)>,
    /// GPUs in all.
    pub gpus: u64,
    /// Requests per second of one replica.
    pub rate_each: f64,
    /// That rate as a share of the knee of one alone: above 1 where together they take more than each by itself. `None` where one
    /// alone meets the SLO at no rate.
    pub load: Option<f64>,
    /// The same with one replica less; `None` where there is but one.
    pub load_one_lost: Option<f64>,
    /// US dollars per hour.
    pub usd_per_hour: Option<f64>,
    /// US dollars per million output tokens at the demanded rate.
    pub usd_per_million_output_tokens: Option<f64>,
    /// US dollars per million tokens, prompts and outputs together.
    pub usd_per_million_tokens: Option<f64>,
}

/// What tells how many replicas are needed, as a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    /// The knee of one alone: of what one replica carries with ease simulating several tells nothing else.
    KneeOfOne,
    /// The runs of the last number that does not meet the SLO and of the first that does, where their slack crosses zero.
    Fleet,
    /// Nothing: no more is known than that so many are enough and one less is not.
    AtMost,
}

/// Share of a knee down to which it may be off and still say how many replicas a rate needs.
const SCALES_FROM: f64 = 0.5;

/// Whether a rate needs as many more replicas as the model's doubt makes a knee smaller by this `factor`. One that loses more is held
/// down by its SLO: what a request takes alone in a server is near the limit, and no number of replicas makes up for that.
#[must_use]
pub fn scales(factor: f64) -> bool {
    factor >= SCALES_FROM
}

/// How many are needed where more than `above` and at most `up_to` are for a knee that may be off by these factors, down and up.
fn at_model_ends((low, high): (f64, f64), (above, up_to): (f64, f64)) -> (u64, Option<u64>) {
    (whole(above / high), scales(low).then(|| whole(up_to / low)))
}

/// A rate that is a whole multiple of the knee but for rounding needs no further replica.
const ROUNDING: f64 = 1e-9;

impl Fleet {
    /// By the knee of one replica. `tokens_each` are the mean prompt and output tokens of a request, `model_factors` the two
    /// factors on the knee that the step time's uncertainty allows.
    #[must_use]
    pub fn by_knee(
        knee: Estimate,
        demand: &Demand,
        tokens_each: Option<(f64, f64)>,
        model_factors: Option<(f64, f64)>,
    ) -> Fleet {
        let needed = |knee: f64| whole(demand.rate / knee);
        let exactly = demand.rate / knee.value;
        Fleet {
            replicas_95: (needed(knee.high), (knee.low > 0.0).then(|| needed(knee.low))),
            replicas_model_90: model_factors.map(|factors| at_model_ends(factors, (exactly, exactly))),
            needed: exactly,
            needed_by: NeededBy::KneeOfOne,
            ..Fleet::of(whole(exactly), Some(knee.value), demand, tokens_each)
        }
    }

    /// By simulating so many; `None` where the count found no number. `knee` is that of one alone, if it has one, and
    /// `model_factors` are taken to act on what several carry as they act on it. Where each gets a rate at which one alone may
    /// be past `saturation`, the run tells no more than its length, and the interval reaches to where it surely is not.
    #[must_use]
    pub fn by_count(
        count: &Count,
        (knee, saturation): (Option<f64>, Option<Estimate>),
        demand: &Demand,
        tokens_each: Option<(f64, f64)>,
        model_factors: Option<(f64, f64)>,
    ) -> Option<Fleet> {
        let CountEnding::Found {
            replicas,
            fewest,
            most,
        } = count.ending
        else {
            return None;
        };
        let (above, up_to, by) = needed(count, replicas, knee.map(|knee| demand.rate / knee));
        let each = demand.rate / replicas as f64;
        let unsure = saturation.filter(|rate| rate.low > 0.0 && (rate.low..=rate.high).contains(&each));
        let surely = unsure.map_or(0, |rate| whole(demand.rate / rate.low).max(replicas + 1));
        Some(Fleet {
            replicas_95: (fewest, most.map(|most| most.max(surely))),
            replicas_model_90: model_factors.map(|factors| at_model_ends(factors, (above, up_to))),
            needed: up_to,
            needed_by: by,
            ..Fleet::of(replicas, knee, demand, tokens_each)
        })
    }

    /// The same with so many more beside it, which are paid and share the demand.
    #[must_use]
    pub fn with_spares(self, spares: u64) -> Fleet {
        if spares == 0 {
            return self;
        }
        let replicas = self.replicas + spares;
        let grown = replicas as f64 / self.replicas as f64;
        let ends = |(fewest, most): (u64, Option<u64>)| (fewest + spares, most.map(|most| most + spares));
        let load = self.load.map(|load| load / grown);
        Fleet {
            replicas,
            spares: self.spares + spares,
            replicas_95: ends(self.replicas_95),
            replicas_model_90: self.replicas_model_90.map(ends),
            gpus: self.gpus / self.replicas * replicas,
            rate_each: self.rate_each / grown,
            load,
            load_one_lost: load
                .filter(|_| replicas > 1)
                .map(|load| load * replicas as f64 / (replicas - 1) as f64),
            usd_per_hour: self.usd_per_hour.map(|usd| usd * grown),
            usd_per_million_output_tokens: self.usd_per_million_output_tokens.map(|usd| usd * grown),
            usd_per_million_tokens: self.usd_per_million_tokens.map(|usd| usd * grown),
            ..self
        }
    }

    /// The demand over what the replicas carry within the SLO, once so many of them are lost; `None` where none is left.
    #[must_use]
    pub fn demand_on_capacity(&self, lost: u64) -> Option<f64> {
        (self.replicas > lost).then(|| self.needed / (self.replicas - lost) as f64)
    }

    /// Whether those that are left when one is lost meet the SLO: they are as many as were found to.
    #[must_use]
    pub fn survives_a_failure(&self) -> bool {
        self.spares > 0
    }

    /// So many replicas, of which no interval is known.
    fn of(replicas: u64, knee: Option<f64>, demand: &Demand, tokens_each: Option<(f64, f64)>) -> Fleet {
        let gpus = replicas * u64::from(demand.gpus_per_replica);
        let load = |replicas: u64| Some(demand.rate / replicas as f64 / knee?);
        let usd_per_hour = demand.usd_per_gpu_hour.map(|usd| usd * gpus as f64);
        let per_million = |tokens: f64| usd_per_million(usd_per_hour?, demand.rate * tokens);
        Fleet {
            replicas,
            spares: 0,
            needed: replicas as f64,
            needed_by: NeededBy::AtMost,
            replicas_95: (replicas, None),
            replicas_model_90: None,
            gpus,
            rate_each: demand.rate / replicas as f64,
            load: load(replicas),
            load_one_lost: (replicas > 1).then(|| load(replicas - 1)).flatten(),
            usd_per_hour,
            usd_per_million_output_tokens: tokens_each.and_then(|(_, output)| per_million(output)),
            usd_per_million_tokens: tokens_each.and_then(|(input, output)| per_million(input + output)),
        }
    }
}

fn whole(replicas: f64) -> u64 {
    (replicas - ROUNDING).ceil().max(1.0) as u64
}

/// How many are needed as a real number, between one that does not meet the SLO and the next that does: where their slacks
/// cross zero, or the two themselves where the lesser has none. Nor more than each would carry `alone`: of what one replica carries
/// with ease the count tells nothing else. More than the first, and at most the second.
fn needed(count: &Count, replicas: u64, alone: Option<f64>) -> (f64, f64, NeededBy) {
    let slack = |replicas: u64| Some(count.crew(replicas)?.point.slack?.value);
    let (below, above) = (replicas as f64 - 1.0, replicas as f64);
    let (from, up_to, by) = match slack(replicas - 1).zip(slack(replicas)) {
        Some((lacks, has)) if lacks < 0.0 => {
            let at = below + lacks / (lacks - has);
            (at, at, NeededBy::Fleet)
        }
        // More than `below`, by more than rounding takes away.
        _ => (below + 1e3 * ROUNDING, above, NeededBy::AtMost),
    };
    match alone {
        Some(alone) if alone > below && alone < up_to => (from.min(alone), alone, NeededBy::KneeOfOne),
        _ => (from, up_to, by),
    }
}

#[cfg(test)]
mod tests {
    use super::super::count::Crew;
    use super::super::search::tests::exact;
    use super::*;

    #[test]
    fn replicas_and_dollars_follow_from_the_knee_of_one() {
        let knee = Estimate {
            value: 10.0,
            low: 8.5,
            high: 12.0,
        };
        let of = |rate: f64| {
            let demand = Demand {
                rate,
                gpus_per_replica: 2,
                usd_per_gpu_hour: Some(3.0),
            };
            Fleet::by_knee(knee, &demand, Some((1000.0, 100.0)), Some((0.5, 2.0)))
        };
        let fleet = of(35.0);
        assert_eq!((fleet.replicas, fleet.gpus), (4, 8));
        assert_eq!(
            (fleet.replicas_95, fleet.replicas_model_90),
            ((3, Some(5)), Some((2, Some(7))))
        );
        assert_eq!((fleet.rate_each, fleet.load), (8.75, Some(0.875)));
        assert!((fleet.load_one_lost.unwrap() - 3.5 / 3.0).abs() < 1e-12);
        // 24 $ buy an hour of 35 requests a second: 12.6 million output tokens, 138.6 million in all.
        assert_eq!(fleet.usd_per_hour, Some(24.0));
        assert!((fleet.usd_per_million_output_tokens.unwrap() - 24.0 / 12.6).abs() < 1e-12);
        assert!((fleet.usd_per_million_tokens.unwrap() - 24.0 / 138.6).abs() < 1e-12);
        let open = Estimate { low: 0.0, ..knee };
        let demand = Demand {
            rate: 35.0,
            gpus_per_replica: 1,
            usd_per_gpu_hour: None,
        };
        let of_open = Fleet::by_knee(open, &demand, None, None);
        assert_eq!(of_open.replicas_95, (3, None), "not known from below");
        assert_eq!(of(30.0).replicas, 3, "a whole multiple needs no further one");
        assert_eq!((of(0.1).replicas, of(0.1).load_one_lost), (1, None));
    }

    /// 3.5 replicas at the predicted knee: of one that is held down by its SLO no number is told.
    #[test]
    fn a_knee_of_less_than_half_tells_no_number_of_replicas() {
        let ends = |low: f64| at_model_ends((low, 2.0), (3.5, 3.5));
        assert_eq!(ends(0.5), (2, Some(7)));
        assert_eq!(ends(0.49), (2, None));
        assert_eq!(ends(0.1), (2, None));
    }

    #[test]
    fn a_spare_is_paid_and_takes_the_place_of_one_that_is_lost() {
        let knee = Estimate {
            value: 10.0,
            low: 8.5,
            high: 12.0,
        };
        let demand = Demand {
            rate: 35.0,
            gpus_per_replica: 2,
            usd_per_gpu_hour: Some(3.0),
        };
        let bare = Fleet::by_knee(knee, &demand, Some((1000.0, 100.0)), Some((0.5, 2.0)));
        assert_eq!(
            (bare.survives_a_failure(), bare.demand_on_capacity(0)),
            (false, Some(0.875))
        );
        assert_eq!(bare.demand_on_capacity(4), None);
        let safe = bare.clone().with_spares(1);
        assert_eq!((safe.replicas, safe.gpus, safe.spares), (5, 10, 1));
        assert_eq!((safe.replicas_95, safe.usd_per_hour), ((4, Some(6)), Some(30.0)));
        assert!(safe.survives_a_failure());
        assert_eq!(safe.demand_on_capacity(1), bare.demand_on_capacity(0));
        assert!((safe.load.unwrap() - 0.7).abs() < 1e-12);
        assert!((safe.load_one_lost.unwrap() - 0.875).abs() < 1e-12);
        assert_eq!(bare.clone().with_spares(0), bare);
    }

    #[test]
    fn users_send_as_often_as_they_think_and_wait() {
        let users = Loop {
            number: 2_000,
            is_users: true,
            think_s: 45.0,
        };
        assert!((users.rate(2.5) - 2_000.0 / 47.5).abs() < 1e-12);
    }

    #[test]
    fn a_fleet_that_was_counted_may_carry_more_than_its_parts() {
        let crew = |replicas: u64, slack: Option<f64>| {
            let exactly = |value| Estimate {
                value,
                low: value,
                high: value,
            };
            let mut point = exact(1.0);
            point.slack = slack.map(exactly);
            Crew { replicas, point }
        };
        let count = |below: Option<f64>| Count {
            ending: CountEnding::Found {
                replicas: 5,
                fewest: 4,
                most: Some(6),
            },
            tried: vec![crew(4, below), crew(5, Some(0.01))],
        };
        let demand = Demand {
            rate: 100.0,
            gpus_per_replica: 2,
            usd_per_gpu_hour: None,
        };
        let alone = (Some(10.0), None);
        let of = |below| Fleet::by_count(&count(below), alone, &demand, None, Some((0.5, 2.0))).unwrap();
        let fleet = of(Some(-0.01));
        assert_eq!(
            (fleet.needed_by, of(None).needed_by),
            (NeededBy::Fleet, NeededBy::AtMost)
        );
        assert_eq!((fleet.replicas, fleet.gpus), (5, 10));
        assert_eq!(fleet.replicas_95, (4, Some(6)));
        assert_eq!(
            (fleet.load, fleet.load_one_lost),
            (Some(2.0), Some(2.5)),
            "of one alone"
        );
        // 4.5 are needed: at twice the speed 2.25, at half of it 9.
        assert_eq!(fleet.replicas_model_90, Some((3, Some(9))));
        assert_eq!(
            of(None).replicas_model_90,
            Some((3, Some(10))),
            "more than 4, and at most 5"
        );
        // A twentieth of what one carries: one does at half the speed, too.
        let idle = Count {
            ending: CountEnding::Found {
                replicas: 1,
                fewest: 1,
                most: Some(1),
            },
            tried: vec![crew(1, Some(0.01))],
        };
        let little = Demand {
            rate: 0.5,
            ..demand.clone()
        };
        let fleet = Fleet::by_count(&idle, alone, &little, None, Some((0.5, 2.0))).unwrap();
        assert_eq!(fleet.replicas_model_90, Some((1, Some(1))));
        assert_eq!((fleet.needed, fleet.needed_by), (0.05, NeededBy::KneeOfOne));
        let none = Count {
            ending: CountEnding::TooMany,
            ..count(None)
        };
        assert_eq!(Fleet::by_count(&none, (None, None), &demand, None, None), None);
        // Each of 5 gets 20 of 100: one alone may be past saturation there, and is not at a sixth of them.
        let most = |low: f64, high: f64| {
            let saturation = Estimate {
                value: 20.5,
                low,
                high,
            };
            let fleet = Fleet::by_count(&count(None), (Some(20.4), Some(saturation)), &demand, None, None);
            fleet.unwrap().replicas_95.1
        };
        assert_eq!(most(19.0, 21.0), Some(6));
        assert_eq!(most(14.0, 21.0), Some(8));
        assert_eq!(
            most(20.1, 21.0),
            most(8.0, 9.0),
            "surely below it, or together more than one alone"
        );
    }
}
