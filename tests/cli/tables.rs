//! Against measurements: audits, recorded schedules, tables of runs and of kernels.

use crate::{Desk, SMALL, fixture, text};

#[test]
fn recorded_schedules_are_repeated_and_a_changed_one_is_told() {
    let desk = Desk::new();
    let file = fixture("schedules/two_requests.json");
    let printed = desk.expect(0, &format!("conform '{file}'"));
    assert!(
        printed.contains("1 of 1 recordings are repeated step by step"),
        "{printed}"
    );
    let recording = std::fs::read_to_string(file).unwrap();
    let changed = recording.replace("\"free_blocks\":90", "\"free_blocks\":89");
    assert_ne!(recording, changed);
    std::fs::write(desk.path().join("changed.json"), changed).unwrap();
    let printed = desk.expect(1, "conform changed.json");
    assert!(
        printed.contains("the engine has 89, the simulator 90"),
        "{printed}"
    );
    let json = desk.expect(
        1,
        &format!(
            "conform '{}' changed.json --format json",
            fixture("schedules/two_requests.json")
        ),
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answer"], "1 of 2 recordings are repeated step by step");
    assert_eq!(json["files"][0]["result"], "equal");
    assert_eq!(json["files"][1]["difference"]["engine"], "89");
    desk.expect(2, "conform nothing.json");
    let folder = desk.path().join("kept/inner");
    std::fs::create_dir_all(&folder).unwrap();
    desk.expect(2, "conform kept");
    std::fs::copy(fixture("schedules/two_requests.json"), folder.join("one.json")).unwrap();
    std::fs::write(folder.join("words.md"), "no recording").unwrap();
    let printed = desk.expect(0, "conform kept");
    assert!(printed.contains("1 of 1 recordings"), "{printed}");
}

#[test]
fn a_cluster_s_own_result_is_possible_on_all_its_gpus_and_predicted_on_as_many() {
    let desk = Desk::new();
    let server = "meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --data-parallel-size 8";
    let traffic = "--request-rate 450 --num-prompts 1500 --input-len 512 --output-len 64";
    desk.expect(
        0,
        &format!("run {server} {traffic} --save-result --result-filename 8.json"),
    );
    desk.expect(0, "audit 8.json");
    let scored = desk.expect(
        0,
        "validate 8.json --allow-predictions --no-interval --format json",
    );
    let scored: serde_json::Value = serde_json::from_str(&scored).unwrap();
    for figure in ["ttft", "tpot", "throughput"] {
        let error = scored["overall"]["figures"][figure]["median_error"].as_f64();
        assert!(error.is_some_and(|error| error < 1e-6), "{figure} {error:?}");
    }
    let told = desk.expect(0, "validate 8.json --allow-predictions --no-interval");
    assert!(!told.contains("<0.0001 %"), "{told}");
    let refused = desk.run("validate 8.json --no-interval");
    let told = crate::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(
        told.contains("8.json is a prediction of Plimsoll itself and no measurement"),
        "{told}"
    );
}

#[test]
fn a_row_s_gpu_may_be_as_its_driver_prints_it_and_an_unknown_one_gets_the_nearest() {
    let desk = Desk::new();
    let row =
        |gpu: &str| format!("{gpu},meta-llama/Llama-3.1-8B-Instruct,1,vllm,0.11.0,512,128,4,200,40,8\n");
    let table = "gpu,model,tp,engine,engine_version,input_len,output_len,request_rate,num_prompts,ttft_p50_ms,tpot_p50_ms\n"
        .to_owned()
        + &row("NVIDIA H100 80GB HBM3")
        + &row("NVIDIA H100 80GB HBM4 MIG");
    std::fs::write(desk.path().join("rows.csv"), table).unwrap();
    let told = desk.expect(0, "validate rows.csv --no-interval");
    assert!(told.contains("not modelled, 1 row\n"), "{told}");
    let reason = "unknown GPU `NVIDIA H100 80GB HBM4 MIG`; did you mean H100-SXM-80GB";
    assert!(told.contains(reason), "{told}");
}

#[test]
fn an_audit_answers_first_and_its_exit_code_says_whether_something_was_found() {
    let desk = Desk::new();
    let printed = desk.expect(1, &format!("audit {}", fixture("results/course_tables.json")));
    let first = printed.lines().next().unwrap();
    assert_eq!(
        first,
        "25 of 45 rows cannot be what their column names say; 7 more are doubtful"
    );
    let clean = desk.expect(0, &format!("audit {} --gpu h100", fixture("results/vllm.json")));
    assert_eq!(clean, "nothing speaks against the result\n");
    // What a file lacks can be given: 16 were asked for and 8 were there.
    desk.expect(
        1,
        &format!(
            "audit {} --max-concurrency 2 --request-rate inf",
            fixture("results/aiperf_console.txt")
        ),
    );
    let json = desk.expect(
        1,
        &format!("audit {} --format json", fixture("results/vllm_all_failed.json")),
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"][0]["rows"][0]["findings"][0]["check"], "failures");
    desk.expect(2, &format!("audit {}", fixture("kernels")));
}

#[test]
fn a_run_that_stands_twice_is_audited_once() {
    let desk = Desk::new();
    let row = "8,48,7.4,1150,1024\n";
    let table =
        format!("max_concurrency,mean_ttft_ms,median_tpot_ms,p99_e2el_ms,output_throughput\n{row}{row}");
    for name in ["own.csv", "again.csv"] {
        std::fs::write(desk.path().join(name), &table).unwrap();
    }
    let output = desk.run("audit own.csv again.csv --format json");
    let told = text(&output.stderr);
    assert!(
        told.contains("own.csv: line 3 holds the same as line 2: counted once"),
        "{told}"
    );
    assert!(
        told.contains("again.csv holds the same as own.csv: counted once"),
        "{told}"
    );
    let json: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let files = json["files"].as_array().unwrap();
    assert_eq!((files.len(), files[0]["rows"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn a_prediction_passes_its_own_audit_and_does_not_differ_from_itself() {
    let desk = Desk::new();
    desk.expect(0, &format!("{SMALL} --format json -o first.json"));
    desk.expect(
        0,
        &format!("{SMALL} --max-num-seqs 2 --format json -o second.json"),
    );
    desk.expect(0, "audit first.json");
    // In a quarter of the bytes it decodes faster than 16-bit weights could be read.
    desk.expect(
        0,
        "run Qwen/Qwen3-32B --gpu l40s --quantization awq --max-model-len 8192 --request-rate inf --max-concurrency 1 --num-prompts 4 \
         --input-len 128 --output-len 128 --format json -o narrow.json",
    );
    desk.expect(0, "audit narrow.json");
    let same = desk.expect(0, "diff first.json first.json --tolerance 0");
    assert!(
        same.starts_with("nothing moved: the two are the same measurement"),
        "{same}"
    );
    let other = desk.expect(1, "diff first.json second.json --tolerance 5");
    assert!(
        other.lines().next().unwrap().contains("than in the first result"),
        "{other}"
    );
    desk.expect(2, "diff first.json missing.json");
    let failed = fixture("results/vllm_all_failed.json");
    let nothing = desk.expect(2, &format!("diff {failed} first.json"));
    assert!(
        nothing.starts_with("nothing to compare: the first result"),
        "{nothing}"
    );
}

/// Ten runs of one load, by other seeds and without what Plimsoll says of itself, as a client would have measured them.
#[test]
fn runs_of_one_load_do_not_differ_by_more_than_chance_and_another_load_does() {
    let desk = Desk::new();
    let measured = |name: &str, flags: &str| {
        let printed = desk.expect(
            0,
            &format!("run quickstart --num-prompts 1500 --format json {flags}"),
        );
        let mut json: serde_json::Value = serde_json::from_str(&printed).unwrap();
        json.as_object_mut().unwrap().remove("plimsoll");
        std::fs::write(desk.path().join(name), json.to_string()).unwrap();
    };
    let (mut figures, mut real) = (0, 0);
    for rate in [8, 14] {
        for seed in 0..5 {
            measured(
                &format!("{rate}-{seed}.json"),
                &format!("--request-rate {rate} --seed {seed}"),
            );
        }
        for seed in 1..5 {
            let told = moved(&desk, &format!("{rate}-{}.json {rate}-{seed}.json", seed - 1));
            figures += told.len();
            real += told.iter().filter(|figure| figure["is_real"] == true).count();
        }
    }
    // One in twenty; figures of one pair move together.
    assert!(figures > 150 && real * 12 < figures, "{real} of {figures}");
    all_means_moved(&moved(&desk, "8-0.json 14-0.json"));
}

/// The figures that two results have in common, and by how much they moved.
fn moved(desk: &Desk, pair: &str) -> Vec<serde_json::Value> {
    let output = desk.run(&format!("diff {pair} --format json"));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["pairs"][0]["figures"].as_array().unwrap().clone()
}

fn is_mean(figure: &serde_json::Value) -> bool {
    figure["name"].as_str().unwrap().starts_with("mean")
}

/// Demands that the means of all four latencies moved by more than chance.
fn all_means_moved(figures: &[serde_json::Value]) {
    let means: Vec<_> = figures.iter().filter(|figure| is_mean(figure)).collect();
    let all = means.iter().all(|figure| figure["is_real"] == true);
    assert!(means.len() == 4 && all, "{figures:?}");
}

/// Five runs of one curve of rates, by other seeds, and two on half as fast a card.
#[test]
fn the_course_of_a_load_is_taken_for_no_chance() {
    let desk = Desk::new();
    let curve = "[workload.arrivals.profile]\npiece = \"60 s\"\nrates = [3, 5, 8, 11, 13, 14, 13, 11, 8, 5, 3, 2]\n\
                 [workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n";
    std::fs::write(desk.path().join("curve.toml"), curve).unwrap();
    let measured = |name: &str, flags: &str| {
        desk.expect(
            0,
            &format!(
                "run meta-llama/Llama-3.1-8B-Instruct --workload curve.toml {flags} --save-detailed --save-result \
                 --result-filename {name}"
            ),
        );
        let path = desk.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json.as_object_mut().unwrap().remove("plimsoll");
        std::fs::write(path, json.to_string()).unwrap();
    };
    for seed in 0..5 {
        measured(&format!("{seed}.json"), &format!("--gpu h100 --seed {seed}"));
    }
    let (mut told, mut real) = (0, 0);
    for seed in 1..5 {
        let found = moved(&desk, &format!("{}.json {seed}.json", seed - 1));
        told += found.len();
        real += found.iter().filter(|figure| figure["is_real"] == true).count();
        for figure in found.iter().filter(|figure| is_mean(figure)) {
            // Means of another seed lie within 1.5 %; what the rate does to them over the run is ten times that.
            assert!(figure["noise_95"].as_f64().unwrap() < 0.06, "{figure}");
        }
    }
    assert!(told > 60 && real * 12 < told, "{real} of {told}");
    measured("slow.json", "--gpu a100 --seed 7");
    all_means_moved(&moved(&desk, "0.json slow.json"));
}

#[test]
fn a_result_names_the_engine_that_served_and_its_version_is_known_again() {
    let desk = Desk::new();
    let run = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine sglang --request-rate 5 --input-len 512 \
               --output-len 64 --num-prompts 200";
    let result = desk.expect(
        0,
        &format!("{run} --format json -o sglang.json --save-result --result-filename saved.json"),
    );
    assert_eq!(result, "");
    for name in ["sglang.json", "saved.json"] {
        let text = std::fs::read_to_string(desk.path().join(name)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["backend"], &json["endpoint_type"]),
            (&"sglang".into(), &"sglang".into())
        );
    }
    let fitted = desk.expect(
        0,
        "calibrate sglang.json --gpu H100-SXM-80GB --engine sglang -o fitted.toml --allow-predictions",
    );
    assert!(
        fitted.contains("took: sglang.json") && !fitted.contains("is not said: the newest"),
        "{fitted}"
    );
    let spelt = desk.expect(0, &format!("{run} --dry-run"));
    assert!(spelt.contains("profile = \"sglang@0.5.23\""), "{spelt}");
}

#[test]
fn kernel_tables_are_scored_alone_or_beside_runs() {
    let desk = Desk::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels");
    let text = desk.expect(0, &format!("validate --kernels {folder}"));
    assert!(text.starts_with("median error over "), "{text}");
    let table = fixture("results/table.csv");
    let both = desk.expect(
        0,
        &format!("validate {table} --no-interval --kernels {folder} --format json"),
    );
    let both: serde_json::Value = serde_json::from_str(&both).unwrap();
    assert!(both["overall"]["inside_90"].is_null());
    assert!(both["kernels"]["scores"].as_array().unwrap().len() > 50);
    let own = desk.expect(
        0,
        &format!("validate --kernels {folder} --calibration h200-sxm-141gb-vllm --format json"),
    );
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    let scores = own["kernels"]["scores"].as_array().unwrap();
    assert!(
        scores.len() > 5 && scores.iter().all(|score| score["gpu"] == "h200_sxm"),
        "{scores:?}"
    );
    desk.expect(2, &format!("validate {table} --kernels {folder} --format csv"));
    desk.expect(2, "validate");
    // Three rows are left, and a record is of one run.
    desk.expect(2, &format!("validate {table} --requests {table}"));
}

/// A copy to edit: comments included, and read back as it is.
#[test]
fn a_shipped_calibration_is_printed_as_its_file() {
    let desk = Desk::new();
    let file = desk.expect(0, "calibrations h100-sxm-80gb-vllm --format toml");
    assert_eq!(file, include_str!("../../calibrations/h100-sxm-80gb-vllm.toml"));
    std::fs::write(desk.path().join("mine.toml"), &file).unwrap();
    assert_eq!(desk.expect(0, "calibrations mine.toml --format toml"), file);
    let told = |words: &str| {
        let output = desk.run(words);
        assert_ne!(output.status.code(), Some(0), "{words}");
        super::text(&output.stderr)
    };
    let all = told("calibrations --format toml");
    assert!(all.contains("plimsoll calibrations NAME --format toml"), "{all}");
    std::fs::write(desk.path().join("wrong.toml"), "a = 1").unwrap();
    told("calibrations wrong.toml --format toml");
}

#[test]
fn a_calibration_is_scored_on_the_rows_of_its_card() {
    let desk = Desk::new();
    let header =
        "gpu,model,tp,engine,engine_version,input_len,output_len,request_rate,num_prompts,tpot_p50_ms\n";
    let row = |gpu: &str| format!("{gpu},meta-llama/Llama-3.1-8B-Instruct,1,vllm,0.11.0,512,128,4,200,8\n");
    let table: String = ["H100-SXM-80GB", "A100-80GB", "A100-SXM-80GB", "L4"]
        .map(row)
        .concat();
    std::fs::write(desk.path().join("rows.csv"), header.to_owned() + &table).unwrap();
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/calibrations/a100-sxm-80gb-vllm.toml"
    );
    let own = std::fs::read_to_string(shipped).unwrap();
    std::fs::write(desk.path().join("own.toml"), &own).unwrap();
    let scored = |words: &str| {
        let json = desk.expect(
            0,
            &format!("validate rows.csv --no-interval --format json {words}"),
        );
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["overall"]["modelled"].clone()
    };
    assert_eq!(scored(""), 4);
    assert_eq!(scored("--calibration own.toml"), 2);
    assert_eq!(scored("--calibration h100-sxm-80gb-vllm"), 1);
    let told = desk.expect(0, "validate rows.csv --no-interval --calibration own.toml");
    let reason = "the calibration own.toml was made on A100-SXM-80GB, and the row ran on L4";
    assert!(told.contains(reason), "{told}");
    // `A100-80GB` may be the PCIe form, too; whose calibration it is says that it was not.
    let scenarios = desk.expect(0, "validate rows.csv --scenarios --calibration own.toml");
    assert_eq!(
        scenarios.matches("calibration = \"own.toml\"").count(),
        2,
        "{scenarios}"
    );
    assert_eq!(
        scenarios.matches("gpu = \"A100-SXM-80GB\"").count(),
        2,
        "{scenarios}"
    );
    std::fs::write(desk.path().join("cut.toml"), &own[..own.len() / 2]).unwrap();
    for unusable in ["cut.toml", "nothing.toml", "nothing"] {
        desk.expect(
            2,
            &format!("validate rows.csv --no-interval --calibration {unusable}"),
        );
    }
}

#[test]
fn every_row_of_a_table_is_scored_or_counted_with_its_reason() {
    let desk = Desk::new();
    let table = fixture("results/table.csv");
    let refused = desk.run(&format!("validate {table} --no-interval --chart errors.pdf"));
    let told = crate::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("no picture is drawn as .pdf"), "{told}");
    let json = desk.expect(
        0,
        &format!("validate {table} --format json --chart errors.svg --charts drawn"),
    );
    assert!(
        ["svg", "png"]
            .iter()
            .all(|ending| desk.path().join(format!("drawn/errors.{ending}")).is_file())
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["overall"]["rows"], &json["overall"]["modelled"]),
        (&3.into(), &3.into())
    );
    let engines = json["engines"].as_object().unwrap();
    let of_engines: u64 = engines
        .values()
        .map(|score| score["rows"].as_u64().unwrap())
        .sum();
    assert_eq!(of_engines, 3, "{engines:?}");
    let inside = json["overall"]["inside_90"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&inside), "{inside}");
    assert!(
        json["families"]["fam"]["figures"]["throughput"]["median_error"]
            .as_f64()
            .unwrap()
            < 0.5
    );
    assert!(
        std::fs::read_to_string(desk.path().join("errors.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    assert!(
        desk.expect(0, &format!("validate {table} --scenarios"))
            .contains("[workload.lengths.fixed]")
    );
    desk.expect(
        2,
        &format!("validate {}", fixture("results/vllm_all_failed.json.missing")),
    );
}

#[test]
fn a_row_that_cannot_be_read_is_counted_and_the_others_are_scored() {
    let desk = Desk::new();
    let table = std::fs::read_to_string(fixture("results/table.csv")).unwrap();
    let mut lines: Vec<&str> = table.lines().collect();
    let header: Vec<&str> = lines[0].split(',').collect();
    let with = |column: &str, value: &str| {
        let at = header.iter().position(|name| *name == column).unwrap();
        let mut cells: Vec<&str> = lines[1].split(',').collect();
        assert_eq!(cells.len(), header.len(), "the row has no comma of its own");
        cells[at] = value;
        cells.join(",")
    };
    let odd = [
        with("rate_or_concurrency_kind", "moon_phase"),
        with("tp", "two"),
        with("ttft_mean_ms", "1e300"),
        "cut,short".to_owned(),
    ];
    lines.extend(odd.iter().map(String::as_str));
    std::fs::write(desk.path().join("odd.csv"), lines.join("\n")).unwrap();
    let json = desk.expect(0, "validate odd.csv --no-interval --format json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let overall = &json["overall"];
    assert_eq!((&overall["rows"], &overall["modelled"]), (&7.into(), &3.into()));
    let reasons = overall["not_modelled"].as_object().unwrap();
    for part in ["`moon_phase` must be", "`tp`", "no run has more", "has 2 cells"] {
        assert!(
            reasons.keys().any(|reason| reason.contains(part)),
            "{part}: {reasons:?}"
        );
    }
    assert!(
        desk.expect(0, "validate odd.csv --scenarios")
            .contains("cannot be read")
    );
    // Whose a cut row is nobody knows.
    let json = desk.expect(0, "validate odd.csv --no-interval --only validate --format json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["overall"]["rows"], 7);
    // An audit tells of the odd ones and audits the rest.
    let out = desk.run("audit odd.csv");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("moon_phase"));
    assert!(!out.stdout.is_empty());
    // Nothing is left of a table of such rows.
    std::fs::write(desk.path().join("bad.csv"), [lines[0], &odd[0]].join("\n")).unwrap();
    desk.expect(2, "validate bad.csv");
}

#[test]
fn a_result_out_of_order_is_one_row_with_all_that_is_wrong_with_it() {
    let desk = Desk::new();
    desk.expect(0, &format!("{SMALL} --format json -o a.json"));
    let mut result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(desk.path().join("a.json")).unwrap()).unwrap();
    let (low, high) = (result["median_ttft_ms"].clone(), result["p99_ttft_ms"].clone());
    result["median_ttft_ms"] = high;
    result["p99_ttft_ms"] = low;
    std::fs::write(desk.path().join("b.json"), result.to_string()).unwrap();
    let printed = desk.expect(1, "audit b.json");
    assert!(
        printed.contains("ttft: p99 is below p50") || printed.contains("is below p50"),
        "{printed}"
    );
    assert!(!printed.contains(" rows)"), "{printed}");
    assert!(
        printed
            .lines()
            .all(|line| line.trim() != "and" && line.trim() != "and ;"),
        "{printed}"
    );
}

#[test]
fn a_comparison_of_two_models_has_no_empty_subject() {
    let line = "compare \"a: --model Qwen/Qwen3-8B\" \"b: --model Qwen/Qwen3-4B\" --gpu h100 --max-model-len 8192 --request-rate 2 \
                --input-len 64 --output-len 16 --num-prompts 50 --seeds 2";
    let output = Desk::new().run(line);
    let printed = crate::text(&output.stdout);
    assert!(
        printed.contains("2 runs of each variant"),
        "{printed}{}",
        crate::text(&output.stderr)
    );
    assert!(!printed.contains(" ; 2 runs"), "{printed}");
}

#[test]
fn rows_say_all_that_they_leave_out_with_their_lines_and_columns() {
    let desk = Desk::new();
    let table = "gpu,model,tp,num_prompts,ttft_p50_ms,tpot_p50_ms\n".to_owned()
        + "H100-SXM-80GB,meta-llama/Llama-3.1-8B-Instruct,1,200,40,8\n\
            H100-SXM-80GB,meta-llama/Llama-3.1-8B-Instruct,1,300,41,8\n";
    std::fs::write(desk.path().join("bare.csv"), table).unwrap();
    let told = desk.expect(3, "validate bare.csv --no-interval");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "not modelled, 2 rows",
        "does not name its engine (column `engine`)",
        "does not say how requests were sent (column `request_rate` or `max_concurrency`)",
        "does not say how long prompts are",
        "(lines 2, 3)",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
}

#[test]
fn a_row_that_is_off_by_a_thousand_is_told_with_its_line() {
    let desk = Desk::new();
    let row = |ttft: &str, tpot: &str| {
        format!("H100-SXM-80GB,meta-llama/Llama-3.1-8B-Instruct,1,vllm,0.11.0,512,128,4,200,{ttft},{tpot}\n")
    };
    let table = "gpu,model,tp,engine,engine_version,input_len,output_len,request_rate,num_prompts,ttft_p50_ms,tpot_p50_ms\n"
        .to_owned()
        + &row("40", "8")
        + &row("0.04", "0.008");
    std::fs::write(desk.path().join("rows.csv"), table).unwrap();
    let told = crate::text(&desk.run("validate rows.csv --no-interval").stderr);
    assert!(
        told.contains("line 3: ") && told.contains("these look like seconds"),
        "{told}"
    );
    assert!(!told.contains("line 2: "), "{told}");
    let audited = desk.expect(1, "audit rows.csv");
    assert!(
        audited.contains("line 3: ") && audited.contains("[unit]"),
        "{audited}"
    );
}

#[test]
fn a_table_s_lengths_have_many_names_and_an_audit_without_them_says_so() {
    let desk = Desk::new();
    let audited = |header: &str, format: &str| {
        let row = "h100-sxm,meta-llama/Llama-3.1-8B-Instruct,8000,200,1,5,7";
        let table = format!("gpu,model,{header},concurrency,ttft_mean_ms,tpot_mean_ms\n{row}\n");
        std::fs::write(desk.path().join("t.csv"), table).unwrap();
        text(&desk.run(&format!("audit t.csv --format {format}")).stdout)
    };
    for header in [
        "isl,osl",
        "ISL,OSL",
        "input_len,output_len",
        "input_sequence_length,output_sequence_length",
    ] {
        let told = audited(header, "text");
        assert!(
            told.contains("the first token comes faster than the peak computes the prompt"),
            "{header}: {told}"
        );
        assert!(
            !told.contains("not checked: whether the first token"),
            "{header}: {told}"
        );
    }
    let told = audited("in,out", "text");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "nothing speaks against the result");
    // What one mean a latency and no throughput cannot contradict is not checked, either.
    for (line, begins) in lines[1..].iter().zip([
        "not checked: whether mean and percentiles go together; no latency has two of them",
        "not checked: whether as many were in flight as Little's law has it; no throughput stands beside a latency",
        "not checked: whether the first token may come so early",
    ]) {
        assert!(line.starts_with(begins), "{told}");
    }
    let object = audited("in,out", "json");
    for key in [
        "lacks_prompt_length",
        "lacks_percentiles",
        "lacks_throughput_or_latency",
    ] {
        assert!(object.contains(&format!("\"{key}\": true")), "{key}: {object}");
    }
    assert!(object.contains("\"lacks_load\": false"), "{object}");
}
