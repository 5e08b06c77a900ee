"""How vLLM's own functions lay out the KV pool of models whose layers have pages of unlike sizes, on a CPU and without weights.

    python unlike_pools.py | gzip -9n > unlike.json.gz    # the environment of hybrid_pools.py

Sparse attention (DeepSeek-V3.2, GLM-5): a latent and the keys of the indexer beside it, in the formats of the backends that vLLM takes on
Hopper and Blackwell. Gemma 4: layers that differ in heads and their width, some of which share their keys and values. MiMo-V2: layers with a
window have more heads, and values are narrower than keys. The layers' specs are
made as `MLAAttention.get_kv_cache_spec`, `DeepseekV32IndexerCache.get_kv_cache_spec` and `Attention.get_kv_cache_spec` do and customised by
the backends themselves; the layout is the one that `resolve_kv_cache_layout` takes where no backend prefers one; groups and blocks are
those of `get_global_kv_cache_groups` and `get_kv_cache_configs`, tokens and requests of `get_kv_cache_capacity`. All of them are unmodified.
What vLLM refuses is recorded as `refused`.
"""

import itertools
import json
import os
from types import SimpleNamespace
from unittest import mock

from vllm_pools import SHAPES, builder, planned, write  # first: it makes vLLM ready

import torch
from vllm.v1.attention.backends.mla.sparse_utils import align_blocks_to_rows
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec

SPARSE = {
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "zai-org/GLM-5": "glm-5",
    "zai-org/GLM-5.2": "glm-5.2",
}
GEMMA = {
    "google/gemma-4-E2B-it": "gemma-4-e2b",
    "google/gemma-4-E4B-it": "gemma-4-e4b",
    "google/gemma-4-31B-it": "gemma-4-31b",
    "google/gemma-4-26B-A4B-it": "gemma-4-26b-a4b",
}


def sparse_specs(config, case):
    """`auto`, vLLM's `fp8_ds_mla` (FLASHMLA_SPARSE) or plain `fp8` (FLASHINFER_MLA_SPARSE)."""
    block, kv = case["block_size"], case["kv_dtype"]
    latent = MLAAttentionSpec(
        block_size=block,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=config["kv_lora_rank"] + config["qk_rope_head_dim"],
        dtype={"auto": torch.bfloat16, "fp8": torch.float8_e4m3fn, "fp8_ds_mla": torch.uint8}[kv],
        cache_dtype_str=kv,
        state_content_bytes=656 if kv == "fp8_ds_mla" else None,
    )
    if kv != "fp8_ds_mla":
        latent = align_blocks_to_rows(latent, 32 if kv == "fp8" else 1)
    width = config["index_head_dim"]
    keys = MLAAttentionSpec(
        block_size=block, num_kv_heads=1, max_tp_shards=1, head_size=width + width // 128 * 4, dtype=torch.uint8
    )
    every, offset = config.get("index_topk_freq", 1), config.get("index_skip_topk_offset", 2)
    specs = {}
    for layer in range(config["num_hidden_layers"]):
        specs[f"layers.{layer}.attn"] = latent
        if max(layer - offset + 1, 0) % every == 0:
            specs[f"layers.{layer}.indexer.k_cache"] = keys
    return specs


def gemma_specs(config, case):
    """Layers behind the first that share keys and values have no cache of their own."""
    tp, block = case["tensor_parallel"], case["block_size"]
    specs = {}
    for layer in range(config["num_hidden_layers"] - config["num_kv_shared_layers"]):
        slides = config["layer_types"][layer] == "sliding_attention"
        heads = config["num_key_value_heads"]
        if not slides and config["attention_k_eq_v"]:
            heads = config["num_global_key_value_heads"]
        common = dict(
            block_size=block,
            num_kv_heads=max(1, heads // tp),
            head_size=config["head_dim"] if slides else config["global_head_dim"],
            dtype=torch.float8_e4m3fn if case["kv_dtype"] == "fp8" else torch.bfloat16,
        )
        specs[f"layers.{layer}"] = (
            SlidingWindowSpec(**common, sliding_window=config["sliding_window"]) if slides else FullAttentionSpec(**common)
        )
    return specs


def mimo_specs(config, case):
    """Values narrower than keys."""
    specs = {}
    for layer, slides in enumerate(config["hybrid_layer_pattern"]):
        common = dict(
            block_size=case["block_size"],
            num_kv_heads=max(1, config["swa_num_key_value_heads" if slides else "num_key_value_heads"] // case["tensor_parallel"]),
            head_size=config["head_dim"],
            head_size_v=config["v_head_dim"],
            dtype=torch.float8_e4m3fn if case["kv_dtype"] == "fp8" else torch.bfloat16,
        )
        specs[f"layers.{layer}"] = (
            SlidingWindowSpec(**common, sliding_window=config["sliding_window"]) if slides else FullAttentionSpec(**common)
        )
    return specs


def configured(case):
    """What of vLLM's configuration these functions read."""
    tp = case["tensor_parallel"]
    cache = SimpleNamespace(
        block_size=case["block_size"],
        kv_cache_layout=None,
        num_gpu_blocks_override=None,
        prefix_cache_retention_interval=None,
    )
    cache.get_resolved_kv_cache_layout = lambda: case["layout"]
    return SimpleNamespace(
        cache_config=cache,
        model_config=SimpleNamespace(max_model_len=case["max_model_len"], original_max_model_len=case["max_model_len"],
                                     supports_kv_cache_grouping=False),
        parallel_config=SimpleNamespace(tensor_parallel_size=tp, decode_context_parallel_size=1,
                                        prefill_context_parallel_size=1, pipeline_parallel_size=1),
        speculative_config=None,
        num_speculative_tokens=0,
        num_prefill_lookahead_tokens=0,
        max_in_flight_tokens=2 * 8192,
        kv_transfer_config=None,
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
    )


def row(specs, case):
    vllm = configured(case)
    with mock.patch("vllm.v1.core.kv_cache_config_builder.get_kv_cache_config_builder", builder):
        names = [layout.name for layout in get_supported_kv_cache_layouts([])]
        case["layout"] = resolve_kv_cache_layout(vllm, [names], specs.values())
        groups = get_global_kv_cache_groups(vllm, [specs])
        slide = [group for group in groups if isinstance(group.kv_cache_spec, SlidingWindowSpec)]
        full = [group for group in groups if group not in slide]
        found = {
            "groups": len(full),
            "window_groups": len(slide),
            "full_block_size": full[0].kv_cache_spec.block_size,
            "window_block_size": slide[0].kv_cache_spec.block_size if slide else None,
        }
        return found | planned(vllm, specs, groups, case)


def cases():
    for name, stem in SPARSE.items():
        axes = ((1, 8), (8192, 65_536, 163_840), (4, 40, 100), ("auto", "fp8", "fp8_ds_mla"), (64, 128))
        yield from ((name, stem, sparse_specs, case) for case in itertools.product(*axes))
    axes = ((1, 2, 4, 8), (8192, 32_768, 262_144), (2, 10, 40), ("auto", "fp8"), (16, 32, 64))
    yield from (("XiaomiMiMo/MiMo-V2-Flash", "mimo-v2-flash", mimo_specs, case) for case in itertools.product(*axes))
    for name, stem in GEMMA.items():
        axes = ((1, 2, 4, 8), (8192, 32_768, 131_072), (2, 10, 40), ("auto", "fp8"), (16, 32, 64))
        yield from ((name, stem, gemma_specs, case) for case in itertools.product(*axes))


KEYS = ("tensor_parallel", "max_model_len", "pool_gib", "kv_dtype", "block_size")

if __name__ == "__main__":
    rows = []
    for name, stem, specs_of, values in cases():
        path = os.path.join(SHAPES, stem + ".json")
        if not os.path.exists(path):
            continue
        case = dict(zip(KEYS, values))
        config = json.load(open(path))
        if "num_attention_heads" in config and config["num_attention_heads"] % case["tensor_parallel"] != 0:
            continue
        found = row(specs_of(config, case), case)
        del case["layout"]
        rows.append({"model": name} | case | found)
    write(rows)
