//! Routed experts.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::Trust;
use crate::cost::calibration::{Calibration, KernelFormat, Moe, Moved, Residual};
use crate::cost::experts::moe_seconds;
use crate::cost::kernel::{Ceilings, peak};
use crate::hardware::Device;

/// Between a maximum and a sum; the tables of experts say nothing of it that padding does not say, too.
const PNORM: f64 = 3.0;

pub(super) fn forms(format: KernelFormat, device: &Device, base: &Calibration) -> Vec<Form> {
    let prior = base
        .moe
        .get(&format)
        .or_else(|| base.moe.get(&KernelFormat::Bf16));
    let Some(prior) = prior else {
        return Vec::new();
    };
    // Software decides more than hardware here: kernels of one format differ fivefold.
    let mut parameters = vec![
        Parameter::factor("ec", (0.02, 1.2), prior.compute_efficiency, 0.6),
        Parameter::factor("eb", (0.02, 1.3), prior.bandwidth_efficiency, 0.6),
        Parameter::term("o_us", (0.0, 300.0), prior.overhead_us, 30.0),
        Parameter::term("padding_rows", (0.0, 130.0), prior.padding_rows, 40.0),
        // Each row is gathered, activated and added up by kernels of their own, well below the peak bandwidth.
        Parameter::factor("moved_passes", (0.1, 10.0), 1.2, 0.5),
        Parameter::term("foreign_share", (0.0, 1.0), 0.5, 0.3),
        // Tiles of 64 to 256 rows, several of which may go through the weights together.
        Parameter::term("rereads", (0.0, 4.0), 0.5, 0.5),
    ];
    if is_list_of_products(format) {
        // A product of the list gets its addresses and fills its pipeline in a microsecond, on some of the SMs.
        parameters.push(Parameter::term("per_expert_us", (0.0, 10.0), 0.0, 0.5));
    }
    let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
    vec![Form {
        label: String::new(),
        parameters,
        seconds: Box::new(move |values, kernel| match kernel {
            Kernel::Moe(shape) => moe_seconds(&moe_of(values, Residual::default()), &ceilings, shape, 1.0),
            _ => f64::NAN,
        }),
        store: Box::new(move |values, residual, into| {
            into.moe.insert(format, moe_of(values, residual));
        }),
    }]
}

fn moe_of(values: &[f64], residual: Residual) -> Moe {
    Moe {
        compute_efficiency: values[0],
        bandwidth_efficiency: values[1],
        overhead_us: values[2],
        pnorm: PNORM,
        padding_rows: values[3],
        per_expert_us: values.get(7).copied().unwrap_or(0.0),
        rereads: values[6],
        moved: Some(Moved {
            passes: values[4],
            foreign_share: values[5],
        }),
        residual,
        trust: Trust::Calibrated,
    }
}

/// Formats whose experts CUTLASS computes as a list of products (in vLLM through FlashInfer); Triton's kernels of the others sort
/// rows into tiles of one grid, and an expert costs what its padding does.
fn is_list_of_products(format: KernelFormat) -> bool {
    matches!(format, KernelFormat::Fp8 | KernelFormat::Nvfp4)
}
