# SPDX-License-Identifier: MIT
"""What a repeated call costs from Python: gemm f32 1x16x16, whose kernel is next to nothing, on one unit.

python bench/call_overhead.py
"""

import time

import numpy as np
import tilewright


def nanoseconds(call, calls=1000, rounds=100):
    """The fastest round's mean time of one call: whatever else the machine does only adds to it."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e9


def measure(name, a, b, out):
    packed = tilewright.pack_weights(b)
    cases = {
        "out=": lambda: tilewright.gemm(a, b, out=out, units=1),
        "out=, packed weights": lambda: tilewright.gemm(a, packed, out=out, units=1),
        "new result": lambda: tilewright.gemm(a, b, units=1),
    }
    for case, call in cases.items():
        print(f"{name:8} {case:24} {nanoseconds(call):6.0f} ns")


def main():
    a, b, out = np.ones((1, 16), np.float32), np.ones((16, 16), np.float32), np.empty((1, 16), np.float32)
    print(f"empty function call {nanoseconds(lambda: None):6.0f} ns")
    measure("NumPy", a, b, out)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return
    tensors = [torch.from_numpy(array) for array in (a, b, out)]
    measure("PyTorch", *tensors)
    print(f"torch.mm out=                     {nanoseconds(lambda: torch.mm(*tensors[:2], out=tensors[2])):6.0f} ns")


if __name__ == "__main__":
    main()
