//! A file that is far off, beside good ones: it decides nothing, and what it lacks is not invented. And what to measure next.

use std::path::Path;

use crate::{plimsoll, text};

/// A result of a server with the default terms.
fn simulate(folder: &Path, name: &str, load: [&str; 2]) {
    let fixed = "run meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --random-input-len 512 --random-output-len 64 \
                 --save-result --save-detailed";
    // Every request of a single stream is like the others, and each takes as many steps as sixteen do together.
    let prompts = match load {
        ["--max-concurrency", "1"] => "40",
        ["--request-rate", _] => "100",
        _ => "200",
    };
    let mut args: Vec<&str> = fixed.split_whitespace().collect();
    args.extend([
        load[0],
        load[1],
        "--num-prompts",
        prompts,
        "--result-filename",
        name,
    ]);
    let ran = plimsoll(folder, &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
}

/// Two closed loops, an open one, and a closed one to be made slow.
fn results(folder: &Path) {
    for clients in ["1", "16", "64"] {
        simulate(
            folder,
            &format!("c{clients}.json"),
            ["--max-concurrency", clients],
        );
    }
    simulate(folder, "r4.json", ["--request-rate", "4"]);
}

/// Rewrites a result.
fn change(folder: &Path, from: &str, to: &str, how: impl Fn(&str, &mut serde_json::Value)) {
    let bytes = std::fs::read(folder.join(from)).unwrap();
    let mut result: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let object = result.as_object_mut().unwrap();
    object.iter_mut().for_each(|(key, value)| how(key, value));
    // Without every gap only what was printed of them is left.
    object.retain(|_, value| !value.is_null());
    std::fs::write(folder.join(to), result.to_string()).unwrap();
}

/// So many times as slow, and without its gaps.
fn slower(times: f64) -> impl Fn(&str, &mut serde_json::Value) {
    move |key, value| {
        let factor = match key {
            "itls" | "ttfts" | "latencies" | "queue_times" | "start_times" => {
                return *value = serde_json::Value::Null;
            }
            "duration" => times,
            key if key.ends_with("_ms") => times,
            key if key.contains("throughput") => 1.0 / times,
            _ => return,
        };
        if let Some(number) = value.as_f64() {
            *value = (factor * number).into();
        }
    }
}

/// What is said, and the terms of the calibration.
fn fitted(folder: &Path, files: &[&str]) -> (String, toml::Table) {
    let mut args = vec!["calibrate"];
    args.extend(files);
    args.extend(["--gpu", "H100-SXM-80GB", "--allow-predictions", "-o", "own.toml"]);
    let ran = plimsoll(folder, &args);
    // 1 where what was scaled contradicts itself.
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", text(&ran.stderr));
    let file = std::fs::read_to_string(folder.join("own.toml")).unwrap();
    (text(&ran.stdout), file.parse().unwrap())
}

/// Whether the runs of one file were left out, and no others.
fn only_left_out(calibration: &toml::Table, file: &str) -> bool {
    let runs = calibration["evidence"]["runs"].as_array().unwrap();
    let left = |run: &toml::Value| run.get("is_left_out").is_some();
    let is_of_file = |run: &toml::Value| run["run"].as_str().unwrap().contains(file);
    runs.iter().any(left) && runs.iter().all(|run| left(run) == is_of_file(run))
}

#[test]
fn a_run_that_is_ten_times_off_moves_no_term_and_makes_no_stalls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    results(folder);
    change(folder, "c64.json", "slow.json", slower(10.0));
    let (_, good) = fitted(folder, &["c1.json", "c16.json", "r4.json"]);
    for files in [
        ["c1.json", "c16.json", "slow.json", "r4.json"],
        ["slow.json", "r4.json", "c1.json", "c16.json"],
    ] {
        let (said, with) = fitted(folder, &files);
        assert!(said.contains("3 of 4 end-to-end runs within 0."), "{said}");
        assert!(
            said.contains("DOUBTFUL: 1 of 4 runs is off by more than a factor of 1.25"),
            "{said}"
        );
        let terms = |table: &toml::Table| table["host"]["vllm"].as_table().unwrap().clone();
        for (name, value) in terms(&good) {
            let (found, value) = (terms(&with)[&name].as_float(), value.as_float());
            assert_eq!(found, value, "{name}: {said}");
        }
        assert_eq!(with["jitter"], good["jitter"], "{said}");
        // Residuals are of all four runs, hold-out and intervals of the three; the file says which.
        let host = &with["evidence"]["blocks"]["host.vllm"];
        let counts = ["shapes", "kept_shapes"].map(|key| host[key].as_integer());
        assert_eq!(counts, [Some(4), Some(3)], "{said}");
        assert!(only_left_out(&with, "slow.json"), "{said}");
        assert!(
            good["evidence"]["blocks"]["host.vllm"]
                .get("kept_shapes")
                .is_none()
        );
    }
}

/// Launches without a graph would explain a run of 16 in flight that something else slowed down by a tenth or two, and nothing
/// else does: the terms are those of the other runs, or their intervals reach to those.
#[test]
fn a_run_that_is_a_tenth_or_two_off_decides_no_term_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    results(folder);
    let (_, good) = fitted(folder, &["c1.json", "c64.json", "r4.json"]);
    let term = |file: &toml::Table, name: &str| file["host"]["vllm"][name].as_float().unwrap();
    let interval = |file: &toml::Table, name: &str| -> Vec<f64> {
        let all = &file["evidence"]["blocks"]["host.vllm"]["interval_90"];
        let ends = all[name].as_array().unwrap().iter();
        ends.map(|end| end.as_float().unwrap()).collect()
    };
    let mut left_out = 0;
    for times in [0.8, 0.9, 1.1, 1.2] {
        change(folder, "c16.json", "off.json", slower(times));
        let (said, file) = fitted(folder, &["c1.json", "off.json", "c64.json", "r4.json"]);
        if said.contains("DOUBTFUL: off.json: 16 in flight, 512+64 tokens stands alone") {
            left_out += 1;
            assert_eq!(
                term(&file, "eager_launch_us"),
                term(&good, "eager_launch_us"),
                "{times}: {said}"
            );
        }
        for name in [
            "async_gap_us",
            "async_gap_per_seq_us",
            "eager_launch_us",
            "request_ms",
        ] {
            let [low, high] = interval(&file, name)[..] else {
                panic!("{name} has no interval");
            };
            let truth = term(&good, name);
            assert!(
                low <= truth && truth <= high,
                "{times}: {name} {low} to {high}, {truth}: {said}"
            );
        }
    }
    assert!(left_out >= 2, "{left_out}");
    // Nothing is wrong with these.
    let (said, _) = fitted(folder, &["c1.json", "c16.json", "c64.json", "r4.json"]);
    assert!(
        !said.contains("stands alone") && !said.contains("is the word of"),
        "{said}"
    );
}

/// Of a load that was measured three times the run that differs from the other two is the one that is left out, and named.
#[test]
fn a_run_that_differs_from_its_repeats_is_the_one_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    results(folder);
    for (to, times) in [("again.json", 1.003), ("off.json", 1.22)] {
        change(folder, "c64.json", to, slower(times));
    }
    let files = [
        "c1.json",
        "c16.json",
        "r4.json",
        "c64.json",
        "again.json",
        "off.json",
    ];
    let (said, file) = fitted(folder, &files);
    assert!(
        said.contains("DOUBTFUL: off.json: 64 in flight, 512+64 tokens stands alone"),
        "{said}"
    );
    assert!(only_left_out(&file, "off.json"), "{said}");
}

/// No host makes a server a sixth faster than its kernels are; with a factor on the bandwidth it would read faster than the card.
#[test]
fn a_server_that_is_faster_than_its_card_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    results(folder);
    let files = ["c1.json", "c16.json", "c64.json", "r4.json"];
    for name in files {
        change(folder, name, name, slower(0.85));
    }
    let (said, file) = fitted(folder, &files);
    assert!(
        said.contains("off in the median after the fit, and runs repeat within 3 %"),
        "{said}"
    );
    assert_eq!(file["host"]["vllm"]["trust"].as_str(), Some("doubtful"), "{said}");
    let mut args = files.to_vec();
    args.push("--fit-bandwidth");
    let (said, _) = fitted(folder, &args);
    assert!(
        said.contains("of the card's bandwidth, which nothing does"),
        "{said}"
    );
}

#[test]
fn pauses_come_only_from_runs_of_which_every_gap_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    results(folder);
    // A tail of half a second, of which no gap is there.
    change(folder, "c16.json", "printed.json", |key, value| match key {
        "itls" | "ttfts" | "latencies" | "queue_times" | "start_times" => *value = serde_json::Value::Null,
        "p99_itl_ms" => *value = 500.0.into(),
        _ => {}
    });
    let (said, fit) = fitted(folder, &["c1.json", "printed.json", "r4.json"]);
    let law = fit["jitter"]["vllm"].as_table().unwrap();
    let stalls = law.get("stalls_per_s").and_then(toml::Value::as_float);
    assert_eq!(stalls.unwrap_or(0.0), 0.0, "{said}");
}

#[test]
fn no_run_is_asked_for_that_the_server_would_queue() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    simulate(folder, "c1.json", ["--max-concurrency", "1"]);
    let serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 16";
    let (said, _) = fitted(folder, &["c1.json", "--serve-cmd", serve]);
    let (_, next) = said
        .split_once("a closed loop at --max-concurrency ")
        .expect("a run is asked for");
    let clients: u32 = next.split(' ').next().unwrap().parse().unwrap();
    assert!(
        clients <= 16 && next.contains("per token of 1 to 16 in flight"),
        "{said}"
    );
}

#[test]
fn the_next_run_is_one_that_was_not_given_and_leaves_less_to_know() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut files = vec!["c1.json".to_owned()];
    simulate(folder, &files[0], ["--max-concurrency", "1"]);
    let mut left = f64::INFINITY;
    while files.len() < 8 {
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        let (said, _) = fitted(folder, &names);
        let Some((_, next)) = said.split_once("a closed loop at --max-concurrency ") else {
            break;
        };
        let clients = next.split(' ').next().unwrap();
        let known: f64 = next
            .split('±')
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .unwrap()
            .parse()
            .unwrap();
        let name = format!("c{clients}.json");
        assert!(!files.contains(&name) && known <= left, "{files:?}: {said}");
        simulate(folder, &name, ["--max-concurrency", clients]);
        files.push(name);
        left = known;
    }
    // The host of a single stream says little of many, and a few loads tell what all can.
    assert!((2..8).contains(&files.len()), "{files:?}");
}
