//! A bounded, evenly spread sample of a run's steps.
//!
//! Steps that decode, that compute prompts and that do both are sampled apart: a leap of many decode steps and a step with a
//! prompt follow each other by turns, so that one sample of all would let either stand for the other.

use crate::cost::StepLoad;
use crate::sim::Steps;

/// Samples of a kind kept at most.
const SAMPLES_MAX: usize = 256;

/// The samples of a run, apart by what its steps do.
#[derive(Clone, Debug)]
pub(super) struct Samples([Sample; 3]);

/// Every `stride`-th fact about steps; the stride doubles when there are too many.
#[derive(Clone, Debug)]
struct Sample {
    stride: u64,
    until_next: u64,
    kept: Vec<(StepLoad, f64, u64)>,
}

impl Samples {
    pub(super) fn new() -> Self {
        let empty = Sample {
            stride: 1,
            until_next: 0,
            kept: Vec::new(),
        };
        Samples([empty.clone(), empty.clone(), empty])
    }

    /// Looks at a leap: keeps it, or lets the sample before of its kind stand for it.
    #[inline]
    pub(super) fn offer(&mut self, steps: &Steps<'_>) {
        let kind = match (steps.load.chunks.is_empty(), steps.load.decode_seqs) {
            (true, _) => 0,
            (false, 0) => 1,
            (false, _) => 2,
        };
        self.0[kind].offer(steps);
    }

    /// (load, duration in seconds, how many steps it stands for); the counts add up to the run's steps.
    pub(super) fn into_kept(self) -> Vec<(StepLoad, f64, u64)> {
        self.0.into_iter().flat_map(|sample| sample.kept).collect()
    }
}

impl Sample {
    #[inline]
    fn offer(&mut self, steps: &Steps<'_>) {
        if self.until_next == 0 {
            self.keep(steps);
        } else if let Some(last) = self.kept.last_mut() {
            last.2 += steps.count;
        }
        self.until_next -= 1;
    }

    #[cold]
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Chunk;
    use crate::metrics::single_server::steps;
    use crate::units::Picos;

    /// Five hundred prompts, after each of which many tokens are decoded.
    #[test]
    fn a_step_never_stands_for_one_of_another_kind() {
        let prompt = StepLoad {
            chunks: vec![Chunk {
                computed: 0,
                new: 512,
            }],
            sampled_rows: 1,
            ..StepLoad::default()
        };
        let decode = StepLoad {
            decode_seqs: 1,
            sampled_rows: 1,
            ..StepLoad::default()
        };
        let mut samples = Samples::new();
        for _ in 0..500 {
            for (load, count) in [(&prompt, 1), (&decode, 64), (&decode, 63)] {
                samples.offer(&steps(Picos::ZERO, Picos(count), count, Picos::ZERO, 0, load));
            }
        }
        let kept = samples.into_kept();
        let (prompts, decodes): (Vec<_>, Vec<_>) =
            kept.iter().partition(|(load, _, _)| !load.chunks.is_empty());
        let all = |of: &[&(StepLoad, f64, u64)]| of.iter().map(|sample| sample.2).sum::<u64>();
        assert_eq!((all(&prompts), all(&decodes)), (500, 500 * 127));
        assert!(kept.len() <= 2 * SAMPLES_MAX, "{}", kept.len());
    }
}
