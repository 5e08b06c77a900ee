//! `plimsoll lab`: a student's way through a lab, what teachers grade, and that every shipped lab is true to its own formulas.

use serde_json::Value;

use crate::{Desk, text};

/// What is said of a command that is refused.
fn refused(desk: &Desk, words: &str) -> String {
    let output = desk.run(words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "plimsoll {words}\n{said}");
    said
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The predictions that a lab would count as right for its student, as they are typed.
fn right_answers(desk: &Desk, lab: &str, student: &str) -> String {
    let told = json(&desk.expect(
        0,
        &format!("lab run {lab} --without-prediction --student-id {student} --format json"),
    ));
    let questions = told["questions"].as_array().unwrap();
    let typed = questions.iter().map(|question| {
        let answer = match &question["simulated"] {
            Value::String(choice) => choice.clone(),
            number => number.to_string(),
        };
        format!("{}={answer}", question["name"].as_str().unwrap())
    });
    typed.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_shipped_lab_is_true_to_its_formulas_and_hangs_on_no_chance() {
    let desk = Desk::new();
    let output = desk.run("lab try --students 4");
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}\n{}", text(&output.stderr));
    let tried: Vec<u32> = told
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    for lab in 1..=16 {
        assert!(
            tried.iter().filter(|one| **one == lab).count() >= 3,
            "lab {lab}\n{told}"
        );
    }
}

#[test]
fn a_student_predicts_sees_and_explains_and_a_teacher_grades() {
    let desk = Desk::new();
    let listed = desk.expect(0, "lab");
    assert_eq!(
        listed
            .lines()
            .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
            .count(),
        16
    );
    let read = desk.expect(0, "lab serving-basics --student-id ada");
    assert!(read.starts_with("Lab 1: "), "{read}");
    let right = right_answers(&desk, "1", "ada");
    let locked = desk.expect(0, &format!("lab predict 1 --student-id ada {right}"));
    assert!(
        locked.starts_with("locked in lab-01-serving-basics.toml   receipt "),
        "{locked}"
    );
    // The folder knows the student from here on.
    let again = desk.expect(0, "lab 1");
    let exercise = |page: &str| page.split_once("\nplimsoll lab").unwrap().0.to_owned();
    assert_eq!(exercise(&again), exercise(&read));
    assert!(
        read.contains("\nplimsoll lab predict") && !again.contains("\nplimsoll lab predict"),
        "{again}"
    );
    let told = desk.expect(0, "lab run 1");
    assert!(told.starts_with("4 of 4 predictions right   Lab 1: "), "{told}");
    assert!(told.contains("plimsoll lab explain 1"), "{told}");
    desk.expect(0, "lab explain 1 'Whoever stays longer is met more often.'");
    let told = json(&desk.expect(0, "lab run 1 --format json"));
    assert_eq!(told["explanation"], "Whoever stays longer is met more often.");
    assert_eq!((&told["right"], &told["of"]), (&Value::from(4), &Value::from(4)));
    assert!(desk.expect(0, "lab").contains("[explained]"));

    let graded = json(&desk.expect(0, "lab check lab-01-serving-basics.toml --format json"));
    assert_eq!(graded[0]["student"], "ada");
    assert_eq!(graded[0]["is_intact"], true);
    assert_eq!(graded[0]["receipt"], told["receipt"]);
    assert_eq!(graded[0]["questions"], told["questions"]);
}

#[test]
fn what_was_changed_after_it_was_locked_is_seen() {
    let desk = Desk::new();
    let right = right_answers(&desk, "7", "eve");
    desk.expect(0, &format!("lab predict 7 --student-id eve {right}"));
    let file = desk.path().join("lab-07-continuous-batching.toml");
    let honest = std::fs::read_to_string(&file).unwrap();
    std::fs::write(desk.path().join("good.toml"), &honest).unwrap();
    std::fs::write(desk.path().join("other.toml"), honest.replace("eve", "bob")).unwrap();
    std::fs::write(desk.path().join("no.toml"), "lab = 1").unwrap();
    let graded = desk.expect(1, "lab check good.toml other.toml no.toml gone.toml --format csv");
    let mut rows = csv::Reader::from_reader(graded.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    let column = |row: usize, at: usize| rows[row].get(at).unwrap().to_owned();
    let intact: Vec<String> = (0..4).map(|row| column(row, 8)).collect();
    assert_eq!(intact, ["true", "false", "", ""], "{graded}");
    assert!(
        column(2, 11).contains("no file of `plimsoll lab predict`"),
        "{graded}"
    );
    assert!(column(3, 11).contains("cannot be read"), "{graded}");
    // Of another student the same words are another lab.
    assert_eq!(column(0, 3), "4");
    std::fs::write(&file, honest.replace("eve", "bob")).unwrap();
    let output = desk.run("lab run 7");
    assert!(
        text(&output.stderr).contains("was changed after it was locked"),
        "{}",
        text(&output.stderr)
    );
    // And of another text of the lab they are nothing.
    std::fs::write(&file, honest.replace("digest = \"", "digest = \"0")).unwrap();
    let said = refused(&desk, "lab run 7");
    assert!(said.contains("asks for other figures"), "{said}");
}

#[test]
fn predictions_are_asked_for_whole_and_once() {
    let desk = Desk::new();
    let said = refused(&desk, "lab run 3");
    assert!(
        said.contains("nothing is predicted of lab 3") && said.contains("--without-prediction"),
        "{said}"
    );
    let said = refused(
        &desk,
        "lab predict 3 ridge=about decode_gian=2 batch_step batch_step=2 batch_step=3",
    );
    for word in [
        "ridge: `about` is no number of tokens",
        "did you mean `decode_gain`?",
        "write NAME=VALUE",
        "`batch_step` is predicted twice",
    ] {
        assert!(said.contains(word), "{word}\n{said}");
    }
    let said = refused(&desk, "lab predict 3 ridge=300");
    assert!(
        said.contains("not predicted: decode_gain=… prefill_gain=… batch_step=…"),
        "{said}"
    );
    assert!(!desk.path().join("lab-03-roofline.toml").exists());
    desk.expect(
        0,
        "lab predict 3 ridge='300 tokens' decode_gain=2 prefill_gain=2e0 batch_step=1.5",
    );
    let said = refused(
        &desk,
        "lab predict 3 ridge=295 decode_gain=2 prefill_gain=2 batch_step=1.5",
    );
    assert!(said.contains("predicted already"), "{said}");
    let said = refused(&desk, "lab roofing");
    assert!(said.contains("did you mean `roofline`?"), "{said}");
    assert!(refused(&desk, "lab explain 4 x").contains("nothing is predicted of lab 4"));
    let said = refused(&desk, "lab predict 8 gap=1 median=half p99=sideways ttft=equal");
    assert!(
        said.contains("p99: `sideways` is none of lower, same, higher"),
        "{said}"
    );
}

#[test]
fn receipts_that_were_handed_in_before_are_looked_for() {
    let desk = Desk::new();
    for id in ["ada", "bob"] {
        let right = right_answers(&desk, "7", id);
        let locked = desk.expect(0, &format!("lab predict 7 --student-id {id} {right}"));
        let receipt = locked.split_whitespace().last().unwrap().to_owned();
        assert_eq!(receipt.len(), 29, "{receipt}");
        if id == "ada" {
            std::fs::write(
                desk.path().join("receipts.txt"),
                format!("ada: {receipt}, on time"),
            )
            .unwrap();
        }
        let kept = desk.path().join(format!("{id}.toml"));
        std::fs::rename(desk.path().join("lab-07-continuous-batching.toml"), kept).unwrap();
    }
    desk.expect(0, "lab check ada.toml --receipts receipts.txt");
    let graded = desk.expect(
        1,
        "lab check ada.toml bob.toml --receipts receipts.txt --format json",
    );
    let graded = json(&graded);
    assert_eq!(graded[0]["was_handed_in"], true);
    assert_eq!(graded[1]["was_handed_in"], false);
    let output = desk.run("lab check ada.toml ada.toml");
    assert!(
        text(&output.stderr).contains("of student `ada` is there twice"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_file_in_place_of_what_ships_is_used_and_told() {
    let desk = Desk::new();
    let quickstart = desk.expect(0, "scenarios quickstart") + "# of one's own\n";
    std::fs::create_dir(desk.path().join("scenarios")).unwrap();
    std::fs::write(desk.path().join("scenarios/quickstart.toml"), quickstart).unwrap();
    let output = desk.run("lab run 1 --without-prediction");
    let said = text(&output.stderr);
    assert!(
        said.contains("scenarios/quickstart.toml on disk is used instead"),
        "{said}"
    );
    // A lab's file is meant where it is there, whatever ships under its name.
    std::fs::write(desk.path().join("roofline.toml"), OWN).unwrap();
    assert!(desk.expect(0, "lab roofline.toml").starts_with("Lab 1: Mine"));
    assert!(desk.expect(0, "lab roofline").starts_with("Lab 3: "));
}

/// A lab of one's own.
const OWN: &str = r#"
number = 1
name = "mine"
title = "Mine"
question = "How fast?"
about = "One request a {unit}."

[vary]
unit = ["second"]

[[experiments]]
name = "slow"
what = "one a second"
command = "run quickstart --request-rate 1 --num-prompts 60 --seed {seed}"

[[questions]]
name = "rate"
ask = "How many are answered a second?"
unit = "req/s"
truth = "{slow:/plimsoll/whole/request_throughput}"
within = 0.5
because = "All that come, {slow:/request_throughput}."
"#;

#[test]
fn a_lab_of_ones_own_runs_and_a_measurement_stands_beside_it() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("mine.toml"), OWN).unwrap();
    desk.expect(0, "lab predict mine.toml rate=1");
    desk.expect(
        0,
        "run quickstart --request-rate 1 --num-prompts 30 --save-result --result-filename measured.json",
    );
    let measured = json(&std::fs::read_to_string(desk.path().join("measured.json")).unwrap());
    let told = json(&desk.expect(0, "lab run mine.toml --measured slow=measured.json --format json"));
    assert_eq!(told["questions"][0]["measured"], measured["request_throughput"]);
    assert_eq!(told["questions"][0]["right"], true);
    let other =
        serde_json::json!({"request_throughput": 9.0, "request_rate": 9.0, "model_id": "gpt2"}).to_string();
    std::fs::write(desk.path().join("other.json"), other).unwrap();
    let output = desk.run("lab run mine.toml --measured slow=other.json");
    let said = text(&output.stderr);
    for word in [
        "slow was measured with request_rate 9.0",
        "slow was measured with model_id \"gpt2\"",
    ] {
        assert!(said.contains(word), "{word}\n{said}");
    }
    assert!(
        text(&output.stdout).contains("measured 9 req/s"),
        "{}",
        text(&output.stdout)
    );
    let said = refused(&desk, "lab run mine.toml --measured fast=measured.json");
    assert!(said.contains("has no experiment `fast`; it has slow"), "{said}");
    let graded = desk.expect(1, "lab check lab-01-mine.toml");
    assert!(graded.contains("there is no lab `mine`"), "{graded}");
    assert!(
        desk.expect(0, "lab check lab-01-mine.toml --lab mine.toml")
            .contains("1/1")
    );
}

#[test]
fn what_a_lab_may_not_do_is_refused_with_its_command() {
    let desk = Desk::new();
    for (command, word) in [
        (
            "run quickstart --num-prompts 60 --save-result",
            "--save-result writes a file",
        ),
        (
            "run quickstart --num-prompts 60 -o x.json",
            "--output writes a file",
        ),
        (
            "run quickstart --num-prompts 60 --timeline x.json",
            "--timeline writes a file",
        ),
        ("run quickstart --num-promts 60", "--num-promts"),
        ("run quickstart --num-prompts none", "--num-prompts"),
        ("run nowhere.toml", "nowhere.toml"),
        ("run 'quickstart", "a quote is open"),
        ("fit quickstart --format text", "it prints no JSON"),
    ] {
        let own = OWN.replace(
            "run quickstart --request-rate 1 --num-prompts 60 --seed {seed}",
            command,
        );
        std::fs::write(desk.path().join("mine.toml"), own).unwrap();
        let output = desk.run("lab run mine.toml --without-prediction");
        let told = text(&output.stderr);
        if command.starts_with("fit") {
            // The last word holds: what a lab says of the form is overruled.
            assert!(
                told.contains("has nothing at /request_throughput")
                    || told.contains("has nothing at /plimsoll"),
                "{told}"
            );
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{command}\n{told}");
        assert!(
            told.contains("experiment `slow` of lab mine cannot be run"),
            "{command}\n{told}"
        );
        assert!(told.contains(word), "{command}: {word}\n{told}");
    }
    assert!(
        std::fs::read_dir(desk.path()).unwrap().count() == 1,
        "nothing was written"
    );
}

#[test]
fn the_lab_of_the_guide_is_sound() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/labs.md")).unwrap();
    let (_, block) = page.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let desk = Desk::new();
    std::fs::write(desk.path().join("waiting.toml"), block).unwrap();
    let tried = desk.expect(0, "lab try waiting.toml --students 6");
    assert!(tried.contains("1 waiting  inside"), "{tried}");
}
