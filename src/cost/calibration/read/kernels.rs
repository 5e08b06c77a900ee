//! The blocks of a calibration file that time kernels: products of matrices, experts, attention.

use super::fields::{DECODE_BANDWIDTH, EFFICIENCY, Fields, NOT_NEGATIVE, PNORM, POSITIVE};
use crate::cost::Trust;
use crate::cost::calibration::{
    Attention, C5, DecodeAttention, Gemm, GemmForm, Moe, Moved, Occupancy, OccupancyPnorm, PrefillAttention,
    Rate, Residual,
};

/// Of FlashAttention 3 under vLLM on H100 and H200; probe files carry none.
const PREFILL_OVERHEAD_US: f64 = 12.0;

pub(super) fn read_gemm(fields: &mut Fields, trust: Trust) -> Option<Gemm> {
    for key in [
        "zeros_over_random",
        "best_of_8_over_first",
        "bias_ln",
        "points",
        "out",
        "residuals",
    ] {
        fields.take(key);
    }
    let status = fields.text("status");
    let form = match fields.text("model").as_deref() {
        Some("occupancy-pnorm") => Some(GemmForm::OccupancyPnorm(read_occupancy_pnorm(fields))),
        // The residual table of `C5+residual` is not used: it corrects points, and a step sums many.
        Some("C5" | "C5+residual") => Some(GemmForm::C5(C5 {
            p_tflops: fields.number("p_tflops", POSITIVE),
            w_gbs: fields.number("w_gbs", POSITIVE),
            t0_us: fields.number("t0_us", NOT_NEGATIVE),
            pnorm: fields.number("pnorm", PNORM),
            kappa_ns: fields.number("kappa_ns", NOT_NEGATIVE),
        })),
        _ if status.as_deref().is_some_and(|status| status != "ok") => None,
        other => {
            let found = other.map_or("is missing".to_owned(), |text| format!("is `{text}`"));
            fields.problem("model", format!("{found}; write `occupancy-pnorm` or `C5`"));
            None
        }
    };
    let gemm = Gemm {
        sustained_over_burst: fields.number_or("sustained_over_burst", 0.3..=1.05, 1.0),
        residual: read_residual(fields),
        trust: fields.trust(trust),
        form: form?,
    };
    status.is_none_or(|status| status == "ok").then_some(gemm)
}

fn read_occupancy_pnorm(fields: &mut Fields) -> OccupancyPnorm {
    let tile = fields.integers("tile");
    if !(tile.is_empty() || matches!(tile[..], [1..=4096, 1..=4096])) {
        fields.problem(
            "tile",
            "must be two integers from 1 to 4096, `[rows, columns]`".to_owned(),
        );
    }
    let occupancy = match fields.text("occupancy").as_deref() {
        None | Some("smooth") => Occupancy::Smooth,
        Some("wave") => Occupancy::Wave,
        Some(other) => {
            fields.problem("occupancy", format!("is `{other}`; write `smooth` or `wave`"));
            Occupancy::Smooth
        }
    };
    OccupancyPnorm {
        compute_efficiency: fields.number("ec", EFFICIENCY),
        bandwidth_efficiency: fields.number("eb", EFFICIENCY),
        overhead_us: fields.number("o_us", NOT_NEGATIVE),
        pnorm: fields.number("pnorm", PNORM),
        // Above 1 a product with more tiles could be faster than one with fewer.
        occupancy_exponent: fields.number_or("a", 0.0..=1.0, 0.0),
        occupancy,
        tile: match tile[..] {
            [rows @ 1..=4096, columns @ 1..=4096] => (rows as u32, columns as u32),
            _ => (128, 128),
        },
        quantize_us: fields.number_or("q0_us", NOT_NEGATIVE, 0.0),
        quantize_passes: fields.number_or("q1", NOT_NEGATIVE, 0.0),
        fill_k: fields.number_or("fill_k", NOT_NEGATIVE, 0.0),
        long_over_burst: fields.number_or("long_over_burst", 0.3..=1.0, 1.0),
    }
}

fn read_residual(fields: &mut Fields) -> Residual {
    Residual {
        median_pct: fields.optional_number("residual_median_pct", NOT_NEGATIVE),
        p95_pct: fields.optional_number("residual_p95_pct", NOT_NEGATIVE),
        sigma_ln: fields.optional_number("sigma_ln", NOT_NEGATIVE),
    }
}

pub(super) fn read_moe(fields: &mut Fields, trust: Trust) -> Option<Moe> {
    Some(Moe {
        compute_efficiency: fields.number("ec", EFFICIENCY),
        bandwidth_efficiency: fields.number("eb", EFFICIENCY),
        overhead_us: fields.number("o_us", NOT_NEGATIVE),
        pnorm: fields.number("pnorm", PNORM),
        padding_rows: fields.number_or("padding_rows", NOT_NEGATIVE, 0.0),
        per_expert_us: fields.number_or("per_expert_us", NOT_NEGATIVE, 0.0),
        rereads: fields.number_or("rereads", NOT_NEGATIVE, 0.0),
        moved: fields
            .optional_number("moved_passes", NOT_NEGATIVE)
            .map(|passes| Moved {
                passes,
                foreign_share: fields.number_or("foreign_share", 0.0..=1.0, 1.0),
            }),
        residual: read_residual(fields),
        trust: fields.trust(trust),
    })
}

/// Reads shares of ceilings, or the absolute rates and the ratios to the GEMM's rates that a probe writes.
pub(super) fn read_attention(fields: &mut Fields, trust: Trust, bf16: Option<&C5>) -> Attention {
    for key in ["head_dim", "sigma_ln", "prefill_q", "prefill_proxy_tflops"] {
        fields.take(key);
    }
    let decode = read_decode_attention(fields);
    let fp8_ratio = fields.optional_number("w_att_fp8_ratio", POSITIVE);
    let (fp8, fp8_prefill) = fields
        .section("fp8_kv", |fields| {
            (read_decode_attention(fields), read_prefill_shares(fields))
        })
        .unzip();
    let decode_fp8_kv = fp8.unwrap_or_else(|| {
        let ratio = fp8_ratio.unwrap_or(1.0);
        let bandwidth = match decode.bandwidth {
            // Whole bytes, which survive being written in GB/s.
            Rate::Absolute(rate) => Rate::Absolute((rate * ratio).round()),
            Rate::Share(share) => Rate::Share(share * ratio),
        };
        DecodeAttention {
            bandwidth,
            ..decode.clone()
        }
    });
    let prefill = read_prefill_attention(fields, bf16);
    let prefill_fp8_query = fields.section("fp8_query", read_prefill_shares).flatten();
    for key in ["residual_decode_pct", "residual_prefill_pct"] {
        fields.optional_number(key, NOT_NEGATIVE);
    }
    Attention {
        decode,
        decode_fp8_kv,
        prefill_fp8_kv: fp8_prefill.flatten().unwrap_or_else(|| prefill.clone()),
        prefill_fp8_query,
        prefill,
        trust: fields.trust(trust),
    }
}

fn read_prefill_attention(fields: &mut Fields, bf16: Option<&C5>) -> PrefillAttention {
    if let Some(ratio) = fields.optional_number("prefill_r", EFFICIENCY) {
        let w_ratio = fields.number("prefill_w_ratio", EFFICIENCY);
        let Some(c5) = bf16 else {
            fields.problem(
                "prefill_r",
                "is relative to `gemm.bf16` of model `C5`, which is absent".to_owned(),
            );
            return PrefillAttention {
                overhead_us: 0.0,
                compute: Rate::Share(ratio),
                bandwidth: Rate::Share(w_ratio),
                tail: 0.0,
                resident_share: 0.0,
                per_token_ns: 0.0,
            };
        };
        return PrefillAttention {
            overhead_us: fields.number_or("prefill_o_us", NOT_NEGATIVE, PREFILL_OVERHEAD_US),
            compute: Rate::Absolute(ratio * c5.p_tflops * 1e12),
            bandwidth: Rate::Absolute(w_ratio * c5.w_gbs * 1e9),
            tail: 0.0,
            resident_share: 0.0,
            per_token_ns: 0.0,
        };
    }
    PrefillAttention {
        overhead_us: fields.number("prefill_o_us", NOT_NEGATIVE),
        compute: match fields.optional_number("prefill_tflops", POSITIVE) {
            Some(tflops) => Rate::Absolute(tflops * 1e12),
            None => Rate::Share(fields.number("prefill_ec", EFFICIENCY)),
        },
        bandwidth: match fields.optional_number("prefill_gbs", POSITIVE) {
            Some(gbs) => Rate::Absolute(gbs * 1e9),
            None => Rate::Share(fields.number("prefill_eb", EFFICIENCY)),
        },
        tail: fields.number_or("prefill_tail", NOT_NEGATIVE, 0.0),
        resident_share: fields.number_or("prefill_resident", 0.0..=1.0, 0.0),
        per_token_ns: fields.number_or("prefill_token_ns", NOT_NEGATIVE, 0.0),
    }
}

/// Chunks of another format than 16 bits, where a file has them.
fn read_prefill_shares(fields: &mut Fields) -> Option<PrefillAttention> {
    let overhead_us = fields.optional_number("prefill_o_us", NOT_NEGATIVE)?;
    Some(PrefillAttention {
        overhead_us,
        compute: Rate::Share(fields.number("prefill_ec", EFFICIENCY)),
        bandwidth: Rate::Share(fields.number("prefill_eb", EFFICIENCY)),
        tail: fields.number_or("prefill_tail", NOT_NEGATIVE, 0.0),
        resident_share: fields.number_or("prefill_resident", 0.0..=1.0, 0.0),
        per_token_ns: fields.number_or("prefill_token_ns", NOT_NEGATIVE, 0.0),
    })
}

fn read_decode_attention(fields: &mut Fields) -> DecodeAttention {
    let kernel_us = fields.optional_number("t0_kernel_us", NOT_NEGATIVE);
    let engine_extra_us = fields.number_or("t0_engine_extra_us", NOT_NEGATIVE, 0.0);
    let seq_head_extra_ns = fields.number_or("per_seq_head_engine_extra_ns", NOT_NEGATIVE, 0.0);
    DecodeAttention {
        t0_us: match kernel_us {
            Some(kernel_us) => kernel_us + engine_extra_us,
            None => fields.number("t0_us", NOT_NEGATIVE),
        },
        per_seq_head_ns: fields.number("per_seq_head_ns", NOT_NEGATIVE) + seq_head_extra_ns,
        per_query_head_ns: fields.number_or("per_query_head_ns", NOT_NEGATIVE, 0.0),
        row_ns: fields.number_or("row_ns", NOT_NEGATIVE, 0.0),
        per_token_ns: fields.number("per_token_ns", NOT_NEGATIVE),
        bandwidth: match fields.optional_number("w_att_gbs", POSITIVE) {
            Some(gbs) => Rate::Absolute((gbs * 1e9).round()),
            None => Rate::Share(fields.number("decode_eb", DECODE_BANDWIDTH)),
        },
    }
}
