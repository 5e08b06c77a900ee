//! What is no input is refused with its place and a remedy.

use std::path::PathBuf;

use crate::{plimsoll, text};

/// Writes a file and calibrates from it: exit code, what was said.
fn refused(name: &str, bytes: &[u8], flags: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let mut args = vec!["calibrate", name, "--gpu", "H100-SXM-80GB", "-o", "out.toml"];
    args.extend(flags);
    let ran = plimsoll(folder.path(), &args);
    assert!(
        !folder.path().join("out.toml").exists(),
        "{name} left a calibration"
    );
    (ran.status.code(), text(&ran.stderr))
}

/// The header of published runs, and the cells of a row before its GPUs.
const RUNS: &str = "engine,version,gpu,tp,model,isl_mean,osl_mean,rate_or_concurrency_kind,value,tpot_mean_ms,ttft_p50_ms,family,suggested_use\n\
     vllm,0.11.0,H100-SXM-80GB,";

#[test]
fn what_cannot_be_used_is_refused_with_its_place_and_a_remedy() {
    let vllm = r#"{"backend": "vllm", "request_rate": 4.0, "num_prompts": 9, "completed": 9, "duration": 2.0, "mean_tpot_ms": 6.0,
        "total_input_tokens": 900, "total_output_tokens": 900, "median_ttft_ms": 20.0}"#;
    let block = "============ Serving Benchmark Result ============\nSuccessful requests: 9\nMean TTFT (ms): 827,89\n";
    let cases: [(&str, String, &[&str], &str); 24] = [
        (
            "many.json",
            vllm.replace(": 9,", ": 2000000,")
                .replace("4.0,", "\"inf\", \"max_concurrency\": 16,")
                .replace(": 900,", ": 2e8,"),
            &["--model", "Qwen/Qwen3-8B"],
            "it has 2000000 requests, and a fit simulates every run some hundred times: at most 1000000 are taken",
        ),
        (
            "less_than_a_token.json",
            vllm.replace("\"total_input_tokens\": 900", "\"total_input_tokens\": 4"),
            &["--model", "Qwen/Qwen3-8B"],
            "its prompts have 4.44e-1 tokens in the mean, fewer than one: its counts are not of one run",
        ),
        (
            "huge.json",
            vllm.replace("6.0", "6e300"),
            &["--model", "Qwen/Qwen3-8B"],
            "huge.json: tpot is 6.000e297 s, and no run has more than 8.6e6 s",
        ),
        (
            "no_format.csv",
            "gpu,fw,n,k,m,us\nh100_sxm,vllm,4096,4096,1,9.0\n".to_owned(),
            &[],
            "it names no format: the column `dtype` is empty or missing",
        ),
        ("empty.json", String::new(), &[], "is empty"),
        (
            "no_time.csv",
            "gpu,fw,dtype,n,k,m\nh100_sxm,vllm,bf16,4096,4096,1\n".to_owned(),
            &[],
            "it has the columns of a table of products but for `us`",
        ),
        (
            "seconds.csv",
            "engine,gpu,model,isl_mean,osl_mean,max_concurrency,ttft_mean_s\n".to_owned(),
            &[],
            "`ttft_mean_s` is in seconds; latencies of a table are read in milliseconds, `ttft_mean_ms`",
        ),
        (
            "cut.json",
            "{\"duration\": 3,".to_owned(),
            &[],
            "line 1, column 15",
        ),
        (
            "other.json",
            "{\"a\": 1}".to_owned(),
            &[],
            "is no known result; looked for",
        ),
        (
            "negative.json",
            vllm.replace("6.0", "-6.0"),
            &[],
            "`mean_tpot_ms`: -6 must be",
        ),
        (
            "nan.json",
            vllm.replace("6.0", "NaN").replace("20.0", "NaN"),
            &["--model", "Qwen/Qwen3-8B"],
            "no figure that shows",
        ),
        (
            "other_model.json",
            vllm.replace('{', "{\"model_id\": \"openai/gpt-oss-120b\","),
            &["--model", "meta-llama/Llama-3.1-8B-Instruct"],
            "it names the model openai/gpt-oss-120b, and meta-llama/Llama-3.1-8B-Instruct is said",
        ),
        (
            "comma.txt",
            block.to_owned(),
            &[],
            "line 3: `Mean TTFT (ms)`: `827,89` has a comma that parts no thousands",
        ),
        (
            "endless.json",
            vllm.replace("\"total_input_tokens\": 900", "\"total_input_tokens\": 1e300"),
            &["--model", "Qwen/Qwen3-8B"],
            "its prompts have 1.111e299 tokens",
        ),
        ("nameless.json", vllm.to_owned(), &[], "add --model"),
        (
            "unknown.json",
            vllm.to_owned(),
            &["--model", "nobody/nothing"],
            "nobody/nothing",
        ),
        (
            "odd.csv",
            "a,b\n1,2\n".to_owned(),
            &[],
            "CSV tables with a column",
        ),
        (
            "cell.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,4096,4096,1,NaN,0\n".to_owned(),
            &[],
            "line 2: `us` is `NaN`",
        ),
        (
            "huge.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,18446744073709551615,4096,1,9,0\n".to_owned(),
            &[],
            "line 2: `n` is 18446744073709551615",
        ),
        (
            "card.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\na100_sxm,vllm,bf16,4096,4096,1,9,0\n".to_owned(),
            &[],
            "it has a100_sxm under vllm",
        ),
        (
            "use.csv",
            format!("{RUNS}1,meta-llama/Llama-3.1-8B-Instruct,512,128,max_concurrency,4,7.0,30,a,validate\n"),
            &[],
            "left: 1 rows of use.csv: the column `suggested_use` says `validate`",
        ),
        (
            "tp.csv",
            format!(
                "{RUNS}TP4,meta-llama/Llama-3.1-8B-Instruct,512,128,max_concurrency,4,7.0,30,a,calibrate\n"
            ),
            &[],
            "rows of tp.csv: line 2: `tp`: `TP4` must be a number",
        ),
        (
            "prior.toml",
            "schema = 1\n[provenance]\nsource = \"prior\"\n".to_owned(),
            &[],
            "--base prior.toml",
        ),
        (
            "latency.json",
            "{\"avg_latency\": 1.0, \"latencies\": [1.0]}".to_owned(),
            &["--model", "Qwen/Qwen3-8B"],
            "--batch-size",
        ),
    ];
    for (name, bytes, flags, expected) in cases {
        let (code, said) = refused(name, bytes.as_bytes(), flags);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
        assert!(said.contains(name), "{name}: {said}");
    }
    for (bytes, expected) in [
        ([0xff, 0x00, 0x00], "is not UTF-8 text"),
        ([0xff, 0xfe, 0x7b], "binary.json is UTF-16 text: save it as UTF-8"),
        ([0x1f, 0x8b, 0x08], "cannot read binary.json"),
    ] {
        let (code, said) = refused("binary.json", &bytes, &[]);
        assert!(code == Some(2) && said.contains(expected), "{said}");
    }
}

#[test]
fn a_file_that_is_given_twice_counts_once_and_all_bad_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let table = "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,4096,4096,1,12,0\nh100_sxm,vllm,bf16,4096,4096,64,13,0\n";
    for name in ["a.csv", "b.csv"] {
        std::fs::write(folder.path().join(name), table).unwrap();
    }
    let ran = plimsoll(
        folder.path(),
        &["calibrate", "a.csv", "b.csv", "--gpu", "H100-SXM-80GB"],
    );
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("b.csv holds the same as a.csv: counted once"));
    let ran = plimsoll(
        folder.path(),
        &[
            "calibrate",
            "none.csv",
            "a.csv",
            "gone.json",
            "--gpu",
            "H100-SXM-80GB",
        ],
    );
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("none.csv") && said.contains("gone.json"), "{said}");
}

#[test]
fn a_model_that_a_file_names_otherwise_can_be_said_of_that_file() {
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"backend": "vllm", "model_id": "served/as-70b", "max_concurrency": 4, "num_prompts": 9, "completed": 9,
        "duration": 2.0, "mean_tpot_ms": 7.0, "total_input_tokens": 900, "total_output_tokens": 900, "median_ttft_ms": 30.0}"#;
    std::fs::write(folder.path().join("a.json"), result).unwrap();
    let calibrate = |flags: [&str; 2]| {
        let args = [&["calibrate", "a.json", "--gpu", "H100-SXM-80GB"][..], &flags].concat();
        let ran = plimsoll(folder.path(), &args);
        (ran.status.code(), text(&ran.stdout) + &text(&ran.stderr))
    };
    let (code, said) = calibrate(["--model", "meta-llama/Llama-3.1-8B-Instruct"]);
    assert!(
        code == Some(2) && said.contains("FILE= before a --serve-cmd"),
        "{said}"
    );
    let (code, said) = calibrate([
        "--serve-cmd",
        "a.json=vllm serve meta-llama/Llama-3.1-8B-Instruct",
    ]);
    assert!(
        code == Some(0) && said.contains("the model that it names, served/as-70b, is"),
        "{said}"
    );
}

#[test]
fn what_is_said_against_a_file_is_refused_and_what_says_nothing_of_it_is_told() {
    let table = |engine: &str| {
        format!(
            "engine,gpu,tp,model,isl_mean,osl_mean,num_prompts,max_concurrency,tpot_mean_ms,ttft_p50_ms\n\
             {engine},H100-SXM-80GB,1,Qwen/Qwen3-8B,512,64,32,4,8.0,40\n"
        )
    };
    let (code, told) = refused("rows.csv", table("vllm").as_bytes(), &["-tp", "2"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("its tensor-parallel size is 1, and 2 is said beside it"),
        "{told}"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.csv"), table("vllm")).unwrap();
    let flags =
        "calibrate rows.csv --gpu H100-SXM-80GB --max-concurrency 64 --input-len 2048 --num-prompts 500";
    let ran = plimsoll(folder.path(), &flags.split(' ').collect::<Vec<_>>());
    // Lines are folded.
    let told = text(&ran.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "limit on requests in flight is 4 as in the file, and not 64",
        "mean prompt in tokens is 512 as in the file, and not 2048",
        "number of requests is 32 as in the file, and not 500",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // A version in the cell of the engine is one: V0's server has no profile that is fitted, which is told of the version.
    let published = format!("{RUNS}1,Qwen/Qwen3-8B,512,64,max_concurrency,4,8.0,40,a,validate\n");
    let one_cell = published.replace("vllm,0.11.0,", "vllm 0.11.0,,");
    let (_, told) = refused("published.csv", one_cell.as_bytes(), &["--input-len", "2048"]);
    assert!(
        told.contains("--input-len say nothing of published.csv"),
        "{told}"
    );
    assert!(!told.contains("measured under `vllm 0.11.0`"), "{told}");
}

/// Before any file is read.
#[test]
fn flags_that_cannot_be_are_refused() {
    let table = "gpu,fw,dtype,n,k,m,us\nh100_sxm,vllm,bf16,4096,4096,1,9.0\n";
    for (flags, expected) in [
        (
            "-o cal.txt",
            "cal.txt is no name that `--calibration` takes for a file: it ends in .toml",
        ),
        ("--seed 9223372036854775808", "is not in 0..=9223372036854775807"),
        ("--draws 65535", "is not in 10..=10000"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rows.csv"), table).unwrap();
        let command = format!("calibrate rows.csv --gpu H100-SXM-80GB {flags}");
        let ran = plimsoll(folder.path(), &command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.status.code(), Some(2), "{flags}");
        assert!(text(&ran.stderr).contains(expected), "{}", text(&ran.stderr));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{flags}");
    }
}

#[test]
fn an_engine_and_a_command_of_another_contradict_each_other() {
    let result = r#"{"backend": "vllm", "request_rate": 4.0, "num_prompts": 9, "completed": 9, "duration": 2.0, "mean_tpot_ms": 6.0,
        "total_input_tokens": 900, "total_output_tokens": 900, "median_ttft_ms": 20.0}"#;
    let command = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B";
    let flags = ["--engine", "vllm", "--serve-cmd", command];
    let (code, told) = refused("result.json", result.as_bytes(), &flags);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("--engine vllm and --serve-cmd contradict each other: the command starts sglang"),
        "{told}"
    );
}

/// An answer of one token has no gap between two.
#[test]
fn answers_of_one_token_have_no_time_per_token() {
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"backend": "vllm", "request_rate": "inf", "max_concurrency": 1, "num_prompts": 9, "completed": 9, "duration": 2.0,
        "mean_tpot_ms": 6.0, "total_input_tokens": 900, "total_output_tokens": 9, "median_ttft_ms": 20.0}"#;
    std::fs::write(folder.path().join("one.json"), result).unwrap();
    let flags = "calibrate one.json --gpu H100-SXM-80GB --model Qwen/Qwen3-8B -o own.toml";
    let ran = plimsoll(folder.path(), &flags.split(' ').collect::<Vec<_>>());
    let told = text(&ran.stdout);
    assert!(
        told.contains("an answer of one token has no gap"),
        "{told} {}",
        text(&ran.stderr)
    );
    assert!(!told.contains("NaN"), "{told}");
    let written = std::fs::read_to_string(folder.path().join("own.toml")).unwrap();
    assert!(!written.contains("= nan"), "{written}");
}
