"""What record_vllm.py must know of speculative decoding: the configuration, and the model runner's part, which is how many drafts are
accepted and how many are proposed.

Of a share with `k` drafts come `1 + a` tokens. `a` is the next entry of the request's `accepted`, cut to `k`; past the list's end it is 0. An
entry is used by every share of the request that is executed with drafts proposed for it, whether its output is kept or not. Padding
(0.33, a request that joins with one token left) is never accepted and uses no entry.
"""

from vllm.config import ParallelConfig, SpeculativeConfig
from vllm.v1.outputs import DraftTokenIds

# A draft's token id. Nobody looks at it: without structured output the scheduler only counts.
DRAFT = -1


def speculative(params, model):
    """vLLM's own speculative configuration, or none. It is built as one for n-grams, which asks for no second model."""
    wanted = params.get("speculative")
    if wanted is None:
        return None
    config = SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=wanted["num_speculative_tokens"],
        prompt_lookup_min=5,
        prompt_lookup_max=5,
        target_model_config=model,
        target_parallel_config=ParallelConfig(),
    )
    for name, value in wanted.items():
        if not hasattr(config, name):
            raise ValueError(f"this vLLM has no {name}")
        setattr(config, name, value)
    return config


class Drafts:
    """The part of vLLM's model runner that accepts and proposes drafts."""

    def __init__(self, case, newer, asynchronous):
        params = case["params"]
        self.method = params["speculative"]["method"]
        self.most = params["speculative"]["num_speculative_tokens"]
        self.max_model_len = params["max_model_len"]
        self.newer, self.asynchronous = newer, asynchronous
        self.accepted = {str(sent["id"]): iter(sent.get("accepted", ())) for sent in case["requests"]}
        self.proposed = {str(sent["id"]): iter(sent["proposed"]) for sent in case["requests"] if "proposed" in sent}
        if asynchronous and not newer:
            raise ValueError("0.11 refuses asynchronous scheduling with drafts")
        if self.method == "draft_model" and not newer:
            raise ValueError("0.11 refuses a draft model")
        if self.proposed and (asynchronous or self.method != "ngram"):
            raise ValueError("only synchronous n-gram drafts vary in number")

    def tokens(self, name, drafts, is_padding):
        """How many tokens come of a share that samples and carries so many drafts."""
        if not drafts or is_padding:
            return 1
        return 1 + min(next(self.accepted[name], 0), drafts)

    def propose(self, shares, sampled):
        """The drafts for the next step, which the synchronous loop fetches after every step that computed anything.

        0.11 proposes none in a step in which any request comes too close to the longest sequence, and the scheduler then keeps what it has.
        """
        counts = {str(name): self.count(str(name), sampled[str(name)] > 0) for name, _, _ in shares}
        furthest = max(computed + n for _, computed, n in shares)
        if not self.newer and furthest + self.most > self.max_model_len:
            return None
        return DraftTokenIds(list(counts), [[DRAFT] * count for count in counts.values()])

    def count(self, name, is_sampled):
        """A drafter that runs on the GPU drafts for every row of the batch, n-grams are looked up where there is a new token."""
        if self.method != "ngram" or (self.newer and name not in self.proposed):
            return self.most
        if not is_sampled:
            return 0
        if name in self.proposed:
            return min(next(self.proposed[name], 0), self.most)
        return self.most
