//! LMCache's side of vLLM's scheduler and of its steps (`vllm_v1_adapter.py`, `cache_engine.py`).

use rustc_hash::FxHashMap;

use super::tiers::{Place, RemoteServer, Tiers};
use super::{LmcacheConfig, transfer_time};
use crate::engine::external::{Asked, Connector, Leaving, Offer, Share};
use crate::facts::{KvTier, TierAccount};
use crate::ids::RequestId;
use crate::kv::{Chain, ChunkName};
use crate::units::{Bytes, Picos};
use crate::workload::Request;

/// The answer to a look-up, kept until the sequence computes its first token (LM-2).
#[derive(Debug)]
struct Found {
    chain: Chain,
    places: Vec<Place>,
    /// Tokens of all of them.
    tokens: u32,
    known: u32,
    /// Tokens in the prefix cache when it was last asked.
    local: u32,
    /// Nobody has waited for the look-up yet.
    is_fresh: bool,
}

/// A sequence that computes: what of it is stored.
#[derive(Debug)]
struct Saving {
    chain: Chain,
    saved: u32,
    /// Known tokens at admission: a prefill ends there.
    known: u32,
    gave_up: bool,
}

/// One replica's LMCache.
#[derive(Debug)]
pub(crate) struct Lmcache {
    config: LmcacheConfig,
    tiers: Tiers,
    found: FxHashMap<RequestId, Found>,
    saving: FxHashMap<RequestId, Saving>,
    /// Loads of the step that is being scheduled.
    loads: Picos,
    /// What they bring into host memory.
    write_back: Vec<Place>,
    account: TierAccount,
}

impl Lmcache {
    /// An empty cache, and the server as it is.
    pub(crate) fn new(config: LmcacheConfig, server: Option<RemoteServer>) -> Lmcache {
        Lmcache {
            tiers: Tiers::new(&config, server),
            config,
            found: FxHashMap::default(),
            saving: FxHashMap::default(),
            loads: Picos::ZERO,
            write_back: Vec::new(),
            account: TierAccount::default(),
        }
    }

    /// Chunks from the start of a sequence that are in any tier; a gap ends them (LM-2).
    fn find(&mut self, now: Picos, asked: &Asked<'_>) -> Found {
        let chunk = self.config.chunk_size;
        let mut chain = Chain::new(chunk);
        let mut places: Vec<Place> = Vec::new();
        let known = asked.known_tokens;
        let whole = (known / chunk) as usize;
        for nth in 0..whole {
            let name = chain.whole(asked.pieces, nth);
            match self.tiers.find(name, now) {
                Some(tier) => places.push(Place {
                    name,
                    tier,
                    tokens: chunk,
                }),
                None => break,
            }
        }
        if self.config.save_unfull_chunk && places.len() == whole && !known.is_multiple_of(chunk) {
            let name = chain.rest(asked.pieces, known);
            let tokens = known % chunk;
            let tier = self.tiers.find(name, now);
            places.extend(tier.map(|tier| Place { name, tier, tokens }));
        }
        self.tiers.touch_found(&places);
        Found {
            chain,
            tokens: places.iter().map(|place| place.tokens).sum(),
            places,
            known,
            local: asked.local_tokens,
            is_fresh: true,
        }
    }

    /// Whoever computes for the first time since its admission begins to be saved. What its look-up makes the step wait,
    /// and the chunks that need not be kept for it any longer.
    fn enter(&mut self, share: &Share<'_>) -> (Picos, Option<Vec<Place>>) {
        let Some(found) = self.found.remove(&share.request.id) else {
            return (Picos::ZERO, None);
        };
        self.account.admissions += 1;
        self.account.asked_tokens += u64::from(found.known);
        self.account.local_tokens += u64::from(found.local);
        let saving = Saving {
            chain: found.chain,
            saved: found.tokens,
            known: found.known,
            gave_up: false,
        };
        self.saving.insert(share.request.id, saving);
        let wait = if found.is_fresh {
            self.config.lookup_latency
        } else {
            Picos::ZERO
        };
        (wait, Some(found.places))
    }

    /// The chunks that a share completes and that are copied to the host, as far as there is room beside `reserved`.
    fn copied(&mut self, share: &Share<'_>, is_first: bool, reserved: &mut Bytes) -> Vec<(ChunkName, u32)> {
        let config = &self.config;
        let Some(saving) = self.saving.get_mut(&share.request.id) else {
            return Vec::new();
        };
        // A step of one token is a decode to LMCache, unless it is the first of an admission.
        let is_decode = share.to - share.from == 1 && !is_first;
        if saving.gave_up || (is_decode && !config.save_decode_cache) {
            return Vec::new();
        }
        let chunk = config.chunk_size;
        let wholes = (saving.saved / chunk)..(share.to / chunk);
        let mut chunks: Vec<(ChunkName, u32)> = wholes
            .map(|nth| (saving.chain.whole(share.pieces, nth as usize), chunk))
            .collect();
        let rest = share.to % chunk;
        let ends = config.save_unfull_chunk && share.to == saving.known && rest > 0;
        if ends && share.to > saving.saved {
            chunks.push((saving.chain.rest(share.pieces, share.to), rest));
        }
        saving.saved = saving.saved.max(if ends { share.to } else { share.to - rest });
        for at in 0..chunks.len() {
            let tokens = chunks[at].1;
            if !self.tiers.takes(config, tokens, *reserved) {
                saving.gave_up = true;
                self.account.given_up_chunks += (chunks.len() - at) as u64;
                chunks.truncate(at);
                break;
            }
            *reserved += config.rank_bytes(tokens);
        }
        chunks
    }

    /// Copies what the shares of a step complete, request by request, each behind the one before from `from` on; the
    /// time that takes.
    fn store_in_turn(&mut self, from: Picos, shares: &[Share<'_>], entered: &[Option<Vec<Place>>]) -> Picos {
        let mut at = from;
        for (share, places) in shares.iter().zip(entered) {
            self.tiers.unpin(places.as_deref().unwrap_or(&[]));
            let chunks = self.copied(share, places.is_some(), &mut Bytes(0));
            at += self.copy_time(&chunks);
            self.put(&chunks, at);
        }
        at - from
    }

    /// Layer by layer: all room is made first, and everything is there when the step ends.
    fn step_by_layer(
        &mut self,
        begin: Picos,
        compute: Picos,
        layers: u32,
        shares: &[Share<'_>],
        entered: &[Option<Vec<Place>>],
    ) -> (Picos, Picos) {
        let mut reserved = Bytes(0);
        let mut all = Vec::new();
        for (share, places) in shares.iter().zip(entered) {
            all.append(&mut self.copied(share, places.is_some(), &mut reserved));
        }
        let loads = std::mem::take(&mut self.loads);
        let stores = self.copy_time(&all);
        let without_stores = pipelined([loads, compute, Picos::ZERO], layers);
        let time = pipelined([loads, compute, stores], layers);
        self.put(&all, begin + time);
        for places in entered.iter().flatten() {
            self.tiers.unpin(places);
        }
        (without_stores - compute, time - without_stores)
    }

    fn copy_time(&self, chunks: &[(ChunkName, u32)]) -> Picos {
        let tokens = chunks.iter().map(|&(_, tokens)| tokens).sum();
        transfer_time(self.config.rank_bytes(tokens), self.config.store_bandwidth)
    }

    fn put(&mut self, chunks: &[(ChunkName, u32)], there: Picos) {
        for &(name, tokens) in chunks {
            self.tiers.store(&self.config, name, tokens, there);
        }
    }
}

impl Connector for Lmcache {
    fn look_up(&mut self, now: Picos, asked: &Asked<'_>) -> Offer {
        let id = asked.request.id;
        if !self.found.contains_key(&id) {
            let found = self.find(now, asked);
            self.found.insert(id, found);
        }
        let found = self.found.get_mut(&id).expect("it was just put there");
        found.local = asked.local_tokens;
        // The last token is computed for its logits.
        let most = found.tokens.min(asked.known_tokens - 1);
        let need = most.saturating_sub(asked.local_tokens);
        match need {
            0 => Offer::Nothing,
            _ if need < self.config.min_retrieve_tokens => Offer::Nothing,
            _ if self.config.enable_async_loading => Offer::Aside(need),
            _ => Offer::WithStep(need),
        }
    }

    fn load(&mut self, now: Picos, asked: &Asked<'_>, tokens: u32) -> Option<Picos> {
        let found = self
            .found
            .get_mut(&asked.request.id)
            .expect("tokens were offered");
        let (from, to) = (asked.local_tokens, asked.local_tokens + tokens);
        // Whole chunks, also where their first tokens are in the prefix cache (LM-5).
        let chunk = self.config.chunk_size;
        let first = from / chunk;
        let places: Vec<(Place, u32)> = (first..)
            .zip(&found.places[first as usize..])
            .map(|(nth, &place)| {
                let (start, end) = (nth * chunk, nth * chunk + place.tokens);
                (place, end.min(to).saturating_sub(start.max(from)))
            })
            .collect();
        let reading = self.tiers.read(&self.config, &places);
        let places: Vec<Place> = places.into_iter().map(|(place, _)| place).collect();
        if !self.config.enable_async_loading {
            self.loads += reading.time();
            self.write_back.extend(places);
            return None;
        }
        found.is_fresh = false;
        let (in_host, on_gpu) = self.tiers.queue(now + self.config.lookup_latency, &reading);
        self.tiers.write_back(&self.config, &places, in_host);
        self.account.aside_time += on_gpu - now;
        Some(on_gpu)
    }

    fn step(&mut self, begin: Picos, compute: Picos, shares: &[Share<'_>]) -> Picos {
        self.tiers.forget_mail(begin);
        let mut lookups = Picos::ZERO;
        let mut entered: Vec<Option<Vec<Place>>> = Vec::with_capacity(shares.len());
        for share in shares {
            let (wait, places) = self.enter(share);
            lookups += wait;
            entered.push(places);
        }
        let start = begin + lookups;
        let write_back = std::mem::take(&mut self.write_back);
        self.tiers
            .write_back(&self.config, &write_back, start + self.loads);
        let (loads, stores) = match self.config.layers {
            Some(layers) => self.step_by_layer(start, compute, layers, shares, &entered),
            None => {
                let loads = std::mem::take(&mut self.loads);
                let stores = self.store_in_turn(start + loads + compute, shares, &entered);
                (loads, stores)
            }
        };
        self.account.load_time += lookups + loads;
        self.account.store_time += stores;
        lookups + loads + compute + stores
    }

    fn leaves(&mut self, _: Picos, request: &Request, _: Leaving) -> bool {
        if let Some(found) = self.found.remove(&request.id) {
            self.tiers.unpin(&found.places);
        }
        self.saving.remove(&request.id);
        false
    }

    fn restart(&mut self, now: Picos) {
        self.found.clear();
        self.saving.clear();
        self.loads = Picos::ZERO;
        self.write_back.clear();
        self.tiers.restart(now);
    }

    fn account(&mut self) -> Option<&TierAccount> {
        self.account.tiers = self.tiers.traffic;
        for (tier, held) in KvTier::ALL.into_iter().zip(self.tiers.held()) {
            self.account.tiers[tier as usize].held_chunks = held;
        }
        Some(&self.account)
    }
}

/// Stages of `layers` layers each, one behind the other: the longest of them, and one layer of the others.
fn pipelined(stages: [Picos; 3], layers: u32) -> Picos {
    let longest = stages.into_iter().max().unwrap_or(Picos::ZERO);
    let others: Picos = stages.into_iter().sum::<Picos>() - longest;
    longest + Picos(others.0 / u64::from(layers))
}
