# SPDX-License-Identifier: MIT
"""Instructions of the plans' kernels that tinygrad's emulator does not have or has wrong, in NumPy, from AMD's manuals.
All others are the emulator's own. What was supplied is counted by name, so that a table can say it.

Why each is here (tinygrad at the commit that docs/export.md names; "ISA" are AMD's instruction-set references):
- Buffer instructions of RDNA3 and RDNA4 are not decoded. On CDNA elements of one and two bytes are read as words, the
  caches' instructions as loads, and a copy to LDS forgets the instruction's offset. ISA, "Buffer Addressing", "Range
  Checking", "Memory Buffer Load to LDS".
- Program counter: s_getpc, s_setpc and s_swappc do not compile.
- Caches' instructions of RDNA4 (global_inv, global_wb): there is no code for them. The emulator has no caches.
- LDS: lanes that are switched off read, too, at whatever address they have. That is set to 0 meanwhile.
- MFMA of 32 x 32: rows of D lie 16 in a row of a half-wave; AMD's are four and four of both halves in turn
  (matrix_calculator.py of ROCm/amd_matrix_instruction_calculator, InstCalcGfx9.__get_output_reg_lanes).
- MFMA of 8-bit floats on gfx942: read as OCP, that target has FNUZ. WMMA of 8-bit floats on RDNA4: read as f16.
- MFMA whose A or B lie in accumulation registers: read from the other ones. So are stores to LDS out of such.
- gfx90a: opcodes that CDNA3 gave to others (bf16 "1k", i8 of half of the later depth). CDNA2 ISA, VOP3P-MAI.
- VOP1, VOP2 and VOPC of 16 bits on CDNA: registers from v128 on are taken for upper halves, RDNA3's encoding.
- MFMA of f16: subnormal factors are taken for zero. So does gfx90a (docs/numerics.md), but no later target.
- MFMA of i8: the emulator's own C code does not compile.
- Scaled MFMA: one scale is taken for all of K, each 32 have their own; and there is no fp4. ISA of CDNA4, and the same
  sources as kernels/tile/emu/matrix/layout.hpp."""

import collections
import ctypes

import numpy as np
from matrix_instructions import mfma, scaled_mfma, wmma_of_bytes
from memory_instructions import buffer_access, lds_store
from registers import PC, Wave, bits

GFX90A_MATRIX = {0x54: "V_MFMA_I32_32X32X8_I8", 0x55: "V_MFMA_I32_16X16X16_I8"}
GFX90A_MATRIX |= {0x66: "V_MFMA_F32_32X32X8_BF16", 0x67: "V_MFMA_F32_16X16X16_BF16"}


def jump(name, word):
    """S_GETPC, S_SETPC and S_SWAPPC: the address of the next instruction, and going to one."""
    destination, source = bits(word, 22, 16), bits(word, 7, 0)

    def run(wave):
        after, to = wave.pair(PC) + 4, wave.pair(source)
        if name != "S_SETPC_B64":
            wave.scalar[destination], wave.scalar[destination + 1] = after & 0xFFFFFFFF, after >> 32
        if name != "S_GETPC_B64":
            wave.scalar[PC], wave.scalar[PC + 1] = (to - 4) & 0xFFFFFFFF, (to - 4) >> 32

    return run


def nothing(_):
    """What has no effect without caches."""


def without_true16(emulator, instruction):
    """An instruction of CDNA with its 16-bit operands as whole registers."""
    if isinstance(instruction, (emulator.irc.VOP1, emulator.irc.VOP2, emulator.irc.VOPC)):
        widths = instruction.canonical_op_bits
        half_constant = "F16" in instruction.op.name and 240 <= instruction.src0.offset <= 248
        if 16 in widths.values() and not half_constant:
            instruction.canonical_op_bits = {name: max(width, 32) for name, width in widths.items()}
    return instruction


class Supplied:
    """Finds the instructions to supply, and remembers how often each ran."""

    def __init__(self, emulator, target):
        self.emulator, self.target, self.lanes = emulator, target, 64 if target.startswith("gfx9") else 32
        self.counts = collections.Counter()

    def find(self, raw):
        """(name, bytes, what it does) or None."""
        word = int.from_bytes(raw, "little")
        if bits(word, 31, 23) == 0b101111101:
            return self.find_jump(word)
        if self.target.startswith("gfx9"):
            return self.find_cdna(word)
        return self.find_rdna4(word) if self.target.startswith("gfx12") else self.find_rdna3(word)

    def find_jump(self, word):
        e = self.emulator
        module = e.irc if self.target.startswith("gfx9") else e.ir4 if self.target.startswith("gfx12") else e.ir3
        try:
            name = module.SOP1Op(bits(word, 15, 8)).name
        except ValueError:
            return None
        return (name, 4, jump(name, word)) if name in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64") else None

    def find_cdna(self, word):
        if bits(word, 31, 26) == 0b111000:
            name = self.emulator.irc.MUBUFOp(bits(word, 24, 18)).name
            if name in ("BUFFER_WBL2", "BUFFER_INV"):
                return name, 8, nothing
            fields = {
                "vdata": bits(word, 47, 40),
                "vaddr": bits(word, 39, 32),
                "srsrc": bits(word, 52, 48) * 4,
                "soffset": bits(word, 63, 56),
                "offset": bits(word, 11, 0),
                "offen": bits(word, 12, 12),
                "idxen": bits(word, 13, 13),
                "acc": bits(word, 55, 55),
                "lds": bits(word, 16, 16),
                "m0": 124,
            }
            if name.split("_")[-1] in ("DWORD", "DWORDX2", "DWORDX4") and not (fields["lds"] and fields["offset"]):
                return None
            return name, 8, buffer_access(name, fields)
        if bits(word, 31, 16) == 0xD3AC:
            name = self.emulator.irc.VOP3PX2Op(bits(word, 86, 80)).name
            return name, 16, scaled_mfma(name, word)
        if bits(word, 31, 26) == 0b110110 and bits(word, 25, 25):
            name = self.emulator.irc.DSOp(bits(word, 24, 17)).name
            return (name, 8, lds_store(name, word)) if name.startswith("DS_WRITE") else None
        if bits(word, 31, 23) == 0b110100111 and bits(word, 22, 16) >= 0x2D:
            return self.find_mfma(word)
        return None

    def find_mfma(self, word):
        op = bits(word, 22, 16)
        if self.target == "gfx90a" and op in GFX90A_MATRIX:
            name = GFX90A_MATRIX[op]
        else:
            try:
                name = self.emulator.irc.VOP3POp(op).name
            except ValueError:
                return None
            wrong = (
                name.endswith("_F16")
                and self.target != "gfx90a"
                or "32X32X" in name
                or bits(word, 60, 59) != 0
                or name.endswith("I8")
                or (self.target == "gfx942" and name[-1] == "8")
            )
            if not name.startswith("V_MFMA") or "F8F6F4" in name or not wrong:
                return None
        return name, 8, mfma(name, word, self.target)

    def find_rdna3(self, word):
        if bits(word, 31, 26) != 0b111000:
            return None
        name = self.emulator.ir3.MUBUFOp(bits(word, 25, 18)).name
        if name.endswith("_INV"):
            return name, 8, nothing
        fields = {
            "vdata": bits(word, 47, 40),
            "vaddr": bits(word, 39, 32),
            "srsrc": bits(word, 52, 48) * 4,
            "soffset": bits(word, 63, 56),
            "offset": bits(word, 11, 0),
            "offen": bits(word, 54, 54),
            "idxen": bits(word, 55, 55),
            "acc": 0,
            "lds": 0,
            "m0": 125,
        }
        return name, 8, buffer_access(name, fields)

    def find_rdna4(self, word):
        if bits(word, 31, 26) == 0b110001:
            name = self.emulator.ir4.VBUFFEROp(bits(word, 21, 14)).name
            fields = {
                "vdata": bits(word, 39, 32),
                "vaddr": bits(word, 71, 64),
                "srsrc": bits(word, 49, 41),
                "soffset": bits(word, 6, 0),
                "offset": (bits(word, 95, 72) ^ 0x800000) - 0x800000,
                "offen": bits(word, 62, 62),
                "idxen": bits(word, 63, 63),
                "acc": 0,
                "lds": 0,
                "m0": 125,
            }
            return name, 12, buffer_access(name, fields)
        if bits(word, 31, 24) == 0b11101110:
            name = self.emulator.ir4.VGLOBALOp(bits(word, 21, 14)).name
            return (name, 12, nothing) if name in ("GLOBAL_INV", "GLOBAL_WB", "GLOBAL_WBINV") else None
        if bits(word, 31, 24) == 0b11001100:
            name = self.emulator.ir4.VOP3POp(bits(word, 22, 16)).name
            if name.startswith("V_WMMA_F32_16X16X16_") and "F8" in name or "FP8" in name:
                return name, 8, wmma_of_bytes(name, word, self.target)
        return None

    def guarded(self, made, raw):
        """The emulator's own; of LDS without the addresses of lanes that are switched off, which it would read."""
        word, ((program, runtime), instruction) = int.from_bytes(raw, "little"), made
        if bits(word, 31, 26) != 0b110110:
            return made
        register, buffers = bits(word, 39, 32), list(program.arg.globals)

        def execute(*addresses):
            wave = Wave(self.lanes, addresses)
            off = np.ones(self.lanes, bool)
            off[wave.active()] = False
            kept = wave.vector[register, off].copy()
            wave.vector[register, off] = 0
            runtime.fxn(*[addresses[i] for i in buffers])
            wave.vector[register, off] = kept

        return (Program(), Runtime(execute)), instruction

    def install(self):
        """Puts itself before the emulator's decoder, and gives a function that takes it away."""
        own = self.emulator._decode_at  # noqa: SLF001  the emulator has no place for this

        def decode_at(pc, architecture):
            found = self.find(ctypes.string_at(pc, 16))
            if found is None:
                return self.guarded(own(pc, architecture), ctypes.string_at(pc, 8))
            name, size, run = found

            def execute(*addresses):
                wave = Wave(self.lanes, addresses)
                run(wave)
                wave.advance(size)
                self.counts[name.lower()] += 1

            return (Program(), Runtime(execute)), name

        decode_own = self.emulator.decode_inst

        def decode_inst(raw, architecture="rdna3"):
            return without_true16(self.emulator, decode_own(raw, architecture))

        self.emulator._decode_at = decode_at  # noqa: SLF001
        self.emulator.decode_inst = decode_inst

        def remove():
            self.emulator._decode_at, self.emulator.decode_inst = own, decode_own  # noqa: SLF001

        return remove


class Program:
    """As much of tinygrad's program as the emulator asks for: which buffers its function takes."""

    class Argument:
        globals = (0, 1, 2, 3, 4, 5)

    arg = Argument


class Runtime:
    def __init__(self, function):
        self.fxn = function
