//! The tiers of one replica: where a chunk is found, how it comes, and where it goes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::{LmcacheConfig, TierConfig, transfer_time};
use crate::facts::{KvTier, TierTraffic};
use crate::kv::{ChunkName, Shelf};
use crate::units::{Bytes, Picos};

/// The server that the replicas of a cluster share; it outlives each of them (LM-9).
pub(crate) type RemoteServer = Rc<RefCell<Shelf>>;

/// A chunk that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) name: ChunkName,
    pub(super) tier: KvTier,
    pub(super) tokens: u32,
}

/// A link that serves one transfer after the other.
#[derive(Clone, Copy, Debug)]
struct Link {
    config: TierConfig,
    read_free: Picos,
    write_free: Picos,
}

impl Link {
    fn new(config: TierConfig) -> Link {
        Link {
            config,
            read_free: Picos::ZERO,
            write_free: Picos::ZERO,
        }
    }

    fn read_time(&self, bytes: Bytes) -> Picos {
        self.config.latency + transfer_time(bytes, self.config.read_bandwidth)
    }

    /// When a write that is handed over at `from` is done.
    fn write(&mut self, from: Picos, bytes: Bytes) -> Picos {
        self.write_free = self.write_free.max(from) + transfer_time(bytes, self.config.write_bandwidth);
        self.write_free
    }
}

/// All tiers as one replica sees them.
#[derive(Debug)]
pub(super) struct Tiers {
    host: Option<Shelf>,
    disk: Option<(Shelf, Link)>,
    remote: Option<(RemoteServer, Link)>,
    /// Chunks on their way to the server: when they are there.
    mail: VecDeque<(Picos, ChunkName)>,
    /// The way from host memory to the GPU is free from then on.
    gpu_free: Picos,
    pub(super) traffic: [TierTraffic; 3],
}

impl Tiers {
    /// Empty tiers, and the server as it is.
    pub(super) fn new(config: &LmcacheConfig, server: Option<RemoteServer>) -> Tiers {
        let shelf = |capacity| Shelf::new(config.cache_policy, capacity);
        assert_eq!(
            config.remote.is_some(),
            server.is_some(),
            "a remote tier has a server"
        );
        Tiers {
            host: config.host.map(shelf),
            disk: config.disk.map(|disk| (shelf(disk.capacity), Link::new(disk))),
            remote: config
                .remote
                .zip(server)
                .map(|(remote, server)| (server, Link::new(remote))),
            mail: VecDeque::new(),
            gpu_free: Picos::ZERO,
            traffic: [TierTraffic::default(); 3],
        }
    }

    /// Does something with a tier's chunks, if there is such a tier.
    fn with<R>(&mut self, tier: KvTier, act: impl FnOnce(&mut Shelf) -> R) -> Option<R> {
        match tier {
            KvTier::Host => self.host.as_mut().map(act),
            KvTier::Disk => self.disk.as_mut().map(|(shelf, _)| act(shelf)),
            KvTier::Remote => self
                .remote
                .as_ref()
                .map(|(server, _)| act(&mut server.borrow_mut())),
        }
    }

    /// The first tier that has a chunk at `now`, which is pinned there.
    pub(super) fn find(&mut self, name: ChunkName, now: Picos) -> Option<KvTier> {
        KvTier::ALL.into_iter().find(|&tier| {
            let found = self.with(tier, |shelf| {
                let holds = shelf.holds(name, now);
                if holds {
                    shelf.pin(name);
                }
                holds
            });
            found == Some(true)
        })
    }

    /// Chunks found for one prompt count as used, the first of them last, so that the tail of a prompt goes before its
    /// head (`touch_cache`). A server sees only what is read.
    pub(super) fn touch_found(&mut self, places: &[Place]) {
        for place in places.iter().rev().filter(|place| place.tier != KvTier::Remote) {
            self.with(place.tier, |shelf| shelf.touch(place.name));
        }
    }

    /// Chunks are not waited for any more.
    pub(super) fn unpin(&mut self, places: &[Place]) {
        for place in places {
            self.with(place.tier, |shelf| shelf.unpin(place.name));
        }
    }

    /// Notes that chunks are read, and how long each tier takes (LM-10): what comes from disk and server, then all of it
    /// up to the GPU. `served` are the tokens of each that the sequence lacked.
    pub(super) fn read(&mut self, config: &LmcacheConfig, places: &[(Place, u32)]) -> Reading {
        let mut reading = Reading::default();
        for &(place, served) in places {
            let bytes = config.all_bytes(place.tokens);
            let traffic = &mut self.traffic[place.tier as usize];
            traffic.served_tokens += u64::from(served);
            traffic.loaded_bytes += bytes.0;
            reading.bytes[place.tier as usize] += bytes;
            reading.rank_bytes += config.rank_bytes(place.tokens);
            if place.tier != KvTier::Host {
                self.with(place.tier, |shelf| shelf.touch(place.name));
            }
        }
        let links = [
            None,
            self.disk.as_ref().map(|(_, link)| *link),
            self.remote.as_ref().map(|(_, link)| *link),
        ];
        for (at, link) in links.into_iter().enumerate() {
            if let Some(link) = link
                && reading.bytes[at].0 > 0
            {
                reading.times[at] = link.read_time(reading.bytes[at]);
            }
        }
        reading.to_gpu = transfer_time(reading.rank_bytes, config.load_bandwidth);
        reading
    }

    /// When a load aside that begins at `from` has reached host memory, and when the GPU: behind those before it.
    pub(super) fn queue(&mut self, from: Picos, reading: &Reading) -> (Picos, Picos) {
        let mut at = from;
        let links = [
            self.disk.as_mut().map(|(_, link)| (link, KvTier::Disk)),
            self.remote.as_mut().map(|(_, link)| (link, KvTier::Remote)),
        ];
        for (link, tier) in links.into_iter().flatten() {
            let time = reading.times[tier as usize];
            if time > Picos::ZERO {
                link.read_free = link.read_free.max(at) + time;
                at = link.read_free;
            }
        }
        self.gpu_free = self.gpu_free.max(at) + reading.to_gpu;
        (at, self.gpu_free)
    }

    /// Chunks that came from behind host memory are kept there, as far as there is room (LM-8).
    pub(super) fn write_back(&mut self, config: &LmcacheConfig, places: &[Place], there: Picos) {
        for place in places.iter().filter(|place| place.tier != KvTier::Host) {
            let size = config.rank_bytes(place.tokens);
            if self.make_room(KvTier::Host, size, Bytes(0)) {
                self.put(
                    KvTier::Host,
                    place.name,
                    size,
                    config.all_bytes(place.tokens),
                    there,
                );
            }
        }
    }

    /// Makes room for `size` beside `reserved`, if there is such a tier.
    fn make_room(&mut self, tier: KvTier, size: Bytes, reserved: Bytes) -> bool {
        let made = self.with(tier, |shelf| {
            let before = shelf.evicted();
            (shelf.make_room(size, reserved), shelf.evicted() - before)
        });
        let (is_made, evicted) = made.unwrap_or((false, 0));
        self.traffic[tier as usize].evicted_chunks += evicted;
        is_made
    }

    fn put(&mut self, tier: KvTier, name: ChunkName, size: Bytes, all: Bytes, there: Picos) {
        let is_new = self.with(tier, |shelf| {
            let is_new = !shelf.knows(name);
            shelf.put(name, size, there);
            is_new
        });
        if is_new == Some(true) {
            let traffic = &mut self.traffic[tier as usize];
            traffic.stored_chunks += 1;
            traffic.stored_bytes += all.0;
        }
    }

    /// Host memory takes a chunk of so many tokens beside `reserved` bytes; without that tier it only passes through.
    pub(super) fn takes(&mut self, config: &LmcacheConfig, tokens: u32, reserved: Bytes) -> bool {
        self.host.is_none() || self.make_room(KvTier::Host, config.rank_bytes(tokens), reserved)
    }

    /// A chunk that is in host memory at `there` is kept, and goes onward to disk and server (LM-6).
    pub(super) fn store(&mut self, config: &LmcacheConfig, name: ChunkName, tokens: u32, there: Picos) {
        let (size, all) = (config.rank_bytes(tokens), config.all_bytes(tokens));
        if self.host.is_some() {
            self.put(KvTier::Host, name, size, all, there);
        }
        let known = self.with(KvTier::Disk, |shelf| shelf.knows(name));
        match known {
            Some(true) => drop(self.with(KvTier::Disk, |shelf| shelf.touch(name))),
            Some(false) if self.make_room(KvTier::Disk, size, Bytes(0)) => {
                let link = self.disk.as_mut().map(|(_, link)| link);
                let done = link.expect("there is a disk").write(there, all);
                self.put(KvTier::Disk, name, size, all, done);
            }
            _ => {}
        }
        let known = self.with(KvTier::Remote, |shelf| shelf.knows(name));
        if known == Some(false) && self.make_room(KvTier::Remote, all, Bytes(0)) {
            let link = self.remote.as_mut().map(|(_, link)| link);
            let done = link.expect("there is a server").write(there, all);
            self.put(KvTier::Remote, name, all, all, done);
            self.mail.push_back((done, name));
        }
    }

    /// What has reached the server by `now` is out of the replica's hands.
    pub(super) fn forget_mail(&mut self, now: Picos) {
        while self.mail.front().is_some_and(|&(there, _)| there <= now) {
            self.mail.pop_front();
        }
    }

    /// The process starts anew at `now`: host memory and the index of the disk are lost, and what was on its way (LM-9).
    pub(super) fn restart(&mut self, now: Picos) {
        for tier in [KvTier::Host, KvTier::Disk] {
            let lost = self.with(tier, |shelf| {
                let lost = shelf.len();
                shelf.clear();
                lost
            });
            self.traffic[tier as usize].lost_chunks += lost.unwrap_or(0);
        }
        self.forget_mail(now);
        for (_, name) in std::mem::take(&mut self.mail) {
            let is_lost = self.with(KvTier::Remote, |shelf| shelf.lose(name));
            self.traffic[KvTier::Remote as usize].lost_chunks += u64::from(is_lost == Some(true));
        }
        self.gpu_free = now;
        let links = [
            self.disk.as_mut().map(|(_, link)| link),
            self.remote.as_mut().map(|(_, link)| link),
        ];
        for link in links.into_iter().flatten() {
            (link.read_free, link.write_free) = (now, now);
        }
    }

    /// How many chunks are in each tier.
    pub(super) fn held(&mut self) -> [u64; 3] {
        KvTier::ALL.map(|tier| self.with(tier, |shelf| shelf.len()).unwrap_or(0))
    }
}

/// A load: its bytes on all ranks by tier, what each tier takes, and the way up to the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    bytes: [Bytes; 3],
    rank_bytes: Bytes,
    times: [Picos; 3],
    to_gpu: Picos,
}

impl Reading {
    /// All of it, one after the other.
    pub(super) fn time(&self) -> Picos {
        self.times.into_iter().sum::<Picos>() + self.to_gpu
    }
}
