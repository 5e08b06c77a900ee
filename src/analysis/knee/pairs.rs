//! The cheapest numbers of replicas that prefill and that decode and meet the SLO together, found by simulating them.
//!
//! Supposed: more replicas of either pool serve no worse. Then the pairs that meet the SLO are bounded by a staircase, and the
//! search knows the cheapest on it when two corners miss the SLO: the one with a replica that prefills less and as many that
//! decode as any cheaper pair has, and the same the other way round. Whatever is cheaper has no more of either pool than one of them.
//!
//! It is only nearly true. Round robin deals others to each, and a replica more that prefills sends its prompts' KV in other
//! company. So the neighbours of the answer are tried, too, and the answer is the cheapest of all that were seen to meet the SLO.
//!
//! A pair whose run does not tell is none that keeps it.

use super::point::Point;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOptions {
    /// The first pair tried, replicas that prefill and that decode; any guess will do.
    pub start: (u64, u64),
    /// What one replica of each pool costs, above 0 and in one unit.
    pub costs: (f64, f64),
    /// No more than so many of either are tried.
    pub replicas_max: u64,
    /// Runs at most.
    pub runs_max: usize,
}

/// So many replicas of each pool, and what became of the traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Replicas that prefill.
    pub prefill: u64,
    /// Replicas that decode.
    pub decode: u64,
    /// Their run, at the rate that they are counted for.
    pub point: Point,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// The answer.
    pub ending: PairEnding,
    /// All that were tried, the cheapest first, and of those that cost the same the one with the fewest that prefill.
    pub tried: Vec<Pair>,
}

/// How a search came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEnding {
    /// The cheapest pair that was seen to meet the SLO.
    Found {
        /// Replicas that prefill.
        prefill: u64,
        /// Replicas that decode.
        decode: u64,
        /// All that is cheaper is ruled out, as far as more replicas serve no worse; otherwise the search was stopped.
        is_cheapest: bool,
    },
    /// No pair up to the most allowed of each keeps it.
    TooMany,
    /// The runs of several pairs do not tell whether they do, and no other was seen to.
    Untold,
    /// The caller stopped it, or it ran out of runs.
    Stopped,
}

impl Pairs {
    /// The run of such a pair, if it was tried.
    #[must_use]
    pub fn pair(&self, prefill: u64, decode: u64) -> Option<&Pair> {
        let mut tried = self.tried.iter();
        tried.find(|pair| (pair.prefill, pair.decode) == (prefill, decode))
    }
}

/// Searches by `evaluate`, which simulates a pair on one and the same traffic, or gives `None` where it was stopped.
///
/// # Panics
/// If no number is allowed, or a replica costs nothing.
pub fn cheapest_pair(evaluate: impl FnMut(u64, u64) -> Option<Point>, options: &PairOptions) -> Pairs {
    let (prefill, decode) = options.costs;
    assert!(options.replicas_max > 0, "a pool has a replica");
    assert!(prefill > 0.0 && decode > 0.0, "a replica costs something");
    let mut tried = Tried {
        evaluate,
        pairs: Vec::new(),
        options: *options,
    };
    let ending = match tried.first_that_keeps() {
        Err(ending) => ending,
        Ok(ample) => {
            let is_cheapest = tried.narrow(ample).is_ok();
            let (prefill, decode) = tried.best().expect("one meets the SLO");
            PairEnding::Found {
                prefill,
                decode,
                is_cheapest,
            }
        }
    };
    let mut pairs = tried.pairs;
    let cost = |pair: &Pair| cost(options, (pair.prefill, pair.decode));
    pairs.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.prefill.cmp(&b.prefill)));
    Pairs { ending, tried: pairs }
}

/// Pairs whose runs do not tell, after which no more are tried where none is seen to meet the SLO.
const UNTOLD_MAX: usize = 4;
/// Costs that are sums of the same prices in another order differ by no more.
const ROUNDING: f64 = 1e-9;

fn cost(options: &PairOptions, (prefill, decode): (u64, u64)) -> f64 {
    prefill as f64 * options.costs.0 + decode as f64 * options.costs.1
}

/// The pool of which fewer are tried.
#[derive(Clone, Copy)]
enum Fewer {
    Prefill,
    Decode,
}

impl Fewer {
    /// A pair with that pool first, from one with the pool that prefills first, and back.
    fn first<T>(self, (prefill, decode): (T, T)) -> (T, T) {
        match self {
            Fewer::Prefill => (prefill, decode),
            Fewer::Decode => (decode, prefill),
        }
    }
}

struct Tried<F> {
    evaluate: F,
    pairs: Vec<Pair>,
    options: PairOptions,
}

impl<F: FnMut(u64, u64) -> Option<Point>> Tried<F> {
    /// From the guess on, with twice as many of both each time.
    fn first_that_keeps(&mut self) -> Result<(u64, u64), PairEnding> {
        let most = self.options.replicas_max;
        let (prefill, decode) = self.options.start;
        let (mut prefill, mut decode) = (prefill.clamp(1, most), decode.clamp(1, most));
        while !self.keeps(prefill, decode)? {
            if (prefill, decode) == (most, most) {
                return Err(PairEnding::TooMany);
            }
            (prefill, decode) = ((2 * prefill).min(most), (2 * decode).min(most));
        }
        Ok((prefill, decode))
    }

    /// From a pair that meets the SLO to the cheapest that does: fewer of both in one ratio, fewer of each, and then along the
    /// staircase both ways.
    fn narrow(&mut self, (prefill, decode): (u64, u64)) -> Result<(), PairEnding> {
        let larger = prefill.max(decode);
        let part = |of: u64| ((prefill * of).div_ceil(larger), (decode * of).div_ceil(larger));
        let of = self.fewest((0, larger), |tried, of| tried.keeps(part(of).0, part(of).1))?;
        let (prefill, ample) = part(of);
        let prefill = self.fewest((0, prefill), |tried, prefill| tried.keeps(prefill, ample))?;
        let decode = self.fewest((0, ample), |tried, decode| tried.keeps(prefill, decode))?;
        self.fewer_of(Fewer::Prefill, (prefill, decode))?;
        self.fewer_of(Fewer::Decode, (prefill, decode))?;
        self.neighbours()
    }

    /// Whether fewer of one pool, and more of the other, are cheaper than a pair that meets the SLO.
    fn fewer_of(&mut self, fewer: Fewer, found: (u64, u64)) -> Result<(), PairEnding> {
        let ((few, many), (each, other)) = (fewer.first(found), fewer.first(self.options.costs));
        let keeps = |tried: &mut Self, few: u64, many: u64| {
            let (prefill, decode) = fewer.first((few, many));
            tried.keeps(prefill, decode)
        };
        for few in (1..few).rev() {
            let most = self.affordable(few as f64 * each, other);
            if most >= many && keeps(self, few, most)? {
                self.fewest((many - 1, most), |tried, many| keeps(tried, few, many))?;
                continue;
            }
            // With as many of the other as any cheaper pair has.
            let corner = self.affordable(each, other);
            if corner < many || !keeps(self, few, corner)? {
                break;
            }
        }
        Ok(())
    }

    /// How many replicas at such a price make a pair that is cheaper than the best that was found, beside what is spent on the others.
    fn affordable(&self, spent: f64, each: f64) -> u64 {
        let best = self.best().expect("one meets the SLO");
        let left = (cost(&self.options, best) * (1.0 - ROUNDING) - spent) / each;
        (left.max(0.0) as u64).min(self.options.replicas_max)
    }

    /// The pairs about the best: with one less of a pool, and with that one in the other pool.
    fn neighbours(&mut self) -> Result<(), PairEnding> {
        loop {
            let (prefill, decode) = self.best().expect("one meets the SLO");
            let most = self.options.replicas_max;
            let about = [
                (prefill - 1, decode),
                (prefill, decode - 1),
                (prefill + 1, decode - 1),
                (prefill - 1, decode + 1),
            ];
            for (prefill, decode) in about {
                if (1..=most).contains(&prefill) && (1..=most).contains(&decode) {
                    self.keeps(prefill, decode)?;
                }
            }
            if self.best() == Some((prefill, decode)) {
                return Ok(());
            }
        }
    }

    /// The fewest above one number and up to another that meets the SLO.
    fn fewest(
        &mut self,
        (mut low, mut high): (u64, u64),
        mut keeps: impl FnMut(&mut Self, u64) -> Result<bool, PairEnding>,
    ) -> Result<u64, PairEnding> {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match keeps(self, middle)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(high)
    }

    /// The cheapest that was seen to meet the SLO, and of equals the one with the most room.
    fn best(&self) -> Option<(u64, u64)> {
        let kept = self.pairs.iter().filter(|pair| pair.point.is_within());
        let room = |pair: &Pair| pair.point.slack.map_or(0.0, |slack| slack.value);
        let best = kept.reduce(|best, pair| {
            let of = |pair: &Pair| cost(&self.options, (pair.prefill, pair.decode));
            let (own, least) = (of(pair), of(best));
            let is_equal = (own - least).abs() <= ROUNDING * least;
            match (is_equal && room(pair) > room(best)) || (!is_equal && own < least) {
                true => pair,
                false => best,
            }
        });
        best.map(|pair| (pair.prefill, pair.decode))
    }

    fn keeps(&mut self, prefill: u64, decode: u64) -> Result<bool, PairEnding> {
        let mut known = self.pairs.iter();
        let known = known.position(|pair| (pair.prefill, pair.decode) == (prefill, decode));
        let at = match known {
            Some(at) => at,
            None => {
                if self.pairs.len() >= self.options.runs_max {
                    return Err(PairEnding::Stopped);
                }
                let point = (self.evaluate)(prefill, decode).ok_or(PairEnding::Stopped)?;
                self.pairs.push(Pair {
                    prefill,
                    decode,
                    point,
                });
                self.pairs.len() - 1
            }
        };
        let is_untold = |pair: &&Pair| pair.point.is_unknown && pair.point.keeps_up();
        let untold = self.pairs.iter().filter(is_untold).count();
        let is_any_kept = self.pairs.iter().any(|pair| pair.point.is_within());
        match untold >= UNTOLD_MAX && !is_any_kept {
            true => Err(PairEnding::Untold),
            false => Ok(self.pairs[at].point.is_within()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::exact;
    use super::*;
    use crate::analysis::Estimate;

    fn with_slack(slack: f64) -> Point {
        let mut point = exact(1.0);
        point.slack = Some(Estimate {
            value: slack,
            low: slack,
            high: slack,
        });
        point
    }

    fn options(start: (u64, u64), costs: (f64, f64)) -> PairOptions {
        PairOptions {
            start,
            costs,
            replicas_max: 64,
            runs_max: 200,
        }
    }

    /// Each pool by itself: so many a second of a replica.
    fn apart(rate: f64, each: (f64, f64)) -> impl Fn(u64, u64) -> f64 {
        move |prefill, decode| (prefill as f64 * each.0).min(decode as f64 * each.1) - rate
    }

    /// What one pool leaves of a latency the other may take.
    fn together(limit: f64) -> impl Fn(u64, u64) -> f64 {
        move |prefill, decode| limit - 1.0 / prefill as f64 - 3.0 / decode as f64
    }

    fn check(slack: &dyn Fn(u64, u64) -> f64, start: (u64, u64), costs: (f64, f64)) -> usize {
        let options = options(start, costs);
        let found = cheapest_pair(
            |prefill, decode| Some(with_slack(slack(prefill, decode))),
            &options,
        );
        let all = (1..=64).flat_map(|prefill| (1..=64).map(move |decode| (prefill, decode)));
        let kept = all.filter(|&(prefill, decode)| slack(prefill, decode) >= 0.0);
        let least = kept
            .map(|pair| cost(&options, pair))
            .fold(f64::INFINITY, f64::min);
        let PairEnding::Found {
            prefill,
            decode,
            is_cheapest,
        } = found.ending
        else {
            panic!("{:?} from {start:?}", found.ending);
        };
        assert!(is_cheapest, "from {start:?} at {costs:?}");
        let own = cost(&options, (prefill, decode));
        assert!(
            (own - least).abs() < 1e-9,
            "{own}, and {least} is possible: {costs:?}"
        );
        assert!(found.pair(prefill, decode).is_some());
        found.tried.len()
    }

    #[test]
    fn the_cheapest_pair_is_that_of_a_search_of_all() {
        for costs in [(1.0, 1.0), (3.0, 1.0), (1.0, 3.0), (0.99, 7.9)] {
            for start in [(1, 1), (2, 9), (40, 40)] {
                let runs = check(&apart(20.0, (3.0, 1.1)), start, costs);
                assert!(runs <= 24, "{runs} runs");
                check(&apart(0.5, (3.0, 1.1)), start, costs);
                let runs = check(&together(0.45), start, costs);
                assert!(runs <= 45, "{runs} runs");
            }
            // From a guess that is as wrong as can be it takes longer.
            check(&together(0.45), (100, 1), costs);
        }
    }

    /// Three that decode would do but for luck: nothing that is nearer is passed over.
    #[test]
    fn a_neighbour_that_keeps_the_promise_though_more_do_not_is_found() {
        let lucky = |prefill, decode| match (prefill, decode) {
            (2, 3) => 0.1,
            _ => apart(8.0, (4.0, 2.0))(prefill, decode),
        };
        let found = cheapest_pair(
            |prefill, decode| Some(with_slack(lucky(prefill, decode))),
            &options((2, 4), (1.0, 1.0)),
        );
        assert!(
            matches!(
                found.ending,
                PairEnding::Found {
                    prefill: 2,
                    decode: 3,
                    ..
                }
            ),
            "{:?}",
            found.ending
        );
    }

    #[test]
    fn of_pairs_that_cost_the_same_the_one_with_more_room_is_the_answer() {
        let either = |prefill: u64, decode: u64| match (prefill + decode, prefill) {
            (5, 3) => 0.2,
            (5, 2) => 0.1,
            (5, _) => 0.0,
            (..5, _) => -1.0,
            _ => 0.3,
        };
        let found = cheapest_pair(
            |prefill, decode| Some(with_slack(either(prefill, decode))),
            &options((2, 3), (1.0, 1.0)),
        );
        assert!(
            matches!(
                found.ending,
                PairEnding::Found {
                    prefill: 3,
                    decode: 2,
                    ..
                }
            ),
            "{:?}",
            found.ending
        );
    }

    #[test]
    fn a_search_that_comes_to_no_end_says_how() {
        let ending = |evaluate: &mut dyn FnMut(u64, u64) -> Option<Point>| {
            cheapest_pair(evaluate, &options((1, 1), (1.0, 1.0))).ending
        };
        assert_eq!(ending(&mut |_, _| Some(with_slack(-1.0))), PairEnding::TooMany);
        assert_eq!(ending(&mut |_, _| None), PairEnding::Stopped);
        let mut left = 3;
        let cut = ending(&mut |prefill, decode| {
            left -= 1;
            (left >= 0).then(|| with_slack(apart(3.0, (1.0, 1.0))(prefill, decode)))
        });
        let expected = PairEnding::Found {
            prefill: 4,
            decode: 4,
            is_cheapest: false,
        };
        assert_eq!(cut, expected);
        let untold = ending(&mut |_, _| {
            let mut point = with_slack(0.0);
            (point.slack, point.is_unknown) = (None, true);
            Some(point)
        });
        assert_eq!(untold, PairEnding::Untold);
    }
}
