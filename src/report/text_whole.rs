//! What is known of the whole run only, warm-up and drain included, and what was simulated.

use std::fmt::Write;

use super::figures::{count, counted, percent, significant, time};
use super::page::Page;
use super::text::of_peaks;
use super::views::{PoolMeta, ResultMeta, ScalingMeta};
use super::{text_cost, text_relays, text_replicas, text_tiers, text_waits};
use crate::analysis::costs::tokens_per_s;
use crate::analysis::{RunResult, Verdict};
use crate::metrics::{LittleCheck, SpeculationSummary, Summary};

/// Relative difference between L and λW that still counts as agreement: sums of rounded figures.
const LITTLE_TOLERANCE: f64 = 1e-6;

/// What is known of the whole run only, a line each.
pub(super) fn facts(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    requests(page, result, meta);
    if let Some(replicas) = text_replicas::replicas(result) {
        page.fact("replicas", &replicas);
    }
    if let Some(line) = meta.lock_step.as_ref().and_then(text_replicas::lock_step) {
        page.fact("lock-step", &line);
    }
    batches(page, &result.whole, meta);
    // Where nobody ever hits, what is evicted is missed by nobody.
    let is_missed = |evicted: &u64| *evicted > 0 && result.whole.cache_hit_tokens > 0;
    if let Some(evicted) = meta.evicted_tokens.filter(is_missed) {
        page.fact(
            "evicted",
            &format!("{} of cached prefixes", counted(evicted, "token")),
        );
    }
    // Figures that stand beside those of a steady stretch, and are none of it, say so themselves: latencies and shares of what is cached,
    // which in the first seconds are unlike those after them.
    let of = |name: &str| match name {
        "TTFT" | "waiting" if result.steady.is_some() => "whole run: ",
        _ if name.starts_with("kv ") && result.steady.is_some() => "whole run: ",
        _ => "",
    };
    for (name, sentence) in text_tiers::lines(result) {
        page.fact(name, &format!("{}{sentence}", of(name)));
    }
    if let Some(account) = &result.speculation {
        page.fact("drafts", &drafts(account));
    }
    if let Some(scaling) = &meta.scaling {
        page.fact("scaling", &scaled(scaling));
    }
    // Of one card without a price there is nothing to say.
    if meta.rent.is_ok() || meta.pools.len() > 1 || meta.scaling.is_some() {
        let is_overloaded = result.verdict == Verdict::Unstable;
        let line = text_cost::line(&meta.rent, tokens_per_s(result), is_overloaded);
        page.fact("cost", &line);
    }
    for (label, line) in text_relays::lines(result) {
        page.fact(label, &line);
    }
    let has_tiers = result.tiers.is_some();
    for (name, sentence) in (meta.waits.iter()).flat_map(|report| text_waits::lines(report, has_tiers)) {
        page.fact(name, &format!("{}{sentence}", of(name)));
    }
    let machines: Vec<String> = meta.pools.iter().filter_map(machine_of).collect();
    page.listed("machines", &machines);
    little(page, result, meta);
    page.fact("simulated", &subject(meta));
    if !meta.pools.is_empty() {
        let pools: Vec<String> = meta.pools.iter().map(pool).collect();
        page.listed("pools", &pools);
    }
}

/// `2.53 tokens a verification = 1 + 70.1 % + 49.2 % + 34.2 %, by position · 51.2 % of the drafts accepted, accepted ÷ drafted as servers log it`.
fn drafts(account: &SpeculationSummary) -> String {
    let percent = |share: f64| format!("{} %", significant(100.0 * share));
    let rates: Vec<String> = account.rates_by_position().into_iter().map(percent).collect();
    format!(
        "{} tokens a verification = 1 + {}, by position · {} of the drafts accepted, accepted ÷ drafted as servers log it",
        significant(account.acceptance_length()),
        rates.join(" + "),
        percent(account.acceptance_rate()),
    )
}

/// `12.3 replica-hours (4.10 on average), 22 $ · 5 started · 1 start cancelled · 4 drained`.
fn scaled(scaling: &ScalingMeta) -> String {
    let usd = scaling
        .usd
        .map_or(String::new(), |usd| format!(", {} $", significant(usd)));
    let cancelled = match scaling.cancelled {
        0 => String::new(),
        starts => format!(" · {} cancelled", counted(starts, "start")),
    };
    format!(
        "{} replica-hours ({} replicas on average), {} GPU-hours{usd} · {} started{cancelled} · {} drained",
        significant(scaling.replica_hours),
        significant(scaling.replicas_mean),
        significant(scaling.gpu_hours),
        count(scaling.started),
        count(scaling.drained),
    )
}

/// `chat: Llama-3.1-8B on 4 × A100 (2 replicas of 2), vllm@0.33, calibration a100`.
fn pool(pool: &PoolMeta) -> String {
    let split = match pool.gpus_per_replica {
        1 => String::new(),
        each => format!(" ({} of {each})", counted(u64::from(pool.replicas), "replica")),
    };
    format!(
        "{}: {} on {} × {}{split}, {}, calibration {}",
        pool.name,
        pool.model_id,
        pool.replicas * pool.gpus_per_replica,
        pool.gpu,
        pool.engine,
        pool.calibration
    )
}

/// Share by which a draw misses the rate that was asked for, from which it is told.
const DRAW_MISSES: f64 = 0.01;
/// Requests from which a draw has a rate.
const DRAW_MIN: u64 = 100;

/// `, 4.79 a second (5.00 asked: this seed's draw)`, where arrivals are drawn and chance has sent another rate than was asked.
fn drawn(result: &RunResult, meta: &ResultMeta) -> String {
    let (asked, sent) = (meta.request_rate, result.offered_per_s);
    let holds_a_rate = asked.is_finite()
        && meta.load.is_none()
        && meta.ramp_up.is_none()
        && meta.clients <= 1
        && meta.max_concurrency.is_none();
    let is_off = (sent / asked - 1.0).abs() > DRAW_MISSES;
    match holds_a_rate && result.whole.sent >= DRAW_MIN && sent.is_finite() && is_off {
        true => format!(
            ", {} a second ({} asked: the draw of seed {})",
            significant(sent),
            significant(asked),
            meta.seed
        ),
        false => String::new(),
    }
}

fn requests(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    let whole = &result.whole;
    let others = [
        ("refused", whole.rejected),
        ("timed out", whole.timed_out),
        ("failed", whole.failed),
        ("still inside", whole.inside),
    ];
    let others: String =
        others
            .iter()
            .filter(|(_, number)| *number > 0)
            .fold(String::new(), |mut line, (name, number)| {
                let _ = write!(line, " · {} {name}", count(*number));
                line
            });
    page.fact(
        "requests",
        &format!(
            "{} sent{} · {} completed{others}",
            count(whole.sent),
            drawn(result, meta),
            count(whole.completed)
        ),
    );
}

/// L from the area under N(t) against λW from each request's times.
fn little(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    page.fact("L = λW", &little_law(result));
    if let Some(places) = text_replicas::places(result, meta) {
        page.fact("by place", &places);
    }
}

/// Little's law for whoever is inside, waits and runs, both sides of it.
pub(crate) fn little_law(result: &RunResult) -> String {
    let check = |name: &str, check: &LittleCheck| {
        let factors = format!("{}/s × {}", significant(check.lambda), time(check.w));
        let l = significant(check.l);
        match agrees(check) {
            true => format!("{name} {l} = {factors} ✓"),
            false => format!(
                "{name} {l} vs {factors} = {} DIFFER",
                significant(check.lambda * check.w)
            ),
        }
    };
    let audit = &result.little;
    let checks = [
        check("system", &audit.system),
        check("waiting", &audit.waiting),
        check("running", &audit.running),
    ];
    let again = match result.whole.preemptions {
        0 => "",
        _ => " (who is preempted comes to wait once more)",
    };
    checks.join(" · ") + again
}

/// Whether both sides of Little's law are the same.
pub(super) fn agrees(check: &LittleCheck) -> bool {
    let product = check.lambda * check.w;
    if !product.is_finite() {
        // A run that ended at its first instant has no rate.
        return check.l == 0.0;
    }
    (check.l - product).abs() <= LITTLE_TOLERANCE * check.l.max(product)
}

/// What was simulated: model, machines, engine, calibration, seed; of several pools one line each.
fn subject(meta: &ResultMeta) -> String {
    if !meta.pools.is_empty() {
        let gpus = meta
            .pools
            .iter()
            .map(|pool| pool.replicas * pool.gpus_per_replica);
        let (gpus, pools) = (gpus.sum::<u32>(), meta.pools.len());
        return format!("{gpus} GPUs in {pools} pools, seed {}", meta.seed);
    }
    let split = if meta.gpus_per_replica > 1 {
        let replicas = counted(u64::from(meta.replicas), "replica");
        format!(" ({replicas} of {})", meta.gpus_per_replica)
    } else {
        String::new()
    };
    format!(
        "{} on {} × {}{split}, {}, calibration {}, seed {}",
        meta.model_id,
        meta.replicas * meta.gpus_per_replica,
        meta.gpu,
        meta.engine,
        meta.calibration.as_deref().unwrap_or("none"),
        meta.seed
    )
}

/// Of closed batches: what is computed for nobody (ST-5), over the whole run, since batches straddle any window.
fn batches(page: &mut Page, whole: &Summary, meta: &ResultMeta) {
    if meta.engine != "static" {
        return;
    }
    if let (Some(useful), Some(padding)) = (whole.useful_rows(), whole.prompt_padding()) {
        let sentence = format!(
            "{} of the tokens computed are of an answer, the rest fills rows that are done · {} of the prompts computed is padding",
            percent(useful),
            percent(padding),
        );
        page.fact("batches", &sentence);
    }
}

/// A pool's utilisation over the whole run.
fn machine_of(pool: &PoolMeta) -> Option<String> {
    let used = pool.utilisation?;
    Some(format!("{}: {}", pool.name, of_peaks(&used)))
}
