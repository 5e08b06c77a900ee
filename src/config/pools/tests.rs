//! Pools of unlike replicas, as they are written and as they are judged.

use crate::config::tests::{resolve_text, told_of};
use crate::config::*;

const POOLS: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
router = "least_requests"
[[cluster.pools]]
name = "new"
replicas = 2
[[cluster.pools]]
name = "old"
replicas = 3
gpu = "A100-SXM-80GB"
tensor_parallel_size = 2
[cluster.pools.engine]
max_num_seqs = 32
block_size = 32
[engine]
max_model_len = 8192
max_num_seqs = 64
[workload]
num_prompts = 10
[workload.arrivals.poisson]
request_rate = 4.0
[workload.lengths.fixed]
input_len = 1024
output_len = 128
"#;

fn told(line: &str, instead: &str) -> String {
    told_of(POOLS, line, instead)
}

#[test]
fn what_a_pool_leaves_out_is_the_scenarios() {
    let resolved = resolve_text(POOLS).unwrap_or_else(|problems| panic!("{problems}"));
    let pools = &resolved.scenario.pools;
    let facts: Vec<_> = pools
        .iter()
        .map(|pool| {
            let engine = &pool.engine;
            let seqs = engine.max_num_seqs();
            (
                pool.name.as_str(),
                pool.replicas,
                pool.device.as_str(),
                pool.gpus,
                seqs,
                engine.block_size(),
            )
        })
        .collect();
    let expected = [
        ("new", 2, "H100-SXM-80GB", 1, 64, 16),
        ("old", 3, "A100-SXM-80GB", 2, 32, 32),
    ];
    assert_eq!(facts, expected);
    assert_eq!(resolved.scenario.cluster.replicas, 5);
    assert_eq!(resolved.scenario.cluster.groups.len(), 1);
    // A pool is the server that a scenario of its own would have.
    let alone = POOLS
        .replace("[[cluster.pools]]\nname = \"new\"\nreplicas = 2\n[[cluster.pools]]\nname = \"old\"\nreplicas = 3\n", "")
        .replace("gpu = \"H100-SXM-80GB\"\nrouter = \"least_requests\"\n", "")
        .replace("[cluster.pools.engine]\nmax_num_seqs = 32\nblock_size = 32\n[engine]\nmax_model_len = 8192\nmax_num_seqs = 64", "[engine]\nmax_model_len = 8192\nmax_num_seqs = 32\nblock_size = 32");
    let alone = resolve_text(&alone).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(alone.scenario.first_pool().engine, pools[1].engine);
    assert_eq!(alone.scenario.first_pool().frontend, pools[1].frontend);
}

#[test]
fn pools_spelt_out_are_the_same_pools() {
    let first = resolve_text(POOLS).unwrap_or_else(|problems| panic!("{problems}"));
    let spelt_out = resolved_toml(&first);
    let second = resolve_text(&spelt_out).unwrap_or_else(|problems| panic!("{problems}\n{spelt_out}"));
    for (first, second) in first.scenario.pools.iter().zip(&second.scenario.pools) {
        assert_eq!(first.engine, second.engine);
        assert_eq!(
            (&first.name, first.replicas, first.gpus),
            (&second.name, second.replicas, second.gpus)
        );
    }
    assert_eq!(first.scenario.cluster, second.scenario.cluster);
    assert_eq!(
        spelt_out.split("\n\n").nth(1),
        resolved_toml(&second).split("\n\n").nth(1)
    );
}

#[test]
fn a_problem_points_into_the_pools_own_table_and_a_shared_one_is_told_once() {
    insta::assert_snapshot!(told("max_num_seqs = 32", "max_num_seqs = 0"), @r#"
    error: `max_num_seqs` must be at least 1, not 0
      --> a.toml:16:16
       |
    16 | max_num_seqs = 0
       |                ^
    "#);
    insta::assert_snapshot!(told("gpu = \"A100-SXM-80GB\"", "gpu = \"A1000\""), @r#"
    error: unknown GPU `A1000`
      --> a.toml:13:7
       |
    13 | gpu = "A1000"
       |       ^^^^^^^
       |
    help: did you mean A100-SXM-80GB or A100-PCIE-80GB or A100-SXM-40GB?
    help: `plimsoll hw` lists the known ones; the path of a hardware profile will do, too
    "#);
    let shared = told(
        "max_num_seqs = 64",
        "max_num_seqs = 64\ngpu_memory_utilization = 92",
    );
    assert_eq!(shared.matches("error:").count(), 1, "{shared}");
}

#[test]
fn what_pools_cannot_be_is_refused_with_its_place() {
    insta::assert_snapshot!(told("name = \"old\"", "name = \"new\""), @r#"
    error: `name` is taken
      --> a.toml:11:8
       |
    11 | name = "new"
       |        ^^^^^ another pool is called new, too
    "#);
    insta::assert_snapshot!(told("name = \"old\"\n", ""), @r#"
    error: a pool has no name
      --> a.toml:10:1
       |
    10 | [[cluster.pools]]
       | ^^^^^^^^^^^^^^^^^
       |
    help: write name = "chat" in it
    "#);
    insta::assert_snapshot!(told("router = \"least_requests\"", "replicas = 5"), @r#"
    error: `replicas` does not go with pools
     --> a.toml:6:12
      |
    6 | replicas = 5
      |            ^ each pool has its own
      |
    help: write `replicas` in each [[cluster.pools]]
    "#);
    insta::assert_snapshot!(told("name = \"old\"", "name = \"old\"\nrole = \"decode\""), @r#"
    error: `pools` must be some that prefill and some that decode
     --> a.toml:7:1
      |
    7 | [[cluster.pools]]
      | ^^^^^^^^^^^^^^^^^ 0 pools prefill, 1 decode, 1 do both
      |
    help: give every pool role = "prefill" or role = "decode", or --prefill N --decode N
    "#);
    insta::assert_snapshot!(told("name = \"old\"", "name = \"old\"\nrouter = \"random\""), @r#"
    error: `router` must be that of the other pool
      --> a.toml:12:10
       |
    12 | router = "random"
       |          ^^^^^^^^ pool new serves the same requests behind another router
       |
    help: give both the same router, or write it under [cluster] alone
    "#);
    insta::assert_snapshot!(told("name = \"old\"", "name = \"old\"\nreplica = 4"), @r#"
    error: unknown key `replica`
      --> a.toml:12:1
       |
    12 | replica = 4
       | ^^^^^^^
       |
    help: did you mean `replicas`?
    "#);
}

#[test]
fn a_flag_holds_for_every_pool() {
    let mut document = Document::parse("a.toml", POOLS).unwrap();
    document.set("engine.max_num_seqs", toml::Value::Integer(16), "--max-num-seqs");
    document.set(
        "cluster.pools.1.replicas",
        toml::Value::Integer(7),
        "sweep over replicas",
    );
    let resolved = resolve(document, &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
    let pools = &resolved.scenario.pools;
    assert!(pools.iter().all(|pool| pool.engine.max_num_seqs() == 16));
    assert_eq!(pools[1].replicas, 7);
}

/// Two models behind a gateway, with the lines of `more` below.
fn gateway(more: &str) -> Result<Resolved, Diagnostics> {
    let two = POOLS.replace(
        "gpu = \"A100-SXM-80GB\"",
        "model.name = \"Qwen/Qwen3-8B\"\ngpu = \"A100-SXM-80GB\"",
    );
    resolve_text(&format!("{two}{more}"))
}

fn refused(more: &str) -> String {
    match gateway(more) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems.to_string(),
    }
}

const CLASSES: &str = "[[workload.classes]]\nname = \"a\"\nshare = 3\nmodel = \"Llama-3.1-8B-Instruct\"\n\
    [[workload.classes]]\nname = \"b\"\nshare = 1\nmodel = \"Qwen/Qwen3-8B\"\n\
    lengths.fixed = { input_len = 100, output_len = 10 }\ngoodput.ttft = \"1 s\"\n";

#[test]
fn classes_go_to_the_pools_that_serve_their_model() {
    let resolved = gateway(CLASSES).unwrap_or_else(|problems| panic!("{problems}"));
    let groups = &resolved.scenario.cluster.groups;
    let classes: Vec<_> = groups.iter().map(|group| group.serves.classes.clone()).collect();
    assert_eq!(classes, [Some(vec![0]), Some(vec![1])]);
    assert_eq!(groups[1].members, [2, 3, 4]);
    let classes = &resolved.scenario.workload.classes;
    assert_eq!(classes[0].lengths, resolved.scenario.workload.lengths);
    assert_ne!(classes[1].lengths, classes[0].lengths);
    let second = resolve_text(&resolved_toml(&resolved)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(resolved.scenario.workload, second.scenario.workload);
    assert_eq!(resolved.scenario.cluster, second.scenario.cluster);
}

#[test]
fn a_pool_that_no_class_asks_for_takes_nobody() {
    let one = CLASSES
        .split_once("[[workload.classes]]\nname = \"b\"")
        .unwrap()
        .1;
    let one = format!("[[workload.classes]]\nname = \"b\"{one}");
    let resolved = gateway(&one).unwrap_or_else(|problems| panic!("{problems}"));
    let groups = &resolved.scenario.cluster.groups;
    let classes: Vec<_> = groups.iter().map(|group| group.serves.classes.clone()).collect();
    assert_eq!(classes, [Some(vec![]), Some(vec![0])]);
    let notes = resolved.notes.join("; ");
    assert!(notes.contains("pool new stands idle"), "{notes}");
}

#[test]
fn a_request_that_nobody_or_two_would_serve_is_refused() {
    assert!(refused("").contains("nothing says which a request asks for"));
    assert!(refused(&CLASSES.replace("Qwen/Qwen3-8B", "gpt2")).contains("is served by no pool"));
    let silent = CLASSES.replace("model = \"Qwen/Qwen3-8B\"\n", "");
    assert!(refused(&silent).contains("class b does not say which model it asks for"));
    let long = CLASSES.replace("input_len = 100", "input_len = 9000");
    assert!(
        refused(&long).contains("does not fit the engine's context"),
        "{}",
        refused(&long)
    );
    let sessions = format!("{CLASSES}[workload.prefix.sessions]\nturns = 3.0\nthink_time = \"1 s\"\n");
    assert!(refused(&sessions).contains("conversations and reused prompts are of one kind"));
}

#[test]
fn pools_of_one_model_share_out_every_length_of_prompt() {
    let ranges = |new: &str, old: &str| {
        let text = POOLS
            .replace("name = \"new\"", &format!("name = \"new\"\n{new}"))
            .replace("name = \"old\"", &format!("name = \"old\"\n{old}"));
        match resolve_text(&text) {
            Ok(resolved) => resolved.scenario.cluster.groups.len().to_string(),
            Err(problems) => problems.to_string(),
        }
    };
    assert_eq!(ranges("max_prompt_tokens = 500", "min_prompt_tokens = 501"), "2");
    assert!(ranges("max_prompt_tokens = 500", "min_prompt_tokens = 600").contains("leaves a gap"));
    assert!(
        ranges("max_prompt_tokens = 500", "min_prompt_tokens = 400")
            .contains("pool old and another take prompts of 400")
    );
    assert!(ranges("max_prompt_tokens = 500", "max_prompt_tokens = 500").contains("leaves a gap"));
}

#[test]
fn what_stands_before_the_routers_is_judged() {
    let limited = |more: &str| {
        let text = format!("{POOLS}{more}");
        match resolve_text(&text) {
            Ok(resolved) => format!("{:?}", resolved.scenario.admission),
            Err(problems) => problems.to_string(),
        }
    };
    let whole = limited("[[cluster.rate_limits]]\nrequests_per_second = 4.0\n");
    assert!(
        whole.contains("Bucket { per_second: 4.0, burst: 4.0 }"),
        "{whole}"
    );
    assert!(
        limited("[[cluster.rate_limits]]\nclass = \"a\"\nrequests_per_second = 4.0\n")
            .contains("is no class of the workload")
    );
    assert!(limited("[[cluster.rate_limits]]\nburst = 4.0\n").contains("limits nothing"));
    assert!(limited("[cluster.admission]\nmax_queue = 4\n").contains("without max_in_flight nobody waits"));
    assert!(limited("[cluster.retries]\nbackoff = \"1 s\"\n").contains("says not how often"));
    let retries = limited("[cluster.retries]\nmax_retries = 2\n");
    assert!(
        retries.contains("most: 2") && retries.contains("on_failure: true"),
        "{retries}"
    );
}

#[test]
fn an_autoscaled_pool_has_as_many_replicas_as_it_may_ever_have() {
    let scaled = |keys: &str| {
        let table = format!("block_size = 32\n[cluster.pools.autoscale]\n{keys}\n[engine]");
        resolve_text(&POOLS.replace("block_size = 32\n[engine]", &table))
    };
    let resolved = scaled("max_replicas = 5\ntarget = 10.0").unwrap_or_else(|problems| panic!("{problems}"));
    let cluster = &resolved.scenario.cluster;
    assert_eq!((cluster.replicas, cluster.scalers[0].at_first), (7, 3));
    assert_eq!(cluster.scalers[0].members, [2, 3, 4, 5, 6]);
    let told = |keys: &str| scaled(keys).map(|_| ()).unwrap_err().to_string();
    assert!(told("target = 1.0").contains("no max_replicas"));
    assert!(told("max_replicas = 2\ntarget = 1.0").contains("leaves no room for those at first"));
    assert!(
        told("max_replicas = 5\ntarget = 2.0\nsignal = \"kv_usage\"").contains("must be above 0 and below 1")
    );
}

#[test]
fn an_event_that_changes_nothing_is_refused() {
    let event = |at: u32, kind: &str| {
        format!("[[cluster.events]]\nat = \"{at} s\"\nreplica = 0\nkind = \"{kind}\"\n")
    };
    let told = |kinds: &[&str]| {
        let events: String = (1..).zip(kinds).map(|(at, kind)| event(at, kind)).collect();
        resolve_text(&format!("{POOLS}{events}"))
            .map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    assert_eq!(told(&["fail", "up", "drain", "up"]), "");
    assert_eq!(told(&["up", "drain", "fail"]), "");
    assert!(told(&["fail", "up", "up"]).contains("it is up already"));
    assert!(told(&["fail", "drain"]).contains("it has failed before"));
    // A replica that is to come later is no mistake, but it is said.
    let notes = |kinds: &[&str]| {
        let events: String = (1..).zip(kinds).map(|(at, kind)| event(at, kind)).collect();
        resolve_text(&format!("{POOLS}{events}"))
            .unwrap()
            .notes
            .join("\n")
    };
    assert!(
        notes(&["up"]).contains("replica 0 is down until 1 s"),
        "{}",
        notes(&["up"])
    );
    assert!(!notes(&["fail", "up"]).contains("is down until"));
}

#[test]
fn a_pool_that_does_not_fit_is_named_with_what_would_change_it_alone() {
    let text = POOLS
        .replace("tensor_parallel_size = 2\n", "")
        .replace("gpu = \"A100-SXM-80GB\"\n", "gpu = \"L4\"\n")
        .replace("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-14B");
    let problems = resolve_text(&text).map(|_| ()).unwrap_err();
    let told = problems.to_string();
    assert!(problems.is_misfit(), "{told}");
    assert!(
        told.contains("pool old (Qwen/Qwen3-14B): does not fit: needs"),
        "{told}"
    );
    assert!(
        told.contains("tensor_parallel_size = ") && told.contains("; in pool old") && !told.contains("-tp "),
        "{told}"
    );
}
