# SPDX-License-Identifier: MIT
"""A dtype that a row operator is asked for is what it gives, or the call is refused."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import tilewright as tw  # noqa: E402

X = torch.linspace(-1, 1, 256).reshape(4, 64)

CONTRADICTIONS = {
    "rms_norm": (lambda **k: tw.rms_norm(X, **k), torch.float32, "out_dtype", "bf16"),
    "layer_norm": (lambda **k: tw.layer_norm(X, **k), torch.float32, "out_dtype", "bf16"),
    "add": (lambda **k: tw.add(X, X, **k), torch.float32, "out_dtype", "bf16"),
    "cast": (lambda **k: tw.cast(X, **k), torch.float32, "out_dtype", "bf16"),
    "softmax": (lambda **k: tw.softmax(X, **k), torch.float32, "dtype", "bf16"),
    "quantize": (lambda **k: tw.quantize(X, **k), torch.int8, "out_dtype", "e4m3"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_an_out_of_another_dtype_than_asked_for_is_refused(case):
    function, dtype, keyword, asked = CONTRADICTIONS[case]
    out = torch.empty(4, 64, dtype=dtype)
    given = {torch.float32: "f32", torch.int8: "i8"}[dtype]
    with pytest.raises(tw.InvalidArgument, match=rf"'out' \({given}\) and '{keyword}' \({asked}\) differ"):
        function(out=out, **{keyword: asked})
    function(out=out, **{keyword: dtype})
    function(out=out)


@pytest.mark.parametrize("quant", ["tensor", "dynamic"])
def test_one_scale_for_the_tensor_is_never_silently_f32(quant):
    for scale_dtype in ("e8m0", "e4m3"):
        with pytest.raises(tw.InvalidArgument, match=f"'scale_dtype' is {scale_dtype}, allowed .*f32"):
            tw.quantize(X, quant, scale_dtype=scale_dtype)
    assert tw.quantize(X, quant, scale_dtype="f32")[1].dtype == torch.float32
    with pytest.raises(tw.InvalidArgument, match="'scale_dtype' is e8m0"):
        tw.quantize(X, "tensor", scale=torch.ones(1), scale_dtype="e8m0")


@pytest.mark.parametrize("function", [lambda **k: tw.quantize(X, **k), lambda **k: tw.rms_norm(X, **k)])
def test_a_scale_of_another_dtype_than_asked_for_is_refused(function):
    scale = torch.empty(4, 2)
    with pytest.raises(tw.InvalidArgument, match=r"'scale' \(f32\) and 'scale_dtype' \(e8m0\) differ"):
        function(quant="group", group=32, scale=scale, scale_dtype="e8m0")
    function(quant="group", group=32, scale=scale, scale_dtype="f32")
