#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns src/arch/arch_specs.json into the constexpr tables behind src/arch/arch_spec.hpp.

usage: generate_arch_table.py arch_specs.json arch_table.inc

Every entry is checked; the first mistake ends the run with "FILE:LINE: message". Python 3.8, standard library only.
"""

import json
import os
import sys

from located_json import Array, LineDecoder, Object, SpecError

DTYPES = {
    "f32": "kF32",
    "f16": "kF16",
    "bf16": "kBf16",
    "e4m3": "kF8E4M3",
    "e5m2": "kF8E5M2",
    "e4m3fnuz": "kF8E4M3Fnuz",
    "e5m2fnuz": "kF8E5M2Fnuz",
    "i8": "kI8",
    "i4": "kI4",
    "e2m1": "kF4E2M1",
    "i32": "kI32",
}
ACCUMULATORS = ("f32", "i32")
VENDORS = {"x86": "kX86", "nvidia": "kNvidia", "amd": "kAmd"}
FP8 = ("none", "e4m3", "e4m3fnuz")
REGISTERS = ("eax", "ebx", "ecx", "edx")
# Register state that the operating system must save for a feature: bits of XCR0.
STATES = {"none": 0, "avx": 0x6, "avx512": 0xE6, "amx": 0x60006}


# ---- Checks: each takes (value, line, where) and returns the value or raises --------------------------------------


def fail(line, where, message):
    raise SpecError(line, f"{where}: {message}")


def shown(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def string(value, line, where):
    if not isinstance(value, str):
        fail(line, where, f"expected a string, got {shown(value)}")
    if not all(c.isalnum() or c in "_-+. /=," for c in value):
        fail(line, where, f"{shown(value)} holds a character outside letters, digits and '_-+. /=,'")
    return value


def name(value, line, where):
    string(value, line, where)
    if not value or not all(c.isalnum() or c in "_-." for c in value):
        fail(line, where, f"{shown(value)} is no name: letters, digits, '_', '-', '.'")
    return value


def integer(low, high=2**62):
    def check(value, line, where):
        if isinstance(value, bool) or not isinstance(value, int):
            fail(line, where, f"expected an integer, got {shown(value)}")
        if not low <= value <= high:
            fail(line, where, f"{value} is outside [{low}, {high}]")
        return value

    return check


def number(value, line, where):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        fail(line, where, f"expected a number, got {shown(value)}")
    if value < 0:
        fail(line, where, f"{shown(value)} is negative")
    return value


def one_of(allowed):
    def check(value, line, where):
        string(value, line, where)
        if value not in allowed:
            fail(line, where, f"'{value}' is unknown; allowed: {', '.join(allowed)}")
        return value

    return check


def array_of(item, length=None):
    def check(value, line, where):
        if not isinstance(value, Array):
            fail(line, where, f"expected an array, got {shown(value)}")
        if length is not None and len(value) != length:
            fail(line, where, f"expected {length} items, got {len(value)}")
        return [item(v, n, f"{where}[{i}]") for i, (v, n) in enumerate(zip(value, value.lines))]

    return check


def record(required, optional=None):
    """An object with exactly these keys; optional ones map to (check, default)."""
    optional = optional or {}

    def check(value, line, where):
        if not isinstance(value, Object):
            fail(line, where, f"expected an object, got {shown(value)}")
        for key in value:
            if key not in required and key not in optional:
                allowed = ", ".join(list(required) + list(optional))
                fail(value.lines[key], where, f"unknown key '{key}'; allowed: {allowed}")
        for key in required:
            if key not in value:
                fail(value.line, where, f"missing key '{key}'")
        result = {key: default for key, (_, default) in optional.items()}
        for key, item in value.items():
            rule = required[key] if key in required else optional[key][0]
            result[key] = rule(item, value.lines[key], f"{where}.{key}")
        return result

    return check


SIZES = array_of(integer(1, 4096), 3)


def mma_shape(value, line, where):
    """[m, n, k]; n may be a list: an instruction for each."""
    if isinstance(value, Array) and len(value) == 3 and isinstance(value[1], Array):
        columns = array_of(integer(1, 4096))(value[1], value.lines[1], f"{where}[1]")
        return [[m, n, k] for m, k in [(value[0], value[2])] for n in columns]
    return [SIZES(value, line, where)]


MMA = record(
    {
        "name": name,
        "input": one_of(DTYPES),
        "accumulator": one_of(ACCUMULATORS),
        "shape": mma_shape,
    },
    {"ops_per_cycle": (number, 0)},
)

WARP_TILES = record({"a": one_of(DTYPES), "b": one_of(DTYPES), "tiles": array_of(SIZES)})

PART = record(
    {"name": name},
    {
        "ids": (array_of(string), []),
        "units": (integer(0), 0),
        "memory_gib": (number, 0),
        "memory_gbps": (number, 0),
        "l2_kib": (integer(0), 0),
        "last_level_kib": (integer(0), 0),
        "hardware_streams": (integer(0), 0),
    },
)

CPUID = record(
    {
        "leaf": integer(0, 2**32 - 1),
        "subleaf": integer(0, 2**32 - 1),
        "register": one_of(REGISTERS),
        "bit": integer(0, 31),
    },
    {"state": (one_of(STATES), "none")},
)

# What a target with a base may leave out, because the base has said it.
SCALARS = {
    "family": string,
    "wave_size": integer(1, 64),
    "shared_bytes": integer(0),
    "max_threads": integer(1),
    "registers": integer(1),
    "vector_bytes": integer(1),
    "fp8": one_of(FP8),
}
# What every target says for itself.
OWN = {"target": name, "vendor": one_of(VENDORS), "flags": array_of(string)}
ADDED = {
    "features": array_of(name),
    "mma": array_of(MMA),
    "wave_layouts": array_of(SIZES),
    "warp_tiles": array_of(WARP_TILES),
    "parts": array_of(PART),
}
TARGET = record(
    OWN,
    dict(
        {"base": (name, "")},
        **{key: (rule, None) for key, rule in SCALARS.items()},
        **{key: (rule, []) for key, rule in ADDED.items()},
    ),
)


def check_target(raw, line, cpuid):
    label = "target"
    if isinstance(raw, Object) and isinstance(raw.get("target"), str):
        label = f"target '{raw['target']}'"
    target = TARGET(raw, line, label)
    target["line"] = line
    target["where"] = label
    target["lines"] = raw.lines
    for key in SCALARS:
        if not target["base"] and target[key] is None:
            fail(line, label, f"missing key '{key}' (only a target with a base may leave it out)")
    is_cpu = target["vendor"] == "x86"
    for i, feature in enumerate(target["features"]):
        if feature not in cpuid:
            fail(
                raw["features"].lines[i],
                f"{label}.features[{i}]",
                f"'{feature}' is not in cpuid; known: {', '.join(cpuid)}",
            )
    if target["features"] and not is_cpu:
        fail(raw.lines["features"], label, "only x86 targets have features")
    for key in ("wave_layouts", "warp_tiles"):
        if target[key] and is_cpu:
            fail(raw.lines[key], label, f"an x86 target has no {key}")
    seen = set()
    for i, mma in enumerate(target["mma"]):
        # A CPU config names its instruction; a GPU instruction is told apart by type and shape.
        for shape in mma["shape"]:
            identity = mma["name"] if is_cpu else (mma["name"], mma["input"], tuple(shape))
            if identity in seen:
                fail(raw["mma"].lines[i], f"{label}.mma[{i}]", f"'{mma['name']}' stands twice")
            seen.add(identity)
        expected = "i32" if mma["input"] in ("i8", "i4") else "f32"
        if mma["accumulator"] != expected:
            fail(
                raw["mma"].lines[i],
                f"{label}.mma[{i}].accumulator",
                f"'{mma['accumulator']}' does not go with input '{mma['input']}'; expected '{expected}'",
            )
    target["mma"] = [dict(mma, shape=shape) for mma in target["mma"] for shape in mma["shape"]]
    return target


def check_parts(targets):
    """A part's name and each of its ids name one target."""
    names, ids = {}, {}
    for target in targets:
        for part in target["parts"]:
            line = target["lines"]["parts"]
            where = f"{target['where']}.parts"
            if part["name"] in names:
                fail(line, where, f"part '{part['name']}' also stands in target '{names[part['name']]}'")
            names[part["name"]] = target["target"]
            for cpu in part["ids"]:
                if cpu in ids:
                    fail(line, where, f"id '{cpu}' also stands in part '{ids[cpu]}'")
                ids[cpu] = part["name"]


def resolve(targets):
    """Fills each target from its chain of bases."""
    by_name = {}
    for target in targets:
        if target["target"] in by_name:
            fail(
                target["line"],
                target["where"],
                f"duplicate target; the first is on line {by_name[target['target']]['line']}",
            )
        by_name[target["target"]] = target
    done, active = set(), []

    def visit(target):
        if target["target"] in done:
            return
        base_line = target["lines"].get("base", target["line"])
        if target["target"] in active:
            fail(base_line, target["where"], f"bases form a cycle: {' -> '.join(active + [target['target']])}")
        if target["base"]:
            if target["base"] not in by_name:
                fail(base_line, target["where"], f"unknown base '{target['base']}'; known: {', '.join(by_name)}")
            base = by_name[target["base"]]
            if base["vendor"] != target["vendor"]:
                fail(base_line, target["where"], f"base '{base['target']}' is of another vendor")
            active.append(target["target"])
            visit(base)
            active.pop()
            inherit(target, base)
        done.add(target["target"])

    for target in targets:
        visit(target)


def inherit(target, base):
    for key in SCALARS:
        if target[key] is None:
            target[key] = base[key]
    own = {mma["name"] for mma in target["mma"]}
    for mma in base["mma"]:
        if target["vendor"] == "x86" and mma["name"] in own:
            fail(
                target["lines"]["mma"],
                target["where"],
                f"mma '{mma['name']}' is inherited from '{base['target']}' and stands again",
            )
    for key in ("features", "mma", "wave_layouts", "warp_tiles"):
        target[key] = base[key] + [item for item in target[key] if item not in base[key]]


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    try:
        root = LineDecoder().decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SpecError(data.count(b"\n", 0, error.start) + 1, f"not UTF-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise SpecError(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise SpecError(1, "not JSON that can be read: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise SpecError(1, f"not JSON that can be read: {error}") from None
    if not isinstance(root, Object):
        raise SpecError(1, "expected an object with the keys schema, cpuid, targets")
    raw_cpuid, raw_targets = root.get("cpuid"), root.get("targets")
    record(
        {
            "schema": one_of(("tilewright.arch_specs/1",)),
            "cpuid": lambda value, _line, _where: value,
            "targets": lambda value, _line, _where: value,
        }
    )(root, root.line, "file")
    if not isinstance(raw_cpuid, Object):
        fail(root.lines["cpuid"], "cpuid", f"expected an object, got {shown(raw_cpuid)}")
    cpuid = {
        name(key, raw_cpuid.lines[key], "cpuid"): CPUID(value, raw_cpuid.lines[key], f"cpuid.{key}")
        for key, value in raw_cpuid.items()
    }
    if not isinstance(raw_targets, Array) or not raw_targets:
        fail(root.lines["targets"], "targets", "expected an array with at least one target")
    targets = [check_target(raw, line, cpuid) for raw, line in zip(raw_targets, raw_targets.lines)]
    resolve(targets)
    check_parts(targets)
    return cpuid, targets


# ---- Output ---------------------------------------------------------------------------------------------------------


def quoted(text):
    return '"' + text + '"'  # string() has refused what C++ would need escaped


def table(out, kind, label, rows):
    """Prints an array and returns the expression for a span on it."""
    if not rows:
        return "{}"
    out.append(f"constexpr {kind} {label}[] = {{")
    out.extend(f"    {row}," for row in rows)
    out.append("};")
    return label


def emit(cpuid, targets):
    out = ["// Made from arch_specs.json by scripts/generate/generate_arch_table.py.", ""]
    table(
        out,
        "CpuidBit",
        "kCpuidBits",
        [
            f"{{{quoted(key)}, {bit['leaf']}u, {bit['subleaf']}u, {REGISTERS.index(bit['register'])}, {bit['bit']}, "
            f"0x{STATES[bit['state']]:X}u}}"
            for key, bit in cpuid.items()
        ],
    )
    rows = []
    for index, target in enumerate(targets):
        out += ["", f"// {target['target']}"]
        features = table(out, "std::string_view", f"kFeatures{index}", [quoted(f) for f in target["features"]])
        flags = table(out, "std::string_view", f"kFlags{index}", [quoted(f) for f in target["flags"]])
        mma = table(
            out,
            "MmaSpec",
            f"kMma{index}",
            [
                f"{{{quoted(m['name'])}, DType::{DTYPES[m['input']]}, DType::{DTYPES[m['accumulator']]}, "
                f"{', '.join(map(str, m['shape']))}, {m['ops_per_cycle']}}}"
                for m in target["mma"]
            ],
        )
        layouts = table(
            out, "WaveLayout", f"kWaveLayouts{index}", [f"{{{', '.join(map(str, w))}}}" for w in target["wave_layouts"]]
        )
        tiles = table(
            out,
            "WarpTile",
            f"kWarpTiles{index}",
            [
                f"{{DType::{DTYPES[group['a']]}, DType::{DTYPES[group['b']]}, {', '.join(map(str, tile))}}}"
                for group in target["warp_tiles"]
                for tile in group["tiles"]
            ],
        )
        parts = []
        for number_, part in enumerate(target["parts"]):
            ids = table(out, "std::string_view", f"kIds{index}_{number_}", [quoted(i) for i in part["ids"]])
            parts.append(
                f"{{{quoted(part['name'])}, {ids}, {part['units']}, {part['memory_gib']}, "
                f"{part['memory_gbps']}, {part['l2_kib'] * 1024}, {part['last_level_kib'] * 1024}, "
                f"{part['hardware_streams']}}}"
            )
        parts = table(out, "PartSpec", f"kParts{index}", parts)
        rows.append(
            f"{{{quoted(target['target'])}, {quoted(target['base'])}, ArchVendor::{VENDORS[target['vendor']]}, "
            f"{quoted(target['family'])}, {target['wave_size']}, {target['shared_bytes']}, {target['max_threads']}, "
            f"{target['registers']}, {target['vector_bytes']}, {quoted(target['fp8'])},\n     "
            f"{features}, {flags}, {mma}, {layouts}, {tiles}, {parts}}}"
        )
    out.append("")
    table(out, "ArchSpec", "kArchSpecs", rows)
    return "\n".join(out) + "\n"


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    source, destination = arguments
    try:
        text = emit(*load(source))
    except SpecError as error:
        print(f"{source}:{error.line}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{source}: {error.strerror}", file=sys.stderr)
        return 1
    os.makedirs(os.path.dirname(os.path.abspath(destination)), exist_ok=True)
    with open(destination, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
