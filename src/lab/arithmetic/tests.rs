use super::*;

fn value(text: &str) -> f64 {
    let arithmetic = Arithmetic::parse(text).unwrap();
    arithmetic.value(|_| Ok::<_, ()>(3.0)).unwrap()
}

#[test]
fn arithmetic_is_that_of_paper() {
    assert_eq!(value("1 + 2 * {a}"), 7.0);
    assert_eq!(value("(1 + 2) * {a}"), 9.0);
    assert_eq!(value("10 - 3 - 2"), 5.0);
    assert_eq!(value("12 / {a} / 2"), 2.0);
    assert_eq!(value("1 - (1 - {a} / 4)^2"), 0.9375);
    assert_eq!(value("max({a}, 5) + min(2, {a:/b})"), 7.0);
    assert_eq!(value("sqrt(16) + floor(2.7) + ceil(1.2) + abs(0 - 3)"), 11.0);
    assert_eq!(value("exp(0) + ln(1)"), 1.0);
    assert_eq!(value("-2^2"), -4.0);
    assert_eq!(value("2^{a}^2"), 512.0);
    assert_eq!(value("2^-1 * -{a}"), -1.5);
    assert_eq!(
        value("min(1, max(20, 12) / {a}) * (1 - {a} / 420)"),
        1.0 - 3.0 / 420.0
    );
}

#[test]
fn figures_stay_in_the_order_in_which_they_are_written() {
    let arithmetic = Arithmetic::parse("{zz} - {a} / {m}").unwrap();
    let figure = |reference: &Reference| {
        Ok::<_, ()>(match reference.to_string().as_str() {
            "zz" => 10.0,
            "a" => 8.0,
            _ => 2.0,
        })
    };
    assert_eq!(arithmetic.value(figure), Ok(6.0));
    let paper = arithmetic.on_paper(|reference| Ok::<_, ()>(reference.to_string()));
    assert_eq!(paper.unwrap(), "zz − a / m");
}

#[test]
fn what_is_no_arithmetic_is_refused() {
    let wrong = [
        "",
        "2 +",
        "+ 1",
        "rate * 2",
        "{rate} * rate",
        "pow({a}, 2)",
        "{a} {b}",
        "1 2",
        "{a",
        "a}",
        "{A}",
        "{a:b}",
        "{}",
        "(1",
        "1)",
        "1.2.3",
        "1e3",
        "2 ** 3",
        "min(1)",
        "sqrt(1, 2)",
        "max 2",
    ];
    for bad in wrong {
        assert!(Arithmetic::parse(bad).is_err(), "{bad}");
    }
    let long = format!("1{}", " + 1".repeat(100_000));
    assert!(
        Arithmetic::parse(&long)
            .unwrap_err()
            .contains("more than 500 figures")
    );
    for deep in ["(", "-", "2^", "ln("] {
        let problem = Arithmetic::parse(&deep.repeat(100_000)).unwrap_err();
        assert!(problem.contains("are within each other"), "{deep}");
    }
    let stray = Arithmetic::parse("{rate} * load").unwrap_err();
    assert!(
        stray.contains("`load`") && stray.contains("stand in braces"),
        "{stray}"
    );
}
