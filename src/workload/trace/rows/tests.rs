//! Rows of a trace as requests: times and their units, lengths, shared blocks.

use super::*;

fn collect(times_s: &[f64], options: &ReadOptions) -> Result<Trace, super::super::TraceError> {
    let mut rows = Rows::new("t", Format::VidurTrace, options);
    for (line, &value) in times_s.iter().enumerate() {
        let place = Place::Line(line as u64 + 2);
        let time = rows.time(&place, "arrived_at", value);
        rows.push(Row {
            place,
            time,
            input: 5,
            output: 2,
            ids: 0..0,
            session: None,
        });
    }
    rows.finish()
}

#[test]
fn time_counts_from_the_first_arrival_and_disorder_is_said() {
    let trace = collect(&[7.0, 9.0, 8.5], &ReadOptions::default()).unwrap();
    let arrivals: Vec<f64> = trace
        .requests
        .iter()
        .map(|request| request.arrival.seconds())
        .collect();
    assert_eq!(arrivals, [0.0, 1.5, 2.0]);
    assert_eq!(trace.notes, ["sorted by time: 1 row came before the row above"]);
}

#[test]
fn a_mistaken_unit_is_warned_of_with_the_one_that_fits() {
    let times: Vec<f64> = (0..100).map(|i| f64::from(i) * 3_000.0).collect();
    let trace = collect(&times, &ReadOptions::default()).unwrap();
    assert_eq!(
        trace.warnings,
        ["times look like milliseconds, read as seconds (implied one request in 3000 s); use --time-unit ms"]
    );
    let options = ReadOptions {
        time_unit: Some(TimeUnit::Ms),
        ..ReadOptions::default()
    };
    assert!(collect(&times, &options).unwrap().warnings.is_empty());
}

#[test]
fn whole_seconds_that_are_minutes_apart_may_be_milliseconds() {
    let warnings = |times: &[f64], options: &ReadOptions| collect(times, options).unwrap().warnings;
    let by_default = ReadOptions::default();
    let told = warnings(&[0.0, 1000.0, 2000.0, 3500.0], &by_default);
    assert_eq!(
        told,
        [
            "times may be milliseconds: they are whole numbers, 1167 apart on average, and are read as seconds; if so use --time-unit ms, \
          if not --time-unit s"
        ]
    );
    // Two requests, gaps below a minute, and seconds with parts are nothing to wonder at.
    for times in [
        &[0.0, 1000.0][..],
        &[5.0, 45.0, 118.0],
        &[0.0, 1000.5, 2000.0, 3500.0],
    ] {
        assert_eq!(warnings(times, &by_default), Vec::<String>::new(), "{times:?}");
    }
    let options = ReadOptions {
        time_unit: Some(TimeUnit::S),
        ..ReadOptions::default()
    };
    assert!(warnings(&[0.0, 1000.0, 2000.0, 3500.0], &options).is_empty());
}

#[test]
fn a_span_past_the_clock_is_an_error() {
    let error = collect(&[0.0, 1.7e9], &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("19676 days"), "{error}");
}

#[test]
fn a_prompt_is_its_blocks_and_a_unique_rest() {
    let mut numbers = FxHashMap::default();
    let partial = pieces(&[90, 91], 20, 16, 0, &mut numbers);
    assert_eq!(
        partial
            .iter()
            .map(|piece| (piece.segment.0, piece.tokens))
            .collect::<Vec<_>>(),
        [(0, 16), (1, 4)]
    );
    let full = pieces(&[90], 20, 16, 7, &mut numbers);
    assert_eq!(
        full.iter()
            .map(|piece| (piece.segment.0, piece.tokens))
            .collect::<Vec<_>>(),
        [(0, 16), (TAIL_SEGMENTS | 7, 4)]
    );
}
