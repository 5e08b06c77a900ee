//! Attention: decode over KV pages beside plain reads of them, and the prefill kernel.

use super::super::course::{Course, Timed};
use super::super::fit::lines::{self, DecodeFit, DecodeRow};
use super::super::plan::{HEAD_DIM, KV_HEADS, Point, QUERY_HEADS};

/// KV pages in a shuffled order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Sequences.
    pub batch: u64,
    /// KV tokens of each.
    pub context: u64,
    /// Bytes of all of them.
    pub kv_bytes: f64,
    /// Seconds of the kernel that only reads them.
    pub read: f64,
    /// Seconds of decode attention, eight query heads a KV head.
    pub decode: f64,
}

/// The fit of decode attention, where enough was measured.
pub(super) fn decode(course: &Course) -> Option<DecodeFit> {
    // The machine rotates through pages over five times the L2, so that small batches are cold, too.
    let rows: Vec<DecodeRow> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::Decode { batch, context, .. } => Some(DecodeRow {
                seq_heads: (batch * KV_HEADS) as f64,
                longest: context as f64,
                kv_bytes: timed.point.bytes(),
                seconds: timed.estimate().value,
            }),
            _ => None,
        })
        .collect();
    lines::decode(&rows)
}

/// Points that were both read and decoded.
pub(super) fn pages(course: &Course) -> Vec<Pages> {
    let both = |timed: &Timed| match timed.point {
        Point::KvRead { batch, context } => {
            let decode = Point::Decode {
                batch,
                context,
                group: 8,
            };
            Some(Pages {
                batch,
                context,
                kv_bytes: timed.point.bytes(),
                read: timed.estimate().value,
                decode: course.median(decode)?.value,
            })
        }
        _ => None,
    };
    let mut pages: Vec<Pages> = course.timed.iter().filter_map(both).collect();
    pages.sort_by_key(|page| (page.batch, page.context));
    pages
}

/// Rates of the prefill kernel, by tokens.
pub(super) fn prefill_proxy(course: &Course) -> Vec<(u64, f64)> {
    let mut rates: Vec<(u64, f64)> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::Prefill(tokens) => {
                // Causal: half of 4·S²·H·d.
                let flops = 2.0 * (tokens * tokens * QUERY_HEADS * HEAD_DIM) as f64;
                Some((tokens, flops / timed.estimate().value))
            }
            _ => None,
        })
        .collect();
    rates.sort_by_key(|(tokens, _)| *tokens);
    rates
}
