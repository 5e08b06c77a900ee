//! Counts of durations in log-linear buckets: 1,024 to the octave, exact below 2,048 ps.
//!
//! A bucket is narrower than a thousandth of its values. Octaves that hold nothing take no memory, and a bitmap of
//! the touched buckets keeps reading and clearing proportional to what was recorded.

/// Sub-buckets of an octave, as a power of two.
const OCTAVE_BITS: u32 = 10;
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// Octave pages that cover all of `u64`.
const PAGES: usize = 55;

/// The width of a duration's bucket, as a power of two.
#[inline]
fn shift_of(value: u64) -> u32 {
    (u64::BITS - OCTAVE_BITS - 1).saturating_sub(value.leading_zeros())
}

/// The bucket of a duration.
#[inline]
pub(super) fn bucket_of(value: u64) -> usize {
    let shift = shift_of(value);
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// The smallest duration of a bucket, and how many durations it spans.
pub(super) fn bounds(bucket: usize) -> (u64, u64) {
    if bucket < 2 * OCTAVE {
        return (bucket as u64, 1);
    }
    let shift = (bucket >> OCTAVE_BITS) - 1;
    (((bucket - (shift << OCTAVE_BITS)) as u64) << shift, 1 << shift)
}

#[derive(Clone, Debug, PartialEq)]
struct Page {
    counts: [u64; OCTAVE],
    touched: [u64; OCTAVE / 64],
}

/// A histogram over all of `u64`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Buckets {
    pages: Vec<Option<Box<Page>>>,
}

impl Buckets {
    /// An empty one.
    pub(super) fn new() -> Self {
        Buckets {
            pages: vec![None; PAGES],
        }
    }

    /// Adds `times` to a bucket.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, times: u64) {
        let page = self.pages[bucket >> OCTAVE_BITS].get_or_insert_with(|| {
            Box::new(Page {
                counts: [0; OCTAVE],
                touched: [0; OCTAVE / 64],
            })
        });
        let place = bucket & (OCTAVE - 1);
        page.counts[place] += times;
        page.touched[place / 64] |= 1 << (place % 64);
    }

    /// Adds `times` each of `first`, `first + step`, …; one addition for each bucket that they touch.
    pub(super) fn add_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        let mut value = first;
        let mut left = terms;
        while left > 0 {
            // How much larger it could be and still be in its bucket.
            let room = !value & ((1 << shift_of(value)) - 1);
            let here = room.checked_div(step).map_or(left, |more| left.min(more + 1));
            self.add(bucket_of(value), here * times);
            left -= here;
            if left > 0 {
                value += step * here;
            }
        }
    }

    /// How many buckets were touched.
    pub(super) fn touched(&self) -> usize {
        let words = self.pages.iter().flatten().flat_map(|page| &page.touched);
        words.map(|bits| bits.count_ones() as usize).sum()
    }

    /// (bucket, count) of the touched buckets in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let pages = self
            .pages
            .iter()
            .enumerate()
            .filter_map(|(number, page)| Some((number, page.as_ref()?)));
        pages.flat_map(|(number, page)| {
            page.touched.iter().enumerate().flat_map(move |(word, &bits)| {
                SetBits(bits).map(move |bit| {
                    let place = word * 64 + bit;
                    ((number << OCTAVE_BITS) + place, page.counts[place])
                })
            })
        })
    }

    /// Forgets everything but keeps the memory.
    pub(super) fn clear(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            for word in 0..page.touched.len() {
                for bit in SetBits(page.touched[word]) {
                    page.counts[word * 64 + bit] = 0;
                }
                page.touched[word] = 0;
            }
        }
    }
}

/// Positions of the ones of a word, ascending.
struct SetBits(u64);

impl Iterator for SetBits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_line_and_are_narrower_than_a_thousandth() {
        let mut expected = 0u64;
        for bucket in 0..20 * OCTAVE {
            let (lower, width) = bounds(bucket);
            assert_eq!(lower, expected);
            assert_eq!(bucket_of(lower), bucket);
            assert_eq!(bucket_of(lower + width - 1), bucket);
            assert!(width == 1 || (width as f64) < 0.001 * lower as f64);
            expected = lower + width;
        }
        assert!(bucket_of(u64::MAX) < PAGES * OCTAVE);
    }
}
