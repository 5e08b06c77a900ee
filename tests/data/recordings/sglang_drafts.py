"""What record_sglang.py must know of speculative decoding: the flags, and the draft worker's part, which is how many drafts are accepted.

A verification computes `num_draft_tokens` tokens of each request, a chain or, with `topk` branches at each of `num_steps` levels, a tree; `1 + a`
of them are its. `a` is the next entry of the request's `accepted`, cut to the levels; past the list's end it is 0. An entry is used by every verification of the request that is executed, whether its output is
kept or not.
"""

import torch


def flags(params):
    """SGLang's own flags, or none. A drafter would be a folder with a model's configuration: the target's does."""
    wanted = params.get("speculative")
    if wanted is None:
        return {}
    return dict(
        speculative_algorithm=wanted["algorithm"], speculative_num_steps=steps_of(wanted),
        speculative_eagle_topk=wanted.get("topk", 1), speculative_num_draft_tokens=wanted["num_draft_tokens"],
    )


def steps_of(wanted):
    """Levels of drafts: of a chain as many as it has drafts."""
    return wanted.get("num_steps", wanted["num_draft_tokens"] - 1)


def backend_of(params):
    """Attention kernels that this SGLang takes: trees ask for some that run on GPUs. None is called."""
    wanted = params.get("speculative") or {}
    return "triton" if wanted.get("topk", 1) > 1 else "torch_native"


def overlap_anywhere():
    """SGLang turns its overlap loop off with drafts where there is no GPU. Ours computes nothing on the CPU either."""
    import sglang.srt.arg_groups.speculative_hook as hook

    hook._disable_overlap_schedule_for_cpu = lambda arguments: None


def without_kernels():
    """Stands for Triton kernels, which need a GPU. One gives each request's row the slots from what it had to what it has, one, which SGLang has
    in torch, too, finds the last slot of a row, and one fetches what only the drafter reads.
    """
    import sglang.srt.managers.overlap_utils as overlap_utils
    import sglang.srt.mem_cache.allocation as allocation

    def assign(rows, table, before, after, slots, count):
        at = 0
        for row, start, end in zip(rows.tolist(), before.tolist(), after.tolist()):
            table[row, start:end] = slots[at:at + end - start].to(table.dtype)
            at += end - start

    allocation.assign_req_to_token_pool_func = assign
    allocation.get_last_loc = allocation.get_last_loc_torch
    overlap_utils.FutureMap._resolve_spec_extras = lambda self, batch: None


def row_beyond_context(params):
    """Places of a request's row behind its longest text (`get_req_to_token_extra_context_len`)."""
    wanted = params.get("speculative")
    if wanted is None:
        return 4
    page, steps = params["page_size"], steps_of(wanted)
    return 4 + 2 * max(wanted["num_draft_tokens"], (steps + 2 * page) * wanted.get("topk", 1)) + page


def drawn(case, rng, is_tree):
    """A drawn case with drafts put in. Decodes do not ride along in its prefill batches."""
    params = case["params"]
    tokens = rng.choice([2, 3, 4, 4, 4, 6, 8])
    params["speculative"] = {"algorithm": rng.choice(["EAGLE", "EAGLE3", "EAGLE3", "STANDALONE"]), "num_draft_tokens": tokens}
    if is_tree:
        params["speculative"].update(num_steps=rng.choice([1, 2, 3, 5]), topk=rng.choice([2, 4, 8]))
    params["enable_mixed_chunk"] = False
    if rng.random() < 0.7:
        # Room for what a lone request keeps behind its text; else it is aborted.
        params["kv_pool_tokens"] += row_beyond_context(params) // params["page_size"] * params["page_size"]
    stand = rng.choice([0.0, 0.3, 0.6, 0.8, 0.95, 1.0])
    most = min(tokens - 1, steps_of(params["speculative"]))
    for request in case["requests"]:
        request["accepted"] = [run(rng, stand, most) for _ in range(request["output_tokens"] + 4)]
    return case


def run(rng, stand, most):
    """Leading drafts that stand, each with this probability."""
    length = 0
    while length < most and rng.random() < stand:
        length += 1
    return length


class Drafts:
    """The part of SGLang's EAGLEWorkerV2 that the scheduler sees."""

    def __init__(self, case):
        wanted = case["params"]["speculative"]
        self.tokens, self.branches = wanted["num_draft_tokens"], wanted.get("topk", 1)
        self.most = min(self.tokens - 1, steps_of(wanted))
        self.accepted = {request["id"]: iter(request.get("accepted", ())) for request in case["requests"]}

    def lengths(self, ids):
        """Tokens that come of a verification, the request's own included."""
        return [1 + min(next(self.accepted[id], 0), self.most) for id in ids]

    def next_input(self, rows):
        """What the drafter leaves for its next turn."""
        from sglang.srt.speculative.eagle_info import EagleDraftInput

        return EagleDraftInput(
            topk_p=torch.ones((rows, self.branches)), topk_index=torch.zeros((rows, self.branches), dtype=torch.int64),
            hidden_states=torch.zeros((rows, 2)), bonus_tokens=torch.zeros((rows,), dtype=torch.int64),
        )
