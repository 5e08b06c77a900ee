//! Flags and axes: a cell is the command that has its values as flags, in whatever order they are written.

use crate::{Desk, SMALL, text};

/// A model on a machine, and lengths.
const MACHINE: &str =
    "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --input-len 512 --output-len 128";

#[test]
fn flags_and_axes_of_a_cell_are_judged_together() {
    let desk = Desk::new();
    for (words, cells) in [
        ("--think-time 2s -L users 1,4", 2),
        ("-L think-time 2s -L users 1,4", 2),
        ("-L users 1,4 -L think-time 1s,2s", 4),
        ("--burstiness 0.5 -L request-rate 4,8", 2),
        ("-L burstiness 0.5,1 -L request-rate 4,8", 4),
        ("-L request-rate 4,8 -L burstiness 0.5,1", 4),
        ("-L request-rate inf,8 -L burstiness 0.5,1 --num-prompts 50", 4),
        (
            "--ramp-up-strategy linear --ramp-up-start-rps 1 -L ramp-up-end-rps 4,8 --num-prompts 50",
            2,
        ),
        ("-L workload.arrivals.users.users 1,4 --think-time 2s", 2),
        (
            "--request-rate 4 --goodput tpot:50 -L goodput ttft:300,ttft:500",
            2,
        ),
    ] {
        let printed = desk.expect(0, &format!("sweep {MACHINE} {words} --dry-run"));
        assert!(
            printed.starts_with(&format!("{cells} cells")) && !printed.contains("refused"),
            "{words}\n{printed}"
        );
    }
    let knee = format!("knee {MACHINE} --goodput ttft:500 -L burstiness 0.5,1 --dry-run");
    desk.expect(0, &knee);
    // The search sends at a rate, so that a limit in flight makes no closed loop.
    let limited = knee.replace("burstiness 0.5,1", "max-concurrency 4,8");
    let printed = desk.expect(0, &limited);
    assert!(printed.starts_with("2 cells"), "{printed}");
    // A scenario's own axes are no different.
    let scenario = desk.expect(
        0,
        &format!("run {MACHINE} --request-rate 4 --num-prompts 50 --dry-run"),
    );
    let rate = "[workload.arrivals.poisson]\nrequest_rate = 4.0\n";
    assert!(scenario.contains(rate), "{scenario}");
    let swept = scenario.replace(rate, "") + "[sweep]\nthink_time = [\"1s\", \"2s\"]\nusers = [1, 4]\n";
    std::fs::write(desk.path().join("users.toml"), swept).unwrap();
    let printed = desk.expect(0, "sweep users.toml --dry-run");
    assert!(printed.starts_with("4 cells"), "{printed}");
}

#[test]
fn what_no_cell_would_have_and_what_does_not_go_together_is_told_as_of_one_command() {
    let desk = Desk::new();
    for (words, told) in [
        (
            "--users 1 --think-time 2s -L users 1,4",
            "`--users` is given as 1 and swept over (1, 4), too",
        ),
        (
            "--burstiness 0.5 --request-rate 4.0 -L request-rate 4,8",
            "`--request-rate` is given as 4.0 and swept over (4, 8), too",
        ),
        (
            "--burstiness 0.5 --request-rate 2 -L request-rate 4,8",
            "`--request-rate` is given as 2 and swept over (4, 8): no run would have that value",
        ),
        (
            "--request-rate 4 --max-num-seqs 8 -L engine.max_num_seqs 16,32",
            "`--max-num-seqs` is given as 8 and swept over (16, 32)",
        ),
        (
            "--request-rate 4 --compilation-config '{\"cudagraph_mode\": \"NONE\"}' -L cudagraph-mode piecewise,full_and_piecewise",
            "`--compilation-config` is given as none and swept over (piecewise, full_and_piecewise)",
        ),
        (
            "--request-rate 4 -L model Qwen/Qwen3-8B,Qwen/Qwen3-4B",
            "`MODEL` is given as meta-llama/Llama-3.1-8B-Instruct and swept over",
        ),
        (
            "--request-rate 4 -L scenario quickstart,matrix-a",
            "`scenario` is no axis: all cells have it in common",
        ),
        ("-L users 1,4", "`--users` needs a think time"),
        ("-L think-time 1s,2s", "`--think-time` needs users"),
        (
            "--request-rate 4 --think-time 2s -L users 1,4",
            "`--request-rate` and `--users` both say when requests arrive",
        ),
    ] {
        let output = desk.run(&format!("sweep {MACHINE} {words}"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{error}");
        assert!(
            error.contains(told) && error.matches("error").count() == 1,
            "{words}\n{error}"
        );
    }
}

/// A value that no cell could use is a mistake of the command line, told before anything runs; what a cell's other values or its
/// machine refuse is a row.
#[test]
fn a_mistyped_value_of_an_axis_is_no_row() {
    let desk = Desk::new();
    let sweep = SMALL.replacen("run", "sweep", 1);
    let without = |flag: &str| sweep.replace(flag, "");
    for (words, told) in [
        (
            format!("{} -L gpu h100,foo", without("--gpu h100")),
            vec!["unknown GPU `foo`"],
        ),
        (
            format!(
                "{} -L request-rate 1,-2 -L gpu h100,foo,bar",
                without("--gpu h100").replace("--request-rate 5", "")
            ),
            vec!["`--request-rate` must be above 0", "-2", "`foo`", "`bar`"],
        ),
        (
            format!("{sweep} -L engine vllm,nonesuch"),
            vec!["cannot be used: there is no engine `nonesuch`"],
        ),
        (
            format!("{sweep} -L gpu-memory-utilization 0.9,1.5"),
            vec!["`--gpu-memory-utilization` must be above 0 and at most 1: 1.5"],
        ),
        (
            format!(
                "{} -L model Qwen/Qwen3-8B,nonesuch",
                without("meta-llama/Llama-3.1-8B-Instruct")
            ),
            vec!["no shape of the model `nonesuch`"],
        ),
        (
            "knee quickstart -L gpu h100,foo".to_owned(),
            vec!["unknown GPU `foo`"],
        ),
    ] {
        let output = desk.run(&words);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{error}");
        assert!(output.stdout.is_empty(), "{words}");
        for part in told {
            assert!(error.contains(part), "{words}\n{error}");
        }
    }
    let dry = desk.expect(0, &format!("{sweep} -L tensor-parallel-size 1,16 --dry-run"));
    assert!(dry.contains("is refused"), "{dry}");
}

#[test]
fn words_of_other_tools_are_sent_to_the_flag_that_means_them() {
    let desk = Desk::new();
    for (words, told, not) in [
        (
            "--isl 512",
            "`--isl`: here it is --input-len",
            "--disable-cuda-graph",
        ),
        ("--rate 4", "`--rate`: here it is --request-rate", "--trace"),
        (
            "--num_requests 9",
            "`--num-requests`: here it is --num-prompts",
            "--max-running-requests",
        ),
        (
            "--warmup 9",
            "`--warmup`: there is nothing to ask for",
            "--watermark",
        ),
        ("--gpus 2", "`--gpus` is a flag of knee", "similar"),
    ] {
        let output = desk.run(&format!("run {MACHINE} {words}"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{error}");
        assert!(error.contains(told) && !error.contains(not), "{words}\n{error}");
    }
    let told = |words: &str| text(&desk.run(&format!("sweep {MACHINE} {words}")).stderr);
    assert!(told("-L request-rate 1 2 3").contains("with commas: -L request-rate 1,2,3"));
    assert!(told("-L rate 1,2").contains("`--rate`: here it is --request-rate"));
}
