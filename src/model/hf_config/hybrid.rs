//! Stacks of hybrids: which layers attend, which keep a state of constant size, and which are feed-forward parts alone.
//!
//! Law: a layer whose kind is not known is an error, never a guess.

use serde_json::Value;

use super::super::families::Hybrid;
use super::super::{Attention, Mlp};
use super::{EXPERTS_MAX, LAYERS_MAX, Reader, WIDTH_MAX, shortened};

/// What a layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Attention,
    Recurrent,
    Mlp,
    Experts,
}

/// As `layer_types` and `layers_block_type` say it.
const KINDS: [(&str, Kind); 7] = [
    ("full_attention", Kind::Attention),
    ("attention", Kind::Attention),
    ("linear_attention", Kind::Recurrent),
    ("mamba", Kind::Recurrent),
    ("conv", Kind::Recurrent),
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
        // Granite's without such layers say their sizes all the same.
        let recurrent = match kinds.contains(&Kind::Recurrent) {
            true => Some(Attention::Recurrent(self.recurrence()?)),
            false => None,
        };
        let mixer = |kind: Kind| match kind {
            Kind::Recurrent => recurrent.clone().expect("one is read where a layer has it"),
            Kind::Attention => attention.clone(),
            Kind::Mlp | Kind::Experts => Attention::Absent,
        };
        if self.family.hybrid == Hybrid::Mamba2Beside {
            let mlps = self.mlps(count)?;
            let both = |mlp: Mlp| {
                [
                    (mixer(Kind::Attention), Mlp::Absent),
                    (mixer(Kind::Recurrent), mlp),
                ]
            };
            return Some(mlps.into_iter().flat_map(both).collect());
        }
        if self.family.hybrid != Hybrid::StateSpace {
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
        match self.family.hybrid {
            Hybrid::Mamba2Beside => return Some(vec![Kind::Attention, Kind::Recurrent]),
            Hybrid::KimiDelta if self.get("linear_attn_config").is_some() => return self.kimi_kinds(count),
            _ => {}
        }
        let listed = ["layer_types", "layers_block_type"]
            .into_iter()
            .find_map(|key| Some((key, self.get(key)?)));
        match listed {
            Some((key, listed)) => {
                let kinds = self.kinds_of(key, listed)?;
                if kinds.len() != count as usize {
                    return self.problem(format!(
                        "`{key}` has {} entries and `num_hidden_layers` is {count}",
                        kinds.len()
                    ));
                }
                let known = |kind: &Kind| matches!(kind, Kind::Attention | Kind::Recurrent);
                match kinds.iter().all(known) {
                    true => Some(kinds),
                    false => self.problem(format!(
                        "`{key}` must be attention or a layer with a state (full_attention, linear_attention, mamba, conv) for each layer"
                    )),
                }
            }
            None if self.family.hybrid == Hybrid::GatedDelta => {
                let every = self.number("full_attention_interval", 1, LAYERS_MAX).unwrap_or(4);
                let kind = |layer: u32| match (layer + 1).is_multiple_of(every) {
                    true => Kind::Attention,
                    false => Kind::Recurrent,
                };
                Some((0..count).map(kind).collect())
            }
            // The last of each group attends, and whatever fills no group (vLLM `_is_kda_layer`).
            None if self.family.hybrid == Hybrid::LingDelta => {
                let group = self.required("layer_group_size", LAYERS_MAX)?;
                let kind =
                    |layer: u32| match (layer + 1).is_multiple_of(group) || layer >= count / group * group {
                        true => Kind::Attention,
                        false => Kind::Recurrent,
                    };
                Some((0..count).map(kind).collect())
            }
            None if self.get("full_attn_idxs").is_some() => {
                let attends = self.numbers_of_layers("full_attn_idxs")??;
                let kind = |layer: u32| match attends.contains(&u64::from(layer)) {
                    true => Kind::Attention,
                    false => Kind::Recurrent,
                };
                Some((0..count).map(kind).collect())
            }
            None => self.problem("`layer_types` must say what each layer is".to_string()),
        }
    }

    /// Kimi Linear numbers its layers from 1.
    fn kimi_kinds(&mut self, count: u32) -> Option<Vec<Kind>> {
        let said = self.get("linear_attn_config").and_then(Value::as_object);
        let layers = |key: &str| -> Vec<u64> {
            let listed = said.and_then(|said| said.get(key)).and_then(Value::as_array);
            listed.into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        let (full, delta) = (layers("full_attn_layers"), layers("kda_layers"));
        let kind = |layer: u32| match (
            full.contains(&u64::from(layer)),
            delta.contains(&u64::from(layer)),
        ) {
            (true, false) => Some(Kind::Attention),
            (false, true) => Some(Kind::Recurrent),
            _ => None,
        };
        match (1..=count).map(kind).collect::<Option<Vec<Kind>>>() {
            Some(kinds) => Some(kinds),
            None => self.problem(format!(
                "`linear_attn_config` must name each layer from 1 to {count} once, in `full_attn_layers` or `kda_layers`"
            )),
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
