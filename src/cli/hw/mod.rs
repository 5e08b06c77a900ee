//! `plimsoll hw`: the known GPUs, one of them in full, and writing a profile for another.

mod draft;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use draft::draft;

use super::inputs::{self, PROFILE_FOLDER};
use super::{files, ledger};
use crate::config::visible;
use crate::hardware::{self, Device, nvidia_smi};
use crate::quantity::{format_bytes, format_flops, format_rate};
use crate::report::tables::Column;
use crate::report::{folded, list_on};

/// The GPUs that are known, one in full, or a new one of your own.
///
/// Without a subcommand all shipped profiles are listed.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll hw
  plimsoll hw show h100 --format toml
  plimsoll hw add --from nvidia-smi
  nvidia-smi -q | plimsoll hw add --from -
  plimsoll hw add MY-GPU-48GB --architecture ada --visible '44.4 GiB' --bandwidth '864 GB/s' --bf16 '362 TFLOP/s' \\
      --l2 '96 MB' --sm-count 142 --pcie '32 GB/s' --tdp '350 W'")]
pub struct Args {
    /// What to do; list if not given.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// text or json; of one GPU also toml, its profile.
    #[arg(long, global = true, default_value = "text", value_parser = super::text_or(&["json", "toml"]))]
    pub format: String,
}

/// What to do with profiles.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Action {
    /// List the shipped profiles and those in hardware_profiles of the working folder.
    List,
    /// One GPU in full.
    Show {
        /// Any shortening of a known name, or a profile's path.
        id: String,
    },
    /// Write a profile for your own card.
    Add(Box<AddArgs>),
    /// A GPU without a word before it: that one in full.
    #[command(external_subcommand)]
    Named(Vec<String>),
}

/// The numbers of a new profile. Each is a string with a unit, as in a datasheet.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AddArgs {
    /// The id of the new profile; with --from that of the recognised card if not given.
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Output of `nvidia-smi -q`: a file, `-` for stdin, or `nvidia-smi` to run it.
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// The vendor's full name.
    #[arg(long)]
    pub name: Option<String>,
    /// nvidia, amd or other.
    #[arg(long)]
    pub vendor: Option<String>,
    /// volta, turing, ampere, ada, hopper, blackwell, blackwell-ultra, blackwell-rtx, cdna, rdna or other.
    #[arg(long)]
    pub architecture: Option<String>,
    /// A shipped card with the same chip, whose measurements are taken as a prior.
    #[arg(long, value_name = "GPU")]
    pub like: Option<String>,
    /// Memory that an engine is offered (torch.cuda.mem_get_info), `44.4 GiB`.
    #[arg(long)]
    pub visible: Option<String>,
    /// Memory bandwidth, `864 GB/s`.
    #[arg(long)]
    pub bandwidth: Option<String>,
    /// Level-2 cache, `96 MB`.
    #[arg(long)]
    pub l2: Option<String>,
    /// Dense bfloat16 peak, `362 TFLOP/s`.
    #[arg(long)]
    pub bf16: Option<String>,
    /// Dense fp8 peak.
    #[arg(long)]
    pub fp8: Option<String>,
    /// Dense int8 peak.
    #[arg(long)]
    pub int8: Option<String>,
    /// Dense fp4 peak.
    #[arg(long)]
    pub fp4: Option<String>,
    /// Streaming multiprocessors.
    #[arg(long)]
    pub sm_count: Option<u32>,
    /// GPU-to-GPU fabric, one direction, `450 GB/s`.
    #[arg(long)]
    pub nvlink: Option<String>,
    /// GPUs that one node's links join; 8 if not given.
    #[arg(long)]
    pub gpus_per_node: Option<u32>,
    /// Host link, one direction, `32 GB/s`.
    #[arg(long)]
    pub pcie: Option<String>,
    /// Board power, `350 W`.
    #[arg(long)]
    pub tdp: Option<String>,
    /// Where the profile is written.
    #[arg(long, default_value = PROFILE_FOLDER)]
    pub dir: PathBuf,
    /// Overwrite a profile of that name.
    #[arg(long)]
    pub force: bool,
}

/// Lists, shows or writes.
///
/// # Errors
/// A card that is not known, and forms that an action does not have.
pub fn run(args: &Args, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    match &args.action {
        None | Some(Action::List) if args.format == "toml" => {
            bail!("`--format toml` writes one profile: plimsoll hw show GPU --format toml")
        }
        None | Some(Action::List) if args.format == "json" => {
            let (known, unusable) = known();
            let all: Vec<Value> = known.iter().map(device_json).collect();
            writeln!(
                out,
                "{:#}",
                json!({"version": 1, "gpus": all, "unusable": unusable})
            )?;
        }
        None | Some(Action::List) => out.write_all(list(width).as_bytes())?,
        Some(Action::Show { id }) => show(id, &args.format, out)?,
        Some(Action::Named(words)) => {
            let (names, format) = super::named::named(words, &args.format)?;
            let [id] = names.as_slice() else {
                bail!(
                    "`{}` is not known to hw: it lists, shows one GPU (plimsoll hw show h100) or adds one",
                    names.join(" ")
                );
            };
            show(id, format, out)?;
        }
        Some(Action::Add(_)) if args.format != "text" => {
            bail!(
                "`--format {}` has no effect on add, which writes a profile",
                args.format
            )
        }
        Some(Action::Add(add_args)) => add(add_args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shipped devices, those on disk in place of shipped ones of their id, and then one's own; and what could not be read.
fn known() -> (Vec<Device>, Vec<String>) {
    let (own, unusable) = inputs::own_devices();
    let shipped = hardware::all().iter().map(|shipped| {
        let replaced = own.iter().find(|device| device.id == shipped.id);
        replaced.unwrap_or(shipped).clone()
    });
    let mut known: Vec<Device> = shipped.collect();
    let new = own
        .iter()
        .filter(|device| known.iter().all(|one| one.id != device.id));
    let new: Vec<Device> = new.cloned().collect();
    known.extend(new);
    (known, unusable)
}

fn list(width: Option<usize>) -> String {
    let columns = [
        Column::left("GPU"),
        Column::right("GiB"),
        Column::right("bandwidth"),
        Column::right("bf16 TF"),
        Column::right("fp8 TF"),
        Column::right("SMs"),
        Column::right("NVLink"),
        Column::right("W"),
        Column::right("$/h"),
    ];
    let known_or_none = |known: Option<String>| known.unwrap_or_else(|| "-".to_owned());
    let row = |device: &Device| {
        let price = device.price.as_ref();
        vec![
            device.id.clone(),
            format!("{:.1}", device.memory.gib()),
            format_rate(device.memory_bandwidth),
            format!("{:.0}", device.peaks.bf16.0 / 1e12),
            known_or_none(device.peaks.fp8.map(|rate| format!("{:.0}", rate.0 / 1e12))),
            device.sm_count.to_string(),
            known_or_none(device.nvlink.map(|rate| format!("{:.0} GB/s", rate.0 / 1e9))),
            format!("{:.0}", device.tdp_w),
            known_or_none(price.map(|price| format!("{:.2}", price.usd_per_hour))),
        ]
    };
    let (known, unusable) = known();
    let rows: Vec<Vec<String>> = known.iter().map(row).collect();
    let mut about = "\nGiB is what an engine is offered. Peaks are dense, NVLink is one direction; prices are assumed and \
                     dated.\n`plimsoll hw show GPU` for one in full, `plimsoll hw add` for your own.\n"
        .to_owned();
    for why in unusable {
        about += &format!("left out: {}\n", visible(&why));
    }
    list_on(&columns, &rows, width) + &folded(&about, width)
}

fn show(id: &str, format: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let (device, notes) = inputs::device(id)?;
    match format {
        "json" => writeln!(out, "{:#}", device_json(&device))?,
        "toml" => write!(out, "{}", device.to_toml(&device.name))?,
        _ => {
            show_text(&device, out)?;
            notes
                .iter()
                .try_for_each(|note| writeln!(out, "note               {note}"))?;
        }
    }
    Ok(())
}

fn show_text(device: &Device, out: &mut dyn Write) -> anyhow::Result<()> {
    let optional =
        |rate: Option<crate::units::FlopsPerSec>| rate.map_or("no units for it".to_string(), format_flops);
    let ridge = device.peaks.bf16.0 / device.memory_bandwidth.0;
    let price = device.price.as_ref().map_or("unknown".to_string(), |price| {
        format!("{:.2} $/h (assumed, {})", price.usd_per_hour, price.date)
    });
    let rows = [
        ("GPU", format!("{} ({})", device.id, device.name)),
        ("architecture", device.architecture.name().to_string()),
        (
            "memory",
            format!("{:.1} GiB offered to an engine", device.memory.gib()),
        ),
        ("bandwidth", format_rate(device.memory_bandwidth)),
        ("bf16 peak", format_flops(device.peaks.bf16)),
        ("fp8 peak", optional(device.peaks.fp8)),
        ("int8 peak", optional(device.peaks.int8)),
        ("fp4 peak", optional(device.peaks.fp4)),
        (
            "ridge point",
            format!("{ridge:.0} FLOP/byte = {ridge:.0} tokens per step in bf16"),
        ),
        ("L2 cache", format_bytes(device.l2)),
        ("SMs", device.sm_count.to_string()),
        ("NVLink", device.nvlink.map_or("none".to_string(), format_rate)),
        (
            "NVLink bridge",
            device.nvlink_bridge.map_or("none".to_string(), |rate| {
                format!("{}, an option for pairs (--nvlink-bridge)", format_rate(rate))
            }),
        ),
        ("GPUs a node", device.gpus_per_node.to_string()),
        ("PCIe", format_rate(device.pcie)),
        ("power", format!("{} W", device.tdp_w)),
        ("price", price),
    ];
    let like = device.like.as_ref().map(|like| ("same chip as", like.clone()));
    rows.into_iter()
        .chain(like)
        .try_for_each(|(what, value)| writeln!(out, "{what:<18} {value}"))?;
    Ok(())
}

fn device_json(device: &Device) -> Value {
    let rate = |rate: Option<crate::units::FlopsPerSec>| rate.map(|rate| rate.0);
    json!({
        "id": device.id,
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture.name(),
        "like": device.like,
        "memory_bytes": device.memory.0,
        "memory_bandwidth_bytes_s": device.memory_bandwidth.0,
        "bf16_flop_s": device.peaks.bf16.0,
        "fp8_flop_s": rate(device.peaks.fp8),
        "int8_op_s": rate(device.peaks.int8),
        "fp4_flop_s": rate(device.peaks.fp4),
        "l2_bytes": device.l2.0,
        "sm_count": device.sm_count,
        "nvlink_bytes_s": device.nvlink.map(|rate| rate.0),
        "nvlink_bridge_bytes_s": device.nvlink_bridge.map(|rate| rate.0),
        "gpus_per_node": device.gpus_per_node,
        "pcie_bytes_s": device.pcie.0,
        "tdp_w": device.tdp_w,
        "usd_per_hour": device.price.as_ref().map(|price| price.usd_per_hour),
        "price_date": device.price.as_ref().map(|price| price.date.clone()),
    })
}

fn add(args: &AddArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let report = args.from.as_deref().map(read_report).transpose()?;
    let known = report.as_ref().and_then(nvidia_smi::Report::known_device);
    if report.as_ref().is_some_and(|report| report.is_sliced) {
        bail!(
            "MIG is enabled on {}: an engine gets a slice, and the report has the whole card; disable it (nvidia-smi -mig 0) \
             or give the slice's own numbers as flags, without --from",
            report.map_or_else(String::new, |report| report.product)
        );
    }
    let text = draft(args, report.as_ref(), known)?;
    // The draft is judged as a file would be, so that all that is missing is told at once.
    let device = Device::from_toml(&text, "the new profile").map_err(|error| {
        let variant = report
            .as_ref()
            .and_then(|report| Some((report, report.resembles()?)));
        let but = variant.map_or_else(String::new, |(report, other)| {
            format!("{} is not the known {}; ", report.product, other.id)
        });
        anyhow::Error::new(error).context(format!(
            "{but}give what is missing as flags (`plimsoll hw add --help`), from the card's datasheet"
        ))
    })?;
    let path = args.dir.join(format!("{}.toml", device.id.to_lowercase()));
    if path.exists() && !args.force {
        bail!("{} exists; --force overwrites it", path.display());
    }
    ledger::claim(&path, "--force")?;
    files::write(&path, text.as_bytes())?;
    writeln!(out, "wrote {}: use it as --gpu {}", path.display(), device.id)?;
    if hardware::all()
        .iter()
        .any(|shipped| shipped.id.eq_ignore_ascii_case(&device.id))
    {
        writeln!(
            out,
            "note: {} ships with plimsoll; in this folder yours takes its place, and its calibration is that of the one that ships. Another \
             id behind `hw add` keeps both",
            device.id
        )?;
    }
    if let (Some(report), Some(known)) = (&report, known) {
        writeln!(
            out,
            "{} recognised as {}: rates are its datasheet's; memory ({:.1} GiB) and power are this card's",
            report.product,
            known.id,
            device.memory.gib()
        )?;
    }
    if let Some(report) = &report {
        for remark in report.remarks(known) {
            writeln!(out, "note: {remark}")?;
        }
    }
    Ok(())
}

/// A file, stdin, or the tool itself.
fn read_report(from: &str) -> anyhow::Result<nvidia_smi::Report> {
    let text = match from {
        "-" => ledger::whole(std::io::stdin(), 0)
            .and_then(ledger::text)
            .context("cannot read stdin")?,
        "nvidia-smi" if !Path::new(from).exists() => {
            let output = std::process::Command::new("nvidia-smi").arg("-q").output();
            let output = output.context(
                "cannot run `nvidia-smi -q`; run it where the card is and give its output as a file",
            )?;
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        path => ledger::read_to_string(path.as_ref()).with_context(|| format!("cannot read {path}"))?,
    };
    nvidia_smi::parse(&text).with_context(|| format!("cannot use {from}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(args: AddArgs) -> (tempfile::TempDir, anyhow::Result<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let args = AddArgs {
            dir: folder.path().join(PROFILE_FOLDER),
            ..args
        };
        let result = add(&args, &mut out).map(|()| String::from_utf8(out).unwrap());
        (folder, result)
    }

    fn datasheet() -> AddArgs {
        let some = |text: &str| Some(text.to_string());
        AddArgs {
            id: some("my_gpu-48gb"),
            architecture: some("ada"),
            visible: some("44.4 GiB"),
            bandwidth: some("864 GB/s"),
            l2: some("96 MB"),
            bf16: some("362 TFLOP/s"),
            sm_count: Some(142),
            pcie: some("32 GB/s"),
            tdp: some("350 W"),
            ..AddArgs::default()
        }
    }

    #[test]
    fn a_datasheet_becomes_a_profile() {
        let (folder, result) = added(datasheet());
        result.unwrap();
        let path = folder.path().join("hardware_profiles/my-gpu-48gb.toml");
        let device = Device::from_toml(&std::fs::read_to_string(path).unwrap(), "it").unwrap();
        assert_eq!(device.id, "MY-GPU-48GB");
        assert_eq!(device.peaks.fp8, None);
    }

    #[test]
    fn what_a_datasheet_lacks_is_told_at_once() {
        let (_folder, result) = added(AddArgs {
            bandwidth: None,
            tdp: None,
            ..datasheet()
        });
        let message = format!("{:#}", result.unwrap_err());
        assert!(
            message.contains("memory.bandwidth") && message.contains("power.tdp"),
            "{message}"
        );
    }

    #[test]
    fn a_report_of_a_known_card_is_enough_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("smi.txt");
        let text = "    Product Name : NVIDIA H100 80GB HBM3\n    FB Memory Usage\n        Total : 81559 MiB\n        Default Power Limit : 650.00 W\n";
        std::fs::write(&report, text).unwrap();
        let args = AddArgs {
            from: Some(report.display().to_string()),
            dir: folder.path().to_path_buf(),
            ..AddArgs::default()
        };
        add(&args, &mut Vec::new()).unwrap();
        let path = folder.path().join("my-h100-sxm-80gb.toml");
        let device = Device::from_toml(&std::fs::read_to_string(path).unwrap(), "it").unwrap();
        assert_eq!((device.sm_count, device.tdp_w), (132, 650.0));
        assert!((device.memory.gib() - 78.9).abs() < 0.1);
        assert!(
            add(&args, &mut Vec::new())
                .unwrap_err()
                .to_string()
                .contains("--force")
        );
    }

    /// The keys of a card without NVLink are others than those of one with it.
    #[test]
    fn a_report_of_any_known_card_is_a_whole_profile() {
        let cards = [
            ("NVIDIA A100-PCIE-40GB", 40_960, "A100-PCIE-40GB"),
            ("NVIDIA A100 80GB PCIe", 81_920, "A100-PCIE-80GB"),
            ("NVIDIA H100 PCIe", 81_559, "H100-PCIE-80GB"),
            ("NVIDIA H100 NVL", 95_830, "H100-NVL-94GB"),
            ("NVIDIA L40S", 46_068, "L40S-48GB"),
            ("NVIDIA A100-SXM4-40GB", 40_960, "A100-SXM-40GB"),
        ];
        for (product, mib, id) in cards {
            let text =
                format!("    Product Name : {product}\n    FB Memory Usage\n        Total : {mib} MiB\n");
            let (device, said) = of_report(&text);
            let known = hardware::find(id).unwrap().0;
            assert_eq!(device.id, format!("MY-{id}"), "{said}");
            assert_eq!(
                (device.nvlink, device.nvlink_bridge, device.pcie, device.tdp_w),
                (known.nvlink, known.nvlink_bridge, known.pcie, known.tdp_w),
                "{id}"
            );
        }
    }

    /// The profile that a report becomes, and what is said of it.
    fn of_report(text: &str) -> (Device, String) {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("smi.txt");
        std::fs::write(&report, text).unwrap();
        let (profiles, result) = added(AddArgs {
            from: Some(report.display().to_string()),
            ..AddArgs::default()
        });
        let said = result.unwrap();
        let written = std::fs::read_dir(profiles.path().join(PROFILE_FOLDER)).unwrap();
        let path = written.last().unwrap().unwrap().path();
        let device = Device::from_toml(&std::fs::read_to_string(path).unwrap(), "it").unwrap();
        (device, said)
    }

    #[test]
    fn a_shown_profile_can_be_read_back() {
        let mut out = Vec::new();
        show("l40s", "toml", &mut out).unwrap();
        let device = Device::from_toml(&String::from_utf8(out).unwrap(), "it").unwrap();
        assert_eq!(device, hardware::find("l40s").unwrap().0);
    }
}
