# SPDX-License-Identifier: MIT
"""Always-built instances are valid C++ for every CPU target, those too that a build leaves out because this machine
never chooses them (TILEWRIGHT_REACHED_INSTANCES)."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build"))
COMPILER = os.environ.get("TILEWRIGHT_TEST_CXX", "c++")


def kernel_flags():
    lines = (ROOT / "src/jit/host_flags.inc").read_text().splitlines()
    return re.findall(r'"([^"]+)"', "\n".join(line for line in lines if not line.startswith("//")))


def target_flags():
    arch_specs = json.loads((ROOT / "src/arch/arch_specs.json").read_text())
    return {spec["target"]: spec["flags"] for spec in arch_specs["targets"] if spec["vendor"] == "x86"}


def checked(source, flags):
    command = [COMPILER, "-x", "c++", *flags, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]
    command += [f"-I{ROOT / 'include'}", f"-I{ROOT / 'kernels'}", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True)


class Instances(unittest.TestCase):
    def test_each_unit_compiles_for_its_target(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([BUILD / "bin/tilewright_geninst", folder], check=True)
            for target, flags in target_flags().items():
                units = [pathlib.Path(folder, f"instances_{part}_{target}.cpp") for part in ("products", "rows")]
                self.assertGreater(sum(unit.stat().st_size for unit in units), 1000, f"no instance of {target}")
                if checked("", flags).returncode != 0:
                    print(f"{COMPILER} does not know {target}: its instances are not read")
                    continue
                for unit in units:
                    source, built = unit.read_text(), BUILD / "generated" / unit.name
                    if built.is_file() and built.read_text() == source:
                        continue  # compiled by the build
                    with self.subTest(unit=unit.name):
                        result = checked(source, [*kernel_flags(), *flags])
                        errors = [line for line in result.stderr.splitlines() if "error" in line]
                        self.assertEqual(result.returncode, 0, "\n".join(errors[:10]))


if __name__ == "__main__":
    sys.exit(unittest.main())
