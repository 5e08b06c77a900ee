//! What is wrong with the input is told at once, with its place; nothing in it reaches the terminal as it is.

use std::process::Stdio;

use crate::{Desk, SMALL, fixture, text};

#[test]
fn a_bad_file_is_told_with_line_and_remedy_all_problems_at_once() {
    let desk = Desk::new();
    let scenario = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100\"\n[engine]\n\
                    gpu_memory_utilization = 92\nmax_num_seq = 4\n[workload.arrivals.poisson]\nrequest_rate = 3\n";
    std::fs::write(desk.path().join("bad.toml"), scenario).unwrap();
    let output = desk.run("run bad.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let told = text(&output.stderr);
    for part in [
        "bad.toml:6:26",
        "for 92 % write 0.92",
        "bad.toml:7:1",
        "did you mean `max_num_seqs`?",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
}

#[test]
fn no_control_character_of_the_input_reaches_the_terminal() {
    let desk = Desk::new();
    let scenario = "[model]\nname = \"\\u001b[31m\"\n[cluster]\ngpu = \"\\u001b[31m\"\n";
    std::fs::write(desk.path().join("odd.toml"), scenario).unwrap();
    for words in [
        "run 'm\u{1b}[31m' --gpu h100",
        "run --format '\u{1b}[31m'",
        "run odd.toml",
        "trace '\u{1b}[31m'",
    ] {
        let output = desk.run(&format!("{words} --color never"));
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!text(&output.stderr).contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_found_out_first() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("file"), "").unwrap();
    // So many requests would take hours.
    let long = SMALL.replace("--num-prompts 200", "--num-prompts 9000000000");
    for flags in [
        "-o .",
        "-o file/x.json",
        "--charts file",
        "--save-result --result-dir file",
    ] {
        desk.expect(2, &format!("{long} {flags}"));
    }
}

/// A profile of one's own that is broken is told wherever it is looked at, and never passed over.
#[test]
fn a_broken_profile_is_not_passed_over() {
    let desk = Desk::new();
    let folder = desk.path().join("hardware_profiles");
    std::fs::create_dir(&folder).unwrap();
    for name in ["mine", "h100-sxm-80gb"] {
        std::fs::write(folder.join(format!("{name}.toml")), b"id = \"X\"\xff\n").unwrap();
        let output = desk.run(&format!("fit Qwen/Qwen3-8B --gpu {name}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.contains("is not a hardware profile") && told.contains(name),
            "{told}"
        );
    }
    let listed = desk.expect(0, "hw");
    assert!(
        listed.contains("left out: hardware_profiles/mine.toml"),
        "{listed}"
    );
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, "hw --format json")).unwrap();
    assert_eq!(json["unusable"].as_array().unwrap().len(), 2);
}

#[test]
fn every_command_explains_itself() {
    let desk = Desk::new();
    assert!(desk.expect(0, "--version").starts_with("plimsoll 0."));
    for command in
        "fit run knee sweep compare working-set conform course trace hw models scenarios schema completions"
            .split(' ')
    {
        let printed = desk.expect(0, &format!("{command} --help"));
        assert!(printed.contains("Usage: plimsoll"), "{command}: {printed}");
    }
    desk.expect(2, "run --no-such-flag");
    desk.expect(
        2,
        "run no-such-model --gpu h100 --request-rate 1 --input-len 8 --output-len 8",
    );
}

/// What a command reads is not replaced by what it writes, under whatever path, and two outputs are two files.
#[test]
fn no_output_takes_the_place_of_an_input_or_of_another_output() {
    let desk = Desk::new();
    let put = |name: &str, text: &str| std::fs::write(desk.path().join(name), text).unwrap();
    let trace = "{\"timestamp\": 0, \"input_length\": 64, \"output_length\": 8, \"hash_ids\": [1]}\n\
                 {\"timestamp\": 500, \"input_length\": 64, \"output_length\": 8, \"hash_ids\": [1]}\n";
    put("t.jsonl", trace);
    put(
        "rows.csv",
        &std::fs::read_to_string(fixture("results/table.csv")).unwrap(),
    );
    put(
        "gemm.csv",
        &std::fs::read_to_string(fixture("kernels/gemm.csv")).unwrap(),
    );
    put("scenario.toml", &desk.expect(0, &format!("{SMALL} --dry-run")));
    let result = desk.expect(0, &format!("{SMALL} --format json"));
    put("r.json", &result);
    std::fs::create_dir(desk.path().join("inner")).unwrap();
    let model = "run Qwen/Qwen3-8B --gpu h100 --num-prompts 2";
    let files = || -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(desk.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    };
    let before = files();
    for words in [
        "run scenario.toml -o scenario.toml".to_owned(),
        "run scenario.toml -o scenario.toml --dry-run".to_owned(),
        "knee scenario.toml -o ./scenario.toml --goodput ttft:500 --format table".to_owned(),
        "sweep scenario.toml -L request-rate 1,2 -o inner/../scenario.toml".to_owned(),
        format!("{model} --trace t.jsonl -o t.jsonl"),
        format!(
            "{} --trace t.jsonl -o t.jsonl",
            model.replace("run", "sweep") + " -L seed 1,2"
        ),
        format!("{model} --trace t.jsonl --save-result --result-filename t.jsonl"),
        format!("{model} --trace t.jsonl --save-result --result-filename x.json -o x.json"),
        "compare scenario.toml \"-tp 1\" \"-tp 2\" -o scenario.toml".to_owned(),
        "working-set scenario.toml -o scenario.toml".to_owned(),
        "trace t.jsonl --fit ./t.jsonl".to_owned(),
        "audit r.json -o r.json".to_owned(),
        "diff r.json r.json -o r.json".to_owned(),
        "validate rows.csv -o rows.csv".to_owned(),
        "validate rows.csv --chart rows.csv".to_owned(),
        "validate rows.csv --no-interval -o both.svg --chart ./both.svg".to_owned(),
        "validate --kernels . --gpu h100 -o gemm.csv".to_owned(),
        "calibrate gemm.csv --gpu h100 -o gemm.csv".to_owned(),
    ] {
        let output = desk.run(&words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        let says = |part: &str| told.contains(part);
        assert!(says("would overwrite") || says("both write"), "{words}\n{told}");
        assert!(files() == before, "{words} changed a file\n{told}");
    }
    // Going on from its own file is what a sweep is asked for.
    let sweep = format!("sweep {} -L seed 1,2 -o kept.jsonl", &SMALL[4..]);
    let first = desk.expect(0, &sweep);
    assert_eq!(desk.expect(0, &sweep), first);
}

/// A value that no run would have is refused, and cells none of which fits are told with their reasons.
#[test]
fn a_sweep_drops_no_flag_and_prints_cells_none_of_which_fits() {
    let desk = Desk::new();
    let sweep = SMALL.replacen("run", "sweep", 1);
    for (axis, flag) in [
        ("-L request-rate 1,2", "--request-rate"),
        ("-S input_len 128..256 step 128", "--input-len"),
        ("-L gpu l4,l40s", "--gpu"),
        ("-L max-model-len 4096,8192", "--max-model-len"),
    ] {
        let output = desk.run(&format!("{sweep} {axis}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{axis}: {told}");
        assert!(
            told.contains("and swept over") && told.contains(flag),
            "{axis}: {told}"
        );
    }
    let small = format!(
        "{} -L gpu t4,rtx-4090",
        sweep.replace("--gpu h100", "--dtype float16")
    );
    let small = small.replace("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct");
    let printed = desk.expect(3, &small);
    assert!(printed.starts_with("0 runs; 2 cells do not fit"), "{printed}");
    assert!(
        printed.contains("t4") && printed.contains("does not fit"),
        "{printed}"
    );
    let csv = desk.expect(3, &format!("{small} --format csv"));
    assert_eq!(
        csv.lines().filter(|line| line.ends_with("does_not_fit")).count(),
        2,
        "{csv}"
    );
    desk.expect(0, &format!("{small} --dry-run"));
    desk.expect(3, &format!("{small} --charts pictures"));
}

/// Commands as people paste them, with lines left out and containers around.
#[test]
fn pasted_commands_over_several_lines_are_taken_whole() {
    let desk = Desk::new();
    let bench = "--gpu h100 --bench-cmd 'vllm bench serve --request-rate 2 --num-prompts 20' --dry-run";
    let run = |serve: &str| desk.run(&format!("run --serve-cmd '{serve}' {bench}"));
    let serve =
        "vllm serve Qwen/Qwen3-8B \\\n  # --enforce-eager \\\n  --max-num-seqs 7 \\ \n  --max-model-len 4096";
    for serve in [
        serve.to_owned(),
        "docker run --gpus all --entrypoint vllm vllm/vllm-openai:v0.11.0 serve Qwen/Qwen3-8B --max-num-seqs 7 \
         --max-model-len 4096"
            .to_owned(),
    ] {
        let output = run(&serve);
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{serve}\n{told}");
        for part in ["max_num_seqs = 7", "max_model_len = 4096"] {
            assert!(printed.contains(part), "{serve}\n{printed}");
        }
        if serve.contains('#') {
            assert!(told.contains("is a comment and is left out"), "{told}");
            assert!(told.contains("a blank stands behind the backslash"), "{told}");
        }
    }
    for (serve, part) in [
        (
            "trtllm-bench --model Qwen/Qwen3-8B throughput",
            "of TensorRT-LLM's commands trtllm-serve is read",
        ),
        ("docker compose up vllm", "what a compose file runs is not read"),
    ] {
        let output = run(serve);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part), "{told}");
    }
}

/// Names that mean nothing are told as what they are.
#[test]
fn folders_and_variants_are_named_in_what_is_wrong_with_them() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path().join("mine")).unwrap();
    let told = |words: &str, code: i32| {
        let output = desk.run(words);
        let told = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{words}\n{told}");
        told
    };
    let folder = told(&SMALL.replace("meta-llama/Llama-3.1-8B-Instruct", "mine"), 2);
    assert!(
        folder.contains("the folder `mine` holds no config.json"),
        "{folder}"
    );
    let misfit =
        SMALL.replacen("run", "compare", 1) + " \"big: --gpu h100\" \"small: --gpu t4 --dtype float16\"";
    let misfit = told(&misfit.replacen("--gpu h100", "", 1), 3);
    assert!(misfit.contains("variant small: does not fit"), "{misfit}");
    let empty = told("conform mine", 2);
    assert!(empty.contains("a folder that holds no recording"), "{empty}");
    std::fs::write(desk.path().join("r.json"), "[1]").unwrap();
    let leaked = told("conform r.json", 2);
    assert!(!leaked.contains("Whose"), "{leaked}");
}

/// A table that was pasted many times over does not fill the screen.
#[test]
fn rows_that_are_the_same_are_told_in_a_few_lines() {
    let desk = Desk::new();
    let table = std::fs::read_to_string(fixture("results/table.csv")).unwrap();
    let (header, rows) = table.split_once('\n').unwrap();
    let row = rows.lines().next().unwrap();
    std::fs::write(
        desk.path().join("many.csv"),
        format!("{header}\n{}", format!("{row}\n").repeat(600)),
    )
    .unwrap();
    let output = desk.run("validate many.csv --no-interval");
    let told = text(&output.stderr);
    assert!(
        told.lines().count() < 30 && told.contains("more rows hold the same"),
        "{told}"
    );
}

/// What is wrong with several flags, those that are no value at all among them.
#[test]
fn values_of_flags_are_told_all_at_once() {
    let desk = Desk::new();
    let told = |words: &str, parts: &[&str]| {
        let output = desk.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        for part in parts {
            assert!(told.contains(part), "{words}: {part} is missing in\n{told}");
        }
        told
    };
    let line = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192";
    let run = told(
        &format!(
            "{line} --request-rate nan --input-len 0 --output-len -3 --num-prompts 1e12 --goodput ttft:-5"
        ),
        &[
            "'-3' for '--output-len",
            "`--request-rate`",
            "`--input-len`",
            "`--goodput`",
        ],
    );
    assert_eq!(
        run.matches("error: ").count(),
        4,
        "nothing of what stands in is told: {run}"
    );
    told(
        "knee quickstart --for-rate 0 --price -1 --request-rate nan",
        &[
            "--for-rate 0 is not",
            "`--price` must be US dollars per GPU-hour, like 2.99: -1 is not",
            "`--request-rate`",
        ],
    );
    told(
        "run quickstart -tp 0",
        &["`--tensor-parallel-size` must be at least 1, not 0"],
    );
    told(
        "run quickstart --dataset-name prefix_repetition --prefix-repetition-prefix-len 0",
        &["`--prefix-repetition-prefix-len` must be at least 1, not 0"],
    );
    told(
        "knee quickstart --min-rate 0 --max-rate -2",
        &["--min-rate 0", "--max-rate -2"],
    );
    told(
        "sweep quickstart -L request-rate 4,abc,-1 -L gpu h100,foo",
        &["'abc'", "-1", "`foo`"],
    );
    told(
        "sweep quickstart -L request-rate 4,,8 -S max-num-seqs 9..1 step 1",
        &["`-L request-rate` has an empty value", "`-S max-num-seqs 9..1"],
    );
    // One alone is told as before, with the way to the flags.
    told(
        &format!("{line} --request-rate 1 --input-len 9 --output-len -3"),
        &["For more information, try '--help'."],
    );
}

#[cfg(unix)]
#[test]
fn what_need_not_end_is_no_input() {
    let desk = Desk::new();
    let line = format!("{SMALL} --trace /dev/zero");
    for words in [
        "trace /dev/zero",
        line.as_str(),
        "run --scenario /dev/zero",
        "audit /dev/zero",
        "validate /dev/zero",
        "diff /dev/zero /dev/zero",
        "calibrate /dev/zero --gpu h100 -o c.toml",
    ] {
        let output = desk.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        assert!(told.contains("it is a device"), "{words}\n{told}");
    }
    // A pipe ends.
    let output = desk
        .command("trace /dev/stdin")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!text(&output.stderr).contains("device"));
    for words in ["audit .", "diff . .", "validate ."] {
        let told = text(&desk.run(words).stderr);
        assert!(
            told.contains("is a folder: name the results in it"),
            "{words}\n{told}"
        );
    }
}

#[test]
fn a_key_is_sent_to_its_table_and_a_limit_that_cannot_be_read_was_given() {
    let desk = Desk::new();
    let scenario = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[engine]\n\
                    tensor_parallel_size = 2\n[workload]\nnum_prompts = 9\n[workload.arrivals.poisson]\nrequest_rate = 3\n\
                    [workload.lengths.fixed]\ninput_len = 9\noutput_len = 9\n[slo]\nattainment = 0.9\n[slo.goodput]\n\
                    ttft = 2000\n";
    std::fs::write(desk.path().join("bad.toml"), scenario).unwrap();
    let told = text(&desk.run("run bad.toml").stderr);
    assert!(told.contains("it belongs to [cluster]"), "{told}");
    assert!(!told.contains("known are"), "{told}");
    assert!(
        told.contains("ttft") && !told.contains("nothing to attain"),
        "{told}"
    );
    let missing = scenario
        .replace("ttft = 2000\n", "")
        .replace("[engine]\ntensor_parallel_size = 2\n", "");
    std::fs::write(desk.path().join("bad.toml"), missing).unwrap();
    let told = text(&desk.run("run bad.toml").stderr);
    assert!(told.contains("nothing to attain"), "{told}");
}

#[test]
fn a_sweep_without_an_axis_says_what_the_scenario_is_for() {
    let desk = Desk::new();
    for (name, own) in [
        ("course-week2-latency", "`plimsoll run course-week2-latency`"),
        ("dp-router", "`plimsoll sweep dp-router -L router round_robin,"),
        ("quickstart", "`plimsoll knee`, `plimsoll run quickstart`,"),
    ] {
        let told = text(&desk.run(&format!("sweep {name}")).stderr);
        assert!(
            told.contains("nothing varies") && told.contains(own),
            "{name}\n{told}"
        );
        assert_eq!(
            told.contains("-L request-rate 4,8,16"),
            name != "course-week2-latency",
            "{told}"
        );
    }
}

#[test]
fn folders_that_are_made_are_told_alike() {
    let desk = Desk::new();
    for words in ["-o new/x.json", "--save-result --result-dir new"] {
        let output = desk.run(&format!("{SMALL} {words}"));
        let told = text(&output.stderr) + &text(&output.stdout);
        assert!(
            told.contains("the folder new is not there and is made"),
            "{words}\n{told}"
        );
        let was_ignored = told
            .lines()
            .any(|line| line.contains("ignored") && line.contains("is made"));
        assert!(!was_ignored, "{told}");
        std::fs::remove_dir_all(desk.path().join("new")).unwrap();
    }
}

/// Of a file system that takes no folders the reason is another than of one that may not be written, and the code is the same.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_made_is_one_failure_and_is_not_told_as_made() {
    let desk = Desk::new();
    for folder in ["/proc/plimsoll", "/sys/plimsoll"] {
        let output = desk.run(&format!("{SMALL} --save-result --result-dir {folder}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("cannot make the folder") && !told.contains("is made"),
            "{told}"
        );
    }
}

#[test]
fn a_scenario_is_read_from_standard_input() {
    use std::io::Write;
    let desk = Desk::new();
    let scenario = desk.expect(0, &format!("{SMALL} --dry-run"));
    for name in ["-", "/dev/stdin"] {
        let mut child = desk
            .command(&format!("run {name} --format json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(scenario.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("\"completed\": 200"));
    }
}

#[test]
fn a_command_is_guessed_from_a_slip() {
    let told = text(&Desk::new().run("rn quickstart").stderr);
    assert!(told.contains("'run'") && !told.contains("working-set"), "{told}");
}

#[test]
fn what_a_run_saves_names_its_files_from_the_root() {
    let desk = Desk::new();
    let trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 18:17:04.03,396,109\n";
    std::fs::write(desk.path().join("tr.csv"), trace).unwrap();
    let own = include_str!("../../calibrations/h100-sxm-80gb-vllm.toml");
    std::fs::write(desk.path().join("mine.toml"), own).unwrap();
    let words = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --trace tr.csv --calibration mine.toml --save-result \
                 --result-dir D --result-filename a.json";
    desk.expect(0, words);
    let saved = desk.path().join("D/a.resolved.toml");
    let again = format!("run {} --save-result --result-filename a.json", saved.display());
    let elsewhere = Desk::new();
    elsewhere.expect(0, &again);
    let result = |path: std::path::PathBuf| std::fs::read(path).unwrap();
    let first: serde_json::Value = serde_json::from_slice(&result(desk.path().join("D/a.json"))).unwrap();
    let second: serde_json::Value = serde_json::from_slice(&result(elsewhere.path().join("a.json"))).unwrap();
    assert_eq!(first["mean_ttft_ms"], second["mean_ttft_ms"]);
    assert_eq!(
        first["plimsoll"]["notes"].as_array().unwrap().len(),
        second["plimsoll"]["notes"].as_array().unwrap().len()
    );
    // What is spelt out is the same file again.
    assert_eq!(result(saved), result(elsewhere.path().join("a.resolved.toml")));
    // A path of one's own is one of the folder that one is in, and an error says which that is.
    let told = text(&elsewhere.run("run --model m --gpu h100 --trace tr.csv").stderr);
    assert!(
        told.contains("there is no file `tr.csv` in the working folder, "),
        "{told}"
    );
}

#[test]
fn a_range_that_lacks_a_word_is_named_as_it_is_typed() {
    let output = Desk::new().run("sweep quickstart -S request-rate 1..2 step");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("'-S <NAME> <FROM..TO> step <BY>'"), "{told}");
}

#[test]
fn a_file_that_is_no_text_keeps_no_sweep() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("b.jsonl"), b"\xff\xfe\x00").unwrap();
    let output = desk.run(&format!(
        "{} -L seed 1,2 -o b.jsonl",
        SMALL.replacen("run", "sweep", 1)
    ));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told.contains("b.jsonl holds something else") && told.contains("write to another file"),
        "{told}"
    );
}

/// Each was once answered with a tip that misled, or with none.
#[test]
fn slips_of_the_command_line_are_told_what_to_type() {
    let desk = Desk::new();
    let shipped = include_str!("../../scenarios/quickstart.toml");
    std::fs::write(desk.path().join("qs.txt"), shipped).unwrap();
    let wide = shipped.encode_utf16().flat_map(u16::to_le_bytes);
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(wide).collect();
    std::fs::write(desk.path().join("wide.toml"), wide).unwrap();
    for (words, told) in [
        (
            "sweep quickstart -L request-rate 2, 4",
            "with commas: -L request-rate 2,4\n",
        ),
        (
            "sweep quickstart -L request-rate=2,4",
            "two words: -L request-rate 2,4\n",
        ),
        (
            "run quickstart -request-rate 8",
            "a long flag has two dashes: --request-rate",
        ),
        (
            "run quickstart -input_len=8",
            "a long flag has two dashes: --input-len",
        ),
        (
            "quickstart",
            "`quickstart` is a scenario: plimsoll run quickstart",
        ),
        ("mine.toml", "`mine.toml` is a scenario: plimsoll run mine.toml"),
        (
            "Qwen/Qwen3-8B",
            "`Qwen/Qwen3-8B` is a model: plimsoll fit Qwen/Qwen3-8B",
        ),
        ("run quickstart –request-rate 8", "begins with an en dash, –"),
        ("run quickstart —request-rate 8", "type --request-rate"),
        ("audit t.csv –gpu h100", "type --gpu"),
        ("run quickstart --request-rate “8”", "a curly quote, “"),
        (
            "run --gpu h100 --serve-cmd 'vllm serve Qwen/Qwen3-8B –tp 2'",
            "type -tp",
        ),
        ("run wide.toml", "wide.toml is UTF-16 text: save it as UTF-8"),
        (
            "run qs.txt",
            "`qs.txt` holds a scenario, whose name must end in .toml",
        ),
        ("run ./qs.txt", "write --scenario ./qs.txt"),
        (
            "compare quickstart 'a: -tp 2' graphs",
            "`graphs: --max-num-seqs 8`",
        ),
    ] {
        let output = desk.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(told), "{words}: {said}");
        assert!(!said.contains("use '-- "), "{words}: {said}");
    }
    let taken = desk.run("run --scenario qs.txt --dry-run");
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken.stderr));
}

#[test]
fn a_dry_run_says_what_it_does_not_write() {
    let desk = Desk::new();
    let output = desk.run(&format!(
        "{SMALL} --dry-run --timeline steps.json --charts pictures"
    ));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("--dry-run simulates nothing: --timeline, --charts had no effect"),
        "{said}"
    );
    assert!(!desk.path().join("steps.json").exists());
}
