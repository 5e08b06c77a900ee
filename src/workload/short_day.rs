//! A day curve that is gone through in fewer requests: the same rates, gaps and lengths, and shorter pieces.
//!
//! It is for ratios of figures under one traffic, as how much lower a knee lies where steps are slower. What it loses: a queue has
//! less time to build up in a peak, so that a figure by itself is another one than the day's.

use super::{Arrivals, Prefix, WorkloadSpec, mean_rate};
use crate::units::Picos;

/// Requests that such a day has, where its pieces are long enough.
const REQUESTS: f64 = 20_000.0;

/// Shorter pieces would be over before the answers of the one before are.
const PIECE_S: f64 = 20.0;

/// Requests that it may have so that its pieces are that long.
const REQUESTS_MAX: f64 = 60_000.0;

/// `spec` with its day curve in fewer requests, and how many those are; the day itself where it has no more. `None` of what is no day
/// curve, has no end, has more pieces than come with so few requests, or whose conversations last through them.
#[must_use]
pub fn short_day(spec: &WorkloadSpec) -> Option<(WorkloadSpec, u64)> {
    let is_of_conversations = matches!(spec.prefix, Prefix::Sessions { .. });
    let Arrivals::Profile { piece, .. } = &spec.arrivals else {
        return None;
    };
    let asked = spec.num_prompts.map(|count| count as f64);
    let within = spec.duration.zip(mean_rate(spec));
    let within = within.map(|(span, rate)| span.seconds() * rate);
    let requests = asked.into_iter().chain(within).fold(f64::INFINITY, f64::min);
    let factor = (REQUESTS / requests).max(PIECE_S / piece.seconds()).min(1.0);
    if !requests.is_finite() || factor * requests > REQUESTS_MAX || (is_of_conversations && factor < 1.0) {
        return None;
    }
    let mut short = spec.clone();
    let shorter = |span: Picos| Picos::from_seconds(span.seconds() * factor);
    if let Arrivals::Profile { piece, .. } = &mut short.arrivals {
        *piece = shorter(*piece);
    }
    short.duration = short.duration.map(shorter);
    short.num_prompts = short
        .num_prompts
        .map(|count| ((count as f64 * factor).round() as u64).max(1));
    Some((short, (factor * requests).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::generator::tests::spec;

    fn day(piece_s: f64, rates: &[f64], span_s: f64) -> WorkloadSpec {
        let arrivals = Arrivals::Profile {
            piece: Picos::from_seconds(piece_s),
            rates: rates.into(),
            burstiness: 1.0,
        };
        WorkloadSpec {
            duration: Some(Picos::from_seconds(span_s)),
            num_prompts: None,
            ..spec(arrivals)
        }
    }

    #[test]
    fn a_day_keeps_its_rates_and_loses_its_hours() {
        // 24 h at 5 requests/s on average are 432,000.
        let rates: Vec<f64> = (0..24).map(|hour| f64::from(hour % 2) * 10.0).collect();
        let (short, requests) = short_day(&day(3600.0, &rates, 86_400.0)).unwrap();
        assert_eq!(requests, 20_000);
        assert_eq!(short.duration, Some(Picos::from_seconds(4000.0)));
        let Arrivals::Profile {
            piece, rates: kept, ..
        } = &short.arrivals
        else {
            panic!("it is a day still")
        };
        assert_eq!((&kept[..], mean_rate(&short)), (&rates[..], Some(5.0)));
        assert!((piece.seconds() - 4000.0 / 24.0).abs() < 1e-6);
        // As many pieces as come with 60,000 requests, and no more: 3,600 s of 10/s in pieces of a minute, or of two seconds.
        let (fine, requests) = short_day(&day(60.0, &[10.0; 60], 3600.0)).unwrap();
        assert_eq!(
            (requests, fine.duration),
            (20_000, Some(Picos::from_seconds(2000.0)))
        );
        assert_eq!(short_day(&day(2.0, &[100.0; 1800], 3600.0)), None);
        // A short one is as it is.
        let own = day(600.0, &[2.0, 4.0], 1200.0);
        assert_eq!(short_day(&own), Some((own.clone(), 3600)));
    }
}
