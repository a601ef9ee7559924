# SPDX-License-Identifier: MIT
"""Weights of 4 bits packed on a GPU: made there, used from any stream and in graphs, and back."""

import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch not found")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device for PyTorch", allow_module_level=True)
if not (hasattr(torch, "float8_e8m0fnu") and hasattr(torch, "float4_e2m1fn_x2")):
    pytest.skip("PyTorch has no float8_e8m0fnu and float4_e2m1fn_x2", allow_module_level=True)

import tilewright  # noqa: E402
import tilewright.torch as tt  # noqa: E402

N, K = 200, 448


def weights(*batch):
    codes = torch.randint(0, 256, (*batch, N, K // 2), dtype=torch.uint8, device="cuda")
    scales = torch.randint(120, 134, (*batch, N, K // 32), dtype=torch.uint8, device="cuda")
    return codes.view(torch.float4_e2m1fn_x2), scales.view(torch.float8_e8m0fnu)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


@pytest.mark.parametrize("m", [1, 13, 60, 130])
def test_packed_weights_give_what_plain_ones_do(m):
    w, scales = weights()
    x = torch.randn(m, K, device="cuda", dtype=torch.bfloat16)
    scaled = {"scale_b": scales, "scale_group_b": (1, 32)}
    wanted = tilewright.linear(x, w, **scaled)
    packed = tilewright.pack_weights(w, layout="nk")
    assert (packed.n, packed.k, packed.batch, packed.dtype) == (N, K, 1, "e2m1")
    torch.testing.assert_close(tilewright.linear(x, packed, **scaled), wanted, rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("kind", ["i4", "u4"])
def test_integers_are_packed_from_bytes_and_come_back(kind):
    w = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device="cuda")
    scales = torch.rand(N, K // 64, device="cuda").half() + 0.5
    x = torch.randn(13, K, device="cuda", dtype=torch.bfloat16)
    scaled = {"scale_b": scales, "scale_group_b": (1, 64)}
    wanted = tilewright.linear(x, w, b_dtype=kind, **scaled)
    packed = tilewright.pack_weights(w, layout="nk", b_dtype=kind)
    assert (packed.n, packed.k, packed.dtype) == (N, K, kind)
    close = {"rtol": 2**-6, "atol": float(wanted.abs().max()) * 2**-8}
    torch.testing.assert_close(tilewright.linear(x, packed, **scaled), wanted, **close)
    data = tt.pack_weights(w, layout="nk", b_dtype=kind)
    torch.testing.assert_close(tt.linear_packed(x, data, N, b_dtype=kind, **scaled), wanted, **close)
    back = torch.zeros_like(w)
    packed.unpack(back, layout="nk")
    assert torch.equal(back, w)


def test_they_are_made_of_what_the_current_stream_made():
    w, scales = weights()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros_like(w.view(torch.uint8))
        torch.cuda._sleep(20_000_000)
        late.copy_(w.view(torch.uint8))
        packed = tilewright.pack_weights(late.view(w.dtype), layout="nk")
    back = torch.zeros_like(w.view(torch.uint8))
    packed.unpack(back.view(w.dtype), layout="nk")
    assert torch.equal(back, w.view(torch.uint8))


def test_the_operators_pack_multiply_and_unpack_also_in_a_graph():
    w, scales = weights(3)
    a = torch.randn(3, 5, K, device="cuda", dtype=torch.bfloat16)
    scaled = {"scale_b": scales.transpose(-1, -2), "scale_group_b": (1, 32)}
    wanted = tilewright.gemm(a, w.transpose(-1, -2), **scaled)
    packed = tt.pack_weights(w, layout="nk")
    assert packed.device == w.device and packed.dtype == torch.uint8
    got = tt.gemm_packed(a, packed, N, batch=3, **scaled)
    torch.testing.assert_close(got, wanted, rtol=2**-7, atol=2**-6)
    back = tt.unpack_weights(packed, w.shape, dtype=w.dtype, layout="nk")
    assert torch.equal(back.view(torch.uint8), w.view(torch.uint8))

    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(got)
    with torch.cuda.graph(graph):
        tt.gemm_packed(a, packed, N, batch=3, **scaled, out=out)
    out.zero_()
    graph.replay()
    assert torch.equal(out, got)


def test_groups_of_rows_take_packed_weights():
    w, scales = weights(3)
    x = torch.randn(20, K, device="cuda", dtype=torch.bfloat16)
    scaled = {"scale_b": scales.transpose(-1, -2), "scale_group_b": (1, 32)}
    sizes = torch.tensor([7, 0, 13], dtype=torch.int32, device="cuda")
    wanted = tilewright.grouped_gemm(x, w.transpose(-1, -2), sizes=sizes, **scaled)
    got = tilewright.grouped_gemm(x, tilewright.pack_weights(w, layout="nk"), sizes=sizes, **scaled)
    torch.testing.assert_close(got, wanted, rtol=2**-7, atol=2**-6)


def test_a_packed_layer_is_packed_anew_on_another_device():
    w = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8)
    layer = tt.QuantisedLinear(w, (torch.rand(K // 64, N) + 0.5).half(), dtype="i4", group_size=64)
    x = torch.randn(3, K).half()
    packed, wanted = layer.packed(), layer(x)
    close = {"rtol": 2**-8, "atol": float(wanted.abs().max()) * 2**-8}
    for device in ("cuda", "cpu"):
        packed = packed.to(device)
        assert torch.equal(packed.weight.cpu(), w)
        torch.testing.assert_close(packed(x.to(device)).cpu(), wanted, **close)


def test_bytes_of_another_form_or_size_are_refused():
    w, scales = weights()
    x = torch.randn(2, K, device="cuda", dtype=torch.bfloat16)
    scaled = {"scale_b": scales, "scale_group_b": (1, 32)}
    of_cpu = tt.pack_weights(w.cpu(), layout="nk").cuda()
    with pytest.raises(tilewright.InvalidArgument, match="packed on cuda:0, which are"):
        tt.linear_packed(x, of_cpu, N, **scaled)
    with pytest.raises(tilewright.InvalidArgument, match="allowed: packed where it is used"):
        tilewright.linear(x, tilewright.PackedWeights.from_tensor(of_cpu), **scaled)
    with pytest.raises(tilewright.InvalidArgument, match="packed on cuda:0, which are"):
        tt.linear_packed(x, tt.pack_weights(w, layout="nk"), 2 * N, **scaled)
    with pytest.raises(tilewright.InvalidArgument, match="dtype bf16 on cuda:0, allowed: e2m1, i4, u4"):
        tilewright.pack_weights(torch.zeros(8, 8, device="cuda", dtype=torch.bfloat16))


def test_their_bytes_are_those_of_any_memory():
    w, _ = weights()
    packed = tilewright.pack_weights(w, layout="nk")
    here = pickle.loads(pickle.dumps(packed))  # in the host's memory
    back = torch.zeros(N, K // 2, dtype=torch.uint8)
    here.unpack(back.view(w.dtype), layout="nk")
    assert torch.equal(back, w.view(torch.uint8).cpu())
    there = torch.frombuffer(bytearray(packed.to_bytes()), dtype=torch.uint8).cuda()
    assert tilewright.PackedWeights.from_tensor(there).to_bytes() == packed.to_bytes()
