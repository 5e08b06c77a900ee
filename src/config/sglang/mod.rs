//! SGLang's flags: given, by profile, or derived as the server derives them at start-up.

mod attention;
mod backend;
mod data_parallel;
mod drafts;
mod foreign;
mod graphs;
mod memory;
mod profile;
mod queue;
mod sizes;
mod speculation;
mod vision;

pub(super) use attention::asked as attention_ranks;
pub(crate) use drafts::{Algorithm, Tree};
pub(super) use foreign::{is_shared, refuse_sglangs, refuse_vllms};
pub(crate) use speculation::DRAFT_TOKENS_MAX;

use backend::Backends;
use profile::{Behaviour, SglangProfile};

use super::document::Source;
use super::engine::note_chunks;
use super::judge::Judge;
use super::raw::{RawCluster, RawEngine, RawSglang};
use super::scalar::Count;
use super::yarn;
use crate::cluster::router::Policy;
use crate::cost::roofline::Drafting;
use crate::engine::memory::MemoryPlan;
use crate::engine::sglang::{QueuePolicy, SglangConfig};
use crate::hardware::Device;
use crate::model::{Attention, ModelShape};
use crate::sim::Role;
use crate::units::{Bytes, FLAG_TOKENS_MAX as TOKENS_MAX};

/// Share of the memory for weights and pool.
const KEY_FRACTION: &str = "mem_fraction_static";

/// Flags after defaults, before memory is planned.
pub(super) struct SglangFlags {
    /// Whole but for the sizes of pool and running batch.
    config: SglangConfig,
    profile: SglangProfile,
    max_running_requests: Option<u32>,
    max_total_tokens: Option<u32>,
    mem_fraction_static: memory::Fraction,
    /// Captured tokens of prefill batches; `None` captures none.
    prefill_graphs: Option<Vec<u32>>,
    /// Largest captured decode batch; `None` captures nothing.
    pub(super) graph_max: Option<u32>,
    /// Speculative decoding, if there is any.
    pub(super) drafting: Option<Drafting>,
    /// Who of its data-parallel ranks gets a request.
    pub(super) balancer: Policy,
    /// Ranks with attention of their own, which step together.
    apart: attention::Apart,
}

/// Resolves every flag of SGLang.
pub(super) fn resolve(
    judge: &mut Judge,
    (engine, raw, cluster): (&RawEngine, &RawSglang, &RawCluster),
    (device, model): (Option<&Device>, Option<&ModelShape>),
    (tensor_parallel, role): (u32, Role),
) -> SglangFlags {
    let profile = find_profile(judge, engine, model);
    let balancer = data_parallel::balancer(judge, raw, cluster, &profile);
    let apart = attention::ranks(judge, (raw, cluster), &profile, (device, model));
    let attention_ranks = apart.ranks;
    refuse_intervals(judge, engine, raw, &profile);
    let defaults = &profile.defaults;
    let count = |judge: &mut Judge, key: &str, given, limits, default| {
        judge.count(key, given, limits, default, profile.source())
    };
    let backends = backend::resolve(judge, raw, &profile, (device, model), tensor_parallel);
    let page_size = page_size(judge, raw, &profile, &backends);
    let chunk = chunked_prefill_size(judge, raw, &profile, device, page_size);
    let (key, given) = ("sglang.max_prefill_tokens", raw.max_prefill_tokens);
    let max_prefill_tokens = count(judge, key, given, (1, TOKENS_MAX), defaults.max_prefill_tokens);
    let seeing = vision::seeing(judge, raw, &profile, (device, model), role);
    let machine = graphs::Machine {
        device,
        model,
        tensor_parallel,
        role,
        seeing,
    };
    let graphs = graphs::captured(judge, raw, &profile, machine, &backends, chunk);
    let limit = |judge: &mut Judge, key: &str, given: Option<Count>, limits| {
        given.map(|limit| judge.required(&format!("sglang.{key}"), limit, limits))
    };
    let running_limits = (u64::from(attention_ranks), 1 << 20);
    let max_running_requests = limit(
        judge,
        "max_running_requests",
        raw.max_running_requests,
        running_limits,
    );
    let decodes_alone = role == Role::Decode && profile.behaviour == Behaviour::V0_5_23;
    let reserve = sizes::Reserve {
        memory: device.map_or(Bytes(80 << 30), Device::reported_memory),
        tokens: match decodes_alone {
            true => max_running_requests.unwrap_or(graphs.graph_max),
            false => chunk.unwrap_or(max_prefill_tokens),
        },
        graph_max: graphs.reserved,
        prefill_graphs: graphs.reserved_prefill,
        tensor_parallel,
        attention_ranks,
        share: seeing.map_or(1.0, |seeing| seeing.share),
    };
    let context_length = context_length(judge, raw, model);
    let is_lowered = backends.is_aiter && context_length > backend::LONG_CONTEXT;
    let by_rule = match (by_memory(&profile, device), seeing) {
        (Source::Profile(name), Some(seeing)) if seeing.share < 1.0 => {
            Source::Profile(format!("{name}, less for images"))
        }
        (rule, _) => rule,
    };
    let mem_fraction_static = memory::fraction(judge, raw, by_rule, reserve, is_lowered);
    let step = memory::Step {
        tokens: reserve.tokens,
        of_prompts: !decodes_alone,
        graph_max: graphs.decode,
        tensor_parallel,
    };
    memory::check_rest(judge, &mem_fraction_static, device, model, step);
    let chunk = attention::chunk(judge, chunk, attention_ranks, page_size);
    check_pages(judge, chunk, page_size, role);
    let conservativeness =
        attention::conservativeness(conservativeness(judge, raw, &profile), attention_ranks);
    let [mut enable_mixed_chunk, mut disable_radix_cache, disable_overlap] = switches(judge, raw, &profile);
    if !backends.share_prefixes {
        (enable_mixed_chunk, disable_radix_cache) = (false, true);
    }
    if enable_mixed_chunk && chunk.is_none() {
        judge.ignore("enable_mixed_chunk has no effect where prompts are never split".to_string());
    }
    let around = speculation::Around {
        page_size,
        context_length,
        enable_mixed_chunk,
        kernels: backends.whole,
    };
    let drafts = speculation::resolve(judge, (engine, raw), &profile, model, around);
    enable_mixed_chunk &= drafts.is_none();
    let policy = queue::policy(judge, raw, &profile);
    if disable_radix_cache && matches!(policy, QueuePolicy::Lpm | QueuePolicy::DfsWeight) {
        let note = "schedule_policy by prefix has no effect without the radix cache: requests are served as fcfs does";
        judge.ignore(note.to_string());
    }
    let prefill_decode_interval = queue::prefill_decode_interval(judge, raw, &profile, seeing);
    attention::check_neighbours(judge, &apart, balancer, prefill_decode_interval);
    let smallest_pool = u64::from(page_size) * 4;
    let config = SglangConfig {
        profile: profile.profile.clone(),
        context_length,
        max_running_requests: 0,
        chunked_prefill_size: chunk,
        max_prefill_tokens,
        prefill_decode_interval,
        prefill_max_requests: limit(
            judge,
            "prefill_max_requests",
            raw.prefill_max_requests,
            (1, TOKENS_MAX),
        ),
        policy,
        priority: queue::priority(judge, raw, &profile, policy),
        page_size,
        max_total_tokens: 0,
        radix_cache: !disable_radix_cache,
        enable_mixed_chunk: enable_mixed_chunk && chunk.is_some(),
        overlap_schedule: !disable_overlap,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: limit(
            judge,
            "max_queued_requests",
            raw.max_queued_requests,
            (1, TOKENS_MAX),
        ),
        drafts: drafts.as_ref().map(|drafts| drafts.scheduled.clone()),
        switches: profile.switches(),
        seed: 0,
        eos_segment: None,
    };
    SglangFlags {
        config: config.with_conservativeness(conservativeness),
        max_running_requests: max_running_requests.map(|most| most / attention_ranks),
        max_total_tokens: limit(
            judge,
            "max_total_tokens",
            raw.max_total_tokens,
            (smallest_pool, TOKENS_MAX),
        ),
        profile,
        mem_fraction_static,
        graph_max: graphs.decode,
        drafting: drafts.map(|drafts| drafts.drafting),
        prefill_graphs: attention::prefill_graphs(graphs.prefill, chunk, attention_ranks),
        balancer,
        apart,
    }
}

/// Several steps between two decisions are refused; of chunks of several tokens the first is sent at once (0.5.4
/// `stream_output_generation`).
fn refuse_intervals(judge: &mut Judge, engine: &RawEngine, raw: &RawSglang, profile: &SglangProfile) {
    let interval = judge.count(
        "engine.stream_interval",
        engine.stream_interval,
        (1, TOKENS_MAX),
        1,
        profile.source(),
    );
    note_chunks(judge, interval);
    let key = "sglang.num_continuous_decode_steps";
    let steps = profile.defaults.num_continuous_decode_steps;
    if judge.count(
        key,
        raw.num_continuous_decode_steps,
        (1, TOKENS_MAX),
        steps,
        profile.source(),
    ) != 1
    {
        judge.wrong_help(key, "other than 1 is not modelled yet", "not 1", "leave it out");
    }
}

fn conservativeness(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile) -> f64 {
    let key = "sglang.schedule_conservativeness";
    let source = profile.source();
    let default = profile.defaults.schedule_conservativeness;
    let value = judge.take(key, raw.schedule_conservativeness, default, source);
    let is_right = |value| (0.0..=100.0).contains(&value);
    judge.number(key, value, is_right, "must lie between 0 and 100");
    value
}

/// `enable_mixed_chunk`, `disable_radix_cache`, `disable_overlap_schedule`.
fn switches(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile) -> [bool; 3] {
    let defaults = &profile.defaults;
    [
        (
            "enable_mixed_chunk",
            raw.enable_mixed_chunk,
            defaults.enable_mixed_chunk,
        ),
        (
            "disable_radix_cache",
            raw.disable_radix_cache,
            defaults.disable_radix_cache,
        ),
        (
            "disable_overlap_schedule",
            raw.disable_overlap_schedule,
            defaults.disable_overlap_schedule,
        ),
    ]
    .map(|(key, given, default)| {
        let source = profile.source();
        judge.take(&format!("sglang.{key}"), given, default, source)
    })
}

fn find_profile(judge: &mut Judge, engine: &RawEngine, model: Option<&ModelShape>) -> SglangProfile {
    let asked = engine.profile.as_deref().unwrap_or("sglang");
    judge
        .profile(asked, profile::find(asked, model), |found| &found.profile)
        .unwrap_or_else(|| {
            let newest = profile::find("sglang", model);
            newest.expect("the newest profile is shipped").0
        })
}

fn context_length(judge: &mut Judge, raw: &RawSglang, model: Option<&ModelShape>) -> u32 {
    let most = model.map_or(TOKENS_MAX, |model| u64::from(model.max_position));
    let source = Source::Assumption("what the model allows".to_string());
    let key = "sglang.context_length";
    let given = raw.context_length.and_then(|tokens| u32::try_from(tokens.0).ok());
    let longer = given.and_then(|tokens| yarn::longer(model, tokens, "--json-model-override-args"));
    if let Some(longer) = longer {
        let label = format!("the model's context is {most} tokens");
        judge.wrong_help(key, "is longer than the model allows", label, longer);
        return most as u32;
    }
    judge.count(key, raw.context_length, (4, most.max(4)), most.max(4), source)
}

/// Whether the model keeps a compressed KV cache (multi-head latent attention).
fn compresses_kv(model: &ModelShape) -> bool {
    model
        .layers
        .iter()
        .any(|group| matches!(group.attention, Attention::Latent { .. }))
}

/// The chunk; `None` where prompts are never split.
fn chunked_prefill_size(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    device: Option<&Device>,
    page_size: u32,
) -> Option<u32> {
    let key = "sglang.chunked_prefill_size";
    let row = profile.sizes_for(device.map_or(Bytes(0), Device::reported_memory));
    let source = by_memory(profile, device);
    let size = judge.take(
        key,
        raw.chunked_prefill_size,
        row.chunked_prefill_size as i64,
        source,
    );
    if size > TOKENS_MAX as i64 {
        judge.wrong(key, "must be at most 2^30", format!("{size} is not"));
    }
    if size > 0 && size < i64::from(page_size) {
        judge.wrong_help(
            key,
            "must be at least page_size",
            format!("a chunk of {size} tokens is below a page of {page_size}"),
            "-1 never splits a prompt",
        );
    }
    u32::try_from(size).ok().filter(|&size| size > 0)
}

/// Tokens of a page: what is asked for, unless the attention kernels have pages of their own.
fn page_size(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile, backends: &Backends) -> u32 {
    let key = "sglang.page_size";
    let (default, source) = match backends.page {
        Some((size, whose)) => (u64::from(size), format!("{}: {whose}", profile.profile)),
        None => (profile.defaults.page_size, profile.profile.clone()),
    };
    let size = judge.count(key, raw.page_size, (1, 1 << 12), default, Source::Profile(source));
    let Some((own, whose)) = backends.page.filter(|&(own, _)| own != size) else {
        return size;
    };
    let name = judge.document.name_of(key);
    judge.notes.push(format!(
        "{name} {size} becomes {own}, as the server would say: {whose} has pages of that size"
    ));
    own
}

/// Chunks end at the ends of pages, which the server asserts but of decode servers.
fn check_pages(judge: &mut Judge, chunk: Option<u32>, page_size: u32, role: Role) {
    let key = "sglang.chunked_prefill_size";
    let Some(chunk) = chunk.filter(|chunk| role != Role::Decode && !chunk.is_multiple_of(page_size)) else {
        return;
    };
    if !judge.is_wrong(&[key, "sglang.page_size"]) {
        judge.wrong_help(
            key,
            "must be a multiple of page_size",
            format!("chunks of {chunk} tokens, pages of {page_size}"),
            format!("write {}", chunk.next_multiple_of(page_size)),
        );
    }
}

fn by_memory(profile: &SglangProfile, device: Option<&Device>) -> Source {
    let of = device.map_or_else(String::new, |device| format!(" on {}", device.id));
    Source::Profile(format!("{}{of}", profile.profile))
}

impl SglangFlags {
    /// Name and version of the profile.
    pub(super) fn profile_name(&self) -> String {
        self.profile.profile.clone()
    }

    /// The rules are those of 0.5.4.
    pub(super) fn is_older(&self) -> bool {
        self.profile.behaviour == Behaviour::V0_5_4
    }

    /// Longest sequence.
    pub(super) fn context_length(&self) -> u32 {
        self.config.context_length
    }

    /// The loop decides a batch while another runs.
    pub(super) fn overlaps(&self) -> bool {
        self.config.overlap_schedule
    }

    /// Prefill batches replay graphs.
    pub(super) fn captures_prefill(&self) -> bool {
        self.prefill_graphs.is_some()
    }

    /// Captured decode batches, in tokens.
    pub(super) fn capture_sizes(&self) -> Vec<u32> {
        let ends_there = self.profile.behaviour == Behaviour::V0_5_23;
        let Some(most) = self.graph_max else {
            return Vec::new();
        };
        let mut sizes = match &self.config.drafts {
            None => sizes::decode_graphs(most, ends_there),
            Some(drafts) => {
                let running = self.max_running_requests.unwrap_or(sizes::SPECULATING_MAX);
                sizes::verification_graphs(most.min(running), drafts.tokens)
            }
        };
        sizes.retain(|&batch| self.apart.captures(batch));
        sizes
    }

    /// Captured tokens of prefill batches.
    pub(super) fn prefill_capture_sizes(&self) -> Option<Vec<u32>> {
        self.prefill_graphs.clone()
    }

    /// The engine, given its memory and the seed of its shuffles.
    pub(super) fn engine(self, judge: &mut Judge, plan: &MemoryPlan, seed: u64) -> Option<SglangConfig> {
        let page = self.config.page_size;
        let most = u32::try_from(plan.tokens()).unwrap_or(u32::MAX);
        if let Some(asked) = self.max_total_tokens.filter(|&asked| asked > most) {
            judge.notes.push(format!(
                "max_total_tokens {asked} is more than the memory holds: the pool has {most} tokens, as the server would say"
            ));
        }
        let pool = self.max_total_tokens.map_or(most, |asked| asked.min(most));
        let pool = pool - pool % page;
        if pool < 4 * page {
            judge.missing(
                "the KV pool holds no request",
                "give it more memory: --mem-fraction-static, -tp",
            );
            return None;
        }
        let max_running_requests = self.max_running_requests.unwrap_or_else(|| {
            if self.config.drafts.is_some() {
                return speculation::max_running_requests(judge, &self.profile);
            }
            let startup = self.profile.startup;
            let running = sizes::max_running_requests(
                pool,
                self.config.context_length,
                startup.half_pool_bounds_running,
            );
            let source = self.profile.source();
            judge.assume("sglang.max_running_requests", i64::from(running), source);
            running
        });
        Some(SglangConfig {
            max_total_tokens: pool,
            max_running_requests,
            seed,
            ..self.config
        })
    }
}

#[cfg(test)]
mod tests;
