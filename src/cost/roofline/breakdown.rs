//! Where the time of a step goes, operator by operator, for explanation.
//!
//! Law: the parts add up to the step, of several ranks where all have as much.

use super::RooflineCost;
use super::host::Launch;
use crate::cost::{Breakdown, Moved, Part, StepLoad, Trust};
use crate::units::Picos;

impl RooflineCost {
    /// One entry an operator for a step beside which the other ranks compute so many tokens together.
    pub(super) fn explain(&self, load: &StepLoad, others: u64) -> Breakdown {
        let tokens = load.tokens();
        let launch = self.launch(tokens, self.is_uniform(load));
        let padded = self.padded_tokens(tokens, launch);
        let mut parts = self.operators.token_parts(padded);
        parts.extend(self.operators.routed_parts(self.routed(tokens, padded)));
        if let Some((shared, ranks)) = &self.shared {
            let all = padded + others;
            let moved = match launch {
                _ if load.only_decodes() => shared.usual_move(all),
                Launch::Piecewise => Moved::Scattered,
                Launch::Full | Launch::Compiled | Launch::Eager => Moved::Summed,
            };
            parts.extend(shared.parts(all, moved));
            // A graph computes the logits of all its rows; without one the other ranks are taken to sample as many.
            parts.extend(shared.row_parts(match launch {
                Launch::Full => all,
                _ => u64::from(load.sampled_rows) * ranks,
            }));
        }
        parts.extend(self.attention.parts(load));
        parts.extend(self.indexer.part(load));
        parts.extend(self.recurrence.parts(load));
        if self.samples {
            parts.extend(self.operators.row_parts(u64::from(load.sampled_rows)));
        }
        parts.extend(self.passes.as_ref().map(|passes| passes.part(load)));
        let sequences = u64::from(load.decode_seqs) + load.chunks.len() as u64;
        let host = |operator: &str, picos: u64, trust: Trust| Part {
            operator: operator.to_owned(),
            seconds: Picos(picos).seconds(),
            flops: 0.0,
            bytes: 0.0,
            trust,
        };
        parts.push(host("host", self.host.added(sequences), self.host.trust));
        let gpu = parts.iter().map(|part| part.seconds).sum::<f64>();
        let floor = self.host.floor(sequences, launch);
        let waiting = floor.saturating_sub(Picos::from_seconds(gpu).0);
        if waiting > 0 {
            let trust = match launch {
                Launch::Full => self.host.trust,
                _ => self.host.trust_of_launches,
            };
            parts.push(host("host_bound_wait", waiting, trust));
        }
        Breakdown { parts: merged(parts) }
    }
}

/// Joins parts of equal name (layer groups of different shape), in order of first appearance.
pub(super) fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match joined.iter_mut().find(|known| known.operator == part.operator) {
            Some(known) => {
                known.seconds += part.seconds;
                known.flops += part.flops;
                known.bytes += part.bytes;
                known.trust = known.trust.max(part.trust);
            }
            None => joined.push(part),
        }
    }
    joined
}
