//! Stacks of hybrids: which layers attend, which keep a state of constant size, and which are feed-forward parts alone.
//!
//! Law: a layer whose kind is not known is an error, never a guess.

use serde_json::Value;

use super::super::families::Hybrid;
use super::super::{Attention, Dtype, Mlp, Recurrence, Rule};
use super::{EXPERTS_MAX, HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX, Reader, WIDTH_MAX, shortened};

/// Tokens that vLLM's and the paper's kernels of gated delta nets scan at once (`FLA_CHUNK_SIZE`).
const DELTA_CHUNK: u32 = 64;

/// What a layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Attention,
    Recurrent,
    Mlp,
    Experts,
}

/// As `layer_types` and `layers_block_type` say it.
const KINDS: [(&str, Kind); 6] = [
    ("full_attention", Kind::Attention),
    ("attention", Kind::Attention),
    ("linear_attention", Kind::Recurrent),
    ("mamba", Kind::Recurrent),
    ("mlp", Kind::Mlp),
    ("moe", Kind::Experts),
];

/// As `hybrid_override_pattern` says it, a letter a layer.
const LETTERS: [(char, Kind); 4] = [
    ('*', Kind::Attention),
    ('M', Kind::Recurrent),
    ('-', Kind::Mlp),
    ('E', Kind::Experts),
];

impl Reader<'_> {
    /// How many layers a config means: Nemotron-H's later ones say it by their list alone.
    pub(super) fn layer_count(&mut self) -> Option<u32> {
        let listed = match self.family.hybrid {
            Hybrid::StateSpace => self.pattern().map(|kinds| kinds.len()),
            _ => None,
        };
        match listed {
            Some(layers) if (1..=LAYERS_MAX as usize).contains(&layers) => Some(layers as u32),
            _ => self.required("num_hidden_layers", LAYERS_MAX),
        }
    }

    /// What each layer mixes tokens with, and its feed-forward part.
    pub(super) fn hybrid_layers(
        &mut self,
        count: u32,
        attention: &Attention,
    ) -> Option<Vec<(Attention, Mlp)>> {
        let kinds = self.kinds(count)?;
        if !kinds.contains(&Kind::Attention) {
            let problem = "none of its layers attends: models of recurrent layers alone are not modelled";
            return self.problem(problem.to_string());
        }
        let recurrent = Attention::Recurrent(match self.family.hybrid {
            Hybrid::StateSpace => self.state_space()?,
            Hybrid::None | Hybrid::GatedDelta => self.gated_delta()?,
        });
        let mixer = |kind: Kind| match kind {
            Kind::Recurrent => recurrent.clone(),
            Kind::Attention => attention.clone(),
            Kind::Mlp | Kind::Experts => Attention::Absent,
        };
        if self.family.hybrid == Hybrid::GatedDelta {
            let mlps = self.mlps(count)?;
            return Some(kinds.into_iter().map(mixer).zip(mlps).collect());
        }
        let has = |wanted: Kind| kinds.contains(&wanted);
        let dense = match has(Kind::Mlp) {
            true => Mlp::Dense {
                intermediate: self.required("intermediate_size", WIDTH_MAX)?,
                gated: false,
            },
            false => Mlp::Absent,
        };
        let experts = match has(Kind::Experts) {
            true => self.ungated_experts()?,
            false => Mlp::Absent,
        };
        let mlp = |kind: Kind| match kind {
            Kind::Mlp => dense.clone(),
            Kind::Experts => experts.clone(),
            Kind::Attention | Kind::Recurrent => Mlp::Absent,
        };
        Some(kinds.into_iter().map(|kind| (mixer(kind), mlp(kind))).collect())
    }

    fn kinds(&mut self, count: u32) -> Option<Vec<Kind>> {
        if self.family.hybrid == Hybrid::StateSpace {
            let kinds = self.pattern();
            return kinds.or_else(|| {
                let missing = "`hybrid_override_pattern` or `layers_block_type` must say what each layer is";
                match self.problems.is_empty() {
                    true => self.problem(missing.to_string()),
                    false => None,
                }
            });
        }
        match self.get("layer_types") {
            Some(listed) => {
                let kinds = self.kinds_of("layer_types", listed)?;
                if kinds.len() != count as usize {
                    return self.problem(format!(
                        "`layer_types` has {} entries and `num_hidden_layers` is {count}",
                        kinds.len()
                    ));
                }
                let known = |kind: &Kind| matches!(kind, Kind::Attention | Kind::Recurrent);
                match kinds.iter().all(known) {
                    true => Some(kinds),
                    false => self.problem(
                        "`layer_types` must be full_attention or linear_attention for each layer".to_string(),
                    ),
                }
            }
            None => {
                let every = self.number("full_attention_interval", 1, LAYERS_MAX).unwrap_or(4);
                let kind = |layer: u32| match (layer + 1).is_multiple_of(every) {
                    true => Kind::Attention,
                    false => Kind::Recurrent,
                };
                Some((0..count).map(kind).collect())
            }
        }
    }

    /// The kinds of Nemotron-H's layers; none, and perhaps a problem, where nothing says them.
    fn pattern(&mut self) -> Option<Vec<Kind>> {
        for key in ["layers_block_type", "layer_types"] {
            if let Some(listed) = self.get(key) {
                return self.kinds_of(key, listed);
            }
        }
        let written = self.get("hybrid_override_pattern")?;
        let letters = written.as_str().map(|text| {
            let kind = |letter: char| LETTERS.iter().find(|(known, _)| *known == letter);
            let kinds = text.chars().map(|letter| kind(letter).map(|&(_, kind)| kind));
            kinds.collect::<Option<Vec<Kind>>>()
        });
        match letters.flatten().filter(|kinds| !kinds.is_empty()) {
            Some(kinds) => Some(kinds),
            None => self.problem_once(format!(
                "`hybrid_override_pattern` is {} and must be a letter for each layer: M (state space), * (attention), - (dense) \
                 or E (experts)",
                shortened(written)
            )),
        }
    }

    fn kinds_of(&mut self, key: &str, listed: &Value) -> Option<Vec<Kind>> {
        let entries = listed.as_array().map(Vec::as_slice).unwrap_or_default();
        let kind = |entry: &Value| {
            let known = KINDS.iter().find(|(name, _)| entry.as_str() == Some(name));
            known.map(|&(_, kind)| kind)
        };
        let kinds: Option<Vec<Kind>> = entries.iter().map(kind).collect();
        match kinds.filter(|kinds| !kinds.is_empty()) {
            Some(kinds) => Some(kinds),
            None => {
                let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                self.problem_once(format!(
                    "`{key}` is {} and must be a list of kinds of layers: {} are known",
                    shortened(listed),
                    names.join(", ")
                ))
            }
        }
    }

    /// Lists are read twice, and complained about once.
    fn problem_once<T>(&mut self, problem: String) -> Option<T> {
        match self.problems.contains(&problem) {
            true => None,
            false => self.problem(problem),
        }
    }

    /// Qwen3-Next's, and of the later ones.
    fn gated_delta(&mut self) -> Option<Recurrence> {
        let key_heads = self.required("linear_num_key_heads", HEADS_MAX);
        let value_heads = self.required("linear_num_value_heads", HEADS_MAX);
        let key_dim = self.required("linear_key_head_dim", HEAD_DIM_MAX);
        let value_dim = self.required("linear_value_head_dim", HEAD_DIM_MAX);
        let conv_kernel = self.required("linear_conv_kernel_dim", CONV_KERNEL_MAX);
        let state_dtype = self.state_dtype("mamba_ssm_dtype", None);
        Some(Recurrence {
            rule: Rule::GatedDelta {
                key_heads: key_heads?,
                value_heads: value_heads?,
                key_dim: key_dim?,
                value_dim: value_dim?,
            },
            conv_kernel: conv_kernel?,
            chunk: DELTA_CHUNK,
            state_dtype: state_dtype?,
        })
    }

    /// Nemotron-H's.
    fn state_space(&mut self) -> Option<Recurrence> {
        let heads = self.required("mamba_num_heads", HEADS_MAX);
        let head_dim = self.required("mamba_head_dim", HEAD_DIM_MAX);
        let groups = self.required("n_groups", HEADS_MAX);
        let state_size = self.required("ssm_state_size", HEAD_DIM_MAX);
        let conv_kernel = self.required("conv_kernel", CONV_KERNEL_MAX);
        let chunk = self.required("chunk_size", WIDTH_MAX);
        let state_dtype = self.state_dtype("mamba_ssm_cache_dtype", Some(Dtype::Fp32));
        let (heads, groups) = (heads?, groups?);
        if !heads.is_multiple_of(groups) {
            return self.problem(format!(
                "`mamba_num_heads` ({heads}) is not a multiple of `n_groups` ({groups})"
            ));
        }
        Some(Recurrence {
            rule: Rule::StateSpace {
                heads,
                head_dim: head_dim?,
                groups,
                state_size: state_size?,
            },
            conv_kernel: conv_kernel?,
            chunk: chunk?,
            state_dtype: state_dtype?,
        })
    }

    /// The format of states as vLLM has it under `--mamba-ssm-cache-dtype auto`: what the checkpoint says, else what its class
    /// does, else the model's.
    fn state_dtype(&mut self, key: &str, of_class: Option<Dtype>) -> Option<Dtype> {
        let Some(value) = self.get(key) else {
            return of_class.or_else(|| self.model_dtype());
        };
        match value.as_str() {
            Some("float32") => Some(Dtype::Fp32),
            Some("float16") => Some(Dtype::Fp16),
            Some("bfloat16") => Some(Dtype::Bf16),
            Some("auto") => self.model_dtype(),
            _ => self.problem(format!(
                "`{key}` is {} and must be float32, float16 or bfloat16",
                shortened(value)
            )),
        }
    }

    /// Nemotron-H's experts: two matrices each, and perhaps a narrower stream for the routed ones.
    fn ungated_experts(&mut self) -> Option<Mlp> {
        let shared = self.number("n_shared_experts", 0, 1024).unwrap_or(0);
        let width = match shared {
            0 => 0,
            _ => self.required("moe_shared_expert_intermediate_size", WIDTH_MAX)?,
        };
        let latent = self.number("moe_latent_size", 1, WIDTH_MAX);
        let experts = self.required("n_routed_experts", EXPERTS_MAX);
        let per_token = self.required("num_experts_per_tok", EXPERTS_MAX);
        let intermediate = self.required("moe_intermediate_size", WIDTH_MAX);
        let (experts, experts_per_token) = (experts?, per_token?);
        if experts_per_token > experts {
            return self.problem(format!(
                "`num_experts_per_tok` ({experts_per_token}) is more than `n_routed_experts` ({experts})"
            ));
        }
        Some(Mlp::Experts {
            experts,
            experts_per_token,
            intermediate: intermediate?,
            shared_intermediate: shared * width,
            gated: false,
            latent,
        })
    }
}

const CONV_KERNEL_MAX: u32 = 64;
