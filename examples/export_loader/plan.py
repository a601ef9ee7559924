# SPDX-License-Identifier: MIT
"""A plan.json that `tilewright export` wrote, and the argument bytes of its stages. Python's standard library alone."""

import json
import pathlib
import struct


class Plan:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.json = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        if (self.json["format"], self.json["version"]) != ("tilewright plan", 1):
            raise ValueError(f"{self.folder}: no plan of version 1")
        self.stages = self.json["stages"]
        self.buffers = {buffer["name"]: buffer for buffer in self.json["buffers"]}
        self.scalars = [scalar["name"] for scalar in self.json["scalars"]]

    def code(self, stage):
        return (self.folder / stage["file"]).read_bytes()


def fill_arguments(stage, addresses, scalars, encode_tensor_map=None):
    """The bytes that the stage's kernel is launched with: those of plan.json, with the call's addresses (by buffers'
    names), scalars and tensor maps in their places. `encode_tensor_map(map, address)` gives the 128 bytes of one."""
    arguments = stage["arguments"]
    data = bytearray.fromhex(arguments["hex"])
    for field in arguments["fields"]:
        if "buffer" in field:
            address = addresses[field["buffer"]]
            struct.pack_into("<Q", data, field["offset"], address + field.get("add", 0) if address else 0)
        elif "scalar" in field:
            struct.pack_into("<f", data, field["offset"], scalars[field["scalar"]])
        elif "tensor_map" in field:
            encoded = encode_tensor_map(field["tensor_map"], addresses[field["tensor_map"]["buffer"]])
            data[field["offset"] : field["offset"] + field["size"]] = encoded
    return bytes(data)
