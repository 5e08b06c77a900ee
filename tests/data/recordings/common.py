"""What the recorders beside this file and random_cases.py share: files, the order of arrival, a step's duration, token ids of
segments, and stand-ins for packages that are imported and never used. Needs nothing but Python.
"""

import gzip
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types

# The step time of drawn cases.
COST = {"per_step_s": 0.006, "per_token_s": 2e-05, "per_attended_token_s": 1.5e-09}
# Every token that vLLM generates; no segment contains it.
GENERATED = 0
# A loop that schedules nothing so often with requests inside will do so for ever.
EMPTY_PASSES_MAX = 1000
# Requests that take one another's blocks may do so for ever, too.
STEPS_MAX = 20_000


def read(path):
    """A case, or a recording, gzipped or not."""
    data = open(path, "rb").read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def written_to(folder, path):
    """Where the recording of the case at `path` goes."""
    return os.path.join(folder, os.path.basename(path).removesuffix(".gz"))


def record_files(arguments, record):
    """CASE.json... OUT_FOLDER: records each case; what an engine cannot get through is told."""
    *cases, folder = arguments
    os.makedirs(folder, exist_ok=True)
    for path in cases:
        case = read(path)
        try:
            made = record(case)
        except Exception as error:
            print(f"{path}: {type(error).__name__}: {error}")
            continue
        with open(written_to(folder, path), "w") as file:
            json.dump(made, file, separators=(",", ":"))


def by_arrival(requests):
    """In order of arrival, equal arrivals in order of id."""
    return sorted(requests, key=lambda sent: (sent["arrival_s"], sent["id"]))


def duration(law, shares):
    """Seconds of a step with these shares: (request, tokens computed before, tokens computed now)."""
    tokens = sum(n for _, _, n in shares)
    attended = sum(n * (computed + (n + 1) / 2) for _, computed, n in shares)
    return law["per_step_s"] + law["per_token_s"] * tokens + law["per_attended_token_s"] * attended


def no_results(requests):
    """What is told of each vLLM request, before anything is known."""
    return {
        sent["id"]: {"id": sent["id"], "cached_tokens": None, "first_token_s": None, "last_token_s": None, "preemptions": 0}
        for sent in requests
    }


class Tokens:
    """Token ids of named segments: (segment, index) is a number of its own."""

    def __init__(self):
        self.ids = {}

    def of(self, prompt):
        tokens = []
        for name, length in prompt:
            if name == "OUT":
                tokens += [GENERATED] * length
            else:
                tokens += [self.ids.setdefault((name, at), len(self.ids) + 1) for at in range(length)]
        return tokens


def replace_missing(packages):
    """Has these packages replaced where they are not installed."""
    sys.meta_path.append(StandInFinder(packages))


class StandInType(type):
    """A class that stands for anything: attributes are more of the kind."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)


def stand_in(name):
    return StandInType(name, (object,), {"__init__": lambda self, *args, **named: None})


class StandInModule(types.ModuleType):
    __path__ = []
    __version__ = "99.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = stand_in(name)
        setattr(self, name, value)
        return value


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, so that it is asked only for what is not installed."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandInModule(spec.name)

    def exec_module(self, module):
        pass
