"""How vLLM's own functions lay out the KV pool where layers with a window are left out of an fp8 cache, on a CPU and without weights.

    python skipped_pools.py | gzip -9n > skipped.json.gz    # the environment of hybrid_pools.py

The block size is the one that `Platform._align_heterogeneous_kv_block_size` makes of what was asked for, the windows' that of
`_largest_kernel_block_within`, and the layers' specs are made as `Attention.get_kv_cache_spec` does; groups and blocks are those of
`get_global_kv_cache_groups` and `get_kv_cache_configs`, tokens and requests of `get_kv_cache_capacity`. All of them are unmodified; kernels
are taken to page by multiples of 16 tokens (FlashAttention, Triton). What vLLM refuses is recorded as `refused`.
"""

import itertools
import json
import os
from types import SimpleNamespace
from unittest import mock

from unlike_pools import configured  # first: it makes vLLM ready
from vllm_pools import SHAPES, builder, planned, write

import torch
from hybrid_pools import Backend
from vllm.model_executor.layers.attention.attention import _largest_kernel_block_within
from vllm.platforms.interface import Platform
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

MODELS = {
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "google/gemma-3-4b-it": "gemma-3-4b",
    "google/gemma-3-27b-it": "gemma-3-27b",
}
KEYS = ("tensor_parallel", "max_model_len", "pool_gib", "block_size")


def aligned(config, case):
    """Block size and shared page, as the platform settles them before any layer is made."""
    heads = max(1, config["num_key_value_heads"] // case["tensor_parallel"])
    cache = SimpleNamespace(
        block_size=case["block_size"],
        cache_dtype="fp8",
        kv_cache_dtype_skip_layers=["sliding_window"],
        mamba_page_size_padded=None,
        skip_page_size_padded=None,
    )
    model = SimpleNamespace(
        dtype=torch.bfloat16, get_num_kv_heads=lambda _: heads, get_head_size=lambda: config["head_dim"]
    )
    vllm = SimpleNamespace(cache_config=cache, model_config=model, parallel_config=None)
    with mock.patch("vllm.config.vllm.set_current_vllm_config"):
        Platform._align_heterogeneous_kv_block_size(vllm, Backend)
    return heads, cache.block_size, cache.skip_page_size_padded


def specs_of(config, case):
    heads, block, page = aligned(config, case)
    common = dict(num_kv_heads=heads, head_size=config["head_dim"])
    window = dict(common, dtype=torch.bfloat16, sliding_window=config["sliding_window"])
    one = SlidingWindowSpec(block_size=1, **window).real_page_size_bytes
    slides = SlidingWindowSpec(
        block_size=_largest_kernel_block_within(Backend, one, page, block), page_size_padded=page, **window
    )
    full = FullAttentionSpec(block_size=block, dtype=torch.float8_e4m3fn, **common)
    every = config.get("sliding_window_pattern")
    kinds = config.get("layer_types") or [
        "full_attention" if (layer + 1) % every == 0 else "sliding_attention"
        for layer in range(config["num_hidden_layers"])
    ]
    return {f"layers.{layer}": slides if kind == "sliding_attention" else full for layer, kind in enumerate(kinds)}


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
            "window_block_size": slide[0].kv_cache_spec.block_size,
        }
        return found | planned(vllm, specs, groups, case)


if __name__ == "__main__":
    rows = []
    axes = ((1, 2, 4, 8), (4096, 8192, 32_768, 131_072), (1, 4, 10, 40), (16, 32, 48, 64, 128))
    for (name, stem), values in itertools.product(MODELS.items(), itertools.product(*axes)):
        case = dict(zip(KEYS, values))
        config = json.load(open(os.path.join(SHAPES, stem + ".json")))
        config = config.get("text_config", config)
        found = row(specs_of(config, case), case)
        del case["layout"]
        rows.append({"model": name, "kv_dtype": "fp8 but for windows"} | case | found)
    write(rows)
