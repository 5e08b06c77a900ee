//! How well one result knows its own figures: what another run of the same, with other arrivals and lengths, would move.
//!
//! Requests that share a batch share its steps, so n of them are not n independent values. Three ways, the surest first:
//! the intervals of a result that judged itself; batches of its requests in order of time; else its deviations ([`Crowd`]).
//! Two simulations of the same requests ([`saw_the_same`]) differ by no such chance.
//!
//! A load that changes over the run (a trace, a day curve) changes it in another run, too, so its course is taken as given
//! ([`Course`]): what every latency follows is no chance. Whether it changes, the arrivals tell.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::super::case::Case;
use super::DEVIATIONS;
use super::deviation::Spread;
use super::kinds;
use crate::analysis::GROUPS;
use crate::results::{Load, Measured, RequestTimes};
use crate::stats::{self, crowd::Crowd};

/// Batches in time: more of them are each too short against an answer, fewer bound nothing.
const BATCHES_MAX: usize = 20;
const BATCHES_MIN: usize = 6;
/// A batch lasts at least as many mean answers.
const ANSWERS_A_BATCH: f64 = 2.0;
/// Who waits behind whose prompt, where the clients of a loop are in step: first tokens scatter as if a stay saw so many patterns
/// anew, and their median, which lies between those who wait and those who do not, as if it saw one. In loops of 8 to 64 with
/// steps that scatter they do so or less.
const PATTERNS_A_STAY: f64 = 4.0;
/// Clients whose answers vary by less, relative to their mean, stay in step.
const IN_STEP: f64 = 0.1;
/// From this percentile on first tokens are those of the first requests, who come at once in every run.
const FIRST_REQUESTS: f64 = 95.0;
/// Arrivals that are as uneven as these have a load that changes: of a thousand runs of an even one, one does.
const UNEVEN: f64 = 0.999;

/// Where a result's chance comes from.
#[derive(Clone, Debug, PartialEq)]
enum Source<'a> {
    /// Its own intervals.
    Intervals(&'a crate::results::Own),
    /// Its requests, in order of time.
    Batches(Vec<Vec<&'a RequestTimes>>, Course),
    /// Its deviations.
    Summary,
}

/// What the load does over the batches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    /// It stays; what wanders is memory of the system, and chance.
    Even,
    /// It changes, and would in another run.
    Given,
}

/// One result and the chance in it.
pub(super) struct Chance<'a> {
    row: &'a Measured,
    source: Source<'a>,
    /// First send to last answer, s.
    duration_s: Option<f64>,
    requests: Option<f64>,
}

/// Which value of a latency.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Of {
    Mean,
    Percentile(f64),
}

impl Of {
    /// The key of a result file.
    fn key(self, latency: &str) -> String {
        match self {
            Of::Mean => format!("mean_{latency}_ms"),
            Of::Percentile(percent) => format!("p{percent}_{latency}_ms"),
        }
    }
}

impl<'a> Chance<'a> {
    pub(super) fn new(row: &'a Measured) -> Chance<'a> {
        let case = Case::new(row, None);
        let own = row.own.as_ref().filter(|own| !own.intervals.is_empty());
        let source = match (own, batches(&row.requests)) {
            (Some(own), _) => Source::Intervals(own),
            (None, Some(batches)) => {
                let course = course(row.setup.load, &batches);
                Source::Batches(batches, course)
            }
            (None, None) => Source::Summary,
        };
        Chance {
            row,
            source,
            duration_s: case.duration(),
            requests: case.requests(),
        }
    }

    /// How it is known, for a reader.
    pub(super) fn how(&self) -> String {
        match &self.source {
            Source::Intervals(_) => "its own 95 % intervals".to_owned(),
            Source::Batches(batches, Course::Even) => {
                format!("its requests in {} batches of time", batches.len())
            }
            Source::Batches(batches, Course::Given) => format!(
                "its requests in {} batches of time, the course of its changing load taken as given",
                batches.len()
            ),
            Source::Summary => match self.crowd() {
                Some(crowd) => format!(
                    "its deviations, of which it saw what a batch shares {:.0} times anew",
                    crowd.values
                ),
                None => "its deviations as if requests were independent, a lower bound".to_owned(),
            },
        }
    }

    /// Degrees of freedom of its intervals: values that their width is known from, less one.
    pub(super) fn freedom(&self) -> f64 {
        match &self.source {
            Source::Intervals(_) => GROUPS as f64 - 1.0,
            Source::Batches(batches, Course::Even) => batches.len() as f64 - 1.0,
            Source::Batches(batches, Course::Given) => stats::freedom_of_course(batches.len()),
            Source::Summary => f64::INFINITY,
        }
    }

    /// Half of the 95 % interval of a latency's value, relative to it.
    pub(super) fn of_latency(&self, name: &str, of: Of) -> Option<f64> {
        let (_, stats) = self.row.latencies().into_iter().find(|(of, _)| *of == name)?;
        let value = match of {
            Of::Mean => stats.mean,
            Of::Percentile(percent) => stats.percentile(percent),
        };
        let value = value.filter(|value| *value > 0.0)?;
        let known = match &self.source {
            Source::Intervals(own) => own.interval(&of.key(name)).map(|interval| {
                let relative = interval.half_width / 1e3 / value;
                // The interval is of the steady stretch. Where the whole run is beyond it, that ramp and drain are, too.
                let ends = (!interval.holds(1e3 * value)).then(|| self.of_deviation(name, of));
                ends.flatten().map_or(relative, |ends| relative.max(ends))
            }),
            Source::Batches(batches, course) => {
                let known = of_batches(batches, *course, name, of, value);
                // Batches that saw a tail but once say nothing of it.
                let tail = matches!(of, Of::Percentile(percent) if percent > 50.0);
                let apart = tail.then(|| self.of_deviation(name, of)).flatten();
                known.map(|known| apart.map_or(known, |apart| known.max(apart)))
            }
            Source::Summary => None,
        };
        known.or_else(|| self.of_deviation(name, of))
    }

    /// How far down a latency's value may jump in another run because it would be of another kind of gap, in the logarithm.
    pub(super) fn jump(&self, name: &str, of: Of) -> f64 {
        match name {
            "itl" => kinds::jump(&self.row.itl, of),
            _ => 0.0,
        }
    }

    /// The same from deviations: of what all requests of a time share, and of what each has by itself.
    fn of_deviation(&self, name: &str, of: Of) -> Option<f64> {
        let row = self.row;
        // Gaps alternate between steps with and without a prompt; what is shared by all of them is what moves tpot.
        let stats = match name {
            "ttft" => &row.ttft,
            "itl" | "tpot" if !row.tpot.is_empty() => &row.tpot,
            "itl" => &row.itl,
            "tpot" => &row.tpot,
            _ => &row.e2el,
        };
        let mean = stats.mean.filter(|mean| *mean > 0.0)?;
        let variance = (stats.std? / mean).powi(2);
        let counted = stats.samples.map(|samples| samples as f64).or(self.requests)?;
        if counted <= 1.0 {
            return None;
        }
        let crowd = self.crowd().unwrap_or(Crowd::apart(counted));
        let is_of_all = !matches!(of, Of::Percentile(percent) if percent >= FIRST_REQUESTS);
        let is_pattern = name == "ttft" && is_of_all && is_in_step(row);
        let shared = match is_pattern {
            true => variance,
            false => variance.min(crowd.variance),
        };
        let patterns = match of {
            _ if !is_pattern => 1.0,
            Of::Percentile(50.0) => 1.0,
            _ => PATTERNS_A_STAY,
        };
        let spread = Spread {
            own: variance - shared,
            shared,
            requests: counted,
            times: (patterns * crowd.values).min(counted),
        };
        let error = match of {
            Of::Mean => spread.of_mean(),
            Of::Percentile(percent) => {
                let over = stats.percentile(percent).zip(stats.median);
                let over = over.map(|(value, median)| value / median);
                spread.of_percentile(percent / 100.0, over.filter(|over| over.is_finite()))
            }
        };
        Some(DEVIATIONS * error)
    }

    /// What requests of a time have in common.
    fn crowd(&self) -> Option<Crowd> {
        let (tpot, stay_s) = (&self.row.tpot, self.row.e2el.mean?);
        let variance = (tpot.std? / tpot.mean.filter(|mean| *mean > 0.0)?).powi(2);
        let duration_s = self.duration_s?;
        let inside = self.requests? * stay_s / duration_s;
        Crowd::new(stay_s, duration_s, inside, 1.0, variance)
    }

    /// Half of the 95 % interval of answers or tokens per second, relative; `None` where they are the server's alone.
    pub(super) fn of_rate(&self, key: &str, is_tokens: bool) -> Option<f64> {
        let own = self.own_of_rate(key);
        let load = self.row.setup.load;
        // With a fixed number in flight throughput and the mean answer are one fact (Little).
        if let (Load::Closed { .. }, Some(whole)) = (load, self.of_latency("e2el", Of::Mean)) {
            return Some(own.map_or(whole, |own| own.max(whole)));
        }
        // Arrivals at random: n of them take n/λ within 1/√n, and the last answer its time. Closed loops and bursts wait for
        // the server, which works as long as the lengths are that it is sent; where those are all alike it is the server alone.
        let [prompts, answers] = [Length::Prompt, Length::Answer].map(|which| variation(self.row, which));
        let longest = prompts.max(answers);
        let tokens = match (is_tokens, key) {
            (false, _) => 0.0,
            (true, "output") => answers,
            (true, _) => longest,
        };
        let share = match load {
            Load::Open { .. } => {
                let burstiness = self.row.setup.burstiness.filter(|shape| *shape > 0.0);
                1.0 / burstiness.unwrap_or(1.0) + tokens * tokens
            }
            Load::Closed { .. } | Load::Burst if own.is_none() && longest > 0.0 => longest * longest,
            _ => return own,
        };
        let Some(requests) = self.requests.filter(|requests| *requests > 0.0) else {
            return own;
        };
        // Of a burst all of the run is its drain.
        let has_drain = load != Load::Burst;
        let drain = self.row.e2el.std.zip(self.duration_s).filter(|_| has_drain);
        let drain = drain.map_or(0.0, |(deviation, duration)| deviation / duration);
        let arrivals = DEVIATIONS * (share / requests + drain * drain).sqrt();
        Some(own.map_or(arrivals, |own| own.max(arrivals)))
    }

    /// The same by a result's own intervals.
    fn own_of_rate(&self, key: &str) -> Option<f64> {
        let Source::Intervals(own) = &self.source else {
            return None;
        };
        let of = |key: &str, value: Option<f64>| {
            Some(own.interval(key)?.half_width / value.filter(|of| *of > 0.0)?)
        };
        let outcome = &self.row.outcome;
        let answers = of("throughput", outcome.request_throughput);
        let tokens = of("output_throughput", outcome.output_throughput);
        match (key, answers, tokens) {
            ("request", answers, _) => answers,
            ("output", _, tokens) => tokens,
            (_, answers, tokens) => answers.zip(tokens).map(|(one, other)| one.max(other)),
        }
    }

    /// Half of the 95 % interval of a mean length, relative.
    pub(super) fn of_length(&self, which: Length) -> f64 {
        let requests = self.requests.unwrap_or(1.0).max(1.0);
        DEVIATIONS * variation(self.row, which) / requests.sqrt()
    }
}

/// A closed loop in which a request may wait behind another's prompt.
pub(super) fn is_loop_of_several(row: &Measured) -> bool {
    matches!(row.setup.load, Load::Closed { clients } if clients > 1)
}

/// A loop of several whose answers take nearly alike, so that clients who began together go on together.
fn is_in_step(row: &Measured) -> bool {
    let varies = row.e2el.std.zip(row.e2el.mean).map(|(std, mean)| std / mean);
    is_loop_of_several(row) && varies.is_some_and(|varies| varies < IN_STEP)
}

/// Which of a request's lengths.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Length {
    Prompt,
    Answer,
}

/// Deviation of lengths over their mean: as requests show it; none where all have one length; else as an exponential law
/// has it, since files do not say.
fn variation(row: &Measured, which: Length) -> f64 {
    let mean = match which {
        Length::Prompt => row.setup.input_tokens,
        Length::Answer => row.setup.output_tokens,
    };
    let of = |request: &RequestTimes| match which {
        Length::Prompt => request.input_tokens,
        Length::Answer => Some(request.output_tokens),
    };
    let mut known = stats::Running::default();
    row.requests
        .iter()
        .filter_map(of)
        .for_each(|length| known.add(length));
    if known.count() > 1 && known.mean() > 0.0 {
        return known.variance().sqrt() / known.mean();
    }
    // The mean of many lengths is whole where they are all equal, and hardly ever else.
    let is_fixed = row.setup.has_fixed_lengths == Some(true) || mean.is_some_and(|mean| mean.fract() == 0.0);
    if is_fixed { 0.0 } else { 1.0 }
}

/// Requests in batches of equal time; `None` where starts are unknown or a batch would be a few answers long.
fn batches(requests: &[RequestTimes]) -> Option<Vec<Vec<&RequestTimes>>> {
    let mut sorted: Vec<(f64, &RequestTimes)> = Vec::with_capacity(requests.len());
    for request in requests {
        sorted.push((request.start_s?, request));
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (sorted.first()?.0, sorted.last()?.0);
    let stays: stats::Running = requests.iter().filter_map(|request| request.e2el_s).collect();
    if stays.count() == 0 {
        return None;
    }
    let stay = stays.mean();
    let many = ((last - first) / (ANSWERS_A_BATCH * stay)).min(BATCHES_MAX as f64);
    if !many.is_finite() || many < BATCHES_MIN as f64 {
        return None;
    }
    let many = many as usize;
    let mut batches = vec![Vec::new(); many];
    for (start, request) in sorted {
        let at = ((start - first) / (last - first) * many as f64) as usize;
        batches[at.min(many - 1)].push(request);
    }
    Some(batches)
}

/// Whether counts of arrivals vary between the batches by more than the gaps between them account for: those of a renewal
/// process vary by the squared coefficient of variation of its gaps, relative to their mean.
fn course(load: Load, batches: &[Vec<&RequestTimes>]) -> Course {
    // What clients send who wait for answers is the server's course.
    if !matches!(load, Load::Open { .. } | Load::Mixed { .. } | Load::Trace) {
        return Course::Even;
    }
    let starts: Vec<f64> = batches
        .iter()
        .flatten()
        .filter_map(|request| request.start_s)
        .collect();
    let gaps: stats::Running = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let counts: stats::Running = batches.iter().map(|batch| batch.len() as f64).collect();
    let freedom = batches.len() as f64 - 1.0;
    let Ok(law) = ChiSquared::new(freedom) else {
        return Course::Even;
    };
    let of_gaps = gaps.variance() / gaps.mean().powi(2) * counts.mean();
    // Even gaps are cut by the batches' ends, which moves a count by one.
    let limit = law.inverse_cdf(UNEVEN) / freedom * of_gaps + 1.0;
    match counts.variance() > limit {
        true => Course::Given,
        false => Course::Even,
    }
}

/// Batch means, or for a percentile the batches' shares of values above it.
fn of_batches(batches: &[Vec<&RequestTimes>], course: Course, name: &str, of: Of, value: f64) -> Option<f64> {
    let values = |batch: &Vec<&RequestTimes>| -> Vec<f64> {
        let of = |request: &&RequestTimes| match name {
            "ttft" => vec![request.ttft_s],
            "tpot" => request.tpot_s().into_iter().collect(),
            "itl" => request.itls_s.clone(),
            _ => request.e2el_s.into_iter().collect(),
        };
        batch.iter().flat_map(of).collect()
    };
    let all: Vec<Vec<f64>> = batches.iter().map(values).collect();
    let interval = |of: &dyn Fn(f64) -> f64| {
        let pairs: Vec<(f64, f64)> = all
            .iter()
            .map(|values| (values.iter().copied().map(of).sum(), values.len() as f64))
            .collect();
        let found = match course {
            Course::Even => stats::ratio_interval(&pairs, 0.95)?,
            Course::Given => stats::ratio_interval_of_course(&pairs, 0.95)?,
        };
        found.half_width.is_finite().then_some(found.half_width)
    };
    match of {
        Of::Mean => Some(interval(&|value| value)? / value),
        Of::Percentile(percent) => {
            let share = interval(&|one| if one > value { 1.0 } else { 0.0 })?;
            let mut sorted: Vec<f64> = all.concat();
            sorted.sort_by(f64::total_cmp);
            let at = |share: f64| stats::quantile_sorted(&sorted, share);
            let (low, high) = (at(percent / 100.0 - share)?, at(percent / 100.0 + share)?);
            Some((high - low) / 2.0 / value)
        }
    }
}

/// Whether both are simulations of the same requests: one seed, one load, and lengths that agree to the token.
pub(super) fn saw_the_same(one: &Measured, other: &Measured) -> bool {
    let seed = |row: &Measured| row.own.as_ref().and_then(|own| own.seed);
    let lengths = |row: &Measured| {
        (
            row.outcome.input_tokens,
            row.outcome.output_tokens,
            row.outcome.completed,
        )
    };
    seed(one).is_some()
        && seed(one) == seed(other)
        && one.setup.load == other.setup.load
        && lengths(one) == lengths(other)
}
