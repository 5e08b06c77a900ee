//! The API server around an engine: what happens to a request before the engine sees it and to an answer after.
//!
//! vLLM's API server is one process with one event loop (V1-79, V1-82; `vllm serve`, `--api-server-count` says how
//! many such processes). Parsing, templating and tokenizing hold that loop, so requests wait for each other there:
//! a server with a queue in order of arrival and a known time for each request. What waits for the network or for
//! another thread holds nobody up and is a plain delay.
//! Tokens that go out take time in the same loop ([`super::streaming`]): one process was seen to stream 11,000 to 16,000 a second
//! (vllm-project/vllm#12287, #12298; `docs/probe.md`). Law: requests reach the engine in the order in which they were sent.

use std::num::NonZeroU32;

use super::streaming::Work;
use crate::cost::calibration::{Calibration, Host};
use crate::engine::Untold;
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
    /// Time of one output token in its process, if each is a piece of its own.
    pub per_output_token: Picos,
    /// `--stream-interval`: tokens that go out in one piece.
    pub stream_interval: NonZeroU32,
    /// Most outputs of a step that one process puts to their streams before any of those runs.
    pub outputs_at_once: u32,
    /// From the client's send to the engine's input queue, beside that: nobody waits for it but the request itself.
    pub request_delay: Picos,
    /// From the end of a step to the client.
    pub response_delay: Picos,
}

/// Shares of the time of API servers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Taking requests in.
    pub by_requests: f64,
    /// Handing tokens on.
    pub by_tokens: f64,
}

/// What comes to the API servers of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Requests.
    pub requests_per_s: f64,
    /// Mean tokens of their prompts.
    pub prompt_tokens: f64,
    /// Tokens to hand on.
    pub output_tokens_per_s: f64,
    /// Mean sequences that a step decodes.
    pub batch: f64,
    /// Most of them.
    pub largest_batch: f64,
}

impl Taken {
    /// Both.
    #[must_use]
    pub fn whole(&self) -> f64 {
        self.by_requests + self.by_tokens
    }
}

impl Default for Frontend {
    /// No front end: the client calls the engine in its own process.
    fn default() -> Frontend {
        Frontend {
            servers: NonZeroU32::MIN,
            is_shared: false,
            request_service: Picos::ZERO,
            per_prompt_token: Picos::ZERO,
            per_output_token: Picos::ZERO,
            stream_interval: NonZeroU32::MIN,
            outputs_at_once: u32::MAX,
            request_delay: Picos::ZERO,
            response_delay: Picos::ZERO,
        }
    }
}

/// Of the time of a token that is a piece of its own, what the piece takes (the event for its stream, JSON, writing) rather than the
/// token: a half to four fifths (docs/probe.md).
const PIECE: f64 = 2.0 / 3.0;

impl Frontend {
    /// The same processes under a calibration: by the host terms of that engine, else by vLLM's, whose API server the
    /// others' resemble most; nothing where there are none.
    #[must_use]
    pub fn under(&self, calibration: &Calibration, engine: &str) -> Frontend {
        Frontend {
            servers: self.servers,
            is_shared: self.is_shared,
            stream_interval: self.stream_interval,
            outputs_at_once: self.outputs_at_once,
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
            request_service: time(host.request_serial_ms * 1e-3),
            per_prompt_token: time(host.per_prompt_token_us * 1e-6),
            per_output_token: time(host.per_output_token_us * 1e-6),
            request_delay: time(host.request_ms * 1e-3),
            response_delay: time(host.response_ms * 1e-3),
            ..Frontend::default()
        }
    }

    /// What an output token takes of one process, where the piece that holds it holds others, too.
    #[must_use]
    pub fn per_token_of_many(&self) -> Picos {
        Picos((self.per_output_token.0 as f64 * (1.0 - PIECE)).round() as u64)
    }

    /// What an output token takes of one process, with its share of a piece of several.
    #[must_use]
    pub fn per_handed_token(&self) -> Picos {
        let pieces = 1.0 / f64::from(self.stream_interval.get());
        let share = 1.0 - PIECE + PIECE * pieces;
        Picos((self.per_output_token.0 as f64 * share).round() as u64)
    }

    /// Shares of its processes' time that so many requests a second take with prompts of so many tokens on average, and so many output
    /// tokens a second if each were a piece of its own. From 1 on, both together, tokens go out several in one piece where they may
    /// ([`Frontend::asked`]), and pile up where they may not.
    #[must_use]
    pub fn taken(&self, requests_per_s: f64, prompt_tokens: f64, output_tokens_per_s: f64) -> Taken {
        let each_s = self.request_service.seconds() + self.per_prompt_token.seconds() * prompt_tokens;
        let servers = f64::from(self.servers.get());
        Taken {
            by_requests: requests_per_s * each_s / servers,
            by_tokens: output_tokens_per_s * self.per_handed_token().seconds() / servers,
        }
    }

    /// The same of what comes.
    #[must_use]
    pub fn taken_by(&self, asked: Asked) -> Taken {
        self.taken(
            asked.requests_per_s,
            asked.prompt_tokens,
            asked.output_tokens_per_s,
        )
    }

    /// Share of what its processes can do at most that is asked of them; from 1 on they fall behind for good. The outputs of small batches
    /// go out several tokens in one piece before that; one batch too large for it makes each token a piece, whose time they do not have.
    #[must_use]
    pub fn asked(&self, asked: Asked) -> f64 {
        let taken = self.taken_by(asked);
        let servers = f64::from(self.servers.get());
        let at_once = f64::from(self.outputs_at_once) * servers;
        let falls_behind = asked.largest_batch > at_once && taken.whole() >= 1.0;
        let by_tokens = match asked.batch <= at_once && !falls_behind {
            true => asked.output_tokens_per_s * self.per_token_of_many().seconds() / servers,
            false => taken.by_tokens,
        };
        taken.by_requests + by_tokens
    }
}

/// The processes of a front end as they work: O(their number) a request.
pub(crate) struct Entrance {
    frontend: Frontend,
    /// When each process is done with all that it has taken.
    free: Vec<Picos>,
    /// Entry time of the last request into the engine.
    last: Picos,
}

impl Entrance {
    pub(crate) fn new(frontend: Frontend) -> Entrance {
        Entrance {
            free: vec![Picos::ZERO; frontend.servers.get() as usize],
            last: Picos::ZERO,
            frontend,
        }
    }

    /// How long a request holds its process.
    #[inline]
    pub(crate) fn work(&self, prompt_tokens: u32) -> Picos {
        self.frontend.request_service + self.frontend.per_prompt_token * u64::from(prompt_tokens)
    }

    /// When the engine's queue has a request that was sent now.
    #[inline]
    pub(crate) fn pass(&mut self, now: Picos, prompt_tokens: u32) -> Picos {
        let work = self.work(prompt_tokens);
        let free = self.free.iter_mut().min().expect("a front end has a process");
        *free = now.max(*free) + work;
        self.last = (*free + self.frontend.request_delay).max(self.last);
        self.last
    }

    /// The one process has other things to do until then.
    #[inline]
    pub(crate) fn is_free_from(&mut self, at: Picos) {
        self.free[0] = at;
    }

    /// All that was to be done is lost.
    pub(crate) fn restart(&mut self) {
        self.free.fill(Picos::ZERO);
    }

    /// Tokens of a run of steps are handed on, by each process its share. They stand before requests that are sent later.
    pub(crate) fn hand_on(&mut self, run: &Untold, work: Work) {
        for free in &mut self.free {
            *free = work.all_done(*free, run);
        }
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
            per_output_token: Picos(60_000_000),
            ..Frontend::default()
        };
        // 40 requests of 10 + 1,000 · 0.01 ms in two processes.
        let taken = frontend.taken(40.0, 1000.0, 8000.0);
        assert!((taken.by_requests - 0.4).abs() < 1e-12);
        // 8,000 tokens of 60 µs in two.
        assert!((taken.by_tokens - 0.24).abs() < 1e-9, "{taken:?}");
        // Pieces of ten tokens: a third of the time is the tokens', and a tenth of the rest.
        let in_tens = Frontend {
            stream_interval: NonZeroU32::new(10).unwrap(),
            ..frontend
        };
        let taken = in_tens.taken(0.0, 0.0, 8000.0);
        assert!((taken.whole() - 0.24 * 0.4).abs() < 1e-9, "{taken:?}");
        // Both can do more in steps whose outputs are put to their streams at once: a third of the time for each token.
        let sliced = Frontend {
            outputs_at_once: 128,
            ..frontend
        };
        let asked = |output_tokens_per_s, batch, largest_batch| {
            sliced.asked(Asked {
                requests_per_s: 40.0,
                prompt_tokens: 1000.0,
                output_tokens_per_s,
                batch,
                largest_batch,
            })
        };
        let is = |share: f64, expected: f64| assert!((share - expected).abs() < 1e-9, "{share} {expected}");
        is(asked(8000.0, 256.0, 256.0), 0.4 + 0.08);
        is(asked(8000.0, 257.0, 257.0), 0.64);
        // 24,000 tokens a second are 0.72 of two processes piece by piece and 0.24 many in one, until one batch is too large for that.
        is(asked(8000.0, 200.0, 300.0), 0.4 + 0.08);
        is(asked(24000.0, 200.0, 256.0), 0.4 + 0.24);
        is(asked(24000.0, 200.0, 257.0), 0.4 + 0.72);
    }

    fn entrance(servers: u32) -> Entrance {
        Entrance::new(Frontend {
            servers: NonZeroU32::new(servers).unwrap(),
            request_service: Picos(10),
            per_prompt_token: Picos(2),
            request_delay: Picos(100),
            ..Frontend::default()
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
