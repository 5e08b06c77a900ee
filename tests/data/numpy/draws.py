"""Writes draws.json beside this file: what NumPy draws, and the requests that two benchmark clients draw with it.

`python draws.py`, with numpy 1.26 or 2.x. Formulas are those of vLLM 0.33 (`RandomDataset.get_sampling_params`,
`get_request`) and SGLang 0.5.23 (`compute_random_lens`, `get_request`).
"""

import json
import math
import os

import numpy as np

SEEDS = [0, 1, 42]
SHAPES = [0.25, 0.5, 1.0, 3.5]
# Number of values less 1. 2^31 refuses almost half of all words, 2^32 - 1 takes all.
MOST = [0, 6, 1023, 2**31, 2**32 - 1]
DRAWS = 12
REQUESTS = 50


def bare():
    for seed in SEEDS:
        for shape in SHAPES:
            state = np.random.RandomState(seed)
            yield {"kind": "gamma", "seed": seed, "shape": shape, "draws": [state.gamma(shape, 1.0) for _ in range(DRAWS)]}
        state = np.random.RandomState(seed)
        yield {"kind": "exponential", "seed": seed, "draws": [state.exponential(1.0) for _ in range(DRAWS)]}
        for most in MOST:
            state = np.random.RandomState(seed)
            yield {"kind": "randint", "seed": seed, "most": most, "draws": state.randint(0, most + 1, size=DRAWS, dtype=np.int64).tolist()}
    for seed in SEEDS + [2**32, 2**64 - 1]:
        for most in MOST:
            generator = np.random.default_rng(seed)
            yield {"kind": "integers", "seed": seed, "most": most, "draws": generator.integers(0, most + 1, size=DRAWS).tolist()}


def instants_of_vllm(count, rate, burstiness, ramp):
    """Sums of gaps; without a ramp stretched to where the last falls at count / rate."""
    start, end, strategy = ramp or (rate, rate, "linear")
    instants, now = [], 0.0
    for index in range(count):
        progress = index / max(count - 1, 1)
        rate_here = start * (end / start) ** progress if strategy == "exponential" else start + (end - start) * progress
        now += np.random.gamma(shape=burstiness, scale=1.0 / (rate_here * burstiness))
        instants.append(now)
    factor = 1.0 if ramp else count / rate / now
    return [instant * factor for instant in instants]


def vllm(seed, input_len, output_len, ratio, rate, burstiness=1.0, ramp=None):
    np.random.seed(seed)
    lengths = np.random.default_rng(seed)

    def around(length):
        low, high = math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio))
        return lengths.integers(low, high + 1, size=REQUESTS).tolist()

    prompts, outputs = around(input_len), around(output_len)
    instants = instants_of_vllm(REQUESTS, rate, burstiness, ramp)
    asked = {"input_len": input_len, "output_len": output_len, "range_ratio": ratio, "rate": rate, "burstiness": burstiness, "ramp": ramp}
    return {"client": "vllm", "seed": seed, **asked, "prompts": prompts, "outputs": outputs, "instants": instants}


def sglang(seed, input_len, output_len, ratio, rate):
    np.random.seed(seed)

    def up_to(length):
        return np.random.randint(max(int(length * ratio), 1), length + 1, size=REQUESTS).tolist()

    prompts, outputs = up_to(input_len), up_to(output_len)
    instants, now = [], 0.0
    for _ in range(REQUESTS):
        instants.append(now)
        now += np.random.exponential(1.0 / rate)
    asked = {"input_len": input_len, "output_len": output_len, "range_ratio": ratio, "rate": rate, "burstiness": 1.0, "ramp": None}
    return {"client": "sglang", "seed": seed, **asked, "prompts": prompts, "outputs": outputs, "instants": instants}


def runs():
    yield vllm(0, 1024, 128, 0.0, 4.0)
    yield vllm(0, 1000, 200, 0.3, 7.5)
    yield vllm(42, 517, 33, 0.9, 0.25, burstiness=0.5)
    yield vllm(1, 8192, 1024, 0.125, 12.0, burstiness=3.5)
    yield vllm(3, 256, 64, 0.0, 1.0, ramp=[2.0, 16.0, "linear"])
    yield vllm(3, 256, 64, 0.5, 1.0, ramp=[2.0, 16.0, "exponential"])
    yield sglang(1, 1000, 1000, 0.0, 4.0)
    yield sglang(42, 4096, 300, 0.5, 0.75)
    yield sglang(7, 1024, 1024, 1.0, 30.0)


def main():
    rows = ",\n".join(json.dumps(row) for row in bare())
    clients = ",\n".join(json.dumps(row) for row in runs())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "draws.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"draws": [\n{rows}\n], "runs": [\n{clients}\n]}}\n')


if __name__ == "__main__":
    main()
