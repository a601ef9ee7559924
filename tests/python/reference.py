# SPDX-License-Identifier: MIT
"""gemm in float64, and how close a result must come to it."""

import math

import numpy as np

_ERF = np.vectorize(math.erf, otypes=[np.float64])

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + _ERF(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}

# One unit in the last place: the result is rounded once, and an operand may have been.
_ROUNDING = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def wide(x):
    """Any tensor as a float64 NumPy array."""
    if hasattr(x, "detach"):
        return x.detach().double().numpy()
    return np.asarray(x).astype(np.float64)


def activate(activation, x):
    if activation in (None, "none"):
        return x
    if isinstance(activation, tuple):
        return np.clip(x, activation[1], activation[2])
    return ACTIVATIONS[activation](x)


def gemm(a, b, *, bias=0, activation=None, alpha=1.0, beta=0.0, c=0, scale_a=1, scale_b=1, gate=None, steps=()):
    value = alpha * wide(scale_a) * wide(scale_b) * (wide(a) @ wide(b)) + beta * wide(c) + wide(bias)
    if gate == "separated":
        half = value.shape[-1] // 2
        value = activate(activation, value[..., :half]) * value[..., half:]
    elif gate == "interleaved":
        value = activate(activation, value[..., 0::2]) * value[..., 1::2]
    else:
        value = activate(activation, value)
    for step in steps:
        if isinstance(step, tuple) and step[0] == "add":
            value = value + wide(step[1])
        elif isinstance(step, tuple) and step[0] == "mul":
            value = value * wide(step[1])
        else:
            value = activate(step, value)
    return value


def dtype_name(x):
    return str(x.dtype).rsplit(".", 1)[-1]


def largest(x):
    return float(np.max(np.abs(wide(x)), initial=0.0))


def check(got, a, b, **options):
    """`got` equals gemm(a, b, **options) within what float32 accumulation and one rounding allow."""
    want = gemm(a, b, **options)
    assert tuple(got.shape) == want.shape
    # Accumulation errors grow with the sum of magnitudes, and with what multiplies the sum afterwards.
    absolute = 1e-5 * largest(np.abs(wide(a)) @ np.abs(wide(b))) * abs(options.get("alpha", 1.0))
    absolute *= largest(options.get("scale_a", 1)) * largest(options.get("scale_b", 1))
    for step in options.get("steps", ()):
        if step[0] == "mul":
            absolute *= max(1.0, largest(step[1]))
    if options.get("gate"):
        absolute *= 1 + largest(gemm(a, b, **{**options, "gate": None, "steps": (), "activation": None}))
    np.testing.assert_allclose(wide(got), want, rtol=_ROUNDING[dtype_name(got)], atol=absolute + 1e-6)
