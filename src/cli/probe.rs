//! `plimsoll probe`: measures this machine's GPU into a calibration; `probe doctor`: what is missing for that.
//!
//! The file is written whole at the end or not at all. Nothing is set on the card.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::Exit;
use super::terminal::Terminal;
use crate::probe::doctor::{self, Finding};

/// Measure this machine's GPU and write its calibration.
///
/// Takes about 40 s, and never more than --max-seconds: products of matrices, memory, attention, launches and the host link, on
/// random data, with clocks and power noted and never set. The file it writes is all that another machine needs:
/// `plimsoll run … --calibration calibrations/my-gpu.toml`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll probe doctor
  plimsoll probe -o calibrations/my-gpu.toml
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h200 --calibration calibrations/my-gpu.toml --request-rate 10

Needs an NVIDIA GPU of Ampere or younger, driver 570 or younger, cublasLt (CUDA 12 or 13), and 6 GiB of free GPU memory. NVRTC and NVML are used where they are there. PLIMSOLL_CUDA_LIBS names folders with these libraries. Exit code 5: this machine, or this binary, cannot probe.")]
pub struct Args {
    /// What to do; measure if not given.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// The calibration to write; to the screen if not given.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Which GPU, counted from 0 as CUDA does.
    #[arg(long, default_value_t = 0, value_name = "N", global = true)]
    pub device: u32,
    /// Of the order of measurements and of all data.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Wall time after which nothing new is begun; what is left out is named in the file.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(15..=600), value_name = "S")]
    pub max_seconds: u32,
    /// Read a file of 2 GiB in this folder, too, past the page cache.
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Measure a GPU that others use, or a MIG slice; the file is not marked clean.
    #[arg(long, global = true)]
    pub shared: bool,
}

/// What to do with the GPU.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Action {
    /// Say what is there and what is missing, without measuring.
    Doctor,
}

/// Measures, or says what is missing.
///
/// # Errors
/// If the file cannot be written, or the driver fails while measuring.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    match args.action {
        Some(Action::Doctor) => tell(&examined(args), out),
        None => measure(args, out, terminal),
    }
}

/// The doctor's findings; the first line is the answer.
fn tell(findings: &[Finding], out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (answer, exit) = match doctor::verdict(findings) {
        Some(line) => (format!("cannot probe: {line}"), Exit::CannotProbe),
        None => (
            "ready: `plimsoll probe -o FILE` measures this GPU".to_owned(),
            Exit::Ok,
        ),
    };
    writeln!(out, "{answer}\n")?;
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    Ok(exit.into())
}

#[cfg(not(feature = "cuda"))]
fn examined(_args: &Args) -> Vec<Finding> {
    doctor::examine(&doctor::Facts::default())
}

#[cfg(not(feature = "cuda"))]
fn measure(args: &Args, _out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let line = doctor::verdict(&examined(args)).expect("a binary without the probe cannot probe");
    terminal.error(&anyhow::anyhow!(line));
    Ok(Exit::CannotProbe.into())
}

#[cfg(feature = "cuda")]
use with_cuda::{examined, measure};

#[cfg(feature = "cuda")]
mod with_cuda {
    use std::path::Path;

    use super::*;
    use crate::cli::{clock, files, progress::Progress};
    use crate::probe::cuda::{self, Report, Wishes};
    use crate::probe::plan::{Format, Options};
    use crate::probe::{ProbeError, write};

    fn wishes(args: &Args) -> Wishes {
        Wishes {
            device: args.device,
            is_sharing_allowed: args.shared,
            disk: args.disk.clone(),
            options: Options {
                seed: args.seed,
                max_s: f64::from(args.max_seconds),
                with_disk: args.disk.is_some(),
            },
        }
    }

    pub(super) fn examined(args: &Args) -> Vec<Finding> {
        doctor::examine(&cuda::examine(&wishes(args)))
    }

    pub(super) fn measure(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
            files::check_file(Path::new(file), "--output")?;
        }
        if let Some(folder) = &args.disk {
            files::check_folder(folder)?;
        }
        let mut progress = Progress::new(
            terminal,
            Some(cuda::expected_points(&wishes(args))),
            "measurements",
        );
        let probed = cuda::probe(&wishes(args), &mut |done| progress.at(done as u64));
        drop(progress);
        let report = match probed {
            Ok(report) => report,
            Err(error) => {
                let exit = match error {
                    ProbeError::Unfit(_) => Exit::CannotProbe,
                    ProbeError::Interrupted => Exit::Interrupted,
                    ProbeError::Driver { .. } | ProbeError::TooFew { .. } => Exit::Failure,
                };
                terminal.error(&error.into());
                return Ok(exit.into());
            }
        };
        let date = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let account = report.account(args.seed, &date);
        files::put(&write::file(&account), args.output.as_deref(), out)?;
        if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
            headline(&report, &write::notes(&account), file, out)?;
        }
        Ok(Exit::Ok.into())
    }

    /// The answer in a line, what takes from it, and what to do with the file.
    fn headline(report: &Report, notes: &[String], file: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let bf16 = report
            .findings
            .gemm
            .iter()
            .find(|gemm| gemm.format == Format::Bf16);
        let bf16 = bf16.and_then(|gemm| gemm.fit.as_ref());
        if let Some(fit) = bf16 {
            writeln!(
                out,
                "{}: {:.0} TFLOP/s in bf16, {:.2} TB/s, products within {:.0} % (sd), in {:.0} s",
                report.gpu.name,
                fit.flops_per_s.value / 1e12,
                fit.bytes_per_s.value / 1e12,
                100.0 * fit.sigma_ln,
                report.course.wall_s
            )?;
        }
        let findings = &report.findings;
        let sustained = findings.gemm.iter().find_map(|gemm| gemm.sustained_over_burst);
        let sustained =
            sustained.map(|share| format!("under lasting load {:.0} % of these TFLOP/s", 100.0 * share));
        let decode = findings.decode_over_read().map(|share| {
            format!(
                "decode attention at {:.0} % of the bandwidth of a plain read",
                100.0 * share
            )
        });
        let more: Vec<String> = sustained.into_iter().chain(decode).collect();
        if !more.is_empty() {
            writeln!(out, "{}", more.join("; "))?;
        }
        for note in notes {
            writeln!(out, "note: {note}")?;
        }
        let skipped = report.course.skipped_blocks();
        if !skipped.is_empty() {
            writeln!(
                out,
                "note: time did not suffice for all of {}",
                skipped.join(", ")
            )?;
        }
        writeln!(
            out,
            "wrote {file}; use it with `plimsoll run … --calibration {file}`"
        )?;
        Ok(())
    }
}
