//! Means over requests that are alike: all of them, those about a percentile, the slowest.

use super::{RequestAnatomy, TpotPart, TtftPart};
use crate::units::PICOS_PER_SECOND;

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anatomies {
    requests: Vec<RequestAnatomy>,
    /// One in so many answered requests is among them.
    pub one_in: u64,
    /// Requests that were answered.
    pub answered: u64,
}

/// Requests by their time to first token.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// `all`, `p50`, `p99`, `slowest_1_percent` …
    pub name: &'static str,
    /// Of the ranked requests those from here to there, in 0..=1.
    pub ranks: (f64, f64),
    /// How many they are.
    pub requests: u64,
    /// Means of the parts in seconds, by [`TtftPart`].
    pub parts_s: [f64; TtftPart::COUNT],
    /// Mean prompt tokens that they computed themselves.
    pub prompt_tokens: f64,
}

impl Group {
    /// Mean time to first token in seconds: the parts together.
    #[must_use]
    pub fn ttft_s(&self) -> f64 {
        self.parts_s.iter().sum()
    }

    /// A part's mean in seconds.
    #[must_use]
    pub fn part_s(&self, part: TtftPart) -> f64 {
        self.parts_s[part as usize]
    }

    /// Mean wait in the engine's queue in seconds.
    #[must_use]
    pub fn queue_s(&self) -> f64 {
        TtftPart::QUEUE.into_iter().map(|part| self.part_s(part)).sum()
    }
}

/// Requests by their time per output token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenGroup {
    /// `all`, `slowest_1_percent`.
    pub name: &'static str,
    /// How many they are.
    pub requests: u64,
    /// Means over requests of each part, per output token, in seconds, by [`TpotPart`].
    pub parts_s: [f64; TpotPart::COUNT],
}

impl TokenGroup {
    /// Mean time per output token in seconds: the parts together.
    #[must_use]
    pub fn tpot_s(&self) -> f64 {
        self.parts_s.iter().sum()
    }

    /// A part's mean in seconds.
    #[must_use]
    pub fn part_s(&self, part: TpotPart) -> f64 {
        self.parts_s[part as usize]
    }
}

/// Which requests are looked at together, by their ranks. About a percentile: so many on either side that their mean is close to it.
const GROUPS: [(&str, f64, f64); 6] = [
    ("all", 0.0, 1.0),
    ("p50", 0.49, 0.51),
    ("p90", 0.8975, 0.9025),
    ("p99", 0.9875, 0.9925),
    ("slowest_10_percent", 0.9, 1.0),
    ("slowest_1_percent", 0.99, 1.0),
];

const TOKEN_GROUPS: [(&str, f64, f64); 3] = [
    ("all", 0.0, 1.0),
    ("slowest_10_percent", 0.9, 1.0),
    ("slowest_1_percent", 0.99, 1.0),
];

impl Anatomies {
    /// All that were answered, in order of leaving.
    #[must_use]
    pub fn of(requests: Vec<RequestAnatomy>) -> Anatomies {
        let answered = requests.len() as u64;
        Anatomies::new(requests, 1, answered)
    }

    pub(super) fn new(requests: Vec<RequestAnatomy>, one_in: u64, answered: u64) -> Anatomies {
        Anatomies {
            requests,
            one_in,
            answered,
        }
    }

    /// Those that left within a stretch of so many seconds: behind its begin, up to its end.
    #[must_use]
    pub fn within(mut self, (begin_s, end_s): (f64, f64)) -> Anatomies {
        let is_within = |request: &RequestAnatomy| {
            let ended_s = request.ended.seconds();
            ended_s > begin_s && ended_s <= end_s
        };
        self.requests.retain(is_within);
        self
    }

    /// Each request that is kept, in order of leaving.
    #[must_use]
    pub fn requests(&self) -> &[RequestAnatomy] {
        &self.requests
    }

    /// Groups by time to first token; empty where nobody was answered.
    #[must_use]
    pub fn by_ttft(&self) -> Vec<Group> {
        let mut ranked: Vec<&RequestAnatomy> = self.requests.iter().collect();
        ranked.sort_by_key(|request| request.ttft_picos());
        let group = |(name, low, high)| {
            let members = slice(&ranked, low, high)?;
            let requests = members.len() as f64;
            let mean = |part: usize| {
                let sum: i128 = members.iter().map(|request| i128::from(request.ttft[part])).sum();
                sum as f64 / PICOS_PER_SECOND as f64 / requests
            };
            let tokens: u64 = members
                .iter()
                .map(|request| u64::from(request.prompt_tokens))
                .sum();
            Some(Group {
                name,
                ranks: (low, high),
                requests: members.len() as u64,
                parts_s: std::array::from_fn(mean),
                prompt_tokens: tokens as f64 / requests,
            })
        };
        GROUPS.into_iter().filter_map(group).collect()
    }

    /// Groups by time per output token; empty where nobody had two tokens.
    #[must_use]
    pub fn by_tpot(&self) -> Vec<TokenGroup> {
        let mut ranked: Vec<(f64, &RequestAnatomy)> = self
            .requests
            .iter()
            .filter_map(|request| Some((request.tpot_s()?, request)))
            .collect();
        ranked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let group = |(name, low, high)| {
            let members = slice(&ranked, low, high)?;
            let mean = |part: usize| {
                let per_token = |(_, request): &(f64, &RequestAnatomy)| {
                    request.tokens.map_or(0.0, |tokens| tokens[part] as f64) / f64::from(request.gaps)
                };
                let sum: f64 = members.iter().map(per_token).sum();
                sum / PICOS_PER_SECOND as f64 / members.len() as f64
            };
            Some(TokenGroup {
                name,
                requests: members.len() as u64,
                parts_s: std::array::from_fn(mean),
            })
        };
        TOKEN_GROUPS.into_iter().filter_map(group).collect()
    }
}

/// The members between two ranks, one at least.
fn slice<T>(ranked: &[T], low: f64, high: f64) -> Option<&[T]> {
    let at = |rank: f64| (rank * ranked.len() as f64).round() as usize;
    let begin = at(low).min(ranked.len().checked_sub(1)?);
    Some(&ranked[begin..at(high).max(begin + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Picos;

    #[test]
    fn groups_are_slices_of_the_ranks_and_their_parts_add_up() {
        let request = |nth: u64| {
            let mut ttft = [0; TtftPart::COUNT];
            ttft[TtftPart::OwnPrefill as usize] = 1_000_000_000;
            ttft[TtftPart::Seats as usize] = (nth * 1_000_000_000) as i64;
            RequestAnatomy {
                ended: Picos(nth * PICOS_PER_SECOND),
                ttft,
                tokens: (nth > 0).then_some([(nth * 2_000_000_000) as i64, 0, 0, 0, 0]),
                gaps: 2,
                prompt_tokens: 100,
            }
        };
        // Out of order, as they leave.
        let requests: Vec<RequestAnatomy> = (0..1000).rev().map(request).collect();
        let all = Anatomies::of(requests);
        let groups = all.by_ttft();
        let of = |name: &str| groups.iter().find(|group| group.name == name).unwrap();
        assert_eq!((of("all").requests, of("slowest_1_percent").requests), (1000, 10));
        assert!((of("slowest_1_percent").ttft_s() - 0.9955).abs() < 1e-12);
        assert!((of("p50").ttft_s() - 0.5005).abs() < 1e-12 && (of("p50").queue_s() - 0.4995).abs() < 1e-12);
        let tokens = all.by_tpot();
        assert_eq!(tokens[0].requests, 999);
        assert!((tokens[0].tpot_s() - 0.5).abs() < 1e-12, "{tokens:?}");
        let late = all.clone().within((899.0, 2000.0));
        assert_eq!(late.requests().len(), 100);
        assert!(Anatomies::default().by_ttft().is_empty() && Anatomies::default().by_tpot().is_empty());
        assert_eq!(all.within((4.0, 5.0)).by_ttft().len(), 6, "one is all groups");
    }
}
