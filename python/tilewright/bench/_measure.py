# SPDX-License-Identifier: MIT
"""Times tilewright and PyTorch in turns. Both make a new result, as a layer of a model does, and go through several
copies of the weights, so that these come from memory and not from a cache."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import tilewright

from ._problems import Problem

_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": torch.nn.functional.hardswish,
}
ACTIVATIONS = tuple(_ACTIVATIONS)


@dataclass(frozen=True)
class Settings:
    threads: int
    packed: bool
    bias: bool
    activation: str | None
    seconds: float  # for one problem
    warm: bool  # one copy of the weights


@dataclass(frozen=True)
class Row:
    problem: Problem
    packed: bool
    threads: int
    kernel: str
    us: float
    spread: float  # distance of the quartiles over the median
    peer_us: float
    ratio: float  # peer_us / us, median of the pairs
    ratio_low: float  # its 95% interval
    ratio_high: float
    rel_err: float
    pairs: int


def _copies(weight_bytes: int, warm: bool) -> int:
    """How many weights it takes to fill the last cache twice, within 1 GiB."""
    if warm:
        return 1
    try:
        cache = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        cache = 0
    wanted = 2 * max(cache, 32 << 20)
    return max(1, min(math.ceil(wanted / weight_bytes), (1 << 30) // weight_bytes, 64))


class _Turns:
    """Calls a function with the next of several weights."""

    def __init__(self, function: Callable[[Any], torch.Tensor], weights: list[Any]) -> None:
        self.function, self.weights, self.at = function, weights, 0

    def __call__(self) -> torch.Tensor:
        self.at = (self.at + 1) % len(self.weights)
        return self.function(self.weights[self.at])

    def nanoseconds(self, calls: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(calls):
            self()
        return (time.perf_counter_ns() - start) / calls


def _tensors(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = _DTYPES[problem.dtype]
    rows = min(problem.n, 256)  # random rows, repeated: drawing a whole weight takes longer than timing it
    copies = -(-problem.n // rows)
    if dtype == torch.int8:
        x = torch.randint(-128, 128, (problem.m, problem.k), dtype=dtype)
        first = torch.randint(-128, 128, (rows, problem.k), dtype=dtype)
    else:
        x = torch.randn(problem.m, problem.k).to(dtype)
        first = torch.randn(rows, problem.k).to(dtype)
    return x, first.repeat(copies, 1)[: problem.n].contiguous()


def _functions(
    problem: Problem, settings: Settings, x: torch.Tensor
) -> tuple[Callable[[Any], torch.Tensor], Callable[[Any], torch.Tensor], dict[str, Any]]:
    """tilewright's call, PyTorch's, and the options of the former."""
    options: dict[str, Any] = {"activation": settings.activation, "units": settings.threads}
    if problem.dtype == "i8":
        # PyTorch multiplies only; tilewright applies a scale a token and a channel.
        options.update(scale_a=torch.rand(problem.m, 1) / 64, scale_b=torch.rand(problem.n) / 64)
        return (lambda w: tilewright.linear(x, w, **options)), (lambda w: torch._int_mm(x, w.t())), options
    bias = torch.randn(problem.n).to(x.dtype) if settings.bias else None
    options["bias"] = bias
    linear = torch.nn.functional.linear
    if settings.activation is None:
        return (lambda w: tilewright.linear(x, w, **options)), (lambda w: linear(x, w, bias)), options
    activate = _ACTIVATIONS[settings.activation]
    return (lambda w: tilewright.linear(x, w, **options)), (lambda w: activate(linear(x, w, bias))), options


def _error(d: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, options: dict[str, Any]) -> float:
    """Largest error over the largest value, of four rows against float64."""
    want = x[:4].double() @ weight.double().t()
    if "scale_a" in options:
        want = want * options["scale_a"][:4].double() * options["scale_b"].double()
    if options.get("bias") is not None:
        want = want + options["bias"].double()
    if options["activation"] is not None:
        want = _ACTIVATIONS[options["activation"]](want)
    return float((d[:4].double() - want).abs().max() / want.abs().max().clamp_min(1e-30))


def _interval(ratios: list[float]) -> tuple[float, float]:
    """95% interval of the median, from the order of the values alone."""
    ordered, n = sorted(ratios), len(ratios)
    reach = 0.98 * math.sqrt(n)
    return ordered[max(0, math.floor(n / 2 - reach))], ordered[min(n - 1, math.ceil(n / 2 + reach))]


def measure(problem: Problem, settings: Settings) -> Row:
    x, weight = _tensors(problem)
    copies = _copies(weight.numel() * weight.element_size(), settings.warm)
    plain = [weight, *(weight.clone() for _ in range(copies - 1))]
    ours_of, peers_of, options = _functions(problem, settings, x)
    weights = [tilewright.pack_weights(w, layout="nk") for w in plain] if settings.packed else plain
    ours, peers = _Turns(ours_of, weights), _Turns(peers_of, plain)

    # Kernels are compiled, pages touched, threads started.
    rel_err = _error(ours(), x, weight, options)
    peers()
    longer = max(ours.nanoseconds(1), peers.nanoseconds(1))
    calls = max(1, round(100_000 / longer))  # a reading takes a tenth of a millisecond at least
    mine: list[float] = []
    theirs: list[float] = []
    end = time.perf_counter() + settings.seconds
    while len(mine) < 9 or (time.perf_counter() < end and len(mine) < 1000):
        # Who is first changes with every pair.
        if len(mine) % 2:
            theirs.append(peers.nanoseconds(calls))
            mine.append(ours.nanoseconds(calls))
        else:
            mine.append(ours.nanoseconds(calls))
            theirs.append(peers.nanoseconds(calls))
    ratios = [b / a for a, b in zip(mine, theirs)]
    quarters = statistics.quantiles(mine, n=4)
    low, high = _interval(ratios)
    described = {key: value for key, value in options.items() if key != "bias"}
    bias = options.get("bias")
    b = weights[0] if settings.packed else weight.t()
    kernel = tilewright.query(x, b, bias=bias, **described).recipe
    median = statistics.median(mine)
    return Row(
        problem=problem,
        packed=settings.packed,
        threads=settings.threads,
        kernel=kernel,
        us=median / 1000,
        spread=(quarters[2] - quarters[0]) / median,
        peer_us=statistics.median(theirs) / 1000,
        ratio=statistics.median(ratios),
        ratio_low=low,
        ratio_high=high,
        rel_err=rel_err,
        pairs=len(mine),
    )
