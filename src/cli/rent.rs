//! What the GPUs of a deployment cost, and where the prices are from.

use crate::analysis::Outcome;
use crate::analysis::costs::Rent;
use crate::config::{Diagnostic, Diagnostics, Place, Resolved, Source};
use crate::report::figures::significant;
use crate::sim::Pool;

/// Where the prices are from, each once; empty where none is known.
pub(super) fn prices<'a>(pools: impl Iterator<Item = &'a Pool> + Clone) -> String {
    let (mut given, mut listed): (Vec<String>, Vec<String>) = Default::default();
    let of_unlike = are_unlike(pools.clone());
    for pool in pools {
        let Some(price) = &pool.price else {
            continue;
        };
        let (all, one) = match &price.listed {
            None if of_unlike => (&mut given, format!("{} {:.2}", pool.device, price.usd_per_hour)),
            None => (&mut given, significant(price.usd_per_hour)),
            Some(date) => {
                let one = format!("{} {:.2} ({date})", pool.device, price.usd_per_hour);
                (&mut listed, one)
            }
        };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    let given = (!given.is_empty()).then(|| format!("{} $ per GPU-hour, as given", given.join(", ")));
    let listed =
        (!listed.is_empty()).then(|| format!("assumed list prices, $ per GPU-hour: {}", listed.join(", ")));
    given.into_iter().chain(listed).collect::<Vec<_>>().join("; ")
}

/// Whether prices were given for cards that are not one.
fn are_unlike<'a>(pools: impl Iterator<Item = &'a Pool>) -> bool {
    let is_given = |pool: &&'a Pool| pool.price.as_ref().is_some_and(|price| price.listed.is_none());
    let mut given = pools.filter(is_given).map(|pool| &pool.device);
    let first = given.next();
    given.any(|other| Some(other) != first)
}

/// Where the price of one pool's GPUs is from; where there are several [each card's](prices).
fn source<'a>(pools: impl Iterator<Item = &'a Pool> + Clone) -> String {
    let mut each = pools.clone();
    let listed = |pool: &'a Pool| pool.price.as_ref()?.listed.as_ref();
    match (each.next().and_then(listed), each.next()) {
        (Some(date), None) => format!("assumed list price of {date}"),
        _ => prices(pools),
    }
}

/// Whether there is no machine to pay: an ideal server of which no price was given.
fn is_free(resolved: &Resolved) -> bool {
    resolved.is_ideal() && resolved.scenario.first_pool().price.is_none()
}

/// What stands beside the knee of one setting; nothing where there is no machine to pay.
pub(super) fn beside_knee(resolved: &Resolved) -> Option<Result<Rent, String>> {
    if is_free(resolved) {
        return None;
    }
    let is_scaled = !resolved.scenario.cluster.scalers.is_empty();
    Some(of(resolved).map_err(|why| match is_scaled {
        true => why,
        false => why + ": give --price",
    }))
}

/// The flag that gave the price, if one did.
fn price_flag(resolved: &Resolved) -> Option<Place> {
    let mut given = resolved.provenance.iter();
    let price = given.find(|value| value.key == "cluster.price")?;
    match &price.source {
        Source::Flag(flag) => Some(Place::Flag(flag.clone())),
        _ => None,
    }
}

/// Refuses a price where a knee tells no cost.
///
/// # Errors
/// Replicas that come and go.
pub(super) fn check_for_knee(resolved: &Resolved) -> Result<(), Diagnostics> {
    if resolved.scenario.cluster.scalers.is_empty() {
        return Ok(());
    }
    no_cost(
        resolved,
        "--price has no effect on a knee of replicas that come and go with the load",
        "`run` tells what a run of them costs, and takes --price",
    )
}

/// Refuses a price by a flag where `what` tells no cost.
///
/// # Errors
/// There is one.
pub(super) fn no_cost(resolved: &Resolved, what: &str, help: &str) -> Result<(), Diagnostics> {
    match price_flag(resolved) {
        None => Ok(()),
        Some(flag) => Err(Diagnostic::new(what).at(flag).help(help).into()),
    }
}

/// What all replicas cost while they are there, or why that is not known.
///
/// # Errors
/// An ideal server or a GPU without a price, and replicas that come and go with the load, of which a [run](of_run) tells how many there are.
pub(super) fn of(resolved: &Resolved) -> Result<Rent, String> {
    let scenario = &resolved.scenario;
    if !scenario.cluster.scalers.is_empty() {
        let why = "its replicas come and go with the load; `run` tells what a run of them costs";
        return Err(why.to_owned());
    }
    let pools = scenario.pools.iter();
    of_pools(resolved, pools.map(|pool| (pool, f64::from(pool.replicas))))
}

/// What those of a run cost: of replicas that come and go as many as were paid for on average.
///
/// # Errors
/// An ideal server or a GPU without a price.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Result<Rent, String> {
    let Some(scaling) = &outcome.scaling else {
        return of(resolved);
    };
    let lasted_s = outcome.result.whole.duration_s;
    let on_average = |paid_s: &f64| if lasted_s > 0.0 { paid_s / lasted_s } else { 0.0 };
    let replicas = scaling.replica_s.iter().map(on_average);
    let rent = of_pools(resolved, resolved.scenario.pools.iter().zip(replicas))?;
    Ok(Rent {
        is_mean: true,
        ..rent
    })
}

fn of_pools<'a>(
    resolved: &Resolved,
    pools: impl Iterator<Item = (&'a Pool, f64)> + Clone,
) -> Result<Rent, String> {
    if is_free(resolved) {
        return Err("an ideal server is no machine that has a price".to_owned());
    }
    let source = source(pools.clone().map(|(pool, _)| pool));
    let rent = Rent::of(pools, &source);
    rent.map_err(|pool| format!("the profile of {} has no [price]", pool.device))
}
