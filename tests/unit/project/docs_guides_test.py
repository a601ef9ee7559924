# SPDX-License-Identifier: MIT
"""scripts/apply_guide.py does what a guide says and refuses what it cannot do, and the guides of docs/ apply to this
tree. That the result builds and works is tested by tests/op/toy_operator_slow_test.py."""

import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(ROOT / "scripts"))

import apply_guide  # noqa: E402

EDIT = "<!-- edit: list.txt -->\n```diff\n one\n+two\n```\n"


class ApplyGuide(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "list.txt").write_text("zero\none\nthree\n", encoding="utf-8")

    def refused(self, guide):
        with self.assertRaises(apply_guide.GuideError) as caught:
            apply_guide.apply(guide, self.root)
        return str(caught.exception)

    def test_files_are_written_edits_made_and_commands_returned(self):
        guide = "# G\n\n<!-- file: a/b.txt -->\n```cpp\nint x;\n\nint y;\n```\n\n" + EDIT
        guide += "\n<!-- run -->\n```sh\nmake build\n```\n```sh\nnot marked\n```\n"
        commands, paths = apply_guide.apply(guide, self.root)
        self.assertEqual(commands, ["make build"])
        self.assertEqual(paths, ["a/b.txt", "list.txt"])
        self.assertEqual((self.root / "a" / "b.txt").read_text(encoding="utf-8"), "int x;\n\nint y;\n")
        self.assertEqual((self.root / "list.txt").read_text(encoding="utf-8"), "zero\none\ntwo\nthree\n")

    def test_a_longer_fence_may_hold_a_block(self):
        guide = "<!-- file: page.md -->\n````markdown\n```sh\nls\n```\n````\n"
        apply_guide.apply(guide, self.root)
        self.assertEqual((self.root / "page.md").read_text(encoding="utf-8"), "```sh\nls\n```\n")

    def test_a_file_that_exists_is_not_overwritten(self):
        self.assertIn("exists already", self.refused("<!-- file: list.txt -->\n```text\nx\n```\n"))

    def test_an_edit_whose_place_is_gone_or_stands_twice_is_refused(self):
        (self.root / "list.txt").write_text("three\n", encoding="utf-8")
        self.assertIn("0 times", self.refused(EDIT))
        (self.root / "list.txt").write_text("one\none\n", encoding="utf-8")
        self.assertIn("2 times", self.refused(EDIT))

    def test_nothing_is_written_when_a_later_block_is_refused(self):
        self.refused("<!-- file: new.txt -->\n```text\nx\n```\n" + EDIT.replace("list.txt", "absent.txt"))
        self.assertFalse((self.root / "new.txt").exists())

    def test_a_path_outside_the_tree_is_refused(self):
        self.assertIn("outside", self.refused("<!-- file: ../x.txt -->\n```text\nx\n```\n"))

    def test_malformed_marks_and_blocks_are_refused(self):
        self.assertIn("malformed", self.refused("<!-- file x.txt -->\n```text\nx\n```\n"))
        self.assertIn("malformed", self.refused("<!-- run: x -->\n```sh\nx\n```\n"))
        self.assertIn("no fenced block", self.refused("<!-- file: x.txt -->\n\n```text\nx\n```\n"))
        self.assertIn("not closed", self.refused("<!-- file: x.txt -->\n```text\nx\n"))
        self.assertIn("starts with", self.refused("<!-- edit: list.txt -->\n```diff\none\n+two\n```\n"))
        self.assertIn("a change", self.refused("<!-- edit: list.txt -->\n```diff\n one\n```\n"))


class Guides(unittest.TestCase):
    def test_every_guide_applies_to_this_tree(self):
        for name in ("add-an-operator.md", "add-a-target.md"):
            with self.subTest(guide=name):
                blocks = apply_guide.parse((ROOT / "docs" / name).read_text(encoding="utf-8"))
                texts = apply_guide.plan(blocks, ROOT)
                self.assertTrue(texts)
                commands = [line for block in blocks if block.kind == "run" for line in block.body]
                self.assertEqual(commands[0], "make build")

    def test_the_operators_guide_touches_only_what_it_says(self):
        text = (ROOT / "docs" / "add-an-operator.md").read_text(encoding="utf-8")
        blocks = apply_guide.parse(text)
        edits = [block.path for block in blocks if block.kind == "edit"]
        self.assertEqual(edits, ["src/ops/op_list.inc"])
        allowed = ("include/tilewright/row_sum.hpp", "kernels/row_sum/", "src/ops/row_sum/", "docs/", "tests/")
        for block in blocks:
            if block.kind == "file":
                self.assertTrue(block.path.startswith(allowed), block.path)

    def test_lines_of_the_guides_code_fit_the_style(self):
        for name in ("add-an-operator.md", "add-a-target.md"):
            for block in apply_guide.parse((ROOT / "docs" / name).read_text(encoding="utf-8")):
                if block.path.endswith((".hpp", ".cpp")):
                    self.assertEqual(block.body[0], "// SPDX-License-Identifier: MIT", block.path)
                    self.assertEqual([line for line in block.body if len(line) > 120], [], block.path)


if __name__ == "__main__":
    unittest.main()
