//! Step time as a sum over operators of a calibrated roofline, plus what the host adds.
//!
//! `t = Σ linear + attention + indexer + recurrence + elementwise + all-reduce + LM head + sampling`, each with its own ceiling, its own
//! efficiency and its own floor; the host is added to it (synchronous scheduling, V1-80) or hidden behind it
//! (asynchronous, V1-81). Whatever depends on the step's tokens, or on its sampled rows, alone is evaluated once for
//! each count and kept in picoseconds; the simulation then only adds integers.
//!
//! Of several data-parallel ranks this is one rank's own share; the experts that all of them share are in `shared.rs`.
//!
//! Of a pipeline this is one stage; what all of them take is in `pipeline.rs`.
//!
//! Left out: noise, other work on the GPU.
//! Laws: [`StepCost`]'s; more tokens, rows or context never cost less, except where padding to a CUDA graph hides
//! the difference; the parts of [`Breakdown`] add up to the step.

mod attention;
mod breakdown;
mod drafter;
mod fp8_inputs;
mod host;
mod indexer;
mod kernels;
mod pipeline;
mod placement;
mod recurrence;
mod shared;
mod tables;

pub use drafter::Drafting;
pub use fp8_inputs::Fp8Inputs;
pub use pipeline::{Pipeline, PipelineCost, StageLink};
pub use placement::{CudagraphMode, Exchange, Gathers, Graphs, Placement};
pub use shared::{SharedExperts, SharedMaker};

use std::hint::cold_path;

use super::calibration::{Calibration, KernelFormat};
use super::{Breakdown, Chunk, DecodeCost, StepCost, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::units::Picos;
use attention::AttentionTerms;
use drafter::Passes;
use host::{HostTerms, Launch};
use indexer::IndexerTerms;
use kernels::Operators;
pub(super) use kernels::is_of_mlp;
use recurrence::RecurrentTerms;
use tables::{NOT_CAPTURED, look_up, padding_table};

/// Why a step cost cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RooflineError {
    /// The calibration has no such block, nor did any fallback.
    #[error("calibration `{calibration}` has no `{block}`; add it or start from a shipped calibration")]
    Lacking {
        /// Its name.
        calibration: String,
        /// The block's key.
        block: String,
    },
    /// Zero ranks.
    #[error("tensor_parallel is 0; a model needs at least one GPU")]
    NoRanks,
}

/// The calibrated roofline of one model on one kind of GPU under one engine.
#[derive(Clone, Debug)]
pub struct RooflineCost {
    operators: Operators,
    host: HostTerms,
    graphs: Graphs,
    /// By tokens of a step, those of the graph that it replays; of pieces, where they were captured at other sizes.
    padded: Vec<u32>,
    padded_pieces: Option<Vec<u32>>,
    attention: AttentionTerms,
    indexer: IndexerTerms,
    recurrence: RecurrentTerms,
    /// What all data-parallel ranks share, for explanation; none where there is one rank.
    shared: Option<(SharedExperts, u64)>,
    /// Drafts that a decode brings, which a full graph is captured for.
    drafts: u32,
    passes: Option<Passes>,
    /// The LM head is here; not on the earlier stages of a pipeline.
    samples: bool,
    token_picos: Vec<u64>,
    routed_picos: Vec<u64>,
    row_picos: Vec<u64>,
    /// What attention took of the last chunk that was alone in its step.
    last_chunk: Option<(Chunk, Picos)>,
}

impl RooflineCost {
    /// Makes costs of the same parts, one for each run: a cost tabulates as it goes. They are built once here, to learn
    /// that they can be.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn maker(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<impl Fn() -> Box<dyn StepCost> + Send + Sync + use<>, RooflineError> {
        let parts = (
            device.clone(),
            shape.clone(),
            calibration.clone(),
            placement.clone(),
        );
        let make = move || -> Result<Box<dyn StepCost>, RooflineError> {
            let (device, shape, calibration, placement) = &parts;
            Ok(match &placement.pipeline {
                None => Box::new(RooflineCost::new(device, shape, calibration, placement)?),
                Some(pipeline) => {
                    let cost = PipelineCost::new(device, shape, calibration, placement, pipeline);
                    Box::new(cost?)
                }
            })
        };
        make()?;
        Ok(move || make().expect("it was built from the same parts before"))
    }

    /// Resolves a calibration for one placement of a model.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<RooflineCost, RooflineError> {
        if placement.tensor_parallel == 0 {
            return Err(RooflineError::NoRanks);
        }
        let lacking = |block: &str| RooflineError::Lacking {
            calibration: calibration.name.clone(),
            block: block.to_owned(),
        };
        let host = calibration.host_of(&placement.engine);
        let host = host.ok_or_else(|| lacking(&format!("host.{}", placement.engine)))?;
        let attention = calibration
            .attention
            .as_ref()
            .ok_or_else(|| lacking("attention"))?;
        let kernels = |dtype: Dtype| match dtype {
            Dtype::Fp8 | Dtype::Fp8Scaled => (&attention.decode_fp8_kv, &attention.prefill_fp8_kv),
            Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp32 => (&attention.decode, &attention.prefill),
        };
        let (decode, prefill) = kernels(placement.kv_format.dtype);
        let mut terms = AttentionTerms::new(device, shape, placement, kernels);
        terms.trust = match shape.has_latent_cache() {
            // No table has latent attention.
            true => attention.trust.max(Trust::Prior),
            false => attention.trust,
        };
        terms.derate = calibration
            .gemm
            .get(&KernelFormat::Bf16)
            .map_or(1.0, |gemm| gemm.sustained_over_burst);
        terms.decode_scale(calibration.scale_of("decode_attention"));
        terms.prefill_scale = calibration.scale_of("prefill_attention");
        let elementwise = calibration
            .elementwise
            .as_ref()
            .ok_or_else(|| lacking("elementwise"))?;
        let mut indexer = IndexerTerms::new(device, shape, placement, (decode, prefill), elementwise);
        indexer.scale(calibration.scale_of("indexer"));
        let mut recurrence = RecurrentTerms::new(device, shape, placement, (decode, prefill), elementwise);
        recurrence.scale(
            calibration.scale_of("recurrent_decode"),
            calibration.scale_of("recurrent_prefill"),
        );
        let mut host_terms = HostTerms::new(host, shape.sublayer_count().div_ceil(2), placement.asynchronous);
        if calibration.has_measured_overlap(&placement.engine) {
            host_terms.trust = host.trust;
        }
        if calibration.has_measured_launches(&placement.engine) {
            host_terms.trust_of_launches = host_terms.trust;
        }
        let pieces = placement.graphs.piece_sizes.as_ref();
        Ok(RooflineCost {
            operators: Operators::new(device, shape, calibration, placement)
                .map_err(|block| lacking(&block))?,
            host: host_terms,
            graphs: placement.graphs.clone(),
            padded: padding_table(&placement.graphs.capture_sizes, placement.graphs.pads),
            padded_pieces: pieces.map(|sizes| padding_table(sizes, placement.graphs.pads)),
            attention: terms,
            indexer,
            recurrence,
            shared: match placement.data_parallel {
                1 => None,
                ranks => Some((
                    SharedExperts::new(device, shape, calibration, placement)?,
                    u64::from(ranks),
                )),
            },
            drafts: placement.drafting.as_ref().map_or(0, |drafting| drafting.drafts),
            passes: match &placement.drafting {
                Some(drafting) => Passes::new(device, calibration, placement, drafting)?,
                None => None,
            },
            samples: true,
            token_picos: Vec::new(),
            routed_picos: Vec::new(),
            row_picos: Vec::new(),
            last_chunk: None,
        })
    }

    #[inline]
    fn launch(&self, tokens: u64, decode_only: bool) -> Launch {
        let replayed = match (self.graphs.mode, decode_only) {
            (CudagraphMode::None, _) | (CudagraphMode::FullDecodeOnly, false) => None,
            (CudagraphMode::FullDecodeOnly | CudagraphMode::FullAndPiecewise, true) => Some(Launch::Full),
            (CudagraphMode::Piecewise, _) | (CudagraphMode::FullAndPiecewise, false) => {
                Some(Launch::Piecewise)
            }
        };
        replayed
            .filter(|launch| {
                let size = self.padding_of(*launch).get(tokens as usize);
                size.is_some_and(|&size| size != NOT_CAPTURED)
            })
            .unwrap_or(self.without_graphs())
    }

    fn without_graphs(&self) -> Launch {
        match self.graphs.is_compiled {
            true => Launch::Compiled,
            false => Launch::Eager,
        }
    }

    /// For each number of tokens those of the smallest graph that holds them, or `NOT_CAPTURED`.
    #[inline]
    fn padding_of(&self, launch: Launch) -> &[u32] {
        match (launch, &self.padded_pieces) {
            (Launch::Piecewise, Some(pieces)) => pieces,
            _ => &self.padded,
        }
    }

    /// Everybody decodes, and brings as many drafts as full graphs are captured for (V1-75).
    #[inline]
    fn is_uniform(&self, load: &StepLoad) -> bool {
        load.chunks.is_empty() && load.drafts == self.drafts * load.decode_seqs
    }

    /// The law of a step that samples so many rows, without drafting.
    #[inline(always)]
    fn law_of_rows(&mut self, load: &StepLoad, rows: u32) -> DecodeCost {
        let counts = Counts {
            rows,
            ..Counts::of(load)
        };
        let launch = self.launch(counts.tokens, self.is_uniform(load));
        let mut cost = self.affine(&counts, launch);
        cost.base += self.attention_to(&load.chunks);
        cost.base += self.recurrence.chunks_picos(&load.chunks);
        cost.base += self.indexer.chunks_picos(load);
        cost
    }

    /// What attention of chunks takes. Prompts of one length ask for the same again and again.
    #[inline]
    fn attention_to(&mut self, chunks: &[Chunk]) -> Picos {
        let [chunk] = chunks else {
            cold_path();
            return self.attention.chunks_picos(chunks);
        };
        match self.last_chunk {
            Some((last, picos)) if last == *chunk => picos,
            _ => {
                let picos = self.attention.chunks_picos(chunks);
                self.last_chunk = Some((*chunk, picos));
                picos
            }
        }
    }

    /// Adds what the chunks of a step take beside their tokens.
    fn add_chunks(&mut self, cost: &mut DecodeCost, load: &StepLoad) {
        cost.base += self.attention.chunks_picos(&load.chunks);
        cost.base += self.recurrence.chunks_picos(&load.chunks);
        cost.base += self.indexer.chunks_picos(load);
    }

    /// Adds what drafting for the next step takes.
    fn add_drafting(&mut self, cost: &mut DecodeCost, load: &StepLoad) {
        if let Some(passes) = &mut self.passes {
            let law = passes.law(load);
            cost.base += law.base;
            cost.per_kv_token += law.per_kv_token;
            cost.per_longest_token += law.per_longest_token;
            cost.kv_floor += law.kv_floor;
        }
    }

    #[inline]
    fn padded_tokens(&self, tokens: u64, launch: Launch) -> u64 {
        match launch {
            Launch::Compiled | Launch::Eager => tokens,
            Launch::Full | Launch::Piecewise => u64::from(self.padding_of(launch)[tokens as usize]),
        }
    }

    #[inline]
    fn tokens_picos(&mut self, padded: u64) -> u64 {
        let operators = &self.operators;
        look_up(&mut self.token_picos, padded, || operators.token_parts(padded))
    }

    #[inline]
    fn routed_picos(&mut self, routed: u64) -> u64 {
        if !self.operators.has_experts() {
            return 0;
        }
        cold_path();
        let operators = &self.operators;
        look_up(&mut self.routed_picos, routed, || operators.routed_parts(routed))
    }

    /// Of a step's tokens and those of the graph that it replays, the ones that are sent to experts.
    #[inline]
    fn routed(&self, tokens: u64, padded: u64) -> u64 {
        match self.graphs.routes_padding {
            true => padded,
            false => tokens,
        }
    }

    #[inline]
    fn rows_picos(&mut self, rows: u32) -> u64 {
        if !self.samples {
            return 0;
        }
        let operators = &self.operators;
        look_up(&mut self.row_picos, u64::from(rows), || {
            operators.row_parts(u64::from(rows))
        })
    }

    /// The part of a step that its decoding sequences, tokens and rows decide, as an affine function of the contexts.
    #[inline(always)]
    fn affine(&mut self, load: &Counts, launch: Launch) -> DecodeCost {
        let padded = self.padded_tokens(load.tokens, launch);
        let gpu = self.tokens_picos(padded)
            + self.routed_picos(self.routed(load.tokens, padded))
            + self.rows_picos(load.rows)
            + self.attention.base_picos(load.decode_seqs, load.chunks > 0)
            + self.recurrence.base_picos(load.decode_seqs, load.chunks > 0)
            + self.indexer.base_picos(load.decode_seqs);
        let sequences = u64::from(load.decode_seqs) + u64::from(load.chunks);
        DecodeCost {
            base: Picos(gpu + self.host.added(sequences)),
            per_kv_token: Picos(self.attention.per_kv_token + self.indexer.per_kv_token),
            per_token_beyond: Picos(self.attention.per_token_beyond),
            per_longest_token: Picos(self.attention.per_longest_token),
            kv_floor: Picos(self.attention.kv_floor_picos(load.decode_seqs)),
            floor: Picos(self.host.floor(sequences, launch)),
        }
    }
}

/// The counts of a step.
struct Counts {
    decode_seqs: u32,
    chunks: u32,
    tokens: u64,
    rows: u32,
}

impl Counts {
    #[inline(always)]
    fn of(load: &StepLoad) -> Counts {
        Counts {
            decode_seqs: load.decode_seqs,
            chunks: load.chunks.len() as u32,
            tokens: load.tokens(),
            rows: load.sampled_rows,
        }
    }
}

impl StepCost for RooflineCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let counts = Counts {
            decode_seqs: batch,
            chunks: 0,
            tokens: u64::from(batch),
            rows: batch,
        };
        let launch = self.launch(counts.tokens, self.drafts == 0);
        let mut cost = self.affine(&counts, launch);
        if self.passes.is_some() {
            let load = StepLoad {
                decode_seqs: batch,
                sampled_rows: batch,
                ..StepLoad::default()
            };
            self.add_drafting(&mut cost, &load);
        }
        cost
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.step_law(load).of(load)
    }

    #[inline]
    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        let mut cost = self.law_of_rows(load, load.sampled_rows);
        self.add_drafting(&mut cost, load);
        cost
    }

    fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        let counts = Counts::of(load);
        let launch = self.without_graphs();
        if counts.tokens == 0 {
            return DecodeCost {
                floor: Picos(self.host.floor(0, launch)),
                ..DecodeCost::default()
            };
        }
        let mut cost = self.affine(&counts, launch);
        self.add_chunks(&mut cost, load);
        self.add_drafting(&mut cost, load);
        cost
    }

    fn replayed_pieces(&self, tokens: u64) -> Option<u64> {
        match self.launch(tokens, false) {
            launch @ Launch::Piecewise => Some(u64::from(self.padding_of(launch)[tokens as usize])),
            Launch::Full | Launch::Compiled | Launch::Eager => None,
        }
    }

    fn pieces_law(&mut self, load: &StepLoad, tokens: u64) -> DecodeCost {
        let counts = Counts {
            tokens,
            ..Counts::of(load)
        };
        let mut cost = self.affine(&counts, Launch::Piecewise);
        self.add_chunks(&mut cost, load);
        cost
    }

    fn reads_at_most(&self) -> Option<u32> {
        self.attention.picks
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        match self.launch(u64::from(batch), true) {
            launch @ (Launch::Full | Launch::Piecewise) => Some(self.padding_of(launch)[batch as usize]),
            Launch::Compiled | Launch::Eager => None,
        }
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let ranks = self.shared.as_ref().map_or(1, |(_, ranks)| *ranks);
        let tokens = self.padded_tokens(load.tokens(), self.launch(load.tokens(), self.is_uniform(load)));
        self.breakdown_beside(load, tokens * (ranks - 1))
    }

    fn breakdown_beside(&self, load: &StepLoad, others: u64) -> Breakdown {
        self.explain(load, others)
    }
}

#[cfg(test)]
mod tests;
