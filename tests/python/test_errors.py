# SPDX-License-Identifier: MIT
"""Every refusal is tilewright.Error, names argument and value, and leaves the output alone."""

import pickle

import numpy as np
import pytest
import tilewright

A, B = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)


def test_there_is_one_exception_type():
    assert issubclass(tilewright.Error, RuntimeError)
    assert issubclass(tilewright.InvalidArgument, tilewright.Error)
    assert issubclass(tilewright.InvalidArgument, ValueError)
    with pytest.raises(tilewright.InvalidArgument) as caught:
        tilewright.gemm(A, A)
    assert caught.value.code == "invalid_argument"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.code, str(again)) == (tilewright.InvalidArgument, caught.value.code, str(caught.value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "gellu"}, "'activation' is 'gellu', allowed: None, 'none', 'relu', 'gelu'"),
        ({"activation": "clamp"}, "'activation'"),
        ({"activation": ("clamp", 1, "x")}, "clamp bound 'x'"),
        ({"activation": ("clamp", 2.0, 1.0)}, "low must not exceed high"),
        ({"activation": 3}, "'activation' is 3"),
        ({"gate": "both"}, "'gate' is 'both', allowed: None, 'none', 'separated', 'interleaved'"),
        ({"gate": "separated"}, "even N, got N = 5"),
        ({"out_dtype": "float64"}, "'out_dtype' is 'float64'"),
        ({"out_dtype": np.int8}, "'out_dtype'"),
        ({"steps": ("relu",) * 7}, "at most 6"),
        ({"steps": [("sub", A)]}, r"steps\[0\]"),
        ({"steps": "relu"}, "'steps' is 'relu'"),
        ({"beta": 1.0}, "'beta' is 1 and 'c' is missing"),
        ({"bias": 1.0}, "'bias' is float"),
        ({"bias": "x"}, "'bias' is str"),
        ({"bias": np.ones(5)}, "'bias'.*dtype is float64; views have: f32, f16"),
        ({"scale_a": np.ones(5, np.float32)}, "'scale_a' varies along N"),
        ({"scale_b": np.ones((3, 1), np.float32)}, "'scale_b' varies along M"),
        ({"scale_a": np.ones((), np.float16)}, "'scale_a' is f16, allowed: f32"),
        ({"units": -1}, "'units' is -1"),
        ({"recipe": "gemm_cpu{no such}"}, "gemm: argument 'recipe': kernel key"),
        ({"out": np.ones((3, 5))}, "'out'.*dtype"),
        ({"out": np.ones((3, 5), np.float16), "out_dtype": "float32"}, "differ"),
    ],
)
def test_a_bad_option_is_named_with_its_value(options, message):
    with pytest.raises(tilewright.Error, match=message):
        tilewright.gemm(A, B, **options)


def test_things_that_are_no_tensor_are_named():
    for thing in (3, "text", None, [[1.0]], object()):
        with pytest.raises(tilewright.InvalidArgument, match=f"'b' is {type(thing).__name__}"):
            tilewright.gemm(A, thing)
    with pytest.raises(tilewright.InvalidArgument, match="'a' is MaskedArray"):
        tilewright.gemm(np.ma.masked_array(A), B)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint16, np.complex64, bool, object])
def test_dtypes_that_gemm_does_not_take_are_named(dtype):
    with pytest.raises(tilewright.InvalidArgument, match="argument 'a'"):
        tilewright.gemm(A.astype(dtype), B)


def test_mixed_dtypes_are_refused():
    with pytest.raises(tilewright.InvalidArgument, match="'b' is f16 and 'a' is f32"):
        tilewright.gemm(A, B.astype(np.float16))


def test_unknown_keywords_are_type_errors():
    with pytest.raises(TypeError):
        tilewright.gemm(A, B, biass=None)
    with pytest.raises(TypeError):
        tilewright.gemm(A, B, None)


def test_an_output_that_overlaps_an_input_is_refused_and_left_alone():
    storage = np.arange(200, dtype=np.float32)
    a, b = storage[:16].reshape(4, 4), storage[16:32].reshape(4, 4)
    kept = storage.copy()
    for out in (a, b, storage[8:24].reshape(4, 4)):
        with pytest.raises(tilewright.InvalidArgument, match="overlaps"):
            tilewright.gemm(a, b, out=out)
    with pytest.raises(tilewright.InvalidArgument, match="'out' overlaps 'bias'"):
        tilewright.gemm(a, b, bias=storage[44:48], out=storage[40:56].reshape(4, 4))
    with pytest.raises(tilewright.InvalidArgument, match="'out' overlaps itself"):
        tilewright.gemm(a, b, out=np.lib.stride_tricks.as_strided(storage[100:], (4, 4), (4, 4)))
    np.testing.assert_array_equal(storage, kept)


def test_a_recipe_of_another_operator_is_named_so():
    recipe = tilewright.query(A, B).recipe
    with pytest.raises(
        tilewright.Error, match="rms_norm: argument 'recipe'.*is of operator 'gemm', expected 'rms_norm'"
    ):
        tilewright.rms_norm(A, recipe=recipe)


def test_an_activation_that_act_and_mul_lacks_is_not_listed():
    for name in ("swish", "clamp"):
        with pytest.raises(
            tilewright.InvalidArgument, match=f"'activation' is {name}, allowed: 'none', 'relu'"
        ) as caught:
            tilewright.act_and_mul(A, name)
        assert "'clamp'" not in str(caught.value)


def test_plain_weights_of_another_size_are_named_with_it():
    packed = tilewright.pack_weights(B)
    for layout, expected in (("kn", r"\[4, 5\]"), ("nk", r"\[5, 4\]")):
        with pytest.raises(
            tilewright.InvalidArgument, match=rf"'out' has shape \[4, 6\] of f32, expected {expected} of f32"
        ):
            packed.unpack(np.empty((4, 6), np.float32), layout=layout)


def test_a_linear_layer_is_refused_in_its_own_words():
    with pytest.raises(tilewright.InvalidArgument, match=r"linear: argument 'weight' has shape \[4, 5\].*must be 4"):
        tilewright.linear(A, B)
    with pytest.raises(tilewright.InvalidArgument, match="linear: argument 'x' has rank 0, allowed: 1 to 8"):
        tilewright.linear(np.zeros((), np.float32), B)


def test_a_first_tensor_has_the_name_that_the_function_gives_it():
    wide, table = np.ones((3, 4)), np.ones((3, 2), np.float32)
    for name, call in (
        ("logits", lambda: tilewright.sample(wide, greedy=True)),
        ("q", lambda: tilewright.rope(wide, table, table)),
        ("from_", lambda: tilewright.kv_cache_copy(wide, wide, np.zeros((1, 2), np.int32))),
    ):
        with pytest.raises(tilewright.InvalidArgument, match=f"argument '{name}': dlpack: dtype is float64"):
            call()


def test_in_place_addition_is_allowed():
    a, b, c = np.eye(4, dtype=np.float32), np.full((4, 4), 2, np.float32), np.ones((4, 4), np.float32)
    assert tilewright.gemm(a, b, beta=1.0, c=c, out=c) is c
    np.testing.assert_array_equal(c, np.full((4, 4), 3))


class Exporter:
    """A tensor of an unknown framework, with whatever __dlpack__ does."""

    def __init__(self, export):
        self.export = export

    def __dlpack__(self, **options):
        return self.export(**options)

    def __dlpack_device__(self):
        return (1, 0)


def test_tensors_of_other_frameworks_need_out():
    a = Exporter(A.__dlpack__)
    out = np.empty((3, 5), np.float32)
    assert tilewright.gemm(a, B, out=out) is out
    np.testing.assert_array_equal(out, np.full((3, 5), 4))
    with pytest.raises(tilewright.InvalidArgument, match="pass out="):
        tilewright.gemm(a, B)


def test_an_exporter_that_fails_is_the_cause():
    def broken(**options):
        raise BufferError("no memory today")

    with pytest.raises(tilewright.InvalidArgument, match="no memory today") as caught:
        tilewright.gemm(Exporter(broken), B)
    assert isinstance(caught.value.__cause__, BufferError)
    with pytest.raises(tilewright.InvalidArgument, match="no DLPack capsule"):
        tilewright.gemm(Exporter(lambda **options: 5), B)
