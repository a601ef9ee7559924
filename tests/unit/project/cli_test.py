# SPDX-License-Identifier: MIT
"""The program's face: help, exit codes, messages, output forms, terminal behaviour. No kernel runs here."""

import csv
import io
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import CHECK_FAILED, ENVIRONMENT, NOT_FOUND, OK, PROGRAM, ROOT, USAGE, Program, main  # noqa: E402

COMMANDS = [
    "devices",
    "arch",
    "tune",
    "bench",
    "compare",
    "tables",
    "verify",
    "explain",
    "kernels",
    "prebuild",
    "export",
    "cache",
    "report",
    "doctor",
]
CACHE_COMMANDS = ["path", "info", "verify", "prune"]


class Face(Program):
    def setUp(self):
        super().setUp()
        self.environment.pop("NO_COLOR", None)

    def refused(self, code, words, *arguments, **environment):
        message = self.check(code, *arguments, **environment)
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn("terminate called", message)

    def on_terminal(self, *arguments, **environment):
        """Output of the program with stdout and stderr on a terminal."""
        master, slave = pty.openpty()
        child = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            cwd=self.folder,
            env={**self.environment, "TERM": "xterm", **environment},
        )
        os.close(slave)
        output = b""
        while select.select([master], [], [], 60)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            output += chunk
        os.close(master)
        child.wait(timeout=60)
        return output.decode()


class Help(Face):
    def test_every_command_has_help_with_an_example_and_the_exit_codes(self):
        cases = [[c] for c in COMMANDS] + [["cache", c] for c in CACHE_COMMANDS]
        for words in cases:
            with self.subTest(words):
                text = self.check(OK, *words, "--help")
                self.assertIn("Examples:\n  tilewright " + words[0], text)
                self.assertIn("Exit codes: 0 ok", text)

    def test_the_list_of_commands_is_whole_and_hides_the_worker(self):
        text = self.check(OK, "--help")
        listed = re.findall(r"^  ([a-z-]+) {2,}", text.split("Subcommands:")[1], re.M)
        self.assertEqual(listed, COMMANDS)

    def test_the_documentation_names_every_command_and_argument(self):
        page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        for command in COMMANDS:
            self.assertIn(f"`{command}`", page)
            for option in re.findall(r"^  (--[a-z-]+)", self.check(OK, command, "--help"), re.M):
                with self.subTest(command=command, option=option):
                    self.assertIn(option, page)

    def test_version(self):
        self.assertRegex(self.check(OK, "--version"), r"^tilewright \d+\.\d+\.\d+\n$")


class Refusals(Face):
    """A bad argument gives exit code 2, and the message names argument, value and allowed set."""

    def test_command_names(self):
        self.refused(USAGE, ["a command is missing", *COMMANDS])
        self.refused(USAGE, ["'dance'", *COMMANDS], "dance")
        self.refused(USAGE, ["'dance'", *CACHE_COMMANDS], "cache", "dance")
        self.refused(USAGE, ["a command is missing", *CACHE_COMMANDS], "cache")

    def test_unknown_options(self):
        for command in COMMANDS:
            self.refused(USAGE, ["'--dance'", "allowed: --help"], command, "--dance")

    def test_values(self):
        cases = [
            (["devices", "--threads", "many"], ["--threads", "'many'", "0 to 1024"]),
            (["devices", "--threads", "-1"], ["--threads", "'-1'", "0 to 1024"]),
            (["devices", "--threads", "3.5"], ["--threads", "'3.5'", "an integer"]),
            (["devices", "--seconds", "0"], ["--seconds", "'0'", "above 0"]),
            (["tune", "--dtype", "f64"], ["--dtype", "'f64'", "f32, f16, bf16, i8"]),
            (["tune", "--peer", "numpy"], ["--peer", "'numpy'", "torch, openblas, onednn, none, auto"]),
            (["tune", "--budget", "-5"], ["--budget", "'-5'", "above 0"]),
            (["tune", "--model", "llama-3.1-8b", "--tokens", "1,two"], ["--tokens", "'two'"]),
            (["tune", "--model", "llama-3.1-8b", "--tokens", ","], ["--tokens", "','"]),
            (["tune"], ["--model", "--shapes", "--problem", "--gemm"]),
            (["prebuild"], ["--model", "--tuned"]),
            (["explain"], ["--problem", "--gemm"]),
            (["verify"], ["--problem", "--gemm"]),
            (["bench"], ["--problem", "--gemm"]),
            (["bench", "--suite", "waltz"], ["--suite", "'waltz'", "gemm"]),
            (["explain", "--gemm", "16x4096"], ["--gemm", "'16x4096'", "MxNxK"]),
            (["explain", "--gemm", "16x4096x4096:f64"], ["--gemm", "f64", "bf16"]),
            (["explain", "--problem", "m=1:n=2"], ["--problem", "'m=1:n=2'", "'k' is missing"]),
            (["explain", "--problem", "m=1:n=2:k=3:z=4"], ["--problem", "'z=4'", "allowed: m, n, k"]),
            (["explain", "--problem", "dance m=1"], ["--problem", "'dance'", "allowed: gemm"]),
            (["cache", "prune", "--keep", "-1"], ["--keep", "'-1'"]),
            (["devices", "--json", "--csv"], ["--json", "--csv"]),
        ]
        for arguments, words in cases:
            with self.subTest(arguments):
                self.refused(USAGE, words, *arguments)

    def test_names_that_do_not_exist(self):
        cases = [
            (["arch", "z80"], ["'z80'", "x86-64-v3"]),
            (["tune", "--model", "hal-9000"], ["--model", "'hal-9000'", "llama-3.1-8b"]),
            (["tune", "--model", "llama-3.1-8b", "--layer", "knee"], ["--layer", "'knee'", "attn_o"]),
            (["tune", "--model", "llama-3.1-8b", "--tp", "3"], ["--tp 3", "1, 8"]),
            (["tune", "--shapes", "none.csv"], ["none.csv"]),
            (["kernels", "--op", "dance"], ["--op", "'dance'", "gemm"]),
            (["kernels", "--family", "dance"], ["--family", "'dance'", "gemm_cpu"]),
            (["kernels", "--target", "z80"], ["'z80'", "x86-64-v3"]),
            (["report"], ["nothing has been tuned"]),
        ]
        for arguments, words in cases:
            with self.subTest(arguments):
                self.refused(NOT_FOUND, words, *arguments)

    def test_shape_files_name_the_line(self):
        path = self.folder / "shapes.csv"
        header = "model,layer,op,N,K,dtype,scheme,notes\n"
        cases = [
            ("model,layer\nA,b\n", "shapes.csv:1: column 'op' is missing"),
            (header + "A,b,gemm,64\n", "shapes.csv:2: 4 cells"),
            (header + "A,b,gemm,64,many,bf16,none,tp=1\n", "shapes.csv:2: column 'K'"),
            (header + "A,b,conv,64,64,bf16,none,tp=1\n", "shapes.csv:2: op 'conv'"),
        ]
        for text, words in cases:
            with self.subTest(words):
                path.write_text(text, encoding="utf-8")
                self.refused(USAGE, [words], "tune", "--shapes", str(path))

    def test_a_peer_that_is_asked_for_and_absent_is_an_environment_error(self):
        arguments = ["tune", "--gemm", "1x64x64", "--peer", "torch"]
        self.refused(ENVIRONMENT, ["PyTorch", "/nonexistent"], *arguments, TILEWRIGHT_PYTHON="/nonexistent/python")

    def test_the_doctor_names_what_amd_kernels_lack(self):
        clang = self.folder / "clang"
        clang.write_text("#!/bin/sh\necho clang version 19.1.7\n", encoding="utf-8")
        clang.chmod(0o755)
        for path, words in [
            ("/nonexistent/clang", "not found"),
            (str(clang), "clang version 19.1.7; allowed: clang 20"),
        ]:
            findings = json.loads(self.check(OK, "doctor", "--json", TILEWRIGHT_AMDCLANG=path))["findings"]
            finding = next(each for each in findings if each["what"] == "AMD compiler")
            self.assertEqual(finding["verdict"], "warn")
            self.assertIn(words, finding["detail"])
            self.assertIn("TILEWRIGHT_AMDCLANG", finding["remedy"])

    def test_a_cache_that_others_can_write_to_is_an_environment_error(self):
        shared = self.folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        self.refused(ENVIRONMENT, [str(shared)], "cache", "path", TILEWRIGHT_CACHE_DIR=str(shared))
        self.check(CHECK_FAILED, "doctor", TILEWRIGHT_CACHE_DIR=str(shared))


class Forms(Face):
    TABLES = [
        (["devices"], "devices"),
        (["arch"], "targets"),
        (["arch", "gfx942"], "mma"),
        (["doctor"], "findings"),
        (["kernels"], "entries"),
        (["cache", "info"], None),
        (["cache", "verify"], None),
        (["explain", "--gemm", "16x64x64:bf16"], "choices"),
    ]

    def test_json_is_one_object_on_a_clean_stdout(self):
        for arguments, member in self.TABLES:
            with self.subTest(arguments):
                value = json.loads(self.check(OK, *arguments, "--json"))
                self.assertIsInstance(value, dict)
                if member:
                    self.assertTrue(value[member])

    def test_csv_has_as_many_cells_as_columns(self):
        for arguments, _ in self.TABLES:
            with self.subTest(arguments):
                for block in self.check(OK, *arguments, "--csv").strip().split("\n\n"):
                    rows = list(csv.reader(io.StringIO(block)))
                    self.assertEqual({len(row) for row in rows}, {len(rows[0])})
                    self.assertTrue(all(re.fullmatch(r"[a-z0-9_]+", name) for name in rows[0]), rows[0])

    def test_columns_of_a_table_are_aligned(self):
        lines = self.check(OK, "arch").splitlines()
        at = lines[0].index("vendor")
        for line in lines[1:]:
            self.assertEqual(line[at - 1], " ", line)
            self.assertNotEqual(line[at], " ", line)

    def test_devices_tell_the_cores_of_each_numa_node_that_may_be_used(self):
        one = min(os.sched_getaffinity(0))
        for allowed in (os.sched_getaffinity(0), {one}):
            done = subprocess.run(
                [PROGRAM, "devices", "--json"],
                capture_output=True,
                check=True,
                env=self.environment,
                preexec_fn=lambda allowed=allowed: os.sched_setaffinity(0, allowed),
            )
            nodes = json.loads(done.stdout)["nodes"]
            self.assertEqual(sum(node["cores"] for node in nodes), len(allowed))
        self.assertEqual([node["cpus"] for node in nodes], [str(one)])

    def test_devices_tell_the_target_that_arch_calls_the_best(self):
        device = json.loads(self.check(OK, "devices", "--json"))["devices"][0]
        best = [t["target"] for t in json.loads(self.check(OK, "arch", "--json"))["targets"] if t["here"] == "best"]
        self.assertEqual(best, [device["target"]])

    def test_threads_change_the_device(self):
        self.assertEqual(json.loads(self.check(OK, "devices", "--threads", "1", "--json"))["devices"][0]["units"], 1)

    def test_the_shorthand_means_the_text_form(self):
        def problem(*arguments):
            return json.loads(self.check(OK, "explain", *arguments, "--json"))["choices"][0]["problem"]

        text = problem("--problem", "m=16:n=64:k=128:a=bf16:packed=1:act=gelu")
        self.assertEqual(problem("--gemm", "16x64x128:bf16:packed:act=gelu"), text)
        self.assertEqual(problem("--problem", "gemm m=16:n=64:k=128:packed=1:act=gelu"), text)

    def test_doctor_warns_of_a_variable_that_nobody_reads(self):
        findings = json.loads(self.check(OK, "doctor", "--json", TILEWRIGHT_THREDS="3"))["findings"]
        finding = next(f for f in findings if f["what"] == "environment")
        self.assertEqual(finding["verdict"], "warn")
        self.assertIn("TILEWRIGHT_THREDS", finding["detail"])
        self.assertIn("TILEWRIGHT_NUM_THREADS", finding["remedy"])

    def test_doctor_says_what_a_missing_compiler_costs(self):
        findings = json.loads(self.check(OK, "doctor", "--json", TILEWRIGHT_CXX="/nonexistent/c++"))["findings"]
        finding = next(f for f in findings if f["what"] == "compiler")
        self.assertEqual(finding["verdict"], "warn")
        self.assertIn("TILEWRIGHT_CXX", finding["remedy"])

    def test_an_empty_cache_is_whole(self):
        self.assertIn("0 entries", self.check(OK, "cache", "info"))
        self.assertIn("0 B freed", self.check(OK, "cache", "prune"))
        self.assertEqual(self.check(OK, "cache", "path").strip(), str(self.folder / "cache"))


class Terminal(Face):
    def test_colours_on_a_terminal_only(self):
        self.assertIn("\x1b[", self.on_terminal("arch"))
        self.assertNotIn("\x1b[", self.check(OK, "arch"))

    def test_no_color_and_dumb_terminals_are_respected(self):
        self.assertNotIn("\x1b[", self.on_terminal("arch", NO_COLOR="1"))
        self.assertNotIn("\x1b[", self.on_terminal("arch", TERM="dumb"))

    def test_json_has_no_colours_on_a_terminal(self):
        json.loads(self.on_terminal("arch", "--json"))

    def test_a_closed_pipe_is_no_crash(self):
        shell = subprocess.run(
            f"'{PROGRAM}' arch --json | head -c 1", shell=True, capture_output=True, env=self.environment, check=False
        )
        self.assertEqual(shell.stderr, b"")


if __name__ == "__main__":
    main()
