//! Recorded schedules are repeated step by step.
use plimsoll::conform::{Recording, replay};

#[test]
fn every_recording_is_repeated() {
    let Ok(root) = std::env::var("PLIMSOLL_DATA") else {
        eprintln!("skipped: PLIMSOLL_DATA is not set");
        return;
    };
    let (mut bad, mut good) = (0, 0);
    for mode in ["sync", "async"] {
        let mut files: Vec<_> = std::fs::read_dir(format!("{root}/oracle/vllm-0.33.0/{mode}"))
            .expect("the recordings are there")
            .map(|entry| entry.expect("readable").path())
            .collect();
        files.sort();
        for file in files {
            let recording = Recording::read(&std::fs::read(&file).expect("readable")).expect("a recording");
            match replay(&recording) {
                Ok(_) => good += 1,
                Err(difference) => {
                    bad += 1;
                    eprintln!("{mode} {}: {difference}", recording.case);
                }
            }
        }
    }
    assert_eq!((bad, good), (0, 68), "every recording agrees");
}
