"""Records what TensorRT-LLM's own scheduler decides on a virtual clock, without a GPU and without a model.

    python record_trtllm.py SCHEDULER.py CASE.json... OUT_FOLDER
    python record_trtllm.py SCHEDULER.py --random COUNT SEED OUT_FOLDER

SCHEDULER.py is `tensorrt_llm/_torch/pyexecutor/scheduler.py` of a release that has the schedulers in Python (2026-02; or the file
of that name in the folder `scheduler` of a later one, as long as its interface is this). It is loaded as it is: PyCapacityScheduler
and PyMicroBatchScheduler by way of SimpleUnifiedScheduler, which follow the schedulers in C++ of 1.2. What it imports is replaced.
Of this script are the requests and the counts of blocks (as in `llmRequest.h` and `kvCacheManager.cpp`, without block reuse), the
executor's loop with and without overlap (as in `py_executor.py`), the clock, the step's duration, and which token ends an answer.

Each CASE.json holds `params`, `requests` and `cost` as in the recordings beside this script; a recording may be given, too.
"""

import enum
import importlib.util
import json
import os
import random
import sys
import types

from common import COST, EMPTY_PASSES_MAX, STEPS_MAX, by_arrival, duration, no_results, record_files, stand_in

WINDOW = 1 << 30


class State(enum.Enum):
    """`LlmRequestState`."""

    ENCODER_INIT = 1
    DISAGG_GENERATION_INIT = 4
    CONTEXT_INIT = 10
    GENERATION_IN_PROGRESS = 13
    GENERATION_TO_COMPLETE = 14
    GENERATION_COMPLETE = 20


class Policy(enum.Enum):
    """`CapacitySchedulerPolicy`."""

    MAX_UTILIZATION = "MAX_UTILIZATION"
    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    STATIC_BATCH = "STATIC_BATCH"


class Quiet:
    def __getattr__(self, name):
        return lambda *args, **named: None


def load(path):
    """The scheduler's module, with stand-ins for what it imports."""

    def module(name, **members):
        made = types.ModuleType(name)
        made.__path__ = []
        vars(made).update(members)
        sys.modules[name] = made

    package = "tensorrt_llm._torch.pyexecutor"
    for name in ("tensorrt_llm", "tensorrt_llm._torch", package, f"{package}.scheduler", "tensorrt_llm.llmapi"):
        module(name)
    module("strenum", StrEnum=enum.Enum)
    module("tensorrt_llm.bindings", internal=stand_in("internal"))
    module("tensorrt_llm.llmapi.llm_args", CapacitySchedulerPolicy=Policy)
    module("tensorrt_llm.logger", logger=Quiet())
    module(f"{package}.llm_request", LlmRequest=Sequence, LlmRequestState=State)
    is_in_folder = os.path.basename(os.path.dirname(os.path.abspath(path))) == "scheduler"
    name = f"{package}.scheduler.scheduler" if is_in_folder else f"{package}.scheduler"
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


class Sequence:
    """A request as the schedulers see it (`LlmRequest`)."""

    has_draft_tokens = False
    num_draft_tokens = 0
    lora_task_id = None
    is_encoder_init_state = False
    is_disagg_generation_init_state = False

    def __init__(self, sent, max_seq_len):
        self.request_id = self.py_request_id = sent["id"]
        self.prompt_len = sum(length for _, length in sent["prompt"])
        room = max_seq_len - self.prompt_len
        self.max_new_tokens = min(sent.get("max_tokens", sent["output_tokens"]), room)
        self.target = min(sent["output_tokens"], room)
        self.first_prompt_len = self.prompt_len
        self.state = State.CONTEXT_INIT
        self.position = 0
        self.context_chunk_size = 0
        # Outputs whose step has been processed.
        self.generated = 0

    @property
    def state_value(self):
        return self.state.value

    @property
    def is_context_init_state(self):
        return self.state == State.CONTEXT_INIT

    @property
    def is_generation_in_progress_state(self):
        return self.state in (State.GENERATION_IN_PROGRESS, State.GENERATION_TO_COMPLETE)

    @property
    def is_first_context_chunk(self):
        return self.position == 0

    @property
    def context_remaining_length(self):
        return self.prompt_len - self.position

    @property
    def is_last_context_chunk(self):
        return self.position + self.context_chunk_size == self.prompt_len

    def get_num_tokens(self, beam):
        return self.first_prompt_len + self.generated

    def get_beam_width_by_iter(self, for_next_iteration):
        return 1

    def will_complete_next_iteration(self):
        return self.first_prompt_len + self.generated + 1 >= self.prompt_len + self.max_new_tokens

    def pause(self):
        """`LlmRequest::pause`: what it has said is part of its context from now on."""
        said = self.first_prompt_len + self.generated - self.prompt_len
        self.prompt_len += said
        self.max_new_tokens -= said
        self.position, self.state = 0, State.CONTEXT_INIT


class Blocks:
    """`KVCacheManager` with one window and without reuse: how many blocks each sequence holds, and for how many tokens."""

    enable_block_reuse = False
    is_variable_window = False
    max_attention_window_vec = (WINDOW,)

    def __init__(self, count, size):
        self.count, self.size = count, size
        self.tokens = {}
        self.freed_in_thought = 0

    def held(self, id):
        return -(-self.tokens.get(id, 0) // self.size)

    def free(self):
        return self.count - sum(self.held(id) for id in self.tokens)

    def get_kv_cache_stats(self):
        return types.SimpleNamespace(num_free_blocks_per_window_size={WINDOW: self.free()})

    def get_remaining_blocks_to_completion(self, req, window):
        whole = -(-(req.prompt_len + req.max_new_tokens) // self.size)
        context = req.prompt_len // self.size
        held = self.held(req.request_id)
        return context - held + (whole - context) if held < context else whole - held

    def get_needed_blocks_one_step(self, req, two_steps, window):
        if req.is_context_init_state:
            return -(-req.prompt_len // self.size) if req.is_first_context_chunk else 0
        tokens = self.tokens[req.request_id]
        left = req.max_new_tokens - (tokens - req.prompt_len)
        then = tokens + min(2 if two_steps else 1, left)
        return -(-then // self.size) - self.held(req.request_id)

    def start_scheduling(self):
        self.freed_in_thought = 0

    def scheduling_remove_sequence(self, id):
        self.freed_in_thought += self.held(id)

    def scheduling_has_free_blocks(self, blocks, window):
        return blocks <= self.free() + self.freed_in_thought


class Executor:
    """`PyExecutor`: the loop with overlap (`_executor_loop_overlap`) or without (`_executor_loop`)."""

    def __init__(self, schedulers, case):
        self.case = case
        params = case["params"]
        self.params = params
        self.blocks = Blocks(params["num_gpu_blocks"], params["block_size"])
        chunking = ("FIRST_COME_FIRST_SERVED", params["block_size"]) if params["enable_chunked_prefill"] else None
        self.scheduler = schedulers.SimpleUnifiedScheduler(
            max_batch_size=params["max_num_seqs"],
            max_num_tokens=params["max_num_batched_tokens"],
            kv_cache_manager=self.blocks,
            peft_cache_manager=None,
            scheduler_policy=Policy[params["capacity_scheduler_policy"].upper()],
            ctx_chunk_config=chunking,
        )
        self.sequences = {sent["id"]: Sequence(sent, params["max_model_len"]) for sent in case["requests"]}
        self.coming = by_arrival(case["requests"])
        self.waiting, self.active = [], []
        self.now = self.gpu_free = 0.0
        self.waited = 0
        self.steps = []
        self.results = no_results(case["requests"])

    def run(self):
        overlaps = self.params["async_scheduling"]
        previous, empty = None, 0
        while self.coming or self.waiting or self.active or previous:
            if not (self.waiting or self.active or previous):
                self.now = max(self.now, self.coming[0]["arrival_s"])
            self.fetch()
            contexts, generations, paused = self.schedule()
            for one in paused:
                if one.state == State.GENERATION_TO_COMPLETE:
                    raise RuntimeError("a request is paused whose last token is being computed")
                self.blocks.tokens.pop(one.request_id)
                self.results[one.request_id]["preemptions"] += 1
            batch = None
            if contexts or generations:
                batch, empty = self.launch(contexts, generations, paused), 0
            else:
                empty += 1
                if empty > EMPTY_PASSES_MAX:
                    raise RuntimeError("nobody can ever be scheduled")
            if not overlaps:
                for one in paused:
                    one.pause()
                self.advance(contexts, generations, overlaps)
                previous = batch
                self.process(previous)
                previous = None
                continue
            # The results of the batch before are there when it has ended; this one has been launched behind it.
            if previous:
                ended = self.process(previous, self.advance, (contexts, generations, overlaps), paused)
                if any(one in paused for one in ended):
                    raise RuntimeError("a request is paused whose last token is being computed")
            else:
                for one in paused:
                    one.pause()
                self.advance(contexts, generations, overlaps)
            previous = batch

    def fetch(self):
        """`_fetch_and_activate_new_requests`."""
        while self.coming and self.coming[0]["arrival_s"] <= self.now:
            self.waiting.append(self.sequences[self.coming.pop(0)["id"]])
        while self.waiting and len(self.active) < self.params["max_num_seqs"]:
            self.active.append(self.waiting.pop(0))

    def schedule(self):
        """`_schedule` and `_waiting_requests`."""
        made = self.scheduler.schedule_request(self.active, set())
        contexts, generations = list(made.context_requests), list(made.generation_requests)
        if not self.params["enable_chunked_prefill"]:
            for one in contexts:
                one.context_chunk_size = one.context_remaining_length
        if contexts and generations:
            tokens = sum(one.get_num_tokens(0) for one in contexts) + len(generations)
            few = tokens < self.params["batch_wait_max_tokens_ratio"] * self.params["max_num_batched_tokens"]
            if few and self.waited < self.params["batch_wait_timeout_iters"]:
                self.waited += 1
                contexts = []
            else:
                self.waited = 0
        return contexts, generations, list(made.paused_requests)

    def launch(self, contexts, generations, paused):
        """`prepare_resources` and `_forward_step`."""
        shares = []
        for one in contexts:
            if one.is_first_context_chunk:
                self.blocks.tokens[one.request_id] = one.prompt_len
            shares.append([one.request_id, one.position, one.context_chunk_size])
        for one in generations:
            shares.append([one.request_id, self.blocks.tokens[one.request_id], 1])
            self.blocks.tokens[one.request_id] += 1
        if self.blocks.free() < 0:
            raise RuntimeError("no block is free for a request that was scheduled")
        shares.sort()
        seconds = duration(self.case["cost"], shares)
        begin = max(self.now, self.gpu_free)
        self.gpu_free = begin + seconds
        if len(self.steps) == STEPS_MAX:
            raise RuntimeError(f"{STEPS_MAX} steps and no end")
        self.steps.append(
            {
                "t": round(self.now, 9),
                "gpu_start": round(begin, 9),
                "dt": round(seconds, 9),
                "scheduled": shares,
                "preempted": sorted(one.request_id for one in paused),
                "free_blocks": self.blocks.free(),
                "running": len(self.blocks.tokens),
                "waiting": len(self.waiting) + len(self.active) - len(self.blocks.tokens),
            }
        )
        sampled = [one for one in contexts if one.is_last_context_chunk] + generations
        return {"end": self.gpu_free, "sampled": sampled}

    def advance(self, contexts, generations, overlaps):
        """`_update_request_states_tp`."""
        for one in contexts:
            one.position += one.context_chunk_size
            if one.context_remaining_length == 0:
                one.state = State.GENERATION_IN_PROGRESS
        for one in contexts + generations:
            decodes = one.state == State.GENERATION_IN_PROGRESS
            if overlaps and decodes and one.will_complete_next_iteration():
                one.state = State.GENERATION_TO_COMPLETE

    def process(self, batch, before_leaving=None, arguments=(), paused=()):
        """`_update_requests`, then, with overlap, the states of the batch behind, then `_process_previous_batch`."""
        self.now = max(self.now, batch["end"])
        ended = []
        for one in batch["sampled"]:
            if one.state == State.GENERATION_COMPLETE:
                continue
            one.generated += 1
            result = self.results[one.request_id]
            result["first_token_s"] = result["first_token_s"] or self.now
            result["last_token_s"] = self.now
            if one.generated == one.target:
                one.state = State.GENERATION_COMPLETE
                ended.append(one)
        for one in paused:
            one.pause()
        if before_leaving:
            before_leaving(*arguments)
        for one in ended:
            one.state = State.GENERATION_COMPLETE
            self.active.remove(one)
            self.blocks.tokens.pop(one.request_id, None)
        return ended


def record(schedulers, case):
    """The recording of a case."""
    executor = Executor(schedulers, case)
    executor.run()
    for result in executor.results.values():
        sequence = executor.sequences[result["id"]]
        result["cached_tokens"] = 0
        longest = case["params"]["max_model_len"] - sequence.first_prompt_len
        sent = next(sent for sent in case["requests"] if sent["id"] == result["id"])
        by_length = sequence.target == min(sent.get("max_tokens", sent["output_tokens"]), longest)
        result["finish"] = "length" if by_length else "stop"
        for key in ("first_token_s", "last_token_s"):
            result[key] = round(result[key], 9)
    kept = {key: case[key] for key in ("case", "params", "cost", "requests")}
    engine = "tensorrt-llm: its schedulers in Python (2026-02), unmodified; requests, blocks, loop and clock are the recorder's"
    return {
        "engine": engine,
        "profile": "tensorrt-llm@1.2",
        **kept,
        "steps": executor.steps,
        "results": list(executor.results.values()),
    }


def drawn(seed):
    """A case in which seats, blocks and tokens run out."""
    draw = random.Random(seed)
    size = draw.choice([1, 2, 4, 8, 16, 32])
    seats = draw.choice([1, 2, 4, 8, 16, 64])
    longest = draw.choice([64, 128, 256, 1024])
    policy = draw.choice(["guaranteed_no_evict"] * 3 + ["max_utilization"] * 2 + ["static_batch"])
    chunks = policy != "max_utilization" and draw.random() < 0.6
    least = longest if policy == "max_utilization" else size
    budget = max(draw.choice([16, 48, 100, 256, 2048]), seats, least)
    waits = draw.random() < 0.25
    params = {
        "max_model_len": longest,
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "enable_chunked_prefill": chunks,
        "block_size": size,
        "num_gpu_blocks": -(-longest // size) * draw.choice([1, 1, 2, 4, 16]) + draw.randrange(5),
        "enable_prefix_caching": False,
        "policy": "fcfs",
        "async_scheduling": draw.random() < 0.7,
        "capacity_scheduler_policy": policy,
        "batch_wait_timeout_iters": draw.randrange(1, 20) if waits else 0,
        "batch_wait_max_tokens_ratio": draw.choice([0.1, 0.5, 0.9]) if waits else 0.0,
    }
    most = longest - 1 if chunks else min(longest - 1, budget)
    requests, now = [], 0.0
    pace = draw.choice([0.0, 0.002, 0.02, 0.2])
    for id in range(draw.randrange(1, 60)):
        now += round(draw.expovariate(1 / pace), 7) if pace and draw.random() < 0.8 else 0.0
        prompt = draw.randrange(1, max(2, min(most, draw.choice([8, 60, 300, 1000])) + 1))
        output = draw.randrange(1, draw.choice([2, 12, 80, 300]))
        sent = {"id": id, "arrival_s": round(now, 7), "prompt": [[f"P{id}", prompt]], "output_tokens": output, "priority": 0}
        if draw.random() < 0.3:
            sent["max_tokens"] = output + draw.randrange(1, 60)
        requests.append(sent)
    return {"case": f"random-{seed}", "params": params, "cost": COST, "requests": requests}


def main(path, *arguments):
    schedulers = load(path)
    if arguments[0] != "--random":
        record_files(arguments, lambda case: record(schedulers, case))
        return
    count, seed, folder = int(arguments[1]), int(arguments[2]), arguments[3]
    os.makedirs(folder, exist_ok=True)
    told = {}
    for at in range(seed, seed + count):
        try:
            made = record(schedulers, drawn(at))
        except (RuntimeError, AssertionError) as error:
            told[str(error)] = told.get(str(error), 0) + 1
            continue
        with open(os.path.join(folder, f"random-{at}.json"), "w") as file:
            json.dump(made, file, separators=(",", ":"))
    for reason, count in told.items():
        print(f"{count} cases were not recorded: {reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
