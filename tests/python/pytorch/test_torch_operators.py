# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: what PyTorch asks of an operator, torch.compile, out variants, refusals."""

import subprocess
import sys

import pytest
import reference
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
ops = torch.ops.tilewright

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch.compiler.reset()


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def compiled(function, **options):
    # Everything but the generated C++ of other operators, which takes seconds.
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def operator_cases():
    a, b, x, weight = torch.randn(5, 16), torch.randn(16, 8), torch.randn(2, 3, 16), torch.randn(8, 16)
    packed, packed_weight = tt.pack_weights(b), tt.pack_weights(weight, layout="nk")
    batched = tt.pack_weights(torch.randn(3, 16, 8))
    steps = {"steps": ["add", "clamp(-1.0, 1.0)", "mul"], "step_tensors": [torch.randn(5, 8), torch.randn(8)]}
    return {
        "gemm": (ops.gemm, (a, b), {}),
        "gemm-batch": (ops.gemm, (torch.randn(2, 3, 5, 16), torch.randn(2, 3, 16, 8)), {}),
        "gemm-epilogue": (ops.gemm, (a, b), {"bias": torch.randn(8), "activation": "gelu", **steps}),
        "gemm-addend": (ops.gemm, (a, b), {"beta": 0.5, "c": torch.randn(5, 8), "alpha": 2.0}),
        "gemm-addend-once": (ops.gemm, (a, b), {"c": torch.randn(5, 8)}),
        "gemm-gate": (ops.gemm, (a, b), {"gate": "separated", "activation": "silu"}),
        "gemm-int8": (ops.gemm, (int8(5, 16), int8(16, 8)), {"scale_a": torch.rand(5, 1), "scale_b": torch.rand(8)}),
        "linear": (ops.linear, (x, weight, torch.randn(8), "relu"), {}),
        "linear-vector": (ops.linear, (x[0, 0], weight), {}),
        "gemm_packed": (ops.gemm_packed, (a, packed), {"n": 8}),
        "gemm_packed-batch": (ops.gemm_packed, (a, batched), {"n": 8, "batch": 3}),
        "linear_packed": (ops.linear_packed, (x, packed_weight, 8, torch.randn(8), "silu"), {}),
        "linear_packed-gate": (ops.linear_packed, (x, packed_weight), {"n": 8, "gate": "interleaved"}),
    }


@pytest.mark.parametrize("case", operator_cases())
def test_opcheck_passes_for_the_operator_and_its_out_variant(case):
    packet, arguments, options = operator_cases()[case]
    torch.library.opcheck(packet.default, arguments, options)
    wanted = packet.default(*arguments, **options)
    out = torch.full_like(wanted, 7)
    torch.library.opcheck(packet.out, arguments, {**options, "out": out.clone()})
    assert packet.out(*arguments, **options, out=out) is out
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("layout", ["kn", "nk"])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int8])
def test_opcheck_passes_for_packing_which_is_exact(layout, dtype):
    b = int8(3, 20, 18) if dtype == torch.int8 else torch.randn(3, 20, 18).to(dtype)
    for weight in (b, b[0]):
        torch.library.opcheck(ops.pack_weights, (weight,), {"layout": layout})
        packed = tt.pack_weights(weight, layout=layout)
        options = {"dtype": dtype, "layout": layout}
        torch.library.opcheck(ops.unpack_weights, (packed, list(weight.shape)), options)
        assert torch.equal(tt.unpack_weights(packed, weight.shape, **options), weight)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_operator_computes_what_the_function_does(dtype):
    a, b, bias = (torch.randn(*shape).to(dtype) for shape in ((7, 40), (40, 12), (12,)))
    want = tilewright.gemm(a, b, bias=bias, activation="gelu", steps=[("mul", bias), ("clamp", -1, 1)], scale_a=0.5)
    got = tt.gemm(a, b, bias=bias, activation="gelu", steps=[("mul", bias), ("clamp", -1, 1)], scale_a=0.5)
    assert torch.equal(got, want)
    want = tilewright.gemm(a, tilewright.pack_weights(b), bias=bias)
    assert torch.equal(tt.gemm_packed(a, tt.pack_weights(b), 12, bias=bias), want)
    weight = b.T.contiguous()
    packed, bytes = tilewright.pack_weights(weight, layout="nk"), tt.pack_weights(weight, layout="nk")
    assert torch.equal(tt.linear(a, weight, bias, "silu"), tilewright.linear(a, weight, bias, "silu"))
    assert torch.equal(tt.linear_packed(a, bytes, 12, bias, "silu"), tilewright.linear(a, packed, bias, "silu"))
    assert tt.linear(a, weight, out_dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_give_what_the_function_gives_and_a_fake_of_that_dtype(dtype):
    a, weight, scale = torch.randn(5, 32).to(dtype), torch.randn(12, 32).to(dtype), torch.rand(12)
    want = tilewright.linear(a, weight, scale_b=scale)
    assert torch.equal(tt.linear(a, weight, scale_b=scale), want)
    assert torch.equal(compiled(lambda x: tt.linear(x, weight, scale_b=scale))(a), want)
    with pytest.raises(tilewright.InvalidArgument, match="too narrow for a gradient"):
        tt.linear(a, weight.requires_grad_())


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_module_compiles_in_one_graph_and_serves_every_batch_size(dynamic):
    weight, bias, gated = torch.randn(24, 16), torch.randn(24), torch.randn(16, 12)

    def mlp(x):
        h = tt.linear(x, weight, bias, ("clamp", -2, 2), steps=[("add", bias), "relu"], scale_b=0.5)
        return tt.gemm(h[..., :16] * 2, gated, gate="separated", activation="silu", out_dtype=torch.bfloat16) + 1

    function = compiled(mlp, dynamic=dynamic)
    for m in (1, 3, 8):
        x = torch.randn(m, 16)
        assert torch.equal(function(x), mlp(x))


def test_inductor_compiles_it_with_an_output_that_the_caller_gives():
    a, b, out = torch.randn(4, 16), torch.randn(16, 8), torch.zeros(4, 8)

    # No operator of PyTorch's among them: nothing is left for Inductor's C++ compiler, which takes seconds.
    def function(a, b, out):
        tt.gemm(a, b, out=out, activation="relu")
        return tt.linear(tt.gemm(a, b), out)

    got = torch.compile(function, fullgraph=True)(a, b, out)
    want = torch.zeros(4, 8)
    assert torch.equal(got, function(a, b, want))
    assert torch.equal(out, want)


def test_export_keeps_the_operator():
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return tt.gemm(a, b, activation="tanh")

    a, b = torch.randn(4, 16), torch.randn(16, 8)
    program = torch.export.export(Module(), (a, b), dynamic_shapes=({0: torch.export.Dim("m")}, None))
    assert any("tilewright.gemm" in str(node.target) for node in program.graph.nodes)
    a = torch.randn(9, 16)
    assert torch.equal(program.module()(a, b), tilewright.gemm(a, b, activation="tanh"))


def test_the_profiler_of_pytorch_sees_the_operator():
    a, b = torch.randn(4, 16), torch.randn(16, 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        tt.gemm(a, b)
    assert "tilewright::gemm" in {event.key for event in profile.key_averages()}


def test_an_output_that_autograd_has_kept_is_marked_as_changed():
    a, b, out = torch.randn(3, 4), torch.randn(4, 5), torch.ones(3, 5)
    weight = torch.ones(3, 5, requires_grad=True)
    for write in (tilewright.gemm, tt.gemm):
        loss = (weight * out).sum()
        write(a, b, out=out)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    with torch.inference_mode():
        inference = torch.empty(3, 5)
    reference.check(tilewright.gemm(a, b, out=inference), a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b, p: ops.gemm(a, b, activation="gellu"), "'activation' is 'gellu'"),
        (lambda a, b, p: ops.gemm(a, b, activation="clamp(1, x)"), "'activation' is 'clamp"),
        (lambda a, b, p: ops.gemm(a, b, steps=["add"]), "'step_tensors' has no tensor left"),
        (lambda a, b, p: ops.gemm(a, b, step_tensors=[a]), "'step_tensors' has 1 entries, 'steps' takes 0"),
        (lambda a, b, p: ops.gemm_packed(a, p, n=9), "'n' and 'batch' are 9 and 1.*n = 8"),
        (lambda a, b, p: ops.gemm_packed(a, p, n=8, batch=2), "'n' and 'batch' are 8 and 2"),
        (lambda a, b, p: ops.gemm_packed(a, b, n=8), "'packed' is no packed weight"),
        (lambda a, b, p: ops.gemm_packed(a, torch.zeros_like(p), n=8), "magic"),
        (lambda a, b, p: ops.gemm_packed(a, p[64:], n=8), "magic"),
        (lambda a, b, p: ops.gemm_packed(a, p[1:], n=8), "multiple of 64"),
        (lambda a, b, p: ops.unpack_weights(p, [8, 16], dtype=torch.float32), "shape"),
        (lambda a, b, p: ops.pack_weights(a.double()), "float64"),
    ],
)
def test_refusals_name_the_argument(call, message):
    a, b = torch.randn(5, 16), torch.randn(16, 8)
    with pytest.raises(tilewright.Error, match=message):
        call(a, b, tt.pack_weights(b))


def test_before_pytorch_knew_out_variants_a_compiled_one_computes_and_copies(monkeypatch):
    monkeypatch.setattr(tt._functions, "OUT_TAG", None)
    a, b, out = torch.randn(4, 16), torch.randn(16, 8), torch.zeros(4, 8)
    assert tt.gemm(a, b, out=out) is out
    assert torch.equal(out, tt.gemm(a, b))
    out.zero_()
    function = compiled(lambda a, b, out: tt.gemm(a, b, out=out))
    assert torch.equal(function(a, b, out), tt.gemm(a, b))
    assert torch.equal(out, tt.gemm(a, b))
    # The fake that such a PyTorch is given.
    assert tt._operators._fake_out(a, b, out=out, units=1) is out


def test_importing_tilewright_registers_nothing_and_imports_no_torch():
    code = (
        "import tilewright, sys; assert 'torch' not in sys.modules\n"
        "import torch; assert not hasattr(torch.ops.tilewright, 'gemm')\n"
        "import tilewright.torch; torch.ops.tilewright.gemm.default\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
