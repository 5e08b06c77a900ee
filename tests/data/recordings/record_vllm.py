"""Records what vLLM's own scheduler does on a virtual clock, without a GPU and without a model.

    python record_vllm.py CASE.json... OUT_FOLDER

Each CASE.json holds `params`, `requests` and `cost` as in the recordings beside this script (a recording may be given, too:
its steps and results are made anew). The vLLM package that Python finds is driven, unmodified: its Scheduler or
AsyncScheduler, its KV cache manager, its Request. This script is the rest of the engine: the loop (`EngineCore.step` and
`step_with_batch_queue`), the clock, the step's duration and the tokens, which are all the same one.
Works with 0.11.0 and 0.33.0; only what importing the scheduler asks for must be installed (see README.md).
"""

import json
import os
import sys
import tempfile
from collections import deque

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_USE_V1", "1")
# 0.33's default on a GPU, and what asynchronous scheduling over several stages asks for.
os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")

import vllm
from vllm.config import CacheConfig, DeviceConfig, LoadConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

import torch

from common import EMPTY_PASSES_MAX, GENERATED, STEPS_MAX, Tokens, by_arrival, duration, no_results, record_files
from drafts import Drafts, speculative

# A smallest model's shape: nothing of it is ever computed.
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 1024,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "float16",
    "hidden_act": "silu",
}

NEWER = vllm.__version_tuple__[:2] > (0, 11)


def configured(params, reserve_full_isl, stages):
    """vLLM's own configuration; what it would change of the case is put back and checked."""
    folder = tempfile.mkdtemp(prefix="record-vllm-")
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(MODEL, file)
    model = ModelConfig(
        model=folder,
        skip_tokenizer_init=True,
        dtype="float16",
        max_model_len=params["max_model_len"],
        seed=0,
    )
    wanted = {
        "max_num_seqs": params["max_num_seqs"],
        "max_num_batched_tokens": params["max_num_batched_tokens"],
        "enable_chunked_prefill": params["enable_chunked_prefill"],
        "policy": params["policy"],
        "long_prefill_token_threshold": params.get("long_prefill_token_threshold", 0),
        "async_scheduling": params.get("async_scheduling", False),
    }
    if NEWER:
        wanted["scheduler_reserve_full_isl"] = reserve_full_isl
        wanted["watermark"] = params.get("watermark", 0.0)
        wanted["prefill_schedule_interval"] = params.get("prefill_schedule_interval", 1)
        scheduler = SchedulerConfig(max_model_len=params["max_model_len"], is_encoder_decoder=False)
    else:
        scheduler = SchedulerConfig(
            max_model_len=params["max_model_len"],
            max_num_batched_tokens=max(params["max_num_batched_tokens"], params["max_model_len"]),
            max_num_seqs=1,
        )
    cache = CacheConfig(block_size=16, enable_prefix_caching=params["enable_prefix_caching"])
    config = VllmConfig(
        model_config=model,
        scheduler_config=scheduler,
        cache_config=cache,
        device_config=DeviceConfig("cpu"),
        load_config=LoadConfig(load_format="dummy"),
    )
    # Small blocks, small budgets and the like are refused by platforms and start-up, not by the scheduler.
    for name, value in wanted.items():
        setattr(config.scheduler_config, name, value)
    if not NEWER:
        config.scheduler_config.chunked_prefill_enabled = params["enable_chunked_prefill"]
    config.scheduler_config.max_num_encoder_input_tokens = 0
    config.scheduler_config.encoder_cache_size = 0
    config.cache_config.block_size = params["block_size"]
    config.cache_config.num_gpu_blocks = params["num_gpu_blocks"]
    config.cache_config.enable_prefix_caching = params["enable_prefix_caching"]
    config.parallel_config.pipeline_parallel_size = stages
    config.speculative_config = speculative(params, model)
    if config.speculative_config is not None and NEWER:
        config._set_max_num_scheduled_tokens()
    return config


def scheduler_of(config, params):
    """vLLM's scheduler over one group of full-attention layers, and so many of recurrent ones."""
    block = params["block_size"]
    spec = {"block_size": block, "num_kv_heads": 1, "head_size": 16, "dtype": torch.float16}
    groups = [KVCacheGroupSpec(["layer"], FullAttentionSpec(**spec))]
    if params.get("state_groups", 0):
        # As `MambaModelConfig` has it without prefix caching: a block is as long as any sequence.
        page = groups[0].kv_cache_spec.page_size_bytes
        state = MambaSpec(
            block_size=params["max_model_len"], shapes=((page,),), dtypes=(torch.int8,), mamba_cache_mode="none"
        )
        groups += [KVCacheGroupSpec([f"state.{at}"], state) for at in range(params["state_groups"])]
    cache = KVCacheConfig(num_blocks=params["num_gpu_blocks"], kv_cache_tensors=[], kv_cache_groups=groups)
    kind = AsyncScheduler if params.get("async_scheduling", False) else Scheduler
    more = {"block_size": block} if NEWER else {}
    if len(groups) > 1:
        from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

        more["block_size"], more["hash_block_size"] = resolve_kv_cache_block_sizes(cache, config)
    return kind(
        vllm_config=config,
        kv_cache_config=cache,
        structured_output_manager=StructuredOutputManager(config),
        log_stats=False,
        **more,
    )


def hasher_of(params, config):
    """How prompts become block hashes; none without caching, as in the engine."""
    if not params["enable_prefix_caching"]:
        return None
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    try:
        from vllm.utils.hashing import get_hash_fn_by_name
    except ImportError:
        from vllm.utils import get_hash_fn_by_name
    function = get_hash_fn_by_name("sha256")
    init_none_hash(function)
    more = [config.num_hash_lookahead_tokens] if NEWER else []
    return get_request_block_hasher(params["block_size"], function, *more)


class Step:
    """A step that was scheduled and not processed yet; without shares a pass that scheduled nothing."""

    def __init__(self, output, shares, sampled, start, end):
        self.output, self.shares, self.sampled, self.start, self.end = output, shares, sampled, start, end
        # Which call of `schedule` it is of, and whether the first stage needs a token of it.
        self.turn, self.is_awaited = 0, False


class Engine:
    """vLLM's scheduler in a loop of our own."""

    def __init__(self, case):
        self.case = case
        self.params = case["params"]
        self.stages = case["pipeline"]["stages"] if "pipeline" in case else None
        stages = len(self.stages) if self.stages else 1
        config = configured(self.params, case.get("scheduler_reserve_full_isl", NEWER), stages)
        self.scheduler = scheduler_of(config, self.params)
        self.depth = stages + int(self.params.get("async_scheduling", False))
        self.is_asynchronous = self.depth > stages
        if NEWER and self.depth != config.max_concurrent_batches:
            raise RuntimeError("the engine has another number of batches in flight")
        self.stage_free = [0.0] * stages
        self.turn = 0
        # Of each request the tokens known when it was admitted.
        self.whole = {}
        self.drafts = Drafts(case, NEWER, self.is_asynchronous) if "speculative" in self.params else None
        hasher, tokens = hasher_of(self.params, config), Tokens()
        self.inputs = deque()
        for sent in by_arrival(case["requests"]):
            sampling = SamplingParams(max_tokens=sent["output_tokens"], ignore_eos=True)
            request = {
                "request_id": str(sent["id"]),
                "prompt_token_ids": tokens.of(sent["prompt"]),
                "sampling_params": sampling,
                "pooling_params": None,
                "arrival_time": sent["arrival_s"],
                "priority": sent.get("priority", 0),
                "block_hasher": hasher,
            }
            if not NEWER:
                request["eos_token_id"] = None
            self.inputs.append(Request(**request))
        self.results = no_results(case["requests"])
        self.now = 0.0
        self.gpu_free = 0.0
        self.steps = []
        self.empty_passes = 0
        # Computed tokens with which the last step of each request began: what the model runner knows.
        self.begun_at = {}
        if not NEWER:
            self.watch_preemptions()

    def watch_preemptions(self):
        """0.11 does not tell whom it preempts: it is seen where the victim goes back into the queue."""
        self.preempted = []
        waiting, prepend = self.scheduler.waiting, self.scheduler.waiting.prepend_request

        def noted(request):
            self.preempted.append(request.request_id)
            prepend(request)

        waiting.prepend_request = noted

    def take_arrivals(self, in_flight):
        """Hands over what has come; where nothing is left to do, the clock goes on to what comes next."""
        if not in_flight and not self.scheduler.has_requests():
            self.now = max(self.now, self.inputs[0].arrival_time)
        while self.inputs and self.inputs[0].arrival_time <= self.now:
            self.scheduler.add_request(self.inputs.popleft())

    def run(self):
        if self.stages:
            return self.run_stages()
        in_flight = deque()
        while self.inputs or in_flight or self.scheduler.has_requests():
            self.take_arrivals(in_flight)
            if self.scheduler.has_requests():
                step = self.schedule()
                if step is not None:
                    in_flight.append(step)
                    if len(in_flight) < self.depth:
                        continue
            if in_flight:
                self.process(in_flight.popleft())
        return {"steps": self.steps, "results": self.in_order()}

    def run_stages(self):
        """`step_with_batch_queue` with several stages: a pass that schedules nothing has a place in the queue, too."""
        queue = deque()
        while self.inputs or queue or self.scheduler.has_requests():
            self.take_arrivals(queue)
            if self.scheduler.has_requests():
                self.turn += 1
                step = self.schedule(queue)
                queue.append(step)
                if len(queue) < self.depth:
                    executed = bool(step.shares)
                    if NEWER and (executed or self.scheduler.has_requests()):
                        continue
                    # `not batch_queue[-1][0].done()`: who ends now has ended.
                    if not NEWER and executed and queue[0].end > self.now:
                        continue
            if queue:
                self.process(queue.popleft())
        return {"steps": self.steps, "results": self.in_order()}

    def through_stages(self, shares, queue):
        """When a step begins on the first stage, and when the last has ended."""
        begin = max(self.now, self.stage_free[0])
        # `PPHandler`: what was sampled as many calls ago as there are stages is waited for.
        for earlier in queue:
            if earlier.turn == self.turn - len(self.stages) and earlier.is_awaited:
                begin = max(begin, earlier.end)
        at = begin
        for stage, law in enumerate(self.stages):
            if stage > 0:
                at += duration(self.case["pipeline"]["transfer"], shares)
            # To the picosecond, so that sums of unlike parts tie with arrivals as they do in the simulator.
            at = round(max(at, self.stage_free[stage]) + duration(law, shares), 12)
            self.stage_free[stage] = at
        return begin, at

    def needs_sample(self, name, computed):
        """`compute_need_sampled_mask` of a share that samples."""
        request, whole = self.scheduler.requests[name], self.whole[name]
        return computed >= whole or whole + 1 < request.num_prompt_tokens + request.max_tokens

    def schedule(self, queue=()):
        """A pass of `schedule()`; a step that computes nothing is processed at once and forgotten."""
        ran = {request.request_id for request in self.scheduler.running}
        if NEWER:
            output = self.scheduler.schedule()
            preempted = sorted(int(name) for name in output.preempted_req_ids or ())
        else:
            self.preempted.clear()
            output = self.scheduler.schedule()
            preempted = sorted(int(name) for name in self.preempted)
        for id in preempted:
            self.results[id]["preemptions"] += 1
        # How many tokens come of each share, and how many drafts it carries.
        shares, sampled, drafts = [], {}, []
        for name, tokens in output.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            drafts.append(len(output.scheduled_spec_decode_tokens.get(name, ())))
            if int(name) in preempted:
                if drafts[-1] > 0:
                    raise RuntimeError("what comes of drafts whose request was evicted in the same step is not the scheduler's to say")
                # 0.11 leaves the share of a request that it evicts after serving it in the step. Only the model runner
                # still computes it, from where the step before began, because nobody tells it how far the request is;
                # so the share ends before the last known token, and no token comes of it.
                shares.append([int(name), self.begun_at[name], tokens])
                sampled[name] = 0
                continue
            computed = request.num_computed_tokens - tokens
            self.begun_at[name] = computed
            shares.append([int(name), computed, tokens])
            result = self.results[int(name)]
            if result["cached_tokens"] is None:
                result["cached_tokens"] = computed
            sampled[name] = int(self.samples(request))
            if name not in ran:
                self.whole[name] = request.num_tokens
            if sampled[name] and self.drafts is not None:
                sampled[name] = self.drafts.tokens(name, drafts[-1], is_padding=name not in ran)
        if not shares:
            self.empty_passes += 1
            if self.empty_passes > EMPTY_PASSES_MAX:
                raise RuntimeError("the engine schedules nothing for ever")
            if self.stages:
                return Step(output, [], {}, self.now, self.now)
            self.scheduler.update_from_output(output, runner_output(output, sampled))
            return None
        self.empty_passes = 0
        if len(self.steps) == STEPS_MAX:
            raise RuntimeError(f"{STEPS_MAX} steps and no end")
        if self.stages:
            begin, self.gpu_free = self.through_stages(shares, queue)
            seconds = self.gpu_free - begin
        else:
            seconds = duration(self.case["cost"], shares)
            begin = max(self.now, self.gpu_free)
            self.gpu_free = begin + seconds
        record = {"t": round(self.now, 9)}
        if self.depth > 1:
            record["gpu_start"] = round(begin, 9)
        waiting = len(self.scheduler.waiting)
        if NEWER:
            waiting += len(self.scheduler.kv_holding_waiting)
        record |= {
            "dt": round(seconds, 9),
            "scheduled": shares,
            "preempted": preempted,
            "free_blocks": self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            "running": len(self.scheduler.running),
            "waiting": waiting,
        }
        if self.drafts is not None:
            record["drafts"] = drafts
        self.steps.append(record)
        step = Step(output, shares, sampled, begin, self.gpu_free)
        step.turn = self.turn
        step.is_awaited = any(sampled[str(id)] and self.needs_sample(str(id), computed) for id, computed, _ in shares)
        return step

    def samples(self, request):
        """Whether the step just scheduled reaches the end of what is known, and so samples (V1-14)."""
        if self.is_asynchronous:
            return request.num_output_placeholders > 0
        return request.num_computed_tokens >= request.num_tokens

    def process(self, step):
        self.now = max(self.now, step.end)
        outputs = self.scheduler.update_from_output(step.output, runner_output(step.output, step.sampled))
        for client in outputs.values():
            for output in client.outputs:
                if output.new_token_ids:
                    result = self.results[int(output.request_id)]
                    if result["first_token_s"] is None:
                        result["first_token_s"] = step.end
                    result["last_token_s"] = step.end
                    if self.drafts is not None:
                        result.setdefault("chunks", []).append(len(output.new_token_ids))
        if self.drafts is not None and not self.is_asynchronous:
            proposed = self.drafts.propose(step.shares, step.sampled)
            if proposed is not None:
                self.scheduler.update_draft_token_ids(proposed)

    def in_order(self):
        return [self.results[sent["id"]] for sent in by_arrival(self.case["requests"])]


def runner_output(output, sampled):
    """What the model runner would hand back: so many tokens for everybody whose step sampled."""
    names = list(output.num_scheduled_tokens)
    return ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: at for at, name in enumerate(names)},
        sampled_token_ids=[[GENERATED] * sampled[name] for name in names],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )


def record(case):
    """The case with what the engine made of it."""
    params = case["params"]
    loop = "async, queue depth 2" if params.get("async_scheduling", False) else "synchronous"
    if "pipeline" in case:
        loop = f"{'async' if params.get('async_scheduling', False) else 'synchronous'}, {len(case['pipeline']['stages'])} stages"
    head = {
        "case": case["case"],
        "engine": f"vllm {vllm.__version__} v1 scheduler, {loop}",
        "profile": "vllm@" + ".".join(str(part) for part in vllm.__version_tuple__[:2]),
    }
    body = {key: case[key] for key in ("params", "scheduler_reserve_full_isl", "cost", "pipeline", "requests") if key in case}
    return head | body | Engine(case).run()


if __name__ == "__main__":
    record_files(sys.argv[1:], record)
