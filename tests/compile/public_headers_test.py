# SPDX-License-Identifier: MIT
"""Every public header compiles on its own, without warnings: C++ headers as C++20, the C ABI also as C11."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
COMPILER = os.environ.get("TILEWRIGHT_TEST_CXX", "c++")
INCLUDE = ROOT / "include"


def compile_alone(header, language, standard):
    name = header.relative_to(INCLUDE)
    command = [COMPILER, "-x", language, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{INCLUDE}", f"-I{ROOT / 'kernels'}", "-"]
    # Twice: the second time the include guard must hold.
    source = f'#include "{name}"\n' * 2
    return subprocess.run(command, input=source, capture_output=True, text=True)


class PublicHeaders(unittest.TestCase):
    def test_each_header_needs_no_other_before_it(self):
        headers = sorted((INCLUDE / "tilewright").glob("*.h*"))
        self.assertTrue(headers)
        for header in headers:
            with self.subTest(header=header.name):
                result = compile_alone(header, "c++", "c++20")
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_c_headers_are_c(self):
        for header in sorted((INCLUDE / "tilewright").glob("*.h")):
            with self.subTest(header=header.name):
                result = compile_alone(header, "c", "c11")
                if "unrecognized" in result.stderr or "invalid value" in result.stderr:
                    self.skipTest(f"{COMPILER} does not compile C")
                self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
