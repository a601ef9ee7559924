# SPDX-License-Identifier: MIT
"""tilewright export: plans of GPU targets as files, made on a machine without a GPU."""

import json
import os
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import ENVIRONMENT, NOT_FOUND, OK, USAGE, class_folder, main, own_environment, run  # noqa: E402

TOP = (
    "format version tilewright operator problem meaning target part units chosen_by recipe keys numerics "
    "workspace_bytes buffers scalars kernels stages"
).split()
STAGE = "kernel file grid block cluster dynamic_shared_bytes programmatic_edge cooperative arguments".split()
KERNEL = "key symbol file format target bytes resources".split()
TENSOR = "name role meaning dtype shape strides bytes alignment".split()
SCRATCH = "name role dtype shape strides bytes alignment initial when".split()
MAP = "buffer element rank dims strides_bytes box element_strides swizzle driver".split()
PLACES = {"value", "buffer", "scalar", "tensor_map"}
FORMATS = {"bool": "?", "u8": "B", "i8": "b", "u32": "I", "i32": "i", "i64": "q", "u64": "Q", "f32": "f"}
VENDOR = "gemm/gemm_cublaslt/sm_90a/any/id=66"


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)
        cls.environment = own_environment(cls.folder)
        for name in ("TILEWRIGHT_NVRTC", "TILEWRIGHT_AMDCLANG"):
            cls.environment[name] = os.environ.get(name)

    def export(self, *arguments, out="plan", code=OK, **environment):
        result = run(["export", "gemm", *arguments, "--out", self.folder / out], self.environment | environment)
        if result.returncode == ENVIRONMENT and code == OK and "needs a compiler" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        if code != OK:
            return result.stderr
        return json.loads((self.folder / out / "plan.json").read_text(encoding="utf-8"))

    def check_plan(self, plan, out="plan"):
        """What must hold of every plan.json."""
        self.assertEqual((plan["format"], plan["version"]), ("tilewright plan", 1))
        self.assertEqual(list(plan), TOP)
        buffers = {b["name"]: b for b in plan["buffers"]}
        for buffer in plan["buffers"]:
            self.assertEqual(list(buffer), SCRATCH if buffer["role"] == "workspace" else TENSOR)
        for kernel in plan["kernels"]:
            self.assertEqual(list(kernel), KERNEL)
            code = (self.folder / out / kernel["file"]).read_bytes()
            self.assertEqual(len(code), kernel["bytes"])
            self.assertEqual(code[:4], b"\x7fELF")
            self.assertIn(kernel["symbol"].encode(), code)
        kernels = {k["symbol"]: k for k in plan["kernels"]}
        for stage in plan["stages"]:
            self.assertEqual(list(stage), STAGE)
            self.assertEqual(stage["file"], kernels[stage["kernel"]]["file"])
            self.assertLessEqual(stage["block"][0], kernels[stage["kernel"]]["resources"]["max_threads"])
            self.check_arguments(stage["arguments"], buffers, [s["name"] for s in plan["scalars"]])

    def check_arguments(self, arguments, buffers, scalars):
        """The fields say all that the bytes say; what lies between is zero."""
        data = bytes.fromhex(arguments["hex"])
        self.assertEqual(len(data), arguments["bytes"])
        made, end = bytearray(len(data)), 0
        for field in arguments["fields"]:
            self.assertGreaterEqual(field["offset"], end, field)
            end = field["offset"] + field["size"]
            places = PLACES & set(field)
            self.assertEqual(len(places), 1, field)
            if "buffer" in field:
                self.assertIn(field["buffer"], buffers)
                self.assertEqual(field["type"], "pointer")
            elif "scalar" in field:
                self.assertIn(field["scalar"], scalars)
                value = data[field["offset"] : end]  # neutral: a launch overwrites it
                made[field["offset"] : end] = value
            elif "tensor_map" in field:
                self.assertEqual(list(field["tensor_map"]), MAP)
                self.assertIn(field["tensor_map"]["buffer"], buffers)
                self.assertEqual(field["size"], 128)
            elif field["value"] is not None:
                struct.pack_into("<" + FORMATS[field["type"]], made, field["offset"], field["value"])
        self.assertEqual(bytes(made), data)

    @staticmethod
    def field(plan, name, stage=0):
        return next(f for f in plan["stages"][stage]["arguments"]["fields"] if f["name"] == name)

    def test_hoppers_kernel_has_tensor_maps(self):
        size = ("--m", 512, "--n", 1024, "--k", 768, "--batch", 2)
        plan = self.export("--arch", "sm_90a", "--part", "h200", *size)
        self.check_plan(plan)
        self.assertEqual((plan["target"], plan["part"], plan["units"]), ("sm_90a", "h200", 132))
        self.assertIn("gemm/gemm_sm90", plan["keys"][0])
        a = self.field(plan, "a")["tensor_map"]
        self.assertEqual((a["buffer"], a["element"], a["dims"]), ("a", "bf16", [768, 512, 2]))
        self.assertEqual(a["strides_bytes"], [768 * 2, 768 * 512 * 2])
        self.assertEqual((a["swizzle"], a["driver"]["data_type"]), ("128 bytes", 9))

    def test_portable_split_k_is_two_stages_with_a_workspace(self):
        size = ("--m", 64, "--n", 512, "--k", 8192, "--split-k", 4)
        plan = self.export("--arch", "sm_80", *size, "--bias", "bf16", "--act", "silu")
        self.check_plan(plan)
        self.assertEqual(len(plan["stages"]), 2)
        self.assertEqual(len(plan["kernels"]), 1)
        self.assertIn("split_k=2048", plan["recipe"])
        workspace = next(b for b in plan["buffers"] if b["name"] == "workspace")
        self.assertEqual((workspace["bytes"], workspace["initial"]), (plan["workspace_bytes"], "nothing"))
        for stage in (0, 1):
            self.assertEqual(self.field(plan, "workspace", stage)["buffer"], "workspace")
            self.assertEqual(self.field(plan, "epilogue.bias.data", stage)["buffer"], "bias")
            self.assertEqual(self.field(plan, "epilogue.activation", stage)["means"], "silu")

    def test_parts_that_meet_in_a_cluster_need_neither_zeros_nor_a_cooperative_launch(self):
        plan = self.export("--arch", "sm_90a", "--m", 16, "--n", 512, "--k", 8192, "--split-k", 4)
        self.check_plan(plan)
        self.assertEqual(plan["stages"][0]["cluster"], [4, 1, 1])
        self.assertFalse(plan["stages"][0]["cooperative"])
        self.assertNotIn("zeros", [b["name"] for b in plan["buffers"]])

    def test_parts_all_over_the_device_find_zeros_and_are_launched_together(self):
        recipe = (
            "gemm/gemm_sm90_skinny/sm_90a/dtype=bf16/dtype=bf16:epilogue=plain:activation=none:gate=none:d_dtype=bf16:"
            "promote=none:rows=64:tokens=16:warpgroups=1:depth=2:stages=5:cluster=1:blocks=1:splits=4"
        )
        plan = self.export("--arch", "sm_90a", "--m", 16, "--n", 512, "--k", 8192, "--recipe", recipe)
        self.check_plan(plan)
        self.assertTrue(plan["stages"][0]["cooperative"])
        zeros = next(b for b in plan["buffers"] if b["name"] == "zeros")
        self.assertEqual(zeros["initial"], "zeros")
        self.assertIn("before the first run", zeros["when"])

    def test_the_generic_kernel_and_every_option_of_the_epilogue(self):
        text = "m=5:n=8:k=3:a=i8:d=f32:layout=crr:scale_a=f32:c=bf16:bias=f16:alpha=1:act=clamp:steps=mul.f32"
        generic = "gemm/gemm_generic_gpu/sm_80/any/run_time=1"
        plan = self.export("--arch", "sm_80", "--problem", text, "--recipe", generic)
        self.check_plan(plan)
        self.assertEqual([s["name"] for s in plan["scalars"]], ["alpha", "beta", "low", "high"])
        self.assertEqual(plan["numerics"], ["generic"])
        self.assertEqual(plan["chosen_by"], "forced")
        self.assertEqual(self.field(plan, "gemm.epilogue.steps[0].operand.data")["buffer"], "step0")
        self.assertEqual(self.field(plan, "gemm.epilogue.scale_b.data")["value"], None)
        self.assertEqual(self.field(plan, "scale.a.data")["value"], None)

    def test_options_say_what_the_problems_text_says(self):
        options = ("--m", 64, "--n", 128, "--k", 256, "--dtype", "i8", "--layout", "rcr", "--d-dtype", "f16")
        more = ("--scale-a", "per-token", "--scale-b", "per-tensor", "--gate", "separated", "--act", "silu")
        plan = self.export("--arch", "sm_80", *options, *more)
        self.check_plan(plan)
        text = "m=64:n=128:k=256:a=i8:d=f16:gate=separated:layout=rcr:scale_a=f32:scale_b=f32.0.0.0:act=silu"
        self.assertEqual(plan["problem"], text)
        self.assertEqual(self.export("--arch", "sm_80", "--problem", text, out="again"), plan)

    def test_plans_of_amd_gpus(self):
        for arch, split in (("gfx90a", 0), ("gfx942", 4), ("gfx950", 1), ("gfx1100", 2), ("gfx1201", 0)):
            with self.subTest(arch=arch):
                plan = self.export("--arch", arch, "--m", 48, "--n", 200, "--k", 4096, "--split-k", split)
                self.check_plan(plan)
                kernel = plan["kernels"][0]
                self.assertEqual((kernel["format"], kernel["target"]), ("AMD code object", arch))
                # One argument, the struct, and nothing that HIP would have to fill.
                self.assertEqual(kernel["resources"]["argument_bytes"], plan["stages"][0]["arguments"]["bytes"])
                self.assertEqual(kernel["resources"]["kernarg_bytes"], kernel["resources"]["argument_bytes"])
                self.assertEqual(self.field(plan, "gemm.a")["buffer"], "a")
                if split:
                    self.assertEqual(self.field(plan, "tiles.splits")["value"], split)
                    self.assertEqual(len(plan["stages"]), 2 if split > 1 else 1)

    def test_the_generic_kernel_of_an_amd_gpu(self):
        plan = self.export("--arch", "gfx942", "--m", 5, "--n", 8, "--k", 0, "--bias", "f32")
        self.check_plan(plan)
        self.assertEqual(plan["chosen_by"], "generic")
        self.assertEqual([b["bytes"] for b in plan["buffers"]], [0, 0, 80, 32])

    def test_a_tuned_row_is_followed_and_left_out(self):
        size = ("--m", 4096, "--n", 4096, "--k", 4096)
        tuned = self.export("--arch", "sm_90a", "--part", "h200", *size)
        self.assertEqual(tuned["chosen_by"], "tuned")
        self.assertEqual(self.export("--arch", "sm_90a", "--part", "h200", "--untuned", *size)["chosen_by"], "cost")

    def test_refusals_name_argument_value_and_what_is_allowed(self):
        size = ("--m", 64, "--n", 64, "--k", 64)
        for arguments, code, words in (
            (("--arch", "sm_75", *size), NOT_FOUND, ("sm_75", "sm_80", "gfx942")),
            (("--arch", "x86-64-v3", *size), ENVIRONMENT, ("x86-64-v3", "no GPU")),
            ((*size,), USAGE, ("--arch",)),
            (("--arch", "sm_80", "--part", "mi300x", *size), NOT_FOUND, ("mi300x", "a100_40gb")),
            (("--arch", "sm_80", "--m", 64, "--n", 64), USAGE, ("--m, --n and --k",)),
            (("--arch", "sm_80", *size, "--problem", "m=1:n=1:k=1"), USAGE, ("twice",)),
            (("--arch", "sm_80", "--gemm", "1x1x1", "--gemm", "2x2x2"), USAGE, ("2 problems",)),
            (("--arch", "sm_80", *size, "--layout", "rxr"), USAGE, ("rxr", "rcr")),
            (("--arch", "sm_80", *size, "--dtype", "bf17"), USAGE, ("bf17", "bf16")),
            (("--arch", "sm_80", *size, "--act", "swoosh"), USAGE, ("swoosh", "silu")),
            (("--arch", "sm_80", *size, "--scale-a", "per-row"), USAGE, ("per-row", "per-token")),
            (("--arch", "sm_80", *size, "--recipe", "x/y"), USAGE, ("x/y",)),
            (("--arch", "sm_80", *size, "--recipe", VENDOR, "--split-k", 2), USAGE, ("--split-k",)),
            (("--arch", "sm_90a", *size, "--recipe", VENDOR), ENVIRONMENT, ("vendor's library", "no code")),
            (("--arch", "gfx942", *size, "--recipe", "gemm/gemm_generic_gpu/sm_80/x/y"), ENVIRONMENT, ("gfx942",)),
        ):
            with self.subTest(arguments=arguments):
                said = self.export(*arguments, out="refused", code=code)
                for word in words:
                    self.assertIn(word, said)
        self.assertFalse((self.folder / "refused").exists())

    def test_a_tuned_row_of_a_vendors_library_is_refused_with_its_rival(self):
        own = "gemm/gemm_generic_gpu/sm_90a/any/run_time=1"
        row = {
            "op": "gemm",
            "target": "sm_90a",
            "part": "h100_sxm",
            "units": "132",
            "core": "a=bf16:b=bf16:layout=rcr",
            "epilogue": "d=bf16",
            "sizes": "m=40:n=64:k=64:batch=1",
            "bucket": "m<=64:n=64:k=64:batch=1",
            "recipe": VENDOR,
            "us": "1",
            "own_recipe": own,
            "own_us": "2",
        }
        table = self.folder / "rows" / "sm_90a" / "gemm.csv"
        table.parent.mkdir(parents=True)
        table.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n", encoding="utf-8")
        call = ("--arch", "sm_90a", "--m", 40, "--n", 64, "--k", 64)
        tuned = {"TILEWRIGHT_TUNED": str(table.parent.parent)}
        said = self.export(*call, out="vendor", code=ENVIRONMENT, **tuned)
        self.assertIn("vendor's library", said)
        self.assertIn(f"--recipe '{own}'", said)
        self.assertEqual(self.export(*call, "--untuned", **tuned)["chosen_by"], "cost")
        self.assertEqual(self.export(*call, "--recipe", own, **tuned)["recipe"], own)

    def test_without_a_compiler_nothing_is_written(self):
        absent = {"TILEWRIGHT_NVRTC": "/nonexistent.so", "TILEWRIGHT_CACHE_DIR": str(self.folder / "empty")}
        said = self.export("--arch", "sm_80", "--m", 8, "--n", 8, "--k", 8, out="none", code=ENVIRONMENT, **absent)
        self.assertIn("NVRTC", said)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    main()
