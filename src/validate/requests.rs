//! One run, request by request: when each arrived, had its first token and its last, against what was recorded.
//!
//! Both clocks start at their first arrival. Requests are matched in order of arrival, and their lengths must agree: a
//! simulation of other requests is compared with nothing. Traps: a recorded first token includes the engine's front
//! end but no HTTP, so the client's latency of a simulated server is part of the error.

use std::collections::HashMap;

use super::predict::run_or_shorten;
use crate::analysis::RunResult;
use crate::calibrate::plan::Plan;
use crate::config::Files;
use crate::metrics::{Records, SeriesPoint};
use crate::results::{Measured, csv_rows};
use crate::stats::quantile;
use crate::units::Picos;

/// The moments of a request, in seconds since the first arrival of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// When it was sent.
    pub arrival_s: f64,
    /// When its first token came.
    pub first_token_s: f64,
    /// When its last token came.
    pub last_token_s: f64,
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// As the file names it.
    pub id: String,
    /// When what happened.
    pub moments: Moments,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Tokens answered.
    pub output_tokens: u64,
}

/// A sample of the engine's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the start.
    pub t_s: f64,
    /// Running sequences.
    pub running: f64,
    /// Waiting sequences.
    pub waiting: f64,
}

/// A request, recorded and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// As recorded.
    pub recorded: Recorded,
    /// As simulated.
    pub simulated: Moments,
}

/// Errors of one moment or latency over all requests.
#[derive(Clone, Debug, PartialEq)]
pub struct MomentScore {
    /// `arrival`, `first token`, `last token`, `ttft`, `e2el`.
    pub name: &'static str,
    /// Median of |simulated − recorded|, seconds.
    pub median_s: f64,
    /// 90th percentile of it, seconds.
    pub p90_s: f64,
    /// Median of simulated − recorded, seconds.
    pub bias_s: f64,
    /// Median of |simulated / recorded − 1|; of latencies only.
    pub median_error: Option<f64>,
}

/// A run compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Every request, in order of arrival.
    pub pairs: Vec<Pair>,
    /// The state as recorded; empty where no file was given.
    pub samples: Vec<Sample>,
    /// The state as simulated.
    pub simulated: Vec<Sample>,
    /// What the scenario had to assume.
    pub assumptions: Vec<String>,
}

/// Why a record cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// A row is broken, or a column is missing.
    #[error("{file}, line {line}: {message}")]
    Row {
        /// The file.
        file: String,
        /// From 1, the header's line.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The row of the table cannot be simulated.
    #[error("the row cannot be simulated: {0}")]
    NotModelled(String),
    /// The simulation is of other requests.
    #[error(
        "{recorded} requests were recorded and {simulated} simulated; `--traces` must hold the trace of this run"
    )]
    Number {
        /// As recorded.
        recorded: usize,
        /// As simulated.
        simulated: usize,
    },
    /// The simulation is of other requests.
    #[error(
        "{0} requests differ in length from the trace, the first is {1}; `--traces` must hold the trace of this run"
    )]
    Lengths(usize, String),
}

type Row = HashMap<String, String>;

fn rows<T>(file: &str, text: &str, of: impl Fn(&Row) -> Result<T, String>) -> Result<Vec<T>, RequestsError> {
    csv_rows(text)
        .map(|(line, row)| {
            row.and_then(|row| of(&row))
                .map_err(|message| RequestsError::Row {
                    file: file.to_owned(),
                    line,
                    message,
                })
        })
        .collect()
}

fn number(row: &Row, key: &str) -> Result<f64, String> {
    let text = row
        .get(key)
        .ok_or_else(|| format!("there is no column `{key}`"))?;
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{key}` is `{text}`, not a number"))
}

/// A whole number, not negative, which a float holds exactly.
fn count(row: &Row, key: &str) -> Result<u64, String> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    let value = number(row, key)?;
    let is_count = value >= 0.0 && value.fract() == 0.0 && value <= LARGEST;
    is_count
        .then_some(value as u64)
        .ok_or_else(|| format!("`{key}` is {value}, which is no number of tokens"))
}

/// Reads `request_id, arrival_s, first_token_s, last_token_s, input_tokens, output_tokens`, times on one clock; in order
/// of arrival.
///
/// # Errors
/// A missing column or a value that is no number.
pub fn read_requests(file: &str, text: &str) -> Result<Vec<Recorded>, RequestsError> {
    let mut all = rows(file, text, |row| {
        let moments = Moments {
            arrival_s: number(row, "arrival_s")?,
            first_token_s: number(row, "first_token_s")?,
            last_token_s: number(row, "last_token_s")?,
        };
        in_order(moments)?;
        Ok(Recorded {
            id: row.get("request_id").cloned().unwrap_or_default(),
            moments,
            input_tokens: count(row, "input_tokens")?,
            output_tokens: count(row, "output_tokens")?,
        })
    })?;
    all.sort_by(|a, b| a.moments.arrival_s.total_cmp(&b.moments.arrival_s));
    let start = all.first().map_or(0.0, |first| first.moments.arrival_s);
    for recorded in &mut all {
        recorded.moments = since(recorded.moments, start);
    }
    Ok(all)
}

/// Nobody has a token before it came, nor its last before its first.
fn in_order(moments: Moments) -> Result<(), String> {
    let Moments {
        arrival_s,
        first_token_s,
        last_token_s,
    } = moments;
    if first_token_s < arrival_s {
        return Err(format!(
            "`first_token_s`, {first_token_s}, is before `arrival_s`, {arrival_s}"
        ));
    }
    if last_token_s < first_token_s {
        return Err(format!(
            "`last_token_s`, {last_token_s}, is before `first_token_s`, {first_token_s}"
        ));
    }
    Ok(())
}

fn since(moments: Moments, start: f64) -> Moments {
    Moments {
        arrival_s: moments.arrival_s - start,
        first_token_s: moments.first_token_s - start,
        last_token_s: moments.last_token_s - start,
    }
}

/// Reads `t, running, waiting`.
///
/// # Errors
/// A missing column or a value that is no number.
pub fn read_series(file: &str, text: &str) -> Result<Vec<Sample>, RequestsError> {
    rows(file, text, |row| {
        Ok(Sample {
            t_s: number(row, "t")?,
            running: number(row, "running")?,
            waiting: number(row, "waiting")?,
        })
    })
}

/// Simulates the row and pairs its requests with the recorded ones.
///
/// # Errors
/// A row that cannot be simulated, or requests that are not those of the record.
pub fn compare(
    row: &Measured,
    plan: Result<Plan, String>,
    recorded: Vec<Recorded>,
    samples: Vec<Sample>,
    files: &dyn Files,
) -> Result<Requests, RequestsError> {
    let ran = plan
        .and_then(|plan| run_or_shorten(row, plan, files, Records::Requests))
        .map_err(RequestsError::NotModelled)?;
    Ok(Requests {
        simulated: state(&ran.result),
        pairs: pairs(recorded, &ran.result)?,
        samples,
        assumptions: ran.plan.assumptions,
    })
}

/// The simulated state on the clock of its requests.
fn state(result: &RunResult) -> Vec<Sample> {
    let records = result.records.iter().flatten();
    let first = records.map(|record| record.completion.arrival).min();
    let start = first.map_or(0.0, Picos::seconds);
    let sample = |point: &SeriesPoint| Sample {
        t_s: point.t_s - start,
        running: point.running,
        waiting: point.waiting,
    };
    result.series.iter().map(sample).collect()
}

fn pairs(recorded: Vec<Recorded>, result: &RunResult) -> Result<Vec<Pair>, RequestsError> {
    let mut all: Vec<_> = result
        .records
        .iter()
        .flatten()
        .map(|record| &record.completion)
        .collect();
    all.sort_by_key(|one| (one.arrival, one.id));
    if all.len() != recorded.len() {
        return Err(RequestsError::Number {
            recorded: recorded.len(),
            simulated: all.len(),
        });
    }
    let other = |(recorded, one): &(&Recorded, &&crate::facts::Completion)| {
        (recorded.input_tokens, recorded.output_tokens)
            != (u64::from(one.prompt_tokens), u64::from(one.output_tokens))
    };
    let mut others = recorded.iter().zip(&all).filter(other);
    if let Some((first, _)) = others.next() {
        return Err(RequestsError::Lengths(1 + others.count(), first.id.clone()));
    }
    let start = all.first().map_or(0.0, |first| first.arrival.seconds());
    let pair = |(recorded, one): (Recorded, &crate::facts::Completion)| Pair {
        recorded,
        simulated: since(
            Moments {
                arrival_s: one.arrival.seconds(),
                first_token_s: one.first_token.map_or(f64::NAN, Picos::seconds),
                last_token_s: one.end.seconds(),
            },
            start,
        ),
    };
    Ok(recorded.into_iter().zip(all).map(pair).collect())
}

impl Requests {
    /// Errors of the moments and of the two latencies.
    #[must_use]
    pub fn scores(&self) -> Vec<MomentScore> {
        type Of = fn(&Moments) -> f64;
        let all: [(&'static str, Of, bool); 5] = [
            ("arrival", |moments| moments.arrival_s, false),
            ("first token", |moments| moments.first_token_s, false),
            ("last token", |moments| moments.last_token_s, false),
            ("ttft", |moments| moments.first_token_s - moments.arrival_s, true),
            ("e2el", |moments| moments.last_token_s - moments.arrival_s, true),
        ];
        let score = |(name, of, is_latency): (&'static str, Of, bool)| {
            let both = |pair: &Pair| (of(&pair.recorded.moments), of(&pair.simulated));
            let signed: Vec<f64> = self.pairs.iter().map(both).map(|(is, sim)| sim - is).collect();
            let absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
            let relative = self.pairs.iter().map(both).filter(|(is, _)| *is > 0.0);
            let relative: Vec<f64> = relative.map(|(is, sim)| (sim / is - 1.0).abs()).collect();
            Some(MomentScore {
                name,
                median_s: quantile(&absolute, 0.5)?,
                p90_s: quantile(&absolute, 0.9)?,
                bias_s: quantile(&signed, 0.5)?,
                median_error: quantile(&relative, 0.5).filter(|_| is_latency),
            })
        };
        all.into_iter().filter_map(score).collect()
    }

    /// Mean |simulated − recorded| of running and waiting over the recorded samples; `None` without samples.
    #[must_use]
    pub fn state_errors(&self) -> Option<(f64, f64)> {
        let mean = |of: fn(&Sample) -> f64| {
            let errors = self
                .samples
                .iter()
                .map(|sample| (at(&self.simulated, sample.t_s, of) - of(sample)).abs());
            errors.sum::<f64>() / self.samples.len() as f64
        };
        (!self.samples.is_empty()).then(|| (mean(|sample| sample.running), mean(|sample| sample.waiting)))
    }
}

/// The state at an instant, between the two neighbouring samples.
fn at(samples: &[Sample], t_s: f64, of: fn(&Sample) -> f64) -> f64 {
    let next = samples.partition_point(|sample| sample.t_s < t_s);
    match (
        next.checked_sub(1).map(|before| &samples[before]),
        samples.get(next),
    ) {
        (Some(before), Some(after)) => {
            let share = (t_s - before.t_s) / (after.t_s - before.t_s);
            of(before) + share * (of(after) - of(before))
        }
        (None, Some(first)) => of(first),
        // The run is over.
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "request_id,arrival_s,first_token_s,last_token_s,input_tokens,output_tokens\n";

    #[test]
    fn clocks_start_at_the_first_arrival_and_broken_rows_are_located() {
        let text = format!("{HEADER}b,12.5,13,15,20,3\na,12,12.1,14,10,2\n");
        let all = read_requests("r.csv", &text).unwrap();
        assert_eq!((all[0].id.as_str(), all[1].id.as_str()), ("a", "b"));
        assert_eq!(
            (all[0].moments.arrival_s, all[1].moments.last_token_s),
            (0.0, 3.0)
        );
        let error = read_requests("r.csv", &format!("{HEADER}a,x,1,2,3,4\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "r.csv, line 2: `arrival_s` is `x`, not a number"
        );
        let error = read_requests("r.csv", &format!("{HEADER}a,1,0.5,2,3,4\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "r.csv, line 2: `first_token_s`, 0.5, is before `arrival_s`, 1"
        );
        let error = read_series("s.csv", "t,running\n1,2\n").unwrap_err();
        assert_eq!(error.to_string(), "s.csv, line 2: there is no column `waiting`");
    }

    #[test]
    fn errors_are_of_moments_in_seconds_and_of_latencies_in_shares() {
        let moments = |shift: f64| Moments {
            arrival_s: shift,
            first_token_s: 1.0 + 2.0 * shift,
            last_token_s: 10.0 + 3.0 * shift,
        };
        let sample = |t_s: f64, running: f64| Sample {
            t_s,
            running,
            waiting: 1.0,
        };
        let requests = Requests {
            pairs: vec![Pair {
                recorded: Recorded {
                    id: String::new(),
                    moments: moments(0.0),
                    input_tokens: 1,
                    output_tokens: 2,
                },
                simulated: moments(0.5),
            }],
            samples: vec![sample(1.5, 4.0), sample(9.0, 0.0)],
            simulated: vec![sample(1.0, 4.0), sample(2.0, 8.0)],
            assumptions: Vec::new(),
        };
        let scores = requests.scores();
        assert_eq!(scores[2].bias_s, 1.5);
        assert_eq!(
            (scores[2].median_error, scores[3].median_error),
            (None, Some(0.5))
        );
        assert_eq!(requests.state_errors(), Some((1.0, 0.5)));
    }
}
