//! End-to-end measurements: a scenario that reproduces a run, and the figures that were measured.
//!
//! A run keeps everything but its step cost, which every trial of the host's terms makes anew.

use super::jitter::Tails;
use crate::analysis::simulate_whole;
use crate::config::Resolved;
use crate::cost::calibration::Calibration;
use crate::cost::jitter::JitterLaw;
use crate::cost::roofline::{RooflineCost, SharedExperts};
use crate::metrics::Summary;
use crate::sim::{Frontend, Scenario};

/// A figure of a whole run, ramp and drain included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Median of send to last token.
    E2elP50,
    /// Until the last request of all has its last token, from its own send: the latency of a fixed batch.
    E2elMax,
    /// Mean of send to last token.
    E2elMean,
    /// Median time to first token.
    TtftP50,
    /// Mean time to first token.
    TtftMean,
    /// Median over requests of the time per token after the first.
    TpotP50,
    /// Mean over requests of the time per token after the first.
    TpotMean,
    /// Mean gap between tokens.
    ItlMean,
    /// Requests completed in a second.
    RequestThroughput,
    /// Tokens of answers in a second.
    OutputThroughput,
}

impl Figure {
    /// As files and reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::E2elP50 => "e2el_p50_ms",
            Figure::E2elMax => "e2el_max_ms",
            Figure::E2elMean => "e2el_mean_ms",
            Figure::TtftP50 => "ttft_p50_ms",
            Figure::TtftMean => "ttft_mean_ms",
            Figure::TpotP50 => "tpot_p50_ms",
            Figure::TpotMean => "tpot_mean_ms",
            Figure::ItlMean => "itl_mean_ms",
            Figure::RequestThroughput => "request_throughput",
            Figure::OutputThroughput => "output_throughput",
        }
    }

    /// Whether it is a time to first token, which a host's front end shows in.
    pub(super) fn is_ttft(self) -> bool {
        matches!(self, Figure::TtftP50 | Figure::TtftMean)
    }

    fn of(self, summary: &Summary) -> f64 {
        let ms = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| 1e3 * seconds);
        match self {
            Figure::E2elP50 => ms(summary.e2el.quantile_s(0.5)),
            Figure::E2elMax => ms(summary.e2el.max_s()),
            Figure::E2elMean => ms(summary.e2el.mean_s()),
            Figure::TtftP50 => ms(summary.ttft.quantile_s(0.5)),
            Figure::TtftMean => ms(summary.ttft.mean_s()),
            Figure::TpotP50 => ms(summary.tpot.quantile_s(0.5)),
            Figure::TpotMean => ms(summary.tpot.mean_s()),
            Figure::ItlMean => ms(summary.itl.mean_s()),
            Figure::RequestThroughput => summary.completed as f64 / summary.duration_s,
            Figure::OutputThroughput => summary.output_tokens as f64 / summary.duration_s,
        }
    }
}

/// One measured run.
#[derive(Clone)]
pub struct Run {
    /// Which.
    pub label: String,
    /// Whose, on which card: figures of one family share their errors.
    pub family: String,
    /// What was run on it: runs of one load of one family repeat each other.
    pub load: String,
    /// Without a front end: the client called the engine in its own process.
    pub is_offline: bool,
    /// The scenario that reproduces it.
    pub resolved: Resolved,
    /// The same with lengths that scatter, where they are taken to be equal and may not have been.
    pub scattered: Option<Resolved>,
    /// The field of its file that its figure is of, where that is in seconds and the figure is in milliseconds.
    pub in_seconds: Option<&'static str>,
    /// What was measured, in the figure's unit.
    pub measured: Vec<(Figure, f64)>,
    /// How far its gaps between tokens spread; no host term is fitted to that.
    pub tails: Tails,
    /// Which input it came from, by index.
    pub input: usize,
}

impl Run {
    /// Whether the host prepares a step while the GPU runs the one before.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.resolved.placement.asynchronous
    }

    /// Whether a time to first token was measured behind a front end.
    pub(super) fn shows_front_end(&self) -> bool {
        !self.is_offline && self.measured.iter().any(|(figure, _)| figure.is_ttft())
    }

    /// The same run with lengths that scatter, where they may.
    #[must_use]
    pub fn as_scattered(&self) -> Run {
        let mut run = self.clone();
        if let Some(scattered) = run.scattered.take() {
            run.resolved = scattered;
        }
        run
    }

    /// The figures under a calibration, not a number where a figure does not exist.
    #[must_use]
    pub fn predict(&self, calibration: &Calibration) -> Vec<f64> {
        let Some(scenario) = self.scenario(calibration) else {
            return vec![f64::NAN; self.measured.len()];
        };
        let summary = simulate_whole(&scenario, None);
        self.measured
            .iter()
            .map(|(figure, _)| figure.of(&summary))
            .collect()
    }

    /// The gaps at the percentiles of [`Run::tails`] over the median gap, with steps that scatter by the random numbers of the
    /// run's seed and `seed` more; not a number where
    /// no sequence has a second token.
    #[must_use]
    pub fn predict_tails(&self, calibration: &Calibration, law: JitterLaw, seed: u64) -> Vec<f64> {
        let summary = self.scenario(calibration).map(|scenario| {
            let scattering = Scenario {
                jitter: vec![law; scenario.pools.len()],
                seed: scenario.seed.wrapping_add(seed),
                ..scenario
            };
            simulate_whole(&scattering, None)
        });
        let gap = |p: f64| summary.as_ref()?.itl.quantile_s(p);
        let ratio = |percent: f64| Some(gap(percent / 100.0)? / gap(0.5)?);
        let percents = self.tails.over_median.iter().map(|(percent, _)| *percent);
        percents
            .map(|percent| ratio(percent).unwrap_or(f64::NAN))
            .collect()
    }

    /// How long a step of the run's server takes that decodes for so many, each with so many tokens; `None` where its model
    /// has no cost under a calibration.
    #[must_use]
    pub fn step_seconds(&self, calibration: &Calibration, decoding: u32, context: u32) -> Option<f64> {
        let mut cost = (self.scenario(calibration)?.first_pool().cost)();
        let tokens = u64::from(decoding) * u64::from(context);
        Some(cost.decode(decoding).at(tokens, context).seconds())
    }

    /// The run under a calibration; `None` where its model has no cost there.
    fn scenario(&self, calibration: &Calibration) -> Option<Scenario> {
        let Resolved {
            device,
            model,
            placement,
            ..
        } = &self.resolved;
        let cost = RooflineCost::maker(device, model, calibration, placement).ok()?;
        let mut scenario = self.resolved.scenario.clone();
        let pool = scenario.first_pool_mut();
        pool.cost = std::sync::Arc::new(cost);
        if self.is_offline {
            pool.frontend = Frontend::default();
        } else {
            pool.frontend = pool.frontend.under(calibration, &placement.engine);
        }
        if let Some(ranks) = &mut scenario.lock_step {
            ranks.shared = SharedExperts::maker(device, model, calibration, placement).ok()?;
        }
        Some(scenario)
    }
}
