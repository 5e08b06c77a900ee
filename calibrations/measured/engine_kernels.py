"""Times on a GPU what an engine runs there, as tables that `plimsoll validate --kernels` and this project's tests read.

    python3 calibrations/measured/engine_kernels.py LIBRARY FOLDER

FOLDER gets kernel tables; beside it, as FOLDER-latent.csv and FOLDER-steps.csv, what no kernel table holds. LIBRARY is
`vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so` of vLLM's wheel: FlashAttention 3, needs PyTorch 2.11 or younger and a Hopper card. Products
are cuBLAS's. A step is Llama-3.1-8B's with random weights: these kernels, and norms, rotary embedding, cache writes and activations as
vLLM fuses them, in Triton; 390 nodes of one CUDA graph, without an engine's host. Data are random normal numbers, weights and KV larger
than the L2. Every time is a median of replayed graphs; nothing is set on the card.
"""

import csv
import ctypes
import os
import pathlib
import sys
import time

import nvidia
import torch
import triton
import triton.language as tl

DEVICE, BF16, FP8 = "cuda", torch.bfloat16, torch.float8_e4m3fn
PAGE, HEAD = 16, 128
# Llama-3.1-8B
HIDDEN, INNER, VOCABULARY, LAYERS, QUERY_HEADS, KV_HEADS = 4096, 14336, 128256, 32, 32, 8
QKV = (QUERY_HEADS + 2 * KV_HEADS) * HEAD
# Splits of a context that vLLM allows inside a CUDA graph.
MOST_SPLITS = 32
# Seconds after which a card at its power limit has its full clock again, and of load after which it has lost it.
REST_S, LASTING_S = 0.3, 1.0


def open_flash_attention(library):
    """The wheel's library names the CUDA runtime, which PyTorch brings in a folder of its own."""
    for folder in nvidia.__path__:
        for path in pathlib.Path(folder).rglob("libcudart.so.13*"):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    torch.ops.load_library(library)


def normal(*shape, sd=1.0):
    return torch.empty(*shape, device=DEVICE, dtype=BF16).normal_(0, sd)


def int32(values):
    return torch.tensor(values, device=DEVICE, dtype=torch.int32)


def attend(q, k, v, out, starts, used, longest_new, longest, table, plan, splits, k_starts=None, q_latent=None, scale=None, ones=None):
    """FlashAttention 3 as vLLM calls it; `used` and `table` of a paged cache, or `k_starts`."""
    scale = scale or q.shape[-1] ** -0.5
    torch.ops._vllm_fa3_C.fwd(
        q, k, v, None, None, q_latent, out, starts, k_starts, None, None, used, longest_new, longest, table,
        None, None, None, None, None, ones, ones, ones, scale, True, -1, -1, 0.0, True, plan, splits, None, 0, None, 1, 0, None,
    )  # fmt: skip


def plan_of(sequences, longest_new, longest, heads, kv_heads, dims, dtype, used, starts, page, splits):
    return torch.ops._vllm_fa3_C.get_scheduler_metadata(
        sequences, longest_new, longest, heads, kv_heads, *dims, dtype, used, starts,
        None, None, None, None, page, 0, True, -1, -1, False, splits, None, 0,
    )  # fmt: skip


def seconds(body, samples=7):
    """One call of `body(turn)`, by a graph of as many as fill 3 ms."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        body(0)
        body(1)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    body(2)
    end.record()
    torch.cuda.synchronize()
    calls = int(min(max(3 / max(begin.elapsed_time(end), 2e-3), 1), 200))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for turn in range(calls):
            body(turn)
    times = sorted(replays(graph, samples))
    return times[samples // 2] / calls


def replays(graph, samples, rest_s=0):
    graph.replay()
    torch.cuda.synchronize()
    time.sleep(rest_s)
    events = [torch.cuda.Event(True) for _ in range(samples + 1)]
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])]


class Table:
    def __init__(self, folder, name, columns):
        self.file = open(folder + name + ".csv", "w", newline="")
        self.rows = csv.writer(self.file, lineterminator="\n")
        self.rows.writerow(columns.split(","))

    def row(self, *cells):
        self.rows.writerow(cells)
        self.file.flush()


def products(folder, gpu):
    table = Table(folder, "/gemm", "gpu,fw,ver,dtype,n,k,m,us,l2_warm")
    torch_version = "cublas-torch" + torch.__version__.split("+")[0]
    for n, k in [(1024, 4096), (4096, 1024), (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (16384, 4096), (4096, 16384),
                 (10240, 8192), (1024, 8192), (51200, 5120), (128256, 4096)]:  # fmt: skip
        weights = [normal(n, k) for _ in range(max(2, min(40, int(3e8 // (2 * n * k)) + 1)))]
        for m in [1, 8, 16, 64, 128, 256, 512, 2048, 8192]:
            if n == VOCABULARY and m > 512:
                continue
            x, y = normal(m, k), normal(m, n)
            time.sleep(REST_S / 3 if m * n * k > 5e9 else 0)
            taken = seconds(lambda turn: torch.mm(x, weights[turn % len(weights)].t(), out=y), 5)
            table.row(gpu, "vllm", torch_version, "bf16", n, k, m, f"{taken * 1e6:.3f}", 0)


def prefill(folder, gpu):
    table = Table(folder, "/attn_prefill", "gpu,fw,ver,kernel,q_dtype,kv_dtype,heads,kv_heads,batch,seqlen,us")
    for sequences, tokens in [(1, 512), (1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 16384), (4, 512), (8, 1024)]:
        pages = sequences * tokens // PAGE
        q = normal(sequences * tokens, QUERY_HEADS, HEAD)
        k, v, out = normal(pages, PAGE, KV_HEADS, HEAD), normal(pages, PAGE, KV_HEADS, HEAD), torch.empty_like(q)
        starts, used = int32(range(0, (sequences + 1) * tokens, tokens)), int32([tokens] * sequences)
        blocks = torch.randperm(pages, device=DEVICE, dtype=torch.int32).view(sequences, -1)
        paged = seconds(lambda turn: attend(q, k, v, out, starts, used, tokens, tokens, blocks, None, 0))
        flat = [x.view(-1, KV_HEADS, HEAD) for x in (k, v)]
        whole = seconds(lambda turn: attend(q, *flat, out, starts, None, tokens, tokens, None, None, 0, k_starts=starts))
        table.row(gpu, "vllm", "0.33.0", "flash_attn_fa3", "bf16", "bf16", QUERY_HEADS, KV_HEADS, sequences, tokens, f"{paged * 1e6:.3f}")
        print(f"{sequences} x {tokens} tokens: {paged * 1e6:.1f} us over pages, {whole * 1e6:.1f} us without")


def decode(folder, gpu):
    table = Table(
        folder, "/attn_decode", "gpu,fw,ver,kernel,q_dtype,kv_dtype,heads,kv_heads,batch,context,us,kv_mb,l2_warm,above_peak_bw"
    )
    pages = 1_500_000 // PAGE
    cache = [normal(pages, PAGE, KV_HEADS, HEAD) for _ in range(2)]
    grid = [(1, 512), (1, 2048), (1, 8192), (1, 32768), (8, 512), (8, 2048), (8, 8192), (32, 512), (32, 2048), (32, 8192),
            (64, 1024), (128, 512), (128, 2048), (128, 8192), (256, 1024), (256, 4096), (512, 1024)]  # fmt: skip
    for dtype, name, groups in [(BF16, "bf16", (4, 8)), (FP8, "fp8", (4,))]:
        k, v = (x.to(dtype) for x in cache)
        for group in groups:
            for sequences, context in grid:
                heads = group * KV_HEADS
                q, out = normal(sequences, heads, HEAD).to(dtype), normal(sequences, heads, HEAD)
                ones = torch.ones(sequences, KV_HEADS, device=DEVICE) if dtype == FP8 else None
                tables = block_tables(pages, sequences, context, PAGE)
                used, starts = int32([context] * sequences), int32(range(sequences + 1))
                dims = (HEAD, HEAD)
                plan = plan_of(sequences, 1, context, heads, KV_HEADS, dims, dtype, used, starts, PAGE, MOST_SPLITS)
                taken = seconds(
                    lambda turn: attend(
                        q, k, v, out, starts, used, 1, context, tables[turn % len(tables)], plan, MOST_SPLITS, ones=ones
                    )
                )
                megabytes = sequences * context * 2 * KV_HEADS * HEAD * k.element_size() / 1e6
                table.row(gpu, "vllm", "0.33.0", "flash_attn_fa3", name, name, heads, KV_HEADS, sequences, context,
                          f"{taken * 1e6:.3f}", f"{megabytes:.3f}", 0, 0)  # fmt: skip


def block_tables(pages, sequences, context, page):
    """As many tables as the cache has room for, so that a call finds none of its pages in the L2."""
    order, needed = torch.randperm(pages, device=DEVICE, dtype=torch.int32), sequences * context // page
    return [order[i * needed : (i + 1) * needed].view(sequences, -1) for i in range(max(1, min(pages // needed, 200)))]


def latent(folder, gpu):
    """Decoding over DeepSeek-V3's latent cache: 512 + 64 numbers a token, absorbed projections."""
    table = Table(folder, "-latent", "gpu,fw,ver,kernel,heads,batch,context,us")
    page = 64
    pages = 1_600_000 // page
    cache = normal(pages, page, 1, 576)
    for heads in (16, 32, 64, 128):
        for sequences, context in [(1, 1024), (1, 4096), (1, 16384), (8, 1024), (8, 4096), (32, 1024), (32, 4096), (128, 1024),
                                   (128, 4096), (256, 1024)]:  # fmt: skip
            q, q_latent, out = normal(sequences, heads, 64), normal(sequences, heads, 512), normal(sequences, heads, 512)
            tables = block_tables(pages, sequences, context, page)
            used, starts = int32([context] * sequences), int32(range(sequences + 1))
            plan = plan_of(sequences, 1, context, heads, 1, (64, 512), BF16, used, starts, page, MOST_SPLITS)
            taken = seconds(
                lambda turn: attend(
                    q, cache[..., 512:], cache[..., :512], out, starts, used, 1, context, tables[turn % len(tables)], plan,
                    MOST_SPLITS, q_latent=q_latent, scale=192**-0.5,
                )
            )  # fmt: skip
            table.row(gpu, "vllm", "0.33.0", "flash_attn_fa3_mla", heads, sequences, context, f"{taken * 1e6:.3f}")


@triton.jit
def add_and_norm(x, residual, weight, SIZE: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, SIZE)
    value = tl.load(x + row * SIZE + at).to(tl.float32) + tl.load(residual + row * SIZE + at).to(tl.float32)
    tl.store(residual + row * SIZE + at, value.to(tl.bfloat16))
    factor = tl.rsqrt(tl.sum(value * value, 0) / SIZE + 1e-5)
    tl.store(x + row * SIZE + at, (value * factor * tl.load(weight + at).to(tl.float32)).to(tl.bfloat16))


@triton.jit
def silu_and_mul(x, y, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * SIZE + at).to(tl.float32)
    up = tl.load(x + row * 2 * SIZE + SIZE + at).to(tl.float32)
    tl.store(y + row * SIZE + at, (gate / (1 + tl.exp(-gate)) * up).to(tl.bfloat16))


@triton.jit
def rotate(x, cosines, sines, positions, STRIDE: tl.constexpr):
    row, head, at = tl.program_id(0), tl.program_id(1), tl.arange(0, 64)
    position = tl.load(positions + row)
    c, s = tl.load(cosines + position * 64 + at), tl.load(sines + position * 64 + at)
    first = x + row * STRIDE + head * 128 + at
    a, b = tl.load(first).to(tl.float32), tl.load(first + 64).to(tl.float32)
    tl.store(first, (a * c - b * s).to(tl.bfloat16))
    tl.store(first + 64, (b * c + a * s).to(tl.bfloat16))


@triton.jit
def write_cache(x, k, v, slots, STRIDE: tl.constexpr, K_AT: tl.constexpr, SIZE: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, SIZE)
    slot = tl.load(slots + row).to(tl.int64)
    tl.store(k + slot * SIZE + at, tl.load(x + row * STRIDE + K_AT + at))
    tl.store(v + slot * SIZE + at, tl.load(x + row * STRIDE + K_AT + SIZE + at))


class Llama:
    def __init__(self):
        shapes = [(QKV, HIDDEN), (HIDDEN, HIDDEN), (2 * INNER, HIDDEN), (HIDDEN, INNER)]
        self.layers = [[normal(n, k, sd=0.02) for n, k in shapes] for _ in range(LAYERS)]
        self.embedding, self.head = normal(VOCABULARY, HIDDEN, sd=0.02), normal(VOCABULARY, HIDDEN, sd=0.02)
        self.norm = torch.ones(HIDDEN, device=DEVICE, dtype=BF16)
        room = torch.cuda.mem_get_info()[0] - 9e9
        self.pages = min(int(room) // (4 * KV_HEADS * HEAD * LAYERS), 700_000) // PAGE
        self.cache = [[normal(self.pages, PAGE, KV_HEADS, HEAD) for _ in range(2)] for _ in range(LAYERS)]
        self.cosines, self.sines = torch.randn(40000, 64, device=DEVICE), torch.randn(40000, 64, device=DEVICE)

    def times(self, new, contexts):
        """Replays of a step of sequences that compute `new` tokens and then have `contexts`; nothing where they find no room."""
        tokens, blocks = sum(new), [(context + PAGE - 1) // PAGE for context in contexts]
        if sum(blocks) > self.pages:
            return None
        order, table, at = torch.randperm(self.pages, device=DEVICE, dtype=torch.int32), [], 0
        for count in blocks:
            table.append(torch.nn.functional.pad(order[at : at + count], (0, max(blocks) - count)))
            at += count
        table, used, starts = torch.stack(table), int32(contexts), int32([0, *new]).cumsum(0).int()
        positions = torch.cat([torch.arange(c - n, c) for n, c in zip(new, contexts)]).to(DEVICE)
        sequence = torch.repeat_interleave(torch.arange(len(new)), torch.tensor(new)).to(DEVICE)
        slots = table[sequence, positions // PAGE] * PAGE + (positions % PAGE).int()
        ids, last = torch.randint(0, VOCABULARY, (tokens,), device=DEVICE), (starts[1:] - 1).long()
        splits = MOST_SPLITS if max(new) == 1 else 0
        shape = (len(new), max(new), max(contexts), QUERY_HEADS, KV_HEADS, (HEAD, HEAD))
        plan = plan_of(*shape, BF16, used, starts, PAGE, splits)
        x, residual = normal(tokens, HIDDEN), normal(tokens, HIDDEN)
        qkv, attended = normal(tokens, QKV), normal(tokens, QUERY_HEADS, HEAD)
        inner, activated, logits = normal(tokens, 2 * INNER), normal(tokens, INNER), normal(len(new), VOCABULARY)

        def step():
            torch.index_select(self.embedding, 0, ids, out=residual)
            x.zero_()
            for (w_qkv, w_out, w_up, w_down), (k, v) in zip(self.layers, self.cache):
                add_and_norm[(tokens,)](x, residual, self.norm, HIDDEN, num_warps=8)
                torch.mm(x, w_qkv.t(), out=qkv)
                rotate[(tokens, QUERY_HEADS + KV_HEADS)](qkv, self.cosines, self.sines, positions, QKV, num_warps=1)
                write_cache[(tokens,)](qkv, k, v, slots, QKV, QUERY_HEADS * HEAD, KV_HEADS * HEAD, num_warps=4)
                q = qkv[:, : QUERY_HEADS * HEAD].view(tokens, QUERY_HEADS, HEAD)
                attend(q, k, v, attended, starts, used, max(new), max(contexts), table, plan, splits)
                torch.mm(attended.view(tokens, HIDDEN), w_out.t(), out=x)
                add_and_norm[(tokens,)](x, residual, self.norm, HIDDEN, num_warps=8)
                torch.mm(x, w_up.t(), out=inner)
                silu_and_mul[(tokens, INNER // 1024)](inner, activated, INNER, 1024, num_warps=4)
                torch.mm(activated, w_down.t(), out=x)
            add_and_norm[(tokens,)](x, residual, self.norm, HIDDEN, num_warps=8)
            torch.mm(x.index_select(0, last), self.head.t(), out=logits)
            logits.argmax(-1)

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        once = replays(graph, 1)[0]
        return replays(graph, max(7, int(LASTING_S / once)), REST_S)


def steps(folder, gpu):
    """The first replay finds a rested card, the last one a card under load for a second."""
    table = Table(folder, "-steps", "gpu,decodes,context,chunks,new,chunk_context,first_ms,median_ms,last_ms")
    llama = Llama()

    def measure(decodes, context, chunks=0, new=0, chunk_context=0):
        times = llama.times([1] * decodes + [new] * chunks, [context] * decodes + [chunk_context] * chunks)
        if times:
            cells = [f"{t * 1e3:.3f}" for t in (times[0], sorted(times)[len(times) // 2], times[-1])]
            table.row(gpu, decodes, context, chunks, new, chunk_context, *cells)

    for decodes in (1, 4, 8, 16, 32, 64, 128, 256, 512):
        for context in (512, 2048, 8192):
            measure(decodes, context)
    for new, context in [(128, 128), (512, 512), (1024, 1024), (2048, 2048), (8192, 8192), (512, 8192), (2048, 8192), (2048, 32768)]:
        measure(0, 0, 1, new, context)
    measure(0, 0, 8, 1024, 1024)
    for decodes, context, new, chunk_context in [(8, 2048, 504, 504), (32, 2048, 480, 480), (32, 2048, 2016, 2016), (64, 2048, 448, 448),
            (64, 2048, 1984, 1984), (128, 1024, 384, 384), (128, 1024, 1920, 1920), (256, 512, 256, 256), (256, 1024, 1792, 1792),
            (128, 1024, 896, 4096), (64, 4096, 1984, 8192)]:  # fmt: skip
        measure(decodes, context, 1, new, chunk_context)


def main():
    library, folder = sys.argv[1:]
    folder = folder.rstrip("/")
    os.makedirs(folder, exist_ok=True)
    open_flash_attention(library)
    name = torch.cuda.get_device_name(0)
    gpu = {"NVIDIA H200": "h200_sxm", "NVIDIA H100 80GB HBM3": "h100_sxm"}.get(name, name)
    print(name, "PyTorch", torch.__version__, flush=True)
    for part in (products, prefill, decode, latent, steps):
        begun = time.time()
        torch.cuda.empty_cache()
        part(folder, gpu)
        print(f"{part.__name__}: {time.time() - begun:.1f} s", flush=True)


main()
