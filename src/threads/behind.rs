//! An observer that hears of a run a little later than it happens.

use std::thread::JoinHandle;

use super::belt::{Loading, Unloading, belt};
use super::notes::Notes;
use super::{end, start};
use crate::facts::{Fact, Observer};

/// Batches that wait to be read at most.
const BATCHES: usize = 8;

/// An observer to whom facts are read in batches, by a thread of its own as soon as there is a whole one.
///
/// [`Behind::caught_up`] waits until it has heard all, and then it is here.
#[derive(Debug)]
pub struct Behind<O> {
    notes: Notes,
    /// `None` only while it moves.
    place: Option<Place<O>>,
}

#[derive(Debug)]
enum Place<O> {
    Here(O),
    Apart(Loading<Notes>, JoinHandle<Option<O>>),
}

const SOMEWHERE: &str = "an observer is here or apart";

impl<O: Observer + Send + 'static> Behind<O> {
    /// Tells `observer`.
    #[must_use]
    pub fn of(observer: O) -> Behind<O> {
        Behind {
            notes: Notes::default(),
            place: Some(Place::Here(observer)),
        }
    }

    /// The observer, who has heard all until now.
    pub fn caught_up(&mut self) -> &mut O {
        let observer = match self.place.take().expect(SOMEWHERE) {
            Place::Here(mut observer) => {
                self.notes.read_to(&mut observer);
                observer
            }
            Place::Apart(belt, thread) => {
                // Where the thread has panicked nobody takes it, and its panic goes on at once.
                let _ = belt.finish(std::mem::take(&mut self.notes));
                end(thread).expect("it was handed to the thread")
            }
        };
        match self.place.insert(Place::Here(observer)) {
            Place::Here(observer) => observer,
            Place::Apart(..) => unreachable!("{SOMEWHERE}"),
        }
    }

    /// The observer, who has heard all.
    #[must_use]
    pub fn into_inner(mut self) -> O {
        self.caught_up();
        match self.place {
            Some(Place::Here(observer)) => observer,
            _ => unreachable!("{SOMEWHERE}"),
        }
    }

    /// A whole batch is read, or sent to be read.
    #[cold]
    fn turn_page(&mut self) {
        if let Some(Place::Here(observer)) = self.place.take_if(|place| matches!(place, Place::Here(_))) {
            self.place = Some(depart(observer));
        }
        match self.place.take().expect(SOMEWHERE) {
            Place::Here(mut observer) => {
                self.notes.read_to(&mut observer);
                self.place = Some(Place::Here(observer));
            }
            Place::Apart(mut belt, thread) => match belt.exchange(std::mem::take(&mut self.notes)) {
                Ok(empty) => {
                    self.notes = empty;
                    self.place = Some(Place::Apart(belt, thread));
                }
                Err(_) => {
                    end(thread);
                    unreachable!("who listens goes on while there is something to tell");
                }
            },
        }
    }
}

/// The observer goes to a thread of its own, if there is one.
fn depart<O: Observer + Send + 'static>(observer: O) -> Place<O> {
    let (loading, unloading) = belt(BATCHES);
    let (hand_over, wait) = std::sync::mpsc::channel();
    let thread = start("records", move || Some(hear(wait.recv().ok()?, &unloading)));
    match thread {
        None => Place::Here(observer),
        Some(thread) => {
            hand_over
                .send(observer)
                .expect("the thread waits for its observer");
            Place::Apart(loading, thread)
        }
    }
}

/// Listens until nobody tells any more.
fn hear<O: Observer>(mut observer: O, belt: &Unloading<Notes>) -> O {
    while let Some(mut notes) = belt.next() {
        notes.read_to(&mut observer);
        belt.give_back(notes);
    }
    observer
}

impl<O: Observer + Send + 'static> Observer for Behind<O> {
    // Inlined, so that what is told is written where it stays.
    #[inline(always)]
    fn observe(&mut self, fact: &Fact<'_>) {
        self.notes.write(fact);
        if self.notes.is_full() {
            self.turn_page();
        }
    }
}
