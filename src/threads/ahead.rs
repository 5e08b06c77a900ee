//! Traffic that is drawn while the simulation is busy with what came before.

use std::collections::VecDeque;
use std::thread::JoinHandle;

use super::belt::{Loading, Unloading, belt};
use super::{end, start};
use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::{AllSend, Request, Source, Traffic};

/// Requests of a batch. So many are drawn on the spot before a thread is worth its start.
const BATCH: usize = 4096;
/// Batches drawn ahead at most.
const BATCHES: usize = 2;

/// A source whose requests a thread draws ahead, if it [takes no notice](Source::ignores_answers) of what becomes of them;
/// another one is asked on the spot, as ever.
#[derive(Debug)]
pub struct Ahead<S> {
    place: Place<S>,
    sent: u64,
    sent_output_tokens: u64,
}

#[derive(Debug)]
enum Place<S> {
    Here(S),
    Apart(Box<Apart>),
}

/// What has come of the source's thread.
#[derive(Debug)]
struct Apart {
    batch: Batch,
    belt: Unloading<Batch>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Batch {
    requests: VecDeque<Request>,
    is_last: bool,
    /// Of the last: the clock ended before the traffic did.
    clock_exhausted: bool,
}

impl<S: Source + Send + 'static> Ahead<S> {
    /// Draws from `source`.
    #[must_use]
    pub fn of(source: S) -> Ahead<S> {
        Ahead {
            place: Place::Here(source),
            sent: 0,
            sent_output_tokens: 0,
        }
    }

    /// The source goes to a thread of its own.
    #[cold]
    fn depart(&mut self) {
        let (loading, belt) = belt(BATCHES);
        let (hand_over, wait) = std::sync::mpsc::channel();
        let draw_all = move || {
            if let Ok(source) = wait.recv() {
                draw(source, loading);
            }
        };
        let Some(thread) = start("traffic", draw_all) else {
            return;
        };
        let apart = Apart {
            batch: Batch::default(),
            belt,
            thread: Some(thread),
        };
        if let Place::Here(source) = std::mem::replace(&mut self.place, Place::Apart(Box::new(apart))) {
            hand_over.send(source).expect("the thread waits for its source");
        }
    }
}

/// Draws until the source ends or nobody wants more.
fn draw<S: Source>(mut source: S, mut belt: Loading<Batch>) {
    let mut batch = Batch::default();
    loop {
        while batch.requests.len() < BATCH && source.next_arrival().is_some() {
            batch.requests.push_back(source.take());
        }
        batch.is_last = source.next_arrival().is_none();
        batch.clock_exhausted = source.clock_exhausted();
        if batch.is_last {
            // Nobody may want it any more.
            let _ = belt.finish(batch);
            return;
        }
        match belt.exchange(batch) {
            Ok(empty) => batch = empty,
            Err(_) => return,
        }
    }
}

impl Apart {
    #[inline]
    fn next_arrival(&mut self) -> Option<Picos> {
        if self.batch.requests.is_empty() && !self.batch.is_last {
            self.unload();
        }
        self.batch.requests.front().map(|request| request.arrival)
    }

    #[cold]
    fn unload(&mut self) {
        match self.belt.next() {
            Some(batch) => self.belt.give_back(std::mem::replace(&mut self.batch, batch)),
            None => {
                self.thread.take().map(end);
                unreachable!("a source that ends by itself has sent its last batch");
            }
        }
    }
}

impl<S: Source + Send + 'static> Traffic for Ahead<S> {
    #[inline]
    fn next_arrival(&mut self) -> Option<Picos> {
        match &mut self.place {
            Place::Here(source) => source.next_arrival(),
            Place::Apart(apart) => apart.next_arrival(),
        }
    }

    #[inline]
    fn take(&mut self) -> Request {
        let request = match &mut self.place {
            Place::Here(source) => source.take(),
            Place::Apart(apart) => apart
                .batch
                .requests
                .pop_front()
                .expect("a request is taken only when one was announced"),
        };
        self.sent += 1;
        self.sent_output_tokens += u64::from(request.output_tokens);
        if self.sent == BATCH as u64 && matches!(&self.place, Place::Here(source) if source.ignores_answers())
        {
            self.depart();
        }
        request
    }

    #[inline]
    fn ended(&mut self, id: RequestId, now: Picos) {
        if let Place::Here(source) = &mut self.place {
            source.ended(id, now);
        }
    }

    #[inline]
    fn failed(&mut self, id: RequestId, now: Picos) {
        if let Place::Here(source) = &mut self.place {
            source.failed(id, now);
        }
    }
}

impl<S: Source + Send + 'static> Source for Ahead<S> {
    fn mean_output_tokens(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.sent_output_tokens as f64 / self.sent as f64)
    }

    fn clock_exhausted(&self) -> bool {
        match &self.place {
            Place::Here(source) => source.clock_exhausted(),
            // Drawn ahead, the end is known before it is reached.
            Place::Apart(apart) => apart.batch.requests.is_empty() && apart.batch.clock_exhausted,
        }
    }

    fn ignores_answers(&self) -> bool {
        match &self.place {
            Place::Here(source) => source.ignores_answers(),
            Place::Apart(_) => true,
        }
    }

    fn all_send(&self) -> Option<AllSend> {
        match &self.place {
            Place::Here(source) => source.all_send(),
            Place::Apart(_) => None,
        }
    }

    fn all_sent(&self) -> Option<AllSend> {
        match &self.place {
            Place::Here(source) => source.all_sent(),
            Place::Apart(_) => None,
        }
    }

    fn fresh_until(&self) -> Picos {
        match &self.place {
            Place::Here(source) => source.fresh_until(),
            Place::Apart(_) => Picos::MAX,
        }
    }
}
