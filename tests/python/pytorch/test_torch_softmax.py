# SPDX-License-Identifier: MIT
"""softmax and its logarithm against PyTorch's own."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(12)


def check(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype], equal_nan=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 66, 5000])
def test_it_is_pytorchs(dtype, n):
    x = 4 * torch.randn(3, 5, n, dtype=dtype)
    check(tilewright.softmax(x), torch.softmax(x, -1))
    check(tilewright.softmax(x, 2, log=True), torch.log_softmax(x, -1))
    check(tilewright.softmax(x, -1, torch.float32), torch.softmax(x, -1, dtype=torch.float32))
    check(tilewright.softmax(x, scale=0.5, dtype="f32"), torch.softmax(x.float() / 2, -1))


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("log", [False, True])
def test_rows_with_nan_and_infinity_are_pytorchs(special, log):
    x = torch.randn(3, 40)
    x[0, 7] = special
    x[1] = special
    check(tilewright.softmax(x, log=log), torch.log_softmax(x, -1) if log else torch.softmax(x, -1))


def test_rows_are_read_where_they_lie_and_written_in_place():
    wide = torch.randn(6, 3, 80)
    x = wide[:, 1]
    want = torch.softmax(x, -1)
    assert tilewright.softmax(x, out=x) is x
    check(wide[:, 1], want)
    assert tilewright.softmax(torch.randn(0, 8)).shape == (0, 8)
    assert tilewright.softmax(torch.randn(8, 0)).shape == (8, 0)


def test_refusals_are_exceptions():
    x = torch.randn(4, 8)
    with pytest.raises(tilewright.InvalidArgument, match="'dim' is 0, allowed: -1"):
        tilewright.softmax(x, 0)
    with pytest.raises(tilewright.InvalidArgument, match="'scale' is nan"):
        tilewright.softmax(x, scale=float("nan"))
