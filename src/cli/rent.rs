//! What the GPUs of a deployment of several pools cost, and where the prices are from.

use crate::analysis::costs::{Rent, usd};
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

/// What several pools cost that are there all the time, or why that is not known; `None` of one pool, and of replicas that come and
/// go with the load, of which a run tells the hours.
pub(super) fn of_pools(resolved: &Resolved, price: Option<f64>) -> Option<Result<Rent, String>> {
    let scenario = &resolved.scenario;
    if resolved.servers.len() < 2 || !scenario.cluster.scalers.is_empty() {
        return None;
    }
    let rent = Rent::of(&scenario.pools, price, &prices(scenario.pools.iter(), price));
    Some(rent.map_err(|pool| format!("the profile of {} has no [price]", pool.device)))
}

/// US dollars an hour of all replicas of the pools, where all have a price.
pub(super) fn of_all(pools: &[Pool], price: Option<f64>) -> Option<f64> {
    let of_pool = |pool: &'_ Pool| f64::from(pool.gpus) * f64::from(pool.replicas);
    usd(pools.iter().map(|pool| (pool, of_pool(pool))), price).ok()
}
