//! What the GPUs of a deployment cost, and where the prices are from.

use crate::analysis::Outcome;
use crate::analysis::costs::Rent;
use crate::config::Resolved;
use crate::report::figures::significant;
use crate::sim::Pool;

/// Where the prices are from, each card once; empty where none is known.
pub(super) fn prices<'a>(pools: impl Iterator<Item = &'a Pool>, price: Option<f64>) -> String {
    if let Some(price) = price {
        return format!("{} $ per GPU-hour, as given", significant(price));
    }
    let mut told: Vec<String> = Vec::new();
    for pool in pools {
        let Some(price) = &pool.price else {
            continue;
        };
        let one = format!("{} {:.2} ({})", pool.device, price.usd_per_hour, price.date);
        if !told.contains(&one) {
            told.push(one);
        }
    }
    match told.is_empty() {
        true => String::new(),
        false => format!("assumed list prices, $ per GPU-hour: {}", told.join(", ")),
    }
}

/// Where the price of one pool's GPUs is from; where there are several [each card's](prices).
fn source<'a>(pools: impl Iterator<Item = &'a Pool> + Clone, price: Option<f64>) -> String {
    let mut each = pools.clone();
    match (each.next(), each.next()) {
        (
            Some(Pool {
                price: Some(list), ..
            }),
            None,
        ) if price.is_none() => {
            format!("assumed list price of {}", list.date)
        }
        _ => prices(pools, price),
    }
}

/// What is said of a price that there is none of.
const IDEAL: &str = "an ideal server is no machine that has a price";

/// What stands beside the knee of one setting; nothing where there is no machine to pay.
pub(super) fn beside_knee(resolved: &Resolved, price: Option<f64>) -> Option<Result<Rent, String>> {
    if resolved.is_ideal() && price.is_none() {
        return None;
    }
    let is_scaled = !resolved.scenario.cluster.scalers.is_empty();
    Some(of(resolved, price).map_err(|why| match is_scaled {
        true => why,
        false => why + ": give --price",
    }))
}

/// What all replicas cost while they are there, or why that is not known.
///
/// # Errors
/// An ideal server or a GPU without a price, and replicas that come and go with the load, of which a [run](of_run) tells how many there are.
pub(super) fn of(resolved: &Resolved, price: Option<f64>) -> Result<Rent, String> {
    let scenario = &resolved.scenario;
    if !scenario.cluster.scalers.is_empty() {
        let why = "its replicas come and go with the load; `run` tells what a run of them costs";
        return Err(why.to_owned());
    }
    of_all(resolved, price)
}

/// The same of replicas that are there all the time.
fn of_all(resolved: &Resolved, price: Option<f64>) -> Result<Rent, String> {
    if resolved.is_ideal() && price.is_none() {
        return Err(IDEAL.to_owned());
    }
    let pools = resolved.scenario.pools.iter();
    of_pools(pools.map(|pool| (pool, f64::from(pool.replicas))), price)
}

/// What those of a run cost: of replicas that come and go as many as were paid for on average.
///
/// # Errors
/// An ideal server or a GPU without a price.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Result<Rent, String> {
    let Some(scaling) = outcome.scaling.as_ref().filter(|_| !resolved.is_ideal()) else {
        return of_all(resolved, None);
    };
    let lasted_s = outcome.result.whole.duration_s;
    let on_average = |paid_s: &f64| if lasted_s > 0.0 { paid_s / lasted_s } else { 0.0 };
    let replicas = scaling.replica_s.iter().map(on_average);
    let rent = of_pools(resolved.scenario.pools.iter().zip(replicas), None)?;
    Ok(Rent {
        is_mean: true,
        ..rent
    })
}

fn of_pools<'a>(
    pools: impl Iterator<Item = (&'a Pool, f64)> + Clone,
    price: Option<f64>,
) -> Result<Rent, String> {
    let source = source(pools.clone().map(|(pool, _)| pool), price);
    let rent = Rent::of(pools, price, &source);
    rent.map_err(|pool| format!("the profile of {} has no [price]", pool.device))
}
