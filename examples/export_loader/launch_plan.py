#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Launches a plan that `tilewright export` wrote, without tilewright: on an NVIDIA GPU through CUDA's driver, on an AMD
GPU through HIP. Tensors are files of raw bytes, laid out as the plan's strides say.

launch_plan.py plan/ --input a=a.bin --input b=b.bin --output d=d.bin
launch_plan.py plan/                         what the plan wants; inputs that no file is given for are zeros
"""

import argparse
import sys

from drivers import Cuda, Hip
from plan import Plan, fill_arguments


class Launcher:
    """A plan on a GPU: code is loaded, memory is there. run() may be called again and again."""

    def __init__(self, plan, driver):
        self.plan, self.driver = plan, driver
        self.addresses = {}
        for name, buffer in plan.buffers.items():
            self.addresses[name] = driver.allocate(max(buffer["bytes"], 1))
            # Once is enough: each stage leaves its zeros as they were.
            if buffer.get("initial") == "zeros":
                driver.clear(self.addresses[name], buffer["bytes"])
        self.functions = [
            driver.load(plan.code(stage), stage["kernel"], stage["dynamic_shared_bytes"], stage["cluster"])
            for stage in plan.stages
        ]

    def run(self, inputs, scalars):
        """From bytes by the inputs' names to bytes by the outputs'."""
        for name, buffer in self.plan.buffers.items():
            if buffer["role"] == "input":
                data = inputs.get(name, bytes(buffer["bytes"]))
                if len(data) != buffer["bytes"]:
                    raise ValueError(f"{name}: {len(data)} bytes, the plan wants {buffer['bytes']}")
                if data:
                    self.driver.write(self.addresses[name], data)
        missing = set(self.plan.scalars) - set(scalars)
        if missing:
            raise ValueError(f"scalars are missing: {', '.join(sorted(missing))}")
        for stage, function in zip(self.plan.stages, self.functions):
            arguments = fill_arguments(stage, self.addresses, scalars, self.driver.encode_tensor_map)
            self.driver.launch(function, stage, arguments)
        self.driver.wait()
        outputs = {name: b for name, b in self.plan.buffers.items() if b["role"] == "output" and b["bytes"] > 0}
        return {name: self.driver.read(self.addresses[name], b["bytes"]) for name, b in outputs.items()}

    def close(self):
        for address in self.addresses.values():
            self.driver.free(address)


def pairs(items):
    return dict(item.split("=", 1) for item in items)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="with plan.json")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--scalar", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--output", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--library", help="instead of libcuda.so.1 or libamdhip64.so")
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()

    plan = Plan(options.folder)
    print(f"{plan.json['problem']} on {plan.json['target']}: {len(plan.stages)} stage(s)")
    for name, buffer in plan.buffers.items():
        print(f"  {buffer['role']:9} {name}: {buffer['dtype']} {buffer['shape']}, {buffer['bytes']} bytes")
    amd = plan.json["target"].startswith("gfx")
    driver = (Hip if amd else Cuda)(*([options.library] if options.library else []), index=options.device)
    inputs = {}
    for name, path in pairs(options.input).items():
        with open(path, "rb") as file:
            inputs[name] = file.read()
    launcher = Launcher(plan, driver)
    outputs = launcher.run(inputs, {name: float(value) for name, value in pairs(options.scalar).items()})
    launcher.close()
    for name, path in pairs(options.output).items():
        with open(path, "wb") as file:
            file.write(outputs[name])
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
