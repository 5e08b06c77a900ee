//! What each part of a cluster with prefill and decode pools could serve at most: the balance check of PD-6.
//!
//! A steady state needs `λ·E[prefill time] < x`, priced in steps that fill the token budget, and for decode `λ·E[O]·t(B) / B < y` at the largest batch `B` that the KV
//! memory of a replica holds, and `λ·E[bytes]` below what the links carry. The least of the three is what all can serve;
//! no promise is kept up to there, because queues grow before it. Several pools of one role serve what they could serve each,
//! which supposes a router that gives each as much as it takes. Means only: how requests differ is left out, and so is
//! memory that a transfer holds.

/// A pool that prefills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefilling {
    /// Replicas, `x`.
    pub replicas: u32,
    /// Time of steps that are full of prompts for one request, in seconds: the least that it can take of a replica.
    pub request_s: f64,
}

/// A pool that decodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoding {
    /// Replicas, `y`.
    pub replicas: u32,
    /// Sequences that a replica's KV memory and its cap hold at once, `B`.
    pub batch: f64,
    /// How long a step of so many takes, in seconds.
    pub step_s: f64,
}

/// What a request asks of each part, on average, and what there is of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The pools that prefill.
    pub prefill: Vec<Prefilling>,
    /// The pools that decode.
    pub decode: Vec<Decoding>,
    /// Steps that a request takes in decode.
    pub steps: f64,
    /// KV that crosses for one request, in bytes.
    pub bytes: f64,
    /// What all prefill replicas send and all decode replicas receive at most, in bytes a second.
    pub links_bytes_per_s: [f64; 2],
}

/// Requests a second that each part could serve at most; infinite where a request asks nothing of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// The prefill pools.
    pub prefill: f64,
    /// The decode pools.
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

impl Prefilling {
    /// Requests a second that the pool could serve at most.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        f64::from(self.replicas) / self.request_s
    }
}

impl Decoding {
    /// The same of requests that take so many steps.
    #[must_use]
    pub fn per_s(&self, steps: f64) -> f64 {
        f64::from(self.replicas) * self.batch / (steps * self.step_s)
    }
}

impl Demand {
    /// What each part could serve.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let [out, inwards] = self.links_bytes_per_s;
        Balance {
            prefill: self.prefill.iter().map(Prefilling::per_s).sum(),
            decode: self.decode.iter().map(|pool| pool.per_s(self.steps)).sum(),
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
        let prefilling = |replicas| Prefilling {
            replicas,
            request_s: 0.4,
        };
        let decoding = |batch| Decoding {
            replicas: 3,
            batch,
            step_s: 0.02,
        };
        let demand = |prefill: &[u32], batches: &[f64], bytes: f64| Demand {
            prefill: prefill.iter().map(|&replicas| prefilling(replicas)).collect(),
            decode: batches.iter().map(|&batch| decoding(batch)).collect(),
            steps: 200.0,
            bytes,
            links_bytes_per_s: [4e10, 1e10],
        };
        let one = demand(&[2], &[100.0], 5e8).balance();
        assert!((one.prefill - 5.0).abs() < 1e-12);
        assert!((one.decode - 75.0).abs() < 1e-9 && (one.links - 20.0).abs() < 1e-9);
        assert_eq!(one.limit().0, Part::Prefill);
        let limit = |demand: Demand| demand.balance().limit().0;
        assert_eq!(limit(demand(&[16], &[100.0], 5e8)), Part::Links);
        assert_eq!(limit(demand(&[16], &[100.0], 0.0)), Part::Prefill);
        assert_eq!(limit(demand(&[2], &[4.0], 5e8)), Part::Decode);
        // Every pool of a role counts.
        let several = demand(&[2, 16], &[4.0, 100.0], 5e8).balance();
        assert!(
            (several.prefill - 45.0).abs() < 1e-9 && (several.decode - 78.0).abs() < 1e-9,
            "{several:?}"
        );
        assert_eq!(several.limit().0, Part::Links);
    }
}
