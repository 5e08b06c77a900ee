//! Linear layers: the occupancy p-norm with several tilings, of which the hold-out chooses; or, around those that a probe found,
//! its five numbers.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::Trust;
use crate::cost::calibration::{
    C5, Calibration, Gemm, GemmForm, KernelFormat, Occupancy, OccupancyPnorm, Residual,
};
use crate::cost::kernel::{Ceilings, gemm_seconds, peak};
use crate::hardware::{Architecture, Device};

/// Which form the parameters are of.
#[derive(Clone, Copy)]
enum Shape {
    /// The occupancy p-norm, with tiles of so many rows and columns.
    Tiles((u32, u32), Occupancy),
    /// Five numbers.
    Five,
}

pub(super) fn forms(format: KernelFormat, device: &Device, base: &Calibration) -> Vec<Form> {
    let Some(known) = base
        .gemm
        .get(&format)
        .or_else(|| base.gemm.get(&KernelFormat::Bf16))
    else {
        return Vec::new();
    };
    let (shapes, parameters) = match &known.form {
        GemmForm::OccupancyPnorm(prior) => {
            let tilings = tilings(format, device.architecture).iter();
            let shapes = tilings.map(|&(tile, occupancy)| Shape::Tiles(tile, occupancy));
            (shapes.collect(), parameters(format, prior))
        }
        GemmForm::C5(prior) => (vec![Shape::Five], five(prior)),
    };
    let sustained_over_burst = known.sustained_over_burst;
    let form = |shape: Shape| {
        let ceilings = Ceilings::of(device, peak(&device.peaks, format).0);
        let gemm = move |values: &[f64], residual: Residual| Gemm {
            form: shape.form(values),
            sustained_over_burst,
            residual,
            trust: Trust::Calibrated,
        };
        Form {
            label: shape.label(),
            parameters: parameters.clone(),
            seconds: Box::new(move |values, kernel| match kernel {
                Kernel::Gemm(shape) => {
                    gemm_seconds(&gemm(values, Residual::default()), &ceilings, shape, 1.0)
                }
                _ => f64::NAN,
            }),
            store: Box::new(move |values, residual, into| {
                into.gemm.insert(format, gemm(values, residual));
            }),
        }
    };
    shapes.into_iter().map(form).collect()
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

fn five(prior: &C5) -> Vec<Parameter> {
    let around = |value: f64, reach: f64| (value / reach, value * reach);
    vec![
        Parameter::factor("p_tflops", around(prior.p_tflops, 4.0), prior.p_tflops, 0.3),
        Parameter::factor("w_gbs", around(prior.w_gbs, 4.0), prior.w_gbs, 0.3),
        Parameter::term("t0_us", (0.0, 30.0), prior.t0_us, 1.5),
        Parameter::factor("pnorm", (0.6, 20.0), prior.pnorm, 0.5),
        Parameter::term("kappa_ns", (0.0, 5.0), prior.kappa_ns, 0.3),
    ]
}

impl Shape {
    fn form(self, values: &[f64]) -> GemmForm {
        match self {
            Shape::Tiles(tile, occupancy) => GemmForm::OccupancyPnorm(OccupancyPnorm {
                compute_efficiency: values[0],
                bandwidth_efficiency: values[1],
                overhead_us: values[2],
                pnorm: values[3],
                occupancy_exponent: values[4],
                occupancy,
                tile,
                fill_k: values.get(5).copied().unwrap_or(0.0),
                long_over_burst: values.get(6).copied().unwrap_or(1.0),
                quantize_us: values.get(7).copied().unwrap_or(0.0),
                quantize_passes: values.get(8).copied().unwrap_or(0.0),
            }),
            Shape::Five => GemmForm::C5(C5 {
                p_tflops: values[0],
                w_gbs: values[1],
                t0_us: values[2],
                pnorm: values[3],
                kappa_ns: values[4],
            }),
        }
    }

    fn label(self) -> String {
        match self {
            Shape::Tiles((rows, columns), occupancy) => {
                let kind = match occupancy {
                    Occupancy::Smooth => "smooth",
                    Occupancy::Wave => "whole waves",
                };
                format!("tiles of {rows} x {columns}, {kind}")
            }
            Shape::Five => "C5".to_owned(),
        }
    }
}
