# SPDX-License-Identifier: MIT
"""The command line of python -m tilewright.bench."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO

import tilewright

from ._problems import DTYPES, Problem, UsageError, model_problems, parse_shape, parse_tokens, read_layers

EXAMPLES = """
examples:
  python -m tilewright.bench 16x4096x14336 1x28672x4096 --dtype bf16
  python -m tilewright.bench 2048x2048x2048 --dtype f32 --threads 1 --weights both
  python -m tilewright.bench --model Llama-3.1-8B --m 1,16,64,256 --json llama.json
  python -m tilewright.bench --model Qwen3-8B --layers attn_qkv,mlp_down --m 16 --csv -
  python -m tilewright.bench --list-models

A shape is MxNxK: x [M, K] times a weight [N, K], as torch.nn.functional.linear has it. tilewright and PyTorch run in
turns, pair by pair, on the same threads; `ratio` is PyTorch's time over tilewright's, the median of the pairs with its
95% interval. Weights rotate through copies larger than the last cache (--warm: one copy). int8 is compared with
torch._int_mm, which multiplies without scales. exit codes: 0 done, 1 no PyTorch, 2 wrong arguments.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tilewright.bench",
        description="Times tilewright and PyTorch in one process, in turns, on the same threads.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shapes", nargs="*", metavar="MxNxK", help="sizes to time")
    made.add_argument("--model", help="time the linear layers of this model")
    made.add_argument("--models-csv", metavar="FILE", help="layers from this file, in the columns of models/ (carried)")
    made.add_argument("--list-models", action="store_true", help="print the models that are known, and end")
    made.add_argument("--m", default="1,16,64,256", metavar="LIST", help="numbers of tokens of a model (1,16,64,256)")
    made.add_argument("--tp", type=int, default=1, metavar="N", help="tensor-parallel degree of a model (1)")
    made.add_argument("--layers", metavar="LIST", help="only these layers of a model (all but lm_head)")
    made.add_argument("--dtype", choices=DTYPES, help="of shapes (bf16), or instead of the model's")
    made.add_argument("--weights", choices=("packed", "plain", "both"), default="packed", help="of tilewright (packed)")
    made.add_argument("--bias", action="store_true", help="add a bias")
    made.add_argument("--activation", metavar="NAME", help="relu, gelu, gelu_tanh, silu, sigmoid, tanh, hardswish")
    made.add_argument("--threads", type=int, default=0, metavar="N", help="of both (all cores)")
    made.add_argument("--seconds", type=float, default=1.0, metavar="S", help="for one row (1)")
    made.add_argument("--warm", action="store_true", help="one copy of the weights, which may stay in a cache")
    made.add_argument("--json", metavar="FILE", help="write JSON; - is standard output")
    made.add_argument("--csv", metavar="FILE", help="write CSV with the columns of `tilewright bench`; - likewise")
    return made


def problems_of(options: argparse.Namespace) -> list[Problem]:
    problems = [parse_shape(text, options.dtype or "bf16") for text in options.shapes]
    if options.model:
        only = options.layers.split(",") if options.layers else None
        layers, tokens = read_layers(options.models_csv), parse_tokens(options.m)
        problems += model_problems(layers, options.model, options.tp, tokens, only, options.dtype)
    if not problems:
        raise UsageError("nothing to time: give shapes, or --model (--help has examples)")
    if options.threads < 0 or options.seconds <= 0:
        raise UsageError("--threads must be 0 (all cores) or more, --seconds more than 0")
    return problems


@contextlib.contextmanager
def opened(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdout
        return
    with open(path, "w", encoding="utf-8") as file:
        yield file


def run(options: argparse.Namespace) -> int:
    if options.list_models:
        print("\n".join(sorted({layer.model for layer in read_layers(options.models_csv)})))
        return 0
    problems = problems_of(options)
    try:
        import torch
    except ImportError as error:
        print(f"tilewright.bench: PyTorch is needed ({error})", file=sys.stderr)
        return 1
    from . import _measure, _report

    if options.activation is not None and options.activation not in _measure.ACTIVATIONS:
        raise UsageError(f"--activation '{options.activation}', allowed: {', '.join(_measure.ACTIVATIONS)}")
    if any(p.dtype == "i8" for p in problems) and (options.bias or options.activation):
        raise UsageError("--bias and --activation have no peer with int8: torch._int_mm only multiplies")
    device = tilewright.devices()[0]
    threads = min(options.threads or device["units"], device["units"])
    torch.set_num_threads(threads)
    kinds = {"packed": [True], "plain": [False], "both": [True, False]}[options.weights]
    quiet = "-" in (options.json, options.csv)
    rows = []
    with torch.inference_mode():
        for problem in problems:
            for packed in kinds:
                settings = _measure.Settings(
                    threads, packed, options.bias, options.activation, options.seconds, options.warm
                )
                if sys.stderr.isatty():
                    print(
                        f"\r\x1b[K{len(rows) + 1}/{len(problems) * len(kinds)} {problem.shape}", end="", file=sys.stderr
                    )
                rows.append(_measure.measure(problem, settings))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)

    peer = f"torch-{torch.__version__}"
    title = f"tilewright {tilewright.__version__}, {peer}, {threads} threads, {device['model']}"
    _report.print_table(rows, title, sys.stderr if quiet else sys.stdout)
    if options.csv:
        with opened(options.csv) as file:
            _report.write_csv(rows, peer, file)
    if options.json:
        versions = {"tilewright": tilewright.__version__, "torch": torch.__version__, "device": device}
        with opened(options.json) as file:
            _report.write_json(rows, peer, versions, file)
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return run(options)
    except UsageError as error:
        print(f"tilewright.bench: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tilewright.bench: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
