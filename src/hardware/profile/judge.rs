//! The judge of a profile: each value is read, held against what is plausible, and its problem written down with its line.

use super::super::{Architecture, Device, Peaks, Price, registry};
use super::{ARCHITECTURES, ProfileProblem, RawPrice, RawProfile, line_of_key};
use crate::nearest::nearest;
use crate::quantity::{self, QuantityError};
use crate::units::Bytes;

/// GPUs of an HGX, DGX or OAM board, and of the largest usual PCIe server.
const GPUS_OF_A_SERVER: u32 = 8;

impl RawProfile {
    /// Checks everything before giving up, so that a file's problems come out together.
    pub(super) fn resolve(self, check: &mut Resolve<'_>) -> Option<Device> {
        let id = check.name("id", self.id);
        let name = check.name("name", self.name);
        let vendor = check.vendor(self.vendor);
        let architecture = check.architecture(self.architecture);
        let like = self.like.and_then(|like| check.like(like));
        let size = self
            .memory
            .size
            .map(|size| check.memory("memory.size", Some(size)));
        let memory = check.memory("memory.visible", self.memory.visible);
        if let (Some(Some(size)), Some(memory)) = (size, memory) {
            check.plausible_visible(size, memory);
        }
        let reported = self.memory.reported;
        let reported = reported.and_then(|reported| check.memory("memory.reported", Some(reported)));
        if let (Some(reported), Some(memory)) = (reported, memory) {
            check.plausible_reported(reported, memory);
        }
        let bandwidth = check.required(
            "memory.bandwidth",
            self.memory.bandwidth,
            "3.35 TB/s",
            quantity::parse_rate,
        );
        let l2 = check.required("memory.l2", self.memory.l2, "50 MB", quantity::parse_bytes);
        let flops = quantity::parse_flops;
        let bf16 = check.required("peak.bf16", self.peak.bf16, "989.4 TFLOP/s", flops);
        let fp8 = check.optional("peak.fp8", self.peak.fp8, flops);
        let int8 = check.optional("peak.int8", self.peak.int8, flops);
        let fp4 = check.optional("peak.fp4", self.peak.fp4, flops);
        let sm_count = check.sm_count(self.peak.sm_count);
        let nvlink = check.optional("link.nvlink", self.link.nvlink, quantity::parse_rate);
        let bridge = self.link.nvlink_bridge;
        let nvlink_bridge = check.optional("link.nvlink_bridge", bridge, quantity::parse_rate);
        let gpus_per_node = check.gpus_per_node(self.link.gpus_per_node);
        let pcie = check.required("link.pcie", self.link.pcie, "64 GB/s", quantity::parse_rate);
        let tdp_w = check.required("power.tdp", self.power.tdp, "700 W", quantity::parse_watts);
        let price = self.price.map(|price| check.price(price));
        let rates = [bandwidth, nvlink, nvlink_bridge, pcie].map(|rate| rate.map(|rate| rate.0));
        check.plausible_rates(rates);
        let peaks = [bf16, fp8, int8, fp4].map(|peak| peak.map(|peak| peak.0));
        check.plausible_peaks(peaks, bandwidth.map(|rate| rate.0));
        check.plausible_rest(l2, tdp_w);
        Some(Device {
            id: id?,
            name: name?,
            vendor: vendor?,
            architecture: architecture?,
            like,
            memory: memory?,
            reported,
            memory_bandwidth: bandwidth?,
            peaks: Peaks {
                bf16: bf16?,
                fp8,
                int8,
                fp4,
            },
            l2: l2?,
            sm_count: sm_count?,
            nvlink,
            nvlink_bridge,
            gpus_per_node: gpus_per_node?,
            nvlink_gpus: gpus_per_node?,
            pcie: pcie?,
            tdp_w: tdp_w?,
            price: price.flatten(),
        })
    }
}

/// Collects problems while values are read; `None` means that a problem was written down.
pub(super) struct Resolve<'a> {
    text: &'a str,
    pub(super) problems: Vec<ProfileProblem>,
}

impl<'a> Resolve<'a> {
    pub(super) fn new(text: &'a str) -> Resolve<'a> {
        Resolve {
            text,
            problems: Vec::new(),
        }
    }

    pub(super) fn problem<T>(&mut self, key: &str, message: impl Into<String>) -> Option<T> {
        self.problems.push(ProfileProblem {
            key: key.to_string(),
            line: line_of_key(self.text, key),
            message: message.into(),
        });
        None
    }

    fn required<T>(
        &mut self,
        key: &str,
        value: Option<String>,
        example: &str,
        parse: fn(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        match value.as_deref().map(parse) {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => self.problem(key, error.to_string()),
            None => self.problem(key, format!("is missing; write it like `\"{example}\"`")),
        }
    }

    fn optional<T>(
        &mut self,
        key: &str,
        value: Option<String>,
        parse: fn(&str) -> Result<T, QuantityError>,
    ) -> Option<T> {
        value.and_then(|value| self.required(key, Some(value), "", parse))
    }

    fn memory(&mut self, key: &str, value: Option<String>) -> Option<Bytes> {
        let memory = self.required(key, value, "79.1 GiB", quantity::parse_bytes)?;
        if memory.gib() < 0.5 || memory.gib() > 4096.0 {
            return self.problem(key, "must lie between 0.5 GiB and 4096 GiB");
        }
        Some(memory)
    }

    fn plausible_visible(&mut self, size: Bytes, visible: Bytes) {
        // HBM of 192 "GB" on some AMD cards is 192 GiB, 7.4 % more than the label in powers of ten.
        if visible.0 as f64 > size.0 as f64 * 1.08 || (visible.0 as f64) < size.0 as f64 * 0.7 {
            let message = format!(
                "{:.1} GiB does not go with a size of {:.0} GB; it is usually 0.93 to 1.0 of it",
                visible.gib(),
                size.gb()
            );
            self.problem::<()>("memory.visible", message);
        }
    }

    fn plausible_reported(&mut self, reported: Bytes, visible: Bytes) {
        if reported < visible || visible.0 as f64 <= reported.0 as f64 * 0.8 {
            let message = format!(
                "{:.1} GiB does not go with {:.1} GiB visible; `nvidia-smi` shows 0 to 1.5 GiB more",
                reported.gib(),
                visible.gib()
            );
            self.problem::<()>("memory.reported", message);
        }
    }

    fn name(&mut self, key: &str, value: Option<String>) -> Option<String> {
        match value {
            Some(value) if !value.trim().is_empty() => Some(value),
            _ => self.problem(key, "is missing; write it like `\"H100-SXM-80GB\"`"),
        }
    }

    fn vendor(&mut self, value: Option<String>) -> Option<String> {
        match value.as_deref() {
            Some("nvidia" | "amd" | "other") => value,
            Some(other) => self.problem("vendor", format!("`{other}` must be `nvidia`, `amd` or `other`")),
            None => self.problem("vendor", "is missing; write `nvidia`, `amd` or `other`"),
        }
    }

    fn architecture(&mut self, value: Option<String>) -> Option<Architecture> {
        let names = ARCHITECTURES.map(|(name, _)| name);
        let Some(value) = value else {
            return self.problem("architecture", format!("is missing; one of {}", names.join(", ")));
        };
        Architecture::from_name(&value).or_else(|| {
            let near = nearest(&value, names, 1);
            let hint = near
                .first()
                .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            self.problem(
                "architecture",
                format!("`{value}` is not one of {}{hint}", names.join(", ")),
            )
        })
    }

    /// A shipped card's id: what it was measured to be is taken.
    fn like(&mut self, value: String) -> Option<String> {
        let wanted = value.to_lowercase();
        if registry::ids().any(|id| id == wanted) {
            return Some(value);
        }
        let near = nearest(&wanted, registry::ids(), 1);
        let hint = near.first().map_or(String::new(), |id| {
            format!("; did you mean `{}`?", id.to_uppercase())
        });
        self.problem("like", format!("`{value}` is no shipped card's id{hint}"))
    }

    fn sm_count(&mut self, value: Option<u32>) -> Option<u32> {
        match value {
            Some(count @ 1..=4096) => Some(count),
            Some(count) => self.problem("peak.sm_count", format!("{count} must lie between 1 and 4096")),
            None => self.problem("peak.sm_count", "is missing; write it like `132`"),
        }
    }

    /// Left out, it is that of the servers which almost all cards are sold in.
    fn gpus_per_node(&mut self, value: Option<u32>) -> Option<u32> {
        match value {
            None => Some(GPUS_OF_A_SERVER),
            Some(count @ 1..=1024) => Some(count),
            Some(count) => self.problem(
                "link.gpus_per_node",
                format!("{count} must lie between 1 and 1024"),
            ),
        }
    }

    fn price(&mut self, raw: RawPrice) -> Option<Price> {
        let date = match raw.date {
            Some(date) if date.parse::<jiff::civil::Date>().is_ok() => Some(date),
            Some(date) => self.problem("price.date", format!("`{date}` is not a date like `2025-10-01`")),
            None => self.problem("price.date", "is missing: a price without a date misleads"),
        };
        let usd_per_hour = match raw.usd_per_hour {
            Some(price) if (0.0..1e6).contains(&price) => Some(price),
            Some(price) => self.problem(
                "price.usd_per_hour",
                format!("{price} must be at least zero and below a million"),
            ),
            None => self.problem("price.usd_per_hour", "is missing; write it like `2.99`"),
        };
        Some(Price {
            usd_per_hour: usd_per_hour?,
            date: date?,
        })
    }
}
