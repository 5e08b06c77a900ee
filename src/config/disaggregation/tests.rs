//! Pools with roles and what is between them, as they are judged.

use toml::Value;

use crate::cluster::{Disaggregation, Flow, Lease, LoadFailure};
use crate::config::files::NoFiles;
use crate::config::{Document, Resolved, resolve};
use crate::units::Picos;

const TOGETHER: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
replicas = 4
[workload]
num_prompts = 10
[workload.arrivals.poisson]
request_rate = 4.0
[workload.lengths.fixed]
input_len = 1024
output_len = 128
"#;

/// The scenario with keys set by flags; what is wrong with it, in words.
fn judged(text: &str, flags: &[(&str, Value, &str)]) -> Result<Resolved, String> {
    let mut document = Document::parse("a.toml", text).unwrap();
    for (key, value, flag) in flags {
        document.set(key, value.clone(), flag);
    }
    resolve(document, &NoFiles).map_err(|problems| problems.to_string())
}

fn apart(more: &[(&'static str, Value, &'static str)]) -> Result<Resolved, String> {
    let mut flags = vec![
        ("cluster.prefill.replicas", Value::Integer(1), "--prefill"),
        ("cluster.decode.replicas", Value::Integer(3), "--decode"),
    ];
    flags.extend(more.iter().cloned());
    judged(TOGETHER, &flags)
}

fn between(resolved: &Resolved) -> &Disaggregation {
    resolved.scenario.cluster.disaggregation.as_ref().unwrap()
}

#[test]
fn flags_that_share_work_out_replace_a_file_that_does_it_otherwise() {
    let resolved = apart(&[]).unwrap();
    assert_eq!((between(&resolved).prefill, between(&resolved).decode), (1, 3));
    let note = "--prefill replaces the scenario's replicas = 4".to_owned();
    assert!(resolved.notes.contains(&note), "{:?}", resolved.notes);
    let pools = TOGETHER.replace(
        "replicas = 4",
        "[cluster.prefill]\nreplicas = 2\n[cluster.decode]\nreplicas = 2\n[cluster.link]\nhop = \"2 ms\"",
    );
    let resolved = judged(&pools, &[("cluster.replicas", Value::Integer(5), "--replicas")]).unwrap();
    assert_eq!(resolved.scenario.replicas(), 5);
    assert_eq!(resolved.scenario.cluster.disaggregation, None);
    // What the file says in both ways, or flags do, is still told.
    let both = pools.replace("[cluster]\n", "[cluster]\nreplicas = 4\n");
    assert!(
        judged(&both, &[])
            .err()
            .unwrap()
            .contains("`replicas` does not go with pools")
    );
    let flag = ("cluster.replicas", Value::Integer(5), "--replicas");
    assert!(
        apart(&[flag])
            .err()
            .unwrap()
            .contains("`--replicas` does not go with pools")
    );
}

#[test]
fn what_one_flow_knows_is_refused_beside_another() {
    let reserved = (
        "cluster.link.num_reserved_decode_tokens",
        Value::Integer(4096),
        "--num-reserved-decode-tokens",
    );
    let told = apart(std::slice::from_ref(&reserved)).err().unwrap();
    assert!(
        told.contains("`--num-reserved-decode-tokens` belongs to sglang"),
        "{told}"
    );
    let sglang = ("engine.profile", Value::from("sglang"), "--engine");
    let resolved = apart(&[reserved, sglang.clone()]).unwrap();
    let link = between(&resolved);
    assert_eq!((link.flow, link.num_reserved_decode_tokens), (Flow::Sglang, 4096));
    let handshake = ("cluster.link.handshake", Value::from("200 ms"), "--pd-handshake");
    let resolved = apart(std::slice::from_ref(&handshake)).unwrap();
    assert_eq!(between(&resolved).handshake, Picos(200_000_000_000));
    assert!(
        apart(&[handshake, sglang])
            .err()
            .unwrap()
            .contains("belongs to nixl")
    );
    let pushes = ("cluster.link.flow", Value::from("p2p_nccl"), "--pd-flow");
    let fails = (
        "cluster.link.transfer_failure_rate",
        Value::Float(0.1),
        "--transfer-failure-rate",
    );
    assert!(
        apart(&[pushes, fails])
            .err()
            .unwrap()
            .contains("`--transfer-failure-rate` is not modelled")
    );
}

#[test]
fn versions_of_vllm_keep_unread_kv_in_their_own_way() {
    let resolved = apart(&[]).unwrap();
    let expected = (Lease::Renewed(Picos(30_000_000_000_000)), LoadFailure::Fail);
    assert_eq!(
        (between(&resolved).lease, between(&resolved).on_load_failure),
        expected
    );
    let old = ("engine.profile", Value::from("vllm@0.11"), "--engine");
    let resolved = apart(std::slice::from_ref(&old)).unwrap();
    let expected = (Lease::Fixed(Picos(120_000_000_000_000)), LoadFailure::Recompute);
    assert_eq!(
        (between(&resolved).lease, between(&resolved).on_load_failure),
        expected
    );
    let lease = ("cluster.link.kv_lease_duration", Value::from("9 s"), "--x");
    let resolved = apart(std::slice::from_ref(&lease)).unwrap();
    assert_eq!(between(&resolved).lease, Lease::Renewed(Picos(9_000_000_000_000)));
    assert!(
        apart(&[lease, old])
            .err()
            .unwrap()
            .contains("is another version's")
    );
}

#[test]
fn what_vllms_own_json_says_of_losses_is_heard() {
    let said = |policy: &str| {
        let json = format!(
            r#"{{"kv_connector":"NixlConnector","kv_load_failure_policy":"{policy}","kv_connector_extra_config":{{"kv_lease_duration":12}}}}"#
        );
        apart(&[(
            "engine.kv_transfer_config",
            Value::from(json),
            "--kv-transfer-config",
        )])
    };
    let resolved = said("recompute").unwrap();
    let expected = (Lease::Renewed(Picos(12_000_000_000_000)), LoadFailure::Recompute);
    assert_eq!(
        (between(&resolved).lease, between(&resolved).on_load_failure),
        expected
    );
    assert!(said("retry").err().unwrap().contains("names no such policy"));
}

#[test]
fn what_is_wrong_is_named_once_with_its_value() {
    let check = |key: &'static str, value: Value, flag: &'static str, expected: &[&str]| {
        let told = apart(&[(key, value, flag)]).err().unwrap();
        for words in expected {
            assert!(told.contains(words), "{words} is not in {told}");
        }
        assert_eq!(told.matches("error:").count(), 1, "{told}");
    };
    let text = |text: &str| Value::from(text);
    check(
        "cluster.link.kind",
        text("bogus"),
        "--kv-link",
        &["`--kv-link` names no link", "`bogus` is not known"],
    );
    check(
        "cluster.link.latency",
        text("-5us"),
        "--kv-link-latency",
        &["`--kv-link-latency` must be at least 0: `-5us` is not"],
    );
    check(
        "cluster.link.hop",
        text("1000h"),
        "--pd-hop",
        &["`--pd-hop` must be at most 1 min", "`1000h` is longer"],
    );
    let expected = [
        "`--pd-flow` does not go with the engine",
        "sglang is SGLang's way, and vllm@0.33 serves",
    ];
    check("cluster.link.flow", text("sglang"), "--pd-flow", &expected);
    let expected = ["`--prefill` must lie between 1 and 4,096"];
    check(
        "cluster.prefill.replicas",
        Value::Integer(100_000),
        "--prefill",
        &expected,
    );
    let alone = [("cluster.prefill.replicas", Value::Integer(1), "--prefill")];
    let told = judged(TOGETHER, &alone).err().unwrap();
    assert!(
        told.contains("`--prefill` stands alone") && told.contains("add --decode N"),
        "{told}"
    );
}

#[test]
fn pools_of_one_role_may_be_unlike() {
    let pools = r#"
[[cluster.pools]]
name = "answers"
role = "decode"
replicas = 2
[[cluster.pools]]
name = "old"
role = "prefill"
gpu = "A100-SXM-80GB"
tensor_parallel_size = 2
[[cluster.pools]]
name = "new"
role = "prefill"
replicas = 3
[cluster.pools.engine]
max_num_batched_tokens = 4096
"#;
    let text = TOGETHER.replace("replicas = 4\n", pools);
    let resolved = judged(&text, &[]).unwrap();
    let link = between(&resolved);
    assert_eq!((link.prefill, link.decode), (4, 2));
    let sends: Vec<u64> = link.links.iter().map(|link| link.send / 1_000_000_000).collect();
    // GPUs of two kinds are in two nodes: 50 GB/s of each between them, and an old replica has two.
    assert_eq!(sends, [100, 50, 50, 50, 50, 50]);
    let told = judged(
        &text.replace("role = \"decode\"", "role = \"decode\"\nkv_x = 1"),
        &[],
    )
    .err()
    .unwrap();
    assert!(told.contains("unknown key `kv_x`"), "{told}");
    let split = text.replace("name = \"old\"", "name = \"old\"\nmax_prompt_tokens = 600");
    let split = split.replace("name = \"new\"", "name = \"new\"\nmin_prompt_tokens = 601");
    let told = judged(&split, &[]).err().unwrap();
    assert!(told.contains("take prompts of 1 tokens"), "{told}");
}

#[test]
fn what_several_ranks_keep_crosses_as_often() {
    let sent = |model: &str, ranks: i64| {
        let text = TOGETHER
            .replace("meta-llama/Llama-3.1-8B-Instruct", model)
            .replace("H100-SXM-80GB", "B200");
        let ranks = ("cluster.tensor_parallel_size", Value::Integer(ranks), "-tp");
        let context = ("engine.max_model_len", Value::Integer(8192), "--max-model-len");
        let flags = [
            ("cluster.prefill.replicas", Value::Integer(1), "--prefill"),
            ("cluster.decode.replicas", Value::Integer(3), "--decode"),
            ranks,
            context,
        ];
        between(&judged(&text, &flags).unwrap()).kv_bytes_per_token
    };
    // Four KV heads: two ranks share them, eight keep each twice.
    assert_eq!(sent("Qwen/Qwen3-30B-A3B", 2), 98_304);
    assert_eq!(sent("Qwen/Qwen3-30B-A3B", 8), 2 * 98_304);
    // Each rank keeps the whole latent.
    assert_eq!(sent("deepseek-ai/DeepSeek-V2-Lite", 1), 31_104);
    assert_eq!(sent("deepseek-ai/DeepSeek-V2-Lite", 4), 4 * 31_104);
}
