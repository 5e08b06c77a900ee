//! Several clients who each send by themselves: their streams merged in order of time.
//!
//! Every client is a [`Generator`] of its own, with a seed that is named by its class: to add a class, to leave one out,
//! to change one or to write them in another order changes nothing of what the others send, but for how soon answers let
//! a closed loop or a conversation go on. Classes that share one law of arrivals are one client, whose seed is the run's.
//!
//! Laws:
//! * Sends never go back in time; at one instant clients send in the order of the streams.
//! * A client hears of its own requests only, so a closed loop keeps as many of its own in flight as it is given.
//! * Texts of two clients are never one, unless their traces are told to share hash ids.
//! * A client without an end of its own sends until the workload's number of requests or duration. Where neither is given
//!   it sends until the last request of those who have an end has left, so that these are under load to their last; and
//!   for ever where nobody has an end.
//! * The number of requests of the workload counts those of all clients together.
//!
//! A request costs a comparison for each client, a drawn one no more than that. Memory is O(clients), and O(in flight)
//! of those who wait for answers or have an end.

use rand::Rng;
use rustc_hash::FxHashMap;

use super::generator::Generator;
use super::request::{Prompt, Request};
use super::segments::{SPACES_MAX, of_client};
use super::{Arrivals, Source, Stream, Traffic, WorkloadSpec};
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// The stretch in which all of several clients send. One that never sent anything, and never will, is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllSend {
    /// When the last of them began.
    pub from: Picos,
    /// When the first of them sent its last request; the end of the clock while none has come to its end.
    pub until: Picos,
}

/// A [`Traffic`] made from [`Arrivals::Superposed`] and a seed.
#[derive(Debug)]
pub struct Superposition {
    clients: Vec<Client>,
    /// Who sends next, and when.
    first: Option<(Picos, usize)>,
    /// Requests of clients who hear of them: whose they are, and what that client calls them.
    in_flight: FxHashMap<RequestId, (u32, RequestId)>,
    /// Clients with an end to which they have not come; nobody else sends after the last of them. `None` where clients do
    /// not follow each other.
    unfinished: Option<usize>,
    /// Nothing is sent at or after this instant.
    closes: Picos,
    /// Requests that may still be sent.
    left: u64,
    sent: u64,
    sent_output_tokens: u64,
}

/// One client.
#[derive(Debug)]
struct Client {
    generator: Generator,
    start: Picos,
    /// Its next send, as far as it knows.
    next: Option<Picos>,
    /// When it sent its last request so far; `None` before the first.
    last_sent: Option<Picos>,
    /// Its classes by their number among all, with their priorities.
    classes: Box<[(u32, i64)]>,
    /// Names of its texts: of those that hash ids name, and of its own.
    spaces: (u64, u64),
    has_end: bool,
    /// It goes on because of an end, or it is asked when its last request has left.
    hears: bool,
    /// It sends whenever it is answered: it has no queue of its own in which time passes.
    is_paced: bool,
    /// Requests in flight, where it hears of them.
    inside: u64,
    is_finished: bool,
    clock_exhausted: bool,
}

impl Superposition {
    /// Opens the traffic of `spec`.
    ///
    /// # Panics
    /// If `spec` is not superposed, a stream is not valid, or its classes are not among those of `spec`.
    #[must_use]
    pub fn new(spec: &WorkloadSpec, seed: u64) -> Superposition {
        let Arrivals::Superposed { streams } = &spec.arrivals else {
            panic!("a superposition is of several streams");
        };
        assert!(streams.len() <= SPACES_MAX, "fewer than 65,535 clients send");
        let clients = (1u64..).zip(streams.iter());
        let mut clients: Vec<Client> = clients
            .map(|(number, stream)| Client::new(stream, spec, number, seed))
            .collect();
        for client in &mut clients {
            client.look();
        }
        let follow = spec.num_prompts.is_none() && spec.duration.is_none();
        let unfinished = clients
            .iter()
            .filter(|client| client.has_end && !client.is_finished);
        let has_ends = clients.iter().any(|client| client.has_end);
        let mut this = Superposition {
            unfinished: (follow && has_ends).then(|| unfinished.count()),
            clients,
            first: None,
            in_flight: FxHashMap::default(),
            closes: spec.duration.unwrap_or(Picos::MAX),
            left: spec.num_prompts.unwrap_or(u64::MAX),
            sent: 0,
            sent_output_tokens: 0,
        };
        this.choose();
        this
    }

    /// No more requests than these are sent, whoever would send them; what ends each client stays as it is.
    #[must_use]
    pub fn at_most(mut self, requests: u64) -> Superposition {
        self.left = self.left.min(requests);
        self.choose();
        self
    }

    /// Looks for who sends next.
    fn choose(&mut self) {
        self.first = None;
        if self.left == 0 || self.unfinished == Some(0) {
            return;
        }
        let next = |(index, client): (usize, &Client)| Some((client.next?, index));
        let first = self.clients.iter().enumerate().filter_map(next).min();
        self.first = first.filter(|(at, _)| *at < self.closes);
    }

    /// A request of a client who hears of it has left.
    fn left(&mut self, id: RequestId, now: Picos, tell: impl FnOnce(&mut Generator, RequestId, Picos)) {
        let Some((client, own)) = self.in_flight.remove(&id) else {
            return;
        };
        let client = &mut self.clients[client as usize];
        client.inside -= 1;
        tell(&mut client.generator, own, now - client.start);
        client.look();
        if client.is_finished
            && let Some(unfinished) = &mut self.unfinished
        {
            *unfinished -= 1;
        }
        self.choose();
    }
}

impl Traffic for Superposition {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.first.map(|(at, _)| at)
    }

    fn take(&mut self) -> Request {
        let (at, index) = self
            .first
            .expect("a request is taken only when one was announced");
        let client = &mut self.clients[index];
        let mut request = client.take();
        debug_assert_eq!(request.arrival, at, "a client sends when it said");
        let (own, id) = (request.id, RequestId(self.sent));
        request.id = id;
        if client.hears {
            self.in_flight.insert(id, (index as u32, own));
            client.inside += 1;
        }
        client.last_sent = Some(at);
        client.look();
        self.left -= 1;
        self.sent += 1;
        self.sent_output_tokens += u64::from(request.output_tokens);
        self.choose();
        request
    }

    fn ended(&mut self, id: RequestId, now: Picos) {
        self.left(id, now, Generator::ended);
    }

    fn failed(&mut self, id: RequestId, now: Picos) {
        self.left(id, now, Generator::failed);
    }
}

impl Source for Superposition {
    fn mean_output_tokens(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.sent_output_tokens as f64 / self.sent as f64)
    }

    fn clock_exhausted(&self) -> bool {
        let mut clients = self.clients.iter();
        self.left > 0 && clients.any(|client| client.clock_exhausted || client.generator.clock_exhausted())
    }

    /// How far each client has come is asked while they send, so nobody draws ahead.
    fn ignores_answers(&self) -> bool {
        false
    }

    fn all_send(&self) -> Option<AllSend> {
        AllSend::of(self.clients.iter().filter(|client| !client.is_silent()))
    }

    fn all_sent(&self) -> Option<AllSend> {
        AllSend::of(self.clients.iter().filter(|client| client.last_sent.is_some()))
    }

    fn fresh_until(&self) -> Picos {
        match self.unfinished {
            Some(0) => {
                let with_end = self.clients.iter().filter(|client| client.has_end);
                with_end
                    .filter_map(|client| client.last_sent)
                    .max()
                    .unwrap_or(Picos::MAX)
            }
            Some(_) | None => Picos::MAX,
        }
    }
}

impl AllSend {
    fn of<'a>(clients: impl Iterator<Item = &'a Client> + Clone) -> Option<AllSend> {
        let from = clients.clone().map(|client| client.start).max()?;
        let finished = clients.filter(|client| client.is_finished);
        let until = finished.filter_map(|client| client.last_sent).min();
        Some(AllSend {
            from,
            until: until.unwrap_or(Picos::MAX),
        })
    }
}

impl Client {
    fn new(own: &Stream, all: &WorkloadSpec, number: u64, seed: u64) -> Client {
        let with_priority = |class: &u32| (*class, all.classes[*class as usize].priority);
        let spec = &own.spec;
        let seed = match own.classes.as_slice() {
            [alone] if spec.classes.is_empty() => seed_of(seed, &all.classes[*alone as usize].name),
            _ => seed,
        };
        let is_at_once = matches!(spec.arrivals, Arrivals::AllAtOnce);
        let is_limited = spec.client.max_concurrency.is_some();
        let is_answered = matches!(spec.arrivals, Arrivals::Users { .. }) || spec.has_conversations();
        Client {
            generator: Generator::new(spec, seed),
            start: own.start,
            next: None,
            last_sent: None,
            classes: own.classes.iter().map(with_priority).collect(),
            spaces: (u64::from(own.hash_space) + 1, number),
            has_end: spec.has_end(),
            hears: is_limited || is_answered || spec.has_end(),
            is_paced: is_at_once && is_limited,
            inside: 0,
            is_finished: false,
            clock_exhausted: false,
        }
    }

    /// Asks it when it sends next.
    fn look(&mut self) {
        let own = self.generator.next_arrival();
        self.next = own.and_then(|own| own.checked_add(self.start));
        self.clock_exhausted |= own.is_some() && self.next.is_none();
        self.is_finished = self.has_end && self.next.is_none() && self.inside == 0;
    }

    /// Whether it has come to its end without a request.
    fn is_silent(&self) -> bool {
        self.is_finished && self.last_sent.is_none()
    }

    /// Its next request, on the clock and in the names of all.
    fn take(&mut self) -> Request {
        let mut request = self.generator.take();
        request.arrival += self.start;
        request.deadline = request
            .deadline
            .and_then(|deadline| deadline.checked_add(self.start));
        if self.is_paced {
            request.client_queue_time = Picos::ZERO;
        }
        (request.class, request.priority) = self.classes[request.class as usize];
        request.output_segment = of_client(request.output_segment, self.spaces);
        if let Prompt::Pieces(pieces) = &mut request.prompt {
            for piece in pieces.iter_mut() {
                piece.segment = of_client(piece.segment, self.spaces);
            }
        }
        // Numbers of users and conversations are small: what is above them tells the clients apart.
        request.session = request.session.map(|session| session ^ (self.spaces.1 << 48));
        request
    }
}

/// The seed of a client who sends the requests of one class.
fn seed_of(seed: u64, class: &str) -> u64 {
    // FNV-1a, of which a stream's number has 48 bits.
    let hash = class.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    stream(seed, Purpose::Classes, (hash ^ (hash >> 48)) & ((1 << 48) - 1)).next_u64()
}

#[cfg(test)]
mod tests;
