//! What to buy as one JSON object: the answer, what was wanted, every purchase, and each setting as a ranking of knees has it.

use super::knees::{object, settings};
use super::value::{Object, Value};
use crate::analysis::knee::NeededBy;
use crate::report::knees::KneeRow;
use crate::report::purchases::{Config, How, Offer, Purchases, Seen, answer, of_fleet};
use crate::report::trust::{trust_of, trust_word};

/// Writes the object as a line of JSON, without a newline at its end. `purchases` are in the order of their ranks; `setting` is the index
/// of its own in `settings`, which are in the order of the axes, and `null` of prefill and decode pools.
#[must_use]
pub fn purchases(shop: &Purchases) -> String {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    object.put("answer", answer(shop));
    object.put("demand", demand(shop));
    object.put("spares", shop.spares);
    let offers = shop.offers();
    let usd = |offer: &&Offer| offer.surviving.2;
    let known = offers.iter().filter(|offer| usd(offer).is_some());
    let surviving = known.min_by(|a, b| usd(a).partial_cmp(&usd(b)).unwrap_or(std::cmp::Ordering::Equal));
    object.put("cheapest_surviving_a_failure", surviving.map(self::surviving));
    object.put("purchases", offers.iter().map(purchase).collect::<Vec<Object>>());
    object.put("left_out", shop.left_out.clone());
    let mut next = Object::default();
    for (name, command) in &shop.next {
        next.put(&name.replace(' ', "_"), command.as_str());
    }
    object.put("next", next);
    object.put("settings", settings(&shop.knees, |at| shop.as_cell(at)));
    object.line()
}

/// A setting as a line of JSON, as a file of finished ones has it: as [`super::knee_setting`], and what is bought of it, whose rank and
/// standing are not known before all are finished.
#[must_use]
pub fn sized_setting(row: &KneeRow, config: &Config) -> String {
    let mut object = object(row, None);
    let offer = row.priced().and_then(|priced| of_fleet(priced, config));
    object.put("purchase", offer.as_ref().map(purchase));
    object.line()
}

/// The purchase of a setting's object, as it was written.
pub(in crate::report) fn purchase_of(setting: &serde_json::Value, config: &Config) -> Option<Offer> {
    let purchase = setting["purchase"].is_object().then_some(&setting["purchase"])?;
    let (number, whole) = (
        |key: &str| purchase[key].as_f64(),
        |key: &str| purchase[key].as_u64(),
    );
    let replicas = whole("replicas")?;
    let survives = purchase["survives_a_failure"].as_bool()?;
    let interval = number("usd_low").map(|low| (low, number("usd_high").unwrap_or(f64::INFINITY)));
    let by = |by: &NeededBy| purchase["load_by"] == load_by(*by);
    let word = |key: &str, all: &[&'static str]| all.iter().copied().find(|word| setting[key] == *word);
    Some(Offer {
        rank: 0,
        row: None,
        config: config.clone(),
        how: How::Alike(replicas),
        gpus: whole("gpus")?,
        knee_per_s: number("knee_of_one"),
        load: number("load"),
        load_by: [NeededBy::KneeOfOne, NeededBy::Fleet, NeededBy::AtMost]
            .into_iter()
            .find(by),
        left: number("load_one_lost").map(|load| (replicas - 1, load)),
        survives,
        is_held_with_less: purchase["client_limit_decides"].as_bool()?,
        why_by_knee: purchase["by_knee_because"].as_str().map(str::to_owned),
        seen: match (number("request_rate"), number("in_flight")) {
            (Some(served_per_s), Some(in_flight)) => Some(Seen {
                served_per_s,
                in_flight,
            }),
            _ => None,
        },
        usd_per_hour: number("usd_per_hour"),
        usd_90: interval,
        usd_per_million_output_tokens: number("usd_per_million_output_tokens"),
        usd_per_million_tokens: number("usd_per_million_tokens"),
        surviving: (
            How::Alike(replicas + u64::from(!survives)),
            whole("gpus_surviving")?,
            number("usd_per_hour_surviving"),
        ),
        kernels: purchase["kernels"].as_str().and_then(trust_of),
        standing: word("standing", &["best", "alike", "worse"]),
        alike_by: word("alike_by", &["chance", "model"]),
    })
}

fn demand(shop: &Purchases) -> Object {
    let demand = &shop.demand;
    let mut object = Object::default();
    // Of a closed loop what it sends hangs on who answers: each purchase has it.
    object.put("request_rate", demand.rate);
    object.put("max_concurrency", demand.in_flight_max);
    let number = |is_users: bool| {
        let of_loop = demand.of_loop.filter(|of_loop| of_loop.is_users == is_users);
        of_loop.map(|of_loop| u64::from(of_loop.number))
    };
    object.put("users", number(true));
    let users = demand.of_loop.filter(|of_loop| of_loop.is_users);
    object.put("think_time_s", users.map(|users| users.think_s));
    object.put("in_flight", number(false));
    object.put("headroom", demand.headroom);
    let source = (!demand.source.is_empty()).then(|| demand.source.clone());
    object.put("source", source);
    object
}

fn put_how(object: &mut Object, how: How) {
    let (replicas, apart) = match how {
        How::Alike(replicas) => (replicas, None),
        How::Apart(prefill, decode) => (prefill + decode, Some((prefill, decode))),
    };
    object.put("replicas", replicas);
    object.put("prefill_replicas", apart.map(|(prefill, _)| prefill));
    object.put("decode_replicas", apart.map(|(_, decode)| decode));
}

fn surviving(offer: &Offer) -> Object {
    let (how, gpus, usd) = offer.surviving;
    let mut object = Object::default();
    object.put("rank", offer.rank as u64);
    object.put("gpu", offer.config.gpu.as_str());
    put_shape(&mut object, offer);
    put_how(&mut object, how);
    object.put("gpus", gpus);
    object.put("usd_per_hour", usd);
    object
}

/// What tells how loaded it is, as files spell it.
pub(in crate::report) fn load_by(by: NeededBy) -> &'static str {
    match by {
        NeededBy::KneeOfOne => "knee_of_one",
        NeededBy::Fleet => "fleet",
        NeededBy::AtMost => "at_most",
    }
}

/// How the GPUs of a replica share it.
fn put_shape(object: &mut Object, offer: &Offer) {
    object.put("tensor_parallel_size", size(offer));
    object.put("pipeline_parallel_size", offer.config.pipeline_parallel);
    object.put("data_parallel_size", offer.config.data_parallel);
}

/// Of a number that is none, as a file may have it, what was written.
fn size(offer: &Offer) -> Value {
    let text = &offer.config.tensor_parallel;
    text.parse()
        .map_or_else(|_| Value::Text(text.clone()), Value::Integer)
}

fn purchase(offer: &Offer) -> Object {
    let mut object = Object::default();
    object.put("rank", offer.rank as u64);
    object.put("setting", offer.row.map(|row| row as u64));
    object.put("buy", offer.bought());
    object.put("gpu", offer.config.gpu.as_str());
    put_shape(&mut object, offer);
    put_how(&mut object, offer.how);
    object.put("gpus", offer.gpus);
    // Requests per second that one replica alone takes within the SLO.
    object.put("knee_of_one", offer.knee_per_s);
    // What its run served and had in flight, and by Little's law what an answer takes.
    object.put("request_rate", offer.seen.map(|seen| seen.served_per_s));
    object.put("in_flight", offer.seen.map(|seen| seen.in_flight));
    object.put("answer_s", offer.seen.map(|seen| seen.answer_s()));
    object.put("load", offer.load);
    object.put("load_by", offer.load_by.map(load_by));
    object.put("survives_a_failure", offer.survives);
    object.put("load_one_lost", offer.left.map(|(_, load)| load));
    object.put("usd_per_hour", offer.usd_per_hour);
    object.put("usd_low", offer.usd_90.map(|(low, _)| low));
    let high = offer.usd_90.map(|(_, high)| high);
    object.put("usd_high", high.filter(|high| high.is_finite()));
    object.put("usd_per_hour_surviving", offer.surviving.2);
    object.put("gpus_surviving", offer.surviving.1);
    object.put(
        "usd_per_million_output_tokens",
        offer.usd_per_million_output_tokens,
    );
    object.put("usd_per_million_tokens", offer.usd_per_million_tokens);
    object.put(
        "counted_by",
        match offer.why_by_knee {
            None => "simulation",
            Some(_) => "knee",
        },
    );
    object.put("client_limit_decides", offer.is_held_with_less);
    object.put("by_knee_because", offer.why_by_knee.clone());
    object.put("kernels", offer.kernels.map(|trust| trust_word(trust).to_owned()));
    // Beside the cheapest of all, pools among them; that of a setting is beside the other settings.
    object.put("standing", offer.standing);
    object.put("alike_by", offer.alike_by);
    object
}
