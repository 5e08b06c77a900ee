//! Step time of a model whose layers are spread over the stages of a pipeline (PP-1, PP-2).
//!
//! Stage `i` takes `t_i = Σ operators of its layers`, the first with the embedding, the last with LM head and sampling. Between two
//! stages go hidden states and residual, `2·T·d·b` bytes, of which each tensor-parallel rank sends a slice that the receivers put
//! together by an all-gather (`GroupCoordinator.isend_tensor_dict` with an `all_gather_group`; models whose blocks keep no residual apart
//! send half): `latency + 2·T·d·b/(TP·B) + all-gather`.
//!
//! The host: a synchronous engine decides and prepares one step after the other while stages compute, so its share comes before the
//! first stage and keeps none busy; launching a stage's own kernels is a floor of that stage. Asynchronously the gap between two steps
//! is each GPU's, and the host's chain, with the launches of the stage's own layers, a floor of each stage (V1-80, V1-81).
//!
//! Left out: sampled tokens on their way back to the first stage (a few bytes a row), contention on the links, a sender that waits.
//! Laws: [`StepCost`]'s and [`StageCosts`]'s; the parts of [`Breakdown`] add up to a step that meets no other and no floor.

use super::breakdown::merged;
use super::{Breakdown, DecodeCost, Placement, RooflineCost, RooflineError, StepCost, StepLoad};
use crate::cost::calibration::Calibration;
use crate::cost::{Part, StageCosts, Trust};
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::units::{BytesPerSec, Picos};

/// Stages that a model's layers are spread over, and what is between two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// Two or more.
    pub stages: u32,
    /// Of each GPU to the one that goes on with its work.
    pub link: StageLink,
}

/// A link between stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLink {
    /// Of a message, whatever its size.
    pub latency: Picos,
    /// One way.
    pub bandwidth: BytesPerSec,
}

/// The calibrated roofline of a model on several stages.
#[derive(Clone, Debug)]
pub struct PipelineCost {
    stages: Vec<RooflineCost>,
    link: StageLink,
    /// What of a token crosses from one GPU to the next, and what all of a stage's GPUs then have of it.
    sent_bytes: f64,
    whole_bytes: f64,
    prepared: Prepared,
    trust: Trust,
}

/// The host's share of a synchronous step, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prepared {
    pub(super) step: u64,
    pub(super) per_seq: u64,
}

impl PipelineCost {
    /// Resolves a calibration for a placement on several stages.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
        pipeline: &Pipeline,
    ) -> Result<PipelineCost, RooflineError> {
        let mut prepared = Prepared::default();
        let mut stages = Vec::new();
        for part in shape.stages(pipeline.stages) {
            let mut stage = RooflineCost::new(device, &part.shape, calibration, placement)?;
            if !part.is_first {
                stage.operators.without_embedding();
            }
            stage.samples = part.is_last;
            if !placement.asynchronous {
                prepared = stage.host.take_preparation();
            }
            stages.push(stage);
        }
        let whole = 2.0 * f64::from(shape.hidden_size) * shape.dtype.bytes() as f64;
        Ok(PipelineCost {
            trust: stages
                .iter()
                .map(|stage| stage.host.trust)
                .max()
                .unwrap_or(Trust::Prior),
            stages,
            link: pipeline.link,
            sent_bytes: whole / f64::from(placement.tensor_parallel),
            whole_bytes: whole,
            prepared,
        })
    }

    /// Seconds on the way from one stage to the next.
    fn crossing(&self, load: &StepLoad) -> f64 {
        let stage = &self.stages[0];
        let launch = stage.launch(load.tokens(), stage.is_uniform(load));
        let tokens = stage.padded_tokens(load.tokens(), launch) as f64;
        let gathered = stage.operators.gather_seconds(tokens * self.whole_bytes);
        self.link.latency.seconds() + tokens * self.sent_bytes / self.link.bandwidth.0 + gathered
    }

    fn crossings(&self, load: &StepLoad) -> Picos {
        Picos::from_seconds(self.crossing(load)) * (self.stages.len() as u64 - 1)
    }

    fn prepared(&self, load: &StepLoad) -> Picos {
        let sequences = u64::from(load.decode_seqs) + load.chunks.len() as u64;
        Picos(self.prepared.step + self.prepared.per_seq * sequences)
    }

    /// Laws of all stages together, with all that is between them.
    fn together(&mut self, load: &StepLoad, law: impl Fn(&mut RooflineCost) -> DecodeCost) -> DecodeCost {
        let beside = self.prepared(load) + self.crossings(load);
        let mut sum = DecodeCost {
            base: beside,
            floor: beside,
            ..DecodeCost::default()
        };
        for stage in &mut self.stages {
            let law = law(stage);
            sum.base += law.base;
            sum.per_kv_token += law.per_kv_token;
            sum.per_token_beyond += law.per_token_beyond;
            sum.per_longest_token += law.per_longest_token;
            sum.kv_floor += law.kv_floor;
            sum.floor += law.floor;
        }
        sum
    }
}

/// A step that meets no other: its stages one after another. What bounds one stage alone is taken as if it bound all.
impl StepCost for PipelineCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let load = StepLoad::of_decodes(batch, 0);
        self.together(&load, |stage| stage.decode(batch))
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.step_law(load).of(load)
    }

    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        self.together(load, |stage| stage.step_law(load))
    }

    fn reads_at_most(&self) -> Option<u32> {
        self.stages.iter().find_map(StepCost::reads_at_most)
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        self.stages[0].replayed(batch)
    }

    fn stages(&mut self) -> Option<&mut dyn StageCosts> {
        Some(self)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let of_stages = self.stages.iter().flat_map(|stage| stage.breakdown(load).parts);
        let mut parts: Vec<Part> = of_stages.collect();
        let beside = |operator: &str, seconds: f64, trust: Trust| Part {
            operator: operator.to_owned(),
            seconds,
            flops: 0.0,
            bytes: 0.0,
            trust,
        };
        let crossings = self.crossings(load).seconds();
        parts.push(beside("stage_link", crossings, Trust::Prior));
        parts.push(beside("host", self.prepared(load).seconds(), self.trust));
        Breakdown { parts: merged(parts) }
    }
}

impl StageCosts for PipelineCost {
    fn count(&self) -> usize {
        self.stages.len()
    }

    fn preparation(&mut self, load: &StepLoad) -> Picos {
        self.prepared(load)
    }

    fn stage(&mut self, at: usize, load: &StepLoad) -> Picos {
        self.stages[at].step(load)
    }

    fn transfer(&mut self, _: usize, load: &StepLoad) -> Picos {
        Picos::from_seconds(self.crossing(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::testing::{device, placement};

    const LINK: StageLink = StageLink {
        latency: Picos(5_000_000),
        bandwidth: BytesPerSec(50e9),
    };

    fn staged(model: &str, placement: &Placement, stages: u32) -> (RooflineCost, PipelineCost) {
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let (shape, _) = crate::model::find(model).unwrap();
        let pipeline = Pipeline { stages, link: LINK };
        let whole = RooflineCost::new(&device, &shape, &calibration, placement).unwrap();
        (
            whole,
            PipelineCost::new(&device, &shape, &calibration, placement, &pipeline).unwrap(),
        )
    }

    fn prompt() -> StepLoad {
        let mut load = StepLoad::of_decodes(12, 900);
        load.add(0, 3000);
        load.sampled_rows += 1;
        load
    }

    /// Nothing is computed twice and nothing is lost: the stages' operators are the whole model's, but for rounding coefficients.
    #[test]
    fn the_work_of_all_stages_is_the_models() {
        let synchronous = Placement {
            asynchronous: false,
            ..placement()
        };
        for model in ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B"] {
            for stages in [2, 3, 4] {
                let (whole, parts) = staged(model, &synchronous, stages);
                for load in [StepLoad::of_decodes(64, 1500), prompt()] {
                    let (whole, parts) = (whole.breakdown(&load).parts, parts.breakdown(&load).parts);
                    let of = |parts: &[Part], name: &str| {
                        let mut named = parts.iter().filter(|part| part.operator == name);
                        named.next().map_or((0.0, 0.0), |part| (part.seconds, part.flops))
                    };
                    for part in &whole {
                        if part.operator == "host_bound_wait" {
                            continue;
                        }
                        let (seconds, flops) = of(&parts, &part.operator);
                        assert!(
                            (seconds / part.seconds - 1.0).abs() < 1e-3,
                            "{model} {stages} {}",
                            part.operator
                        );
                        assert!(
                            (flops - part.flops).abs() <= 1e-9 * part.flops,
                            "{model} {}",
                            part.operator
                        );
                    }
                    assert!(of(&parts, "stage_link").0 > 0.0);
                }
            }
        }
    }

    /// A step alone is its preparation, its stages and its crossings.
    #[test]
    fn a_step_alone_is_the_sum_of_its_way() {
        let (_, mut cost) = staged("meta-llama/Llama-3.1-70B-Instruct", &placement(), 4);
        for load in [
            StepLoad::of_decodes(64, 1500),
            StepLoad::of_decodes(3, 20),
            prompt(),
        ] {
            let mut sum = cost.preparation(&load) + cost.transfer(0, &load) * 3;
            for at in 0..4 {
                sum += cost.stage(at, &load);
            }
            let step = cost.step(&load);
            let apart = sum.0.abs_diff(step.0);
            assert!(apart <= 4 + sum.0 / 1000, "{sum} and {step}");
        }
    }

    #[test]
    fn the_last_stage_has_the_head_and_the_first_does_not() {
        let (_, mut cost) = staged("meta-llama/Llama-3.1-8B-Instruct", &placement(), 2);
        let load = StepLoad::of_decodes(256, 1000);
        assert!(cost.stage(1, &load) > cost.stage(0, &load));
        let unsampled = StepLoad {
            sampled_rows: 0,
            ..prompt()
        };
        assert_eq!(cost.stage(0, &prompt()), cost.stage(0, &unsampled));
    }

    /// `2·T·d·b` bytes over the link, a slice each of two ranks: 8 µs of the latency and the all-gather aside.
    #[test]
    fn activations_cross_in_slices() {
        let (_, mut alone) = staged("meta-llama/Llama-3.1-8B-Instruct", &placement(), 2);
        let load = StepLoad {
            chunks: vec![crate::cost::Chunk {
                computed: 0,
                new: 4096,
            }],
            ..StepLoad::default()
        };
        let bytes = 2.0 * 4096.0 * 4096.0 * 2.0;
        let expected = LINK.latency.seconds() + bytes / LINK.bandwidth.0;
        assert!((alone.transfer(0, &load).seconds() / expected - 1.0).abs() < 1e-6);
        let two = Placement {
            tensor_parallel: 2,
            ..placement()
        };
        let (_, mut sliced) = staged("meta-llama/Llama-3.1-8B-Instruct", &two, 2);
        let saved = alone.transfer(0, &load).seconds() - sliced.transfer(0, &load).seconds();
        assert!(saved > 0.0 && saved < bytes / 2.0 / LINK.bandwidth.0);
    }
}
