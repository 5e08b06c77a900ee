//! A search for a knee as printers and charts take it: what was found, and every load that was tried.

use super::{ClassPromise, Counted, Limit, Promise, Quantiles, Sizing};
use crate::analysis::costs::Rent;
use crate::analysis::knee::{ClientLimit, Sending, WhenFull};
use crate::analysis::{Estimate, Verdict};
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;
use crate::report::{First, Sought};

/// A search for the highest rate within the objectives, or for the most that a closed loop may have in flight, ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeView {
    /// What was simulated: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// What the knee is a number of.
    pub of: Sought,
    /// Simulated loads, ascending.
    pub points: Vec<KneePoint>,
    /// The most that meets the objectives, requests per second or so many in flight; `None` where nothing does.
    pub knee: Option<Estimate>,
    /// Rate above which requests pile up without bound, waiting or in the batch, requests per second.
    pub saturation: Option<Estimate>,
    /// What the server does once it is full, where that is less than what it takes while it keeps up.
    pub when_full: Option<WhenFull>,
    /// What the clients push at most, where that is less than what the server takes: neither of the above is the server's then.
    pub client: Option<ClientLimit>,
    /// Requests that the client has in flight at most.
    pub max_concurrency: Option<u32>,
    /// The objectives.
    pub limits: Vec<Limit>,
    /// The classes of requests, each of which must keep its own. Empty without any.
    pub classes: Vec<ClassPromise>,
    /// Limits on percentiles and means.
    pub promises: Vec<Promise>,
    /// Share of requests that must meet them, in 0..=1.
    pub attainment: f64,
    /// Ctrl-C ended the search: more rates would have been tried.
    pub is_interrupted: bool,
    /// It ended what follows from the search, which is whole: how far the model may be off, or how many replicas a rate needs.
    pub is_cut_after: bool,
    /// All rates were looked at with one traffic of a given span, sped up and slowed down: intervals are those of the search, and
    /// say nothing of another such traffic.
    pub is_of_one_traffic: bool,
    /// What binds first at the knee, as a phrase: `TTFT p99 reaching 490 ms of 500 ms: …`.
    pub limited_by: Option<String>,
    /// What breaks first, for programs, and in a word or two.
    pub breaks_first: First,
    /// The resource that is pressed the hardest at the knee, as files spell it.
    pub hardest_pressed: Option<&'static str>,
    /// Prompt tokens per second at the knee, those that are answered beside its rate with them.
    pub prompt_tokens_per_s: Option<f64>,
    /// Output tokens per second at the knee, those that are answered beside its rate with them.
    pub output_tokens_per_s: Option<f64>,
    /// Share of the output tokens asked for that the engine's context cuts off there; 0 without such a rate.
    pub answers_cut: f64,
    /// Share of the requests that the server refuses there because they are longer than it holds.
    pub too_long: f64,
    /// How long the requests are sent for there, where the load has an end.
    pub sending: Option<Sending>,
    /// The same at the rate that replicas were counted for.
    pub sending_counted: Option<Sending>,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// Defaults and substitutions, as sentences.
    pub assumptions: Vec<String>,
    /// How far the knee may be off because the step time's parameters are; `None` where it was not asked for.
    pub model: Option<FigureInterval>,
    /// Why that is not told, where there is a knee and it cannot be.
    pub model_unknown: Option<String>,
    /// Lowest rate that was to be looked at, where one was given.
    pub min_rate: Option<f64>,
    /// What else must be known of the search, as sentences.
    pub notes: Vec<String>,
    /// What was given and has no effect, as sentences.
    pub ignored: Vec<String>,
    /// First part of a saved result's name, where one was given.
    pub label: Option<String>,
    /// Pairs kept in the JSON.
    pub metadata: Vec<(String, String)>,
    /// What has no rate and is sent beside every rate: `8 of loop in flight`. Empty where all have one.
    pub beside: Vec<String>,
    /// How many replicas a rate needs, where that was asked.
    pub sizing: Option<Sizing>,
    /// What the pools cost, or why that is not known; `None` where it is not told.
    pub rent: Option<Result<Rent, String>>,
}

impl KneeView {
    /// The rate that saturation lies below, where no lower one was seen to be stable: what was served there is no bracket.
    #[must_use]
    pub fn saturates_below(&self) -> Option<f64> {
        let open = self.saturation.filter(|estimate| estimate.low <= 0.0);
        open.map(|estimate| estimate.high)
    }

    /// The rate that the clients push at most, where the SLO is met up to there and the server's knee was not seen.
    #[must_use]
    pub fn only_client(&self) -> Option<Estimate> {
        self.client
            .filter(|client| client.is_within)
            .map(|client| client.rate)
    }

    /// Whether what was asked for is kept: at some rate, or by some number of replicas.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match &self.sizing {
            Some(sizing) => sizing.fleet.is_some(),
            None => self.knee.is_some() || self.only_client().is_some(),
        }
    }

    /// Requests per second at the knee: of a closed loop what its run served.
    #[must_use]
    pub fn served_per_s(&self) -> Option<f64> {
        let knee = self.knee?.value;
        match self.of {
            Sought::Rate => Some(knee),
            Sought::InFlight | Sought::Users => {
                let at_knee = self.points.iter().find(|point| point.load() == knee);
                Some(at_knee?.request_throughput?.value)
            }
        }
    }

    /// How long the requests are sent for that an answer is about: those of the rate that replicas were counted for, or of the knee.
    #[must_use]
    pub fn served(&self) -> Option<Sending> {
        match self.sizing.as_ref().and_then(|sizing| sizing.counted.as_ref()) {
            Some(Counted::BySimulation { .. }) => self.sending_counted,
            Some(Counted::ByKnee(_)) | None => self.sending,
        }
    }

    /// Above which not all that is offered is served, be it the server's saturation or the client's plateau.
    #[must_use]
    pub fn ceiling(&self) -> Option<Estimate> {
        self.saturation.or(self.client.map(|client| client.rate))
    }

    /// What the intervals of the knee and of saturation hold for.
    #[must_use]
    pub fn certainty(&self) -> &'static str {
        match self.is_of_one_traffic {
            true => "in this traffic",
            false => "95 %",
        }
    }
}

/// What becomes of a class at one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassTails {
    /// 99th percentile of its TTFT in seconds.
    pub p99_ttft_s: Option<f64>,
    /// 99th percentile of its TPOT in seconds.
    pub p99_tpot_s: Option<f64>,
}

/// One simulated load of a knee search.
#[derive(Clone, Debug, PartialEq)]
pub struct KneePoint {
    /// Offered load in requests per second; a closed loop offers as much as is served.
    pub request_rate: f64,
    /// How many a closed loop has in flight, requests or users; `None` of a rate.
    pub in_flight: Option<u64>,
    /// What its figures are worth.
    pub verdict: Verdict,
    /// Requests simulated.
    pub requests: u64,
    /// What waits for a place waits at the client, and hardly anybody in the server.
    pub is_held_by_client: bool,
    /// Mean wait at the client in seconds, which is in no latency; `None` where nobody waits there.
    pub client_queue_s: Option<f64>,
    /// Of each class, the 99th percentiles of TTFT and TPOT over the whole run, in seconds. Empty without classes, or where no
    /// steady state exists.
    pub by_class: Vec<ClassTails>,
    /// Share of requests within all limits, in 0..=1.
    pub attainment: Option<f64>,
    /// Time to first token; `None` where no steady state exists.
    pub ttft: Option<Quantiles>,
    /// 95 % interval of its 99th percentile, seconds.
    pub p99_ttft: Option<Estimate>,
    /// Mean time per output token of a request.
    pub tpot: Option<Quantiles>,
    /// Gaps between tokens.
    pub itl: Option<Quantiles>,
    /// Send to last token.
    pub e2el: Option<Quantiles>,
    /// Requests completed per second; at overload what the system can do.
    pub request_throughput: Option<Estimate>,
    /// Output tokens per second.
    pub output_throughput: Option<f64>,
    /// Mean running sequences.
    pub running: Option<f64>,
    /// Mean waiting sequences.
    pub waiting: Option<f64>,
    /// Mean share of KV blocks in use, in 0..=1.
    pub kv_usage: Option<f64>,
    /// Growth of the number in the system, requests per second.
    pub growth_per_s: f64,
    /// Share of requests that the server refused, in 0..=1.
    pub refused: f64,
    /// Share of requests that their clients gave up, in 0..=1.
    pub given_up: f64,
    /// Share of requests that were lost with the replica they were on, in 0..=1.
    pub failed: f64,
    /// Too many refused or given up for the rate to count as served.
    pub is_losing: bool,
}

impl KneePoint {
    /// What the search put: a number in flight, or a rate.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.in_flight.map_or(self.request_rate, |number| number as f64)
    }

    /// Whether the rate cannot be told from one that overloads the system: its latencies are then what they are at least.
    #[must_use]
    pub fn may_be_past_saturation(&self) -> bool {
        self.p99_ttft.is_some_and(|known| known.high.is_infinite())
    }
}
