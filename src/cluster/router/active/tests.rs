//! Blocks in use against a count of all of them, one by one.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{ActivePrompt, ActivePrompts};
use crate::cluster::router::*;
use crate::ids::SegmentId;
use crate::workload::{Piece, Prompt};

/// A request whose prompt is `(segment, start, tokens)` one after another; of an empty list, one that nobody shares.
fn request(id: u64, text: &[(u64, u32, u32)], unique: u32) -> Request {
    let pieces: Vec<Piece> = text
        .iter()
        .map(|&(segment, start, tokens)| Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        })
        .collect();
    let shared: u32 = pieces.iter().map(|piece| piece.tokens).sum();
    Request {
        id: RequestId(id),
        arrival: Picos::ZERO,
        client_queue_time: Picos::ZERO,
        prompt_tokens: shared + unique,
        output_tokens: 1,
        max_tokens: 1,
        priority: 0,
        prompt: match pieces.is_empty() {
            true => Prompt::Unique,
            false => Prompt::Pieces(pieces.into()),
        },
        output_segment: SegmentId(u64::MAX),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

/// What the complete blocks of a prompt are: each with all the tokens before it.
fn blocks(request: &Request, size: u32) -> Vec<Vec<(u64, u32)>> {
    let tokens: Vec<(u64, u32)> = request
        .prompt_pieces()
        .flat_map(|piece| (0..piece.tokens).map(move |token| (piece.segment.0, piece.start + token)))
        .collect();
    let ends = (1..=tokens.len()).filter(|end| end % size as usize == 0);
    ends.map(|end| tokens[..end].to_vec()).collect()
}

/// The naive twin: every replica's active requests, and sets of their blocks made anew for each question.
struct Twin {
    sizes: Vec<u32>,
    active: Vec<Vec<Request>>,
}

impl Twin {
    fn blocks(&self, replica: usize, another: Option<&Request>) -> u64 {
        let all = self.active[replica].iter().chain(another);
        let all: HashSet<_> = all
            .flat_map(|request| blocks(request, self.sizes[replica]))
            .collect();
        all.len() as u64
    }

    /// Whose cost is least, where nothing is cached and nobody has had a first token.
    fn best(&self, request: &Request) -> Vec<usize> {
        let unit = f64::from(self.sizes[0]);
        let cost = |replica: usize| {
            let prompts = self.active[replica].iter().chain([request]);
            let prefill: u32 = prompts.map(|request| request.prompt_tokens).sum();
            let blocks = self.blocks(replica, Some(request)) as f64;
            f64::from(prefill) / unit + blocks * (f64::from(self.sizes[replica]) / unit)
        };
        let costs: Vec<f64> = (0..self.sizes.len()).map(cost).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        (0..costs.len())
            .filter(|&replica| costs[replica] == least)
            .collect()
    }
}

/// Texts that share heads, are cut into pieces at random and end anywhere.
fn text(dice: u64) -> Vec<(u64, u32, u32)> {
    let head = 1 + (dice % 20) as u32;
    let cut = 1 + (dice / 20 % 20) as u32;
    let mut text = match cut < head {
        true => vec![(0, 0, cut), (0, cut, head - cut)],
        false => vec![(0, 0, head)],
    };
    text.extend((!dice.is_multiple_of(3)).then_some((1 + dice / 400 % 3, 0, 1 + (dice / 1200 % 9) as u32)));
    text.extend((dice % 5 > 2).then_some((10 + dice / 10_800 % 3, 0, 1 + (dice / 40_000 % 9) as u32)));
    text
}

/// Six blocks of a common head, two full ones of one's own: where the first request is, the second adds the two only.
#[test]
fn a_block_that_two_requests_share_counts_once() {
    let mut prompts = ActivePrompts::new(&[16, 16]);
    let (first, second) = (
        request(0, &[(7, 0, 96), (1, 0, 40)], 0),
        request(1, &[(7, 0, 96), (2, 0, 40)], 0),
    );
    prompts.look_up(&first);
    assert_eq!(
        [0, 1].map(|replica| prompts.blocks_with(replica)),
        [8, 8],
        "136 tokens, 8 full blocks"
    );
    let first = prompts.begin(&first, 0);
    prompts.look_up(&second);
    assert_eq!(
        [0, 1].map(|replica| prompts.blocks_with(replica)),
        [10, 8],
        "6 of 8 are there"
    );
    let second = prompts.begin(&second, 0);
    prompts.end(first);
    prompts.look_up(&request(2, &[(7, 0, 96)], 0));
    assert_eq!(
        [0, 1].map(|replica| prompts.blocks_with(replica)),
        [8, 6],
        "the head stays for the second"
    );
    prompts.end(second);
    prompts.look_up(&request(2, &[(7, 0, 96)], 0));
    assert_eq!(
        [0, 1].map(|replica| prompts.blocks_with(replica)),
        [6, 6],
        "all new again"
    );
    assert_eq!(prompts.runs(), 0);
}

/// The router prefers whoever has a prefix in use even where nothing is told of caches.
#[test]
fn a_shared_prompt_adds_nothing_where_it_is_in_use() {
    let mut router = Policy::KvEvents(KvEvents::default()).router(&[16; 2], 0, 0);
    let up = Load {
        is_up: true,
        ..Load::default()
    };
    let view = View {
        loads: &[up; 2],
        cached_tokens: &[0; 2],
        index_tokens: &|index| index as u64,
    };
    let route = |router: &mut dyn Router, request: &Request| {
        let chosen = router.route(request, Picos::ZERO, &view);
        router.first_token(request.id);
        chosen
    };
    // Eight blocks on the first, then seven on the second.
    assert_eq!(route(&mut *router, &request(0, &[(1, 0, 128)], 0)), Some(0));
    assert_eq!(route(&mut *router, &request(1, &[(2, 0, 112)], 0)), Some(1));
    // All the same to prefill; 8 + 0 blocks against 7 + 8.
    assert_eq!(route(&mut *router, &request(2, &[(1, 0, 128)], 0)), Some(0));
    // Nothing is in use anywhere: 8 + 2 against 7 + 2.
    assert_eq!(route(&mut *router, &request(3, &[], 32)), Some(1));
}

proptest! {
    #[test]
    fn blocks_in_use_are_those_of_the_twin(
        sizes in prop::collection::vec(1u32..6, 1..4), steps in prop::collection::vec((any::<u64>(), 0u8..5), 1..120),
    ) {
        let mut prompts = ActivePrompts::new(&sizes);
        let mut twin = Twin { active: vec![Vec::new(); sizes.len()], sizes };
        let mut begun: Vec<ActivePrompt> = Vec::new();
        let mut places: Vec<(usize, u64)> = Vec::new();
        for (id, (dice, what)) in steps.into_iter().enumerate() {
            if what == 0 && !begun.is_empty() {
                let at = dice as usize % begun.len();
                prompts.end(begun.swap_remove(at));
                let (replica, id) = places.swap_remove(at);
                twin.active[replica].retain(|request| request.id.0 != id);
            } else {
                let next = match what {
                    1 => request(id as u64, &[], 1 + (dice % 20) as u32),
                    _ => request(id as u64, &text(dice), 0),
                };
                prompts.look_up(&next);
                for replica in 0..twin.sizes.len() {
                    prop_assert_eq!(prompts.blocks_with(replica), twin.blocks(replica, Some(&next)));
                }
                let replica = (dice >> 40) as usize % twin.sizes.len();
                begun.push(prompts.begin(&next, replica));
                places.push((replica, id as u64));
                twin.active[replica].push(next);
            }
            // A prompt has an end and, at most, parts from the others once.
            prop_assert!(prompts.runs() <= 2 * begun.len());
            prompts.look_up(&request(0, &[], 0));
            for replica in 0..twin.sizes.len() {
                prop_assert_eq!(prompts.blocks_with(replica), twin.blocks(replica, None));
            }
        }
        begun.into_iter().for_each(|prompt| prompts.end(prompt));
        prop_assert_eq!(prompts.runs(), 0);
    }

    #[test]
    fn the_router_takes_one_of_those_whose_cost_is_least_by_the_twin(
        sizes in prop::collection::vec(prop_oneof![Just(4u32), Just(8)], 2..5),
        steps in prop::collection::vec((any::<u64>(), 0u8..4), 1..60),
    ) {
        let mut router = Policy::KvEvents(KvEvents::default()).router(&sizes, 0, 0);
        let loads = vec![Load { is_up: true, ..Load::default() }; sizes.len()];
        let mut twin = Twin { active: vec![Vec::new(); sizes.len()], sizes };
        for (id, (dice, what)) in steps.into_iter().enumerate() {
            let busy: Vec<usize> = (0..loads.len()).filter(|&replica| !twin.active[replica].is_empty()).collect();
            if what == 0 && !busy.is_empty() {
                let active = &mut twin.active[busy[dice as usize % busy.len()]];
                let leaves = active.swap_remove((dice >> 20) as usize % active.len());
                router.left(leaves.id);
                continue;
            }
            let next = request(id as u64, &text(dice), 0);
            let view = View { loads: &loads, cached_tokens: &[0; 4], index_tokens: &|_| 0 };
            let chosen = router.route(&next, Picos::ZERO, &view).expect("all are up");
            prop_assert!(twin.best(&next).contains(&chosen));
            twin.active[chosen].push(next);
        }
    }
}
