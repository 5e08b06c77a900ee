//! The forms that are fitted: which parameters each has, what it predicts, where its values go.
//!
//! Every prediction is made by the functions of [`crate::cost::kernel`], the ones that a simulation uses; here are only
//! the priors. A prior is centred on what is known of the architecture (the `prior-…` files); its width says by how
//! much cards, engines and campaigns differ.

mod attention;
mod collective;
mod copies;
mod experts;
mod linear;

use super::observation::{Block, Kernel};
use super::solve::Parameter;
use crate::cost::calibration::{Calibration, Residual};
use crate::hardware::Device;

/// One way to predict the kernels of a block.
pub struct Form {
    /// What sets it apart from the block's others; empty where there is only one.
    pub label: String,
    /// What is fitted.
    pub parameters: Vec<Parameter>,
    seconds: Box<Seconds>,
    store: Box<Store>,
}

type Seconds = dyn Fn(&[f64], &Kernel) -> f64 + Sync;
type Store = dyn Fn(&[f64], Residual, &mut Calibration) + Sync;

impl Form {
    /// A kernel's time; not a number for one of another block.
    #[must_use]
    pub fn seconds(&self, values: &[f64], kernel: &Kernel) -> f64 {
        (self.seconds)(values, kernel)
    }

    /// Writes the block.
    pub fn store(&self, values: &[f64], residual: Residual, into: &mut Calibration) {
        (self.store)(values, residual, into);
    }
}

/// The forms of a block, the preferred one first; none where the base lacks it.
#[must_use]
pub fn forms(block: Block, device: &Device, base: &Calibration) -> Vec<Form> {
    match block {
        Block::Gemm(format) => linear::forms(format, device, base),
        Block::Moe(format) => experts::forms(format, device, base),
        Block::PrefillAttention | Block::PrefillAttentionFp8 | Block::PrefillAttentionFp8Query => {
            attention::prefill(block, device, base)
        }
        Block::DecodeAttention => attention::decode(device, base, false),
        Block::DecodeAttentionFp8 => attention::decode(device, base, true),
        Block::AllReduce(gpus) => collective::forms(gpus, device, base),
        Block::Copy(direction) => copies::forms(direction, device, base),
    }
}
