//! What GPUs cost, how far that may be off, and what tells the costs of two settings apart.
//!
//! A cost is known no better than what is served for it. It is off by chance, and because parameters of the step time are: with 90 %
//! confidence by the root of the sum of squares of both, as if they were independent. Two costs are told apart where they are
//! further from each other than both may be off. Settings of one card and one engine rest on the same parameters, so that what is
//! wrong with these moves both costs, and only what it moves one more than the other counts. Where the model's doubt is not known
//! it is taken for that of a server of which nothing was measured.
//!
//! Left out: that chance is shared, too, where both saw the same traffic. Intervals are therefore rather too wide.

use super::{Estimate, RunResult};
use crate::cost::discrepancy::UNSEEN_SERVER;
use crate::cost::uncertainty::Component;
use crate::sim::Pool;
use crate::stats::{Z_90, Z_95};

/// How far down and up the logarithm of a figure reaches with 90 % confidence; infinite where an end is open.
pub type Reach = (f64, f64);

/// How far the logarithm of a cost is taken to be off, with 90 % confidence, where the model's doubt of it is not known.
pub const UNKNOWN: f64 = Z_90 * UNSEEN_SERVER;

/// Share of the answers' tokens that the engine's context may cut off, and of the requests that may be too long for it, before the cost
/// is one of other work: a tail that is cut changes nothing.
const CUT: f64 = 0.01;

/// Whether so much of the answers is cut off ([`crate::metrics::Summary::cut_share`]) that a setting does less than is asked for: its
/// rate and its cost compare with no other setting's.
#[must_use]
pub fn is_other_work(answers_cut: f64) -> bool {
    answers_cut >= CUT
}

/// Whether so much more of the requests is too long for a setting ([`crate::metrics::Summary::too_long`]) than the `least` of those
/// beside it that it does less than they do.
#[must_use]
pub fn is_less_work(too_long: f64, least: f64) -> bool {
    too_long - least >= CUT
}

/// What a setting does of what is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// It meets the SLO at some rate, or with some number of replicas.
    pub is_kept: bool,
    /// [Share](is_other_work) of the answers' tokens that is cut off.
    pub answers_cut: f64,
    /// [Share](is_less_work) of the requests that is too long.
    pub too_long: f64,
    /// What it serves is [a burst](super::knee::Sending::is_burst).
    pub is_burst: bool,
}

/// The least share of requests that is too long for a setting that meets the SLO, cuts no answers and serves a rate; infinite if
/// there is none.
#[must_use]
pub fn least_too_long(settings: impl Iterator<Item = Work>) -> f64 {
    settings
        .filter(|work| work.is_kept && !is_other_work(work.answers_cut) && !work.is_burst)
        .map(|work| work.too_long)
        .fold(f64::INFINITY, f64::min)
}

/// What a setting costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// US dollars, of an hour or of a million tokens.
    pub usd: f64,
    /// By chance.
    pub chance: Reach,
    /// Because parameters of the step time are off; `None` where that is not known.
    pub model: Option<Reach>,
    /// σ of the logarithm by the part of the step time that moves it, signed alike in all costs that are compared; `None` where
    /// that is not known.
    pub parts: Option<Vec<(Component, f64)>>,
    /// What names the parameters that a part of the step time rests on: those of another cost by the same name are the same.
    pub rests_on: Vec<(Component, String)>,
}

impl Cost {
    /// Between which dollars it lies with 90 % confidence; `None` where the model's doubt is not known.
    #[must_use]
    pub fn interval_90(&self) -> Option<(f64, f64)> {
        let model = self.model?;
        let (down, up) = (self.chance.0.hypot(model.0), self.chance.1.hypot(model.1));
        Some((self.usd * (-down).exp(), self.usd * up.exp()))
    }

    /// The same by chance alone.
    #[must_use]
    pub fn chance_90(&self) -> (f64, f64) {
        let (down, up) = self.chance;
        (self.usd * (-down).exp(), self.usd * up.exp())
    }

    /// Whether it costs more than a cheaper one beyond what both may be off by.
    #[must_use]
    pub fn is_dearer_than(&self, cheaper: &Cost) -> bool {
        let chance = self.chance.0.hypot(cheaper.chance.1);
        let doubt = self.apart_towards(cheaper).or_else(|| self.doubt_apart(cheaper));
        (self.usd / cheaper.usd).ln() > chance.hypot(doubt.unwrap_or_else(|| self.unknown_apart(cheaper)))
    }

    /// Whether it costs more than a cheaper one beyond chance, whatever the model's doubt.
    #[must_use]
    pub fn is_dearer_by_chance(&self, cheaper: &Cost) -> bool {
        (self.usd / cheaper.usd).ln() > self.chance.0.hypot(cheaper.chance.1)
    }

    /// How far this cost may lie below and a cheaper one above what is said of them, where they rest on nothing in common: doubts of
    /// costs need not reach as far down as up. `None` where they do, or where the doubt of either is not known.
    fn apart_towards(&self, cheaper: &Cost) -> Option<f64> {
        let (own, other) = (self.model?, cheaper.model?);
        let is_known = self.parts.is_some() && cheaper.parts.is_some();
        let is_shared = |component: &Component| {
            let own = self.rests_on(*component);
            own.is_some() && own == cheaper.rests_on(*component)
        };
        (is_known && !Component::ALL.iter().any(is_shared)).then(|| own.0.hypot(other.1))
    }

    /// How far the ratio of two costs may be off because parameters of the step time are, with 90 % confidence: those that both
    /// rest on move both. `None` where the doubt of either is not known.
    fn doubt_apart(&self, other: &Cost) -> Option<f64> {
        let (own_parts, other_parts) = (self.parts.as_ref()?, other.parts.as_ref()?);
        let part = |of: &[(Component, f64)], component: Component| {
            let mut parts = of.iter();
            parts
                .find(|(named, _)| *named == component)
                .map_or(0.0, |(_, sigma)| *sigma)
        };
        let square = |component: Component| {
            let (own, others) = (part(own_parts, component), part(other_parts, component));
            match self.rests_on(component) == other.rests_on(component) {
                true => (own - others).powi(2),
                false => own.powi(2) + others.powi(2),
            }
        };
        let squares = Component::ALL.into_iter().map(square);
        Some(Z_90 * squares.sum::<f64>().sqrt())
    }

    /// The same where the doubt of either is not known: that of one unmeasured server, or of two. How alike both costs feel what
    /// they share is not known either.
    fn unknown_apart(&self, other: &Cost) -> f64 {
        let servers: f64 = if self.rests_on == other.rests_on { 1.0 } else { 2.0 };
        UNKNOWN * servers.sqrt()
    }

    fn rests_on(&self, component: Component) -> Option<&str> {
        let mut parameters = self.rests_on.iter();
        let found = parameters.find(|(named, _)| *named == component);
        found.map(|(_, name)| name.as_str())
    }
}

/// How far the cost of what serves a rate may be off by chance, from the rate's 95 % interval: the more is served, the less it costs.
#[must_use]
pub fn reach_of_rate(rate: Estimate) -> Reach {
    at_90(((rate.high / rate.value).ln(), (rate.value / rate.low).ln()))
}

/// The same of so many replicas, from the ends of their number's 95 % interval.
#[must_use]
pub fn reach_of_replicas((fewest, most): (u64, Option<u64>), replicas: u64) -> Reach {
    at_90(reach_of_count(fewest, replicas, most))
}

/// From a count to the ends of its interval, of which the upper may be open.
#[must_use]
pub fn reach_of_count(fewest: u64, count: u64, most: Option<u64>) -> Reach {
    let of = |end: u64| (end as f64 / count as f64).ln();
    (-of(fewest), most.map_or(f64::INFINITY, of))
}

fn at_90((down, up): Reach) -> Reach {
    (down * Z_90 / Z_95, up * Z_90 / Z_95)
}

/// What GPUs cost while they are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Rent {
    /// Each pool, its GPUs and US dollars an hour of them. The one pool of a scenario without any has no name.
    pub pools: Vec<(String, f64, f64)>,
    /// Replicas come and go, and these are so many GPUs on average over the run.
    pub is_mean: bool,
    /// Where the prices are from, as a phrase.
    pub source: String,
}

impl Rent {
    /// Of pools with so many replicas each.
    ///
    /// # Errors
    /// The first pool whose GPUs have no price.
    pub fn of<'a>(pools: impl IntoIterator<Item = (&'a Pool, f64)>, source: &str) -> Result<Rent, &'a Pool> {
        let of_pool = |(pool, replicas): (&'a Pool, f64)| {
            let gpus = f64::from(pool.gpus) * replicas;
            let each = pool.price.as_ref().ok_or(pool)?.usd_per_hour;
            Ok((pool.name.clone(), gpus, each * gpus))
        };
        Ok(Rent {
            pools: pools.into_iter().map(of_pool).collect::<Result<_, _>>()?,
            is_mean: false,
            source: source.to_owned(),
        })
    }

    /// GPUs of all.
    #[must_use]
    pub fn gpus(&self) -> f64 {
        self.pools.iter().map(|(_, gpus, _)| gpus).sum()
    }

    /// US dollars an hour of each pool that has a name.
    #[must_use]
    pub fn by_pool(&self) -> Vec<(String, f64)> {
        let named = self.pools.iter().filter(|(name, ..)| !name.is_empty());
        named.map(|(name, _, usd)| (name.clone(), *usd)).collect()
    }

    /// US dollars an hour of all.
    #[must_use]
    pub fn usd_per_hour(&self) -> f64 {
        self.pools.iter().map(|(.., usd)| usd).sum()
    }

    /// US dollars per million tokens, of which there are so many a second; `None` where there are none.
    #[must_use]
    pub fn usd_per_million(&self, tokens_per_s: f64) -> Option<f64> {
        usd_per_million(self.usd_per_hour(), tokens_per_s)
    }
}

/// US dollars per million tokens where so many a second come out of what costs so much an hour; `None` where none does.
#[must_use]
pub fn usd_per_million(usd_per_hour: f64, tokens_per_s: f64) -> Option<f64> {
    (tokens_per_s > 0.0).then(|| usd_per_hour / (tokens_per_s * 3600.0 / 1e6))
}

/// Prompt and output tokens a second that pay for the GPUs of a run: those of the stretch that may be quoted, where there is one, else
/// of the whole run. `None` of a run that took no time.
#[must_use]
pub fn tokens_per_s(result: &RunResult) -> Option<(f64, f64)> {
    let paying = result.quotable().unwrap_or(&result.whole);
    let per_s = |tokens: u64| tokens as f64 / paying.duration_s;
    (paying.duration_s > 0.0).then(|| (per_s(paying.input_tokens), per_s(paying.output_tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cost known within a twelfth by chance, whose host's part of the step time may be off by a factor.
    fn cost(usd: f64, doubt: f64, card: &str) -> Cost {
        let reach = f64::ln(doubt);
        Cost {
            usd,
            chance: (0.08, 0.08),
            model: Some((reach, reach)),
            parts: Some(vec![(Component::Host, reach / Z_90)]),
            rests_on: vec![(Component::Host, card.to_owned())],
        }
    }

    #[test]
    fn chance_and_doubt_are_independent() {
        // Factors of exp(0.08) and 1.1 are one of exp(√(0.08² + 0.0953²)) = 1.1325.
        let (low, high) = cost(1.0, 1.1, "a").interval_90().unwrap();
        assert!((high - 1.1325).abs() < 1e-4 && (low * high - 1.0).abs() < 1e-12);
        let unknown = Cost {
            model: None,
            ..cost(1.0, 1.1, "a")
        };
        assert_eq!(unknown.interval_90(), None);
        assert!((unknown.chance_90().1 - 0.08f64.exp()).abs() < 1e-12);
    }

    /// What is wrong with the step time of a card moves all that rests on it alike.
    #[test]
    fn doubts_that_two_costs_share_do_not_hide_which_is_less() {
        let cheap = cost(1.0, 1.5, "h100");
        assert!(cost(1.2, 1.5, "h100").is_dearer_than(&cheap));
        assert!(!cost(1.2, 1.5, "l40s").is_dearer_than(&cheap));
        // √(2·(0.08² + ln(1.5)²)) = 0.585, a factor of 1.79.
        assert!(!cost(1.78, 1.5, "l40s").is_dearer_than(&cheap));
        assert!(cost(1.8, 1.5, "l40s").is_dearer_than(&cheap));
        // √2 · √(0.08² + (1.645 · 0.083)²) is a factor of 1.251, and of one card √(2 · 0.08² + (1.645 · 0.083)²) one of 1.194.
        let unknown = |usd: f64, card: &str| Cost {
            parts: None,
            ..cost(usd, 1.5, card)
        };
        assert!(unknown(1.26, "l40s").is_dearer_than(&cheap));
        assert!(!unknown(1.24, "l40s").is_dearer_than(&cheap));
        assert!(unknown(1.2, "h100").is_dearer_than(&cheap));
        assert!(!unknown(1.18, "h100").is_dearer_than(&cheap));
        assert!(!cheap.is_dearer_than(&cheap));
    }

    /// A doubt that reaches up alone makes nobody cheaper, unless both have it.
    #[test]
    fn doubts_of_unlike_cards_count_towards_each_other() {
        let upwards = |usd: f64, card: &str| Cost {
            model: Some((0.1, 1.5)),
            ..cost(usd, 4.0, card)
        };
        let cheap = cost(1.0, 1.2, "h100");
        // √(2·0.08² + 0.1² + ln(1.2)²) = 0.236, a factor of 1.266.
        assert!(upwards(1.28, "a100").is_dearer_than(&cheap));
        assert!(!upwards(1.25, "a100").is_dearer_than(&cheap));
        // The cheaper one may cost more.
        assert!(!cost(2.0, 1.2, "a100").is_dearer_than(&upwards(1.0, "h100")));
    }

    #[test]
    fn the_ends_of_an_interval_may_be_open() {
        assert_eq!(reach_of_count(4, 4, None), (0.0, f64::INFINITY));
        let (down, up) = reach_of_replicas((2, Some(8)), 4);
        assert!((down - 2f64.ln() * Z_90 / Z_95).abs() < 1e-12 && (down - up).abs() < 1e-12);
        let (down, up) = reach_of_rate(Estimate {
            value: 10.0,
            low: 5.0,
            high: f64::INFINITY,
        });
        assert!(down.is_infinite() && (up - 2f64.ln() * Z_90 / Z_95).abs() < 1e-12);
    }
}
