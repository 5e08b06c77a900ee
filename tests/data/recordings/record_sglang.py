#!/usr/bin/env python3
"""Records schedules of SGLang's own scheduler on a virtual clock, without a GPU and without a model.

The scheduler is SGLang's and unmodified: its loop (normal or overlap), queue policies, admission, radix cache, retraction, allocators
and the processing of results. Ours are a model worker that returns a token without computing anything, a clock that a step moves by a
linear law, and a subclass of the scheduler whose wrappers call the real method and write down what came of it. A recording's `driver`
says so, too. `README.md` beside this file tells how to set it up and what the files hold.

    record_sglang.py OUT CASE.json…            runs each case (`params`, `cost`, `requests`, `engine_state.overlap`) into OUT
    record_sglang.py --check FILE.json…        runs each recording's case again and compares with what it holds
    record_sglang.py --random COUNT SEED OUT   draws cases, the first from SEED, the next from SEED + 1…, and records them
    record_sglang.py --random-drafts COUNT SEED OUT   the same with chains of drafts (0.5.23, `sglang_drafts.py`)
    record_sglang.py --random-trees COUNT SEED OUT    the same with trees of drafts
"""

import contextlib
import importlib.metadata
import json
import os
import random
import socket
import sys
import tempfile
import traceback
import warnings
from array import array

import sglang_drafts
from common import COST, by_arrival, duration, read, replace_missing, written_to

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TORCHDYNAMO_DISABLE"] = "1"
warnings.simplefilter("ignore")

# Packages that SGLang imports at start-up and that no scheduling touches; they are replaced where they are not installed.
REPLACED = {"torchvision", "sgl_kernel", "outlines", "torchao", "torchaudio", "sentence_transformers"}
TOKEN, EOS = 7, 2
# The engine refuses prompts of the longest request less so many tokens, by a request of one token in its place.
DOOR = 6
SPINS_MAX = 1000
FIRST_SEGMENT_TOKEN = 1000


replace_missing(REPLACED)

import torch  # noqa: E402

torch.set_num_threads(1)

import sglang.srt.managers.scheduler as scheduler_module  # noqa: E402
from sglang.srt.managers.io_struct import TokenizedGenerateReqInput  # noqa: E402
from sglang.srt.managers.scheduler import Scheduler  # noqa: E402
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402
from sglang.srt.server_args import PortArgs, ServerArgs  # noqa: E402

VERSION = importlib.metadata.version("sglang")
NEWER = VERSION != "0.5.4"


class Done(Exception):
    """Nothing is left to serve."""


class Clock:
    """Virtual time. The host takes none; forwards run one after the other."""

    def __init__(self):
        self.now = 0.0
        self.gpu_free = 0.0


class CpuEvent:
    """Stands for a CUDA event; waiting is left to the recorder, which knows when each forward ends."""

    def __init__(self, *args, **named):
        pass

    def record(self, *args, **named):
        pass

    def synchronize(self):
        pass

    def wait(self, *args, **named):
        pass

    def query(self):
        return True


class CpuStream:
    """Stands for a CUDA stream."""

    def __init__(self, *args, **named):
        pass

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def record_event(self, *args):
        return CpuEvent()


class CpuDevice:
    """Stands for `torch.cuda` where the scheduler asks for streams and events."""

    Event = CpuEvent
    Stream = CpuStream
    StreamContext = staticmethod(lambda stream: contextlib.nullcontext())

    @staticmethod
    def stream(stream):
        return contextlib.nullcontext()

    @staticmethod
    def current_stream(*args):
        return CpuStream()

    @staticmethod
    def synchronize(*args):
        pass

    @staticmethod
    def set_device(*args):
        pass

    @staticmethod
    def empty_cache():
        pass


class Nothing:
    """An object all of whose attributes are missing features: None, or a no-op that returns None."""

    def __init__(self, **known):
        self.__dict__.update(known)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Unchanged:
    """Stands for what only some models need between the decision and the forward."""

    def prepare_for_forward(self, batch, **named):
        return batch


class NullSocket:
    def send_output(self, *args, **named):
        pass

    def send_pyobj(self, *args, **named):
        pass


class Worker:
    """A model worker that computes nothing: token 7, or the end-of-sequence token where a request is to end."""

    def __init__(self, recorder, runner):
        self.recorder = recorder
        self.model_runner = runner
        self.model_config = runner.model_config
        self.is_hybrid_swa = False
        self.sliding_window_size = None
        self.weight_load_time = 0.0
        self.graph_time_usage = {}
        self.last_shared_read_runner = runner
        self.max_running_requests = recorder.params["max_running_requests"]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def get_memory_pool(self):
        return self.model_runner.req_to_token_pool, self.model_runner.token_to_kv_pool_allocator

    def get_pad_input_ids_func(self):
        return None

    def is_dllm(self):
        return False

    def forward_batch_generation(self, batch, *args, on_publish=None, **named):
        return self.recorder.forward(batch, on_publish)

    def on_verify_complete_cpu(self, *args, **named):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def model_folder():
    """A model's configuration, for the vocabulary and the end-of-sequence token; there are no weights."""
    folder = tempfile.mkdtemp(prefix="record-sglang-")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "vocab_size": 1_000_000_000, "max_position_embeddings": 10_000_000, "bos_token_id": 1, "eos_token_id": EOS,
        "torch_dtype": "bfloat16",
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    return folder


class Recorder:
    """One case: its requests, its clock and what was written down."""

    def __init__(self, case):
        self.case = case
        self.params = case["params"]
        self.cost = case["cost"]
        self.overlap = case["engine_state"]["overlap"]
        self.clock = Clock()
        self.steps = []
        self.retracted = []
        self.ends = {}
        self.idle_passes = self.spins = 0
        self.aborted = []
        self.segments = {}
        self.next_token = FIRST_SEGMENT_TOKEN
        self.drafts = sglang_drafts.Drafts(case) if self.params.get("speculative") else None
        self.requests = {request["id"]: request for request in case["requests"]}
        self.arrivals = by_arrival(case["requests"])
        self.sent = 0
        self.first = {}
        self.last = {}
        self.cached = {}
        self.preempted = {}
        self.live = {}
        self.finish = {}
        self.total_cached = {}
        # Segments are numbered before the run; equal names are equal tokens, whatever length is used of them.
        longest = {}
        for request in case["requests"]:
            for name, tokens in request["prompt"]:
                longest[name] = max(longest.get(name, 0), tokens)
        for name, tokens in longest.items():
            if name != "OUT":
                self.segments[name] = self.next_token
                self.next_token += tokens

    def prompt(self, request):
        ids = []
        for name, tokens in request["prompt"]:
            if name == "OUT":
                ids.extend([TOKEN] * tokens)
            else:
                base = self.segments[name]
                ids.extend(range(base, base + tokens))
        return ids

    def arrived(self):
        """Whoever has arrived since the last call, as the tokenizer would send them."""
        messages = []
        while self.sent < len(self.arrivals) and self.arrivals[self.sent]["arrival_s"] <= self.clock.now:
            messages.append(self.message(self.arrivals[self.sent]))
            self.sent += 1
        return messages

    def message(self, request):
        sampling = SamplingParams(
            max_new_tokens=request["max_new_tokens"], ignore_eos=request["ignore_eos"], temperature=0.0
        )
        sampling.normalize(None)
        ids = self.prompt(request)
        named = dict(
            rid=str(request["id"]), input_text="", input_ids=array("q", ids) if NEWER else ids,
            mm_inputs=None, sampling_params=sampling, return_logprob=False, logprob_start_len=-1, top_logprobs_num=0,
            token_ids_logprob=None, stream=True,
        )
        if NEWER:
            named.update(input_embeds=None, token_type_ids=None)
        if self.params.get("enable_priority_scheduling"):
            named.update(priority=request.get("priority", 0))
        return TokenizedGenerateReqInput(**named)

    def shares(self, batch):
        """(id, tokens with KV before, tokens computed) in the batch's order."""
        ids = [int(req.rid) for req in batch.reqs]
        if batch.forward_mode.is_decode() and self.drafts:
            return [[id, req.kv.kv_committed_len, self.drafts.tokens] for id, req in zip(ids, batch.reqs)]
        if batch.forward_mode.is_decode():
            return [[id, int(length) - 1, 1] for id, length in zip(ids, batch.seq_lens_cpu.tolist())]
        return [[id, int(kv), int(n)] for id, kv, n in zip(ids, batch.prefix_lens, batch.extend_lens)]

    def forward(self, batch, on_publish):
        """The model: moves the clock and returns the tokens."""
        step = self.steps[-1]
        shares = step["scheduled"]
        is_verified = self.drafts is not None and batch.forward_mode.is_decode()
        if is_verified:
            # What the verification in flight brings is known on the device alone, and there it is computed behind that.
            shares = [[id, int(length), n] for (id, _, n), length in zip(shares, batch.seq_lens.tolist())]
        seconds = duration(self.cost, shares)
        begin = max(self.clock.now, self.clock.gpu_free)
        self.clock.gpu_free = begin + seconds
        if not self.overlap:
            self.clock.now = self.clock.gpu_free
        if self.overlap:
            step["gpu_start"] = round(begin, 9)
        step["dt"] = round(seconds, 9)
        result = scheduler_module.GenerationBatchResult(logits_output=Nothing())
        lengths = self.drafts.lengths([id for id, _, _ in shares]) if is_verified else [1] * len(shares)
        tokens = []
        for (id, kv, n), length in zip(shares, lengths):
            if is_verified:
                tokens += [self.token(id, kv + 1 + at) for at in range(length)] + [TOKEN] * (n - length)
            else:
                tokens.append(self.token(id, kv + n))
        result.next_token_ids = torch.tensor(tokens, dtype=torch.int64)
        if self.drafts:
            result.new_seq_lens = batch.seq_lens
            result.next_draft_input = self.drafts.next_input(len(shares))
        if is_verified:
            result.accept_lens = torch.tensor(lengths, dtype=torch.int32)
            result.speculative_num_draft_tokens = self.drafts.tokens
            result.new_seq_lens = batch.seq_lens + result.accept_lens
        if on_publish is not None and self.drafts:
            on_publish(result.new_seq_lens)
        self.ends[id_of(result)] = (self.clock.gpu_free, result)
        return result

    def token(self, id, known):
        """What a request gets behind so many tokens: the end of its text where that is its end."""
        request, req = self.requests[id], self.live.get(id)
        if req is None:
            return TOKEN
        at = known - len(req.origin_input_ids) + 1
        ends = at == request["output_tokens"] and at < req.sampling_params.max_new_tokens
        return EOS if ends and not request["ignore_eos"] else TOKEN

    def processed(self, result):
        """The result of a forward is waited for: the clock goes to its end."""
        end, _ = self.ends.pop(id_of(result))
        self.clock.now = max(self.clock.now, end)

    def passed(self, scheduler, batch, running):
        """`get_next_batch_to_run` has returned."""
        retracted, self.retracted = self.retracted, []
        if batch is None and running.is_empty():
            return
        tree = scheduler.tree_cache
        # Without a radix cache there is no tree whose tokens could be protected; 0.5.4 counts some none the less.
        is_tree = not self.params["disable_radix_cache"]
        tokens = lambda value: int(getattr(value, "full", value)) if is_tree else 0  # noqa: E731
        mode = "none" if batch is None else mode_of(batch)
        step = {"t": round(self.clock.now, 9)}
        if self.overlap:
            step["gpu_start"] = round(self.clock.now, 9)
        step.update(
            dt=0.0, mode=mode, scheduled=[] if batch is None else self.shares(batch), preempted=retracted,
            free_blocks=int(scheduler.token_to_kv_pool_allocator.available_size()) // self.params["page_size"],
            evictable=tokens(tree.evictable_size()), protected=tokens(tree.protected_size()),
            running=len(running.reqs), waiting=len(scheduler.waiting_queue), full=int(running.batch_is_full),
            ratio=round(ratio_of(scheduler), 6),
        )
        if scheduler.chunked_req is not None:
            step["chunked"] = int(scheduler.chunked_req.rid)
        if self.params["schedule_policy"] == "random":
            step["waiting_ids"] = [int(req.rid) for req in scheduler.waiting_queue]
        for id, kv, _ in step["scheduled"]:
            self.cached.setdefault(id, kv)
        self.steps.append(step)

    def queued(self, req, is_retracted):
        id = int(req.rid)
        if is_retracted:
            self.retracted.append(id)
            self.preempted[id] = self.preempted.get(id, 0) + 1
        self.live[id] = req

    def look(self):
        """After a result was processed: who has a first token, and who has ended."""
        for id, req in list(self.live.items()):
            if req.output_ids and id not in self.first:
                self.first[id] = self.clock.now
            if req.finished():
                self.last[id] = self.clock.now
                self.finish[id] = req.finished_reason.to_json()["type"]
                self.total_cached[id] = int(req.cached_tokens)
                del self.live[id]
                if self.finish[id] == "abort":
                    self.aborted.append(id)

    def idle(self, scheduler):
        """A pass that runs nothing. If somebody waits, the loop goes round again at once."""
        self.idle_passes += 1
        if scheduler.waiting_queue or scheduler.chunked_req is not None:
            self.spins += 1
            if self.spins > SPINS_MAX:
                raise RuntimeError("the engine waits for ever: somebody waits and nothing runs")
            return
        self.spins = 0
        if self.sent == len(self.arrivals):
            raise Done
        self.clock.now = max(self.clock.now, self.arrivals[self.sent]["arrival_s"])

    def recording(self, scheduler):
        results = []
        for request in self.arrivals:
            id = request["id"]
            if id not in self.last or self.finish[id] == "abort":
                continue
            results.append({
                "id": id, "cached_tokens": self.cached[id], "first_token_s": round(self.first[id], 9),
                "last_token_s": round(self.last[id], 9), "preemptions": self.preempted.get(id, 0),
                "finish": self.finish[id], "total_cached_tokens": self.total_cached[id],
            })
        loop = "event_loop_overlap" if self.overlap else "event_loop_normal"
        policy = scheduler.policy.policy
        state = {
            "tree_cache": type(scheduler.tree_cache).__name__,
            "allocator": type(scheduler.token_to_kv_pool_allocator).__name__,
            "policy": f"{type(policy).__name__}.{policy.name}", "eviction": "lru", "overlap": self.overlap,
            "idle_passes": self.idle_passes,
            # Those of which nothing more came, too: the last one to decode, where even it finds no memory.
            "aborted": self.aborted + [request["id"] for request in self.arrivals if request["id"] not in self.last],
        }
        recording = {"case": self.case["case"], "engine": f"sglang@{VERSION}", "driver": driver(loop, self.drafts)}
        recording.update(
            params=self.params, engine_state=state, cost=self.cost, fields=FIELDS, requests=self.case["requests"],
            steps=self.steps, results=results,
        )
        return recording


FIELDS = {
    "steps": "state right after get_next_batch_to_run, before the forward: t clock, gpu_start/dt the forward, mode "
    "extend|decode|mixed|none (none: no batch, though requests run), scheduled [id, KV tokens already there, tokens "
    "computed], preempted = retracted in this pass, free_blocks = free pages, evictable/protected tokens of the tree, running = "
    "running_batch (a new extend batch joins it one pass later), waiting, full = batch_is_full, ratio = new_token_ratio, chunked = "
    "partially prefilled request (absent: none), waiting_ids = queue order after the pass (random policy only)",
    "results": "cached_tokens = prefix hit of the first admission, total_cached_tokens = SGLang's own cached_tokens",
}


def driver(loop, drafts):
    ours = "" if drafts is None else ", how many drafts stand (sglang_drafts.py), kernels that fill rows of the table"
    return {
        "real": f"sglang {VERSION}, unmodified, on a CPU: the Scheduler with {loop}, its policies, admission, batches, result "
        "processing, tree cache and allocators",
        "ours": "tests/data/recordings/record_sglang.py of Plimsoll: model worker, virtual clock, pool and table sizes, arrivals, null "
        f"sockets{ours}",
    }


def id_of(result):
    return id(result.next_token_ids)


def mode_of(batch):
    mode = batch.forward_mode
    return "decode" if mode.is_decode() else "mixed" if mode.is_mixed() else "extend"


def ratio_of(scheduler):
    tracker = getattr(scheduler, "new_token_ratio_tracker", None)
    return tracker.current if tracker is not None else scheduler.new_token_ratio


def server_arguments(params, overlap):
    named = dict(
        model_path=MODEL, skip_tokenizer_init=True, device="cpu", load_format="dummy",
        attention_backend=sglang_drafts.backend_of(params), disable_cuda_graph=True, mem_fraction_static=0.5,
        watchdog_timeout=1e9, page_size=params["page_size"],
        max_total_tokens=params["kv_pool_tokens"], chunked_prefill_size=params["chunked_prefill_size"],
        max_prefill_tokens=params["max_prefill_tokens"], max_running_requests=params["max_running_requests"],
        schedule_policy=params["schedule_policy"], schedule_conservativeness=params["schedule_conservativeness"],
        disable_radix_cache=params["disable_radix_cache"], enable_mixed_chunk=params["enable_mixed_chunk"],
        context_length=params["context_length"], disable_overlap_schedule=not overlap,
    )
    for optional in (
        "enable_priority_scheduling", "schedule_low_priority_values_first", "priority_scheduling_preemption_threshold",
        "prefill_decode_interval", "prefill_max_requests",
    ):
        if params.get(optional) is not None:
            named[optional] = params[optional]
    named.update(sglang_drafts.flags(params))
    return ServerArgs(**named)


def pools(recorder):
    """The table of requests, the KV pool (of one value a token) and its allocator."""
    params = recorder.params
    page, tokens, context = params["page_size"], params["kv_pool_tokens"], params["context_length"]
    kv = MHATokenToKVPool(
        size=tokens, page_size=page, dtype=torch.bfloat16, head_num=1, head_dim=2, layer_num=1, device="cpu",
        enable_memory_saver=False,
    )
    table = ReqToTokenPool(
        size=params["max_running_requests"], max_context_len=context + sglang_drafts.row_beyond_context(params), device="cpu",
        enable_memory_saver=False,
    )
    return table, kv, allocator(kv, tokens, page)


class Wrapped(Scheduler):
    """SGLang's scheduler over our worker, with a wrapper around each method that the recorder looks at."""

    recorder = None

    def process_batch_result(self, batch, result, *args, **named):
        self.recorder.processed(result)
        super().process_batch_result(batch, result, *args, **named)
        self.recorder.look()

    def _add_request_to_queue(self, req, is_retracted=False):
        again = int(req.rid) in self.recorder.live
        self.recorder.queued(req, again)
        return super()._add_request_to_queue(req, is_retracted)


class Scheduler23(Wrapped):
    """SGLang 0.5.23."""

    def init_model_worker(self):
        from sglang.srt.runtime_context import get_context, get_parallel

        params = self.recorder.params
        tokens, rows, context = params["kv_pool_tokens"], params["max_running_requests"], params["context_length"]
        table, kv, free = pools(self.recorder)
        runner = Nothing(
            req_to_token_pool=table, token_to_kv_pool=kv, token_to_kv_pool_allocator=free, device="cpu", is_hybrid_swa=False,
            model_config=self.model_config, attn_backend=Nothing(needs_cpu_seq_lens=True), mtp_draft_device_pools=(),
            mtp_draft_mamba_pools=(), ngram_embedding_manager=Unchanged(), spec_algorithm=self.spec_algorithm,
        )
        self.tp_worker = self.model_worker = Worker(self.recorder, runner)
        self.draft_worker = self.external_corpus_manager = self.min_free_slots_delayer = None
        self.kv_cache_allocation_time = 0.0
        self.schedule_stream = self.forward_stream = CpuStream()
        self.max_total_num_tokens, self.max_running_requests = tokens, rows
        self.max_prefill_tokens = params["max_prefill_tokens"]
        self.max_queued_requests = params.get("max_queued_requests")
        self.max_req_len = min(context - 1, tokens - 1)
        self.max_req_input_len = self.max_req_len - 5
        self.random_seed, self.device = 0, "cpu"
        self._war_barrier_enabled = False
        get_context().override("recorder", pp_max_micro_batch_size=rows)
        for name in ("tp_group", "attn_tp_group", "attn_cp_group", "pp_group", "world_group"):
            group = getattr(get_parallel(), name)
            setattr(self, name, group)
            setattr(self, name.replace("_group", "_cpu_group"), group.cpu_group)
        self.dp_tp_group = scheduler_module.get_dp_tp_group()
        self.dp_tp_cpu_group = self.dp_tp_group.cpu_group

    def init_ipc_channels(self, port_args):
        self.ipc_channels = Nothing(send_to_tokenizer=NullSocket(), send_to_detokenizer=NullSocket())
        self.load_snapshot_writer = None
        self.recv_from_tokenizer = None

    def init_overlap(self):
        super().init_overlap()
        self.device_module = CpuDevice
        self.forward_stream_ctx = self.copy_stream_ctx = contextlib.nullcontext()
        self.copy_stream = CpuStream()

    def ingest_requests(self, *args, **named):
        self.process_input_requests(self.recorder.arrived())
        return []

    def get_next_batch_to_run(self, *args, **named):
        plan = super().get_next_batch_to_run(*args, **named)
        self.recorder.passed(self, plan.batch_to_run, plan.running_batch)
        return plan

    def on_idle(self):
        super().on_idle()
        self.recorder.idle(self)


class Scheduler54(Wrapped):
    """SGLang 0.5.4."""

    def init_sockets(self, server_args, port_args):
        self.idle_sleeper = self.recv_from_tokenizer = self.recv_from_rpc = None
        self.send_to_tokenizer = self.send_to_detokenizer = self.send_metrics_from_scheduler = NullSocket()

    def recv_requests(self):
        return self.recorder.arrived()

    def get_next_batch_to_run(self):
        batch = super().get_next_batch_to_run()
        self.recorder.passed(self, batch, self.running_batch)
        return batch

    def self_check_during_idle(self):
        super().self_check_during_idle()
        self.recorder.idle(self)


class Worker54(Worker):
    """A model worker as 0.5.4's scheduler makes it."""

    recorder_now = None

    def __init__(self, server_args, **named):
        recorder = Worker54.recorder_now
        from sglang.srt.configs.model_config import ModelConfig

        table, kv, free = pools(recorder)
        runner = Nothing(
            req_to_token_pool=table, token_to_kv_pool=kv, token_to_kv_pool_allocator=free,
            model_config=ModelConfig.from_server_args(server_args), device="cpu",
        )
        super().__init__(recorder, runner)
        self.is_hybrid = False

    def get_worker_info(self):
        params = self.recorder.params
        tokens, rows, context = params["kv_pool_tokens"], params["max_running_requests"], params["context_length"]
        longest = min(context - 1, tokens - 1)
        return (
            tokens, params["max_prefill_tokens"], rows, params.get("max_queued_requests"), longest, longest - 5, 0, "cpu", rows,
            context + 4, tokens,
        )

    def get_tp_group(self):
        return scheduler_module.get_world_group()

    get_attention_tp_group = get_tp_group

    def get_attention_tp_cpu_group(self):
        return self.get_tp_group().cpu_group


class Launched:
    """Stands for a Triton kernel, which needs a GPU: the same effect in Python."""

    def __init__(self, effect):
        self.effect = effect

    def __getitem__(self, grid):
        return self.effect


def alloc_extend(pre_lens, seq_lens, last_loc, free_page, out_indices, batch_bound, page, most):
    """Tokens of each request: first what is left of its last page, then whole pages in the order of the free list."""
    at = pages = 0
    for before, after, last in zip(pre_lens.tolist(), seq_lens.tolist(), last_loc.tolist()):
        for position in range(before, after):
            if position % page == 0:
                if pages == len(free_page):
                    return
                last = int(free_page[pages]) * page
                pages += 1
            else:
                last += 1
            out_indices[at] = last
            at += 1


def alloc_decode(seq_lens, last_loc, free_page, out_indices, batch_bound, page):
    """One token of each request: the next of its page, or the first of a free one."""
    pages = 0
    for at, (length, last) in enumerate(zip(seq_lens.tolist(), last_loc.tolist())):
        if (length - 1) % page == 0:
            if pages == len(free_page):
                return
            out_indices[at] = int(free_page[pages]) * page
            pages += 1
        else:
            out_indices[at] = last + 1


def scheduler_54(arguments, recorder):
    import sglang.srt.managers.tp_worker as tp_worker
    import sglang.srt.mem_cache.allocator as allocators
    from sglang.srt.distributed.parallel_state import init_distributed_environment, initialize_model_parallel
    from sglang.srt.server_args import set_global_server_args_for_scheduler

    set_global_server_args_for_scheduler(arguments)
    torch.get_device_module = lambda *device: CpuDevice
    scheduler_module.StreamContext = CpuDevice.StreamContext
    init_distributed_environment(
        world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=f"tcp://127.0.0.1:{free_port()}"
    )
    initialize_model_parallel()
    Worker54.recorder_now = recorder
    tp_worker.TpModelWorker = Worker54
    allocators.alloc_extend_kernel = Launched(alloc_extend)
    allocators.alloc_decode_kernel = Launched(alloc_decode)
    return Scheduler54(arguments, PortArgs.init_new(arguments), 0, 0, 0, 0, None)


def scheduler_23(arguments, recorder):
    from sglang.srt.runtime_context import SpawnRanks, publish

    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0))
    return Scheduler23(arguments, PortArgs.init_new(arguments))


def allocator(kv, tokens, page):
    if page == 1:
        from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator

        return TokenToKVPoolAllocator(tokens, dtype=torch.bfloat16, device="cpu", kvcache=kv, need_sort=False)
    from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator

    return PagedTokenToKVPoolAllocator(
        tokens, page_size=page, dtype=torch.bfloat16, device="cpu", kvcache=kv, need_sort=False
    )


def record(case):
    """Runs one case; a process can hold one scheduler."""
    recorder = Recorder(case)
    Wrapped.recorder = recorder
    if recorder.drafts:
        if not NEWER:
            raise ValueError("drafts are recorded of 0.5.23 only")
        sglang_drafts.overlap_anywhere()
        sglang_drafts.without_kernels()
    arguments = server_arguments(recorder.params, recorder.overlap)
    scheduler = (scheduler_23 if NEWER else scheduler_54)(arguments, recorder)
    with contextlib.suppress(Done):
        (scheduler.event_loop_overlap if recorder.overlap else scheduler.event_loop_normal)()
    return recorder.recording(scheduler)


def forked(case):
    """Runs a case in a child process and returns its recording, or what went wrong in words."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            answer = json.dumps(record(case))
        except BaseException:
            answer = json.dumps({"error": traceback.format_exc()})
        with os.fdopen(into, "w") as file:
            file.write(answer)
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as file:
        answer = file.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else {"error": "the child process died"}


def compare(old, new):
    """The first difference in words, or nothing."""
    for index, (was, is_now) in enumerate(zip(old["steps"], new["steps"])):
        for key in was:
            a, b = was[key], is_now.get(key)
            close = 1.1e-6 if key == "ratio" else 2e-9
            equal = abs(a - b) < close if isinstance(a, float) and isinstance(b, (int, float)) else a == b
            if not equal:
                return f"step {index}: {key}: recorded {a}, now {b}\n  {was}\n  {is_now}"
        if set(is_now) - set(was):
            return f"step {index}: new keys {set(is_now) - set(was)}"
    if len(old["steps"]) != len(new["steps"]):
        return f"{len(old['steps'])} steps recorded, now {len(new['steps'])}"
    for was, is_now in zip(old["results"], new["results"]):
        for key in was:
            a, b = was[key], is_now.get(key)
            if (abs(a - b) > 2e-9) if isinstance(a, float) else a != b:
                return f"result: {key}: recorded {was}, now {is_now}"
    if len(old["results"]) != len(new["results"]):
        return f"{len(old['results'])} results recorded, now {len(new['results'])}"
    return None


def random_case(name, seed):
    """A case drawn at random: every flag and every kind of traffic that the simulator knows, small enough to be short of something."""
    rng = random.Random(seed)
    page = rng.choice([1, 1, 1, 1, 2, 4, 16, 16, 64])
    chunk = rng.choice([-1, 16, 32, 64, 128, 256, 512, 2048])
    chunk = chunk if chunk < 0 else max(chunk // page, 1) * page
    is_long = rng.random() < 0.3
    longest_prompt = rng.choice([40, 200, 800] if not is_long else [1500, 3000])
    longest_output = rng.choice([1, 4, 20, 60, 150])
    count = rng.choice([20, 40, 60, 100] if longest_output > 20 else [40, 100, 200])
    requests = random_requests(rng, count, longest_prompt, longest_output)
    most = max(sum(n for _, n in r["prompt"]) for r in requests)
    need = most + longest_output + 4 * page + DOOR + 8
    pool = int(need * rng.choice([1.05, 1.3, 2, 3, 5, 10, 40]))
    nearest = most + DOOR + 2 * page + 4
    context = rng.choice([8192, 8192, nearest, nearest + longest_output // 2, nearest + longest_output])
    params = {
        "page_size": page, "kv_pool_tokens": -(-pool // page) * page, "chunked_prefill_size": chunk,
        "max_prefill_tokens": rng.choice([16384, 16384, 64, 300, 1000]),
        "max_running_requests": rng.choice([1, 2, 3, 5, 8, 16, 48, 48, 256]),
        "schedule_policy": rng.choice(["fcfs", "fcfs", "lpm", "lpm", "dfs-weight", "lof", "random"]),
        "schedule_conservativeness": rng.choice([0.0, 0.1, 0.3, 0.3, 1.0, 1.0, 1.4]),
        "disable_radix_cache": rng.random() < 0.15, "enable_mixed_chunk": chunk > 0 and rng.random() < 0.25,
        "context_length": max(context, nearest),
    }
    if rng.random() < 0.15:
        params["enable_priority_scheduling"] = True
        params["schedule_policy"] = rng.choice(["fcfs", "lof"])
        params["schedule_low_priority_values_first"] = rng.random() < 0.3
        params["priority_scheduling_preemption_threshold"] = rng.choice([0, 3, 10])
    if NEWER and rng.random() < 0.1:
        params["prefill_decode_interval"] = rng.randint(1, 4)
    if NEWER and rng.random() < 0.1:
        params["prefill_max_requests"] = rng.randint(1, 4)
    return {
        "case": name, "params": params, "cost": COST, "requests": requests, "engine_state": {"overlap": rng.random() < 0.5},
    }


def random_requests(rng, count, longest_prompt, longest_output):
    """Prompts that are unlike, alike in part or wholly, or go on from one another; arrivals at once, in bursts or one by one."""
    kind = rng.choice(["unique", "groups", "groups", "nested", "repeats", "turns", "turns", "cut", "cut"])
    ends = rng.choice(["length", "length", "eos", "either"])
    arrivals = rng.choice(["at once", "poisson", "poisson", "bursts", "gaps"])
    rate = rng.choice([5, 20, 60, 200])
    groups = rng.choice([2, 3, 8])
    length = lambda most: rng.randint(1, max(most, 1))  # noqa: E731
    bases = [(f"g{i}", length(longest_prompt // 2)) for i in range(groups)]
    said = []
    requests, now = [], 0.0
    for id in range(count):
        if arrivals == "poisson":
            now += rng.expovariate(rate)
        elif arrivals == "bursts" and rng.random() < 0.15:
            now += rng.expovariate(1) * rng.choice([0.1, 0.5])
        elif arrivals == "gaps":
            now += rng.choice([0, 0.01, 1.5])
        own = [f"u{id}", length(longest_prompt // 2)]
        if kind == "unique":
            prompt = [[own[0], length(longest_prompt)]]
        elif kind == "groups":
            prompt = [list(rng.choice(bases)), own]
        elif kind == "nested":
            prompt = [[name, max(n // 2, 1)] for name, n in bases[: rng.randint(1, 2)]] + [own]
        elif kind == "repeats":
            prompt = [list(base) for base in rng.sample(bases, 1)]
        elif kind == "cut":
            prompt = [[rng.choice(bases)[0], length(longest_prompt // 2)]]
            if rng.random() < 0.5:
                prompt.append([f"u{rng.randrange(id + 1)}", length(longest_prompt // 3)])
        else:
            prompt = [own]
            if said and rng.random() < 0.7:
                before, output = rng.choice(said[-8:])
                longer = [list(piece) for piece in before] + [["OUT", output]] + [[own[0], length(longest_prompt // 6)]]
                if sum(n for _, n in longer) <= longest_prompt:
                    prompt = longer
        output = length(longest_output)
        ignore = ends == "length" or (ends == "either" and rng.random() < 0.5)
        most = output if ignore or rng.random() < 0.3 else output + rng.choice([1, 5, 50, 5000])
        said.append((prompt, output))
        requests.append({
            "id": id, "arrival_s": round(now, 6), "prompt": prompt, "output_tokens": output, "max_new_tokens": most,
            "ignore_eos": ignore, "priority": rng.choice([0, 0, 1, 5, 12, 30]),
        })
    return requests


def main(arguments):
    global MODEL
    MODEL = model_folder()
    if arguments[0] in ("--random", "--random-drafts", "--random-trees"):
        count, seed, folder = int(arguments[1]), int(arguments[2]), arguments[3]
        os.makedirs(folder, exist_ok=True)
        for number in range(seed, seed + count):
            case = random_case(f"random_{number}", number)
            if arguments[0] != "--random":
                is_tree = arguments[0] == "--random-trees"
                case = sglang_drafts.drawn(case, random.Random(f"drafts {number}"), is_tree)
            new = forked(case)
            if "error" in new:
                print(f"random_{number}: {new['error']}", flush=True)
                continue
            with open(os.path.join(folder, f"random_{number}.json"), "w") as file:
                json.dump(new, file)
        return
    if arguments[0] == "--check":
        equal = 0
        for path in arguments[1:]:
            old = read(path)
            new = forked(old)
            said = new.get("error") or compare(old, new)
            equal += said is None
            print(f"{path}: {'equal' if said is None else said}", flush=True)
        print(f"{equal} of {len(arguments) - 1} equal")
        return
    folder = arguments[0]
    os.makedirs(folder, exist_ok=True)
    for path in arguments[1:]:
        case = read(path)
        new = forked(case)
        if "error" in new:
            print(f"{path}: {new['error']}", flush=True)
            continue
        with open(written_to(folder, path), "w") as file:
            json.dump(new, file)


if __name__ == "__main__":
    main(sys.argv[1:])
