//! A purchase: replicas that were counted for a setting, or prefill and decode pools.

use super::PairOffer;
use super::config::{Config, How, bought};
use crate::analysis::costs::{Cost, Reach, reach_of_replicas, usd_per_million};
use crate::analysis::knee::{NeededBy, Point};
use crate::cost::Trust;
use crate::cost::uncertainty::Component;
use crate::report::knees::{Priced, large_kernels};
use crate::report::pairs::End;
use crate::report::views::Counted;

/// What a run of a purchase saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Requests per second.
    pub served_per_s: f64,
    /// Requests in flight on average.
    pub in_flight: f64,
}

impl Seen {
    fn of(point: &Point) -> Option<Seen> {
        Some(Seen {
            served_per_s: point.throughput?.value,
            in_flight: point.in_system?,
        })
    }

    /// Mean time of an answer in seconds, by Little's law.
    #[must_use]
    pub fn answer_s(&self) -> f64 {
        self.in_flight / self.served_per_s
    }
}

/// A purchase.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its place, from 1.
    pub rank: usize,
    /// The row of its setting; `None` of pools.
    pub row: Option<usize>,
    /// What it is.
    pub config: Config,
    /// How many replicas it has.
    pub how: How,
    /// How many GPUs.
    pub gpus: u64,
    /// Requests per second that one replica alone takes within the SLO; `None` where it takes none, and of pools.
    pub knee_per_s: Option<f64>,
    /// The demand over what it carries within the SLO; `None` of pools.
    pub load: Option<f64>,
    /// What tells that.
    pub load_by: Option<NeededBy>,
    /// Replicas that are left when one fails, and the same of these; `None` where none is left, and of pools.
    pub left: Option<(u64, f64)>,
    /// The SLO is met with any one replica less.
    pub survives: bool,
    /// With one replica less its clients hold requests back: it is their limit in flight that asks for so many.
    pub is_held_with_less: bool,
    /// Why it was not found by simulating so many, but by the knee of one; `None` where it was.
    pub why_by_knee: Option<String>,
    /// What the run of it without its spares saw; `None` where it was not simulated.
    pub seen: Option<Seen>,
    /// US dollars an hour; `None` where the card has no price.
    pub usd_per_hour: Option<f64>,
    /// Between which dollars that lies, 90 %; the upper end may be open. `None` where the model's doubt is not known.
    pub usd_90: Option<(f64, f64)>,
    /// US dollars per million output tokens of the demand.
    pub usd_per_million_output_tokens: Option<f64>,
    /// The same of prompts and outputs.
    pub usd_per_million_tokens: Option<f64>,
    /// The least of it that survives a failure: replicas, GPUs, and what they cost an hour.
    pub surviving: (How, u64, Option<f64>),
    /// The large kernel that is known least.
    pub kernels: Option<Trust>,
    /// Where it stands beside the cheapest, as files spell it: `best`, `alike`, `worse`.
    pub standing: Option<&'static str>,
    /// What hides which of it and the cheapest is cheaper: `chance`, `model`.
    pub alike_by: Option<&'static str>,
}

impl Offer {
    /// Whether no more is known of its load than that it is so much at most.
    #[must_use]
    pub fn is_load_at_most(&self) -> bool {
        self.load_by == Some(NeededBy::AtMost)
    }

    /// `16 × H100-SXM-80GB (TP 1)`, `10 × B200-SXM-180GB (5 replicas, TP 2)`.
    #[must_use]
    pub fn bought(&self) -> String {
        bought(&self.config, self.how, self.gpus)
    }
}

/// The replicas that were counted for a setting.
pub(in crate::report) fn of_fleet(priced: &Priced, config: &Config) -> Option<Offer> {
    let sizing = priced.view.sizing.as_ref()?;
    let fleet = sizing.fleet.as_ref()?;
    let how = How::Alike(fleet.replicas);
    let more = fleet.clone().with_spares(u64::from(!fleet.survives_a_failure()));
    Some(Offer {
        rank: 0,
        row: None,
        config: config.clone(),
        how,
        gpus: fleet.gpus,
        knee_per_s: priced.view.knee.map(|knee| knee.value),
        load: fleet.demand_on_capacity(0),
        load_by: Some(fleet.needed_by),
        left: fleet.demand_on_capacity(1).map(|load| (fleet.replicas - 1, load)),
        survives: fleet.survives_a_failure(),
        is_held_with_less: match &sizing.counted {
            Some(Counted::BySimulation { count, .. }) => {
                let less = count.crew(fleet.replicas - fleet.spares - 1);
                less.is_some_and(|less| less.point.is_held_back())
            }
            _ => false,
        },
        why_by_knee: match &sizing.counted {
            Some(Counted::ByKnee(why)) => Some(why.clone()),
            _ => None,
        },
        seen: match &sizing.counted {
            Some(Counted::BySimulation { count, .. }) => {
                let crew = count.crew(fleet.replicas - fleet.spares);
                crew.and_then(|crew| Seen::of(&crew.point))
            }
            _ => None,
        },
        usd_per_hour: priced.usd_per_hour_paid(),
        usd_90: priced.cost().and_then(|cost| cost.interval_90()),
        usd_per_million_output_tokens: priced.usd_per_million_output_tokens(),
        usd_per_million_tokens: priced.usd_per_million_tokens(),
        surviving: (How::Alike(more.replicas), more.gpus, more.usd_per_hour),
        kernels: priced.kernels(),
        standing: None,
        alike_by: None,
    })
}

/// The cheapest pools, with so many spares in each: one less of either misses the SLO, since it is cheaper.
pub(super) fn of_pair(offer: &PairOffer, spares: u64) -> Option<Offer> {
    let sizing = offer.found.as_ref().ok()?;
    let best = sizing.best()?;
    let how = How::Apart(best.pair.prefill, best.pair.decode);
    let gpus_of = |how: How| match how {
        How::Apart(prefill, decode) => prefill * sizing.gpus_each[0] + decode * sizing.gpus_each[1],
        How::Alike(replicas) => replicas,
    };
    let usd_of = |how: How| match (how, sizing.usd_each) {
        (How::Apart(prefill, decode), Some([each, other])) => {
            Some(prefill as f64 * each + decode as f64 * other)
        }
        _ => None,
    };
    let (own, surviving) = (how.and(spares), how.and(spares.max(1)));
    let usd = usd_of(own);
    let doubt = sizing.doubt.as_ref().and_then(|doubt| doubt.as_ref().ok());
    let end = |end: End| usd_of(How::Apart(end.prefill, end.decode).and(spares));
    let usd_90 = doubt.and_then(|doubt| {
        let low = doubt.fast.and_then(end)?;
        Some((low, doubt.slow.and_then(end).unwrap_or(f64::INFINITY)))
    });
    let tokens = best.pair.point.tokens_each;
    let per_million = |tokens: Option<f64>| usd_per_million(usd?, sizing.rate * tokens?);
    Some(Offer {
        rank: 0,
        row: None,
        config: offer.config.clone(),
        how: own,
        gpus: gpus_of(own),
        knee_per_s: None,
        load: None,
        load_by: None,
        left: None,
        survives: spares > 0,
        is_held_with_less: false,
        why_by_knee: None,
        seen: Seen::of(&best.pair.point),
        usd_per_hour: usd,
        usd_90,
        usd_per_million_output_tokens: per_million(tokens.map(|(_, output)| output)),
        usd_per_million_tokens: per_million(tokens.map(|(input, output)| input + output)),
        surviving: (surviving, gpus_of(surviving), usd_of(surviving)),
        kernels: large_kernels(&sizing.trust),
        standing: None,
        alike_by: None,
    })
}

/// What pools cost and how far that may be off. Their step times rest on the parameters of the setting that both are of.
pub(super) fn cost_of_pair(offer: &PairOffer, of: &Offer, rests_on: &[(Component, String)]) -> Option<Cost> {
    let sizing = offer.found.as_ref().ok()?;
    let best = sizing.best()?;
    let usd = of.usd_per_hour?;
    let (fewest, most) = sizing.gpus_95();
    let doubt = sizing.doubt.as_ref().and_then(|doubt| doubt.as_ref().ok());
    let reach = |(low, high): (f64, f64)| -> Reach { ((usd / low).ln(), (high / usd).ln()) };
    Some(Cost {
        usd,
        chance: reach_of_replicas((fewest.unwrap_or(best.gpus), most), best.gpus),
        model: of.usd_90.map(reach),
        parts: doubt.map(|doubt| doubt.knee.parts.clone()),
        rests_on: rests_on.to_vec(),
    })
}
