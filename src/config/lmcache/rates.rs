//! Bandwidths and latencies of the tiers: given, measured by a calibration, or usual.

use super::super::document::Source;
use super::super::judge::Judge;
use super::super::raw::RawLmcache;
use super::super::scalar::Duration;
use super::Measured;
use crate::cost::calibration::Direction;
use crate::engine::lmcache::TierConfig;
use crate::quantity::{format_rate, parse_rate};
use crate::units::{Bytes, BytesPerSec, Picos};

/// Bandwidths that a tier may have, bytes per second.
const SLOWEST: f64 = 1e6;
const FASTEST: f64 = 1e18;
/// Bandwidths and latencies (LM-11): assumptions, each with the range that is usual.
pub(super) struct Rates {
    pub(super) lookup: Picos,
    pub(super) load: BytesPerSec,
    pub(super) store: BytesPerSec,
    pub(super) disk: TierConfig,
    pub(super) remote: TierConfig,
}

impl Rates {
    pub(super) fn of(judge: &mut Judge, raw: &RawLmcache, copies: &Measured) -> Rates {
        let measured = |direction: Direction| {
            let copies = copies.get(&direction)?;
            Some(format_rate(BytesPerSec(copies.gbs * 1e9)))
        };
        const PROBED: &str = "as the calibration has copies over the host link";
        let (usual, why) = match measured(Direction::HostToDevice) {
            Some(rate) => (rate, PROBED),
            None => ("20 GB/s".to_owned(), "paged KV over PCIe, usual: 10 to 25 GB/s"),
        };
        let given = raw.load_bandwidth.as_deref();
        let load = rate(judge, "load_bandwidth", given, &usual, why);
        // What is wrong is no value for the other way.
        let given = given.filter(|_| !judge.is_wrong(&["lmcache.load_bandwidth"]));
        let (same, why) = match (given, measured(Direction::DeviceToHost)) {
            (Some(given), _) => (given.to_owned(), "as load_bandwidth"),
            (None, Some(rate)) => (rate, PROBED),
            (None, None) => (usual, "as load_bandwidth"),
        };
        let given = raw.store_bandwidth.as_deref();
        let store = rate(judge, "store_bandwidth", given, &same, why);
        let lookup = delay(
            judge,
            "lookup_latency",
            raw.lookup_latency.as_ref(),
            "1 ms",
            "usual: 0.5 to 5 ms",
        );
        Rates {
            lookup,
            load,
            store,
            disk: disk(judge, raw),
            remote: remote(judge, raw),
        }
    }
}

/// Of a tier that is not there: its rates are never looked at.
const IDLE: TierConfig = TierConfig {
    capacity: Bytes(0),
    read_bandwidth: BytesPerSec(1.0),
    write_bandwidth: BytesPerSec(1.0),
    latency: Picos::ZERO,
};

fn disk(judge: &mut Judge, raw: &RawLmcache) -> TierConfig {
    if raw.local_disk.is_none() {
        let keys = [
            ("lmcache.disk_read_bandwidth", raw.disk_read_bandwidth.is_some()),
            ("lmcache.disk_write_bandwidth", raw.disk_write_bandwidth.is_some()),
            ("lmcache.disk_latency", raw.disk_latency.is_some()),
        ];
        let help = "add local_disk and max_local_disk_size";
        judge.refuse_given(&keys, "has no effect", "no disk is given", help);
        return IDLE;
    }
    TierConfig {
        read_bandwidth: rate(
            judge,
            "disk_read_bandwidth",
            raw.disk_read_bandwidth.as_deref(),
            "5 GB/s",
            "NVMe, usual: 3 to 7 GB/s",
        ),
        write_bandwidth: rate(
            judge,
            "disk_write_bandwidth",
            raw.disk_write_bandwidth.as_deref(),
            "2 GB/s",
            "NVMe, usual: 1 to 5 GB/s",
        ),
        latency: delay(judge, "disk_latency", raw.disk_latency.as_ref(), "100 us", "NVMe"),
        ..IDLE
    }
}

fn remote(judge: &mut Judge, raw: &RawLmcache) -> TierConfig {
    if raw.remote_url.is_none() {
        let keys = [
            ("lmcache.remote_bandwidth", raw.remote_bandwidth.is_some()),
            ("lmcache.remote_latency", raw.remote_latency.is_some()),
            ("lmcache.max_remote_size", raw.max_remote_size.is_some()),
        ];
        judge.refuse_given(&keys, "has no effect", "no server is given", "add remote_url");
        return IDLE;
    }
    let both_ways = rate(
        judge,
        "remote_bandwidth",
        raw.remote_bandwidth.as_deref(),
        "5 GB/s",
        "network store, usual: 1 to 12 GB/s",
    );
    TierConfig {
        read_bandwidth: both_ways,
        write_bandwidth: both_ways,
        latency: delay(
            judge,
            "remote_latency",
            raw.remote_latency.as_ref(),
            "500 us",
            "a round trip and the server's own time",
        ),
        ..IDLE
    }
}

fn rate(judge: &mut Judge, key: &str, given: Option<&str>, usual: &str, why: &str) -> BytesPerSec {
    let key = format!("lmcache.{key}");
    let source = Source::Assumption(why.to_string());
    let text = judge.take(&key, given.map(str::to_string), usual.to_string(), source);
    match parse_rate(&text) {
        Ok(rate) if (SLOWEST..FASTEST).contains(&rate.0) => rate,
        Ok(_) => {
            let label = format!("`{text}` is below 1 MB/s or beyond reason");
            judge.wrong(&key, "is no bandwidth of a tier", label);
            BytesPerSec(1.0)
        }
        Err(error) => {
            judge.wrong(&key, "is not a bandwidth", error.to_string());
            BytesPerSec(1.0)
        }
    }
}

fn delay(judge: &mut Judge, key: &str, given: Option<&Duration>, usual: &str, why: &str) -> Picos {
    let key = format!("lmcache.{key}");
    if let Some(given) = given {
        return judge.duration(&key, given, true).unwrap_or(Picos::ZERO);
    }
    judge.assume(&key, usual.to_string(), Source::Assumption(why.to_string()));
    crate::quantity::parse_duration(usual).expect("the usual delays are durations")
}
