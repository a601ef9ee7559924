# SPDX-License-Identifier: MIT
"""What `tilewright bench --suite memory` compares with on a GPU: PyTorch's calls in graphs."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
from peer_torch import Peer  # noqa: E402  a script's
from peer_torch_gpu import GraphedCalls  # noqa: E402
from peer_torch_rows import RowProblem  # noqa: E402

LINE = (
    "m={m}:n={n}:k=0:dtype=bf16:weight=bf16:group=0:packed=0:scaled=0:rows={rows}:threads=1:rotations=3:repetitions=2"
)


@pytest.fixture(autouse=True)
def device():
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize(
    "rows",
    [
        "rms_norm;m=64;n=512;x=bf16;residual=bf16;weight=bf16;out=bf16",
        "quantize;m=64;n=512;x=bf16;out=e4m3;quant=group;scale=f32;group=128",
        "cross_entropy;m=64;n=512;x=bf16;out=bf16",
    ],
)
def test_a_problem_is_timed(rows):
    kind, _, microseconds = Peer(torch, "cuda:0").answer(LINE.format(m=64, n=512, rows=rows)).partition(" ")
    assert kind == "us" and 0.1 < float(microseconds) < 1e5


def test_products_are_refused():
    with pytest.raises(ValueError, match="cuBLASLt"):
        Peer(torch, "cuda:0").answer(LINE.format(m=8, n=8, rows=""))


def test_the_faster_way_is_kept_and_one_that_fails_passed_over():
    torch.set_default_device("cuda:0")
    problem = RowProblem(torch, "softmax;m=64;n=512;x=bf16;out=bf16", 64, 512, rotations=3)

    def slow(tensors):
        for _ in range(20):
            problem.function(None, tensors)

    def broken(tensors):
        raise RuntimeError("no such kernel")

    ways = {"slow": slow, "fast": lambda tensors: problem.function(None, tensors), "broken": broken}
    assert GraphedCalls(torch, ways, problem.weights).name == "fast"
    with pytest.raises(RuntimeError, match="broken: RuntimeError: no such kernel"):
        GraphedCalls(torch, {"broken": broken}, problem.weights)
