//! How fast KV crosses: the link of each GPU by its name, or a bandwidth.

use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::RawLink;
use crate::config::scalar::Duration;
use crate::config::server::Server;
use crate::hardware::Device;
use crate::nearest::nearest;
use crate::quantity::{format_rate, parse_rate};
use crate::sim::Pool;
use crate::units::{BytesPerSec, Picos};

/// Links that are not the GPU's own: name and bytes per second one way, as their standards have it. PCIe is ×16.
const LINKS: [(&str, f64); 15] = [
    ("pcie3", 16e9),
    ("pcie4", 32e9),
    ("pcie5", 64e9),
    ("pcie6", 128e9),
    ("ib-100", 12.5e9),
    ("ib-200", 25e9),
    ("ib-400", 50e9),
    ("ib-800", 100e9),
    ("eth-10", 1.25e9),
    ("eth-25", 3.125e9),
    ("eth-50", 6.25e9),
    ("eth-100", 12.5e9),
    ("eth-200", 25e9),
    ("eth-400", 50e9),
    ("eth-800", 100e9),
];

/// Beyond this a message or a hop is a typing error.
const TIME_MAX: Picos = Picos(60_000_000_000_000);

/// A time of the network between servers: as given, or the usual one, which is told.
pub(in crate::config) fn time(
    judge: &mut Judge,
    key: &str,
    given: Option<&Duration>,
    default: Picos,
) -> Picos {
    match given {
        Some(text) => match judge.span(key, text, true) {
            Some(time) if time > TIME_MAX => {
                judge.wrong(key, "must be at most 1 min", format!("`{}` is longer", text.0));
                default
            }
            time => time.unwrap_or(default),
        },
        None => {
            let source = Source::Assumption("of the usual order; measure it".to_string());
            judge.assume(key, default.to_string(), source);
            default
        }
    }
}

/// The bandwidth of each GPU's link in every pool.
pub(in crate::config) fn rates(
    judge: &mut Judge,
    link: &RawLink,
    pools: &[Pool],
    servers: &[Server],
) -> Option<Vec<BytesPerSec>> {
    let key = "cluster.link.kind";
    if let Some(text) = &link.bandwidth {
        // The bandwidth replaces the kind's; a name that means nothing is wrong all the same.
        if let Some(kind) = link.kind.as_deref().map(str::to_lowercase)
            && !names().contains(&kind.as_str())
        {
            unknown(judge, &kind);
        }
        return bandwidth(judge, text).map(|rate| vec![rate; pools.len()]);
    }
    let devices: Vec<&Device> = servers.iter().map(|server| &server.device).collect();
    let gpus: u32 = pools.iter().map(|pool| pool.gpus * pool.replicas).sum();
    let kind = match &link.kind {
        Some(kind) => {
            judge.given(key, kind);
            kind.to_lowercase()
        }
        None => {
            // A node has GPUs of one kind.
            let fits_a_node = devices.iter().all(|device| {
                device.nvlink.is_some() && gpus <= device.gpus_per_node && device.id == devices[0].id
            });
            let (kind, why) = match fits_a_node {
                true => ("nvlink", "all GPUs fit one node"),
                false => ("ib-400", "a usual network between nodes"),
            };
            judge.assume(key, kind.to_string(), Source::Assumption(why.to_string()));
            kind.to_string()
        }
    };
    let own = |pick: &dyn Fn(&Device) -> Option<BytesPerSec>| -> Option<Vec<BytesPerSec>> {
        devices.iter().map(|device| pick(device)).collect()
    };
    let rates = own(&|device| named(&kind, device));
    match &rates {
        Some(rates) => {
            let mut each: Vec<String> = rates.iter().map(|&rate| format_rate(rate)).collect();
            each.dedup();
            let said = each.join(" and ");
            judge.notes.push(format!(
                "KV crosses {kind} at {said} a GPU each way, as the standard has it"
            ));
        }
        None if kind == "nvlink" => {
            let help = "choose pcie5, ib-400 or eth-100";
            judge.wrong_help(key, "is not there", "one of the GPUs has no NVLink", help);
        }
        None => unknown(judge, &kind),
    }
    rates
}

/// Reports a name that no link has.
fn unknown(judge: &mut Judge, kind: &str) {
    let known = names();
    let near = nearest(kind, known.iter().copied(), 1)
        .first()
        .map(ToString::to_string);
    let help = match near {
        Some(near) => format!("did you mean {near}? known are {}", known.join(", ")),
        None => format!("known are {}", known.join(", ")),
    };
    let label = format!("`{kind}` is not known");
    judge.wrong_help("cluster.link.kind", "names no link", label, help);
}

/// Bytes per second of a link by its name; `None` if it has none, or the GPU has no NVLink.
pub(in crate::config) fn named(kind: &str, device: &Device) -> Option<BytesPerSec> {
    match kind {
        "nvlink" => device.nvlink,
        "pcie" => Some(device.pcie),
        name => {
            let found = LINKS.iter().find(|(known, _)| *known == name);
            found.map(|&(_, rate)| BytesPerSec(rate))
        }
    }
}

/// All names of links.
pub(in crate::config) fn names() -> Vec<&'static str> {
    let standard = LINKS.iter().map(|&(name, _)| name);
    ["nvlink", "pcie"].into_iter().chain(standard).collect()
}

/// A bandwidth that was given.
fn bandwidth(judge: &mut Judge, text: &str) -> Option<BytesPerSec> {
    let key = "cluster.link.bandwidth";
    judge.given(key, text);
    match parse_rate(text) {
        Ok(rate) if rate.0 >= 1e6 && rate.0 < 1e18 => return Some(rate),
        Ok(_) => {
            let label = format!("`{text}` is below 1 MB/s or beyond reason");
            judge.wrong_help(key, "is no bandwidth of a link", label, "write 25GB/s");
        }
        Err(error) => {
            judge.wrong_help(key, "is no bandwidth", error.to_string(), "write 25GB/s");
        }
    }
    None
}
