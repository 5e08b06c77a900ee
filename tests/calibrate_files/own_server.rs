//! What runs of one's own server decide and what they leave open: files as its client would have saved them, of servers whose terms
//! are known.

use std::path::Path;

use crate::{plimsoll, text};

const LARGE: &str = "Qwen/Qwen3-8B";
const SMALL: &str = "Qwen/Qwen3-1.7B";

/// The shipped H100 with other terms of its host and another bandwidth of its products, as `truth.toml`.
fn server(folder: &Path, terms: &[(&str, f64)], bandwidth: f64) {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("calibrations/h100-sxm-80gb-vllm.toml");
    let mut file: toml::Table = std::fs::read_to_string(shipped).unwrap().parse().unwrap();
    file.remove("evidence");
    let eb = file["gemm"]["bf16"]["eb"].as_float().unwrap();
    file["gemm"]["bf16"]["eb"] = (bandwidth * eb).into();
    let host = file["host"]["vllm"].as_table_mut().unwrap();
    for (term, value) in terms {
        host.insert((*term).to_owned(), (*value).into());
    }
    std::fs::write(folder.join("truth.toml"), file.to_string()).unwrap();
}

/// What a client saves of a run of that server, without lists and without a word of this program.
fn measure(folder: &Path, name: &str, model: &str, load: &str) {
    let fixed = format!(
        "run {model} --gpu H100-SXM-80GB --max-model-len 8192 --calibration truth.toml --random-input-len 512 --random-output-len 128 \
         --save-result --result-filename {name} {load}"
    );
    let ran = plimsoll(folder, &fixed.split_whitespace().collect::<Vec<_>>());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    change(folder, name, |result| {
        for key in ["plimsoll", "latencies", "queue_times"] {
            result.remove(key);
        }
    });
}

fn change(folder: &Path, name: &str, how: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = folder.join(name);
    let mut result: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    how(result.as_object_mut().unwrap());
    std::fs::write(path, result.to_string()).unwrap();
}

const LOADS: [(&str, &str); 4] = [
    ("c1.json", "--max-concurrency 1 --num-prompts 20"),
    ("c16.json", "--max-concurrency 16 --num-prompts 200"),
    ("c64.json", "--max-concurrency 64 --num-prompts 640"),
    ("r20.json", "--request-rate 20 --num-prompts 800"),
];

/// What is said of a fit, and its file, `own.toml`.
fn fit(folder: &Path, args: &[&str]) -> (String, toml::Table) {
    let mut all = vec!["calibrate", "--gpu", "H100-SXM-80GB", "-o", "own.toml"];
    all.extend(args);
    let ran = plimsoll(folder, &all);
    let said = format!("{}{}", text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    let file = std::fs::read_to_string(folder.join("own.toml")).unwrap();
    (said, file.parse().unwrap())
}

/// The 90 % interval of a term.
fn interval(file: &toml::Table, term: &str) -> (f64, f64) {
    let ends = &file["evidence"]["blocks"]["host.vllm"]["interval_90"][term];
    let end = |index: usize| ends[index].as_float().unwrap();
    (end(0), end(1))
}

/// The factors of the model's interval of TPOT at 20 req/s.
fn predicted(folder: &Path, calibration: Option<&str>) -> [f64; 2] {
    let fixed = format!(
        "run {LARGE} --gpu H100-SXM-80GB --max-model-len 8192 --random-input-len 512 --random-output-len 128 --request-rate 20 \
         --num-prompts 800 --format json --quiet"
    );
    let mut args: Vec<&str> = fixed.split_whitespace().collect();
    args.extend(calibration.into_iter().flat_map(|name| ["--calibration", name]));
    let ran = plimsoll(folder, &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let result: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let factors = &result["plimsoll"]["model_interval"]["mean_tpot_ms"]["factors_90"];
    [0, 1].map(|end| factors[end].as_f64().unwrap())
}

/// Slow launches show in steps beyond the largest graph alone: the rate at which such steps come was measured, and refutes launches of
/// more than 45 µs, of which what is believed beforehand says nothing.
#[test]
fn what_was_measured_bounds_what_is_predicted_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let slow = [
        ("async_gap_us", 900.0),
        ("async_gap_per_seq_us", 26.0),
        ("request_ms", 20.0),
    ];
    server(folder, &slow, 1.0);
    for (name, load) in LOADS {
        measure(folder, name, LARGE, load);
    }
    let (said, file) = fit(folder, &LOADS.map(|(name, _)| name));
    let (_, most) = interval(&file, "eager_launch_us");
    assert!((22.0..60.0).contains(&most), "{said}");
    // A host that is less to be expected than another card is measured all the same: it is what the file is of.
    assert!(
        said.contains("would explain these runs with less of a surprise"),
        "{said}"
    );
    assert_eq!(file["host"]["vllm"]["trust"].as_str(), Some("measured"), "{said}");
    let own = predicted(folder, Some("own.toml"));
    let shipped = predicted(folder, None);
    assert!(
        own[1] < 1.25 && own[1] < shipped[1] && own[0] > shipped[0],
        "{own:?} {shipped:?}"
    );
}

/// Figures without noise, of a gap three standard deviations from what is believed: the belief alone must not exclude it.
#[test]
fn intervals_hold_a_host_that_was_not_to_be_expected() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let truth = [
        ("async_gap_us", 400.0),
        ("async_gap_per_seq_us", 9.43),
        ("request_ms", 5.1),
    ];
    server(folder, &truth, 1.0);
    for (name, load) in LOADS {
        measure(folder, name, LARGE, load);
    }
    let (said, file) = fit(folder, &LOADS.map(|(name, _)| name));
    for (term, value) in truth {
        let (low, high) = interval(&file, term);
        assert!(low <= value && value <= high, "{term} {value}: {said}");
        assert!(high / low < 12.0, "{term}: {said}");
    }
}

/// One model's runs are explained by a slow host as well as by a slow card; those of another size decide it.
#[test]
fn models_of_two_sizes_tell_a_card_from_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    server(folder, &[], 0.83);
    let names: Vec<String> = [LARGE, SMALL]
        .iter()
        .enumerate()
        .flat_map(|(index, model)| {
            LOADS[..3].iter().map(move |(name, load)| {
                let name = format!("m{index}-{name}");
                measure(folder, &name, model, load);
                name
            })
        })
        .collect();
    let mut files: Vec<&str> = names.iter().map(String::as_str).collect();
    let (said, file) = fit(folder, &files);
    let (_, factor) = said
        .lines()
        .nth(1)
        .and_then(|line| line.split_once("DOUBTFUL: with products that read weights at "))
        .unwrap_or_else(|| panic!("{said}"));
    let factor: f64 = factor.split(' ').next().unwrap().parse().unwrap();
    assert!((0.8..0.87).contains(&factor), "{said}");
    assert!(
        said.contains("--fit-bandwidth H100-SXM-80GB seeks that factor"),
        "{said}"
    );
    assert_eq!(file["host"]["vllm"]["trust"].as_str(), Some("doubtful"), "{said}");
    files.push("--fit-bandwidth");
    let (said, file) = fit(folder, &files);
    assert!(!said.contains("DOUBTFUL"), "{said}");
    let (low, high) = interval(&file, "bandwidth_factor");
    assert!(low <= 0.83 && 0.83 <= high && high / low < 1.15, "{said}");
}

/// Without a list of lengths nor a command, gaps that spread by prompts of other lengths are no scatter of steps.
#[test]
fn lengths_that_nobody_tells_are_no_scatter_of_steps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    server(folder, &[], 1.0);
    let scattered = "--max-concurrency 16 --num-prompts 200 --random-range-ratio 0.8 --client vllm";
    measure(folder, "d1.json", LARGE, scattered);
    let (said, file) = fit(folder, &["d1.json"]);
    assert!(
        said.contains("percentiles of itl: lengths are only taken to be equal"),
        "{said}"
    );
    assert!(!file.contains_key("jitter"), "{said}");
    let command = format!(
        "vllm bench serve --dataset-name random --random-input-len 512 --random-output-len 128 {}",
        scattered.replace(" --client vllm", "")
    );
    let (said, file) = fit(folder, &["d1.json", "--bench-cmd", &command]);
    let cv = file["jitter"]["vllm"]["cv"].as_float().unwrap();
    assert!(cv < 0.03, "{said}");
}

/// What `audit` knows to be impossible: another unit is refused, counts that contradict each other are said first.
#[test]
fn what_cannot_be_is_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    server(folder, &[], 1.0);
    for (name, load) in &LOADS[..2] {
        measure(folder, name, LARGE, load);
    }
    std::fs::copy(folder.join("c16.json"), folder.join("seconds.json")).unwrap();
    change(folder, "seconds.json", |result| {
        for (key, value) in result.iter_mut().filter(|(key, _)| key.ends_with("_ms")) {
            *value = value
                .as_f64()
                .map_or(serde_json::Value::Null, |ms| (ms / 1e3).into());
            assert!(!key.is_empty());
        }
    });
    let ran = plimsoll(folder, &["calibrate", "--gpu", "H100-SXM-80GB", "seconds.json"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the latencies look like seconds in columns of milliseconds"),
        "{said}"
    );
    change(folder, "c16.json", |result| {
        let duration = result["duration"].as_f64().unwrap();
        result.insert("duration".to_owned(), (duration / 1e3).into());
    });
    let ran = plimsoll(
        folder,
        &[
            "calibrate",
            "--gpu",
            "H100-SXM-80GB",
            "-o",
            "own.toml",
            "c1.json",
            "c16.json",
        ],
    );
    let said = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let second = said.lines().nth(1).unwrap();
    assert!(
        second.starts_with("IMPOSSIBLE: c16.json: ") && second.contains("contradict each other"),
        "{said}"
    );
    // Whoever uses the file is told, in the line of trust and with the reason.
    assert!(text(&ran.stderr).contains("the host is marked doubtful"));
    for command in [
        "run --request-rate 4 --num-prompts 200",
        "knee --goodput ttft:1000 --precision 0.2",
    ] {
        let line = format!(
            "{command} --quiet --model {LARGE} --gpu H100-SXM-80GB --max-model-len 4096 --random-input-len 512 --random-output-len 128 \
             --calibration own.toml"
        );
        let ran = plimsoll(folder, &line.split_whitespace().collect::<Vec<_>>());
        let told = text(&ran.stdout);
        assert!(told.contains("○○○ host DOUBTFUL"), "{told}{}", text(&ran.stderr));
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("calibration own.toml is DOUBTFUL: c16.json is impossible: "),
            "{told}"
        );
    }
}

/// `vllm bench latency` saves seconds; milliseconds in it are told as such, by the name of its field.
#[test]
fn a_latency_in_milliseconds_is_told_by_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let command =
        format!("vllm bench latency --model {LARGE} --batch-size 8 --input-len 512 --output-len 128");
    let latency = r#"{"avg_latency": 1082.3, "latencies": [1080, 1083, 1084], "percentiles": {"50": 1083}}"#;
    std::fs::write(folder.join("latency.json"), latency).unwrap();
    let args = [
        "calibrate",
        "latency.json",
        "--gpu",
        "H100-SXM-80GB",
        "--bench-cmd",
        &command,
    ];
    let said = text(&plimsoll(folder, &args).stdout);
    assert!(
        said.contains("`avg_latency` is read in s, and theirs are as if they were ms"),
        "{said}"
    );
    assert!(said.contains("avg_latency 1080 s"), "{said}");
}
