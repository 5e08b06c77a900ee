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

/// What all replicas cost while they are there, or why that is not known.
///
/// # Errors
/// A GPU without a price, and replicas that come and go with the load, of which a [run](of_run) tells how many there are.
pub(super) fn of(resolved: &Resolved, price: Option<f64>) -> Result<Rent, String> {
    let scenario = &resolved.scenario;
    if !scenario.cluster.scalers.is_empty() {
        let why = "its replicas come and go with the load; `run` tells what a run of them costs";
        return Err(why.to_owned());
    }
    let pools = scenario.pools.iter();
    of_pools(pools.map(|pool| (pool, f64::from(pool.replicas))), price)
}

/// What those of a run cost: of replicas that come and go as many as were paid for on average.
///
/// # Errors
/// A GPU without a price.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Result<Rent, String> {
    let Some(scaling) = &outcome.scaling else {
        return of(resolved, None);
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
    let source = prices(pools.clone().map(|(pool, _)| pool), price);
    let rent = Rent::of(pools, price, &source);
    rent.map_err(|pool| format!("the profile of {} has no [price]", pool.device))
}
