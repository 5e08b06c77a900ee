//! What to buy: settings that carry a demand within the SLO, by what their GPUs cost an hour, and what becomes of each when a replica
//! fails.
//!
//! The settings and their costs are those of [`super::knees`], and so is which of them cannot be told apart. A purchase is the fewest
//! replicas that meet the SLO, and spares; prefill and decode pools, where they were counted, stand in the same order by their price.
//! *Load* is the replicas that the demand needs, as a real number between the last count that misses the SLO and the first that meets
//! it, over those that are there: at 100 % one less would not do.

mod answer;
mod files;
mod table;

pub(super) use self::answer::answer;
pub use self::files::csv;
pub use self::table::{md, text};
use super::knees::{Found, KneeRow, Knees, Labels, Priced, large_kernels};
use super::pairs::PairSizing;
pub use super::text_sizing::dollars;
use super::views::Counted;
use crate::analysis::costs::usd_per_million;
use crate::analysis::knee::{Loop, Point};
use crate::config::axes::own_name;
use crate::cost::Trust;

/// What a setting is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `H100-SXM-80GB`.
    pub gpu: String,
    /// What a command calls it: the same, or the path of a profile.
    pub named: String,
    /// GPUs that share every layer of a replica.
    pub tensor_parallel: String,
    /// Stages that its layers are split into.
    pub pipeline_parallel: u64,
    /// Data-parallel engines inside it.
    pub data_parallel: u64,
    /// What other axes say of it.
    pub rest: Labels,
}

/// What is wanted, as it was given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemandView {
    /// Requests per second, the headroom in it; `None` of a closed loop.
    pub rate: Option<f64>,
    /// The closed loop, the headroom in it.
    pub of_loop: Option<Loop>,
    /// Factor on what was asked for.
    pub headroom: f64,
    /// Who asked for the rate, as a phrase.
    pub source: String,
}

/// Prefill and decode pools of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct PairOffer {
    /// What both pools are of.
    pub config: Config,
    /// The search for the cheapest numbers of both, or why there is none.
    pub found: Result<PairSizing, String>,
}

/// Everything that can be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct Purchases {
    /// The settings, each row named by what it is.
    pub(super) knees: Knees,
    /// What axes call each.
    pub(super) labels: Vec<Labels>,
    pub(super) configs: Vec<Config>,
    /// Replicas beside the fewest that meet the SLO.
    pub spares: u64,
    /// What is wanted.
    pub demand: DemandView,
    /// Pools that were counted.
    pub pairs: Vec<PairOffer>,
    /// Cards that were not tried, and why.
    pub left_out: Option<String>,
    /// Commands that look at the answer again, each with the name of what it does.
    pub next: Vec<(String, String)>,
}

/// How many replicas there are, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// All do both.
    Alike(u64),
    /// So many prefill, and so many decode.
    Apart(u64, u64),
}

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
    /// That is what it is at most.
    pub is_load_at_most: bool,
    /// Replicas that are left when one fails, and the same of these; `None` where none is left, and of pools.
    pub left: Option<(u64, f64)>,
    /// The SLO is met with any one replica less.
    pub survives: bool,
    /// It was found by simulating so many, and not by the knee of one.
    pub is_simulated: bool,
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
    /// `best`, `alike`, `worse` among replicas that do both.
    pub standing: Option<&'static str>,
}

impl Purchases {
    /// From settings in the order of their axes, what each of them is, and the spares that are in their fleets.
    #[must_use]
    pub fn new(mut knees: Knees, configs: Vec<Config>, spares: u64) -> Purchases {
        let labels = knees.rows.iter().map(|row| row.labels.clone()).collect();
        for (row, config) in knees.rows.iter_mut().zip(&configs) {
            row.labels = vec![(String::new(), config.name())];
            row.labels.extend(config.rest.iter().cloned());
        }
        Purchases {
            knees,
            labels,
            configs,
            spares,
            demand: DemandView::default(),
            pairs: Vec::new(),
            left_out: None,
            next: Vec::new(),
        }
    }

    /// What meets the SLO, the cheapest first and what has no price last.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        let ranked = self.knees.ranked().into_iter();
        let index = |row: &KneeRow| self.knees.rows.iter().position(|own| std::ptr::eq(own, row));
        let standing = self.knees.standing_words();
        let alike = ranked.filter_map(|row| {
            let priced = self.knees.comparable(row)?;
            let at = index(row)?;
            Some(Offer {
                row: Some(at),
                standing: standing[at],
                ..of_fleet(priced, &self.configs[at])?
            })
        });
        let apart = self.pairs.iter().filter_map(|pair| of_pair(pair, self.spares));
        let mut offers: Vec<Offer> = alike.chain(apart).collect();
        let usd = |offer: &Offer| offer.usd_per_hour.unwrap_or(f64::INFINITY);
        offers.sort_by(|a, b| usd(a).total_cmp(&usd(b)));
        for (at, offer) in offers.iter_mut().enumerate() {
            offer.rank = at + 1;
        }
        offers
    }

    /// The row as axes name it.
    pub(super) fn as_cell(&self, at: usize) -> KneeRow {
        KneeRow {
            labels: self.labels[at].clone(),
            ..self.knees.rows[at].clone()
        }
    }

    /// The settings of which something holds, as they are compared.
    fn only(&self, holds: impl Fn(usize, &KneeRow) -> bool) -> Knees {
        let rows = self.knees.rows.iter().enumerate();
        Knees {
            rows: rows
                .filter(|(at, row)| holds(*at, row))
                .map(|(_, row)| row.clone())
                .collect(),
            ..self.knees.clone()
        }
    }

    /// Each setting that something is said of, in their order.
    fn said<'a, T>(&'a self, of: impl Fn(&'a Found) -> Option<T>) -> Vec<(&'a Config, T)> {
        let rows = self.knees.rows.iter().zip(&self.configs);
        rows.filter_map(|(row, config)| Some((config, of(&row.found)?)))
            .collect()
    }
}

impl Config {
    /// `H100-SXM-80GB TP1`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.gpu, self.shape())
    }

    /// How its GPUs share a replica, `TP2`, `TP2 PP2`: one stage or engine is left out, and what an axis says of it.
    fn parts(&self) -> Vec<(&'static str, String)> {
        let says = |flag: &str| {
            let key = |axis: &str| axis.rsplit('.').next().map(own_name);
            let mut rest = self.rest.iter();
            rest.any(|(axis, _)| key(axis).as_deref() == Some(flag))
        };
        let mut parts = vec![("TP", self.tensor_parallel.clone())];
        let more = [
            ("PP", self.pipeline_parallel, "pipeline-parallel-size"),
            ("DP", self.data_parallel, "data-parallel-size"),
        ];
        let more = more
            .into_iter()
            .filter(|(_, number, flag)| *number > 1 && !says(flag));
        parts.extend(more.map(|(name, number, _)| (name, number.to_string())));
        parts
    }

    /// `TP2 PP2`.
    fn shape(&self) -> String {
        let parts = self.parts().into_iter();
        let parts: Vec<String> = parts.map(|(name, number)| name.to_owned() + &number).collect();
        parts.join(" ")
    }

    /// What other axes say of it: `, max-num-seqs = 64`.
    fn of_axes(&self) -> String {
        let rest = self.rest.iter();
        rest.map(|(axis, value)| format!(", {axis} = {value}")).collect()
    }
}

impl How {
    /// With so many more of each.
    fn and(self, more: u64) -> How {
        match self {
            How::Alike(replicas) => How::Alike(replicas + more),
            How::Apart(prefill, decode) => How::Apart(prefill + more, decode + more),
        }
    }
}

impl Offer {
    /// `16 × H100-SXM-80GB (TP 1)`, `10 × B200-SXM-180GB (5 replicas, TP 2)`.
    #[must_use]
    pub fn bought(&self) -> String {
        bought(&self.config, self.how, self.gpus)
    }
}

/// What is bought, GPUs first.
fn bought(config: &Config, how: How, gpus: u64) -> String {
    let size = config.parts().into_iter();
    let size: Vec<String> = size.map(|(name, number)| format!("{name} {number}")).collect();
    let size = size.join(", ");
    let inside = match how {
        How::Alike(replicas) if replicas == gpus => size,
        How::Alike(1) => format!("1 replica, {size}"),
        How::Alike(replicas) => format!("{} replicas, {size}", super::figures::count(replicas)),
        How::Apart(prefill, decode) => format!("{prefill} prefill + {decode} decode, {size}"),
    };
    format!(
        "{} × {} ({inside}){}",
        super::figures::count(gpus),
        config.gpu,
        config.of_axes()
    )
}

/// The replicas that were counted for a setting.
fn of_fleet(priced: &Priced, config: &Config) -> Option<Offer> {
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
        is_load_at_most: fleet.is_needed_at_most(),
        left: fleet.demand_on_capacity(1).map(|load| (fleet.replicas - 1, load)),
        survives: fleet.survives_a_failure(),
        is_simulated: matches!(sizing.counted, Some(Counted::BySimulation { .. })),
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
    })
}

/// The cheapest pools, with so many spares in each: one less of either misses the SLO, since it is cheaper.
fn of_pair(offer: &PairOffer, spares: u64) -> Option<Offer> {
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
    let end = |end: crate::report::pairs::End| usd_of(How::Apart(end.prefill, end.decode).and(spares));
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
        is_load_at_most: false,
        left: None,
        survives: spares > 0,
        is_simulated: true,
        seen: Seen::of(&best.pair.point),
        usd_per_hour: usd,
        usd_90,
        usd_per_million_output_tokens: per_million(tokens.map(|(_, output)| output)),
        usd_per_million_tokens: per_million(tokens.map(|(input, output)| input + output)),
        surviving: (surviving, gpus_of(surviving), usd_of(surviving)),
        kernels: large_kernels(&sizing.trust),
        standing: None,
    })
}

#[cfg(test)]
mod tests;
