//! Linear layers: the occupancy p-norm with several tilings, of which the hold-out chooses.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{
    Calibration, Gemm, GemmForm, KernelFormat, Occupancy, OccupancyPnorm, Residual,
};
use crate::cost::kernel::{Ceilings, gemm_seconds, peak};
use crate::hardware::{Architecture, Device};

struct Linear {
    format: KernelFormat,
    ceilings: Ceilings,
    tile: (u32, u32),
    occupancy: Occupancy,
    sustained_over_burst: f64,
    parameters: Vec<Parameter>,
}

pub(super) fn forms(format: KernelFormat, device: &Device, base: &Calibration) -> Vec<Box<dyn Form>> {
    let Some(known) = base
        .gemm
        .get(&format)
        .or_else(|| base.gemm.get(&KernelFormat::Bf16))
    else {
        return Vec::new();
    };
    let prior = match &known.form {
        GemmForm::OccupancyPnorm(prior) => prior,
        GemmForm::C5(prior) => return vec![super::c5::form(format, device, known, prior)],
    };
    let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
    let parameters = parameters(format, prior);
    let form = |&(tile, occupancy): &((u32, u32), Occupancy)| {
        let form = Linear {
            format,
            ceilings,
            tile,
            occupancy,
            sustained_over_burst: known.sustained_over_burst,
            parameters: parameters.clone(),
        };
        Box::new(form) as Box<dyn Form>
    };
    tilings(format, device.architecture).iter().map(form).collect()
}

/// Tiles whose grid the kernels of a format show. Weight-only kernels cut rows into 16, so that one row of a decoding
/// sequence does not pay for 128; Ampere steps at whole waves.
fn tilings(format: KernelFormat, architecture: Architecture) -> &'static [((u32, u32), Occupancy)] {
    use Occupancy::{Smooth, Wave};
    match (format, architecture) {
        (KernelFormat::Int4, _) => &[((16, 256), Smooth), ((16, 128), Smooth)],
        (_, Architecture::Ampere) => &[
            ((64, 256), Wave),
            ((64, 128), Wave),
            ((64, 64), Wave),
            ((128, 128), Smooth),
        ],
        _ => &[
            ((128, 128), Smooth),
            ((64, 128), Smooth),
            ((64, 256), Wave),
            ((128, 256), Wave),
        ],
    }
}

fn parameters(format: KernelFormat, prior: &OccupancyPnorm) -> Vec<Parameter> {
    let is_weight_only = format == KernelFormat::Int4;
    let mut all = vec![
        Parameter::factor("ec", (0.15, 1.2), prior.compute_efficiency, 0.2),
        Parameter::factor("eb", (0.2, 1.3), prior.bandwidth_efficiency, 0.15),
        // A launch is 2 to 6 µs; kernels that de-quantize have a longer prologue.
        Parameter::term(
            "o_us",
            (0.0, 30.0),
            prior.overhead_us,
            if is_weight_only { 4.0 } else { 1.5 },
        ),
        Parameter::factor("pnorm", (1.0, 12.0), prior.pnorm, 0.35),
        Parameter::term("a", (0.0, 1.0), prior.occupancy_exponent, 0.15),
    ];
    if !is_weight_only {
        // A tile's pipeline holds two to six stages of 64 channels; a power limit takes 0 to 16 % of the clocks.
        all.push(Parameter::term("fill_k", (0.0, 2000.0), 150.0, 250.0));
        all.push(Parameter::factor("long_over_burst", (0.6, 1.0), 0.94, 0.06));
    }
    if matches!(
        format,
        KernelFormat::Fp8 | KernelFormat::Nvfp4 | KernelFormat::Int8
    ) {
        all.push(Parameter::term("q0_us", (0.0, 20.0), prior.quantize_us, 2.0));
        all.push(Parameter::term("q1", (0.0, 40.0), prior.quantize_passes, 5.0));
    }
    all
}

impl Linear {
    fn gemm(&self, values: &[f64], residual: Residual) -> Gemm {
        Gemm {
            form: GemmForm::OccupancyPnorm(OccupancyPnorm {
                compute_efficiency: values[0],
                bandwidth_efficiency: values[1],
                overhead_us: values[2],
                pnorm: values[3],
                occupancy_exponent: values[4],
                occupancy: self.occupancy,
                tile: self.tile,
                fill_k: values.get(5).copied().unwrap_or(0.0),
                long_over_burst: values.get(6).copied().unwrap_or(1.0),
                quantize_us: values.get(7).copied().unwrap_or(0.0),
                quantize_passes: values.get(8).copied().unwrap_or(0.0),
            }),
            sustained_over_burst: self.sustained_over_burst,
            residual,
            trust: crate::cost::Trust::Calibrated,
        }
    }
}

impl Form for Linear {
    fn label(&self) -> String {
        let kind = match self.occupancy {
            Occupancy::Smooth => "smooth",
            Occupancy::Wave => "whole waves",
        };
        format!("tiles of {} x {}, {kind}", self.tile.0, self.tile.1)
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn seconds(&self, values: &[f64], kernel: &Kernel) -> f64 {
        let Kernel::Gemm(shape) = kernel else {
            return f64::NAN;
        };
        gemm_seconds(
            &self.gemm(values, Residual::default()),
            &self.ceilings,
            shape,
            1.0,
        )
    }

    fn store(&self, values: &[f64], residual: Residual, into: &mut Calibration) {
        into.gemm.insert(self.format, self.gemm(values, residual));
    }
}
