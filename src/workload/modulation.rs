//! Rates that change with time: day curves and Markov-modulated Poisson processes.
//!
//! Gaps are drawn in operational time, in which one request is expected per unit, and mapped through the rate of each
//! piece: the next request comes when the integral of the rate has grown by the drawn amount. Both start at the
//! beginning of their first piece, not in their stationary law.

use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::MmppState;
use super::arrivals::{after, round};
use crate::rng::{Purpose, stream};
use crate::units::{PICOS_PER_SECOND, Picos};

/// A rate that is constant on pieces of time, and where in it the clock stands.
#[derive(Debug)]
pub(super) struct Modulation {
    pieces: Pieces,
    index: usize,
    /// When the current piece ends.
    end: Picos,
    /// Requests per picosecond in the current piece.
    rate: f64,
}

#[derive(Debug)]
enum Pieces {
    /// Equal lengths, in a cycle. `requests` are expected in one cycle.
    Cycle {
        piece: Picos,
        rates: Arc<[f64]>,
        requests: f64,
    },
    /// Exponential sojourns, which have a stream of their own.
    Markov {
        states: Vec<MmppState>,
        rng: Box<ChaCha8Rng>,
    },
}

impl Modulation {
    pub(super) fn cycle(piece: Picos, rates: Arc<[f64]>) -> Modulation {
        assert!(
            rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0),
            "rates of a profile are not negative"
        );
        let requests = rates.iter().sum::<f64>() * piece.seconds();
        assert!(requests > 0.0, "a profile sends something in each cycle");
        Modulation::opened(Pieces::Cycle {
            piece,
            rates,
            requests,
        })
    }

    pub(super) fn markov(states: &[MmppState], seed: u64) -> Modulation {
        let valid = |state: &MmppState| state.request_rate.is_finite() && state.request_rate >= 0.0;
        assert!(states.iter().all(valid), "rates of an MMPP are not negative");
        let requests: f64 = states
            .iter()
            .map(|state| state.request_rate * state.mean_sojourn.seconds())
            .sum();
        assert!(requests > 0.0, "an MMPP sends something in each cycle");
        let rng = Box::new(stream(seed, Purpose::Arrivals, 1));
        Modulation::opened(Pieces::Markov {
            states: states.to_vec(),
            rng,
        })
    }

    fn opened(pieces: Pieces) -> Modulation {
        let mut modulation = Modulation {
            pieces,
            index: 0,
            end: Picos::ZERO,
            rate: 0.0,
        };
        modulation
            .enter(0)
            .expect("the first piece ends before the clock does");
        modulation
    }

    /// Enters piece `index` at the end of the current one; `None` if it outlasts the clock.
    fn enter(&mut self, index: usize) -> Option<()> {
        let (length, request_rate) = match &mut self.pieces {
            Pieces::Cycle { piece, rates, .. } => (*piece, rates[index]),
            Pieces::Markov { states, rng } => {
                let sojourn: f64 = Exp1.sample(rng.as_mut());
                (
                    round(sojourn * states[index].mean_sojourn.0 as f64),
                    states[index].request_rate,
                )
            }
        };
        self.index = index;
        self.rate = request_rate / PICOS_PER_SECOND as f64;
        self.end = after(self.end, length)?;
        Some(())
    }

    fn count(&self) -> usize {
        match &self.pieces {
            Pieces::Cycle { rates, .. } => rates.len(),
            Pieces::Markov { states, .. } => states.len(),
        }
    }

    /// The instant at which the integral of the rate from `clock` reaches `operational`.
    pub(super) fn advance(&mut self, mut clock: Picos, mut operational: f64) -> Option<Picos> {
        if let Pieces::Cycle {
            piece,
            rates,
            requests,
        } = &self.pieces
            && operational > *requests
        {
            let cycles = (operational / requests).floor();
            let length = round(cycles * rates.len() as f64 * piece.0 as f64);
            operational -= cycles * requests;
            clock = after(clock, length)?;
            self.end = after(self.end, length)?;
        }
        loop {
            let left = self.end - clock;
            let expected = left.0 as f64 * self.rate;
            if operational < expected {
                return Some(clock + round(operational / self.rate).min(left));
            }
            operational -= expected;
            clock = self.end;
            self.enter((self.index + 1) % self.count())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_longer_than_a_day_leap_over_whole_days_exactly() {
        let piece = Picos::from_seconds(1.0);
        let rates: Arc<[f64]> = [0.25, 0.0, 0.75].into();
        for operational in [0.1, 0.9, 1.1, 7.6, 1000.2] {
            let expected = 3.0 * f64::floor(operational)
                + if operational.fract() < 0.25 {
                    operational.fract() / 0.25
                } else {
                    2.0 + (operational.fract() - 0.25) / 0.75
                };
            let instant = Modulation::cycle(piece, rates.clone())
                .advance(Picos::ZERO, operational)
                .unwrap();
            assert!(
                (instant.seconds() - expected).abs() < 1e-9,
                "{operational}: {instant:?}"
            );
        }
    }
}
