//! The traffic's flags: who sends, and when.

use toml::{Table, Value};

use super::editor::{By, Editor, count};
use super::lengths::lengths;
use super::{ClientKind, TrafficFlags};
use crate::config::diagnostic::Diagnostic;
use crate::config::document::Document;
use crate::config::raw::spelled;

/// Applies the traffic's flags.
pub(in crate::config) fn apply_traffic(
    document: &mut Document,
    flags: &TrafficFlags,
    by: By<'_>,
) -> Vec<Diagnostic> {
    let mut editor = Editor::new(document, by);
    editor.set_some("workload.base", flags.workload.clone(), "workload");
    editor.set_some("workload.seed", flags.seed.map(count), "seed");
    editor.set_some(
        "workload.num_prompts",
        flags.num_prompts.map(count),
        "num-prompts",
    );
    editor.set_some("workload.duration", flags.duration.clone(), "duration");
    editor.set_some("workload.precision", flags.precision, "precision");
    editor.set_some(
        "workload.refuse_too_long",
        flags.refuse_too_long,
        "refuse-too-long",
    );
    editor.set_some("workload.client.timeout", flags.timeout.clone(), "timeout");
    if let Some(client) = flags.client {
        editor.set(
            "workload.client.rescale_arrivals",
            client == ClientKind::Vllm,
            "client",
        );
        editor.set("workload.client.draws", draws(client), "client");
    }
    lengths(&mut editor, flags);
    arrivals(&mut editor, flags);
    editor.problems
}

/// Whose random numbers a client's requests are made of, as a scenario spells it.
fn draws(client: ClientKind) -> &'static str {
    match client {
        ClientKind::Vllm => "vllm",
        ClientKind::Sglang => "sglang",
        ClientKind::Plain => "own",
    }
}

/// The defaults of a benchmark client, where nothing else was said. SGLang's seed is that of the version that serves: 1 in
/// 0.5.4, 42 in 0.5.23 (`bench_serving --seed`); vLLM's is 0, as ours. `whole` is the input with the workload below it.
pub(in crate::config) fn client_defaults(
    document: &mut Document,
    client: ClientKind,
    whole: Option<&Document>,
) {
    let (of, is_vllm) = match client {
        ClientKind::Vllm => ("vllm bench serve", true),
        ClientKind::Sglang => ("sglang.bench_serving", false),
        ClientKind::Plain => return,
    };
    document.set_default("workload.num_prompts", Value::Integer(1000), of);
    document.set_default("workload.client.rescale_arrivals", Value::Boolean(is_vllm), of);
    document.set_default("workload.client.draws", Value::from(draws(client)), of);
    if !is_vllm {
        let profile = document.get("engine.profile").and_then(Value::as_str);
        let seed = if profile == Some("sglang@0.5.4") { 1 } else { 42 };
        document.set_default("workload.seed", Value::Integer(seed), of);
    }
    let said = |document: &Document, key: &str| whole.unwrap_or(document).get(key).is_some();
    if whole.unwrap_or(document).has_several_clients() {
        return;
    }
    if !said(document, "workload.arrivals") {
        document.set_default("workload.arrivals.all_at_once", Value::Table(Table::new()), of);
    }
    let has_lengths = said(document, "workload.lengths") || said(document, "workload.arrivals.trace");
    // SGLang's client would download ShareGPT; that its lengths are missing is told by whoever needs them.
    if is_vllm && !has_lengths {
        document.set_default("workload.lengths.random.input_len", Value::Integer(1024), of);
        document.set_default("workload.lengths.random.output_len", Value::Integer(128), of);
    }
}

fn arrivals(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let before = editor.chosen("workload.arrivals");
    let leads_conversations = leads_conversations(flags, before.as_ref());
    let asked = [
        ("users", flags.users.is_some() && !leads_conversations),
        ("trace", flags.trace.is_some()),
        ("ramp-up-strategy", flags.ramp_up_strategy.is_some()),
    ];
    let asked: Vec<&str> = asked
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
        .collect();
    if let [first, second, ..] = asked[..] {
        editor.wrong(
            second,
            format!("`--{second}` and `--{first}` both say when requests arrive"),
            "keep one",
        );
    }
    trace(editor, flags, before.as_ref());
    if leads_conversations {
        editor.set_some("workload.arrivals.trace.users", flags.users.map(count), "users");
        if flags.think_time.is_some() {
            editor.wrong(
                "think-time",
                "`--think-time` is of users who ask one question after the other",
                "leave it out: a trace's conversations have think times of their own",
            );
        }
    } else {
        users(editor, flags, before.as_ref());
    }
    ramp(editor, flags);
    editor.set_some(
        "workload.client.max_concurrency",
        flags.max_concurrency.map(count),
        "max-concurrency",
    );
    if flags.request_rate.is_some() || flags.burstiness.is_some() {
        if let [first, ..] = asked[..]
            && first != "trace"
        {
            editor.wrong(
                "request-rate",
                format!("`--request-rate` and `--{first}` both say when requests arrive"),
                "keep one",
            );
        } else {
            rate(editor, flags, before);
        }
    } else if flags.max_concurrency.is_some()
        && editor.document.get("workload.arrivals").is_none()
        && editor.document.get("workload.base").is_none()
    {
        editor.set("workload.arrivals.all_at_once", Table::new(), "max-concurrency");
    }
}

/// Whether users lead the conversations of a trace, one after the other, instead of asking questions.
fn leads_conversations(flags: &TrafficFlags, before: Option<&(String, Table)>) -> bool {
    let is_of_trace = before.is_some_and(|(kind, _)| kind == "trace") && flags.think_time.is_none();
    flags.users.is_some() && (flags.trace.is_some() || is_of_trace)
}

/// A trace and how its time stamps are read. `before` is what the scenario says of arrivals.
fn trace(editor: &mut Editor<'_>, flags: &TrafficFlags, before: Option<&(String, Table)>) {
    if let Some(path) = &flags.trace {
        editor.set("workload.arrivals.trace.path", path.clone(), "trace");
        // A trace brings its lengths and its sharing: those of the scenario it replaces go.
        editor.document.give_way("workload.lengths");
        editor.document.give_way("workload.prefix");
    }
    let is_trace = flags.trace.is_some() || before.is_some_and(|(kind, _)| kind == "trace");
    for (flag, is_given) in [
        ("time-scale", flags.time_scale.is_some()),
        ("time-unit", flags.time_unit.is_some()),
        ("spread-ticks", flags.spread_ticks),
        ("max-think-time", flags.max_think_time.is_some()),
    ] {
        if is_given && !is_trace {
            editor.wrong(flag, format!("`--{flag}` needs a trace"), "give --trace FILE");
        }
    }
    if is_trace {
        editor.set_some(
            "workload.arrivals.trace.time_scale",
            flags.time_scale,
            "time-scale",
        );
        editor.set_some(
            "workload.arrivals.trace.time_unit",
            flags.time_unit.map(spelled),
            "time-unit",
        );
        editor.set_some(
            "workload.arrivals.trace.spread_ticks",
            flags.spread_ticks.then_some(true),
            "spread-ticks",
        );
        editor.set_some(
            "workload.arrivals.trace.max_think_time",
            flags.max_think_time.clone(),
            "max-think-time",
        );
    }
}

/// Users and their think time, each from its flag or else from the scenario.
fn users(editor: &mut Editor<'_>, flags: &TrafficFlags, before: Option<&(String, Table)>) {
    let is_users = flags.users.is_some() || before.is_some_and(|(kind, _)| kind == "users");
    editor.set_some("workload.arrivals.users.users", flags.users.map(count), "users");
    match (&flags.think_time, is_users) {
        (Some(_), false) => editor.wrong("think-time", "`--think-time` needs users", "give --users N"),
        (Some(time), true) => editor.set("workload.arrivals.users.think_time", time.clone(), "think-time"),
        (None, true)
            if editor
                .document
                .get("workload.arrivals.users.think_time")
                .is_none() =>
        {
            editor.wrong(
                "users",
                "`--users` needs a think time",
                "give --think-time 30s (0s sends again at once)",
            );
        }
        (None, _) => {}
    }
}

fn ramp(editor: &mut Editor<'_>, flags: &TrafficFlags) {
    let ends = [
        ("ramp-up-start-rps", "start_rate", flags.ramp_up_start_rps),
        ("ramp-up-end-rps", "end_rate", flags.ramp_up_end_rps),
    ];
    let Some(strategy) = flags.ramp_up_strategy else {
        for (flag, _, value) in ends {
            if value.is_some() {
                editor.wrong(
                    flag,
                    format!("`--{flag}` needs a strategy"),
                    "give --ramp-up-strategy linear or exponential",
                );
            }
        }
        return;
    };
    editor.set(
        "workload.arrivals.ramp.strategy",
        spelled(strategy),
        "ramp-up-strategy",
    );
    for (flag, key, value) in ends {
        match value {
            Some(rate) => editor.set(&format!("workload.arrivals.ramp.{key}"), rate.0, flag),
            None => editor.wrong(
                flag,
                format!("`--ramp-up-strategy` needs `--{flag}`"),
                format!("give --{flag} RATE"),
            ),
        }
    }
}

/// A rate and a burstiness, each from its flag or else from the arrivals that there are. Where classes have arrivals of
/// their own a rate is that of all together.
fn rate(editor: &mut Editor<'_>, flags: &TrafficFlags, before: Option<(String, Table)>) {
    if editor.document.has_several_clients() && flags.burstiness.is_none() {
        let rate = flags.request_rate.map(|rate| rate.0);
        return editor.set_some("workload.request_rate", rate, "request-rate");
    }
    let flag = if flags.request_rate.is_some() {
        "request-rate"
    } else {
        "burstiness"
    };
    let kind = if flags.trace.is_some() {
        "trace"
    } else {
        before.as_ref().map_or("", |(kind, _)| kind)
    };
    let is_endless = flags.request_rate.is_some_and(|rate| rate.0 == f64::INFINITY);
    if kind.is_empty()
        && editor.document.get("workload.base").is_some()
        && flags.burstiness.is_none()
        && !is_endless
    {
        // What law it is of is known when that workload has been read.
        let rate = flags.request_rate.map(|rate| rate.0);
        return editor.set_some("workload.request_rate", rate, "request-rate");
    }
    let is_scaled = kind == "trace" || (matches!(kind, "profile" | "mmpp" | "ramp") && !is_endless);
    if is_scaled && flags.burstiness.is_none() {
        editor.set_some(
            &format!("workload.arrivals.{kind}.request_rate"),
            flags.request_rate.map(|rate| rate.0),
            flag,
        );
        return;
    }
    let number = |key: &str| {
        let value = before.as_ref()?.1.get(key)?;
        value
            .as_float()
            .or_else(|| value.as_integer().map(|value| value as f64))
            .or_else(|| value.as_str()?.parse().ok())
    };
    let Some(rate) = flags
        .request_rate
        .map(|rate| rate.0)
        .or_else(|| number("request_rate"))
    else {
        editor.wrong(flag, "`--burstiness` needs a rate", "give --request-rate RATE");
        return;
    };
    let was_constant = kind == "constant" && flags.burstiness.is_none();
    let burstiness = flags.burstiness.or_else(|| number("burstiness")).unwrap_or(1.0);
    let flag = |given: bool, own: &'static str| if given { own } else { flag };
    let rate_flag = flag(flags.request_rate.is_some(), "request-rate");
    if rate == f64::INFINITY {
        editor.set("workload.arrivals.all_at_once", Table::new(), rate_flag);
    } else if was_constant || burstiness == f64::INFINITY {
        editor.set("workload.arrivals.constant.request_rate", rate, rate_flag);
    } else if burstiness == 1.0 {
        editor.set("workload.arrivals.poisson.request_rate", rate, rate_flag);
        if kind.is_empty() && flags.burstiness.is_none() {
            editor.document.nobody_chose("workload.arrivals.poisson");
        }
    } else {
        editor.set("workload.arrivals.gamma.request_rate", rate, rate_flag);
        editor.set(
            "workload.arrivals.gamma.burstiness",
            burstiness,
            flag(flags.burstiness.is_some(), "burstiness"),
        );
    }
}
