//! Speculative decoding on the naive twin, written out: golden example G8 and its like in the asynchronous loop.

use crate::trace::{SECOND, request};
use crate::twin::{
    Scheduled, TwinConfig, TwinDrafter, TwinDrafts, TwinLastBlock, TwinRequest, TwinRun, simulate,
};

const USABLE: usize = 100;

fn run(version: TwinConfig, drafter: TwinDrafter, requests: &[TwinRequest]) -> TwinRun {
    let is_v11 = !version.reserve_full_isl;
    let config = TwinConfig {
        num_gpu_blocks: USABLE + 1,
        drafts: Some(TwinDrafts {
            drafter,
            most: 3,
            last_block: TwinLastBlock::Kept,
            is_v11,
        }),
        ..version
    };
    simulate(&config, requests, &mut |_| SECOND)
}

/// The one sequence's shares, blocks held after scheduling, and tokens of each chunk.
fn of_one(run: &TwinRun) -> (Vec<(u32, u32)>, Vec<usize>, Vec<usize>) {
    let share = |&(_, computed, n): &Scheduled| (computed, n);
    let shares = run.steps.iter().map(|step| share(&step.scheduled[0])).collect();
    let blocks = run.steps.iter().map(|step| USABLE - step.free_blocks).collect();
    let times = &run.outcomes[0].token_times_ps;
    let chunks = times.chunk_by(|one, next| one == next).map(<[u64]>::len);
    (shares, blocks, chunks.collect())
}

fn g8() -> TwinRequest {
    TwinRequest {
        accepted: vec![2, 0, 3],
        ..request('A', 10, 8)
    }
}

fn sync(version: TwinConfig) -> TwinConfig {
    TwinConfig {
        queue_depth: 1,
        ..version
    }
}

#[test]
fn g8_drafts_are_taken_back_and_their_blocks_kept() {
    let shares = vec![(0, 10), (10, 4), (13, 4), (14, 4)];
    let check = |version: TwinConfig, drafter, blocks: [usize; 4]| {
        let found = of_one(&run(sync(version), drafter, &[g8()]));
        assert_eq!(found, (shares.clone(), blocks.to_vec(), vec![1, 3, 1, 3]));
    };
    check(TwinConfig::v33(), TwinDrafter::NGram, [3, 4, 5, 5]);
    check(TwinConfig::v11(), TwinDrafter::NGram, [3, 4, 5, 5]);
    check(TwinConfig::v33(), TwinDrafter::Eagle, [4, 5, 5, 6]);
    check(TwinConfig::v33(), TwinDrafter::DraftModel, [4, 5, 5, 6]);
    check(TwinConfig::v11(), TwinDrafter::Eagle, [3, 5, 5, 6]);
}

#[test]
fn g8_asynchronously_counts_drafts_in_flight_as_accepted() {
    // The second decode is scheduled before the first has lost a draft: 14, not 13. The last step is one too many: from
    // the two before it, two tokens were sure and three came.
    let shares = vec![(0, 10), (10, 4), (14, 4), (17, 4), (18, 4)];
    let found = of_one(&run(TwinConfig::v33(), TwinDrafter::Eagle, &[g8()]));
    assert_eq!(found, (shares.clone(), vec![4, 5, 6, 6, 7], vec![1, 3, 1, 3]));
    let found = of_one(&run(TwinConfig::v33(), TwinDrafter::NGram, &[g8()]));
    assert_eq!(found, (shares, vec![3, 4, 5, 6, 6], vec![1, 3, 1, 3]));
}

#[test]
fn v33_pads_who_joins_decodes_with_one_token() {
    let later = TwinRequest {
        arrival_ps: SECOND / 2,
        accepted: vec![3],
        ..request('B', 1, 5)
    };
    let found = run(
        sync(TwinConfig::v33()),
        TwinDrafter::NGram,
        &[g8(), later.clone()],
    );
    // The padding is rejected and uses no entry of what is accepted: four tokens come of B's second share.
    assert_eq!(found.steps[1].scheduled, [(0, 10, 4), (1, 0, 4)]);
    assert_eq!(found.steps[2].scheduled, [(0, 13, 4), (1, 1, 4)]);
    assert_eq!(
        found.outcomes[1].token_times_ps,
        [2, 3, 3, 3, 3].map(|at| at * SECOND)
    );
    let found = run(sync(TwinConfig::v11()), TwinDrafter::NGram, &[g8(), later]);
    assert_eq!(found.steps[1].scheduled, [(0, 10, 4), (1, 0, 1)]);
}

#[test]
fn v11_sends_drafts_with_the_last_chunk_of_a_prompt() {
    let chunked = |version: TwinConfig| TwinConfig {
        max_num_batched_tokens: 8,
        ..sync(version)
    };
    let shares = |version, drafter| of_one(&run(version, drafter, &[g8()])).0;
    let v11 = shares(chunked(TwinConfig::v11()), TwinDrafter::Eagle);
    assert_eq!(v11[..2], [(0, 8), (8, 5)]);
    for (version, drafter) in [
        (TwinConfig::v11(), TwinDrafter::NGram),
        (TwinConfig::v33(), TwinDrafter::Eagle),
    ] {
        assert_eq!(shares(chunked(version), drafter)[..3], [(0, 8), (8, 2), (10, 4)]);
    }
}
