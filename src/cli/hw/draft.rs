//! The text of a new profile: flags first, then a report of `nvidia-smi`, then the recognised card.

use anyhow::bail;

use super::AddArgs;
use crate::hardware::{Architecture, Device, nvidia_smi};
use crate::quantity::{format_bytes, format_flops, format_rate};

/// Where the numbers of a profile come from, in the order of precedence.
struct Sources<'a> {
    args: &'a AddArgs,
    report: Option<&'a nvidia_smi::Report>,
    known: Option<&'a Device>,
}

/// Keys of one table, as the file writes their values; `None` is left out.
type Keys = Vec<(&'static str, Option<String>)>;

/// Writes the profile; what is missing is left out, and told by whoever reads the text.
///
/// # Errors
/// Without an id, or with one that names no file.
pub(super) fn draft(
    args: &AddArgs,
    report: Option<&nvidia_smi::Report>,
    known: Option<&Device>,
) -> anyhow::Result<String> {
    let sources = Sources { args, report, known };
    let id = sources.id()?;
    let tables = [
        ("", sources.identity(id)),
        ("memory", sources.memory()),
        ("peak", sources.peak()),
        ("link", sources.link()),
        ("power", sources.power()),
    ];
    let mut text = format!("# {}\n", sources.comment());
    for (table, keys) in tables {
        if !table.is_empty() {
            text += &format!("\n[{table}]\n");
        }
        for (key, value) in keys {
            text += &value.map_or(String::new(), |value| format!("{key} = {value}\n"));
        }
    }
    Ok(text)
}

impl Sources<'_> {
    fn id(&self) -> anyhow::Result<String> {
        let plain = |name: &str| name.to_uppercase().replace([' ', '_'], "-");
        let id = match (&self.args.id, self.known, self.report) {
            (Some(id), _, _) => plain(id),
            (None, Some(known), _) => format!("MY-{}", known.id),
            (None, None, Some(report)) => plain(&report.product),
            (None, None, None) => {
                bail!("give an id, like `plimsoll hw add MY-GPU-48GB …`, or --from a report")
            }
        };
        let names_a_file = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if !id.chars().all(names_a_file) {
            bail!("the id {id} may have letters, digits, `-` and `.` only: it names a file");
        }
        Ok(id)
    }

    fn identity(&self, id: String) -> Keys {
        let Sources { args, report, known } = *self;
        let name = args
            .name
            .clone()
            .or_else(|| report.map(|report| report.product.clone()));
        let architecture = known.map(|known| known.architecture.name());
        let reported = report
            .and_then(|report| report.architecture)
            .map(Architecture::name);
        let architecture = architecture.or(reported).map(str::to_string);
        vec![
            ("id", Some(quoted(id))),
            ("name", name.or_else(|| args.id.clone()).map(quoted)),
            (
                "vendor",
                Some(quoted(
                    args.vendor.clone().unwrap_or_else(|| "nvidia".to_string()),
                )),
            ),
            (
                "architecture",
                args.architecture.clone().or(architecture).map(quoted),
            ),
            ("like", self.like().map(quoted)),
        ]
    }

    /// The card with the same chip: the recognised one where that has been measured itself.
    fn like(&self) -> Option<String> {
        let of_known = |known: &Device| known.like.clone().unwrap_or_else(|| known.id.clone());
        self.args.like.clone().or_else(|| self.known.map(of_known))
    }

    fn memory(&self) -> Keys {
        let args = self.args;
        let reported = self.report.map(|report| format_bytes(report.memory));
        let visible = || self.report.map(|report| format_bytes(report.visible_memory()));
        vec![
            ("visible", args.visible.clone().or_else(visible).map(quoted)),
            ("reported", reported.map(quoted)),
            (
                "bandwidth",
                self.or_known(&args.bandwidth, |known| Some(format_rate(known.memory_bandwidth))),
            ),
            (
                "l2",
                self.or_known(&args.l2, |known| Some(format_bytes(known.l2))),
            ),
        ]
    }

    fn peak(&self) -> Keys {
        let Sources { args, known, .. } = *self;
        let count = args.sm_count.or(known.map(|known| known.sm_count));
        vec![
            (
                "bf16",
                self.or_known(&args.bf16, |known| Some(format_flops(known.peaks.bf16))),
            ),
            (
                "fp8",
                self.or_known(&args.fp8, |known| known.peaks.fp8.map(format_flops)),
            ),
            (
                "int8",
                self.or_known(&args.int8, |known| known.peaks.int8.map(format_flops)),
            ),
            (
                "fp4",
                self.or_known(&args.fp4, |known| known.peaks.fp4.map(format_flops)),
            ),
            ("sm_count", count.map(|count| count.to_string())),
        ]
    }

    fn link(&self) -> Keys {
        let Sources { args, known, .. } = *self;
        let of_node = args.gpus_per_node.or(known.map(|known| known.gpus_per_node));
        vec![
            (
                "nvlink",
                self.or_known(&args.nvlink, |known| known.nvlink.map(format_rate)),
            ),
            (
                "nvlink_bridge",
                self.or_known(&None, |known| known.nvlink_bridge.map(format_rate)),
            ),
            ("gpus_per_node", of_node.map(|count| count.to_string())),
            (
                "pcie",
                self.or_known(&args.pcie, |known| Some(format_rate(known.pcie))),
            ),
        ]
    }

    fn power(&self) -> Keys {
        let watts = |watts: f64| format!("{watts} W");
        let reported = || self.report.and_then(|report| report.power_w).map(watts);
        let known = || self.known.map(|known| watts(known.tdp_w));
        vec![(
            "tdp",
            self.args.tdp.clone().or_else(reported).or_else(known).map(quoted),
        )]
    }

    /// A flag, or the recognised card's figure.
    fn or_known(&self, flag: &Option<String>, of: fn(&Device) -> Option<String>) -> Option<String> {
        flag.clone().or_else(|| self.known.and_then(of)).map(quoted)
    }

    /// The first comment: where the numbers are from.
    fn comment(&self) -> String {
        match (self.report, self.known) {
            (Some(report), Some(known)) => {
                let visible = match report.reserved {
                    Some(_) => "less what the driver keeps".to_owned(),
                    None => format!("times {}", nvidia_smi::VISIBLE_SHARE),
                };
                let known = &known.id;
                format!("Source: nvidia-smi -q for memory ({visible}) and power, {known} for the rest.")
            }
            (Some(_), None) => "Source: nvidia-smi -q and flags of `plimsoll hw add`.".to_string(),
            (None, _) => {
                "Source: flags of `plimsoll hw add`; say here which datasheet and its date.".to_string()
            }
        }
    }
}

fn quoted(value: String) -> String {
    toml::Value::String(value).to_string()
}
