//! A knee search's outcome in the shape that printers and charts take.

use super::figures::percent;
use super::views::{KneePoint, KneeView, Limit, Quantiles};
use crate::analysis::knee::{Knee, Limiter, Point, Pressure};
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;

/// What a search does not know of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KneeContext {
    /// What was simulated: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// The limits on each request.
    pub limits: Vec<Limit>,
    /// Share of requests that must meet them, in 0..=1.
    pub attainment: f64,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// Defaults and substitutions, as sentences.
    pub assumptions: Vec<String>,
    /// How far the knee may be off because the step time's parameters are.
    pub model: Option<FigureInterval>,
}

impl KneeView {
    /// Makes the view of a search.
    #[must_use]
    pub fn new(knee: &Knee, context: KneeContext) -> KneeView {
        let KneeContext {
            subject,
            limits,
            attainment,
            trust,
            mut assumptions,
            model,
        } = context;
        if !knee.converged {
            assumptions.push("the search ran out of runs: its intervals are wider than asked for".into());
        }
        KneeView {
            subject,
            points: knee.points.iter().map(point).collect(),
            knee: knee.within_slo,
            saturation: knee.saturation,
            limits,
            attainment,
            limited_by: knee
                .limiter
                .map(|limiter| limited_by(limiter, pressure_at_knee(knee))),
            trust,
            assumptions,
            model,
        }
    }
}

fn point(point: &Point) -> KneePoint {
    let quantiles = |pair: Option<(f64, f64)>| pair.map(|(p50_s, p99_s)| Quantiles { p50_s, p99_s });
    KneePoint {
        request_rate: point.rate,
        verdict: point.verdict,
        requests: point.requests,
        attainment: point.attainment.map(|share| share.value),
        ttft: quantiles(point.ttft_s),
        p99_ttft: point.p99_ttft,
        tpot: quantiles(point.tpot_s),
        itl: quantiles(point.itl_s),
        request_throughput: point.throughput,
        output_throughput: point.output_tokens_per_s,
        running: point.running,
        waiting: point.waiting,
        kv_usage: point.kv_usage,
        growth_per_s: point.growth_per_s,
    }
}

/// The pressure at the highest rate not above the knee.
fn pressure_at_knee(knee: &Knee) -> Option<Pressure> {
    let rate = knee.within_slo?.value;
    let below = knee
        .points
        .iter()
        .rev()
        .filter(|point| point.rate <= rate * (1.0 + 1e-9));
    below.filter_map(|point| point.pressure).next()
}

fn limited_by(limiter: Limiter, pressure: Option<Pressure>) -> String {
    let name = match limiter {
        Limiter::PrefillCompute => "prefill compute",
        Limiter::HbmBandwidth => "memory bandwidth",
        Limiter::KvBlocks => "KV blocks",
        Limiter::MaxNumSeqs => "max_num_seqs",
        Limiter::TokenBudget => "max_num_batched_tokens",
        Limiter::Host => "the host",
    };
    let Some(pressure) = pressure else {
        return name.into();
    };
    format!(
        "{name} (compute {} of roof, bandwidth {}, KV blocks {} at most)",
        percent(pressure.compute),
        percent(pressure.bandwidth),
        percent(pressure.kv_blocks)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Estimate, Verdict};

    fn tried(rate: f64, verdict: Verdict) -> Point {
        Point {
            rate,
            verdict,
            reason: String::new(),
            requests: 1000,
            slack: None,
            attainment: Some(Estimate {
                value: 0.99,
                low: 0.98,
                high: 1.0,
            }),
            throughput: Some(Estimate {
                value: rate,
                low: rate,
                high: rate,
            }),
            output_tokens_per_s: None,
            p99_ttft: None,
            ttft_s: (verdict == Verdict::Stable).then_some((0.03, 0.09)),
            tpot_s: None,
            itl_s: None,
            e2el_s: None,
            running: None,
            waiting: None,
            kv_usage: None,
            growth_per_s: 0.0,
            pressure: Some(Pressure {
                compute: 0.91 / rate * 10.0,
                bandwidth: 0.46,
                ..Pressure::default()
            }),
        }
    }

    #[test]
    fn the_limiter_is_quoted_with_the_pressure_at_the_knee() {
        let knee = Knee {
            within_slo: Some(Estimate {
                value: 10.0,
                low: 9.9,
                high: 10.1,
            }),
            saturation: None,
            limiter: Some(Limiter::PrefillCompute),
            points: vec![
                tried(5.0, Verdict::Stable),
                tried(10.0, Verdict::Stable),
                tried(20.0, Verdict::Unstable),
            ],
            converged: false,
        };
        let view = KneeView::new(&knee, KneeContext::default());
        let limited_by = view.limited_by.unwrap();
        assert_eq!(
            limited_by,
            "prefill compute (compute 91.0 % of roof, bandwidth 46.0 %, KV blocks 0 % at most)"
        );
        assert!(view.points[0].ttft.is_some() && view.points[2].ttft.is_none());
        assert_eq!(view.assumptions.len(), 1, "an unfinished search says so");
    }
}
