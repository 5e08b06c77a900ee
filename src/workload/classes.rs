//! Classes of requests: what kind the next one is, drawn independently with given shares.
//!
//! Arrivals of all classes come from one process, which the draw thins: of Poisson arrivals every class sees Poisson
//! arrivals of its own, independent of the others'. Each class draws its lengths from a stream of its own, so that
//! changing one class leaves the texts of the others as they were.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::lengths::LengthSampler;
use super::spec::Class;
use crate::rng::{Purpose, stream};

/// The stream of the draws, beside that of the priorities.
const CLASS_STREAM: u64 = 1;

/// The classes of a workload that has any.
#[derive(Debug)]
pub(super) struct Classes {
    /// Sum of the shares up to and with each class.
    up_to: Vec<f64>,
    priorities: Vec<i64>,
    lengths: Vec<LengthSampler>,
    rng: ChaCha8Rng,
}

impl Classes {
    /// `None` where there are no classes.
    pub(super) fn new(classes: &[Class], seed: u64) -> Option<Classes> {
        if classes.is_empty() {
            return None;
        }
        let mut sum = 0.0;
        let up_to = classes.iter().map(|class| {
            assert!(
                class.share.is_finite() && class.share > 0.0,
                "a class has a share of the requests"
            );
            sum += class.share;
            sum
        });
        let lengths = (0u64..).zip(classes);
        let lengths = lengths.map(|(index, class)| LengthSampler::of_class(&class.lengths, seed, index));
        Some(Classes {
            up_to: up_to.collect(),
            priorities: classes.iter().map(|class| class.priority).collect(),
            lengths: lengths.collect(),
            rng: stream(seed, Purpose::Clients, CLASS_STREAM),
        })
    }

    /// The next request's class and its priority.
    pub(super) fn draw(&mut self) -> (u32, i64) {
        let sum = self.up_to.last().copied().unwrap_or_default();
        let place = self.rng.random::<f64>() * sum;
        let index = self.up_to.partition_point(|up_to| *up_to <= place);
        let index = index.min(self.up_to.len() - 1);
        (index as u32, self.priorities[index])
    }

    /// The next (prompt, output) of a class, in tokens.
    pub(super) fn lengths(&mut self, class: u32) -> (u32, u32) {
        self.lengths[class as usize].draw()
    }
}
