//! Which of TensorRT-LLM's ranks gets whom of those who wait before them all, and whether prompts are put off so that all ranks have some
//! (TR-10, TR-11, TR-15; `ExecutorRequestQueue`, `PyExecutor._balance_adp_requests`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::AtHand;

/// Ranks of TensorRT-LLM's attention data parallelism (`enable_attention_dp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDp {
    /// Requests of a rank, at most (`max_batch_size`).
    pub max_batch_size: u32,
    /// Decodes are padded to captured batches (`cuda_graph_config.enable_padding`).
    pub pads: bool,
    /// Prompts wait until every rank has some (`attention_dp_config.enable_balance`).
    pub balance: Option<Balance>,
}

/// For how long they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Steps in a row in which some rank has no prompt, or no seat for one, before the others compute theirs.
    pub timeout_iters: u32,
    /// Steps for which prompts that every rank has are put off, while all decode, for more of them to come.
    pub batching_wait_iters: u32,
}

/// What was handed to a rank and has not left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) requests: u64,
    /// Tokens of their prompts, computed or not (`py_orig_prompt_len`).
    pub(super) prompt_tokens: u64,
}

/// How many of so many who wait are handed out: as many as there are seats.
pub(super) fn handed_out(active: &[Active], max_batch_size: u32, waiting: usize) -> usize {
    let seats = active.len() as u64 * u64::from(max_batch_size);
    let taken: u64 = active.iter().map(|rank| rank.requests).sum();
    usize::try_from(seats.saturating_sub(taken)).map_or(waiting, |free| free.min(waiting))
}

/// Who of those with prompts of so many tokens goes to which rank, in the order in which ranks get them: the longest prompt to whoever
/// has the fewest tokens, of equals the fewest requests; no rank comes to have more requests than the fullest, or than the mean of all if
/// that is more.
pub(super) fn share_out(prompts: &[u32], active: &[Active]) -> Vec<(usize, usize)> {
    let requests = || active.iter().map(|rank| rank.requests);
    let mean = (requests().sum::<u64>() + prompts.len() as u64).div_ceil(active.len() as u64);
    let expected = requests().max().unwrap_or(0).max(mean);
    let ranks = active.iter().enumerate();
    let mut open: BinaryHeap<_> = ranks
        .filter(|(_, rank)| rank.requests < expected)
        .map(|(at, rank)| Reverse((rank.prompt_tokens, rank.requests, at)))
        .collect();
    let mut longest_first: Vec<usize> = (0..prompts.len()).collect();
    longest_first.sort_by_key(|&at| Reverse(prompts[at]));
    let to = |at: usize| {
        let Reverse((tokens, requests, rank)) = open.pop().expect("there is a seat for each");
        if requests + 1 < expected {
            open.push(Reverse((tokens + u64::from(prompts[at]), requests + 1, rank)));
        }
        rank
    };
    let mut to = to;
    longest_first.into_iter().map(|at| (at, to(at))).collect()
}

/// For how many steps prompts have been put off; all ranks count alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PutOff {
    /// Since some rank had none.
    lacking: u32,
    /// Since all had some.
    batching: u32,
}

impl PutOff {
    /// Whether prompts are put off in a step for which ranks have so much at hand; whoever has nobody decodes a dummy.
    pub(super) fn decide(&mut self, how: AttentionDp, at_hand: &[AtHand]) -> bool {
        let Some(balance) = how.balance else {
            return false;
        };
        let all = |is_so: &dyn Fn(&AtHand) -> bool| at_hand.iter().all(is_so);
        let all_decode = all(&|rank| rank.decodes > 0);
        if all(&|rank| rank.decodes < how.max_batch_size && rank.prompts > 0) {
            self.lacking = 0;
            let waits = all_decode && self.batching < balance.batching_wait_iters;
            if all_decode {
                self.batching = if waits { self.batching + 1 } else { 0 };
            }
            return waits;
        }
        self.lacking += 1;
        let is_over = self.lacking >= balance.timeout_iters || !all_decode;
        if is_over {
            self.lacking = 0;
        }
        !is_over
    }

    /// The same for so many steps in which everybody decodes and nobody has a prompt at hand.
    pub(super) fn pass_over(&mut self, how: AttentionDp, steps: u64) {
        if let Some(balance) = how.balance {
            let counted = u64::from(self.lacking) + steps;
            self.lacking = (counted % u64::from(balance.timeout_iters.max(1))) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn count(value: &Value) -> u64 {
        value.as_u64().expect("a count")
    }

    fn list(value: &Value) -> impl Iterator<Item = &Value> {
        value.as_array().expect("a list").iter()
    }

    fn recorded(kind: &str) -> Vec<Value> {
        let path = format!(
            "{}/tests/data/ranks/tensorrt-llm-1.2.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let file = std::fs::read_to_string(path).expect("the recording is there");
        let recorded: Value = serde_json::from_str(&file).expect("a recording is JSON");
        let cases: Vec<Value> = list(&recorded[kind]).cloned().collect();
        assert!(cases.len() >= 200, "{kind}: {}", cases.len());
        cases
    }

    #[test]
    fn requests_go_to_ranks_as_recorded() {
        for case in recorded("shared") {
            let active: Vec<Active> = list(&case["active"])
                .map(|rank| Active {
                    requests: count(&rank[0]),
                    prompt_tokens: count(&rank[1]),
                })
                .collect();
            let waiting: Vec<u32> = list(&case["prompts"])
                .map(|tokens| count(tokens) as u32)
                .collect();
            let handed = handed_out(&active, count(&case["max_batch_size"]) as u32, waiting.len());
            let mut got = vec![Vec::new(); active.len()];
            for (at, rank) in share_out(&waiting[..handed], &active) {
                got[rank].push(at as u64);
            }
            let expected: Vec<Vec<u64>> = list(&case["ranks"])
                .map(|own| list(own).map(count).collect())
                .collect();
            assert_eq!(got, expected, "{case}");
        }
    }

    #[test]
    fn prompts_are_put_off_as_recorded() {
        let mut put_off = 0;
        for case in recorded("balanced") {
            let how = AttentionDp {
                max_batch_size: count(&case["max_batch_size"]) as u32,
                pads: true,
                balance: Some(Balance {
                    timeout_iters: count(&case["timeout_iters"]) as u32,
                    batching_wait_iters: count(&case["batching_wait_iters"]) as u32,
                }),
            };
            let mut state = PutOff::default();
            for (at, step) in list(&case["steps"]).enumerate() {
                let at_hand: Vec<AtHand> = list(&step["at_hand"])
                    .map(|rank| AtHand {
                        prompts: count(&rank[0]) as u32,
                        decodes: count(&rank[1]) as u32,
                    })
                    .collect();
                let is_put_off = state.decide(how, &at_hand);
                assert_eq!(Value::from(is_put_off), step["put_off"], "step {at} of {case}");
                put_off += u32::from(is_put_off);
            }
        }
        assert!(put_off > 200, "{put_off}");
    }

    proptest! {
        #[test]
        fn steps_that_are_leapt_over_count(timeout in 0u32..9, steps in 0u64..40, before in 0u64..40) {
            let balance = Some(Balance { timeout_iters: timeout, batching_wait_iters: 3 });
            let how = AttentionDp { max_batch_size: 4, pads: true, balance };
            let plain = [AtHand { prompts: 0, decodes: 4 }, AtHand { prompts: 0, decodes: 1 }];
            let (mut walked, mut leapt) = (PutOff::default(), PutOff::default());
            for _ in 0..before + steps {
                walked.decide(how, &plain);
            }
            leapt.pass_over(how, before);
            leapt.pass_over(how, steps);
            prop_assert_eq!(walked, leapt);
        }

        /// Nobody is lost, and no rank gets beyond its seats.
        #[test]
        fn everybody_has_a_seat(
            ranks in prop::collection::vec((0u64..6, 0u64..9000), 1..9), prompts in prop::collection::vec(1u32..4000, 0..40),
        ) {
            let active: Vec<Active> =
                ranks.iter().map(|&(requests, prompt_tokens)| Active { requests, prompt_tokens }).collect();
            let handed = handed_out(&active, 6, prompts.len());
            let shared = share_out(&prompts[..handed], &active);
            let mut all: Vec<usize> = shared.iter().map(|&(at, _)| at).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..handed).collect::<Vec<_>>());
            for (rank, own) in active.iter().enumerate() {
                let got = shared.iter().filter(|&&(_, to)| to == rank).count() as u64;
                prop_assert!(own.requests + got <= 6);
            }
        }
    }
}
