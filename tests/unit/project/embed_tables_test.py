#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Curated tables in the library: each byte of each file stands in the generated source; no folder is an empty list."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
SCRIPT = ROOT / "scripts" / "generate" / "embed_files.py"

MAIN = """
#include <cstdio>
#include <span>
#include <string_view>
int main() {
  for (const auto& table : tilewright::embedded_tables())
    std::printf("%.*s|%.*s|", int(table.path.size()), table.path.data(), int(table.text.size()), table.text.data());
}
"""


class EmbedTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def generate(self, tuned):
        output = self.folder / "tables.cpp"
        subprocess.run([sys.executable, SCRIPT, "tables", str(tuned), str(output)], check=True, timeout=60)
        return output.read_text(encoding="ascii")

    def test_every_table_comes_back_byte_for_byte(self):
        compiler = os.environ.get("TILEWRIGHT_TEST_CXX", "c++")
        texts = {"x86-64-v3/gemm.csv": 'op,us\n"a?b\\c",1\n', "gfx942/gemm.csv": "op\n" + "x" * 300 + "\n"}
        for name, text in texts.items():
            path = self.folder / "tuned" / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        source = self.generate(self.folder / "tuned")
        # The header that the source includes, as little as it needs.
        (self.folder / "dispatch" / "choice").mkdir(parents=True)
        (self.folder / "dispatch" / "choice" / "tuned_table.hpp").write_text(
            "#include <span>\n#include <string_view>\n"
            "namespace tilewright { struct EmbeddedTable { std::string_view path, text; };\n"
            "std::span<const EmbeddedTable> embedded_tables(); }\n",
            encoding="ascii",
        )
        (self.folder / "main.cpp").write_text(source + MAIN, encoding="ascii")
        program = self.folder / "main"
        subprocess.run(
            [compiler, "-std=c++20", f"-I{self.folder}", str(self.folder / "main.cpp"), "-o", str(program)],
            check=True,
            timeout=300,
        )
        printed = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
        expected = "".join(f"tuned/{name}|{texts[name]}|" for name in sorted(texts))
        self.assertEqual(printed, expected)

    def test_without_a_folder_the_list_is_empty(self):
        self.assertIn("embedded_tables() { return {}; }", self.generate(self.folder / "nothing"))


if __name__ == "__main__":
    unittest.main()
