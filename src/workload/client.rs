//! The client's side of a request: users who think, the limit on requests in flight, and classes of priority.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::arrivals::{after, round};
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// An exponential think time of mean `mean`, rounded to picoseconds.
pub(super) fn think_time(mean: Picos, rng: &mut ChaCha8Rng) -> Picos {
    let unit: f64 = Exp1.sample(rng);
    round(unit * mean.0 as f64)
}

/// Independent users: think, send, wait for the end, think again. All think first.
///
/// The k-th think time of a user depends on nothing but the seed, the user and k, so that a slower server changes when
/// a user thinks but not for how long.
#[derive(Debug)]
pub(super) struct Users {
    seed: u64,
    think_time: Picos,
    /// Users who think, by when they will send; ties leave in the order in which their thinking began.
    thinking: BinaryHeap<Reverse<(Picos, u64, u32)>>,
    /// How often each has thought.
    thoughts: Vec<u32>,
    begun: u64,
    clock_exhausted: bool,
}

/// Words of a user's stream that one think time may take; the ziggurat almost always needs two.
const WORDS_PER_THINK_TIME: u128 = 64;

impl Users {
    pub(super) fn new(users: u32, think_time: Picos, seed: u64) -> Users {
        assert!(users > 0, "a closed workload has at least one user");
        let mut this = Users {
            seed,
            think_time,
            thinking: BinaryHeap::with_capacity(users as usize),
            thoughts: vec![0; users as usize],
            begun: 0,
            clock_exhausted: false,
        };
        (0..users).for_each(|user| this.think(user, Picos::ZERO));
        this
    }

    /// `user` begins to think at `now`. Who would think past the end of the clock sends no more.
    pub(super) fn think(&mut self, user: u32, now: Picos) {
        let thought = &mut self.thoughts[user as usize];
        let mut rng = stream(self.seed, Purpose::ThinkTimes, u64::from(user));
        rng.set_word_pos(u128::from(*thought) * WORDS_PER_THINK_TIME);
        *thought = thought.wrapping_add(1);
        match after(now, think_time(self.think_time, &mut rng)) {
            Some(sends) => self.thinking.push(Reverse((sends, self.begun, user))),
            None => self.clock_exhausted = true,
        }
        self.begun += 1;
    }

    /// When the next user sends.
    pub(super) fn peek(&self) -> Option<Picos> {
        self.thinking.peek().map(|Reverse((sends, ..))| *sends)
    }

    /// The user who sends next.
    pub(super) fn take(&mut self) -> u32 {
        let Reverse((_, _, user)) = self.thinking.pop().expect("a user who was announced is thinking");
        user
    }

    pub(super) fn clock_exhausted(&self) -> bool {
        self.clock_exhausted
    }
}

/// The counting semaphore of `max_concurrency` (B-4): requests pass it in the order in which they were submitted.
///
/// It keeps when each free place became free rather than who waits: the waiting ones are not made before they pass.
#[derive(Debug)]
pub(super) struct Places {
    /// Places nobody ever had, free since time 0.
    unused: u32,
    /// Places given back, in the order of their return.
    returned: VecDeque<Picos>,
    taken: u32,
}

impl Places {
    pub(super) fn new(max_concurrency: u32) -> Places {
        assert!(max_concurrency > 0, "max_concurrency is at least 1");
        Places {
            unused: max_concurrency,
            returned: VecDeque::new(),
            taken: 0,
        }
    }

    /// Since when there is a free place; `None` while there is none.
    pub(super) fn free_since(&self) -> Option<Picos> {
        if self.unused > 0 {
            Some(Picos::ZERO)
        } else {
            self.returned.front().copied()
        }
    }

    pub(super) fn take(&mut self) {
        if self.unused > 0 {
            self.unused -= 1;
        } else {
            self.returned
                .pop_front()
                .expect("a request passes only when there is a place");
        }
        self.taken += 1;
    }

    pub(super) fn give_back(&mut self, now: Picos) {
        assert!(self.taken > 0, "a request ends once");
        self.taken -= 1;
        self.returned.push_back(now);
    }
}

/// Classes of priority, drawn independently with given shares.
#[derive(Debug)]
pub(super) struct Priorities {
    /// Class and the sum of the shares up to and with it.
    classes: Vec<(i64, f64)>,
    rng: ChaCha8Rng,
}

impl Priorities {
    pub(super) fn new(shares: &[(i64, f64)], seed: u64) -> Priorities {
        assert!(
            shares.iter().all(|(_, share)| share.is_finite() && *share >= 0.0),
            "a share is not negative"
        );
        let mut sum = 0.0;
        let mut classes = Vec::with_capacity(shares.len());
        for (class, share) in shares {
            sum += share;
            classes.push((*class, sum));
        }
        assert!(
            classes.is_empty() || sum > 0.0,
            "some class of priority has a share"
        );
        Priorities {
            classes,
            rng: stream(seed, Purpose::Clients, 0),
        }
    }

    /// The next class; `None` where there are no classes.
    #[inline]
    pub(super) fn draw(&mut self) -> Option<i64> {
        let (_, sum) = *self.classes.last()?;
        let place = self.rng.random::<f64>() * sum;
        let index = self.classes.partition_point(|(_, up_to)| *up_to <= place);
        Some(self.classes[index.min(self.classes.len() - 1)].0)
    }
}
