//! Chance: a scenario from its seed, how many of them a test draws, and how many it may leave unjudged.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

/// So many draws, or as many as `PROPTEST_CASES` asks for.
pub(crate) fn draws(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if is_asked { default.cases } else { cases },
        ..default
    }
}

/// What came of a draw.
pub(crate) enum Verdict {
    /// Engine and twin agree.
    Agree,
    /// There was nothing to hold against each other.
    Excused,
}

/// Judges every draw. A twin that gives up would pass unseen, so no more than `excused` of them may be left unjudged.
pub(crate) fn judge<S: Strategy>(
    config: ProptestConfig,
    strategy: &S,
    excused: f64,
    judge: impl Fn(S::Value) -> Result<Verdict, TestCaseError>,
) {
    let (unjudged, all) = (Cell::new(0u32), Cell::new(0u32));
    let outcome = TestRunner::new(config).run(strategy, |draw| {
        all.set(all.get() + 1);
        if matches!(judge(draw)?, Verdict::Excused) {
            unjudged.set(unjudged.get() + 1);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let (unjudged, all) = (unjudged.get(), all.get());
    assert!(
        f64::from(unjudged) <= excused * f64::from(all),
        "{unjudged} of {all} draws were left unjudged"
    );
}

/// xorshift64: the seed replays a scenario.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn of(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}
