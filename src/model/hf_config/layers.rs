//! The stack of layers: which have a sliding window, which are mixtures of experts.

use serde_json::Value;

use super::super::families::{ExpertKeys, Hybrid, Unlike, WindowRule};
use super::super::{Attention, LayerGroup, Mlp};
use super::modules::{Named, Stays};
use super::{EXPERTS_MAX, LAYERS_MAX, Reader, WIDTH_MAX, shortened};

/// Kinds of attention, and whether they slide.
const ATTENTION_KINDS: [(&str, bool); 3] = [
    ("full_attention", false),
    ("sliding_attention", true),
    ("chunked_attention", true),
];
/// Kinds of feed-forward parts, and whether they have experts.
const MLP_KINDS: [(&str, bool); 2] = [("dense", false), ("sparse", true)];

impl Reader<'_> {
    /// The stack, equal layers together.
    pub(super) fn layers(
        &mut self,
        count: u32,
        attention: &Attention,
        max_position: u32,
        stays: &Stays,
    ) -> Option<Vec<LayerGroup>> {
        let layers = match self.family.hybrid {
            Hybrid::None => self.transformer_layers(count, attention, max_position)?,
            _ => self.hybrid_layers(count, attention)?,
        };
        let mut groups: Vec<LayerGroup> = Vec::new();
        let mut named = Named::default();
        for (layer, (attention, mlp)) in layers.into_iter().enumerate() {
            let kept = self.kept(layer, &attention, &mlp, stays, &mut named)?;
            let same = groups
                .iter_mut()
                .find(|group| group.attention == attention && group.mlp == mlp && group.kept == kept);
            match same {
                Some(group) => group.count += 1,
                None => groups.push(LayerGroup {
                    count: 1,
                    attention,
                    mlp,
                    kept,
                }),
            }
        }
        self.note_strangers(stays, &named);
        Some(groups)
    }

    fn transformer_layers(
        &mut self,
        count: u32,
        attention: &Attention,
        max_position: u32,
    ) -> Option<Vec<(Attention, Mlp)>> {
        match self.family.unlike {
            Unlike::No => {}
            Unlike::Gemma4 => return self.unlike_layers(count, attention, max_position),
            Unlike::Blocks => return self.block_layers(count, attention),
            Unlike::WindowHeads | Unlike::WindowQueries | Unlike::ListedQueries => {
                return self.layers_of_unlike_heads(count, attention, max_position);
            }
        }
        if let Attention::Latent { indexer: Some(_), .. } = attention {
            return self.sparse_layers(count, attention);
        }
        let windows = self.windows(count, max_position);
        let mlps = self.mlps(count);
        let with = |window: Option<u32>| {
            let mut attention = attention.clone();
            if let Attention::Grouped { window: own, .. } = &mut attention {
                *own = window;
            }
            attention
        };
        Some(windows?.into_iter().map(with).zip(mlps?).collect())
    }

    /// The same of layers whose attention is sparse, of which none has a window.
    fn sparse_layers(&mut self, count: u32, attention: &Attention) -> Option<Vec<(Attention, Mlp)>> {
        let scoring = self.scoring_layers(count);
        let mlps = self.mlps(count);
        let with = |scores: bool| {
            let mut attention = attention.clone();
            if let Attention::Latent {
                indexer: Some(indexer),
                ..
            } = &mut attention
            {
                indexer.scores = scores;
            }
            attention
        };
        Some(scoring?.into_iter().map(with).zip(mlps?).collect())
    }

    /// The sliding window of each layer. One that spans the whole context is none.
    pub(super) fn windows(&mut self, count: u32, max_position: u32) -> Option<Vec<Option<u32>>> {
        let is_chunked = self.family.window == WindowRule::Chunked;
        let key = if is_chunked {
            "attention_chunk_size"
        } else {
            "sliding_window"
        };
        let slides = self.sliding_layers(count)?;
        if !slides.contains(&true) {
            // Its width may be 0 then.
            return Some(vec![None; count as usize]);
        }
        if self.get("layer_types").is_some() && self.get(key).is_none() {
            return self.problem(format!(
                "`layer_types` has layers with a window and `{key}`, its width, is missing or null"
            ));
        }
        let window = self.number(key, 1, u32::MAX);
        let window = window.filter(|&window| window < max_position);
        if is_chunked && window.is_some() {
            let note = "attention within chunks is taken for a sliding window as long as a chunk: an upper bound of what is read";
            self.notes.push(note.to_string());
        }
        Some(
            slides
                .into_iter()
                .map(|slides| if slides { window } else { None })
                .collect(),
        )
    }

    /// Whether each layer has a window, as its list or its family's rule says.
    pub(super) fn sliding_layers(&mut self, count: u32) -> Option<Vec<bool>> {
        match (self.get("layer_types"), self.family.unlike) {
            (Some(_), _) => self.of_each_layer("layer_types", count, &ATTENTION_KINDS),
            (None, Unlike::WindowHeads) => self.marked_layers("hybrid_layer_pattern", count),
            (None, _) => Some(self.slides_by_rule(count)),
        }
    }

    /// The layers that a list of 0 and 1 marks.
    fn marked_layers(&mut self, key: &str, count: u32) -> Option<Vec<bool>> {
        let listed = self.get(key).and_then(Value::as_array);
        let mark = |value: &Value| match value.as_u64() {
            Some(mark @ (0 | 1)) => Some(mark == 1),
            _ => None,
        };
        let marks = listed.and_then(|listed| listed.iter().map(mark).collect::<Option<Vec<bool>>>());
        match marks.filter(|marks| marks.len() == count as usize) {
            Some(marks) => Some(marks),
            None => self.problem(format!("`{key}` must be 0 or 1 for each of {count} layers")),
        }
    }

    /// What a list says of each layer, `kinds` being what may stand there and what it means.
    pub(super) fn of_each_layer(
        &mut self,
        key: &str,
        count: u32,
        kinds: &[(&str, bool)],
    ) -> Option<Vec<bool>> {
        let listed = self.get(key)?.as_array().map(Vec::as_slice).unwrap_or_default();
        // Step 3.5's lists go on to its prediction layers.
        let predicted = self
            .number("num_nextn_predict_layers", 0, LAYERS_MAX)
            .unwrap_or(0);
        if listed.len() != count as usize && listed.len() != (count + predicted) as usize {
            return self.problem(format!(
                "`{key}` has {} entries and `num_hidden_layers` is {count}",
                listed.len()
            ));
        }
        let meant = listed[..count as usize].iter().map(|kind| {
            let known = kinds.iter().find(|(name, _)| kind.as_str() == Some(name));
            known.map(|&(_, means)| means).ok_or(kind)
        });
        match meant.collect::<Result<Vec<bool>, &Value>>() {
            Ok(meant) => Some(meant),
            Err(kind) => {
                let names: Vec<&str> = kinds.iter().map(|&(name, _)| name).collect();
                let (last, others) = names.split_last().expect("something may stand there");
                self.problem(format!(
                    "`{key}` has {}; only {} and {last} are known",
                    shortened(kind),
                    others.join(", ")
                ))
            }
        }
    }

    fn slides_by_rule(&mut self, count: u32) -> Vec<bool> {
        let upper_slide =
            self.family.window == WindowRule::UpperLayers && self.flag("use_sliding_window", false);
        let first = if upper_slide {
            self.number("max_window_layers", 0, LAYERS_MAX).unwrap_or(count)
        } else {
            count
        };
        let pattern = match self.family.window {
            WindowRule::AllButEveryNth => self
                .number("sliding_window_pattern", 1, LAYERS_MAX)
                .or_else(|| self.number("_sliding_window_pattern", 1, LAYERS_MAX))
                .unwrap_or(6),
            _ => 1,
        };
        let has_positions = self.no_rope_layers();
        let slides = |layer: u32| match self.family.window {
            WindowRule::Never => false,
            WindowRule::All => true,
            WindowRule::UpperLayers => layer >= first,
            WindowRule::EverySecond => layer.is_multiple_of(2),
            WindowRule::AllButEveryNth => !(layer + 1).is_multiple_of(pattern),
            WindowRule::Chunked => match has_positions.get(layer as usize) {
                Some(&has_positions) => has_positions,
                None => !(layer + 1).is_multiple_of(4),
            },
        };
        (0..count).map(slides).collect()
    }

    /// Whether each layer has rotary positions, in spite of the key's name; empty where it is left to the default.
    fn no_rope_layers(&self) -> Vec<bool> {
        let layers = self.get("no_rope_layers").and_then(Value::as_array);
        let layers = layers.map(Vec::as_slice).unwrap_or_default();
        layers.iter().map(|layer| layer.as_u64() != Some(0)).collect()
    }

    /// The feed-forward part of each layer.
    pub(super) fn mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let gated = self.family.gated;
        match self.family.experts {
            ExpertKeys::None => {
                let intermediate = self.dense_width()?;
                Some(vec![Mlp::Dense { intermediate, gated }; count as usize])
            }
            ExpertKeys::Mixtral | ExpertKeys::GptOss => {
                let shared = self.number("shared_intermediate_size", 0, WIDTH_MAX).unwrap_or(0);
                let experts = self.experts("num_local_experts", "intermediate_size", shared)?;
                Some(vec![experts; count as usize])
            }
            ExpertKeys::Qwen => self.qwen_mlps(count),
            ExpertKeys::DeepSeek | ExpertKeys::Corrected | ExpertKeys::Ernie => self.deepseek_mlps(count),
            ExpertKeys::Granite => self.granite_mlps(count),
            ExpertKeys::Laguna => self.laguna_mlps(count),
            ExpertKeys::Step => self.step_mlps(count),
            ExpertKeys::Llama4 => self.llama4_mlps(count),
            ExpertKeys::Gemma4 => self.gemma4_mlps(count),
        }
    }

    pub(super) fn experts(
        &mut self,
        count_key: &str,
        width_key: &str,
        shared_intermediate: u32,
    ) -> Option<Mlp> {
        let experts = self.required(count_key, EXPERTS_MAX);
        let per_token = self.required("num_experts_per_tok", EXPERTS_MAX);
        let intermediate = self.required(width_key, WIDTH_MAX);
        let (experts, experts_per_token) = (experts?, per_token?);
        if experts_per_token > experts {
            return self.problem(format!(
                "`num_experts_per_tok` ({experts_per_token}) is more than `{count_key}` ({experts})"
            ));
        }
        Some(Mlp::Experts {
            experts,
            experts_per_token,
            intermediate: intermediate?,
            shared_intermediate,
            gated: true,
            latent: None,
        })
    }

    fn qwen_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let shared = self
            .number("shared_expert_intermediate_size", 0, WIDTH_MAX)
            .unwrap_or(0);
        let sparse = self.experts("num_experts", "moe_intermediate_size", shared);
        let step = self.number("decoder_sparse_step", 1, LAYERS_MAX).unwrap_or(1);
        let dense_layers = self.numbers_of_layers("mlp_only_layers")?.unwrap_or_default();
        let is_sparse =
            |layer: u32| !dense_layers.contains(&u64::from(layer)) && (layer + 1).is_multiple_of(step);
        self.mixed_mlps(count, sparse, "intermediate_size", is_sparse)
    }

    fn llama4_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let every = self
            .number("interleave_moe_layer_step", 0, LAYERS_MAX)
            .unwrap_or(1);
        let listed = self.numbers_of_layers("moe_layers")?;
        let is_sparse = |layer: u32| match &listed {
            Some(layers) => layers.contains(&u64::from(layer)),
            None => every > 0 && (layer + 1).is_multiple_of(every),
        };
        if !(0..count).any(is_sparse) {
            self.note_no_experts();
            let intermediate = self.required("intermediate_size_mlp", WIDTH_MAX)?;
            let gated = self.family.gated;
            return Some(vec![Mlp::Dense { intermediate, gated }; count as usize]);
        }
        let shared = self.number("intermediate_size", 1, WIDTH_MAX).unwrap_or(0);
        let sparse = self.experts("num_local_experts", "intermediate_size", shared);
        self.mixed_mlps(count, sparse, "intermediate_size_mlp", is_sparse)
    }

    /// A list of layers by their numbers, if there is one.
    pub(super) fn numbers_of_layers(&mut self, key: &str) -> Option<Option<Vec<u64>>> {
        let Some(listed) = self.get(key) else {
            return Some(None);
        };
        let numbers = |layers: &Vec<Value>| layers.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        match listed.as_array().and_then(numbers) {
            Some(numbers) => Some(Some(numbers)),
            None => self.problem(format!(
                "`{key}` is {} and must be a list of layers by their numbers, [0, 1]",
                shortened(listed)
            )),
        }
    }

    fn deepseek_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        self.told_if_absent("n_shared_experts", "no shared expert is");
        let shared_experts = self.number("n_shared_experts", 0, 1024).unwrap_or(0);
        let width = self.number("moe_intermediate_size", 1, WIDTH_MAX).unwrap_or(0);
        let sparse = self.experts(
            "n_routed_experts",
            "moe_intermediate_size",
            shared_experts * width,
        );
        if self.family.experts == ExpertKeys::Ernie {
            let first = self.number("moe_layer_start_index", 0, LAYERS_MAX).unwrap_or(0);
            let last = self
                .get("moe_layer_end_index")
                .filter(|last| last.as_i64() != Some(-1));
            let last = last.and_then(|_| self.number("moe_layer_end_index", 0, LAYERS_MAX));
            let every = self.number("moe_layer_interval", 1, LAYERS_MAX).unwrap_or(1);
            return self.mixed_mlps(count, sparse, "intermediate_size", |layer| {
                (first..=last.unwrap_or(count)).contains(&layer) && (layer + 1).is_multiple_of(every)
            });
        }
        self.told_if_absent(
            "first_k_dense_replace",
            "no dense layer before those with experts is",
        );
        let first = self.number("first_k_dense_replace", 0, LAYERS_MAX).unwrap_or(0);
        // MiMo-V2 marks the layers.
        let marks = match self.get("moe_layer_freq") {
            Some(Value::Array(_)) => Some(self.marked_layers("moe_layer_freq", count)?),
            _ => None,
        };
        let every = match marks {
            Some(_) => 1,
            None => self.number("moe_layer_freq", 1, LAYERS_MAX).unwrap_or(1),
        };
        self.mixed_mlps(count, sparse, "intermediate_size", |layer| match &marks {
            Some(marks) => marks[layer as usize],
            None => layer >= first && layer.is_multiple_of(every),
        })
    }

    fn granite_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let shared = self.number("shared_intermediate_size", 0, WIDTH_MAX).unwrap_or(0);
        let mlp = match self.number("num_local_experts", 0, EXPERTS_MAX).unwrap_or(0) {
            0 => Mlp::Dense {
                intermediate: self.required("shared_intermediate_size", WIDTH_MAX)?,
                gated: true,
            },
            _ => self.experts("num_local_experts", "intermediate_size", shared)?,
        };
        Some(vec![mlp; count as usize])
    }

    fn laguna_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let shared = self
            .number("shared_expert_intermediate_size", 0, WIDTH_MAX)
            .unwrap_or(0);
        let sparse = self.experts("num_experts", "moe_intermediate_size", shared);
        self.mixed_mlps(count, sparse, "intermediate_size", |layer| layer > 0)
    }

    /// As vLLM's `_is_moe_layer` has it.
    fn step_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let shared = self.number("share_expert_dim", 0, WIDTH_MAX).unwrap_or(0);
        let sparse = self.experts("n_routed_experts", "moe_intermediate_size", shared);
        let written = self.get("moe_layers_enum").and_then(Value::as_str);
        let listed = written.map(|text| {
            text.split(',')
                .map(|layer| layer.trim().parse().ok())
                .collect::<Option<Vec<u32>>>()
        });
        let listed = match listed {
            Some(None) => {
                return self.problem(
                    "`moe_layers_enum` must be numbers of layers behind commas, \"3,4,5\"".to_string(),
                );
            }
            Some(listed) => listed,
            None => None,
        };
        self.mixed_mlps(count, sparse, "intermediate_size", |layer| match &listed {
            Some(listed) => listed.contains(&layer),
            None => layer > 0,
        })
    }

    pub(super) fn dense_width(&mut self) -> Option<u32> {
        if self.family.hybrid == Hybrid::ShortConv {
            return match self.flag("block_auto_adjust_ff_dim", true) {
                true => self.adjusted_width(),
                false => self.lfm2_width(),
            };
        }
        if self.family.width_is_implied && self.get("intermediate_size").is_none() {
            return Some(4 * self.required("hidden_size", WIDTH_MAX)?);
        }
        let width = self.required("intermediate_size", WIDTH_MAX)?;
        Some(if self.family.width_of_both {
            width / 2
        } else {
            width
        })
    }

    /// Two thirds of what LFM2's config says, times another factor, rounded up (vLLM `Lfm2MLP`).
    fn adjusted_width(&mut self) -> Option<u32> {
        let step = self.number("block_multiple_of", 1, WIDTH_MAX).unwrap_or(256);
        let width = 2 * self.lfm2_width()? / 3;
        let factor = self
            .get("block_ffn_dim_multiplier")
            .and_then(Value::as_f64)
            .unwrap_or(1.0);
        let width = (factor * f64::from(width)) as u32;
        Some(width.min(WIDTH_MAX).next_multiple_of(step))
    }

    /// The older key counts where a config has both, as in `Lfm2Config`.
    fn lfm2_width(&mut self) -> Option<u32> {
        let older = self.number("block_ff_dim", 1, WIDTH_MAX);
        older.or_else(|| self.required("intermediate_size", WIDTH_MAX))
    }

    fn note_no_experts(&mut self) {
        let note = "by its keys no layer has experts: all are dense";
        self.notes.push(note.to_string());
    }

    fn mixed_mlps(
        &mut self,
        count: u32,
        sparse: Option<Mlp>,
        dense_key: &str,
        by_rule: impl Fn(u32) -> bool,
    ) -> Option<Vec<Mlp>> {
        // As `transformers` 5 writes it.
        let listed = self.of_each_layer("mlp_layer_types", count, &MLP_KINDS);
        let is_sparse = |layer: u32| match &listed {
            Some(listed) => listed[layer as usize],
            None => by_rule(layer),
        };
        if !(0..count).any(&is_sparse) {
            self.note_no_experts();
        }
        let all_sparse = (0..count).all(&is_sparse);
        let intermediate = if all_sparse {
            0
        } else {
            self.required(dense_key, WIDTH_MAX)?
        };
        let dense = Mlp::Dense {
            intermediate,
            gated: true,
        };
        let sparse = sparse?;
        let mlp = |layer: u32| {
            if is_sparse(layer) {
                sparse.clone()
            } else {
                dense.clone()
            }
        };
        Some((0..count).map(mlp).collect())
    }
}
