"""Makes up cases for record_vllm.py: small pools, odd blocks, ties, bursts, shared prefixes, turns of a conversation.

    python random_cases.py VERSION FIRST_SEED COUNT OUT_FOLDER

VERSION is 0.33, 0.11 (which has fewer flags) or 0.6 (which has others), 0.33-drafts or 0.11-drafts (speculative decoding), 0.33-states
(a pool from which recurrent layers draw, too), or 0.33-stages or 0.11-stages (a pipeline). A seed always gives the same case. Some an engine never gets through: the recorder says so
and goes on.
"""

import json
import os
import random
import sys

from common import COST, by_arrival


def outputs(draw):
    """A law of output lengths."""
    longest = draw.choice([1, 2, 4, 12, 40, 90])
    return lambda: draw.choice([1, draw.randint(1, longest), draw.randint(1, longest), longest])


def prompts(draw, block):
    """A law of prompts: a list of (segment, tokens)."""
    longest = draw.choice([1, 3, 2 * block, 6 * block, 60, 200])
    heads = [(f"head{at}", draw.randint(1, 5) * block + draw.choice([0, 0, 1, -1])) for at in range(draw.randint(1, 4))]
    heads = [(name, max(tokens, 1)) for name, tokens in heads]
    kind = draw.choice(["unique", "unique", "heads", "heads", "repeats", "nested", "mixed"])
    repeated = [[(f"whole{at}", draw.choice([block * draw.randint(1, 6), draw.randint(1, longest)]))] for at in range(3)]
    count = [0]

    def one():
        count[0] += 1
        law = draw.choice(["unique", "heads", "repeats", "nested"]) if kind == "mixed" else kind
        own = (f"own{count[0]}", draw.randint(1, longest))
        if law == "unique":
            return [own]
        if law == "repeats":
            return draw.choice(repeated)
        if law == "nested":
            depth = draw.randint(1, len(heads))
            return heads[:depth] + ([own] if draw.random() < 0.7 else [])
        name, tokens = draw.choice(heads)
        if draw.random() < 0.2:
            tokens = draw.randint(1, tokens)
        return [(name, tokens), own] if draw.random() < 0.8 else [(name, tokens)]

    return one


def arrivals(draw, count):
    """When `count` requests come, not sorted."""
    kind = draw.choice(["at once", "poisson", "poisson", "bursts", "ties", "gaps"])
    step = COST["per_step_s"]
    if kind == "at once":
        return [0.01] * count
    if kind == "poisson":
        mean, now, times = draw.choice([0.3, 1, 3, 10, 40]) * step, 0.0, []
        for _ in range(count):
            now += draw.expovariate(1 / mean)
            times.append(now)
        return times
    if kind == "bursts":
        starts = [draw.uniform(0, 40 * step) for _ in range(draw.randint(1, 5))]
        return [draw.choice(starts) for _ in range(count)]
    if kind == "ties":
        return [draw.randint(0, 2 * count) * step for _ in range(count)]
    return [draw.choice([0.0, 0.5, 1.7, 30.0]) + draw.uniform(0, 8 * step) for _ in range(count)]


def conversations(draw, count, prompt, output):
    """Requests of clients who send the whole talk again each time, answers included."""
    sent = []
    while len(sent) < count:
        talk, when = list(prompt()), draw.uniform(0, 0.3)
        for turn in range(draw.randint(1, 5)):
            answer = output()
            sent.append((when, list(talk), answer))
            own = (f"turn{len(sent)}", draw.randint(1, 30))
            # Where the answer is fed back short of its last token or in full.
            talk = talk + [("OUT", answer)] + [own]
            when += draw.choice([0.05, 0.2, 0.6, 2.0]) * draw.uniform(0.5, 1.5)
    return sent[:count]


def traffic(draw, block):
    """What is sent: (arrival, prompt, output tokens) of each request, not sorted."""
    prompt, output = prompts(draw, block), outputs(draw)
    count = draw.choice([4, 8, 15, 15, 30, 50])
    if draw.random() < 0.25:
        return conversations(draw, count, prompt, output)
    return [(when, prompt(), output()) for when in arrivals(draw, count)]


def requests_of(draw, sent, policy, shuffles):
    """The requests as a case lists them. Where it shuffles, in some cases ids do not go with the order in which they were drawn."""
    ranks = draw.choice([[0], [0, 1], [0, 1, 2], [-3, 0, 0, 7], list(range(50))])
    names = list(range(len(sent)))
    if shuffles and draw.random() < 0.3:
        draw.shuffle(names)
    requests = [
        {
            "id": name,
            "arrival_s": round(when, 6),
            "prompt": [list(piece) for piece in text],
            "output_tokens": answer,
            "priority": draw.choice(ranks) if policy == "priority" else 0,
        }
        for name, (when, text, answer) in zip(names, sent)
    ]
    return by_arrival(requests)


def case(version, seed):
    """The case of a seed."""
    draw = random.Random(f"{version} {seed}")
    states = draw.randint(1, 6) if version == "0.33-states" else 0
    version = version.removesuffix("-states")
    block = draw.choice([1, 2, 3, 4, 4, 5, 8, 16, 16, 32])
    asynchronous = draw.random() < 0.5
    sent = traffic(draw, block)
    lengths = [sum(tokens for _, tokens in text) for _, text, _ in sent]
    whole = max(length + answer for length, (_, _, answer) in zip(lengths, sent))
    longest = draw.choice([whole + 100, whole + 100, max(max(lengths) + 1, whole - draw.randint(0, 10))])
    least = -(-min(whole, longest) // block)
    usable = least + draw.choice([0, 0, 1, 2, draw.randint(0, least), 2 * least, 5 * least, 200 * least])
    chunked = draw.random() < 0.8
    budget = draw.choice([1, 2, 5, 16, 33, 64, 128, 512, 2048])
    if not chunked:
        # Less is refused at start-up.
        budget = longest + draw.choice([0, 1, 16, 100])
    params = {
        "max_model_len": max(longest, 2),
        "max_num_seqs": draw.choice([1, 2, 3, 5, 8, 16, 64]),
        "max_num_batched_tokens": budget,
        "enable_chunked_prefill": chunked,
        "block_size": block,
        "num_gpu_blocks": usable + 1,
        "enable_prefix_caching": draw.random() < 0.65,
        "policy": "priority" if draw.random() < 0.45 else "fcfs",
        "long_prefill_token_threshold": draw.choice([0, 0, 0, 1, 3, 8, 20, 50]),
    }
    if states:
        # Prefixes of recurrent layers are cached in another way, which is not recorded.
        params |= {"enable_prefix_caching": False, "state_groups": states}
        params["num_gpu_blocks"] += states * draw.choice([1, 1, 2, draw.randint(1, 8), 64])
    if asynchronous:
        params["async_scheduling"] = True
    reserve = version == "0.33" and draw.random() < 0.7
    if version == "0.33":
        if draw.random() < 0.2:
            params["watermark"] = draw.choice([0.01, 0.05, 0.1, 0.3, 0.6])
        if draw.random() < 0.25:
            params["prefill_schedule_interval"] = draw.choice([2, 3, 5, 9])
    if version == "0.11" and params["policy"] == "priority":
        # 0.11 compares requests of equal rank and arrival with one another, and fails.
        sent = [(when + at / 1e6, text, answer) for at, (when, text, answer) in enumerate(sent)]
    requests = requests_of(draw, sent, params["policy"], shuffles=True)
    return {
        "case": f"random_{seed}",
        "params": params,
        "scheduler_reserve_full_isl": reserve,
        "cost": COST,
        "requests": requests,
    }


def accepted(draw, most, answer):
    """How many drafts are accepted, share by share."""
    chance = draw.choice([0.0, 0.3, 0.6, 0.8, 0.95, 1.0])
    runs = []
    for _ in range(draw.choice([answer, answer + 3, answer // 2, 2])):
        run = 0
        while run < most and draw.random() < chance:
            run += 1
        runs.append(run)
    return runs


def case_with_drafts(version, seed):
    """A case with speculative decoding."""
    made = case(version, seed)
    draw = random.Random(f"{version} drafts {seed}")
    params = made["params"]
    most = draw.choice([1, 1, 2, 3, 3, 4, 5, 7])
    methods = ["eagle3", "eagle3", "mtp", "ngram"] if version == "0.11" else ["eagle3", "eagle3", "mtp", "ngram", "ngram", "draft_model"]
    method = draw.choice(methods)
    params["speculative"] = {"method": method, "num_speculative_tokens": most}
    if version == "0.11":
        # It refuses both together.
        params.pop("async_scheduling", None)
    elif method in ("eagle3", "mtp") and draw.random() < 0.3:
        params["speculative"][draw.choice(["disable_lookahead_block_hashes", "disable_lookahead_block_hashes", "disable_eagle_block_drop"])] = True
    # Less is refused at start-up.
    params["max_num_batched_tokens"] = max(params["max_num_batched_tokens"], most + 1)
    if draw.random() < 0.5:
        # Else few drafts fit beside prefills.
        params["max_num_batched_tokens"] = max(params["max_num_batched_tokens"], draw.choice([16, 48, 200]))
    if draw.random() < 0.6:
        params["long_prefill_token_threshold"] = 0
    # Drafts, those in flight and lookahead take blocks, too: who has the pool to himself must get through.
    block = params["block_size"]
    lengths = [sum(tokens for _, tokens in sent["prompt"]) + sent["output_tokens"] for sent in made["requests"]]
    least = -(-min(max(lengths) + 3 * most + 3, params["max_model_len"]) // block)
    params["num_gpu_blocks"] = max(params["num_gpu_blocks"], least + 1 + draw.choice([0, 0, 1, draw.randint(0, least)]))
    varies = method == "ngram" and not params.get("async_scheduling", False) and draw.random() < 0.6
    for sent in made["requests"]:
        sent["accepted"] = accepted(draw, most, sent["output_tokens"])
        if varies:
            sent["proposed"] = [draw.choice([0, most, draw.randint(0, most)]) for _ in range(sent["output_tokens"])]
    return made


def case_with_stages(version, seed):
    """A case with layers spread over the stages of a pipeline."""
    made = case(version, seed)
    draw = random.Random(f"{version} stages {seed}")
    count = draw.choice([2, 2, 2, 3, 3, 4, 4, 5, 6, 8])
    kind = draw.choice(["even", "even", "last", "unlike", "one slow", "constant"])
    shares = [1.0] * count
    if kind == "last":
        shares[-1] = 1.3
    elif kind == "unlike":
        shares = [draw.uniform(0.3, 2.0) for _ in range(count)]
    elif kind == "one slow":
        shares[draw.randrange(count)] = draw.choice([3.0, 8.0])
    whole = sum(shares)

    def law(share, attends):
        # Whole picoseconds, as the simulator has them.
        parts = {key: round(COST[key] * share * 1e12) / 1e12 for key in COST}
        return parts if attends else parts | {"per_token_s": 0.0, "per_attended_token_s": 0.0}

    stages = [law(share / whole, kind != "constant") for share in shares]
    transfer = law(draw.choice([0.0, 0.0, 0.003, 0.02, 0.3]), True) | {"per_attended_token_s": 0.0}
    made["pipeline"] = {"stages": stages, "transfer": transfer}
    if version == "0.11":
        # It refuses both together.
        made["params"].pop("async_scheduling", None)
    return made


def case_v0(seed):
    """The same of 0.6, whose flags are others."""
    draw = random.Random(f"0.6 {seed}")
    block = draw.choice([1, 2, 4, 4, 8, 16, 16, 32])
    sent = traffic(draw, block)
    whole = max(sum(tokens for _, tokens in text) + answer for _, text, answer in sent)
    longest = whole + draw.choice([0, 1, 100])
    # One block more than fits: with asynchronous output processing an answer that has ended computes another token.
    least = -(-(whole + 1) // block) + draw.choice([0, 1])
    blocks = least + draw.choice([0, 0, 1, 2, draw.randint(0, least), 2 * least, 5 * least, 200 * least])
    blocks += blocks // 99 + 1
    chunked = draw.random() < 0.45
    caches = draw.random() < 0.3
    seats = draw.choice([1, 2, 3, 5, 8, 16, 64])
    if chunked:
        budget = max(draw.choice([1, 2, 5, 16, 33, 64, 128, 512, 2048]), seats)
        if caches:
            # Any other is refused.
            budget = -(-budget // block) * block
    else:
        # Less is refused at start-up.
        budget = max(longest + draw.choice([0, 1, 16, 100]), seats)
    params = {
        "max_model_len": max(longest, 2),
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "enable_chunked_prefill": chunked,
        "block_size": block,
        "num_gpu_blocks": blocks,
        "enable_prefix_caching": caches,
        "policy": "priority" if not chunked and draw.random() < 0.3 else "fcfs",
        "async_output_proc": draw.random() < 0.6,
    }
    if draw.random() < 0.2:
        params |= {"preemption_mode": "swap", "num_cpu_blocks": draw.choice([blocks, 4 * blocks])}
    if draw.random() < 0.15:
        params["scheduler_delay_factor"] = draw.choice([0.3, 0.5, 1.0, 3.0])
    requests = requests_of(draw, sent, params["policy"], shuffles=False)
    return {"case": f"random_{seed}", "params": params, "cost": COST, "requests": requests}


def main():
    version, first, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    os.makedirs(folder, exist_ok=True)
    for seed in range(first, first + count):
        with open(os.path.join(folder, f"random_{seed:05}.json"), "w") as file:
            json.dump(drawn(version, seed), file)


def drawn(version, seed):
    if version == "0.6":
        return case_v0(seed)
    if version.endswith("-drafts"):
        return case_with_drafts(version.removesuffix("-drafts"), seed)
    if version.endswith("-stages"):
        return case_with_stages(version.removesuffix("-stages"), seed)
    return case(version, seed)


if __name__ == "__main__":
    main()
