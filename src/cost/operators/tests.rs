use super::*;
use crate::cost::testing::{device, llama_8b};

fn streamed(tensor_parallel: u32) -> u64 {
    let shape = llama_8b();
    let peaks = device("h100").peaks;
    let layers = linears(&shape, &peaks, tensor_parallel);
    let weights = |linear: &Linear| u64::from(linear.layers) * linear.n * linear.k * 2;
    layers.iter().map(weights).sum::<u64>() + weights(&lm_head(&shape, tensor_parallel))
}

#[test]
fn a_decode_step_of_llama_8b_streams_fifteen_gigabytes() {
    assert_eq!(streamed(1), 13_958_643_712 + 1_050_673_152);
}

#[test]
fn ranks_share_the_weights_evenly() {
    assert_eq!(streamed(4) * 4, streamed(1));
}

#[test]
fn eight_bit_weights_without_units_for_them_are_weight_only() {
    let mut shape = llama_8b();
    shape.quantization = Quantization::Fp8;
    let format = quantized(&shape, &device("a100").peaks);
    assert_eq!(
        (format.kernel, format.weight_bytes, format.input_bytes),
        (KernelFormat::Bf16, 1.0, 2.0)
    );
}
