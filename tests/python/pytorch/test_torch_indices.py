# SPDX-License-Identifier: MIT
"""Indices of int64 mean what they mean in int32, whatever their strides."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
import tilewright  # noqa: E402

torch.manual_seed(5)
LOGITS = torch.randn(4, 10)
Q, COS, SIN = torch.randn(2, 6, 3, 8), torch.randn(20, 4), torch.randn(20, 4)


def penalised(tokens):
    return tilewright.apply_penalties(LOGITS[:3], tokens, repetition=torch.full((3,), 1.5))


CASES = {
    "column": (torch.tensor([[3, 0], [9, 1], [0, 2], [4, 3]])[:, 0], lambda t: tt.cross_entropy(LOGITS, t)),
    "expanded": (torch.tensor([7]).expand(4), lambda t: tt.cross_entropy(LOGITS, t)),
    "scalar": (torch.tensor(6), lambda t: tt.cross_entropy(LOGITS[0], t)),
    "transposed tokens": (torch.randint(0, 10, (4, 3)).T, penalised),
    "transposed positions": (
        torch.randint(0, 20, (6, 2)).T,
        lambda p: tilewright.rope(Q, COS, SIN, positions=p),
    ),
}


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("case", CASES)
def test_int64_of_any_strides_gives_what_int32_gives(case):
    indices, function = CASES[case]
    wide, narrow = function(indices), function(indices.contiguous().int())
    assert all(torch.equal(*pair) for pair in zip(flat(wide), flat(narrow)))


@pytest.mark.parametrize("target", [np.array([3, 0, 9, 4])[::-1], np.array([[3, 0], [9, 1], [0, 2], [4, 3]])[:, 0]])
def test_int64_of_numpy_may_be_reversed_and_strided(target):
    assert target.dtype == np.int64
    wide = tilewright.cross_entropy(LOGITS.numpy(), target)
    narrow = tilewright.cross_entropy(LOGITS.numpy(), np.ascontiguousarray(target, dtype=np.int32))
    assert all(np.array_equal(*pair) for pair in zip(flat(wide), flat(narrow)))


def test_one_int64_of_numpy_is_a_target():
    wide = tilewright.cross_entropy(LOGITS[0].numpy(), np.array(6))
    narrow = tilewright.cross_entropy(LOGITS[0].numpy(), np.array(6, np.int32))
    assert all(np.array_equal(*pair) for pair in zip(flat(wide), flat(narrow)))
