//! The report of a knee search for a terminal: the highest rate within the objectives, a line a rate, a small curve.

use super::figures::{
    interval_outwards, percent, percent_promised, signed_percent, significant, significant_down,
    significant_up, time,
};
use super::page::Page;
use super::sparkline::sparkline;
use super::style::Style;
use super::tables::{Column, markdown};
use super::text_caveats::{assumed, trust_lines};
use super::undone::{answers_cut, too_long};
use super::views::{ClassPromise, KneePoint, KneeView, Limit, Promise, Quantiles};
use super::{text_cost, text_sizing};
use crate::analysis::knee::{Sending, WhenFull};
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

/// A knee search in Markdown: its answer, its table, and under it what both rest on.
#[must_use]
pub fn knee_markdown(view: &KneeView) -> String {
    let (columns, rows) = cells(view);
    let sized = sized(view);
    let sized = sized.map_or(String::new(), |line| format!("**{line}**\n\n"));
    let (table, facts) = (markdown(&columns, &rows), listed(&facts(view)));
    format!("{sized}{}\n\n{table}\n{facts}", answer(view))
}

/// Names and the sentences of each, as a list in Markdown.
pub(super) fn listed(facts: &[(&str, Vec<String>)]) -> String {
    let told = facts.iter().filter(|(_, sentences)| !sentences.is_empty());
    told.map(|(name, sentences)| format!("* {name}: {}\n", sentences.join(" · ")))
        .collect()
}

/// How many replicas a rate needs, where that was asked and is known.
fn sized(view: &KneeView) -> Option<String> {
    let line = text_sizing::headline(view.sizing.as_ref()?, view.certainty())?;
    let cut = undone(view) + &burst(view.served());
    Some(match view.is_cut_after {
        true => format!("INTERRUPTED: {cut}{line}"),
        false => cut + &line,
    })
}

/// What stands before all else: the work that is not done.
fn undone(view: &KneeView) -> String {
    answers_cut(view.answers_cut) + &too_long(view.too_long)
}

/// `A BURST, NO RATE: 30 requests within 42.5 ms; `, where what is called a rate is none.
pub(super) fn burst(sending: Option<Sending>) -> String {
    let burst = sending.filter(Sending::is_burst).map(|sending| {
        let requests = super::figures::counted(sending.requests, "request");
        format!("A BURST, NO RATE: {requests} within {}; ", time(sending.lasts_s))
    });
    burst.unwrap_or_default()
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
    let cut = undone(view) + &burst(view.sending);
    match view.knee {
        Some(knee) => format!(
            "{cut}{} req/s within SLO  ({} {})   {saturation}",
            significant_down(knee.value),
            view.certainty(),
            bounds(&knee)
        ),
        None if view.only_client().is_some() => format!("THE CLIENT IS THE LIMIT: {saturation}, within SLO"),
        None if !is_asked && !saturation.is_empty() => format!("{cut}no SLO given: {saturation}"),
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
    for (name, sentences) in facts(view) {
        page.listed(name, &sentences);
    }
}

/// What stands between the answer and the table: names, and the sentences of each.
fn facts(view: &KneeView) -> Vec<(&'static str, Vec<String>)> {
    let qualified = view
        .sizing
        .as_ref()
        .map(|sizing| text_sizing::lines(sizing, view.is_interrupted, view.only_client().is_some()));
    let qualified = qualified.into_iter().flatten();
    let mut facts: Vec<(&'static str, Vec<String>)> =
        qualified.map(|(name, sentence)| (name, vec![sentence])).collect();
    if !asked(view).is_empty() {
        facts.push(("SLO", vec![promised_line(view)]));
    }
    facts.push(("limited by", view.limited_by.iter().cloned().collect()));
    let full = view.when_full.as_ref().map(|full| once_full(full, view));
    facts.push(("once full", full.into_iter().collect()));
    // Where replicas are counted, what they cost is told with them.
    if let Some(rent) = view.rent.as_ref().filter(|_| view.sizing.is_none()) {
        let per_s = view.prompt_tokens_per_s.zip(view.output_tokens_per_s);
        facts.push(("cost", vec![text_cost::line(rent, per_s, false)]));
    }
    facts.push(("simulated", vec![view.subject.clone()]));
    facts.push(("trust", trust_lines(&view.trust)));
    let unknown = view.model_unknown.as_ref();
    let unknown = unknown.map(|why| format!("not known: {why}"));
    let model = view.model.as_ref().map(model_interval).or(unknown);
    facts.push(("model ±", model.into_iter().collect()));
    facts.push(("note", view.notes.clone()));
    facts.push(("assumed", assumed(&view.assumptions)));
    facts
}

/// What a burst leaves behind, where a full server serves less than one that keeps up.
fn once_full(full: &WhenFull, view: &KneeView) -> String {
    let why = match full.preemptions >= PREEMPTED {
        true => format!(
            ", where sequences are preempted and compute again, {} times each",
            significant(full.preemptions)
        ),
        false => String::new(),
    };
    let knee = match holds_until_a_burst(view) {
        true => "; THE KNEE IS ONE OF THEM: it holds until the first burst",
        false => "",
    };
    format!(
        "it serves {} req/s ({} {}; seen at {}){why}. At rates from there to saturation a burst that fills it is never worked off{knee}",
        significant_down(full.served.value),
        view.certainty(),
        bounds(&full.served),
        significant(full.rate),
    )
}

/// Whether the knee is a rate that a full server does not come back to.
pub(super) fn holds_until_a_burst(view: &KneeView) -> bool {
    let full = view.knee.zip(view.when_full);
    full.is_some_and(|(knee, full)| knee.value > full.served.high)
}

/// Preemptions for each request from which they are told as a cause.
const PREEMPTED: f64 = 0.05;

/// All that is promised, one phrase each.
pub(super) fn asked(view: &KneeView) -> Vec<String> {
    promised(&view.limits, &view.classes, &view.promises, view.attainment)
}

/// The same as one line, which says of whom the share in the table is.
pub(super) fn promised_line(view: &KneeView) -> String {
    let fewest = match view.classes.iter().any(|class| !class.limits.is_empty()) {
        true => " (attain: of the class with the fewest; latencies: of all together)",
        false => "",
    };
    asked(view).join(", ") + fewest
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
    let share = percent_promised(attainment);
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
pub(super) fn model_interval(model: &FigureInterval) -> String {
    if model.worst().is_none() {
        return "none: how long a step lasts was said".to_owned();
    }
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
    let (least, most) = match point.may_be_past_saturation() {
        true => ("≥ ", "≤ "),
        false => ("", ""),
    };
    let share = |share: f64| format!("{most}{}", percent(share));
    let quoted = |value: Option<f64>| value.map_or("–".into(), |value| format!("{least}{}", time(value)));
    let rate = match at_knee {
        true => format!("▶ {}", significant_down(point.request_rate)),
        false => significant(point.request_rate),
    };
    let mut cells = vec![
        rate,
        point.attainment.map_or("–".into(), share),
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
        Verdict::Critical if point.may_be_past_saturation() => "critical: may be past saturation".into(),
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
        false => format!("at most {}", significant_up(estimate.high)),
    }
}

#[cfg(test)]
mod tests;
