//! How many replicas a rate needs, as the first line of a knee search and the lines that qualify it.

use super::figures::{count, counted, percent, significant};
use super::views::Sizing;
use crate::analysis::knee::Fleet;

/// With the certainty of the knee's interval: `3 replicas for 40.0 req/s (95 % [3, 3]): 3 × H100-SXM-80GB, 8.97 $/h, 0.291 $/M output tokens`.
pub(super) fn headline(sizing: &Sizing, certainty: &str) -> Option<String> {
    let rate = significant(sizing.demand.rate);
    let fleet = sizing.fleet.as_ref()?;
    let (fewest, most) = fleet.replicas_95;
    let mut text = format!(
        "{} for {rate} req/s  ({certainty} [{}, {}])   {} × {}",
        counted(fleet.replicas, "replica"),
        count(fewest),
        most.map_or("not bounded".to_owned(), count),
        count(fleet.gpus),
        sizing.gpu
    );
    if let Some(usd) = fleet.usd_per_hour {
        text += &format!(", {} $/h", dollars(usd));
    }
    if let Some(usd) = fleet.usd_per_million_output_tokens {
        let of = whose(sizing);
        text += &format!(", {} $/M output tokens{of}", dollars(usd));
    }
    Some(text)
}

/// What qualifies the answer: (name, sentence).
pub(super) fn lines(sizing: &Sizing, is_interrupted: bool) -> Vec<(&'static str, String)> {
    let Some(fleet) = &sizing.fleet else {
        let why = match is_interrupted {
            true => "not counted: the search was stopped before one replica's knee was known",
            false => "no number of them helps: one alone keeps the promise at no rate that was tried",
        };
        return vec![("replicas", why.to_owned())];
    };
    let mut lines = vec![("each", load(fleet))];
    if let Some((fewest, most)) = fleet.replicas_model_90 {
        let (fewest, most) = (count(fewest), count(most));
        lines.push((
            "replicas ±",
            format!("{fewest} to {most}, if the step time's parameters are off as `model ±` says, 90 %"),
        ));
    }
    if let Some(usd) = fleet.usd_per_million_tokens {
        let price = sizing.demand.usd_per_gpu_hour.unwrap_or_default();
        let source = sizing
            .price_source
            .as_deref()
            .map_or(String::new(), |source| format!(" ({source})"));
        lines.push((
            "cost",
            format!(
                "{} $ per million tokens, prompts and outputs{}, at {} $ per GPU-hour{source}",
                dollars(usd),
                whose(sizing),
                dollars(price)
            ),
        ));
    } else if sizing.demand.usd_per_gpu_hour.is_none() {
        lines.push(("cost", "the GPU's profile has no price: give --price".to_owned()));
    }
    let beside = match sizing.beside.as_slice() {
        [] => String::new(),
        beside => format!(
            "; and beside that share on each of the {} what has no rate, as one replica had it: {}",
            counted(fleet.replicas, "replica"),
            beside.join(", ")
        ),
    };
    lines.push((
        "supposes",
        format!(
            "a router that gives every replica an equal share (perfect round robin), replicas that share nothing, and none that \
             fails{beside}"
        ),
    ));
    if sizing.slows_a_trace {
        let why = "the trace is slowed down to a replica's share, which stretches its bursts; a router would thin it. \
                   `trace --fit` makes a workload whose rate is scaled instead";
        lines.push(("but", why.to_owned()));
    }
    lines
}

/// Whose tokens the dollars are divided by, where not all of them come with the rate.
fn whose(sizing: &Sizing) -> &'static str {
    if sizing.beside.is_empty() {
        ""
    } else {
        " of all that is sent"
    }
}

/// How hard each replica is loaded, and what the loss of one makes of it.
fn load(fleet: &Fleet) -> String {
    let each = format!(
        "{} req/s, {} of its knee",
        significant(fleet.rate_each),
        percent(fleet.load)
    );
    match fleet.load_one_lost {
        None => format!("{each}; the loss of the only one is the loss of the service"),
        Some(more) if more <= 1.0 => format!(
            "{each}; with one lost {}, still within the promise",
            percent(more)
        ),
        Some(more) => format!("{each}; with one lost {}, beyond it", percent(more)),
    }
}

/// Two decimals as prices have them, whole dollars from a thousand on, and three figures below a cent's tenfold.
fn dollars(usd: f64) -> String {
    if usd >= 1000.0 {
        count(usd.round() as u64)
    } else if usd >= 0.1 || usd == 0.0 {
        format!("{usd:.2}")
    } else {
        significant(usd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;

    #[test]
    fn the_first_line_says_how_many_and_the_next_on_what_terms() {
        let mut view = fixtures::knee_view();
        view.sizing = Some(fixtures::sizing());
        let printed = super::super::knee_text(&view, super::super::Style::default());
        let lines: Vec<&str> = printed.lines().take(8).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        2 replicas for 40.0 req/s  (95 % [2, 2])   4 × H100-SXM-80GB, 11.96 $/h, 0.65 $/M output tokens
        24.2 req/s within SLO  (95 % [22.9, 25.3])   saturates at 27.6 req/s (95 % [26.1, 29.0])
          each        20.0 req/s, 82.6 % of its knee; with one lost 165 %, beyond it
          replicas ±  2 to 3, if the step time's parameters are off as `model ±` says, 90 %
          cost        0.0721 $ per million tokens, prompts and outputs, at 2.99 $ per GPU-hour (assumed list
                      price of 2025-10-01)
          supposes    a router that gives every replica an equal share (perfect round robin), replicas that
                      share nothing, and none that fails
        ");
        view.sizing.as_mut().unwrap().slows_a_trace = true;
        let printed = super::super::knee_text(&view, super::super::Style::default());
        assert!(
            printed.contains("  but         the trace is slowed down"),
            "{printed}"
        );
        assert_eq!(
            [0.0721, 0.65, 71.76, 372_537.2].map(super::dollars),
            ["0.0721", "0.65", "71.76", "372,537"]
        );
        // A loop has no rate that could be shared out, so each replica has it whole, and its tokens are paid, too.
        view.sizing.as_mut().unwrap().beside = vec!["8 of loop in flight".to_owned()];
        let printed = super::super::knee_text(&view, super::super::Style::default());
        let joined = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            joined.contains("0.65 $/M output tokens of all that is sent")
                && joined.contains(
                    "on each of the 2 replicas what has no rate, as one replica had it: 8 of loop in flight"
                ),
            "{printed}"
        );
        view.sizing.as_mut().unwrap().fleet = None;
        view.knee = None;
        let printed = super::super::knee_text(&view, super::super::Style::default());
        assert!(printed.starts_with("NO RATE meets the SLO"), "{printed}");
        assert!(
            printed.contains("  replicas    no number of them helps"),
            "{printed}"
        );
    }
}
