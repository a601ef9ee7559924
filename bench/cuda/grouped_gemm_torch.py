#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's grouped GEMMs on the work of `tilewright bench --suite grouped`, one CSV line each.

    python3 bench/cuda/grouped_gemm_torch.py [--seconds 0.2]

torch._grouped_mm for bf16; torch._scaled_grouped_mm for e4m3, which on sm_90 has a scale for each row and each
column, not for groups of 128. Both take rows of groups one after another (`offs`, the ends), and no fixed capacity: one
token is timed as eight groups of one row. A time is the median of graphs between two events, over copies of the weights
that together are more than the second-level cache. What PyTorch does not have here is named on stderr and left out.
"""

import argparse
import statistics
import sys

# name, groups, rows, N, K, dtype
WORK = (
    ("e4m3 contiguous first", 256, 65536, 4096, 7168, "e4m3"),
    ("e4m3 contiguous second", 256, 65536, 7168, 2048, "e4m3"),
    ("e4m3 1 token first", 256, 8, 4096, 7168, "e4m3"),
    ("e4m3 1 token second", 256, 8, 7168, 2048, "e4m3"),
    ("bf16 contiguous first", 8, 2048, 28672, 4096, "bf16"),
    ("bf16 contiguous second", 8, 2048, 4096, 14336, "bf16"),
)
GFLOPS = {"e4m3": 1602e3, "bf16": 840e3}
READ_GBPS = 4690
COLD_BYTES = 512 << 20  # of weights, walked through


def offsets(torch, groups, rows):
    """The ends of groups, to which rows go at random."""
    picks = torch.randint(0, groups, (rows,), generator=torch.Generator().manual_seed(1))
    return torch.cumsum(torch.bincount(picks, minlength=groups), 0).to(torch.int32).cuda(), picks.unique().numel()


def make_calls(torch, groups, rows, n, k, dtype, ends):
    copies = max(1, -(-COLD_BYTES // (groups * n * k * (1 if dtype == "e4m3" else 2))))
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    calls = []
    for _ in range(copies):
        weight = torch.randn(groups, n, k, device="cuda", dtype=torch.bfloat16)
        if dtype == "bf16":
            calls.append(lambda w=weight: torch._grouped_mm(x, w.transpose(-2, -1), offs=ends))
            continue
        x8, w8 = x.to(torch.float8_e4m3fn), weight.to(torch.float8_e4m3fn)
        row_scales = torch.rand(rows, device="cuda", dtype=torch.float32)
        column_scales = torch.rand(groups, n, device="cuda", dtype=torch.float32)
        calls.append(
            lambda x8=x8, w8=w8, a=row_scales, b=column_scales: torch._scaled_grouped_mm(
                x8, w8.transpose(-2, -1), a, b, offs=ends, out_dtype=torch.bfloat16
            )
        )
    return calls


def microseconds(torch, calls, seconds):
    """Of one call: the median over replays of a graph that makes each call once."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times, spent = [], 0.0
    while spent < seconds or len(times) < 5:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / len(calls))
        spent += times[-1] * len(calls) / 1e6
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="for each line")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"grouped_gemm_torch: {error}", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("grouped_gemm_torch: no GPU that PyTorch sees", file=sys.stderr)
        return 1
    print("work,peer,device,us,limit_frac")
    for name, groups, rows, n, k, dtype in WORK:
        try:
            ends, used = offsets(torch, groups, rows)
            us = microseconds(torch, make_calls(torch, groups, rows, n, k, dtype, ends), arguments.seconds)
        except Exception as error:  # what is not there differs from release to release
            print(f"grouped_gemm_torch: {name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        finally:
            torch.cuda.empty_cache()
        size = 1 if dtype == "e4m3" else 2
        moved = used * n * k * size + rows * (k * size + n * 2)
        limit = max(2 * rows * n * k / GFLOPS[dtype] / 1e3, moved / READ_GBPS / 1e3)
        device = torch.cuda.get_device_name().replace(",", " ")
        print(f"{name},PyTorch {torch.__version__},{device},{us:.2f},{limit / us:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
