//! What a queue makes of a trace's bursts: the wait behind one server that works off tokens in order of arrival.
//!
//! Left out: batching, caches and everything else that an engine does. The number says how hard bursts and long requests
//! press together, whatever the server, and compares a trace with its twin. Lindley 1952: `W' = max(0, W + S - A)`.

use crate::workload::Request;

/// What one request is to that server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) arrival_s: f64,
    pub(super) tokens: f64,
}

impl From<&Request> for Job {
    fn from(request: &Request) -> Job {
        Job {
            arrival_s: request.arrival.seconds(),
            tokens: f64::from(request.prompt_tokens) + f64::from(request.output_tokens),
        }
    }
}

/// Share of the time that the server is busy.
const LOAD: f64 = 0.7;
/// Fewer requests have no 99th percentile.
const REQUESTS_MIN: usize = 100;

/// 99th percentile of the wait in seconds of jobs in order of arrival, the clock counted from 0; `None` where all arrive
/// at once, or too few.
pub(super) fn p99_wait_s(jobs: &[Job]) -> Option<f64> {
    let span_s = jobs.last()?.arrival_s;
    let tokens_per_s = jobs.iter().map(|job| job.tokens).sum::<f64>() / span_s / LOAD;
    if !(span_s > 0.0 && tokens_per_s > 0.0) || jobs.len() < REQUESTS_MIN {
        return None;
    }
    let mut free_at = 0.0f64;
    let mut waits: Vec<f64> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let begin = free_at.max(job.arrival_s);
        waits.push(begin - job.arrival_s);
        free_at = begin + job.tokens / tokens_per_s;
    }
    let rank = (0.99 * waits.len() as f64).ceil() as usize;
    let (_, wait_s, _) = waits.select_nth_unstable_by(rank.saturating_sub(1), f64::total_cmp);
    Some(*wait_s)
}

#[cfg(test)]
mod tests {
    use super::super::twin;
    use super::*;

    #[test]
    fn poisson_arrivals_of_equal_requests_wait_as_md1_says() {
        let times = twin::arrivals(1000.0, &[1.0], 1.0, 200_000, 7);
        let job = |arrival_s| Job {
            arrival_s,
            tokens: 1000.0,
        };
        let jobs: Vec<Job> = times.into_iter().map(job).collect();
        let wait_s = p99_wait_s(&jobs).unwrap();
        // M/D/1 at a load of 0.7, service 0.7 s: P(W > x) ~ 0.3/(0.7·e^y - 1)·exp(-x·y/0.7), where y = 0.6743 is the root
        // of 0.7·(e^y - 1) = y (Erlang 1909; Tijms 2003, section 9.2.3).
        let y = 0.6743f64;
        let tail = |x: f64| 0.3 / (0.7 * y.exp() - 1.0) * (-x * y / 0.7).exp();
        assert!(
            (tail(wait_s) / 0.01).ln().abs() < 0.15,
            "{wait_s}: {}",
            tail(wait_s)
        );
    }

    #[test]
    fn what_arrives_at_once_has_no_load() {
        let at_once = Job {
            arrival_s: 0.0,
            tokens: 2.0,
        };
        assert_eq!(p99_wait_s(&[at_once; 200]), None);
    }
}
