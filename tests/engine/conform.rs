//! Every recorded schedule is repeated step by step, and a changed one is told from it in words.

use std::path::PathBuf;

use plimsoll::conform::{Recording, replay};

/// The recordings that stand in the repository; see `tests/data/recordings/README.md`.
pub(crate) fn files() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings");
    let mut files: Vec<PathBuf> = ["sync", "async"]
        .iter()
        .flat_map(|mode| std::fs::read_dir(root.join(mode)).expect("the recordings are there"))
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    files.sort();
    files
}

fn recording(name: &str) -> Recording {
    let file = files()
        .into_iter()
        .find(|file| file.ends_with(name))
        .expect("the recording exists");
    Recording::read(&std::fs::read(file).expect("readable")).expect("a recording")
}

#[test]
fn every_recording_is_repeated() {
    let files = files();
    assert_eq!(files.len(), 68);
    let differences: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let recording = Recording::read(&std::fs::read(file).expect("readable")).expect("a recording");
            let difference = replay(&recording).err()?;
            Some(format!("{}: {difference}", file.display()))
        })
        .collect();
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn the_first_differing_step_is_named_in_words() {
    let mut changed = recording("sync/poisson_ample.json.gz");
    changed.steps[3].free_blocks -= 1;
    let (expected, got) = (changed.steps[3].free_blocks, changed.steps[3].free_blocks + 1);
    let difference = replay(&changed).expect_err("it was changed").to_string();
    assert!(difference.starts_with("step 3 (t = "), "{difference}");
    let end = format!("free blocks: the engine has {expected}, the simulator {got}");
    assert!(difference.ends_with(&end), "{difference}");

    let mut changed = recording("async/tight_memory_preempts.json.gz");
    let (id, computed, tokens) = changed.steps[10].scheduled[0];
    changed.steps[10].scheduled[0] = (id, computed, tokens + 1);
    let difference = replay(&changed).expect_err("it was changed").to_string();
    let named = format!("request {id}: share");
    assert!(
        difference.starts_with("step 10") && difference.contains(&named),
        "{difference}"
    );
}

#[test]
fn what_is_no_recording_is_told_where_it_departs() {
    let check = |text: &str, expected: &str| {
        let error = Recording::read(text.as_bytes())
            .expect_err("no recording")
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("", "EOF");
    check("{\"case\": 1}", "case: invalid type");
    let mut broken = std::fs::read(&files()[0]).expect("readable");
    broken.truncate(100);
    assert!(Recording::read(&broken).is_err());
}
