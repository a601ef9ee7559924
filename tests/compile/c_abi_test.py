# SPDX-License-Identifier: MIT
"""The C ABI as a C program sees it: it compiles as C11 without warnings, links libtilewright.so and runs; every
function of the header is exported, and no other C symbol is."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
LIBRARY = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build")) / "lib" / "libtilewright.so"
HEADERS = [
    ROOT / "include" / "tilewright" / name
    for name in ("tilewright.h", "row_operators.h", "logit_operators.h", "cache_operators.h", "image_operators.h")
]
PROGRAM = pathlib.Path(__file__).with_name("c_abi_program.c")
COMPILERS = [name for name in ("cc", "gcc", "clang", "clang-19") if shutil.which(name)]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def is_sanitized():
    listing = run("readelf", "-dW", LIBRARY).stdout if shutil.which("readelf") else ""
    return "san.so" in listing


@unittest.skipUnless(LIBRARY.exists(), f"{LIBRARY} is not built")
class CAbi(unittest.TestCase):
    @unittest.skipUnless(COMPILERS, "no C compiler found")
    def test_a_c11_program_compiles_without_warnings_links_and_runs(self):
        if is_sanitized():
            self.skipTest("a sanitizer's build")
        flags = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{ROOT / 'include'}"]
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler), tempfile.TemporaryDirectory() as folder:
                program = pathlib.Path(folder) / "program"
                link = [f"-L{LIBRARY.parent}", "-ltilewright", f"-Wl,-rpath,{LIBRARY.parent}"]
                built = run(compiler, *flags, PROGRAM, "-o", program, *link)
                self.assertEqual(built.returncode, 0, built.stderr)
                ran = run(program)
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "", ""))

    @unittest.skipUnless(shutil.which("nm"), "nm not found")
    def test_the_exported_c_symbols_are_those_of_the_header(self):
        text = "".join(header.read_text(encoding="utf-8") for header in HEADERS)
        header = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        declared = set(re.findall(r"TILEWRIGHT_C_API[^;{]*?\b(tilewright_\w+)\(", header))
        self.assertGreater(len(declared), 10)
        lines = run("nm", "-D", "--defined-only", LIBRARY).stdout.splitlines()
        names = (line.split()[-1].split("@")[0] for line in lines)
        exported = {name for name in names if name.startswith("tilewright_")}
        self.assertEqual(exported, declared)


if __name__ == "__main__":
    sys.exit(unittest.main())
