//! Buckets, retries and limits against their arithmetic.

use super::*;
use proptest::prelude::*;

#[test]
fn a_full_bucket_passes_its_whole_burst() {
    for (per_second, burst) in [
        (60_000.0, 1152.0),
        (600.0, 600.0),
        (7.0, 3.0),
        (1.1e-7, 2.0),
        (1e9, 1e9),
    ] {
        let level = Level::new(Bucket { per_second, burst });
        assert!(
            level.after(Picos::ZERO, burst as u64).is_some(),
            "{burst} at {per_second}/s"
        );
        assert_eq!(
            level.after(Picos::ZERO, burst as u64 + 1),
            None,
            "{burst} at {per_second}/s"
        );
    }
}

#[test]
fn who_comes_as_fast_as_a_bucket_fills_always_passes() {
    for per_second in [3.0, 6.0, 7.0, 600.0, 999.0] {
        let mut level = Level::new(Bucket {
            per_second,
            burst: 1.0,
        });
        for nth in 0..1000 {
            let now = Picos::from_seconds(f64::from(nth) / per_second);
            level.full_at = level.after(now, 1).expect("one has flowed in since");
        }
    }
}

proptest! {
    /// The bucket against its arithmetic: what has flowed in since it was last full, less what was taken.
    #[test]
    fn a_bucket_is_its_arithmetic(
        per_second in 1u64..50, burst in 1u64..20, takes in prop::collection::vec((0u64..2_000, 1u64..5), 1..60),
    ) {
        let mut level = Level::new(Bucket { per_second: per_second as f64, burst: burst as f64 });
        // In units of a thousandth of a millisecond's worth: an integer for every rate and instant.
        let (scale, full) = (1000, burst * 1000);
        let (mut held, mut before, mut now) = (full, 0, 0);
        for (gap_ms, units) in takes {
            now += gap_ms;
            held = (held + (now - before) * per_second).min(full);
            before = now;
            let taken = level.after(Picos(now * 1_000_000_000), units);
            if let Some(after) = taken {
                level.full_at = after;
            }
            prop_assert_eq!(taken.is_some(), held >= units * scale);
            if taken.is_some() {
                held -= units * scale;
            }
        }
    }
}

#[test]
fn a_bucket_says_from_when_on_it_holds_enough() {
    let mut level = Level::new(Bucket {
        per_second: 0.3,
        burst: 4.0,
    });
    assert_eq!(level.holds_at(5), None);
    for (now_s, units) in [(0.0, 3), (0.5, 1), (4.0, 1), (40.0, 4)] {
        let at = level.holds_at(units).expect("no more than the burst");
        let later = at.max(Picos::from_seconds(now_s));
        assert!(level.after(later, units).is_some());
        if at > Picos::ZERO {
            assert_eq!(level.after(Picos(at.0 - 1), units), None);
        }
        level.full_at = level.after(later, units).expect("as above");
    }
}

#[test]
fn a_refused_request_is_let_through_once_every_limit_of_its_class_can_pay() {
    let limit = |class, per_second, tokens: Option<f64>| RateLimit {
        class,
        requests: Some(Bucket {
            per_second,
            burst: 1.0,
        }),
        tokens: tokens.map(|burst| Bucket {
            per_second: 10.0,
            burst,
        }),
    };
    let mut gate = Gate::new(Admission {
        rates: vec![limit(None, 1.0, None), limit(Some(1), 0.25, Some(100.0))],
        ..Admission::default()
    });
    let request = |class| Request {
        class,
        prompt_tokens: 20,
        max_tokens: 20,
        ..Request::default()
    };
    assert_eq!(gate.enter(Picos::ZERO, &request(1)), Entry::Pass);
    assert_eq!(gate.enter(Picos::ZERO, &request(1)), Entry::RateLimited);
    let at = |gate: &Gate, class, tokens| gate.payable_at(Picos::ZERO, class, tokens).map(Picos::seconds);
    assert_eq!(at(&gate, 0, 40), Some(1.0));
    assert_eq!(at(&gate, 1, 40), Some(4.0));
    assert_eq!(at(&gate, 1, 101), None);
    assert_eq!(gate.enter(Picos::from_seconds(4.0), &request(1)), Entry::Pass);
}
