//! LMCache's rules, each in the smallest scenario that shows it; golden example G6.

use super::connector::Lmcache;
use super::tiers::RemoteServer;
use super::*;
use crate::cost::linear::LinearCost;
use crate::engine::external::tests::{config as engine, request, run, send, told};
use crate::engine::external::{Asked, Connector, Leaving, Offer, Share};
use crate::engine::{EngineConfig, Replica};
use crate::facts::{KvTier, TierAccount};
use crate::ids::{ReplicaId, SegmentId};
use crate::units::PICOS_PER_SECOND;
use crate::workload::{Piece, Prompt, Request};

const MS: Picos = Picos(PICOS_PER_SECOND / 1000);
/// KV of the 8B: 128 KiB a token.
const TOKEN: Bytes = Bytes(131_072);
/// A token in a millisecond.
const SLOW: BytesPerSec = BytesPerSec(131_072_000.0);

fn tier(chunks: u64) -> TierConfig {
    TierConfig {
        capacity: TOKEN * 256 * chunks,
        read_bandwidth: SLOW,
        write_bandwidth: SLOW,
        latency: MS * 5,
    }
}

/// Host memory for so many chunks, and nothing else.
fn host(chunks: u64) -> LmcacheConfig {
    LmcacheConfig {
        chunk_size: 256,
        save_unfull_chunk: false,
        save_decode_cache: false,
        min_retrieve_tokens: 0,
        cache_policy: CachePolicy::Lru,
        enable_async_loading: false,
        layers: None,
        bytes_per_token: TOKEN,
        ranks: 1,
        lookup_latency: MS,
        load_bandwidth: SLOW,
        store_bandwidth: SLOW,
        host: Some(TOKEN * 256 * chunks),
        disk: None,
        remote: None,
    }
}

/// A request for text number `text`.
fn ask(id: u64, text: u64, tokens: u32) -> Request {
    let piece = Piece {
        segment: SegmentId(text),
        start: 0,
        tokens,
    };
    Request {
        prompt: Prompt::Pieces([piece].into()),
        ..request(id, Picos::ZERO, tokens, 1)
    }
}

/// A cache, and what it is asked by a scheduler that computes everything that is not offered in one step of 10 ms.
struct Bench {
    cache: Lmcache,
    next: u64,
}

impl Bench {
    fn new(config: LmcacheConfig) -> Bench {
        Bench::with(config, None)
    }

    fn with(config: LmcacheConfig, server: Option<RemoteServer>) -> Bench {
        let cache = Lmcache::new(config, server);
        Bench { cache, next: 0 }
    }

    fn look(&mut self, now: Picos, request: &Request, local: u32) -> Offer {
        let pieces: Vec<Piece> = request.prompt_pieces().collect();
        let asked = Asked {
            request,
            pieces: &pieces,
            known_tokens: request.prompt_tokens,
            local_tokens: local,
            resumed: false,
        };
        self.cache.look_up(now, &asked)
    }

    /// Serves `tokens` of a text of which `local` are in the prefix cache: what was offered, and how long the step took.
    fn serve(&mut self, now: Picos, text: u64, tokens: u32, local: u32) -> (u32, Picos) {
        self.next += 1;
        let request = ask(self.next, text, tokens);
        let pieces: Vec<Piece> = request.prompt_pieces().collect();
        let asked = Asked {
            request: &request,
            pieces: &pieces,
            known_tokens: tokens,
            local_tokens: local,
            resumed: false,
        };
        let loaded = match self.cache.look_up(now, &asked) {
            Offer::Nothing => 0,
            Offer::WithStep(loaded) | Offer::Aside(loaded) => {
                self.cache.load(now, &asked, loaded);
                loaded
            }
        };
        let share = Share {
            request: &request,
            pieces: &pieces,
            from: local + loaded,
            to: tokens,
        };
        let time = self.cache.step(now, MS * 10, &[share]);
        self.cache.leaves(now + time, &request, Leaving::Completed);
        (loaded, time)
    }

    fn account(&mut self) -> TierAccount {
        self.cache.account().expect("it keeps one").clone()
    }
}

#[test]
fn g6_whole_chunks_are_stored_and_the_last_token_is_computed() {
    let config = EngineConfig {
        max_model_len: 4096,
        max_num_batched_tokens: 4096,
        block_size: 16,
        num_gpu_blocks: 1000,
        enable_prefix_caching: false,
        ..engine()
    };
    let cost = LinearCost::new(1.0, 0.0, 0.0);
    let mut replica = Replica::new(ReplicaId(0), config, Box::new(cost), false);
    replica.connect(Box::new(Lmcache::new(host(160), None)));
    replica.keep_log();
    let at = |id, arrival_s, text, tokens| Request {
        arrival: MS * 1000 * arrival_s,
        ..ask(id, text, tokens)
    };
    send(
        &mut replica,
        &[
            at(0, 0, 1, 1000),
            at(1, 10, 1, 1000),
            at(2, 20, 2, 1024),
            at(3, 30, 2, 1024),
        ],
    );
    run(&mut replica, Picos::MAX);
    let expected = [
        // Look-up 1 ms, step 1 s, 768 tokens stored.
        "0+1769: 0@0+1000",
        // 768 loaded, 232 computed, nothing stored again.
        "10000+1769: 1@768+232",
        // A whole number of chunks: all of them are stored, and loaded, and the last token is computed (C-24).
        "20000+2025: 2@0+1024",
        "30000+2025: 3@1023+1",
    ];
    assert_eq!(told(&replica.take_log()), expected);
    let external = replica.external.as_mut().expect("it was connected");
    let account = external.connector.account().expect("it keeps one");
    let traffic = account.tiers[KvTier::Host as usize];
    assert_eq!(
        (traffic.stored_chunks, traffic.stored_bytes),
        (7, 7 * 256 * 131_072)
    );
    assert_eq!(3 * 256 * 131_072, 100_663_296);
    assert_eq!(
        (traffic.served_tokens, traffic.loaded_bytes),
        (768 + 1023, 7 * 256 * 131_072)
    );
}

#[test]
fn a_chunk_that_the_prefix_cache_has_in_part_is_loaded_whole() {
    let mut bench = Bench::new(host(10));
    assert_eq!(bench.serve(Picos::ZERO, 1, 768, 0), (0, MS * (1 + 10 + 768)));
    // [256, 768) for the tokens 288 to 766.
    assert_eq!(bench.serve(MS * 1000, 1, 768, 288), (479, MS * (1 + 512 + 10)));
    assert_eq!(bench.account().tiers[0].served_tokens, 479);
    // All that is in the tier is here, too.
    assert_eq!(bench.serve(MS * 2000, 1, 800, 784), (0, MS * (1 + 10)));
}

#[test]
fn a_gap_ends_the_prefix_and_the_tail_goes_first() {
    for (policy, loaded) in [
        (CachePolicy::Lru, 512),
        (CachePolicy::Fifo, 0),
        (CachePolicy::Mru, 512),
    ] {
        let mut bench = Bench::new(LmcacheConfig {
            cache_policy: policy,
            ..host(3)
        });
        bench.serve(Picos::ZERO, 1, 800, 0);
        // Found, so the head of the text was used last (`touch_cache`).
        assert_eq!(bench.serve(MS * 2000, 1, 800, 0).0, 768);
        bench.serve(MS * 4000, 2, 256, 0);
        let (found, _) = bench.serve(MS * 6000, 1, 800, 0);
        if policy == CachePolicy::Mru {
            assert_eq!(found, 0, "the head was used last");
        } else {
            assert_eq!(found, loaded, "{policy:?}");
        }
    }
}

#[test]
fn what_is_used_often_stays() {
    let mut bench = Bench::new(LmcacheConfig {
        cache_policy: CachePolicy::Lfu,
        ..host(2)
    });
    for at in 0..4 {
        bench.serve(MS * 1000 * at, 1, 300, 0);
    }
    bench.serve(MS * 5000, 2, 300, 0);
    bench.serve(MS * 6000, 3, 300, 0);
    assert_eq!(bench.serve(MS * 7000, 1, 300, 0).0, 256);
    assert_eq!(bench.serve(MS * 8000, 2, 300, 0).0, 0);
}

#[test]
fn a_store_that_finds_everything_pinned_gives_up() {
    let mut bench = Bench::new(host(2));
    bench.serve(Picos::ZERO, 1, 512, 0);
    // Somebody waits for both chunks.
    assert_eq!(bench.look(MS * 1000, &ask(99, 1, 600), 0), Offer::WithStep(512));
    assert_eq!(bench.serve(MS * 2000, 2, 600, 0), (0, MS * 11));
    assert_eq!(bench.account().given_up_chunks, 2);
    // Given up, the chunks may go.
    bench.cache.leaves(MS * 3000, &ask(99, 1, 600), Leaving::GivenUp);
    assert_eq!(bench.serve(MS * 4000, 2, 600, 0), (0, MS * (11 + 512)));
    assert_eq!(bench.account().tiers[0].evicted_chunks, 2);
}

#[test]
fn chunks_of_one_store_do_not_push_each_other_out() {
    let mut bench = Bench::new(host(2));
    assert_eq!(bench.serve(Picos::ZERO, 1, 1024, 0), (0, MS * (11 + 512)));
    assert_eq!(bench.account().given_up_chunks, 2);
    assert_eq!(bench.serve(MS * 2000, 1, 1024, 0).0, 512);
}

#[test]
fn what_comes_from_disk_is_kept_in_host_memory() {
    let mut bench = Bench::new(LmcacheConfig {
        disk: Some(tier(100)),
        ..host(2)
    });
    bench.serve(Picos::ZERO, 1, 600, 0);
    bench.serve(MS * 2000, 2, 600, 0);
    // Disk: 5 ms and 512 tokens; up to the GPU: 512 tokens.
    assert_eq!(
        bench.serve(MS * 4000, 1, 600, 0),
        (512, MS * (1 + 5 + 512 + 512 + 10))
    );
    assert_eq!(bench.serve(MS * 6000, 1, 600, 0), (512, MS * (1 + 512 + 10)));
    let account = bench.account();
    assert_eq!(account.tiers.map(|tier| tier.served_tokens), [512, 512, 0]);
    assert_eq!(account.tiers.map(|tier| tier.held_chunks), [2, 4, 0]);
}

#[test]
fn the_way_onward_takes_time() {
    let slow = TierConfig {
        write_bandwidth: BytesPerSec(13_107_200.0),
        ..tier(100)
    };
    let mut bench = Bench::new(LmcacheConfig {
        disk: Some(slow),
        ..host(1)
    });
    // Copied at 267 ms, on disk 2.56 s later; pushed out of host memory meanwhile.
    bench.serve(Picos::ZERO, 1, 300, 0);
    bench.serve(MS * 1000, 2, 300, 0);
    assert_eq!(bench.look(MS * 2820, &ask(90, 1, 300), 0), Offer::Nothing);
    assert_eq!(bench.look(MS * 2830, &ask(91, 1, 300), 0), Offer::WithStep(256));
}

#[test]
fn a_server_outlives_the_process() {
    let config = LmcacheConfig {
        disk: Some(tier(100)),
        remote: Some(tier(100)),
        ..host(100)
    };
    let shelf = Shelf::new(CachePolicy::Lru, TOKEN * 256 * 100);
    let server: RemoteServer = Rc::new(RefCell::new(shelf));
    let mut bench = Bench::with(config.clone(), Some(Rc::clone(&server)));
    bench.serve(Picos::ZERO, 1, 600, 0);
    // On its way when the process dies: copied at 3.267 s, there at 3.523 s.
    bench.serve(MS * 3000, 2, 300, 0);
    bench.cache.restart(MS * 3400);
    assert_eq!(bench.serve(MS * 4000, 2, 300, 0).0, 0);
    assert_eq!(
        bench.serve(MS * 5000, 1, 600, 0),
        (512, MS * (1 + 5 + 512 + 512 + 10))
    );
    let account = bench.account();
    assert_eq!(account.tiers.map(|tier| tier.lost_chunks), [3, 3, 1]);
    // Another replica finds what the first one stored.
    let mut other = Bench::with(config, Some(server));
    assert_eq!(other.serve(MS * 9000, 1, 600, 0).0, 512);
}

#[test]
fn what_is_put_is_there_or_was_evicted_or_lost() {
    let mut bench = Bench::new(LmcacheConfig {
        disk: Some(tier(5)),
        ..host(3)
    });
    for at in 0..40 {
        bench.serve(MS * 3000 * at, at * 7 % 5, 300 + 200 * (at % 4) as u32, 0);
        if at == 25 {
            bench.cache.restart(MS * 3000 * at + MS * 2900);
        }
    }
    for traffic in &bench.account().tiers {
        let gone = traffic.evicted_chunks + traffic.lost_chunks;
        assert_eq!(traffic.stored_chunks, traffic.held_chunks + gone);
        assert_eq!(traffic.stored_bytes, traffic.stored_chunks * 256 * 131_072);
    }
}

#[test]
fn few_tokens_are_computed_rather_than_loaded() {
    let mut bench = Bench::new(LmcacheConfig {
        min_retrieve_tokens: 257,
        ..host(10)
    });
    bench.serve(Picos::ZERO, 1, 600, 0);
    // Below the least, and what is found is not stored again.
    assert_eq!(bench.serve(MS * 2000, 1, 300, 0), (0, MS * 11));
    assert_eq!(bench.serve(MS * 4000, 1, 600, 0).0, 512);
}

#[test]
fn a_partial_chunk_is_found_by_a_prompt_that_ends_there() {
    let mut bench = Bench::new(LmcacheConfig {
        save_unfull_chunk: true,
        ..host(10)
    });
    assert_eq!(bench.serve(Picos::ZERO, 1, 300, 0), (0, MS * (11 + 300)));
    assert_eq!(bench.serve(MS * 1000, 1, 300, 0), (299, MS * (11 + 300)));
    assert_eq!(bench.serve(MS * 2000, 1, 301, 0), (256, MS * (11 + 256 + 45)));
}

#[test]
fn layers_overlap() {
    let mut bench = Bench::new(LmcacheConfig {
        layers: Some(10),
        ..host(10)
    });
    // 10 ms of computation behind 512 ms of copies: one layer of it shows.
    assert_eq!(bench.serve(Picos::ZERO, 1, 600, 0), (0, MS * (1 + 1 + 512)));
    assert_eq!(bench.serve(MS * 1000, 1, 600, 0), (512, MS * (1 + 1 + 512)));
}

#[test]
fn ranks_share_the_bytes_and_the_disk_carries_them_all() {
    let mut bench = Bench::new(LmcacheConfig {
        ranks: 2,
        bytes_per_token: Bytes(TOKEN.0 / 2),
        disk: Some(tier(100)),
        host: None,
        ..host(1)
    });
    // Half of each token goes to each rank's memory, all of it to the disk.
    assert_eq!(bench.serve(Picos::ZERO, 1, 300, 0), (0, MS * (11 + 128)));
    assert_eq!(
        bench.serve(MS * 2000, 1, 300, 0),
        (256, MS * (1 + 5 + 256 + 128 + 10))
    );
    assert_eq!(bench.account().tiers[1].loaded_bytes, 256 * 131_072);
}

#[test]
fn a_load_aside_holds_nobody_up() {
    let config = EngineConfig {
        max_model_len: 4096,
        max_num_batched_tokens: 4096,
        block_size: 16,
        num_gpu_blocks: 1000,
        enable_prefix_caching: false,
        ..engine()
    };
    let cost = LinearCost::new(1.0, 0.0, 0.0);
    let mut replica = Replica::new(ReplicaId(0), config, Box::new(cost), false);
    let aside = LmcacheConfig {
        enable_async_loading: true,
        ..host(160)
    };
    replica.connect(Box::new(Lmcache::new(aside, None)));
    replica.keep_log();
    let late = |id, arrival_s, output_tokens| Request {
        arrival: MS * 1000 * arrival_s,
        output_tokens,
        max_tokens: output_tokens,
        ..ask(id, 1, 1024)
    };
    let bystander = Request {
        arrival: MS * 10_000,
        ..ask(1, 2, 100)
    };
    let mut requests = vec![late(0, 0, 1), bystander, late(2, 11, 2)];
    requests[1].output_tokens = 6;
    requests[1].max_tokens = 6;
    send(&mut replica, &requests);
    run(&mut replica, Picos::MAX);
    let log = told(&replica.take_log());
    // Looked up at 11.001 s, 1 ms and 1,024 tokens later it is there: in the step that begins at 13.001 s.
    let expected = [
        "0+2025: 0@0+1024",
        "10000+1001: 1@0+100",
        "11001+1000: 1@100+1",
        "12001+1000: 1@101+1",
        "13001+1000: 1@102+1 2@1023+1",
    ];
    assert_eq!(log[..5], expected);
}
