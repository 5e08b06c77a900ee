//! `--attention-backend` and its two halves, given or by default: what they decide beside speed.
//!
//! Some kernels have pages of one size, some cannot be captured, some share no prefixes, and some run on some cards only. Left out:
//! how fast each is, which the calibration says; kernels of models and platforms that are not served here. Rules: 0.5.4
//! `_handle_attention_backend_compatibility`, `ModelRunner.model_specific_adjustment`; 0.5.23 `handle_attention_backend_compatibility`,
//! `get_default_attn_backend`.

use super::compresses_kv;
use super::profile::{Behaviour, SglangProfile};
use crate::config::judge::Judge;
use crate::config::raw::RawSglang;
use crate::hardware::{Architecture, Device};
use crate::model::{Attention, ModelShape};
use crate::nearest::nearest;

/// What the kernels decide.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Backends {
    /// Whose they are where neither half is given; empty where nobody says.
    pub(super) whole: &'static str,
    /// Tokens of a page, and whose they are; `None` where any will do.
    pub(super) page: Option<(u32, &'static str)>,
    /// Their batches can be captured.
    pub(super) capture: bool,
    /// Those of prefill, too.
    pub(super) capture_prefill: bool,
    /// Prefixes are shared, and decodes may ride along in prefill batches.
    pub(super) share_prefixes: bool,
    /// AMD's, for whose workspace the server lowers its share of the memory where contexts are long.
    pub(super) is_aiter: bool,
}

const KEYS: [&str; 3] = [
    "sglang.attention_backend",
    "sglang.prefill_attention_backend",
    "sglang.decode_attention_backend",
];

/// Kernels of models that are not served here, or of platforms that are not simulated.
const ELSEWHERE: [&str; 10] = [
    "qsa",
    "dsv4",
    "compressed",
    "llada2_cfg_flashinfer",
    "minicpm_flashattn",
    "minicpm_flashinfer",
    "intel_amx",
    "intel_xpu",
    "ascend",
    "wave",
];
/// Those of NVIDIA's cards.
const NVIDIAS: [&str; 9] = [
    "fa3",
    "fa4",
    "flashinfer",
    "flashmla",
    "cutlass_mla",
    "trtllm_mla",
    "trtllm_mha",
    "cutedsl_mla",
    "hpc_ops",
];
/// Those of sparse attention, by either name.
const SPARSE: [&str; 2] = ["dsa", "nsa"];
/// Those that attend to a compressed KV cache alone, and to none.
const OF_MLA: [&str; 4] = ["flashmla", "cutlass_mla", "trtllm_mla", "cutedsl_mla"];
const NOT_OF_MLA: [&str; 5] = [
    "trtllm_mha",
    "hpc_ops",
    // Of these three 0.5.4 says so.
    "torch_native",
    "flex_attention",
    "dual_chunk_flash_attn",
];
/// Architectures that attend by `trtllm_mla` on B200 and its like in 0.5.23; in 0.5.4 the first does.
const OF_DEEPSEEK: [&str; 4] = [
    "DeepseekV3ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "LongcatFlashForCausalLM",
];
/// Contexts above this length make `aiter` reserve more.
pub(super) const LONG_CONTEXT: u32 = 8192;
/// What it leaves of the share of the memory.
pub(super) const KEPT_BY_AITER: f64 = 0.85;

/// Who serves, as far as kernels care.
struct Machine<'a> {
    is_new: bool,
    device: &'a Device,
    model: &'a ModelShape,
    is_mla: bool,
    tensor_parallel: u32,
}

/// Judges the flags and says what the kernels decide.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    (device, model): (Option<&Device>, Option<&ModelShape>),
    tensor_parallel: u32,
) -> Backends {
    let given = [
        &raw.attention_backend,
        &raw.prefill_attention_backend,
        &raw.decode_attention_backend,
    ];
    let mut asked = [None; 3];
    for ((key, given), asked) in KEYS.into_iter().zip(given).zip(&mut asked) {
        let Some(given) = given else { continue };
        judge.given(key, given);
        *asked = known(judge, key, given, profile);
    }
    let (Some(device), Some(model)) = (device, model) else {
        return Backends::plain();
    };
    let machine = Machine {
        is_new: profile.behaviour == Behaviour::V0_5_23,
        device,
        model,
        is_mla: compresses_kv(model),
        tensor_parallel,
    };
    for (part, (key, asked)) in KEYS.into_iter().zip(asked).enumerate() {
        let refused = asked.and_then(|name| Some((name, machine.refusal(name, part)?)));
        if let Some((name, (why, help))) = refused {
            judge.wrong_help(key, &format!("is {name}, which cannot serve here"), why, help);
        }
    }
    let [whole, prefill, decode] = asked;
    let is_unset = asked.iter().all(Option::is_none);
    let same = prefill.filter(|_| prefill == decode);
    let whole = same.or(whole).unwrap_or_else(|| machine.by_default(is_unset));
    let backends = machine.decided(whole, prefill, decode, raw.page_size.map(|size| size.0));
    for (key, name) in KEYS.into_iter().zip(asked) {
        let Some(name) = name.filter(|_| !judge.is_wrong(&[key])) else {
            continue;
        };
        let told = judge.document.name_of(key);
        if let Some(what) = backends.told_of(name) {
            judge.notes.push(format!(
                "{told} {name}: {what}; how fast it is, the calibration says"
            ));
        } else {
            judge.ignore(format!(
                "{told} {name} has no effect: the calibration says how fast attention is"
            ));
        }
    }
    backends
}

/// The name as this version has it; what it does not have is reported.
fn known(judge: &mut Judge, key: &str, given: &str, profile: &SglangProfile) -> Option<&'static str> {
    let all = profile.attention_backends();
    // An older name of the same kernels.
    let name = if given == "tokenspeed_mla" {
        "cutedsl_mla"
    } else {
        given
    };
    if let Some(&found) = all.iter().find(|known| **known == name) {
        return Some(found);
    }
    let label = format!("`{given}` is no attention backend of {}", profile.profile);
    let mut help = match nearest(given, all.iter().copied(), 1).first() {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    help += &format!("It has {}", all.join(", "));
    judge.wrong_help(key, "has no such value", label, &help);
    None
}

impl Backends {
    /// Of kernels that decide nothing.
    fn plain() -> Backends {
        Backends {
            whole: "",
            page: None,
            capture: true,
            capture_prefill: true,
            share_prefixes: true,
            is_aiter: false,
        }
    }

    /// What a backend that was asked for decides.
    fn told_of(&self, name: &str) -> Option<String> {
        match self.page {
            Some((size, whose)) if whose == name => Some(format!("pages have {size} tokens")),
            _ if ["torch_native", "flex_attention"].contains(&name) && !self.capture => {
                Some("no CUDA graphs are captured".to_string())
            }
            _ if name == "dual_chunk_flash_attn" => {
                Some("prefixes are not shared, and no decodes ride along in prefill batches".to_string())
            }
            _ if name == "aiter" => Some(format!(
                "with contexts above {LONG_CONTEXT} tokens the server keeps {KEPT_BY_AITER} of its share of the memory"
            )),
            _ => None,
        }
    }
}

impl Machine<'_> {
    /// Datacenter Blackwell, compute capability 10.
    fn is_sm100(&self) -> bool {
        self.device.is_datacenter_blackwell()
    }

    fn is_hopper(&self) -> bool {
        self.device.architecture == Architecture::Hopper
    }

    fn is_sparse(&self) -> bool {
        self.model.indexer().is_some()
    }

    fn is_amd(&self) -> bool {
        matches!(self.device.architecture, Architecture::Cdna | Architecture::Rdna)
    }

    /// What the server chooses. `is_unset`: neither half is given, on which the choice of some models depends.
    fn by_default(&self, is_unset: bool) -> &'static str {
        if self.is_sparse() {
            return SPARSE[0];
        }
        let architecture = self.model.architecture.as_str();
        let of_model = match architecture {
            "GptOssForCausalLM" if is_unset => Some(match () {
                () if self.is_sm100() => "trtllm_mha",
                () if self.is_hopper() => "fa3",
                () if self.is_amd() && self.is_new => "aiter",
                () => "triton",
            }),
            "Llama4ForConditionalGeneration" | "Llama4ForCausalLM" if self.is_new => Some(match () {
                () if self.is_sm100() => "trtllm_mha",
                () if self.is_hopper() => "fa3",
                () if self.is_amd() => "aiter",
                () => "triton",
            }),
            _ => {
                let leading = if self.is_new { OF_DEEPSEEK.len() } else { 1 };
                let is_deepseek = OF_DEEPSEEK[..leading].contains(&architecture);
                (is_deepseek && is_unset && self.is_sm100()).then_some("trtllm_mla")
            }
        };
        of_model.unwrap_or_else(|| match self.is_mla {
            true if self.is_hopper() => "fa3",
            true if self.is_sm100() => "flashinfer",
            true if self.is_amd() && [16, 128].contains(&self.heads()) => "aiter",
            true => "triton",
            false if self.is_hopper() => "fa3",
            false if self.is_sm100() && self.is_new => "trtllm_mha",
            false if self.is_amd() => "aiter",
            false => "flashinfer",
        })
    }

    /// Heads of a rank in a model with a compressed KV cache.
    fn heads(&self) -> u32 {
        let heads = self.model.layers.iter().find_map(|group| match group.attention {
            Attention::Latent { query_heads, .. } => Some(query_heads),
            _ => None,
        });
        heads.map_or(1, |heads| (heads / self.tensor_parallel).max(1))
    }

    /// Why a backend cannot serve, and what can. `part`: 0 for all of a step, 1 for prefill, 2 for decode.
    fn refusal(&self, name: &str, part: usize) -> Option<(String, &'static str)> {
        const OTHER: &str = "leave it out: the server chooses one that runs on the card";
        let card = &self.device.id;
        let architecture = self.device.architecture;
        let has_fa3 = self.is_hopper()
            || (matches!(architecture, Architecture::Ampere | Architecture::Ada) && !self.is_mla);
        let has_trtllm_mha = match self.is_new {
            true => self.is_hopper() || self.device.is_blackwell(),
            false => self.is_sm100(),
        };
        let has_trtllm_mla = match self.is_new {
            true => self.device.is_blackwell(),
            false => self.is_sm100(),
        };
        let lacks = |what: &str| Some((format!("{card} {what}"), OTHER));
        if ELSEWHERE.contains(&name) {
            let why = "it is of models or platforms that are not simulated".to_string();
            return Some((why, OTHER));
        }
        if SPARSE.contains(&name) != self.is_sparse() {
            let why = match self.is_sparse() {
                true => "the model attends sparsely, which these kernels do not",
                false => "the model does not attend sparsely, and these kernels do nothing else",
            };
            return Some((why.to_string(), OTHER));
        }
        if self.is_amd() && (NVIDIAS.contains(&name) || name == "dual_chunk_flash_attn") {
            return lacks("is AMD's, and the kernels are NVIDIA's");
        }
        let others = if self.is_new { 2 } else { NOT_OF_MLA.len() };
        if self.is_mla && NOT_OF_MLA[..others].contains(&name) {
            let why = "the model compresses its KV cache, which these kernels do not read".to_string();
            return Some((why, OTHER));
        }
        if !self.is_mla && OF_MLA.contains(&name) {
            let why = "the model does not compress its KV cache, and these kernels read no other".to_string();
            return Some((why, OTHER));
        }
        match name {
            "aiter" if !self.is_amd() => lacks("is not AMD's, and the kernels are"),
            "fa3" if !has_fa3 && architecture != Architecture::Other => lacks(
                "is not of those that FlashAttention 3 runs on here: compute capability 8 or 9, and 9 with a compressed KV cache",
            ),
            "fa4" if !self.is_new && part != 1 => Some((
                "SGLang 0.5.4 has it for prefill only".to_string(),
                "write --prefill-attention-backend fa4",
            )),
            "trtllm_mha" if !has_trtllm_mha => {
                lacks("has none of TensorRT-LLM's kernels for plain attention")
            }
            "trtllm_mla" if !has_trtllm_mla => {
                lacks("has none of TensorRT-LLM's kernels for a compressed KV cache")
            }
            "cutedsl_mla" if part == 1 => Some((
                "it decodes only".to_string(),
                "write --decode-attention-backend cutedsl_mla",
            )),
            "cutedsl_mla" if !self.is_sm100() => lacks("has none of these kernels: B200 and its like do"),
            "hpc_ops" if !self.is_hopper() => lacks("has none of these kernels: Hopper does"),
            _ => None,
        }
    }

    /// What these backends decide; `page` was asked for.
    fn decided(
        &self,
        whole: &'static str,
        prefill: Option<&'static str>,
        decode: Option<&'static str>,
        page: Option<u64>,
    ) -> Backends {
        let decodes = |name: &str| whole == name || decode == Some(name);
        let is_any = |name: &str| decodes(name) || prefill == Some(name);
        let of_fa4 = match self.is_new {
            true => is_any("fa4") && !self.is_mla && self.is_sm100(),
            false => prefill == Some("fa4"),
        };
        let of_mha: &[u64] = match self.is_new {
            true => &[16, 32, 64, 128],
            false => &[16, 32, 64],
        };
        // In the order of the server, where a later one has the last word.
        let rules: [(bool, &'static str, &[u64], u32); 8] = [
            (decodes("flashmla"), "flashmla", &[64], 64),
            (decodes("cutlass_mla"), "cutlass_mla", &[128], 128),
            (decodes("trtllm_mla"), "trtllm_mla", &[32, 64], 64),
            (is_any("cutedsl_mla"), "cutedsl_mla", &[32, 64], 64),
            (is_any("trtllm_mha"), "trtllm_mha", of_mha, 64),
            (is_any("hpc_ops"), "hpc_ops", &[64], 64),
            (of_fa4, "fa4", &[128], 128),
            (self.is_sparse(), whole, &[64], 64),
        ];
        let mut page = page;
        let mut decided = None;
        for (holds, whose, possible, else_this) in rules {
            if holds && page.is_none_or(|page| !possible.contains(&page)) {
                page = Some(u64::from(else_this));
                decided = Some((else_this, whose));
            }
        }
        let attends = prefill.unwrap_or(whole);
        let is_uncapturable = ["torch_native", "flex_attention"].contains(&whole);
        // Prefill graphs would make it attend by other kernels (`disable_prefill_cuda_graph_for_deepseek_trtllm_mla`).
        let is_deepseek = self.model.architecture == OF_DEEPSEEK[0] && attends == "trtllm_mla";
        Backends {
            whole,
            page: decided,
            capture: !is_uncapturable,
            capture_prefill: !is_uncapturable && !is_deepseek,
            share_prefixes: whole != "dual_chunk_flash_attn",
            is_aiter: whole == "aiter",
        }
    }
}

#[cfg(test)]
mod tests;
