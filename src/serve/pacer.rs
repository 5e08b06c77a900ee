//! The thread that simulates: it takes what comes through the desk at the instant at which it came, goes on with the simulation as
//! far as the clock does, and says what is due.
//!
//! It sleeps until the next thing happens in the simulation or comes through the desk. What it says is late by as much as this machine
//! lets it sleep too long or has other things to do, and it keeps account of that: where the machine is the bottleneck,
//! clients measure the machine.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tokio::sync::mpsc::UnboundedSender;

use super::asked::Trace;
use super::books::Books;
use super::clock::Clock;
use super::desk::{Ask, Ending, House, Message, Said, Why};
use super::lateness::Lateness;
use super::server::{Ends, Terms};
use crate::ids::RequestId;
use crate::live::{Delivered, Delivery, Ended, Live};
use crate::report::prometheus::Exposition;
use crate::sim::{Outcome, Rejection, Scenario, Simulation};
use crate::units::Picos;
use crate::workload::{self, EndingSampler, Posted, Span};

/// Longest sleep: how old the account is that others look at, and how late the end of the clock is seen.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// Between two looks at how full the servers are, each of which visits everybody inside.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Posts taken before what is due is said.
const POSTS_AT_ONCE: usize = 256;

/// What the server has done so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that came.
    pub asked: u64,
    /// Answered whole.
    pub answered: u64,
    /// Refused.
    pub refused: u64,
    /// Whose clients went away.
    pub gone: u64,
    /// Lost with a replica.
    pub lost: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// How late things were said.
    pub lateness: Lateness,
    /// The clock showed this.
    pub now: Picos,
    /// How full it was, a quarter of a second ago at most.
    pub load: Load,
    /// Sequences preempt each other for ever: nobody gets another token.
    pub is_livelocked: bool,
    /// Requests inside of each class; empty where there are none.
    pub inside_of: Vec<u64>,
}

/// How full servers are, all replicas together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Requests that run.
    pub running: u64,
    /// Requests that wait for it.
    pub waiting: u64,
    /// Share of the KV cache in use, of the replica where it is largest.
    pub kv_usage: f64,
}

impl Tally {
    /// Requests inside.
    #[must_use]
    pub fn inside(&self) -> u64 {
        self.asked - self.answered - self.refused - self.gone - self.lost
    }
}

/// Simulates a server whose clients come through a desk.
pub struct Pacer {
    live: Live,
    clock: Clock,
    house: House,
    books: Books,
    trace: Option<Trace>,
    endings: Option<EndingSampler>,
    clients: BTreeMap<RequestId, Client>,
    tickets: FxHashMap<u64, RequestId>,
    tally: Tally,
    told: Arc<Mutex<Tally>>,
    looked: Instant,
}

/// Whoever waits for a request.
struct Client {
    ticket: u64,
    said: UnboundedSender<Said>,
    prompt_tokens: u32,
    max_tokens: u32,
    class: u32,
    is_taken: bool,
}

impl Pacer {
    /// The servers of a scenario under a clock that starts now. `told` is kept up to date for whoever looks.
    #[must_use]
    pub fn new(scenario: &Scenario, house: House, terms: Terms, told: Arc<Mutex<Tally>>) -> Pacer {
        let simulation = Simulation::of_scenario(scenario, Posted::default());
        let books = Books::new(scenario, &simulation, terms.limits);
        let classes = scenario.workload.classes.iter().map(|class| class.name.clone());
        Pacer {
            live: Live::new(simulation),
            clock: Clock::start(terms.speed),
            house,
            books,
            trace: (terms.trace).map(|file| Trace::new(file, classes.collect())),
            endings: (terms.endings).map(|endings| EndingSampler::new(endings, scenario.seed)),
            clients: BTreeMap::new(),
            tickets: FxHashMap::default(),
            tally: Tally {
                inside_of: vec![0; scenario.workload.classes.len()],
                ..Tally::default()
            },
            told,
            looked: Instant::now(),
        }
    }

    /// Serves until the desk is closed, the clock has come to its end, or nobody inside will ever go on; what there is to say at the end.
    pub fn run(mut self, posts: &Receiver<Message>) -> Ends {
        loop {
            self.go_on();
            if self.tally.now == Picos::LAST || self.tally.is_livelocked {
                break;
            }
            let next = self.live.next_instant().map(|at| self.clock.until(at));
            let sleep = next.map_or(LONGEST_SLEEP, |sleep| sleep.min(LONGEST_SLEEP));
            let first = match posts.recv_timeout(sleep) {
                Ok(post) => Some(post),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut posts = first.into_iter().chain(posts.try_iter()).take(POSTS_AT_ONCE);
            if posts.any(|post| self.take(post).is_break()) {
                break;
            }
        }
        self.tell();
        for client in std::mem::take(&mut self.clients).into_values() {
            let _ = client.said.send(Said::Ended(Ending {
                why: Why::Closed,
                prompt_tokens: 0,
                output_tokens: 0,
                cached_tokens: 0,
                ttft_s: None,
                e2el_s: 0.0,
                retry_after: None,
            }));
        }
        Ends {
            by_class: self.books.by_class().to_vec(),
            trace: self.trace.map(Trace::close),
        }
    }

    /// Goes on to now, and says what is due.
    fn go_on(&mut self) {
        let now = self.clock.now();
        for delivery in self.live.advance(now, &mut self.books) {
            self.deliver(delivery);
        }
        self.tally.now = now;
        self.tally.is_livelocked = self.live.is_livelocked();
        if self.looked.elapsed() > LOOK_EVERY {
            self.looked = Instant::now();
            let engines = self.books.scraped.engines();
            self.tally.load = Load {
                running: engines.iter().map(|engine| engine.running).sum(),
                waiting: engines
                    .iter()
                    .map(|engine| engine.waiting + engine.deferred)
                    .sum(),
                kv_usage: engines.iter().map(|engine| engine.kv_usage).fold(0.0, f64::max),
            };
        }
        self.tell();
    }

    /// Whoever looks sees what has been done until now.
    fn tell(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone_from(&self.tally);
    }

    /// Takes what came; whether to go on.
    fn take(&mut self, post: Message) -> ControlFlow<()> {
        match post {
            Message::Close => return ControlFlow::Break(()),
            Message::Ask {
                ticket,
                at,
                ask,
                said,
            } => {
                let at = self.clock.at(at);
                // Whatever the engine has decided until then was decided without it.
                for delivery in self.live.advance(at, &mut self.books) {
                    self.deliver(delivery);
                }
                self.ask(&ask, at, ticket, said);
            }
            Message::Gone { ticket, at } => {
                if let Some(id) = self.tickets.get(&ticket) {
                    self.live.withdraw(*id, self.clock.at(at));
                }
            }
            Message::Metrics(wants) => {
                self.go_on();
                let exposition = Exposition {
                    model_name: self.house.only_model(),
                    created: self.house.created as f64,
                    deprecated: self.house.deprecated_metrics,
                };
                let _ = wants.send(self.books.metrics(&exposition, self.tally.now));
            }
        }
        ControlFlow::Continue(())
    }

    fn ask(&mut self, ask: &Ask, at: Picos, ticket: u64, said: UnboundedSender<Said>) {
        self.tally.asked += 1;
        if let Some(inside) = self.tally.inside_of.get_mut(ask.class as usize) {
            *inside += 1;
        }
        let prompt_tokens: u32 = ask.prompt.iter().map(Span::tokens).sum();
        let room = self.house.max_model_len.saturating_sub(prompt_tokens).max(1);
        let max_tokens = ask.max_tokens.unwrap_or(room).clamp(1, room);
        let output_tokens = match &mut self.endings {
            Some(endings) if !ask.ignore_eos => endings.draw(max_tokens).max(ask.min_tokens).min(max_tokens),
            _ => max_tokens,
        };
        let post = workload::Post {
            prompt: ask.prompt.iter().map(|span| self.known(*span)).collect(),
            output_tokens,
            max_tokens,
            priority: ask.priority,
            class: ask.class,
            ignore_eos: ask.ignore_eos,
            session: ask.session,
        };
        let id = self.live.post(&post, at, ask.streams);
        if let Some(trace) = &mut self.trace {
            trace.asked(id, at, &post);
        }
        self.tickets.insert(ticket, id);
        let client = Client {
            ticket,
            said,
            prompt_tokens,
            max_tokens,
            class: ask.class,
            is_taken: false,
        };
        self.clients.insert(id, client);
    }

    /// An answer that was never given is a text.
    fn known(&self, span: Span) -> Span {
        match span {
            Span::Answer { id, tokens, .. } if id.0 + 1 >= self.tally.asked => {
                Span::Text { name: id.0, tokens }
            }
            known => known,
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.tally.lateness.add(
            self.clock
                .on_the_wall(self.clock.now().saturating_sub(delivery.at)),
        );
        match delivery.what {
            Delivered::Taken => {
                if let Some(client) = self.clients.get_mut(&delivery.id)
                    && !std::mem::replace(&mut client.is_taken, true)
                {
                    let _ = client.said.send(Said::Taken {
                        id: delivery.id.0,
                        prompt_tokens: client.prompt_tokens,
                    });
                }
            }
            Delivered::Tokens(tokens) => {
                if let Some(client) = self.clients.get(&delivery.id) {
                    let _ = client.said.send(Said::Tokens(tokens));
                }
            }
            Delivered::End(ended) => self.end(delivery.id, &ended),
        }
    }

    fn end(&mut self, id: RequestId, ended: &Ended) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        self.tickets.remove(&client.ticket);
        if let Some(inside) = self.tally.inside_of.get_mut(client.class as usize) {
            *inside -= 1;
        }
        let completion = &ended.completion;
        let tally = &mut self.tally;
        if let Some(trace) = &mut self.trace {
            let is_whole = completion.outcome == Outcome::Completed;
            trace.ended(id, is_whole.then_some(completion.output_tokens));
        }
        let why = match completion.outcome {
            Outcome::Completed => {
                tally.answered += 1;
                tally.output_tokens += u64::from(completion.output_tokens);
                match completion.output_tokens < client.max_tokens {
                    true => Why::Stop,
                    false => Why::Length,
                }
            }
            Outcome::TimedOut => {
                tally.gone += 1;
                Why::Closed
            }
            Outcome::Rejected => {
                tally.refused += 1;
                match ended.rejection {
                    // An engine gave it up since alone it does not fit its KV pool (SG-33).
                    Some(Rejection::TooLong) | None => Why::TooLong,
                    Some(Rejection::RateLimited) => Why::RateLimited,
                    Some(Rejection::Unavailable) => Why::Full,
                }
            }
            Outcome::Failed => {
                tally.lost += 1;
                Why::Failed
            }
        };
        let wait = |at: Picos| self.clock.on_the_wall(at.saturating_sub(completion.end));
        let retry_after = (ended.payable_at).map(|at| (wait(at).as_secs_f64().ceil() as u64).max(1));
        let since = |at: Picos| at.saturating_sub(completion.arrival).seconds();
        let _ = client.said.send(Said::Ended(Ending {
            why,
            prompt_tokens: completion.prompt_tokens,
            output_tokens: completion.output_tokens,
            cached_tokens: completion.cached_tokens,
            ttft_s: completion.first_token.map(since),
            e2el_s: since(completion.end),
            retry_after,
        }));
    }
}
