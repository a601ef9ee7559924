# SPDX-License-Identifier: MIT
"""What a repeated call costs from Python before its kernel: gemm f32 1x16x16 on one unit, the problem already seen.

    python bench/call_overhead.py [--rounds N] [--json FILE]

Each case is called in short rounds, one case after another, so that a disturbance meets all of them; the fastest round
counts (what else the machine does only adds to it), the median stands beside it. The kernel's time is taken off: inside
the module, gemm() with its kernel minus gemm() whose parallel_for runs nothing, in the same kind of rounds. The second
table has the parts of one call, measured in the same way by tilewright._core.call_parts.
"""

import argparse
import json
import statistics
import time

import numpy as np
import tilewright
from tilewright import _core

CALLS = 300


def measure(cases, rounds):
    """{case: (fastest, median)} in ns of one call."""
    times = {case: [] for case in cases}
    for call in cases.values():
        for _ in range(CALLS):
            call()
    for _ in range(rounds):
        for case, call in cases.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            times[case].append((time.perf_counter_ns() - start) / CALLS)
    empty = min(times.pop("empty"))  # the loop and a function call around each case
    return {case: (min(found) - empty, statistics.median(found) - empty) for case, found in times.items()}


def framework_cases(name, a, b, out):
    """{case: (call, arguments whose kernel it runs)}; a new result runs the same kernel."""
    packed = tilewright.pack_weights(b)
    return {
        f"{name}, out=": (lambda: tilewright.gemm(a, b, out=out, units=1), (a, b, out)),
        f"{name}, out=, packed weights": (lambda: tilewright.gemm(a, packed, out=out, units=1), (a, packed, out)),
        f"{name}, a new result": (lambda: tilewright.gemm(a, b, units=1), (a, b, out)),
    }


def operator_cases(torch, a, b, out):
    import tilewright.torch as tw

    direct, with_out, packet = (
        torch.ops.tilewright.gemm.default,
        torch.ops.tilewright.gemm.out,
        torch.ops.tilewright.gemm,
    )
    arguments = (a, b, out)
    plain = torch.nn.Linear(16, 16).requires_grad_(False)
    layer = tw.Linear.from_linear(plain)
    # On PyTorch's one thread; a keyword more costs its dispatcher most of a microsecond.
    return {
        "torch.ops.tilewright.gemm.out": (lambda: with_out(a, b, out=out), arguments),
        "torch.ops.tilewright.gemm.default": (lambda: direct(a, b), arguments),
        "torch.ops.tilewright.gemm(a, b)": (lambda: packet(a, b), arguments),
        "torch.ops.tilewright.gemm(a, b, out=)": (lambda: packet(a, b, out=out), arguments),
        "tilewright.torch.gemm(out=)": (lambda: tw.gemm(a, b, out=out), arguments),
        "tilewright.torch.Linear": (lambda: layer(a), (a, tilewright.pack_weights(b), out)),
        "torch.mm(out=), kernel included": (lambda: torch.mm(a, b, out=out), None),
        "torch.nn.Linear, kernel included": (lambda: plain(a), None),
    }


def kernel_nanoseconds(arguments, known):
    """The kernel's part of a call; measured once for the same arguments."""
    if arguments is None:
        return 0
    key = tuple(map(id, arguments))
    if key not in known:
        a, b, out = arguments
        known[key] = _core.call_parts(a, b, out=out, units=1)["kernel"]
    return known[key]


def run(title, cases, rounds, report):
    calls = {case: call for case, (call, _) in cases.items()}
    calls["empty"] = lambda: None
    times = measure(calls, rounds)
    known = {}
    kernels = {case: kernel_nanoseconds(arguments, known) for case, (_, arguments) in cases.items()}
    print(f"{title:42} before the kernel: fastest, median; ns")
    for case, (fastest, median) in times.items():
        kernel = kernels[case]
        print(f"  {case:40} {fastest - kernel:8.0f} {median - kernel:8.0f}")
        report.append(
            {"mode": title, "case": case, "ns": fastest - kernel, "median_ns": median - kernel, "kernel_ns": kernel}
        )


def print_parts(columns):
    print(f"\n{'parts of one call with out=, ns':42}" + "".join(f"{name:>14}" for name in columns))
    names = {
        "bind": "keywords to parameters",
        "tensors": "tensors to views, checks",
        "gemm": "C++ gemm() up to the kernel",
        "kernel": "the kernel",
        "interpreter": "giving the lock away (large calls only)",
    }
    for part, name in names.items():
        print(f"  {name:40}" + "".join(f"{column[part]:14.0f}" for column in columns.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="rounds of 300 calls a case (200)")
    parser.add_argument("--json", metavar="FILE", help="also write the table as JSON")
    options = parser.parse_args()
    report, columns = [], {}

    arrays = np.ones((1, 16), np.float32), np.ones((16, 16), np.float32), np.empty((1, 16), np.float32)
    run("NumPy", framework_cases("NumPy", *arrays), options.rounds, report)
    columns["NumPy"] = _core.call_parts(*arrays[:2], out=arrays[2], units=1)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
    else:
        torch.set_num_threads(1)
        tensors = [torch.from_numpy(array) for array in arrays]
        for title, mode in (("PyTorch, no_grad", torch.no_grad), ("PyTorch, grad enabled", torch.enable_grad)):
            with mode():
                cases = {**framework_cases("torch", *tensors), **operator_cases(torch, *tensors)}
                run(title, cases, options.rounds, report)
                columns[title[9:]] = _core.call_parts(*tensors[:2], out=tensors[2], units=1)
    print_parts(columns)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"calls": report, "parts": columns}, file, indent=1)


if __name__ == "__main__":
    main()
