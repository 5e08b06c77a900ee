//! The longest context that fits.

use super::options::MemoryOptions;
use super::plan::plan;
use crate::hardware::Device;
use crate::model::ModelShape;

/// The longest context in whole `unit`s of tokens that fits, up to the one that was asked for; `None` if not one does.
#[must_use]
pub fn longest_context(
    device: &Device,
    model: &ModelShape,
    options: &MemoryOptions,
    unit: u32,
) -> Option<u32> {
    let fits = |max_model_len: u32| {
        let changed = MemoryOptions {
            max_model_len,
            ..options.clone()
        };
        plan(device, model, &changed).is_ok()
    };
    // Fitting is monotone in the length, so the largest multiple is found by bisection.
    let (mut low, mut high) = (0, options.max_model_len / unit + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle * unit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low > 0).then_some(low * unit)
}
