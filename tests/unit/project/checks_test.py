# SPDX-License-Identifier: MIT
"""The checks of scripts/ accept a valid tree and refuse trees that are wrong in one way each; the summary of a test
run loses nothing that counts."""

import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(ROOT / "scripts"))

import check_docs  # noqa: E402
import check_layers  # noqa: E402
import check_neighbours  # noqa: E402
import check_tree  # noqa: E402
import test_summary  # noqa: E402

SPDX = "// SPDX-License-Identifier: MIT\n"


class Tree(unittest.TestCase):
    """A small valid tree, to which a test adds one fault."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("include/tilewright/status.hpp", "#include <string>\n")
        self.write(
            "include/tilewright/dtype.hpp", '#include "tile/common/dtype.hpp"\n#include "tilewright/status.hpp"\n'
        )
        self.write("kernels/tile/common/dtype.hpp", "")
        self.write("kernels/tile/cpu/vector.hpp", '#include "tile/common/dtype.hpp"\n')
        self.write("kernels/tile/cdna/mfma.hpp", '#include "tile/common/dtype.hpp"\nasm volatile("nop");\n')
        self.write("kernels/gemm/gemm_args.hpp", '#include "tile/common/dtype.hpp"\n')
        self.write("kernels/gemm/gemm_cpu.hpp", '#include "gemm_args.hpp"\n#include "tile/cpu/vector.hpp"\n')
        self.write("kernels/norm/norm_args.hpp", "")
        self.write("src/core/log.hpp", '#include "tilewright/status.hpp"\n')
        self.write("src/dispatch/plan.hpp", '#include "core/log.hpp"\n#include "generated.inc"\n')
        self.write("src/ops/gemm/problem.hpp", '#include "dispatch/plan.hpp"\n#include "gemm/gemm_args.hpp"\n')
        self.write("cli/main.cpp", '#include "ops/gemm/problem.hpp"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SPDX + text, encoding="utf-8")

    def layer_breaches(self):
        return [f"{file}:{line}: {message}" for file, line, message in check_layers.check(self.root)]

    def tree_errors(self):
        return [f"{file}:{line}: {message}" for file, line, message in check_tree.check(self.root)[0]]


class Neighbours(unittest.TestCase):
    """Files that are compiled together keep their own names apart."""

    def names(self, *bodies):
        texts = {f"{i}.cpp": f"namespace {{\n\n{body}\n\n}}  // namespace\n" for i, body in enumerate(bodies)}
        return [name for name, _ in check_neighbours.check(texts)]

    def test_different_names_pass(self):
        self.assertEqual(self.names("Status refuse_a(int x) {", "Status refuse_b(int x) {"), [])

    def test_two_functions_of_one_name_are_found_even_as_overloads(self):
        template = "template <class... Args>\nStatus refuse(Args&&... args) {"
        self.assertEqual(self.names("Status refuse(std::string message) {", template), ["refuse"])

    def test_two_constants_and_two_types_of_one_name_are_found(self):
        body = "constexpr const char* kNames[] = {"
        self.assertEqual(self.names(body, "const int kNames = 1;"), ["kNames"])
        self.assertEqual(self.names("struct Row {", "enum class Row {"), ["Row"])

    def test_what_is_shared_on_purpose_passes(self):
        self.assertEqual(
            self.names("using Clock = std::chrono::steady_clock;", "using Clock = std::chrono::steady_clock;"), []
        )


class Layers(Tree):
    def expect(self, text):
        breaches = self.layer_breaches()
        self.assertEqual(len(breaches), 1, breaches)
        self.assertIn(text, breaches[0])

    def test_a_valid_tree_passes(self):
        self.assertEqual(self.layer_breaches(), [])

    def test_a_lower_layer_may_not_know_a_higher_one(self):
        self.write("src/core/bad.hpp", '\n#include "dispatch/plan.hpp"\n')
        self.expect("src/core/bad.hpp:3: core includes src/dispatch/plan.hpp of dispatch")

    def test_dispatch_may_not_know_an_operator(self):
        self.write("src/dispatch/bad.cpp", '#include "ops/gemm/problem.hpp"\n')
        self.expect("dispatch includes src/ops/gemm/problem.hpp of ops")

    def test_dispatch_may_not_know_an_argument_struct(self):
        self.write("src/dispatch/bad.cpp", '#include "gemm/gemm_args.hpp"\n')
        self.expect("layers below ops know no operator")

    def test_a_path_relative_to_the_file_does_not_hide_a_breach(self):
        self.write("src/jit/bad.cpp", '#include "../dispatch/plan.hpp"\n')
        self.expect("jit includes src/dispatch/plan.hpp of dispatch")

    def test_a_kernel_may_not_know_another_operator(self):
        self.write("kernels/gemm/bad.hpp", '#include "norm/norm_args.hpp"\n')
        self.expect("kernels/gemm includes kernels/norm/norm_args.hpp")

    def test_a_kernel_may_not_know_the_host(self):
        self.write("kernels/gemm/bad.hpp", '#include "core/log.hpp"\n')
        self.expect("a kernel includes src/core/log.hpp")

    def test_a_kernel_may_not_know_a_public_header(self):
        self.write("kernels/gemm/bad.hpp", '#include "tilewright/dtype.hpp"\n')
        self.expect("a kernel includes include/tilewright/dtype.hpp")

    def test_the_device_vocabulary_knows_no_operator(self):
        self.write("kernels/tile/common/bad.hpp", '#include "gemm/gemm_args.hpp"\n')
        self.expect("it knows no operator")

    def test_one_target_may_not_know_another(self):
        self.write("kernels/tile/cpu/bad.hpp", '#include "tile/cdna/mfma.hpp"\n')
        self.expect("only kernels/tile/{common, cpu}")

    def test_assembly_outside_the_device_vocabulary_is_found(self):
        self.write("kernels/gemm/bad.hpp", 'void f() { asm volatile("nop"); }\n')
        self.expect("inline assembly outside kernels/tile")

    def test_an_unknown_folder_of_src_is_found(self):
        self.write("src/extras/bad.cpp", "")
        self.expect("src/extras is no layer")

    def test_a_public_header_without_a_layer_is_found(self):
        self.write("include/tilewright/extra.hpp", "")
        self.expect("public header extra.hpp has no layer")

    def test_an_include_of_nothing_is_found(self):
        self.write("src/core/bad.cpp", '#include "core/absent.hpp"\n')
        self.expect("core/absent.hpp does not exist")


class Files(Tree):
    def expect(self, text):
        errors = self.tree_errors()
        self.assertEqual(len(errors), 1, errors)
        self.assertIn(text, errors[0])

    def test_a_valid_tree_passes(self):
        self.assertEqual(check_tree.check(self.root), ([], []))

    def test_a_missing_licence_line_is_found(self):
        (self.root / "src/core/bad.cpp").write_text("int x;\n")
        self.expect("src/core/bad.cpp:1: no SPDX")

    def test_a_script_without_suffix_needs_the_licence_line_too(self):
        (self.root / "run").write_text("#!/bin/sh\ntrue\n")
        self.expect("run:1: no SPDX")

    def test_a_long_file_is_found(self):
        self.write("src/core/bad.cpp", "\n" * check_tree.MAX_LINES)
        self.expect("split it by job")

    def test_a_name_that_says_nothing_is_found(self):
        self.write("src/core/utils.cpp", "")
        self.expect("does not say what the file is for")

    def test_a_path_of_a_machine_is_found(self):
        self.write("src/core/bad.cpp", 'auto x = "/ho' + 'me/alice/x";\n')
        self.expect("an absolute path of somebody's machine")

    def test_work_left_over_is_found(self):
        self.write("docs/bad.md", "TO" + "DO: write\n")
        self.expect("left over")

    def test_a_large_file_is_found(self):
        (self.root / "table.csv").write_bytes(b"1,2\n" * (1 << 19))
        self.expect("more than 1 MiB")

    def test_a_binary_is_found(self):
        (self.root / "libx.so").write_bytes(b"\x7fELF")
        self.expect("a built binary is tracked")

    def test_a_crowded_folder_is_a_warning_only(self):
        for index in range(check_tree.MAX_FILES + 1):
            self.write(f"src/core/file{index}.cpp", "")
        errors, warnings = check_tree.check(self.root)
        self.assertEqual(errors, [])
        self.assertIn("more than 12", warnings[0][2])

    def test_build_folders_are_not_checked(self):
        self.write("build/utils.cpp", "")
        self.assertEqual(self.tree_errors(), [])


class Docs(Tree):
    def setUp(self):
        super().setUp()
        (self.root / "Makefile").write_text("# SPDX-License-Identifier: MIT\nbuild:\n\ttrue\n")
        self.write("src/core/environment.cpp", 'auto x = "TILEWRIGHT_LOG";\n')
        self.write("docs/numerics.md", "# Not a number: NaN\n")

    def faults(self, text):
        (self.root / "docs" / "page.md").write_text(text, encoding="utf-8")
        return [message for _, _, message in check_docs.check(self.root)]

    def test_a_true_page_passes(self):
        page = "# Page\n[a](numerics.md#not-a-number-nan), [b](#page), `src/core`, `make build`, `TILEWRIGHT_LOG`\n"
        self.assertEqual(self.faults(page), [])

    def test_a_link_to_nothing_is_found(self):
        self.assertIn("no such file", self.faults("[a](absent.md)\n")[0])

    def test_a_link_to_no_heading_is_found(self):
        self.assertIn("no such heading", self.faults("[a](numerics.md#infinity)\n")[0])

    def test_a_path_that_is_gone_is_found(self):
        self.assertIn("does not exist", self.faults("see `src/core/absent.hpp`\n")[0])

    def test_a_make_target_that_is_gone_is_found(self):
        self.assertIn("no such target", self.faults("```\nmake absent\n```\n")[0])

    def test_a_variable_that_nothing_reads_is_found(self):
        self.assertIn("read nowhere", self.faults("TILEWRIGHT_ABSENT=1\n")[0])


class Summary(unittest.TestCase):
    LOG = """a_test.cpp:4: Skipped
needs AMX,
which this CPU lacks
[  SKIPPED ] Alpha.Two (0 ms)
a_test.cpp:9: Skipped
needs AMX, which this CPU lacks

[  SKIPPED ] Alpha.Three (0 ms)
SKIPPED [2] tests/python/test_x.py:12: torch is not installed
test_gpu (__main__.X) ... skipped 'no GPU'
skipped: pytest not found
"""

    def test_every_way_to_skip_is_counted(self):
        self.assertEqual(
            test_summary.skip_reasons(self.LOG),
            {
                "needs AMX, which this CPU lacks": 2,
                "torch is not installed": 2,
                "no GPU": 1,
                "pytest not found": 1,
            },
        )

    def test_failures_and_closing_lines_stay(self):
        output = """Test project /x
      Start  1: unit.Alpha
 1/12 Test  #1: unit.Alpha .......................   Passed    0.00 sec
10/12 Test #10: unit.Beta ........................***Skipped   0.00 sec
11/12 Test #11: unit.Gamma .......................***Failed    0.00 sec
g.cpp:3: Failure

50% tests passed, 1 tests failed out of 12"""
        kept = test_summary.failures_and_closing(output)
        self.assertEqual(len(kept), 4, kept)
        self.assertIn("unit.Gamma", kept[0])
        self.assertIn("1 tests failed", kept[-1])


class CompilersOfAmdKernels(unittest.TestCase):
    """scripts/install finds those that the library takes, in the same order."""

    def test_both_lists_are_the_same(self):
        install = (ROOT / "scripts/install").read_text(encoding="utf-8")
        library = (ROOT / "src/jit/amdgcn/amd_compilers.cpp").read_text(encoding="utf-8")
        oldest = re.search(r"AMD_OLDEST=(\d+)", install).group(1)
        versions = re.search(r"clang-2\{([\d,]+)\} clang;", install).group(1)
        names = re.search(r"plain_clangs\(\) \{ return \{(.*?)\}; \}", library, re.S).group(1)
        self.assertEqual([f"clang-2{v}" for v in versions.split(",")] + ["clang"], re.findall(r'"(.*?)"', names))
        header = (ROOT / "src/jit/amdgcn/hip_source.hpp").read_text(encoding="utf-8")
        self.assertIn(f"kOldestAmdClang = {oldest};", header)


if __name__ == "__main__":
    unittest.main()
