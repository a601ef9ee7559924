# SPDX-License-Identifier: MIT
"""gemm and linear on PyTorch tensors."""

import pickle

import numpy as np
import pytest
import reference
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 96), (3, 7, 5), (37, 65, 129)])
def test_product_with_bias(dtype, m, n, k):
    a, b, bias = (torch.randn(*shape).to(dtype) for shape in ((m, k), (k, n), (n,)))
    d = tilewright.gemm(a, b, bias=bias, activation="gelu")
    assert type(d) is torch.Tensor
    assert d.dtype == dtype
    assert d.device == a.device
    reference.check(d, a, b, bias=bias, activation="gelu")


@pytest.mark.parametrize("out_dtype", [*DTYPES, "float32", "bf16"])
def test_out_dtype_by_torch_dtype_and_by_text(out_dtype):
    a, b = torch.randn(4, 32).bfloat16(), torch.randn(32, 8).bfloat16()
    d = tilewright.gemm(a, b, out_dtype=out_dtype)
    wanted = {"float32": torch.float32, "bf16": torch.bfloat16}.get(out_dtype, out_dtype)
    assert d.dtype == wanted
    reference.check(d, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_is_torch_linear(dtype):
    layer = torch.nn.Linear(48, 20).to(dtype)
    x = torch.randn(2, 3, 48).to(dtype)
    with torch.no_grad():
        d = tilewright.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(d, layer(x), rtol=2e-2 if dtype != torch.float32 else 1e-5, atol=1e-2)
    reference.check(d, x, layer.weight.T, bias=layer.bias)


def test_out_is_written_and_returned():
    a, b = torch.randn(5, 16), torch.randn(16, 9)
    storage = torch.full((9, 7), 3.0)
    out = storage.T[1:6]
    assert tilewright.gemm(a, b, out=out) is out
    reference.check(out, a, b)
    assert (storage.T[0] == 3).all()
    assert (storage.T[6] == 3).all()


def test_strided_inputs_are_not_copied_and_not_changed():
    base = torch.randn(60, 80)
    kept = base.clone()
    a, b = base[::2, 10:50], base.T[20:60, 5:45:2]
    reference.check(tilewright.gemm(a, b), a, b)
    assert torch.equal(base, kept)


def test_an_input_that_requires_grad_is_refused_unless_grad_is_off():
    weight = torch.nn.Parameter(torch.randn(6, 8))
    x = torch.randn(2, 8)
    with pytest.raises(tilewright.InvalidArgument, match=r"'weight' requires grad.*detach"):
        tilewright.linear(x, weight)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            reference.check(tilewright.linear(x, weight), x, weight.T)
    reference.check(tilewright.linear(x, weight.detach()), x, weight.T)


def test_lazily_negated_and_conjugated_views_are_refused_not_misread():
    values = torch.complex(torch.randn(8, 8), torch.randn(8, 8)).conj()
    with pytest.raises(tilewright.InvalidArgument, match="negated"):
        tilewright.gemm(values.imag, torch.randn(8, 4))
    a = values.imag.resolve_neg()
    reference.check(tilewright.gemm(a, torch.eye(8)), a, torch.eye(8))
    with pytest.raises(tilewright.InvalidArgument, match="dtype"):
        tilewright.gemm(values, values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(8).to_sparse(),
        lambda: torch.randn(8, 8, device="meta"),
        lambda: torch.randn(8, 8).to_mkldnn(),
        lambda: torch.randn(8, 8, dtype=torch.float64),
    ],
    ids=["sparse", "meta", "mkldnn", "float64"],
)
def test_tensors_without_plain_memory_are_refused(make):
    with pytest.raises(tilewright.InvalidArgument, match="argument 'a'"):
        tilewright.gemm(make(), torch.randn(8, 8))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_fake_tensor_is_refused():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        a, b = torch.randn(8, 16), torch.randn(16, 4)
    with pytest.raises(tilewright.Error):
        tilewright.gemm(a, b, out=torch.empty(8, 4))


def test_subclasses_speak_for_themselves():
    class Halved(torch.Tensor):
        def __dlpack__(self, *args, **kwargs):
            return (self.as_subclass(torch.Tensor) / 2).__dlpack__(*args, **kwargs)

        def detach(self):
            return self

    a, b = torch.randn(3, 4), torch.randn(4, 5)
    reference.check(tilewright.gemm(a.as_subclass(Halved), b, out=torch.empty(3, 5)), a / 2, b)


def test_int8_per_token_and_per_channel():
    a = torch.randint(-128, 128, (7, 200), dtype=torch.int8)
    weight = torch.randint(-128, 128, (31, 200), dtype=torch.int8)
    scale_a, scale_b = torch.rand(7, 1) / 64, torch.rand(31) / 64
    d = tilewright.linear(a, weight, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)
    assert d.dtype == torch.bfloat16
    reference.check(d, a, weight.T, scale_a=scale_a, scale_b=scale_b)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_per_token_and_per_channel(dtype):
    a, weight = torch.randn(7, 200).to(dtype), torch.randn(31, 200).to(dtype)
    scale_a, scale_b = torch.rand(7, 1) + 0.5, torch.rand(31) + 0.5
    d = tilewright.linear(a, weight, scale_a=scale_a, scale_b=scale_b)
    assert d.dtype == torch.bfloat16
    reference.check(d, a.float(), weight.float().T, scale_a=scale_a, scale_b=scale_b)
    d = tilewright.linear(a, weight, out_dtype=torch.float32)
    reference.check(d, a.float(), weight.float().T)


def test_frameworks_mix_and_the_first_argument_decides():
    a, b = torch.randn(3, 8), np.ones((8, 4), np.float32)
    assert isinstance(tilewright.gemm(a, b), torch.Tensor)
    assert isinstance(tilewright.gemm(a.numpy(), torch.ones(8, 4)), np.ndarray)
    out = np.empty((3, 4), np.float32)
    assert tilewright.gemm(a, b, out=out) is out
    reference.check(out, a, b)


def test_packed_weights_are_pickled_whole():
    weight = torch.randn(40, 24).bfloat16()
    packed = tilewright.pack_weights(weight, layout="nk")
    x = torch.randn(5, 24).bfloat16()
    again = pickle.loads(pickle.dumps(packed))
    assert torch.equal(tilewright.linear(x, again), tilewright.linear(x, packed))
    reference.check(tilewright.linear(x, packed), x, weight.T)
