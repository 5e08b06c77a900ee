//! What ranks have in common: experts, all that is behind their attention, or the LM head, and moving rows to it and back.

use super::{Operators, is_of_mlp, link_for, with_gemm, with_moe};
use crate::cost::calibration::{AllReduce, Calibration};
use crate::cost::kernel::all_reduce_seconds;
use crate::cost::operators::{Experts, experts, linears, lm_head};
use crate::cost::roofline::{Exchange, Placement};
use crate::cost::{Moved, Part, Trust};
use crate::hardware::Device;
use crate::model::ModelShape;

/// What moving rows of ranks that attend by themselves depends on beside the link of all GPUs.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    /// The link of one rank's GPUs, if it has several.
    group: Option<AllReduce>,
    ranks: f64,
    /// Tokens up to which all-reduces move them.
    sums_up_to: u64,
    /// The LM head is theirs in common.
    logits: bool,
}

/// NCCL's overhead over that of the all-reduce which the calibration timed, and its bandwidth over that one's: a prior from
/// published timings of all-gathers and reduce-scatters among 2, 4 and 8 A100, H100, H200 and B200, in the median 17 % off, a
/// tenth of them 34 % or more.
const NCCL_OVERHEAD: f64 = 3.0;
const NCCL_BANDWIDTH: f64 = 0.75;

/// Seconds of an all-gather or a reduce-scatter by NCCL of `bytes` in all: `3·o + (n−1)/n·S/(0.75·B)`.
fn gather_seconds(link: &AllReduce, bytes: f64) -> f64 {
    let n = f64::from(link.gpus);
    NCCL_OVERHEAD * link.overhead_us * 1e-6 + (n - 1.0) / n * bytes / (NCCL_BANDWIDTH * link.bus_gbs * 1e9)
}

/// Seconds in which each GPU sends its share of `bytes` to all others: `(n−1)/n·S/B`.
fn sent_seconds(link: &AllReduce, bytes: f64) -> f64 {
    let n = f64::from(link.gpus);
    (n - 1.0) / n * bytes / (link.bus_gbs * 1e9)
}

impl Operators {
    /// What all ranks have in common, and the links that bring it every token.
    pub(in crate::cost::roofline) fn of_experts(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<Operators, String> {
        let (group, ranks) = (placement.tensor_parallel, placement.data_parallel);
        let all = group * ranks;
        let own = Operators::new(device, shape, calibration, placement)?;
        let with_moe = |experts| with_moe(experts, calibration, placement);
        let with_gemm = |linear| with_gemm(linear, shape, calibration, placement);
        let gathered = match placement.gathers {
            Some(_) => linears(shape, &device.peaks, all),
            None => Vec::new(),
        };
        let gathering = placement.gathers.map(|common| Gathering {
            group: (group > 1).then(|| link_for(calibration, device, group)),
            ranks: f64::from(ranks),
            sums_up_to: common.sums_up_to,
            logits: common.logits,
        });
        Ok(Operators {
            linears: gathered
                .into_iter()
                .filter(is_of_mlp)
                .map(with_gemm)
                .collect::<Result<_, _>>()?,
            experts: experts(shape, &device.peaks, placement.expert_slices())
                .into_iter()
                .map(with_moe)
                .collect::<Result<_, _>>()?,
            lm_head: with_gemm(lm_head(shape, all))?,
            link: Some(link_for(calibration, device, all)),
            expert_ranks: placement.expert_groups,
            shared_layers: match gathering {
                Some(_) => f64::from(shape.layer_count()),
                None => own.shared_layers,
            },
            gathering,
            ..own
        })
    }

    /// What the tokens of all ranks take in the experts, and in what else is theirs in common.
    pub(in crate::cost::roofline) fn expert_parts(&self, tokens: u64, moved: Moved) -> Vec<Part> {
        if tokens == 0 {
            return Vec::new();
        }
        let mut parts: Vec<Part> = self
            .experts
            .iter()
            .map(|(experts, moe)| self.experts_part(experts, moe, tokens))
            .collect();
        let gathered = self.linears.iter();
        parts.extend(gathered.map(|linear| self.linear_part(linear, tokens)));
        if let Some(link) = &self.link {
            let (one, trust) = self.moving(link, tokens, moved);
            parts.push(self.link_part("all_reduce", trust, self.shared_layers * one));
        }
        self.scaled(parts)
    }

    /// How decodes are moved where all ranks have equally many.
    pub(in crate::cost::roofline) fn usual_move(&self, tokens: u64) -> Moved {
        match &self.gathering {
            Some(gathering) if tokens <= gathering.sums_up_to => Moved::Summed,
            _ => Moved::Scattered,
        }
    }

    /// Seconds of moving the tokens of all ranks to a layer and back.
    ///
    /// Summed: an all-reduce each way, which adds up the slices of a rank's attention on its way (`_dp_gather_via_all_reduce`, `dp_scatter`).
    /// Scattered: an all-gather and a reduce-scatter over all GPUs; beside them, where a rank has several, the same of its own rows among
    /// these (`_dp_gather_via_all_gather`, `dp_reduce_scatter_tensor`). Of vLLM's ranks both together count as one all-reduce.
    ///
    /// Routed: each way `o + p·(n−1)/n·S/B`, where `p` is the chance that a GPU has any of the experts of a token.
    fn moving(&self, link: &AllReduce, tokens: u64, moved: Moved) -> (f64, Trust) {
        let bytes = tokens as f64 * self.hidden_bytes;
        let Some(gathering) = &self.gathering else {
            return match self.exchange {
                Exchange::AllReduce => (all_reduce_seconds(link, bytes), link.trust),
                Exchange::Gathered => (2.0 * gather_seconds(link, bytes), link.trust.max(Trust::Prior)),
                Exchange::Routed => {
                    let one = link.overhead_us * 1e-6 + self.routed_share() * sent_seconds(link, bytes);
                    (2.0 * one, link.trust.max(Trust::Prior))
                }
            };
        };
        match moved {
            Moved::Summed => (2.0 * all_reduce_seconds(link, bytes), link.trust),
            Moved::Scattered => {
                let group = gathering.group.as_ref();
                let own = group.map_or(0.0, |group| gather_seconds(group, bytes / gathering.ranks));
                let seconds = 2.0 * (gather_seconds(link, bytes) + own);
                (seconds, link.trust.max(Trust::Prior))
            }
        }
    }

    /// Chance that a GPU has any of the experts of a token, which are drawn without replacement; the largest over layers. A limit to groups
    /// of experts, as DeepSeek-V3's, is left out.
    fn routed_share(&self) -> f64 {
        let of = |experts: &Experts| {
            let (all, own) = (
                f64::from(experts.experts),
                f64::from(experts.experts / self.expert_ranks),
            );
            let missed = |chosen: u32| ((all - own - f64::from(chosen)) / (all - f64::from(chosen))).max(0.0);
            1.0 - (0..experts.experts_per_token).map(missed).product::<f64>()
        };
        self.experts
            .iter()
            .map(|(experts, _)| of(experts))
            .fold(0.0, f64::max)
    }

    /// What the logits of so many rows of all ranks take: one all-reduce brings each GPU all rows, each computes a slice of the
    /// vocabulary, and all get all slices (SG-52, `LogitsProcessor._get_logits`).
    pub(in crate::cost::roofline) fn common_row_parts(&self, rows: u64) -> Vec<Part> {
        let has_logits = self.gathering.as_ref().is_some_and(|gathering| gathering.logits);
        let Some(link) = self.link.as_ref().filter(|_| has_logits && rows > 0) else {
            return Vec::new();
        };
        let seconds = all_reduce_seconds(link, rows as f64 * self.hidden_bytes)
            + gather_seconds(link, rows as f64 * self.logits_bytes);
        let parts = vec![
            self.linear_part(&self.lm_head, rows),
            self.link_part("logits_gather", link.trust.max(Trust::Prior), seconds),
        ];
        self.scaled(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::testing::{device, number, placement, rows, whole};

    #[test]
    fn published_timings_of_nccl_are_near() {
        let mut errors: Vec<f64> = Vec::new();
        for card in ["a100", "h100", "h200", "b200"] {
            let device = device(card);
            let calibration = for_device(&device, "sglang").calibration;
            for row in rows("kernels/collectives.csv") {
                let is_gather = ["all_gather", "reduce_scatter"].contains(&row["op"].as_str());
                if row["gpu"] != format!("{card}_sxm") || row["impl"] != "NCCL" || !is_gather {
                    continue;
                }
                let link = link_for(&calibration, &device, whole(&row, "gpus") as u32);
                let seconds = gather_seconds(&link, 2.0 * number(&row, "elements"));
                errors.push((seconds / (1e-6 * number(&row, "us"))).ln().abs());
            }
        }
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors[(share * errors.len() as f64) as usize];
        assert_eq!(errors.len(), 240);
        assert!(at(0.5) < 0.18 && at(0.9) < 0.36, "{} {}", at(0.5), at(0.9));
    }

    /// Of eight of 256 experts a GPU with 32 of them has one at least for two thirds of all tokens, so kernels that send a token where it is
    /// routed only move less than those that bring all tokens to all; NCCL's two exchanges take more than one all-reduce.
    #[test]
    fn ways_to_experts_are_ordered() {
        let device = device("b200");
        let calibration = for_device(&device, "trtllm").calibration;
        let (shape, _) = crate::model::find("deepseek-ai/DeepSeek-V3").expect("it is bundled");
        let with = |exchange| {
            let placement = Placement {
                data_parallel: 8,
                expert_groups: 8,
                exchange,
                ..placement()
            };
            let made = Operators::of_experts(&device, &shape, &calibration, &placement);
            made.expect("the calibration is whole")
        };
        let seconds = |exchange, tokens: u64| {
            let parts = with(exchange).expert_parts(tokens, Moved::Scattered);
            let moved = parts.iter().find(|part| part.operator == "all_reduce");
            moved.expect("tokens are moved").seconds
        };
        let share = with(Exchange::Routed).routed_share();
        assert!((0.65..0.67).contains(&share), "{share}");
        for tokens in [64, 1024, 32_768] {
            let of = |exchange| seconds(exchange, tokens);
            assert!(of(Exchange::Routed) < of(Exchange::Gathered), "{tokens}");
            assert!(of(Exchange::AllReduce) < of(Exchange::Gathered), "{tokens}");
        }
    }
}
