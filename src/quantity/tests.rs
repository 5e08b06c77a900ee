//! Sizes, rates and times as people write them, and figures as reports do.

use super::*;
use proptest::prelude::*;

#[test]
fn people_get_three_figures_at_every_size() {
    for (value, expected) in [
        (0.0, "0"),
        (0.012_34, "0.0123"),
        (9.996, "10.0"),
        (412.4, "412"),
        (999.7, "1000"),
        (-1279.6, "-1280"),
        (1.234e-12, "1.23e-12"),
        (2.0e15, "2000000000000000"),
        (-1.0e308, "-1.00e308"),
    ] {
        assert_eq!(significant(value), expected);
    }
}

#[test]
fn decimal_and_binary_prefixes_differ() {
    assert_eq!(parse_bytes("80 GB"), Ok(Bytes(80_000_000_000)));
    assert_eq!(parse_bytes(" 80GiB "), Ok(Bytes(80 << 30)));
    assert_eq!(parse_bytes("81559 MiB"), Ok(Bytes(81_559 << 20)));
    assert_eq!(parse_bytes("50 MB"), Ok(Bytes(50_000_000)));
    assert_eq!(parse_bytes("1e3 B"), Ok(Bytes(1000)));
    assert_eq!(parse_bytes("0.5 kb"), Ok(Bytes(500)));
}

#[test]
fn memory_is_written_as_people_would() {
    for text in [
        "80 GB",
        "79.1 GiB",
        "50 MB",
        "139.8 GiB",
        "81559 MiB",
        "0 B",
        "1 TB",
    ] {
        assert_eq!(format_bytes(parse_bytes(text).unwrap()), text);
    }
}

#[test]
fn rates_count_bytes_unless_bits_are_spelled_out() {
    assert_eq!(parse_rate("3.35 TB/s"), Ok(BytesPerSec(3.35e12)));
    assert_eq!(parse_rate("450GB/s"), Ok(BytesPerSec(450e9)));
    assert_eq!(parse_rate("400 Gbit/s"), Ok(BytesPerSec(50e9)));
    assert!(matches!(
        parse_rate("400 Gb/s"),
        Err(QuantityError::UnknownUnit { .. })
    ));
    assert!(matches!(
        parse_rate("400 GB"),
        Err(QuantityError::UnknownUnit { .. })
    ));
}

#[test]
fn flops_and_ops_are_one_rate() {
    for text in ["989.4 TFLOP/s", "989.4TFLOPS", "989.4 TOPS", "0.9894 PFLOP/s"] {
        assert!(parse_flops(text).unwrap() == FlopsPerSec(989.4e12), "{text}");
    }
}

#[test]
fn durations_take_the_units_that_people_use() {
    let cases = [
        ("500 ms", 0.5),
        ("45s", 45.0),
        ("10 min", 600.0),
        ("600 s", 600.0),
        ("2h", 7200.0),
        ("3 µs", 3e-6),
    ];
    for (text, seconds) in cases {
        assert_eq!(parse_duration(text), Ok(Picos::from_seconds(seconds)), "{text}");
    }
    assert!(matches!(
        parse_duration("214 d"),
        Err(QuantityError::OutOfRange { .. })
    ));
}

#[test]
fn watts_are_read() {
    assert_eq!(parse_watts("700 W"), Ok(700.0));
    assert_eq!(parse_watts("1.2kW"), Ok(1200.0));
}

#[test]
fn an_error_says_what_would_be_right() {
    insta::assert_snapshot!(parse_bytes("80").unwrap_err(), @"`80` has no unit; write it like `80 GB`");
    insta::assert_snapshot!(parse_duration("60").unwrap_err(), @"`60` has no unit; write it like `60 s` or `60 ms`");
    insta::assert_snapshot!(parse_bytes("lots").unwrap_err(), @"`lots` does not begin with a number; write it like `80 GB`");
    insta::assert_snapshot!(parse_bytes("-1 GB").unwrap_err(), @"`-1 GB` does not begin with a number; write it like `80 GB`");
    insta::assert_snapshot!(parse_duration("3 parsecs").unwrap_err(), @"`parsecs` in `3 parsecs` is not a unit of time; known are ns, us (or µs), ms, s, min, h, d");
    insta::assert_snapshot!(parse_bytes("80 Gb").unwrap_err(), @"`Gb` in `80 Gb` is not a unit of memory; known are B, kB, MB, GB, TB (powers of ten) and KiB, MiB, GiB, TiB (powers of two)");
}

proptest! {
    #[test]
    fn any_text_is_an_answer_and_not_a_panic(text in "\\PC{0,20}|[0-9._eE+-]{0,8} ?[a-zA-Zµ/]{0,8}") {
        let _ = parse_bytes(&text);
        let _ = parse_rate(&text);
        let _ = parse_flops(&text);
        let _ = parse_duration(&text);
        let _ = parse_watts(&text);
    }

    #[test]
    fn memory_is_written_so_that_it_reads_back(bytes in 0u64..1 << 50, shift in 0u32..31) {
        let bytes = Bytes((bytes >> shift) << shift);
        prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
    }

    #[test]
    fn rates_are_written_so_that_they_read_back(rate in 1u64..100_000_000) {
        let rate = rate as f64 * 1e6;
        prop_assert_eq!(parse_rate(&format_rate(BytesPerSec(rate))), Ok(BytesPerSec(rate)));
        prop_assert_eq!(parse_flops(&format_flops(FlopsPerSec(rate))), Ok(FlopsPerSec(rate)));
    }
}
