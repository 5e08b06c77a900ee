//! From findings to the text of a calibration file, schema 1, with its provenance.
//!
//! Blocks that the cost model does not read (`memory`, `launch`, `host_link`, `disk`, `peer`) hold the raw points, so that a
//! better form can be fitted later. What a probe cannot measure is written as a prior, with its source beside it. Law: the file
//! is read by [`crate::cost::calibration::Calibration::parse`].

use std::fmt::Write;

use super::course::Course;
use super::facts::{Gpu, Instruments, Software};
use super::findings::{Findings, Gemm, blemishes};
use super::fit::lines::Line;
use super::kernels;
use super::plan::{Format, Plan, sentinels};
use super::sample::Estimate;

/// Everything that a file tells.
pub struct Account<'a> {
    /// The card.
    pub gpu: &'a Gpu,
    /// What ran on it.
    pub software: &'a Software,
    /// What its instruments said.
    pub instruments: &'a Instruments,
    /// What was to be measured.
    pub plan: &'a Plan,
    /// What was.
    pub course: &'a Course,
    /// What it says.
    pub findings: &'a Findings,
    /// Seed of the plan and of all data.
    pub seed: u64,
    /// UTC, `2026-11-21T00:00:00Z`.
    pub date_utc: &'a str,
}

/// A quoted string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A number with five significant digits, always as a float.
fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0.0".to_owned();
    }
    let digits = (4 - x.abs().log10().floor() as i32).max(1) as usize;
    let text = format!("{x:.digits$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') {
        format!("{short}0")
    } else {
        short.to_owned()
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(", "))
}

/// `{ v, ci, n }` of an estimate in the key's unit.
fn measured(estimate: Estimate, unit: f64) -> String {
    let [v, low, high] = [estimate.value, estimate.low, estimate.high].map(|x| number(x / unit));
    format!("{{ v = {v}, ci = [{low}, {high}], n = {} }}", estimate.n)
}

/// A text that grows line by line.
struct File(String);

impl File {
    fn line(&mut self, text: &str) {
        self.0 += text;
        self.0.push('\n');
    }

    fn section(&mut self, name: &str) {
        let _ = writeln!(self.0, "\n[{name}]");
    }

    fn key(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn estimate(&mut self, key: &str, estimate: Option<Estimate>, unit: f64) {
        if let Some(estimate) = estimate {
            self.key(key, &measured(estimate, unit));
        }
    }

    fn rows(&mut self, key: &str, names: &str, rows: impl Iterator<Item = String>) {
        self.line(&format!("# {names}"));
        self.line(&format!("{key} = ["));
        for row in rows {
            self.line(&format!("    {row},"));
        }
        self.line("]");
    }
}

/// Writes the file.
#[must_use]
pub fn file(account: &Account) -> String {
    let mut file = File(String::new());
    file.line("# Measured by `plimsoll probe`. Times in the unit of the key; `ci` is the 95 % interval of the sampling,");
    file.line("# which is not the error of the form (`sigma_ln`) nor what one card differs from another (`uncertainty`).");
    file.line("schema = 1");
    provenance(&mut file, account);
    clocks(&mut file, account);
    memory(&mut file, account.findings);
    for gemm in &account.findings.gemm {
        products(&mut file, gemm);
    }
    attention(&mut file, account);
    launch(&mut file, account.findings);
    links(&mut file, account);
    file.section("uncertainty");
    file.line(
        "# ten published collections of one model of card, one fit (NVIDIA AIConfigurator's tables of H200)",
    );
    file.key("between_cards_p_sd", "0.05");
    file.key("between_cards_w_sd", "0.03");
    file.0
}

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
            "{} points were measured twice for their wide intervals",
            course.repeated
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
        .filter(|timed| super::sample::is_ragged(&timed.samples))
        .count();
    if ragged > 0 {
        notes.push(format!("{ragged} points have a sample 20 % above their median"));
    }
    let refused: Vec<&str> = course
        .unsupported
        .iter()
        .map(|(point, _)| point.block())
        .collect();
    let mut blocks = refused.clone();
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        let count = refused.iter().filter(|name| **name == block).count();
        notes.push(format!("{count} points of {block} are not supported here"));
    }
    if account.instruments.sm_max.is_none() {
        notes.push("NVML was not there: clocks, power and neighbours are unknown".to_owned());
    }
    notes
}

fn provenance(file: &mut File, account: &Account) {
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

fn clocks(file: &mut File, account: &Account) {
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

fn memory(file: &mut File, findings: &Findings) {
    let memory = &findings.memory;
    file.section("memory");
    for (key, rate) in &memory.rates {
        file.key(key, &measured(*rate, 1e9));
    }
    file.estimate("t0_us", memory.t0, 1e-6);
    let [l2, hbm] = memory.latency;
    let latencies = [("l2", l2), ("hbm", hbm)];
    let known = latencies
        .iter()
        .filter_map(|(key, latency)| Some((key, (*latency)?)));
    let known: Vec<String> = known
        .map(|(key, latency)| format!("{key} = {}", number(latency.value * 1e9)))
        .collect();
    if !known.is_empty() {
        file.key("latency_ns", &format!("{{ {} }}", known.join(", ")));
    }
    if let Some(ratio) = findings.decode_over_read() {
        file.key("decode_over_read", &number(ratio));
    }
    let pages = findings.pages.iter().map(|page| {
        let (read, decode) = (number(page.read * 1e6), number(page.decode * 1e6));
        format!("[{}, {}, {read}, {decode}]", page.batch, page.context)
    });
    file.rows(
        "kv_pages",
        "batch, context, us of reads only, us of decode attention",
        pages,
    );
    for (key, curve) in [("read_cold", &memory.cold), ("read_warm", &memory.warm)] {
        let rows = curve.iter().map(|(bytes, seconds)| {
            let [v, low, high] = [seconds.value, seconds.low, seconds.high].map(|s| number(s * 1e6));
            format!("[{bytes}, {v}, {low}, {high}]")
        });
        file.rows(key, "bytes, us, ci low, ci high", rows);
    }
}

fn products(file: &mut File, gemm: &Gemm) {
    file.section(&format!("gemm.{}", gemm.format.key()));
    let Some(fit) = &gemm.fit else {
        let status = if gemm.refusal.is_some() {
            "unsupported"
        } else {
            "skipped"
        };
        file.key("status", &quoted(status));
        if let Some(why) = &gemm.refusal {
            file.line(&format!("# {}", why.replace(['\n', '\r'], " ")));
        }
        return;
    };
    file.key("model", "\"C5\"");
    file.key("status", "\"ok\"");
    if gemm.format != Format::Bf16 {
        let out = if gemm.format == Format::Int8 {
            "int32"
        } else {
            "bf16"
        };
        file.key("out", &quoted(out));
    }
    file.key("p_tflops", &measured(fit.flops_per_s, 1e12));
    file.key("w_gbs", &measured(fit.bytes_per_s, 1e9));
    file.key("t0_us", &measured(fit.t0, 1e-6));
    file.key("pnorm", &measured(fit.pnorm, 1.0));
    file.key("kappa_ns", &measured(fit.kappa, 1e-9));
    file.line("# of weights' shapes that were left out of the fit, one after the other");
    file.key("sigma_ln", &number(fit.sigma_ln));
    file.key("bias_ln", &number(fit.bias_ln));
    // A card that was faster after seconds than in its burst was not warm; that is noise, not a rate to build on.
    let sustained = gemm.sustained_over_burst.map(|ratio| ratio.clamp(0.3, 1.0));
    if let Some(ratio) = gemm
        .sustained_over_burst
        .filter(|ratio| Some(*ratio) != sustained)
    {
        file.line(&format!(
            "# sustained_over_burst was measured as {}, which no warm card has: the nearest of 0.3 to 1 stands in",
            number(ratio)
        ));
    }
    let ratios = [
        ("sustained_over_burst", sustained),
        ("zeros_over_random", gemm.zeros_over_random),
        ("best_of_8_over_first", gemm.best_of_8_over_first),
    ];
    if gemm.format != Format::Bf16 && gemm.sustained_over_burst.is_some() {
        file.line("# measured in bf16");
    }
    for (key, ratio) in ratios {
        if let Some(ratio) = ratio {
            file.key(key, &number(ratio));
        }
    }
    let rows = gemm.rows.iter().map(|row| {
        let [v, low, high] = [row.seconds.value, row.seconds.low, row.seconds.high].map(|s| number(s * 1e6));
        let shape = row.shape;
        format!(
            "[{}, {}, {}, {v}, {low}, {high}, {}]",
            shape.m, shape.n, shape.k, row.seconds.n
        )
    });
    file.rows("points", "m, n, k, median us, ci low, ci high, samples", rows);
}

/// Prefill attention over the peak of products, its linear term over their bandwidth, by architecture: FA3 on Hopper, trtllm-gen on
/// datacenter Blackwell, FA2 elsewhere (fits to NVIDIA AIConfigurator's tables).
fn prefill_prior(capability: (u32, u32)) -> (f64, f64, f64) {
    match capability {
        (9, _) => (0.80, 0.32, 12.0),
        (10, _) => (0.72, 0.24, 12.0),
        _ => (0.73, 0.90, 9.0),
    }
}

fn attention(file: &mut File, account: &Account) {
    let Some(decode) = &account.findings.decode else {
        return;
    };
    let (r, w, overhead_us) = prefill_prior(account.gpu.capability);
    file.section("attention");
    file.line("# Decode by a kernel of the probe's own; what an engine's several kernels add is a prior. Prefill is a share of the");
    file.line("# products' peak as published kernels reach it: the probe's prefill kernel is no engine's and sets nothing.");
    file.key("trust", "\"calibrated\"");
    file.key("head_dim", "128");
    file.key("w_att_gbs", &measured(decode.bytes_per_s, 1e9));
    file.key("w_att_fp8_ratio", "{ v = 0.71, source = \"prior\" }");
    file.key("t0_kernel_us", &measured(decode.t0, 1e-6));
    file.key("t0_engine_extra_us", "{ v = 7.0, source = \"prior\" }");
    file.key("per_seq_head_ns", &measured(decode.per_seq_head, 1e-9));
    file.key("per_token_ns", &measured(decode.per_token, 1e-9));
    file.key("sigma_ln", &number(decode.sigma_ln));
    file.key(
        "prefill_r",
        &format!("{{ v = {}, sd = 0.06, source = \"prior\" }}", number(r)),
    );
    file.key(
        "prefill_w_ratio",
        &format!("{{ v = {}, source = \"prior\" }}", number(w)),
    );
    file.key(
        "prefill_o_us",
        &format!("{{ v = {}, source = \"prior\" }}", number(overhead_us)),
    );
    let proxy = account.findings.prefill_proxy.iter();
    let proxy = proxy.map(|(tokens, rate)| format!("[{tokens}, {}]", number(rate / 1e12)));
    file.key("prefill_proxy_tflops", &list(proxy));
}

fn launch(file: &mut File, findings: &Findings) {
    let launch = &findings.launch;
    file.section("launch");
    file.line(
        "# of a plain program; an engine in Python adds 5 to 15 us an operation when it launches eagerly",
    );
    file.estimate("eager_submit_us", launch.eager_submit, 1e-6);
    file.estimate("eager_gap_us", launch.eager_gap, 1e-6);
    file.estimate("graph_launch_us", launch.graph_launch, 1e-6);
    let names = ["grid1", "grid_sm"].into_iter().zip(launch.node);
    let nodes: Vec<String> = names
        .filter_map(|(name, seconds)| Some(format!("{name} = {}", number(seconds? * 1e6))))
        .collect();
    if !nodes.is_empty() {
        file.key("graph_node_us", &format!("{{ {} }}", nodes.join(", ")));
    }
    file.estimate("sync_us", launch.sync, 1e-6);
}

fn links(file: &mut File, account: &Account) {
    let (link, findings) = (&account.findings.link, account.findings);
    file.section("host_link");
    let line = |line: &Line| {
        let (alpha, rate) = (
            number(line.alpha.value * 1e6),
            number(line.bytes_per_s.value / 1e9),
        );
        format!("{{ alpha_us = {alpha}, gbs = {rate} }}")
    };
    for (key, fitted) in [("h2d", &link.h2d), ("d2h", &link.d2h)] {
        if let Some(fitted) = fitted {
            file.key(key, &line(fitted));
        }
    }
    file.estimate("bidir_gbs", link.both, 1e9);
    file.estimate("per_copy_us", link.per_copy, 1e-6);
    file.estimate("zero_copy_gbs", link.zero_copy, 1e9);
    file.estimate("pageable_gbs", link.pageable, 1e9);
    if let Some((generation, width)) = account.instruments.pcie {
        file.key("pcie", &format!("{{ gen = {generation}, width = {width} }}"));
    }
    file.section("disk");
    let is_read = !findings.disk.is_empty();
    file.key("status", if is_read { "\"ok\"" } else { "\"skipped\"" });
    let reads = findings.disk.iter();
    let reads = reads.map(|(bytes, depth, rate)| format!("[{bytes}, {depth}, {}]", number(rate / 1e9)));
    file.rows("read", "block bytes, queue depth, GB/s", reads);
    file.section("peer");
    let is_single = account.gpu.peers < 2;
    file.key("status", if is_single { "\"single-gpu\"" } else { "\"copies\"" });
    file.key("gpus", &account.gpu.peers.max(1).to_string());
    let copies = findings.peer.iter();
    let copies = copies
        .map(|(from, to, bytes, seconds)| format!("[{from}, {to}, {bytes}, {}]", number(seconds * 1e6)));
    file.rows("copies", "from, to, bytes, us", copies);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Trust;
    use crate::cost::calibration::{Calibration, GemmForm, KernelFormat, Rate};
    use crate::probe::course::{follow, testing::MadeUp};
    use crate::probe::facts::testing::h200;
    use crate::probe::findings::find;
    use crate::probe::plan::{Options, plan};

    fn written(mut machine: MadeUp, max_s: f64) -> String {
        let options = Options {
            seed: 1,
            max_s,
            with_disk: false,
        };
        let gpu = h200();
        let plan = plan(&gpu, &options);
        let course = follow(&plan, max_s, &mut machine).unwrap();
        let findings = find(&course, &gpu).unwrap();
        let software = Software {
            driver: "580.159.04".to_owned(),
            kernel_load: "nvrtc-cubin".to_owned(),
            ..Software::default()
        };
        let instruments = Instruments {
            sm_max: Some(1980),
            sm_burst: Some(1980),
            throttle_bits: 4,
            pcie: Some((5, 16)),
            ..Instruments::default()
        };
        file(&Account {
            gpu: &gpu,
            software: &software,
            instruments: &instruments,
            plan: &plan,
            course: &course,
            findings: &findings,
            seed: 1,
            date_utc: "2026-11-21T00:00:00Z",
        })
    }

    #[test]
    fn what_was_made_up_is_read_back_by_the_cost_model() {
        let text = written(MadeUp::default(), 60.0);
        let calibration = Calibration::parse("mine", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(calibration.provenance.gpu, "NVIDIA H200");
        assert_eq!(calibration.gemm.len(), 3);
        let bf16 = &calibration.gemm[&KernelFormat::Bf16];
        assert_eq!(bf16.trust, Trust::Measured);
        assert!((bf16.sustained_over_burst - 0.95).abs() < 1e-4);
        let GemmForm::C5(c5) = &bf16.form else {
            panic!("a probe writes C5")
        };
        assert!((c5.p_tflops / 776.0 - 1.0).abs() < 0.01 && (c5.w_gbs / 4250.0 - 1.0).abs() < 0.01);
        let attention = calibration.attention.unwrap();
        assert!(
            (attention.decode.t0_us - 12.0).abs() < 0.1,
            "the kernel's 5 us and the engine's 7"
        );
        assert_eq!(attention.trust, Trust::Calibrated);
        let Rate::Absolute(rate) = attention.prefill.compute else {
            panic!("a share of the measured peak")
        };
        assert!((rate / (0.8 * 776e12) - 1.0).abs() < 0.01);
        assert!(
            text.contains("clean = true") && text.contains("throttle = [\"sw_power_cap\"]"),
            "{text}"
        );
    }

    #[test]
    fn what_was_refused_or_skipped_is_said_and_still_read() {
        let machine = MadeUp {
            without_fp8: true,
            warming: 0.01,
            ..MadeUp::default()
        };
        let text = written(machine, 33.0);
        let calibration = Calibration::parse("mine", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(calibration.gemm.len(), 1);
        assert!(
            text.contains("[gemm.fp8]\nstatus = \"unsupported\"\n# no algorithm"),
            "{text}"
        );
        assert!(text.contains("[gemm.int8]\nstatus = \"skipped\""), "{text}");
        assert!(
            text.contains("skipped = [") && text.contains("\"gemm.int8\""),
            "{text}"
        );
        assert!(
            text.contains("clean = false") && text.contains("drifted by"),
            "{text}"
        );
    }

    #[test]
    fn numbers_keep_five_digits_and_their_point() {
        let texts: Vec<String> = [776.0, 4231.26, 0.000_123_456, 12.0, 0.0, 123_456.7]
            .map(number)
            .to_vec();
        assert_eq!(
            texts,
            ["776.0", "4231.3", "0.00012346", "12.0", "0.0", "123456.7"]
        );
    }
}
