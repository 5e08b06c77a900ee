//! `--for-rate`: the fleet that a rate needs, by the knee of one replica.

use super::super::mix;
use crate::analysis::knee::Demand;
use crate::config::{Diagnostic, Diagnostics, Document, Resolved};
use crate::report::Sizing;
use crate::workload::Arrivals;

/// What to count replicas for.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Sizing")]
pub struct SizingFlags {
    /// Count the replicas, and their cost, that so many requests per second need in all.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub for_rate: Option<f64>,
    /// US dollars per GPU-hour, in place of the list price of the GPU's profile.
    #[arg(
        long,
        value_name = "USD",
        requires = "for_rate",
        allow_negative_numbers = true
    )]
    pub price: Option<f64>,
}

/// The smallest rate that is sized for, requests per second: below it dollars per token say nothing.
const RATE_MIN: f64 = 1e-6;

impl SizingFlags {
    /// Checks the flags.
    ///
    /// # Errors
    /// A rate or a price that is none.
    pub(super) fn check(self) -> anyhow::Result<SizingFlags> {
        super::rate("--for-rate", self.for_rate)?;
        if let Some(rate) = self.for_rate
            && rate < RATE_MIN
        {
            anyhow::bail!(
                "--for-rate {rate:e} is less than a request in 11 days, which a replica that is there serves: give at least 1e-6"
            );
        }
        if let Some(price) = self.price
            && !(0.0..1e6).contains(&price)
        {
            anyhow::bail!("--price {price} is not a price: write US dollars per GPU-hour, --price 2.99");
        }
        Ok(self)
    }

    /// What was asked, for this scenario's replica.
    ///
    /// # Errors
    /// A scenario that is a cluster already, or whose replicas fail.
    pub(super) fn of(self, resolved: &Resolved, document: &Document) -> Result<Option<Sizing>, Diagnostics> {
        let Some(rate) = self.for_rate else {
            return Ok(None);
        };
        let engines = engines_of_one(resolved, document)?;
        let list = resolved.device.price.as_ref();
        let price_source = match (self.price, list) {
            (None, Some(list)) => Some(format!("assumed list price of {}", list.date)),
            _ => None,
        };
        Ok(Some(Sizing {
            demand: Demand {
                rate,
                gpus_per_replica: resolved.placement.gpus() * engines,
                usd_per_gpu_hour: self.price.or(list.map(|list| list.usd_per_hour)),
            },
            gpu: resolved.device.id.clone(),
            price_source,
            slows_a_trace: (resolved.scenario.workload.parts().iter())
                .any(|part| matches!(part.arrivals, Arrivals::Replay { .. })),
            beside: mix::beside(&resolved.scenario.workload),
            fleet: None,
        }))
    }
}

/// Engines of one replica, which are those of a data-parallel server. The count rests on the knee of one replica, so
/// that of a cluster would be counted, and paid, as one.
fn engines_of_one(resolved: &Resolved, document: &Document) -> Result<u32, Diagnostics> {
    let cluster = &resolved.scenario.cluster;
    if resolved.servers.len() > 1 {
        let what = "--for-rate counts replicas that are alike, and the scenario has pools";
        let help =
            "search the knee of all pools without --for-rate, or size each pool in a scenario of its own";
        return Err(Diagnostic::new(what).help(help).into());
    }
    if cluster.replicas > 1 && document.get("cluster.replicas").is_some() {
        let what = format!(
            "--for-rate counts replicas by the knee of one, and the scenario has {}",
            cluster.replicas
        );
        let help = "leave --replicas and --router out (`replicas` and `router` under [cluster])";
        return Err(Diagnostic::new(what).help(help).into());
    }
    if cluster.outages.is_some() || !cluster.changes.is_empty() {
        let help =
            "leave the failures out, count, and see by `run --replicas N` with failures whether N is enough";
        return Err(Diagnostic::new("--for-rate counts replicas that do not fail")
            .help(help)
            .into());
    }
    Ok(cluster.replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_next_to_nothing_is_not_sized_for() {
        let flags = |rate: f64| SizingFlags {
            for_rate: Some(rate),
            price: None,
        };
        for tiny in [1e-300, 1e-9] {
            let told = flags(tiny).check().unwrap_err().to_string();
            assert!(told.contains("less than a request in 11 days"), "{told}");
        }
        assert!(flags(1e-6).check().is_ok());
    }
}
