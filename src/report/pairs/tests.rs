use super::*;
use crate::analysis::{Estimate, Verdict};
use crate::cost::uncertainty::Component;
use crate::report::knee_limit::tests::tried as point_at;

/// How far inside the promise a run is, with its interval.
fn tried(prefill: u64, decode: u64, (low, value, high): (f64, f64, f64)) -> PairRow {
    let mut point = point_at(20.0, Verdict::Stable);
    point.slack = Some(Estimate { value, low, high });
    // A prefill replica has a GPU of 8 dollars, and a decode replica two of 1.
    PairRow {
        pair: Pair {
            prefill,
            decode,
            point,
        },
        gpus: prefill + 2 * decode,
        usd_per_hour: Some(8.0 * prefill as f64 + 2.0 * decode as f64),
        busy: None,
    }
}

fn sizing(rows: Vec<PairRow>, (prefill, decode): (u64, u64)) -> PairSizing {
    PairSizing {
        rate: 20.0,
        ending: PairEnding::Found {
            prefill,
            decode,
            is_cheapest: true,
        },
        rows,
        start: (1, 1),
        each_per_s: None,
        gpu: ["A".to_owned(), "B".to_owned()],
        gpus_each: [1, 2],
        router: None,
        usd_each: None,
        price_source: String::new(),
        promises: Vec::new(),
        beside: Vec::new(),
        subject: String::new(),
        scenario: None,
        seed: 0,
        trust: Vec::new(),
        doubt: None,
        assumptions: Vec::new(),
        notes: Vec::new(),
        ignored: Vec::new(),
        is_interrupted: false,
    }
}

const SURE: (f64, f64, f64) = (0.1, 0.2, 0.3);
const KEPT: (f64, f64, f64) = (-0.1, 0.1, 0.3);
const UNSURE: (f64, f64, f64) = (-0.3, -0.1, 0.1);
const BROKEN: (f64, f64, f64) = (-0.3, -0.2, -0.1);

/// Of unlike cards a cheaper pair may have more GPUs: an interval in GPUs reaches from the fewest to the most of all that may be the
/// cheapest.
#[test]
fn the_interval_in_gpus_holds_the_answer_whatever_cards_cost() {
    // 16, 18, 20 and 26 dollars an hour: 9, 4, 6 and 5 GPUs.
    let rows = || {
        vec![
            tried(1, 4, UNSURE),
            tried(2, 1, BROKEN),
            tried(2, 2, KEPT),
            tried(3, 1, SURE),
        ]
    };
    let found = sizing(rows(), (2, 2));
    assert_eq!(found.gpus_95(), (Some(5), Some(9)));
    assert!(
        found
            .answer()
            .starts_with("2 prefill + 2 decode replicas for 20.0 req/s  (95 % [5, 9] GPUs)"),
        "{}",
        found.answer()
    );
    // Nothing beyond what is seen to meet the SLO for certain is a candidate.
    let sure = sizing(vec![tried(3, 1, SURE), tried(3, 4, KEPT)], (3, 1));
    assert_eq!(sure.gpus_95(), (Some(5), Some(5)));
    assert!(
        sure.answer().starts_with("3 prefill + 1 decode replica for"),
        "{}",
        sure.answer()
    );
    let mut open = rows();
    open.pop();
    assert_eq!(sizing(open, (2, 2)).gpus_95(), (Some(6), None));
}

#[test]
fn what_the_models_doubt_makes_of_the_numbers_is_told_where_there_is_any() {
    let end = |prefill, decode| {
        Some(End {
            prefill,
            decode,
            gpus: prefill + 2 * decode,
        })
    };
    let line = |doubt: Result<Doubt, String>| {
        let mut found = sizing(vec![tried(2, 2, SURE)], (2, 2));
        found.doubt = Some(doubt);
        let told = text(&found, Style::default());
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let knee = FigureInterval {
        sigma_ln: 0.1,
        reach_ln: (0.25_f64.ln().abs(), 0.5_f64.ln().abs()),
        parts: vec![(Component::Host, 0.1)],
        ..FigureInterval::certain("knee")
    };
    let doubt = Doubt {
        knee,
        fast: end(1, 1),
        slow: end(5, 8),
    };
    let told = line(Ok(doubt.clone()));
    assert!(
        told.contains("replicas ± 1 + 1 to 5 + 8 (3 to 21 GPUs), if the step time's parameters are off as `model ±` says, 90 %")
            && told.contains("model ± knee −75.0 % to +100 %, 90 %, mostly by host"),
        "{told}"
    );
    let open = line(Ok(Doubt {
        slow: None,
        ..doubt.clone()
    }));
    assert!(
        open.contains("replicas ± at least 1 + 1, if the step time's parameters are off as `model ±` says, 90 %. How many at most cannot be told"),
        "{open}"
    );
    let ideal = line(Ok(Doubt {
        knee: FigureInterval::certain("knee"),
        ..doubt
    }));
    assert!(!ideal.contains("replicas ±"), "{ideal}");
    assert!(line(Err("too long".into())).contains("model ± not known: too long"));
}
