//! ServeGen client profiles: a trace drawn from them, for a window of time and a seed.
//!
//! A profile is no trace but a law for each client: in every 600 s window a rate and a renewal process (gamma or Weibull
//! gaps), in every six-hour window the distributions of prompt and output tokens. A window's number of requests is its
//! rate times its length, rounded at random to a neighbouring integer, and its gaps are scaled to fill the window, as
//! ServeGen's own generator does, so that rates hold exactly and the fitted `scale` is not used. Left out: any
//! correlation of prompt and output, which the profiles do not give.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_distr::{Distribution, Gamma, Weibull};
use serde::Deserialize;

use super::container::Member;
use super::error::{Place, Problem};
use super::rows::{Row, Rows};
use super::words::plainly;
use crate::rng::{Purpose, stream};

/// Length of a rate window in seconds.
const WINDOW_S: u64 = 600;
/// The default window: an hour.
const DEFAULT_WINDOWS: u64 = 6;
/// A draw of more requests than this is refused: it would fill the memory.
const REQUESTS_MAX: f64 = 2e7;
/// Seconds in a picosecond clock's unit.
const PICOS_PER_WINDOW: f64 = WINDOW_S as f64 * 1e12;

/// What one client does in one rate window.
struct RateWindow {
    start_s: u64,
    rate: f64,
    weibull: bool,
    shape: f64,
}

/// Values with their cumulated probabilities.
type Law = Vec<(f64, u32)>;

/// What one client's requests look like over one data window. Media: (how many, tokens of each).
struct LengthWindow {
    start_s: u64,
    text: Law,
    output: Law,
    media: Vec<(Law, Law)>,
}

#[derive(Default)]
struct Client {
    rates: Vec<RateWindow>,
    lengths: Vec<LengthWindow>,
}

/// Whether a file of an archive is a ServeGen client's.
pub(super) fn is_profile(name: &str) -> bool {
    client_number(name, "-trace.csv").is_some()
}

/// `3` of `reason/deepseek-r1/chunk-3-trace.csv`.
fn client_number(name: &str, ending: &str) -> Option<u64> {
    let file = name.rsplit('/').next()?;
    file.strip_prefix("chunk-")?.strip_suffix(ending)?.parse().ok()
}

/// Draws a trace from all clients of an archive.
pub(super) fn read(members: &[Member], rows: &mut Rows) {
    let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
    for member in members {
        if let Some(number) = client_number(&member.name, "-trace.csv") {
            clients.entry(number).or_default().rates = read_rates(member, rows);
        } else if let Some(number) = client_number(&member.name, "-dataset.json") {
            clients.entry(number).or_default().lengths = read_lengths(member, rows);
        }
    }
    if rows.problems.total > 0 {
        return;
    }
    let all: f64 = clients
        .values()
        .flat_map(|client| &client.rates)
        .map(|window| window.rate)
        .sum();
    let bare = clients
        .values()
        .filter(|client| client.lengths.is_empty() && !client.rates.is_empty())
        .count();
    clients.retain(|_, client| !client.lengths.is_empty() && !client.rates.is_empty());
    let kept: f64 = clients
        .values()
        .flat_map(|client| &client.rates)
        .map(|window| window.rate)
        .sum();
    if bare > 0 {
        let share = 100.0 * (1.0 - kept / all.max(f64::MIN_POSITIVE));
        rows.warnings.push(format!(
            "left out {bare} clients without lengths, who are {share:.0} % of the load"
        ));
    }
    let Some((from_s, to_s)) = choose_window(&clients, rows) else {
        return;
    };
    draw(&clients, from_s, to_s, rows);
}

/// The window to draw in seconds: as asked, or the busiest hour.
fn choose_window(clients: &BTreeMap<u64, Client>, rows: &mut Rows) -> Option<(f64, f64)> {
    let mut load: BTreeMap<u64, f64> = BTreeMap::new();
    for window in clients.values().flat_map(|client| &client.rates) {
        *load.entry(window.start_s).or_default() += window.rate;
    }
    let end = load.keys().next_back().map_or(0, |start| start + WINDOW_S);
    let (from_s, to_s) = match rows.options.window {
        Some((start, length)) => (start.seconds(), start.seconds() + length.seconds()),
        None => {
            let hour = DEFAULT_WINDOWS * WINDOW_S;
            let of_hour = |start: u64| load.range(start..start + hour).map(|(_, rate)| rate).sum::<f64>();
            let mut best = 0;
            for start in (0..end).step_by(hour as usize) {
                best = if of_hour(start) > of_hour(best) {
                    start
                } else {
                    best
                };
            }
            (best as f64, (best + hour) as f64)
        }
    };
    let expected: f64 = clients
        .values()
        .flat_map(|client| &client.rates)
        .map(|window| window.rate * overlap(window, from_s, to_s))
        .sum();
    let place = Place::Item("option".to_owned());
    let whole = format!("the profiles cover 0..{end} s; --window START..END (seconds) chooses");
    if expected < 1.0 {
        let what = format!("no client sends anything in {from_s}..{to_s} s");
        rows.problems.push(Problem::new(place, "window", what, whole));
        return None;
    }
    if expected > REQUESTS_MAX {
        let what = format!("{from_s}..{to_s} s would be {expected:.0} requests: too many to hold");
        rows.problems.push(Problem::new(place, "window", what, whole));
        return None;
    }
    let which = if rows.options.window.is_some() {
        ""
    } else {
        " (the busiest hour; --window chooses another)"
    };
    rows.notes.push(format!(
        "drawn, not recorded: {} clients' laws from {from_s} s to {to_s} s{which}, seed {}; prompt and output drawn independently",
        clients.len(),
        rows.options.seed
    ));
    Some((from_s, to_s))
}

/// Seconds that a rate window shares with `from_s..to_s`.
fn overlap(window: &RateWindow, from_s: f64, to_s: f64) -> f64 {
    let start = window.start_s as f64;
    ((start + WINDOW_S as f64).min(to_s) - start.max(from_s)).max(0.0)
}

fn draw(clients: &BTreeMap<u64, Client>, from_s: f64, to_s: f64, rows: &mut Rows) {
    let mut drawn: Vec<(i128, u32, u32)> = Vec::new();
    for (&number, client) in clients {
        let mut arrivals = stream(rows.options.seed, Purpose::Arrivals, number);
        let mut lengths = stream(rows.options.seed, Purpose::Lengths, number);
        for window in client
            .rates
            .iter()
            .filter(|window| window.rate > 0.0 && overlap(window, from_s, to_s) > 0.0)
        {
            let Some(law) = client
                .lengths
                .iter()
                .rev()
                .find(|law| law.start_s <= window.start_s)
                .or(client.lengths.first())
            else {
                continue;
            };
            for time in window_arrivals(window, &mut arrivals) {
                let mut input = sample(&law.text, &mut lengths);
                for (count, tokens) in &law.media {
                    for _ in 0..sample(count, &mut lengths) {
                        input = input.saturating_add(sample(tokens, &mut lengths));
                    }
                }
                let output = sample(&law.output, &mut lengths);
                if (from_s * 1e12..to_s * 1e12).contains(&(time as f64)) {
                    drawn.push((time, input, output));
                }
            }
        }
    }
    drawn.sort_by_key(|&(time, ..)| time);
    let mut empty = 0;
    for ((time, input, output), number) in drawn.into_iter().zip(0u64..) {
        if input == 0 || output == 0 {
            empty += 1;
            continue;
        }
        let place = Place::Item(format!("drawn request {number}"));
        rows.push(Row {
            place,
            time: Some(time),
            input,
            output,
            ids: 0..0,
            session: None,
        });
    }
    rows.note_left_out(empty, "drawn with 0 prompt or output tokens");
}

/// Arrival instants of one client in one window, in picoseconds.
fn window_arrivals(window: &RateWindow, rng: &mut impl rand::Rng) -> Vec<i128> {
    let expected = window.rate * WINDOW_S as f64;
    let count = expected.floor() as usize + usize::from(rng.random::<f64>() < expected.fract());
    let gaps: Vec<f64> = match window.weibull {
        // Shapes were checked when read; the scale is set by the rate.
        false => Gamma::new(window.shape, 1.0)
            .map(|law| law.sample_iter(&mut *rng).take(count + 1).collect())
            .unwrap_or_default(),
        true => Weibull::new(1.0, window.shape)
            .map(|law| law.sample_iter(&mut *rng).take(count + 1).collect())
            .unwrap_or_default(),
    };
    let total: f64 = gaps.iter().sum();
    let mut elapsed = 0.0;
    gaps.iter()
        .take(count)
        .map(|gap| {
            elapsed += gap;
            let share = if total > 0.0 && total.is_finite() {
                elapsed / total
            } else {
                0.0
            };
            i128::from(window.start_s) * 1_000_000_000_000 + (share * PICOS_PER_WINDOW) as i128
        })
        .collect()
}

/// Draws a value of a law; an empty law gives 0.
fn sample(law: &Law, rng: &mut impl rand::Rng) -> u32 {
    let target = rng.random::<f64>() * law.last().map_or(0.0, |&(total, _)| total);
    let index = law.partition_point(|&(cumulated, _)| cumulated <= target);
    law.get(index).or(law.last()).map_or(0, |&(_, value)| value)
}

/// Rate windows of one client: `start_s,rate,cv,pattern,shape,scale_s`, no header.
fn read_rates(member: &Member, rows: &mut Rows) -> Vec<RateWindow> {
    let text = String::from_utf8_lossy(&member.bytes);
    let mut windows = Vec::new();
    for (line, number) in text
        .lines()
        .zip(1u64..)
        .filter(|(line, _)| !line.trim().is_empty())
    {
        match rate_window(line) {
            Ok(window) => windows.push(window),
            Err((field, what)) => {
                let help =
                    "a line is start_s,rate,cv,pattern,shape,scale_s with pattern Gamma, Weibull or nothing";
                rows.problems.push(Problem::new(
                    Place::Item(format!("{} line {number}", member.name)),
                    field,
                    what,
                    help,
                ));
            }
        }
    }
    windows
}

fn rate_window(line: &str) -> Result<RateWindow, (&'static str, String)> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [start, rate, _cv, pattern, shape, _scale] = cells.as_slice() else {
        return Err(("", format!("has {} cells, not 6", cells.len())));
    };
    let number = |field, text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err((
            field,
            format!(
                "is `{}`, not a number from 0 up",
                text.chars().take(30).collect::<String>()
            ),
        )),
    };
    let (start, rate, shape) = (
        number("start_s", start)?,
        number("rate", rate)?,
        number("shape", shape)?,
    );
    if rate > 0.0 && !["Gamma", "Weibull"].contains(pattern) {
        return Err(("pattern", format!("is `{pattern}` where the rate is {rate}")));
    }
    if rate > 0.0 && !(1e-6..=1e6).contains(&shape) {
        return Err(("shape", format!("is {shape}, which is no shape of a gap law")));
    }
    if rate > 1e6 || start > 1e9 {
        return Err((
            "rate",
            format!("is {rate} requests/s from second {start}: absurd"),
        ));
    }
    Ok(RateWindow {
        start_s: start as u64,
        rate,
        weibull: *pattern == "Weibull",
        shape,
    })
}

/// The texts that ServeGen keeps Python dictionaries in.
#[derive(Deserialize)]
struct RawLengths {
    input_tokens: Option<String>,
    text_tokens: Option<String>,
    output_tokens: Option<String>,
    image_tokens: Option<String>,
    audio_tokens: Option<String>,
    video_tokens: Option<String>,
    image_count: Option<String>,
    audio_count: Option<String>,
    video_count: Option<String>,
}

/// Length windows of one client that hold data, in order of time.
fn read_lengths(member: &Member, rows: &mut Rows) -> Vec<LengthWindow> {
    let mut fail = |field: &str, what: String| {
        let help = "a data set maps start seconds to {\"input_tokens\": \"{length: probability, …}\", \"output_tokens\": …}";
        rows.problems
            .push(Problem::new(Place::Item(member.name.clone()), field, what, help));
    };
    let raw: BTreeMap<String, RawLengths> = match serde_json::from_slice(&member.bytes) {
        Ok(raw) => raw,
        Err(error) => {
            fail("", format!("is not as expected: {}", plainly(&error.to_string())));
            return Vec::new();
        }
    };
    let mut windows = Vec::new();
    for (start, raw) in &raw {
        let Ok(start_s) = start.parse() else {
            fail(start, "is no start in seconds".to_owned());
            continue;
        };
        let mut law = |name: &str, text: &Option<String>| match parse_law(text.as_deref().unwrap_or("{}")) {
            Ok(law) => law,
            Err(what) => {
                fail(&format!("{start}.{name}"), what);
                Vec::new()
            }
        };
        let text = law(
            "input_tokens",
            if raw.input_tokens.is_some() {
                &raw.input_tokens
            } else {
                &raw.text_tokens
            },
        );
        let output = law("output_tokens", &raw.output_tokens);
        let media = vec![
            (
                law("image_count", &raw.image_count),
                law("image_tokens", &raw.image_tokens),
            ),
            (
                law("audio_count", &raw.audio_count),
                law("audio_tokens", &raw.audio_tokens),
            ),
            (
                law("video_count", &raw.video_count),
                law("video_tokens", &raw.video_tokens),
            ),
        ];
        if !text.is_empty() && !output.is_empty() {
            windows.push(LengthWindow {
                start_s,
                text,
                output,
                media,
            });
        }
    }
    windows.sort_by_key(|window| window.start_s);
    windows
}

/// `{45: 0.0097, 46: 0.0117}` as cumulated probabilities; they need not add up to 1, but may not be negative.
fn parse_law(text: &str) -> Result<Law, String> {
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .ok_or("is no {length: probability, …}")?;
    let mut total = 0.0;
    let mut law = Law::new();
    for pair in inner.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let shown = || {
            format!(
                "has `{}`, not a length and its probability",
                pair.chars().take(40).collect::<String>()
            )
        };
        let (value, probability) = pair.split_once(':').ok_or_else(shown)?;
        let value: f64 = value.trim().parse().map_err(|_| shown())?;
        let probability: f64 = probability.trim().parse().map_err(|_| shown())?;
        if !(0.0..=16_777_216.0).contains(&value) || !(0.0..=1.0 + 1e-9).contains(&probability) {
            return Err(shown());
        }
        total += probability;
        law.push((total, value as u32));
    }
    if !law.is_empty() && total <= 0.0 {
        return Err("gives every length the probability 0".to_owned());
    }
    Ok(law)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::trace::{Format, ReadOptions};

    fn members(rate: &str) -> Vec<Member> {
        let trace = format!("0,0,0,,0,0\n600,{rate},1.5,Gamma,0.44,1.0\n1200,2.0,1,Weibull,0.8,9\n");
        let data = r#"{"0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{7: 1.0}", "reason_ratio": "{0.0: 1}"},
                       "21600": {"input_tokens": "{}", "output_tokens": "{}"}}"#;
        let member = |name: &str, text: &str| Member {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        vec![
            member("x/chunk-0-trace.csv", &trace),
            member("x/chunk-0-dataset.json", data),
            member("x/chunk-1-trace.csv", "0,1,1,Gamma,1,1"),
        ]
    }

    #[test]
    fn the_rates_of_every_window_hold_exactly() {
        let options = ReadOptions::default();
        let mut rows = Rows::new("p.tar", Format::Servegen, &options);
        read(&members("0.5"), &mut rows);
        let trace = rows.finish().unwrap();
        assert_eq!(trace.requests.len(), 300 + 1200);
        assert!(trace.requests.iter().all(|request| request.output_tokens == 7));
        let long = trace
            .requests
            .iter()
            .filter(|request| request.prompt_tokens == 200)
            .count();
        assert!((600..900).contains(&long), "{long}");
        assert!(
            trace.warnings[0].contains("left out 1 clients without lengths"),
            "{:?}",
            trace.warnings
        );
    }

    #[test]
    fn a_bad_line_is_located_in_its_file() {
        let options = ReadOptions::default();
        let mut rows = Rows::new("p.tar", Format::Servegen, &options);
        read(&members("-3"), &mut rows);
        let error = rows.finish().unwrap_err().to_string();
        assert!(
            error.contains("x/chunk-0-trace.csv line 2: `rate` is `-3`"),
            "{error}"
        );
    }
}
