//! What is told of tiers of KV beside the GPUs.

use crate::units::Picos;

/// A place for KV beside the GPU's memory, in the order in which they are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvTier {
    /// The host's memory.
    Host,
    /// A disk of the host.
    Disk,
    /// A server.
    Remote,
}

impl KvTier {
    /// All, in the order in which they are searched.
    pub const ALL: [KvTier; 3] = [KvTier::Host, KvTier::Disk, KvTier::Remote];
}

/// What went to and from one tier. Bytes are those of all ranks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierTraffic {
    /// Tokens that sequences did not compute because they were found here.
    pub served_tokens: u64,
    /// Bytes read, whole chunks (LM-5).
    pub loaded_bytes: u64,
    /// Chunks written.
    pub stored_chunks: u64,
    /// Bytes written.
    pub stored_bytes: u64,
    /// Chunks evicted to make room.
    pub evicted_chunks: u64,
    /// Chunks that were there, or on their way, when the replica failed, and went with it.
    pub lost_chunks: u64,
    /// Chunks there now.
    pub held_chunks: u64,
}

/// What a replica moved to and from its tiers of KV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierAccount {
    /// Sequences admitted after a look-up, resumed ones again.
    pub admissions: u64,
    /// Their known tokens.
    pub asked_tokens: u64,
    /// Of them, tokens in the replica's own prefix cache.
    pub local_tokens: u64,
    /// By tier, as in [`KvTier::ALL`].
    pub tiers: [TierTraffic; 3],
    /// What look-ups and loads added to steps.
    pub load_time: Picos,
    /// What stores added to steps.
    pub store_time: Picos,
    /// Σ of the time that sequences waited for loads aside.
    pub aside_time: Picos,
    /// Chunks that were not stored because no room could be made.
    pub given_up_chunks: u64,
}

impl TierAccount {
    /// Both together. Of a server that replicas share, each holds all: the larger count is taken.
    #[must_use]
    pub fn plus(mut self, other: &TierAccount) -> TierAccount {
        self.admissions += other.admissions;
        self.asked_tokens += other.asked_tokens;
        self.local_tokens += other.local_tokens;
        self.load_time += other.load_time;
        self.store_time += other.store_time;
        self.aside_time += other.aside_time;
        self.given_up_chunks += other.given_up_chunks;
        for (tier, (mine, theirs)) in KvTier::ALL
            .into_iter()
            .zip(self.tiers.iter_mut().zip(&other.tiers))
        {
            mine.served_tokens += theirs.served_tokens;
            mine.loaded_bytes += theirs.loaded_bytes;
            mine.stored_chunks += theirs.stored_chunks;
            mine.stored_bytes += theirs.stored_bytes;
            mine.evicted_chunks += theirs.evicted_chunks;
            mine.lost_chunks += theirs.lost_chunks;
            mine.held_chunks = match tier {
                KvTier::Remote => mine.held_chunks.max(theirs.held_chunks),
                KvTier::Host | KvTier::Disk => mine.held_chunks + theirs.held_chunks,
            };
        }
        self
    }
}
