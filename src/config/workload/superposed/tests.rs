//! Classes with arrivals of their own, as they are written and as they are judged.

use crate::analysis::LoadKind;
use crate::config::flags::tests::{Memory, flags_of};
use crate::config::tests::told_of;
use crate::config::*;
use crate::units::Picos;
use crate::workload::{Arrivals, Prefix, Stream, WorkloadSpec, mean_rate};

const CLASSES: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
[engine]
max_model_len = 8192
[workload.lengths.fixed]
input_len = 1024
output_len = 128
[[workload.classes]]
name = "chat"
[workload.classes.arrivals.poisson]
request_rate = 6.0
[workload.classes.client]
timeout = "30 s"
[[workload.classes]]
name = "code"
priority = 1
lengths.fixed = { input_len = 2048, output_len = 32 }
prefix.groups = { count = 8, prefix_len = 512 }
[workload.classes.arrivals.gamma]
request_rate = 2.0
burstiness = 0.25
[[workload.classes]]
name = "batch"
priority = 2
start = "10 s"
num_prompts = 500
[workload.classes.arrivals.closed]
max_concurrency = 16
"#;

/// Two traces in the shape of Mooncake's, and a plain one.
const TRACES: Memory = Memory(&[
    (
        "a.jsonl",
        "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [7, 8]}\n\
         {\"timestamp\": 2000, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [7, 9]}\n",
    ),
    (
        "b.jsonl",
        "{\"timestamp\": 500, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [9, 10]}\n\
         {\"timestamp\": 2500, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [7, 9]}\n",
    ),
    (
        "plain.csv",
        "arrival_timestamp,prompt_size,token_size\n0.0,100,10\n1.0,200,20\n",
    ),
]);

fn resolve_text(text: &str) -> Result<Resolved, Diagnostics> {
    resolve(Document::parse("a.toml", text)?, &TRACES)
}

fn resolved(text: &str) -> Resolved {
    resolve_text(text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn streams(spec: &WorkloadSpec) -> &[Stream] {
    match &spec.arrivals {
        Arrivals::Superposed { streams } => streams,
        other => panic!("classes send by themselves: {other:?}"),
    }
}

fn with_flags(text: &str, line: &str) -> Result<Resolved, Diagnostics> {
    let mut document = Document::parse("a.toml", text)?;
    let problems = flags::apply_traffic(&mut document, &flags_of(line).traffic, flags::By::Command(""));
    assert_eq!(problems, [], "{line}");
    resolve(document, &TRACES)
}

#[test]
fn every_class_is_a_client_of_its_own() {
    let resolved = resolved(CLASSES);
    let spec = &resolved.scenario.workload;
    let [chat, code, batch] = streams(spec) else {
        panic!("three classes");
    };
    assert_eq!(chat.spec.arrivals, Arrivals::Poisson { request_rate: 6.0 });
    assert_eq!(chat.spec.client.timeout, Some(Picos::from_seconds(30.0)));
    assert_eq!(code.spec.client.timeout, None);
    assert!(matches!(code.spec.prefix, Prefix::Groups { count: 8, .. }));
    assert_eq!(chat.spec.prefix, Prefix::None);
    assert_eq!(batch.start, Picos::from_seconds(10.0));
    assert_eq!(
        (batch.spec.num_prompts, batch.spec.client.max_concurrency),
        (Some(500), Some(16))
    );
    assert_eq!(chat.spec.lengths, batch.spec.lengths);
    assert_ne!(chat.spec.lengths, code.spec.lengths);
    assert_eq!(mean_rate(spec), Some(8.0));
    assert_eq!(resolved.length, RunLength::Classes);
    assert_eq!(LoadKind::of(spec), LoadKind::Open);
    let names: Vec<&str> = spec.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["chat", "code", "batch"]);
}

#[test]
fn a_spelt_out_run_is_the_same_run() {
    let day = CLASSES.replacen(
        "[workload.classes.arrivals.poisson]\nrequest_rate = 6.0",
        "[workload.classes.arrivals.profile]\npiece = \"1 min\"\nrates = [1.0, 4.0]",
        1,
    );
    let shared = "[workload.arrivals.poisson]\nrequest_rate = 3.0\n[[workload.classes]]\nname = \"x\"\nshare = 1\n\
                  [[workload.classes]]\nname = \"y\"\nshare = 2\n";
    let scaled = format!("{CLASSES}[workload]\nrequest_rate = 20.0\n");
    for text in [CLASSES.to_owned(), day, format!("{CLASSES}{shared}"), scaled] {
        let first = resolved(&text);
        let spelt = resolved_toml(&first);
        let second = resolve_text(&spelt).unwrap_or_else(|problems| panic!("{problems}\n{spelt}"));
        assert_eq!(first.scenario.workload, second.scenario.workload, "{spelt}");
        assert_eq!(first.length, second.length);
    }
}

#[test]
fn a_day_of_one_class_ends_the_run_unless_something_ends_it_for_all() {
    let day = CLASSES.replacen(
        "[workload.classes.arrivals.poisson]\nrequest_rate = 6.0",
        "[workload.classes.arrivals.profile]\npiece = \"1 min\"\nrates = [1.0, 4.0]",
        1,
    );
    let of = |text: &str| {
        let resolved = resolved(text);
        let spec = &resolved.scenario.workload;
        (
            streams(spec)[0].spec.duration,
            spec.duration,
            spec.num_prompts,
            resolved.length,
        )
    };
    let minutes = |minutes: f64| Some(Picos::from_seconds(60.0 * minutes));
    assert_eq!(of(&day), (minutes(2.0), None, None, RunLength::Classes));
    let spanned = day.replacen(
        "[workload.lengths",
        "[workload]\nduration = \"5 min\"\n[workload.lengths",
        1,
    );
    assert_eq!(
        of(&spanned),
        (
            None,
            minutes(5.0),
            None,
            RunLength::Duration(Picos::from_seconds(300.0))
        )
    );
    let counted = day.replacen(
        "[workload.lengths",
        "[workload]\nnum_prompts = 90\n[workload.lengths",
        1,
    );
    assert_eq!(of(&counted), (None, None, Some(90), RunLength::Requests(90)));
}

#[test]
fn a_day_of_classes_with_a_share_ends_those_and_nobody_else() {
    let shared = "[workload.arrivals.profile]\npiece = \"1 min\"\nrates = [4.0, 8.0, 2.0]\n\
                  [[workload.classes]]\nname = \"x\"\nshare = 1\n";
    let day = format!("{CLASSES}{shared}");
    let first = resolved(&day);
    let of = |resolved: &Resolved| {
        let spec = &resolved.scenario.workload;
        let [.., last] = streams(spec) else {
            panic!("there are streams")
        };
        (last.spec.duration, spec.duration, resolved.length)
    };
    let three = Some(Picos::from_seconds(180.0));
    assert_eq!(of(&first), (three, None, RunLength::Classes));
    assert!(
        first.notes.iter().any(|note| note.contains("send for 180 s")),
        "{:?}",
        first.notes
    );
    let spelt = resolved_toml(&first);
    let second = resolve_text(&spelt).unwrap_or_else(|problems| panic!("{problems}\n{spelt}"));
    assert_eq!(first.scenario.workload, second.scenario.workload, "{spelt}");
    // What is given is of all.
    let spanned = day.replacen(
        "[workload.lengths",
        "[workload]\nduration = \"5 min\"\n[workload.lengths",
        1,
    );
    let five = Picos::from_seconds(300.0);
    assert_eq!(
        of(&resolved(&spanned)),
        (None, Some(five), RunLength::Duration(five))
    );
    let counted = day.replacen(
        "[workload.lengths",
        "[workload]\nnum_prompts = 90\n[workload.lengths",
        1,
    );
    assert_eq!(of(&resolved(&counted)), (None, None, RunLength::Requests(90)));
}

#[test]
fn a_rate_is_of_all_classes_together_and_keeps_their_mix() {
    let resolved = with_flags(CLASSES, "--request-rate 20").unwrap_or_else(|problems| panic!("{problems}"));
    let rates: Vec<Option<f64>> = resolved
        .scenario
        .workload
        .parts()
        .into_iter()
        .map(mean_rate)
        .collect();
    assert_eq!(rates, [Some(15.0), Some(5.0), None]);
    let told = resolved.notes.join("; ");
    assert!(
        told.contains(
            "rates of chat, code are multiplied by 2.5000 to 20 requests/s together; batch has no rate"
        ),
        "{told}"
    );
    let total = with_flags(CLASSES, "--num-prompts 70").unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(total.scenario.workload.num_prompts, Some(70));
    assert_eq!(streams(&total.scenario.workload)[0].spec.num_prompts, None);
    let refused = with_flags(CLASSES, "--users 5 --think-time 1s")
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("`--think-time` sends nothing"), "{refused}");
    let refused = with_flags(CLASSES, "--max-concurrency 5")
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("limits one client"), "{refused}");
}

#[test]
fn shares_and_arrivals_of_their_own_go_together() {
    let text = format!(
        "{CLASSES}[workload.arrivals.poisson]\nrequest_rate = 3.0\n[[workload.classes]]\nname = \"x\"\nshare = 1\n\
         [[workload.classes]]\nname = \"y\"\nshare = 2\nlengths.fixed = {{ input_len = 9, output_len = 9 }}\n"
    );
    let spec = resolved(&text).scenario.workload;
    let shared = &streams(&spec)[3];
    assert_eq!(shared.classes, [3, 4]);
    assert_eq!(shared.spec.classes.len(), 2);
    assert_eq!(mean_rate(&spec), Some(11.0));
}

fn told(line: &str, instead: &str) -> String {
    told_of(CLASSES, line, instead)
}

#[test]
fn contradictions_are_told_with_a_place_and_a_remedy() {
    let check = |line: &str, instead: &str, expected: &[&str]| {
        let told = told(line, instead);
        for expected in expected {
            assert!(told.contains(expected), "no `{expected}` in\n{told}");
        }
    };
    check(
        "name = \"chat\"",
        "name = \"chat\"\nshare = 2.0",
        &[
            "`share` contradicts arrivals of the class's own",
            "share = 2.0",
            "keep one of the two",
        ],
    );
    check(
        "[workload.lengths",
        "[workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths",
        &[
            "`arrivals` sends nothing",
            "every class has arrivals of its own",
            "give a class a share",
        ],
    );
    check(
        "[workload.lengths",
        "[workload.client]\nmax_concurrency = 8\n[workload.lengths",
        &["`max_concurrency` limits one client", "[workload.classes.client]"],
    );
    check(
        "[workload.lengths.fixed]",
        "[workload]\nduration = \"10 s\"\n[workload.lengths.fixed]",
        &["`start` leaves no time to send", "an earlier start"],
    );
    check(
        "request_rate = 6.0",
        "request_rate = -6.0",
        &["`request_rate` must be above 0", "request_rate = -6.0"],
    );
    check(
        "burstiness = 0.25",
        "burstiness = 0.0",
        &["`burstiness` must be above 0", "burstiness = 0.0"],
    );
    for shape in ["1e-300", "1e-9", "0.0009"] {
        check(
            "burstiness = 0.25",
            &format!("burstiness = {shape}"),
            &["`burstiness` must be at least 0.001", "all requests come at once"],
        );
    }
    check(
        "num_prompts = 500\n[workload.classes.arrivals.closed]\nmax_concurrency = 16",
        "[workload.classes.arrivals.all_at_once]",
        &[
            "needs the number of requests when all are sent at once",
            "add num_prompts to the class",
        ],
    );
    check(
        "max_concurrency = 16",
        "max_concurrency = 16\n[workload.classes.arrivals.poisson]\nrequest_rate = 1.0",
        &["`arrivals` can be one thing only"],
    );
    check(
        "[workload.classes.arrivals.closed]\nmax_concurrency = 16",
        "share = 1.0",
        &[
            "have shares of nothing",
            "`start` needs arrivals of the class's own",
            "`num_prompts` needs arrivals of the class's own",
        ],
    );
    check(
        "[workload.lengths.fixed]\ninput_len = 1024\noutput_len = 128\n",
        "",
        &["has no lengths", "class chat", "class batch"],
    );
    check(
        "[workload.classes.arrivals.closed]\nmax_concurrency = 16",
        "",
        &["has no share", "[workload.classes.arrivals.poisson]"],
    );
    check(
        "timeout = \"30 s\"",
        "priorities = [{ priority = 1, share = 1.0 }]",
        &["does not go with classes"],
    );
    // A key that is none is told once, and nothing that follows from its being cut out.
    let misspelt = told("request_rate = 6.0", "request_rat = 6.0");
    assert!(
        misspelt.contains("unknown key `request_rat`") && !misspelt.contains("has no share"),
        "{misspelt}"
    );
    // Several at once, each in its class.
    let text = CLASSES
        .replacen("request_rate = 6.0", "request_rate = 0.0", 1)
        .replacen("burstiness = 0.25", "burstiness = 0.0", 1);
    let both = resolve_text(&text).err().unwrap().to_string();
    assert!(
        both.contains("request_rate = 0.0") && both.contains("burstiness = 0.0"),
        "{both}"
    );
}

#[test]
fn a_rate_of_all_needs_classes_that_have_one() {
    let plain = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[engine]\n\
                 max_model_len = 8192\n[workload]\nrequest_rate = 2.0\n[workload.arrivals.poisson]\nrequest_rate = 4.0\n\
                 [workload.lengths.fixed]\ninput_len = 10\noutput_len = 10\n";
    let told = resolve_text(plain).err().unwrap().to_string();
    assert!(told.contains("`request_rate` scales nothing"), "{told}");
}

fn traces(a: &str, b: &str) -> String {
    format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[engine]\nmax_model_len = 8192\n\
         [[workload.classes]]\nname = \"a\"\n[workload.classes.arrivals.trace]\n{a}\n\
         [[workload.classes]]\nname = \"b\"\n[workload.classes.arrivals.trace]\n{b}\n"
    )
}

#[test]
fn a_trace_of_each_class_keeps_its_clock_and_its_texts() {
    let apart = resolved(&traces(
        "path = \"a.jsonl\"",
        "path = \"b.jsonl\"\ntime_scale = 2.0",
    ));
    let [a, b] = streams(&apart.scenario.workload) else {
        panic!("two traces");
    };
    assert_ne!(a.hash_space, b.hash_space);
    assert!(matches!(
        b.spec.arrivals,
        Arrivals::Replay { time_scale: 2.0, .. }
    ));
    let joined = "hash_space = \"site\"";
    let text = traces(
        &format!("path = \"a.jsonl\"\n{joined}"),
        &format!("path = \"b.jsonl\"\n{joined}"),
    );
    let together = resolved(&text).scenario.workload;
    let [a, b] = streams(&together) else {
        panic!("two traces");
    };
    assert_eq!(a.hash_space, b.hash_space);
    let texts = |stream: &Stream| -> Vec<u64> {
        let Arrivals::Replay { requests, .. } = &stream.spec.arrivals else {
            panic!("a trace");
        };
        let pieces = requests.iter().flat_map(|request| request.prompt_pieces());
        pieces.map(|piece| piece.segment.0).collect()
    };
    // 7 8, 7 9 and 9 10, 7 9: equal ids are one text, whichever file they stand in first.
    assert_eq!((texts(a), texts(b)), (vec![0, 1, 0, 2], vec![2, 3, 0, 2]));
    let told = resolve_text(&traces(
        &format!("path = \"plain.csv\"\n{joined}"),
        "path = \"gone.jsonl\"",
    ))
    .err()
    .unwrap()
    .to_string();
    assert!(
        told.contains("has nothing to share") && told.contains("gone.jsonl"),
        "{told}"
    );
    let lengths = traces("path = \"a.jsonl\"", "path = \"b.jsonl\"")
        + "[workload.lengths.fixed]\ninput_len = 9\noutput_len = 9\n";
    assert!(
        resolve_text(&lengths).is_ok(),
        "lengths of [workload] are not those of a trace"
    );
    let own = traces("path = \"a.jsonl\"", "path = \"b.jsonl\"")
        + "[workload.classes.lengths.fixed]\ninput_len = 9\noutput_len = 9\n";
    let told = resolve_text(&own).err().unwrap().to_string();
    assert!(told.contains("has no meaning beside a trace"), "{told}");
}
