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
"""

import ctypes
import os
import statistics
import sys
import time

FIELDS = ("m", "n", "k", "dtype", "threads", "rotations", "repetitions")

_NORM_BACKWARD = {"m", "n", "x", "residual", "weight", "out", "dresidual", "dweight", "dbias"}
_NORM = {"m", "n", "x", "residual", "weight", "bias", "out", "quant", "scale", "group"}
ROW_FIELDS = {
    "rms_norm": _NORM,
    "layer_norm": _NORM,
    "act_and_mul": {"m", "n", "x", "out", "gate", "activation", "squared", "quant", "scale", "group"},
    "rms_norm_backward": _NORM_BACKWARD,
    "layer_norm_backward": _NORM_BACKWARD,
    "act_and_mul_backward": {"m", "n", "x", "residual", "out", "gate", "activation"},
    "quantize": {"m", "n", "x", "out", "quant", "scale", "group"},
    "softmax": {"m", "n", "x", "out", "log"},
    "group_norm": {"n", "c", "s", "g", "x", "weight", "bias", "activation", "channels_last"},
    "rope": {"m", "n", "x", "residual", "out", "heads", "dims", "table", "table_rows", "st", "interleaved"},
}


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
        if request.get("rows"):
            self.operator_on_rows(request["rows"])
        elif weight != dtype:
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

    def operator_on_rows(self, text):
        """`weights` are the copies of x, or of queries and keys, which are used in turn."""
        op, *items = text.split(";")
        problem = dict(item.split("=") for item in items)
        unknown = sorted(set(problem) - ROW_FIELDS[op])
        if unknown:
            raise ValueError(f"{op} with {', '.join(unknown)} is not timed in torch")
        self.keep_memory()
        makers = {
            "rope": self.rope,
            "act_and_mul_backward": self.act_and_mul_backward,
            "group_norm": self.group_norm,
        }
        norm = self.norm_backward if op.endswith("norm_backward") else self.rows_and_columns
        self.x, make = None, makers.get(op, norm)
        self.function, first = make(op, problem)
        self.weights = [first] + [tuple(x.clone() for x in first) for _ in range(self.rotations - 1)]

    @staticmethod
    def keep_memory():
        """Results are freed, and the next ones come from the same pages: that the system clears them is not timed."""
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except (OSError, AttributeError):
            return  # not glibc
        m_trim_threshold, m_mmap_max = -1, -4
        mallopt(m_mmap_max, 0)
        mallopt(m_trim_threshold, 2**31 - 1)

    def random_rows(self, rows, *sizes, dtype):
        first = self.torch.randn(min(rows, 256), *sizes).to(self.kind(dtype))
        return first.repeat(-(-rows // 256), *[1] * len(sizes))[:rows]

    def rows_and_columns(self, op, problem):
        torch = self.torch
        functional, n, gate = torch.nn.functional, self.n, problem.get("gate", "none")
        x = self.random_rows(self.m, n if gate == "none" else 2 * n, dtype=problem["x"])
        names = [name for name in ("weight", "bias") if name in problem]
        self.columns = {name: torch.randn(n).to(self.kind(problem[name])) for name in names}
        weight, bias = self.columns.get("weight"), self.columns.get("bias")
        self.residual = self.random_rows(self.m, n, dtype=problem["residual"]) if "residual" in problem else None
        activation, finish = self.activation(problem), self.finish(problem)
        log, dtype = problem.get("log") == "1", self.kind(problem["out"]) if op == "softmax" else None

        def run(_, tensors):
            (x,) = tensors
            if self.residual is not None:
                x = x + self.residual
            if op == "rms_norm":
                y = functional.rms_norm(x, (n,), weight, 1e-6)
                y = y if bias is None else y + bias
            elif op == "layer_norm":
                y = functional.layer_norm(x, (n,), weight, bias, 1e-5)
            elif op == "softmax":
                y = (functional.log_softmax if log else functional.softmax)(x, -1, dtype=dtype)
            elif gate == "separated":
                y = activation(x[:, :n]) * x[:, n:]
            elif gate == "interleaved":
                y = activation(x[:, ::2]) * x[:, 1::2]
            else:
                y = activation(x)
            return (*finish(y), x)  # the sum is a result too

        return run, (x,)

    def norm_backward(self, op, problem):
        """From what the forward pass keeps, by PyTorch's kernel, or where it has none in eager code."""
        torch, n, dtype = self.torch, self.n, problem["x"]
        if "weight" not in problem or problem["residual"] != dtype or problem["out"] != dtype:
            raise ValueError("norms without a weight, or of several dtypes, are not timed in torch")
        x, self.dy = (self.random_rows(self.m, n, dtype=dtype) for _ in range(2))
        self.columns = {"weight": torch.randn(n).to(self.kind(problem["weight"]))}
        weight, wanted = self.columns["weight"], [True, "dweight" in problem, "dbias" in problem]
        self.added = self.random_rows(self.m, n, dtype=dtype) if problem.get("dresidual") == "1" else None
        root = (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt().to(x.dtype)
        _, mean, deviation = torch.ops.aten.native_layer_norm(x, [n], weight, None, 1e-5)

        def rms(x):
            g, h = self.dy * weight, x * root
            dx = (g - h * (g * h).mean(-1, keepdim=True)) * root
            return dx, (self.dy * h).sum(0) if wanted[1] else None, self.dy.sum(0) if wanted[2] else None

        def layer(x):
            backward = torch.ops.aten.native_layer_norm_backward
            return backward(self.dy, x, [n], mean, deviation, weight, weight if wanted[2] else None, wanted)

        def run(_, tensors):
            dx, *sums = (rms if op == "rms_norm_backward" else layer)(*tensors)
            return (dx if self.added is None else dx + self.added, *sums)

        return run, (x,)

    def act_and_mul_backward(self, op, problem):
        torch, n, activation = self.torch, self.n, self.activation(problem)
        slope = {"silu": torch.ops.aten.silu_backward, "gelu": torch.ops.aten.gelu_backward}.get(
            problem.get("activation")
        )
        if problem.get("gate") != "separated" or slope is None:
            raise ValueError("gates that are not silu's or gelu's first halves are not timed in torch")
        x, self.dy = (self.random_rows(self.m, size, dtype=problem["x"]) for size in (2 * n, n))

        def run(_, tensors):
            (x,) = tensors
            gate, up = x[:, :n], x[:, n:]
            return (torch.cat((slope(self.dy * up, gate), self.dy * activation(gate)), -1),)

        return run, (x,)

    def group_norm(self, op, problem):
        torch, functional = self.torch, self.torch.nn.functional
        images, channels, positions, groups = (int(problem[name]) for name in ("n", "c", "s", "g"))
        x = self.random_rows(images * channels, positions, dtype=problem["x"]).view(images, channels, positions, 1)
        if problem.get("channels_last") == "1":
            x = x.contiguous(memory_format=torch.channels_last)
        names = [name for name in ("weight", "bias") if name in problem]
        if any(problem[name] != problem["x"] for name in names):
            raise ValueError("weights of another dtype are not timed in torch")
        self.columns = {name: torch.randn(channels).to(self.kind(problem["x"])) for name in names}
        activation = self.activation(problem)

        def run(_, tensors):
            (x,) = tensors
            return (activation(functional.group_norm(x, groups, **self.columns, eps=1e-5)),)

        return run, (x,)

    def activation(self, problem):
        functional, name = self.torch.nn.functional, problem.get("activation", "none")
        if name == "none":
            return lambda x: x
        if name == "gelu_tanh":
            return lambda x: functional.gelu(x, approximate="tanh")
        plain = getattr(functional, name)
        return (lambda x: plain(x).square()) if problem.get("squared") == "1" else plain

    def finish(self, problem):
        """What makes an output of the problem's type from a float one."""
        torch = self.torch
        quant, out = problem.get("quant", "none"), problem["out"]
        if quant == "none":
            return lambda y: (y.to(self.kind(out)),)
        types = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i8": torch.int8}
        if out not in types or problem["scale"] != "f32" or quant == "tensor":
            raise ValueError(
                f"codes of {out} with a scale of {problem['scale']} for each {quant} are not timed in torch"
            )
        dtype, group = types[out], int(problem.get("group", 0))
        limit = 127.0 if out == "i8" else torch.finfo(dtype).max

        def quantised(y):
            values = y.float()
            if quant == "group":
                values = values.unflatten(-1, (-1, group))
            if quant == "block":
                values = values.unflatten(0, (-1, min(128, self.m))).unflatten(-1, (-1, 128))
            across = {"dynamic": (0, 1), "block": (1, 3)}.get(quant, (-1,))
            most = values.abs().amax(across, keepdim=True)
            scale = most.clamp(min=1e-30) / limit
            codes = values / scale
            codes = codes.round() if out == "i8" else codes
            return codes.clamp(-limit, limit).to(dtype).view(self.m, -1), scale.squeeze(
                -1
            ) if quant == "group" else scale

        return quantised

    def rope(self, op, problem):
        """Halves as Hugging Face's transformers, in q's dtype; pairs as Meta's Llama, as complex numbers."""
        torch, dtype = self.torch, problem["x"]
        batch, tokens, heads = (int(size) for size in problem["m"].split("x"))
        of_q = int(problem["heads"])
        if int(problem["dims"]) != self.n or batch != 1 or problem.get("residual") != dtype or not 0 < of_q < heads:
            raise ValueError(
                "rope of less than whole heads of one sequence, of queries and keys, is not timed in torch"
            )
        q, k = (self.random_rows(tokens, count, self.n, dtype=dtype) for count in (of_q, heads - of_q))
        angles = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(0, self.n, 2) / self.n)
        self.tables = angles.cos(), angles.sin()
        cos, sin = (torch.cat((t, t), -1)[:, None].to(self.kind(dtype)) for t in self.tables)
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]

        def halves(x):
            a, b = x[..., : self.n // 2], x[..., self.n // 2 :]
            return x * cos + torch.cat((-b, a), -1) * sin

        def pairs(x):
            numbers = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
            return torch.view_as_real(numbers * turns).flatten(-2).to(x.dtype)

        turned = pairs if problem.get("interleaved") == "1" else halves
        return lambda _, heads: tuple(turned(x) for x in heads), (q, k)

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
    def __init__(self, torch):
        self.torch = torch
        self.key = None
        self.problem = None

    def answer(self, line):
        request = dict(item.partition("=")[::2] for item in line.strip().split(":"))
        missing = [name for name in FIELDS if name not in request]
        if missing:
            return f"error a request needs {', '.join(FIELDS)}; {', '.join(missing)} missing"
        threads, rotations, repetitions = (int(request[name]) for name in ("threads", "rotations", "repetitions"))
        dtype = request["dtype"]
        if dtype not in ("f32", "f16", "bf16", "i8"):
            return f"error dtype '{dtype}', allowed: f32, f16, bf16, i8"
        if self.torch.get_num_threads() != threads:
            self.torch.set_num_threads(threads)
        key = {name: value for name, value in request.items() if name not in ("threads", "repetitions")}
        if key != self.key:
            self.problem, self.key = None, None  # the old tensors go first
            self.problem = Problem(self.torch, request, rotations)
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
