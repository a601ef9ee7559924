# SPDX-License-Identifier: MIT
"""Rows as a table for people, as CSV with the columns of `tilewright bench`, and as JSON."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from ._measure import Row

TABLE = (
    ("layer", "<", lambda row: row.problem.name),
    ("MxNxK", "<", lambda row: row.problem.shape),
    ("dtype", "<", lambda row: row.problem.dtype),
    ("weights", "<", lambda row: "packed" if row.packed else "plain"),
    ("us", ">", lambda row: f"{row.us:.1f}"),
    ("GFLOP/s", ">", lambda row: f"{row.problem.flops / row.us / 1e3:.0f}"),
    ("GB/s", ">", lambda row: f"{row.problem.bytes_moved / row.us / 1e3:.1f}"),
    ("torch us", ">", lambda row: f"{row.peer_us:.1f}"),
    ("ratio", ">", lambda row: f"{row.ratio:.2f}"),
    ("95%", "<", lambda row: f"{row.ratio_low:.2f}..{row.ratio_high:.2f}"),
    ("spread", ">", lambda row: f"{100 * row.spread:.0f}%"),
    ("rel err", ">", lambda row: f"{row.rel_err:.0e}"),
)


def record(row: Row, peer: str) -> dict[str, Any]:
    """One row under the columns that every bench of the project writes, and three of its own at the end."""
    problem = row.problem
    return {
        "op": "gemm",
        "shape": problem.shape,
        "dtype": problem.dtype,
        "device": "cpu",
        "threads": row.threads,
        "regime": problem.name or "shape",
        "edges": "plain",
        "kernel": row.kernel,
        "us": round(row.us, 3),
        "spread": round(row.spread, 4),
        "tflops": round(problem.flops / row.us / 1e6, 6),
        "gbps": round(problem.bytes_moved / row.us / 1e3, 3),
        "limit_frac": None,  # the program `tilewright bench` measures limits
        "peer": peer,
        "peer_us": round(row.peer_us, 3),
        "ratio": round(row.ratio, 4),
        "rel_err": float(f"{row.rel_err:.3e}"),
        "weights": "packed" if row.packed else "plain",
        "ratio_low": round(row.ratio_low, 4),
        "ratio_high": round(row.ratio_high, 4),
    }


def geomean(rows: Iterable[Row]) -> float:
    logs = [math.log(row.ratio) for row in rows]
    return math.exp(sum(logs) / len(logs))


def print_table(rows: list[Row], title: str, file: TextIO = sys.stdout) -> None:
    columns = [column for column in TABLE if column[0] != "layer" or any(row.problem.name for row in rows)]
    cells = [[str(text(row)) for _, _, text in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, (name, _, _) in enumerate(columns)]
    print(title, file=file)
    for line in [[name for name, _, _ in columns], *cells]:
        aligned = [f"{text:{align}{width}}" for text, (_, align, _), width in zip(line, columns, widths)]
        print("  ".join(aligned).rstrip(), file=file)
    if len(rows) > 1:
        print(f"geometric mean of the ratios: {geomean(rows):.3f} (above 1, tilewright is faster)", file=file)


def write_csv(rows: list[Row], peer: str, file: TextIO) -> None:
    records = [record(row, peer) for row in rows]
    writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


def write_json(rows: list[Row], peer: str, versions: dict[str, Any], file: TextIO) -> None:
    document = {**versions, "rows": [record(row, peer) for row in rows], "geomean_ratio": geomean(rows)}
    json.dump(document, file, indent=1)
    file.write("\n")
