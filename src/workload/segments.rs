//! Names of texts. Each kind has a range of numbers of its own, so that texts of two kinds are never one.

use crate::ids::{RequestId, SegmentId};

const KIND_BITS: u32 = 60;

fn name(kind: u64, number: u64) -> SegmentId {
    assert!(
        number < 1 << KIND_BITS,
        "fewer than 2^60 texts of a kind are made"
    );
    SegmentId(kind << KIND_BITS | number)
}

/// The `group`-th shared prefix.
pub(super) fn group(group: u32) -> SegmentId {
    name(1, u64::from(group))
}

/// The system prompt of all conversations.
pub(super) fn system() -> SegmentId {
    name(2, 0)
}

/// The new tokens in the prompt of request `id`.
pub(super) fn own(id: RequestId) -> SegmentId {
    name(3, id.0)
}

/// The text that the prompt of request `number` began.
pub(super) fn document(number: u64) -> SegmentId {
    name(5, number)
}

/// What request `id` generates.
pub(super) fn output(id: RequestId) -> SegmentId {
    name(4, id.0)
}
