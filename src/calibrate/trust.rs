//! How far each fitted block may be trusted: as its measurements are, unless those do not decide it or are doubted.
//!
//! A row or two hardly move a block's parameters, so that it stays what it was before and is trusted as that was. Attention
//! is trusted as its worst part, for one mark stands for decoding and prompts. What a probe measured and nothing was
//! fitted to keeps the trust that it gave.

use super::Calibrated;
use super::component::BlockFit;
use super::observation::Block;
use crate::cost::Trust;
use crate::cost::calibration::Calibration;

/// Different kernels that decide a block, whatever share of its parameters they tell apart: the tables that ship take as
/// many of one shape.
const KERNELS_ENOUGH: usize = 8;

/// Gives every block that was fitted the trust `of_source` of its measurements, at best; `base` is what it was fitted
/// beside. A block that keeps the trust of before is remarked on.
pub fn mark(fitted: &mut Calibrated, base: &Calibration, of_source: Trust) {
    let calibration = &mut fitted.calibration;
    let is_of_card = base
        .provenance
        .gpu
        .eq_ignore_ascii_case(&calibration.provenance.gpu);
    let before = |block: Block| {
        let before = trust_of(base, block).unwrap_or(Trust::Prior);
        if is_of_card {
            before
        } else {
            before.max(Trust::Prior)
        }
    };
    let mut remarks = Vec::new();
    let mut attention: Option<Trust> = None;
    for block in &fitted.blocks {
        let trust = if block.doubt.is_some() {
            of_source.max(Trust::Prior)
        } else if is_decided(block) {
            of_source
        } else {
            of_source.max(before(block.block))
        };
        if trust != of_source && block.doubt.is_none() {
            remarks.push(thin(block, trust));
        }
        if is_attention(block.block) {
            attention = attention.max(Some(trust));
        } else {
            set(calibration, block.block, trust);
        }
    }
    if let (Some(mut worst), Some(own)) = (attention, &mut calibration.attention) {
        let blocks = calibration.evidence.iter().flat_map(|evidence| &evidence.blocks);
        let known: Vec<&str> = blocks.map(|(name, _)| name.as_str()).collect();
        for half in [Block::DecodeAttention, Block::PrefillAttention] {
            if !known.contains(&half.to_string().as_str()) && before(half) > worst {
                worst = before(half);
                remarks.push(format!(
                    "{half} was not measured and is what it was before, and so attention is marked {}",
                    word(worst)
                ));
            }
        }
        own.trust = worst;
    }
    let known = calibration.host.values_mut();
    known
        .filter(|host| host.trust < Trust::Prior)
        .for_each(|host| host.trust = of_source);
    if let Some(evidence) = &mut calibration.evidence {
        evidence.remarks.extend(remarks);
    }
}

/// Whether the rows decide at least half of a block's parameters, or are as many as a table has of one shape.
fn is_decided(block: &BlockFit) -> bool {
    2 * decided(block) >= block.values.len() || block.kernels >= KERNELS_ENOUGH
}

/// Parameters that the rows tell apart; a kernel's time is one number, whatever few draws make of it.
fn decided(block: &BlockFit) -> usize {
    let identified = block.values.len() - block.unidentified.len();
    identified.min(block.kernels)
}

fn thin(block: &BlockFit, trust: Trust) -> String {
    let all = block.values.len();
    let decided = decided(block);
    let (kernels, decide) = match block.kernels {
        1 => ("1 kernel".to_owned(), "decides"),
        more => (format!("{more} different kernels"), "decide"),
    };
    format!(
        "{}: {kernels} {decide} {decided} of {all} parameters; the rest is what it was before, and so the block is marked {}; \
         {KERNELS_ENOUGH} different kernels would be enough",
        block.block,
        word(trust)
    )
}

/// As files spell it.
fn word(trust: Trust) -> &'static str {
    match trust {
        Trust::Measured => "measured",
        Trust::Calibrated => "calibrated",
        Trust::Prior => "prior",
        Trust::RooflineOnly => "roofline_only",
        Trust::Doubtful => "doubtful",
    }
}

fn is_attention(block: Block) -> bool {
    match block {
        Block::DecodeAttention
        | Block::DecodeAttentionFp8
        | Block::PrefillAttention
        | Block::PrefillAttentionFp8
        | Block::PrefillAttentionFp8Query => true,
        Block::Gemm(_) | Block::Moe(_) | Block::AllReduce(_) | Block::Copy(_) => false,
    }
}

/// `None` where a calibration lacks the block, or it bears no mark, as copies.
fn trust_of(calibration: &Calibration, block: Block) -> Option<Trust> {
    match block {
        Block::Gemm(format) => Some(calibration.gemm.get(&format)?.trust),
        Block::Moe(format) => Some(calibration.moe.get(&format)?.trust),
        Block::AllReduce(gpus) => {
            let mut links = calibration.allreduce.iter();
            Some(links.find(|link| link.gpus == gpus)?.trust)
        }
        Block::Copy(_) => None,
        _ => Some(calibration.attention.as_ref()?.trust),
    }
}

fn set(calibration: &mut Calibration, block: Block, trust: Trust) {
    match block {
        Block::Gemm(format) => {
            let gemm = calibration.gemm.get_mut(&format).into_iter();
            gemm.for_each(|gemm| gemm.trust = trust);
        }
        Block::Moe(format) => {
            let moe = calibration.moe.get_mut(&format).into_iter();
            moe.for_each(|moe| moe.trust = trust);
        }
        Block::AllReduce(gpus) => {
            let links = calibration.allreduce.iter_mut();
            links
                .filter(|link| link.gpus == gpus)
                .for_each(|link| link.trust = trust);
        }
        _ => {}
    }
}
