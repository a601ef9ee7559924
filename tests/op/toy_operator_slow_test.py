# SPDX-License-Identifier: MIT
"""docs/add-an-operator.md and docs/add-a-target.md, followed word for word: in a copy of the tree their files are
written, their edits made, the result is built, and their commands are run."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build"))
sys.path.insert(0, str(ROOT / "scripts"))

import apply_guide  # noqa: E402
from check_tree import files_of  # noqa: E402

GUIDES = ["docs/add-an-operator.md", "docs/add-a-target.md"]
# Of the tests only what makes the guides' own ones; benches, examples and Python are not built.
LEFT_OUT = re.compile(r"^(tests/(?!CMakeLists\.txt|list_suites\.cmake|support/)|bench/|examples/|python/)")
# What tells this build where its compiler and libraries are.
FORWARDED = re.compile(
    r"^((CMAKE_CXX_COMPILER|CMAKE_CXX_COMPILER_LAUNCHER|CMAKE_MAKE_PROGRAM|CMAKE_PREFIX_PATH|Python3_EXECUTABLE"
    r"|TILEWRIGHT_\w+_(?:INCLUDE|LIBRARY|SOURCE)|TILEWRIGHT_CLI11__CLI11_INCLUDE):\w+)=(.+)$"
)


def cache_entries():
    """The lines of this build's cache, name:type -> value."""
    cache = BUILD / "CMakeCache.txt"
    lines = cache.read_text(encoding="utf-8").splitlines() if cache.exists() else []
    return dict(line.split("=", 1) for line in lines if re.match(r"^[\w.-]+:\w+=", line))


def copy_tree(to):
    """A fresh copy of the project, with both guides applied. Returns each guide's commands."""
    shutil.rmtree(to, ignore_errors=True)
    for path in files_of(ROOT):
        name = path.relative_to(ROOT)
        if not LEFT_OUT.match(name.as_posix()):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to / name)
    return [apply_guide.apply((ROOT / guide).read_text(encoding="utf-8"), to)[0] for guide in GUIDES]


def update(tree, fresh):
    """Makes `tree` equal to `fresh`, leaving equal files (and build/) alone: a second run builds only what changed."""
    wanted = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for path in list(tree.rglob("*")) if tree.exists() else []:
        name = path.relative_to(tree)
        if path.is_file() and name.parts[0] != "build" and name not in wanted:
            path.unlink()
    for name in wanted:
        source, target = fresh / name, tree / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


class Guides(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        entries = cache_entries()
        values = {name.split(":")[0]: value for name, value in entries.items()}
        if not values:
            raise unittest.SkipTest(f"{BUILD} is no build folder")
        if values.get("TILEWRIGHT_SANITIZE"):
            raise unittest.SkipTest("a sanitizer's build; the guides are followed in the plain one")
        if not (BUILD / "bin" / "op_tests").exists() or not (BUILD / "bin" / "tilewright").exists():
            raise unittest.SkipTest("op_tests or the program tilewright is not built (GoogleTest or CLI11 is missing)")
        toy = BUILD / "toy"
        cls.tree = toy / "tree"
        cls.environment = dict(os.environ, CCACHE_BASEDIR=str(cls.tree), CCACHE_NOHASHDIR="1")
        for variable in ("TILEWRIGHT_SOURCE_DIR", "TILEWRIGHT_BINARY_DIR", "TILEWRIGHT_TUNED", "TILEWRIGHT_CPU_TARGET"):
            cls.environment.pop(variable, None)
        shutil.rmtree(toy / "home", ignore_errors=True)  # tuned rows of the last run
        for name in ("CACHE", "DATA", "CONFIG"):
            cls.environment[f"XDG_{name}_HOME"] = str(toy / "home" / name.lower())
        cls.operator_commands, cls.target_commands = copy_tree(toy / "fresh")
        update(cls.tree, toy / "fresh")

        generator = values.get("CMAKE_GENERATOR", "Unix Makefiles")
        forwarded = [f"-D{name}={value}" for name, value in entries.items() if FORWARDED.match(f"{name}={value}")]
        # Little optimisation: what is tested is that the guides hold, not how fast the kernels are.
        options = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1", "-DTILEWRIGHT_WERROR=ON", *forwarded]
        cls.command("cmake", "-S", ".", "-B", "build", "-G", generator, *options)
        cls.command("cmake", "--build", "build", "--parallel", str(os.cpu_count()), "--target", "op_tests",
                    "tilewright_program")  # fmt: skip

    @classmethod
    def command(cls, *words, shell=False):
        """Runs in the copy; the output. A failure shows the end of it."""
        result = subprocess.run(words[0] if shell else words, cwd=cls.tree, env=cls.environment, shell=shell,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if result.returncode not in (0, 77):  # 77: every test of the run was skipped, for a reason that it prints
            raise AssertionError(f"{' '.join(words)}: exit code {result.returncode}\n{result.stdout[-6000:]}")
        return result.stdout

    def follow(self, commands):
        """Runs a guide's commands but the build, which is done; (command, output) of each."""
        self.assertEqual(commands[0], "make build")
        return [(command, self.command(command, shell=True)) for command in commands[1:]]

    def test_the_operator_of_the_guide_is_built_tested_verified_and_tuned(self):
        outputs = self.follow(self.operator_commands)
        explained = [output for command, output in outputs if " explain " in command]
        self.assertEqual(len(explained), 2)
        self.assertRegex(explained[0], r"chosen +row_sum/row_sum_(cpu|generic)/\S+ \((cost|generic)")
        self.assertRegex(explained[1], r"chosen +row_sum/\S+ \(tuned")
        kernels = next(output for command, output in outputs if " kernels " in command)
        self.assertIn("row_sum_generic", kernels)

    def test_the_target_of_the_guide_is_known_everywhere(self):
        outputs = self.follow(self.target_commands)
        shown = next(output for command, output in outputs if " arch " in command)
        self.assertIn("x86-64-v4-toy", shown)
        self.assertIn("avx512_vbmi2", shown)
        self.assertIn("x86-64-v4-toy", (self.tree / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
