# SPDX-License-Identifier: MIT
"""What scripts/check_export is made of, without the emulator that it drives: code objects as a processor finds them,
the registers that a wave starts with, types and bounds."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import ROOT, class_folder, main, own_environment, run  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts" / "check_export"))
try:
    import numpy as np
except ImportError:
    np = None
else:
    import reference
    from code_object import CodeObject, Kernel

KERNARG = 0x123456789AB0


@unittest.skipIf(np is None, "NumPy is not installed")
class CheckExport(unittest.TestCase):
    def test_code_objects_of_every_target_say_where_a_wave_begins(self):
        folder = class_folder(type(self))
        for target in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"):
            command = (
                "export",
                "gemm",
                "--arch",
                target,
                "--problem",
                "m=33:n=40:k=72:a=bf16",
                "--out",
                folder / target,
            )
            made = run(command, own_environment(folder))
            if made.returncode == 4:
                self.skipTest(made.stderr.strip())
            self.assertEqual(made.returncode, 0, made.stderr)
            stage = json.loads((folder / target / "plan.json").read_text(encoding="utf-8"))["stages"][0]
            code = CodeObject((folder / target / stage["file"]).read_bytes())
            kernel = Kernel(code, stage["kernel"])
            self.assertEqual(kernel.entry - code.base, code.symbols[stage["kernel"]], target)
            self.assertEqual(kernel.scratch_bytes, 0)
            self.assertTrue(kernel.keeps_subnormals)
            self.assertEqual(kernel.user_registers(KERNARG)[-2:], [KERNARG & 0xFFFFFFFF, KERNARG >> 32])
            lds = stage["dynamic_shared_bytes"]
            self.assertEqual(kernel.resources(lds) >> 15 & 0x1FF, (lds + 511) // 512)

    def test_types_are_read_as_their_definitions_say(self):
        def decoded(dtype, *codes):
            return list(reference.decode(dtype, np.array(codes, reference.storage(dtype))))

        self.assertEqual(decoded("f16", 0x0001, 0x3C00, 0xFBFF), [2.0**-24, 1.0, -65504.0])
        self.assertEqual(decoded("bf16", 0x3F80, 0xC040), [1.0, -3.0])
        self.assertEqual(decoded("e4m3", 0x7E, 0x01, 0xB8), [448.0, 2.0**-9, -1.0])
        self.assertEqual(decoded("e4m3fnuz", 0x7F, 0x01, 0xC0), [240.0, 2.0**-10, -1.0])
        self.assertEqual(decoded("e5m2fnuz", 0x7F, 0x40), [57344.0, 1.0])
        self.assertEqual(decoded("e2m1", 0x71, 0xF2), [0.5, 6.0, 1.0, -6.0])
        self.assertEqual(decoded("e8m0", 127, 120), [1.0, 2.0**-7])
        self.assertTrue(np.isnan(decoded("e4m3fnuz", 0x80)[0]) and np.isnan(decoded("e4m3", 0xFF)[0]))

    def test_bounds_reject_a_lost_product(self):
        random = np.random.default_rng(1)
        for k in (1, 31, 500):
            a, b = random.uniform(0.5, 1, (1, 20, k)), random.uniform(0.5, 1, (1, k, 30))
            value, error = reference.reference(a, b, k, exact_sum=False, terms={})
            a[0, :, k // 2] = 0
            self.assertTrue((np.abs(a @ b - value) > error).all())


if __name__ == "__main__":
    main()
