//! Tables by numbers of tokens: what steps take, filled as they are asked, and which captured graph they replay.

use std::hint::cold_path;

use crate::cost::Part;
use crate::units::Picos;

/// An entry that has not been evaluated. No step takes 213 days.
const UNKNOWN: u64 = u64::MAX;

/// Reads or fills one entry of a table of rounded sums.
#[inline]
pub(super) fn look_up(table: &mut Vec<u64>, index: u64, parts: impl FnOnce() -> Vec<Part>) -> u64 {
    let index = usize::try_from(index).expect("a step has fewer tokens than memory has bytes");
    match table.get(index) {
        Some(&picos) if picos != UNKNOWN => picos,
        _ => {
            cold_path();
            fill(table, index, &parts())
        }
    }
}

#[cold]
fn fill(table: &mut Vec<u64>, index: usize, parts: &[Part]) -> u64 {
    if index >= table.len() {
        table.resize(index + 1, UNKNOWN);
    }
    table[index] = Picos::from_seconds(parts.iter().map(|part| part.seconds).sum()).0;
    table[index]
}

/// Stands for the captured size of a batch that replays none.
pub(super) const NOT_CAPTURED: u32 = u32::MAX;

/// `padded[t]` is the captured size that `t` tokens replay.
pub(super) fn padding_table(sizes: &[u32], pads: bool) -> Vec<u32> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    let mut padded = Vec::new();
    for size in sizes {
        let filled = if pads { size } else { NOT_CAPTURED };
        padded.resize((size as usize + 1).max(padded.len()), filled);
        padded[size as usize] = size;
    }
    padded
}
