//! The part of a model that lies on each stage of a pipeline.
//!
//! Layers are shared out as vLLM's `get_pp_indices` does it (`distributed/utils.py`, 0.11 and 0.33 alike; `VLLM_PP_LAYER_PARTITION`
//! is left out): evenly, and what remains one each to the stages before the last, from behind. The first stage has the embedding, the
//! last one the LM head, tied or not.
//!
//! The order of layers within the stack is not kept, so where they are of several shapes it is a rule: dense layers of a model with
//! experts come first, if they fit the first stage (DeepSeek's, GLM's); any others are spread evenly.

use super::{LayerGroup, Mlp, ModelShape};

/// A stage's part of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelStage {
    /// Its layers, as a model.
    pub shape: ModelShape,
    /// It has the embedding.
    pub is_first: bool,
    /// It has the LM head, and samples.
    pub is_last: bool,
}

/// Layers of each of `stages` stages, of so many in all.
///
/// # Panics
/// If there is no stage.
#[must_use]
pub fn stage_layers(layers: u32, stages: u32) -> Vec<u32> {
    let mut shares = vec![layers / stages; stages as usize];
    // `partitions[-i] += 1` for i from 2: with one stage nothing remains.
    let last = shares.len() - 1;
    for share in shares[..last].iter_mut().rev().take((layers % stages) as usize) {
        *share += 1;
    }
    shares
}

impl ModelShape {
    /// The parts of the model on so many stages.
    #[must_use]
    pub fn stages(&self, stages: u32) -> Vec<ModelStage> {
        let parts = self.layers_of_stages(stages);
        let last = parts.len() - 1;
        let part = |(at, counts): (usize, &Vec<u32>)| ModelStage {
            shape: self.with_layers(counts),
            is_first: at == 0,
            is_last: at == last,
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// How many layers of each group lie on each of so many stages.
    #[must_use]
    pub fn layers_of_stages(&self, stages: u32) -> Vec<Vec<u32>> {
        let shares = stage_layers(self.layer_count(), stages);
        let mut left: Vec<u32> = self.layers.iter().map(|group| group.count).collect();
        let mut layers_left = self.layer_count();
        let dense_first = self.dense_comes_first(shares[0]);
        let of_stage = |&share: &u32| {
            let counts = match dense_first {
                true => in_order(&left, share),
                false => evenly(&left, layers_left, share),
            };
            for (left, count) in left.iter_mut().zip(&counts) {
                *left -= count;
            }
            layers_left -= share;
            counts
        };
        shares.iter().map(of_stage).collect()
    }

    /// Layers of several shapes are spread over stages by a rule, not by their place.
    #[must_use]
    pub fn has_unlike_layers(&self) -> bool {
        self.layers.len() > 1
    }

    fn dense_comes_first(&self, share: u32) -> bool {
        let is_dense = |group: &LayerGroup| matches!(group.mlp, Mlp::Dense { .. });
        let dense: u32 = self
            .layers
            .iter()
            .filter(|group| is_dense(group))
            .map(|group| group.count)
            .sum();
        self.has_experts() && dense <= share && self.layers.is_sorted_by_key(|group| !is_dense(group))
    }

    fn with_layers(&self, counts: &[u32]) -> ModelShape {
        let layers = self.layers.iter().zip(counts).filter(|&(_, &count)| count > 0);
        let layers: Vec<LayerGroup> = layers
            .map(|(group, &count)| LayerGroup {
                count,
                ..group.clone()
            })
            .collect();
        let own: u32 = counts.iter().sum();
        // Norms and biases are replicated, and almost all of them lie in layers.
        let other =
            u128::from(self.other_parameters) * u128::from(own) / u128::from(self.layer_count().max(1));
        ModelShape {
            layers,
            other_parameters: other as u64,
            ..self.clone()
        }
    }
}

/// The next `share` of what is left of each group, one group after the other.
fn in_order(left: &[u32], mut share: u32) -> Vec<u32> {
    let mut take = |&left: &u32| {
        let count = left.min(share);
        share -= count;
        count
    };
    left.iter().map(&mut take).collect()
}

/// The next `share` of all that is left, of each group in proportion; what rounding leaves goes to the largest rests.
fn evenly(left: &[u32], all: u32, share: u32) -> Vec<u32> {
    let exact = |&left: &u32| u64::from(left) * u64::from(share);
    let mut counts: Vec<u32> = left
        .iter()
        .map(|left| (exact(left) / u64::from(all.max(1))) as u32)
        .collect();
    let mut rests: Vec<(u64, usize)> = left
        .iter()
        .map(|left| exact(left) % u64::from(all.max(1)))
        .zip(0..)
        .collect();
    rests.sort_by_key(|&(rest, at)| (std::cmp::Reverse(rest), at));
    let missing = share - counts.iter().sum::<u32>();
    for &(_, at) in rests.iter().take(missing as usize) {
        counts[at] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::find;

    /// As `get_pp_indices` of vLLM 0.33 has them.
    #[test]
    fn layers_are_shared_out_as_vllm_does() {
        for (layers, stages, expected) in [
            (32, 1, vec![32]),
            (32, 4, vec![8, 8, 8, 8]),
            (80, 3, vec![27, 27, 26]),
            (61, 2, vec![31, 30]),
            (61, 4, vec![15, 15, 16, 15]),
            (62, 4, vec![15, 16, 16, 15]),
            (63, 4, vec![16, 16, 16, 15]),
            (126, 8, vec![15, 16, 16, 16, 16, 16, 16, 15]),
        ] {
            assert_eq!(stage_layers(layers, stages), expected, "{layers} on {stages}");
        }
    }

    #[test]
    fn the_parts_are_the_whole() {
        for name in [
            "meta-llama/Llama-3.1-70B-Instruct",
            "deepseek-ai/DeepSeek-V3",
            "Qwen/Qwen3-30B-A3B",
        ] {
            let (model, _) = find(name).unwrap();
            for count in 1..=8 {
                let stages = model.stages(count);
                let layers: u32 = stages.iter().map(|stage| stage.shape.layer_count()).sum();
                assert_eq!(layers, model.layer_count());
                let bytes: u64 = stages
                    .iter()
                    .map(|stage| stage.shape.layer_weight_bytes(1).0)
                    .sum();
                let whole = model.layer_weight_bytes(1).0;
                assert!(
                    whole - bytes < 2 * u64::from(count),
                    "{name} on {count}: {bytes} of {whole}"
                );
                let ends = |is: fn(&ModelStage) -> bool| stages.iter().filter(|stage| is(stage)).count();
                assert_eq!(
                    (ends(|stage| stage.is_first), ends(|stage| stage.is_last)),
                    (1, 1)
                );
            }
        }
    }

    /// DeepSeek's three dense layers are its first ones.
    #[test]
    fn dense_layers_come_first_where_there_are_few() {
        let (model, _) = find("deepseek-ai/DeepSeek-V3").unwrap();
        let stages = model.stages(4);
        let dense = |stage: &ModelStage| {
            let layers = stage.shape.layers.iter();
            layers
                .filter(|group| matches!(group.mlp, Mlp::Dense { .. }))
                .map(|group| group.count)
                .sum::<u32>()
        };
        assert_eq!(stages.iter().map(dense).collect::<Vec<_>>(), [3, 0, 0, 0]);
    }
}
