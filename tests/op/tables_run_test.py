#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tuned tables on the command line: shards and their merge, layers, staleness, comparing, capture, AITER's files."""

import csv
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import CHECK_FAILED, ENVIRONMENT, NOT_FOUND, OK, USAGE, Program, main  # noqa: E402


class Tables(Program):
    PROBLEMS = [
        "--gemm",
        "2x64x128:f32",
        "--gemm",
        "2x64x128:bf16:packed",
        "--gemm",
        "3x64x64:bf16",
        "--gemm",
        "4x32x64:f32",
    ]

    def setUp(self):
        super().setUp()
        self.environment["TILEWRIGHT_JIT"] = "off"  # what is tuned matters here, not how well

    def tune(self, *arguments, **environment):
        return self.json("tune", *arguments, "--budget", "1", "--peer", "none", **environment)

    def own_layers(self, **environment):
        """The layers over the tables that the library carries."""
        layers = self.json("tables", "list", **environment)["layers"]
        return [layer for layer in layers if layer["layer"] != "built in"]

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    # ---- Shards ----

    def test_shards_cover_every_problem_once_and_merge_into_what_one_run_knows(self):
        seen, tables = [], []
        for index in (1, 2, 3):
            data = str(self.folder / f"shard{index}")
            rows = self.tune(*self.PROBLEMS, "--shard", f"{index}/3", TILEWRIGHT_DATA_DIR=data)["rows"]
            seen += [row["problem"] for row in rows]
            tables += [str(path) for path in pathlib.Path(data).glob("tuned/*/gemm.csv")]
        self.assertEqual(len(seen), 4)
        self.assertEqual(len(set(seen)), 4)
        merged = self.json("tables", "merge", *tables)
        self.assertEqual((merged["rows"], merged["conflicts"]), (4, []))
        # The user's table now makes every row fresh, without any journal.
        state = self.json("tune", *self.PROBLEMS, "--dry-run")
        self.assertEqual((state["fresh"], state["stale"], state["new"]), (4, 0, 0))
        resumed = self.tune(*self.PROBLEMS)
        self.assertEqual(sorted(row["problem"] for row in resumed["rows"]), sorted(seen))

    def test_a_shard_without_problems_is_done_at_once(self):
        empty = [
            i for i in (1, 2, 3) if not self.tune("--gemm", "2x64x128:f32", "--shard", f"{i}/3", "--dry-run")["rows"]
        ]
        self.assertEqual(len(empty), 2)
        result = self.tune("--gemm", "2x64x128:f32", "--shard", f"{empty[0]}/3")
        self.assertEqual((result["rows"], result["tables"]), ([], []))

    def test_a_shard_that_is_none_is_refused(self):
        for text in ("0/2", "3/2", "1", "a/b", "1/0"):
            self.assertIn("i/n", self.check(USAGE, "tune", *self.PROBLEMS, "--shard", text))

    # ---- Layers and staleness ----

    def test_layers_hide_each_other_and_explain_names_the_one_in_effect(self):
        self.tune("--gemm", "2x64x128:f32")
        layers = self.own_layers()
        self.assertEqual([(layer["layer"], layer["rows"], layer["fresh"]) for layer in layers], [("user", 1, 1)])
        copy = self.write("copy.csv", pathlib.Path(layers[0]["path"]).read_text(encoding="utf-8") + "damaged,row\n")
        over = self.json("tables", "list", TILEWRIGHT_TUNED=copy)
        self.assertEqual([layer["in_effect"] for layer in self.own_layers(TILEWRIGHT_TUNED=copy)], [0, 1])
        self.assertIn("copy.csv:3:", over["ignored"][0]["line"])
        found = self.json("explain", "--gemm", "2x64x128:f32", TILEWRIGHT_TUNED=copy)["tuned_rows"][0]
        self.assertEqual((found["kind"], found["state"]), ("exact", "fresh"))
        self.assertIn("TILEWRIGHT_TUNED", found["layer"])
        self.assertIn("tuned row  exact: user", self.check(OK, "explain", "--gemm", "2x64x128:f32"))

    def test_only_what_became_stale_is_measured_again(self):
        self.tune(*self.PROBLEMS[:4])
        path = pathlib.Path(self.own_layers()[0]["path"])
        lines = path.read_text(encoding="utf-8").splitlines()
        columns = lines[0].split(",")
        cells = lines[1].split(",")
        cells[columns.index("kernels")] = "0" * 16
        lines[1] = ",".join(cells)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for journal in (self.folder / "data" / "tuning").glob("*.journal"):
            journal.unlink()
        result = self.run_program("tune", *self.PROBLEMS[:4], "--dry-run", "--json")
        self.assertIn("2 rows: 1 fresh, 1 stale (kernel sources changed: 1), 0 new", result.stderr)
        states = {row["state"]: row["reason"] for row in json.loads(result.stdout)["rows"]}
        self.assertEqual(states["stale"], "kernel sources changed")
        self.tune(*self.PROBLEMS[:4])
        again = self.json("tune", *self.PROBLEMS[:4], "--dry-run")
        self.assertEqual((again["fresh"], again["stale"]), (2, 0))
        shown = [row for row in self.json("tables", "show")["rows"] if row["layer"].startswith("user")]
        self.assertEqual([row["state"] for row in shown], ["fresh", "fresh"])

    # ---- Merge ----

    def test_conflicts_are_shown_and_a_damaged_table_is_refused(self):
        self.tune("--gemm", "2x64x128:f32")
        path = pathlib.Path(self.own_layers()[0]["path"])
        header, row = path.read_text(encoding="utf-8").splitlines()
        cells = dict(zip(header.split(","), row.split(",")))
        newer = {**cells, "library": "99.0", "recipe": cells["recipe"] + "x", "us": "1000"}
        other = self.write("other.csv", header + "\n" + ",".join(newer.values()) + "\n")
        out = self.folder / "merged.csv"
        merged = self.json("tables", "merge", str(path), other, "--out", str(out))
        self.assertEqual(merged["rows"], 1)
        conflict = merged["conflicts"][0]
        self.assertEqual((conflict["rule"], conflict["kept_from"]), ("newer library", other))
        self.assertIn("99.0", out.read_text(encoding="utf-8"))
        bad = self.write("bad.csv", header + "\nnonsense\n")
        self.assertIn("bad.csv:2:", self.check(CHECK_FAILED, "tables", "merge", bad, "--out", str(out)))
        self.check(NOT_FOUND, "tables", "merge", "/nonexistent.csv")
        self.check(USAGE, "tables", "merge")

    # ---- Compare ----

    BENCH = (
        "op,shape,dtype,device,threads,regime,edges,kernel,us,spread,limit_frac,peer,peer_us,ratio,"
        "ratio_low,ratio_high\n"
    )

    def bench(self, name, *rows):
        lines = [
            f"gemm,{shape},f32,cpu,1,r,plain,k,{us},0.01,{limit},{peer},1,{ratio},{ratio * 0.99},{ratio * 1.01}"
            for shape, us, limit, peer, ratio in rows
        ]
        return self.write(name, self.BENCH + "\n".join(lines) + "\n")

    def test_a_regression_past_the_threshold_is_exit_code_1(self):
        a = self.bench("a.csv", ("one", 100, 0.8, "P", 1.0), ("two", 100, 0.8, "P", 1.0), ("gone", 5, 0.8, "P", 1.0))
        b = self.bench("b.csv", ("one", 100, 0.8, "P", 1.0), ("two", 120, 0.8, "P", 0.8), ("new", 5, 0.8, "P", 1.0))
        result = self.json("compare", a, b, code=CHECK_FAILED)
        verdicts = {row["label"].split(",")[0].split(" ")[1]: row["verdict"] for row in result["rows"]}
        self.assertEqual(verdicts, {"one": "same", "two": "slower", "gone": "only in A", "new": "only in B"})
        self.assertEqual((result["rows_in_common"], result["slower"]), (2, 1))
        self.assertEqual(self.json("compare", a, b, "--threshold", "30")["slower"], 0)
        self.assertEqual(self.json("compare", b, a)["faster"], 1)

    def test_a_machine_that_became_slower_is_no_regression_where_pairs_say_so(self):
        a = self.bench("a.csv", ("one", 100, 0.8, "P", 1.0))
        b = self.bench("b.csv", ("one", 150, 0.8, "P", 1.0))
        row = self.json("compare", a, b)["rows"][0]
        self.assertEqual((row["verdict"], row["paired_by"]), ("same", "P"))
        c = self.bench("c.csv", ("one", 150, 0.8, "Q", 1.0))
        self.assertEqual(self.json("compare", a, c)["rows"][0]["paired_by"], "limit")

    def test_tables_and_results_compare_with_their_kind(self):
        self.tune("--gemm", "2x64x128:f32")
        table = self.own_layers()[0]["path"]
        self.assertEqual(self.json("compare", table, table)["rows_in_common"], 1)
        results = str(next((self.folder / "data" / "tuning").glob("*.results.json")))
        self.assertEqual(self.json("compare", results, results)["rows_in_common"], 1)
        self.assertIn("no row in common", self.check(NOT_FOUND, "compare", table, results))
        self.assertIn("none of", self.check(USAGE, "compare", table, self.write("x.csv", "a,b\n1,2\n")))
        self.check(NOT_FOUND, "compare", table, "/nonexistent.csv")
        self.check(USAGE, "compare", table)

    # ---- Capture ----

    def test_a_programs_log_is_replayed(self):
        log = self.folder / "calls.log"
        line = "tilewright info call: gemm,{},cost,r,{}\n"
        log.write_text(
            "hello\n"
            + line.format("m=3:n=64:k=64:a=f32", 10) * 3
            + line.format("m=5:n=64:k=64:a=bf16", 1)
            + line.format("m=5:n=64:k=64:a=nope", 1)
            + line.format("x", "y"),
            encoding="utf-8",
        )
        result = self.json("tune", "--from-log", str(log), "--dry-run")
        captured = [(row["problem"], row["calls"], row["total_us"]) for row in result["captured"]]
        self.assertEqual(captured, [("m=3:n=64:k=64:a=f32", 3, 30), ("m=5:n=64:k=64:a=bf16", 1, 1)])
        self.assertEqual(len(result["rows"]), 2)
        reasons = " ".join(row["reason"] for row in result["skipped"])
        self.assertIn("nope", reasons)
        self.assertIn("damaged", reasons)
        self.assertEqual(len(self.json("tune", "--from-log", str(log), "--top", "1", "--dry-run")["rows"]), 1)
        replayed = self.json("bench", "--from-log", str(log), "--seconds", "0.01", "--peer", "none")["rows"]
        self.assertEqual([row["regime"] for row in replayed], ["captured"] * 2)
        empty = self.write("empty.log", "nothing\n")
        self.assertIn("TILEWRIGHT_LOG=info", self.check(NOT_FOUND, "tune", "--from-log", empty))

    def test_every_variant_of_aiter_is_taken_or_skipped_with_its_reason(self):
        bf16 = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n"
        files = {
            "bf16_untuned_gemm.csv": (
                bf16
                + "16,64,128,True,torch.bfloat16,torch.float32,False,False\n"
                + "16,64,128,False,torch.bfloat16,torch.bfloat16,False,True\n"
                + "16,64,128,False,torch.float8_e4m3fnuz,torch.bfloat16,True,False\n",
                [
                    "m=16:n=64:k=128:a=bf16:d=f32:layout=rcr:bias=f32",
                    "m=16:n=64:k=128:a=bf16:layout=rcr:packed=1",
                    "m=16:n=64:k=128:a=e4m3fnuz:layout=rcr:scale_a=f32.0.0.0:scale_b=f32.0.0.0",
                ],
                "",
            ),
            "a8w8_untuned_gemm.csv": (
                "M,N,K,q_dtype_w\n1,64,128,torch.int8\n1,64,128,torch.float8_e4m3fn\n",
                [
                    "m=1:n=64:k=128:a=i8:layout=rcr:scale_a=f32:scale_b=f32",
                    "m=1:n=64:k=128:a=e4m3:layout=rcr:scale_a=f32:scale_b=f32",
                ],
                "",
            ),
            "a8w8_bpreshuffle_untuned_gemm.csv": (
                "M,N,K,q_dtype_w\n1,64,128,torch.int8\n1,64,128,torch.float8_e4m3fn\n",
                ["m=1:n=64:k=128:a=i8:layout=rcr:packed=1:scale_a=f32:scale_b=f32"],
                "e4m3 gemm with shuffled weights",
            ),
            "bf16_untuned_batched_gemm.csv": (
                "B,M,N,K\n4,1,64,128\n",
                ["m=1:n=64:k=128:batch=4:a=bf16:layout=rcr"],
                "",
            ),
            "a8w8_untuned_batched_gemm.csv": (
                "B,M,N,K\n4,1,64,128\n",
                ["m=1:n=64:k=128:batch=4:a=i8:layout=rcr:scale_a=f32:scale_b=f32"],
                "",
            ),
            "a8w8_asm.csv": (
                "M,N,K,bias,outdtype,splitK,us\n1,64,128,False,torch.bfloat16,0,1\n",
                ["m=1:n=64:k=128:a=i8:layout=rcr:scale_a=f32:scale_b=f32"],
                "",
            ),
            "a8w8_blockscale_untuned_gemm.csv": (
                "M,N,K\n16,1536,7168\n",
                ["m=16:n=1536:k=7168:a=e4m3:layout=rcr:scale_a=f32.1x128:scale_b=f32.128x128"],
                "",
            ),
            "a8w8_blockscale_tuned_gemm.csv": (
                "gfx,cu_num,M,N,K,libtype\ngfx942,304,16,1536,7168,ck\n",
                ["m=16:n=1536:k=7168:a=e4m3fnuz:layout=rcr:scale_a=f32.1x128:scale_b=f32.128x128"],
                "",
            ),
            "a8w8_blockscale_bpreshuffle_untuned_gemm.csv": ("M,N,K\n16,1536,7168\n", [], "shuffled weights"),
            "a4w4_blockscale_untuned_gemm.csv": (
                "M,N,K\n16,1536,7168\n",
                ["m=16:n=1536:k=7168:a=e2m1:layout=rcr:scale_a=e8m0.1x32:scale_b=e8m0.1x32"],
                "",
            ),
            "mx_bmm.csv": (
                "gfx,b,m,n,k\ngfx950,4,1,64,128\n",
                ["m=1:n=64:k=128:batch=4:a=e4m3:layout=rcr:scale_a=e8m0.1x32:scale_b=e8m0.1x32"],
                "",
            ),
            "untuned_fmoe.csv": ("token,model_dim,inter_dim,expert,topk\n1,2,3,4,5\n", [], "mixture of experts"),
            "gdn.csv": ("gfx,cu_num,dtype,K,V,BT,H,Hg\ngfx942,304,x,1,2,3,4,5\n", [], "gated delta rule"),
        }
        for name, (text, problems, reason) in files.items():
            with self.subTest(name=name):
                path = self.write(name, text)
                if not problems:
                    error = self.check(ENVIRONMENT, "tune", "--from-aiter", path, "--dry-run")
                    self.assertIn(reason, error)
                    continue
                result = self.json("tune", "--from-aiter", path, "--dry-run")
                self.assertEqual([row["problem"] for row in result["rows"]], problems)
                skipped = result.get("skipped", [])
                self.assertEqual(len(skipped), 1 if reason else 0)
                if reason:
                    self.assertIn(reason, skipped[0]["reason"])
        bad = self.write("bad.csv", bf16 + "16,x,128,True,torch.bfloat16,torch.bfloat16,False,False\n")
        self.assertIn("bad.csv:2: column 'n'", self.check(USAGE, "tune", "--from-aiter", bad))
        self.assertIn("AITER", self.check(USAGE, "tune", "--from-aiter", self.write("other.csv", "a,b\n1,2\n")))

    # ---- Export ----

    def test_exported_rows_come_back_as_the_same_problems(self):
        problems = [
            "m=2:n=64:k=128:a=bf16:layout=rcr:packed=1",
            "m=2:n=64:k=128:a=bf16:d=f32:layout=rcr:bias=f32",
            "m=2:n=64:k=128:a=i8:layout=rcr:scale_a=f32:scale_b=f32",
            "m=2:n=64:k=128:a=i8:layout=rcr:packed=1:scale_a=f32:scale_b=f32",
            "m=2:n=64:k=128:batch=3:a=bf16:layout=rcr",
            "m=2:n=64:k=128:a=e4m3:layout=rcr:scale_a=f32:scale_b=f32",
            "m=2:n=64:k=128:a=e5m2:layout=rcr:scale_a=f32.0.0.0:scale_b=f32.0.0.0",
            "m=2:n=64:k=128:a=e4m3:layout=rcr:scale_a=f32.1x128:scale_b=f32.128x128",
            "m=2:n=64:k=128:a=e2m1:layout=rcr:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
            "m=2:n=64:k=128:batch=3:a=e4m3:layout=rcr:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
            "m=2:n=64:k=128:batch=3:a=e2m1:layout=rcr:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
        ]
        arguments = [word for problem in problems for word in ("--problem", problem)]
        self.tune(*arguments, "--problem", "m=2:n=64:k=128:a=bf16:layout=rcr:act=gelu")
        out = self.folder / "aiter"
        exported = self.json("tables", "export", self.own_layers()[0]["path"], "--format", "aiter", "--out", str(out))
        self.assertEqual(sum(row["rows"] for row in exported["files"]), len(problems))
        self.assertIn("'act'", exported["skipped"][0]["reason"])
        with open(out / "bf16_tuned_gemm.csv", encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file))
        self.assertEqual(
            ",".join(row),
            "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw",
        )
        self.assertGreater(float(row["us"]), 0)
        files = [word for row in exported["files"] for word in ("--from-aiter", row["file"])]
        back = self.json("tune", *files, "--dry-run")
        self.assertEqual(sorted(row["problem"] for row in back["rows"]), sorted(problems))
        # The output's dtype of i8 stands in no column of AITER's: rows of the default one come back fresh.
        self.assertEqual(back["fresh"], len(problems))

    # ---- Quarantine ----

    def test_looking_writes_nothing(self):
        self.json("kernels", "--quarantined")
        self.json("tables", "list")
        self.json("tune", "--gemm", "2x64x128:f32", "--dry-run")
        self.check(NOT_FOUND, "report")
        self.assertFalse((self.folder / "data").exists())

    def test_an_empty_quarantine_is_an_empty_list(self):
        self.assertEqual(self.json("kernels", "--quarantined")["quarantine"], [])
        self.assertEqual(self.json("kernels", "--forget")["released"], 0)
        self.assertEqual(self.json("tune", "--gemm", "2x64x128:f32", "--dry-run")["quarantined"], 0)


if __name__ == "__main__":
    main()
