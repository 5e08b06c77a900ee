//! Physics: a token needs every weight that it uses read once, and a prompt its operations, at the datasheet's peaks.
//!
//! Williams 2009, roofline. Attention, activations, KV reads, launches and communication are left out, so every bound is
//! below what any engine does. The peaks are dense.

use super::case::Case;
use super::finding::{Check, Finding, Severity, show, time};
use crate::model::is_other;

/// A datasheet's bandwidth and a clock may be off by this much.
const TOLERANCE: f64 = 0.03;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    other_model(case, found);
    decode(case, found);
    whole(case, found);
    match first_pass(case) {
        Some(finding) => found.push(finding),
        None => first_token(case, found),
    }
    prompts(case, found);
}

/// Bounds of another model than the file's are bounds of nothing.
fn other_model(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (Some(model), Some(named)) = (&case.model, &case.row.setup.model) else {
        return;
    };
    if is_other(&model.name, named) {
        let claim = "the file names another model than was given: bounds are the given one's";
        let shown = format!("{named} in the file, {} given", model.name);
        let rerun = "leave --model out, or give the file of that model";
        let finding = Finding::new(Severity::Doubtful, Check::OtherModel, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// `tpot ≥ weights / (ranks · bandwidth)`, unless one step makes several tokens.
fn decode(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some(floor) = case.decode_floor_s() else {
        return;
    };
    let row = case.row;
    let step = [
        ("mean tpot", row.tpot.mean),
        ("median tpot", row.tpot.median),
        ("mean itl", row.itl.mean),
    ];
    let too_fast = |(_, value): &&(&str, Option<f64>)| {
        value.is_some_and(|value| value > 0.0 && value < floor * (1.0 - TOLERANCE))
    };
    let halved = found.iter().any(|finding| finding.check == Check::ItlAddsUp);
    let Some((name, Some(value))) = step.iter().find(|step| too_fast(step)) else {
        return;
    };
    if *name == "mean itl" && halved {
        return;
    }
    let shown = format!(
        "{}: {} of weights a token at {} takes {}, {name} is {}",
        case.machine_name(),
        weights(case),
        bandwidth(case),
        time(floor),
        time(*value)
    );
    if row.setup.speculates() {
        let claim = "tokens come faster than steps can: speculation accepts several a step";
        let shown = format!("{shown}: at least {:.1} tokens a step", floor / value);
        found.push(Finding::new(Severity::Note, Check::DecodeBound, claim).shown(shown));
        return;
    }
    let claim = format!("{name} is shorter than reading the weights once");
    let rerun = "check the number of GPUs, the precision, speculation, and whether empty chunks were counted";
    let finding = Finding::new(Severity::Impossible, Check::DecodeBound, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// A whole answer needs its prompt computed and every further token's weights read.
fn whole(case: &Case<'_>, found: &mut Vec<Finding>) {
    let stats = case.e2el_stats();
    let known = stats.mean.zip(case.output_tokens()).zip(case.decode_floor_s());
    let Some(((measured, tokens), step)) = known else {
        return;
    };
    let floor = (tokens - 1.0) * step;
    if measured < floor * (1.0 - TOLERANCE) && !case.row.setup.speculates() {
        let claim = "the answer is shorter than reading the weights for its tokens";
        let shown = format!(
            "{}: {} tokens × {} = {}, e2el is {}",
            case.machine_name(),
            show(tokens - 1.0),
            time(step),
            time(floor),
            time(measured)
        );
        let rerun = "check answer lengths (an early end of text), GPUs and precision";
        let finding = Finding::new(Severity::Impossible, Check::DecodeBound, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// A first token needs a pass of its own, wherever its prompt was cached: all weights read once, and about the time of any step.
fn first_pass(case: &Case<'_>) -> Option<Finding> {
    /// A step that decodes takes as long as others of its batch; a tenth is another unit, or no measurement.
    const OF_A_STEP: f64 = 0.1;
    let first = case.ttft()?.centre().filter(|first| *first > 0.0)?;
    let rerun = "look at the unit of ttft, and at where its clock starts and stops";
    if let Some(floor) = case.decode_floor_s()
        && first < floor * (1.0 - TOLERANCE)
    {
        let claim = "the first token comes faster than the weights are read once";
        let shown = format!(
            "{}: {} of weights at {} take {}, ttft is {}; no prefix cache saves that",
            case.machine_name(),
            weights(case),
            bandwidth(case),
            time(floor),
            time(first)
        );
        let finding = Finding::new(Severity::Impossible, Check::PrefillBound, claim);
        return Some(finding.shown(shown).rerun(rerun));
    }
    let step = case.row.tpot.centre().filter(|_| !case.row.setup.speculates())?;
    (first < OF_A_STEP * step).then(|| {
        let claim = "the first token takes less than a tenth of the time of any other, and a pass as they do";
        let shown = format!("ttft {}, tpot {}", time(first), time(step));
        let finding = Finding::new(Severity::Doubtful, Check::PrefillBound, claim);
        finding.shown(shown).rerun(rerun)
    })
}

/// A first token needs its own prompt computed.
fn first_token(case: &Case<'_>, found: &mut Vec<Finding>) {
    let known = case
        .ttft()
        .zip(case.row.setup.input_tokens)
        .zip(case.token_floor_s());
    let Some(((ttft, tokens), per_token)) = known else {
        return;
    };
    // Of prompts that vary only the mean is bounded by the mean prompt.
    let value = if case.has_fixed_lengths() {
        ttft.mean.or(ttft.median)
    } else {
        ttft.mean
    };
    let floor = tokens * per_token;
    let Some(value) = value.filter(|value| *value > 0.0 && *value < floor * (1.0 - TOLERANCE)) else {
        return;
    };
    let cached = 1.0 - value / floor;
    if let Some(share) = said_to_be_cached(case, cached) {
        found.push(share);
        return;
    }
    let claim =
        "the first token comes faster than the peak computes the prompt: prompts were in the prefix cache";
    let shown = format!(
        "{}: {} tokens at the dense peak take {}, ttft is {}; at least {:.0} % were not computed",
        case.machine_name(),
        show(tokens),
        time(floor),
        time(value),
        100.0 * cached
    );
    let rerun = "send prompts that differ from their first token, or restart the server between runs";
    let finding = Finding::new(Severity::Impossible, Check::PrefillBound, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// That a file which tells of its prefix cache says so itself, where what it found there is no less than `least`.
fn said_to_be_cached(case: &Case<'_>, least: f64) -> Option<Finding> {
    let share = case.row.outcome.cached_share?;
    if share * (1.0 + TOLERANCE) < least {
        return None;
    }
    let claim = "prompts were in the prefix cache, as the file itself says: ttft is not that of a prompt computed anew";
    let shown = format!("{:.0} % of the prompt tokens were found there", 100.0 * share);
    Some(Finding::new(Severity::Note, Check::PrefillBound, claim).shown(shown))
}

/// All tokens of the run at the peak take no longer than the run.
fn prompts(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some(per_token) = case.token_floor_s() else {
        return;
    };
    let outcome = &case.row.outcome;
    let both = case
        .row
        .setup
        .input_tokens
        .zip(case.output_tokens())
        .zip(case.throughput());
    let rate = outcome
        .total_throughput
        .or_else(|| both.map(|((input, output), rate)| rate.value * (input + output)))
        .or(outcome.input_throughput);
    let Some(rate) = rate else { return };
    let share = rate * per_token;
    if share <= 1.0 + TOLERANCE {
        return;
    }
    // Of prompts and answers only what is no prompt was computed for sure.
    let input = case.row.setup.input_tokens.zip(case.throughput());
    let prompts = input.map(|(input, answered)| answered.value * input * per_token);
    let told = prompts.and_then(|prompts| said_to_be_cached(case, (share - 1.0) / prompts));
    if let Some(told) = told {
        if !found.contains(&told) {
            found.push(told);
        }
        return;
    }
    let claim =
        "more tokens a second than the peak computes: prompts were in the prefix cache, or counted twice";
    let shown = format!(
        "{}: {} tok/s is {:.0} % of the {} tok/s at the dense peak",
        case.machine_name(),
        show(rate),
        100.0 * share,
        show(1.0 / per_token)
    );
    let rerun = "send prompts that differ from their first token, or report the prefix cache's hit rate";
    let finding = Finding::new(Severity::Impossible, Check::PrefillBound, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

fn weights(case: &Case<'_>) -> String {
    let bytes = case
        .model
        .as_ref()
        .map_or(0, |model| model.streamed_bytes(case.tensor_parallel).0);
    format!("{} GB", show(bytes as f64 / 1e9))
}

fn bandwidth(case: &Case<'_>) -> String {
    let rate = case
        .device
        .as_ref()
        .map_or(0.0, |device| device.memory_bandwidth.0);
    format!("{} TB/s", show(rate / 1e12))
}
