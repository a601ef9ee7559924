#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's linear layers for `tilewright tune` and `tilewright bench`, one line in, one line out.

    hello                                     -> peer PyTorch VERSION
    m=1:n=2:k=3:dtype=f32:weight=f32:group=0:packed=0:scaled=0:threads=1:rotations=1:repetitions=1
                                              -> us MEDIAN       (or: error WHY)

x is [m, k], the weight [n, k] as torch stores it; `rotations` copies of the weight are used in turn, so that it comes
from memory. What is timed: torch.nn.functional.linear, for which `packed` changes nothing; for i8 torch._int_mm, which
multiplies without scaling, or, where scales are asked for and weights may be packed, oneDNN's qlinear (u8 by i8, a
scale of x and one of each row of the weight, bf16 out) if that is faster; for a 16-bit x beside another weight the
weight-only functions: u4 and i4 in groups by _weight_int4pack_mm_for_cpu, i8 by _weight_int8pack_mm. One call before
the timed ones wakes torch's threads. Tensors of the last problem are kept.

With rows=rms_norm;m=1;n=2;x=bf16;... (an operator on rows and its problem, ; for :) it is that operator in eager code
as it is commonly written; docs/cli.md says how. `rotations` are copies of x then.

With an argument, cuda:0, it times operators on rows on that GPU, in eager code and as torch.compile compiles it,
whichever is faster, in graphs of calls.
"""

import os
import statistics
import sys
import time

FIELDS = ("m", "n", "k", "dtype", "threads", "rotations", "repetitions")


class Problem:
    """Tensors of one size and dtype, and the call that is timed."""

    def __init__(self, torch, request, rotations):
        m, n, k = (int(request[name]) for name in ("m", "n", "k"))
        dtype = request["dtype"]
        weight = request.get("weight", dtype)
        self.turn = 0
        self.rows = min(n, 256)  # random rows, repeated: drawing a whole weight takes longer than timing it
        self.copies = -(-n // self.rows)
        self.torch, self.m, self.n, self.k, self.rotations = torch, m, n, k, rotations
        if weight != dtype:
            self.weight_only(dtype, weight, int(request.get("group", 0)))
        elif dtype == "i8":
            self.integers(request.get("packed") == "1" and request.get("scaled") == "1")
        else:
            self.x = torch.randn(m, k).to(self.kind(dtype))
            self.weights = self.rotated(self.repeated(torch.randn(self.rows, k).to(self.kind(dtype))))
            self.function = torch.nn.functional.linear

    def kind(self, dtype):
        return {"f32": self.torch.float32, "f16": self.torch.float16, "bf16": self.torch.bfloat16}[dtype]

    def repeated(self, first):
        return first.repeat(self.copies, 1)[: self.n]

    def rotated(self, weight):
        return [weight] + [weight.clone() for _ in range(self.rotations - 1)]

    def weight_only(self, dtype, weight, group):
        torch = self.torch
        self.x = torch.randn(self.m, self.k).to(self.kind(dtype))
        if weight == "i8":
            if group:
                raise ValueError("torch has a scale for each row of an i8 weight, not for groups")
            scales = torch.rand(self.n).to(self.kind(dtype))
            self.weights = self.rotated(self.repeated(torch.randint(-128, 128, (self.rows, self.k), dtype=torch.int8)))
            self.function = lambda x, w: torch.ops.aten._weight_int8pack_mm(x, w, scales)
            return
        if weight not in ("u4", "i4") or group not in (32, 64, 128, 256):
            raise ValueError(
                f"torch has 4-bit weights in groups of 32, 64, 128 or 256, not {weight} in groups of {group}"
            )
        codes = self.repeated(torch.randint(0, 16, (self.rows, self.k), dtype=torch.int32))
        self.weights = self.rotated(torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        scales = torch.rand(self.k // group, self.n, 2).to(self.kind(dtype))
        self.function = lambda x, w: torch.ops.aten._weight_int4pack_mm_for_cpu(x, w, group, scales)

    def integers(self, scaled):
        torch = self.torch
        self.x = torch.randint(-128, 128, (self.m, self.k), dtype=torch.int8)
        self.weights = self.rotated(self.repeated(torch.randint(-128, 128, (self.rows, self.k), dtype=torch.int8)))
        plain = self.x, [weight.t() for weight in self.weights], torch._int_mm
        self.x, self.weights, self.function = plain
        if not scaled or not hasattr(torch.ops.onednn, "qlinear_prepack"):
            return
        before = self.fastest()
        # x has no sign in this one: of the kernels for it, it is the fast one.
        scales, zeros = torch.rand(self.n), torch.zeros(self.n, dtype=torch.int32)
        self.x = torch.randint(0, 256, (self.m, self.k), dtype=torch.uint8)
        self.weights = [torch.ops.onednn.qlinear_prepack(w.t().contiguous(), [self.m, self.k]) for w in plain[1]]
        self.function = lambda x, w: torch.ops.onednn.qlinear_pointwise(
            x, 0.01, 128, w, scales, zeros, None, 1.0, 0, torch.bfloat16, "none", [], ""
        )
        if self.fastest() > before:
            self.x, self.weights, self.function = plain

    def fastest(self):
        self.call()
        return min(self.microseconds() for _ in range(5))

    def call(self):
        self.turn = (self.turn + 1) % len(self.weights)
        return self.function(self.x, self.weights[self.turn])

    def microseconds(self):
        start = time.perf_counter_ns()
        self.call()
        return (time.perf_counter_ns() - start) / 1000


class Peer:
    def __init__(self, torch, device=""):
        self.torch = torch
        self.device = device
        self.key = None
        self.problem = None
        if device:
            torch.cuda.set_device(device)
            torch.set_default_device(device)

    def answer(self, line):
        request = dict(item.partition("=")[::2] for item in line.strip().split(":"))
        missing = [name for name in FIELDS if name not in request]
        if missing:
            return f"error a request needs {', '.join(FIELDS)}; {', '.join(missing)} missing"
        threads, rotations, repetitions = (int(request[name]) for name in ("threads", "rotations", "repetitions"))
        dtype = request["dtype"]
        if dtype not in ("f32", "f16", "bf16", "i8"):
            return f"error dtype '{dtype}', allowed: f32, f16, bf16, i8"
        if not self.device and self.torch.get_num_threads() != threads:
            self.torch.set_num_threads(threads)
        key = {name: value for name, value in request.items() if name not in ("threads", "repetitions")}
        if key != self.key:
            self.problem, self.key = None, None  # the old tensors go first
            self.problem = self.timed(request, rotations)
            self.key = key
        if not self.device:
            self.problem.call()
        return f"us {statistics.median(self.problem.microseconds() for _ in range(max(1, repetitions))):.4f}"

    def timed(self, request, rotations):
        """What is timed, every copy touched; on a GPU as its graph."""
        if request.get("rows"):
            from peer_torch_rows import RowProblem

            problem = RowProblem(self.torch, request["rows"], int(request["m"]), int(request["n"]), rotations)
        elif self.device:
            raise ValueError("matrix products are not timed on a GPU: tilewright calls cuBLASLt itself")
        else:
            problem = Problem(self.torch, request, rotations)
        if self.device:
            from peer_torch_gpu import GraphedCalls

            self.torch._dynamo.reset()  # of the last problem's kernels
            self.torch.cuda.empty_cache()  # the memory is tilewright's, too
            return GraphedCalls(self.torch, problem.ways(), problem.weights)
        for _ in problem.weights:
            problem.call()
        return problem


def main():
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large pages, as tilewright's own tensors have
    try:
        import torch
    except Exception as error:  # a broken installation raises more than ImportError
        print(f"error {error}".replace("\n", " "), flush=True)
        return 1
    try:
        peer = Peer(torch, *sys.argv[1:2])
    except Exception as error:  # no such GPU, or a PyTorch for CPUs
        print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        return 1
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
