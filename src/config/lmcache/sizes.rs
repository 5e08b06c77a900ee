//! Room in each tier.

use super::super::judge::Judge;
use super::super::raw::RawLmcache;
use super::default;
use crate::engine::lmcache::LmcacheConfig;
use crate::units::Bytes;

const GIB: f64 = (1u64 << 30) as f64;
/// Room without a limit: more than any cluster has.
const NO_LIMIT: Bytes = Bytes(1 << 60);
/// Room in each tier that there is.
pub(super) struct Sizes {
    pub(super) host: Option<Bytes>,
    pub(super) disk: Option<Bytes>,
    pub(super) remote: Option<Bytes>,
}

impl Sizes {
    pub(super) fn of(judge: &mut Judge, raw: &RawLmcache, offloaded_gib: Option<f64>) -> Sizes {
        let local_cpu = judge.take("lmcache.local_cpu", raw.local_cpu, true, default());
        let host = local_cpu.then(|| {
            let key = "lmcache.max_local_cpu_size";
            if let (Some(_), Some(gib)) = (raw.max_local_cpu_size, offloaded_gib) {
                let label = format!("--kv-offloading-size leaves {gib} GiB to each rank");
                judge.wrong_help(key, "is given twice", label, "give one of them");
            }
            let gib = match offloaded_gib {
                Some(gib) => gib,
                None => judge.take(key, raw.max_local_cpu_size, 5.0, default()),
            };
            gibibytes(judge, key, gib)
        });
        let disk = raw.local_disk.as_ref().map(|path| {
            judge.given("lmcache.local_disk", path);
            let key = "lmcache.max_local_disk_size";
            let gib = raw.max_local_disk_size.unwrap_or(0.0);
            judge.given(key, gib);
            if raw.max_local_disk_size.is_none() {
                let help = "add max_local_disk_size, in GiB: LMCache's default of 0 keeps nothing";
                judge.wrong_help(
                    "lmcache.local_disk",
                    "needs a size",
                    "this disk would hold nothing",
                    help,
                );
                return Bytes(0);
            }
            gibibytes(judge, key, gib)
        });
        if raw.local_disk.is_none() && raw.max_local_disk_size.is_some() {
            let key = "lmcache.max_local_disk_size";
            judge.wrong_help(
                key,
                "has no effect",
                "no disk is given",
                "add local_disk = \"/path\"",
            );
        }
        let remote = raw.remote_url.as_ref().map(|url| {
            judge.given("lmcache.remote_url", url);
            match raw.max_remote_size {
                None => NO_LIMIT,
                Some(gib) => {
                    judge.given("lmcache.max_remote_size", gib);
                    gibibytes(judge, "lmcache.max_remote_size", gib)
                }
            }
        });
        if host.is_none() && disk.is_none() && remote.is_none() {
            let help = "add local_disk or remote_url, or leave local_cpu true";
            judge.wrong_help(
                "lmcache.local_cpu",
                "leaves no tier",
                "nothing would be kept",
                help,
            );
        }
        Sizes { host, disk, remote }
    }
}

fn gibibytes(judge: &mut Judge, key: &str, gib: f64) -> Bytes {
    let is_right = |gib: f64| gib > 0.0 && gib < 1e9;
    judge.number(
        key,
        gib,
        is_right,
        "must be a number of GiB above 0 and below 1e9",
    );
    Bytes(if is_right(gib) { (gib * GIB) as u64 } else { 0 })
}

/// A tier that holds no chunk is a mistake.
pub(super) fn check_room(judge: &mut Judge, config: &LmcacheConfig) {
    let chunk = config.chunk_size;
    let (rank, all) = (config.rank_bytes(chunk), config.all_bytes(chunk));
    for (key, room, size) in [
        ("lmcache.max_local_cpu_size", config.host, rank),
        (
            "lmcache.max_local_disk_size",
            config.disk.map(|disk| disk.capacity),
            rank,
        ),
        (
            "lmcache.max_remote_size",
            config.remote.map(|remote| remote.capacity),
            all,
        ),
    ] {
        if room.is_some_and(|room| room < size) && !judge.is_wrong(&[key, "lmcache.local_disk"]) {
            let label = format!("one chunk of {chunk} tokens takes {:.3} GiB", size.gib());
            judge.wrong_help(
                key,
                "holds no chunk",
                label,
                "give more room, or a smaller chunk_size",
            );
        }
    }
}
