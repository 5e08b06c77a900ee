//! Counting: requests, tokens, seconds and their ratios must agree within the digits that were printed.

use super::case::{Case, may_agree, printed_slack};
use super::finding::{Check, Finding, Severity, show, time};

/// What two ways of counting may differ by, beyond their digits: warm-up requests, a clock read a little later.
const TOLERANCE: f64 = 0.02;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    failures(case, found);
    no_time(case, found);
    requests(case, found);
    more_than_were_sent(case, found);
    lists(case, found);
    no_numbers(case, found);
    tokens(case, found);
    in_flight(case, found);
}

/// Figures are of answered requests; those that were not answered are often the slow ones.
fn failures(case: &Case<'_>, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    if outcome.completed == Some(0) {
        let claim = "no request was answered: zeros stand for what was not measured";
        let sent = outcome.failed.or(case.row.setup.num_prompts).unwrap_or(0);
        let finding = Finding::new(Severity::Impossible, Check::Failures, claim);
        found.push(
            finding
                .shown(format!("0 of {sent} requests"))
                .rerun("read the client's errors and run again"),
        );
        return;
    }
    let Some((failed, completed)) = outcome.failed.filter(|failed| *failed > 0).zip(outcome.completed) else {
        return;
    };
    let share = failed as f64 / (failed + completed) as f64;
    let severity = if share > 0.05 {
        Severity::Doubtful
    } else {
        Severity::Note
    };
    let shown = format!(
        "{failed} of {} requests failed, {:.1} %",
        failed + completed,
        100.0 * share
    );
    let claim = "requests failed: latencies and throughput are those of the others";
    let rerun = "find out why they failed; a timeout takes the slowest requests out of every percentile";
    let finding = Finding::new(severity, Check::Failures, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// Somebody was answered, and it took no time at all.
fn no_time(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some(requests) = case.requests() else {
        return;
    };
    if case.row.outcome.duration_s == Some(0.0) {
        let claim = "the run took no time";
        let shown = format!("{} requests were answered in 0 s", show(requests));
        let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
        found.push(finding.shown(shown).rerun("find out who wrote the duration"));
    }
}

/// Whoever was answered or failed had been sent.
fn more_than_were_sent(case: &Case<'_>, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    let Some((completed, sent)) = outcome.completed.zip(case.row.setup.num_prompts) else {
        return;
    };
    let failed = outcome.failed.unwrap_or(0);
    if completed + failed <= sent {
        return;
    }
    let claim = "more requests were answered or failed than were sent";
    let shown = format!(
        "{completed} answered + {failed} failed = {}, of {sent}",
        completed + failed
    );
    let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
    found.push(finding.shown(shown).rerun("count every request once"));
}

/// A client lists every request that it sent, in every list; somebody may have cut all of them to the same few.
fn lists(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some(wrong) = &case.row.miscounted else {
        return;
    };
    let (severity, claim) = match wrong.is_part {
        true => (
            Severity::Note,
            "lists of requests hold a part of those that were answered",
        ),
        false => (
            Severity::Impossible,
            "lists of requests are not as long as the requests that they list",
        ),
    };
    let finding = Finding::new(severity, Check::CountsAgree, claim).shown(wrong.words.clone());
    found.push(
        finding.rerun(
            "find out who changed the lists; figures and lists are of one run as the client wrote them",
        ),
    );
}

/// Somebody was answered, so there were first tokens and answers to measure; gaps there are from the second token on.
fn no_numbers(case: &Case<'_>, found: &mut Vec<Finding>) {
    let is_of = |key: &&String, names: &[&str]| names.iter().any(|name| key.contains(name));
    let keys = &case.row.not_numbers;
    let told = |found: &mut Vec<Finding>, severity: Severity, keys: Vec<&String>| {
        if keys.is_empty() {
            return;
        }
        let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
        let claim = "a figure is NaN although requests were answered";
        let finding = Finding::new(severity, Check::CountsAgree, claim).shown(names.join(", "));
        found.push(finding.rerun("find out what the client divided or averaged"));
    };
    let always = ["ttft", "e2el", "throughput", "goodput", "duration"];
    let broken = keys.iter().filter(|key| is_of(key, &always));
    told(found, Severity::Impossible, broken.collect());
    let one_token = case.row.setup.output_tokens.is_some_and(|tokens| tokens <= 1.0);
    let gaps = keys
        .iter()
        .filter(|key| is_of(key, &["tpot", "itl"]) && !is_of(key, &always));
    let severity = if one_token {
        Severity::Note
    } else {
        Severity::Doubtful
    };
    told(found, severity, gaps.collect());
}

/// `X · D = N`. A tool whose duration is the time of sending may miss it by the time of the last answers.
fn requests(case: &Case<'_>, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    let known = outcome
        .request_throughput
        .zip(outcome.duration_s)
        .zip(case.requests());
    let Some(((rate, duration), requests)) = known else {
        return;
    };
    if rate <= 0.0 || duration <= 0.0 {
        return;
    }
    let answered = rate * duration;
    let slack = printed_slack(rate) + printed_slack(duration);
    if may_agree((answered, slack), (requests, 0.0), TOLERANCE) {
        return;
    }
    let drain = requests / rate - duration;
    let slowest = case.e2el_stats().max.or(case.e2el_stats().percentile(99.0));
    if drain > 0.0 && slowest.is_some_and(|slowest| drain <= 1.2 * slowest) {
        let claim = "the duration is the time of sending: throughput counts the last answers too";
        let shown = format!(
            "{} requests / {}/s = {}, {} after sending ended and within the slowest answer",
            show(requests),
            show(rate),
            time(requests / rate),
            time(drain)
        );
        found.push(Finding::new(Severity::Note, Check::CountsAgree, claim).shown(shown));
        return;
    }
    let sent = case.row.outcome.completed.is_none();
    let (severity, claim) = if sent && answered < requests {
        (
            Severity::Doubtful,
            "not every request was answered, or throughput is not over the whole run",
        )
    } else {
        (
            Severity::Impossible,
            "request throughput, duration and number of requests contradict each other",
        )
    };
    let shown = format!(
        "{}/s × {} = {} requests, not {}",
        show(rate),
        time(duration),
        show(answered),
        show(requests)
    );
    let rerun = "count failed requests, and take throughput as answers over first send to last answer";
    let finding = Finding::new(severity, Check::CountsAgree, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// Output tok/s is `X · n`; total tok/s adds the prompts.
fn tokens(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (outcome, setup) = (&case.row.outcome, &case.row.setup);
    // Requests per second must come from requests, else this would compare a number with itself.
    let rate = outcome.request_throughput.or_else(|| {
        let answers = outcome.completed? as f64;
        Some(answers / outcome.duration_s.filter(|duration| *duration > 0.0)?)
    });
    let (Some(rate), Some(output)) = (rate.filter(|rate| *rate > 0.0), setup.output_tokens) else {
        return;
    };
    let agrees = |is: f64, expected: f64, parts: &[f64]| {
        let slack: f64 = parts.iter().map(|part| printed_slack(*part)).sum();
        may_agree((is, printed_slack(is)), (expected, slack), TOLERANCE)
    };
    if let Some(is) = outcome.output_throughput.filter(|is| *is > 0.0) {
        let expected = rate * output;
        let both = setup.input_tokens.map(|input| rate * (input + output));
        let counts_prompts = both.is_some_and(|both| agrees(is, both, &[rate]));
        if !agrees(is, expected, &[rate, output]) {
            let shown = format!(
                "{}/s × {} tokens = {} tok/s, not {}",
                show(rate),
                show(output),
                show(expected),
                show(is)
            );
            found.push(if counts_prompts {
                let claim = "output throughput counts prompt tokens";
                let rerun = "quote output tokens alone; prompt tokens are not generated";
                let shown = format!("{shown}; with prompts {} tok/s", show(both.unwrap_or_default()));
                Finding::new(Severity::Impossible, Check::PromptTokensCounted, claim)
                    .shown(shown)
                    .rerun(rerun)
            } else {
                let claim = "output throughput, request throughput and answer length contradict each other";
                let rerun = "count the tokens that the server reports, over first send to last answer";
                Finding::new(contradiction(case), Check::CountsAgree, claim)
                    .shown(shown)
                    .rerun(rerun)
            });
        }
    }
    let expected = setup.input_tokens.map(|input| rate * (input + output));
    if let Some((is, expected)) = outcome.total_throughput.zip(expected)
        && !agrees(is, expected, &[rate, output])
    {
        let claim = "total throughput is not prompt and output tokens per second";
        let shown = format!(
            "{}/s × (prompt + answer) = {} tok/s, not {}",
            show(rate),
            show(expected),
            show(is)
        );
        found.push(Finding::new(contradiction(case), Check::CountsAgree, claim).shown(shown));
    }
}

/// Lengths in a table are often nominal; in a tool's own file they are counted.
fn contradiction(case: &Case<'_>) -> Severity {
    let counted = case.row.outcome.output_tokens.is_some() && case.row.outcome.completed.is_some();
    if counted {
        Severity::Impossible
    } else {
        Severity::Doubtful
    }
}

/// A tool that reports its mean concurrency must agree with Little's law.
fn in_flight(case: &Case<'_>, found: &mut Vec<Finding>) {
    let reported = case
        .row
        .outcome
        .mean_in_flight
        .filter(|reported| *reported >= 0.5);
    let (Some(reported), Some(little), Some(_)) = (reported, case.in_flight(), case.row.e2el.mean) else {
        return;
    };
    if !may_agree(
        (little.value, little.slack),
        (reported, printed_slack(reported)),
        0.05,
    ) {
        let claim = "the reported mean concurrency is not throughput × latency";
        let shown = format!(
            "{} = {} in flight, reported {}",
            little.how,
            show(little.value),
            show(reported)
        );
        found.push(Finding::new(Severity::Doubtful, Check::CountsAgree, claim).shown(shown));
    }
}
