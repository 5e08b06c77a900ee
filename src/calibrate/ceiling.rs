//! The least time that a kernel can take on a GPU, whoever wrote it: what is faster was measured in another unit, on another
//! GPU, or not at all.
//!
//! Generous on purpose: data that fit into the L2 cache are taken to be read from there, clocks to be a tenth above the
//! datasheet's, an all-reduce to be done in the switch, and weights in 4 bits to meet activations in 8: SGLang's kernels of that
//! name on H100 pass the peak of 16 bits by half. Experts are judged by their arithmetic alone: which of them a row reads, and
//! which lay in the cache, no table says. A table's row that is below this is wrong, not fast.

use super::observation::{Block, Kernel};
use crate::cost::calibration::KernelFormat;
use crate::cost::kernel::{DecodeAttentionShape, PrefillAttentionShape, peak};
use crate::hardware::Device;

/// No kernel starts and ends in less, replayed from a graph or not.
const LEAST_S: f64 = 0.5e-6;
/// L2 caches are read at two to six times the memory's rate.
const L2_OVER_MEMORY: f64 = 6.0;
/// Clocks and memories run a little above their datasheets, now and then.
const ABOVE_DATASHEET: f64 = 1.1;

/// Seconds below which `kernel` is impossible on `device`.
#[must_use]
pub fn least_seconds(device: &Device, block: Block, kernel: &Kernel) -> f64 {
    let (flops, bytes) = match kernel {
        Kernel::Gemm(shape) => (shape.flops(), shape.bytes()),
        Kernel::Moe(shape) => (shape.flops(), 0.0),
        Kernel::Decode(shape) => (0.0, cache_bytes(shape)),
        Kernel::Prefill(shape) => (scores_flops(shape), 0.0),
        Kernel::AllReduce(bytes) => return over_link(*bytes, device.nvlink.unwrap_or(device.pcie).0),
        Kernel::Copy { bytes, .. } => return over_link(*bytes, device.pcie.0),
    };
    let format = match block {
        Block::Gemm(format) | Block::Moe(format) => format,
        Block::PrefillAttentionFp8Query => KernelFormat::Fp8,
        _ => KernelFormat::Bf16,
    };
    let cached = bytes.min(device.l2.0 as f64);
    let memory = (bytes - cached + cached / L2_OVER_MEMORY) / device.memory_bandwidth.0;
    let formats: &[KernelFormat] = match format {
        KernelFormat::Int4 | KernelFormat::Mxfp4 => &[format, KernelFormat::Fp8, KernelFormat::Int8],
        _ => &[format],
    };
    let peaks = formats.iter().map(|format| peak(&device.peaks, *format).0);
    let compute = flops / peaks.fold(0.0, f64::max);
    (compute.max(memory) / ABOVE_DATASHEET).max(LEAST_S)
}

fn over_link(bytes: f64, bytes_per_s: f64) -> f64 {
    (bytes / bytes_per_s / ABOVE_DATASHEET).max(LEAST_S)
}

fn cache_bytes(shape: &DecodeAttentionShape) -> f64 {
    let tokens = shape.batch as f64 * shape.context as f64;
    tokens * shape.kv_heads as f64 * shape.kv_bytes_per_token_head
}

/// Two products over all pairs of a query and a key that it may see.
fn scores_flops(shape: &PrefillAttentionShape) -> f64 {
    let tokens = shape.tokens as f64;
    let pairs = tokens * (shape.prefix as f64 + tokens / 2.0);
    4.0 * shape.batch as f64 * shape.heads as f64 * shape.head_dim as f64 * pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::tables;
    use crate::hardware;

    #[test]
    fn no_published_row_is_below_it_and_a_thousandth_of_one_is() {
        for file in ["gemm", "attn_decode", "attn_prefill", "moe", "collectives"] {
            let path = format!("{}/tests/data/kernels/{file}.csv", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let (mut rows, mut thousandths) = (0, 0);
            for selection in tables::selections(&text) {
                let all = hardware::all();
                let device = all
                    .iter()
                    .find(|device| tables::gpu_name(device) == selection.gpu);
                let Some(device) = device else { continue };
                for row in tables::read(file, &text, 0, &selection).unwrap().observations {
                    let least = least_seconds(device, row.block, &row.kernel);
                    assert!(row.seconds >= least, "{selection:?} {} {least}", row.kernel);
                    rows += 1;
                    thousandths += usize::from(1e-3 * row.seconds < least);
                }
            }
            assert!(
                rows > 50 && 100 * thousandths > 95 * rows,
                "{file}: {thousandths} of {rows}"
            );
        }
    }
}
