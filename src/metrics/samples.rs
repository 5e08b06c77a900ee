//! A bounded, evenly spread sample of a run's steps.

use crate::cost::StepLoad;
use crate::sim::Steps;

/// Samples kept at most.
const SAMPLES_MAX: usize = 256;

/// Every `stride`-th fact about steps; the stride doubles when there are too many.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    stride: u64,
    until_next: u64,
    kept: Vec<(StepLoad, f64, u64)>,
}

impl Samples {
    pub(super) fn new() -> Self {
        Samples {
            stride: 1,
            until_next: 0,
            kept: Vec::new(),
        }
    }

    /// Looks at a leap: keeps it, or lets the sample before stand for it.
    #[inline]
    pub(super) fn offer(&mut self, steps: &Steps<'_>) {
        if self.until_next == 0 {
            self.keep(steps);
        } else if let Some(last) = self.kept.last_mut() {
            last.2 += steps.count;
        }
        self.until_next -= 1;
    }

    fn keep(&mut self, steps: &Steps<'_>) {
        if self.kept.len() == SAMPLES_MAX {
            self.stride *= 2;
            self.kept = self
                .kept
                .chunks(2)
                .map(|pair| {
                    let (load, seconds, count) = pair[0].clone();
                    (load, seconds, count + pair.get(1).map_or(0, |second| second.2))
                })
                .collect();
        }
        self.until_next = self.stride;
        self.kept
            .push((steps.load.clone(), steps.duration.seconds(), steps.count));
    }

    /// (load, duration in seconds, how many steps it stands for); the counts add up to the run's steps.
    pub(super) fn into_kept(self) -> Vec<(StepLoad, f64, u64)> {
        self.kept
    }
}
