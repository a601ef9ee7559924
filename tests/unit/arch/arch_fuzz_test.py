# SPDX-License-Identifier: MIT
"""Any bytes in arch_specs.json make a table or one message with its line, never a traceback. Inputs come from a good
file by a fixed sequence of changes; TILEWRIGHT_TEST_INPUTS sets their number."""

import copy
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
sys.path[:0] = [str(ROOT / "scripts" / "generate"), str(pathlib.Path(__file__).resolve().parent)]

import generate_arch_table  # noqa: E402
from arch_malformed_test import SMALL  # noqa: E402
from located_json import SpecError  # noqa: E402

COUNT = int(os.environ.get("TILEWRIGHT_TEST_INPUTS", "3000"))
VALUES = [None, True, 0, -1, 2**63, 10**400, 0.5, 1e308, "", "x", "a b", 'a"b', "a\\b", "a\nb", "\u20ac", "\x00", [],
          [[]], {}, {"": 0}, ["x"], [None]]  # fmt: skip
BYTES = [b"NaN", b"Infinity", b"1e999", b"-", b"[" * 40, b"[" * 20000, b"1" * 5000, b"{", b"}", b"]", b",", b'"', b"\\",
         b"\\ud800", b"\xff", b"\x00", b""]  # fmt: skip


def places(value):
    """(container, key) of every value inside."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places(value[key])


def changed_tree(good, rng):
    """Values, keys and entries exchanged, removed, repeated: what is still JSON."""
    tree = copy.deepcopy(good)
    for _ in range(rng.randint(1, 3)):
        where = list(places(tree))
        if not where:
            break
        container, key = rng.choice(where)
        kind = rng.randrange(4)
        if kind == 0:
            container[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind == 1:
            del container[key]
        elif kind == 2:
            other, there = rng.choice(where)
            container[key] = copy.deepcopy(other[there])
        elif isinstance(container, dict):
            container[rng.choice(list(container) + ["", "targets", "base"])] = container.pop(key)
        else:
            container.insert(key, copy.deepcopy(container[key]))
    return json.dumps(tree, indent=1).encode()


def changed_bytes(good, rng):
    text = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.choice([0, 0, 1, 5, 60])] = rng.choice(BYTES) if rng.random() < 0.7 else text[at - 9 : at]
    return bytes(text)


class ArchFuzz(unittest.TestCase):
    def test_any_file_makes_a_table_or_a_message(self):
        rng = random.Random(3)
        small = json.loads(SMALL)
        tables = refusals = 0
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "specs.json")
            for number in range(COUNT):
                text = changed_tree(small, rng) if number % 2 else changed_bytes(SMALL.encode(), rng)
                with open(path, "wb") as file:
                    file.write(text)
                with self.subTest(input=text):
                    try:
                        generate_arch_table.emit(*generate_arch_table.load(path)).encode("utf-8")
                        tables += 1
                    except SpecError as error:
                        refusals += 1
                        self.assertTrue(str(error))
                        self.assertGreaterEqual(error.line, 1)
                        self.assertLessEqual(error.line, text.count(b"\n") + 2)
        self.assertGreater(tables, COUNT // 100)
        self.assertGreater(refusals, COUNT // 10)


if __name__ == "__main__":
    unittest.main()
