#!/usr/bin/env python3
"""Records how SGLang's ranks with attention of their own pad their batches of a common step, without a GPU.

The decisions are SGLang's, unmodified: each rank's votes, what all make of them, `ForwardBatch.prepare_mlp_sync_batch`, and whether the
runner of prefill graphs replays. Ours are the batches, of which no tensors but lengths matter, the sizes of graphs, and stand-ins for what
the engine asks of its processes (which of them are peers, whether a buffer is large enough).

    record_sglang_ranks.py COUNT SEED OUT.json
"""

import importlib.metadata
import json
import os
import random
import sys
import warnings
from types import SimpleNamespace

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TORCHDYNAMO_DISABLE"] = "1"
warnings.simplefilter("ignore")

from common import replace_missing  # noqa: E402

replace_missing({"torchvision", "sgl_kernel", "outlines", "torchao", "torchaudio", "sentence_transformers"})

import torch  # noqa: E402

import sglang.srt.layers.dp_attention as attention  # noqa: E402
import sglang.srt.model_executor.forward_batch_info as batches  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode  # noqa: E402

VERSION = importlib.metadata.version("sglang")
NEWER = VERSION != "0.5.4"
HIDDEN, WIDTH = 4096, 2
DECODES = [[], [1, 2, 3, 4], [4, 16], [1, 2, 4, 8, 16, 32, 64]]
PIECES = [[], [4, 8, 16, 32], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]]

if NEWER:
    import sglang.srt.layers.moe.utils as experts
    import sglang.srt.managers.scheduler_components.dp_attn as agreement
    from sglang.srt.model_executor.cuda_graph_config import Backend
    from sglang.srt.model_executor.runner import PrefillCudaGraphRunner
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm


class Unpinned:
    """PyTorch, without memory that only a driver can pin."""

    tensor = staticmethod(lambda *args, pin_memory=False, **named: torch.tensor(*args, **named))

    def __getattr__(self, name):
        return getattr(torch, name)


batches.torch = Unpinned()


class Backends:
    """Stands for the backend that sends tokens to experts."""

    def __init__(self, sends):
        self.sends = sends

    def is_none(self):
        return not self.sends

    def __getattr__(self, name):
        if name.startswith("is_"):
            return lambda: False
        raise AttributeError(name)


def draw(rng):
    ranks = rng.choice([2, 2, 3, 4, 8])
    gpus = rng.choice([1, 1, 2, 4])
    pieces = rng.choice(PIECES) if NEWER else []
    decodes = [size for size in rng.choice(DECODES) if size % gpus == 0]
    most = rng.choice([3, 20, 90])
    prompts = rng.choice([0.0, 0.0, 0.2, 0.6])
    idle = rng.choice([0.0, 0.2, 0.5])

    def batch():
        if rng.random() < idle:
            return ["idle", 0]
        if rng.random() < prompts:
            return ["prompts", rng.randint(1, rng.choice([30, 600, 5000]))]
        return ["decodes", rng.randint(1, most)]

    brought = [batch() for _ in range(ranks)]
    if all(kind == "idle" for kind, _ in brought):
        brought[0] = ["decodes", rng.randint(1, most)]
    return {
        "gpus_a_rank": gpus,
        "sums_up_to": rng.choice([0, 10, 40, 200]) if NEWER else 0,
        "sends_tokens": NEWER and rng.random() < 0.2,
        "decodes": decodes,
        "pieces": pieces,
        "brought": brought,
    }


def stand_in(case, ranks):
    parallel = SimpleNamespace(
        num_dp_ranks=ranks,
        attn_dp_size=ranks,
        attn_dp_enabled=True,
        attn_tp_size=case["gpus_a_rank"],
        attn_dp_rank=0,
        tp_group=SimpleNamespace(cpu_group=None),
    )
    if not NEWER:
        batches.get_attention_tp_size = lambda: case["gpus_a_rank"]
        batches.get_attention_dp_rank = attention.get_attention_dp_rank = lambda: 0
        attention.get_attention_dp_size = lambda: ranks
        batches.set_dp_buffer_len = batches.set_is_extend_in_batch = lambda *args, **named: None
        return
    reduce = object.__new__(attention.CustomAllReduceV2)
    reduce.disabled, reduce.max_size = False, case["sums_up_to"] * HIDDEN * WIDTH
    parallel.tp_group.ca_comm = reduce
    flags = SimpleNamespace(
        dp=SimpleNamespace(
            use_world_group_for_gather=False,
            joiner_skip_all_gather=False,
            scoped_gather_slot=None,
            max_len_with_idle=False,
            buffer_hidden_size=HIDDEN,
            buffer_dtype=torch.bfloat16,
            prefill_graph_has_rank_barrier=False,
        )
    )
    graphs = SimpleNamespace(prefill=SimpleNamespace(bs=case["pieces"] or None))
    execution = SimpleNamespace(
        graph=SimpleNamespace(cuda_graph_config=graphs),
        overlap=SimpleNamespace(enable_two_batch_overlap=False),
    )
    backend = Backends(case["sends_tokens"])
    experts.get_moe_a2a_backend = lambda: backend
    agreement.get_moe_a2a_backend = lambda: backend
    agreement.get_exec = batches.get_exec = lambda: execution
    agreement.get_memory = lambda: SimpleNamespace(enable_hisparse=False)
    agreement.get_cp_strategy = lambda: None
    agreement.uses_ssm_state = lambda config: False
    attention.get_parallel = batches.get_parallel = lambda: parallel
    attention.get_flags = lambda: flags
    attention.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
    batches.set_dp_buffer_len_from_batch = batches.set_is_extend_in_batch = lambda *args: None
    batches.mambaish_config = lambda config: None


MODES = {"idle": ForwardMode.IDLE, "prompts": ForwardMode.EXTEND, "decodes": ForwardMode.DECODE}


def runner_of(case):
    """The runner of prefill graphs as far as `can_replay_locally` asks of it."""
    if not case["pieces"]:
        return None
    runner = object.__new__(PrefillCudaGraphRunner)
    known = {
        "capture_num_tokens": case["pieces"],
        "max_num_tokens": case["pieces"][-1],
        "prefill_backend_name": Backend.BREAKABLE,
        "_is_full_backend": False,
        "_qwen_bcg_hc_sidechannel": False,
        "_qwen_bcg_mtp_draft": False,
        "_captured_attn_metadata_max_bs": None,
        "has_mha_companion_layers": False,
        "_capture_chunked_prefix": False,
        "capture_hidden_mode": 0,
        "max_context_size": None,
        "max_seq_len": None,
        "enable_lora": False,
        "_backend_vote_prefill_cuda_graph": None,
    }
    for key, value in known.items():
        setattr(runner, key, value)
    return runner


def votes(case):
    """What all make of each rank's votes: decode graphs, prefill graphs."""
    runner = runner_of(case)
    of_decodes, of_prompts = [], []
    for kind, tokens in case["brought"]:
        local = None
        if kind != "idle":
            local = SimpleNamespace(
                forward_mode=MODES[kind],
                batch_size=lambda tokens=tokens, kind=kind: tokens if kind == "decodes" else 1,
                input_embeds=None,
                replace_embeds=None,
                prefix_lens=[0],
                return_logprob=False,
                has_grammar=False,
                reqs=[],
                multimodal_inputs=None,
                seq_lens_cpu=None,
            )
        of_decodes.append(agreement._local_decode_cuda_graph_vote(local_batch=local, disable_cuda_graph=False))
        of_prompts.append(
            agreement._local_prefill_cuda_graph_vote(
                local_batch=local,
                num_tokens=tokens,
                prefill_graph_runner=runner,
                coordinated_prefill=bool(case["pieces"]),
                breakable_prefill=bool(case["pieces"]),
                spec_algorithm=SpeculativeAlgorithm.NONE,
                model_config=None,
            )
        )
    return min(of_decodes), min(of_prompts)


def decide(case):
    brought = case["brought"]
    stand_in(case, len(brought))
    tokens = [count for _, count in brought]
    extends = any(kind == "prompts" for kind, _ in brought)
    can_decode, can_prefill = votes(case) if NEWER else (not extends, False)
    largest = max(tokens)
    if can_decode and case["decodes"] and largest <= case["decodes"][-1]:
        batch = min(size for size in case["decodes"] if size >= largest)
        sizes = [[batch] * len(brought)] if NEWER else []
        mode = attention.DpPaddingMode.get_default_mode_in_cuda_graph(*sizes)
        return {"replays": "decodes", "tokens": batch * len(brought), "moved": moved(mode)}
    found = None
    for kind, count in brought:
        rows = torch.zeros(max(count, 0), dtype=torch.int64)
        requests = rows if kind == "decodes" else rows[: 0 if kind == "idle" else 1]
        batch = SimpleNamespace(
            forward_mode=MODES[kind],
            global_num_tokens_cpu=list(tokens),
            global_num_tokens_for_logprob_cpu=[0] * len(tokens),
            is_extend_in_batch=extends,
            can_run_dp_prefill_cuda_graph=can_prefill,
            dp_spec_prefill_coordination_applied=False,
            batch_size=len(requests),
            seq_lens=requests,
            seq_lens_cpu=None,
            orig_seq_lens=requests,
            spec_info=None,
            global_num_token_non_padded=None,
            positions=rows,
            input_ids=rows,
            global_num_tokens_gpu=torch.zeros(len(tokens), dtype=torch.int64),
            _original_forward_mode=None,
            _pad_inputs_to_size=lambda runner, padded, requests: None,
            _pad_tensor_to_size=lambda tensor, size, value=0: tensor,
            tbo_children=None,
            tbo_split_seq_index=None,
            encoder_lens=None, extend_seq_lens=None, mrope_positions=None, out_cache_loc=rows, req_pool_indices=rows,
            seq_lens_sum=0, lora_ids=None, mamba_track_indices=None, mamba_track_mask=None, mamba_track_seqlens=None,
            token_ids_logprobs=None, extend_prefix_lens=None, extend_logprob_start_lens_cpu=None, extend_seq_lens_cpu=None,
            extend_prefix_lens_cpu=None,
        )
        model = SimpleNamespace(
            model_config=SimpleNamespace(hf_config=SimpleNamespace()),
            is_draft_worker=False,
            attn_tp_sequence_sharded=lambda tokens: False,
            attn_backend=SimpleNamespace(
                late_layer_num_tokens=lambda batch: None, get_cuda_graph_seq_len_fill_value=lambda: 1,
                get_cpu_graph_seq_len_fill_value=lambda: 1,
            ),
        )
        ForwardBatch.prepare_mlp_sync_batch(batch, model)
        replays = False
        if NEWER and case["pieces"]:
            replays = (
                batch.forward_mode.is_extend()
                and can_prefill
                and not PrefillCudaGraphRunner._has_inactive_dp_rank(runner_of(case), batch)
            )
        answer = {
            "replays": "pieces" if replays else "nothing",
            "tokens": batch.global_dp_buffer_len,
            "moved": moved(batch.dp_padding_mode),
        }
        assert found in (None, answer), (case, found, answer)
        found = answer
    return found


def moved(mode):
    return "scattered" if mode.is_max_len() else "summed"


def main():
    count, seed, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    cases = []
    for index in range(count):
        case = draw(random.Random(seed + index))
        cases.append({**case, **decide(case)})
    with open(out, "w") as file:
        file.write('{"engine": "sglang", "version": "%s", "cases": [\n' % VERSION)
        file.write(",\n".join(json.dumps(case) for case in cases))
        file.write("\n]}\n")


main()
