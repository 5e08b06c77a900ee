use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A lab of two experiments and three questions.
const SOUND: &str = r#"
number = 7
name = "queues-of-one"
title = "Queues"
question = "How long is the wait?"
reflect = "Why is {wait} more than {alone}?"
about = """
Requests come {rate} a second to a {gpu}. Alone one takes {alone} s.
"""

[vary]
rate = [2, 4, 8192]
gpu = ["H100", "A100"]

[[experiments]]
name = "quiet"
what = "one at a time"
before = true
command = "run quickstart --gpu {gpu} --seed {seed}"

[[experiments]]
name = "loaded"
what = "{rate} a second"
command = "run quickstart --gpu {gpu} --request-rate {rate}"

[values]
alone = "{quiet:/mean_e2el_ms} / 1000"
wait = "{loaded:/plimsoll/steady/queue} / 1000"

[[questions]]
name = "inside"
ask = "How many are inside, if one takes {alone} s?"
unit = "requests"
truth = "{loaded:/inside}"
within = 0.25
rule = "Little's law, L = λ·W"
by_hand = "{rate} * {loaded:/mean_e2el_ms} / 1000"
because = "Each stays {loaded:/mean_e2el_ms} ms."

[[questions]]
name = "share"
ask = "Which share waits?"
unit = "%"
truth = "100 * {wait}"
within_points = 5
because = "It does."

[[questions]]
name = "slower"
ask = "Which is slower?"
choices = ["quiet", "loaded"]
best = "largest"
scores = { quiet = "{quiet:/mean_e2el_ms}", loaded = "{loaded:/mean_e2el_ms}" }
because = "It queues."
"#;

fn sound() -> Lab {
    read("sound.toml", SOUND).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is wrong with the lab when `from` is `to`.
fn problems(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    match read("mine.toml", &SOUND.replace(from, to)) {
        Ok(_) => panic!("{to} is taken"),
        Err(problems) => problems.render(false),
    }
}

fn filled(lab: &Lab) -> Sheet<'_> {
    let mut sheet = Sheet::new(lab, &Student::nobody());
    sheet.took("quiet", json!({"mean_e2el_ms": 1000.0}));
    let loaded = json!({"mean_e2el_ms": 1234.5, "inside": 2.6, "plimsoll": {"steady": {"queue": 400.0}}});
    sheet.took("loaded", loaded);
    sheet
}

#[test]
fn doubled_braces_are_braces() {
    let text = Text::parse(r#"--speculative-config '{{"n": {n}}}'"#).unwrap();
    let filled = text.filled(|reference| Ok::<_, ()>(format!("<{reference}>")));
    assert_eq!(filled.unwrap(), r#"--speculative-config '{"n": <n>}'"#);
}

#[test]
fn a_sound_lab_is_graded() {
    let lab = sound();
    let sheet = filled(&lab);
    let predictions = Predictions::from([
        ("inside".to_owned(), Answer::Number(2.0)),
        ("share".to_owned(), Answer::Number(44.9)),
        ("slower".to_owned(), Answer::Choice("quiet".to_owned())),
    ]);
    let outcomes = grade(&sheet, Some(&predictions), None).unwrap();
    let [inside, share, slower] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert_eq!(inside.ask, "How many are inside, if one takes 1 s?");
    assert_eq!(inside.right, Some(true));
    let by_hand = inside.by_hand().unwrap();
    assert_eq!(by_hand.on_paper, "2 × 1,234 / 1000");
    assert!((by_hand.value - 2.469).abs() < 1e-9 && by_hand.is_within);
    assert_eq!(
        (share.right, &share.simulated),
        (Some(true), &Answer::Number(40.0))
    );
    assert_eq!(slower.right, Some(false));
    assert_eq!(slower.simulated, Answer::Choice("loaded".to_owned()));
    assert!((slower.margin().unwrap() - 234.5 / 1234.5).abs() < 1e-9);
}

#[test]
fn a_tolerance_ends_where_it_says() {
    assert!(Tolerance::Relative(0.25).holds(125.0, 100.0));
    assert!(!Tolerance::Relative(0.25).holds(125.1, 100.0));
    assert!(Tolerance::Relative(0.25).holds(-75.0, -100.0));
    assert!(Tolerance::Points(5.0).holds(-2.0, 3.0));
    assert!(!Tolerance::Points(5.0).holds(-2.1, 3.0));
}

#[test]
fn what_was_measured_stands_beside_what_hangs_on_it() {
    let lab = sound();
    let sheet = filled(&lab);
    let measured = sheet.with_measured("loaded", json!({"mean_e2el_ms": 900.0, "queue": 350.0}));
    let outcomes = grade(&sheet, None, Some(&measured)).unwrap();
    // `inside` is no key of the measured result, the queue is, of the whole run, and of both that are slower one was measured.
    let told: Vec<_> = outcomes.iter().map(|one| one.measured.clone()).collect();
    assert_eq!(told, [None, Some(Answer::Number(35.0)), None]);
    let both = measured.with_measured("quiet", json!({"mean_e2el_ms": 950.0}));
    let outcomes = grade(&sheet, None, Some(&both)).unwrap();
    assert_eq!(outcomes[2].measured, Some(Answer::Choice("quiet".to_owned())));
}

#[test]
fn a_figure_that_was_not_printed_is_told_with_what_is_there() {
    let lab = sound();
    let mut sheet = filled(&lab);
    sheet.took(
        "loaded",
        json!({"mean_e2el_ms": 1.0, "inside": 1.0, "plimsoll": {"verdict": "unstable", "steady": {"wait": 1.0}}}),
    );
    let missing = grade(&sheet, None, None).unwrap_err().to_string();
    assert!(
        missing.contains("/plimsoll/steady/queue")
            && missing.contains("there is wait; its verdict is unstable"),
        "{missing}"
    );
    sheet.took("loaded", json!({"mean_e2el_ms": "long"}));
    let missing = sheet
        .value(&Arithmetic::parse("2 * {loaded:/mean_e2el_ms}").unwrap())
        .unwrap_err();
    assert!(missing.to_string().contains("is not a number: long"), "{missing}");
    let infinite = sheet
        .value(&Arithmetic::parse("1 / (1 - {rate} / 2)").unwrap())
        .unwrap_err();
    assert!(
        infinite
            .to_string()
            .contains("`1 / (1 − 2 / 2)` has no finite value"),
        "{infinite}"
    );
}

#[test]
fn commands_have_numbers_as_they_are_typed_and_texts_as_they_are_read() {
    let lab = sound();
    let student = (0..).map(|n: u32| Student::named(&n.to_string()).unwrap());
    let of_8192 = student
        .map(|student| Sheet::new(&lab, &student))
        .find(|sheet| sheet.variant.get("rate") == Some(&Varied::Number(8192.0)))
        .unwrap();
    assert!(
        of_8192
            .command(&lab.experiments[1])
            .unwrap()
            .ends_with("--request-rate 8192")
    );
    assert_eq!(of_8192.text(&lab.experiments[1].what).unwrap(), "8,192 a second");
}

#[test]
fn everything_that_is_wrong_with_a_lab_is_told_where_it_stands() {
    let of = |from: &str, to: &str, words: &[&str]| {
        let told = problems(from, to);
        for word in words {
            assert!(told.contains(word), "{to}: {word} is not in\n{told}");
        }
    };
    of("number = 7", "number = 0", &["numbered from 1", "mine.toml:2"]);
    of("queues-of-one", "Queues of one", &["small letters"]);
    of("title = \"Queues\"", "title = \" \"", &["nothing is said here"]);
    of("rate = [2, 4, 8192]", "rate = []", &["no value to draw"]);
    of(
        "rate = [2, 4, 8192]",
        "rate = [true]",
        &["something else than numbers and names"],
    );
    of(
        "rate = [2, 4, 8192]",
        "seed = [1]\nrate = [2]",
        &["every student's own"],
    );
    of(
        "alone = \"",
        "rate = \"1\"\nalone = \"",
        &["varied value already"],
    );
    of("[values]", "[valeus]", &["mine.toml is no lab", "valeus"]);
    of(
        "run quickstart --gpu {gpu} --seed",
        "serve --gpu {gpu} --seed",
        &["no command that a lab may run", "working-set"],
    );
    of(
        "name = \"loaded\"",
        "name = \"quiet\"",
        &["another one of the experiments"],
    );
    of(
        "name = \"share\"",
        "name = \"inside\"",
        &["another one of the questions"],
    );
    of(
        "Alone one takes {alone} s",
        "Loaded {wait} s",
        &["before the prediction", "before = true"],
    );
    of(
        "what = \"{rate} a second\"",
        "what = \"{alone} s\"",
        &["before all runs"],
    );
    of(
        "{rate} * {loaded",
        "{rte} * {loaded",
        &["nothing is called `rte`", "did you mean `rate`?"],
    );
    of(
        "{loaded:/inside}",
        "{laden:/inside}",
        &["no experiment is called `laden`"],
    );
    of(
        "alone = \"{quiet:/mean_e2el_ms} / 1000\"",
        "alone = \"{wait}\"\nw2 = \"{w2}\"",
        &["`w2` is said by itself"],
    );
    of("within = 0.25", "within = 1.5", &["a tolerance is above 0"]);
    of("within = 0.25\n", "", &["does not say how near is right"]);
    of(
        "within = 0.25",
        "within = 0.25\nwithin_points = 2",
        &["either `within` or `within_points`"],
    );
    of("rule = \"Little's law, L = λ·W\"\n", "", &["stand together"]);
    of("best = \"largest\"\n", "", &["`choices` need `scores`"]);
    of(
        "best = \"largest\"",
        "best = \"greatest\"",
        &["mine.toml is no lab"],
    );
    of(
        "choices = [\"quiet\", \"loaded\"]",
        "choices = [\"quiet\", \"busy\"]",
        &["one expression for each"],
    );
    of(
        "choices = [\"quiet\", \"loaded\"]",
        "choices = [\"quiet\"]",
        &["at least two choices"],
    );
    of(
        "truth = \"100 * {wait}\"",
        "truth = \"100 * \"",
        &["cannot be read", "arithmetic holds"],
    );
    of(
        "because = \"It does.\"",
        "because = \"It {does.\"",
        &["without its other one"],
    );
}

#[test]
fn values_that_belong_together_are_drawn_together() {
    let text = SOUND.replace(
        "gpu = [\"H100\", \"A100\"]",
        "card = [{ gpu = \"H100\", tb_s = 3.35 }, { gpu = \"A100\", tb_s = 2.039 }]",
    );
    let lab = read("mine.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let drawn = (0..40).map(|id| {
        let variant = Variant::of(&lab, &Student::named(&id.to_string()).unwrap());
        assert!(variant.get("card").is_none());
        format!("{:?} {:?}", variant.get("gpu"), variant.get("tb_s"))
    });
    let drawn: std::collections::BTreeSet<String> = drawn.collect();
    assert_eq!(drawn.len(), 2, "{drawn:?}");
    let of = |rows: &str| {
        read("mine.toml", &SOUND.replace("gpu = [\"H100\", \"A100\"]", rows))
            .unwrap_err()
            .to_string()
    };
    assert!(of("card = [{ gpu = \"H100\" }, { tb_s = 3.35 }]").contains("have unlike names"));
    assert!(of("gpu = [\"H100\"]\ncard = [{ gpu = \"H100\" }]").contains("`gpu` is drawn twice"));
    assert!(of("gpu = [[1, 2]]").contains("something else than numbers and names"));
}

#[test]
fn figures_that_hang_on_each_other_twofold_are_computed_once() {
    let chain: String = (1..60)
        .map(|n| format!("v{n} = \"{{v{}}} + {{v{}}}\"\n", n - 1, n - 1))
        .collect();
    let text = SOUND.replace("[values]\n", &format!("[values]\nv0 = \"1\"\n{chain}"));
    let lab = read("mine.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let sheet = filled(&lab);
    let last = sheet.value(&Arithmetic::parse("{v59}").unwrap());
    assert_eq!(last.unwrap(), 2f64.powi(59));
    let many: String = (0..300).map(|n| format!("w{n} = \"1\"\n")).collect();
    let refused = read(
        "mine.toml",
        &SOUND.replace("[values]\n", &format!("[values]\n{many}")),
    )
    .unwrap_err();
    assert!(refused.to_string().contains("and 200 are the most"), "{refused}");
}

#[test]
fn a_prediction_is_of_what_decides_it_and_not_of_the_words_around_it() {
    let digest = |text: &str| read("mine.toml", text).map(|lab| lab.digest).ok();
    let sound = digest(SOUND);
    assert!(sound.is_some());
    for (from, to) in [
        ("It queues.", "It waits in a queue."),
        ("Alone one takes", "By itself one takes"),
        ("\n", "\r\n"),
    ] {
        assert_eq!(digest(&SOUND.replace(from, to)), sound, "{to}");
    }
    for (from, to) in [
        ("within = 0.25", "within = 0.2"),
        ("[2, 4, 8192]", "[2, 4]"),
        ("--seed {seed}", "--seed 1"),
        ("{wait}\"", "{wait} + 1\""),
        ("best = \"largest\"", "best = \"smallest\""),
    ] {
        assert!(SOUND.contains(from), "{from}");
        assert_ne!(digest(&SOUND.replace(from, to)), sound, "{to}");
    }
}

#[test]
fn a_question_that_its_own_text_answers_is_seen() {
    assert_eq!(sound().told_beforehand().count(), 0);
    let text = SOUND.replace("truth = \"100 * {wait}\"", "truth = \"100 * {alone}\"");
    let lab = read("mine.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(lab.told_beforehand().collect::<Vec<_>>(), ["share"]);
}

#[test]
fn all_problems_come_at_once() {
    let text = SOUND
        .replace("number = 7", "number = 0")
        .replace("within = 0.25", "within = 0");
    let told = read("mine.toml", &text).unwrap_err();
    assert_eq!(told.0.len(), 2, "{told}");
}

#[test]
fn a_receipt_is_of_everything_that_was_locked() {
    let lab = sound();
    let student = Student::named(" ada ").unwrap();
    assert_eq!(student.id(), "ada");
    let predictions = Predictions::from([
        ("inside".to_owned(), Answer::Number(0.1 + 0.2)),
        ("slower".to_owned(), Answer::Choice("loaded".to_owned())),
    ]);
    let locked = Notebook::lock(&lab, student, "2026-01-01 00:00:00 UTC".to_owned(), predictions);
    let again = Notebook::read(&locked.to_toml()).unwrap();
    assert_eq!(again, locked);
    assert!(again.is_intact());
    // `share` is asked for, too.
    assert!(!again.is_of(&lab));
    let mut whole = again.clone();
    whole.predictions.insert("share".to_owned(), Answer::Number(1.0));
    assert!(whole.is_of(&lab));
    let changes: [&dyn Fn(&mut Notebook); 6] = [
        &|one| one.program = "0.0.1".to_owned(),
        &|one| one.student = Student::named("eve").unwrap(),
        &|one| one.predicted_at = "2025-01-01 00:00:00 UTC".to_owned(),
        &|one| one.digest = "0".to_owned(),
        &|one| drop(one.predictions.insert("inside".to_owned(), Answer::Number(0.3))),
        &|one| drop(one.predictions.remove("slower")),
    ];
    for change in changes {
        let mut changed = again.clone();
        change(&mut changed);
        assert!(!changed.is_intact(), "{changed:?}");
    }
    // What comes later is none of it.
    let mut explained = again;
    explained.explanation = Some("It queues.".to_owned());
    assert!(Notebook::read(&explained.to_toml()).unwrap().is_intact());
}

#[test]
fn a_notebook_of_another_form_is_refused() {
    for (text, word) in [
        ("", "missing field"),
        ("version = 1\nlab = 3\n", "line 2"),
        ("not toml", "line 1"),
    ] {
        let problem = Notebook::read(text).unwrap_err();
        assert!(problem.contains(word), "{problem}");
    }
    let lab = sound();
    let locked = Notebook::lock(&lab, Student::nobody(), String::new(), Predictions::new());
    let later = locked.to_toml().replace("version = 1", "version = 2");
    assert!(Notebook::read(&later).unwrap_err().contains("its version is 2"));
}

#[test]
fn students_are_named_within_reason() {
    assert!(Student::named("Ada Lovelace 1815").is_ok());
    assert_eq!(Student::named("  ").unwrap(), Student::nobody());
    assert!(Student::named(&"x".repeat(65)).is_err());
    assert!(Student::named("a\u{7}b").is_err());
    assert!(Student::named("=SUM(A1)").is_err());
}

#[test]
fn students_differ_and_each_value_is_drawn() {
    let lab = sound();
    let mut rates = BTreeMap::<String, u32>::new();
    for index in 0..300 {
        let variant = Variant::of(&lab, &Student::named(&format!("s{index}")).unwrap());
        *rates.entry(format!("{:?}", variant.get("rate"))).or_default() += 1;
    }
    // 100 each on average: 60 lies five standard deviations below.
    assert!(
        rates.len() == 3 && rates.values().all(|count| *count > 60),
        "{rates:?}"
    );
    let nobody = Variant::of(&lab, &Student::nobody());
    assert_eq!(nobody.get("rate"), Some(&Varied::Number(2.0)));
    assert_eq!(nobody.get("seed"), Some(&Varied::Number(0.0)));
}

#[test]
fn every_shipped_lab_is_sound_and_numbered() {
    let all = shipped::all();
    for (index, (lab, (file, _))) in all.iter().zip(shipped::SHIPPED).enumerate() {
        assert_eq!(lab.number as usize, index + 1, "{file}");
        assert_eq!(*file, format!("{:02}-{}.toml", lab.number, lab.name));
        assert!(
            lab.title.chars().count() <= 40 && lab.question.chars().count() <= 70,
            "{file}"
        );
        assert!(lab.questions.len() >= 2 && lab.reflect.is_some(), "{file}");
        for name in [
            lab.number.to_string(),
            lab.name.clone(),
            format!("{:02}", lab.number),
            (*file).to_owned(),
        ] {
            assert_eq!(
                shipped::find(&name).map(|(found, _)| found.name),
                Some(lab.name.clone()),
                "{name}"
            );
        }
    }
    assert!(shipped::find("0").is_none() && shipped::find("99").is_none() && shipped::find("").is_none());
}

proptest! {
    /// Whatever a file holds, reading it ends in a lab or in what is wrong with it.
    #[test]
    fn no_text_breaks_the_reader(at in 0..SOUND.len(), with in "[{}\"=\\[\\]a-z0-9:/*^(). \n-]{0,8}", cut in 0..40usize) {
        let start = (0..=at).rev().find(|at| SOUND.is_char_boundary(*at)).unwrap_or(0);
        let end = (start + cut..).find(|at| *at >= SOUND.len() || SOUND.is_char_boundary(*at)).unwrap_or(start);
        let text = [&SOUND[..start], &with, &SOUND[end.min(SOUND.len())..]].concat();
        let _ = read("mine.toml", &text).map_err(|problems| problems.render(false));
        let _ = Notebook::read(&text);
        let _ = Arithmetic::parse(&with);
    }
}
