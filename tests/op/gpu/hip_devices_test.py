# SPDX-License-Identifier: MIT
"""The program on HIP devices: the library is one that has emulated GPUs behind HIP's functions, or lacks something."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import BUILD, SANITIZERS, class_folder, main, own_environment, run  # noqa: E402

FAKE_HIP = BUILD / "tests" / "libfake_hip.so"


class HipDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)
        if not FAKE_HIP.exists():
            raise unittest.SkipTest("the fake HIP library is not built")

    def run_program(self, *arguments, **settings):
        own = {"TILEWRIGHT_HIP_DRIVER": str(FAKE_HIP), "TILEWRIGHT_CUDA_DRIVER": "libno_such_cuda.so"}
        return run(arguments, own_environment(self.folder) | own | settings)

    def json(self, *arguments, **settings):
        result = self.run_program(*arguments, "--json", **settings)
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)

    def hip_devices(self, **settings):
        return [row for row in self.json("devices", **settings)["devices"] if row["device"].startswith("hip:")]

    def doctor(self, **settings):
        result = self.run_program("doctor", "--json", **settings)
        return next(row for row in json.loads(result.stdout)["findings"] if row["what"] == "AMD GPUs")

    def test_devices_are_listed_with_target_and_part(self):
        rows = self.hip_devices()
        self.assertEqual([row["device"] for row in rows], ["hip:0", "hip:1"])
        self.assertEqual((rows[0]["target"], rows[0]["part"], rows[0]["units"]), ("gfx942", "mi300x", 304))
        self.assertEqual(rows[0]["name"], "AMD Instinct MI300X")
        rows = self.hip_devices(FAKE_HIP_TARGET="gfx1100", FAKE_HIP_DEVICES="1")
        self.assertEqual([(row["part"], row["units"]) for row in rows], [("rx_7900_xtx", 96)])
        self.assertIn("hip:1", self.json("devices", "--device", "hip:1")["devices"][0]["device"])

    def test_a_library_that_sees_no_gpu_is_said_so(self):
        result = self.run_program("devices", FAKE_HIP_DEVICES="0")
        self.assertEqual(result.returncode, 0)
        self.assertIn("sees no AMD GPU: hipInit: hipErrorNoDevice (100)", result.stderr)
        self.assertIn("/dev/kfd", result.stderr)
        finding = self.doctor(FAKE_HIP_DEVICES="0")
        self.assertEqual(finding["verdict"], "warn")
        self.assertIn("/dev/kfd", finding["detail"])
        result = self.run_program("verify", "--gemm", "16x16x16:f32", "--device", "hip:0", FAKE_HIP_DEVICES="0")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("hipErrorNoDevice", result.stderr)

    def test_without_a_library_devices_are_silent_and_doctor_says_so(self):
        result = self.run_program("devices", TILEWRIGHT_HIP_DRIVER="libno_such_hip.so")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        finding = self.doctor(TILEWRIGHT_HIP_DRIVER="libno_such_hip.so")
        self.assertEqual(finding["verdict"], "ok")
        self.assertIn("no HIP library", finding["detail"])
        self.assertIn("libno_such_hip.so", finding["detail"])

    def test_doctor_names_the_gpus(self):
        finding = self.doctor()
        self.assertEqual(finding["verdict"], "ok")
        self.assertIn("hip:1 AMD Instinct MI300X (gfx942, hip-6.3)", finding["detail"])

    def test_limits_are_not_measured(self):
        result = self.run_program("devices", "--measure", "--device", "hip:0")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("limits are not measured", result.stderr)

    @unittest.skipIf("thread" in SANITIZERS, "ThreadSanitizer cannot follow the fibers of the emulation")
    def test_a_kernel_is_verified_on_the_second_device(self):
        results = self.json("verify", "--gemm", "33x48x64:f32", "--device", "hip:1")["results"]
        self.assertTrue(results)
        self.assertTrue(all(row["passed"] for row in results), results)
        self.assertTrue(all(row["compared"] > 0 for row in results), results)

    @unittest.skipIf("thread" in SANITIZERS, "ThreadSanitizer cannot follow the fibers of the emulation")
    def test_the_tuner_measures_on_every_device(self):
        table = self.folder / "rows.csv"
        arguments = ["--gemm", "16x64x64:f32", "--device", "hip", "--budget", "20", "--peer", "none", "--table", table]
        result = self.run_program("tune", *arguments)
        self.assertEqual(result.returncode, 0, f"{result.stdout}\n{result.stderr}")
        self.assertIn("gemm,gfx942,mi300x,304,", table.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
