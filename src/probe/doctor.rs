//! What a machine lacks for a probe, from the facts alone: what was found, what that means, what to do.
//!
//! Law: the first finding that stops a probe is the one line that `plimsoll probe` ends with, and `doctor` shows them all.

use std::fmt;

use super::facts::Gpu;
use super::plan::LEAST_FREE;

/// Lowest CUDA version of a driver: the event timer that is used came with it.
pub const LEAST_CUDA: i32 = 12_080;

/// What was found on the machine, in the order in which a probe needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Whether the binary has the probe.
    pub has_cuda: bool,
    /// The driver's library was opened.
    pub has_driver: bool,
    /// What `cuDriverGetVersion` says, 13000 for 13.0; `None` where the symbol is missing.
    pub driver_version: Option<i32>,
    /// What broke while looking, where a library is older or shorter than it seemed.
    pub broken: Option<String>,
    /// Code and name of what `cuInit` said; `None` for success or where it was not called.
    pub init: Option<(u32, String)>,
    /// GPUs that the driver shows.
    pub gpus: u32,
    /// The one that was chosen.
    pub gpu: Option<Gpu>,
    /// Which one was asked for.
    pub asked: u32,
    /// Why the chosen one could not be opened.
    pub open_error: Option<String>,
    /// The run-time compiler: where, or why not.
    pub nvrtc: Option<Result<String, String>>,
    /// The library of matrix products: where, or why not.
    pub cublaslt: Option<Result<String, String>>,
    /// The card's instruments: version, or why not.
    pub nvml: Option<Result<String, String>>,
    /// Whether a shared card is to be measured all the same.
    pub is_sharing_allowed: bool,
}

/// How a finding bears on a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// As it should be.
    Fine,
    /// The probe runs, with less.
    Lack,
    /// The probe cannot run.
    Stop,
}

/// One line of the doctor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub about: &'static str,
    /// How it bears.
    pub weight: Weight,
    /// What was found, and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.weight {
            Weight::Fine => "ok  ",
            Weight::Lack => "less",
            Weight::Stop => "STOP",
        };
        write!(f, "{mark}  {:<9} {}", self.about, self.text)
    }
}

/// Every finding, until one makes the next meaningless.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut tell = |about, weight, text: String| {
        findings.push(Finding { about, weight, text });
        weight != Weight::Stop
    };
    if !facts.has_cuda {
        tell("binary", Weight::Stop, super::WITHOUT_CUDA.to_owned());
        return findings;
    }
    tell("binary", Weight::Fine, "built with the probe".to_owned());
    if let Some(why) = &facts.broken {
        tell("driver", Weight::Stop, why.clone());
        return findings;
    }
    let (weight, text) = driver(facts);
    if !tell("driver", weight, text) {
        return findings;
    }
    let (weight, text) = device(facts);
    if tell("GPU", weight, text)
        && let Some(gpu) = &facts.gpu
    {
        for (about, weight, text) in [neighbours(gpu, facts.is_sharing_allowed), memory(gpu)] {
            tell(about, weight, text);
        }
    }
    let libraries = [
        ("NVRTC", &facts.nvrtc, NO_NVRTC),
        ("cublasLt", &facts.cublaslt, NO_CUBLASLT),
        ("NVML", &facts.nvml, NO_NVML),
    ];
    for (about, library, without) in libraries {
        match library {
            Some(Ok(place)) => tell(about, Weight::Fine, place.clone()),
            // A calibration without products is none.
            Some(Err(why)) if about == "cublasLt" => tell(about, Weight::Stop, format!("{why}: {without}")),
            Some(Err(why)) => tell(about, Weight::Lack, format!("{why}: {without}")),
            None => true,
        };
    }
    findings
}

/// The line that a probe ends with where it cannot run.
#[must_use]
pub fn verdict(findings: &[Finding]) -> Option<String> {
    let stop = findings.iter().find(|finding| finding.weight == Weight::Stop);
    stop.map(|stop| stop.text.clone())
}

const NO_NVRTC: &str = "the kernels are loaded as PTX, which the driver compiles";
const NO_CUBLASLT: &str = "no matrix product can be timed; install a CUDA 12 or 13 toolkit or the PyPI wheel nvidia-cublas-cu12, \
     and name its folder in PLIMSOLL_CUDA_LIBS if it is not found";
const NO_NVML: &str = "clocks, power and neighbours stay unknown";

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn driver(facts: &Facts) -> (Weight, String) {
    let stop = |text: String| (Weight::Stop, text);
    if !facts.has_driver {
        return stop(
            "no NVIDIA driver: libcuda.so.1 was not found; in a container, start it with its GPUs (`--gpus all`)".to_owned(),
        );
    }
    let Some(version) = facts.driver_version else {
        return stop(
            "libcuda is a stub or cut short: it lacks cuDriverGetVersion; take folders named `stubs` off LD_LIBRARY_PATH".to_owned(),
        );
    };
    match &facts.init {
        Some((34, _)) => {
            return stop(
                "the libcuda that was found is the toolkit's stub; take folders named `stubs` off LD_LIBRARY_PATH".to_owned(),
            );
        }
        Some((100, _)) => {
            return stop("the driver is there and shows no GPU; `nvidia-smi -L` should list one".to_owned());
        }
        Some((803 | 804, name)) => {
            return stop(format!(
                "driver library and kernel module are of different versions ({name}); restart the machine, or the container"
            ));
        }
        _ => {}
    }
    if version < LEAST_CUDA {
        return stop(format!(
            "the driver supports CUDA {}, the probe needs {} (driver 570 or younger)",
            dotted(version),
            dotted(LEAST_CUDA)
        ));
    }
    match &facts.init {
        Some((code, name)) => stop(format!("cuInit failed: {name} ({code})")),
        None => (Weight::Fine, format!("CUDA {}", dotted(version))),
    }
}

fn device(facts: &Facts) -> (Weight, String) {
    if facts.gpus == 0 {
        let hint = "CUDA_VISIBLE_DEVICES may hide them";
        return (Weight::Stop, format!("the driver shows no GPU; {hint}"));
    }
    if facts.asked >= facts.gpus {
        let text = format!(
            "there is no GPU {}: the driver shows {}, counted from 0",
            facts.asked, facts.gpus
        );
        return (Weight::Stop, text);
    }
    let Some(gpu) = &facts.gpu else {
        let why = facts.open_error.as_deref().unwrap_or("nobody said why");
        return (
            Weight::Stop,
            format!("GPU {} cannot be opened: {why}", facts.asked),
        );
    };
    if gpu.capability < (8, 0) {
        let text = format!(
            "{} is {}; the kernels need sm_80 (Ampere) or younger",
            gpu.name,
            gpu.arch()
        );
        return (Weight::Stop, text);
    }
    let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
    let text = format!("{}, {}, {} SMs, {gib:.1} GiB", gpu.name, gpu.arch(), gpu.sm_count);
    (Weight::Fine, text)
}

fn neighbours(gpu: &Gpu, is_allowed: bool) -> (&'static str, Weight, String) {
    let shared = if gpu.is_mig {
        Some("the GPU is a MIG slice, which is no picture of the card".to_owned())
    } else {
        let others = gpu.other_processes.filter(|others| *others > 0);
        others.map(|others| format!("{others} other process(es) compute on the GPU"))
    };
    match shared {
        None if gpu.other_processes.is_none() => (
            "sharing",
            Weight::Lack,
            "nobody can say who else computes".to_owned(),
        ),
        None => ("sharing", Weight::Fine, "nobody else computes".to_owned()),
        Some(text) if is_allowed => (
            "sharing",
            Weight::Lack,
            format!("{text}; the file will not be marked clean"),
        ),
        Some(text) => (
            "sharing",
            Weight::Stop,
            format!("{text}; --shared measures all the same and marks the file as not clean"),
        ),
    }
}

fn memory(gpu: &Gpu) -> (&'static str, Weight, String) {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    if gpu.memory_free < LEAST_FREE {
        let text = format!(
            "{:.1} GiB of the GPU's memory are free, the probe needs {:.0} GiB; stop what holds it (`nvidia-smi` lists it)",
            gib(gpu.memory_free),
            gib(LEAST_FREE)
        );
        return ("memory", Weight::Stop, text);
    }
    (
        "memory",
        Weight::Fine,
        format!("{:.1} GiB free", gib(gpu.memory_free)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::facts::testing::h200;
    use super::*;

    fn healthy() -> Facts {
        Facts {
            has_cuda: true,
            has_driver: true,
            driver_version: Some(13_000),
            gpus: 1,
            gpu: Some(h200()),
            nvrtc: Some(Ok("13.0".to_owned())),
            cublaslt: Some(Ok("13.0.2".to_owned())),
            nvml: Some(Ok("580.159".to_owned())),
            ..Facts::default()
        }
    }

    fn check(change: impl FnOnce(&mut Facts), expected: &str) {
        let mut facts = healthy();
        change(&mut facts);
        let line = verdict(&examine(&facts)).unwrap_or_default();
        assert!(line.contains(expected), "`{line}` does not say `{expected}`");
        assert!(
            !line.contains('\n') && line.is_empty() == expected.is_empty(),
            "{line}"
        );
    }

    #[test]
    fn every_ailment_has_its_line_and_its_remedy() {
        check(|_| {}, "");
        check(|f| f.has_cuda = false, "--features cuda");
        check(|f| f.has_driver = false, "libcuda.so.1 was not found");
        check(|f| f.broken = Some("cut short".to_owned()), "cut short");
        check(|f| f.driver_version = None, "stub or cut short");
        check(|f| f.init = Some((34, String::new())), "the toolkit's stub");
        check(|f| f.init = Some((100, String::new())), "shows no GPU");
        check(|f| f.init = Some((803, "X".to_owned())), "different versions");
        check(
            |f| f.init = Some((999, "UNKNOWN".to_owned())),
            "cuInit failed: UNKNOWN (999)",
        );
        check(
            |f| f.driver_version = Some(12_020),
            "CUDA 12.2, the probe needs 12.8",
        );
        check(|f| f.gpus = 0, "CUDA_VISIBLE_DEVICES");
        check(|f| f.asked = 3, "there is no GPU 3");
        check(
            |f| (f.gpu, f.open_error) = (None, Some("in use".to_owned())),
            "cannot be opened: in use",
        );
        check(|f| f.gpu.as_mut().unwrap().capability = (7, 5), "sm_75");
        check(|f| f.gpu.as_mut().unwrap().is_mig = true, "--shared");
        check(
            |f| f.gpu.as_mut().unwrap().other_processes = Some(1),
            "1 other process",
        );
        check(
            |f| f.gpu.as_mut().unwrap().memory_free = 1 << 30,
            "1.0 GiB of the GPU's memory are free",
        );
        check(
            |f| f.cublaslt = Some(Err("not found".to_owned())),
            "nvidia-cublas-cu12",
        );
    }

    #[test]
    fn what_is_only_less_stops_nothing() {
        let mut facts = healthy();
        facts.nvrtc = Some(Err("not found".to_owned()));
        facts.nvml = Some(Err("not found".to_owned()));
        facts.is_sharing_allowed = true;
        facts.gpu.as_mut().unwrap().other_processes = Some(2);
        let findings = examine(&facts);
        assert_eq!(verdict(&findings), None);
        let less = findings
            .iter()
            .filter(|finding| finding.weight == Weight::Lack)
            .count();
        assert_eq!(less, 3);
    }

    #[test]
    fn an_old_driver_is_told_before_an_error_that_it_causes() {
        check(
            |f| (f.driver_version, f.init) = (Some(11_040), Some((999, "UNKNOWN".to_owned()))),
            "CUDA 11.4",
        );
    }
}
