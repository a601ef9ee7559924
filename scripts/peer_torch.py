#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times torch.nn.functional.linear for `tilewright tune` and `tilewright bench`, one line in, one line out.

    hello                                     -> peer PyTorch VERSION
    m=1:n=2:k=3:dtype=f32:packed=0:scaled=0:threads=1:rotations=1:repetitions=1
                                              -> us MEDIAN       (or: error WHY)

x is [m, k], the weight [n, k] as torch stores it; `rotations` copies of the weight are used in turn, so that it comes
from memory. `packed` changes nothing: torch has no packed weight for nn.functional.linear. i8 is timed with
torch._int_mm, which multiplies without scaling. One call before the timed ones wakes
torch's threads. Tensors of the last problem are kept.
"""

import os
import statistics
import sys
import time

FIELDS = ("m", "n", "k", "dtype", "threads", "rotations", "repetitions")


class Problem:
    """Tensors of one size and dtype, and the call that is timed."""

    def __init__(self, torch, m, n, k, dtype, rotations):
        self.turn = 0
        rows = min(n, 256)  # random rows, repeated: drawing a whole weight takes longer than timing it
        copies = -(-n // rows)
        if dtype == "i8":
            self.x = torch.randint(-128, 128, (m, k), dtype=torch.int8)
            first = torch.randint(-128, 128, (rows, k), dtype=torch.int8).repeat(copies, 1)[:n]
            self.weights = [weight.t() for weight in [first] + [first.clone() for _ in range(rotations - 1)]]
            self.function = torch._int_mm
        else:
            kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
            self.x = torch.randn(m, k).to(kind)
            first = torch.randn(rows, k).to(kind).repeat(copies, 1)[:n]
            self.weights = [first] + [first.clone() for _ in range(rotations - 1)]
            self.function = torch.nn.functional.linear

    def call(self):
        self.turn = (self.turn + 1) % len(self.weights)
        return self.function(self.x, self.weights[self.turn])

    def microseconds(self):
        start = time.perf_counter_ns()
        self.call()
        return (time.perf_counter_ns() - start) / 1000


class Peer:
    def __init__(self, torch):
        self.torch = torch
        self.key = None
        self.problem = None

    def answer(self, line):
        request = dict(item.partition("=")[::2] for item in line.strip().split(":"))
        missing = [name for name in FIELDS if name not in request]
        if missing:
            return f"error a request needs {', '.join(FIELDS)}; {', '.join(missing)} missing"
        m, n, k, threads, rotations, repetitions = (
            int(request[name]) for name in ("m", "n", "k", "threads", "rotations", "repetitions")
        )
        dtype = request["dtype"]
        if dtype not in ("f32", "f16", "bf16", "i8"):
            return f"error dtype '{dtype}', allowed: f32, f16, bf16, i8"
        if self.torch.get_num_threads() != threads:
            self.torch.set_num_threads(threads)
        key = (m, n, k, dtype, rotations)
        if key != self.key:
            self.problem, self.key = None, None  # the old tensors go first
            self.problem = Problem(self.torch, m, n, k, dtype, rotations)
            self.key = key
            for _ in self.problem.weights:
                self.problem.call()
        self.problem.call()
        return f"us {statistics.median(self.problem.microseconds() for _ in range(max(1, repetitions))):.4f}"


def main():
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large pages, as tilewright's own tensors have
    try:
        import torch
    except Exception as error:  # a broken installation raises more than ImportError
        print(f"error {error}".replace("\n", " "), flush=True)
        return 1
    peer = Peer(torch)
    with torch.inference_mode():
        for line in sys.stdin:
            if line.strip() == "hello":
                print(f"peer PyTorch {torch.__version__}", flush=True)
                continue
            try:
                print(peer.answer(line), flush=True)
            except Exception as error:  # the caller shows it and goes on without this peer
                peer.problem, peer.key = None, None
                print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
