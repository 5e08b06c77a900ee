//! The API server around an engine: what happens to a request before the engine sees it and to an answer after.
//!
//! vLLM's API server is one process with one event loop (V1-79, V1-82; `vllm serve`, `--api-server-count` says how
//! many such processes). Parsing, templating and tokenizing hold that loop, so requests wait for each other there:
//! a server with a queue in order of arrival and a known time for each request. What waits for the network or for
//! another thread holds nobody up and is a plain delay.
//! Left out: the work for each streamed token, which shares the loop. Without measured rows that show it, it would be
//! a guess; one process was seen to stream 14,000 to 16,000 tokens a second (vllm-project/vllm#12287, #12298).
//! Law: requests reach the engine in the order in which they were sent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use crate::cost::calibration::{Calibration, Host};
use crate::units::Picos;

/// What the API server adds around an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// `--api-server-count`: processes that share the requests.
    pub servers: NonZeroU32,
    /// The replicas are engines of one data-parallel server, and these processes are those of all.
    pub is_shared: bool,
    /// Time of one request in its process, during which no other gets on there.
    pub request_service: Picos,
    /// Added to that for each prompt token.
    pub per_prompt_token: Picos,
    /// From the client's send to the engine's input queue, beside that: nobody waits for it but the request itself.
    pub request_delay: Picos,
    /// From the end of a step to the client.
    pub response_delay: Picos,
}

impl Default for Frontend {
    /// No front end: the client calls the engine in its own process.
    fn default() -> Frontend {
        Frontend {
            servers: NonZeroU32::MIN,
            is_shared: false,
            request_service: Picos::ZERO,
            per_prompt_token: Picos::ZERO,
            request_delay: Picos::ZERO,
            response_delay: Picos::ZERO,
        }
    }
}

impl Frontend {
    /// The same processes under a calibration: by the host terms of that engine, else by vLLM's, whose API server the
    /// others' resemble most; nothing where there are none.
    #[must_use]
    pub fn under(&self, calibration: &Calibration, engine: &str) -> Frontend {
        Frontend {
            servers: self.servers,
            is_shared: self.is_shared,
            ..calibration
                .host_of(engine)
                .map_or_else(Frontend::default, Frontend::of)
        }
    }

    /// One process under a host's terms.
    fn of(host: &Host) -> Frontend {
        let time = |seconds: f64| {
            Picos::try_from_seconds(seconds).expect("calibrations hold finite, non-negative delays")
        };
        Frontend {
            servers: NonZeroU32::MIN,
            is_shared: false,
            request_service: time(host.request_serial_ms * 1e-3),
            per_prompt_token: time(host.per_prompt_token_us * 1e-6),
            request_delay: time(host.request_ms * 1e-3),
            response_delay: time(host.response_ms * 1e-3),
        }
    }

    /// Share of its processes' time that so many requests a second take whose prompts have so many tokens on average. From 1 on
    /// they pile up before the engine.
    #[must_use]
    pub fn taken(&self, requests_per_s: f64, prompt_tokens: f64) -> f64 {
        let each_s = self.request_service.seconds() + self.per_prompt_token.seconds() * prompt_tokens;
        requests_per_s * each_s / f64::from(self.servers.get())
    }
}

/// The processes of a front end as they work: O(log of their number) a request.
pub(crate) struct Entrance {
    frontend: Frontend,
    /// When each process is done with all that it has taken.
    free: BinaryHeap<Reverse<Picos>>,
    /// Entry time of the last request into the engine.
    last: Picos,
}

impl Entrance {
    pub(crate) fn new(frontend: Frontend) -> Entrance {
        Entrance {
            free: (0..frontend.servers.get())
                .map(|_| Reverse(Picos::ZERO))
                .collect(),
            last: Picos::ZERO,
            frontend,
        }
    }

    /// When the engine's queue has a request that was sent now.
    #[inline]
    pub(crate) fn pass(&mut self, now: Picos, prompt_tokens: u32) -> Picos {
        let work = self.frontend.request_service + self.frontend.per_prompt_token * u64::from(prompt_tokens);
        let Reverse(free) = self.free.pop().expect("a front end has a process");
        let done = now.max(free) + work;
        self.free.push(Reverse(done));
        self.last = (done + self.frontend.request_delay).max(self.last);
        self.last
    }

    pub(crate) fn response_delay(&self) -> Picos {
        self.frontend.response_delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_what_requests_take() {
        let frontend = Frontend {
            servers: NonZeroU32::new(2).unwrap(),
            request_service: Picos(10_000_000_000),
            per_prompt_token: Picos(10_000_000),
            ..Frontend::default()
        };
        // 40 requests of 10 + 1,000 · 0.01 ms in two processes.
        assert!((frontend.taken(40.0, 1000.0) - 0.4).abs() < 1e-12);
    }

    fn entrance(servers: u32) -> Entrance {
        Entrance::new(Frontend {
            servers: NonZeroU32::new(servers).unwrap(),
            is_shared: false,
            request_service: Picos(10),
            per_prompt_token: Picos(2),
            request_delay: Picos(100),
            response_delay: Picos::ZERO,
        })
    }

    #[test]
    fn requests_wait_for_each_other_in_one_process_and_not_for_the_delay() {
        let mut one = entrance(1);
        let burst: Vec<u64> = (0..3).map(|_| one.pass(Picos(0), 5).0).collect();
        assert_eq!(burst, [120, 140, 160]);
        // Once the process is idle, a request finds it free.
        assert_eq!(one.pass(Picos(1000), 5), Picos(1120));
    }

    #[test]
    fn more_processes_share_a_burst_and_keep_its_order() {
        let mut two = entrance(2);
        // The first prompt is long: the second one overtakes nobody.
        assert_eq!(two.pass(Picos(0), 45), Picos(200));
        assert_eq!(two.pass(Picos(0), 5), Picos(200));
        assert_eq!(two.pass(Picos(0), 5), Picos(200));
        assert_eq!(two.pass(Picos(85), 5), Picos(205));
    }
}
