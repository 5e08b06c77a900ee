//! Where a file comes from and what a reader should know before trusting it.

use super::super::course::Course;
use super::super::findings::blemishes;
use super::super::kernels;
use super::super::plan::sentinels;
use super::Account;
use super::text::{File, list, number, quoted};

/// Share of the read bandwidth below which the decode kernel is no picture of the memory.
const LEAST_OVER_READ: f64 = 0.85;

/// What a reader should know before trusting the file.
#[must_use]
pub fn notes(account: &Account) -> Vec<String> {
    let Account { plan, course, .. } = account;
    let mut notes = blemishes(account.gpu, account.instruments, account.findings.drift);
    if !plan.left_out.is_empty() {
        notes.push(format!(
            "{} points did not fit into the card's memory",
            plan.left_out.len()
        ));
    }
    if course.repeated > 0 {
        notes.push(format!(
            "{} measured twice for wide intervals",
            points(course.repeated, "was", "were")
        ));
    }
    if let Some(ratio) = account
        .findings
        .decode_over_read()
        .filter(|ratio| *ratio < LEAST_OVER_READ)
    {
        notes.push(format!(
            "the decode kernel reaches {:.0} % of the read bandwidth: w_att_gbs is the kernel's, not the memory's",
            100.0 * ratio
        ));
    }
    let ragged = course
        .timed
        .iter()
        .filter(|timed| super::super::sample::is_ragged(&timed.samples))
        .count();
    if ragged > 0 {
        notes.push(format!(
            "{} a sample 20 % above the median",
            points(ragged, "has", "have")
        ));
    }
    notes.extend(unsupported(course));
    if account.instruments.sm_max.is_none() {
        notes.push("NVML was not there: clocks, power and neighbours are unknown".to_owned());
    }
    notes
}

/// `1 point was` or `2 points were`.
fn points(count: usize, one: &str, more: &str) -> String {
    match count {
        1 => format!("1 point {one}"),
        _ => format!("{count} points {more}"),
    }
}

/// Points that the card or its library cannot do, counted by block.
fn unsupported(course: &Course) -> Vec<String> {
    let refused: Vec<&str> = course
        .unsupported
        .iter()
        .map(|(point, _)| point.block())
        .collect();
    let mut blocks = refused.clone();
    blocks.sort_unstable();
    blocks.dedup();
    let note = |block: &str| {
        let count = refused.iter().filter(|name| **name == block).count();
        format!("{count} points of {block} are not supported here")
    };
    blocks.into_iter().map(note).collect()
}

/// The card, what ran on it, how it was measured, and what is wrong with that.
pub(super) fn provenance(file: &mut File, account: &Account) {
    let Account {
        gpu,
        software,
        course,
        ..
    } = account;
    file.section("provenance");
    file.key("source", "\"probe\"");
    let probe = env!("CARGO_PKG_VERSION");
    let capability = format!("{}.{}", gpu.capability.0, gpu.capability.1);
    let digest = kernels::digest();
    let texts = [
        ("gpu", gpu.name.as_str()),
        ("date_utc", account.date_utc),
        (
            "credit",
            "measured on the card itself; priors of attention from fits to NVIDIA AIConfigurator's published tables (Apache-2.0)",
        ),
        ("probe_version", probe),
        ("kernels_sha256", &digest),
        ("gpu_uuid_sha256_12", &gpu.uuid_digest),
        ("compute_capability", &capability),
        ("driver", &software.driver),
        ("cuda_driver", &software.cuda_driver),
        ("nvrtc", &software.nvrtc),
        ("cublaslt", &software.cublaslt),
        ("kernel_load", &software.kernel_load),
        ("host_cpu", &software.host_cpu),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        file.key(key, &quoted(text));
    }
    file.key("kernels_version", &kernels::VERSION.to_string());
    file.key("sm_count", &gpu.sm_count.to_string());
    file.key("l2_bytes", &gpu.l2_bytes.to_string());
    file.key("memory_bytes", &gpu.memory_bytes.to_string());
    if let Some(virtualised) = software.virtualised {
        file.key("virtualised", &virtualised.to_string());
    }
    if let Some(ecc) = account.instruments.ecc {
        file.key("ecc", &ecc.to_string());
    }
    file.key("mig", &gpu.is_mig.to_string());
    let is_clean = blemishes(gpu, account.instruments, account.findings.drift).is_empty();
    file.key("clean", &is_clean.to_string());
    file.key("notes", &list(notes(account).iter().map(|note| quoted(note))));
    file.key("skipped", &list(course.skipped_blocks().into_iter().map(quoted)));
    file.key("seed", &account.seed.to_string());
    file.key("wall_s", &number(course.wall_s));
}

/// Clocks, power and heat, with the sentinels that show their drift.
pub(super) fn clocks(file: &mut File, account: &Account) {
    let instruments = account.instruments;
    file.section("provenance.clocks");
    file.line("# MHz, W, °C; absent where NVML gives none. Nothing was set.");
    let whole = [
        ("sm_idle", instruments.sm_idle),
        ("sm_burst", instruments.sm_burst),
        ("sm_sustained", instruments.sm_sustained),
        ("sm_max", instruments.sm_max),
        ("mem", instruments.mem),
        ("temp_end_c", instruments.temp_end_c),
    ];
    for (key, value) in whole {
        if let Some(value) = value {
            file.key(key, &value.to_string());
        }
    }
    let watts = [
        ("power_limit_w", instruments.power_limit_w),
        ("power_sustained_w", instruments.power_sustained_w),
    ];
    for (key, value) in watts {
        if let Some(value) = value {
            file.key(key, &number(value));
        }
    }
    file.key("throttle", &list(instruments.throttle().into_iter().map(quoted)));
    let [gemm, read] = sentinels();
    let tflops = 2.0 * 8192_f64.powi(3) / 1e12;
    let rates = |point, amount: f64| {
        let medians = account.course.sentinel(point);
        list(medians.into_iter().map(|seconds| number(amount / seconds)))
    };
    file.key("sentinel_gemm_tflops", &rates(gemm, tflops));
    file.key("sentinel_read_gbs", &rates(read, read.bytes() / 1e9));
}
