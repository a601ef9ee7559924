# SPDX-License-Identifier: MIT
"""Operators on rows for peer_torch.py, in eager code as it is commonly written; docs/cli.md says how."""

import ctypes
import time

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
    "cross_entropy": {"m", "n", "x", "out"},
    "rope": {"m", "n", "x", "residual", "out", "heads", "dims", "table", "table_rows", "st", "interleaved"},
}


class RowProblem:
    """Tensors of a problem, and the call that is timed. `weights` are copies of x, or of queries and keys, used in turn."""

    def __init__(self, torch, text, m, n, rotations):
        self.torch, self.m, self.n, self.turn = torch, m, n, 0
        op, *items = text.split(";")
        problem = dict(item.split("=") for item in items)
        unknown = sorted(set(problem) - ROW_FIELDS[op])
        if unknown:
            raise ValueError(f"{op} with {', '.join(unknown)} is not timed in torch")
        self.keep_memory()
        makers = {
            "rope": self.rope,
            "act_and_mul_backward": self.act_and_mul_backward,
            "cross_entropy": self.cross_entropy,
        }
        norm = self.norm_backward if op.endswith("norm_backward") else self.rows_and_columns
        make = makers.get(op, norm)
        self.compiled = lambda: self.torch.compile(self.function, dynamic=False)
        with self.torch.inference_mode(False), self.torch.no_grad():  # a loss has a gradient for them
            self.function, first = make(op, problem)
            self.weights = [first] + [tuple(x.clone() for x in first) for _ in range(rotations - 1)]

    def ways(self):
        """The functions of the operands that give the result: in eager code, and as torch.compile compiles it."""
        ways = {"eager": self.function, "torch.compile": self.compiled()}
        return {name: lambda tensors, way=way: way(None, tensors) for name, way in ways.items()}

    def kind(self, dtype):
        return {"f32": self.torch.float32, "f16": self.torch.float16, "bf16": self.torch.bfloat16}[dtype]

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

    def cross_entropy(self, op, problem):
        """The loss of each row in f32 and, by autograd, the gradient of its logits."""
        torch = self.torch
        x = self.random_rows(self.m, self.n, dtype=problem["x"])
        self.targets, self.dy = torch.randint(0, self.n, (self.m,)), torch.ones(self.m)
        if problem["out"] != problem["x"]:
            raise ValueError("gradients of another dtype than the logits' are not timed in torch")

        def loss(x, targets):
            return torch.nn.functional.cross_entropy(x.float(), targets, reduction="none")

        def with_gradient(loss):
            def run(_, tensors):
                with torch.inference_mode(False), torch.enable_grad():
                    x = tensors[0].detach().requires_grad_()
                    losses = loss(x, self.targets)
                    return losses.detach(), *torch.autograd.grad(losses, x, self.dy)

            return run

        self.compiled = lambda: with_gradient(torch.compile(loss, dynamic=False))
        return with_gradient(loss), (x,)

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

    def call(self):
        self.turn = (self.turn + 1) % len(self.weights)
        return self.function(None, self.weights[self.turn])

    def microseconds(self):
        start = time.perf_counter_ns()
        self.call()
        return (time.perf_counter_ns() - start) / 1000
