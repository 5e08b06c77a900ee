//! Shares are those of closed forms and of a naive twin in floating point, and every byte arrives.

use super::*;
use proptest::prelude::*;

/// When, from, to, bytes.
type Ask = (u64, usize, usize, u64);

const GB: u64 = 1_000_000_000;
const MS: u64 = 1_000_000_000;

fn alike(replicas: usize, bytes_per_s: u64) -> Vec<LinkRate> {
    let rate = LinkRate {
        send: bytes_per_s,
        receive: bytes_per_s,
    };
    vec![rate; replicas]
}

/// Ends of transfers asked for at given times (time, from, to, bytes), by tag.
fn ends(rates: &[LinkRate], latency: u64, asked: &[Ask]) -> Vec<u64> {
    let mut links = Links::new(rates, Picos(latency));
    let mut ends = vec![0; asked.len()];
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|&at| asked[at].0);
    let mut order = order.into_iter().peekable();
    loop {
        let ask = order.peek().map(|&tag| Picos(asked[tag].0));
        match (links.next(), ask) {
            (Some(due), ask) if ask.is_none_or(|ask| due <= ask) => {
                if let Some(moved) = links.step(due) {
                    ends[moved.tag] = due.0;
                }
            }
            (_, Some(now)) => {
                let tag = order.next().unwrap();
                let (_, from, to, bytes) = asked[tag];
                links.send(now, from, to, bytes, tag);
            }
            _ => break,
        }
        check_shares(&links);
    }
    check_tallies(&links, asked, *ends.iter().max().unwrap_or(&0));
    ends
}

/// Max-min: nobody exceeds a link, and each transfer has a full link on which none is faster.
fn check_shares<T: Copy + Eq + std::hash::Hash>(links: &Links<T>) {
    let rate_of = |slot: &usize| links.flows[*slot].rate;
    for (_, flow) in links.flows.iter().filter(|(_, flow)| flow.rate > 0) {
        let is_bound = flow.ports.iter().any(|&port| {
            let port = &links.ports[port];
            let used: u64 = port.flows.iter().map(rate_of).sum();
            assert!(used <= port.bytes_per_s.max(port.flows.len() as u64));
            let fastest = port.flows.iter().map(rate_of).max().unwrap();
            used + port.flows.len() as u64 > port.bytes_per_s && flow.rate + 1 >= fastest
        });
        assert!(is_bound, "a transfer is held up by a link");
    }
}

/// Bytes in = bytes out, and Little's law on every link.
fn check_tallies<T: Copy + Eq + std::hash::Hash>(links: &Links<T>, asked: &[Ask], end: u64) {
    assert_eq!(links.under_way(), 0);
    for replica in 0..links.ports.len() / 2 {
        let [sent, received] = links.tallies(replica, Picos(end));
        let sum = |pick: &dyn Fn(&Ask) -> bool| -> u64 {
            asked.iter().filter(|ask| pick(ask)).map(|ask| ask.3).sum()
        };
        assert_eq!(sent.bytes, sum(&|ask| ask.1 == replica));
        assert_eq!(received.bytes, sum(&|ask| ask.2 == replica));
        for tally in [sent, received] {
            assert_eq!(tally.area, tally.flowed as i128, "L = λW");
            let waited = i128::from(links.latency.0) * i128::from(tally.asked);
            assert_eq!(
                tally.in_flight,
                tally.area + waited,
                "everybody waits for the latency first"
            );
            assert_eq!((tally.asked, tally.untold), (tally.transfers, 0));
            assert!(tally.busy.0 as u128 <= tally.flowed && tally.busy.0 <= end);
        }
    }
}

#[test]
fn a_lone_transfer_takes_its_latency_and_its_bytes() {
    // PD-1: 2048 tokens of Llama-3.1-8B over 25 GB/s.
    let rates = alike(2, 25 * GB);
    assert_eq!(ends(&rates, 0, &[(0, 0, 1, 268_435_456)]), [10_737_418_240]);
    assert_eq!(
        ends(&rates, 30_000_000, &[(5, 0, 1, 268_435_456)]),
        [10_767_418_245]
    );
    assert_eq!(ends(&rates, 7, &[(3, 0, 1, 0)]), [10]);
}

#[test]
fn two_overlapping_transfers_share_equally_while_both_last() {
    // 100 MB alone for 2 ms at 10 GB/s is 20 MB; then each has 5 GB/s; the second is 30 MB: 6 ms.
    let rates = alike(3, 10 * GB);
    let asked = [(0, 0, 1, 100_000_000), (2 * MS, 0, 2, 30_000_000)];
    // The first has 100 − 20 − 30 = 50 MB left at 8 ms: 5 ms more.
    assert_eq!(ends(&rates, 0, &asked), [13 * MS, 8 * MS]);
    // The same at one receiver.
    let asked = [(0, 1, 0, 100_000_000), (2 * MS, 2, 0, 30_000_000)];
    assert_eq!(ends(&rates, 0, &asked), [13 * MS, 8 * MS]);
    // And between links that share nothing, nothing is shared.
    let asked = [(0, 0, 1, 100_000_000), (2 * MS, 1, 2, 30_000_000)];
    assert_eq!(ends(&rates, 0, &asked), [10 * MS, 5 * MS]);
}

#[test]
fn what_one_link_cannot_use_goes_to_the_others() {
    // Sender 0 has 12 GB/s; receiver 1 takes only 2 of them, so the other gets 10, not 6.
    let rates = [
        LinkRate {
            send: 12 * GB,
            receive: GB,
        },
        LinkRate {
            send: GB,
            receive: 2 * GB,
        },
        LinkRate {
            send: GB,
            receive: 50 * GB,
        },
    ];
    let asked = [(0, 0, 1, 20_000_000), (0, 0, 2, 100_000_000)];
    assert_eq!(ends(&rates, 0, &asked), [10 * MS, 10 * MS]);
}

#[test]
fn a_transfer_is_cancelled_by_its_name_and_the_name_is_free_again() {
    let mut links = Links::new(&alike(3, 10 * GB), Picos(MS));
    links.send(Picos(0), 0, 1, 100_000_000, 7_usize);
    links.send(Picos(0), 0, 2, 30_000_000, 8);
    assert!(!links.cancel(Picos(1), 9));
    // In its latency, and while it flows.
    assert!(links.cancel(Picos(1), 8) && !links.cancel(Picos(1), 8));
    while links.next().is_some_and(|at| at <= Picos(2 * MS)) {
        let at = links.next().unwrap();
        links.step(at);
    }
    assert!(links.cancel(Picos(2 * MS), 7));
    assert_eq!((links.under_way(), links.next()), (0, None));
    links.send(Picos(3 * MS), 0, 1, 10_000_000, 7);
    let mut ended = None;
    while let Some(at) = links.next() {
        ended = links.step(at).map(|moved| (at, moved.tag)).or(ended);
    }
    assert_eq!(ended, Some((Picos(5 * MS), 7)));
}

/// The same in floating point, everybody visited at every event.
fn naive(rates: &[LinkRate], latency: u64, asked: &[Ask]) -> Vec<f64> {
    let mut left: Vec<f64> = asked.iter().map(|ask| ask.3 as f64).collect();
    let mut ends = vec![f64::NAN; asked.len()];
    let begins = |at: usize| (asked[at].0 + latency) as f64;
    let mut now = 0.0;
    while ends.iter().any(|end| end.is_nan()) {
        let flowing: Vec<usize> = (0..asked.len())
            .filter(|&at| ends[at].is_nan() && begins(at) <= now)
            .collect();
        let mut speeds = vec![0.0; asked.len()];
        let mut open = flowing.clone();
        let mut capacity: Vec<f64> = rates
            .iter()
            .flat_map(|rate| [rate.send as f64, rate.receive as f64])
            .collect();
        while !open.is_empty() {
            let uses = |at: usize, port: usize| 2 * asked[at].1 == port || 2 * asked[at].2 + 1 == port;
            let (share, port) = (0..capacity.len())
                .filter_map(|port| {
                    let count = open.iter().filter(|&&at| uses(at, port)).count();
                    (count > 0).then(|| (capacity[port] / count as f64, port))
                })
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .unwrap();
            let (fixed, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&at| uses(at, port));
            for at in fixed {
                speeds[at] = share;
                capacity[2 * asked[at].1] -= share;
                capacity[2 * asked[at].2 + 1] -= share;
            }
            open = rest;
        }
        let next_begin = (0..asked.len()).map(begins).filter(|&at| at > now);
        let next_end = flowing.iter().map(|&at| now + left[at] / speeds[at] * 1e12);
        let next = next_begin.chain(next_end).fold(f64::INFINITY, f64::min);
        for &at in &flowing {
            left[at] -= speeds[at] * (next - now) / 1e12;
            if left[at] < 1e-3 {
                ends[at] = next;
            }
        }
        now = next;
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn shares_are_those_of_a_naive_progressive_filling(
        bandwidths in prop::collection::vec((1u64..40, 1u64..40), 4),
        latency in 0u64..50_000_000,
        asked in prop::collection::vec((0u64..20 * MS, 0usize..4, 0usize..4, 1u64..200_000_000), 1..14),
    ) {
        let rates: Vec<LinkRate> = bandwidths
            .iter()
            .map(|&(send, receive)| LinkRate { send: send * GB, receive: receive * GB })
            .collect();
        let exact = ends(&rates, latency, &asked);
        for (exact, naive) in exact.iter().zip(naive(&rates, latency, &asked)) {
            prop_assert!((*exact as f64 - naive).abs() < 1e5, "{exact} against {naive}");
        }
    }
}
