//! `-pp`, from the command line to what a run, `fit`, `knee` and `sweep` say of it.

use serde_json::Value;

use crate::{Desk, SMALL, text};

const LARGE: &str = "run meta-llama/Llama-3.1-70B-Instruct --gpu h100 --max-model-len 8192 --request-rate 2 \
                     --input-len 512 --output-len 64 --num-prompts 100";

fn json(desk: &Desk, words: &str) -> Value {
    serde_json::from_str(&desk.expect(0, &format!("{words} --format json"))).unwrap()
}

#[test]
fn stages_are_counted_and_a_token_passes_all_of_them() {
    let desk = Desk::new();
    let (four, two) = (
        json(&desk, &format!("{LARGE} -pp 4")),
        json(&desk, &format!("{LARGE} -tp 2 -pp 2")),
    );
    let scenario = &four["plimsoll"]["scenario"];
    assert_eq!(
        (&scenario["gpus"], &scenario["gpus_per_replica"]),
        (&Value::from(4), &Value::from(4))
    );
    assert_eq!(scenario["pipeline_parallel_size"], 4);
    let tpot = |result: &Value| result["mean_tpot_ms"].as_f64().unwrap();
    // Weights are read by four GPUs one after the other, or by twice two at once.
    assert!(tpot(&four) > 1.4 * tpot(&two), "{} {}", tpot(&four), tpot(&two));
    let slow = json(&desk, &format!("{LARGE} -pp 4 --stage-link-latency 10ms"));
    assert!(
        tpot(&slow) > tpot(&four) + 29.0,
        "{} {}",
        tpot(&slow),
        tpot(&four)
    );
    assert_eq!(json(&desk, &format!("{LARGE} --pipeline-parallel-size 4")), four);
}

#[test]
fn a_pasted_command_has_its_stages_and_the_spelt_out_scenario_has_them_too() {
    let desk = Desk::new();
    let traffic = "--gpu h100 --request-rate 5 --input-len 512 --output-len 64 --num-prompts 100";
    let serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct -pp 2 --max-model-len 8192";
    let pasted = json(&desk, &format!("run {traffic} --serve-cmd '{serve}'"));
    let flags = json(&desk, &format!("{SMALL} -pp 2 --num-prompts 100"));
    assert_eq!(pasted["mean_tpot_ms"], flags["mean_tpot_ms"]);
    let spelt_out = desk.expect(0, &format!("{SMALL} -pp 2 --num-prompts 100 --dry-run"));
    std::fs::write(desk.path().join("resolved.toml"), spelt_out).unwrap();
    let again = json(&desk, "run resolved.toml");
    assert_eq!(again["mean_tpot_ms"], flags["mean_tpot_ms"]);
}

#[test]
fn fit_knee_and_sweep_take_stages() {
    let desk = Desk::new();
    let fit = desk.expect(
        0,
        "fit meta-llama/Llama-3.1-70B-Instruct --gpu h100 -pp 4 --max-model-len 8192",
    );
    assert!(fit.contains("FITS"), "{fit}");
    let small =
        "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --input-len 512 --output-len 64";
    let knee = desk.expect(
        0,
        &format!("knee {small} -pp 2 --goodput ttft:1000 --max-rate 20"),
    );
    assert!(knee.contains("stage_link = nvlink"), "{knee}");
    let swept = desk.expect(
        0,
        &format!(
            "sweep {small} --request-rate 5 --num-prompts 100 -L pipeline-parallel-size 1,2,4 --format jsonl"
        ),
    );
    let cells: Vec<Value> = swept
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let gpus = |cell: &Value| cell["result"]["plimsoll"]["scenario"]["gpus"].as_u64();
    assert_eq!(
        cells.iter().map(gpus).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(4)]
    );
}

#[test]
fn what_does_not_go_with_stages_is_refused() {
    let desk = Desk::new();
    for (more, why) in [
        ("-pp 2 --engine sglang", "must be 1"),
        (
            "-pp 2 --engine vllm@0.11 --async-scheduling",
            "does not start with both",
        ),
        ("-pp 64", "is larger than the model is deep"),
        ("--stage-link nvlink", "has no effect"),
    ] {
        let refused = desk.run(&format!("{SMALL} {more}"));
        assert_eq!(refused.status.code(), Some(2), "{more}");
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
}
