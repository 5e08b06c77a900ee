//! What has a rank among the settings, in a picture and beside others, and what has none.

use super::*;

/// A setting that was kept in a file stands in the picture as one that was just searched.
#[test]
fn a_picture_ranks_settings_by_their_objects_as_the_answer_does() {
    let ranking = |rows: &[KneeRow]| {
        let objects: Vec<serde_json::Value> = rows
            .iter()
            .map(|row| serde_json::from_str(&crate::report::json::knee_setting(row)).unwrap())
            .collect();
        for (row, object) in rows.iter().zip(&objects) {
            let cost = row.priced().and_then(Priced::cost);
            assert_eq!(crate::report::json::cost_of(object), cost);
        }
        let labels: Vec<&[(String, String)]> = rows.iter().map(|row| row.labels.as_slice()).collect();
        Ranking::of(&objects, &labels, Vec::new())
    };
    let misfit = KneeRow {
        found: Found::Refused {
            in_short: "larger than a node".to_owned(),
            why: "16 GPUs".to_owned(),
        },
        ..row("d", 1.0, 1.0, None)
    };
    let all = [
        row("c", 5.0, 1.7, Some(7.2)),
        row("a", 10.0, 1.7, Some(3.6)),
        row("b", 40.0, 1.7, Some(7.2)),
        row("e", 40.0, 1.7, None),
        misfit,
    ];
    let found = ranking(&all);
    assert_eq!(
        found.title,
        "gpu = b is cheapest within the SLO: 0.50 $/M output tokens; a cannot be told from it"
    );
    let order: Vec<(&str, bool)> = found
        .ranked
        .iter()
        .map(|one| (one.name.as_str(), one.is_alike))
        .collect();
    assert_eq!(order, [("b", true), ("a", true), ("c", false)]);
    assert_eq!(
        found.ranked[0].figures,
        "0.50 $/M [0.29, 0.86] · 40.0 req/s on 2 GPUs"
    );
    let others = [
        ("e", "its price is not known"),
        ("d", "refused: larger than a node"),
    ];
    assert_eq!(
        found.others,
        others.map(|(name, why)| (name.to_owned(), why.to_owned()))
    );

    let unpriced = ranking(&[
        row("a", 10.0, 1.0, None),
        row("b", 40.0, 1.0, None),
        row("c", 38.0, 1.0, None),
    ]);
    assert_eq!(
        unpriced.title,
        "gpu = b serves the most within the SLO: 40.0 req/s; c cannot be told from it"
    );
    assert_eq!(
        (unpriced.measure, unpriced.ranked[2].is_alike),
        (Measure::Served(Sought::Rate), false)
    );
    let none = ranking(&all[4..]);
    assert_eq!(
        (none.title.as_str(), none.ranked.len()),
        ("no setting has a rank", 0)
    );
}

/// Half of the work is no cheaper.
#[test]
fn a_setting_whose_answers_are_cut_has_no_rank() {
    let cut = |gpu: &str, knee: f64| {
        let mut row = row(gpu, knee, 1.0, Some(3.6));
        if let Found::Knee(priced) = &mut row.found {
            priced.view.answers_cut = 0.5;
        }
        row
    };
    let rows = [cut("a", 40.0), row("b", 10.0, 1.0, Some(3.6))];
    let told = text(&knees(rows.to_vec()), None);
    assert!(
        told.starts_with("cheapest within the SLO: gpu = b, 1.00 $/M output tokens"),
        "{told}"
    );
    assert!(!told.contains("most req/s: gpu = a"), "{told}");
    assert!(
        told.contains("gpu = a: answers are cut") && told.contains("answers cut by 50.0 %"),
        "{told}"
    );
    assert_eq!(knees(rows.to_vec()).standing_words(), [None, Some("best")]);
    let objects = rows
        .iter()
        .map(|row| serde_json::from_str(&crate::report::json::knee_setting(row)).unwrap());
    let objects: Vec<serde_json::Value> = objects.collect();
    let labels: Vec<&[(String, String)]> = rows.iter().map(|row| row.labels.as_slice()).collect();
    let ranking = Ranking::of(&objects, &labels, Vec::new());
    assert_eq!(
        ranking.others,
        [(
            "a".to_owned(),
            "answers are cut at the engine's context".to_owned()
        )]
    );
    let alone = text(&knees(vec![cut("a", 40.0)]), None);
    assert!(
        alone.starts_with("NO SETTING does what is asked for: answers are cut"),
        "{alone}"
    );
}

/// Whoever turns more requests away is no cheaper; where all turn away alike they are ranked.
#[test]
fn a_setting_that_refuses_what_others_serve_has_no_rank() {
    let refusing = |gpu: &str, knee: f64, too_long: f64| {
        let mut row = row(gpu, knee, 1.0, Some(3.6));
        if let Found::Knee(priced) = &mut row.found {
            priced.view.too_long = too_long;
        }
        row
    };
    let rows = [refusing("a", 40.0, 0.145), refusing("b", 10.0, 0.002)];
    let told = text(&knees(rows.to_vec()), None);
    assert!(told.starts_with("cheapest within the SLO: gpu = b"), "{told}");
    assert!(
        told.contains("gpu = a: it refuses requests as too long that others serve")
            && told.contains("14.5 % refused as too long"),
        "{told}"
    );
    let objects = rows
        .iter()
        .map(|row| serde_json::from_str(&crate::report::json::knee_setting(row)).unwrap());
    let objects: Vec<serde_json::Value> = objects.collect();
    let labels: Vec<&[(String, String)]> = rows.iter().map(|row| row.labels.as_slice()).collect();
    let ranking = Ranking::of(&objects, &labels, Vec::new());
    assert_eq!(
        ranking.others,
        [(
            "a".to_owned(),
            "it refuses requests as too long that others serve".to_owned()
        )]
    );
    let alike = vec![refusing("a", 40.0, 0.145), refusing("b", 10.0, 0.145)];
    let told = text(&knees(alike), None);
    assert!(told.starts_with("cheapest within the SLO: gpu = a"), "{told}");
}
