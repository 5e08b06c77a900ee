//! What a GPU-hour costs: what was said, or else the list price in each card's profile.

use super::judge::Judge;
use super::raw::RawCluster;
use super::server::Server;
use crate::sim::{GpuPrice, Pool};

const KEY: &str = "cluster.price";

/// More than anybody pays for an hour of a GPU, US dollars.
pub(super) const USD_MAX: f64 = 1e6;

/// What was said, if anything.
pub(super) fn given(judge: &mut Judge, raw: &RawCluster) -> Option<f64> {
    let usd = raw.price?;
    judge.given(KEY, usd);
    let is_right = |usd: f64| (0.0..USD_MAX).contains(&usd);
    judge.number(KEY, usd, is_right, "must be US dollars per GPU-hour, like 2.99");
    Some(usd)
}

/// The price of each pool. An ideal server is no machine that has one unless it is said.
pub(super) fn resolve(judge: &mut Judge, given: Option<f64>, pools: &mut [Pool], servers: &[Server]) {
    let are_unlike = servers
        .iter()
        .any(|server| server.device.id != servers[0].device.id);
    if given.is_some() && are_unlike {
        judge.wrong_help(
            KEY,
            "is one price for every GPU-hour",
            "the pools have cards that cost unlike amounts",
            format!("leave it out: {OF_EACH_CARD}"),
        );
    }
    for (pool, server) in pools.iter_mut().zip(servers) {
        let list = server
            .device
            .price
            .as_ref()
            .filter(|_| server.step_time.is_none());
        let list = list.map(|list| GpuPrice {
            usd_per_hour: list.usd_per_hour,
            listed: Some(list.date.clone()),
        });
        let given = given.map(|usd_per_hour| GpuPrice {
            usd_per_hour,
            listed: None,
        });
        pool.price = given.or(list);
    }
}

/// How cards are given prices of their own.
pub const OF_EACH_CARD: &str = "each card then has the list price of its profile, which is told beside the answer; for your own put what \
                                `plimsoll hw show GPU --format toml` says into a file, change its usd_per_hour, and give the file's path \
                                in place of the name";
