# SPDX-License-Identifier: MIT
"""Each mistake in arch_specs.json fails the generator with FILE:LINE and a message that names the entry."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("TILEWRIGHT_SOURCE_DIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
GENERATOR = os.path.join(ROOT, "scripts", "generate", "generate_arch_table.py")
SPECS = os.path.join(ROOT, "src", "arch", "arch_specs.json")

# A small file with one CPU target, one built on it, and one GPU. Line numbers below are counted in it.
SMALL = """{
  "schema": "tilewright.arch_specs/1",
  "cpuid": {
    "avx2": {"leaf": 7, "subleaf": 0, "register": "ebx", "bit": 5, "state": "avx"}
  },
  "targets": [
    {
      "target": "base",
      "vendor": "x86",
      "family": "x86-64",
      "wave_size": 1,
      "shared_bytes": 0,
      "max_threads": 1,
      "registers": 16,
      "vector_bytes": 32,
      "fp8": "none",
      "features": ["avx2"],
      "flags": ["-march=x86-64-v3"],
      "mma": [
        {"name": "fma_avx2", "input": "f32", "accumulator": "f32", "shape": [1, 8, 1], "ops_per_cycle": 32}
      ],
      "parts": [
        {"name": "some_cpu", "ids": ["intel-6-1"]}
      ]
    },
    {
      "target": "derived",
      "base": "base",
      "vendor": "x86",
      "flags": ["-march=x86-64-v4"]
    },
    {
      "target": "gpu",
      "vendor": "amd",
      "family": "CDNA3",
      "wave_size": 64,
      "shared_bytes": 65536,
      "max_threads": 1024,
      "registers": 512,
      "vector_bytes": 16,
      "fp8": "none",
      "flags": [],
      "wave_layouts": [[1, 4, 1]],
      "warp_tiles": [
        {"a": "f16", "b": "f16", "tiles": [[32, 32, 8]]}
      ]
    }
  ]
}
"""

# (what breaks, text, replacement, line, part of the message)
MISTAKES = [
    ("syntax", '"fp8": "none",\n      "features"', '"fp8": "none"\n      "features"', 17, "not JSON"),
    ("unfinished file", "  ]\n}\n", "  ]\n", 49, "not JSON"),
    (
        "schema of another version",
        "arch_specs/1",
        "arch_specs/2",
        2,
        "file.schema: 'tilewright.arch_specs/2' is unknown",
    ),
    ("unknown key of the file", '"schema"', '"scheme": 1,\n  "schema"', 2, "unknown key 'scheme'"),
    (
        "unknown key of a target",
        '"wave_size": 1,',
        '"wave_sizes": 1,',
        11,
        "target 'base': unknown key 'wave_sizes'; allowed: target, vendor",
    ),
    (
        "unknown key of an instruction",
        '"ops_per_cycle": 32',
        '"ops": 32',
        20,
        "target 'base'.mma[0]: unknown key 'ops'",
    ),
    ("unknown key of a part", '"ids": [', '"cpus": [', 23, "target 'base'.parts[0]: unknown key 'cpus'"),
    ("unknown key of a cpuid bit", '"subleaf"', '"sub"', 4, "cpuid.avx2: unknown key 'sub'"),
    ("missing key of a target", '      "vendor": "amd",\n', "", 32, "target 'gpu': missing key 'vendor'"),
    (
        "missing inheritable key without a base",
        '      "max_threads": 1,\n',
        "",
        7,
        "target 'base': missing key 'max_threads' (only a target with a base may leave it out)",
    ),
    ("missing key of an instruction", '"input": "f32", ', "", 20, "target 'base'.mma[0]: missing key 'input'"),
    ("duplicate key", '"registers": 16,', '"registers": 16, "registers": 32,', 14, "duplicate key 'registers'"),
    ("number as text", '"wave_size": 64', '"wave_size": "64"', 36, "target 'gpu'.wave_size: expected an integer"),
    ("true as a number", '"wave_size": 64', '"wave_size": true', 36, "expected an integer, got true"),
    ("fraction as an integer", '"wave_size": 64', '"wave_size": 64.5', 36, "expected an integer, got 64.5"),
    ("text as a list", '"flags": []', '"flags": "-O2"', 42, "target 'gpu'.flags: expected an array"),
    (
        "list as an object",
        '{"name": "some_cpu", "ids": ["intel-6-1"]}',
        '["some_cpu"]',
        23,
        "target 'base'.parts[0]: expected an object",
    ),
    ("negative integer", '"shared_bytes": 65536', '"shared_bytes": -1', 37, "target 'gpu'.shared_bytes: -1 is outside"),
    ("negative number", '"ops_per_cycle": 32', '"ops_per_cycle": -32', 20, "mma[0].ops_per_cycle: -32 is negative"),
    ("not a number", '"ops_per_cycle": 32', '"ops_per_cycle": NaN', 20, "mma[0].ops_per_cycle: expected a number"),
    ("zero tile", "[[32, 32, 8]]", "[[32, 0, 8]]", 45, "warp_tiles[0].tiles[0][1]: 0 is outside [1, 4096]"),
    ("tile of two sizes", "[[32, 32, 8]]", "[[32, 32]]", 45, "warp_tiles[0].tiles[0]: expected 3 items, got 2"),
    ("unknown dtype", '"a": "f16"', '"a": "fp16"', 45, "warp_tiles[0].a: 'fp16' is unknown; allowed: f32, f16"),
    ("unknown dtype of an instruction", '"input": "f32"', '"input": "f31"', 20, "mma[0].input: 'f31' is unknown"),
    ("accumulator that cannot be", '"accumulator": "f32"', '"accumulator": "i32"', 20, "does not go with input 'f32'"),
    ("unknown vendor", '"vendor": "amd"', '"vendor": "arm"', 34, "'arm' is unknown; allowed: x86, nvidia, amd"),
    ("unknown fp8 flavour", '"fp8": "none",\n      "flags"', '"fp8": "fp8",\n      "flags"', 41, "'fp8' is unknown"),
    ("unknown feature", '["avx2"]', '["avx2", "avx3"]', 17, "features[1]: 'avx3' is not in cpuid; known: avx2"),
    ("feature of a GPU", '"flags": [],', '"flags": [], "features": ["avx2"],', 42, "only x86 targets have features"),
    (
        "warp tiles of a CPU",
        '"flags": ["-march=x86-64-v4"]',
        '"flags": [], "wave_layouts": [[1, 1, 1]]',
        30,
        "an x86 target has no wave_layouts",
    ),
    ("unknown register", '"register": "ebx"', '"register": "rbx"', 4, "cpuid.avx2.register: 'rbx' is unknown"),
    ("bit that no register has", '"bit": 5', '"bit": 32', 4, "cpuid.avx2.bit: 32 is outside [0, 31]"),
    ("unknown base", '"base": "base"', '"base": "bass"', 28, "target 'derived': unknown base 'bass'; known: base"),
    (
        "cycle of bases",
        '"target": "base",',
        '"target": "base", "base": "derived",',
        8,
        "bases form a cycle: base -> derived -> base",
    ),
    ("base of another vendor", '"base": "base"', '"base": "gpu"', 28, "base 'gpu' is of another vendor"),
    ("duplicate target", '"target": "derived"', '"target": "gpu"', 32, "duplicate target; the first is on line 26"),
    (
        "instruction twice",
        '"ops_per_cycle": 32}',
        '"ops_per_cycle": 32},\n{"name": "fma_avx2", "input": "f32", "accumulator": "f32", "shape": [1, 8, 1]}',
        21,
        "mma[1]: 'fma_avx2' stands twice",
    ),
    (
        "inherited instruction again",
        '"flags": ["-march=x86-64-v4"]',
        '"flags": [],\n"mma": [{"name": "fma_avx2", "input": "f32", "accumulator": "f32", "shape": [1, 8, 1]}]',
        31,
        "mma 'fma_avx2' is inherited from 'base' and stands again",
    ),
    (
        "part twice",
        '"flags": ["-march=x86-64-v4"]',
        '"flags": [],\n"parts": [{"name": "some_cpu"}]',
        31,
        "part 'some_cpu' also stands in target 'base'",
    ),
    (
        "part's id twice",
        '"flags": ["-march=x86-64-v4"]',
        '"flags": [],\n"parts": [{"name": "x", "ids": ["intel-6-1"]}]',
        31,
        "id 'intel-6-1' also stands in part 'some_cpu'",
    ),
    ("name with a quote", '"name": "some_cpu"', '"name": "some\\"cpu"', 23, "holds a character outside"),
    ("name with a space", '"name": "some_cpu"', '"name": "some cpu"', 23, "is no name"),
    (
        "no targets",
        SMALL[SMALL.index('"targets": [') :],
        '"targets": []\n}\n',
        6,
        "expected an array with at least one",
    ),
    ("not an object", SMALL, "[]\n", 1, "expected an object with the keys"),
]


def generate(text):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "arch_specs.json")
        output = os.path.join(folder, "out", "arch_table.inc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run(
            [sys.executable, GENERATOR, source, output],
            capture_output=True,
            text=True,
            check=False,
        )
        table = ""
        if os.path.exists(output):
            with open(output, encoding="utf-8") as file:
                table = file.read()
        return run.returncode, run.stderr, table


class MalformedSpecs(unittest.TestCase):
    def test_the_small_file_is_well_formed(self):
        code, errors, table = generate(SMALL)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn('{"derived", "base", ArchVendor::kX86, "x86-64", 1, 0, 1, 16, 32, "none"', table)

    def test_every_mistake_fails_with_its_line_and_leaves_no_table(self):
        for what, text, replacement, line, message in MISTAKES:
            with self.subTest(what):
                self.assertEqual(SMALL.count(text), 1, f"'{text}' must stand once")
                code, errors, table = generate(SMALL.replace(text, replacement))
                self.assertEqual(code, 1, errors)
                self.assertRegex(errors, rf"arch_specs\.json:{line}: .*{re.escape(message)}")
                self.assertEqual(errors.count("\n"), 1, errors)
                self.assertEqual(table, "")

    def test_the_real_file_lists_every_target_in_its_order(self):
        with open(SPECS, encoding="utf-8") as file:
            text = file.read()
        code, errors, table = generate(text)
        self.assertEqual((code, errors), (0, ""))
        at = [table.index(f'{{"{target["target"]}", ') for target in json.loads(text)["targets"]]
        self.assertEqual(at, sorted(at))

    def test_a_missing_file_and_wrong_usage_say_so(self):
        run = subprocess.run(
            [sys.executable, GENERATOR, "/nonexistent.json", "/tmp/x"],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent.json: No such file", run.stderr)
        run = subprocess.run([sys.executable, GENERATOR], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("usage:", run.stderr)


if __name__ == "__main__":
    unittest.main()
