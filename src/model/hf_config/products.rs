//! The products of a layer as vLLM multiplies them, under the names that a checkpoint has for their parts.
//!
//! Left out: routers, which are never quantized.

use super::super::families::Hybrid;
use super::super::{Attention, Mlp, Recurrence, Rule};
use super::Reader;

/// Matrices of a layer that are one product in vLLM.
pub(super) struct Product {
    /// As [`super::super::Matrix::name`] has them.
    pub(super) matrices: &'static [&'static str],
    /// vLLM's class.
    pub(super) class: &'static str,
    /// Under the layer, `self_attn.qkv_proj`.
    pub(super) fused: String,
    /// `self_attn.q_proj` …; the product itself where the file has it whole.
    pub(super) parts: Vec<String>,
}

// vLLM's classes of linear layers, which a target may name in part.
const QKV: &str = "QKVParallelLinear";
const MERGED: &str = "MergedColumnParallelLinear";
const COLUMN: &str = "ColumnParallelLinear";
const ROW: &str = "RowParallelLinear";
const REPLICATED: &str = "ReplicatedLinear";
/// Routed experts are those of the scheme of `Linear` in vLLM.
pub(super) const EXPERTS: &str = "FusedMoELinear";

/// A product that the file has in parts; whole if there are none.
fn fused(
    matrices: &'static [&'static str],
    class: &'static str,
    name: String,
    parts: Vec<String>,
) -> Product {
    Product {
        matrices,
        class,
        parts: if parts.is_empty() {
            vec![name.clone()]
        } else {
            parts
        },
        fused: name,
    }
}

/// A product that the file has whole.
fn whole(matrices: &'static [&'static str], class: &'static str, name: String) -> Product {
    fused(matrices, class, name, Vec::new())
}

impl Reader<'_> {
    /// The products of one layer.
    pub(super) fn products(&self, attention: &Attention, mlp: &Mlp) -> Vec<Product> {
        let mut all = match attention {
            Attention::Recurrent(recurrence) => self.recurrent_products(attention, recurrence),
            _ => self.attention_products(attention),
        };
        all.extend(self.mlp_products(mlp));
        all
    }

    /// What a layer's mixer of tokens is called.
    fn mixer(&self, attention: &Attention) -> &'static str {
        match (self.family.hybrid, attention) {
            (Hybrid::StateSpace, _) => "mixer",
            (Hybrid::GatedDelta, Attention::Recurrent(_)) => "linear_attn",
            (Hybrid::Mamba2 | Hybrid::Mamba2Beside, Attention::Recurrent(_)) => "mamba",
            (Hybrid::ShortConv, Attention::Recurrent(_)) => "conv",
            (Hybrid::LingDelta, _) => "attention",
            _ => "self_attn",
        }
    }

    fn attention_products(&self, attention: &Attention) -> Vec<Product> {
        let mixer = self.mixer(attention);
        let own = |name: &str| format!("{mixer}.{name}");
        let gate = |gate| {
            let name = self.gate_name(gate)?;
            Some(whole(&["attention_gate"], COLUMN, own(name)))
        };
        match *attention {
            Attention::Grouped { shares_kv: true, .. } => vec![
                whole(&["q"], COLUMN, own("q_proj")),
                whole(&["attention_out"], ROW, own("o_proj")),
            ],
            Attention::Grouped { gate: kind, .. } => {
                // Phi-3 has one matrix in the file, too.
                let parts = match self.family.model_types.contains(&"phi3") {
                    true => Vec::new(),
                    false => ["q_proj", "k_proj", "v_proj"].map(own).to_vec(),
                };
                let out = match self.family.is_opt() || self.family.hybrid == Hybrid::ShortConv {
                    true => "out_proj",
                    false => "o_proj",
                };
                let mut all = vec![fused(&["qkv"], QKV, own("qkv_proj"), parts)];
                all.extend(gate(kind));
                all.push(whole(&["attention_out"], ROW, own(out)));
                all
            }
            Attention::Latent {
                query_rank,
                gate: kind,
                indexer,
                ..
            } => {
                let (compressed, rest) = (own("kv_a_proj_with_mqa"), own("q_a_proj"));
                let mut all = match query_rank {
                    Some(_) => vec![
                        fused(
                            &["q_a", "kv_a"],
                            MERGED,
                            own("fused_qkv_a_proj"),
                            vec![rest, compressed],
                        ),
                        whole(&["q_b"], COLUMN, own("q_b_proj")),
                    ],
                    None => vec![
                        whole(&["q"], COLUMN, own("q_proj")),
                        whole(&["kv_a"], COLUMN, compressed),
                    ],
                };
                all.push(whole(&["kv_b"], COLUMN, own("kv_b_proj")));
                all.push(whole(&["attention_out"], ROW, own("o_proj")));
                all.extend(gate(kind));
                if indexer.is_some_and(|indexer| indexer.scores) {
                    all.push(whole(&["index_q"], REPLICATED, own("indexer.wq_b")));
                }
                all
            }
            Attention::Recurrent(_) | Attention::Absent => Vec::new(),
        }
    }

    fn recurrent_products(&self, attention: &Attention, recurrence: &Recurrence) -> Vec<Product> {
        let mixer = self.mixer(attention);
        let own = |name: &str| format!("{mixer}.{name}");
        let of = |names: &[&str]| names.iter().copied().map(own).collect();
        match recurrence.rule {
            Rule::GatedDelta { .. } => {
                // Qwen3-Next's files have the products whole.
                let is_whole = self.family.model_types.contains(&"qwen3_next");
                let parts = |names: &[&str]| if is_whole { Vec::new() } else { of(names) };
                vec![
                    fused(
                        &["state_in"],
                        MERGED,
                        own("in_proj_qkvz"),
                        parts(&["in_proj_qkv", "in_proj_z"]),
                    ),
                    fused(
                        &["state_gates"],
                        MERGED,
                        own("in_proj_ba"),
                        parts(&["in_proj_b", "in_proj_a"]),
                    ),
                    whole(&["state_out"], ROW, own("out_proj")),
                ]
            }
            // Ling 3's.
            Rule::KimiDelta { is_thin: false, .. } => {
                let joined = of(&["q_proj", "k_proj", "v_proj", "b_proj"]);
                vec![
                    fused(&["state_in"], MERGED, own("qkvb_proj"), joined),
                    fused(&["state_gates"], COLUMN, own("f_proj"), of(&["f_proj", "g_proj"])),
                    whole(&["state_out"], ROW, own("o_proj")),
                ]
            }
            Rule::KimiDelta { .. } => {
                let joined = of(&["q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj"]);
                let up = of(&["f_b_proj", "g_b_proj"]);
                vec![
                    fused(&["state_in"], MERGED, own("in_proj_qkvgfab"), joined),
                    whole(&["state_gates"], REPLICATED, own("g_a_proj")),
                    fused(&["state_gates_up"], COLUMN, own("f_b_proj"), up),
                    whole(&["state_out"], ROW, own("o_proj")),
                ]
            }
            Rule::StateSpace { .. } | Rule::ShortConv { .. } => vec![
                whole(&["state_in"], MERGED, own("in_proj")),
                whole(&["state_out"], ROW, own("out_proj")),
            ],
        }
    }

    fn mlp_products(&self, mlp: &Mlp) -> Vec<Product> {
        let parent = self.feed_forward(matches!(mlp, Mlp::Experts { .. }));
        let of = |name: &str| format!("{parent}.{name}");
        let (_, down, _) = self.gated_names();
        match mlp {
            Mlp::Absent => Vec::new(),
            Mlp::Dense { gated: true, .. } => {
                vec![self.gated(&["gate_up"], parent), whole(&["down"], ROW, of(down))]
            }
            Mlp::Dense { gated: false, .. } => {
                let (up, down) = self.family.up_and_down;
                vec![
                    whole(&["up"], COLUMN, up.to_string()),
                    whole(&["down"], ROW, down.to_string()),
                ]
            }
            Mlp::Experts {
                gated: false,
                shared_intermediate,
                latent,
                ..
            } => {
                let mut all = Vec::new();
                if latent.is_some() {
                    all.push(whole(&["latent_in"], REPLICATED, of("fc1_latent_proj")));
                    all.push(whole(&["latent_out"], REPLICATED, of("fc2_latent_proj")));
                }
                all.push(fused(
                    &["expert_gate_up", "expert_up", "expert_down"],
                    EXPERTS,
                    of("experts"),
                    vec![of("experts.0.up_proj"), of("experts.0.down_proj")],
                ));
                if *shared_intermediate > 0 {
                    all.push(whole(&["shared_up"], COLUMN, of("shared_experts.up_proj")));
                    all.push(whole(&["shared_down"], ROW, of("shared_experts.down_proj")));
                }
                all
            }
            Mlp::Experts {
                shared_intermediate, ..
            } => {
                let mut all = vec![fused(
                    &["expert_gate_up", "expert_down"],
                    EXPERTS,
                    of("experts"),
                    self.expert_names(parent),
                )];
                if *shared_intermediate > 0 {
                    let shared = self.shared_experts(parent);
                    all.push(self.gated(&["shared_gate_up"], &shared));
                    all.push(whole(&["shared_down"], ROW, format!("{shared}.{down}")));
                }
                all
            }
        }
    }

    /// The first product of a gated feed-forward part, which Phi-3's and GLM-4's files have whole.
    fn gated(&self, matrices: &'static [&'static str], parent: &str) -> Product {
        const WHOLE: [&str; 3] = ["phi3", "glm4", "glm"];
        let (up, _, parts) = self.gated_names();
        let is_whole = self
            .family
            .model_types
            .iter()
            .any(|family| WHOLE.contains(family));
        let of = |name: &str| format!("{parent}.{name}");
        let parts = match is_whole {
            true => Vec::new(),
            false => parts.iter().map(|name| of(name)).collect(),
        };
        fused(matrices, MERGED, of(up), parts)
    }
}
