//! What SGLang drafts with and in which shape: its algorithms by name, and the chain or tree of drafts that a verification takes, with the KV
//! slots that the scheduler keeps for it (SG-54, SG-55).

use crate::config::speculation::Method;
use crate::engine::sglang::SglangSpeculation;
use crate::model::ModelShape;

/// What drafts, by SGLang's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// A head on the target's hidden states, or the model's own multi-token prediction (`NEXTN` is another name of it).
    Eagle,
    Eagle3,
    /// A smaller model.
    Standalone,
    /// What followed the last few tokens before.
    Ngram,
}

/// Its names, in capitals.
pub(super) const NAMES: [&str; 5] = ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"];
/// Those of 0.5.23 that draft otherwise.
pub(super) const ELSEWHERE: [&str; 4] = ["DFLASH", "DSPARK", "UNO", "FROZEN_KV_MTP"];
/// Checkpoints that bring a module of multi-token prediction, which the server then drafts with whatever is named.
const WITH_PREDICTION: [&str; 14] = [
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
    "BailingMoeV2_5ForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "HYV3ForCausalLM",
    "HYV4ForCausalLM",
    "Qwen4ExpForConditionalGeneration",
];
/// Whose default is a tree of drafts (`_auto_choose_speculative_params`).
pub(super) const WITH_TREES: [&str; 3] = ["LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM"];

impl Algorithm {
    /// By SGLang's names, in capitals or not.
    pub(crate) fn named(name: &str) -> Option<Algorithm> {
        match name.to_uppercase().as_str() {
            "EAGLE" | "NEXTN" => Some(Algorithm::Eagle),
            "EAGLE3" => Some(Algorithm::Eagle3),
            "STANDALONE" => Some(Algorithm::Standalone),
            "NGRAM" => Some(Algorithm::Ngram),
            _ => None,
        }
    }

    /// As vLLM's methods are.
    pub(super) fn of(method: Method) -> Algorithm {
        match method {
            Method::Eagle | Method::Mtp => Algorithm::Eagle,
            Method::Eagle3 => Algorithm::Eagle3,
            Method::DraftModel => Algorithm::Standalone,
            Method::Ngram => Algorithm::Ngram,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Eagle => "EAGLE",
            Algorithm::Eagle3 => "EAGLE3",
            Algorithm::Standalone => "STANDALONE",
            Algorithm::Ngram => "NGRAM",
        }
    }

    /// Prefixes are known by pairs of tokens (`SpeculativeAlgorithm.is_eagle`).
    pub(crate) fn names_pairs(self) -> bool {
        matches!(self, Algorithm::Eagle | Algorithm::Eagle3)
    }

    /// Who drafts for this model. A head is named; without a name the server loads the module of the model itself.
    pub(super) fn method(self, model: Option<&ModelShape>, is_named: bool) -> Method {
        let is_own = model.is_some_and(|model| WITH_PREDICTION.contains(&model.architecture.as_str()));
        match self {
            Algorithm::Eagle if is_own || !is_named => Method::Mtp,
            Algorithm::Eagle => Method::Eagle,
            Algorithm::Eagle3 => Method::Eagle3,
            Algorithm::Standalone => Method::DraftModel,
            Algorithm::Ngram => Method::Ngram,
        }
    }
}

/// A tree of drafts; a chain has one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Passes that draft it.
    pub(crate) steps: u32,
    pub(crate) branches: u32,
    /// Tokens that are verified, the sequence's own included.
    pub(crate) tokens: u32,
}

impl Tree {
    /// Drafts that can stand one behind another.
    pub(crate) fn levels(self, algorithm: Algorithm) -> u32 {
        match algorithm {
            // What followed before is as long as it may be.
            Algorithm::Ngram => self.tokens - 1,
            _ => self.steps.min(self.tokens - 1),
        }
    }

    /// KV slots that a request keeps behind what is committed, twice what it may take in a step (`get_alloc_len_per_decode`).
    pub(crate) fn reserve(self, algorithm: Algorithm, page: u32) -> u32 {
        let Tree {
            steps,
            branches,
            tokens,
        } = self;
        let of_step = match page == 1 || branches == 1 || algorithm == Algorithm::Ngram {
            true => tokens.max(steps * branches),
            // Each branch has pages of its own.
            false => tokens.max((2 * (page - 1) + steps) / page * page * branches),
        };
        2 * of_step
    }

    /// How the scheduler speculates with it.
    pub(crate) fn scheduled(
        self,
        algorithm: Algorithm,
        page: u32,
        acceptance: Vec<f64>,
    ) -> SglangSpeculation {
        SglangSpeculation {
            tokens: self.tokens,
            levels: self.levels(algorithm),
            reserve: self.reserve(algorithm, page),
            names_pairs: algorithm.names_pairs(),
            acceptance,
        }
    }
}
