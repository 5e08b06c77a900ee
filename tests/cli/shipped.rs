//! What ships to start from, what takes a part of it, and what a short run is drawn as.

use crate::{Desk, SMALL, text};

#[test]
fn what_ships_is_listed_and_printed() {
    let desk = Desk::new();
    let listed = desk.expect(0, "scenarios");
    for name in ["quickstart  ", "dp-router  ", "workloads/azure-conv-2023  "] {
        assert!(
            listed.lines().any(|line| line.starts_with(name)),
            "{name}: {listed}"
        );
    }
    let shipped =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/dp-router.toml")).unwrap();
    assert_eq!(desk.expect(0, "scenarios dp-router"), shipped);
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, "scenarios --format json")).unwrap();
    assert!(
        json.as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "quickstart")
    );
    let unknown = desk.run("scenarios dp-ruter");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean `dp-router`?"));
}

#[test]
fn an_axis_that_means_nothing_is_told_by_every_command_that_reads_the_file() {
    let desk = Desk::new();
    let scenario = desk.expect(0, "scenarios quickstart") + "\n[sweep]\nfoo = [1]\n";
    std::fs::write(desk.path().join("axis.toml"), scenario).unwrap();
    for command in ["run", "sweep"] {
        let output = desk.run(&format!("{command} axis.toml"));
        assert_eq!(output.status.code(), Some(2), "{command}");
        let told = text(&output.stderr);
        assert!(
            told.contains("unknown axis `foo` in [sweep]") && told.contains("axis.toml:"),
            "{told}"
        );
    }
}

#[test]
fn a_trace_alone_replaces_the_traffic_of_the_quickstart_and_says_so() {
    let desk = Desk::new();
    let rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,100,10\n2023-11-16 18:17:04.0,200,20\n";
    std::fs::write(desk.path().join("az.csv"), rows).unwrap();
    let output = desk.run("run --trace az.csv --format json --charts kc");
    let told = text(&output.stderr);
    assert!(
        output.status.code() == Some(0) || output.status.code() == Some(3),
        "{told}"
    );
    assert!(told.contains("the shipped scenario `quickstart`"), "{told}");
    assert!(
        told.contains("the trace takes the place of workloads/azure-conv-2023"),
        "{told}"
    );
    // Two requests have no 99th percentile.
    let picture = std::fs::read_to_string(desk.path().join("kc/latency.svg")).unwrap();
    assert!(picture.contains("Half of 2 requests"), "{picture}");
}

#[test]
fn a_run_that_is_too_short_is_drawn_as_one() {
    let desk = Desk::new();
    desk.run(&format!("{SMALL} --num-prompts 3 --replicas 2 --charts kc"));
    let picture = std::fs::read_to_string(desk.path().join("kc/latency.svg")).unwrap();
    assert!(
        picture.contains("TOO SHORT") && picture.contains("2 replicas of"),
        "{picture}"
    );
}
