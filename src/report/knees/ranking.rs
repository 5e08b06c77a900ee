//! Settings as a picture shows them: by rank, those that cannot be told from the best apart from the others, and those without a rank
//! with their reason. They are read from their objects, so that one that a file kept stands beside one that was just searched.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::analysis::Estimate;
use crate::analysis::costs::{Cost, reach_of_rate};
use crate::report::figures::{counted, interval_outwards, significant, significant_down};
use crate::report::json::cost_of;
use crate::report::text_sizing::dollars;

/// What settings are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// US dollars per million output tokens at the knee.
    MillionTokens,
    /// US dollars per hour of the replicas that carry a rate.
    Hour,
    /// Requests per second within the promise, where no price is known.
    Rate,
}

/// A setting that has a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// What names it: `h100, 2`.
    pub name: String,
    /// What it is ranked by.
    pub value: f64,
    /// Its interval with 90 % confidence; of a rate by chance alone, with 95 %. An end may be open.
    pub interval: (f64, f64),
    /// The model's doubt is not known, and no part of the interval of the cost.
    pub is_by_chance: bool,
    /// It is the best, or cannot be told from it.
    pub is_alike: bool,
    /// Its figures, as a phrase.
    pub figures: String,
}

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// What was found, as a sentence.
    pub title: String,
    /// What they serve, what they promise and where prices are from, as phrases.
    pub said: Vec<String>,
    /// The axes: `gpu, tensor-parallel-size`.
    pub axes: String,
    /// What they are ranked by.
    pub measure: Measure,
    /// The best first, and with it those that cannot be told from it.
    pub ranked: Vec<Ranked>,
    /// What names the others, and why they have no rank.
    pub others: Vec<(String, String)>,
}

impl Ranking {
    /// From the objects of all settings and what names each, in the order of the axes.
    #[must_use]
    pub fn of(objects: &[Value], labels: &[&[(String, String)]], said: Vec<String>) -> Ranking {
        let measure = measure(objects);
        let standings: Vec<Option<Standing>> = objects
            .iter()
            .map(|object| Standing::of(object, measure))
            .collect();
        let known = standings.iter().flatten();
        let best = known.min_by(|a, b| a.rank().total_cmp(&b.rank()));
        let mut ranked: Vec<(f64, Ranked)> = Vec::new();
        let mut others = Vec::new();
        for ((object, name), standing) in objects.iter().zip(names(labels)).zip(&standings) {
            match (standing, best) {
                (Some(own), Some(best)) => {
                    ranked.push((own.rank(), own.ranked(object, name, !own.is_worse_than(best))));
                }
                _ => others.push((name, why_unranked(object, measure))),
            }
        }
        ranked.sort_by(|(a, one), (b, other)| other.is_alike.cmp(&one.is_alike).then(a.total_cmp(b)));
        let ranked: Vec<Ranked> = ranked.into_iter().map(|(_, ranked)| ranked).collect();
        let axes = labels.iter().take(1).copied().flatten();
        let axes: Vec<&str> = axes.map(|(axis, _)| axis.as_str()).collect();
        let axes = axes.join(", ");
        Ranking {
            title: title(objects, measure, &ranked, &axes),
            said,
            axes,
            measure,
            ranked,
            others,
        }
    }
}

/// What a setting is ranked by, and how well that is known.
enum Standing {
    Cost(Cost),
    Rate(Estimate),
}

impl Standing {
    fn of(object: &Value, measure: Measure) -> Option<Standing> {
        match measure {
            Measure::Rate => rate(object).map(Standing::Rate),
            Measure::MillionTokens | Measure::Hour => cost_of(object).map(Standing::Cost),
        }
    }

    /// The lesser the better.
    fn rank(&self) -> f64 {
        match self {
            Standing::Cost(cost) => cost.usd,
            Standing::Rate(rate) => -rate.value,
        }
    }

    fn is_worse_than(&self, best: &Standing) -> bool {
        match (self, best) {
            (Standing::Cost(own), Standing::Cost(best)) => own.is_dearer_than(best),
            (Standing::Rate(own), Standing::Rate(best)) => {
                // As of two costs: what may be off is not added up end to end.
                let apart = reach_of_rate(*own).0.hypot(reach_of_rate(*best).1);
                (best.value / own.value).ln() > apart
            }
            _ => false,
        }
    }

    fn ranked(&self, object: &Value, name: String, is_alike: bool) -> Ranked {
        let (value, interval) = match self {
            Standing::Cost(cost) => (cost.usd, cost.interval_90().unwrap_or_else(|| cost.chance_90())),
            Standing::Rate(rate) => (rate.value, (rate.low, rate.high)),
        };
        let mut figures = vec![figures(object, self, interval)];
        if object["state"] == "interrupted" {
            figures.push("interrupted".to_owned());
        }
        Ranked {
            name,
            value,
            interval,
            is_by_chance: matches!(self, Standing::Cost(cost) if cost.model.is_none()),
            is_alike,
            figures: figures.join(" · "),
        }
    }
}

/// By cost, unless no cost is known.
fn measure(objects: &[Value]) -> Measure {
    let priced = objects.iter().find(|object| cost_of(object).is_some());
    match priced.map(|object| object["cost"]["ranked_by"] == "usd_per_hour") {
        Some(true) => Measure::Hour,
        Some(false) => Measure::MillionTokens,
        None => Measure::Rate,
    }
}

fn rate(object: &Value) -> Option<Estimate> {
    let knee = &object["knee"];
    Some(Estimate {
        value: knee["value"].as_f64()?,
        low: knee["low"].as_f64()?,
        high: knee["high"].as_f64().unwrap_or(f64::INFINITY),
    })
}

/// The values of every setting's axes. Of paths and models the last parts, where these tell them apart as well.
fn names(labels: &[&[(String, String)]]) -> Vec<String> {
    let axes = labels.first().map_or(0, |labels| labels.len());
    let are_told_apart = |axis: usize| {
        let values = || labels.iter().map(|labels| labels[axis].1.as_str());
        let whole: BTreeSet<&str> = values().collect();
        let short: BTreeSet<&str> = values().filter_map(last).collect();
        whole.len() == short.len()
    };
    let is_short: Vec<bool> = (0..axes).map(are_told_apart).collect();
    let name = |labels: &&[(String, String)]| {
        let values = labels.iter().zip(&is_short);
        let values = values.map(|((_, value), is_short)| last(value).filter(|_| *is_short).unwrap_or(value));
        values.collect::<Vec<_>>().join(", ")
    };
    labels.iter().map(name).collect()
}

/// What follows the last slash.
fn last(value: &str) -> Option<&str> {
    value.rsplit('/').next().filter(|last| !last.is_empty())
}

/// `0.22 $/M [0.18, 0.26] · 60.2 req/s on 1 GPU`.
fn figures(object: &Value, standing: &Standing, (low, high): (f64, f64)) -> String {
    let gpus = object["cost"]["gpus"].as_u64();
    let gpus = gpus.map(|gpus| counted(gpus, "GPU"));
    let interval = match standing {
        Standing::Cost(_) if high.is_finite() => format!("[{}, {}]", dollars(low), dollars(high)),
        Standing::Cost(_) => format!("from {}", dollars(low)),
        Standing::Rate(_) if high.is_infinite() => format!("from {}", significant_down(low)),
        Standing::Rate(_) => interval_outwards(low, high),
    };
    let beside = match object["sizing"]["replicas"].as_u64() {
        Some(replicas) => Some(counted(replicas, "replica")),
        None => rate(object)
            .filter(|_| matches!(standing, Standing::Cost(_)))
            .map(|rate| format!("{} req/s", significant_down(rate.value))),
    };
    let (value, unit) = match standing {
        Standing::Rate(rate) => (significant_down(rate.value), "req/s"),
        Standing::Cost(cost) => match object["cost"]["ranked_by"] == "usd_per_hour" {
            true => (dollars(cost.usd), "$/h"),
            false => (dollars(cost.usd), "$/M"),
        },
    };
    let on = [beside, gpus].into_iter().flatten().collect::<Vec<_>>();
    format!("{value} {unit} {interval} · {}", on.join(" on "))
}

/// Why it stands in no order.
fn why_unranked(object: &Value, measure: Measure) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    match text("state") {
        "does_not_fit" => format!("does not fit: {}", text("why")),
        "refused" => format!("refused: {}", text("in_short")),
        "failed" => text("why").to_owned(),
        "not_run" => "not searched: interrupted".to_owned(),
        "interrupted" => "interrupted".to_owned(),
        _ if object["client_limit_within_slo"] == true && object["knee"].is_null() => {
            "the client is its limit".to_owned()
        }
        "kept" if measure != Measure::Rate => "its price is not known".to_owned(),
        "kept" => "its knee is not known".to_owned(),
        _ => "keeps the promise at no rate".to_owned(),
    }
}

fn title(objects: &[Value], measure: Measure, ranked: &[Ranked], axes: &str) -> String {
    let is_whole = |object: &&Value| {
        !["not_run", "interrupted"]
            .iter()
            .any(|cut| object["state"] == *cut)
    };
    let whole = objects.iter().filter(is_whole).count();
    let before = match whole < objects.len() {
        true => format!(
            "INTERRUPTED after {whole} of {}: ",
            counted(objects.len() as u64, "setting")
        ),
        false => String::new(),
    };
    let Some(best) = ranked.first() else {
        return before + "no setting has a rank";
    };
    let value = match measure {
        Measure::MillionTokens => format!(
            "is cheapest within the SLO: {} $/M output tokens",
            dollars(best.value)
        ),
        Measure::Hour => {
            let rate = objects
                .iter()
                .find_map(|object| object["sizing"]["for_rate"].as_f64());
            let rate = rate.map_or(String::new(), |rate| format!(" for {} req/s", significant(rate)));
            format!("is cheapest{rate}: {} $/h", dollars(best.value))
        }
        Measure::Rate => format!(
            "serves the most within the SLO: {} req/s",
            significant_down(best.value)
        ),
    };
    let others = match ranked.iter().filter(|one| one.is_alike).count() - 1 {
        0 => String::new(),
        1 => format!("; {} cannot be told from it", ranked[1].name),
        more => format!("; {more} others cannot be told from it"),
    };
    // Of several axes the values are longer than anybody reads with their names.
    let named = match axes.contains(", ") {
        true => best.name.clone(),
        false => format!("{axes} = {}", best.name),
    };
    format!("{before}{named} {value}{others}")
}
