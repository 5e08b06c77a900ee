//! The report of one run for a terminal: the answer, then the caveats that change a decision, then the tables.
//!
//! At most 100 columns; colour codes only when asked for. Where a steady state exists its figures are shown, with
//! intervals; else those of the whole run, and it is said that they belong to that run alone.

use super::figures::{count, counted, percent, significant, time};
use super::page::Page;
use super::standing::{collapsed_s, has_no_answers};
use super::style::Style;
use super::text_answer::{Answer, answered, paint};
use super::text_latency::{interval, latencies};
use super::views::{ResultMeta, Utilisation};
use super::{text_caveats, text_parts, text_promise, text_whole};
use crate::analysis::{RunResult, Verdict};
use crate::metrics::{Occupancy, Summary};

/// Writes the report of one run.
#[must_use]
pub fn run(result: &RunResult, meta: &ResultMeta, style: Style) -> String {
    let mut page = Page::new(style);
    let shown = result.steady.as_ref().unwrap_or(&result.whole);
    let has_figures = collapsed_s(result).is_none() && !has_no_answers(result);
    let below = if result.steady.is_some() && !result.intervals.is_empty() && has_figures {
        "  (95 % below)"
    } else {
        ""
    };
    let Answer { line, alarm } = answered(result, meta);
    page.answer(&paint(&format!("{line}{below}"), alarm, style));
    text_caveats::caveats(&mut page, result, meta);
    page.line("");
    latencies(&mut page, result, shown, meta);
    page.line("");
    facts(&mut page, result, shown, meta);
    page.line("");
    if result.steady.is_some() {
        page.line("  whole run, warm-up and drain included");
    }
    text_parts::parts(&mut page, result, meta);
    text_whole::facts(&mut page, result, meta);
    page.into_text()
}

/// Throughput, promises, state, cache and utilisation of the stretch that is shown, a line each; a line without content is
/// not printed.
fn facts(page: &mut Page, result: &RunResult, shown: &Summary, meta: &ResultMeta) {
    let seconds = shown.duration_s;
    let output = per_second(shown.output_tokens, seconds);
    page.fact(
        "throughput",
        &format!(
            "{} req/s · {} prompt tok/s · {} output tok/s{}",
            significant(per_second(shown.completed, seconds)),
            significant(per_second(shown.input_tokens, seconds)),
            significant(output),
            peak(&result.whole, output),
        ),
    );
    if let Some(served) = served_when_full(result) {
        page.fact("served", &served);
    }
    text_promise::promise(page, result, shown, meta);
    let state = &shown.occupancy;
    page.fact(
        "occupancy",
        &format!(
            "{} running (max {}) · {} waiting (max {}){} · KV {} ({} {}) · busy {}{}",
            significant(state.running),
            state.running_max,
            significant(state.waiting),
            state.waiting_max,
            handing_on(state),
            percent(state.kv_usage),
            // The mean is over all of them, and one may be full while most of them are empty.
            if result.by_replica.len() > 1 {
                "max of one replica"
            } else {
                "max"
            },
            percent(state.kv_usage_max),
            percent(state.busy),
            match meta.scaling {
                Some(_) => " (shares of the replicas in service)",
                None => "",
            },
        ),
    );
    cache(page, shown);
    if let Some(machine) = machine(shown, meta) {
        page.fact("machine", &machine);
    }
}

/// What an overloaded server can do: the throughput of the whole run has its filling up and its end in it, too.
pub(super) fn served_when_full(result: &RunResult) -> Option<String> {
    let served = interval(result, "throughput").filter(|_| result.verdict == Verdict::Unstable)?;
    Some(format!(
        "{} req/s (95 % [{}, {}]) in the last three quarters of the sending; above is the whole run, its filling up and its end included",
        significant(served.value),
        significant(served.low),
        significant(served.high),
    ))
}

/// Requests whose answers wait behind their engine, where they are more than what a way takes.
fn handing_on(state: &Occupancy) -> String {
    let shown = state.handing_on();
    match shown > HANDING_ON * state.in_system {
        true => format!(" · {} being handed on", significant(shown)),
        false => String::new(),
    }
}

/// Share of those inside whose answer is on its way, from which on they are shown.
const HANDING_ON: f64 = 0.05;

/// The busiest second of the clock, as the client counts it; nothing where a run has no whole second inside or where such
/// seconds hold less than the stretch that is shown.
fn peak(whole: &Summary, mean: f64) -> String {
    const SHORTEST_S: f64 = 2.0;
    let peak = whole.max_output_tokens_per_s;
    match whole.duration_s >= SHORTEST_S && peak >= mean {
        true => format!(" (peak {})", significant(peak)),
        false => String::new(),
    }
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
    Some(format!("{} · {tpot} bandwidth bound it", of_peaks(&used),))
}

/// What of the device's peaks was used while steps ran, and over all the time.
pub(super) fn of_peaks(used: &Utilisation) -> String {
    format!(
        "MFU {} · bandwidth {} while busy ({} and {} of all the time)",
        percent(used.mfu),
        percent(used.memory_bandwidth),
        percent(used.wall_clock_mfu()),
        percent(used.wall_clock_memory_bandwidth()),
    )
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
    use super::super::views::{Interrupted, RampUp};
    use super::*;
    use crate::analysis::Estimate;
    use crate::metrics::ReplicaSummary;

    #[test]
    fn answers_that_wait_behind_their_engine_are_told_where_they_are_many() {
        let mut state = fixtures::stable_run().whole.occupancy;
        assert_eq!(handing_on(&state), "");
        state.in_system = state.running + state.waiting + 20.0;
        assert_eq!(handing_on(&state), " · 20.0 being handed on");
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let first = |result: &RunResult, meta: &ResultMeta| answer(result, meta);
        let meta = fixtures::meta();
        assert_snapshot!(first(&fixtures::stable_run(), &meta), @"stable at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms, TPOT p50 7.25 ms, 1,280 tok/s out");
        let mut critical = fixtures::stable_run();
        critical.verdict = Verdict::Critical;
        assert_snapshot!(first(&critical, &meta), @"CRITICAL at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms ±7.95 %, TPOT p50 7.25 ms, 1,280 tok/s out");
        for (_, interval) in critical
            .intervals
            .iter_mut()
            .filter(|(name, _)| name == "p99_ttft")
        {
            interval.high = 9.0;
        }
        for verdict in [Verdict::Critical, Verdict::Stable] {
            critical.verdict = verdict;
            let said = first(&critical, &meta);
            assert!(
                said.contains("p99 87.7 ms (too wide: [0.0810, 9.00] s), TPOT"),
                "{said}"
            );
        }
        assert_snapshot!(first(&fixtures::unstable_run(), &meta), @"UNSTABLE at 10.0 req/s: backlog grows 0.400 req/s; no steady-state latency exists");
        let ramp = ResultMeta {
            ramp_up: Some(RampUp {
                exponential: false,
                start_rps: 2.0,
                end_rps: 30.0,
            }),
            ..meta.clone()
        };
        assert_snapshot!(first(&fixtures::unstable_run(), &ramp), @"UNSTABLE over a ramp from 2.00 to 30.0 req/s: more comes than is served; no steady-state latency exists");
        assert_snapshot!(first(&fixtures::failed_run(), &meta), @"NO ANSWERS at 10.0 req/s: of 8 requests 8 given up and 0 refused");
        let mut alone = fixtures::failed_run();
        (alone.whole.timed_out, alone.whole.rejected, alone.whole.failed) = (0, 1, 7);
        assert_snapshot!(first(&alone, &meta), @"NO ANSWERS at 10.0 req/s: of 8 requests 0 given up, 1 refused and 7 failed");
        (alone.whole.inside, alone.whole.failed) = (2, 5);
        assert_snapshot!(first(&alone, &meta), @"NO ANSWERS at 10.0 req/s: of 8 requests 0 given up, 1 refused and 5 failed, 2 still inside");
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
        (finite.whole.completed, finite.whole.occupancy.running_max) = (40, 32);
        assert!(
            first(&finite, &offline).ends_with(
                " tok/s out; 1.25 waves of 32: mostly ramp and drain, not what the server sustains"
            )
        );
        finite.whole.occupancy.running_max = 40;
        let at_once = ResultMeta {
            max_concurrency: None,
            ..offline.clone()
        };
        assert!(first(&finite, &at_once).contains("; one wave: mostly ramp and drain"));
        finite.whole.occupancy.running_max = 10;
        assert!(!first(&finite, &at_once).contains("ramp"));
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
          machine     MFU 16.3 % · bandwidth 61.2 % while busy (13.0 % and 49.0 % of all the time) · TPOT
                      7.66 ms, 5.10 ms if only bandwidth bound it

          whole run, warm-up and drain included
          requests    10,000 sent · 10,000 completed
          L = λW      system 9.81 = 10.0/s × 981 ms ✓ · waiting 0.0312 = 10.0/s × 3.12 ms ✓ · running 9.78 =
                      10.0/s × 978 ms ✓
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
        assert!(text.lines().next().unwrap().contains("; SLO MISSED"), "{text}");
        for line in [
            "  SLO         met: 99.7 % of requests are good, 99.0 % are asked",
            "  SLO         MISSED: p99 TTFT 87.7 ms > 50.0 ms",
            "  SLO         met: p50 TTFT 30.4 ms ≤ 50.0 ms",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    /// The mean is over all replicas, of which one may be full.
    #[test]
    fn the_fullest_replica_is_told_as_one_of_them() {
        let mut several = fixtures::stable_run();
        several.by_replica = vec![ReplicaSummary::default(), ReplicaSummary::default()];
        let text = run(&several, &fixtures::meta(), Style::default());
        assert!(text.contains("KV 2.51 % (max of one replica 6.10 %)"), "{text}");
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
          machine     MFU 16.3 % · bandwidth 61.2 % while busy (13.0 % and 49.0 % of all the time) · TPOT
                      7.96 ms, 5.10 ms if only bandwidth bound it

          requests    10,000 sent · 10,000 completed
          L = λW      system 9.81 = 10.0/s × 981 ms ✓ · waiting 0.0312 = 10.0/s × 3.12 ms ✓ · running 9.78 =
                      10.0/s × 978 ms ✓
          simulated   meta-llama/Llama-3.1-8B-Instruct on 1 × H100-SXM-80GB, vllm@0.33, calibration
                      h100-sxm-80gb-vllm, seed 0
        ");
    }

    #[test]
    fn a_peak_below_the_mean_is_none() {
        let throughput = |peak: f64, duration_s: f64| {
            let mut result = fixtures::stable_run();
            result.whole.max_output_tokens_per_s = peak;
            result.whole.duration_s = duration_s;
            let text = run(&result, &fixtures::meta(), Style::default());
            let line = text.lines().find(|line| line.contains("throughput")).unwrap();
            line.rsplit(" · ").next().unwrap().to_owned()
        };
        assert_eq!(throughput(1910.0, 1000.0), "1,280 output tok/s (peak 1,910)");
        assert_eq!(throughput(1200.0, 1000.0), "1,280 output tok/s");
        assert_eq!(throughput(1910.0, 1.9), "1,280 output tok/s");
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

          throughput  0 req/s · 0 prompt tok/s · 0 output tok/s
          occupancy   0 running (max 0) · 0 waiting (max 0) · KV 0 % (max 0 %) · busy 0 %

          requests    8 sent · 0 completed · 8 timed out
          L = λW      system 0 = 0/s × 0 ms ✓ · waiting 0 = 0/s × 0 ms ✓ · running 0 = 0/s × 0 ms ✓
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
