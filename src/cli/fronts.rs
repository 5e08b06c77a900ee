//! What there is to say of the API servers around the engines: how much of their time requests and tokens take.

use crate::analysis::knee::FRONT_END_FULL;
use crate::analysis::{Outcome, RunResult};
use crate::cluster::{Asked, Frontend};
use crate::config::Resolved;
use crate::metrics::{ReplicaSummary, Summary, WorkCounters, of_pools};
use crate::report::EngineWords;
use crate::report::figures::{count, percent};
use crate::sim::Pool;
use crate::units::Picos;

/// What one API server process was seen to stream at most, tokens a second: 14,300 and 16,000 of a small model on an A100
/// (vllm-project/vllm#12287). A run above that has a caveat.
const STREAMED_BY_ONE: f64 = 14_000.0;

/// The API servers of a pool's replicas, and what the busiest of them had to do.
struct Front<'a> {
    /// Empty for the one pool of a scenario without any.
    pool: &'a str,
    frontend: Frontend,
    /// Output tokens of the replica that streamed most.
    most_tokens: u64,
    /// Pieces that it would stream them in, if none waited for another.
    most_pieces: u64,
    /// Requests of the replica that took most.
    most_requests: u64,
    /// Mean tokens of a prompt.
    prompt_tokens: f64,
    /// The flag that gives it more of them, where the engine has one.
    more: Option<&'static str>,
}

/// Each pool's.
fn fronts<'a>(resolved: &'a Resolved, outcome: &Outcome) -> Vec<Front<'a>> {
    let result = &outcome.result;
    let whole = &result.whole;
    let pools = &resolved.scenario.pools;
    let replicas = of_pools(&result.by_replica, pools.iter().map(|pool| pool.replicas));
    let front = |(index, (pool, own)): (usize, (&'a Pool, Option<&[ReplicaSummary]>))| {
        let own = own.unwrap_or_default();
        // What processes of all have to do is what all do.
        let most = |of: fn(&ReplicaSummary) -> u64| match pool.frontend.is_shared {
            true => None,
            false => own.iter().map(of).max(),
        };
        // What each replica did is told where there are several.
        let most_tokens = most(|replica| replica.output_tokens).unwrap_or(whole.output_tokens);
        Front {
            pool: &pool.name,
            frontend: pool.frontend,
            most_tokens,
            most_pieces: match pools.len() {
                1 => (most_tokens as f64 * pieces_per_token(whole)).round() as u64,
                _ => most_tokens,
            },
            most_requests: most(|replica| replica.admitted).unwrap_or(whole.completed),
            prompt_tokens: prompt_tokens(result, index),
            more: EngineWords::of(&pool.engine).more_api_servers,
        }
    };
    pools.iter().zip(replicas).enumerate().map(front).collect()
}

/// Pieces that leave an engine for each token of an answer: fewer where it speculates, as many as sequences in a step, and more where
/// answers are given up, whose tokens are in no answer. A request's first piece comes with its prefill.
pub(super) fn pieces_per_token(whole: &Summary) -> f64 {
    if whole.output_tokens == 0 {
        return 1.0;
    }
    let pieces = whole.work.decodes() + whole.completed;
    let each = pieces as f64 / whole.output_tokens as f64;
    // Batches that are closed decode for those who are through, too, and hand nothing on.
    match whole.timed_out + whole.failed {
        0 => each.min(1.0),
        _ => each,
    }
}

/// Mean tokens of the prompts of a pool, of which only those that were answered are known.
pub(super) fn prompt_tokens(result: &RunResult, pool: usize) -> f64 {
    let whole = (result.whole.input_tokens, result.whole.completed);
    let own = result.by_pool.get(pool).filter(|own| own.completed > 0);
    let (tokens, requests) = own.map_or(whole, |own| (own.input_tokens, own.completed));
    tokens as f64 / requests.max(1) as f64
}

/// All of it; nothing where no time passed in which anything could be asked of them.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Vec<String> {
    if outcome.result.whole.duration_s <= 0.0 {
        return Vec::new();
    }
    let fronts = fronts(resolved, outcome);
    let duration_s = outcome.result.whole.duration_s;
    let mut said = busy(&fronts, duration_s);
    said.extend(streaming(&fronts, duration_s));
    said
}

/// Shares of the API servers of a pool's replica that what is asked of all of the pool takes, whose largest batch is one replica's: of
/// their time if every token is a piece of its own, and of what they can do at most.
pub(super) fn asked(pool: &Pool, of_all: Asked) -> (f64, f64) {
    let fronts = f64::from(match pool.frontend.is_shared {
        true => 1,
        false => pool.replicas.max(1),
    });
    let asked = Asked {
        requests_per_s: of_all.requests_per_s / fronts,
        output_tokens_per_s: of_all.output_tokens_per_s / fronts,
        ..of_all
    };
    (pool.frontend.taken_by(asked).whole(), pool.frontend.asked(asked))
}

/// Mean sequences that a step decodes.
pub(super) fn decoded_at_once(work: &WorkCounters) -> f64 {
    work.decodes() as f64 / work.steps.max(1) as f64
}

fn of_pool(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" of {name}"),
    }
}

/// How every sentence on API servers that are busy begins.
const BUSY: &str = "API servers";

/// And what the sentence on those that are behind goes on with.
const BEHIND: &str = "would take";

/// Whether a run's note says that its API servers are busy.
pub(super) fn is_on_busy_ones(note: &str) -> bool {
    note.starts_with(BUSY)
}

/// Whether such a note is on API servers that are behind.
pub(super) fn is_on_those_behind(note: &str) -> bool {
    note.contains(BEHIND)
}

/// Says where requests and tokens wait for each other.
fn busy(fronts: &[Front<'_>], duration_s: f64) -> Vec<String> {
    let said = fronts.iter().filter_map(|front| {
        let per_s = |count: u64| count as f64 / duration_s;
        let taken = front.frontend.taken(
            per_s(front.most_requests),
            front.prompt_tokens,
            per_s(front.most_pieces),
        );
        if taken.whole() < FRONT_END_FULL {
            return None;
        }
        let servers = f64::from(front.frontend.servers.get());
        let more = front.more.map_or(String::new(), |flag| {
            format!(
                "; at this throughput {flag} {:.0} would have them busy for half of it",
                (2.0 * taken.whole() * servers).ceil()
            )
        });
        let parts = format!(
            "{} for tokens that they hand on and {} for requests that come in, of {:.0} prompt tokens each",
            percent(taken.by_tokens),
            percent(taken.by_requests),
            front.prompt_tokens
        );
        let of_pool = of_pool(front.pool);
        Some(match taken.whole() < 1.0 {
            true => format!(
                "{BUSY}{of_pool} have work for {} of the time, {parts}: they wait for each other there{more}",
                percent(taken.whole())
            ),
            false => format!(
                "{BUSY}{of_pool} {BEHIND} {} of the time to write every token by itself, {parts}: they are behind, and write several tokens \
                 of an answer as one piece{}{more}",
                percent(taken.whole()),
                as_long_as(front, taken.whole())
            ),
        })
    });
    said.collect()
}

/// Up to which batch processes that are behind can catch up, and what becomes of them beyond it, where writing each token by itself would
/// take a share of `alone`; nothing where no batch is too large.
fn as_long_as(front: &Front<'_>, alone: f64) -> String {
    let frontend = &front.frontend;
    if frontend.outputs_at_once == u32::MAX || frontend.per_output_token == Picos::ZERO {
        return String::new();
    }
    let servers = u64::from(frontend.servers.get());
    let alone_per_s = servers as f64 / frontend.per_handed_token().seconds();
    format!(
        ". That ends with steps of more than {} outputs (output_proc_chunk_size, VLLM_V1_OUTPUT_PROC_CHUNK_SIZE, for each process): from then on no more than {} \
         tokens/s leave, and a backlog, whatever it came from, stays until requests come at less than {} of this rate",
        count(u64::from(frontend.outputs_at_once) * servers),
        count(alone_per_s as u64),
        percent(1.0 / alone)
    )
}

/// Says where a replica streams more than its API servers were seen to keep up with.
fn streaming(fronts: &[Front<'_>], duration_s: f64) -> Vec<String> {
    let said = fronts.iter().filter_map(|front| {
        let tokens_per_s = front.most_tokens as f64 / duration_s;
        let each = tokens_per_s / f64::from(front.frontend.servers.get());
        let so_far = match front.frontend.per_output_token {
            Picos::ZERO => format!(
                "and this calibration has no time for one (per_output_token_us): clients may see tokens later than here \
                 (--api-server-count {:.0} would do, or a longer --stream-interval)",
                (tokens_per_s / STREAMED_BY_ONE).ceil()
            ),
            _ => "and how many tokens a chunk holds when it is behind is assumed".to_owned(),
        };
        (each > STREAMED_BY_ONE).then(|| {
            format!(
                "each API server process{} hands on {} tokens/s; one of vLLM's was seen to reach 14,000 to 16,000 in chunks of one token \
                 (vllm#12287), {so_far}",
                of_pool(front.pool),
                count(each.round() as u64)
            )
        })
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    /// 1 ms a request and 4 µs a prompt token.
    fn front(pool: &str, servers: u32) -> Front<'_> {
        Front {
            pool,
            frontend: Frontend {
                servers: NonZeroU32::new(servers).unwrap(),
                request_service: Picos(1_000_000_000),
                per_prompt_token: Picos(4_000_000),
                ..Frontend::default()
            },
            most_tokens: 0,
            most_pieces: 0,
            most_requests: 0,
            prompt_tokens: 1000.0,
            more: Some("--api-server-count"),
        }
    }

    #[test]
    fn api_servers_are_judged_by_what_their_own_replica_streams() {
        let front = |pool, servers, most_tokens| Front {
            most_tokens,
            ..front(pool, servers)
        };
        // 64 replicas that stream 8 million tokens in ten seconds together stream 12,500 a second each.
        assert!(streaming(&[front("", 1, 125_000)], 10.0).is_empty());
        let said = streaming(&[front("chat", 2, 200_000), front("code", 1, 200_000)], 10.0);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("each API server process of code hands on 20,000 tokens/s"));
        assert!(said[0].contains("--api-server-count 2 would do"));
    }

    #[test]
    fn api_servers_that_are_busy_are_told_of() {
        let front = |servers, most_requests| Front {
            most_requests,
            ..front("", servers)
        };
        // 5 ms each: 150 a second are three quarters of one process, 180 are nine tenths.
        assert!(busy(&[front(1, 1500)], 10.0).is_empty());
        let said = busy(&[front(1, 1800)], 10.0);
        assert!(
            said[0].starts_with(
                "API servers have work for 90.0 % of the time, 0 % for tokens that they hand on and 90.0 % for requests that come in, of 1000"
            ),
            "{said:?}"
        );
        assert!(said[0].contains("--api-server-count 2 would"), "{said:?}");
        assert!(busy(&[front(2, 1800)], 10.0).is_empty());
        // And 8,000 tokens a second of 60 µs in two are nearly half a process each.
        let streaming = Frontend {
            per_output_token: Picos(60_000_000),
            ..front(2, 0).frontend
        };
        let handing_on = Front {
            most_pieces: 80_000,
            frontend: streaming,
            ..front(2, 1800)
        };
        let said = busy(&[handing_on], 10.0);
        assert!(said.is_empty(), "0.45 and 0.24: {said:?}");
        // 80,000 a second in the two would take more time than there is.
        let behind = Front {
            most_pieces: 800_000,
            frontend: Frontend {
                outputs_at_once: 128,
                ..streaming
            },
            ..front(2, 1800)
        };
        let said = busy(&[behind], 10.0);
        assert!(
            said[0].starts_with("API servers would take 285 % of the time"),
            "{said:?}"
        );
        assert!(
            said[0].contains("more than 256 outputs") && said[0].contains("33,333 tokens/s"),
            "{said:?}"
        );
        assert!(is_on_busy_ones(&said[0]) && is_on_those_behind(&said[0]));
    }
}
