# SPDX-License-Identifier: MIT
"""Buffer instructions, and stores to LDS out of accumulation registers (supplied.py says why)."""

import ctypes

import numpy as np
from registers import bits

BYTES = {"U8": 1, "I8": 1, "B8": 1, "UBYTE": 1, "SBYTE": 1, "BYTE": 1}
BYTES |= {"U16": 2, "I16": 2, "B16": 2, "USHORT": 2, "SSHORT": 2, "SHORT": 2}
BYTES |= {"B32": 4, "B64": 8, "B96": 12, "B128": 16, "DWORD": 4, "DWORDX2": 8, "DWORDX3": 12, "DWORDX4": 16}


def buffer_access(name, fields):
    """A buffer load or store, raw: `fields` of the instruction word as a dict."""
    load, kind = name.removeprefix("BUFFER_").split("_", 1)
    kind = kind.removeprefix("LDS_")
    high, half = "HI" in kind, "D16" in kind
    unit = next(part for part in kind.split("_") if part in BYTES)
    count, signed = BYTES[unit], unit in ("I8", "I16", "SBYTE", "SSHORT")

    def run(wave):
        if fields["idxen"]:
            raise NotImplementedError("a structured buffer")
        base = wave.pair(fields["srsrc"]) & (1 << 48) - 1
        records, soffset = int(wave.scalar[fields["srsrc"] + 2]), wave.scalar_operand(fields["soffset"])
        file = wave.accumulation if fields["acc"] else wave.vector
        lds = wave.lds + (int(wave.scalar[fields["m0"]]) & 0xFFFF) + fields["offset"]
        for lane in wave.active():
            offset = (int(wave.vector[fields["vaddr"], lane]) if fields["offen"] else 0) + fields["offset"]
            address, inside = base + soffset + offset, offset + count <= records
            if load == "STORE":
                if inside:
                    data = file[fields["vdata"] : fields["vdata"] + (count + 3) // 4, lane].tobytes()
                    ctypes.memmove(address, data[2 if high else 0 :][:count], count)
                continue
            data = ctypes.string_at(address, count) if inside else bytes(count)
            if fields["lds"]:
                ctypes.memmove(lds + lane * max(count, 4), data.ljust(4, b"\0"), max(count, 4))
            elif count >= 4:
                file[fields["vdata"] : fields["vdata"] + count // 4, lane] = np.frombuffer(data, np.uint32)
            else:
                value = int.from_bytes(data, "little", signed=signed) & 0xFFFFFFFF
                if half:
                    old = int(file[fields["vdata"], lane])
                    value &= 0xFFFF
                    value = old & 0xFFFF | value << 16 if high else old & 0xFFFF0000 | value
                file[fields["vdata"], lane] = value

    return run


def lds_store(name, word):
    """DS_WRITE of one or two pieces out of accumulation registers."""
    parts = name.split("_")
    two, count = parts[1] != "WRITE", BYTES[parts[2]]
    pieces = [(bits(word, 47, 40), bits(word, 15, 0))]
    if two:
        unit = count * (64 if "ST64" in name else 1)
        pieces = [(bits(word, 47, 40), bits(word, 7, 0) * unit), (bits(word, 55, 48), bits(word, 15, 8) * unit)]
    address = bits(word, 39, 32)

    def run(wave):
        for lane in wave.active():
            for register, offset in pieces:
                data = wave.accumulation[register : register + (count + 3) // 4, lane].tobytes()[:count]
                ctypes.memmove(wave.lds + int(wave.vector[address, lane]) + offset, data, count)

    return run
