# SPDX-License-Identifier: MIT
"""What is timed: sizes from the command line, or the linear layers of a model at several numbers of tokens."""

from __future__ import annotations

import csv
import importlib.resources
import pathlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

DTYPES = ("f32", "f16", "bf16", "i8")


class UsageError(Exception):
    """What the user wrote cannot be done; the message names it and what is allowed."""


@dataclass(frozen=True)
class Problem:
    """D [m, n] = x [m, k] @ weight [n, k].T"""

    name: str  # of the layer, or ""
    m: int
    n: int
    k: int
    dtype: str

    @property
    def shape(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes_moved(self) -> float:
        size = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[self.dtype]
        out = 4 if self.dtype == "i8" else size
        return float(size) * (self.m * self.k + self.n * self.k) + float(out) * self.m * self.n


@dataclass(frozen=True)
class Layer:
    model: str
    name: str
    n: int
    k: int
    dtype: str
    tp: int


def parse_shape(text: str, dtype: str) -> Problem:
    """ "16x4096x14336": M, N and K."""
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text.strip().lower())
    if match is None or 0 in map(int, match.groups()):
        raise UsageError(f"shape '{text}', allowed: MxNxK with positive sizes, for instance 16x4096x14336")
    m, n, k = map(int, match.groups())
    return Problem("", m, n, k, dtype)


def parse_tokens(text: str) -> list[int]:
    """ "1,16,64" """
    try:
        tokens = [int(word) for word in text.split(",")]
    except ValueError:
        tokens = [0]
    if min(tokens) < 1:
        raise UsageError(f"--m '{text}', allowed: positive numbers divided by commas, for instance 1,16,64")
    return tokens


def read_layers(path: str | None) -> list[Layer]:
    """Rows of a models CSV whose weights are not quantised: the package's own, or that of `path`."""
    if path is None:
        text = (importlib.resources.files("tilewright") / "data" / "linear_layers.csv").read_text(encoding="utf-8")
    else:
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--models-csv '{path}': {error.strerror}") from None
    try:
        return list(_layers(csv.DictReader(text.splitlines())))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"--models-csv '{path}': {error!r}; columns are model,layer,op,N,K,dtype,scheme,notes"
        ) from None


def _layers(rows: Iterable[dict[str, str]]) -> Iterator[Layer]:
    for row in rows:
        if row["op"] != "gemm" or row.get("scheme", "none") != "none" or row["dtype"] not in DTYPES:
            continue
        tp = re.search(r"tp=(\d+)", row.get("notes") or "")
        yield Layer(row["model"], row["layer"], int(row["N"]), int(row["K"]), row["dtype"], int(tp[1]) if tp else 1)


def model_problems(
    layers: list[Layer], model: str, tp: int, tokens: list[int], only: list[str] | None, dtype: str | None
) -> list[Problem]:
    """One problem a layer and number of tokens. lm_head, which runs once a sequence, only where it is asked for."""
    of_model = [layer for layer in layers if layer.model.lower() == model.lower()]
    if not of_model:
        known = sorted({layer.model for layer in layers})
        raise UsageError(f"--model '{model}', allowed: {', '.join(known)}")
    of_degree = [layer for layer in of_model if layer.tp == tp]
    if not of_degree:
        raise UsageError(f"--tp {tp}, allowed for {model}: {', '.join(map(str, sorted({x.tp for x in of_model})))}")
    names = [layer.name for layer in of_degree]
    for name in only or ():
        if name not in names:
            raise UsageError(f"--layers '{name}', allowed for {model}: {', '.join(dict.fromkeys(names))}")
    chosen = [layer for layer in of_degree if (layer.name in only if only else layer.name != "lm_head")]
    return [Problem(x.name, m, x.n, x.k, dtype or x.dtype) for m in tokens for x in dict.fromkeys(chosen)]
