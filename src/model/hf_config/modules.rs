//! Which linear layers a quantized checkpoint leaves as they were, by the names of its modules.
//!
//! Law: a fused product (Q, K and V; gate and up) is quantized as a whole or not at all, as vLLM demands. Left out: the
//! LM head, which is never quantized here; the numbers of experts, since one kernel computes all of them.

use std::collections::BTreeSet;

use regex::Regex;

use super::super::families::Hybrid;
use super::super::{Attention, Mlp, Rule as Recurrent};
use super::Reader;

/// How an entry of a list names modules.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// The whole name, `model.layers.0.self_attn.q_proj`.
    Exact(String),
    /// A part of it, `self_attn` or `model.layers.0`, where a number at the end is a whole one.
    Within(String),
    /// Any letters of it, by which `model.layers.1` is in layer 10, too. It is looked for in the parts of a fused product, as
    /// the file has them, and not in the product's own name: `v_proj` is no part of `q_proj`, though it is one of `qkv_proj`.
    Letters(String),
    /// Whole words between its dots, or all of them from the first on.
    Words(String),
    /// A pattern that matches from its beginning, and how the checkpoint writes it.
    Pattern(Regex, String),
    /// A part of the name of vLLM's class, `Linear`.
    Class(String),
}

/// Which modules are quantized.
#[derive(Clone, Debug, Default)]
pub(super) struct Stays {
    /// Those alone; `None` for all.
    pub(super) targets: Option<Vec<Rule>>,
    /// Less these.
    pub(super) except: Vec<Rule>,
    /// Less these, by their whole names, of which there may be thousands.
    pub(super) names: BTreeSet<String>,
    /// The key that says so, for messages.
    pub(super) key: &'static str,
}

/// All names that modules of the model may go by.
#[derive(Default)]
pub(super) struct Named {
    /// Linear layers that a checkpoint may quantize.
    linear: BTreeSet<String>,
    /// Routers and gates of shared experts, which stay in 16 bits in any case.
    routers: BTreeSet<String>,
}

/// Matrices of a layer that are one product in vLLM, under the names that a checkpoint has for its parts.
struct Module {
    /// As [`super::super::Matrix::name`] has them.
    matrices: &'static [&'static str],
    /// vLLM's class.
    class: &'static str,
    /// Under the layer, `self_attn.qkv_proj`.
    fused: String,
    /// `self_attn.q_proj` …
    parts: Vec<String>,
}

impl Rule {
    fn names(&self, name: &str, class: &str) -> bool {
        match self {
            Rule::Exact(whole) => whole == name,
            Rule::Within(part) => is_within(part, name),
            Rule::Letters(part) => name.contains(part.as_str()),
            Rule::Words(words) => {
                let rest = name.strip_prefix(words.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                    || name.split('.').any(|word| word == words)
            }
            Rule::Pattern(pattern, _) => pattern.is_match(name),
            Rule::Class(part) => class.to_lowercase().contains(part),
        }
    }

    /// Whether it names a part of a product, `own`, or the product, `fused`.
    fn names_either(&self, own: &[String], fused: &[String], class: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| self.names(name, class));
        match self {
            // Of experts vLLM knows the product's name alone.
            Rule::Letters(part) if class == EXPERTS && !part.contains("experts.") => among(fused),
            Rule::Letters(_) => among(own),
            _ => among(own) || among(fused),
        }
    }

    /// As the checkpoint writes it; `None` of a class.
    fn written(&self) -> Option<&str> {
        match self {
            Rule::Exact(text) | Rule::Within(text) | Rule::Letters(text) | Rule::Words(text) => Some(text),
            Rule::Pattern(_, written) => Some(written),
            Rule::Class(_) => None,
        }
    }
}

/// Whether `part` is in `name`, where a number at its end is a whole one: vLLM would take layer 1 of ModelOpt's for layer 10,
/// too, and then not find the weights of a checkpoint that does not.
fn is_within(part: &str, name: &str) -> bool {
    let ends_in_digit = part.ends_with(|last: char| last.is_ascii_digit());
    name.match_indices(part).any(|(at, _)| {
        let next = name[at + part.len()..].chars().next();
        !(ends_in_digit && next.is_some_and(|next| next.is_ascii_digit()))
    })
}

impl Stays {
    /// Whether one part of a product is left as it was, by any of its own names or the product's.
    fn leaves(&self, own: &[String], fused: &[String], class: &str) -> bool {
        let by = |rules: &[Rule]| rules.iter().any(|rule| rule.names_either(own, fused, class));
        self.targets.as_ref().is_some_and(|targets| !by(targets))
            || own.iter().chain(fused).any(|name| self.names.contains(name))
            || by(&self.except)
    }

    fn is_nothing(&self) -> bool {
        self.targets.is_none() && self.except.is_empty() && self.names.is_empty()
    }
}

impl Reader<'_> {
    /// The matrices of a layer that are left as they were; `None` if a product is quantized in part.
    pub(super) fn kept(
        &mut self,
        layer: usize,
        attention: &Attention,
        mlp: &Mlp,
        stays: &Stays,
        named: &mut Named,
    ) -> Option<Vec<&'static str>> {
        if stays.is_nothing() {
            return Some(Vec::new());
        }
        let prefixes = self.prefixes(layer);
        for (prefix, name) in prefixes
            .iter()
            .flat_map(|prefix| ROUTERS.map(|name| (prefix, name)))
        {
            named
                .routers
                .insert(format!("{prefix}{}.{name}", self.feed_forward(true)));
        }
        let mut kept = Vec::new();
        for module in self.modules(attention, mlp) {
            let under = |suffix: &String| -> Vec<String> {
                prefixes
                    .iter()
                    .map(|prefix| format!("{prefix}{suffix}"))
                    .collect()
            };
            // What names the product means each of its parts.
            let fused = under(&module.fused);
            let parts: Vec<Vec<String>> = module.parts.iter().map(under).collect();
            named.linear.extend(parts.iter().flatten().cloned());
            let left: Vec<bool> = parts
                .iter()
                .map(|own| stays.leaves(own, &fused, module.class))
                .collect();
            named.linear.extend(fused);
            if left.iter().all(|&left| left) {
                kept.extend_from_slice(module.matrices);
            } else if left.contains(&true) {
                return self.problem(format!(
                    "`{}` keeps some of {} of layer {layer} and not all: engines multiply them as one and refuse that",
                    stays.key,
                    module.parts.join(", ")
                ));
            }
        }
        Some(kept)
    }

    /// The products of one layer, router left out.
    fn modules(&self, attention: &Attention, mlp: &Mlp) -> Vec<Module> {
        let module = |matrices, class, fused: String, parts: &[String]| Module {
            matrices,
            class,
            parts: match parts {
                [] => vec![fused.clone()],
                parts => parts.to_vec(),
            },
            fused,
        };
        let mixes = match (self.family.hybrid, attention) {
            (Hybrid::StateSpace, _) => "mixer",
            (Hybrid::GatedDelta, Attention::Recurrent(_)) => "linear_attn",
            (Hybrid::Mamba2 | Hybrid::Mamba2Beside, Attention::Recurrent(_)) => "mamba",
            (Hybrid::ShortConv, Attention::Recurrent(_)) => "conv",
            (Hybrid::LingDelta, _) => "attention",
            _ => "self_attn",
        };
        let own = |name: &str| format!("{mixes}.{name}");
        let is_fused_in_file = self
            .family
            .model_types
            .iter()
            .any(|family| ["phi3", "glm4", "glm"].contains(family));
        let mut all = match attention {
            Attention::Grouped { shares_kv: true, .. } => vec![
                module(&["q"], COLUMN, own("q_proj"), &[]),
                module(&["attention_out"], ROW, own("o_proj"), &[]),
            ],
            &Attention::Grouped { gate, .. } => {
                // Phi-3 has one matrix in the file, too; GLM-4 for gate and up only.
                let parts = match self.family.model_types.contains(&"phi3") {
                    true => Vec::new(),
                    false => ["q_proj", "k_proj", "v_proj"].map(own).to_vec(),
                };
                let out = match self.family.is_opt() || self.family.hybrid == Hybrid::ShortConv {
                    true => "out_proj",
                    false => "o_proj",
                };
                let gate = self
                    .gate_name(gate)
                    .map(|name| module(&["attention_gate"], COLUMN, own(name), &[]));
                [module(&["qkv"], QKV, own("qkv_proj"), &parts)]
                    .into_iter()
                    .chain(gate)
                    .chain([module(&["attention_out"], ROW, own(out), &[])])
                    .collect()
            }
            &Attention::Latent {
                query_rank,
                gate,
                indexer,
                ..
            } => {
                let (compressed, rest) = (own("kv_a_proj_with_mqa"), own("q_a_proj"));
                let first = match query_rank {
                    Some(_) => vec![
                        module(
                            &["q_a", "kv_a"],
                            MERGED,
                            own("fused_qkv_a_proj"),
                            &[rest, compressed],
                        ),
                        module(&["q_b"], COLUMN, own("q_b_proj"), &[]),
                    ],
                    None => vec![
                        module(&["q"], COLUMN, own("q_proj"), &[]),
                        module(&["kv_a"], COLUMN, compressed, &[]),
                    ],
                };
                let last = [
                    module(&["kv_b"], COLUMN, own("kv_b_proj"), &[]),
                    module(&["attention_out"], ROW, own("o_proj"), &[]),
                ];
                let picks = indexer.filter(|indexer| indexer.scores);
                let picks = picks.map(|_| module(&["index_q"], REPLICATED, own("indexer.wq_b"), &[]));
                let gate = self
                    .gate_name(gate)
                    .map(|name| module(&["attention_gate"], COLUMN, own(name), &[]));
                first.into_iter().chain(last).chain(gate).chain(picks).collect()
            }
            Attention::Recurrent(recurrence) => match recurrence.rule {
                Recurrent::GatedDelta { .. } => {
                    // Qwen3-Next's files have the products whole.
                    let is_whole = self.family.model_types.contains(&"qwen3_next");
                    let parts = |names: [&str; 2]| match is_whole {
                        true => Vec::new(),
                        false => names.map(own).to_vec(),
                    };
                    vec![
                        module(
                            &["state_in"],
                            MERGED,
                            own("in_proj_qkvz"),
                            &parts(["in_proj_qkv", "in_proj_z"]),
                        ),
                        module(
                            &["state_gates"],
                            MERGED,
                            own("in_proj_ba"),
                            &parts(["in_proj_b", "in_proj_a"]),
                        ),
                        module(&["state_out"], ROW, own("out_proj"), &[]),
                    ]
                }
                // Ling 3's.
                Recurrent::KimiDelta { is_thin: false, .. } => vec![
                    module(
                        &["state_in"],
                        MERGED,
                        own("qkvb_proj"),
                        &["q_proj", "k_proj", "v_proj", "b_proj"].map(own),
                    ),
                    module(
                        &["state_gates"],
                        COLUMN,
                        own("f_proj"),
                        &["f_proj", "g_proj"].map(own),
                    ),
                    module(&["state_out"], ROW, own("o_proj"), &[]),
                ],
                Recurrent::KimiDelta { .. } => {
                    let joined = ["q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj"].map(own);
                    vec![
                        module(&["state_in"], MERGED, own("in_proj_qkvgfab"), &joined),
                        module(&["state_gates"], REPLICATED, own("g_a_proj"), &[]),
                        module(
                            &["state_gates_up"],
                            COLUMN,
                            own("f_b_proj"),
                            &["f_b_proj", "g_b_proj"].map(own),
                        ),
                        module(&["state_out"], ROW, own("o_proj"), &[]),
                    ]
                }
                Recurrent::StateSpace { .. } | Recurrent::ShortConv { .. } => vec![
                    module(&["state_in"], MERGED, own("in_proj"), &[]),
                    module(&["state_out"], ROW, own("out_proj"), &[]),
                ],
            },
            Attention::Absent => Vec::new(),
        };
        let parent = self.feed_forward(matches!(mlp, Mlp::Experts { .. }));
        let (up, down, parts_of_up) = self.gated_names();
        let gated = |matrices, parent: &str| {
            let of = |name: &str| format!("{parent}.{name}");
            let parts: Vec<String> = match is_fused_in_file {
                true => Vec::new(),
                false => parts_of_up.iter().map(|name| of(name)).collect(),
            };
            module(matrices, MERGED, of(up), &parts)
        };
        let plain = |matrices, class, name: String| module(matrices, class, name, &[]);
        match mlp {
            Mlp::Dense { gated: true, .. } => {
                all.push(gated(&["gate_up"], parent));
                all.push(plain(&["down"], ROW, format!("{parent}.{down}")));
            }
            Mlp::Dense { gated: false, .. } => {
                let (up, down) = self.family.up_and_down;
                all.push(plain(&["up"], COLUMN, up.to_string()));
                all.push(plain(&["down"], ROW, down.to_string()));
            }
            Mlp::Absent => {}
            Mlp::Experts {
                gated: false,
                shared_intermediate,
                latent,
                ..
            } => {
                let of = |name: &str| format!("{parent}.{name}");
                if latent.is_some() {
                    all.push(plain(&["latent_in"], REPLICATED, of("fc1_latent_proj")));
                    all.push(plain(&["latent_out"], REPLICATED, of("fc2_latent_proj")));
                }
                all.push(module(
                    &["expert_gate_up", "expert_up", "expert_down"],
                    EXPERTS,
                    of("experts"),
                    &["up_proj", "down_proj"].map(|name| of(&format!("experts.0.{name}"))),
                ));
                if *shared_intermediate > 0 {
                    all.push(plain(&["shared_up"], COLUMN, of("shared_experts.up_proj")));
                    all.push(plain(&["shared_down"], ROW, of("shared_experts.down_proj")));
                }
            }
            Mlp::Experts {
                shared_intermediate, ..
            } => {
                all.push(module(
                    &["expert_gate_up", "expert_down"],
                    EXPERTS,
                    format!("{parent}.experts"),
                    &self.expert_names(parent),
                ));
                if *shared_intermediate > 0 {
                    let shared = self.shared_experts(parent);
                    all.push(gated(&["shared_gate_up"], &shared));
                    all.push(plain(&["shared_down"], ROW, format!("{shared}.{down}")));
                }
            }
        }
        all
    }

    /// Notes entries that name no linear layer of the model, but for those of what is never quantized or not counted, and
    /// those that name more than they seem to.
    pub(super) fn note_strangers(&mut self, stays: &Stays, named: &Named) {
        let is_uncounted = |entry: &str| UNCOUNTED.iter().any(|part| entry.to_lowercase().contains(part));
        let is_router = |entry: &str| {
            let last = entry.rsplit('.').next().unwrap_or(entry);
            ROUTERS.contains(&last)
        };
        let of_names = stays
            .names
            .iter()
            .filter(|name| !named.linear.contains(*name))
            .map(String::as_str);
        let of_rules = stays.except.iter().filter_map(|rule| {
            let mut all = named.linear.iter().chain(&named.routers);
            let is_found = all.any(|name| rule.names(name, ""));
            rule.written().filter(|_| !is_found)
        });
        let strangers: Vec<&str> = of_names
            .chain(of_rules)
            .filter(|entry| !is_uncounted(entry) && !is_router(entry))
            .collect();
        if let Some(listed) = first_and_more(&strangers) {
            self.notes.push(format!(
                "`{}` of the checkpoint names {listed}, which is no linear layer known here and counts for nothing",
                stays.key,
            ));
        }
        let reach_further: Vec<&str> = stays
            .except
            .iter()
            .filter_map(|rule| match rule {
                Rule::Letters(part) => Some(part.as_str()),
                _ => None,
            })
            .filter(|part| {
                named
                    .linear
                    .iter()
                    .any(|name| name.contains(part) && !is_within(part, name))
            })
            .collect();
        if let Some(listed) = first_and_more(&reach_further) {
            self.notes.push(format!(
                "`{}` of the checkpoint names {listed}, which leaves every layer in 16 bits whose number begins so: vLLM looks \
                 for the letters in names, and a dot behind the number ends it",
                stays.key,
            ));
        }
    }
}

/// `a and 2 more`; `None` of nothing.
fn first_and_more(entries: &[&str]) -> Option<String> {
    match entries {
        [] => None,
        [first] => Some((*first).to_string()),
        [first, more @ ..] => Some(format!("{first} and {} more", more.len())),
    }
}

// vLLM's classes of linear layers, which a target may name in part.
const QKV: &str = "QKVParallelLinear";
const MERGED: &str = "MergedColumnParallelLinear";
const COLUMN: &str = "ColumnParallelLinear";
const ROW: &str = "RowParallelLinear";
const REPLICATED: &str = "ReplicatedLinear";
/// Routed experts are those of the scheme of `Linear` in vLLM.
const EXPERTS: &str = "FusedMoELinear";

/// Parts of names of what is in 16 bits here in any case, or not counted at all.
const UNCOUNTED: [&str; 13] = [
    "lm_head",
    "conv1d",
    "embed",
    "norm",
    "router",
    "vision",
    "visual",
    "vit",
    "audio",
    "projector",
    "mtp",
    "nextn",
    "e_score_correction_bias",
];

/// What routers and the gates of shared experts are called in a layer.
const ROUTERS: [&str; 3] = ["gate", "router", "shared_expert_gate"];
