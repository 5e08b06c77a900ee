//! A few repeated timings and what they say: the median, and its interval from order statistics.
//!
//! No sample is dropped: an outlier is a fact about the machine. Law: the interval contains the median.

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median, or the fitted value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Samples or points that it rests on.
    pub n: usize,
}

impl Estimate {
    /// Of samples in any order; `None` for none.
    ///
    /// The interval of the median between the `r`-th smallest and the `r`-th largest sample holds the true median with
    /// probability `1 − 2·Σ_{i<r} C(n,i)/2ⁿ`, whatever the distribution (David and Nagaraja 2003, Order Statistics,
    /// 7.1); `r` is the largest rank that still gives 95 %: 2 of 9 gives 96.1 %. Below 6 samples even the extremes
    /// give less, and are taken.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = crate::stats::quantile_sorted(&sorted, 0.5)?;
        let rank = median_rank(sorted.len());
        Some(Estimate {
            value,
            low: sorted[rank - 1],
            high: sorted[sorted.len() - rank],
            n: sorted.len(),
        })
    }

    /// With every number passed through a falling or rising function.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Estimate {
        let (a, b) = (f(self.low), f(self.high));
        Estimate {
            value: f(self.value),
            low: a.min(b),
            high: a.max(b),
            n: self.n,
        }
    }

    /// Half the interval's width over the value.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / (2.0 * self.value.abs())
    }
}

/// The rank, counted from 1, of the samples that bound the median with 95 %.
fn median_rank(n: usize) -> usize {
    let (mut rank, mut term, mut tail) = (1, 0.5_f64.powi(n as i32), 0.0);
    loop {
        tail += term;
        if 2.0 * tail > 0.05 || rank >= n.div_ceil(2) {
            return (rank - 1).max(1);
        }
        term *= (n - rank + 1) as f64 / rank as f64;
        rank += 1;
    }
}

/// Whether one sample lies far above the median: something else ran, or the clock fell.
#[must_use]
pub fn is_ragged(samples: &[f64]) -> bool {
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Estimate::of(samples).is_some_and(|estimate| most > 1.2 * estimate.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        let ranks: Vec<usize> = [3, 5, 6, 7, 9, 15, 21].into_iter().map(median_rank).collect();
        assert_eq!(ranks, [1, 1, 1, 1, 2, 4, 6]);
    }

    #[test]
    fn an_outlier_moves_neither_median_nor_interval() {
        let calm: Vec<f64> = (1..=9).map(f64::from).collect();
        let mut wild = calm.clone();
        wild[8] = 900.0;
        let (calm, wild_estimate) = (Estimate::of(&calm).unwrap(), Estimate::of(&wild).unwrap());
        assert_eq!((calm.value, calm.low, calm.high, calm.n), (5.0, 2.0, 8.0, 9));
        assert_eq!(calm, wild_estimate);
        assert!(is_ragged(&wild));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn a_rate_has_its_interval_the_right_way_round() {
        let rate = Estimate::of(&[1.0, 2.0, 4.0])
            .unwrap()
            .map(|seconds| 8.0 / seconds);
        assert_eq!((rate.low, rate.value, rate.high), (2.0, 4.0, 8.0));
    }
}
