//! The metrics of one engine, as vLLM's `PrometheusStatLogger.record` keeps them (`vllm/v1/metrics/loggers.py`, vLLM 0.33).

use super::super::gaps;
use super::buckets;
use super::histogram::Histogram;
use super::life::{AtServer, Life};
use crate::engine::EngineSpec;
use crate::sim::Steps;
use crate::units::Picos;

/// What is known of an engine before it runs.
#[derive(Clone, Debug)]
pub struct EngineInfo {
    /// The pool that it is of.
    pub pool: String,
    /// The model that it serves.
    pub model: String,
    /// Engine and version, `vllm@0.33`.
    pub profile: String,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV blocks as the engine counts them.
    pub num_gpu_blocks: u32,
    /// Those of them that sequences can use.
    pub usable_blocks: u32,
    /// Longest sequence.
    pub max_model_len: u32,
    /// Prompts are looked up in a prefix cache.
    pub enable_prefix_caching: bool,
}

impl EngineInfo {
    /// Of an engine with these flags.
    #[must_use]
    pub fn of(pool: &str, model: &str, engine: &EngineSpec) -> EngineInfo {
        EngineInfo {
            pool: pool.to_owned(),
            model: model.to_owned(),
            profile: engine.profile().to_owned(),
            block_size: engine.block_size(),
            num_gpu_blocks: engine.num_gpu_blocks(),
            usable_blocks: engine.usable_blocks(),
            max_model_len: engine.max_model_len(),
            enable_prefix_caching: engine.caches_prefixes(),
        }
    }
}

/// Why a request was done, in the order of vLLM's `FinishReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-sequence token.
    Stop,
    /// `max_tokens` or `max_model_len`.
    Length,
}

/// What a scrape shows of one engine. Counters and histograms count from the start of the run.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    /// The engine.
    pub info: EngineInfo,
    /// Requests in the batch.
    pub running: u64,
    /// Requests that wait for their turn.
    pub waiting: u64,
    /// Requests that wait for nothing but their KV from another replica.
    pub deferred: u64,
    /// Share of the usable KV blocks that was in use at the end of the last step told.
    pub kv_usage: f64,
    /// Tokens looked up in the prefix cache by requests that were admitted for the first time.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Tokens that were asked for outside, behind what was found here.
    pub external_queries: u64,
    /// Those of them that came from tiers of KV.
    pub tier_hits: u64,
    /// Those of them that came from the replica that prefilled.
    pub replica_hits: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens of requests that have their first token: computed here, cached here, from elsewhere.
    pub prompt_tokens: [u64; 3],
    /// Output tokens.
    pub generation_tokens: u64,
    /// Requests that are done, by [`FinishReason`].
    pub success: [u64; 2],
    /// Prompt tokens of requests that are done.
    pub request_prompt_tokens: Histogram,
    /// Output tokens of requests that are done.
    pub request_generation_tokens: Histogram,
    /// `max_tokens` of requests that are done.
    pub request_max_tokens: Histogram,
    /// `n` of requests that are done: one answer each.
    pub request_n: Histogram,
    /// Preemptions of requests that are done.
    pub request_preemptions: Histogram,
    /// Prompt tokens that were computed for requests that are done.
    pub request_prefill_computed: Histogram,
    /// Tokens of steps that brought any.
    pub iteration_tokens: Histogram,
    /// Time to the first token.
    pub ttft: Histogram,
    /// Gaps between tokens.
    pub itl: Histogram,
    /// Mean gap of each request that is done, 0 of answers of one token.
    pub tpot: Histogram,
    /// From when the server had a request until it was done.
    pub e2e: Histogram,
    /// From the engine's queue to the first step.
    pub queue: Histogram,
    /// From the first step to the first token.
    pub prefill: Histogram,
    /// From the first token to the last.
    pub decode: Histogram,
    /// From the first step to the last token.
    pub inference: Histogram,
    /// The step whose tokens are being told: when it ended, and how many so far.
    open: Option<(Picos, u64)>,
}

impl EngineMetrics {
    pub(super) fn new(info: EngineInfo) -> EngineMetrics {
        let tokens = Histogram::of_numbers(&buckets::request_tokens(info.max_model_len));
        let stay = Histogram::of_times(&buckets::REQUEST_LATENCY);
        let gaps = Histogram::of_times(&buckets::INTER_TOKEN_LATENCY);
        EngineMetrics {
            info,
            running: 0,
            waiting: 0,
            deferred: 0,
            kv_usage: 0.0,
            prefix_queries: 0,
            prefix_hits: 0,
            external_queries: 0,
            tier_hits: 0,
            replica_hits: 0,
            preemptions: 0,
            prompt_tokens: [0; 3],
            generation_tokens: 0,
            success: [0; 2],
            request_prompt_tokens: tokens.clone(),
            request_generation_tokens: tokens.clone(),
            request_max_tokens: tokens.clone(),
            request_n: Histogram::of_numbers(&buckets::REQUEST_PARAMS_N),
            request_preemptions: Histogram::of_numbers(&buckets::REQUEST_NUM_PREEMPTIONS),
            request_prefill_computed: tokens,
            iteration_tokens: Histogram::of_numbers(&buckets::ITERATION_TOKENS),
            ttft: Histogram::of_times(&buckets::TIME_TO_FIRST_TOKEN),
            itl: gaps.clone(),
            tpot: gaps,
            e2e: stay.clone(),
            queue: stay.clone(),
            prefill: stay.clone(),
            decode: stay.clone(),
            inference: stay,
            open: None,
        }
    }

    /// Steps were executed. Whoever has a token of the last one and no gap in common is told of behind it.
    pub(super) fn steps(&mut self, steps: &Steps<'_>) {
        let seqs = u64::from(steps.gap_seqs);
        if seqs > 0 {
            for run in gaps::of_steps(steps) {
                self.itl.add_run(&run, seqs);
            }
            self.generation_tokens += seqs * steps.count;
            self.close_step();
            self.iteration_tokens.add(seqs, steps.count - 1);
            self.open = Some((steps.end, seqs));
        }
        let usable = f64::from(self.info.usable_blocks);
        let later = u64::from(steps.kv_slots) * (steps.count - 1);
        let used = f64::from(self.info.usable_blocks.saturating_sub(steps.free_blocks))
            + later as f64 / f64::from(self.info.block_size);
        self.kv_usage = used.min(usable) / usable;
    }

    /// Whoever is scheduled for the first time has `loaded` tokens from outside, behind `cached` that were found here.
    pub(super) fn looked_outside(&mut self, at_server: &mut AtServer, cached: u32, loaded: u32) {
        let known = at_server.known_tokens;
        let asked = known.saturating_sub(cached);
        let mut came = loaded;
        if at_server.is_handed_over {
            // All of it came, of which the last token is computed again for what it gives.
            if loaded + 1 == asked {
                came = asked;
            }
            if self.info.enable_prefix_caching {
                self.prefix_queries += u64::from(known);
                self.prefix_hits += u64::from(cached);
            }
            self.replica_hits += u64::from(came);
        } else {
            self.tier_hits += u64::from(came);
        }
        self.external_queries += u64::from(asked);
        at_server.cached_tokens = cached;
        at_server.loaded_tokens = Some(came);
    }

    /// Output tokens came at `now`, and so many prompt tokens were computed for them.
    pub(super) fn tokens_at(&mut self, now: Picos, outputs: u64, prompt_tokens: u64) {
        self.generation_tokens += outputs;
        let tokens = outputs + prompt_tokens;
        match &mut self.open {
            Some((end, open)) if *end == now => *open += tokens,
            _ => {
                self.close_step();
                self.open = Some((now, tokens));
            }
        }
    }

    /// No more is told of the last step.
    pub(super) fn close_step(&mut self) {
        if let Some((_, tokens)) = self.open.take() {
            self.iteration_tokens.add(tokens, 1);
        }
    }

    /// A request has its first token on this server.
    pub(super) fn first_token(&mut self, life: &mut Life, now: Picos) {
        let by_source = life.prompt_by_source();
        for (sum, tokens) in self.prompt_tokens.iter_mut().zip(by_source) {
            *sum += tokens;
        }
        life.at_server.first_token = Some(now);
        self.ttft.add_time(now.saturating_sub(life.at_server.arrival));
        self.tokens_at(now, 1, by_source[0]);
    }

    /// A request is done here, with so many output tokens.
    pub(super) fn done(&mut self, life: &Life, end: Picos, reason: FinishReason, output_tokens: u32) {
        let at_server = &life.at_server;
        let (queued, scheduled) = at_server.scheduled.unwrap_or((end, end));
        let first_token = at_server.first_token.unwrap_or(end);
        let decode = end.saturating_sub(first_token);
        self.success[reason as usize] += 1;
        self.e2e.add_time(end.saturating_sub(at_server.arrival));
        self.queue.add_time(scheduled.saturating_sub(queued));
        self.prefill.add_time(first_token.saturating_sub(scheduled));
        self.inference.add_time(end.saturating_sub(scheduled));
        self.decode.add_time(decode);
        let gaps = u64::from(output_tokens.saturating_sub(1));
        self.tpot.add(decode.0.checked_div(gaps).unwrap_or(0), 1);
        self.request_prompt_tokens.add(life.prompt_tokens.into(), 1);
        self.request_generation_tokens.add(output_tokens.into(), 1);
        self.request_max_tokens.add(life.max_tokens.into(), 1);
        self.request_n.add(1, 1);
        self.request_preemptions.add(at_server.preemptions.into(), 1);
        self.request_prefill_computed.add(life.prompt_by_source()[0], 1);
    }
}
