//! Names of texts. Each kind has a range of numbers of its own, so that texts of two kinds are never one.

use crate::ids::{RequestId, SegmentId};

const KIND_BITS: u32 = 60;
/// Texts of several clients are told apart by the bits from here on to those of the kind.
const SPACE_BIT: u32 = 44;
/// Most spaces that those bits name, number 0 being that of a single client.
pub(super) const SPACES_MAX: usize = (1 << (KIND_BITS - SPACE_BIT)) - 1;

fn name(kind: u64, number: u64) -> SegmentId {
    assert!(
        number < 1 << KIND_BITS,
        "fewer than 2^60 texts of a kind are made"
    );
    SegmentId(kind << KIND_BITS | number)
}

/// The texts that one client's generator names by `segment`: those that hash ids name are in one space, all others in
/// another, both from 1. One to one while a client has fewer than 2^44 texts of a kind.
pub(super) fn of_client(segment: SegmentId, (hashed, own): (u64, u64)) -> SegmentId {
    let is_hashed = segment.0 >> KIND_BITS == 0;
    SegmentId(segment.0 ^ (if is_hashed { hashed } else { own } << SPACE_BIT))
}

/// The `group`-th shared prefix.
pub(super) fn group(group: u32) -> SegmentId {
    name(1, u64::from(group))
}

/// The system prompt of all conversations.
pub(super) fn system() -> SegmentId {
    name(2, 0)
}

/// A text that a client posted, by a number of its contents.
pub(super) fn posted(name: u64) -> SegmentId {
    SegmentId(5 << KIND_BITS | (name & ((1 << KIND_BITS) - 1)))
}

/// The new tokens in the prompt of request `id`.
pub(super) fn own(id: RequestId) -> SegmentId {
    name(3, id.0)
}

/// What request `id` generates.
pub(super) fn output(id: RequestId) -> SegmentId {
    name(4, id.0)
}
