#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that #include lines follow the dependency order of the design.

core < arch < device < jit < dispatch < ops < tuning < api (C ABI, program, Python, benches, examples, tests): each
knows only those before it. Kernels know kernels/tile and their own folder; kernels/tile/<target> knows
kernels/tile/common, its own folder and those of TILE_FOLDERS; an operator made of another's kernels knows
these too (KERNEL_FOLDERS). Inline assembly stands only in kernels/tile.

check_layers.py [root]      prints each breach as file:line: message; exit code 1 if there is one
"""

import pathlib
import re
import sys

from check_tree import files_of

LAYERS = ["kernels", "core", "arch", "device", "jit", "dispatch", "ops", "tuning", "api"]

# include/tilewright/<name> -> the layer that owns it. An operator's header (src/ops/<stem> exists) belongs to ops.
PUBLIC_HEADERS = {
    "status.hpp": "core",
    "dtype.hpp": "core",
    "tensor_view.hpp": "core",
    "dlpack_abi.h": "core",
    "profile.hpp": "core",
    "context.hpp": "dispatch",
    "stored_weights.hpp": "ops",
    "tilewright.h": "api",
    "row_operators.h": "api",
    "image_operators.h": "api",
    "logit_operators.h": "api",
    "cache_operators.h": "api",
}

# kernels/tile/<target> that knows others besides its own: what the vendor's GPUs share; `gpu`, what each vendor's have.
TILE_FOLDERS = {"cdna": {"amd"}, "rdna": {"amd"}, "gpu": {"amd", "portable", "sm90"}}

# kernels/<op> made of another operator's kernels.
KERNEL_FOLDERS = {
    "grouped_gemm": {"gemm"},
    "act_and_mul": {"gemm"},
    "act_and_mul_backward": {"act_and_mul", "gemm"},
    "gated_rms_norm": {"gemm"},
    "group_norm": {"gemm"},
    "group_norm_backward": {"act_and_mul_backward", "gemm", "group_norm"},
}

# Folders outside src/ that use the library from above.
TOP_FOLDERS = {"cli", "python", "bench", "examples", "tests", "scripts", "docs"}

SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ASSEMBLY = re.compile(r"\b(asm|__asm__|__asm)\b\s*(volatile|__volatile__|goto)?\s*\(")
INCLUDE_ROOTS = ("src", "include", "kernels", "tests", "cli", "bench", "python/src")


def layer_of(root, relative):
    """(layer, None) of a path relative to the root, or (None, why it has none)."""
    parts = relative.parts
    if parts[0] == "kernels":
        return "kernels", None
    if parts[0] == "src" and len(parts) > 2:
        if parts[1] == "tools":
            return "api", None
        if parts[1] in LAYERS[1:]:
            return parts[1], None
        return None, f"src/{parts[1]} is no layer; layers are {', '.join(LAYERS[1:])}"
    if parts[0] == "include":
        layer = PUBLIC_HEADERS.get(parts[-1])
        if layer is None and (root / "src" / "ops" / relative.stem).is_dir():
            layer = "ops"
        if layer is None:
            return None, f"public header {parts[-1]} has no layer: name it in PUBLIC_HEADERS of scripts/check_layers.py"
        return layer, None
    if parts[0] in TOP_FOLDERS:
        return "api", None
    return None, f"{parts[0]} is no folder of the design"


def kernel_breach(includer, included):
    """Why a kernel file may not include a project file, or None."""
    folder, target = includer.parts[1], included.parts
    if target[0] != "kernels":
        return f"a kernel includes {included}: kernels know only kernels/tile and their own folder"
    if folder == "tile":
        if target[1] != "tile":
            return f"kernels/tile includes {included}: it knows no operator"
        own = includer.parts[2]
        allowed = {"common", own} | TILE_FOLDERS.get(own, set())
        if target[2] not in allowed:
            return f"kernels/tile/{own} includes {included}: only kernels/tile/{{{', '.join(sorted(allowed))}}}"
    elif target[1] not in {"tile", folder} | KERNEL_FOLDERS.get(folder, set()):
        return f"kernels/{folder} includes {included}: only kernels/tile and its own folder"
    return None


def host_breach(layer, includer, included, included_layer):
    """Why a host file of `layer` may not include a project file, or None."""
    if included_layer == "kernels":
        below_ops = LAYERS.index(layer) < LAYERS.index("ops")
        if below_ops and included.parts[1] != "tile":
            return f"{layer} includes {included}: layers below ops know no operator"
        return None
    if LAYERS.index(included_layer) > LAYERS.index(layer):
        return f"{layer} includes {included} of {included_layer}: {layer} knows only layers before it"
    return None


def resolve(root, includer, name):
    """The project file that `name` means, relative to the root, or None."""
    for folder in (includer.parent, *(root / part for part in INCLUDE_ROOTS)):
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root)
    return None


def check_file(root, path):
    relative = path.relative_to(root)
    layer, why = layer_of(root, relative)
    if layer is None:
        yield relative, 1, why
        return
    in_tile = relative.parts[:2] == ("kernels", "tile")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = line.split("//", 1)[0]
        if not in_tile and layer != "api" and ASSEMBLY.search(code):
            yield relative, number, "inline assembly outside kernels/tile"
        match = INCLUDE.match(line)
        if not match:
            continue
        included = resolve(root, path, match.group(2))
        if included is None:
            # Generated files end in .inc or stand in a folder "generated"; anything else in quotes must exist.
            generated = match.group(2).endswith(".inc") or "generated" in match.group(2).split("/")
            if match.group(1) == '"' and not generated:
                yield relative, number, f"included file {match.group(2)} does not exist"
            continue
        included_layer, why = layer_of(root, included)
        if included_layer is None:
            continue  # reported at that file
        if layer == "kernels":
            breach = kernel_breach(relative, included)
        else:
            breach = host_breach(layer, relative, included, included_layer)
        if breach:
            yield relative, number, breach


def check(root):
    """Every breach below `root` as (file, line, message)."""
    root = pathlib.Path(root).resolve()
    sources = (path for path in files_of(root) if path.suffix in SUFFIXES)
    return [breach for path in sources for breach in check_file(root, path)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    breaches = check(root)
    for file, line, message in breaches:
        print(f"{file}:{line}: {message}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
