//! The blocks of a file, one for each part of the card.

use super::super::findings::{Findings, Gemm};
use super::super::fit::lines::Line;
use super::super::plan::Format;
use super::Account;
use super::text::{File, list, measured, number, quoted};

/// Rates, latencies and curves of the GPU's memory.
pub(super) fn memory(file: &mut File, findings: &Findings) {
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

/// The fit of one format's products and its points; or why there is none.
pub(super) fn products(file: &mut File, gemm: &Gemm) {
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
    ratios(file, gemm);
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

/// What a fit to bursts on random numbers does not say: the same for seconds on end, on zeros, and by the best algorithm.
fn ratios(file: &mut File, gemm: &Gemm) {
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

/// What FlashAttention 3 of vLLM 0.33 took for each sequence and KV head in decoding where the probe's kernel took nothing: 9 ns on an H100,
/// 13 on an H200. Of other architectures' kernels nothing is known beside the probe's.
fn seq_head_extra_ns(capability: (u32, u32)) -> Option<f64> {
    (capability.0 == 9).then_some(11.0)
}

/// Decode attention as measured, prefill as a prior.
pub(super) fn attention(file: &mut File, account: &Account) {
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
    if let Some(extra_ns) = seq_head_extra_ns(account.gpu.capability) {
        file.key(
            "per_seq_head_engine_extra_ns",
            &format!("{{ v = {}, source = \"prior\" }}", number(extra_ns)),
        );
    }
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

/// What a launch costs the host and the GPU.
pub(super) fn launch(file: &mut File, findings: &Findings) {
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

/// The host link, the disk and the other GPUs.
pub(super) fn links(file: &mut File, account: &Account) {
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
