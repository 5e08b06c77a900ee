//! The naive twin of LMCache (LM-1 to LM-8): lists of chunks, each with every token that it stands for.
//!
//! A tier is one list that is searched from its beginning; whoever is evicted is looked for among all. Times are
//! picoseconds, a transfer's is `bytes ÷ rate`, rounded.

use std::collections::BTreeMap;

use super::pool::Token;
use super::scheduler::{Index, Share};
use super::sequence::Sequence;

/// Which chunk goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwinPolicy {
    Lru,
    Fifo,
    Lfu,
    Mru,
}

/// A tier behind host memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TwinTier {
    pub(crate) capacity: u64,
    pub(crate) read_rate: f64,
    pub(crate) write_rate: f64,
    pub(crate) latency_ps: u64,
}

/// LMCache's keys.
#[derive(Debug, Clone)]
pub(crate) struct TwinTiers {
    pub(crate) chunk: u32,
    pub(crate) save_unfull_chunk: bool,
    pub(crate) save_decode_cache: bool,
    pub(crate) min_retrieve: u32,
    pub(crate) policy: TwinPolicy,
    pub(crate) aside: bool,
    pub(crate) layers: Option<u32>,
    pub(crate) bytes_per_token: u64,
    pub(crate) ranks: u64,
    pub(crate) lookup_ps: u64,
    pub(crate) load_rate: f64,
    pub(crate) store_rate: f64,
    pub(crate) host: Option<u64>,
    pub(crate) disk: Option<TwinTier>,
    pub(crate) remote: Option<TwinTier>,
}

/// What was moved, by tier: host, disk, remote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TwinMoved {
    pub(crate) served_tokens: [u64; 3],
    pub(crate) loaded_bytes: [u64; 3],
    pub(crate) stored_chunks: [u64; 3],
    pub(crate) evicted_chunks: [u64; 3],
    pub(crate) given_up_chunks: u64,
}

/// A chunk: all tokens up to its end.
#[derive(Debug)]
struct Chunk {
    tokens: Vec<Token>,
    size: u64,
    there_ps: u64,
    pins: u32,
    uses: u64,
    last_use: u64,
}

#[derive(Debug)]
struct Tier {
    policy: TwinPolicy,
    capacity: u64,
    chunks: Vec<Chunk>,
    uses: u64,
    read_free_ps: u64,
    write_free_ps: u64,
    evicted: u64,
    stored: u64,
}

impl Tier {
    fn new(policy: TwinPolicy, capacity: u64) -> Self {
        Self {
            policy,
            capacity,
            chunks: Vec::new(),
            uses: 0,
            read_free_ps: 0,
            write_free_ps: 0,
            evicted: 0,
            stored: 0,
        }
    }

    fn get(&mut self, tokens: &[Token]) -> Option<&mut Chunk> {
        self.chunks.iter_mut().find(|chunk| chunk.tokens == tokens)
    }

    fn touch(&mut self, tokens: &[Token]) {
        if self.policy == TwinPolicy::Fifo {
            return;
        }
        self.uses += 1;
        let now = self.uses;
        if let Some(chunk) = self.get(tokens) {
            chunk.uses += 1;
            chunk.last_use = now;
        }
    }

    /// Position of the chunk that goes next.
    fn victim(&self) -> Option<usize> {
        let free = (0..self.chunks.len()).filter(|&at| self.chunks[at].pins == 0);
        match self.policy {
            TwinPolicy::Lru | TwinPolicy::Fifo => free.min_by_key(|&at| self.chunks[at].last_use),
            TwinPolicy::Lfu => free.min_by_key(|&at| (self.chunks[at].uses, self.chunks[at].last_use)),
            TwinPolicy::Mru => free.max_by_key(|&at| self.chunks[at].last_use),
        }
    }

    fn make_room(&mut self, size: u64) -> bool {
        while self.chunks.iter().map(|chunk| chunk.size).sum::<u64>() + size > self.capacity {
            let Some(victim) = self.victim() else { return false };
            self.chunks.remove(victim);
            self.evicted += 1;
        }
        true
    }

    fn put(&mut self, tokens: &[Token], size: u64, there_ps: u64) {
        if self.get(tokens).is_some() {
            return;
        }
        self.uses += 1;
        self.stored += 1;
        self.chunks.push(Chunk {
            tokens: tokens.to_vec(),
            size,
            there_ps,
            pins: 0,
            uses: 1,
            last_use: self.uses,
        });
    }
}

/// A chunk that was found: tier, tokens up to its end, tokens of its own.
#[derive(Debug, Clone)]
struct Place {
    tier: usize,
    tokens: Vec<Token>,
    own: u32,
}

#[derive(Debug)]
struct Found {
    places: Vec<Place>,
    tokens: u32,
    known: u32,
    is_fresh: bool,
}

#[derive(Debug)]
struct Saving {
    saved: u32,
    known: u32,
    gave_up: bool,
}

/// One engine's LMCache.
#[derive(Debug)]
pub(super) struct Lmcache {
    config: TwinTiers,
    tiers: [Option<Tier>; 3],
    gpu_free_ps: u64,
    found: BTreeMap<Index, Found>,
    saving: BTreeMap<Index, Saving>,
    loads_ps: u64,
    write_back: Vec<Place>,
    moved: TwinMoved,
}

impl Lmcache {
    pub(super) fn new(config: &TwinTiers) -> Self {
        Self {
            tiers: [
                config.host.map(|capacity| Tier::new(config.policy, capacity)),
                config.disk.map(|disk| Tier::new(config.policy, disk.capacity)),
                config
                    .remote
                    .map(|remote| Tier::new(TwinPolicy::Lru, remote.capacity)),
            ],
            config: config.clone(),
            gpu_free_ps: 0,
            found: BTreeMap::new(),
            saving: BTreeMap::new(),
            loads_ps: 0,
            write_back: Vec::new(),
            moved: TwinMoved::default(),
        }
    }

    pub(super) fn is_aside(&self) -> bool {
        self.config.aside
    }

    /// What was moved so far. Law: what was put is there, or was evicted.
    pub(super) fn moved(&self) -> TwinMoved {
        let mut moved = self.moved;
        for (at, tier) in self.tiers.iter().enumerate() {
            if let Some(tier) = tier {
                assert_eq!(tier.stored, tier.evicted + tier.chunks.len() as u64);
                (moved.stored_chunks[at], moved.evicted_chunks[at]) = (tier.stored, tier.evicted);
            }
        }
        moved
    }

    /// Size of `tokens` in a tier: of one rank, but of all on the server.
    fn size(&self, tier: usize, tokens: u32) -> u64 {
        let rank = u64::from(tokens) * self.config.bytes_per_token;
        if tier == 2 { rank * self.config.ranks } else { rank }
    }

    /// Tokens to load behind the `local` ones (LM-2).
    pub(super) fn look_up(&mut self, now_ps: u64, index: Index, sequence: &Sequence, local: u32) -> u32 {
        let known = sequence.known();
        if !self.found.contains_key(&index) {
            let found = self.find(now_ps, sequence);
            self.found.insert(index, found);
        }
        let found = &self.found[&index];
        let need = found.tokens.min(known - 1).saturating_sub(local);
        if need < self.config.min_retrieve { 0 } else { need }
    }

    fn find(&mut self, now_ps: u64, sequence: &Sequence) -> Found {
        let (chunk, known) = (self.config.chunk, sequence.known());
        let mut ends: Vec<u32> = (1..=known / chunk).map(|nth| nth * chunk).collect();
        if self.config.save_unfull_chunk && known % chunk > 0 {
            ends.push(known);
        }
        let mut places = Vec::new();
        let mut begin = 0;
        for end in ends {
            let tokens = sequence.everything(end);
            let holds = |tier: &mut Option<Tier>| {
                let tier = tier.as_mut()?;
                let chunk = tier.get(&tokens).filter(|chunk| chunk.there_ps <= now_ps)?;
                chunk.pins += 1;
                Some(())
            };
            let Some(tier) = (0..3).find(|&tier| holds(&mut self.tiers[tier]).is_some()) else {
                break;
            };
            places.push(Place {
                tier,
                tokens,
                own: end - begin,
            });
            begin = end;
        }
        for place in places.iter().rev() {
            if place.tier < 2 {
                self.tier(place.tier).touch(&place.tokens);
            }
        }
        Found {
            places,
            tokens: begin,
            known,
            is_fresh: true,
        }
    }

    fn tier(&mut self, tier: usize) -> &mut Tier {
        self.tiers[tier].as_mut().expect("a chunk was found there")
    }

    /// Loads what was offered; when it is there, if the sequence waits aside.
    pub(super) fn load(&mut self, now_ps: u64, index: Index, local: u32, tokens: u32) -> u64 {
        let chunk = self.config.chunk;
        let first = local / chunk;
        let places = self.found[&index].places[first as usize..].to_vec();
        let mut bytes = [0; 3];
        let mut begin = first * chunk;
        for place in &places {
            let end = begin + place.own;
            let served = (begin..end)
                .filter(|at| (local..local + tokens).contains(at))
                .count();
            let size = u64::from(place.own) * self.config.bytes_per_token * self.config.ranks;
            self.moved.served_tokens[place.tier] += served as u64;
            self.moved.loaded_bytes[place.tier] += size;
            bytes[place.tier] += size;
            if place.tier > 0 {
                self.tier(place.tier).touch(&place.tokens);
            }
            begin = end;
        }
        let behind = [None, self.config.disk, self.config.remote];
        let times: Vec<u64> = (0..3)
            .map(|tier| match behind[tier] {
                Some(link) if bytes[tier] > 0 => link.latency_ps + transfer(bytes[tier], link.read_rate),
                _ => 0,
            })
            .collect();
        let to_gpu = transfer(
            bytes.iter().sum::<u64>() / self.config.ranks,
            self.config.load_rate,
        );
        if !self.config.aside {
            self.loads_ps += times.iter().sum::<u64>() + to_gpu;
            self.write_back.extend(places);
            return 0;
        }
        self.found.get_mut(&index).expect("it was looked up").is_fresh = false;
        let mut at_ps = now_ps + self.config.lookup_ps;
        for (tier, time) in times.into_iter().enumerate() {
            if time > 0 {
                let link = self.tier(tier);
                link.read_free_ps = link.read_free_ps.max(at_ps) + time;
                at_ps = link.read_free_ps;
            }
        }
        self.gpu_free_ps = self.gpu_free_ps.max(at_ps) + to_gpu;
        self.keep_in_host(&places, at_ps);
        self.gpu_free_ps
    }

    fn keep_in_host(&mut self, places: &[Place], there_ps: u64) {
        for place in places.iter().filter(|place| place.tier > 0) {
            let size = self.size(0, place.own);
            if let Some(host) = &mut self.tiers[0]
                && host.make_room(size)
            {
                host.put(&place.tokens, size, there_ps);
            }
        }
    }

    /// How long a step takes, loads and stores included.
    pub(super) fn step(
        &mut self,
        begin_ps: u64,
        compute_ps: u64,
        shares: &[Share],
        sequences: &[Sequence],
    ) -> u64 {
        let mut lookups = 0;
        let mut entered = Vec::new();
        for share in shares {
            let found = self.found.remove(&share.sequence);
            if let Some(found) = &found {
                lookups += if found.is_fresh { self.config.lookup_ps } else { 0 };
                let saving = Saving {
                    saved: found.tokens,
                    known: found.known,
                    gave_up: false,
                };
                self.saving.insert(share.sequence, saving);
            }
            entered.push(found);
        }
        let loads = std::mem::take(&mut self.loads_ps);
        let write_back = std::mem::take(&mut self.write_back);
        self.keep_in_host(&write_back, begin_ps + lookups + loads);
        let before = begin_ps + lookups;
        match self.config.layers {
            None => {
                let mut at_ps = before + loads + compute_ps;
                for (share, found) in shares.iter().zip(&entered) {
                    self.unpin(found);
                    let chunks = self.copied(share, &sequences[share.sequence], found.is_some(), 0);
                    at_ps += self.copy_time(&chunks);
                    self.keep(&chunks, at_ps);
                }
                at_ps - begin_ps
            }
            Some(layers) => {
                let mut chunks = Vec::new();
                for (share, found) in shares.iter().zip(&entered) {
                    let reserved = chunks.iter().map(|(_, own)| self.size(0, *own)).sum();
                    chunks.extend(self.copied(share, &sequences[share.sequence], found.is_some(), reserved));
                }
                let stages = [loads, compute_ps, self.copy_time(&chunks)];
                let longest = *stages.iter().max().expect("three");
                let others = stages.iter().sum::<u64>() - longest;
                let time = longest + others / u64::from(layers);
                self.keep(&chunks, before + time);
                entered.iter().for_each(|found| self.unpin(found));
                lookups + time
            }
        }
    }

    fn unpin(&mut self, found: &Option<Found>) {
        for place in found.iter().flat_map(|found| &found.places) {
            self.tier(place.tier)
                .get(&place.tokens)
                .expect("what is pinned stays")
                .pins -= 1;
        }
    }

    /// Chunks that a share completes and for which there is room.
    fn copied(
        &mut self,
        share: &Share,
        sequence: &Sequence,
        is_first: bool,
        mut reserved: u64,
    ) -> Vec<(Vec<Token>, u32)> {
        let Some(saving) = self.saving.get_mut(&share.sequence) else {
            return Vec::new();
        };
        let to = share.computed + share.n;
        if saving.gave_up || (share.n == 1 && !is_first && !self.config.save_decode_cache) {
            return Vec::new();
        }
        let chunk = self.config.chunk;
        let mut chunks: Vec<(Vec<Token>, u32)> = (saving.saved / chunk..to / chunk)
            .map(|nth| (sequence.everything((nth + 1) * chunk), chunk))
            .collect();
        let mut saved = to / chunk * chunk;
        if self.config.save_unfull_chunk && to == saving.known && !to.is_multiple_of(chunk) {
            if to > saving.saved {
                chunks.push((sequence.everything(to), to % chunk));
            }
            saved = to;
        }
        saving.saved = saving.saved.max(saved);
        let mut copied = Vec::new();
        for (tokens, own) in chunks {
            let size = self.size(0, own);
            let has_room = self.tiers[0]
                .as_mut()
                .is_none_or(|host| host.make_room(reserved + size));
            let saving = self.saving.get_mut(&share.sequence).expect("just looked at");
            if saving.gave_up || !has_room {
                saving.gave_up = true;
                self.moved.given_up_chunks += 1;
                continue;
            }
            reserved += size;
            copied.push((tokens, own));
        }
        copied
    }

    fn copy_time(&self, chunks: &[(Vec<Token>, u32)]) -> u64 {
        let tokens = chunks.iter().map(|&(_, own)| own).sum();
        transfer(self.size(0, tokens), self.config.store_rate)
    }

    /// Chunks are in host memory, and go onward.
    fn keep(&mut self, chunks: &[(Vec<Token>, u32)], there_ps: u64) {
        for (tokens, own) in chunks {
            let sizes = [0, 1, 2].map(|tier| self.size(tier, *own));
            if let Some(host) = &mut self.tiers[0] {
                host.put(tokens, sizes[0], there_ps);
            }
            for (tier, link) in [(1, self.config.disk), (2, self.config.remote)] {
                let (Some(shelf), Some(link)) = (&mut self.tiers[tier], link) else {
                    continue;
                };
                if shelf.get(tokens).is_some() {
                    if tier == 1 {
                        shelf.touch(tokens);
                    }
                } else if shelf.make_room(sizes[tier]) {
                    shelf.write_free_ps =
                        shelf.write_free_ps.max(there_ps) + transfer(sizes[2], link.write_rate);
                    shelf.put(tokens, sizes[tier], shelf.write_free_ps);
                }
            }
        }
    }

    /// A sequence ends, is preempted, or is given up.
    pub(super) fn leaves(&mut self, index: Index) {
        let found = self.found.remove(&index);
        self.unpin(&found);
        self.saving.remove(&index);
    }
}

/// How long `bytes` take, in picoseconds.
fn transfer(bytes: u64, rate: f64) -> u64 {
    (bytes as f64 / rate * 1e12).round() as u64
}
