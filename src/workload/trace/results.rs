//! A detailed result of `vllm bench serve` as a trace: `start_times`, `input_lens` and `output_lens`.

use serde::Deserialize;

use super::error::{Place, Problem};
use super::rows::{Row, Rows};
use super::words::plainly;

/// The arrays that `--save-detailed` adds; the rest of the result is not traffic.
#[derive(Deserialize)]
struct Detailed {
    input_lens: Option<Vec<f64>>,
    output_lens: Option<Vec<f64>>,
    start_times: Option<Vec<f64>>,
    errors: Option<Vec<Option<String>>>,
    max_concurrency: Option<f64>,
}

/// Reads one result.
pub(super) fn read(text: &[u8], rows: &mut Rows) {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(problem) => return rows.problems.push(problem),
    };
    let (Some(input_lens), Some(output_lens)) = (&parsed.input_lens, &parsed.output_lens) else {
        let help = "run `vllm bench serve` with --save-result --save-detailed, which keeps every request's lengths and start";
        return rows.problems.push(Problem::new(
            Place::File,
            "input_lens",
            "is missing: the result has no requests in it",
            help,
        ));
    };
    if let Some(problem) = unequal(&parsed, input_lens.len(), output_lens.len()) {
        return rows.problems.push(problem);
    }
    let failed = push_rows(&parsed, input_lens, output_lens, rows);
    rows.note_left_out(failed, "of failed requests");
    if let Some(limit) = parsed.max_concurrency {
        rows.warnings.push(format!(
            "sent under max_concurrency {limit}: start times are what that server's speed allowed, not what users wanted"
        ));
    }
    if parsed.start_times.is_none() {
        rows.notes
            .push("the result has no start_times (vLLM before 2025): lengths only".to_owned());
    }
}

/// Arrays of a result that are not as long as its prompts.
fn unequal(parsed: &Detailed, inputs: usize, outputs: usize) -> Option<Problem> {
    let lengths = [
        ("output_lens", Some(outputs)),
        ("start_times", parsed.start_times.as_ref().map(Vec::len)),
        ("errors", parsed.errors.as_ref().map(Vec::len)),
    ];
    let (key, length) = lengths
        .into_iter()
        .find_map(|(key, length)| Some((key, length.filter(|&length| length != inputs)?)))?;
    let what = format!("has {length} entries, `input_lens` has {inputs}");
    let help = "the arrays of a result are of one length: save it again";
    Some(Problem::new(Place::File, key, what, help))
}

/// One row a request that was answered; how many were not.
fn push_rows(parsed: &Detailed, input_lens: &[f64], output_lens: &[f64], rows: &mut Rows) -> u64 {
    let mut failed = 0;
    for (index, (&input, &output)) in input_lens.iter().zip(output_lens).enumerate() {
        let place = Place::Item(format!("request {index}"));
        let error = parsed
            .errors
            .as_ref()
            .and_then(|errors| errors[index].as_deref())
            .unwrap_or("");
        let (input, output) = (
            rows.tokens(&place, "input_lens", input),
            rows.tokens(&place, "output_lens", output),
        );
        let time = parsed
            .start_times
            .as_ref()
            .map(|times| rows.time(&place, "start_times", times[index]));
        let (Some(input), Some(output)) = (input, output) else {
            continue;
        };
        if output == 0 || !error.is_empty() {
            failed += 1;
        } else if time != Some(None) {
            rows.push(Row {
                place,
                time: time.flatten(),
                input,
                output,
                ids: 0..0,
                session: None,
            });
        }
    }
    failed
}

fn parse(text: &[u8]) -> Result<Detailed, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let parsed = serde_path_to_error::deserialize::<_, Detailed>(&mut reader).map_err(|error| {
        let (field, inner) = (error.path().to_string(), error.inner());
        let place = Place::Line(inner.line() as u64);
        if inner.is_eof() {
            return Problem::new(place, "", "the file is cut off here", "copy the result again");
        }
        Problem::new(
            place,
            field.trim_matches('.'),
            format!("is not as expected: {}", plainly(&inner.to_string())),
            "mend the result or save it again",
        )
    })?;
    if let Err(error) = reader.end() {
        let help = "`--append-result` puts several results into one file: keep one of them";
        return Err(Problem::new(
            Place::Line(error.line() as u64),
            "",
            "more follows after the result",
            help,
        ));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, ReadOptions, read};

    fn check(text: &str) -> Result<super::super::Trace, String> {
        read(text.as_bytes(), "r.json", &ReadOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_detailed_result_is_a_trace_of_what_was_sent() {
        let trace = check(
            r#"{"date": "x", "request_rate": "inf", "input_lens": [5, 6, 7], "output_lens": [2, 0, 3],
                "start_times": [100.5, 100.75, 101.5], "errors": ["", "timeout", ""]}"#,
        )
        .unwrap();
        assert_eq!(trace.format, Format::VllmBench);
        assert_eq!(trace.requests.len(), 2);
        assert_eq!(trace.requests[1].arrival.seconds(), 1.0);
        assert_eq!(trace.notes, ["left out 1 row of failed requests"]);
    }

    #[test]
    fn what_is_wrong_with_a_result_is_told() {
        let error = check(r#"{"request_throughput": 3.2, "completed": 5}"#).unwrap_err();
        assert!(error.contains("--save-detailed"), "{error}");
        let error = check(r#"{"input_lens": [5], "output_lens": [2, 3]}"#).unwrap_err();
        assert!(
            error.contains("`output_lens` has 2 entries, `input_lens` has 1"),
            "{error}"
        );
        let error = check("{\"input_lens\": [5],\n \"output_lens\": [2").unwrap_err();
        assert!(error.contains("line 2: the file is cut off here"), "{error}");
        let error = check("{\"input_lens\": [5, \"six\"], \"output_lens\": [2, 3]}").unwrap_err();
        assert!(error.contains("`input_lens[1]`"), "{error}");
    }
}
