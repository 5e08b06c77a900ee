//! The report of one run for a terminal: the answer, then the caveats that change a decision, then the tables.
//!
//! At most 100 columns; colour codes only when asked for. Where a steady state exists its figures are shown, with
//! intervals; else those of the whole run, and it is said that they belong to that run alone.

use std::fmt::Write;

use super::figures::{count, counted, percent, signed_percent, significant, time};
use super::page::Page;
use super::text_answer::{Answer, answered, paint};
use super::text_latency::latencies;
use super::views::{PoolMeta, ResultMeta, ScalingMeta, Style, trust_mark, trust_word};
use super::{text_parts, text_promise, text_relays, text_replicas, text_tiers, text_waits};
use crate::analysis::RunResult;
use crate::calibrate::interval::{FigureInterval, ModelInterval};
use crate::cost::Trust;
use crate::metrics::{LittleCheck, Summary};

/// Relative difference between L and λW that still counts as agreement: sums of rounded figures.
const LITTLE_TOLERANCE: f64 = 1e-6;

/// Writes the report of one run.
#[must_use]
pub fn run(result: &RunResult, meta: &ResultMeta, style: Style) -> String {
    let mut page = Page::new(style);
    let shown = result.steady.as_ref().unwrap_or(&result.whole);
    let below = if result.steady.is_some() && !result.intervals.is_empty() {
        "  (95 % below)"
    } else {
        ""
    };
    let Answer { line, alarm } = answered(result, meta);
    page.answer(&paint(&format!("{line}{below}"), alarm, style));
    caveats(&mut page, result, meta);
    page.line("");
    latencies(&mut page, result, shown, meta);
    page.line("");
    facts(&mut page, result, shown, meta);
    page.line("");
    if result.steady.is_some() {
        page.line("  whole run, warm-up and drain included");
    }
    text_parts::parts(&mut page, result, meta);
    whole_facts(&mut page, result, meta);
    page.into_text()
}

/// Reasons of the verdict, broken laws, flags without effect, defaults that were assumed.
fn caveats(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    page.listed("why", &result.reasons);
    page.listed("BUG, conservation violated", &result.violations);
    page.listed("ignored", &meta.ignored);
    page.listed("note", &meta.notes);
    page.listed("trust", &trust_lines(&meta.trust));
    // Without an answer every figure is 0 whatever the model, and "−0 % to +0 %" would read as certainty.
    if let Some(model) = meta
        .model_interval
        .as_ref()
        .filter(|_| result.whole.completed > 0)
    {
        page.listed("model ±", &[model_interval(model)]);
    }
    assumed(page, &meta.assumptions);
}

/// The parts of a step with their marks: one line, or one for the pools that each is told of, `chat: …`.
pub(super) fn trust_lines(trust: &[(String, Trust)]) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, trust) in trust {
        let (of, part) = name.split_once(": ").unwrap_or(("", name));
        let mark = format!("{} {part} {}", trust_mark(*trust), trust_word(*trust));
        match lines.iter_mut().find(|(known, _)| *known == of) {
            Some((_, marks)) => marks.push(mark),
            None => lines.push((of, vec![mark])),
        }
    }
    let line = |(of, marks): (&str, Vec<String>)| match of {
        "" => marks.join("   "),
        of => format!("{of}: {}", marks.join("   ")),
    };
    lines.into_iter().map(line).collect()
}

/// What the parameters' uncertainty makes of each figure, and which part of a step makes most of it: sampling apart.
fn model_interval(model: &ModelInterval) -> String {
    let figure = |figure: &FigureInterval| {
        let (down, up) = figure.factors_90();
        let name = match figure.name {
            "mean_ttft_ms" => "TTFT mean",
            "p99_ttft_ms" => "TTFT p99",
            "mean_tpot_ms" => "TPOT",
            "mean_e2el_ms" => "E2EL",
            _ => "tok/s",
        };
        format!("{name} {} to {}", signed_percent(down - 1.0), upwards(up))
    };
    // A figure that is nothing in every run, as TPOT is where answers leave whole, has no error either.
    let is_told = |one: &&FigureInterval| one.factors_90() != (1.0, 1.0);
    let figures: Vec<String> = model.figures.iter().filter(is_told).map(figure).collect();
    let mut told = model.figures.iter().filter(is_told);
    let tpot = told.find(|figure| figure.name == "mean_tpot_ms");
    let worst = tpot.and_then(FigureInterval::worst);
    let mostly = worst.map_or(String::new(), |component| {
        format!(" (TPOT mostly by {})", component.name().replace('_', " "))
    });
    format!("{}, 90 %{mostly}", figures.join(" · "))
}

/// Factor from which a model's interval says nothing but that saturation lies within it.
const TENFOLD: f64 = 10.0;

/// The upper end of an interval as a percentage, or in words.
fn upwards(factor: f64) -> String {
    if factor > TENFOLD {
        return "more than tenfold (too wide to say: within the model's error it saturates)".to_owned();
    }
    signed_percent(factor - 1.0)
}

/// Values that nobody gave, in as few lines as they need.
pub(super) fn assumed(page: &mut Page, assumptions: &[String]) {
    if !assumptions.is_empty() {
        page.listed("assumed", &[assumptions.join(" · ")]);
    }
}

/// Throughput, promises, state, cache and utilisation of the stretch that is shown, a line each; a line without content is
/// not printed.
fn facts(page: &mut Page, result: &RunResult, shown: &Summary, meta: &ResultMeta) {
    let seconds = shown.duration_s;
    page.fact(
        "throughput",
        &format!(
            "{} req/s · {} prompt tok/s · {} output tok/s (peak {})",
            significant(per_second(shown.completed, seconds)),
            significant(per_second(shown.input_tokens, seconds)),
            significant(per_second(shown.output_tokens, seconds)),
            significant(result.whole.max_output_tokens_per_s),
        ),
    );
    text_promise::promise(page, result, shown, meta);
    let state = &shown.occupancy;
    page.fact(
        "occupancy",
        &format!(
            "{} running (max {}) · {} waiting (max {}) · KV {} (max {}) · busy {}",
            significant(state.running),
            state.running_max,
            significant(state.waiting),
            state.waiting_max,
            percent(state.kv_usage),
            percent(state.kv_usage_max),
            percent(state.busy),
        ),
    );
    cache(page, shown);
    if let Some(machine) = machine(shown, meta) {
        page.fact("machine", &machine);
    }
}

/// What is known of the whole run only, a line each.
fn whole_facts(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    requests(page, &result.whole);
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
    for (name, sentence) in text_tiers::lines(result) {
        page.fact(name, &sentence);
    }
    if let Some(scaling) = &meta.scaling {
        page.fact("scaling", &scaled(scaling));
    }
    for (label, line) in text_relays::lines(result) {
        page.fact(label, &line);
    }
    for (name, sentence) in meta.waits.iter().flat_map(text_waits::lines) {
        page.fact(name, &sentence);
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

fn requests(page: &mut Page, whole: &Summary) {
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
            "{} sent · {} completed{others}",
            count(whole.sent),
            count(whole.completed)
        ),
    );
}

fn cache(page: &mut Page, shown: &Summary) {
    let mut parts = Vec::new();
    if shown.cache_queries_tokens > 0 && shown.cache_hit_tokens > 0 {
        let share = shown.cache_hit_tokens as f64 / shown.cache_queries_tokens as f64;
        parts.push(format!(
            "{} of prompt tokens found in the prefix cache",
            percent(share)
        ));
    }
    if shown.preemptions > 0 {
        let recomputed = count(shown.work.recomputed_tokens);
        parts.push(format!(
            "{}, {recomputed} tokens computed again",
            counted(shown.preemptions, "preemption")
        ));
    }
    if !parts.is_empty() {
        page.fact("cache", &parts.join(" · "));
    }
}

/// L from the area under N(t) against λW from each request's times.
fn little(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    let check = |name: &str, check: &LittleCheck| {
        let product = check.lambda * check.w;
        let mark = if agrees(check) { "✓" } else { "DIFFER" };
        format!(
            "{name} {} vs {} {mark}",
            significant(check.l),
            significant(product)
        )
    };
    let audit = &result.little;
    let checks = [
        check("system", &audit.system),
        check("waiting", &audit.waiting),
        check("running", &audit.running),
    ];
    page.fact("L = λW", &checks.join(" · "));
    if let Some(places) = text_replicas::places(result, meta) {
        page.fact("by place", &places);
    }
}

/// Whether both sides of Little's law are the same.
pub(super) fn agrees(check: &LittleCheck) -> bool {
    let product = check.lambda * check.w;
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
        let replicas = super::figures::counted(u64::from(meta.replicas), "replica");
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

/// The machine's utilisation beside the time that bandwidth alone would allow.
fn machine(shown: &Summary, meta: &ResultMeta) -> Option<String> {
    let used = meta.utilisation?;
    let simulated = shown.tpot.mean_s()?;
    // Answers that leave whole have no TPOT; a step of theirs has a bound all the same.
    let tpot = match simulated > 0.0 {
        true => format!(
            "TPOT {}, {} if only",
            time(simulated),
            time(used.bandwidth_bound_tpot_s)
        ),
        false => format!("a step {} if only", time(used.bandwidth_bound_tpot_s)),
    };
    Some(format!(
        "MFU {} · bandwidth {} · {tpot} bandwidth bound it",
        percent(used.mfu),
        percent(used.memory_bandwidth),
    ))
}

/// The same of one pool, over the whole run.
fn machine_of(pool: &PoolMeta) -> Option<String> {
    let used = pool.utilisation?;
    Some(format!(
        "{}: MFU {} · bandwidth {} while its steps ran",
        pool.name,
        percent(used.mfu),
        percent(used.memory_bandwidth),
    ))
}

pub(super) fn per_second(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        number as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::fixtures;
    use super::super::page::WIDTH;
    use super::super::text_answer::{Alarm, answer};
    use super::super::views::Interrupted;
    use super::*;
    use crate::analysis::{Estimate, Verdict};

    #[test]
    fn the_first_line_is_the_answer() {
        let first = |result: &RunResult, meta: &ResultMeta| answer(result, meta);
        let meta = fixtures::meta();
        assert_snapshot!(first(&fixtures::stable_run(), &meta), @"stable at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms, TPOT p50 7.25 ms, 1,280 tok/s out");
        let mut critical = fixtures::stable_run();
        critical.verdict = Verdict::Critical;
        assert_snapshot!(first(&critical, &meta), @"CRITICAL at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms ±7.95 %, TPOT p50 7.25 ms, 1,280 tok/s out");
        assert_snapshot!(first(&fixtures::unstable_run(), &meta), @"UNSTABLE at 10.0 req/s: backlog grows 0.400 req/s; no steady-state latency exists");
        assert_snapshot!(first(&fixtures::failed_run(), &meta), @"NO ANSWERS at 10.0 req/s: of 8 requests 8 given up and 0 refused");
        let mut alone = fixtures::failed_run();
        (alone.whole.timed_out, alone.whole.rejected, alone.whole.failed) = (0, 1, 7);
        assert_snapshot!(first(&alone, &meta), @"NO ANSWERS at 10.0 req/s: of 8 requests 0 given up, 1 refused and 7 failed");
        let mut crowded = fixtures::stable_run();
        crowded.whole.rejected = 9_000;
        let cut = ResultMeta {
            interrupted: Some(Interrupted {
                ended: 1_000,
                asked: Some(20_000),
            }),
            ..meta.clone()
        };
        assert_snapshot!(first(&crowded, &cut), @"INTERRUPTED after 1,000 of 20,000 requests; until then: REFUSED 90.0 % of requests; those served: stable at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms, TPOT p50 7.25 ms, 1,280 tok/s out");
        let mut finite = fixtures::unstable_run();
        finite.verdict = Verdict::Finite;
        let offline = ResultMeta {
            request_rate: f64::INFINITY,
            max_concurrency: Some(64),
            ..meta
        };
        assert_snapshot!(first(&finite, &offline), @"finished 10,000 requests in 1,000 s (all at once, ≤ 64 in flight): 9.97 req/s, 1,280 tok/s out");
    }

    #[test]
    fn lost_requests_are_red_whatever_the_verdict_on_the_others() {
        let alarm = |result: &RunResult| answered(result, &fixtures::meta()).alarm;
        assert_eq!(alarm(&fixtures::stable_run()), Alarm::Calm);
        let mut lossy = fixtures::stable_run();
        lossy.whole.failed = 9_000;
        assert!(answer(&lossy, &fixtures::meta()).starts_with("FAILED"));
        lossy.whole.rejected = 500;
        let first = answer(&lossy, &fixtures::meta());
        assert!(
            first.starts_with("FAILED 90.0 %, REFUSED 5.00 % of requests; those served: "),
            "{first}"
        );
        assert_eq!(alarm(&lossy), Alarm::Alert);
        let mut nobody = fixtures::failed_run();
        nobody.verdict = Verdict::Finite;
        assert_eq!(alarm(&nobody), Alarm::Alert);
        let red = Style {
            color: true,
            ..Style::default()
        };
        assert!(run(&nobody, &fixtures::meta(), red).starts_with("\u{1b}[1;31mNO\u{1b}[0m ANSWERS"));
    }

    #[test]
    fn a_stable_run_shows_its_steady_state() {
        assert_snapshot!(run(&fixtures::stable_run(), &fixtures::meta(), Style::default()), @r"
        stable at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms, TPOT p50 7.25 ms, 1,280 tok/s out  (95 % below)
          why         the number in the system returned to its median 412 times
          ignored     --served-model-name: no effect on timing
          trust       ●●○ decode calibrated   ●○○ prefill roofline only
          assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

          steady state, 51.0 s to 951 s, 9,000 requests
                    mean      std      p50      p90      p95      p99
          TTFT   38.2 ms  16.2 ms  30.4 ms  64.8 ms  76.1 ms  87.7 ms
          TPOT   7.66 ms   900 µs  7.25 ms  9.17 ms  9.65 ms  10.1 ms
          ITL    10.9 ms  5.89 ms  8.01 ms  20.4 ms  24.9 ms  29.6 ms
          E2EL    1.02 s   133 ms   960 ms   1.25 s   1.32 s   1.38 s
          queue  3.31 ms  3.94 ms  1.45 ms  8.88 ms  13.0 ms  18.3 ms
          95 %  mean             p99
          TTFT  [37.7, 38.7] ms  [81.0, 95.0] ms
          TPOT  [7.57, 7.75] ms

          throughput  10.0 req/s · 10,200 prompt tok/s · 1,280 output tok/s (peak 1,910)
          goodput     9.97 req/s, 99.7 % of requests (TTFT ≤ 500 ms, TPOT ≤ 50.0 ms)
          occupancy   9.78 running (max 24) · 0.0312 waiting (max 4) · KV 2.51 % (max 6.10 %) · busy 87.3 %
          cache       25.0 % of prompt tokens found in the prefix cache
          machine     MFU 16.3 % · bandwidth 61.2 % · TPOT 7.66 ms, 5.10 ms if only bandwidth bound it

          whole run, warm-up and drain included
          requests    10,000 sent · 10,000 completed
          L = λW      system 9.81 vs 9.81 ✓ · waiting 0.0312 vs 0.0312 ✓ · running 9.78 vs 9.78 ✓
          simulated   meta-llama/Llama-3.1-8B-Instruct on 1 × H100-SXM-80GB, vllm@0.33, calibration
                      h100-sxm-80gb-vllm, seed 0
        ");
    }

    #[test]
    fn a_promise_that_is_broken_is_told_in_the_first_line_and_below() {
        let limit = |percentile: f64, limit_s: f64| super::super::views::Promise {
            metric: "ttft".to_owned(),
            percentile: Some(percentile),
            limit_s,
        };
        let meta = ResultMeta {
            slo_kept: Some(false),
            attainment: 0.99,
            promises: vec![limit(99.0, 0.05), limit(50.0, 0.05)],
            ..fixtures::meta()
        };
        let text = run(&fixtures::stable_run(), &meta, Style::default());
        assert!(
            text.lines().next().unwrap().contains("; promise BROKEN"),
            "{text}"
        );
        for line in [
            "  promise     kept: 99.7 % of requests are good, 99.0 % are asked",
            "  promise     BROKEN: p99 TTFT 87.7 ms > 50.0 ms",
            "  promise     kept: p50 TTFT 30.4 ms ≤ 50.0 ms",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn an_unstable_run_says_what_its_figures_are_worth() {
        assert_snapshot!(run(&fixtures::unstable_run(), &fixtures::meta(), Style::default()), @r"
        UNSTABLE at 10.0 req/s: backlog grows 0.400 req/s; no steady-state latency exists
          why         the number in the system grew in 19 of 20 windows
          ignored     --served-model-name: no effect on timing
          trust       ●●○ decode calibrated   ●○○ prefill roofline only
          assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

          whole run: TTFT, E2EL and queue grow with its length
                    mean      std      p50      p90      p95      p99
          TTFT   39.7 ms  16.8 ms  31.6 ms  67.4 ms  79.2 ms  91.2 ms
          TPOT   7.96 ms   936 µs  7.54 ms  9.54 ms  10.0 ms  10.5 ms
          ITL    11.3 ms  6.12 ms  8.33 ms  21.2 ms  25.9 ms  30.8 ms
          E2EL    1.06 s   138 ms   999 ms   1.30 s   1.37 s   1.44 s
          queue  3.44 ms  4.10 ms  1.51 ms  9.24 ms  13.6 ms  19.0 ms

          throughput  9.97 req/s · 10,200 prompt tok/s · 1,280 output tok/s (peak 1,910)
          goodput     9.94 req/s, 99.7 % of requests (TTFT ≤ 500 ms, TPOT ≤ 50.0 ms)
          occupancy   9.78 running (max 24) · 0.0312 waiting (max 4) · KV 2.51 % (max 6.10 %) · busy 87.3 %
          cache       25.0 % of prompt tokens found in the prefix cache
          machine     MFU 16.3 % · bandwidth 61.2 % · TPOT 7.96 ms, 5.10 ms if only bandwidth bound it

          requests    10,000 sent · 10,000 completed
          L = λW      system 9.81 vs 9.81 ✓ · waiting 0.0312 vs 0.0312 ✓ · running 9.78 vs 9.78 ✓
          simulated   meta-llama/Llama-3.1-8B-Instruct on 1 × H100-SXM-80GB, vllm@0.33, calibration
                      h100-sxm-80gb-vllm, seed 0
        ");
    }

    #[test]
    fn a_run_without_answers_prints_no_empty_table() {
        assert_snapshot!(run(&fixtures::failed_run(), &fixtures::meta(), Style::default()), @r"
        NO ANSWERS at 10.0 req/s: of 8 requests 8 given up and 0 refused
          why         8 requests are too few
          ignored     --served-model-name: no effect on timing
          trust       ●●○ decode calibrated   ●○○ prefill roofline only
          assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

          no request was completed: there is no latency to show

          throughput  0 req/s · 0 prompt tok/s · 0 output tok/s (peak 0)
          occupancy   0 running (max 0) · 0 waiting (max 0) · KV 0 % (max 0 %) · busy 0 %

          requests    8 sent · 0 completed · 8 timed out
          L = λW      system 0 vs 0 ✓ · waiting 0 vs 0 ✓ · running 0 vs 0 ✓
          simulated   meta-llama/Llama-3.1-8B-Instruct on 1 × H100-SXM-80GB, vllm@0.33, calibration
                      h100-sxm-80gb-vllm, seed 0
        ");
    }

    #[test]
    fn lines_fit_the_terminal_and_colour_is_only_added_when_asked_for() {
        let mut measured = fixtures::stable_run();
        let wide = Estimate {
            value: 0.9,
            low: 0.0987,
            high: 1.234,
        };
        for metric in ["ttft", "tpot", "itl", "e2el", "queue_time"] {
            let names = ["", "p50_", "p90_", "p95_", "p99_"].map(|prefix| format!("{prefix}{metric}"));
            measured.intervals.extend(names.map(|name| (name, wide)));
        }
        for result in [
            measured,
            fixtures::stable_run(),
            fixtures::unstable_run(),
            fixtures::failed_run(),
        ] {
            let mut meta = fixtures::meta();
            meta.percentiles = vec![99.0, 99.9];
            meta.assumptions = vec!["word ".repeat(60)];
            let plain = run(&result, &meta, Style::default());
            let longest = plain.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(longest.chars().count() <= WIDTH, "{longest}");
            assert!(!plain.contains('\u{1b}'));
            assert!(
                run(
                    &result,
                    &meta,
                    Style {
                        color: true,
                        ..Style::default()
                    }
                )
                .starts_with("\u{1b}[1;3")
            );
        }
    }
}
