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
