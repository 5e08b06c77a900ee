//! What each part of a cluster with prefill and decode pools could serve at most: the balance check of PD-6.
//!
//! A steady state needs `λ·E[prefill time] < x`, and for decode `λ·E[O]·t(B) / B < y` at the largest batch `B` that the KV
//! memory of a replica holds, and `λ·E[bytes]` below what the links carry. The least of the three is what all can serve;
//! no promise is kept up to there, because queues grow before it. Means only: how requests differ is left out, and so
//! is memory that a transfer holds.

/// What a request asks of each part, on average, and what there is of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Prefill replicas, `x`.
    pub prefill: u32,
    /// Time of steps on them for one request, in seconds.
    pub prefill_s: f64,
    /// Decode replicas, `y`.
    pub decode: u32,
    /// Sequences that a decode replica's KV memory and its cap hold at once, `B`.
    pub batch: f64,
    /// How long a step of so many takes, in seconds.
    pub step_s: f64,
    /// Steps that a request takes there.
    pub steps: f64,
    /// KV that crosses for one request, in bytes.
    pub bytes: f64,
    /// What all prefill replicas send and all decode replicas receive at most, in bytes a second.
    pub links_bytes_per_s: [f64; 2],
}

/// Requests a second that each part could serve at most; infinite where a request asks nothing of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// The prefill pool.
    pub prefill: f64,
    /// The decode pool.
    pub decode: f64,
    /// The links, on the side that carries less.
    pub links: f64,
}

/// A part of such a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The prefill pool.
    Prefill,
    /// The decode pool.
    Decode,
    /// The links between them.
    Links,
}

impl Demand {
    /// What each part could serve.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let [out, inwards] = self.links_bytes_per_s;
        Balance {
            prefill: f64::from(self.prefill) / self.prefill_s,
            decode: f64::from(self.decode) * self.batch / (self.steps * self.step_s),
            links: out.min(inwards) / self.bytes,
        }
    }
}

impl Balance {
    /// Who serves the fewest, and how many.
    #[must_use]
    pub fn limit(&self) -> (Part, f64) {
        let parts = [
            (Part::Prefill, self.prefill),
            (Part::Decode, self.decode),
            (Part::Links, self.links),
        ];
        let least = parts.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
        least.expect("there are three parts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_serves_the_fewest_is_the_limit() {
        // 2 ÷ 0.4 s, 3 × 100 ÷ (200 × 20 ms), and 10 GB/s ÷ 500 MB.
        let demand = Demand {
            prefill: 2,
            prefill_s: 0.4,
            decode: 3,
            batch: 100.0,
            step_s: 0.02,
            steps: 200.0,
            bytes: 5e8,
            links_bytes_per_s: [4e10, 1e10],
        };
        let Balance {
            prefill,
            decode,
            links,
        } = demand.balance();
        assert!((prefill - 5.0).abs() < 1e-12 && (decode - 75.0).abs() < 1e-9 && (links - 20.0).abs() < 1e-9);
        assert_eq!(demand.balance().limit().0, Part::Prefill);
        let limit = |demand: Demand| demand.balance().limit().0;
        assert_eq!(
            limit(Demand {
                prefill: 16,
                ..demand
            }),
            Part::Links
        );
        assert_eq!(
            limit(Demand {
                prefill: 16,
                bytes: 0.0,
                ..demand
            }),
            Part::Prefill
        );
        assert_eq!(limit(Demand { batch: 4.0, ..demand }), Part::Decode);
    }
}
