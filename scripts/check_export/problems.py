# SPDX-License-Identifier: MIT
"""Problems drawn at random, so that no shape of them stands in the project: sizes with tails and without, every layout,
batches, parts of K, epilogues, and any kernel that dispatch would consider."""

import dataclasses
import json
import re
import subprocess

WIDE = ("bf16", "f16", "i8")
DTYPES = {
    "gfx90a": (*WIDE, "f32"),
    "gfx942": (*WIDE, "f32", "e4m3fnuz", "e5m2fnuz"),
    "gfx950": (*WIDE, "f32", "e4m3", "e5m2"),
    "gfx1100": WIDE,
    "gfx1201": (*WIDE, "e4m3", "e5m2"),
}
LAYOUTS = ("rcr", "rrr", "crr", "ccr")
EPILOGUES = ("", ":bias=f32", ":bias=f32:act=relu", ":act=silu")


@dataclasses.dataclass
class Problem:
    text: str
    options: list  # of `tilewright export`: split-k or a recipe


def draw_size(random, most, multiple):
    return max(1, int(random.integers(1, most + 1)) // multiple * multiple)


def draw(random, target, number, largest):
    """The `number`-th problem of a target: types, layouts and kinds of tails take turns, all else is drawn."""
    dtypes = DTYPES[target]
    dtype = dtypes[number % len(dtypes)]
    layout = LAYOUTS[(number + number // len(LAYOUTS)) % len(LAYOUTS)]
    # Rows of K and of M or N that are whole pieces of 16 bytes, rows that are none, few rows.
    kind = ("pieces", "odd", "few")[(number // 2) % 3]
    unit = 16 if kind == "pieces" else 1
    m = draw_size(random, 32, 1) if kind == "few" else draw_size(random, largest, unit)
    n, k = draw_size(random, largest, unit), draw_size(random, 2 * largest, unit)
    text = f"m={m}:n={n}:k={k}"
    if random.integers(3) == 0:
        text += f":batch={random.integers(2, 4)}"
    text += f":a={dtype}:layout={layout}"
    if random.integers(3) == 0:
        text += ":d=f32"
    if dtype in ("i8", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"):
        text += random.choice((":scale_a=f32:scale_b=f32", ":scale_a=f32.0.0.0:scale_b=f32.0.0.0"))
    text += random.choice(EPILOGUES)
    return text


def choose_kernel(random, program, target, text):
    """Options for `export`: what dispatch chooses, K in two parts where it is long, or any other of its choices."""
    way = random.integers(3)
    if way == 0:
        return []
    if way == 1 and int(re.search(r":k=(\d+)", text)[1]) > 256:
        return ["--split-k", "2"]
    command = [program, "explain", "--device", f"emu:{target}", "--problem", text, "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return ["--recipe", str(random.choice([choice["recipe"] for choice in told["choices"]]))]
