//! Pools of unlike replicas, as they are written and as they are judged.

use super::*;

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

fn resolve_text(text: &str) -> Result<Resolved, Diagnostics> {
    resolve(Document::parse("a.toml", text)?, &NoFiles)
}

fn told(line: &str, instead: &str) -> String {
    assert!(POOLS.contains(line), "`{line}` is not in the base");
    match resolve_text(&POOLS.replacen(line, instead, 1)) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems.to_string(),
    }
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
    error: `max_num_seqs` must be at least 1
      --> a.toml:16:16
       |
    16 | max_num_seqs = 0
       |                ^ nothing could happen
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
    error: `pools` must be one that prefills and one that decodes
     --> a.toml:7:1
      |
    7 | [[cluster.pools]]
      | ^^^^^^^^^^^^^^^^^ 0 pools prefill, 1 decode, 1 do both
      |
    help: give one pool role = "prefill" and one role = "decode", or --prefill N --decode N
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
