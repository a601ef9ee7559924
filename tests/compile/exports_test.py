# SPDX-License-Identifier: MIT
"""libtilewright.so exports its own API only, and links nothing but the C++ runtime: what it carries inside can never
clash with another copy in the same process."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

LIBRARY = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", "build")) / "lib" / "libtilewright.so"
OWN = re.compile(r"^(tilewright_\w+|(typeinfo for |typeinfo name for |vtable for )?tilewright::.*)$")
# The C++ and C runtime, and the loader.
RUNTIME = re.compile(r"^(libstdc\+\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux-x86-64)\.so")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@unittest.skipUnless(LIBRARY.exists(), f"{LIBRARY} is not built")
@unittest.skipUnless(shutil.which("nm") and shutil.which("readelf"), "binutils not found")
class Exports(unittest.TestCase):
    def setUp(self):
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(LIBRARY)))
        if any("san.so" in name for name in self.needed):
            self.skipTest("a sanitizer's build")

    def test_only_the_own_api_is_exported(self):
        lines = run("nm", "-DC", "--defined-only", str(LIBRARY)).splitlines()
        names = [line.split(" ", 2)[2] for line in lines]
        self.assertTrue(names)
        self.assertEqual([name for name in names if not OWN.match(name)], [])

    def test_only_the_runtime_is_linked(self):
        self.assertEqual([name for name in self.needed if not RUNTIME.match(name)], [])


if __name__ == "__main__":
    sys.exit(unittest.main())
