//! The commands that look at an answer again: a run of what is to be bought, the knees that it was ranked by, and the two cheapest side
//! by side.

use super::super::plan::VARIANT;
use super::Args;
use super::demand::Demand;
use super::words::{line, without_own};
use crate::config::variant::Said;
use crate::report::purchases::{Config, How, Offer, Purchases};

/// Command lines, each with the name of what it does; none without an answer.
pub(super) fn commands(args: &Args, demand: Option<&Demand>, shop: &Purchases) -> Vec<(String, String)> {
    let offers = shop.offers();
    let Some((best, demand)) = offers.first().zip(demand) else {
        return Vec::new();
    };
    let Some(own) = bought(args, best) else {
        return Vec::new();
    };
    let common = without_own(&args.words);
    let command = |name: &str, common: &[String], more: &[Vec<String>]| {
        let words = [&["plimsoll".to_owned(), name.to_owned()], common, &more.concat()].concat();
        (name.to_owned(), line(&words))
    };
    let (load, price) = (load(args, demand), price(args, best));
    let mut told = vec![command(
        "run",
        &common,
        &[own.clone(), load.clone(), price.clone()],
    )];
    if let (None, How::Alike(_), Some(of_one)) = (demand.of_loop, best.how, flags(args, &best.config)) {
        let rate = vec!["--for-rate".to_owned(), demand.rate.to_string()];
        told.push(command("knee", &common, &[of_one, rate, price]));
    }
    if let Some(second) = offers.get(1).and_then(|second| bought(args, second)) {
        let variants = [("first", &own), ("second", &second)];
        let variants = variants.map(|(name, flags)| format!("{name}: {}", line(flags)));
        told.push(command(
            "compare",
            &of_compare(args, &common),
            &[variants.to_vec(), load],
        ));
    }
    told
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

/// The words that all variants have in common: their first positional would be a variant unless it is a scenario.
fn of_compare(args: &Args, common: &[String]) -> Vec<String> {
    let model = args.scenario.target.as_ref().filter(|_| !names_scenario(args));
    let mut is_before = true;
    let words = common.iter().flat_map(|word| {
        let is_model = is_before && model == Some(word);
        is_before &= !is_model;
        let flag = is_model.then(|| "--model".to_owned());
        flag.into_iter().chain([word.clone()])
    });
    words.collect()
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
        Some(of_loop) => {
            let flag = if of_loop.is_users {
                "--users"
            } else {
                "--max-concurrency"
            };
            vec![flag.to_owned(), of_loop.number.to_string()]
        }
        None if args.for_rate.is_none() && demand.headroom == 1.0 => Vec::new(),
        None => vec!["--request-rate".to_owned(), demand.rate.to_string()],
    }
}
