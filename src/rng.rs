//! Named random streams.
//!
//! Every purpose draws from a stream of its own, so that changing one thing (the scheduler, say) leaves every other
//! draw as it was: two scenarios with one seed see the same arrivals and the same lengths, and their difference is
//! the effect of the change. Streams are ChaCha8, which has 2⁶⁴ independent streams for a seed.
//!
//! Where the requests are to be those that a real benchmark client sends, they come from that client's generators
//! ([`numpy`]) and not from the streams of arrivals and lengths; all other purposes keep theirs.

pub mod numpy;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// What a random stream is for. The number is the stream's name: never reuse or renumber one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Gaps between arrivals.
    Arrivals = 1,
    /// Prompt and output lengths.
    Lengths = 2,
    /// Which shared prefix, session or document a request belongs to.
    Prefixes = 3,
    /// Think times of users.
    ThinkTimes = 4,
    /// Where an output ends by itself.
    Endings = 5,
    /// Routing decisions.
    Routing = 6,
    /// Step-time jitter.
    Jitter = 7,
    /// Client behaviour: time-outs, priorities.
    Clients = 8,
    /// Starts, hold-out and draws of a fit to measurements.
    Calibration = 9,
    /// The order of a waiting queue that is shuffled.
    Queue = 10,
    /// Seeds of clients who send by themselves, each named by its class.
    Classes = 11,
    /// When replicas fail and come back.
    Outages = 12,
    /// How many drafts of a speculating engine stand.
    Acceptance = 13,
    /// When in a tick of a trace's clock its requests come.
    Ticks = 14,
}

/// Opens the stream of `purpose` for the `entity`-th thing of its kind (0 where there is only one).
#[must_use]
pub fn stream(seed: u64, purpose: Purpose, entity: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(((purpose as u64) << 48) ^ entity);
    rng
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a permutation whose every output bit hangs on all input bits.
#[must_use]
pub(crate) fn mixed(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_differ_by_purpose_entity_and_seed_and_repeat() {
        let first = |seed, purpose, entity| stream(seed, purpose, entity).next_u64();
        let base = first(0, Purpose::Arrivals, 0);
        assert_eq!(base, first(0, Purpose::Arrivals, 0));
        assert_ne!(base, first(1, Purpose::Arrivals, 0));
        assert_ne!(base, first(0, Purpose::Lengths, 0));
        assert_ne!(base, first(0, Purpose::Arrivals, 1));
    }
}
