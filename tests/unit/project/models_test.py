# SPDX-License-Identifier: MIT
"""The shape files under models/ parse, and hold what the demo tunes."""

import csv
import os
import pathlib
import unittest

MODELS = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).parents[3])) / "models"
COLUMNS = ["model", "layer", "op", "N", "K", "dtype", "scheme", "notes"]


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        return reader.fieldnames, list(reader)


class Models(unittest.TestCase):
    def test_every_row_has_a_shape_and_a_tensor_parallel_degree(self):
        for path in sorted(MODELS.glob("*.csv")):
            columns, rows = read(path)
            self.assertEqual(columns, COLUMNS, path.name)
            self.assertTrue(rows, path.name)
            for row in rows:
                self.assertIn(row["op"], ("gemm", "batched_gemm"), row)
                self.assertGreater(int(row["N"]), 0, row)
                self.assertGreater(int(row["K"]), 0, row)
                self.assertRegex(row["notes"], r"^tp=\d+", row)

    def test_the_demo_has_layers_to_tune(self):
        rows = read(MODELS / "linear_layers.csv")[1]
        layers = {
            row["layer"]
            for row in rows
            if row["model"] == "Llama-3.1-8B" and row["dtype"] == "bf16" and row["notes"].startswith("tp=1;")
        }
        self.assertEqual(layers, {"attn_qkv", "attn_o", "mlp_gate_up", "mlp_down", "lm_head"})


if __name__ == "__main__":
    unittest.main()
