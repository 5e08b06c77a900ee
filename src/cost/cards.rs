//! What holds on every shipped card, measured or prior: a batch of one streams its weights, and fewer bytes take less time.

use super::StepCost;
use super::calibration::{KernelFormat, for_device};
use super::kernel::{Ceilings, GemmShape, gemm_seconds, peak};
use super::operators::{linears, table_widths};
use super::roofline::RooflineCost;
use super::testing::{llama_8b, placement};
use crate::hardware::{Device, all, find};

/// Seconds of each product of one Llama-3.1-8B layer for one token, in the order of the layer.
fn products(device: &Device, engine: &str, format: KernelFormat) -> Vec<f64> {
    let calibration = for_device(device, engine).calibration;
    let gemm = &calibration.gemm[&format];
    let (weight_bytes, input_bytes) = table_widths(format);
    let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
    let one = |(n, k): (u64, u64)| {
        let shape = GemmShape {
            m: 1,
            n,
            k,
            weight_bytes,
            input_bytes,
            output_bytes: 2.0,
        };
        gemm_seconds(gemm, &ceilings, &shape, gemm.sustained_over_burst)
    };
    let layers = linears(&llama_8b(), &device.peaks, 1);
    layers.iter().map(|linear| one((linear.n, linear.k))).collect()
}

#[test]
fn four_bit_weights_are_faster_than_sixteen_for_one_token_on_every_card() {
    for device in all() {
        // Padded to the 16 rows of a tensor core's tile one token is bound by compute there, whatever is read.
        if device.peaks.bf16.0 / device.memory_bandwidth.0 < 50.0 {
            assert!(device.id.starts_with("H20-"), "{}", device.id);
            continue;
        }
        for engine in ["vllm", "sglang", "trtllm"] {
            let narrow = products(device, engine, KernelFormat::Int4);
            let wide = products(device, engine, KernelFormat::Bf16);
            let label = format!("{} under {engine}: {narrow:?} against {wide:?}", device.id);
            let (narrow_sum, wide_sum) = (narrow.iter().sum::<f64>(), wide.iter().sum::<f64>());
            assert!(narrow_sum < 0.85 * wide_sum, "{label}");
            // TensorRT-LLM 1.0's own tables have weight-only kernels at par with cuBLAS on small products of H200.
            let is_faster = narrow.iter().zip(&wide).all(|(narrow, wide)| narrow < wide);
            assert!(engine == "trtllm" || is_faster, "{label}");
        }
    }
}

#[test]
fn one_token_is_bound_by_memory_on_every_card() {
    for device in all() {
        let time = products(device, "vllm", KernelFormat::Bf16).iter().sum::<f64>();
        let bytes: f64 = linears(&llama_8b(), &device.peaks, 1)
            .iter()
            .map(|linear| linear.shape(1).bytes())
            .sum();
        let efficiency = bytes / device.memory_bandwidth.0 / time;
        assert!((0.45..1.0).contains(&efficiency), "{}: {efficiency}", device.id);
    }
}

#[test]
fn consumer_cards_are_as_fast_as_their_memory() {
    let millis = |name: &str| {
        let device = find(name).expect("a shipped card").0;
        let calibration = for_device(&device, "vllm").calibration;
        let mut placement = placement();
        placement.asynchronous = true;
        let cost = RooflineCost::new(&device, &llama_8b(), &calibration, &placement);
        1e3 * cost
            .expect("every block is filled")
            .decode(1)
            .at(1024, 1024)
            .seconds()
    };
    let (l40s, rtx_4090, rtx_5090) = (millis("L40S"), millis("RTX-4090-24GB"), millis("RTX-5090-32GB"));
    assert!((9.5..12.5).contains(&rtx_5090), "{rtx_5090}");
    assert!((16.5..20.0).contains(&rtx_4090), "{rtx_4090}");
    assert!(rtx_4090 < l40s, "{rtx_4090} {l40s}");
}
