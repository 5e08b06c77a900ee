//! How requests were sent, in the words of all tools.

/// How requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Load {
    /// At a rate of requests per second, whatever the server does.
    Open {
        /// Requests per second.
        rate: f64,
    },
    /// A number of clients, each of which sends when its answer is there.
    Closed {
        /// Clients.
        clients: u64,
    },
    /// All at once.
    Burst,
    /// One batch, from its start to its end.
    StaticBatch {
        /// Requests in it.
        batch: u64,
    },
    /// Requests handed to the engine without a server.
    Offline,
    /// At recorded instants.
    Trace,
    /// By several clients, each in its own way and time.
    Mixed {
        /// Requests per second of those that have a rate, or of all on average.
        rate: f64,
    },
    /// By users who think after each answer, one request each at a time.
    Users {
        /// Users.
        users: u64,
    },
    /// In conversations, of which every turn but the first waits for an answer.
    Sessions {
        /// Requests per second that arrive, later turns included, while none waits for an answer; infinite where none is said.
        rate: f64,
    },
    /// The file does not say.
    #[default]
    Unknown,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Load::Open { rate } => write!(f, "{} req/s", figures(*rate)),
            Load::Mixed { rate } => write!(f, "several clients at {} req/s", figures(*rate)),
            Load::Closed { clients } => write!(f, "{clients} in flight"),
            Load::Users { users } => write!(f, "{users} users who think"),
            Load::Sessions { rate } if rate.is_finite() => {
                write!(f, "conversations of {} req/s", figures(*rate))
            }
            Load::Sessions { .. } => write!(f, "conversations"),
            Load::Burst => write!(f, "all at once"),
            Load::StaticBatch { batch } => write!(f, "one batch of {batch}"),
            Load::Offline => write!(f, "offline"),
            Load::Trace => write!(f, "a trace"),
            Load::Unknown => write!(f, "unknown load"),
        }
    }
}

/// Four figures of a rate, and all of one that is a whole number of hundredths.
fn figures(rate: f64) -> f64 {
    if (rate * 100.0).fract() == 0.0 || !(rate.is_finite() && rate > 0.0) {
        return rate;
    }
    let digits = (3 - rate.log10().floor() as i32).clamp(0, 12);
    let scale = 10f64.powi(digits);
    (rate * scale).round() / scale
}
