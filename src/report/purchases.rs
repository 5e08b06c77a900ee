//! What to buy: settings that carry a demand within the SLO, by what their GPUs cost an hour, and what becomes of each when a replica
//! fails.
//!
//! The settings and their costs are those of [`super::knees`], and so is which of them cannot be told apart. A purchase is the fewest
//! replicas that meet the SLO, and spares; prefill and decode pools, where they were counted, stand in the same order by their price.
//! *Load* is the replicas that the demand needs, as a real number between the last count that misses the SLO and the first that meets
//! it, over those that are there: at 100 % one less would not do.

mod answer;
mod config;
mod files;
mod kept;
mod offer;
mod others;
mod table;

pub(super) use self::answer::answer;
pub use self::config::{Config, How};
pub use self::files::csv;
pub use self::kept::Kept;
pub(super) use self::offer::of_fleet;
pub use self::offer::{Offer, Seen};
use self::offer::{cost_of_pair, of_pair};
pub use self::table::{md, text};
use super::knees::{Beside, Found, KneeRow, Knees, Labels, beside};
use super::pairs::PairSizing;
pub use super::text_sizing::dollars;
use crate::analysis::knee::Loop;
use crate::cost::uncertainty::Component;

/// What is wanted, as it was given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemandView {
    /// Requests per second, the headroom in it; `None` of a closed loop.
    pub rate: Option<f64>,
    /// The closed loop, the headroom in it.
    pub of_loop: Option<Loop>,
    /// Most requests that the clients of a rate have in flight at once, of all replicas.
    pub in_flight_max: Option<u32>,
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
        let standing = self
            .knees
            .standing_words()
            .into_iter()
            .zip(self.knees.doubt_words());
        let standing: Vec<_> = standing.collect();
        let alike = ranked.filter_map(|row| {
            let priced = self.knees.comparable(row)?;
            let at = index(row)?;
            let (standing, alike_by) = standing[at];
            let offer = Offer {
                row: Some(at),
                standing,
                alike_by,
                ..of_fleet(priced, &self.configs[at])?
            };
            Some((offer, priced.beside()))
        });
        let apart = self.pairs.iter().filter_map(|pair| {
            let offer = of_pair(pair, self.spares)?;
            let cost = cost_of_pair(pair, &offer, self.parameters_of(&pair.config));
            // Pools that cost as much as replicas that do both stand behind them.
            Some((offer, cost.map(|cost| (cost, f64::INFINITY))))
        });
        let (mut offers, costs): (Vec<Offer>, Vec<Beside>) = alike.chain(apart).unzip();
        if offers.iter().any(|offer| offer.row.is_none()) {
            for (offer, (standing, alike_by)) in offers.iter_mut().zip(beside(costs)) {
                (offer.standing, offer.alike_by) = (standing, alike_by);
            }
        }
        let usd = |offer: &Offer| offer.usd_per_hour.unwrap_or(f64::INFINITY);
        offers.sort_by(|a, b| usd(a).total_cmp(&usd(b)));
        for (at, offer) in offers.iter_mut().enumerate() {
            offer.rank = at + 1;
        }
        offers
    }

    /// What names the parameters that step times of a setting rest on.
    fn parameters_of(&self, config: &Config) -> &[(Component, String)] {
        let mut rows = self.knees.rows.iter().zip(&self.configs);
        let row = rows.find(|(_, own)| *own == config).map(|(row, _)| row);
        row.and_then(KneeRow::priced)
            .map_or(&[], |priced| &priced.parameters)
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

#[cfg(test)]
mod tests;
