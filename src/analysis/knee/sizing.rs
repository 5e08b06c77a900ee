//! How many replicas a rate needs, by the knee of one.
//!
//! `N = ⌈R / knee⌉`, with the knee's interval carried through. Left out: the router. Every replica is taken to get `R / N`,
//! with the same law of arrivals as the one that was simulated; a router that spreads worse needs more. (Strict round
//! robin of Poisson arrivals gives each replica Erlang gaps, which are smoother: N is then on the safe side.)

use crate::analysis::Estimate;

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

/// Replicas of one kind that carry a [`Demand`] within the promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// `⌈rate / knee⌉`.
    pub replicas: u64,
    /// At the two ends of the knee's 95 % interval, fewest first; `None` where the interval has no lower end.
    pub replicas_95: (u64, Option<u64>),
    /// At the two ends of the model's 90 % interval of the knee, fewest first; `None` where that is not known.
    pub replicas_model_90: Option<(u64, u64)>,
    /// GPUs in all.
    pub gpus: u64,
    /// Requests per second of one replica.
    pub rate_each: f64,
    /// That rate as a share of the knee, at most 1.
    pub load: f64,
    /// The same with one replica less; `None` where there is but one.
    pub load_one_lost: Option<f64>,
    /// US dollars per hour.
    pub usd_per_hour: Option<f64>,
    /// US dollars per million output tokens at the demanded rate.
    pub usd_per_million_output_tokens: Option<f64>,
    /// US dollars per million tokens, prompts and outputs together.
    pub usd_per_million_tokens: Option<f64>,
}

/// Sizes a fleet by the knee of one replica. `tokens_each` are the mean prompt and output tokens of a request,
/// `model_factors` the two factors on the knee that the step time's uncertainty allows.
#[must_use]
pub fn fleet(
    knee: Estimate,
    demand: &Demand,
    tokens_each: Option<(f64, f64)>,
    model_factors: Option<(f64, f64)>,
) -> Fleet {
    /// A rate that is a whole multiple of the knee but for rounding needs no further replica.
    const ROUNDING: f64 = 1e-9;
    let needed = |knee: f64| (demand.rate / knee - ROUNDING).ceil().max(1.0) as u64;
    let replicas = needed(knee.value);
    let gpus = replicas * u64::from(demand.gpus_per_replica);
    let load = |replicas: u64| demand.rate / replicas as f64 / knee.value;
    let usd_per_hour = demand.usd_per_gpu_hour.map(|usd| usd * gpus as f64);
    let per_million = |tokens: f64| Some(usd_per_hour? / (demand.rate * 3600.0 * tokens / 1e6));
    Fleet {
        replicas,
        replicas_95: (needed(knee.high), (knee.low > 0.0).then(|| needed(knee.low))),
        replicas_model_90: model_factors
            .map(|(low, high)| (needed(knee.value * high), needed(knee.value * low))),
        gpus,
        rate_each: demand.rate / replicas as f64,
        load: load(replicas),
        load_one_lost: (replicas > 1).then(|| load(replicas - 1)),
        usd_per_hour,
        usd_per_million_output_tokens: tokens_each.and_then(|(_, output)| per_million(output)),
        usd_per_million_tokens: tokens_each.and_then(|(input, output)| per_million(input + output)),
    }
}

#[cfg(test)]
mod tests {
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
            fleet(knee, &demand, Some((1000.0, 100.0)), Some((0.5, 2.0)))
        };
        let fleet = of(35.0);
        assert_eq!((fleet.replicas, fleet.gpus), (4, 8));
        assert_eq!(
            (fleet.replicas_95, fleet.replicas_model_90),
            ((3, Some(5)), Some((2, 7)))
        );
        assert_eq!((fleet.rate_each, fleet.load), (8.75, 0.875));
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
        let of_open = super::fleet(open, &demand, None, None);
        assert_eq!(of_open.replicas_95, (3, None), "not known from below");
        assert_eq!(of(30.0).replicas, 3, "a whole multiple needs no further one");
        assert_eq!((of(0.1).replicas, of(0.1).load_one_lost), (1, None));
    }
}
