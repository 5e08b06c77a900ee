//! Shipped parameters against the published kernel timings that they were fitted to, as tests.
//!
//! Rows of vLLM's kernels. A row counts if it was read from memory rather than from a warm cache and lies in the range of serving. The bars
//! are the fit's own error with some slack: they catch a formula or a parameter that went astray, not the last percent.

use super::calibration::{Calibration, KernelFormat, for_device};
use super::kernel::{
    Ceilings, DecodeAttentionShape, GemmShape, PrefillAttentionShape, decode_attention_seconds, gemm_seconds,
    prefill_attention_seconds,
};
use super::testing::{self, Row, device, number, whole};

fn rows(file: &str, gpu: &str, keep: impl Fn(&Row) -> bool) -> Vec<Row> {
    let rows = testing::rows(&format!("kernels/{file}.csv"));
    rows.filter(|row| row["gpu"] == gpu && row["fw"] == "vllm" && keep(row))
        .collect()
}

fn calibration(short: &str) -> Calibration {
    for_device(&device(short), "vllm").calibration
}

/// Demands a median and a 95th percentile of the relative error, in percent.
fn demand(what: &str, rows: &[Row], bars: (f64, f64), predicted_us: impl Fn(&Row) -> f64) {
    let error = |row: &Row| 100.0 * (predicted_us(row) / number(row, "us") - 1.0).abs();
    let mut errors: Vec<f64> = rows.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize];
    let (median, p95) = (at(0.5), at(0.95));
    assert!(
        median <= bars.0 && p95 <= bars.1,
        "{what}: {median:.1} / {p95:.1} %, demanded {bars:?}"
    );
}

fn gemm(gpu: &str, short: &str, format: KernelFormat, key: &str, bars: (f64, f64)) {
    let rows = rows("gemm", gpu, |row| {
        row["dtype"] == key && row["l2_warm"] == "0" && whole(row, "m") <= 8192 && whole(row, "n") >= 768
    });
    let device = device(short);
    let block = calibration(short).gemm[&format].clone();
    let (peak, width) = match format {
        KernelFormat::Fp8 => (device.peaks.fp8.unwrap(), 1.0),
        KernelFormat::Nvfp4 => (device.peaks.fp4.unwrap(), 0.5625),
        _ => (device.peaks.bf16, 2.0),
    };
    let ceilings = Ceilings::of(&device, peak.0);
    demand(&format!("gemm {key} {short}"), &rows, bars, |row| {
        let shape = GemmShape {
            m: whole(row, "m"),
            n: whole(row, "n"),
            k: whole(row, "k"),
            weight_bytes: width,
            input_bytes: width,
            output_bytes: 2.0,
        };
        1e6 * gemm_seconds(&block, &ceilings, &shape, 1.0)
    });
}

#[test]
fn sixteen_bit_products_are_within_nine_percent() {
    gemm("h100_sxm", "h100", KernelFormat::Bf16, "bf16", (5.0, 16.0));
    gemm("h200_sxm", "h200", KernelFormat::Bf16, "bf16", (5.0, 16.0));
    gemm("a100_sxm", "a100", KernelFormat::Bf16, "bf16", (8.5, 20.0));
    gemm("b200_sxm", "b200", KernelFormat::Bf16, "bf16", (5.0, 16.0));
}

#[test]
fn the_l40s_is_faster_than_its_kernel_table_by_no_more_than_the_server_shows() {
    gemm("l40s", "l40s", KernelFormat::Bf16, "bf16", (10.0, 22.0));
    gemm("l40s", "l40s", KernelFormat::Fp8, "fp8", (10.0, 22.0));
}

#[test]
fn narrow_products_are_within_ten_percent() {
    gemm("h100_sxm", "h100", KernelFormat::Fp8, "fp8", (8.0, 24.0));
    gemm("h200_sxm", "h200", KernelFormat::Fp8, "fp8", (7.0, 24.0));
    gemm("b200_sxm", "b200", KernelFormat::Fp8, "fp8", (9.0, 55.0));
    gemm("b200_sxm", "b200", KernelFormat::Nvfp4, "nvfp4", (10.0, 25.0));
}

fn decode_attention(gpu: &str, short: &str, kv_dtype: &str, bars: (f64, f64)) {
    let rows = rows("attn_decode", gpu, |row| {
        row["kv_dtype"] == kv_dtype && row["l2_warm"] == "0" && row["above_peak_bw"] == "0"
    });
    let attention = calibration(short).attention.unwrap();
    let (decode, width) = match kv_dtype {
        "fp8" => (&attention.decode_fp8_kv, 1.0),
        _ => (&attention.decode, 2.0),
    };
    let device = device(short);
    let ceilings = Ceilings::of(&device, device.peaks.bf16.0);
    demand(
        &format!("decode attention {kv_dtype} {short}"),
        &rows,
        bars,
        |row| {
            let shape = DecodeAttentionShape {
                batch: whole(row, "batch"),
                heads: whole(row, "heads"),
                kv_heads: whole(row, "kv_heads"),
                context: whole(row, "context"),
                kv_bytes_per_token_head: 2.0 * 128.0 * width,
            };
            1e6 * decode_attention_seconds(decode, &ceilings, &shape)
        },
    );
}

#[test]
fn decode_attention_is_within_ten_percent() {
    decode_attention("h100_sxm", "h100", "bf16", (5.0, 16.0));
    decode_attention("h200_sxm", "h200", "bf16", (5.0, 15.0));
    decode_attention("a100_sxm", "a100", "bf16", (9.5, 25.0));
    decode_attention("b200_sxm", "b200", "bf16", (5.0, 15.0));
    decode_attention("h100_sxm", "h100", "fp8", (6.0, 15.0));
    decode_attention("h200_sxm", "h200", "fp8", (6.0, 15.0));
    decode_attention("b200_sxm", "b200", "fp8", (6.0, 15.0));
}

fn prefill_attention(gpu: &str, short: &str, bars: (f64, f64)) {
    let rows = rows("attn_prefill", gpu, |row| row["kv_dtype"] == "bf16");
    let device = device(short);
    let prefill = calibration(short).attention.unwrap().prefill;
    let ceilings = Ceilings::of(&device, device.peaks.bf16.0);
    demand(&format!("prefill attention {short}"), &rows, bars, |row| {
        let shape = PrefillAttentionShape {
            batch: whole(row, "batch"),
            heads: whole(row, "heads"),
            kv_heads: whole(row, "kv_heads"),
            head_dim: 128,
            tokens: whole(row, "seqlen"),
            prefix: 0,
            query_bytes: 2.0,
            kv_bytes: 2.0,
        };
        1e6 * prefill_attention_seconds(&prefill, &ceilings, &shape)
    });
}

#[test]
fn prefill_attention_is_within_a_dozen_percent() {
    prefill_attention("h100_sxm", "h100", (6.0, 20.0));
    prefill_attention("h200_sxm", "h200", (5.5, 20.0));
    prefill_attention("a100_sxm", "a100", (6.5, 20.0));
    prefill_attention("l40s", "l40s", (9.0, 45.0));
    prefill_attention("b200_sxm", "b200", (6.0, 20.0));
}
