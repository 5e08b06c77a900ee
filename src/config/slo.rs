//! What is promised to users: limits per request, the share that must meet them, and limits on percentiles.

use toml::Value;

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawGoodput, RawSlo};
use super::scalar::Duration;
use crate::units::Picos;
use crate::workload::{Class, Promise};

/// A latency that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SloMetric {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// One gap between two tokens.
    Itl,
    /// Whole answer.
    E2el,
}

impl SloMetric {
    /// All of them, in the order of reports.
    pub const ALL: [SloMetric; 4] = [SloMetric::Ttft, SloMetric::Tpot, SloMetric::Itl, SloMetric::E2el];

    /// `ttft`, as vLLM spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SloMetric::Ttft => "ttft",
            SloMetric::Tpot => "tpot",
            SloMetric::Itl => "itl",
            SloMetric::E2el => "e2el",
        }
    }

    /// By vLLM's name or AIPerf's; AIPerf's inter-token latency is vLLM's TPOT.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SloMetric> {
        Some(match name.trim().to_lowercase().as_str() {
            "ttft" | "time_to_first_token" => SloMetric::Ttft,
            "tpot" | "inter_token_latency" => SloMetric::Tpot,
            "itl" => SloMetric::Itl,
            "e2el" | "e2e" | "request_latency" => SloMetric::E2el,
            _ => return None,
        })
    }
}

/// A limit on a percentile over requests (over gaps, for [`SloMetric::Itl`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileLimit {
    /// In (0, 100); `None` is the mean.
    pub percentile: Option<f64>,
    /// Of what.
    pub metric: SloMetric,
    /// The largest good value.
    pub limit: Picos,
}

/// Everything that is promised.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Limits that a good request meets all of, by metric; empty when no goodput was asked for.
    pub goodput: Vec<(SloMetric, Picos)>,
    /// Share of requests that must be good, in (0, 1].
    pub attainment: f64,
    /// Limits on percentiles.
    pub percentiles: Vec<PercentileLimit>,
    /// Some class of requests has limits of its own, which stand with the class.
    pub of_classes: bool,
}

impl Slo {
    /// Whether anything was promised.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.counts_good() && self.percentiles.is_empty()
    }

    /// Whether requests are good or not: limits are promised to all of them, or to those of a class.
    #[must_use]
    pub fn counts_good(&self) -> bool {
        !self.goodput.is_empty() || self.of_classes
    }
}

/// What `--goodput` and `--slo` are told in, where a limit is hard to believe.
pub const LIMITS_IN_MS: &str = "--goodput and --slo are in milliseconds";

/// `p99_ttft`, `p99_ttft_ms`, `mean_tpot`, `median_itl` taken apart.
pub(super) fn parse_statistic(name: &str) -> Option<(Option<f64>, SloMetric)> {
    let name = name.trim().trim_end_matches("_ms");
    let (statistic, metric) = name.split_once('_')?;
    // A key path has no points within a part: p99_9_ttft is p99.9_ttft.
    let (statistic, metric) = match metric.split_once('_') {
        Some((digits, metric)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (format!("{statistic}.{digits}"), metric)
        }
        _ => (statistic.to_string(), metric),
    };
    let metric = SloMetric::from_name(metric)?;
    let percentile = match statistic.as_str() {
        "mean" | "avg" => None,
        "median" => Some(50.0),
        _ => Some(
            statistic
                .strip_prefix('p')?
                .parse::<f64>()
                .ok()
                .filter(|p| *p > 0.0 && *p < 100.0)?,
        ),
    };
    Some((percentile, metric))
}

/// Share of good requests that is asked for when only goodput limits are given.
const ATTAINMENT: f64 = 0.99;

/// The limits of a class of requests, whose table is `key`.
pub(super) fn promise(judge: &mut Judge, raw: &RawGoodput, key: &str) -> Promise {
    let mut limit = |name: &str, limit: &Option<Duration>| {
        let limit = limit.as_ref()?;
        judge.duration(&format!("{key}.{name}"), limit, false)
    };
    Promise {
        ttft: limit("ttft", &raw.ttft),
        tpot: limit("tpot", &raw.tpot),
        e2el: limit("e2el", &raw.e2el),
    }
}

/// The promises; with `of_classes` some class of requests has limits of its own.
pub(super) fn resolve(judge: &mut Judge, raw: &RawSlo, of_classes: bool) -> Slo {
    let mut goodput = Vec::new();
    let limits = [
        (SloMetric::Ttft, &raw.goodput.ttft),
        (SloMetric::Tpot, &raw.goodput.tpot),
        (SloMetric::E2el, &raw.goodput.e2el),
    ];
    for (metric, limit) in limits {
        let key = format!("slo.goodput.{}", metric.name());
        if let Some(limit) = limit
            .as_ref()
            .and_then(|limit| judge.duration(&key, limit, false))
        {
            goodput.push((metric, limit));
        }
    }
    let mut percentiles = Vec::new();
    for (name, limit) in &raw.percentiles {
        let key = format!("slo.percentiles.{name}");
        let limit = judge.duration(&key, limit, false);
        match parse_statistic(name) {
            Some((percentile, metric)) => percentiles.extend(limit.map(|limit| PercentileLimit {
                percentile,
                metric,
                limit,
            })),
            None => {
                let help = "name a statistic and a metric: p99_ttft, p95_tpot, median_itl, mean_e2el";
                judge.wrong_help(&key, "is not a percentile of a latency", name.clone(), help);
            }
        }
    }
    let attainment = match raw.attainment {
        Some(share) => {
            judge.given("slo.attainment", share);
            // A limit that could not be read was given all the same.
            if goodput.is_empty() && !of_classes && !judge.is_wrong(&["slo.goodput"]) {
                let help = "say what a good request is: --goodput ttft:500 tpot:50, or [slo.goodput]";
                judge.wrong_help(
                    "slo.attainment",
                    "has nothing to attain",
                    "no goodput limit is given",
                    help,
                );
            }
            share
        }
        None if goodput.is_empty() && !of_classes => ATTAINMENT,
        None => {
            judge.assume(
                "slo.attainment",
                ATTAINMENT,
                Source::Assumption("99 of 100 requests must be good".to_string()),
            );
            ATTAINMENT
        }
    };
    judge.fraction("slo.attainment", attainment, false, true);
    Slo {
        goodput,
        attainment,
        percentiles,
        of_classes,
    }
}

/// Where answers leave whole, nobody sees a gap between their tokens: a limit on gaps would be kept by all of them, and
/// says nothing. One of the scenario's is left out and named, one of the command line is refused, and so is each where
/// only some of the pools answer so.
pub(super) fn without_gaps(judge: &mut Judge, is_all: bool, slo: &mut Slo, classes: &mut [Class]) {
    let is_gap = |metric: SloMetric| matches!(metric, SloMetric::Tpot | SloMetric::Itl);
    let mut keys: Vec<String> = Vec::new();
    if slo.goodput.iter().any(|(metric, _)| is_gap(*metric)) {
        keys.push("slo.goodput.tpot".to_owned());
    }
    let percentiles = judge.document.get("slo.percentiles");
    let names = percentiles
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys());
    let of_gaps = names.filter(|name| parse_statistic(name).is_some_and(|(_, metric)| is_gap(metric)));
    keys.extend(of_gaps.map(|name| format!("slo.percentiles.{name}")));
    let promised = classes
        .iter()
        .enumerate()
        .filter(|(_, class)| class.promise.tpot.is_some());
    keys.extend(promised.map(|(at, _)| format!("workload.classes.{at}.goodput.tpot")));
    for key in keys {
        let why = "with static batching answers leave whole: nobody sees a gap between their tokens";
        let is_flag = matches!(judge.document.source(&key), Some(Source::Flag(_)));
        if is_flag || !is_all {
            let help = "limit ttft or e2el, or leave it out";
            judge.wrong_help(&key, "cannot be judged", why, help);
        } else {
            let name = key.trim_start_matches("slo.").trim_start_matches("workload.");
            judge.ignore(format!("the limit {name} has no effect: {why}"));
        }
    }
    slo.goodput.retain(|(metric, _)| !is_gap(*metric));
    slo.percentiles.retain(|limit| !is_gap(limit.metric));
    for class in &mut *classes {
        class.promise.tpot = None;
    }
    slo.of_classes = classes.iter().any(|class| class.promise != Promise::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_in_every_common_spelling() {
        assert_eq!(
            parse_statistic("p99_ttft_ms"),
            Some((Some(99.0), SloMetric::Ttft))
        );
        assert_eq!(parse_statistic("p99.9_e2el"), Some((Some(99.9), SloMetric::E2el)));
        assert_eq!(parse_statistic("p99_9_ttft"), Some((Some(99.9), SloMetric::Ttft)));
        assert_eq!(parse_statistic("mean_tpot_ms"), Some((None, SloMetric::Tpot)));
        assert_eq!(
            parse_statistic("median_inter_token_latency"),
            Some((Some(50.0), SloMetric::Tpot))
        );
        for bad in ["p100_ttft", "p0_ttft", "ttft", "p99_speed", "pnan_ttft"] {
            assert_eq!(parse_statistic(bad), None, "{bad}");
        }
    }
}
