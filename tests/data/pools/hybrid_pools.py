"""How vLLM's own functions lay out the KV pool of hybrids, on a CPU and without weights.

    python hybrid_pools.py | gzip -9n > hybrid.json.gz    # the environment of ../recordings/README.md with vLLM 0.33.0, and
                                                          # compressed-tensors, loguru, frozendict

For each bundled hybrid, number of ranks and set of flags: the state's shapes and formats by the model's class
(`get_mamba_state_shape_from_config`, `get_mamba_state_dtype_from_config`), the block size by `Platform._align_hybrid_block_size`,
groups and blocks by `get_global_kv_cache_groups` and `get_kv_cache_configs`, tokens and requests by `get_kv_cache_capacity`. All of
them are unmodified; this script makes the layers' specs as `MambaBase.get_kv_cache_spec` and `Attention.get_kv_cache_spec` do,
and stands in for the attention backend with one whose kernels take blocks of 16 tokens (FlashAttention, FlashInfer).
What vLLM refuses is recorded as `refused`.
"""

import itertools
import json
import os
from types import SimpleNamespace
from unittest import mock

from vllm_pools import SHAPES, builder, planned, write  # first: it makes vLLM ready

import torch
from vllm.model_executor.models.config import NemotronHForCausalLMConfig, Qwen3_5ForConditionalGenerationConfig
from vllm.model_executor.models.granitemoehybrid import GraniteMoeHybridForCausalLM
from vllm.model_executor.models.lfm2 import Lfm2ForCausalLM
from vllm.model_executor.models.lfm2_moe import Lfm2MoeForCausalLM
from vllm.model_executor.models.nemotron_h import NemotronHForCausalLM
from vllm.model_executor.models.olmo_hybrid import OlmoHybridForCausalLM
from vllm.model_executor.models.qwen3_5 import Qwen3_5ForConditionalGeneration
from vllm.model_executor.models.qwen3_next import Qwen3NextForCausalLM
from vllm.models.kimi_k3 import KimiLinearForCausalLM
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout, MambaSpec, MLAAttentionSpec

QWEN, NEMOTRON, OTHER = "qwen", "nemotron", "other"
MODELS = {
    "Qwen/Qwen3-Next-80B-A3B-Instruct": ("qwen3-next-80b-a3b", QWEN, Qwen3NextForCausalLM),
    "Qwen/Qwen3.5-27B": ("qwen3.5-27b", QWEN, Qwen3_5ForConditionalGeneration),
    "Qwen/Qwen3.5-35B-A3B": ("qwen3.5-35b-a3b", QWEN, Qwen3_5ForConditionalGeneration),
    "Qwen/Qwen3.5-122B-A10B": ("qwen3.5-122b-a10b", QWEN, Qwen3_5ForConditionalGeneration),
    "Qwen/Qwen3.5-397B-A17B": ("qwen3.5-397b-a17b", QWEN, Qwen3_5ForConditionalGeneration),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("nemotron-3-nano-30b-a3b", NEMOTRON, NemotronHForCausalLM),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": ("nemotron-3-super-120b-a12b", NEMOTRON, NemotronHForCausalLM),
    "nvidia/Nemotron-H-56B-Base-8K": ("nemotron-h-56b", NEMOTRON, NemotronHForCausalLM),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": ("kimi-linear-48b-a3b", OTHER, KimiLinearForCausalLM),
    "ibm-granite/granite-4.0-h-small": ("granite-4.0-h-small", OTHER, GraniteMoeHybridForCausalLM),
    "allenai/Olmo-Hybrid-7B": ("olmo-hybrid-7b", OTHER, OlmoHybridForCausalLM),
    "LiquidAI/LFM2-1.2B": ("lfm2-1.2b", OTHER, Lfm2ForCausalLM),
    "LiquidAI/LFM2-8B-A1B": ("lfm2-8b-a1b", OTHER, Lfm2MoeForCausalLM),
}


class Backend:
    """Kernels that take any multiple of 16 tokens."""

    @staticmethod
    def get_supported_kernel_block_sizes(_spec=None):
        return [MultipleOf(16)]

    @staticmethod
    def customize_spec(spec):
        return spec


def layers_of(config):
    """`A` for attention, `M` for a recurrent layer, others left out."""
    if "hybrid_override_pattern" in config:
        return [{"*": "A", "M": "M"}[kind] for kind in config["hybrid_override_pattern"] if kind in "*M"]
    layers = range(config["num_hidden_layers"])
    if "linear_attn_config" in config:
        return ["A" if layer + 1 in config["linear_attn_config"]["full_attn_layers"] else "M" for layer in layers]
    if "full_attn_idxs" in config:
        return ["A" if layer in config["full_attn_idxs"] else "M" for layer in layers]
    if "layer_types" in config:
        return ["A" if "attention" == kind or "full_attention" == kind else "M" for kind in config["layer_types"]]
    every = config["full_attention_interval"]
    return ["A" if (layer + 1) % every == 0 else "M" for layer in layers]


def head_size(config):
    """Width of a key, or of the latent and the rotary part beside it."""
    if "kv_lora_rank" in config:
        return config["kv_lora_rank"] + config["qk_rope_head_dim"]
    own = config.get("head_dim", config.get("attention_head_dim"))
    return own or config["hidden_size"] // config["num_attention_heads"]


def configured(config, family, case):
    """What of vLLM's configuration these functions read."""
    # As their configuration classes have them.
    hf = SimpleNamespace(**{"conv_dim": config["hidden_size"]} | config)
    tp, kv_heads = case["tensor_parallel"], config["num_key_value_heads"]
    cache = SimpleNamespace(
        cache_dtype="fp8" if case["kv_dtype"] == "fp8" else "auto",
        block_size=case["block_size"],
        mamba_cache_dtype="auto",
        mamba_ssm_cache_dtype="auto",
        mamba_cache_mode="align" if case["caching"] else "none",
        mamba_block_size=case["block_size"] if case["caching"] else case["max_model_len"],
        mamba_page_size_padded=None,
        use_replayssm=False,
        kv_cache_dtype_skip_layers=[],
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=None,
        # All pages are equal, so that any layout has the same bytes.
        get_resolved_kv_cache_layout=lambda: KVCacheLayout["BLHNC"],
    )
    model = SimpleNamespace(
        dtype=torch.bfloat16,
        use_mla="kv_lora_rank" in config,
        hf_config=hf,
        hf_text_config=hf,
        architecture=config["architectures"][0],
        max_model_len=case["max_model_len"],
        original_max_model_len=case["max_model_len"],
        supports_kv_cache_grouping=False,
        get_num_kv_heads=lambda _parallel: 1 if "kv_lora_rank" in config else max(1, kv_heads // tp),
        get_head_size=lambda: head_size(config),
    )
    parallel = SimpleNamespace(
        tensor_parallel_size=tp, decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1
    )
    made = SimpleNamespace(
        cache_config=cache,
        model_config=model,
        parallel_config=parallel,
        speculative_config=None,
        num_speculative_tokens=0,
        num_prefill_lookahead_tokens=0,
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        mamba_config=None,
    )
    of_model = NemotronHForCausalLMConfig if family is NEMOTRON else Qwen3_5ForConditionalGenerationConfig
    if family is not OTHER and config["architectures"][0] != "Qwen3NextForCausalLM":
        of_model.verify_and_update_config(made)
    return made


def row(name, case):
    stem, family, model_class = MODELS[name]
    config = json.load(open(os.path.join(SHAPES, stem + ".json")))
    vllm = configured(config, family, case)
    cache, model = vllm.cache_config, vllm.model_config
    alignment = case["checkpoint_alignment"] if case["caching"] else None
    with (
        mock.patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", return_value=(model_class, "")),
        mock.patch("vllm.model_executor.layers.mamba.abstract.get_mamba_prefill_checkpoint_alignment", return_value=alignment),
        mock.patch("vllm.config.vllm.set_current_vllm_config", lambda _config: mock.MagicMock()),
        mock.patch.object(Platform, "_find_non_ssm_backends", return_value={Backend}, create=True),
        mock.patch("vllm.v1.core.kv_cache_config_builder.get_kv_cache_config_builder", builder),
    ):
        Platform._align_hybrid_block_size(vllm, Backend)
        shapes = model_class.get_mamba_state_shape_from_config(vllm)
        dtypes = model_class.get_mamba_state_dtype_from_config(vllm)
        state = MambaSpec(
            shapes=tuple(shapes),
            dtypes=tuple(dtypes),
            block_size=cache.mamba_block_size,
            page_size_padded=cache.mamba_page_size_padded,
            mamba_cache_mode=cache.mamba_cache_mode,
            num_prefill_checkpoint_blocks=int(alignment is not None),
            prefill_checkpoint_alignment=alignment,
        )
        spec, more = (MLAAttentionSpec, {"max_tp_shards": 1}) if model.use_mla else (FullAttentionSpec, {})
        attention = spec(
            block_size=cache.block_size,
            num_kv_heads=model.get_num_kv_heads(None),
            head_size=model.get_head_size(),
            dtype=torch.float8_e4m3fn if case["kv_dtype"] == "fp8" else torch.bfloat16,
            **more,
        )
        kinds = layers_of(config)
        specs = {f"layers.{at}": attention if kind == "A" else state for at, kind in enumerate(kinds)}
        found = {"unified_block_size": cache.block_size, "state_bytes": state.state_content_size_bytes}
        groups = get_global_kv_cache_groups(vllm, [specs])
        of_state = [group for group in groups if isinstance(group.kv_cache_spec, MambaSpec)]
        found |= {"groups": len(groups) - len(of_state), "state_groups": len(of_state)}
        return found | planned(vllm, specs, groups, case)


def cases():
    for name, (_, family, _) in MODELS.items():
        for tp, length, pool, kv, block, caching in itertools.product(
            (1, 2, 4, 8), (2048, 32_768, 262_144), (2, 40), ("bfloat16", "fp8"), (16, 64, 528), (False, True)
        ):
            # Qwen's alone put out states from inside a chunk, and by FlashInfer's kernels only.
            alignments = {NEMOTRON: (1,), QWEN: (None, 64), OTHER: (None,)}[family]
            if name.startswith("ibm-granite"):
                alignments = (1,)
            # Its 30 heads.
            if name.startswith("allenai") and tp > 2:
                continue
            for alignment in alignments if caching else (None,):
                yield name, {
                    "tensor_parallel": tp,
                    "max_model_len": length,
                    "pool_gib": pool,
                    "kv_dtype": kv,
                    "block_size": block,
                    "caching": caching,
                    "checkpoint_alignment": alignment,
                }


if __name__ == "__main__":
    write([{"model": name} | case | row(name, case) for name, case in cases()])
