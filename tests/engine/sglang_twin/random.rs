//! Random scenarios of one server in which the engine must equal its twin.

use std::collections::BTreeMap;

use plimsoll::engine::sglang::{PriorityRule, QueuePolicy, SglangConfig, SglangSwitches};
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::{Served, serve};
use crate::draws::{Verdict, draws, judge};
use crate::sglang_leaps::{Told, Wish, configs, requests, run, wishes};

/// Equal passes, and of each request equal times and counts.
fn agree(config: &SglangConfig, requests: &[Request]) -> Result<Verdict, TestCaseError> {
    let expected = serve(config, requests);
    let (log, told) = run(config, requests, false, true);
    for (at, (got, expected)) in log.iter().zip(&expected.log).enumerate() {
        prop_assert_eq!(got, expected, "pass {}", at);
    }
    prop_assert_eq!(log.len(), expected.log.len());
    prop_assert_eq!(told.drained, !expected.died);
    if expected.died {
        return Ok(Verdict::Excused);
    }
    prop_assert_eq!(told.completions.len(), requests.len());
    stories_agree(&expected, &told)?;
    Ok(Verdict::Agree)
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

/// A draw of which the server dies is judged up to there.
#[test]
fn the_engine_equals_its_twin() {
    let strategy = (configs(), prop::collection::vec(wishes(), 1..40));
    judge(draws(500), &strategy, 0.02, |(config, wishes)| {
        agree(&config, &requests(wishes))
    });
}

/// 0.5.4 counts the pages of the next decode by the tokens that it knows. Some of these requests know more than have KV and the
/// one that comes, so that a decode finds one page too few.
#[test]
fn pages_are_counted_by_what_is_known_of_each_request() {
    // (own prompt, outputs, shared, headroom, ends by length alone, priority), all at once.
    let wanted = [
        (1, 1, 0, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (17, 77, 4, 41, false, 6),
        (1, 1, 0, 0, false, 0),
        (7, 1, 6, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (15, 43, 9, 0, false, 8),
        (35, 1, 7, 0, true, 6),
        (41, 69, 28, 0, false, 0),
        (20, 38, 54, 0, false, 0),
        (1, 1, 0, 0, false, 0),
        (47, 26, 12, 0, true, 8),
        (38, 75, 1, 0, false, 0),
    ];
    let wish = |(at, &(own, outputs, shared, headroom, ignore_eos, priority)): (usize, &_)| {
        // The twelfth goes on with a conversation.
        let group = if at == 11 { 3 } else { 0 };
        (
            0, group, shared, own, outputs, headroom, ignore_eos, priority, None,
        )
    };
    let config = SglangConfig {
        profile: "sglang@0.5.4".into(),
        context_length: 600,
        max_running_requests: 4,
        chunked_prefill_size: Some(24),
        max_prefill_tokens: 120,
        prefill_decode_interval: 3,
        prefill_max_requests: None,
        policy: QueuePolicy::Fcfs,
        priority: Some(PriorityRule {
            low_values_first: true,
            preemption_threshold: 0,
        }),
        page_size: 4,
        max_total_tokens: 316,
        radix_cache: false,
        enable_mixed_chunk: true,
        overlap_schedule: true,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        drafts: None,
        switches: SglangSwitches::V0_5_4,
        seed: 0,
        eos_segment: None,
    };
    let wishes = wanted.iter().enumerate().map(wish).collect();
    let verdict = agree(&config, &requests(wishes)).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(verdict, Verdict::Excused), "the server dies of it");
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

/// Above 128 waiting requests `lpm` serves in order of arrival, and no more than 128 prefixes are kept recent.
#[test]
fn a_long_queue_is_its_twin_s() {
    let lpm = prop_oneof![3 => Just(true), 1 => Just(false)];
    judge(
        draws(30),
        &(configs(), crowds(), lpm),
        0.1,
        |(config, wishes, lpm)| {
            let config = SglangConfig {
                policy: if lpm { QueuePolicy::Lpm } else { config.policy },
                priority: config.priority.filter(|_| !lpm),
                radix_cache: lpm || config.radix_cache,
                ..config
            };
            agree(&config, &requests(wishes))
        },
    );
}

/// A change between the two versions.
type Change = fn(&mut SglangSwitches) -> &mut bool;

/// All but three. Two nothing can show on one server without pipeline stages: whoever is refused memory has company
/// (`full_needs_company`), for private memory is a running request's or a chunked one's; and whose row is taken
/// (`counts_table_rows`) is running or chunked in every pass that admits: results in flight are processed between two of them.
/// The third (`ranks_by_usable_prefix`) needs a prompt that is cached to its last token and ties with another, and these all
/// have tokens of their own; a recording of the engine holds one.
const CHANGES: [Change; 17] = [
    |new| &mut new.predicts_length_endings,
    |new| &mut new.drops_finished_each_pass,
    |new| &mut new.ignore_eos_is_certain,
    |new| &mut new.reserves_a_page,
    |new| &mut new.input_cap_only_unchunked,
    |new| &mut new.asks_budget_first,
    |new| &mut new.evicts_shortfall,
    |new| &mut new.reinserts_prompt,
    |new| &mut new.caches_wasted_token,
    |new| &mut new.retouches_waiting,
    |new| &mut new.clips_to_pool,
    |new| &mut new.aborts_lone_request,
    |new| &mut new.mixes_only_with_memory,
    |new| &mut new.preempts_sparingly,
    |new| &mut new.resets_ratio_if_all_left,
    |new| &mut new.frees_wasted_token_at_once,
    |new| &mut new.counts_pages_by_kv,
];

/// What the twin is held against shows every change and reaches every place: else an engine that errs there would pass.
#[test]
fn the_draws_show_every_change_between_the_versions_and_every_way_to_leave() {
    let mut runner = TestRunner::deterministic();
    let strategy = (configs(), prop::collection::vec(wishes(), 1..40));
    let mut hidden: Vec<usize> = (0..CHANGES.len()).collect();
    let mut reached: BTreeMap<&str, u32> = BTreeMap::new();
    for draw in 0.. {
        let tree = strategy.new_tree(&mut runner).expect("nothing is filtered");
        let (config, wishes) = tree.current();
        let requests = requests(wishes);
        let served = serve(&config, &requests);
        for (place, times) in &served.befell {
            *reached.entry(place).or_default() += times;
        }
        hidden.retain(|&change| {
            let mut other = config.clone();
            let switch = CHANGES[change](&mut other.switches);
            *switch = !*switch;
            serve(&other, &requests).log == served.log
        });
        if draw >= 500 && hidden.is_empty() {
            break;
        }
        assert!(draw < 10_000, "changes that no draw shows: {hidden:?}");
    }
    let places = [
        "unseen",
        "waiting",
        "retracted",
        "chunked",
        "prefilling",
        "running",
        "pushed out",
        "lone",
        "died",
    ];
    let missing: Vec<&str> = places
        .into_iter()
        .filter(|&place| !reached.contains_key(place))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?} of {reached:?}");
}
