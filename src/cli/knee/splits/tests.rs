//! Ways to share GPUs out, searched.

use super::*;
use crate::analysis::Estimate;
use crate::cli::Colour;

/// Of pools that serve `prefill` and `decode` requests a second a replica, of which the promise keeps nine tenths.
fn tried(way: Option<(u32, u32)>, (prefill, decode): (f64, f64)) -> SplitRow {
    let (x, y) = way.unwrap_or((1, 1));
    let rate = (f64::from(x) * prefill).min(f64::from(y) * decode);
    let estimate = |value: f64| Estimate {
        value,
        low: value * 0.99,
        high: value * 1.01,
    };
    SplitRow {
        within_slo: Some(estimate(rate * 0.9)),
        saturation: Some(estimate(rate)),
        ..SplitRow::beaten((x, y), 0.0)
    }
}

#[test]
fn what_is_promised_to_classes_is_named() {
    let class = |name: &str, limits: &[(&str, f64)]| ClassPromise {
        request_rate: None,
        name: name.to_owned(),
        limits: limits
            .iter()
            .map(|&(metric, limit_s)| Limit {
                metric: metric.to_owned(),
                limit_s,
            })
            .collect(),
    };
    let objective = Objective {
        attainment: Some(0.99),
        ..Objective::default()
    };
    let classes = [
        class("chat", &[("ttft", 0.5), ("tpot", 0.05)]),
        class("batch", &[("e2el", 60.0)]),
        class("other", &[]),
    ];
    assert_eq!(
        promised(&objective, &classes),
        "99 % of requests of each class: chat with TTFT ≤ 500 ms and TPOT ≤ 50 ms; batch with E2EL ≤ 60000 ms"
    );
}

#[test]
fn ways_that_cannot_win_are_not_searched_and_the_best_is_that_of_a_search_of_all() {
    let terminal = Terminal::new(Colour::Never, true);
    let ways: Vec<(u32, u32)> = (1..16).map(|x| (x, 16 - x)).collect();
    for capacities in [
        (1.0, 1.0),
        (4.0, 1.0),
        (1.0, 7.0),
        (30.0, 1.0),
        (1.0, 30.0),
        (2.5, 1.1),
    ] {
        let best = |scales: bool| {
            let mut searched = 0;
            let rows = search(&ways, scales, &terminal, |way| {
                searched += 1;
                Ok(tried(way, capacities))
            })
            .unwrap();
            assert_eq!(rows.len(), 16);
            let split = |at: usize| (rows[at].rate(), std::cmp::Reverse(at));
            let best = (0..15).max_by(|&a, &b| split(a).partial_cmp(&split(b)).unwrap());
            (best, searched)
        };
        let ((all, every), (some, few)) = (best(false), best(true));
        assert_eq!(all, some, "{capacities:?}");
        assert_eq!(every, 16);
        assert!(few <= 7, "{few} for {capacities:?}");
    }
}
