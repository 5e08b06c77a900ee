//! How far ranks pad their batches of a common step: vLLM's (DP-2), SGLang's (SG-50, SG-51) and TensorRT-LLM's (TR-14).

use crate::cost::{Moved, StepLoad};
use crate::engine::rank::Padding;

/// How SGLang's ranks come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// GPUs of a rank, at whole multiples of which batches without a graph are computed.
    pub gpus_a_rank: u32,
    /// What 0.5.23 has beyond 0.5.4.
    pub coordination: Option<Coordination>,
}

/// How ranks of SGLang 0.5.23 agree on a step (`MLPSyncBatchInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordination {
    /// Tokens of all ranks up to which decodes are moved by all-reduces where nobody idles: what the buffer of its own
    /// all-reduce holds (`_decode_sum_len_fits_custom_all_reduce`).
    pub sums_up_to: u64,
    /// Decodes beside prompts are computed as prompts of one token, so that all can replay pieces
    /// (`maybe_convert_decode_to_extend`); not with kernels that send tokens where they are routed.
    pub converts_decodes: bool,
}

/// Times that 0.5.23 pads a rank's tokens for pieces at most (`_MAX_PREFILL_CUDA_GRAPH_PADDING_FACTOR`).
const MOST_PADDING: u64 = 2;

/// What a rank brings to a common step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    /// Its tokens; none in a dummy.
    pub(super) tokens: u64,
    /// Rows whose logits are computed: one of each sequence, of a prompt in parts, too (`num_tokens_for_logprob`).
    pub(super) rows: u64,
    /// Some are prompts.
    pub(super) has_prompts: bool,
}

impl Brought {
    /// What `load` brings.
    pub(super) fn of(load: &StepLoad, has_prompts: bool) -> Brought {
        Brought {
            tokens: load.tokens(),
            rows: u64::from(load.decode_seqs) + load.chunks.len() as u64,
            has_prompts,
        }
    }
}

/// Which graphs every rank has captured.
#[derive(Clone, Copy)]
pub(super) struct Captured<'a> {
    /// The batch that so many decodes replay, if any.
    pub(super) decodes: &'a dyn Fn(u32) -> Option<u32>,
    /// The tokens of the pieces that a step with prompts of so many tokens replays, if any.
    pub(super) pieces: &'a dyn Fn(u64) -> Option<u64>,
}

/// How all compute a common step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Together {
    /// What each rank computes.
    pub(super) padding: Padding,
    /// Tokens that are moved to what is in common.
    pub(super) tokens: u64,
    /// How.
    pub(super) moved: Moved,
    /// Rows whose logits are computed, where that is in common.
    pub(super) rows: u64,
}

/// Of vLLM's ranks: all replay the largest batch's graph, or each is padded as if it were alone. A dummy is one token.
pub(super) fn agreed(captured: Captured<'_>, brought: &[Brought]) -> Together {
    let largest = largest(brought);
    let (padding, tokens) = match replayed(captured, brought) {
        Some(batch) => (Padding::Decodes(largest), batch * brought.len() as u64),
        None => {
            let tokens = brought.iter().map(|own| own.tokens.max(1));
            (Padding::Alone, tokens.sum())
        }
    };
    Together {
        padding,
        tokens,
        moved: Moved::Scattered,
        rows: 0,
    }
}

/// Of SGLang's ranks.
pub(super) fn gathered(gathering: Gathering, captured: Captured<'_>, brought: &[Brought]) -> Together {
    let ranks = brought.len() as u64;
    let has_prompts = brought.iter().any(|own| own.has_prompts);
    let rows = brought.iter().map(|own| own.rows).sum();
    let fits_sum = |tokens: u64| {
        let coordination = gathering.coordination;
        coordination.is_some_and(|new| tokens <= new.sums_up_to)
    };
    if let Some(batch) = replayed(captured, brought) {
        let tokens = batch * ranks;
        return Together {
            padding: Padding::Decodes(largest(brought)),
            tokens,
            moved: match fits_sum(tokens) {
                true => Moved::Summed,
                false => Moved::Scattered,
            },
            rows: tokens,
        };
    }
    let pieces = gathering.coordination.filter(|_| has_prompts);
    if let Some(tokens) = pieces.and_then(|new| pieces_of_all(new, gathering, captured, brought)) {
        return Together {
            padding: Padding::Pieces(tokens),
            tokens: tokens * ranks,
            moved: Moved::Scattered,
            rows,
        };
    }
    let aligned = |own: &Brought| own.tokens.next_multiple_of(u64::from(gathering.gpus_a_rank));
    let sum: u64 = brought.iter().map(aligned).sum();
    let largest = brought.iter().map(aligned).max().unwrap_or(0);
    let nobody_idles = brought.iter().all(|own| own.tokens > 0);
    // Whatever moves less (`DpPaddingMode.get_dp_padding_mode`); of equals 0.5.4 takes the sum.
    let is_padded = match gathering.coordination {
        _ if has_prompts => false,
        Some(_) => !(nobody_idles && fits_sum(sum)) && 2 * sum >= largest * ranks,
        None => 2 * sum > largest * ranks,
    };
    let (padding, tokens, moved) = match is_padded {
        true => (
            Padding::Decodes(largest as u32),
            largest * ranks,
            Moved::Scattered,
        ),
        false => (Padding::Alone, sum, Moved::Summed),
    };
    Together {
        padding,
        tokens,
        moved,
        rows,
    }
}

/// Of TensorRT-LLM's ranks (`CUDAGraphRunner._get_padded_batch`, `maybe_get_cuda_graph`). A dummy is one token.
pub(super) fn attending(pads: bool, captured: Captured<'_>, brought: &[Brought]) -> Together {
    let has_prompts = brought.iter().any(|own| own.has_prompts);
    let are_equal = || {
        let mut tokens = brought.iter().map(|own| own.tokens.max(1));
        let first = tokens.next();
        tokens.all(|own| Some(own) == first)
    };
    let replayed = replayed(captured, brought).filter(|_| pads || are_equal());
    let (padding, tokens) = match replayed {
        Some(batch) => (Padding::Decodes(largest(brought)), batch * brought.len() as u64),
        None => {
            // A rank without prompts pads its batch before it hears of theirs.
            let rounded = pads && has_prompts;
            let computed = |own: &Brought| match (own.tokens.max(1), own.has_prompts || !rounded) {
                (tokens, true) => tokens,
                (tokens, false) => (captured.decodes)(tokens as u32).map_or(tokens, u64::from),
            };
            (Padding::Launched { rounded }, brought.iter().map(computed).sum())
        }
    };
    Together {
        padding,
        tokens,
        moved: Moved::Scattered,
        rows: 0,
    }
}

fn largest(brought: &[Brought]) -> u32 {
    let tokens = brought.iter().map(|own| own.tokens).max();
    tokens.unwrap_or(0).max(1) as u32
}

/// The captured batch that all replay where all decode.
fn replayed(captured: Captured<'_>, brought: &[Brought]) -> Option<u64> {
    if brought.iter().any(|own| own.has_prompts) {
        return None;
    }
    (captured.decodes)(largest(brought)).map(u64::from)
}

/// Tokens of the pieces that all replay if every rank that has a batch votes for it (`_local_prefill_cuda_graph_vote`).
fn pieces_of_all(
    new: Coordination,
    gathering: Gathering,
    captured: Captured<'_>,
    brought: &[Brought],
) -> Option<u64> {
    let votes = |own: &Brought| {
        let pieces = (captured.pieces)(own.tokens);
        (own.has_prompts || new.converts_decodes)
            && pieces.is_some_and(|pieces| pieces <= MOST_PADDING * own.tokens)
    };
    if !brought.iter().filter(|own| own.tokens > 0).all(votes) {
        return None;
    }
    let largest = u64::from(largest(brought));
    (captured.pieces)(largest.next_multiple_of(u64::from(gathering.gpus_a_rank)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What SGLang's own code decided for drawn batches (`tests/data/ranks`): which graphs are replayed, the rows that are moved, and how.
    const RECORDED: [(&str, usize); 2] = [("sglang-0.5.23", 400), ("sglang-0.5.4", 150)];

    fn sizes(case: &Value, key: &str) -> Vec<u64> {
        let sizes = case[key].as_array().expect("sizes are listed").iter();
        sizes
            .map(|size| size.as_u64().expect("a size is a count"))
            .collect()
    }

    fn holding(sizes: &[u64], tokens: u64) -> Option<u64> {
        sizes.iter().copied().find(|&size| size >= tokens)
    }

    #[test]
    fn batches_are_padded_as_recorded() {
        for (name, count) in RECORDED {
            let path = format!("{}/tests/data/ranks/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let file = std::fs::read_to_string(path).expect("the recording is there");
            let recorded: Value = serde_json::from_str(&file).expect("a recording is JSON");
            let is_new = recorded["version"] != "0.5.4";
            let cases = recorded["cases"].as_array().expect("cases are listed");
            assert_eq!(cases.len(), count);
            for case in cases {
                let sends_tokens = case["sends_tokens"] == true;
                let gathering = Gathering {
                    gpus_a_rank: case["gpus_a_rank"].as_u64().expect("a count") as u32,
                    coordination: is_new.then(|| Coordination {
                        sums_up_to: match sends_tokens {
                            true => 0,
                            false => case["sums_up_to"].as_u64().expect("a count"),
                        },
                        converts_decodes: !sends_tokens,
                    }),
                };
                let (decodes, pieces) = (sizes(case, "decodes"), sizes(case, "pieces"));
                let captured = Captured {
                    decodes: &|batch| holding(&decodes, batch.into()).map(|size| size as u32),
                    pieces: &|tokens| holding(&pieces, tokens),
                };
                let brings = |own: &Value| Brought {
                    tokens: own[1].as_u64().expect("a count"),
                    rows: 0,
                    has_prompts: own[0] == "prompts",
                };
                let brought = case["brought"].as_array().expect("batches are listed");
                let brought: Vec<Brought> = brought.iter().map(brings).collect();
                let got = gathered(gathering, captured, &brought);
                let replays = match got.padding {
                    Padding::Pieces(_) => "pieces",
                    Padding::Decodes(batch) if holding(&decodes, batch.into()).is_some() => "decodes",
                    Padding::Decodes(_) | Padding::Alone | Padding::Launched { .. } => "nothing",
                };
                let moved = match got.moved {
                    Moved::Scattered => "scattered",
                    Moved::Summed => "summed",
                };
                let got = (replays, got.tokens, moved);
                let expected = (
                    case["replays"].as_str().expect("a word"),
                    case["tokens"].as_u64().expect("a count"),
                    case["moved"].as_str().expect("a word"),
                );
                assert_eq!(got, expected, "{case}");
            }
        }
    }

    /// What TensorRT-LLM's methods, transcribed, decided for drawn batches: whether a graph is replayed, and the rows that each rank computes.
    #[test]
    fn batches_of_tensorrt_llm_are_padded_as_recorded() {
        let path = format!(
            "{}/tests/data/ranks/tensorrt-llm-1.2.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let file = std::fs::read_to_string(path).expect("the recording is there");
        let recorded: Value = serde_json::from_str(&file).expect("a recording is JSON");
        let cases = recorded["padded"].as_array().expect("cases are listed");
        assert!(cases.len() >= 300, "{}", cases.len());
        for case in cases {
            let (pads, decodes) = (case["pads"] == true, sizes(case, "captured"));
            let captured = Captured {
                decodes: &|batch| {
                    let holding = holding(&decodes, batch.into()).map(|size| size as u32);
                    holding.filter(|&size| pads || size == batch)
                },
                pieces: &|_| None,
            };
            let brings = |own: &Value| Brought {
                tokens: match &own[0] {
                    kind if kind == "dummy" => 0,
                    _ => own[1].as_u64().expect("a count"),
                },
                rows: 0,
                has_prompts: own[0] == "prompts",
            };
            let brought = case["brought"].as_array().expect("batches are listed");
            let brought: Vec<Brought> = brought.iter().map(brings).collect();
            let got = attending(pads, captured, &brought);
            let replays = matches!(got.padding, Padding::Decodes(_));
            let expected = case["tokens"].as_u64().expect("a count");
            assert_eq!(
                (Value::from(replays), got.tokens),
                (case["replays"].clone(), expected),
                "{case}"
            );
        }
    }
}
