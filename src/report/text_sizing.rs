//! How many replicas a rate needs, as the first line of a knee search and the lines that qualify it.

use super::figures::{count as count_of, counted, percent, significant, significant_down};
use super::views::{Counted, Sizing};
use crate::analysis::knee::{Count, CountEnding, Fleet, Point};

/// With the certainty of the knee's interval: `3 replicas for 40.0 req/s (95 % [3, 3]): 3 × H100-SXM-80GB, 8.97 $/h, 0.291 $/M output tokens`.
pub(super) fn headline(sizing: &Sizing, certainty: &str) -> Option<String> {
    let rate = significant(sizing.demand.rate);
    let fleet = sizing.fleet.as_ref()?;
    let (fewest, most) = fleet.replicas_95;
    let mut text = format!(
        "{} for {rate} req/s  ({certainty} [{}, {}])   {} × {}",
        counted(fleet.replicas, "replica"),
        count_of(fewest),
        most.map_or("not bounded".to_owned(), count_of),
        count_of(fleet.gpus),
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
pub(super) fn lines(sizing: &Sizing, is_interrupted: bool, is_clients: bool) -> Vec<(&'static str, String)> {
    let Some(fleet) = &sizing.fleet else {
        return vec![("replicas", no_number(sizing, is_interrupted, is_clients))];
    };
    let mut lines = vec![("each", load(sizing, fleet))];
    lines.extend(match &sizing.counted {
        Some(Counted::BySimulation { router, count }) => {
            Some(("counted", simulated(sizing, fleet, router.as_deref(), count)))
        }
        Some(Counted::ByKnee(why)) => Some(("counted", format!("by the knee of one, not simulated: {why}"))),
        None => None,
    });
    if let Some((fewest, most)) = fleet.replicas_model_90 {
        lines.push((
            "replicas ±",
            at_model_ends(&count_of(fewest), most.map(count_of).as_deref()),
        ));
    }
    if sizing.shares_bursts() {
        let why = "not known: `model ±` is of one replica's knee, which has bursts of its own, and says little of replicas that share \
                   them";
        lines.push(("replicas ±", why.to_owned()));
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
        lines.push(("cost", "no price is known: give --price".to_owned()));
    }
    lines.push(("supposes", supposed(sizing, fleet)));
    if matches!(sizing.counted, Some(Counted::ByKnee(_))) && sizing.is_bursty {
        let why = "arrivals are slowed down to a replica's share, and keep their bursts: replicas behind one router share \
                   them, so that fewer are enough";
        lines.push(("but", why.to_owned()));
    }
    lines
}

/// What is needed at both ends of `model ±`, of which the slow one may have no number because the knee there [does not
/// scale](crate::analysis::knee::scales).
pub(super) fn at_model_ends(fewest: &str, most: Option<&str>) -> String {
    match most {
        Some(most) if most == fewest => format!("{fewest} in any case, {IF_OFF}"),
        Some(most) => format!("{fewest} to {most}, {IF_OFF}"),
        None => format!(
            "at least {fewest}, {IF_OFF}. How many at most cannot be told: at the slow end the knee is less than half of this one, and \
             replicas help little where an SLO is near what a request takes alone"
        ),
    }
}

/// What numbers at both ends of `model ±` suppose.
pub(super) const IF_OFF: &str = "if the step time's parameters are off as `model ±` says, 90 %";

/// Why there is no number.
fn no_number(sizing: &Sizing, is_interrupted: bool, is_clients: bool) -> String {
    match &sizing.counted {
        Some(Counted::BySimulation { count, .. }) => match (count.ending, count.tried.last()) {
            (CountEnding::TooMany, Some(most)) if most.point.is_held_back() => format!(
                "no number of them helps: of {} the client holds requests back, too: as many in flight as it may have are too few for {} req/s",
                count_of(most.replicas),
                significant(sizing.demand.rate)
            ),
            (CountEnding::Untold(replicas), _) => format!(
                "not known: a run of {} has too few requests to tell whether the SLO is met{}",
                count_of(replicas),
                match is_clients {
                    true => "; of one it is the client that holds requests back, and more in flight may be what lacks",
                    false => "",
                }
            ),
            (CountEnding::TooMany, Some(most)) => format!(
                "no number of them helps: {} {}",
                keeping(most.replicas, false),
                share(&most.point)
            ),
            _ => "not counted: stopped before a number was found that meets the SLO while one less does not"
                .to_owned(),
        },
        _ if is_interrupted => {
            "not counted: the search was stopped before one replica's knee was known".to_owned()
        }
        _ if is_clients => {
            "not counted: the client is the limit of one, so that its knee, by which they would be counted, was not seen".to_owned()
        }
        _ => "no number of them helps: one alone meets the SLO at no rate that was tried".to_owned(),
    }
}

/// What was simulated, with the last number that does not meet the SLO beside the first that does.
fn simulated(sizing: &Sizing, fleet: &Fleet, router: Option<&str>, count: &Count) -> String {
    let of = |replicas: u64, keeps: bool| {
        let crew = count.crew(replicas)?;
        let told = format!("{} {}", keeping(replicas, keeps), share(&crew.point));
        // Limits on percentiles have no share of good requests.
        Some(told.trim_end().to_owned())
    };
    let behind = router.map_or(String::new(), |router| format!(" behind {router}"));
    let seen = [of(fleet.replicas, true), of(fleet.replicas - 1, false)];
    let seen: Vec<String> = seen.into_iter().flatten().collect();
    format!(
        "by simulating so many{behind}, which share all {} req/s: {}",
        significant(sizing.demand.rate),
        seen.join(", ")
    )
}

fn keeping(replicas: u64, keeps: bool) -> String {
    let does = match (replicas, keeps) {
        (1, true) => "meets the SLO",
        (_, true) => "meet the SLO",
        (1, false) => "does not",
        (_, false) => "do not",
    };
    format!("{} {does}", count_of(replicas))
}

/// `(98.7 % good)`, or why there is no share.
fn share(point: &Point) -> String {
    match point.attainment {
        Some(share) if point.keeps_up() => format!("({} good)", percent(share.value)),
        _ if point.is_held_back() => "(the client holds requests back)".to_owned(),
        _ if !point.keeps_up() => "(not all is served)".to_owned(),
        _ => String::new(),
    }
}

/// What the answer rests on.
fn supposed(sizing: &Sizing, fleet: &Fleet) -> String {
    let beside = sizing.beside.join(", ");
    if let Some(Counted::BySimulation { router, .. }) = &sizing.counted {
        let beside = match beside.as_str() {
            "" => String::new(),
            beside => format!("; and beside the rate, once before all of them, what has none: {beside}"),
        };
        // Gaps between every n-th of Poisson arrivals hardly vary.
        let turns = match router.as_deref() == Some(EVEN_ROUTER) && fleet.replicas > 1 {
            true => format!(
                ", and requests that go round in turn ({EVEN_ROUTER}), which evens out the arrivals of each: another router may need more"
            ),
            false => String::new(),
        };
        return format!("replicas that are alike, and none that fails{turns}{beside}");
    }
    let beside = match beside.as_str() {
        "" => String::new(),
        beside => format!(
            "; and beside that share on each of the {} what has no rate, as one replica had it: {beside}",
            counted(fleet.replicas, "replica")
        ),
    };
    format!(
        "a router that gives every replica an equal share (perfect round robin), replicas that share nothing, and none that \
         fails{beside}"
    )
}

/// The router behind which each replica's arrivals are more even than those of all.
const EVEN_ROUTER: &str = "round_robin";

/// Whose tokens the dollars are divided by, where not all of them come with the rate.
fn whose(sizing: &Sizing) -> &'static str {
    if sizing.beside.is_empty() {
        ""
    } else {
        " of all that is sent"
    }
}

/// What three figures may hide, relative to what they write.
const ONE_IN_THREE_FIGURES: f64 = 0.01;

/// How hard each replica is loaded, and what the loss of one makes of it.
fn load(sizing: &Sizing, fleet: &Fleet) -> String {
    // So near the knee it is rounded down as the knee beside it is, which it must not look larger than.
    let rate = match fleet.load {
        Some(load) if (1.0 - ONE_IN_THREE_FIGURES..=1.0).contains(&load) => significant_down(fleet.rate_each),
        _ => significant(fleet.rate_each),
    };
    let each = match fleet.load {
        None => format!("{rate} req/s, where one alone meets the SLO at no rate that was tried"),
        Some(load) if load > 1.0 => format!(
            "{rate} req/s, {} of the knee of one alone: together they carry more than each by itself",
            percent(load)
        ),
        Some(load) => format!("{rate} req/s, {} of its knee", percent(load)),
    };
    let is_simulated = matches!(sizing.counted, Some(Counted::BySimulation { .. }));
    match fleet.load_one_lost {
        _ if fleet.replicas == 1 => format!("{each}; the loss of the only one is the loss of the service"),
        _ if is_simulated => format!("{each}; with one lost the SLO is missed"),
        None => each,
        Some(more) if more <= 1.0 => format!("{each}; with one lost {}, still within the SLO", percent(more)),
        Some(more) => format!("{each}; with one lost {}, beyond it", percent(more)),
    }
}

/// Two decimals as prices have them, whole dollars from a thousand on, and three figures below a cent's tenfold.
#[must_use]
pub fn dollars(usd: f64) -> String {
    if usd >= 1000.0 {
        count_of(usd.round() as u64)
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
        let lines: Vec<&str> = printed.lines().take(9).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        2 replicas for 40.0 req/s  (95 % [2, 2])   4 × H100-SXM-80GB, 11.96 $/h, 0.65 $/M output tokens
        24.2 req/s within SLO  (95 % [22.9, 25.3])   saturates at 27.6 req/s (95 % [26.1, 29.0])
          each        20.0 req/s, 82.6 % of its knee; with one lost 165 %, beyond it
          counted     by the knee of one, not simulated: several data-parallel servers
          replicas ±  2 to 3, if the step time's parameters are off as `model ±` says, 90 %
          cost        0.0721 $ per million tokens, prompts and outputs, at 2.99 $ per GPU-hour (assumed list
                      price of 2025-10-01)
          supposes    a router that gives every replica an equal share (perfect round robin), replicas that
                      share nothing, and none that fails
        ");
        view.sizing.as_mut().unwrap().is_bursty = true;
        let printed = super::super::knee_text(&view, super::super::Style::default());
        assert!(
            printed.contains("  but         arrivals are slowed down"),
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
        let sizing = view.sizing.as_mut().unwrap();
        (sizing.fleet, sizing.counted) = (None, None);
        view.knee = None;
        let printed = super::super::knee_text(&view, super::super::Style::default());
        assert!(printed.starts_with("NO RATE meets the SLO"), "{printed}");
        assert!(
            printed.contains("  replicas    no number of them helps"),
            "{printed}"
        );
    }

    #[test]
    fn a_count_by_simulation_says_what_was_simulated_and_why_there_is_no_number() {
        use super::super::views::Counted;
        use crate::analysis::knee::{Count, CountEnding};
        let said = |ending| {
            let mut sizing = fixtures::sizing();
            let count = Count {
                ending,
                tried: Vec::new(),
            };
            sizing.fleet = sizing
                .fleet
                .filter(|_| matches!(ending, CountEnding::Found { .. }));
            sizing.counted = Some(Counted::BySimulation {
                router: Some("least_requests".into()),
                count,
            });
            let lines = super::lines(&sizing, false, false);
            lines
                .into_iter()
                .map(|(name, line)| format!("{name}: {line}"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let found = CountEnding::Found {
            replicas: 2,
            fewest: 2,
            most: None,
        };
        let told = said(found);
        assert!(
            told.contains("counted: by simulating so many behind least_requests, which share all 40.0 req/s"),
            "{told}"
        );
        assert!(
            told.contains("with one lost the SLO is missed") && !told.contains("perfect round robin"),
            "{told}"
        );
        for (ending, why) in [
            (CountEnding::Stopped, "not counted: stopped before"),
            (CountEnding::Untold(9), "a run of 9 has too few requests"),
        ] {
            let told = said(ending);
            assert!(told.starts_with("replicas: ") && told.contains(why), "{told}");
        }
        let mut uncounted = fixtures::sizing();
        (uncounted.fleet, uncounted.counted) = (None, None);
        let (_, told) = &super::lines(&uncounted, false, true)[0];
        assert!(told.contains("the client is the limit of one"), "{told}");
    }
}
