//! Ctrl-C and SIGTERM on the real binary: what was finished is printed and marked, the exit code is 130, and no half file stays.
//!
//! Nothing here waits for a clock. A command is interrupted once it has said or taken in something, which it does before
//! work that would last for minutes.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A command that runs in a folder of its own.
struct Running {
    folder: tempfile::TempDir,
    child: Child,
}

impl Running {
    fn start(words: &str) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let child = command(folder.path(), words).spawn().unwrap();
        Running { folder, child }
    }

    /// Waits for its first word on stderr: it has read its input then, and listens.
    fn has_spoken(mut self) -> Running {
        let mut stderr = BufReader::new(self.child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.starts_with("note: "), "{line}");
        // The rest is read, lest the pipe fill up, when the command has ended.
        self.child.stderr = Some(stderr.into_inner());
        self
    }

    fn interrupt(&self) {
        self.signal("-INT");
    }

    fn signal(&self, name: &str) {
        let killed = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
    }

    /// Demands that it ended as interrupted and left no half file; gives what it printed, and its folder.
    fn ended(self) -> (String, tempfile::TempDir) {
        let Running { folder, child } = self;
        let Output { status, stdout, .. } = child.wait_with_output().unwrap();
        let printed = String::from_utf8(stdout).unwrap();
        assert_eq!(status.code(), Some(130), "{printed}");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".partial"), "{name} was left");
        }
        (printed, folder)
    }
}

fn command(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(shlex::split(words).unwrap())
        .current_dir(folder)
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// "h100" fits several cards, which is said before anything is simulated.
const MACHINE: &str =
    "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --input-len 512 --output-len 64";

#[test]
fn a_timeline_of_an_interrupted_run_is_whole() {
    let long = format!(
        "run {MACHINE} --request-rate 10 --num-prompts 50000000 --timeline t.json --timeline-window 0s.."
    );
    let running = Running::start(&long).has_spoken();
    running.interrupt();
    let (_, folder) = running.ended();
    let text = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let last = file["traceEvents"].as_array().unwrap().last().unwrap();
    assert!(last["ph"].is_string(), "{last}");
}

#[test]
fn metrics_of_an_interrupted_run_are_those_of_that_instant() {
    let running = Running::start(&format!(
        "run {MACHINE} --request-rate 10 --num-prompts 50000000 --metrics m.txt"
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (_, folder) = running.ended();
    let page = std::fs::read_to_string(folder.path().join("m.txt")).unwrap();
    let last = page.lines().last().unwrap();
    assert!(last.starts_with("vllm:cache_config_info{"), "{last}");
}

#[test]
fn a_run_prints_what_was_simulated_and_says_so() {
    let long = format!("run {MACHINE} --request-rate 10 --num-prompts 50000000");
    let running = Running::start(&long).has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert!(printed.starts_with("INTERRUPTED"), "{printed}");

    let cluster = format!(
        "{long} --replicas 4 --router least_requests --mean-time-between-failures 100s --mean-time-to-recovery 1s"
    );
    let running = Running::start(&cluster).has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert!(printed.starts_with("INTERRUPTED"), "{printed}");

    // Records of so many fit the memory that they may take.
    let recorded = long.replace("50000000", "20000000");
    let running = Running::start(&format!(
        "{recorded} --format json -o out.json --save-result --charts kc"
    ))
    .has_spoken();
    running.interrupt();
    let (printed, folder) = running.ended();
    assert_eq!(printed, "");
    let text = std::fs::read_to_string(folder.path().join("out.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["plimsoll"]["interrupted"], true, "{text}");
    let picture = std::fs::read_to_string(folder.path().join("kc/latency.svg")).unwrap();
    assert!(picture.contains("INTERRUPTED"), "{picture}");
}

#[test]
fn a_service_manager_and_a_lost_terminal_are_listened_to_as_well() {
    for signal in ["-TERM", "-HUP"] {
        let running = Running::start(&format!(
            "knee {MACHINE} --goodput ttft:500 tpot:50 --precision 0.0005 --format json"
        ))
        .has_spoken();
        running.signal(signal);
        let (printed, _) = running.ended();
        let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(json["interrupted"], true, "{signal}");
    }
    // Under `nohup` hangups are ignored, and stay so.
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_plimsoll");
    let words = format!("run {MACHINE} --request-rate 10 --num-prompts 300000");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("trap '' HUP; exec {binary} {words}")])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = shell.spawn().unwrap();
    let running = Running { folder, child }.has_spoken();
    running.signal("-HUP");
    let Output { status, stdout, .. } = running.child.wait_with_output().unwrap();
    let printed = String::from_utf8(stdout).unwrap();
    assert!(status.success() && printed.starts_with("stable"), "{printed}");
}

#[test]
fn overload_in_which_nobody_ends_and_a_pass_over_prompts_stop_as_well() {
    // A hundred million simulated seconds of arrivals would come before anybody ended in numbers.
    let running =
        Running::start(&format!("run {MACHINE} --request-rate 1e5 --num-prompts 4900000")).has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert!(
        printed.starts_with("INTERRUPTED after 0 of ") || printed.starts_with("INTERRUPTED"),
        "{printed}"
    );

    let running = Running::start(&format!(
        "working-set {MACHINE} --request-rate 10 --num-prompts 50000000"
    ))
    .has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert!(printed.starts_with("INTERRUPTED after "), "{printed}");

    // With one thread, seed after seed: none is whole, or some are.
    let running = Running::start(&format!(
        "compare {MACHINE} --request-rate 10 --seeds 9000 \"a: --max-num-seqs 8\" \"b: --max-num-seqs 16\""
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert!(
        printed.starts_with("INTERRUPTED before ") || printed.starts_with("INTERRUPTED after "),
        "{printed}"
    );
}

#[test]
fn a_search_claims_no_more_than_it_tried() {
    let running = Running::start(&format!(
        "knee {MACHINE} --goodput ttft:500 tpot:50 --precision 0.0005 --for-rate 100 --format json --charts kc"
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (printed, folder) = running.ended();
    let picture = std::fs::read_to_string(folder.path().join("kc/knee.svg")).unwrap();
    assert!(picture.contains("INTERRUPTED"), "{picture}");
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["interrupted"], true);
    assert!(json["sizing"]["replicas"].is_null(), "{printed}");
}

#[test]
fn an_explanation_tells_what_was_found_or_nothing() {
    let words = format!(
        "explain {MACHINE} --request-rate 10 --num-prompts 3000 --goodput ttft:500 tpot:50 --precision 0.0005"
    );
    let running = Running::start(&words).has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    // Before its own run was over there is nothing to explain.
    let first = printed.lines().next().unwrap_or_default();
    assert!(first.is_empty() || first.contains("; INTERRUPTED, "), "{printed}");
}

#[test]
fn a_sweep_keeps_the_runs_that_were_finished_and_goes_on_from_them() {
    const RUNS: usize = 24;
    let words = format!(
        "sweep {MACHINE} --request-rate 10 --num-prompts 30000 -S seed 1..{RUNS} step 1 --format jsonl -o kept.jsonl"
    );
    let running = Running::start(&words).has_spoken();
    let kept = running.folder.path().join("kept.jsonl");
    let finished = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    while finished(&kept) == 0 {
        std::thread::yield_now();
    }
    running.interrupt();
    let (_, folder) = running.ended();
    let text = std::fs::read_to_string(&kept).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!((1..RUNS).contains(&lines.len()), "{} lines", lines.len());
    for line in &lines {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let again = command(folder.path(), &words).output().unwrap();
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(
        told.contains(&format!("already holds {} run", lines.len())),
        "{told}"
    );
    assert_eq!(finished(&kept), RUNS);
}

#[test]
fn a_search_of_settings_keeps_those_that_were_finished_and_goes_on_from_them() {
    // A setting that does not fit is finished at once, and the others take longer than it takes to interrupt.
    let words = format!(
        "knee {} --goodput ttft:500 tpot:50 --precision 0.0005 -L gpu t4,h100,l40s -o kept.jsonl",
        MACHINE.replace(" --gpu h100", "")
    );
    let running = Running::start(&words).has_spoken();
    let kept = running.folder.path().join("kept.jsonl");
    while std::fs::read_to_string(&kept).unwrap_or_default().lines().count() == 0 {
        std::thread::yield_now();
    }
    running.interrupt();
    let (printed, folder) = running.ended();
    assert_eq!(printed, "");
    let first = std::fs::read_to_string(&kept).unwrap();
    assert!(
        first.contains("does_not_fit") && first.lines().count() < 3,
        "{first}"
    );
    let mut again = Running {
        child: command(folder.path(), &words).spawn().unwrap(),
        folder,
    };
    let mut stderr = BufReader::new(again.child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("already holds 1 setting, not searched again") {
        assert!(stderr.read_line(&mut told).unwrap() > 0, "{told}");
    }
    again.child.stderr = Some(stderr.into_inner());
    again.interrupt();
    let (_, _folder) = again.ended();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), first);
}

#[test]
fn a_sweep_without_a_file_prints_a_row_for_every_cell_finished_or_not() {
    let running = Running::start(&format!(
        "sweep {MACHINE} --num-prompts 50000000 -L request-rate 5,10,15 --format csv"
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    let rows: Vec<&str> = printed.lines().skip(1).collect();
    assert!(
        rows.len() == 3 && rows.iter().all(|row| row.ends_with("not_run")),
        "{printed}"
    );
}

#[test]
fn a_dry_run_of_many_cells_prints_nothing_half() {
    let running = Running::start(&format!(
        "sweep {MACHINE} --request-rate 10 -S seed 1..1500 step 1 --dry-run"
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (printed, _) = running.ended();
    assert_eq!(printed, "");
}

#[test]
fn a_validation_scores_the_rows_that_it_came_to() {
    let mut running = Running::start("validate /dev/stdin --no-interval");
    let table = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/results/table.csv"
    ))
    .unwrap();
    let (head, rows) = table.split_once('\n').unwrap();
    // More than a pipe holds: when it is written, the command is reading, and listens.
    let mut long = format!("{head}\n");
    while long.len() < 1 << 18 {
        long += rows;
    }
    let mut stdin = running.child.stdin.take().unwrap();
    stdin.write_all(long.as_bytes()).unwrap();
    running.interrupt();
    drop(stdin);
    let (printed, _) = running.ended();
    assert!(printed.starts_with("INTERRUPTED after 0 of "), "{printed}");
}

#[test]
fn a_fit_has_nothing_to_show_and_ends_at_once() {
    let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels");
    let mut files: Vec<String> = std::fs::read_dir(tables)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".csv"))
        .collect();
    files.sort();
    let running = Running::start(&format!(
        "calibrate {} --gpu h100 --draws 200 -o fitted.toml",
        files.join(" ")
    ));
    let running = running.has_spoken();
    running.interrupt();
    let (printed, folder) = running.ended();
    assert_eq!(printed, "");
    assert!(!folder.path().join("fitted.toml").exists());
}

#[test]
fn a_second_ctrl_c_ends_what_does_not_stop() {
    // Nobody reads the rows, so the command hangs in writing them and never comes to its next safe point.
    let mut running = Running::start(&format!(
        "run {MACHINE} --request-rate 10 --num-prompts 20000 --format csv"
    ));
    let mut stdout = running.child.stdout.take().unwrap();
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    // Two that come at once are one to the kernel, so more are sent until the first and another were taken.
    let status = loop {
        running.interrupt();
        if let Some(status) = running.child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(130));
}

/// What is told whole or not at all has no point to stop at, be it in the middle of a file.
#[test]
fn a_command_that_reads_and_then_answers_ends_while_it_reads() {
    let result = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/results/table.csv");
    for words in [
        "audit -".to_owned(),
        format!("diff {result} -"),
        "calibrate /dev/stdin --gpu h100 -o fitted.toml".to_owned(),
        "conform /dev/stdin".to_owned(),
    ] {
        let mut running = Running::start(&words);
        let mut stdin = running.child.stdin.take().unwrap();
        // More than a pipe holds, and no end: it goes on reading unless it is ended.
        stdin.write_all(&vec![b' '; 1 << 18]).unwrap();
        running.interrupt();
        let (printed, folder) = running.ended();
        assert_eq!(printed, "", "{words}");
        assert!(!folder.path().join("fitted.toml").exists());
        drop(stdin);
    }
}

/// A terminal and a wrapper may both send the signal of one key press.
#[test]
fn two_signals_of_one_press_are_one() {
    let running =
        Running::start(&format!("run {MACHINE} --request-rate 10 --num-prompts 50000000")).has_spoken();
    let id = running.child.id();
    let both = Command::new("sh")
        .args(["-c", &format!("kill -INT {id}; kill -INT {id}")])
        .status();
    assert!(both.unwrap().success());
    let (printed, _) = running.ended();
    assert!(printed.starts_with("INTERRUPTED"), "{printed}");
}
