# SPDX-License-Identifier: MIT
"""Element types, random data, the float64 reference and its bounds, as docs/numerics.md states them: written down a
second time, in NumPy, so that nothing of what is under test takes part."""

import numpy as np

UNIT = 2.0**-24
# bits, exponent, mantissa, bias, kind
FLOATS = {
    "f32": (32, 8, 23, 127, "ieee"),
    "f16": (16, 5, 10, 15, "ieee"),
    "bf16": (16, 8, 7, 127, "ieee"),
    "e4m3": (8, 4, 3, 7, "fn"),
    "e5m2": (8, 5, 2, 15, "ieee"),
    "e4m3fnuz": (8, 4, 3, 8, "fnuz"),
    "e5m2fnuz": (8, 5, 2, 16, "fnuz"),
    "e2m1": (4, 2, 1, 1, "finite"),
}
INTEGERS = {"i8": np.int8, "i32": np.int32}
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def storage(dtype):
    if dtype in INTEGERS:
        return INTEGERS[dtype]
    if dtype in ("e2m1", "e8m0"):
        return np.uint8
    return {8: np.uint8, 16: np.uint16, 32: np.uint32}[FLOATS[dtype][0]]


def decode(dtype, raw):
    """The values of bit patterns, in float64, by the definition of the type."""
    if dtype in INTEGERS:
        return raw.astype(np.float64)
    if dtype == "e8m0":
        return np.where(raw == 255, np.nan, np.ldexp(1.0, raw.astype(np.int64) - 127))
    if dtype == "e2m1":  # two a byte, the even one in the low nibble
        raw = np.stack([raw & 15, raw >> 4], -1).reshape(*raw.shape[:-1], -1)
    bits, exponent_bits, mantissa_bits, bias, kind = FLOATS[dtype]
    raw = raw.astype(np.int64)
    sign = np.where(raw >> (bits - 1), -1.0, 1.0)
    exponent = raw >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = raw & ((1 << mantissa_bits) - 1)
    fraction = np.where(exponent > 0, 1.0, 0.0) + mantissa * 2.0**-mantissa_bits
    value = sign * np.ldexp(fraction, np.maximum(exponent, 1) - bias)
    top = exponent == (1 << exponent_bits) - 1
    if kind == "ieee":
        value = np.where(top, np.where(mantissa == 0, sign * np.inf, np.nan), value)
    elif kind == "fn":
        value = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, value)
    elif kind == "fnuz":
        value = np.where(raw == 1 << (bits - 1), np.nan, value)
    return value


def random_raw(dtype, count, random):
    """Bit patterns of random numbers of both signs, up to 2 (integers: all)."""
    if dtype in INTEGERS:
        return random.integers(-128, 128, count).astype(INTEGERS[dtype])
    if dtype == "f32":
        return random.uniform(-1, 1, count).astype(np.float32).view(np.uint32)
    if dtype == "f16":
        return random.uniform(-1, 1, count).astype(np.float16).view(np.uint16)
    if dtype == "bf16":
        return (random.uniform(-1, 1, count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype == "e8m0":
        return random.integers(120, 131, count).astype(np.uint8)
    if dtype == "e2m1":
        return random.integers(0, 256, count).astype(np.uint8)
    all_patterns = np.arange(256, dtype=np.uint8)
    allowed = all_patterns[np.abs(np.nan_to_num(decode(dtype, all_patterns), nan=9.0)) <= 2.0]
    return random.choice(allowed, count)


def half_unit(dtype, value):
    """Half a unit in the last place of the type at a value's magnitude."""
    _, _, mantissa_bits, bias, _ = FLOATS[dtype]
    _, exponent = np.frexp(np.abs(value))
    return np.ldexp(1.0, np.maximum(exponent - 1, 1 - bias) - mantissa_bits - 1)


def flushed(a, b, smallest_normal):
    """Magnitudes of the products with a subnormal factor."""
    small_a, small_b = (np.where(np.abs(x) < smallest_normal, np.abs(x), 0.0) for x in (a, b))
    return small_a @ np.abs(b) + np.abs(a) @ small_b


def reference(a, b, k, exact_sum, terms, smallest_normal=0.0):
    """The result before it is rounded to D's type, and what it may be off by. a [batch, M, K], b [batch, K, N]; terms
    has alpha, scale_a, scale_b, beta, c, bias (arrays that broadcast, or None) and activation. Factors below
    `smallest_normal` may have been taken for zero."""
    total = a @ b
    norm = np.sqrt((a * a) @ (b * b))
    error = np.zeros_like(total)
    if not exact_sum:
        error = UNIT * max(8.0, 4.0 * np.sqrt(k)) * (norm + np.abs(total)) + flushed(a, b, smallest_normal)
    factor = np.ones_like(total)
    for name in ("alpha", "scale_a", "scale_b"):
        if terms.get(name) is not None:
            factor = factor * terms[name]
    linear, magnitude = total * factor, np.abs(total * factor)
    if terms.get("c") is not None:
        term = terms["c"] * (1.0 if terms.get("beta") is None else terms["beta"])
        linear, magnitude = linear + term, magnitude + np.abs(term)
    if terms.get("bias") is not None:
        linear, magnitude = linear + terms["bias"], magnitude + np.abs(terms["bias"])
    error = error * np.abs(factor) + 16 * UNIT * magnitude
    name = terms.get("activation", "none")
    with np.errstate(over="ignore"):
        value = ACTIVATIONS[name](linear)
    if name != "none":
        error = 1.5 * error + 16 * UNIT * np.abs(value) + 8 * UNIT * np.minimum(np.abs(linear), 1.0)
    return value, error
