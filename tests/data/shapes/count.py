"""Counts the parameters of each family that this project reads as Hugging Face `transformers` makes them.

    pip install torch transformers==5.20.2      # on a CPU; nothing is downloaded, no weights are allocated
    python count.py > counts.json

Each family's class defaults are taken, then once more with whatever of its switches (biases, tied embeddings, fewer KV
heads, fewer layers) the class has. Only numbers, flags and kinds of layers of a config are written.
"""

import json
import re
import warnings

import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

FAMILIES = """llama mistral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3_text phi phi3 phimoe granite
granitemoe granitemoeshared deepseek_v3 glm glm4 glm4_moe_lite gpt_oss llama4_text minimax_m2 olmo olmo2 olmo3 olmoe cohere
cohere2 starcoder2 smollm3 seed_oss opt exaone4 exaone_moe ernie4_5 ernie4_5_moe hy_v3 solar_open minicpm3 youtu arcee apertus
stablelm cwm helium gpt_neox falcon gpt_bigcode gpt2 gptj bloom mpt qwen3_next qwen3_5_text qwen3_5_moe_text nemotron_h afmoe laguna olmo_hybrid
kimi_linear bailing_hybrid granitemoehybrid falcon_h1 lfm2 lfm2_moe""".split()

# What classes have no defaults for, or defaults that no checkpoint has.
GIVEN = {
    "granitemoehybrid": {"layer_types": ["mamba", "mamba", "attention", "mamba"], "num_hidden_layers": 4},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"], "num_hidden_layers": 4},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"], "num_hidden_layers": 4},
}

# What a reader of shapes may ask for.
KEYS = re.compile(
    r"hidden_size|model_max|layers|heads|head_dim|intermediate|vocab_size|max_position|tie_word|bias|layer_types|expert|topk|moe|moe_k"
    r"|rank|sliding|window|first_k|sparse_step|n_embd|d_model|max_seq|n_head|n_layer|n_inner|n_positions|multi_query|new_decoder|ffn|kv_heads"
    r"|linear_|mamba_|gating|conv_|block_|num_dense_|global_attn|per_layer$|qk_|v_head|conv_kernel|conv_bias|ssm_state|n_groups|chunk_size|latent"
    r"|use_qk_norm|no_rope|interleave|attention_chunk|word_embed|do_layer_norm|group_num|shared|max_window|use_sliding"
)
NOT = re.compile(r"feed_forward|^rope_|router_|eps|coef|output_|_prob|dropout|id2|label|norm_topk|scale|capacity|jitter|token_id|act_fn")
SWITCHES = ["attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "bias", "mamba_rms_norm", "mamba_conv_bias", "conv_bias"]


def count(config):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    unique = {id(parameter): parameter for parameter in model.parameters()}
    return type(model).__name__, sum(parameter.numel() for parameter in unique.values())


def entry(config):
    architecture, parameters = count(config)
    said = config.to_dict()
    kept = {
        key: value
        for key, value in said.items()
        if KEYS.search(key) and not NOT.search(key) and not isinstance(value, (dict, float))
    }
    kinds = said.get("layer_types") or []
    return {
        "parameters": parameters,
        "windows": sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds) if kinds else None,
        "config": {"architectures": [architecture], "dtype": "bfloat16", **dict(sorted(kept.items()))},
    }


def varied(name):
    config = transformers.AutoConfig.for_model(name, **GIVEN.get(name, {}))
    said = config.to_dict()
    changes = {key: not said[key] for key in SWITCHES if isinstance(said.get(key), bool)}
    changes["tie_word_embeddings"] = not said.get("tie_word_embeddings", False)
    heads, kv = said.get("num_attention_heads"), said.get("num_key_value_heads")
    if heads and kv and kv == heads and heads % 4 == 0 and not said.get("kv_lora_rank"):
        changes["num_key_value_heads"] = heads // 4
    return transformers.AutoConfig.for_model(name, **GIVEN.get(name, {}), **changes)


entries = []
for name in FAMILIES:
    entries.append(entry(transformers.AutoConfig.for_model(name, **GIVEN.get(name, {}))))
    try:
        entries.append(entry(varied(name)))
    except Exception as error:  # a class that refuses the change is left with its defaults
        print(f"{name}: {error}"[:120], file=__import__("sys").stderr)
print("[")
print(",\n".join(json.dumps(entry) for entry in entries))
print("]")
