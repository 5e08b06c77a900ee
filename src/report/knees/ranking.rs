//! Settings as a picture shows them: by rank, those that cannot be told from the best apart from the others, and those without a rank
//! with their reason. They are read from their objects, so that one that a file kept stands beside one that was just searched.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::interrupted;
use super::standing::{Doubt, Rank, Standing, standings};
use crate::analysis::Estimate;
use crate::analysis::costs::{Work, least_too_long};
use crate::analysis::knee::is_burst;
use crate::report::figures::{counted, significant};
use crate::report::json::cost_of;
use crate::report::sought::Sought;
use crate::report::text_sizing::dollars;
use crate::report::undone::Undone;

/// What settings are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// US dollars per million output tokens at the knee.
    MillionTokens,
    /// US dollars per hour of a user, where the knee is a number of them.
    UserHour,
    /// US dollars per hour of the replicas that carry a rate.
    Hour,
    /// What is served within the SLO, where no price is known: requests per second, or so many in flight.
    Served(Sought),
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
        let ranks = ranks(objects, measure);
        let least = least_too_long(objects.iter().map(work));
        let standings = standings(&ranks);
        let mut ranked: Vec<(&Rank, Ranked)> = Vec::new();
        let mut others = Vec::new();
        let known = ranks.iter().zip(standings);
        for ((object, name), (rank, standing)) in objects.iter().zip(names(labels)).zip(known) {
            match (rank, standing) {
                (Some(rank), Some(standing)) => {
                    let is_alike = standing != Standing::Worse;
                    ranked.push((rank, self::ranked(rank, object, name, is_alike)));
                }
                _ => others.push((name, why_unranked(object, undone(object, least), measure))),
            }
        }
        ranked.sort_by(|(a, one), (b, other)| other.is_alike.cmp(&one.is_alike).then(a.order(b)));
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

/// The setting as it is drawn.
fn ranked(rank: &Rank, object: &Value, name: String, is_alike: bool) -> Ranked {
    let (value, interval) = match rank {
        Rank::Cost(cost, _) => (cost.usd, cost.interval_90().unwrap_or_else(|| cost.chance_90())),
        Rank::Rate(rate) => (rate.value, (rate.low, rate.high)),
    };
    Ranked {
        name,
        value,
        interval,
        is_by_chance: matches!(rank, Rank::Cost(cost, _) if cost.model.is_none()),
        is_alike,
        figures: figures(object, rank, interval),
    }
}

/// What the objects are ranked by, of those that were searched to their end.
fn ranks(objects: &[Value], measure: Measure) -> Vec<Option<Rank>> {
    let least = least_too_long(objects.iter().map(work));
    let of = |object: &Value| match measure {
        _ if is_cut(object) || undone(object, least).is_some() => None,
        Measure::Served(_) => rate(object).map(Rank::Rate),
        Measure::MillionTokens | Measure::UserHour | Measure::Hour => {
            cost_of(object).map(|cost| Rank::Cost(cost, load(object)))
        }
    };
    objects.iter().map(of).collect()
}

fn is_cut(object: &Value) -> bool {
    ["not_run", "interrupted"]
        .iter()
        .any(|cut| object["state"] == *cut)
}

/// What its setting leaves undone, beside others that refuse the share `least` of their requests as too long.
fn undone(object: &Value, least: f64) -> Option<Undone> {
    Undone::of(work(object), least)
}

fn work(object: &Value) -> Work {
    let share = |key: &str| object[key].as_f64().unwrap_or(0.0);
    Work {
        is_kept: object["state"] == "kept",
        answers_cut: share("answers_cut"),
        too_long: share("too_long"),
        is_burst: object["sent_for_stays"].as_f64().is_some_and(is_burst),
    }
}

/// Writes into each object where its setting stands, as [`crate::report::json::knee_settings`] does: settings that a file kept were
/// written before the others were known.
pub fn place(objects: &mut [Value]) {
    let standings = standings(&ranks(objects, measure(objects)));
    let cut = objects.iter().any(is_cut);
    let searched = objects.iter().filter(|object| is_searched(object)).count();
    for (object, standing) in objects.iter_mut().zip(standings) {
        object["standing"] = standing.map(Standing::word).into();
        object["alike_by"] = standing.and_then(Standing::doubt).map(Doubt::word).into();
        if cut {
            object["interrupted_after_settings"] = searched.into();
        } else if let Some(object) = object.as_object_mut() {
            object.remove("interrupted_after_settings");
        }
    }
}

/// Whether it was searched to its end.
fn is_searched(object: &Value) -> bool {
    ["kept", "not_kept"].iter().any(|state| object["state"] == *state)
}

/// By cost, unless no cost is known.
fn measure(objects: &[Value]) -> Measure {
    let priced = objects.iter().find(|object| cost_of(object).is_some());
    match priced.map(|object| object["cost"]["ranked_by"].as_str()) {
        Some(Some("usd_per_hour")) => Measure::Hour,
        Some(Some("usd_per_user_hour")) => Measure::UserHour,
        Some(_) => Measure::MillionTokens,
        None => Measure::Served(of(objects)),
    }
}

/// What the knees are numbers of.
fn of(objects: &[Value]) -> Sought {
    let known = objects.iter().find_map(|object| object["knee_of"].as_str());
    Sought::of_code(known)
}

/// [`super::Priced::load`] as it is written.
fn load(object: &Value) -> f64 {
    let served = || object["knee"]["value"].as_f64().unwrap_or(0.0);
    object["sizing"]["load"].as_f64().unwrap_or_else(|| -served())
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
fn figures(object: &Value, rank: &Rank, (low, high): (f64, f64)) -> String {
    let of = Sought::of_code(object["knee_of"].as_str());
    let gpus = object["cost"]["gpus"].as_u64();
    let gpus = gpus.map(|gpus| counted(gpus, "GPU"));
    let interval = match rank {
        Rank::Cost(..) if high.is_finite() => format!("[{}, {}]", dollars(low), dollars(high)),
        Rank::Cost(..) => format!("from {}", dollars(low)),
        Rank::Rate(_) if high.is_infinite() => format!("from {}", of.figure(low)),
        Rank::Rate(rate) => of.interval(*rate),
    };
    let beside = match object["sizing"]["replicas"].as_u64() {
        Some(replicas) => Some(counted(replicas, "replica")),
        None => self::rate(object)
            .filter(|_| matches!(rank, Rank::Cost(..)))
            .map(|rate| of.told(rate.value)),
    };
    let (value, unit) = match rank {
        Rank::Rate(rate) => (of.figure(rate.value), of.unit()),
        Rank::Cost(cost, _) => match object["cost"]["ranked_by"].as_str() {
            Some("usd_per_hour") => (dollars(cost.usd), "$/h"),
            Some("usd_per_user_hour") => (dollars(cost.usd), "$/h a user"),
            _ => (dollars(cost.usd), "$/M"),
        },
    };
    let on = [beside, gpus].into_iter().flatten().collect::<Vec<_>>();
    format!("{value} {unit} {interval} · {}", on.join(" on "))
}

/// Why it stands in no order.
fn why_unranked(object: &Value, undone: Option<Undone>, measure: Measure) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    match (text("state"), undone) {
        ("does_not_fit", _) => format!("does not fit: {}", text("why")),
        ("refused", _) => format!("refused: {}", text("in_short")),
        ("failed" | "pruned", _) => text("why").to_owned(),
        ("not_run", _) => "not searched: interrupted".to_owned(),
        ("interrupted", _) => "interrupted".to_owned(),
        (_, Some(undone)) => undone.why().to_owned(),
        _ if object["client_limit_within_slo"] == true && object["knee"].is_null() => {
            "the client is its limit".to_owned()
        }
        ("kept", _) if !matches!(measure, Measure::Served(_)) => "its price is not known".to_owned(),
        ("kept", _) => "its knee is not known".to_owned(),
        _ => match Sought::of_code(object["knee_of"].as_str()) {
            Sought::Rate => "meets the SLO at no rate".to_owned(),
            Sought::InFlight | Sought::Users => "no number in flight is seen to meet the SLO".to_owned(),
        },
    }
}

fn title(objects: &[Value], measure: Measure, ranked: &[Ranked], axes: &str) -> String {
    let searched = objects.iter().filter(|object| is_searched(object)).count();
    let searchable = searched + objects.iter().filter(|object| is_cut(object)).count();
    let before = match searched < searchable {
        true => interrupted(searched as u64, searchable as u64),
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
        Measure::UserHour => format!("is cheapest within the SLO: {} $/h a user", dollars(best.value)),
        Measure::Served(of) => format!("serves the most within the SLO: {}", of.told(best.value)),
    };
    let before = match before.is_empty() {
        true => before,
        false => before + "of these ",
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
