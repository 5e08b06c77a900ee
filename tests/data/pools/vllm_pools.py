"""What the two scripts beside this file share: vLLM made ready on a CPU, the plan of a pool, and how rows are written."""

import json
import os
import sys

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = os.path.join(HERE, "../../../src/model/shapes")

sys.path.append(os.path.join(HERE, "../recordings"))
from common import replace_missing

replace_missing(["torchvision"])

from vllm.config import VllmConfig  # noqa: F401 (order of imports)
from vllm.v1.core.kv_cache_planning import DefaultKVCacheConfigBuilder, get_kv_cache_configs
from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config, get_kv_cache_capacity


def builder(_config):
    """In place of `get_kv_cache_config_builder`: the one that no platform replaces."""
    return DefaultKVCacheConfigBuilder()


def planned(vllm, specs, groups, case):
    """Blocks, tokens and longest requests of the case's pool, or that vLLM refuses it."""
    try:
        plan = get_kv_cache_configs(vllm, [specs], [case["pool_gib"] << 30], groups)[0]
    except ValueError:
        return {"refused": True}
    tokens, requests = get_kv_cache_capacity(vllm, generate_scheduler_kv_cache_config([plan]))
    return {"num_blocks": plan.num_blocks, "tokens": tokens, "requests": round(requests, 9)}


def write(rows):
    """A JSON list, a row a line."""
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    print(len(rows), "cases", file=sys.stderr)
