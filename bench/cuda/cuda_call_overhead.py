# SPDX-License-Identifier: MIT
"""What a repeated bf16 gemm of CUDA tensors costs from Python above a bare launch, with new pointers each time.

    python bench/cuda/cuda_call_overhead.py [M N K] [--rounds N] [--json FILE]

The bare launch is PyTorch's own of a kernel that takes no tensor (torch.cuda._sleep(0)). Cases are called in short
rounds after each other, fewer calls than the driver queues, and the device is waited for between rounds; printed are
medians, and the median of what a round lies above the bare launch of the same turn.
"""

import argparse
import json
import statistics
import sys
import time

CALLS = 100


def operands(torch, m, n, k):
    def tensor(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.float32).to(torch.bfloat16)

    return tensor(m, k), tensor(n, k).t(), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)


def cases(torch):
    """{case: its call, given operands}."""
    import tilewright
    import tilewright.torch

    operator = torch.ops.tilewright.gemm
    return {
        "bare launch, torch.cuda._sleep(0)": lambda a, b, out: torch.cuda._sleep(0),
        "tilewright.gemm(a, b, out=out)": lambda a, b, out: tilewright.gemm(a, b, out=out),
        "tilewright.gemm(a, b)": lambda a, b, out: tilewright.gemm(a, b),
        "torch.ops.tilewright.gemm.out(a, b, out=out)": lambda a, b, out: operator.out(a, b, out=out),
        "torch.mm(a, b, out=out)": lambda a, b, out: torch.mm(a, b, out=out),
    }


def measure(torch, calls, sets, rounds):
    """{case: microseconds of a call, one entry a round}."""
    times = {case: [] for case in calls}
    for turn in range(rounds + 3):
        for case, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            for i in range(CALLS):
                call(*sets[i % 2])
            spent = (time.perf_counter_ns() - start) / CALLS / 1000
            if turn >= 3:  # the first ones warm up
                times[case].append(spent)
    torch.cuda.synchronize()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[16, 256, 256], metavar="M N K")
    parser.add_argument("--rounds", type=int, default=200, help="rounds of 100 calls a case (200)")
    parser.add_argument("--json", metavar="FILE", help="also write the table as JSON")
    options = parser.parse_args()
    if len(options.sizes) != 3:
        parser.error("M N K are three numbers")
    try:
        import torch
    except ImportError:
        sys.exit("cuda_call_overhead: PyTorch is not installed")
    if not torch.cuda.is_available():
        sys.exit("cuda_call_overhead: PyTorch sees no CUDA device")
    m, n, k = options.sizes
    sets = [operands(torch, m, n, k) for _ in range(2)]
    report = []
    with torch.no_grad():
        times = measure(torch, cases(torch), sets, options.rounds)
    bare = next(iter(times.values()))
    print(f"{m}x{n}x{k} bf16 on {torch.cuda.get_device_name()}, us a call: median, above the bare launch")
    for case, found in times.items():
        above = statistics.median(mine - its for mine, its in zip(found, bare))
        print(f"  {case:46} {statistics.median(found):8.2f} {above:8.2f}")
        report.append({"case": case, "us": statistics.median(found), "above_us": above})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"m": m, "n": n, "k": k, "calls": report}, file, indent=1)


if __name__ == "__main__":
    main()
