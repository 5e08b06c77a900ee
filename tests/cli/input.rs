//! What is wrong with the input is told at once, with its place; nothing in it reaches the terminal as it is.

use crate::{Desk, SMALL, text};

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
        "fit run knee sweep compare working-set conform course trace hw models schema completions".split(' ')
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
