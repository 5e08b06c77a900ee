//! One run compared request by request, as text, Markdown, JSON, CSV and a chart.

use serde_json::{Value, json};

use super::chart::{Picture, overlay};
use super::figures::{percent, significant};
use super::page::{folded, table_on};
use super::tables::{Column, markdown};
use super::validated::quoted;
use crate::validate::requests::{MomentScore, Moments, Pair, Requests};

/// The answer in one line.
#[must_use]
pub fn answer(requests: &Requests) -> String {
    let scores = requests.scores();
    let of = |wanted: &str| {
        let found = scores.iter().find(|score| score.name == wanted);
        found.map_or("-".to_owned(), |score| seconds(score.median_s))
    };
    format!(
        "{} requests: first tokens {} off in the median, last tokens {}",
        requests.pairs.len(),
        of("first token"),
        of("last token")
    )
}

fn seconds(value: f64) -> String {
    format!("{} ms", significant(1e3 * value))
}

fn laid_out(requests: &Requests) -> (Vec<Column>, Vec<Vec<String>>) {
    let columns = vec![
        Column::left("moment"),
        Column::right("median"),
        Column::right("p90"),
        Column::right("bias"),
        Column::right("relative median"),
    ];
    let cells = |score: &MomentScore| {
        let sign = if score.bias_s < 0.0 { "−" } else { "+" };
        vec![
            score.name.to_owned(),
            seconds(score.median_s),
            seconds(score.p90_s),
            format!("{sign}{}", seconds(score.bias_s.abs())),
            score.median_error.map_or("-".to_owned(), percent),
        ]
    };
    (columns, requests.scores().iter().map(cells).collect())
}

fn state(requests: &Requests) -> String {
    let Some((running, waiting)) = requests.state_errors() else {
        return String::new();
    };
    let peak = |simulated: bool, is_running: bool| {
        let samples = if simulated {
            &requests.simulated
        } else {
            &requests.samples
        };
        let values = samples.iter().map(|sample| {
            if is_running {
                sample.running
            } else {
                sample.waiting
            }
        });
        significant(values.fold(0.0, f64::max))
    };
    format!(
        "state over {} samples: running is {} off on average (at most {} measured, {} simulated), waiting {} ({}, {})\n",
        requests.samples.len(),
        significant(running),
        peak(false, true),
        peak(true, true),
        significant(waiting),
        peak(false, false),
        peak(true, false)
    )
}

/// The comparison for people, within the columns of a screen if there is one.
#[must_use]
pub fn text(requests: &Requests, width: Option<usize>) -> String {
    let (columns, rows) = laid_out(requests);
    let assumed: String = requests
        .assumptions
        .iter()
        .map(|what| format!("assumed: {what}\n"))
        .collect();
    let state = state(requests);
    let gap = if state.is_empty() && assumed.is_empty() {
        ""
    } else {
        "\n"
    };
    let text = format!(
        "{}\n\n{}{gap}{state}{assumed}",
        answer(requests),
        table_on(&columns, &rows, 1, width)
    );
    folded(&text, width)
}

/// The comparison as Markdown.
#[must_use]
pub fn md(requests: &Requests) -> String {
    let (columns, rows) = laid_out(requests);
    let state = state(requests);
    let gap = if state.is_empty() { "" } else { "\n" };
    format!(
        "{}.\n\n{}{gap}{state}",
        answer(requests),
        markdown(&columns, &rows)
    )
}

/// The comparison and every request as one object.
#[must_use]
pub fn json(requests: &Requests) -> String {
    let scores: serde_json::Map<String, Value> = requests
        .scores()
        .iter()
        .map(|score| {
            let value = json!({
                "median_s": score.median_s, "p90_s": score.p90_s, "bias_s": score.bias_s,
                "median_error": score.median_error,
            });
            (score.name.replace(' ', "_"), value)
        })
        .collect();
    let moments = |one: &Moments| json!({"arrival_s": one.arrival_s, "first_token_s": one.first_token_s, "last_token_s": one.last_token_s});
    let pair = |pair: &Pair| {
        json!({
            "id": pair.recorded.id, "input_tokens": pair.recorded.input_tokens,
            "output_tokens": pair.recorded.output_tokens,
            "measured": moments(&pair.recorded.moments), "simulated": moments(&pair.simulated),
        })
    };
    let state = requests
        .state_errors()
        .map(|(running, waiting)| json!({"running": running, "waiting": waiting}));
    let object = json!({
        "format_version": super::validated::FORMAT_VERSION,
        "answer": answer(requests),
        "scores": scores,
        "mean_state_error": state,
        "assumptions": requests.assumptions,
        "requests": requests.pairs.iter().map(pair).collect::<Vec<Value>>(),
    });
    format!("{object:#}\n")
}

/// A line a request.
#[must_use]
pub fn csv(requests: &Requests) -> String {
    let mut lines = vec![
        "request_id,input_tokens,output_tokens,arrival_s,first_token_s,last_token_s,simulated_arrival_s,\
         simulated_first_token_s,simulated_last_token_s"
            .to_owned(),
    ];
    lines.extend(requests.pairs.iter().map(|pair| {
        let (is, simulated) = (&pair.recorded.moments, &pair.simulated);
        format!(
            "{},{},{},{},{},{},{},{},{}",
            quoted(&pair.recorded.id),
            pair.recorded.input_tokens,
            pair.recorded.output_tokens,
            is.arrival_s,
            is.first_token_s,
            is.last_token_s,
            simulated.arrival_s,
            simulated.first_token_s,
            simulated.last_token_s
        )
    }));
    lines.join("\n") + "\n"
}

/// Running and waiting over time, simulated over measured.
#[must_use]
pub fn chart(requests: &Requests, subject: &str) -> Picture {
    let title = requests.state_errors().map_or_else(
        || answer(requests),
        |(running, waiting)| {
            format!(
                "Simulated running sequences are {} off on average, waiting ones {}",
                significant(running),
                significant(waiting)
            )
        },
    );
    overlay(&title, subject, &requests.samples, &requests.simulated)
}
