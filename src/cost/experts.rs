//! What the routed experts of a layer take: which experts a step's tokens use, and the kernels that compute them.
//!
//! A GPU computes the rows that are routed to its experts and reads the weights of those experts that have any. Routing in a
//! simulation is uniform (EP-1). Left out: experts that are more popular than others, redundant ones (EPLB), all-to-all
//! kernels that send a token only where it is routed. Law: more rows or experts never take less.

use super::calibration::Moe;
use super::kernel::{Ceilings, pnorm};
use crate::model::distinct;

/// Expected number of distinct experts that `tokens` tokens use: `E·(1 − (1 − k/E)^T)` (EP-1, uniform routing).
#[must_use]
pub fn active_experts(experts: u32, experts_per_token: u32, tokens: f64) -> f64 {
    distinct(f64::from(experts), f64::from(experts_per_token), tokens)
}

/// What routing brings to one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Experts of this GPU with at least one row.
    pub active: f64,
    /// Rows for them: a token comes once for each expert that it uses.
    pub rows: f64,
    /// Rows of all GPUs, whose tokens this one has, too.
    pub all_rows: f64,
}

impl Load {
    /// Of a GPU that has all experts, routed to uniformly.
    #[must_use]
    pub fn uniform(experts: u32, experts_per_token: u32, tokens: u64) -> Load {
        let rows = tokens as f64 * f64::from(experts_per_token);
        Load {
            active: active_experts(experts, experts_per_token, tokens as f64),
            rows,
            all_rows: rows,
        }
    }

    /// Of the fullest of `ranks` GPUs among which experts are dealt out whole: `1 + sqrt(2·ln R·R/m)` times the mean for `m`
    /// rows on `R` GPUs (EP-4).
    #[must_use]
    pub fn fullest(experts: u32, experts_per_token: u32, tokens: u64, ranks: u32) -> Load {
        let all_rows = tokens as f64 * f64::from(experts_per_token);
        let ranks_f = f64::from(ranks);
        let excess = 1.0 + (2.0 * ranks_f.ln() * ranks_f / all_rows).sqrt();
        // A GPU cannot be sent more than everything.
        let rows = (all_rows / ranks_f * excess).min(all_rows).ceil();
        Load {
            active: active_experts(experts.div_ceil(ranks), 1, rows),
            rows,
            all_rows,
        }
    }

    /// Of one of `ranks` GPUs where rows go to the experts in turn, as benchmarks of kernels have it.
    #[must_use]
    pub fn balanced(experts: u32, experts_per_token: u32, tokens: u64, ranks: u32) -> Load {
        let all_rows = tokens as f64 * f64::from(experts_per_token);
        let share = |whole: f64| (whole / f64::from(ranks)).max(1.0);
        Load {
            active: share(all_rows.min(f64::from(experts))),
            rows: share(all_rows),
            all_rows,
        }
    }
}

/// The routed experts of one layer on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeShape {
    /// Tokens of the step, of all GPUs that share the experts.
    pub tokens: u64,
    /// `d`.
    pub hidden: u32,
    /// Matrices of an expert: three with a gate, two without.
    pub matrices: u32,
    /// Width of one expert on this GPU.
    pub intermediate: u32,
    /// `E`, of all GPUs.
    pub experts: u32,
    /// `k`.
    pub experts_per_token: u32,
    /// What is routed here.
    pub load: Load,
    /// Of one weight.
    pub weight_bytes: f64,
    /// Of one activation.
    pub activation_bytes: f64,
}

impl MoeShape {
    /// `6·d·f` for each row (EP-2), `4·d·f` without a gate.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * f64::from(self.matrices)
            * self.load.rows
            * f64::from(self.hidden)
            * f64::from(self.intermediate)
    }

    /// Weights of active experts and their rows' activations.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.active_weight_bytes() + self.load.rows * self.row_bytes()
    }

    fn active_weight_bytes(&self) -> f64 {
        self.load.active
            * f64::from(self.matrices)
            * f64::from(self.hidden)
            * f64::from(self.intermediate)
            * self.weight_bytes
    }

    /// Activations of one row: in, gate and up, their product, out.
    fn row_bytes(&self) -> f64 {
        let inside = f64::from(self.matrices) * f64::from(self.intermediate);
        (2.0 * f64::from(self.hidden) + inside) * self.activation_bytes
    }
}

/// Rows for which `Moe::rereads` counts the readings of an expert's weights.
const ROWS_READ_FOR: f64 = 128.0;

impl MoeShape {
    /// Times that the weights of an active expert are read. Tiles of 64 to 256 rows go through all of them; where they do not stay
    /// in the L2 cache until the next tiles come, they are read again (the order of tiles decides when: Triton's tutorial on
    /// matrix products, "L2 cache optimizations"). The part that stays is read once.
    fn readings(&self, rereads: f64, resident_bytes: f64) -> f64 {
        if self.load.active <= 0.0 {
            return 0.0;
        }
        let kept = (resident_bytes * self.load.active / self.active_weight_bytes()).min(1.0);
        let needed = rereads * self.load.rows / (self.load.active * ROWS_READ_FOR);
        kept + (1.0 - kept) * needed.max(1.0)
    }
}

/// Bytes between memory and one layer's routed experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// By the products: weights, as often as they are read, and activations where nothing else moves them.
    pub read: f64,
    /// By kernels that only move rows.
    pub moved: f64,
}

impl Traffic {
    /// All of them.
    #[must_use]
    pub fn bytes(self) -> f64 {
        self.read + self.moved
    }
}

/// What the routed experts of one layer move.
#[must_use]
pub fn moe_traffic(moe: &Moe, ceilings: &Ceilings, shape: &MoeShape) -> Traffic {
    let again = shape.readings(moe.rereads, ceilings.resident_bytes) - 1.0;
    let (once, moved) = match moe.moved {
        None => (shape.bytes(), 0.0),
        Some(moved) => {
            let foreign = moved.foreign_share * (shape.load.all_rows - shape.load.rows).max(0.0);
            let rows = shape.load.rows + foreign;
            (
                shape.active_weight_bytes(),
                moved.passes * rows * shape.row_bytes(),
            )
        }
    };
    Traffic {
        read: once + again * shape.active_weight_bytes(),
        moved,
    }
}

/// Seconds of the routed experts of one layer: `o + e·active + (Tc^p + Tb^p)^(1/p) + m·rows·bytes/BW`, where each active expert
/// computes `padding_rows` rows more than it was sent and `Tb` is that of the weights, as often as they are read. Rows
/// are moved by kernels of their own; some move the rows of other GPUs' experts, too
/// ([`Moved`](super::calibration::Moved)). A block without those terms has the activations in `Tb`.
#[must_use]
pub fn moe_seconds(moe: &Moe, ceilings: &Ceilings, shape: &MoeShape, compute_derate: f64) -> f64 {
    if shape.tokens == 0 {
        return 0.0;
    }
    let rows_added = moe.padding_rows * shape.load.active;
    let padding = 2.0
        * f64::from(shape.matrices)
        * rows_added
        * f64::from(shape.hidden)
        * f64::from(shape.intermediate);
    let compute =
        (shape.flops() + padding) / (moe.compute_efficiency * compute_derate * ceilings.flops_per_s);
    let traffic = moe_traffic(moe, ceilings, shape);
    let memory = traffic.read / (moe.bandwidth_efficiency * ceilings.bytes_per_s);
    let moving = traffic.moved / ceilings.bytes_per_s;
    let starts = moe.overhead_us + moe.per_expert_us * shape.load.active;
    starts * 1e-6 + pnorm(compute, memory, moe.pnorm) + moving
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_routing_uses_all_experts_as_soon_as_there_are_rows_for_them() {
        let load = Load::balanced(128, 8, 16, 1);
        assert_eq!((load.active, load.rows), (128.0, 128.0));
        let uniform = Load::uniform(128, 8, 16);
        assert!((80.0..84.0).contains(&uniform.active), "{uniform:?}");
    }

    #[test]
    fn sharing_experts_out_shares_rows_and_weights() {
        let (alone, shared) = (Load::balanced(64, 4, 4096, 1), Load::balanced(64, 4, 4096, 8));
        assert_eq!(
            (shared.rows, shared.active),
            (alone.rows / 8.0, alone.active / 8.0)
        );
        assert_eq!(shared.all_rows, alone.rows);
        let fullest = Load::fullest(64, 4, 4096, 8);
        assert!(
            fullest.rows > shared.rows && fullest.rows < 1.2 * shared.rows,
            "{fullest:?}"
        );
    }

    /// Mixtral's experts of 352 MB or a sixteenth of them, 8 on a GPU with a 50 MB L2 cache.
    fn big(rows_each: u64, slices: u32) -> MoeShape {
        MoeShape {
            tokens: 4 * rows_each,
            hidden: 4096,
            matrices: 3,
            intermediate: 14_336 / slices,
            experts: 8,
            experts_per_token: 2,
            load: Load::balanced(8, 2, 4 * rows_each, 1),
            weight_bytes: 2.0,
            activation_bytes: 2.0,
        }
    }

    fn moe(rereads: f64, per_expert_us: f64) -> Moe {
        Moe {
            // Weights alone decide.
            compute_efficiency: 1e6,
            bandwidth_efficiency: 1.0,
            overhead_us: 10.0,
            pnorm: 3.0,
            padding_rows: 0.0,
            per_expert_us,
            rereads,
            moved: Some(crate::cost::calibration::Moved {
                passes: 0.0,
                foreign_share: 0.0,
            }),
            residual: crate::cost::calibration::Residual::default(),
            trust: crate::cost::Trust::Prior,
        }
    }

    fn seconds(moe: &Moe, shape: &MoeShape) -> f64 {
        let ceilings = Ceilings::of(&crate::cost::testing::device("h100"), 1e15);
        moe_seconds(moe, &ceilings, shape, 1.0)
    }

    #[test]
    fn weights_that_leave_the_cache_are_read_again_for_every_so_many_rows() {
        let (once, twice) = (moe(0.0, 0.0), moe(2.0, 0.0));
        let read = |shape: &MoeShape| seconds(&once, shape) - 10e-6;
        // 64 rows need the weights once; 640 ten times, but for the 25 MB that stay.
        assert_eq!(seconds(&twice, &big(64, 1)), seconds(&once, &big(64, 1)));
        let again = (seconds(&twice, &big(640, 1)) - 10e-6) / read(&big(640, 1));
        let kept = 25e6 / (3.0 * 4096.0 * 14_336.0 * 2.0);
        assert!((again - (kept + (1.0 - kept) * 10.0)).abs() < 1e-9, "{again}");
        // What is read is told as often as it is read.
        let ceilings = Ceilings::of(&crate::cost::testing::device("h100"), 1e15);
        let told = moe_traffic(&twice, &ceilings, &big(640, 1)).bytes() / ceilings.bytes_per_s;
        assert!(
            (told / (seconds(&twice, &big(640, 1)) - 10e-6) - 1.0).abs() < 1e-9,
            "{told}"
        );
        // Slices of 22 MB stay, however many rows come.
        assert_eq!(seconds(&twice, &big(6400, 16)), seconds(&once, &big(6400, 16)));
    }

    #[test]
    fn more_experts_never_take_less_though_each_is_read_less_often() {
        let moe = moe(3.0, 0.0);
        let mut shape = big(2048, 1);
        let mut last = 0.0;
        for active in 1..=8 {
            shape.load.active = f64::from(active);
            let now = seconds(&moe, &shape);
            assert!(now >= last, "{active} experts: {now} after {last}");
            last = now;
        }
    }

    #[test]
    fn each_product_of_a_list_starts_anew() {
        let more = seconds(&moe(0.0, 1.5), &big(4, 1)) - seconds(&moe(0.0, 0.0), &big(4, 1));
        assert!((more - 8.0 * 1.5e-6).abs() < 1e-12, "{more}");
    }
}
