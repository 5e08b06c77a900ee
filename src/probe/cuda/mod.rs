//! The driver's side: opens the libraries, takes the memory, times the points.
//!
//! Everything that can be missing is asked for before it is used, since the bindings panic where a library or a symbol is
//! absent; a panic all the same ends as one line. Left out: NCCL, and any setting of clocks, power or modes.

mod attention;
mod bandwidth;
mod device;
mod disk;
mod gemm;
mod launch;
mod link;
mod loader;
mod machine;
mod nvml;
mod nvrtc;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use super::ProbeError;
use super::course::{Course, follow};
use super::doctor::{self, Facts};
use super::facts::{Gpu, Instruments, Software};
use super::findings::{Findings, find};
use super::plan::{Options, Plan, plan};
use super::write::Account;
use machine::Bench;

/// What a user asks for.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Which GPU, as CUDA counts.
    pub device: u32,
    /// Measure a shared card all the same.
    pub is_sharing_allowed: bool,
    /// A folder on the disk that is to be read.
    pub disk: Option<PathBuf>,
    /// Of the plan.
    pub options: Options,
}

/// Everything that a probe found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The card.
    pub gpu: Gpu,
    /// What ran on it.
    pub software: Software,
    /// What its instruments said.
    pub instruments: Instruments,
    /// What was to be measured.
    pub plan: Plan,
    /// What was.
    pub course: Course,
    /// What it says.
    pub findings: Findings,
}

impl Report {
    /// What a file tells.
    #[must_use]
    pub fn account<'a>(&'a self, seed: u64, date_utc: &'a str) -> Account<'a> {
        Account {
            gpu: &self.gpu,
            software: &self.software,
            instruments: &self.instruments,
            plan: &self.plan,
            course: &self.course,
            findings: &self.findings,
            seed,
            date_utc,
        }
    }
}

/// Points that a probe will have, as far as one can say before the card is asked.
#[must_use]
pub fn expected_points(wishes: &Wishes) -> u64 {
    let roomy = Gpu {
        capability: (9, 0),
        memory_free: 1 << 40,
        l2_bytes: 50 << 20,
        peers: 1,
        ..Gpu::default()
    };
    plan(&roomy, &wishes.options).points.len() as u64
}

/// What is there and what is missing.
#[must_use]
pub fn examine(wishes: &Wishes) -> Facts {
    let begun = Facts {
        has_cuda: true,
        asked: wishes.device,
        is_sharing_allowed: wishes.is_sharing_allowed,
        ..Facts::default()
    };
    let fallback = begun.clone();
    guarded(move || Ok(loader::examine(begun))).unwrap_or_else(|error| Facts {
        broken: Some(error.to_string()),
        ..fallback
    })
}

/// Measures the card; `goes_on` is told how many points are done and says whether to go on.
///
/// # Errors
/// [`ProbeError::Unfit`] where the machine cannot be probed, anything else where measuring failed.
pub fn probe(wishes: &Wishes, goes_on: &mut dyn FnMut(usize) -> bool) -> Result<Report, ProbeError> {
    let begun = Instant::now();
    let facts = examine(wishes);
    if let Some(line) = doctor::verdict(&doctor::examine(&facts)) {
        return Err(ProbeError::Unfit(line));
    }
    let Some(gpu) = facts.gpu.clone() else {
        return Err(ProbeError::Unfit("the driver described no GPU".to_owned()));
    };
    guarded(AssertUnwindSafe(|| measure(wishes, gpu, begun, goes_on)))
}

fn measure(
    wishes: &Wishes,
    gpu: Gpu,
    begun: Instant,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Report, ProbeError> {
    let plan = plan(&gpu, &wishes.options);
    let mut bench = Bench::open(wishes, &gpu, begun, goes_on)?;
    bench.warm_up()?;
    let course = follow(&plan, wishes.options.max_s, &mut bench)?;
    let (software, instruments) = bench.close();
    let findings = find(&course, &gpu)?;
    Ok(Report {
        gpu,
        software,
        instruments,
        plan,
        course,
        findings,
    })
}

/// Runs what may panic for want of a library, without a trace on the screen.
fn guarded<T>(
    work: impl FnOnce() -> Result<T, ProbeError> + std::panic::UnwindSafe,
) -> Result<T, ProbeError> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(work);
    std::panic::set_hook(hook);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        let line = text.lines().next().unwrap_or_default().to_owned();
        // The bindings panic in these two cases only; both are the machine's.
        if text.contains("symbol") || text.contains("dynamically load") {
            let remedy = "is too old, a stub or cut short; `plimsoll probe doctor` says which were found";
            return Err(ProbeError::Unfit(format!("a CUDA library {remedy} ({line})")));
        }
        Err(ProbeError::Driver {
            what: "probe",
            message: line,
        })
    })
}
