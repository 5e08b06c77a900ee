//! The TOML form of a [`Device`]: what a file may say, and the only judge of it.
//!
//! Quantities are strings with units. Every problem of a file is reported at once, each with its key and line. The
//! memory that an engine is offered is asked for and not derived from the marketed size: a silent guess there moves
//! every KV block count.

mod judge;
mod plausible;

use std::fmt;

use serde::Deserialize;

use self::judge::Resolve;
use super::{Architecture, Device};
use crate::quantity::{format_bytes, format_flops, format_rate};

/// What is wrong with a profile, all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProfileError {
    /// The file, as the caller named it.
    pub source_name: String,
    /// At least one, in the order of the file's keys.
    pub problems: Vec<ProfileProblem>,
}

/// One thing wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProblem {
    /// Dotted path, `memory.size`; empty where the text is not TOML or a key is unknown.
    pub key: String,
    /// Line of the key, from 1, where the file has it.
    pub line: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a hardware profile", self.source_name)?;
        for problem in &self.problems {
            write!(f, "\n  ")?;
            if let Some(line) = problem.line {
                write!(f, "line {line}: ")?;
            }
            if !problem.key.is_empty() {
                write!(f, "`{}`: ", problem.key)?;
            }
            write!(f, "{}", problem.message)?;
        }
        Ok(())
    }
}

/// The file as written. All keys are optional here, so that all missing ones can be told at once.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawProfile {
    id: Option<String>,
    name: Option<String>,
    vendor: Option<String>,
    architecture: Option<String>,
    like: Option<String>,
    memory: RawMemory,
    peak: RawPeak,
    link: RawLink,
    power: RawPower,
    price: Option<RawPrice>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawMemory {
    size: Option<String>,
    visible: Option<String>,
    reported: Option<String>,
    bandwidth: Option<String>,
    l2: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawPeak {
    bf16: Option<String>,
    fp8: Option<String>,
    int8: Option<String>,
    fp4: Option<String>,
    sm_count: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawLink {
    nvlink: Option<String>,
    nvlink_bridge: Option<String>,
    gpus_per_node: Option<u32>,
    pcie: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawPower {
    tdp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawPrice {
    usd_per_hour: Option<f64>,
    date: Option<String>,
}

const ARCHITECTURES: [(&str, Architecture); 11] = [
    ("volta", Architecture::Volta),
    ("turing", Architecture::Turing),
    ("ampere", Architecture::Ampere),
    ("ada", Architecture::Ada),
    ("hopper", Architecture::Hopper),
    ("blackwell", Architecture::Blackwell),
    ("blackwell-ultra", Architecture::BlackwellUltra),
    ("blackwell-rtx", Architecture::BlackwellRtx),
    ("cdna", Architecture::Cdna),
    ("rdna", Architecture::Rdna),
    ("other", Architecture::Other),
];

impl Architecture {
    /// As profiles spell it, `hopper`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = ARCHITECTURES
            .iter()
            .find(|(_, architecture)| *architecture == self);
        known.map_or("other", |(name, _)| name)
    }

    /// The architecture that a profile or `nvidia-smi` names, in any case; `None` if unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Architecture> {
        let name = name.to_lowercase();
        // nvidia-smi says "Ada Lovelace".
        let first = name.split_whitespace().next()?;
        ARCHITECTURES
            .iter()
            .find(|(known, _)| *known == first)
            .map(|&(_, architecture)| architecture)
    }
}

impl Device {
    /// Reads a hardware profile. `source` names the text in messages.
    pub fn from_toml(text: &str, source: &str) -> Result<Device, ProfileError> {
        let failed = |problems| ProfileError {
            source_name: source.to_string(),
            problems,
        };
        let raw: RawProfile =
            toml::from_str(text).map_err(|error| failed(vec![syntax_problem(text, &error)]))?;
        let mut resolve = Resolve::new(text);
        let device = raw.resolve(&mut resolve);
        match device {
            Some(device) if resolve.problems.is_empty() => Ok(device),
            _ => Err(failed(resolve.problems)),
        }
    }

    /// Writes a profile that [`Device::from_toml`] reads back as an equal device. `source` becomes its first comment.
    #[must_use]
    pub fn to_toml(&self, source: &str) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_string()).to_string();
        let mut lines = vec![
            format!("# {source}"),
            format!("id = {}", quoted(&self.id)),
            format!("name = {}", quoted(&self.name)),
            format!("vendor = {}", quoted(&self.vendor)),
            format!("architecture = \"{}\"", self.architecture.name()),
        ];
        lines.extend(self.like.as_ref().map(|like| format!("like = {}", quoted(like))));
        lines.extend([
            "\n[memory]".to_string(),
            format!("visible = \"{}\"", format_bytes(self.memory)),
        ]);
        let reported = |bytes| format!("reported = \"{}\"", format_bytes(bytes));
        lines.extend(self.reported.map(reported));
        lines.extend([
            format!("bandwidth = \"{}\"", format_rate(self.memory_bandwidth)),
            format!("l2 = \"{}\"", format_bytes(self.l2)),
            "\n[peak]".to_string(),
            format!("bf16 = \"{}\"", format_flops(self.peaks.bf16)),
        ]);
        let peaks = [
            ("fp8", self.peaks.fp8),
            ("int8", self.peaks.int8),
            ("fp4", self.peaks.fp4),
        ];
        for (name, rate) in peaks {
            lines.extend(rate.map(|rate| format!("{name} = \"{}\"", format_flops(rate))));
        }
        lines.push(format!("sm_count = {}\n\n[link]", self.sm_count));
        lines.extend(
            self.nvlink
                .map(|rate| format!("nvlink = \"{}\"", format_rate(rate))),
        );
        lines.extend(
            self.nvlink_bridge
                .map(|rate| format!("nvlink_bridge = \"{}\"", format_rate(rate))),
        );
        lines.push(format!("gpus_per_node = {}", self.gpus_per_node));
        lines.push(format!("pcie = \"{}\"", format_rate(self.pcie)));
        lines.push(format!("\n[power]\ntdp = \"{} W\"", self.tdp_w));
        lines.extend(self.price.as_ref().map(|price| {
            format!(
                "\n[price]\nusd_per_hour = {:?}\ndate = {}",
                price.usd_per_hour,
                quoted(&price.date)
            )
        }));
        lines.join("\n") + "\n"
    }
}

/// A syntax error or an unknown key, with the line that serde points at.
fn syntax_problem(text: &str, error: &toml::de::Error) -> ProfileProblem {
    ProfileProblem {
        key: String::new(),
        line: error.span().map(|span| line_of_offset(text, span.start)),
        message: error.message().to_string(),
    }
}

/// The line of a dotted key, from 1; `None` where the file does not have it.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let mut table = table.get_ref();
    let mut parts = key.split('.').peekable();
    loop {
        let value = table.get(parts.next()?)?;
        if parts.peek().is_none() {
            return Some(line_of_offset(text, value.span().start));
        }
        table = value.get_ref().as_table()?;
    }
}

fn line_of_offset(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const H100: &str = include_str!("../../hardware_profiles/h100-sxm-80gb.toml");

    #[test]
    fn all_problems_of_a_file_come_at_once() {
        let text = H100
            .replace("3.35 TB/s", "3.35 TB")
            .replace("132 ", "0 ")
            .replace(
                "architecture = \"hopper\"",
                "architecture = \"hoper\"\nlike = \"h200-sxm\"",
            )
            .replace("tdp =", "# tdp =");
        let error = Device::from_toml(&text, "my.toml").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        my.toml is not a hardware profile
          line 8: `architecture`: `hoper` is not one of volta, turing, ampere, ada, hopper, blackwell, blackwell-ultra, blackwell-rtx, cdna, rdna, other; did you mean `hopper`?
          line 9: `like`: `h200-sxm` is no shipped card's id; did you mean `H200-SXM-141GB`?
          line 15: `memory.bandwidth`: `TB` in `3.35 TB` is not a unit of bandwidth; known are B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s and Mbit/s, Gbit/s, Tbit/s
          line 23: `peak.sm_count`: 0 must lie between 1 and 4096
          `power.tdp`: is missing; write it like `"700 W"`
        "#);
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line() {
        let error = Device::from_toml(&H100.replace("bf16 =", "bf61 ="), "my.toml").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        my.toml is not a hardware profile
          line 19: unknown field `bf61`, expected one of `bf16`, `fp8`, `int8`, `fp4`, `sm_count`
        "#);
    }

    #[test]
    fn a_visible_memory_that_contradicts_the_size_is_refused() {
        let error = Device::from_toml(&H100.replace("79.1 GiB", "7.91 GiB"), "my.toml").unwrap_err();
        assert_eq!(error.problems[0].key, "memory.visible");
        // The driver shows all that there is.
        let error = Device::from_toml(&H100.replace("81559 MiB", "71559 MiB"), "my.toml").unwrap_err();
        assert_eq!(error.problems[0].key, "memory.reported");
    }

    /// Steps of a run on it would last beyond the clock.
    #[test]
    fn what_would_take_days_is_refused() {
        let text = H100
            .replace("3.35 TB/s", "1 B/s")
            .replace("989.4 TFLOP/s", "1 FLOP/s")
            .replace("64 GB/s", "0 GB/s");
        let error = Device::from_toml(&text, "my.toml").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        my.toml is not a hardware profile
          line 14: `memory.bandwidth`: must be at least 50 GB/s; 1 TB/s is 1,000 GB/s
          line 27: `link.pcie`: must be at least 1 GB/s; 1 TB/s is 1,000 GB/s
          line 19: `peak.bf16`: must be at least 1 TFLOP/s
        "#);
    }

    #[test]
    fn a_unit_that_is_a_thousandfold_off_is_told_of_every_figure() {
        for (right, wrong, key) in [
            ("3.35 TB/s", "3.35 GB/s", "memory.bandwidth"),
            ("3.35 TB/s", "3350 TB/s", "memory.bandwidth"),
            ("3.35 TB/s", "100 TB/s", ""),
            ("989.4 TFLOP/s", "989.4 GFLOP/s", "peak.bf16"),
            ("1978.9 TFLOP/s", "1978.9 GFLOP/s", "peak.fp8"),
            ("1978.9 TOP/s", "1978.9 POP/s", "peak.int8"),
            ("450 GB/s", "450 MB/s", "link.nvlink"),
            ("450 GB/s", "450 TB/s", "link.nvlink"),
            ("64 GB/s", "64 TB/s", "link.pcie"),
            ("50 MB", "50 GB", "memory.l2"),
            ("700 W", "700 kW", "power.tdp"),
        ] {
            let text = H100.replacen(right, wrong, 1);
            assert_ne!(text, H100, "{right}");
            let told = Device::from_toml(&text, "my.toml").err();
            let keys = told.map_or(vec![], |told| told.problems);
            let keys: Vec<&str> = keys.iter().map(|problem| problem.key.as_str()).collect();
            let expected: &[&str] = if key.is_empty() { &[] } else { &[key] };
            assert_eq!(keys, expected, "{wrong}");
        }
        // Both peaks in the wrong unit are beside a bandwidth in the right one.
        let text = H100
            .replace(" TFLOP/s\"", " PFLOP/s\"")
            .replace(" TOP/s\"", " POP/s\"");
        let told = Device::from_toml(&text, "my.toml").unwrap_err();
        assert_eq!(told.problems[0].key, "memory.bandwidth");
    }

    #[test]
    fn the_template_is_a_valid_profile() {
        Device::from_toml(
            include_str!("../../hardware_profiles/template.toml"),
            "template.toml",
        )
        .unwrap();
    }

    #[test]
    fn every_shipped_device_survives_writing_and_reading() {
        for device in super::super::all() {
            let text = device.to_toml("round trip");
            assert_eq!(&Device::from_toml(&text, "round trip").unwrap(), device);
        }
    }

    proptest! {
        #[test]
        fn a_damaged_profile_is_an_error_and_not_a_panic(at in 0usize..H100.len(), junk in "\\PC{0,3}", cut in 0usize..5) {
            let end = (at + cut).min(H100.len());
            if H100.is_char_boundary(at) && H100.is_char_boundary(end) {
                let text = format!("{}{junk}{}", &H100[..at], &H100[end..]);
                let _ = Device::from_toml(&text, "damaged");
            }
        }
    }
}
