# SPDX-License-Identifier: MIT
"""python -m tilewright.bench: what it takes, prints and writes. No time is checked."""

import csv
import io
import json
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.bench import __main__ as bench  # noqa: E402

QUICK = ["--seconds", "0.01", "--warm"]
COLUMNS = (
    "op,shape,dtype,device,threads,regime,edges,kernel,us,spread,tflops,gbps,limit_frac,peer,peer_us,ratio,rel_err,"
    "weights,ratio_low,ratio_high"
)


def run(capsys, *arguments):
    code = bench.main([*arguments, *QUICK])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
def test_shapes_are_timed_and_their_results_are_right(dtype, capsys):
    rows = json.loads(run(capsys, "20x64x32", "1x48x64", "--dtype", dtype, "--weights", "both", "--json", "-"))["rows"]
    assert [(row["shape"], row["weights"]) for row in rows] == [
        ("20x64x32", "packed"),
        ("20x64x32", "plain"),
        ("1x48x64", "packed"),
        ("1x48x64", "plain"),
    ]
    for row in rows:
        assert row["dtype"] == dtype
        assert row["us"] > 0
        assert row["peer_us"] > 0
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["rel_err"] < 1e-2
        assert row["kernel"].startswith("gemm/")


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish"])
def test_an_epilogue_is_timed_against_the_same_of_pytorch(activation, capsys):
    out = run(capsys, "8x32x48", "--dtype", "f32", "--bias", "--activation", activation, "--json", "-")
    assert json.loads(out)["rows"][0]["rel_err"] < 1e-5


def test_csv_has_the_columns_that_every_bench_writes(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    table = run(capsys, "4x32x16", "5x32x16", "--csv", str(path), "--threads", "1")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert list(rows[0]) == COLUMNS.split(",")
    assert [row["threads"] for row in rows] == ["1", "1"]
    assert "geometric mean of the ratios" in table
    assert "5x32x16" in table


def test_layers_of_a_model_come_from_a_file_or_from_the_package(capsys, tmp_path):
    models = tmp_path / "models.csv"
    models.write_text(
        "model,layer,op,N,K,dtype,scheme,notes\n"
        "Tiny,qkv,gemm,48,32,bf16,none,tp=1; src=here\n"
        "Tiny,qkv,gemm,24,32,bf16,none,tp=2; src=here\n"
        "Tiny,qkv,gemm,48,32,fp8_e4m3,per_token_per_channel,tp=1; src=here\n"
        "Tiny,lm_head,gemm,64,32,bf16,none,tp=1; src=here\n"
    )
    model = ["--model", "tiny", "--models-csv", str(models), "--m", "1,3", "--json", "-"]
    rows = json.loads(run(capsys, *model))["rows"]
    assert [(row["regime"], row["shape"], row["dtype"]) for row in rows] == [
        ("qkv", "1x48x32", "bf16"),
        ("qkv", "3x48x32", "bf16"),
    ]
    rows = json.loads(run(capsys, *model, "--layers", "lm_head", "--dtype", "f32"))["rows"]
    assert [(row["regime"], row["shape"], row["dtype"]) for row in rows] == [
        ("lm_head", "1x64x32", "f32"),
        ("lm_head", "3x64x32", "f32"),
    ]
    assert [row["shape"] for row in json.loads(run(capsys, *model, "--tp", "2"))["rows"]] == ["1x24x32", "3x24x32"]
    assert "Llama-3.1-8B" in run(capsys, "--list-models").splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to time"),
        (["16x4096"], "shape '16x4096', allowed: MxNxK"),
        (["16x0x4"], "positive sizes"),
        (["--model", "nobody"], "--model 'nobody', allowed: .*Qwen3-8B"),
        (["--model", "Llama-3.1-8B", "--tp", "3"], "--tp 3, allowed for Llama-3.1-8B: 1, 8"),
        (["--model", "Llama-3.1-8B", "--layers", "x"], "--layers 'x', allowed for Llama-3.1-8B: attn_qkv"),
        (["--model", "Llama-3.1-8B", "--m", "1,x"], "--m '1,x', allowed: positive numbers"),
        (["--model", "x", "--models-csv", "no/such.csv"], "--models-csv 'no/such.csv': No such file"),
        (["4x4x4", "--activation", "swish"], "--activation 'swish', allowed: relu"),
        (["4x4x4", "--dtype", "i8", "--bias"], "torch._int_mm only multiplies"),
        (["4x4x4", "--seconds", "0"], "--seconds more than 0"),
        (["4x4x4", "--csv", "no/such/folder.csv", "--seconds", "0.01"], "no/such/folder.csv: No such file"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, capsys):
    assert bench.main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_help_has_examples():
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.bench", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "python -m tilewright.bench --model Llama-3.1-8B" in done.stdout
