# SPDX-License-Identifier: MIT
"""The program tilewright under test: run with caches and tables of each test's own, its exit code checked."""

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
PROGRAM = BUILD / "bin" / "tilewright"
CONFIGURED = BUILD / "CMakeCache.txt"
# Of the build under test, e.g. "address,undefined"; mostly none.
SANITIZERS = "".join(
    re.findall(r"^TILEWRIGHT_SANITIZE:\w+=(.*)", CONFIGURED.read_text() if CONFIGURED.exists() else "", re.MULTILINE)
)
OK, CHECK_FAILED, USAGE, NOT_FOUND, ENVIRONMENT = 0, 1, 2, 3, 4
# As much of PyTorch as scripts/peer_torch.py asks for.
FAKE_TORCH = """
__version__ = "9.8.7+fake"
float32, float16, bfloat16, int8, uint8, int32 = "f32", "f16", "bf16", "i8", "u8", "i32"
threads = 0


class Tensor:
    def to(self, kind):
        return self

    def clone(self):
        return self

    def t(self):
        return self

    def repeat(self, *counts):
        return self

    def contiguous(self):
        return self

    def __getitem__(self, index):
        return self


def randn(*sizes, **options):
    return Tensor()


def randint(*arguments, **options):
    return Tensor()


rand = zeros = randn


def get_num_threads():
    return threads


def set_num_threads(count):
    global threads
    threads = count


class inference_mode:
    def __init__(self, mode=True):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return False


no_grad = inference_mode


def _int_mm(a, b):
    return a


class ops:
    class aten:
        @staticmethod
        def _convert_weight_to_int4pack_for_cpu(weight, tiles):
            return weight

        @staticmethod
        def _weight_int4pack_mm_for_cpu(x, weight, group, scales):
            return x

        @staticmethod
        def _weight_int8pack_mm(x, weight, scales):
            return x

    class onednn:
        @staticmethod
        def qlinear_prepack(weight, sizes):
            return weight

        @staticmethod
        def qlinear_pointwise(x, *arguments):
            return x


class nn:
    class functional:
        @staticmethod
        def linear(x, weight):
            FAILURE
            return x

        @staticmethod
        def rms_norm(x, sizes, weight, eps):
            return x
"""


def own_environment(folder):
    """The environment without the user's settings, and with folders below `folder`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    return own | {"TILEWRIGHT_CACHE_DIR": str(folder / "cache"), "TILEWRIGHT_DATA_DIR": str(folder / "data")}


def run(arguments, environment, before=(), **options):
    """Runs the program to its end; a variable that is None is not set."""
    return subprocess.run(
        [*map(str, before), str(PROGRAM), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={name: value for name, value in environment.items() if value is not None},
        **options,
    )


def compiler_works(environment):
    """Whether doctor finds a compiler that links."""
    findings = json.loads(run(["doctor", "--json"], environment).stdout)["findings"]
    return next(finding for finding in findings if finding["what"] == "compiler")["verdict"] == "ok"


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = own_environment(self.folder)
        # Absent, until a test puts one there.
        self.environment["TILEWRIGHT_PYTHON"] = "/nonexistent/python"

    def fake_torch(self, failure="pass"):
        """A Python whose PyTorch answers at once."""
        site = self.folder / "site"
        (site / "torch").mkdir(parents=True)
        (site / "torch" / "__init__.py").write_text(FAKE_TORCH.replace("FAILURE", failure), encoding="utf-8")
        (site / "torch-9.8.7.dist-info").mkdir()
        metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 9.8.7+fake\n"
        (site / "torch-9.8.7.dist-info" / "METADATA").write_text(metadata, encoding="utf-8")
        self.environment["TILEWRIGHT_PYTHON"] = sys.executable
        self.environment["PYTHONPATH"] = str(site)

    def run_program(self, *arguments, **environment):
        return run(arguments, {**self.environment, **environment}, cwd=self.folder)

    def check(self, code, *arguments, **environment):
        """Runs and expects the exit code; returns what came on stdout, or on stderr when it fails."""
        result = self.run_program(*arguments, **environment)
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result.stdout if code == OK else result.stderr

    def json(self, *arguments, code=OK, **environment):
        result = self.run_program(*arguments, "--json", **environment)
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)


def needs_avx2():
    """Of a class that compiles or picks kernels for x86-64-v3."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        if "avx2" not in info.read():
            raise unittest.SkipTest("this CPU has no AVX2")


def class_folder(cls):
    """A folder that all tests of a class share; it goes with the class."""
    holder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(holder.cleanup)
    return pathlib.Path(holder.name)


def main():
    """Of a test file: skipped where the program is not built."""
    if not PROGRAM.exists():
        print(f"skipped: {PROGRAM} is not built (CLI11 not found)")
        sys.exit(77)
    unittest.main(module="__main__")
