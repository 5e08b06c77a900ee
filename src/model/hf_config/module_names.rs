//! What checkpoints call the modules of a layer: prefixes, feed-forward parts, experts and gates, family by family.

use super::super::OutputGate;
use super::super::families::{ExpertKeys, Gate, Hybrid};
use super::Reader;

impl Reader<'_> {
    /// What stands before the names of a layer's modules; multimodal checkpoints spell it in several ways.
    pub(super) fn prefixes(&self, layer: usize) -> Vec<String> {
        // Two layers here are one of Falcon-H1's.
        let layer = match self.family.hybrid {
            Hybrid::Mamba2Beside => layer / 2,
            _ => layer,
        };
        if self.family.is_opt() {
            return vec![format!("model.decoder.layers.{layer}.")];
        }
        if self.family.hybrid == Hybrid::StateSpace {
            // The checkpoint's name of what vLLM calls `model`.
            return vec![
                format!("backbone.layers.{layer}."),
                format!("model.layers.{layer}."),
            ];
        }
        let mut prefixes = vec![format!("model.layers.{layer}.")];
        if !std::ptr::eq(self.inner, self.outer) {
            prefixes.push(format!("language_model.model.layers.{layer}."));
            prefixes.push(format!("model.language_model.layers.{layer}."));
        }
        prefixes
    }

    /// What a layer's feed-forward part is called, with experts or without.
    pub(super) fn feed_forward(&self, has_experts: bool) -> &'static str {
        match (self.family.hybrid, self.family.experts) {
            (Hybrid::StateSpace, _) => "mixer",
            (Hybrid::ShortConv | Hybrid::Mamba2Beside, _) | (_, ExpertKeys::Llama4) => "feed_forward",
            (_, ExpertKeys::Mixtral) => "block_sparse_moe",
            (Hybrid::KimiDelta, _) | (_, ExpertKeys::Granite) if has_experts => "block_sparse_moe",
            (_, ExpertKeys::Granite) => "shared_mlp",
            (_, ExpertKeys::Step) if has_experts => "moe",
            _ => "mlp",
        }
    }

    /// What experts' shared one is called under the layer.
    pub(super) fn shared_experts(&self, parent: &str) -> String {
        match self.family.experts {
            ExpertKeys::Granite => "shared_mlp".to_string(),
            ExpertKeys::Step => format!("{parent}.share_expert"),
            ExpertKeys::DeepSeek | ExpertKeys::Corrected | ExpertKeys::Ernie => {
                format!("{parent}.shared_experts")
            }
            _ => format!("{parent}.shared_expert"),
        }
    }

    /// What makes the gate at the output of attention, if it has a projection of its own.
    pub(super) fn gate_name(&self, gate: OutputGate) -> Option<&'static str> {
        match gate {
            OutputGate::None | OutputGate::OfQueries => None,
            OutputGate::Own if self.family.gate == Gate::Own => Some("gate_proj"),
            OutputGate::Own | OutputGate::OfHeads => Some("g_proj"),
        }
    }

    /// A gated feed-forward part: its two products and, where they are two in the file, what the first is made of.
    pub(super) fn gated_names(&self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self.family.hybrid {
            Hybrid::ShortConv => ("w13", "w2", &["w1", "w3"]),
            Hybrid::Mamba2 => ("input_linear", "output_linear", &[]),
            _ => ("gate_up_proj", "down_proj", &["gate_proj", "up_proj"]),
        }
    }

    /// The matrices of one expert in the file.
    pub(super) fn expert_names(&self, parent: &str) -> Vec<String> {
        let names = match (self.family.hybrid, self.family.experts) {
            (_, ExpertKeys::Granite) => {
                return ["input_linear", "output_linear"]
                    .map(|name| format!("{parent}.{name}"))
                    .to_vec();
            }
            (Hybrid::ShortConv | Hybrid::KimiDelta, _) | (_, ExpertKeys::Mixtral) => ["w1", "w2", "w3"],
            _ => ["gate_proj", "down_proj", "up_proj"],
        };
        names.map(|name| format!("{parent}.experts.0.{name}")).to_vec()
    }
}
