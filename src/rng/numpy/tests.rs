//! NumPy's own draws, and each of them.

use serde_json::Value;

use super::{Generator, RandomState};

/// Every row of `draws.py` of one kind: its seed, the row, and its draws.
fn rows(kind: &str) -> Vec<(u64, Value)> {
    let whole: Value = serde_json::from_str(include_str!("../../../tests/data/numpy/draws.json"))
        .expect("draws.py wrote JSON");
    let rows = whole["draws"].as_array().expect("a list of rows");
    let of_kind = rows.iter().filter(|row| row["kind"] == kind);
    let found: Vec<(u64, Value)> = of_kind
        .map(|row| (row["seed"].as_u64().expect("a seed"), row.clone()))
        .collect();
    assert!(!found.is_empty(), "no row of {kind}");
    found
}

fn check_floats(row: &Value, mut draw: impl FnMut() -> f64) {
    for expected in row["draws"].as_array().expect("draws") {
        let (expected, drawn) = (expected.as_f64().expect("a float"), draw());
        assert!(
            (drawn - expected).abs() <= 1e-12 * expected.abs(),
            "{drawn} is not {expected}: {row}"
        );
    }
}

fn check_integers(row: &Value, mut draw: impl FnMut(u32) -> u32) {
    let most = row["most"].as_u64().expect("a bound") as u32;
    for expected in row["draws"].as_array().expect("draws") {
        assert_eq!(Some(u64::from(draw(most))), expected.as_u64(), "{row}");
    }
}

#[test]
fn the_legacy_laws_are_numpys() {
    for (seed, row) in rows("gamma") {
        let (mut state, shape) = (RandomState::new(seed as u32), row["shape"].as_f64());
        check_floats(&row, || state.gamma(shape.expect("a shape")));
    }
    for (seed, row) in rows("exponential") {
        let mut state = RandomState::new(seed as u32);
        check_floats(&row, || state.exponential());
    }
}

#[test]
fn whole_numbers_are_numpys_by_either_door() {
    for (seed, row) in rows("randint") {
        let mut state = RandomState::new(seed as u32);
        check_integers(&row, |most| state.integer(most));
    }
    for (seed, row) in rows("integers") {
        let mut generator = Generator::new(seed);
        check_integers(&row, |most| generator.integer(most));
    }
}

#[test]
fn a_range_of_one_number_draws_nothing() {
    let (mut state, mut fresh) = (RandomState::new(5), RandomState::new(5));
    assert_eq!(state.integer(0), 0);
    assert_eq!(state.integer(1000), fresh.integer(1000));
    let (mut generator, mut fresh) = (Generator::new(5), Generator::new(5));
    assert_eq!(generator.integer(0), 0);
    assert_eq!(generator.integer(1000), fresh.integer(1000));
}
