//! Devices and a model for this module's tests, with the figures of their data sheets.

use super::calibration::KernelFormat;
use super::roofline::{CudagraphMode, Fp8Inputs, Graphs, Placement};
use crate::hardware::{Architecture, Device, Peaks};
use crate::model::{Attention, Dtype, LayerGroup, Mlp, ModelShape, OutputGate, Quantization};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec};

/// `h100`, `h200`, `a100` (SXM), `a100-pcie`, `l40s` or `b200`.
pub(crate) fn device(short: &str) -> Device {
    let (id, architecture, tflops, fp8, tb_per_s, sm_count) = match short {
        "h100" => ("H100-SXM-80GB", Architecture::Hopper, 989.4, 1978.9, 3.35, 132),
        "h200" => ("H200-SXM-141GB", Architecture::Hopper, 989.4, 1978.9, 4.8, 132),
        "a100" => ("A100-SXM-80GB", Architecture::Ampere, 312.0, 0.0, 2.039, 108),
        "a100-pcie" => ("A100-PCIE-80GB", Architecture::Ampere, 312.0, 0.0, 1.935, 108),
        "l40s" => ("L40S-48GB", Architecture::Ada, 362.0, 733.0, 0.864, 142),
        "b200" => (
            "B200-SXM-180GB",
            Architecture::Blackwell,
            2250.0,
            4500.0,
            8.0,
            148,
        ),
        other => panic!("no test device {other}"),
    };
    Device {
        id: id.to_owned(),
        name: id.to_owned(),
        vendor: "nvidia".to_owned(),
        like: None,
        architecture,
        memory: Bytes(80_000_000_000),
        reported: None,
        memory_bandwidth: BytesPerSec(tb_per_s * 1e12),
        peaks: Peaks {
            bf16: FlopsPerSec(tflops * 1e12),
            fp8: (fp8 > 0.0).then_some(FlopsPerSec(fp8 * 1e12)),
            int8: Some(FlopsPerSec(if fp8 > 0.0 { fp8 } else { 624.0 } * 1e12)),
            fp4: (short == "b200").then_some(FlopsPerSec(9e15)),
        },
        l2: Bytes(match short {
            "l40s" => 96_000_000,
            "b200" => 126_000_000,
            "a100" | "a100-pcie" => 40_000_000,
            "h200" => 62_900_000,
            _ => 50_000_000,
        }),
        sm_count,
        nvlink: short.len().eq(&4).then_some(BytesPerSec(450e9)),
        nvlink_bridge: None,
        gpus_per_node: 8,
        nvlink_gpus: 8,
        pcie: BytesPerSec(32e9),
        tdp_w: 700.0,
        price: None,
    }
}

/// Llama-3.1-8B.
pub(crate) fn llama_8b() -> ModelShape {
    ModelShape {
        name: "meta-llama/Llama-3.1-8B-Instruct".to_owned(),
        architecture: "LlamaForCausalLM".to_owned(),
        hidden_size: 4096,
        vocab_size: 128_256,
        tied_embeddings: false,
        max_position: 131_072,
        trained_position: None,
        yarn_position: None,
        dtype: Dtype::Bf16,
        quantization: Quantization::None,
        quant_method: None,
        static_scales: false,
        kv_scheme: None,
        layers: vec![LayerGroup {
            count: 32,
            attention: Attention::Grouped {
                query_heads: 32,
                kv_heads: 8,
                head_dim: 128,
                window: None,
                value_dim: 128,
                gate: OutputGate::None,
                shares_kv: false,
            },
            mlp: Mlp::Dense {
                intermediate: 14_336,
                gated: true,
            },
            kept: Vec::new(),
        }],
        per_layer_input: None,
        vision: None,
        other_parameters: 266_240,
    }
}

/// One GPU, vLLM's graphs, synchronous scheduling.
pub(crate) fn placement() -> Placement {
    Placement {
        tensor_parallel: 1,
        data_parallel: 1,
        expert_groups: 1,
        gathers: None,
        exchange: crate::cost::roofline::Exchange::AllReduce,
        kv_format: Dtype::Bf16.into(),
        graphs: Graphs {
            mode: CudagraphMode::FullAndPiecewise,
            is_compiled: true,
            piece_sizes: None,
            pads: true,
            routes_padding: true,
            capture_sizes: [1, 2, 4].into_iter().chain((8..=512).step_by(8)).collect(),
        },
        asynchronous: false,
        engine: "vllm".to_owned(),
        typical_context: 1024,
        drafting: None,
        inputs: Fp8Inputs::AsTimed,
        fused_norms: None,
        fp8_experts: KernelFormat::Fp8,
        pipeline: None,
    }
}

/// A row of a table, by its columns.
pub(super) type Row = std::collections::HashMap<String, String>;

/// The rows of a table in `tests/data`.
pub(super) fn rows(path: &str) -> impl Iterator<Item = Row> + use<> {
    let path = format!("{}/tests/data/{path}", env!("CARGO_MANIFEST_DIR"));
    let reader = csv::Reader::from_path(path).unwrap();
    reader.into_deserialize().map(Result::unwrap)
}

pub(super) fn number(row: &Row, key: &str) -> f64 {
    row[key].parse().unwrap()
}

pub(super) fn whole(row: &Row, key: &str) -> u64 {
    row[key].parse().unwrap()
}
