//! Linear layers as a probe fits them: five numbers around those that it found.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{C5, Calibration, Gemm, GemmForm, KernelFormat, Residual};
use crate::cost::kernel::{Ceilings, gemm_seconds};
use crate::hardware::Device;

struct Five {
    format: KernelFormat,
    ceilings: Ceilings,
    sustained_over_burst: f64,
    parameters: Vec<Parameter>,
}

pub(super) fn form(format: KernelFormat, device: &Device, known: &Gemm, prior: &C5) -> Box<dyn Form> {
    let around = |value: f64, reach: f64| (value / reach, value * reach);
    Box::new(Five {
        format,
        // The form has rates of its own; ceilings matter to none of them.
        ceilings: Ceilings::of(device, device.peaks.bf16.0),
        sustained_over_burst: known.sustained_over_burst,
        parameters: vec![
            Parameter::factor("p_tflops", around(prior.p_tflops, 4.0), prior.p_tflops, 0.3),
            Parameter::factor("w_gbs", around(prior.w_gbs, 4.0), prior.w_gbs, 0.3),
            Parameter::term("t0_us", (0.0, 30.0), prior.t0_us, 1.5),
            Parameter::factor("pnorm", (0.6, 20.0), prior.pnorm, 0.5),
            Parameter::term("kappa_ns", (0.0, 5.0), prior.kappa_ns, 0.3),
        ],
    })
}

impl Five {
    fn gemm(&self, values: &[f64], residual: Residual) -> Gemm {
        Gemm {
            form: GemmForm::C5(C5 {
                p_tflops: values[0],
                w_gbs: values[1],
                t0_us: values[2],
                pnorm: values[3],
                kappa_ns: values[4],
            }),
            sustained_over_burst: self.sustained_over_burst,
            residual,
            trust: crate::cost::Trust::Calibrated,
        }
    }
}

impl Form for Five {
    fn label(&self) -> String {
        "C5".to_owned()
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
