//! `np.random.default_rng`: PCG64 seeded through a `SeedSequence`, of which only whole numbers are needed here.

use rand::Rng;
use rand_pcg::Pcg64;

/// `numpy.random.Generator` over `PCG64`.
#[derive(Clone, Debug)]
pub struct Generator {
    words: Pcg64,
    /// Words of 64 bits are handed out in halves; the upper one waits for the next call.
    spare_half: Option<u32>,
}

impl Generator {
    /// `np.random.default_rng(seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Generator {
        let [state_high, state_low, stream_high, stream_low] = seed_words(seed);
        let whole = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Generator {
            words: Pcg64::new(whole(state_high, state_low), whole(stream_high, stream_low)),
            spare_half: None,
        }
    }

    /// A whole number from 0 to `most`, both included (`integers`, `buffered_bounded_lemire_uint32`): Lemire 2019, "Fast random
    /// integer generation in an interval". A range of one number draws nothing.
    pub fn integer(&mut self, most: u32) -> u32 {
        let Some(count) = most.checked_add(1) else {
            return self.half();
        };
        if count == 1 {
            return 0;
        }
        let rejected = (u32::MAX - most) % count;
        loop {
            let product = u64::from(self.half()) * u64::from(count);
            if product as u32 >= rejected {
                return (product >> 32) as u32;
            }
        }
    }

    /// 32 bits, the lower half of a word first (`pcg64_next32`).
    fn half(&mut self) -> u32 {
        if let Some(half) = self.spare_half.take() {
            return half;
        }
        let word = self.words.next_u64();
        self.spare_half = Some((word >> 32) as u32);
        word as u32
    }
}

/// `SeedSequence(seed).generate_state(4, np.uint64)`: a pool of four words of 32 bits into which the seed is mixed, and from
/// which each word is taken twice. After O'Neill 2015, "Developing a seed_seq alternative".
fn seed_words(seed: u64) -> [u64; 4] {
    let mut mixing = Hash {
        constant: 0x43b0_d7e5,
        multiplier: 0x931e_8875,
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(|word| mixing.of(word));
    for from in 0..pool.len() {
        for to in 0..pool.len() {
            if from != to {
                pool[to] = mixed(pool[to], mixing.of(pool[from]));
            }
        }
    }
    let mut taking = Hash {
        constant: 0x8b51_f9dd,
        multiplier: 0x58f3_8ded,
    };
    let mut halves = pool.into_iter().cycle();
    let mut half = || u64::from(taking.of(halves.next().expect("a cycle does not end")));
    [(); 4].map(|()| half() | half() << 32)
}

/// `hashmix`: each call has a constant of its own.
struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn of(&mut self, word: u32) -> u32 {
        let word = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        let word = word.wrapping_mul(self.constant);
        word ^ word >> 16
    }
}

/// `mix`.
fn mixed(x: u32, y: u32) -> u32 {
    let mixed = x
        .wrapping_mul(0xca01_f9dd)
        .wrapping_sub(y.wrapping_mul(0x4973_f715));
    mixed ^ mixed >> 16
}
