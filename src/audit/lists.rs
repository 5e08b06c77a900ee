//! What a file states of its requests against the lists of them in the same file: sums, means, deviations, percentiles, the
//! most in flight, and how they were sent.
//!
//! Tools define percentiles in their own ways, all of which lie between the two values beside the rank. Lists of gaps may be
//! cut, and then say nothing.

use statrs::distribution::{ContinuousCDF, Gamma};

use super::finding::{Check, Finding, Severity, show, time};
use super::requests::most_in_flight;
use crate::results::{Load, Measured, RequestTimes, Stats, Tool};

/// What two ways of adding up differ by.
const TOLERANCE: f64 = 0.02;

/// What needs no times of sending.
pub(super) fn check(row: &Measured, found: &mut Vec<Finding>) {
    tokens(row, found);
    for (name, stats, mut values) in latencies(row) {
        if stats.derived.is_none() && !values.is_empty() {
            values.sort_by(f64::total_cmp);
            found.extend(statistics(name, stats, &values));
        }
    }
}

/// What the times of sending tell, of requests in their order.
pub(super) fn sending(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    peak(row, timed, found);
    gaps_of_arrivals(row, timed, found);
}

fn unequal(what: &str, stated: String, own: String) -> Finding {
    let claim = format!("{what} is not that of the requests in the same file");
    let shown = format!("stated {stated}, from the requests {own}");
    Finding::new(Severity::Impossible, Check::CountsAgree, claim).shown(shown)
}

fn tokens(row: &Measured, found: &mut Vec<Finding>) {
    let own: f64 = row.requests.iter().map(|request| request.output_tokens).sum();
    let counted = row.outcome.output_tokens.filter(|counted| *counted > 0.0);
    let Some(counted) = counted.filter(|counted| (own / counted - 1.0).abs() > TOLERANCE) else {
        return;
    };
    found.push(unequal("the sum of output tokens", show(counted), show(own)));
}

/// What is listed of each latency; nothing of one that is listed in part.
fn latencies(row: &Measured) -> [(&'static str, &Stats, Vec<f64>); 4] {
    /// Gaps that are listed of those that there are, where lists are whole and a chunk is a token.
    const WHOLE_LISTS: f64 = 0.9;
    let requests = &row.requests;
    let tokens: f64 = requests.iter().map(|request| request.output_tokens).sum();
    let all = requests.iter().flat_map(|request| request.itls_s.iter().copied());
    let gaps: Vec<f64> = all.collect();
    let is_whole = gaps.len() as f64 >= WHOLE_LISTS * (tokens - requests.len() as f64);
    let whole: Option<Vec<f64>> = requests.iter().map(|request| request.e2el_s).collect();
    let steps = whole.as_ref().map_or_else(Vec::new, |_| {
        requests.iter().filter_map(RequestTimes::tpot_s).collect()
    });
    let first = requests.iter().map(|request| request.ttft_s).collect();
    [
        ("ttft", &row.ttft, first),
        ("tpot", &row.tpot, steps),
        ("itl", &row.itl, if is_whole { gaps } else { Vec::new() }),
        ("e2el", &row.e2el, whole.unwrap_or_default()),
    ]
}

/// The mean of one latency, or what else of it is not that of its values: where the mean is another so is the rest.
fn statistics(name: &str, stats: &Stats, sorted: &[f64]) -> Option<Finding> {
    let own = Stats::of(sorted, &[]);
    let own_mean = own.mean?;
    if let Some(mean) = stats.mean.filter(|mean| *mean > 0.0)
        && (own_mean / mean - 1.0).abs() > TOLERANCE
    {
        return Some(unequal(&format!("mean {name}"), time(mean), time(own_mean)));
    }
    // Zeros are nobody's measurement, which is told elsewhere.
    let named = [(50.0, stats.median), (0.0, stats.min), (100.0, stats.max)];
    let named = named
        .into_iter()
        .filter_map(|(percent, value)| Some((percent, value?)));
    let all = named.chain(stats.percentiles.iter().copied());
    for (percent, stated) in all.filter(|(_, stated)| *stated > 0.0) {
        let (low, high) = beside(sorted, percent / 100.0);
        let slack = TOLERANCE * high.abs() + 1e-6;
        if (low - slack..=high + slack).contains(&stated) {
            continue;
        }
        let what = match percent {
            0.0 => format!("the shortest {name}"),
            50.0 => format!("median {name}"),
            100.0 => format!("the longest {name}"),
            _ => format!("p{percent} {name}"),
        };
        let (low, high) = (time(low), time(high));
        let between = match low == high {
            true => low,
            false => format!("{low} to {high}"),
        };
        return Some(unequal(&what, time(stated), between));
    }
    let (stated, own) = stats.std.filter(|std| *std > 0.0).zip(own.std)?;
    // With n − 1 in the denominator it is larger by half of 1/n, and one odd value moves it more than a mean.
    let slack = own * (2.5 * TOLERANCE + 1.0 / sorted.len() as f64) + TOLERANCE * TOLERANCE * own_mean;
    ((stated - own).abs() > slack)
        .then(|| unequal(&format!("the deviation of {name}"), time(stated), time(own)))
}

/// The values of which every definition of a quantile makes it: those beside its rank, be that of n − 1, n or n + 1.
fn beside(sorted: &[f64], share: f64) -> (f64, f64) {
    /// A rank that is whole but for what 0.99 is not in binary.
    const NOISE: f64 = 1e-9;
    let last = sorted.len() - 1;
    let low = (share * last as f64 + NOISE).floor() as usize;
    let high = (share * (last + 2) as f64 - 1.0 - NOISE).ceil().max(0.0) as usize;
    (sorted[low.min(last)], sorted[high.max(low).min(last)])
}

/// The most in flight as a tool counts them: at an instant, or of all that touch a second.
fn peak(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    /// Starts and ends that were rounded.
    const ROUNDED_S: f64 = 0.001;
    /// A second that two clocks begin at different times.
    const TOUCHED_S: f64 = 2.0;
    let Some(stated) = row.outcome.peak_in_flight.filter(|peak| *peak > 0.0) else {
        return;
    };
    let within = |later_s: f64| {
        let end =
            |(start, request): &(f64, &RequestTimes)| Some(start + (request.e2el_s? + later_s).max(0.0));
        let mut ends: Vec<f64> = timed.iter().map(end).collect::<Option<_>>()?;
        ends.sort_by(f64::total_cmp);
        Some(most_in_flight(timed, &ends) as f64)
    };
    let Some((least, most)) = within(-ROUNDED_S).zip(within(TOUCHED_S)) else {
        return;
    };
    // Those that failed were in flight, too, and are in no list.
    let others = row.outcome.failed.unwrap_or(0) as f64;
    if (0.95 * least - 1.0..=1.05 * most + 1.0 + others).contains(&stated) {
        return;
    }
    let own = format!("{} at one time, {} within two seconds", show(least), show(most));
    found.push(unequal("the most in flight", show(stated), own));
}

/// Gaps that are all alike are of no such shape as the file says: of each shape so many lie near their mean.
fn gaps_of_arrivals(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    const NEAR: f64 = 0.2;
    /// Deviations that no chance explains.
    const BEYOND_DOUBT: f64 = 7.0;
    // A limit sends when answers end; a prediction of a trace says 1 of a shape that the trace need not have.
    let is_free = matches!(row.setup.load, Load::Open { .. }) && row.setup.max_concurrency.is_none();
    let shape = row.setup.burstiness.filter(|shape| is_free && *shape > 0.0);
    let Some(shape) = shape.filter(|_| row.tool != Tool::Plimsoll) else {
        return;
    };
    let Ok(law) = Gamma::new(shape, shape) else {
        return;
    };
    let gaps: Vec<f64> = timed.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let is_near = |gap: &&f64| (**gap - mean).abs() <= NEAR * mean;
    let near = gaps.iter().filter(is_near).count() as f64 / count;
    let expected = law.cdf(1.0 + NEAR) - law.cdf(1.0 - NEAR);
    if mean <= 0.0 || near - expected <= BEYOND_DOUBT * (expected * (1.0 - expected) / count).sqrt() {
        return;
    }
    let claim =
        "requests were not sent at random: their gaps are more alike than the file's burstiness makes them";
    let shown = format!(
        "{:.0} % of {} gaps lie within {:.0} % of their mean {}; of burstiness {shape} {:.0} % do",
        100.0 * near,
        show(count),
        100.0 * NEAR,
        time(mean),
        100.0 * expected
    );
    let rerun =
        "find out how the client sent, or who wrote the times; even arrivals queue less than those at random";
    let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    /// 400 answers of which each has another ttft.
    fn listed(gap_s: impl Fn(usize) -> f64) -> Measured {
        let mut row = Measured::new(Tool::VllmBench, "");
        let mut start_s = 0.0;
        let of = |index: usize| {
            start_s += gap_s(index);
            RequestTimes {
                start_s: Some(start_s),
                ttft_s: 0.02 + 1e-4 * ((index * 37) % 400) as f64,
                e2el_s: Some(0.9),
                output_tokens: 100.0,
                ..RequestTimes::default()
            }
        };
        row.requests = (0..400).map(of).collect();
        row.setup.load = Load::Open { rate: 8.0 };
        let ttfts: Vec<f64> = row.requests.iter().map(|request| request.ttft_s).collect();
        row.ttft = Stats::of(&ttfts, &[90.0, 99.0]);
        row
    }

    #[test]
    fn every_statistic_is_that_of_the_list() {
        let after = |change: fn(&mut Measured)| {
            let mut row = listed(|_| 0.125);
            change(&mut row);
            found(&[row])
        };
        assert_eq!(after(|_| ()), "");
        let wrong: [fn(&mut Measured); 5] = [
            |row| row.ttft.percentiles[1].1 *= 0.95,
            |row| row.ttft.median = Some(0.045),
            |row| row.ttft.max = Some(0.07),
            |row| row.ttft.std = Some(0.013),
            |row| row.ttft.mean = Some(0.0385),
        ];
        for (index, change) in wrong.into_iter().enumerate() {
            assert_eq!(after(change), "impossible counts-agree", "{index}");
        }
    }

    #[test]
    fn a_quantile_is_between_the_values_beside_its_rank() {
        let sorted: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(beside(&sorted, 0.99), (395.0, 396.0));
        assert_eq!(beside(&sorted, 0.5), (199.0, 200.0));
        assert_eq!(beside(&sorted, 0.0), (0.0, 0.0));
        assert_eq!(beside(&sorted, 1.0), (399.0, 399.0));
        assert_eq!(beside(&[3.0], 0.99), (3.0, 3.0));
    }

    #[test]
    fn a_peak_is_that_of_the_list() {
        // 0.9 s at 8/s: eight at one time, and within two seconds 24.
        let with = |peak: f64| {
            let mut row = listed(|_| 0.125);
            row.outcome.peak_in_flight = Some(peak);
            found(&[row])
        };
        for peak in [8.0, 16.0, 24.0] {
            assert_eq!(with(peak), "", "{peak}");
        }
        assert_eq!(with(4.0), "impossible counts-agree");
        assert_eq!(with(64.0), "impossible counts-agree");
    }

    #[test]
    fn even_arrivals_are_not_at_random() {
        let shaped = |gap_s: &dyn Fn(usize) -> f64, shape: Option<f64>| {
            let mut row = listed(gap_s);
            row.setup.burstiness = shape;
            found(&[row])
        };
        assert_eq!(shaped(&|_| 0.125, Some(1.0)), "impossible counts-agree");
        assert_eq!(shaped(&|_| 0.125, None), "");
        // Gaps of so large a shape are alike.
        assert_eq!(shaped(&|_| 0.125, Some(1000.0)), "");
        // The quantiles of an exponential law, in no order.
        let random = |index: usize| -(((index * 37) % 400) as f64 / 400.0 + 1.0 / 800.0).ln() / 8.0;
        assert_eq!(shaped(&random, Some(1.0)), "");
    }
}
