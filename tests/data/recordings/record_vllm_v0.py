"""Records what vLLM 0.6.6's own V0 engine does on a virtual clock, without a GPU and without a model.

    python record_vllm_v0.py CASE.json... OUT_FOLDER

Each CASE.json holds `params`, `requests` and `cost` as in the recordings beside this script (a recording may be given, too:
its steps and results are made anew). The vLLM 0.6.6 that Python finds is driven, unmodified: the Scheduler with its block
manager, and of LLMEngine `step()` with its output processor. This script is the model executor, the clock, the step's
duration and the tokens, which are all the same one. What an import asks for and no scheduling touches is replaced, if it
is not installed.
"""

import os
import sys
import time
import types
from functools import partial

from common import EMPTY_PASSES_MAX, GENERATED, STEPS_MAX, Tokens, by_arrival, duration, no_results, record_files, replace_missing

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_USE_V1", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

replace_missing({"mistral_common", "cv2"})

import vllm  # noqa: E402
from vllm.config import CacheConfig, SchedulerConfig  # noqa: E402
from vllm.core.scheduler import Scheduler  # noqa: E402
from vllm.engine.llm_engine import LLMEngine, SchedulerContext, SchedulerOutputState  # noqa: E402
from vllm.engine.output_processor.single_step import SingleStepOutputProcessor  # noqa: E402
from vllm.engine.output_processor.stop_checker import StopChecker  # noqa: E402
from vllm.model_executor.layers.sampler import SamplerOutput  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.sequence import CompletionSequenceGroupOutput, Logprob, Sequence, SequenceGroup, SequenceOutput  # noqa: E402
from vllm.utils import Counter  # noqa: E402

# Blocks of the host's memory: nothing is swapped unless a case asks for it.
HOST_BLOCKS = 0


class Clock:
    """Virtual time. The host takes none."""

    def __init__(self):
        self.now = 0.0


class Executor:
    """Stands for the model executor: computes nothing, in the time that the step's law says."""

    def __init__(self, engine):
        self.engine = engine

    def execute_model(self, execute_model_req):
        return self.engine.executed(execute_model_req)

    def stop_remote_worker_execution_loop(self):
        pass


class Engine(LLMEngine):
    """vLLM's engine, put together here: what loads a model, a tokenizer or statistics is left out."""

    def __init__(self, case, clock):
        self.case, self.clock = case, clock
        params = case["params"]
        self.parallel_config = types.SimpleNamespace(pipeline_parallel_size=1)
        asynchronous = params.get("async_output_proc", True)
        self.model_config = types.SimpleNamespace(use_async_output_proc=asynchronous, runner_type="generate")
        self.scheduler_config = SchedulerConfig(max_num_batched_tokens=1 << 20, max_num_seqs=1, max_model_len=1)
        # Small budgets and the like are refused at start-up, not by the scheduler.
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "policy"):
            setattr(self.scheduler_config, name, params[name])
        self.scheduler_config.chunked_prefill_enabled = params["enable_chunked_prefill"]
        self.scheduler_config.preemption_mode = params.get("preemption_mode")
        self.scheduler_config.delay_factor = params.get("scheduler_delay_factor", 0.0)
        self.cache_config = CacheConfig(16, 0.9, 0, "auto", enable_prefix_caching=params["enable_prefix_caching"])
        self.cache_config.block_size = params["block_size"]
        self.cache_config.num_gpu_blocks = params["num_gpu_blocks"]
        self.cache_config.num_cpu_blocks = params.get("num_cpu_blocks", HOST_BLOCKS)
        self.lora_config = None
        self.log_stats, self.tracer = False, None
        self.use_cached_outputs = False
        self.process_request_outputs_callback = None
        self.seq_id_to_seq_group = {}
        self.cached_scheduler_outputs = [SchedulerOutputState()]
        self.scheduler_contexts = [SchedulerContext()]
        # The engine binds weakly here; this one lives as long as it records.
        callback = partial(self._process_model_outputs, ctx=self.scheduler_contexts[0])
        self.async_callbacks = [callback] if asynchronous else []
        self.scheduler = [
            Scheduler(self.scheduler_config, self.cache_config, None, 1, callback if asynchronous else None)
        ]
        stop_checker = StopChecker(params["max_model_len"], None)
        self.output_processor = SingleStepOutputProcessor(
            self.scheduler_config, None, self.scheduler, Counter(), stop_checker
        )
        self.model_executor = Executor(self)
        self.groups, self.preempted, self.steps = {}, [], []
        self.results = no_results(case["requests"])
        self.watch_preemptions()
        self.served = []
        self.watch_order()

    def __del__(self):
        pass

    def do_log_stats(self, *args, **named):
        pass

    def watch_preemptions(self):
        """Whom the scheduler preempts is seen where it does."""
        preempt = self.scheduler[0]._preempt

        def noted(group, blocks_to_swap_out):
            self.preempted.append(int(group.request_id))
            return preempt(group, blocks_to_swap_out)

        self.scheduler[0]._preempt = noted

    def watch_order(self):
        """Whom a pass serves first: the batch itself has prefills in front, whenever they were decided on."""
        lists = {
            "_schedule_running": ("decode_seq_groups", "prefill_seq_groups"),
            "_schedule_swapped": ("decode_seq_groups", "prefill_seq_groups"),
            "_schedule_prefills": ("seq_groups",),
        }
        for name, fields in lists.items():
            setattr(self.scheduler[0], name, partial(self.noted_order, getattr(self.scheduler[0], name), fields))

    def noted_order(self, method, fields, *args, **named):
        output = method(*args, **named)
        self.served += [one.seq_group.request_id for field in fields for one in getattr(output, field)]
        return output

    def add(self, sent, tokens, number):
        sampling = SamplingParams(max_tokens=sent["output_tokens"], ignore_eos=True, detokenize=False)
        inputs = {"type": "token", "prompt_token_ids": tokens, "prompt": None, "multi_modal_data": {}}
        sequence = Sequence(number, inputs, self.cache_config.block_size, None)
        group = SequenceGroup(
            request_id=str(sent["id"]),
            seqs=[sequence],
            arrival_time=sent["arrival_s"],
            sampling_params=sampling,
            priority=sent.get("priority", 0),
        )
        self.groups[sent["id"]] = group
        self.scheduler[0].add_seq_group(group)

    def executed(self, request):
        """A step of the model: recorded, and the clock goes on. Answers of the step before are handed on meanwhile."""
        by_name = {one.request_id: one for one in request.seq_group_metadata_list}
        assert sorted(by_name) == sorted(self.served)
        shares = [self.share(by_name[name]) for name in self.served]
        for id in self.preempted:
            self.results[id]["preemptions"] += 1
        seconds = duration(self.case["cost"], shares)
        if len(self.steps) == STEPS_MAX:
            raise RuntimeError(f"{STEPS_MAX} steps and no end")
        scheduler = self.scheduler[0]
        self.steps.append(
            {
                "t": round(self.clock.now, 9),
                "dt": round(seconds, 9),
                "scheduled": shares,
                "preempted": sorted(self.preempted),
                "free_blocks": scheduler.block_manager.get_num_free_gpu_blocks(),
                "running": len(scheduler.running),
                "waiting": len(scheduler.waiting) + len(scheduler.swapped),
            }
        )
        self.preempted.clear()
        if request.async_callback:
            request.async_callback()
        self.clock.now += seconds
        outputs = [
            CompletionSequenceGroupOutput(
                samples=[SequenceOutput(next(iter(one.seq_data)), GENERATED, {GENERATED: Logprob(0.0)})],
                prompt_logprobs=None,
            )
            for one in request.seq_group_metadata_list
        ]
        for one in request.seq_group_metadata_list:
            result, group = self.results[int(one.request_id)], self.groups[int(one.request_id)]
            # Who has ended computes another token, of which nothing comes.
            if one.do_sample and not group.is_finished():
                result["first_token_s"] = result["first_token_s"] or self.clock.now
                result["last_token_s"] = self.clock.now
        return [SamplerOutput(outputs=outputs)]

    def share(self, one):
        """Request, computed tokens and tokens of the step, as the model runner takes them
        (`ModelInputForGPUBuilder._compute_for_prefix_cache_hit`)."""
        (data,) = one.seq_data.values()
        id = int(one.request_id)
        computed, tokens = data.get_num_computed_tokens(), one.token_chunk_size
        if one.is_prompt:
            cached = len(one.computed_block_nums or ()) * self.cache_config.block_size
            end = min(data.get_len(), computed + tokens)
            if cached > computed:
                computed = cached if cached < end else end - 1
                tokens = end - computed
            if self.results[id]["cached_tokens"] is None:
                self.results[id]["cached_tokens"] = computed
        return [id, computed, tokens]


def run(case):
    """The engine's loop with what arrives."""
    clock, tokens = Clock(), Tokens()
    real, time.time = time.time, lambda: clock.now
    try:
        engine = Engine(case, clock)
        inputs = [(sent, tokens.of(sent["prompt"])) for sent in by_arrival(case["requests"])]
        number = 0
        empty = 0
        while number < len(inputs) or engine.has_unfinished_requests():
            if not engine.has_unfinished_requests():
                clock.now = max(clock.now, inputs[number][0]["arrival_s"])
            while number < len(inputs) and inputs[number][0]["arrival_s"] <= clock.now:
                engine.add(*inputs[number], number)
                number += 1
            before = len(engine.steps)
            engine.served.clear()
            engine.step()
            if len(engine.steps) == before:
                empty += 1
                if engine.preempted:
                    for id in engine.preempted:
                        engine.results[id]["preemptions"] += 1
                    engine.preempted.clear()
                if empty > EMPTY_PASSES_MAX:
                    raise RuntimeError("the engine schedules nothing for ever")
            else:
                empty = 0
        results = [engine.results[sent["id"]] for sent, _ in inputs]
        failed = [group.request_id for group in engine.groups.values() if group.seqs[0].status.name == "FINISHED_IGNORED"]
    finally:
        time.time = real
    if failed:
        raise RuntimeError(f"requests {failed} can never be served")
    return {"steps": engine.steps, "results": results}


def record(case):
    """The case with what the engine made of it."""
    mode = "asynchronous" if case["params"].get("async_output_proc", True) else "synchronous"
    head = {
        "case": case["case"],
        "engine": f"vllm {vllm.__version__} v0 scheduler, {mode} output processing",
        "profile": "vllm@0.6",
    }
    body = {key: case[key] for key in ("params", "cost", "requests")}
    return head | body | run(case)


if __name__ == "__main__":
    record_files(sys.argv[1:], record)
