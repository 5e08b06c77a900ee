//! Every recorded schedule is repeated step by step, and a changed one is told from it in words.

use std::io::Read;
use std::path::{Path, PathBuf};

use plimsoll::conform::{
    Agreement, AnyRecording, Difference, RecordedResult, Recording, SglangRecording, SglangStep, replay,
};

/// The recordings of vLLM that stand in the repository; see `tests/data/recordings/README.md`.
pub(crate) fn files() -> Vec<PathBuf> {
    files_in(&[
        "sync",
        "async",
        "random-0.33",
        "random-0.33-states",
        "random-0.11",
    ])
}

pub(crate) fn files_in(folders: &[&str]) -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings");
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("the recordings are there"))
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    files.sort();
    files
}

fn read(file: &Path) -> AnyRecording {
    AnyRecording::read(&std::fs::read(file).expect("readable")).expect("a recording")
}

fn recording(name: &str) -> Recording {
    let file = files()
        .into_iter()
        .find(|file| file.ends_with(name))
        .expect("the recording exists");
    match read(&file) {
        AnyRecording::Vllm(recording) => *recording,
        AnyRecording::Sglang(_) => panic!("a recording of vLLM"),
    }
}

fn sglang_recording(name: &str) -> SglangRecording {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/recordings")
        .join(name);
    match read(&file) {
        AnyRecording::Sglang(recording) => *recording,
        AnyRecording::Vllm(_) => panic!("a recording of SGLang"),
    }
}

fn gunzipped(file: &Path) -> String {
    let mut text = String::new();
    let packed = std::fs::File::open(file).expect("readable");
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("a gzip file");
    text
}

fn replay_vllm(recording: Recording) -> Result<Agreement, Box<Difference>> {
    replay(&AnyRecording::Vllm(Box::new(recording)))
}

fn replay_sglang(recording: SglangRecording) -> Result<Agreement, Box<Difference>> {
    replay(&AnyRecording::Sglang(Box::new(recording)))
}

fn all_are_repeated(files: &[PathBuf], count: usize) {
    assert_eq!(files.len(), count);
    let differences: Vec<String> = files
        .iter()
        .filter_map(|file| Some(format!("{}: {}", file.display(), replay(&read(file)).err()?)))
        .collect();
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn every_recording_of_vllm_is_repeated() {
    all_are_repeated(&files(), 154);
}

#[test]
fn every_recording_with_drafts_is_repeated() {
    all_are_repeated(&files_in(&["random-0.33-drafts", "random-0.11-drafts"]), 70);
}

#[test]
fn every_recording_with_stages_is_repeated() {
    all_are_repeated(&files_in(&["random-0.33-stages", "random-0.11-stages"]), 50);
}

#[test]
fn every_recording_of_vllm_v0_is_repeated() {
    all_are_repeated(&files_in(&["random-0.6"]), 34);
}

#[test]
fn a_version_without_a_profile_of_its_own_is_refused() {
    let mut files = files_in(&["random-0.11"]);
    files.retain(|file| file.ends_with("random_00348.json.gz"));
    let file = files.remove(0);
    let AnyRecording::Vllm(mut other) = read(&file) else {
        panic!("a recording of vLLM")
    };
    "vllm@0.33".clone_into(&mut other.profile);
    let difference = replay_vllm(*other).expect_err("versions differ");
    assert!(matches!(*difference, Difference::Step { .. }), "{difference}");
    let mut text = String::new();
    let bytes = std::fs::read(&file).expect("readable");
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).expect("gzipped");
    let text = text.replace("\"vllm@0.11\"", "\"vllm@0.20\"");
    let error = AnyRecording::read(text.as_bytes()).expect_err("0.20 has none");
    assert!(
        error
            .to_string()
            .contains("vllm@0.20, and a recording is repeated by its own version only"),
        "{error}"
    );
}

#[test]
fn every_recording_of_sglang_is_repeated() {
    all_are_repeated(&files_in(&["sglang-normal", "sglang-overlap"]), 95);
    all_are_repeated(&files_in(&["sglang-drafts"]), 25);
    all_are_repeated(&files_in(&["sglang-0.5.4"]), 34);
}

#[test]
fn every_recording_of_tensorrt_llm_is_repeated() {
    all_are_repeated(&files_in(&["random-trtllm"]), 40);
}

/// A change to a recorded pass, and what the difference must say of it.
type Change = (fn(&mut SglangStep), &'static str);

#[test]
fn every_field_of_a_recorded_sglang_pass_is_demanded() {
    let changes: [Change; 11] = [
        (|step| step.mode = "mixed".into(), "mode"),
        (|step| step.scheduled[0].1 += 1, "share"),
        (|step| step.preempted.push(3), "retracted"),
        (|step| step.chunked = Some(1), "chunked request"),
        (|step| step.free_blocks += 1, "free pages"),
        (|step| step.evictable += 1, "evictable"),
        (|step| step.protected += 1, "protected"),
        (|step| step.full = 1 - step.full, "full"),
        (|step| step.ratio += 2e-6, "new-token ratio"),
        (|step| step.t += 2e-6, "time of the decision"),
        (|step| step.dt += 2e-6, "duration"),
    ];
    let whole = sglang_recording("sglang-overlap/shared_prefix_lpm.json.gz");
    for (change, what) in changes {
        let mut changed = whole.clone();
        change(&mut changed.steps[40]);
        let difference = replay_sglang(changed).expect_err(what).to_string();
        assert!(
            difference.starts_with("step 40 (t = ") && difference.contains(what),
            "{difference}"
        );
    }
}

#[test]
fn every_field_of_a_recorded_sglang_result_is_demanded() {
    type Change = (fn(&mut RecordedResult), &'static str);
    let changes: [Change; 6] = [
        (|result| result.cached_tokens += 1, "prefix-cached tokens"),
        (
            |result| *result.total_cached_tokens.as_mut().expect("recorded") += 1,
            "total prefix-cached tokens",
        ),
        (|result| result.preemptions += 1, "preemptions"),
        (|result| result.first_token_s += 2e-6, "time of the first token"),
        (|result| result.last_token_s += 2e-6, "time of the last token"),
        (
            |result| {
                let other = match result.finish.as_deref().expect("recorded") {
                    "stop" => "length",
                    _ => "stop",
                };
                result.finish = Some(other.into());
            },
            "finish reason",
        ),
    ];
    let whole = sglang_recording("sglang-overlap/eos_and_length_endings.json.gz");
    for ends_by in ["length", "stop"] {
        let is_such = |result: &RecordedResult| result.finish.as_deref() == Some(ends_by);
        let at = whole
            .results
            .iter()
            .position(is_such)
            .expect("both kinds of ends");
        for (change, what) in changes {
            let mut changed = whole.clone();
            change(&mut changed.results[at]);
            let id = changed.results[at].id;
            let difference = replay_sglang(changed).expect_err(what).to_string();
            assert!(
                difference.starts_with(&format!("request {id}: {what}")),
                "{difference}"
            );
        }
    }
}

#[test]
fn a_finish_that_a_recording_of_vllm_tells_of_is_demanded() {
    let mut changed = recording("sync/poisson_ample.json.gz");
    changed.results[5].finish = Some("length".into());
    replay_vllm(changed.clone()).expect("every answer ends by its length");
    changed.results[5].finish = Some("stop".into());
    let difference = replay_vllm(changed).expect_err("it was changed").to_string();
    assert!(
        difference.ends_with("finish reason: the engine has stop, the simulator length"),
        "{difference}"
    );
}

#[test]
fn the_first_differing_step_is_named_in_words() {
    let mut changed = recording("sync/poisson_ample.json.gz");
    changed.steps[3].free_blocks -= 1;
    let (expected, got) = (changed.steps[3].free_blocks, changed.steps[3].free_blocks + 1);
    let difference = replay_vllm(changed.clone())
        .expect_err("it was changed")
        .to_string();
    assert!(difference.starts_with("step 3 (t = "), "{difference}");
    let end = format!("free blocks: the engine has {expected}, the simulator {got}");
    assert!(difference.ends_with(&end), "{difference}");

    let mut changed = recording("async/tight_memory_preempts.json.gz");
    let (id, computed, tokens) = changed.steps[10].scheduled[0];
    changed.steps[10].scheduled[0] = (id, computed, tokens + 1);
    let difference = replay_vllm(changed.clone())
        .expect_err("it was changed")
        .to_string();
    let named = format!("request {id}: share");
    assert!(
        difference.starts_with("step 10") && difference.contains(&named),
        "{difference}"
    );
}

#[test]
fn a_recording_that_ends_too_soon_says_when() {
    let mut changed = recording("sync/poisson_ample.json.gz");
    let at = changed.steps[3].t;
    changed.steps.truncate(3);
    let difference = replay_vllm(changed).expect_err("it was changed").to_string();
    let begin = format!("step 3 (t = {at:.6} s): number of steps: the engine has 3, ");
    assert!(difference.starts_with(&begin), "{difference}");
}

#[test]
fn what_is_no_recording_is_told_where_it_departs() {
    let check = |text: &str, expected: &str| {
        let error = AnyRecording::read(text.as_bytes())
            .expect_err("no recording")
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("", "EOF");
    check("{\"engine\": \"vllm\", \"case\": 1}", "case: invalid type");
    check("{\"engine\": \"sglang\", \"case\": 1}", "case: invalid type");
    let known = gunzipped(&files_in(&["sglang-0.5.4"])[0]);
    check(
        &known.replacen("sglang@0.5.4", "sglang@0.4.6", 1),
        "known are sglang@0.5.23 and sglang@0.5.4",
    );
    let sound = gunzipped(&files_in(&["sync"])[0]);
    let changed = |pointer: &str, value: serde_json::Value| {
        let mut file: serde_json::Value = serde_json::from_str(&sound).expect("JSON");
        *file.pointer_mut(pointer).expect("it is there") = value;
        file.to_string()
    };
    let second = changed("/requests/1/id", 0.into());
    check(&second, "request 0 is in `requests` twice");
    check(
        &changed("/results", serde_json::json!([])),
        "what became of request 0",
    );
    check(
        &changed("/results/0/id", 1.into()),
        "request 1 twice, or nobody sent it",
    );
    let mut params: serde_json::Value = serde_json::from_str(&sound).expect("JSON");
    params["params"]["watermark"] = (-0.5).into();
    check(&params.to_string(), "watermark lies between 0 and 1");
    check(
        &changed("/params/max_num_batched_tokens", u32::MAX.into()),
        "are at most 268435456",
    );
    let mut broken = std::fs::read(&files()[0]).expect("readable");
    broken.truncate(100);
    assert!(AnyRecording::read(&broken).is_err());
}
