# SPDX-License-Identifier: MIT
"""An AMD code object as a processor finds it: LOAD segments in memory, the kernel's descriptor, the registers that a
wave starts with. Sources: ELF-64; LLVM's "User Guide for AMDGPU Backend", sections "Code Object", "Kernel Descriptor"
and "Initial Kernel Execution State"."""

import ctypes
import mmap
import struct

LOAD, SYMBOL_TABLES, PAGE = 1, (2, 11), 4096
# User registers in the order in which they are set up: bit of kernel_code_properties, how many, what.
USER_REGISTERS = (
    (0, 4, "private segment buffer"),
    (1, 2, "dispatch pointer"),
    (2, 2, "queue pointer"),
    (3, 2, "kernarg"),
    (4, 2, "dispatch id"),
    (5, 2, "flat scratch"),
    (6, 1, "private segment size"),
)


class CodeObject:
    """Stands in memory as long as it lives."""

    def __init__(self, data):
        self.data = data
        header = struct.unpack_from("<QQIHHHHHH", data, 32)
        self.segments, self.sections, _, _, segment_size, segment_count, section_size, section_count, _ = header
        if data[:4] != b"\x7fELF":
            raise ValueError("no ELF file")
        loads = [struct.unpack_from("<IIQQQQQQ", data, self.segments + i * segment_size) for i in range(segment_count)]
        loads = [segment for segment in loads if segment[0] == LOAD]
        self.memory = mmap.mmap(-1, max(address + size for _, _, _, address, _, _, size, _ in loads) + PAGE)
        for _, _, offset, address, _, in_file, _, _ in loads:
            self.memory[address : address + in_file] = data[offset : offset + in_file]
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.symbols = dict(self._symbols(section_size, section_count))

    def _symbols(self, section_size, section_count):
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, self.sections + i * section_size) for i in range(section_count)
        ]
        for _, kind, _, _, offset, size, link, _, _, entry in sections:
            if kind not in SYMBOL_TABLES:
                continue
            for at in range(offset, offset + size, entry):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                begin = sections[link][4] + name
                yield self.data[begin : self.data.index(b"\0", begin)].decode(), value


class Kernel:
    """A kernel of a code object: where it begins and what its descriptor asks for."""

    def __init__(self, code, symbol):
        self.code = code
        address = code.symbols[f"{symbol}.kd"]
        descriptor = code.memory[address : address + 64]
        static_lds, self.scratch_bytes, _ = struct.unpack_from("<III", descriptor, 0)
        (entry,) = struct.unpack_from("<q", descriptor, 16)
        _, self.rsrc1, self.rsrc2, self.properties, preload = struct.unpack_from("<IIIHH", descriptor, 44)
        if preload:
            raise ValueError(f"{symbol}: arguments in registers from the start")
        # FLOAT_DENORM_MODE_32 and _16_64: subnormals are neither flushed in operands nor in results.
        self.keeps_subnormals = self.rsrc1 >> 16 & 15 == 15
        self.static_lds = static_lds
        self.entry = code.base + address + entry

    def resources(self, dynamic_lds):
        """COMPUTE_PGM_RSRC2 with the LDS of a launch, in units of 512 bytes."""
        units = (self.static_lds + dynamic_lds + 511) // 512
        return self.rsrc2 & ~(0x1FF << 15) | units << 15

    def user_registers(self, kernarg):
        """What stands in the first scalar registers; what a kernel asks for and plan.json does not name is an error."""
        values = []
        for bit, count, what in USER_REGISTERS:
            if not self.properties >> bit & 1:
                continue
            if what == "kernarg":
                values += [kernarg & 0xFFFFFFFF, kernarg >> 32]
            elif what == "private segment buffer" and self.scratch_bytes == 0:
                values += [0xDEADBEEF] * count  # set up whether there is scratch or not
            else:
                raise ValueError(f"the kernel asks for its {what}")
        return values
