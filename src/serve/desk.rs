//! Where requests are handed in and answers picked up: the seam between clients and the simulation that serves them.
//!
//! A [`Desk`] is cheap to clone, one for each connection. Whoever simulates holds the other end of its channel and receives [`Message`]s in
//! the order in which they were made. Left out: all of time, which that other end keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

pub use crate::workload::Span;

/// What the server is, as clients may ask.
#[derive(Clone, Debug)]
pub struct House {
    /// Names that requests may ask for, one at least; the first is for those that name none.
    pub names: Vec<Name>,
    /// Tokens that prompt and answer may have together.
    pub max_model_len: u32,
    /// Engine and release, as in `vllm@0.33`.
    pub engine: String,
    /// Characters of Latin text that make a token; 1 or more.
    pub chars_per_token: f64,
    /// Unix seconds of the start.
    pub created: u64,
    /// `/metrics` has the names that vLLM has given up, too.
    pub deprecated_metrics: bool,
}

/// What requests may call the model by, and what that makes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As requests have it.
    pub name: String,
    /// As answers have it.
    pub answers: String,
    /// The model of which this is a class, as answers call that; `None` where it is the model itself.
    pub parent: Option<String>,
    /// The class of whoever asks for it.
    pub class: u32,
    /// The priority of whoever gives none.
    pub priority: i64,
}

impl House {
    /// What a request that asks for `model` is; whoever names none gets the first. `None` if nothing is called so.
    #[must_use]
    pub fn named(&self, model: &str) -> Option<&Name> {
        match model {
            "" => self.names.first(),
            model => self.names.iter().find(|name| name.name == model),
        }
    }

    /// What answers call the model, where only one is served.
    #[must_use]
    pub fn only_model(&self) -> Option<&str> {
        let mut models = self.names.iter().filter(|name| name.parent.is_none());
        let first = models.next()?.answers.as_str();
        models.all(|name| name.answers == first).then_some(first)
    }
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The prompt from its start; one token at least.
    pub prompt: Arc<[Span]>,
    /// Most tokens of the answer; `None` for as many as the context holds.
    pub max_tokens: Option<u32>,
    /// Fewest tokens of the answer.
    pub min_tokens: u32,
    /// Whether the answer goes on to `max_tokens`.
    pub ignore_eos: bool,
    /// vLLM's `priority`: lower is earlier.
    pub priority: i64,
    /// Its class.
    pub class: u32,
    /// Who stays together, for routers that care.
    pub session: Option<u64>,
    /// Whether tokens are told as they come; else only the end.
    pub streams: bool,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Said {
    /// It was taken in; always first unless it is refused.
    Taken {
        /// Its number, from then on.
        id: u64,
        /// Tokens of its prompt.
        prompt_tokens: u32,
    },
    /// So many more tokens are there.
    Tokens(u32),
    /// There is no more.
    Ended(Ending),
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// By what.
    pub why: Why,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// Prompt tokens that the prefix cache had.
    pub cached_tokens: u32,
    /// Simulated seconds from the arrival to the first token.
    pub ttft_s: Option<f64>,
    /// Simulated seconds from the arrival to the end.
    pub e2el_s: f64,
    /// Where it came too soon: whole seconds on the wall until it would not, as far as is known.
    pub retry_after: Option<u64>,
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// By itself.
    Stop,
    /// It has `max_tokens`, or the context is full.
    Length,
    /// Refused: the prompt leaves no room in the context, or can never fit into the cache.
    TooLong,
    /// Refused: too many are inside.
    Full,
    /// Refused: it came too soon.
    RateLimited,
    /// Lost with its replica.
    Failed,
    /// The server is shutting down.
    Closed,
}

/// Where clients' requests are handed in.
#[derive(Clone)]
pub struct Desk {
    house: Arc<House>,
    posts: std::sync::mpsc::Sender<Message>,
    tickets: Arc<AtomicU64>,
}

/// What comes through a desk.
pub enum Message {
    /// A request.
    Ask {
        /// Names it until it is taken, and in [`Message::Gone`].
        ticket: u64,
        /// When it was posted.
        at: Instant,
        /// What is asked for.
        ask: Ask,
        /// Who wants to hear of it.
        said: mpsc::UnboundedSender<Said>,
    },
    /// The client of a request that has not ended is gone.
    Gone {
        /// Of that request.
        ticket: u64,
        /// Since when.
        at: Instant,
    },
    /// The server closes.
    Close,
    /// Somebody wants the metrics.
    Metrics(oneshot::Sender<String>),
}

impl Desk {
    /// Opens a desk; posts come out of the receiver.
    pub fn open(house: House) -> (Desk, std::sync::mpsc::Receiver<Message>) {
        let (posts, receiver) = std::sync::mpsc::channel();
        let desk = Desk {
            house: Arc::new(house),
            posts,
            tickets: Arc::default(),
        };
        (desk, receiver)
    }

    /// The way in for whoever closes the server.
    pub(super) fn posts(&self) -> std::sync::mpsc::Sender<Message> {
        self.posts.clone()
    }

    /// What the server is.
    pub fn house(&self) -> &House {
        &self.house
    }

    /// Posts a request now.
    pub fn ask(&self, ask: Ask) -> Answer {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (said, hears) = mpsc::unbounded_channel();
        // Where nobody takes posts any more the sender is lost with the post, and the answer ends at once.
        let _ = self.posts.send(Message::Ask {
            ticket,
            at: Instant::now(),
            ask,
            said,
        });
        Answer {
            ticket,
            hears,
            posts: Some(self.posts.clone()),
        }
    }

    /// The text of `/metrics` at this moment; empty when nobody simulates any more.
    pub async fn metrics(&self) -> String {
        let (wants, gets) = oneshot::channel();
        let _ = self.posts.send(Message::Metrics(wants));
        gets.await.unwrap_or_default()
    }
}

/// What is heard of one request. Dropped before its end, it tells the desk that the client has gone.
pub struct Answer {
    ticket: u64,
    hears: mpsc::UnboundedReceiver<Said>,
    /// Until the end.
    posts: Option<std::sync::mpsc::Sender<Message>>,
}

impl Answer {
    /// What is said next; `None` after the end. May be given up and called again without loss.
    pub async fn next(&mut self) -> Option<Said> {
        let said = self.hears.recv().await;
        if matches!(said, None | Some(Said::Ended(_))) {
            self.posts = None;
        }
        said
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(posts) = self.posts.take() {
            let _ = posts.send(Message::Gone {
                ticket: self.ticket,
                at: Instant::now(),
            });
        }
    }
}
