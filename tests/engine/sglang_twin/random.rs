//! Random scenarios of one server in which the engine must equal its twin.

use std::collections::BTreeMap;

use plimsoll::engine::sglang::{QueuePolicy, SglangConfig};
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::{Served, serve};
use crate::sglang_leaps::{Told, Wish, configs, requests, run, wishes};

/// Equal passes, and of each request equal times and counts.
fn agree(config: &SglangConfig, requests: &[Request]) -> Result<(), TestCaseError> {
    let expected = serve(config, requests);
    let (log, told) = run(config, requests, false, true);
    for (at, (got, expected)) in log.iter().zip(&expected.log).enumerate() {
        prop_assert_eq!(got, expected, "pass {}", at);
    }
    prop_assert_eq!(log.len(), expected.log.len());
    prop_assert_eq!(told.drained, !expected.died);
    if expected.died {
        return Ok(());
    }
    prop_assert_eq!(told.completions.len(), requests.len());
    stories_agree(&expected, &told)
}

fn stories_agree(expected: &Served, told: &Told) -> Result<(), TestCaseError> {
    let mut gaps: BTreeMap<Picos, u64> = BTreeMap::new();
    let reqs: BTreeMap<u64, _> = expected.reqs.iter().map(|req| (req.id.0, req)).collect();
    for end in &told.completions {
        let Some(req) = reqs.get(&end.id.0) else {
            prop_assert_eq!(
                (end.outcome, end.end),
                (Outcome::Rejected, end.arrival),
                "{:?}",
                end.id
            );
            continue;
        };
        prop_assert_eq!(Some((end.outcome, end.end)), req.end, "{:?}", end.id);
        prop_assert_eq!(end.first_token, req.had.first().copied(), "{:?}", end.id);
        prop_assert_eq!(end.output_tokens as usize, req.had.len(), "{:?}", end.id);
        prop_assert_eq!(end.preemptions, req.preemptions, "{:?}", end.id);
        prop_assert_eq!(end.waiting_time, req.waited, "{:?}", end.id);
        let (first_scheduled, cached_tokens) = req.admitted.unwrap_or((req.arrival, 0));
        prop_assert_eq!(
            (end.first_scheduled, end.cached_tokens),
            (first_scheduled, cached_tokens)
        );
        for pair in req.had.windows(2) {
            *gaps.entry(pair[1] - pair[0]).or_default() += 1;
        }
    }
    prop_assert_eq!(&told.gaps, &gaps);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_engine_equals_its_twin(config in configs(), wishes in prop::collection::vec(wishes(), 1..40)) {
        agree(&config, &requests(wishes))?;
    }
}

prop_compose! {
    /// Many who come at nearly the same time and want little.
    fn crowds()(
        crowd in prop::collection::vec((wishes(), 1u64..2_000, 1u32..8, any::<bool>()), 120..200),
    ) -> Vec<Wish> {
        let hurry = |((gap, group, shared, own, _, headroom, ignore_eos, priority, patience), most, outputs, early)| {
            let _: u64 = most;
            let outputs: u32 = outputs;
            (if early { 0 } else { gap % most }, group, shared, own, outputs, headroom, ignore_eos, priority, patience)
        };
        crowd.into_iter().map(hurry).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Above 128 waiting requests `lpm` serves in order of arrival, and no more than 128 prefixes are kept recent.
    #[test]
    fn a_long_queue_is_its_twin_s(
        config in configs(), wishes in crowds(), lpm in prop_oneof![3 => Just(true), 1 => Just(false)],
    ) {
        let config = SglangConfig {
            policy: if lpm { QueuePolicy::Lpm } else { config.policy },
            priority: config.priority.filter(|_| !lpm),
            radix_cache: lpm || config.radix_cache,
            ..config
        };
        agree(&config, &requests(wishes))?;
    }
}
