//! The knees of several settings beside each other: what each takes within the SLO, what that costs, and which is cheapest.
//!
//! What a setting costs is what its GPUs do per million output tokens at its knee; of users who think per hour of one of them; or, where a
//! rate is given, per hour of the replicas that carry it. How far that may be off, and what tells two settings apart, is [`crate::analysis::costs`]; where the
//! model's doubt is not known that of an unmeasured server stands for it, which is said.

mod answer;
mod exact;
mod ranking;
mod standing;
mod table;

pub(super) use self::answer::{BY_CHANCE, BY_MODEL, all_alike, interrupted, qualified};
pub use self::exact::csv;
pub use self::ranking::{Measure, Ranked, Ranking, place};
use self::standing::{Doubt, Rank, Standing, standings};
pub(super) use self::table::{assumed, notes, promises};
pub use self::table::{md, text};
use super::sought::Sought;
use super::undone::Undone;
use super::views::KneeView;
use crate::analysis::costs::{
    Cost, Reach, Rent, Work, least_too_long, reach_of_count, reach_of_rate, reach_of_replicas,
};
use crate::analysis::knee::Fleet;
use crate::cost::Trust;
use crate::cost::uncertainty::Component;

/// Axis and value.
pub type Labels = Vec<(String, String)>;

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeRow {
    /// What names it.
    pub labels: Labels,
    /// What came of it.
    pub found: Found,
}

/// What came of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Its search, which may have found no rate within the SLO.
    Knee(Box<Priced>),
    /// The model does not fit, and what would make it fit.
    DoesNotFit(String),
    /// Its values do not go together.
    Refused {
        /// Why, in a few words.
        in_short: String,
        /// The whole of it, and what would be right.
        why: String,
    },
    /// It cannot be searched, and why.
    Failed(String),
    /// It is not worth a search beside what others were found to cost, and why.
    Pruned(String),
    /// The user stopped before its search began.
    NotRun,
}

/// A knee search and what the GPUs cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// The search.
    pub view: KneeView,
    /// The user stopped before all of it was known.
    pub is_cut: bool,
    /// GPUs that were simulated.
    pub gpus: u64,
    /// What they cost, or why that is not known.
    pub rent: Result<Rent, String>,
    /// By component, what names the parameters that its step times rest on: those of another setting by the same name are the same.
    pub parameters: Vec<(Component, String)>,
}

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Knees {
    /// What all of them serve: `Llama-3.1-8B-Instruct`; empty where they have nothing in common.
    pub subject: String,
    /// In the order of the axes.
    pub rows: Vec<KneeRow>,
    /// Where the prices are from; empty where none is known.
    pub price_source: String,
}

/// A cost, and what the lesser of two that cost the same is the better of; `None` where no cost is known.
pub(super) type Beside = Option<(Cost, f64)>;

/// Where each stands beside the cheapest, and what hides which of both is cheaper, as files spell them.
pub(super) fn beside(costs: Vec<Beside>) -> Vec<(Option<&'static str>, Option<&'static str>)> {
    let ranks = costs.into_iter();
    let ranks = ranks.map(|cost| cost.map(|(cost, load)| Rank::Cost(cost, load)));
    let ranks: Vec<Option<Rank>> = ranks.collect();
    let standings = standings(&ranks).into_iter();
    let words = |standing: Option<Standing>| {
        let doubt = standing.and_then(Standing::doubt);
        (standing.map(Standing::word), doubt.map(Doubt::word))
    };
    standings.map(words).collect()
}

/// `gpu = h100, tensor-parallel-size = 2`; what has no axis is named by its value alone.
#[must_use]
pub fn name(labels: &[(String, String)]) -> String {
    let parts = labels.iter().map(|(axis, value)| match axis.is_empty() {
        true => value.clone(),
        false => format!("{axis} = {value}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

impl KneeRow {
    /// Its search, where it was made.
    #[must_use]
    pub fn priced(&self) -> Option<&Priced> {
        match &self.found {
            Found::Knee(priced) => Some(priced),
            Found::DoesNotFit(_)
            | Found::Refused { .. }
            | Found::Failed(_)
            | Found::Pruned(_)
            | Found::NotRun => None,
        }
    }

    /// The same, where it came to its end.
    fn searched(&self) -> Option<&Priced> {
        self.priced().filter(|priced| !priced.is_cut)
    }

    /// Why it was not searched, where that is not the user's doing.
    #[must_use]
    pub fn why_not(&self) -> Option<&str> {
        match &self.found {
            Found::DoesNotFit(why) | Found::Refused { why, .. } | Found::Failed(why) | Found::Pruned(why) => {
                Some(why)
            }
            Found::Knee(_) | Found::NotRun => None,
        }
    }

    /// What became of it, for people, with the reason where that takes a few words.
    #[must_use]
    pub fn fate(&self) -> String {
        let state = self.state().replace('_', " ");
        match &self.found {
            Found::Refused { in_short, .. } => format!("{state}: {in_short}"),
            _ => state,
        }
    }

    /// What names it, as a phrase.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.labels)
    }

    /// Whether all is known of it that was asked for: the user did not stop before.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match &self.found {
            Found::Knee(priced) => !priced.is_cut,
            Found::DoesNotFit(_) | Found::Refused { .. } | Found::Failed(_) | Found::Pruned(_) => true,
            Found::NotRun => false,
        }
    }

    /// What became of it, as files spell it.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match &self.found {
            Found::Knee(priced) if priced.is_cut => "interrupted",
            Found::Knee(priced) if priced.view.is_kept() => "kept",
            Found::Knee(_) => "not_kept",
            Found::DoesNotFit(_) => "does_not_fit",
            Found::Refused { .. } => "refused",
            Found::Failed(_) => "failed",
            Found::Pruned(_) => "pruned",
            Found::NotRun => "not_run",
        }
    }
}

impl Priced {
    /// GPUs that are paid for; `None` of a rate that no number of them carries.
    #[must_use]
    pub fn gpus_paid(&self) -> Option<u64> {
        match &self.view.sizing {
            Some(sizing) => Some(sizing.fleet.as_ref()?.gpus),
            None => Some(self.gpus),
        }
    }

    /// What they cost in an hour.
    #[must_use]
    pub fn usd_per_hour_paid(&self) -> Option<f64> {
        let of_one = self.rent.as_ref().ok()?;
        match &self.view.sizing {
            Some(sizing) => sizing.fleet.as_ref()?.usd_per_hour,
            None => Some(of_one.usd_per_hour()),
        }
    }

    /// US dollars per million output tokens: of the fleet at the rate that was asked for, or at the knee.
    #[must_use]
    pub fn usd_per_million_output_tokens(&self) -> Option<f64> {
        let of_one = self.rent.as_ref().ok()?;
        if let Some(sizing) = &self.view.sizing {
            return sizing.fleet.as_ref()?.usd_per_million_output_tokens;
        }
        self.view.knee?;
        of_one.usd_per_million(self.view.output_tokens_per_s?)
    }

    /// What each of the users costs in an hour; `None` where the knee is a number of something else.
    #[must_use]
    pub fn usd_per_user_hour(&self) -> Option<f64> {
        let users = self.view.knee.filter(|_| self.view.of == Sought::Users)?;
        Some(self.usd_per_hour_paid()? / users.value)
    }

    /// The same per million tokens, prompts and outputs.
    #[must_use]
    pub fn usd_per_million_tokens(&self) -> Option<f64> {
        let of_one = self.rent.as_ref().ok()?;
        if let Some(sizing) = &self.view.sizing {
            return sizing.fleet.as_ref()?.usd_per_million_tokens;
        }
        self.view.knee?;
        of_one.usd_per_million(self.view.prompt_tokens_per_s? + self.view.output_tokens_per_s?)
    }

    /// What settings are ranked by: an hour of the fleet where a rate is given, an hour of a user where the knee is a number of them, else a
    /// million output tokens.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let usd = match (&self.view.sizing, self.view.of) {
            (Some(_), _) => self.usd_per_hour_paid(),
            (None, Sought::Users) => self.usd_per_user_hour(),
            (None, Sought::Rate | Sought::InFlight) => self.usd_per_million_output_tokens(),
        };
        let parts = self.view.model.as_ref().map(|model| model.parts.clone());
        usd.map(|usd| Cost {
            usd,
            chance: self.chance(),
            model: self.model_doubt(),
            parts,
            rests_on: self.parameters.clone(),
        })
    }

    /// What it is ranked by beside whatever else is ranked by its cost.
    pub(super) fn beside(&self) -> Beside {
        self.cost().map(|cost| (cost, self.load()))
    }

    /// Of two that cost the same the one is better whose replicas are loaded less, or else the one that serves more.
    fn load(&self) -> f64 {
        let sizing = self.view.sizing.as_ref();
        let load = sizing
            .and_then(|sizing| sizing.fleet.as_ref())
            .and_then(|fleet| fleet.load);
        load.unwrap_or_else(|| -self.view.knee.map_or(0.0, |knee| knee.value))
    }

    fn chance(&self) -> Reach {
        let fleet = |fleet: &Fleet| reach_of_replicas(fleet.replicas_95, fleet.replicas);
        let known = match &self.view.sizing {
            Some(sizing) => sizing.fleet.as_ref().map(fleet),
            None => self.view.knee.map(reach_of_rate),
        };
        known.unwrap_or((0.0, 0.0))
    }

    fn model_doubt(&self) -> Option<Reach> {
        match &self.view.sizing {
            Some(sizing) => {
                let fleet = sizing.fleet.as_ref()?;
                let (fewest, most) = fleet.replicas_model_90?;
                Some(reach_of_count(fewest, fleet.replicas, most))
            }
            None => {
                let (down, up) = self.view.model.as_ref()?.reach_ln;
                Some((up, down))
            }
        }
    }

    /// The knee at the two ends of the model's 90 % interval.
    #[must_use]
    pub fn knee_model_90(&self) -> Option<(f64, f64)> {
        let (low, high) = self.view.model.as_ref()?.factors_90();
        let knee = self.view.knee?.value;
        Some((knee * low, knee * high))
    }

    /// The large kernel that is known least: small ones and the host are a prior on nearly every card.
    #[must_use]
    pub fn kernels(&self) -> Option<Trust> {
        large_kernels(&self.view.trust)
    }
}

/// The large kernel that is known least, of all parts of a step time.
pub(super) fn large_kernels(trust: &[(String, Trust)]) -> Option<Trust> {
    let is_large = |name: &str| {
        !["small kernels", "host"]
            .iter()
            .any(|small| name.ends_with(small))
    };
    let large = trust.iter().filter(|(name, _)| is_large(name));
    large.map(|(_, trust)| *trust).max()
}

impl Knees {
    /// Whether any setting meets the SLO.
    #[must_use]
    pub fn is_any_kept(&self) -> bool {
        self.priced().any(|priced| priced.view.is_kept())
    }

    /// Whether the client is the limit of a setting.
    pub(super) fn is_any_client(&self) -> bool {
        self.priced().any(|priced| priced.view.only_client().is_some())
    }

    fn priced(&self) -> impl Iterator<Item = &Priced> {
        self.rows.iter().filter_map(KneeRow::priced)
    }

    /// What their knees are numbers of.
    fn of(&self) -> Sought {
        self.priced().next().map_or(Sought::Rate, |priced| priced.view.of)
    }

    /// Whether replicas were counted for a rate.
    fn is_sized(&self) -> bool {
        self.priced().any(|priced| priced.view.sizing.is_some())
    }

    /// Searches that came to their end.
    fn searched(&self) -> impl Iterator<Item = &Priced> {
        self.rows.iter().filter_map(KneeRow::searched)
    }

    /// The same of a row, where it may be compared with others: it does the work that was asked for.
    pub(super) fn comparable<'a>(&self, row: &'a KneeRow) -> Option<&'a Priced> {
        row.searched().filter(|priced| self.undone(priced).is_none())
    }

    /// What a setting leaves undone that others do.
    fn undone(&self, priced: &Priced) -> Option<Undone> {
        let work = |priced: &Priced| Work {
            is_kept: priced.view.is_kept(),
            answers_cut: priced.view.answers_cut,
            too_long: priced.view.too_long,
            is_burst: priced.view.served().is_some_and(|sending| sending.is_burst()),
        };
        Undone::of(work(priced), least_too_long(self.searched().map(work)))
    }

    /// How many did, of how many that can be searched, where the user stopped before all had.
    pub(super) fn cut(&self) -> Option<(u64, u64)> {
        let cut = self.rows.iter().filter(|row| !row.is_whole()).count() as u64;
        let searched = self.searched().count() as u64;
        (cut > 0).then_some((searched, searched + cut))
    }

    /// Where each row's setting stands beside the best of those that were searched to their end.
    fn standings(&self) -> Vec<Option<Standing>> {
        let is_priced = self.searched().any(|priced| priced.cost().is_some());
        let rank = |row: &KneeRow| {
            let priced = self.comparable(row)?;
            match is_priced {
                true => priced.cost().map(|cost| Rank::Cost(cost, priced.load())),
                false => priced.view.knee.map(Rank::Rate),
            }
        };
        standings(&self.rows.iter().map(rank).collect::<Vec<_>>())
    }

    /// The settings that cannot be told from the best for this reason, the best of them first.
    fn alike(&self, doubt: Doubt) -> Vec<&KneeRow> {
        let standings = self.rows.iter().zip(self.standings());
        let alike: Vec<&KneeRow> = standings
            .filter(|(_, standing)| *standing == Some(Standing::Alike(doubt)))
            .map(|(row, _)| row)
            .collect();
        let mut ranked = self.ranked();
        ranked.retain(|row| alike.iter().any(|alike| std::ptr::eq(*alike, *row)));
        ranked
    }

    /// Where each row's setting stands, as files spell it.
    pub(super) fn standing_words(&self) -> Vec<Option<&'static str>> {
        let words = self.standings().into_iter();
        words.map(|standing| standing.map(Standing::word)).collect()
    }

    /// Why each row's setting cannot be told from the best, where it cannot, as files spell it.
    pub(super) fn doubt_words(&self) -> Vec<Option<&'static str>> {
        let words = self.standings().into_iter();
        words.map(|standing| standing?.doubt().map(Doubt::word)).collect()
    }

    /// The cheapest first, then those whose cost is not known, most served first, then those that keep no promise, those whose
    /// search was cut short, and those without one.
    pub(super) fn ranked(&self) -> Vec<&KneeRow> {
        let mut rows: Vec<&KneeRow> = self.rows.iter().collect();
        let key = |row: &KneeRow| {
            let Some(priced) = row.priced() else {
                return (4, 0.0, 0.0);
            };
            if priced.is_cut || self.comparable(row).is_none() {
                return (3, 0.0, 0.0);
            }
            let served = priced.view.knee.map_or(0.0, |knee| knee.value);
            match (priced.cost(), priced.view.is_kept()) {
                (Some(cost), true) => (0, cost.usd, priced.load()),
                (_, true) => (1, -served, 0.0),
                (_, false) => (2, -served, 0.0),
            }
        };
        rows.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        });
        rows
    }
}

#[cfg(test)]
mod tests;
