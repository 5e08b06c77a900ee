"""Loads a vLLM server with vLLM's own bench client and keeps what both saw, as files that `plimsoll` and this project's tests read.

    python3 calibrations/measured/serving.py FOLDER [SERVER ...]

Needs vLLM 0.25 or one like it and a GPU that holds 16 GB of weights; SERVER is a name of `SERVERS`, all by default. The model is made here:
the shape of Llama-3.1-8B, weights that vLLM draws at random (`--load-format dummy`), and a tokenizer of as many words as the vocabulary has
tokens, so that nothing is downloaded. Client and server run on this machine; nothing is set on the card.

FOLDER gets NAME.json.gz of each run: the client's result as `--save-result --save-detailed` writes it, with the load's `flags` and without
texts and errors, times in steps of 10 us; and SERVER.log. Beside it FOLDER.csv is a table for `plimsoll validate`, and FOLDER-engine.csv
holds by how much the server's own counters moved in each run.
"""

import asyncio
import contextlib
import csv
import gzip
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

URL = "http://127.0.0.1:8000"
MODEL, VOCABULARY = "meta-llama/Llama-3.1-8B", 128256
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": VOCABULARY,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16", "bos_token_id": 1,
    "eos_token_id": 2, "initializer_range": 0.02, "use_cache": True,
}  # fmt: skip
SERVED = ["--max-model-len", "8192"]


def load(prompt, answer, requests, how):
    return f"--random-input-len {prompt} --random-output-len {answer} --num-prompts {requests} {how}"


# The first run of a server warms it up and is not kept. A run's seed is 101 and its place in the list.
WARM = ("warm", load(700, 20, 60, "--request-rate 60 --random-range-ratio 0.9"))
SERVERS = {
    "async": (SERVED, "a-", [
        WARM,
        ("c1", load(512, 128, 6, "--max-concurrency 1")),
        ("c16", load(512, 128, 64, "--max-concurrency 16")),
        ("c64", load(512, 128, 256, "--max-concurrency 64")),
        ("c256", load(512, 128, 768, "--max-concurrency 256")),
        ("r8", load(512, 128, 120, "--request-rate 8")),
        ("r24", load(512, 128, 480, "--request-rate 24")),
        ("r48", load(512, 128, 960, "--request-rate 48")),
        ("long32", load(4096, 64, 96, "--max-concurrency 32")),
        ("inf", load(1024, 256, 400, "--request-rate inf")),
        ("mix20", load(1024, 192, 300, "--request-rate 20 --random-range-ratio 0.8")),
        ("decode128", load(128, 512, 256, "--max-concurrency 128")),
    ]),
    "sync": ([*SERVED, "--no-async-scheduling"], "s-", [
        WARM,
        ("c1", load(512, 128, 5, "--max-concurrency 1")),
        ("c64", load(512, 128, 256, "--max-concurrency 64")),
        ("c256", load(512, 128, 768, "--max-concurrency 256")),
        ("r24", load(512, 128, 300, "--request-rate 24")),
    ]),
}  # fmt: skip


def make_model(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {{0: "<unk>", 1: "<s>", 2: "</s>"}.get(i, f"t{i}"): i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=131072, **special).save_pretrained(folder)
    (pathlib.Path(folder) / "config.json").write_text(json.dumps(CONFIG))


def get(path):
    with urllib.request.urlopen(URL + path, timeout=5) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def server(model, flags, log):
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, *flags, "--load-format", "dummy"]
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        while True:
            if process.poll() is not None:
                sys.exit(f"the server ended before it answered: {log}")
            with contextlib.suppress(OSError):
                get("/health")
                break
            time.sleep(0.5)
        yield
    finally:
        for how in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)


def bench(model, flags, folder):
    """vLLM's client, in this process: importing it takes 20 s on a slow machine."""
    from vllm.benchmarks.serve import add_cli_args, main_async
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    fixed = "--dataset-name random --ignore-eos --temperature 0 --save-result --save-detailed --disable-tqdm --ready-check-timeout-sec 0"
    shown = "--percentile-metrics ttft,tpot,itl,e2el --result-filename result.json"
    arguments = [*f"{fixed} {shown} {flags}".split(), "--model", model, "--result-dir", folder]
    with contextlib.redirect_stdout(io.StringIO()):
        asyncio.run(main_async(parser.parse_args(arguments)))
    result = json.loads((pathlib.Path(folder) / "result.json").read_text())
    return result | {"flags": flags}


def trimmed(result):
    """What readers of results need; the sum of an answer's rounded gaps is off by less than 0.1 ms."""

    def short(value, places=5):
        if isinstance(value, list):
            return [short(one, places) for one in value]
        return round(value, places) if isinstance(value, float) else value

    left = {"errors", "generated_texts", "label"}
    kept = {key: value for key, value in result.items() if key not in left}
    kept |= {"model_id": MODEL, "tokenizer_id": MODEL}
    return {key: short(value) if isinstance(value, list) or key == "duration" else short(value, 4) for key, value in kept.items()}


def write_result(path, result):
    path.write_bytes(gzip.compress(json.dumps(trimmed(result), separators=(",", ":")).encode(), 9, mtime=0))


def counters(text):
    """Sums and counts by name, over their labels."""
    sums = {}
    for line in text.splitlines():
        if line.startswith("vllm:") and "_bucket{" not in line:
            name, value = line.split("{")[0].removeprefix("vllm:"), float(line.rsplit(" ", 1)[1])
            sums[name] = sums.get(name, 0) + value
    return sums


def moved(before, after):
    return {name: value - before.get(name, 0) for name, value in after.items()}


ENGINE = (
    "id,requests,prompt_tokens,cached_tokens,output_tokens,preemptions,steps,tokens_per_step,queue_ms,prefill_ms,decode_ms,itl_ms,"
    "ttft_ms,e2e_ms,client_ttft_ms,client_e2e_ms,client_pieces,duration_s"
)


def engine_row(name, by, result):
    """Means of a run: the engine's (queue to itl), the API server's (ttft, e2e), the client's."""

    def mean(counter):
        return f"{by[counter + '_seconds_sum'] / by[counter + '_seconds_count'] * 1e3:.2f}"

    whole = ["prompt_tokens_total", "prefix_cache_hits_total", "generation_tokens_total", "num_preemptions_total"]
    steps, tokens = by["iteration_tokens_total_count"], by["iteration_tokens_total_sum"]
    means = ["request_queue_time", "request_prefill_time", "request_decode_time", "inter_token_latency", "time_to_first_token",
             "e2e_request_latency"]  # fmt: skip
    return [
        name, result["completed"], *(int(by[counter]) for counter in whole), int(steps), f"{tokens / steps:.1f}",
        *(mean(counter) for counter in means), f"{result['mean_ttft_ms']:.2f}", f"{result['mean_e2el_ms']:.2f}",
        sum(1 + len(gaps) for gaps in result["itls"]), f"{result['duration']:.3f}",
    ]  # fmt: skip


LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
STATISTICS = {"mean": "mean", "p50": "median", "p99": "p99"}
TABLE = (
    "id,source,source_path,date,engine,version,gpu,n_gpus,tp,model,precision,workload,isl_mean,osl_mean,num_prompts,"
    "rate_or_concurrency_kind,value,duration_s,req_throughput,output_tok_s,total_tok_s,"
    + ",".join(f"{latency}_{statistic}_ms" for latency in LATENCIES for statistic in STATISTICS)
    + ",flags,notes,confidence,family,suggested_use"
)


def table_row(name, result, served, family, version, gpu, folder):
    given = dict(zip(words := result["flags"].split(), words[1:]))
    workload = f"random isl={given['--random-input-len']} osl={given['--random-output-len']}"
    if "--random-range-ratio" in given:
        workload += f" lengths±{given['--random-range-ratio']}"
    if "--max-concurrency" in given:
        kind, value = "max_concurrency", given["--max-concurrency"]
    else:
        value = given["--request-rate"]
        kind = "burst_all_at_once" if value == "inf" else "request_rate_rps"
    day = result["date"]
    lengths = [f"{result[key] / result['completed']:.10g}" for key in ("total_input_tokens", "total_output_tokens")]
    rates = [f"{result[key]:.5g}" for key in ("request_throughput", "output_throughput", "total_token_throughput")]
    latencies = [f"{result[f'{s}_{l}_ms']:.6g}" for l in LATENCIES.values() for s in STATISTICS.values()]
    return [
        name, "Plimsoll's own measurement", f"{folder.name}/{name}.json.gz", f"{day[:4]}-{day[4:6]}-{day[6:8]}", "vllm", version, gpu, 1, 1,
        MODEL, "bf16", workload, *lengths, result["num_prompts"], kind, value, f"{result['duration']:.4f}", *rates, *latencies,
        " ".join(served), "random weights; word-level tokenizer; client on the same machine", "high", family, "validate",
    ]  # fmt: skip


class Table:
    def __init__(self, path, columns):
        self.file = open(path, "w", newline="")
        self.rows = csv.writer(self.file, lineterminator="\n")
        self.rows.writerow(columns.split(","))

    def row(self, cells):
        self.rows.writerow(cells)
        self.file.flush()


def main():
    import vllm

    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(SERVERS)
    folder.mkdir(parents=True, exist_ok=True)
    # By another process: a context of this one would take memory from the server.
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"]
    name = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    gpu = {"NVIDIA H200": "H200-SXM-141GB", "NVIDIA H100 80GB HBM3": "H100-SXM-80GB"}.get(name, name)
    table, engine = Table(f"{folder}.csv", TABLE), Table(f"{folder}-engine.csv", ENGINE)
    with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as results:
        make_model(model)
        for family in names:
            served, prefix, runs = SERVERS[family]
            with server(model, served, folder / f"{family}.log"):
                before = {}
                for place, (run, flags) in enumerate(runs):
                    result = bench(model, f"{flags} --seed {101 + place}", results)
                    after = counters(get("/metrics"))
                    print(f"{prefix}{run}: {result['output_throughput']:.0f} tok/s, TTFT {result['mean_ttft_ms']:.1f} ms", flush=True)
                    if (run, flags) != WARM:
                        write_result(folder / f"{prefix}{run}.json.gz", result)
                        table.row(table_row(prefix + run, result, served, family, vllm.__version__, gpu, folder))
                        engine.row(engine_row(prefix + run, moved(before, after), result))
                    before = after


if __name__ == "__main__":
    main()
