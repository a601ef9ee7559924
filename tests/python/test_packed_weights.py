# SPDX-License-Identifier: MIT
"""Packed weights: one copy for every M, stored and loaded as bytes."""

import gc
import mmap
import pickle

import numpy as np
import pytest
import reference
import tilewright

RNG = np.random.default_rng(13)


def weights(*shape, dtype):
    if dtype == np.int8:
        return RNG.integers(-128, 128, shape, dtype=np.int8)
    return RNG.standard_normal(shape, dtype=np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (16, 16), (37, 53), (130, 200)])
def test_one_packed_copy_serves_every_m(dtype, n, k):
    b = weights(k, n, dtype=dtype)
    packed = tilewright.pack_weights(b)
    assert (packed.n, packed.k, packed.batch) == (n, k, 1)
    assert packed.dtype == {np.float32: "f32", np.float16: "f16", np.int8: "i8"}[dtype]
    for m in (1, 2, 16, 70):
        a = weights(m, k, dtype=dtype)
        reference.check(tilewright.gemm(a, packed), a, b)


def test_layout_nk_packs_the_weight_of_a_linear_layer():
    weight, x = weights(12, 30, dtype=np.float32), weights(2, 5, 30, dtype=np.float32)
    packed = tilewright.pack_weights(weight, layout="nk")
    assert (packed.n, packed.k) == (12, 30)
    reference.check(tilewright.linear(x, packed), x, weight.T)
    with pytest.raises(tilewright.InvalidArgument, match="'layout' is 'kk', allowed: 'kn'"):
        tilewright.pack_weights(weight, layout="kk")


def test_batches_of_weights():
    b, a = weights(3, 20, 18, dtype=np.float32), weights(3, 7, 20, dtype=np.float32)
    packed = tilewright.pack_weights(b)
    assert packed.batch == 3
    reference.check(tilewright.gemm(a, packed), a, b)
    reference.check(tilewright.gemm(a[0], packed), a[0], b)


def test_the_packed_copy_does_not_follow_its_source():
    b, a = weights(8, 6, dtype=np.float32), weights(4, 8, dtype=np.float32)
    packed = tilewright.pack_weights(b)
    want = reference.gemm(a, b)
    b[:] = 0
    np.testing.assert_allclose(tilewright.gemm(a, packed), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_unpack_gives_back_exactly_what_was_packed(dtype):
    weight = weights(21, 34, dtype=dtype)
    packed = tilewright.pack_weights(weight, layout="nk")
    out = np.zeros_like(weight)
    packed.unpack(out, layout="nk")
    np.testing.assert_array_equal(out, weight)


def test_bytes_make_the_same_weights():
    b, a = weights(40, 24, dtype=np.float32), weights(3, 40, dtype=np.float32)
    packed = tilewright.pack_weights(b)
    data = packed.to_bytes()
    assert len(data) == packed.nbytes
    want = tilewright.gemm(a, packed)
    for again in (
        tilewright.PackedWeights.from_bytes(data),
        tilewright.PackedWeights.from_bytes(memoryview(bytearray(data))),
        pickle.loads(pickle.dumps(packed)),
    ):
        assert repr(again) == repr(packed)
        np.testing.assert_array_equal(tilewright.gemm(a, again), want)


def test_a_mapped_file_is_used_in_place_and_kept_alive(tmp_path):
    b, a = weights(40, 24, dtype=np.float32), weights(3, 40, dtype=np.float32)
    packed = tilewright.pack_weights(b)
    path = tmp_path / "weights.bin"
    path.write_bytes(packed.to_bytes())
    with path.open("rb") as file:
        mapped = tilewright.PackedWeights.from_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    gc.collect()
    np.testing.assert_array_equal(tilewright.gemm(a, mapped), tilewright.gemm(a, packed))


def test_an_unaligned_buffer_is_refused():
    data = tilewright.pack_weights(weights(8, 8, dtype=np.float32)).to_bytes()
    room = np.zeros(len(data) + 128, np.uint8)
    start = -room.ctypes.data % 64 + 4
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    with pytest.raises(tilewright.InvalidArgument, match="multiple of 64"):
        tilewright.PackedWeights.from_buffer(room[start : start + len(data)])


@pytest.mark.parametrize("damage", ["short", "magic", "empty"])
def test_damaged_bytes_are_refused(damage):
    data = bytearray(tilewright.pack_weights(weights(8, 8, dtype=np.float32)).to_bytes())
    if damage == "short":
        del data[-1]
    elif damage == "magic":
        data[0] ^= 1
    else:
        data = bytearray()
    with pytest.raises(tilewright.Error):
        tilewright.PackedWeights.from_bytes(data)


def test_mismatched_sizes_and_dtypes_are_named():
    packed = tilewright.pack_weights(weights(8, 6, dtype=np.float32))
    with pytest.raises(tilewright.InvalidArgument, match="K = 7"):
        tilewright.gemm(weights(3, 7, dtype=np.float32), packed)
    with pytest.raises(tilewright.InvalidArgument, match="'b' is f32 and 'a' is f16"):
        tilewright.gemm(weights(3, 8, dtype=np.float16), packed)
    with pytest.raises(tilewright.InvalidArgument, match="rank 1"):
        tilewright.pack_weights(np.ones(4, np.float32))
    with pytest.raises(tilewright.InvalidArgument, match="float64|dtype"):
        tilewright.pack_weights(np.ones((4, 4)))
