//! Rows of one table against each other: what no row shows by itself.

mod faster;

use std::collections::BTreeMap;

use super::case::Case;
use super::finding::{Check, Finding, Severity, show, time};
use super::little::likely_limit;
use crate::results::Load;

/// Ratios of measured times that agree this closely over several speeds are one number.
const SAME_RATIO: f64 = 0.005;
/// Means in flight that agree this closely over several speeds are one limit.
const SAME_LIMIT: f64 = 0.03;
/// Speeds that differ by this much are not the same run twice.
const OTHER_SPEED: f64 = 1.3;

/// Indices of rows by family, in order.
fn families(cases: &[Case<'_>]) -> Vec<Vec<usize>> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        families.entry(&case.row.setup.family).or_default().push(index);
    }
    families.into_values().collect()
}

/// Finds `median ttft = N · median itl` with one N over rows of different speed: both columns are the answer's time.
pub(super) fn first_token_is_the_answer(cases: &mut [Case<'_>]) -> Vec<Vec<Finding>> {
    let mut found = vec![Vec::new(); cases.len()];
    for family in families(cases) {
        let ratio = |index: &usize| {
            let row = cases[*index].row;
            let (first, gap) = (
                row.ttft.median?,
                row.itl.median.or(row.tpot.median).filter(|gap| *gap > 0.0)?,
            );
            Some((*index, first / gap, gap))
        };
        let rows: Vec<(usize, f64, f64)> = family.iter().filter_map(ratio).collect();
        let (Some(low), Some(high)) = (
            least(rows.iter().map(|row| row.1)),
            most(rows.iter().map(|row| row.1)),
        ) else {
            continue;
        };
        let gaps: Vec<f64> = rows.iter().map(|row| row.2).collect();
        let middle = rows.iter().map(|row| row.1).sum::<f64>() / rows.len() as f64;
        let differ = high - low > 2.0 * SAME_RATIO * middle;
        if rows.len() < 3 || !are_other_speeds(&gaps) || middle < 8.0 || differ {
            continue;
        }
        let tokens = middle.round();
        let claim = format!(
            "the ttft column is the time of a whole answer of {tokens} tokens, and itl is that over {tokens}: neither \
             was measured"
        );
        for (index, ratio, gap) in &rows {
            let first = ratio * gap;
            let shown = format!(
                "{} / {} = {}; in all {} rows the ratio lies between {low:.2} and {high:.2}, whatever the speed",
                time(first),
                time(*gap),
                show(*ratio),
                rows.len()
            );
            let rerun = "stream the answers, take ttft at the first chunk and itl between chunks";
            let finding = Finding::new(Severity::Impossible, Check::TtftIsE2el, claim.clone());
            found[*index].push(finding.shown(shown).rerun(rerun));
            cases[*index].answer_in_ttft = Some(tokens);
        }
    }
    found
}

pub(super) fn check(cases: &[Case<'_>], found: &mut [Vec<Finding>]) {
    for family in families(cases) {
        one_limit(cases, &family, found);
        batches(cases, &family, found);
        clients(cases, &family, found);
        faster::faster_tokens(cases, &family, found);
        twins(cases, &family, found);
    }
    offline(cases, found);
}

/// Without a limit, faster servers hold fewer in flight. The same number over different speeds is a limit.
fn one_limit(cases: &[Case<'_>], family: &[usize], found: &mut [Vec<Finding>]) {
    let of = |index: &usize| {
        let case = &cases[*index];
        let measured = !case.e2el_stats().is_empty() && case.row.setup.max_concurrency.is_none();
        let unlimited = measured && matches!(case.load(), Load::Burst | Load::Open { .. });
        let (in_flight, whole) = (case.in_flight()?, case.e2el()?);
        unlimited.then_some((*index, in_flight.value, whole.value))
    };
    let rows: Vec<(usize, f64, f64)> = family.iter().filter_map(of).collect();
    // A limit is what no row exceeds by much: the fullest burst, or the fullest row, and those that agree with it.
    let bursts: Vec<f64> = rows
        .iter()
        .filter(|row| cases[row.0].load() == Load::Burst)
        .map(|row| row.1)
        .collect();
    let Some(limit) = middle(bursts).filter(|limit| *limit >= 4.0) else {
        return;
    };
    let at: Vec<&(usize, f64, f64)> = rows
        .iter()
        .filter(|row| row.1 > limit * (1.0 - SAME_LIMIT))
        .collect();
    let bursting = at.iter().filter(|row| cases[row.0].load() == Load::Burst);
    let speeds: Vec<f64> = bursting.clone().map(|row| row.2).collect();
    let agree = bursting.clone().all(|row| row.1 < limit * (1.0 + SAME_LIMIT));
    if speeds.len() < 2 || !agree || !are_other_speeds(&speeds) || rows.iter().any(|row| row.1 > limit * 1.1)
    {
        return;
    }
    for (index, in_flight, _) in at {
        // A finite rate needs its own load in flight; below the limit it was not held back.
        let needs = match cases[*index].load() {
            Load::Open { rate } => rate * cases[*index].e2el().map_or(0.0, |whole| whole.value),
            _ => f64::INFINITY,
        };
        if needs >= limit {
            found[*index].retain(|finding| {
                !matches!(
                    finding.check,
                    Check::HiddenLimit | Check::TooShort | Check::Overload
                )
            });
            found[*index].push(limited(&cases[*index], *in_flight, limit, speeds.len()));
        }
    }
}

fn limited(case: &Case<'_>, in_flight: f64, limit: f64, bursts: usize) -> Finding {
    let claim =
        "a closed loop: a limit of the client holds requests back, so the plateau is the client, not the GPU";
    let waves =
        case.requests()
            .zip(case.duration())
            .zip(case.e2el())
            .map_or(String::new(), |((n, run), whole)| {
                let waves = (run / whole.value).round().max(2.0);
                match case.load() {
                    Load::Open { rate } => format!(
                        "; {}/s × {} would need {}",
                        show(rate),
                        time(whole.value),
                        show(rate * whole.value)
                    ),
                    _ => format!(
                        "; {} requests in {waves} waves{}",
                        show(n),
                        likely_limit(n, waves)
                    ),
                }
            });
    let how = case.in_flight().map_or(String::new(), |figure| figure.how);
    let shown = format!(
        "Little: {how} = {in_flight:.1} in flight; {bursts} runs with all requests at once show {limit:.1}, whatever the \
         speed{waves}"
    );
    let rerun = "raise the limit (client connections, `--max-concurrency`, a semaphore) until the number in flight \
                 follows the speed, or report a closed loop of that many clients";
    Finding::new(Severity::Impossible, Check::HiddenLimit, claim)
        .shown(shown)
        .rerun(rerun)
}

/// One batch: `T(B) − T(1)` holds at least the prompts of `B − 1` further requests, decode steps being no faster.
fn batches(cases: &[Case<'_>], family: &[usize], found: &mut [Vec<Finding>]) {
    let batch_of = |index: usize| match cases[index].load() {
        Load::StaticBatch { batch } => Some(batch as f64),
        _ => None,
    };
    for &index in family {
        let Some(batch) = batch_of(index).filter(|batch| *batch > 1.0) else {
            continue;
        };
        let case = &cases[index];
        let same = |other: &&usize| {
            let (a, b) = (&cases[**other].row.setup, &case.row.setup);
            a.gpu == b.gpu
                && a.model == b.model
                && a.engine == b.engine
                && a.workload == b.workload
                && a.flags == b.flags
        };
        let smallest = family
            .iter()
            .filter(same)
            .filter_map(|other| Some((batch_of(*other)?, *other)));
        let Some((least_batch, single)) = smallest
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(least, _)| *least < batch)
        else {
            continue;
        };
        let totals = case.row.e2el.centre().zip(cases[single].row.e2el.centre());
        let Some((total, base)) = totals else { continue };
        let prompt = case
            .row
            .setup
            .input_tokens
            .zip(case.token_floor_s())
            .map(|(tokens, floor)| tokens * floor);
        let Some(prompt) = prompt else { continue };
        let needed = (batch - least_batch) * prompt;
        found[index].extend(batch_finding(
            case,
            batch - least_batch,
            total - base,
            needed,
            prompt,
        ));
    }
}

/// Peaks are not reached: above this share of one there is no room for anything else.
const DENSE_SHARE: f64 = 0.85;
/// A prompt alone may take a few times its floor, but not while a batch of them takes its own exactly.
const SLOW_ALONE: f64 = 2.5;

fn batch_finding(case: &Case<'_>, more: f64, growth: f64, needed: f64, prompt: f64) -> Option<Finding> {
    let share = needed / growth.max(1e-9);
    if growth > 0.0 && share < DENSE_SHARE {
        return None;
    }
    let tokens = case.row.setup.input_tokens.unwrap_or_default();
    let shown = format!(
        "{}: {} more prompts of {} tokens need {} at 100 % of the dense peak; the total grows by {}",
        case.machine_name(),
        show(more),
        show(tokens),
        time(needed),
        time(growth.max(0.0))
    );
    let rerun = "send prompts that differ, or turn prefix caching off; this table measures decoding alone";
    let alone = 1.0 + (needed - growth) / prompt;
    let unlikely = "the larger batch leaves no time for its prompts: they look served from the prefix cache";
    let finding = if alone > SLOW_ALONE {
        let claim =
            "the prompts of the larger batch were not computed: they were served from the prefix cache";
        Finding::new(Severity::Impossible, Check::PrefillBound, claim)
    } else {
        Finding::new(Severity::Doubtful, Check::PrefillBound, unlikely)
    };
    let spare = if share > 1.0 || growth <= 0.0 {
        format!(
            "; else a prompt alone ran at {:.0} % of the peak and the batch at 100 %, with free decoding",
            100.0 / alone
        )
    } else {
        format!(", {:.0} % of the peak with free decoding", 100.0 * share)
    };
    let finding = finding.shown(shown + &spare);
    Some(finding.rerun(rerun))
}

/// More clients cannot speed each other up: `X(N) ≤ (N / M) · X(M)` for N > M.
fn clients(cases: &[Case<'_>], family: &[usize], found: &mut [Vec<Finding>]) {
    let clients_of = |index: usize| match cases[index].load() {
        Load::Closed { clients } if clients > 0 => Some(clients as f64),
        _ => None,
    };
    for &index in family {
        let (Some(many), Some(rate)) = (clients_of(index), cases[index].throughput()) else {
            continue;
        };
        for &other in family
            .iter()
            .filter(|other| **other != index && same_setup(cases, index, **other))
        {
            let (Some(few), Some(base)) = (clients_of(other), cases[other].throughput()) else {
                continue;
            };
            let allowed = many / few * base.value;
            if few < many && rate.low() > 1.15 * allowed * (1.0 + base.slack) {
                let claim = format!(
                    "{} clients are more than {} times as fast as {}",
                    show(many),
                    show(many / few),
                    show(few)
                );
                let shown = format!(
                    "{}/s against {}/s, at most {}/s",
                    show(rate.value),
                    show(base.value),
                    show(allowed)
                );
                let rerun = "run both again in one session: one of them was not warm or not alone";
                let finding = Finding::new(Severity::Doubtful, Check::RowsContradict, claim);
                found[index].push(finding.shown(shown).rerun(rerun));
                break;
            }
        }
    }
}

/// The same run twice, with other results.
fn twins(cases: &[Case<'_>], family: &[usize], found: &mut [Vec<Finding>]) {
    for (at, &index) in family.iter().enumerate() {
        let (case, Some(rate)) = (&cases[index], cases[index].throughput()) else {
            continue;
        };
        if case.load() == Load::Unknown {
            continue;
        }
        let twin = family[..at].iter().find(|other| {
            let (a, b) = (&cases[**other].row.setup, &case.row.setup);
            same_setup(cases, index, **other)
                && a.load == b.load
                && a.num_prompts == b.num_prompts
                && a.notes == b.notes
        });
        let Some((twin, base)) = twin.and_then(|twin| Some((*twin, cases[*twin].throughput()?))) else {
            continue;
        };
        let ratio = rate.value / base.value;
        if !(0.7..=1.43).contains(&ratio) {
            let few = case.requests().is_none_or(|requests| requests < 50.0);
            let severity = if few { Severity::Note } else { Severity::Doubtful };
            let claim = format!("the same run as {} with another result", cases[twin].row.place);
            let shown = format!("{}/s against {}/s", show(rate.value), show(base.value));
            let finding = Finding::new(severity, Check::RowsContradict, claim);
            found[index].push(
                finding
                    .shown(shown)
                    .rerun("state what differed, or run both again"),
            );
        }
    }
}

fn same_setup(cases: &[Case<'_>], one: usize, other: usize) -> bool {
    same_machine(cases, one, other)
        && cases[one].row.setup.engine_version == cases[other].row.setup.engine_version
}

fn same_machine(cases: &[Case<'_>], one: usize, other: usize) -> bool {
    let (a, b) = (&cases[one].row.setup, &cases[other].row.setup);
    let machine = a.gpu == b.gpu && a.n_gpus == b.n_gpus && a.model == b.model && a.precision == b.precision;
    machine
        && a.engine == b.engine
        && a.workload == b.workload
        && a.flags == b.flags
        && a.input_tokens == b.input_tokens
        && a.output_tokens == b.output_tokens
}

/// Offline tokens per second count prompts; a server's output tokens do not, and its client may have a limit.
fn offline(cases: &[Case<'_>], found: &mut [Vec<Finding>]) {
    for (index, case) in cases
        .iter()
        .enumerate()
        .filter(|(_, case)| case.load() == Load::Offline)
    {
        let Some(total) = case.row.outcome.total_throughput else {
            continue;
        };
        let served = cases.iter().enumerate().filter(|(_, other)| {
            let (a, b) = (&other.row.setup, &case.row.setup);
            a.gpu == b.gpu && a.model == b.model && other.load() == Load::Burst
        });
        let fastest = served
            .filter_map(|(at, other)| Some((at, other.row.outcome.output_throughput?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, output)) = fastest else { continue };
        let limit = found[at]
            .iter()
            .any(|finding| finding.check == Check::HiddenLimit);
        let held = cases[at].in_flight().filter(|_| limit);
        let held = held.map_or(String::new(), |figure| {
            format!(
                "; that run held {} in flight, the offline batch has no limit",
                show(figure.value)
            )
        });
        let claim = "offline and served throughput count different things: prompt and output tokens here, output \
                     tokens there";
        let lengths = cases[at].row.setup.input_tokens.zip(cases[at].output_tokens());
        let counted = lengths.map_or(String::new(), |(input, output)| {
            format!(
                "; at {} + {} tokens prompts alone make {:.1}×",
                show(input),
                show(output),
                (input + output) / output
            )
        });
        let shown = format!(
            "{} / {} tok/s = {:.1}×{counted}{held}",
            show(total),
            show(output),
            total / output
        );
        let rerun = "compare output tokens at the same number in flight before blaming the server";
        let finding = Finding::new(Severity::Doubtful, Check::NotComparable, claim);
        found[index].push(finding.shown(shown).rerun(rerun));
    }
}

/// Whether some of these times are clearly longer than others.
fn are_other_speeds(times: &[f64]) -> bool {
    let ends = most(times.iter().copied()).zip(least(times.iter().copied()));
    ends.is_some_and(|(slow, fast)| slow > OTHER_SPEED * fast)
}

fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.min_by(f64::total_cmp)
}

fn most(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.max_by(f64::total_cmp)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
