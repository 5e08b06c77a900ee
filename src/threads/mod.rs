//! One run on several cores: the traffic is drawn ahead, and the books are kept behind.
//!
//! A simulation is one loop, and stays one. What stands before it and what stands behind it need not wait for it: open
//! traffic ([`Ahead`]) depends on nothing that happens to its requests, and observers ([`Behind`]) influence nothing that
//! they are told of. Each goes to a thread of its own once a run is longer than a batch.
//!
//! Law: the simulation is handed the very requests, and the observer told the very facts, of a run in one thread, in the
//! same order. Nothing else crosses between threads, so no result depends on how they are scheduled. Batches go round on
//! a belt, so many as there are and no more: whoever is faster waits, and memory does not grow with the run. A panic
//! of a thread is the panic of the run.

mod ahead;
mod behind;
mod belt;
mod notes;

pub use ahead::Ahead;
pub use behind::Behind;

use std::thread::{Builder, JoinHandle};

/// Starts a thread; `None` where the system has none left, and the work is done on the spot.
fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).ok()
}

/// What a thread that ends gives; its panic goes on here.
fn end<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests;
