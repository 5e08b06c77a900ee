//! The weight matrices of what mixes a layer's tokens.

use super::super::{Attention, LayerGroup, OutputGate};
use super::{Matrix, Precision, Sharding};

/// Those of all layers of a group, in the order of execution.
pub(super) fn attention_matrices(d: u64, group: &LayerGroup) -> Vec<Matrix> {
    let matrix = |name, inputs, outputs, sharding| Matrix {
        name,
        copies: u64::from(group.count),
        used: u64::from(group.count),
        inputs,
        outputs,
        sharding,
        precision: Precision::Linear,
        kept: false,
    };
    match group.attention {
        Attention::Recurrent(ref recurrence) => recurrence
            .projections(d)
            .into_iter()
            .map(|one| matrix(one.name, one.inputs, one.outputs, one.sharding))
            .collect(),
        Attention::Absent => Vec::new(),
        Attention::Grouped {
            query_heads,
            head_dim,
            shares_kv: true,
            ..
        } => {
            let width = u64::from(query_heads) * u64::from(head_dim);
            vec![
                matrix("q", d, width, Sharding::Split),
                matrix("attention_out", width, d, Sharding::Split),
            ]
        }
        Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            value_dim,
            gate,
            ..
        } => {
            let of_kv = head_dim + value_dim;
            let gates = if gate == OutputGate::OfQueries {
                query_heads
            } else {
                0
            };
            let heads = Sharding::Heads {
                query: query_heads + gates,
                kv: kv_heads,
                of_query: head_dim,
                of_kv,
            };
            let (q, kv) = (u64::from(query_heads), u64::from(kv_heads));
            let columns = (q + u64::from(gates)) * u64::from(head_dim) + kv * u64::from(of_kv);
            let output = q * u64::from(value_dim);
            let gate = own_gate(gate, q, output);
            let gate = gate.map(|columns| matrix("attention_gate", d, columns, Sharding::Split));
            [matrix("qkv", d, columns, heads)]
                .into_iter()
                .chain(gate)
                .chain([matrix("attention_out", output, d, Sharding::Split)])
                .collect()
        }
        Attention::Latent {
            query_heads,
            query_rank,
            kv_rank,
            rope_dim,
            nope_dim,
            value_dim,
            gate,
            indexer,
        } => {
            let heads = u64::from(query_heads);
            let query = heads * u64::from(nope_dim + rope_dim);
            let query_matrices = match query_rank {
                None => vec![matrix("q", d, query, Sharding::Split)],
                Some(rank) => vec![
                    matrix("q_a", d, u64::from(rank), Sharding::Replicated),
                    matrix("q_b", u64::from(rank), query, Sharding::Split),
                ],
            };
            let kv_up = heads * u64::from(nope_dim + value_dim);
            let gate = own_gate(gate, heads, heads * u64::from(value_dim));
            let gate = gate.map(|columns| matrix("attention_gate", d, columns, Sharding::Split));
            let rest = [
                matrix("kv_a", d, u64::from(kv_rank + rope_dim), Sharding::Replicated),
                matrix("kv_b", u64::from(kv_rank), kv_up, Sharding::Split),
                matrix("attention_out", heads * u64::from(value_dim), d, Sharding::Split),
            ];
            let picks = indexer.filter(|indexer| indexer.scores).map(|indexer| {
                let queries = u64::from(indexer.heads) * u64::from(indexer.head_dim);
                let keys = u64::from(indexer.head_dim + indexer.heads);
                let rank = query_rank.map_or(d, u64::from);
                [
                    matrix("index_q", rank, queries, Sharding::Replicated),
                    // Keys and the weights of heads, which no engine quantizes.
                    Matrix {
                        precision: Precision::Plain,
                        ..matrix("index_k", d, keys, Sharding::Replicated)
                    },
                ]
            });
            query_matrices
                .into_iter()
                .chain(rest)
                .chain(gate)
                .chain(picks.into_iter().flatten())
                .collect()
        }
    }
}

/// Columns of a gate's own projection, if it has one.
fn own_gate(gate: OutputGate, heads: u64, output: u64) -> Option<u64> {
    match gate {
        OutputGate::None | OutputGate::OfQueries => None,
        OutputGate::Own => Some(output),
        OutputGate::OfHeads => Some(heads),
    }
}
