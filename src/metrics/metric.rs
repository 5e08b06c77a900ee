//! What is recorded of every request.

/// The latencies that are recorded, in the order of their storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Mean time per output token after the first.
    Tpot,
    /// Every token gap.
    Itl,
    /// Send to last token.
    E2el,
    /// Arrival to first scheduling.
    QueueTime,
    /// Waiting in the client.
    ClientQueueTime,
}

impl Metric {
    /// The name in results: `ttft`, `tpot`, `itl`, `e2el`, `queue_time`, `client_queue_time`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Tpot => "tpot",
            Metric::Itl => "itl",
            Metric::E2el => "e2el",
            Metric::QueueTime => "queue_time",
            Metric::ClientQueueTime => "client_queue_time",
        }
    }
}
