# SPDX-License-Identifier: MIT
"""The registers of a wave, where tinygrad's emulator has them."""

import ctypes

import numpy as np

PC = 256  # its place among the scalar registers


def bits(word, high, low):
    return word >> low & (1 << (high - low + 1)) - 1


class Wave:
    """The registers of a wave, where the emulator has them."""

    views = {}

    def __init__(self, lanes, addresses):
        scalar, vector, _, self.lds, _, accumulation = (int(address.value) for address in addresses)
        self.lanes = lanes
        self.scalar = self.view(scalar, (260,))
        self.vector = self.view(vector, (256, lanes))
        self.accumulation = self.view(accumulation, (256, lanes)) if lanes == 64 else None

    @classmethod
    def view(cls, address, shape):
        if (address, shape) not in cls.views:
            memory = (ctypes.c_uint32 * int(np.prod(shape))).from_address(address)
            cls.views[address, shape] = np.frombuffer(memory, np.uint32).reshape(shape)
        return cls.views[address, shape]

    def active(self):
        mask = int(self.scalar[126]) | (int(self.scalar[127]) << 32 if self.lanes == 64 else 0)
        return [lane for lane in range(self.lanes) if mask >> lane & 1]

    def pair(self, at):
        return int(self.scalar[at]) | int(self.scalar[at + 1]) << 32

    def scalar_operand(self, code):
        """A register or an inline constant, both of which stand where the emulator's table has them."""
        return int(self.scalar[code])

    def advance(self, size):
        pc = self.pair(PC) + size
        self.scalar[PC], self.scalar[PC + 1] = pc & 0xFFFFFFFF, pc >> 32
