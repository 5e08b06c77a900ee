//! The commands that look at an answer again: a run of what is to be bought, the knees that it was ranked by, and the two cheapest side
//! by side.

use super::super::plan::VARIANT;
use super::Args;
use super::demand::Demand;
use super::words::{line, without_own, without_price};
use crate::analysis::knee::Loop;
use crate::config::REPLICAS_MAX;
use crate::config::variant::Said;
use crate::report::purchases::{Config, How, Offer};

/// Command lines, each with the name of what it does; none without an answer.
pub(super) fn commands(args: &Args, demand: Option<&Demand>, offers: &[Offer]) -> Vec<(String, String)> {
    let Some((best, demand)) = offers.first().zip(demand) else {
        return Vec::new();
    };
    let Some(own) = bought(args, best) else {
        return Vec::new();
    };
    let common = without_own(&args.words);
    let command = |name: &str, common: &[String], more: &[Vec<String>]| {
        let verb = name.split(' ').next().unwrap_or(name);
        let words = [&["plimsoll".to_owned(), verb.to_owned()], common, &more.concat()].concat();
        (name.to_owned(), line(&words))
    };
    let (load, price) = (load(args, demand), price(args, best));
    let mut told = Vec::new();
    match (best.how, flags(args, &best.config)) {
        // No run takes so many: one of them does, with its share.
        (How::Alike(replicas), Some(of_one)) if is_beyond_a_run(best) => {
            let share = share(demand, replicas - args.spare);
            told.push(command("run one", &common, &[of_one, share, price.clone()]));
        }
        _ => told.push(command(
            "run",
            &common,
            &[own.clone(), load.clone(), price.clone()],
        )),
    }
    if let (How::Alike(_), Some(of_one)) = (best.how, flags(args, &best.config)) {
        // Of a loop its knee is how many one replica serves.
        let rate = match demand.of_loop {
            None => vec!["--for-rate".to_owned(), demand.rate.to_string()],
            Some(_) => Vec::new(),
        };
        told.push(command("knee", &common, &[of_one, rate, price]));
    }
    let second = offers
        .get(1)
        .filter(|second| ![best, second].into_iter().any(is_beyond_a_run));
    if let Some(flags) = second.and_then(|second| bought(args, second)) {
        let variants = [("first", own), ("second", flags)];
        let variants = variants.map(|(name, flags)| format!("{name}: {}", line(&flags)));
        told.push(command("compare", &of_compare(args, &common, &variants), &[load]));
    }
    told
}

/// The flags of the demand that one of so many replicas has.
fn share(demand: &Demand, replicas: u64) -> Vec<String> {
    let limit = demand.in_flight_max;
    match demand.of_loop {
        Some(of_loop) => of_a_loop(of_loop, u64::from(of_loop.number).div_ceil(replicas)),
        None => {
            let rate = (demand.rate / replicas as f64).to_string();
            let limit = limit.map(|limit| u64::from(limit).div_ceil(replicas).to_string());
            let limit = limit.map(|limit| ["--max-concurrency".to_owned(), limit]);
            let rate = ["--request-rate".to_owned(), rate];
            rate.into_iter().chain(limit.into_iter().flatten()).collect()
        }
    }
}

/// The flags of so many users, or requests in flight.
fn of_a_loop(of_loop: Loop, number: u64) -> Vec<String> {
    let flag = match of_loop.is_users {
        true => "--users",
        false => "--max-concurrency",
    };
    vec![flag.to_owned(), number.to_string()]
}

/// Whether it has more replicas than a run takes.
fn is_beyond_a_run(offer: &Offer) -> bool {
    match offer.how {
        How::Alike(replicas) => replicas > REPLICAS_MAX,
        How::Apart(prefill, decode) => prefill + decode > REPLICAS_MAX,
    }
}

/// What a GPU of it costs an hour, where prices of cards were given: other commands know one price alone.
fn price(args: &Args, offer: &Offer) -> Vec<String> {
    let is_given = args.prices.is_some() || !args.price_of.is_empty();
    let usd = offer.usd_per_hour.filter(|_| is_given);
    let usd = usd.map(|usd| format!("{}", (usd / offer.gpus as f64 * 1e6).round() / 1e6));
    usd.into_iter()
        .flat_map(|usd| ["--price".to_owned(), usd])
        .collect()
}

/// The flags of what is to be bought.
fn bought(args: &Args, offer: &Offer) -> Option<Vec<String>> {
    let numbers = match offer.how {
        How::Alike(replicas) => vec![("--replicas", replicas)],
        How::Apart(prefill, decode) => vec![("--prefill", prefill), ("--decode", decode)],
    };
    let numbers = numbers
        .into_iter()
        .flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]);
    Some(flags(args, &offer.config)?.into_iter().chain(numbers).collect())
}

/// The words of a comparison. Variants stand before flags, of which some take several values and would take them, too; the first
/// positional would be a variant unless it is a scenario. What GPUs cost is no part of it.
fn of_compare(args: &Args, common: &[String], variants: &[String]) -> Vec<String> {
    let mut rest = without_price(common);
    let target = args.scenario.target.as_ref();
    let at = rest.iter().position(|word| Some(word) == target);
    let named: Vec<String> = at.map(|at| rest.remove(at)).into_iter().collect();
    let (scenario, model) = match names_scenario(args) || named.is_empty() {
        true => (named, Vec::new()),
        false => (Vec::new(), [vec!["--model".to_owned()], named].concat()),
    };
    [scenario, variants.to_vec(), model, rest].concat()
}

/// Whether what is named first is a scenario.
fn names_scenario(args: &Args) -> bool {
    let target = args.scenario.target.as_deref().unwrap_or_default();
    target.ends_with(".toml")
        || crate::config::files::SHIPPED
            .iter()
            .any(|(name, _)| *name == target)
}

/// The flags of a setting; `None` of one that an axis over a key makes.
fn flags(args: &Args, config: &Config) -> Option<Vec<String>> {
    let rest = config.rest.iter().map(|(axis, value)| {
        let axis = axis.trim_start_matches('-').replace('_', "-");
        match axis.as_str() {
            VARIANT => of_variant(args, value),
            key if key.contains('.') => None,
            flag => Some(vec![format!("--{flag}"), value.clone()]),
        }
    });
    let rest = rest.collect::<Option<Vec<_>>>()?;
    let own = [
        "--gpu".to_owned(),
        config.named.clone(),
        "--tensor-parallel-size".to_owned(),
        config.tensor_parallel.clone(),
    ];
    Some(own.into_iter().chain(rest.into_iter().flatten()).collect())
}

/// The flags of the variant of this name, but for those of what is found.
fn of_variant(args: &Args, name: &str) -> Option<Vec<String>> {
    let mut all = args
        .axes
        .variants
        .iter()
        .filter_map(|text| Said::parse(text).ok());
    let said = all.find(|said| said.called() == name)?;
    Some(without_own(&said.words))
}

/// The flags of the demand, where the command does not say it already.
fn load(args: &Args, demand: &Demand) -> Vec<String> {
    match demand.of_loop {
        Some(_) if demand.headroom == 1.0 => Vec::new(),
        Some(of_loop) => of_a_loop(of_loop, of_loop.number.into()),
        None if args.for_rate.is_none() && demand.headroom == 1.0 => Vec::new(),
        None => vec!["--request-rate".to_owned(), demand.rate.to_string()],
    }
}
