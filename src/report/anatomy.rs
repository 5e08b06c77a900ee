//! What times to first token and per output token are made of, in words and as tables.

use super::figures::{count, time};
use super::tables::{Column, table};
use super::words::EngineWords;
use crate::metrics::{Anatomies, Group, TokenGroup, TpotPart, TtftPart};

/// Of a whole, below which a part is not worth a word in a sentence.
const WORTH_A_WORD: f64 = 0.02;
/// Of a whole, below which what no part says is within the three figures of the others.
const WORTH_A_FIGURE: f64 = 0.002;
/// Of a second, below which a part of a table is a rounding of none.
const PICOSECOND: f64 = 1e-12;

/// A part of a time to first token, in a word or two; limits under the names that the engine has for them.
#[must_use]
pub fn ttft_part(part: TtftPart, words: EngineWords) -> String {
    match part {
        TtftPart::Gateway => "before the replica".to_owned(),
        TtftPart::FrontEndIn => "front end in".to_owned(),
        TtftPart::StepUnderWay => "queue: step under way".to_owned(),
        TtftPart::TokenBudget => format!("queue: {} used up", words.prompt_tokens),
        TtftPart::Seats => format!("queue: {} run", words.running),
        TtftPart::KvPool => "queue: KV pool".to_owned(),
        TtftPart::OtherWait => "queue: other rules".to_owned(),
        TtftPart::Preempted => "preempted".to_owned(),
        TtftPart::StepAhead => "step ahead".to_owned(),
        TtftPart::OwnPrefill => "own prefill".to_owned(),
        TtftPart::Interference => "interference".to_owned(),
        TtftPart::HandOver => "hand-over".to_owned(),
        TtftPart::FrontEndOut => "front end out".to_owned(),
    }
}

/// A part of a time per output token, in a few words.
#[must_use]
pub fn tpot_part(part: TpotPart) -> &'static str {
    match part {
        TpotPart::Decode => "decodes alone",
        TpotPart::Prompts => "prompts in their steps",
        TpotPart::Preempted => "preempted",
        TpotPart::NoStep => "no step",
        TpotPart::Delivery => "delivery",
    }
}

/// A group's name as a head of a column.
pub(super) fn told(name: &str) -> &str {
    match name {
        "p50" => "around p50",
        "p90" => "around p90",
        "p99" => "around p99",
        "slowest_10_percent" => "slowest 10 %",
        "slowest_1_percent" => "slowest 1 %",
        other => other,
    }
}

/// `queue 131 ms + interference 72.0 ms + own prefill 31.0 ms`: the parts that matter, the largest first; of the wait in the queue the sum.
#[must_use]
pub fn sum(group: &Group) -> String {
    let part = |part: TtftPart| group.part_s(part);
    let mut parts = vec![
        ("before the replica", part(TtftPart::Gateway)),
        ("queue", group.queue_s()),
        ("preempted", part(TtftPart::Preempted)),
        ("step ahead", part(TtftPart::StepAhead)),
        ("own prefill", part(TtftPart::OwnPrefill)),
        ("interference", part(TtftPart::Interference)),
        ("hand-over", part(TtftPart::HandOver)),
        (
            "front end",
            part(TtftPart::FrontEndIn) + part(TtftPart::FrontEndOut),
        ),
    ];
    parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let (worth, rest): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .partition(|(_, seconds)| seconds.abs() > WORTH_A_WORD * group.ttft_s());
    let rest: f64 = rest.into_iter().map(|(_, seconds)| seconds).sum();
    let left = (rest.abs() > WORTH_A_FIGURE * group.ttft_s()).then_some(("rest", rest));
    let told = worth.into_iter().chain(left);
    let told: Vec<String> = told
        .map(|(name, seconds)| format!("{name} {}", signed(seconds)))
        .collect();
    told.join(" + ")
}

/// Both tables; empty where nobody was answered.
#[must_use]
pub fn tables(anatomies: &Anatomies, words: EngineWords) -> String {
    let groups = anatomies.by_ttft();
    if groups.is_empty() {
        return String::new();
    }
    let sampled = match anatomies.one_in {
        1 => String::new(),
        nth => format!(", one in {nth} of {}", count(anatomies.answered)),
    };
    let mut text = format!("\nwhere the time to first token goes (means that add up{sampled}):\n");
    text += &ttft(&groups, words);
    let tokens = anatomies.by_tpot();
    if !tokens.is_empty() {
        text += "\nwhere the time per output token goes:\n";
        text += &tpot(&tokens);
    }
    text
}

fn ttft(groups: &[Group], words: EngineWords) -> String {
    let heads = groups.iter().map(|group| Column::right(told(group.name)));
    let columns: Vec<Column> = std::iter::once(Column::left("")).chain(heads).collect();
    let row = |name: String, figure: &dyn Fn(&Group) -> String| -> Vec<String> {
        std::iter::once(name).chain(groups.iter().map(figure)).collect()
    };
    let mut rows = vec![row("time to first token".to_owned(), &|group| {
        time(group.ttft_s())
    })];
    for part in TtftPart::ALL {
        let is_there = groups.iter().any(|group| group.part_s(part).abs() > PICOSECOND);
        if is_there || matches!(part, TtftPart::OwnPrefill | TtftPart::Interference) {
            rows.push(row(format!("  {}", ttft_part(part, words)), &|group| {
                signed(group.part_s(part))
            }));
        }
    }
    rows.push(row("requests".to_owned(), &|group| count(group.requests)));
    rows.push(row("prompt tokens to compute".to_owned(), &|group| {
        count(group.prompt_tokens.round() as u64)
    }));
    table(&columns, &rows)
}

fn tpot(groups: &[TokenGroup]) -> String {
    let heads = groups.iter().map(|group| Column::right(told(group.name)));
    let columns: Vec<Column> = std::iter::once(Column::left("")).chain(heads).collect();
    let row = |name: String, figure: &dyn Fn(&TokenGroup) -> String| -> Vec<String> {
        std::iter::once(name).chain(groups.iter().map(figure)).collect()
    };
    let mut rows = vec![row("time per output token".to_owned(), &|group| {
        time(group.tpot_s())
    })];
    for part in TpotPart::ALL {
        let is_there = groups.iter().any(|group| group.part_s(part).abs() > PICOSECOND);
        if is_there || part == TpotPart::Decode {
            rows.push(row(format!("  {}", tpot_part(part)), &|group| {
                signed(group.part_s(part))
            }));
        }
    }
    rows.push(row("requests".to_owned(), &|group| count(group.requests)));
    table(&columns, &rows)
}

/// A duration with its sign; `0` of none.
fn signed(seconds: f64) -> String {
    match seconds {
        none if none.abs() <= PICOSECOND => "0".to_owned(),
        negative if negative < 0.0 => format!("−{}", time(-negative)),
        positive => time(positive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(parts: &[(TtftPart, f64)]) -> Group {
        let mut parts_s = [0.0; TtftPart::COUNT];
        parts
            .iter()
            .for_each(|(part, seconds)| parts_s[*part as usize] = *seconds);
        Group {
            name: "p99",
            ranks: (0.9875, 0.9925),
            requests: 10,
            parts_s,
            prompt_tokens: 1024.0,
        }
    }

    #[test]
    fn a_sum_names_what_matters_and_the_sign_of_what_is_less_than_nothing() {
        let mut of = vec![
            (TtftPart::KvPool, 0.100),
            (TtftPart::StepUnderWay, 0.031),
            (TtftPart::OwnPrefill, 0.040),
            (TtftPart::FrontEndIn, 0.006),
            (TtftPart::FrontEndOut, 0.006),
            (TtftPart::StepAhead, 0.0001),
        ];
        assert_eq!(
            sum(&group(&of)),
            "queue 131 ms + own prefill 40.0 ms + front end 12.0 ms"
        );
        of.push((TtftPart::Interference, -0.010));
        assert!(
            sum(&group(&of)).ends_with(" + interference −10.0 ms"),
            "{}",
            sum(&group(&of))
        );
        let shown = ttft(&[group(&of)], EngineWords::default());
        assert!(
            shown.contains("queue: KV pool") && !shown.contains("hand-over"),
            "{shown}"
        );
    }
}
