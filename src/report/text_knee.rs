//! The report of a knee search for a terminal: the highest rate within the objectives, a line a rate, a small curve.

use super::figures::{interval_outwards, percent, signed_percent, significant, significant_down, time};
use super::page::Page;
use super::sparkline::sparkline;
use super::tables::{Column, markdown};
use super::text_sizing;
use super::views::{ClassPromise, KneePoint, KneeView, Limit, Promise, Quantiles, Style};
use crate::analysis::{Estimate, Verdict};
use crate::calibrate::interval::FigureInterval;

/// Writes a knee search.
#[must_use]
pub fn knee(view: &KneeView, style: Style) -> String {
    let mut page = Page::new(style);
    first_lines(&mut page, view, style);
    page.line("");
    let (columns, rows) = cells(view);
    page.table(&columns, &rows, 1);
    if view.points.iter().any(|point| point.ttft.is_some()) {
        page.line("");
        let curve = sparkline(view, page.width());
        page.block(&curve);
    }
    page.into_text()
}

/// The table of a knee search in Markdown, under its answer.
#[must_use]
pub fn knee_markdown(view: &KneeView) -> String {
    let (columns, rows) = cells(view);
    let sized = sized(view);
    let sized = sized.map_or(String::new(), |line| format!("**{line}**\n\n"));
    format!("{sized}{}\n\n{}", answer(view), markdown(&columns, &rows))
}

/// How many replicas a rate needs, where that was asked and is known.
fn sized(view: &KneeView) -> Option<String> {
    let line = text_sizing::headline(view.sizing.as_ref()?, view.certainty())?;
    Some(match view.is_cut_after {
        true => format!("INTERRUPTED: {line}"),
        false => line,
    })
}

/// The first line.
#[must_use]
pub fn answer(view: &KneeView) -> String {
    if view.is_interrupted {
        let rates = super::figures::counted(view.points.len() as u64, "rate");
        return match view.knee {
            _ if view.points.is_empty() => "INTERRUPTED before any rate was simulated".into(),
            // Others, lower ones, might have.
            None if view.only_client().is_none() => {
                format!("INTERRUPTED after {rates}, none of which met the SLO")
            }
            _ => format!("INTERRUPTED after {rates}; until then: {}", found(view)),
        };
    }
    let found = found(view);
    match (&view.sizing, sized(view)) {
        (_, None) if !view.is_cut_after => found,
        (Some(sizing), None) => format!(
            "INTERRUPTED before replicas were counted for {} req/s; of one: {found}",
            significant(sizing.demand.rate)
        ),
        (None, _) => format!("INTERRUPTED after the search: {found}"),
        (Some(_), Some(_)) => found,
    }
}

/// What the rates that were tried say.
fn found(view: &KneeView) -> String {
    let pushed = view.client.map(|client| {
        format!(
            "{} push at most {} req/s ({} {})",
            in_flight(view),
            significant(client.rate.value),
            view.certainty(),
            bounds(&client.rate)
        )
    });
    let saturation = view.saturation.map_or(pushed.unwrap_or_default(), |estimate| {
        if let Some(high) = view.saturates_below() {
            return format!("saturates below {} req/s", significant(high));
        }
        format!(
            "saturates at {} req/s ({} {})",
            significant(estimate.value),
            view.certainty(),
            bounds(&estimate)
        )
    });
    let is_asked = !asked(view).is_empty();
    match view.knee {
        Some(knee) => format!(
            "{} req/s within SLO  ({} {})   {saturation}",
            significant_down(knee.value),
            view.certainty(),
            bounds(&knee)
        ),
        None if view.only_client().is_some() => format!("THE CLIENT IS THE LIMIT: {saturation}, within SLO"),
        None if !is_asked && !saturation.is_empty() => format!("no SLO given: {saturation}"),
        None if !is_asked => "no SLO given and no saturation found".into(),
        None => format!("NO RATE{} meets the SLO   {saturation}", from(view)),
    }
    .trim_end()
    .to_string()
}

/// `16 in flight`.
pub(super) fn in_flight(view: &KneeView) -> String {
    match view.max_concurrency {
        Some(limit) => format!("{limit} in flight"),
        None => "clients with limits of their own".to_owned(),
    }
}

/// From which rate on none was looked for, where lower ones were left out.
fn from(view: &KneeView) -> String {
    let lowest = view.points.first().map(|point| point.request_rate);
    let is_bound = |min: &f64| lowest.is_some_and(|lowest| lowest <= min * (1.0 + 1e-9));
    view.min_rate.filter(is_bound).map_or(String::new(), |min| {
        format!(" from {} req/s up", significant(min))
    })
}

fn first_lines(page: &mut Page, view: &KneeView, style: Style) {
    let is_kept = view.knee.is_some() || view.only_client().is_some();
    let is_whole = !view.is_interrupted && !view.is_cut_after;
    let code = if is_kept && is_whole { 32 } else { 31 };
    let coloured = |line: String| match style.color {
        true => format!("\u{1b}[1;{code}m{line}\u{1b}[0m"),
        false => line,
    };
    if let Some(sized) = sized(view) {
        page.answer(&coloured(sized));
    }
    page.answer(&coloured(answer(view)));
    let qualified = view
        .sizing
        .as_ref()
        .map(|sizing| text_sizing::lines(sizing, view.is_interrupted, view.only_client().is_some()));
    for (name, sentence) in qualified.into_iter().flatten() {
        page.listed(name, &[sentence]);
    }
    let asked = asked(view);
    if !asked.is_empty() {
        let fewest = match view.classes.iter().any(|class| !class.limits.is_empty()) {
            true => " (attain: of the class with the fewest)",
            false => "",
        };
        page.fact("SLO", &(asked.join(", ") + fewest));
    }
    if let Some(limited_by) = &view.limited_by {
        page.fact("limited by", limited_by);
    }
    page.fact("simulated", &view.subject);
    page.listed("trust", &super::text_caveats::trust_lines(&view.trust));
    if let Some(model) = &view.model {
        page.fact("model ±", &model_interval(model));
    } else if let Some(why) = &view.model_unknown {
        page.fact("model ±", &format!("not known: {why}"));
    }
    page.listed("note", &view.notes);
    super::text_caveats::assumed(page, &view.assumptions);
}

/// All that is promised, one phrase each.
pub(super) fn asked(view: &KneeView) -> Vec<String> {
    promised(&view.limits, &view.classes, &view.promises, view.attainment)
}

/// The same of a promise that no search was made for.
#[must_use]
pub fn promised(
    limits: &[Limit],
    classes: &[ClassPromise],
    promises: &[Promise],
    attainment: f64,
) -> Vec<String> {
    let percentiles = promises.iter().map(promise);
    per_request(limits, classes, attainment)
        .into_iter()
        .chain(percentiles)
        .collect()
}

/// What each request is promised: `99.0 % of requests with TTFT ≤ 500 ms`, or that of every class.
fn per_request(limits: &[Limit], classes: &[ClassPromise], attainment: f64) -> Option<String> {
    let written = |limits: &[Limit]| {
        let limits: Vec<String> = limits
            .iter()
            .map(|limit| format!("{} ≤ {}", limit.metric.to_uppercase(), time(limit.limit_s)))
            .collect();
        limits.join(" and ")
    };
    let classes: Vec<String> = classes
        .iter()
        .filter(|class| !class.limits.is_empty())
        .map(|class| format!("{} with {}", class.name, written(&class.limits)))
        .collect();
    let share = percent(attainment);
    if !classes.is_empty() {
        return Some(format!(
            "{share} of the requests of each class: {}",
            classes.join("; ")
        ));
    }
    (!limits.is_empty()).then(|| format!("{share} of requests with {}", written(limits)))
}

/// `ITL p99 ≤ 50.0 ms`.
fn promise(promise: &Promise) -> String {
    let statistic = promise.percentile.map_or("mean".to_owned(), |p| format!("p{p}"));
    let metric = promise.metric.to_uppercase();
    format!("{metric} {statistic} ≤ {}", time(promise.limit_s))
}

/// A latency's name and where a rate has it.
type Latency = (&'static str, fn(&KneePoint) -> Option<Quantiles>);

/// The latencies beside TTFT and TPOT that something is promised about.
fn further(view: &KneeView) -> Vec<Latency> {
    let all: [Latency; 2] = [("itl", |point| point.itl), ("e2el", |point| point.e2el)];
    let is_promised = |name: &str| {
        view.limits.iter().any(|limit| limit.metric == name)
            || view.promises.iter().any(|promise| promise.metric == name)
    };
    all.into_iter().filter(|(name, _)| is_promised(name)).collect()
}

/// What the parameters' uncertainty makes of the knee, sampling apart.
fn model_interval(model: &FigureInterval) -> String {
    let (down, up) = model.factors_90();
    let mostly = model.worst().map_or(String::new(), |component| {
        format!(", mostly by {}", component.name().replace('_', " "))
    });
    format!(
        "knee {} to {}, 90 %{mostly}",
        signed_percent(down - 1.0),
        signed_percent(up - 1.0)
    )
}

fn cells(view: &KneeView) -> (Vec<Column>, Vec<Vec<String>>) {
    let further = further(view);
    let mut heads: Vec<String> = ["req/s", "attain", "TTFT p50", "p99", "TPOT p50", "p99"]
        .map(str::to_owned)
        .to_vec();
    for (name, _) in &further {
        heads.extend([format!("{} p50", name.to_uppercase()), "p99".to_owned()]);
    }
    heads.extend(["running", "KV"].map(str::to_owned));
    let mut columns: Vec<Column> = heads.iter().map(|head| Column::right(head)).collect();
    columns.push(Column::left("state"));
    let at_knee = knee_row(view);
    let rows = view
        .points
        .iter()
        .enumerate()
        .map(|(index, point)| row(point, &further, Some(index) == at_knee))
        .collect();
    (columns, rows)
}

/// The last rate that is not above the knee.
fn knee_row(view: &KneeView) -> Option<usize> {
    let knee = view.knee?;
    view.points
        .iter()
        .rposition(|point| point.request_rate <= knee.value * (1.0 + 1e-9))
}

fn row(point: &KneePoint, further: &[Latency], at_knee: bool) -> Vec<String> {
    let quoted = |value: Option<f64>| value.map_or("–".into(), time);
    let rate = match at_knee {
        true => format!("▶ {}", significant_down(point.request_rate)),
        false => significant(point.request_rate),
    };
    let mut cells = vec![
        rate,
        point.attainment.map_or("–".into(), percent),
        quoted(point.ttft.map(|quantiles| quantiles.p50_s)),
        quoted(point.ttft.map(|quantiles| quantiles.p99_s)),
        quoted(point.tpot.map(|quantiles| quantiles.p50_s)),
        quoted(point.tpot.map(|quantiles| quantiles.p99_s)),
    ];
    for (_, of) in further {
        let quantiles = of(point);
        cells.push(quoted(quantiles.map(|quantiles| quantiles.p50_s)));
        cells.push(quoted(quantiles.map(|quantiles| quantiles.p99_s)));
    }
    cells.extend([
        point.running.map_or("–".into(), significant),
        point.kv_usage.map_or("–".into(), percent),
        state(point, at_knee),
    ]);
    cells
}

fn state(point: &KneePoint, at_knee: bool) -> String {
    match point.verdict {
        Verdict::Stable | Verdict::Critical | Verdict::Finite if point.is_losing => {
            let lost = [("refused", point.refused), ("given up", point.given_up)];
            let named = lost.iter().filter(|(_, share)| *share > 0.0);
            let named: Vec<String> = named
                .map(|(how, share)| format!("{} {how}", percent(*share)))
                .collect();
            format!("LOSES: {}", named.join(", "))
        }
        Verdict::Unstable if point.is_held_by_client => format!(
            "UNSTABLE: client's queue grows {} req/s",
            significant(point.growth_per_s)
        ),
        Verdict::Unstable => format!(
            "UNSTABLE: backlog grows {} req/s",
            significant(point.growth_per_s)
        ),
        Verdict::Critical => match point.p99_ttft {
            Some(interval) => format!(
                "critical: ±{}",
                percent((interval.high - interval.low) / 2.0 / interval.value)
            ),
            None => "critical".into(),
        },
        Verdict::TooShort => "too short".into(),
        Verdict::Finite if at_knee => "finite, SLO knee".into(),
        Verdict::Finite => "finite".into(),
        Verdict::Stable if at_knee => "stable, SLO knee".into(),
        Verdict::Stable => "stable".into(),
    }
}

/// An interval, of which no rate that was tried may be the lower end.
fn bounds(estimate: &Estimate) -> String {
    match estimate.low > 0.0 {
        true => interval_outwards(estimate.low, estimate.high),
        false => format!("at most {}", significant(estimate.high)),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_knee_search_reads_from_answer_to_curve() {
        assert_snapshot!(knee(&fixtures::knee_view(), Style::default()), @r"
        24.2 req/s within SLO  (95 % [22.9, 25.3])   saturates at 27.6 req/s (95 % [26.1, 29.0])
          SLO         99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
          limited by  prefill compute (91 % of roof at the knee)
          simulated   Llama-3.1-8B-Instruct on H100-SXM-80GB
          trust       ●●○ decode calibrated   ●○○ prefill roofline only
          assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

           req/s  attain  TTFT p50      p99  TPOT p50      p99  running      KV  state
            4.00   100 %   28.0 ms  61.0 ms   7.00 ms  8.60 ms     4.00  1.00 %  stable
            8.00   100 %   31.0 ms  88.0 ms   7.40 ms  9.90 ms     8.00  2.00 %  stable
            16.0  99.9 %   44.0 ms   171 ms   11.0 ms  16.2 ms     23.0  5.75 %  stable
            22.0  99.6 %   78.0 ms   362 ms   15.9 ms  27.0 ms     45.0  11.2 %  stable
          ▶ 24.2  99.0 %    112 ms   498 ms   18.8 ms  33.1 ms     60.0  15.0 %  stable, SLO knee
            26.0  75.8 %    340 ms   2.10 s   24.1 ms  41.7 ms     74.0  18.5 %  critical: ±33.3 %
            28.0       –         –        –         –        –        –       –  UNSTABLE: backlog grows 0.400 req/s

          p99 TTFT │                                                      ┊  ▃▆█
             (log) │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▁▁▂▂▃▄▅████┄┄┄┄ SLO 500 ms
                   │                             ▁▁▁▂▂▂▂▃▃▄▄▅▅▆▆▆▇▇█████████████
                   │         ▂▃▃▃▄▄▄▅▅▅▆▆▆▆▇▇▇██████████████████████████████████
                   └──────────────────────────────────────────────────────▲───────── req/s
                    0                                                   24.2     28.0
        ");
    }

    #[test]
    fn a_search_that_finds_nothing_says_so() {
        let mut view = fixtures::knee_view();
        (view.knee, view.saturation) = (None, None);
        view.points.drain(..6);
        assert_snapshot!(knee(&view, Style::default()), @r"
        NO RATE meets the SLO
          SLO         99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
          limited by  prefill compute (91 % of roof at the knee)
          simulated   Llama-3.1-8B-Instruct on H100-SXM-80GB
          trust       ●●○ decode calibrated   ●○○ prefill roofline only
          assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

          req/s  attain  TTFT p50  p99  TPOT p50  p99  running  KV  state
           28.0       –         –    –         –    –        –   –  UNSTABLE: backlog grows 0.400 req/s
        ");
        view.points.clear();
        assert_snapshot!(answer(&view), @"NO RATE meets the SLO");
        view.limits.clear();
        assert_snapshot!(answer(&view), @"no SLO given and no saturation found");
    }

    #[test]
    fn rates_that_were_left_out_are_not_said_to_miss_the_promise() {
        let mut view = fixtures::knee_view();
        view.knee = None;
        view.points.drain(..6);
        view.min_rate = Some(28.0);
        view.saturation = Some(Estimate {
            value: 27.6,
            low: 0.0,
            high: 28.0,
        });
        assert_snapshot!(answer(&view), @"NO RATE from 28.0 req/s up meets the SLO   saturates below 28.0 req/s");
        view.min_rate = Some(2.0);
        assert!(answer(&view).starts_with("NO RATE meets"));
    }

    #[test]
    fn what_must_be_known_of_the_search_stands_apart_from_what_was_assumed() {
        let mut view = fixtures::knee_view();
        view.model_unknown = Some("no promise is broken".to_owned());
        view.notes = vec!["the search ran out of runs".to_owned()];
        let printed = knee(&view, Style::default());
        let lines = "  model ±     not known: no promise is broken\n  note        the search ran out of runs\n  assumed     gpu";
        assert!(printed.contains(lines), "{printed}");
    }

    #[test]
    fn a_promised_percentile_is_printed_and_has_its_columns() {
        let mut view = fixtures::knee_view();
        view.limits.clear();
        view.promises = vec![Promise {
            metric: "itl".into(),
            percentile: Some(99.0),
            limit_s: 0.1,
        }];
        let printed = knee(&view, Style::default());
        assert!(
            printed.contains("\n  SLO         ITL p99 ≤ 100 ms\n"),
            "{printed}"
        );
        assert!(printed.contains("TPOT p50      p99  ITL p50"), "{printed}");
        view.knee = None;
        assert!(answer(&view).starts_with("NO RATE meets the SLO"));
    }

    #[test]
    fn a_search_that_was_stopped_claims_no_more_than_it_tried() {
        let mut view = fixtures::knee_view();
        view.is_interrupted = true;
        view.knee = None;
        assert_eq!(
            answer(&view),
            "INTERRUPTED after 7 rates, none of which met the SLO"
        );
        view.points.clear();
        assert_eq!(answer(&view), "INTERRUPTED before any rate was simulated");
    }

    #[test]
    fn what_follows_from_a_search_may_be_cut_short_and_the_first_line_says_so() {
        let mut view = fixtures::knee_view();
        view.is_cut_after = true;
        let first = |view: &KneeView| {
            let printed = knee(view, Style::default());
            printed.lines().next().unwrap().to_owned()
        };
        assert!(first(&view).starts_with("INTERRUPTED after the search: 24.2 req/s within SLO"));
        assert!(super::super::csv::knee(&view).contains("\n,interrupted,"));
        let json = super::super::json::knee(&view);
        assert!(
            json.contains(r#""interrupted": true, "interrupted_after_search": true"#),
            "{json}"
        );
        view.sizing = Some(fixtures::sizing());
        assert!(first(&view).starts_with("INTERRUPTED: 2 replicas for 40.0 req/s"));
        assert!(answer(&view).starts_with("24.2 req/s within SLO"));
        assert!(knee_markdown(&view).starts_with("**INTERRUPTED: 2 replicas"));
        let sizing = view.sizing.as_mut().unwrap();
        (sizing.fleet, sizing.counted) = (None, None);
        assert!(
            first(&view).starts_with(
                "INTERRUPTED before replicas were counted for 40.0 req/s; of one: 24.2 req/s within SLO"
            ),
            "{}",
            first(&view)
        );
    }

    #[test]
    fn the_plateau_of_a_client_is_the_answer_and_no_knee() {
        use crate::analysis::knee::ClientLimit;
        let mut view = fixtures::knee_view();
        let rate = view.saturation.take().unwrap();
        view.max_concurrency = Some(16);
        view.client = Some(ClientLimit {
            rate,
            is_within: false,
        });
        assert_snapshot!(answer(&view), @"24.2 req/s within SLO  (95 % [22.9, 25.3])   16 in flight push at most 27.6 req/s (95 % [26.1, 29.0])");
        view.knee = None;
        assert_snapshot!(answer(&view), @"NO RATE meets the SLO   16 in flight push at most 27.6 req/s (95 % [26.1, 29.0])");
        view.client = Some(ClientLimit {
            rate,
            is_within: true,
        });
        assert_snapshot!(answer(&view), @"THE CLIENT IS THE LIMIT: 16 in flight push at most 27.6 req/s (95 % [26.1, 29.0]), within SLO");
    }

    #[test]
    fn the_small_curve_says_why_no_promise_to_a_class_stands_in_it() {
        let mut view = fixtures::knee_view();
        let limits = std::mem::take(&mut view.limits);
        view.classes = vec![crate::report::ClassPromise {
            name: "chat".into(),
            request_rate: None,
            limits,
        }];
        let printed = knee(&view, Style::default());
        assert!(
            printed.ends_with(
                "\n            of all requests; each promise is to a class, and has no line here\n"
            ),
            "{printed}"
        );
    }

    #[test]
    fn markdown_has_the_same_rows() {
        let text = knee_markdown(&fixtures::knee_view());
        assert_eq!(
            text.lines().filter(|line| line.starts_with('|')).count(),
            2 + 7,
            "{text}"
        );
    }
}
