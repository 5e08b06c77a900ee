//! Traces as CSV: Azure, BurstGPT, Vidur (lengths and traces) and splitwise-sim.
//!
//! Columns are found by name, so that releases which add columns are read too. None of these publishers quotes cells;
//! quotes around a cell are dropped and never span lines, so that one stray quote cannot swallow the file.

use super::error::{Place, Problem};
use super::format::{Format, OWN_HEADER, column_name};
use super::rows::{Row, Rows};

/// Which columns a format has, as they are compared (lower case).
struct Columns {
    time: Option<&'static str>,
    input: &'static str,
    output: &'static str,
}

fn columns(format: Format) -> Columns {
    let (time, input, output) = match format {
        Format::Azure => (Some("timestamp"), "contexttokens", "generatedtokens"),
        Format::Burstgpt => (Some("timestamp"), "request tokens", "response tokens"),
        Format::VidurTrace => (Some("arrived_at"), "num_prefill_tokens", "num_decode_tokens"),
        Format::SplitwiseSim => (Some("arrival_timestamp"), "prompt_size", "token_size"),
        _ => (None, "num_prefill_tokens", "num_decode_tokens"),
    };
    Columns { time, input, output }
}

/// Where the columns stand in this file, with the names that the file gives them.
struct Layout<'a> {
    time: Option<(usize, &'a str)>,
    input: (usize, &'a str),
    output: (usize, &'a str),
    session: Option<usize>,
    width: usize,
}

/// Reads all rows.
pub(super) fn read(text: &[u8], rows: &mut Rows) {
    let mut lines = text.split(|&b| b == b'\n').zip(1u64..);
    let header = lines
        .next()
        .map(|(line, _)| String::from_utf8_lossy(line))
        .unwrap_or_default();
    let Some(layout) = find_columns(header.trim_end_matches('\r'), rows) else {
        return;
    };
    let last_line = text.iter().filter(|&&b| b == b'\n').count() as u64 + 1;
    let mut failed = 0;
    let mut cells = Vec::with_capacity(layout.width);
    for (line, number) in lines {
        let place = Place::Line(number);
        let Ok(line) = std::str::from_utf8(line) else {
            rows.problems.push(Problem::new(
                place,
                "",
                "is not UTF-8 text",
                "save the file as UTF-8",
            ));
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        cells.clear();
        cells.extend(
            line.split(',')
                .map(|cell| cell.trim_matches(|c: char| c.is_whitespace() || c == '"')),
        );
        if cells.len() != layout.width {
            let cut = if number == last_line {
                ": the file seems cut off here"
            } else {
                ""
            };
            let what = format!("has {} cells, the header {}{cut}", cells.len(), layout.width);
            rows.problems.push(Problem::new(
                place,
                "",
                what,
                "fetch the file again, or mend the line",
            ));
            continue;
        }
        failed += u64::from(!read_row(&cells, &layout, place, rows));
    }
    rows.note_left_out(failed, "with 0 response tokens (failed requests)");
    if rows.format == Format::SplitwiseSim {
        rows.notes
            .push("batch_size, request_type and application_id are ignored".to_owned());
    }
}

/// Reads one row; `false` where it is a failed request of BurstGPT.
fn read_row(cells: &[&str], layout: &Layout, place: Place, rows: &mut Rows) -> bool {
    let input = count(cells[layout.input.0], &place, layout.input.1, rows);
    let output = count(cells[layout.output.0], &place, layout.output.1, rows);
    let time = layout
        .time
        .map(|(index, name)| moment(cells[index], &place, name, rows));
    let session = layout.session.and_then(|index| cells[index].parse().ok());
    let (Some(input), Some(output)) = (input, output) else {
        return true;
    };
    if rows.format == Format::Burstgpt && output == 0 {
        return false;
    }
    if time != Some(None) {
        rows.push(Row {
            place,
            time: time.flatten(),
            input,
            output,
            ids: 0..0,
            session,
        });
    }
    true
}

fn find_columns<'a>(header: &'a str, rows: &mut Rows) -> Option<Layout<'a>> {
    let wanted = columns(rows.format);
    let names: Vec<&str> = header.split(',').collect();
    let find = |name: &str| {
        let index = names.iter().position(|cell| column_name(cell) == name)?;
        Some((
            index,
            names[index].trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\u{feff}'),
        ))
    };
    let missing: Vec<&str> = wanted
        .time
        .into_iter()
        .chain([wanted.input, wanted.output])
        .filter(|name| find(name).is_none())
        .collect();
    let (Some(input), Some(output), true) = (find(wanted.input), find(wanted.output), missing.is_empty())
    else {
        let what = format!("the header lacks {} (case does not matter)", missing.join(", "));
        rows.problems.push(Problem::new(
            Place::Line(1),
            "",
            what,
            "the first line names the columns; --read-as names another format",
        ));
        return None;
    };
    let session = find("session id").map(|(index, _)| index);
    Some(Layout {
        time: wanted.time.and_then(find),
        input,
        output,
        session,
        width: names.len(),
    })
}

/// A token count; pandas writes whole numbers of a column with gaps as `472.0`.
fn count(cell: &str, place: &Place, field: &str, rows: &mut Rows) -> Option<u32> {
    if let Ok(value) = cell.parse::<u32>() {
        return rows.tokens(place, field, f64::from(value));
    }
    match number(cell) {
        Some(value) => rows.tokens(place, field, value),
        None => complain(cell, "a token count", place, field, rows),
    }
}

/// A moment: a date and time of day in Azure's files, else a number.
fn moment(cell: &str, place: &Place, field: &str, rows: &mut Rows) -> Option<i128> {
    if rows.format == Format::Azure {
        return date(cell).or_else(|| {
            if number(cell).is_some() {
                let what = format!("is `{cell}`, a number where Azure's files have a date and time");
                rows.problems
                    .push(Problem::new(place.clone(), field, what, OWN_HEADER));
                return None;
            }
            complain(
                cell,
                "a date and time like `2023-11-16 18:17:03.9799600`",
                place,
                field,
                rows,
            )
        });
    }
    match number(cell) {
        Some(value) => rows.time(place, field, value),
        None => complain(cell, "a number", place, field, rows),
    }
}

fn number(cell: &str) -> Option<f64> {
    match cell.parse::<f64>() {
        Ok(value) => Some(value),
        Err(_) if cell.eq_ignore_ascii_case("nan") => Some(f64::NAN),
        Err(_) => None,
    }
}

/// Picoseconds since 1970 of a civil date and time; the zone of the 2024 files is always UTC, 2023 has none.
fn date(cell: &str) -> Option<i128> {
    let civil = cell
        .strip_suffix("+00:00")
        .or_else(|| cell.strip_suffix('Z'))
        .unwrap_or(cell);
    let at: jiff::civil::DateTime = civil.parse().ok()?;
    let stamp = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    // A date alone parses too, but a cell without a time of day is a cut line, not midnight.
    civil.contains(':').then(|| stamp.as_nanosecond() * 1_000)
}

fn complain<T>(cell: &str, wanted: &str, place: &Place, field: &str, rows: &mut Rows) -> Option<T> {
    let shown: String = cell.chars().filter(|c| !c.is_control()).take(40).collect();
    let what = if cell.is_empty() {
        format!("is empty, not {wanted}")
    } else {
        format!("is `{shown}`, not {wanted}")
    };
    rows.problems.push(Problem::new(
        place.clone(),
        field,
        what,
        "mend the row or leave it out of the file",
    ));
    None
}
