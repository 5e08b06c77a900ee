//! Knees of curves that know no SLO: where more load stops paying.

/// The index at which `throughput / response` is largest (Kleinrock 1979); for M/M/1 that is half load.
#[must_use]
pub fn power_knee(throughput: &[f64], response: &[f64]) -> Option<usize> {
    let power = throughput.iter().zip(response).map(|(x, r)| x / r).enumerate();
    power
        .filter(|(_, power)| power.is_finite())
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(index, _)| index)
}

/// The first index whose throughput reaches `share` of the largest.
#[must_use]
pub fn efficient_from(throughput: &[f64], share: f64) -> Option<usize> {
    let peak = throughput.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    throughput.iter().position(|&x| x >= share * peak)
}

/// How a curve bends, for [`kneedle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bend {
    /// Rises ever more slowly: throughput over concurrency.
    ConcaveRising,
    /// Rises ever faster: latency over load.
    ConvexRising,
}

/// Kneedle (Satopää et al. 2011) without smoothing: the first knee of a curve with ascending `x`, as an index.
/// `sensitivity` is 1 by default; larger asks for a sharper knee.
#[must_use]
pub fn kneedle(x: &[f64], y: &[f64], bend: Bend, sensitivity: f64) -> Option<usize> {
    let n = x.len();
    if n < 3 || y.len() != n {
        return None;
    }
    // A convex rising curve becomes a concave rising one when both axes are turned round.
    let oriented = |values: &[f64]| -> Vec<f64> {
        let (low, high) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        let unit = values.iter().map(|v| (v - low) / (high - low));
        match bend {
            Bend::ConcaveRising => unit.collect(),
            Bend::ConvexRising => unit.map(|v| 1.0 - v).rev().collect(),
        }
    };
    let (xs, ys) = (oriented(x), oriented(y));
    let above: Vec<f64> = ys.iter().zip(&xs).map(|(y, x)| y - x).collect();
    let slack = sensitivity * (xs[n - 1] - xs[0]) / (n - 1) as f64;
    let mut candidate: Option<usize> = None;
    for i in 1..n - 1 {
        if above[i] > above[i - 1] && above[i] >= above[i + 1] {
            candidate = Some(i);
        }
        if let Some(knee) = candidate
            && above[i + 1] < above[knee] - slack
        {
            return Some(if bend == Bend::ConvexRising {
                n - 1 - knee
            } else {
                knee
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kneedle_finds_the_published_knee() {
        let x: Vec<f64> = (0..10).map(|i| f64::from(i) / 9.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 5.0 - 1.0 / (x + 0.1)).collect();
        assert_eq!(kneedle(&x, &y, Bend::ConcaveRising, 1.0), Some(2));
        let turned: Vec<f64> = y.iter().rev().map(|y| -y).collect();
        assert_eq!(kneedle(&x, &turned, Bend::ConvexRising, 1.0), Some(7));
        assert_eq!(kneedle(&x, &x, Bend::ConcaveRising, 1.0), None);
    }

    #[test]
    fn the_power_of_m_m_1_peaks_at_half_load() {
        let load: Vec<f64> = (1..100).map(|i| f64::from(i) / 100.0).collect();
        let response: Vec<f64> = load.iter().map(|rho| 1.0 / (1.0 - rho)).collect();
        assert_eq!(power_knee(&load, &response), Some(49));
        assert_eq!(efficient_from(&load, 0.9), Some(89));
    }
}
