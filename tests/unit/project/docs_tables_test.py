# SPDX-License-Identifier: MIT
"""scripts/check_docs.py finds documentation that no longer follows the source: tables, tests, flags, words."""

import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(ROOT / "scripts"))

import check_docs  # noqa: E402
import docs_tables  # noqa: E402

SOURCE = """
constexpr EnvironmentVariable kVariables[] = {
    {"TILEWRIGHT_LOG", "off | error", "off",
     "What is logged, "
     "and where."},
    {"TILEWRIGHT_JIT", "off, on", "on", "Compiling."},
};
constexpr EnvironmentVariable kBorrowed[] = {
    {"HOME", "folder", "none", "Home."},
};
"""
PAGE = """# Environment
| `TILEWRIGHT_LOG` | off \\| error | off | What is logged, and where. |
| `TILEWRIGHT_JIT` | off, on | on | Compiling. |
| `HOME` | folder | none | Home. |
"""
# Stands for the program: two commands, and what their help says.
PROGRAM = """#!/bin/sh
case "$1" in
  --help) echo "usage: --version" ;;
  tune) echo "options: --budget SECONDS --report-all" ;;
  *) exit 2 ;;
esac
"""


class Documentation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.write("src/core/environment.cpp", SOURCE)
        self.write("docs/environment.md", PAGE)
        self.write("tests/unit/a_test.cpp", "TEST(Alpha, IsTested) {}\nTEST_F(\n    Beta, IsToo) {}\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def faults(self, page=""):
        self.write("docs/page.md", page)
        return [message for _, _, message in check_docs.check(self.root)]

    def with_program(self):
        self.write("build/bin/tilewright", PROGRAM).chmod(0o755)

    def test_true_tables_pass(self):
        self.assertEqual(self.faults(), [])

    def test_a_row_that_the_page_lacks_is_found(self):
        self.write("docs/environment.md", PAGE.replace("| `HOME` | folder | none | Home. |\n", ""))
        self.assertIn("has the row: | `HOME`", self.faults()[0])

    def test_a_row_that_the_source_lacks_or_words_otherwise_is_found(self):
        self.write("docs/environment.md", PAGE.replace("Compiling.", "Compiles."))
        self.assertEqual(len(self.faults()), 2)
        self.write("src/core/environment.cpp", SOURCE.replace('{"HOME"', '{"PATH"'))
        self.assertTrue(any("no such row" in message for message in self.faults()))

    def test_a_test_that_is_gone_is_found(self):
        self.assertEqual(self.faults("`Alpha.IsTested` and `Beta.IsToo`, `Registry.from_json`\n"), [])
        self.assertIn("is no test", self.faults("`Alpha.IsGone`\n")[0])

    def test_a_command_or_flag_that_the_program_does_not_know_is_found(self):
        self.with_program()
        self.assertEqual(self.faults("```sh\nA=1 build/bin/tilewright tune --budget 3  # three\n```\n"), [])
        self.assertIn("no such command", self.faults("```sh\ntilewright tuna\n```\n")[0])
        self.assertIn("--report: no such flag", self.faults("see `tilewright tune --report x`\n")[0])
        self.assertEqual(self.faults("`tilewright --version`\n"), [])

    def test_without_a_build_commands_are_not_looked_at(self):
        self.assertEqual(self.faults("```sh\ntilewright tuna\n```\n"), [])

    def test_a_script_that_is_gone_is_found(self):
        self.assertIn("does not exist", self.faults("```sh\nscripts/absent --all\n```\n")[0])

    def test_advertisement_is_found(self):
        self.assertIn("says nothing", self.faults("A blazing fast library.\n")[0])
        self.assertIn("says nothing", self.faults("It is \u2014 we think \u2014 fast.\n")[0])

    def test_this_projects_environment_table_is_read_whole(self):
        rows = docs_tables.environment_rows((ROOT / "src" / "core" / "environment.cpp").read_text(encoding="utf-8"))
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertRegex(row, r"^\| `[A-Z0-9_]+` \| .+ \| .+ \| .+ \|$")


if __name__ == "__main__":
    unittest.main()
