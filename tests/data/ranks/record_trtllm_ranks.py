#!/usr/bin/env python3
"""Records what TensorRT-LLM's ranks with attention of their own decide together, without a GPU.

The decisions are those of TensorRT-LLM's methods: who gets which of those who wait (`ExecutorRequestQueue._get_from_waiting_queue`,
`_schedule_attention_dp_requests`), whether prompts are put off (`PyExecutor._balance_adp_requests`), and how batches of decodes are padded
and whether they replay a graph (`CUDAGraphRunner._get_padded_batch`, `maybe_get_cuda_graph`). These methods are taken out of sources
whose other code needs its kernels. Ours are the batches, and what the processes of all ranks tell each other.

    record_trtllm_ranks.py PYEXECUTOR COUNT SEED OUT.json

PYEXECUTOR is the folder `tensorrt_llm/_torch/pyexecutor` of 1.2, with `executor_request_queue.py`, `py_executor.py` and
`cuda_graph_runner.py`.
"""

import ast
import bisect
import heapq
import json
import os
import random
import sys
from collections import deque, namedtuple
from types import SimpleNamespace

CAPTURED = [[], [1, 2, 4, 8], [1, 2, 4, 8, 16, 24, 32], [4, 16], [1, 2, 3, 4, 5, 6, 7, 8]]


class Nothing:
    """Stands for whatever these methods name and do not need."""


def methods(folder, file, owner, names):
    """Methods of a class, without the rest of its module."""
    with open(os.path.join(folder, file)) as source:
        tree = ast.parse("from __future__ import annotations\n" + source.read())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner)
    found.body = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert {node.name for node in found.body} == set(names), file
    for node in found.body:
        node.decorator_list = []
    found.bases, found.decorator_list = [], []
    module = ast.Module(body=[tree.body[0], found], type_ignores=[])
    names = {
        "bisect": bisect,
        "heapq": heapq,
        "namedtuple": namedtuple,
        "MambaCacheManager": Nothing,
        "MambaHybridCacheManager": Nothing,
        "CUDA_GRAPH_DUMMY_REQUEST_ID": -1,
        "ResourceManagerType": SimpleNamespace(SPEC_RESOURCE_MANAGER=None),
        "ExpertStatistic": SimpleNamespace(should_record=lambda: False),
    }
    exec(compile(module, file, "exec"), names)
    return names[owner]


def shared(queue, rng):
    ranks, most = rng.choice([2, 3, 4, 8]), rng.choice([1, 4, 16])
    held = [rng.randint(0, most) for _ in range(ranks)]
    length = rng.choice([lambda: 100, lambda: rng.randint(1, 40), lambda: rng.choice([8, 512, 4096])])
    active = [[requests, sum(length() for _ in range(requests))] for requests in held]
    prompts = [length() for _ in range(rng.randint(1, rng.choice([3, 8, 16])))]
    self = object.__new__(queue)
    self.dist = SimpleNamespace(tp_size=ranks)
    self.max_num_active_requests = most
    requests = [SimpleNamespace(input_token_ids=[0] * tokens) for tokens in prompts]
    waiting = deque(
        SimpleNamespace(at=at, request=request, child_req_ids=None) for at, request in enumerate(requests)
    )
    held = [requests for requests, _ in active]
    new = self._get_from_waiting_queue(waiting, ranks * most - sum(held), True, held)
    to = self._schedule_attention_dp_requests(new, held, [tokens for _, tokens in active])
    return {
        "max_batch_size": most,
        "active": active,
        "prompts": prompts,
        "ranks": [[item.at for item in to[rank]] for rank in range(ranks)],
    }


def balanced(executor, rng):
    ranks, most = rng.choice([2, 3, 4]), rng.choice([2, 8])
    case = {
        "max_batch_size": most,
        "timeout_iters": rng.choice([0, 1, 3, 8]),
        "batching_wait_iters": rng.choice([0, 1, 4]),
        "steps": [],
    }
    lacking, full = rng.choice([0.05, 0.3, 0.8]), rng.choice([0.0, 0.1])
    self = object.__new__(executor)
    self.max_batch_size = most
    self.attention_dp_enable_balance = True
    self.attention_dp_time_out_iters = case["timeout_iters"]
    self.attention_dp_batching_wait_iters = case["batching_wait_iters"]
    self.adp_ctx_waiting_iters_count = self.adp_ctx_batching_wait_iters_count = 0
    for _ in range(8):
        at_hand = []
        for _ in range(ranks):
            prompts = 0 if rng.random() < lacking else rng.randint(1, 3)
            decodes = most if rng.random() < full else rng.randint(0 if rng.random() < 0.1 else 1, most - 1)
            at_hand.append([prompts, decodes])
        if not any(prompts for prompts, _ in at_hand):
            # What is put off of nothing cannot be seen; the counters go on.
            at_hand[0][0] = 1
        self.dist = SimpleNamespace(tp_allgather=lambda _: [[*rank, 0] for rank in at_hand])
        own = next(rank for rank in at_hand if rank[0])
        prompts = [SimpleNamespace(get_tokens=lambda _: [0])] * own[0]
        kept = self._balance_adp_requests(prompts, [None] * own[1])
        case["steps"].append({"at_hand": at_hand, "put_off": not kept})
    return case


class Batch:
    def __init__(self, kind, requests):
        self.context_requests = [None] * (kind == "prompts")
        self.generation_requests = [SimpleNamespace(py_draft_tokens=[]) for _ in range(requests)]

    @property
    def batch_size(self):
        return len(self.context_requests) + len(self.generation_requests)

    @property
    def can_run_cuda_graph(self):
        return not self.context_requests


def padded(runner, rng):
    ranks, captured = rng.choice([2, 3, 4, 8]), rng.choice(CAPTURED)
    most = rng.choice([4, 12, 40])
    prompts, idle = rng.choice([0.0, 0.0, 0.3]), rng.choice([0.0, 0.3])

    def batch():
        if rng.random() < idle:
            return ["dummy", 1]
        if rng.random() < prompts:
            return ["prompts", rng.randint(2, 4000)]
        return ["decodes", rng.randint(1, most)]

    brought = [batch() for _ in range(ranks)]
    if rng.random() < 0.2:
        brought = [["decodes", rng.randint(1, most)]] * ranks
    if all(kind == "dummy" for kind, _ in brought):
        brought[0] = ["decodes", rng.randint(1, most)]
    pads = rng.random() < 0.7
    # What a rank with prompts decodes beside them matters to nobody else.
    batches = [Batch(kind, 0 if kind == "prompts" else requests) for kind, requests in brought]
    dummies = SimpleNamespace(add_dummy_requests=lambda *_, **__: [SimpleNamespace()])
    manager = SimpleNamespace(get_resource_manager=lambda name: dummies if name else None)
    runners = []
    for _ in batches:
        self = object.__new__(runner)
        self.enabled, self.padding_enabled = bool(captured), pads
        self.supported_batch_sizes, self.max_supported_batch_size = captured, max(captured, default=0)
        self.padding_dummy_request, self.graphs, self.max_beam_width = None, {}, 1
        self.cuda_graph_meta_buffers = None
        self.get_graph_key = lambda batch, *_: (batch.batch_size, 0)
        self.config = SimpleNamespace(
            enable_attention_dp=True,
            mapping=SimpleNamespace(tp_size=ranks),
            kv_cache_manager_key="kv",
            batch_size=64,
            use_mrope=False,
            max_beam_width=1,
        )
        runners.append(self)

    def told():
        votes = [[batch.can_run_cuda_graph, batch.batch_size] for batch in batches]
        for self in runners:
            self.config.dist = SimpleNamespace(tp_allgather=lambda _: votes)

    told()
    for self, batch in zip(runners, batches):
        self._get_padded_batch(batch, manager, 0)
    told()
    graph = SimpleNamespace(is_cuda_graph=True)
    metadata = SimpleNamespace(create_cuda_graph_metadata=lambda *_: graph)
    replays = [self.maybe_get_cuda_graph(batch, False, metadata)[0] is graph for self, batch in zip(runners, batches)]
    assert len(set(replays)) == 1, "all replay, or nobody does"
    rows = [
        tokens if kind == "prompts" else batch.batch_size for (kind, tokens), batch in zip(brought, batches)
    ]
    return {"captured": captured, "pads": pads, "brought": brought, "replays": replays[0], "tokens": sum(rows)}


def main():
    folder, count, seed, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    queue = methods(
        folder,
        "executor_request_queue.py",
        "ExecutorRequestQueue",
        [
            "_get_from_waiting_queue",
            "_can_process_attention_dp_request",
            "_schedule_attention_dp_requests",
            "_balance_requests_across_ranks",
        ],
    )
    executor = methods(folder, "py_executor.py", "PyExecutor", ["_balance_adp_requests"])
    runner = methods(
        folder,
        "cuda_graph_runner.py",
        "CUDAGraphRunner",
        ["_get_padded_batch", "_round_up_batch_size", "maybe_get_cuda_graph"],
    )
    rng = random.Random(seed)
    kinds = [("shared", shared, queue), ("balanced", balanced, executor), ("padded", padded, runner)]
    with open(out, "w") as file:
        file.write('{"engine": "tensorrt-llm", "version": "1.2"')
        for name, draw, owner in kinds:
            cases = [json.dumps(draw(owner, rng)) for _ in range(count)]
            file.write(f', "{name}": [\n' + ",\n".join(cases) + "\n]")
        file.write("}\n")


if __name__ == "__main__":
    main()
