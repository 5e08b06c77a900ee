//! Copies between host and GPU: a line, and a cost for each piece where some copies had several.

use super::Form;
use crate::calibrate::observation::Kernel;
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{Calibration, Copies, Direction};
use crate::cost::kernel::copy_seconds;
use crate::hardware::Device;

/// Payload of a pinned copy over the link's data rate in one direction.
const SHARE_OF_LINK: f64 = 0.85;
/// What a copy and a piece of one cost on H200 behind PCIe 5, µs.
const ALPHA_US: f64 = 7.0;
const PER_COPY_US: f64 = 2.0;

pub(super) fn forms(direction: Direction, device: &Device, base: &Calibration) -> Vec<Form> {
    let known = base.copies.get(&direction);
    let gbs = known.map_or(SHARE_OF_LINK * device.pcie.0 / 1e9, |known| known.gbs);
    let alpha = known.map_or(ALPHA_US, |known| known.alpha_us);
    let piece = known.map_or(PER_COPY_US, |known| known.per_copy_us);
    vec![Form {
        label: String::new(),
        parameters: vec![
            Parameter::factor("alpha_us", (0.5, 200.0), alpha, 0.5),
            Parameter::factor("per_copy_us", (0.05, 100.0), piece, 0.7),
            Parameter::factor("gbs", (0.5, 1000.0), gbs, 0.4),
        ],
        seconds: Box::new(|values, kernel| match kernel {
            Kernel::Copy { bytes, pieces } => copy_seconds(&copies_of(values), *bytes, *pieces),
            _ => f64::NAN,
        }),
        store: Box::new(move |values, _, into| {
            into.copies.insert(direction, copies_of(values));
        }),
    }]
}

fn copies_of(values: &[f64]) -> Copies {
    Copies {
        alpha_us: values[0],
        per_copy_us: values[1],
        gbs: values[2],
    }
}
