# SPDX-License-Identifier: MIT
"""MFMA and WMMA on NumPy arrays (supplied.py says which and why)."""

import re

import numpy as np
from reference import decode
from registers import bits


def element_type(name, target):
    return {
        "FP8": "e4m3fnuz" if target == "gfx942" else "e4m3",
        "BF8": "e5m2fnuz" if target == "gfx942" else "e5m2",
        "F16": "f16",
        "BF16": "bf16",
        "F32": "f32",
        "I8": "i8",
    }[name]


STORED = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16, "i8": np.int8}


def operand(wave, file, code, registers, dtype):
    """Elements of a matrix operand: [lanes, elements of a lane]."""
    if code < 256:
        raise NotImplementedError("a matrix operand that is no vector register")
    words = np.ascontiguousarray(file[code - 256 : code - 256 + registers].T)
    return decode(dtype, words.view(STORED.get(dtype, np.uint8)))


def sums(wave, file, code, registers, dtype):
    if code >= 256:
        return (
            file[code - 256 : code - 256 + registers]
            .view(np.int32 if dtype == "i32" else np.float32)
            .astype(np.float64)
        )
    value = np.uint32(wave.scalar_operand(code))
    return np.full((registers, wave.lanes), float(value.view(np.int32 if dtype == "i32" else np.float32)))


def store(file, at, values, dtype):
    exact = values.astype(np.int64).astype(np.uint32) if dtype == "i32" else values.astype(np.float32).view(np.uint32)
    file[at : at + len(values)] = exact


def mfma(name, word, target):
    """One block of CDNA. A lane of row i (A) or column j (B) has consecutive k."""
    size, depth, types = re.search(r"_(\d+)X\d+X(\d+)_(.*)", name).groups()
    size, depth, types = int(size), int(depth), types.split("_")
    a_type, b_type = element_type(types[0], target), element_type(types[-1], target)
    result = "i32" if name.startswith("V_MFMA_I32") else "f32"
    groups = 64 // size
    elements = depth // groups
    registers = size * size // 64
    in_registers = max(1, elements * np.dtype(STORED.get(a_type, np.uint8)).itemsize // 4)
    lane, row = np.arange(64), np.arange(size)
    # Row i, column j of D: register and lane.
    d_register = row // (4 * groups) * 4 + row % 4
    d_lane = (row // 4 % groups)[:, None] * size + row[None, :]

    def matrix(values):
        gathered = np.empty((size, depth))
        for group in range(groups):
            gathered[:, group * elements : (group + 1) * elements] = values[lane // size == group][:, :elements]
        return gathered

    def run(wave):
        file = [wave.accumulation if bits(word, bit, bit) else wave.vector for bit in (59, 60, 15)]
        a = matrix(operand(wave, file[0], bits(word, 40, 32), in_registers, a_type))
        b = matrix(operand(wave, file[1], bits(word, 49, 41), in_registers, b_type))
        d = sums(wave, file[2], bits(word, 58, 50), registers, result).copy()
        d[d_register[:, None], d_lane] += a @ b.T
        store(file[2], bits(word, 7, 0), d, result)

    return run


SCALED = ("e4m3", "e5m2", None, None, "e2m1")  # by the codes of cbsz and blgp


def scaled_mfma(name, word):
    """f8f6f4 with a scale for each 32 of K. Of 8-bit floats a lane has two runs of 16, half of K apart, of 4-bit ones a
    run of 32; lane row + size * block has the scale of a row's block, in the byte that op_sel and op_sel_hi name."""
    size = 16 if "16X16" in name else 32
    groups, depth = 64 // size, 128 if size == 16 else 64
    a_type, b_type = SCALED[bits(word, 74, 72)], SCALED[bits(word, 127, 125)]
    if a_type is None or b_type is None:
        raise NotImplementedError("6-bit floats")
    registers, row, lane = size * size // 64, np.arange(size), np.arange(64)
    d_register = row // (4 * groups) * 4 + row % 4
    d_lane = (row // 4 % groups)[:, None] * size + row[None, :]

    def matrix(wave, which, code, dtype, scale_code):
        file = wave.accumulation if bits(word, 123 + which, 123 + which) else wave.vector
        values = operand(wave, file, code, 4 if dtype == "e2m1" else 8, dtype)
        byte = bits(word, 11 + which, 11 + which) | bits(word, 59 + which, 59 + which) << 1
        scales = wave.vector[scale_code - 256] if scale_code >= 256 else np.full(64, wave.scalar_operand(scale_code))
        scales = decode("e8m0", (scales >> 8 * byte & 255).astype(np.uint8))
        gathered, element = np.empty((size, depth)), np.arange(32)
        for group in range(groups):
            k = 32 * group + element if dtype == "e2m1" else element // 16 * (depth // 2) + 16 * group + element % 16
            gathered[:, k] = values[lane // size == group]
        return gathered * np.repeat(scales.reshape(groups, size).T, 32, 1)

    def run(wave):
        file = wave.accumulation if bits(word, 79, 79) else wave.vector
        a = matrix(wave, 0, bits(word, 104, 96), a_type, bits(word, 40, 32))
        b = matrix(wave, 1, bits(word, 113, 105), b_type, bits(word, 49, 41))
        d = sums(wave, file, bits(word, 122, 114), registers, "f32").copy()
        d[d_register[:, None], d_lane] += a @ b.T
        store(file, bits(word, 71, 64), d, "f32")

    return run


def wmma_of_bytes(name, word, target):
    """16 x 16 x 16 of RDNA4: half-waves have eight k each, and eight rows of D."""
    types = name.rsplit("_", 2)[1:]
    a_type, b_type = element_type(types[0], target), element_type(types[1], target)
    row = np.arange(16)
    d_lane = (row // 8)[:, None] * 16 + row[None, :]

    def run(wave):
        a, b = (
            operand(wave, wave.vector, code, 2, dtype).reshape(2, 16, 8).transpose(1, 0, 2).reshape(16, 16)
            for code, dtype in ((bits(word, 40, 32), a_type), (bits(word, 49, 41), b_type))
        )
        d = sums(wave, wave.vector, bits(word, 58, 50), 8, "f32").copy()
        d[(row % 8)[:, None], d_lane] += a @ b.T
        store(wave.vector, bits(word, 7, 0), d, "f32")

    return run
