use super::*;
use crate::lab::{Predictions, Student, read};

const LAB: &str = r#"
number = 1
name = "queues"
title = "Queues"
question = "How long is the wait?"
reflect = "Why?"
about = """
Requests come {rate} a second.

They wait.
"""

[vary]
rate = [8]

[[experiments]]
name = "loaded"
what = "{rate} a second"
command = "run quickstart --request-rate {rate}"

[[questions]]
name = "inside"
ask = "How many are inside?"
unit = "requests"
truth = "{loaded:/inside}"
within = 0.25
rule = "L = λ·W"
by_hand = "{rate} * {loaded:/w}"
because = "Each stays {loaded:/w} s."
"#;

/// The page of a lab whose figure is 100, with this prediction.
fn page(predicted: f64) -> String {
    let lab = read("lab.toml", LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let mut sheet = Sheet::new(&lab, &Student::nobody());
    sheet.took("loaded", json!({"inside": 100.0, "w": 12.0}));
    let predictions = Predictions::from([("inside".to_owned(), Answer::Number(predicted))]);
    let notebook = Notebook::lock(&lab, Student::nobody(), "today".to_owned(), predictions);
    let outcomes = crate::lab::grade(&sheet, Some(&notebook.predictions), None).unwrap();
    let told = Told {
        sheet: &sheet,
        student: "",
        notebook: Some(&notebook),
        outcomes: &outcomes,
        commands: &[(
            "loaded".to_owned(),
            "plimsoll run quickstart --request-rate 8".to_owned(),
        )],
        trust: &["prior: host".to_owned()],
    };
    result(&told, "1", Style::default()).unwrap()
}

#[test]
fn how_far_off_a_prediction_is_stands_in_words() {
    for (predicted, words) in [
        (
            100.0,
            "✓ predicted 100, simulated 100 requests: less than 1 % off, within 25 %",
        ),
        (
            124.0,
            "✓ predicted 124, simulated 100 requests: 24 % too much, within 25 %",
        ),
        (
            70.0,
            "✗ predicted 70, simulated 100 requests: 30 % too little, not within 25 %",
        ),
        (
            250.0,
            "✗ predicted 250, simulated 100 requests: 2.50 times too much, not within 25 %",
        ),
        (
            20.0,
            "✗ predicted 20, simulated 100 requests: 5 times too little, not within 25 %",
        ),
        (
            -20.0,
            "✗ predicted -20, simulated 100 requests: 120 requests off, not within 25 %",
        ),
    ] {
        let page = page(predicted);
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[test]
fn the_first_line_counts_and_the_formula_has_its_figures() {
    let page = page(110.0);
    assert!(
        page.starts_with("1 of 1 predictions right   Lab 1: Queues\n"),
        "{page}"
    );
    assert!(page.contains("L = λ·W: 8 × 12 = 96 requests"), "{page}");
    assert!(page.contains("Each stays 12 s."), "{page}");
    assert!(page.contains("nothing here was measured"), "{page}");
}

#[test]
fn an_exercise_has_its_paragraphs_and_what_to_type() {
    let lab = read("lab.toml", LAB).unwrap_or_else(|problems| panic!("{problems}"));
    let sheet = Sheet::new(&lab, &Student::nobody());
    let ada = Student::named("ada l").unwrap();
    let text = exercise(&sheet, "mine.toml", Some(&ada), Style::default()).unwrap();
    assert!(
        text.contains("Requests come 8 a second.\n\nThey wait.\n"),
        "{text}"
    );
    assert!(text.contains("How many are inside? [requests]"), "{text}");
    assert!(
        text.ends_with(
            "plimsoll lab predict mine.toml --student-id 'ada l' inside=…\nplimsoll lab run mine.toml\n"
        ),
        "{text}"
    );
}
