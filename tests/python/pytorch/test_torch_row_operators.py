# SPDX-License-Identifier: MIT
"""torch.ops.tilewright's operators on rows: what PyTorch asks of an operator, torch.compile, gradients, refusals."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
ops = torch.ops.tilewright
E4M3 = torch.float8_e4m3fn


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(6)
    torch.compiler.reset()


def tables(rows, dims):
    angles = torch.arange(rows)[:, None] * 10000.0 ** (-torch.arange(0, dims, 2) / dims)
    return angles.cos(), angles.sin()


def cases():
    x, residual, weight, bias = torch.randn(2, 3, 64), torch.randn(2, 3, 64), torch.randn(64), torch.randn(64)
    half, one = x.bfloat16(), torch.tensor([0.02])
    q, k, angles = torch.randn(2, 5, 4, 32), torch.randn(2, 5, 2, 32), tables(9, 32)
    positions = torch.randint(0, 9, (2, 5), dtype=torch.int32)
    return {
        "rms_norm": (ops.rms_norm, (x, weight), {}),
        "rms_norm-options": (ops.rms_norm, (half, weight, 1e-5), {"bias": bias, "out_dtype": torch.float32}),
        "rms_norm-scale": (ops.rms_norm, (half, weight), {"scale": one}),
        "add_rms_norm": (ops.add_rms_norm, (half, residual, weight), {"unit_offset": True}),
        "rms_norm_quantize": (ops.rms_norm_quantize, (x, weight), {"out_dtype": torch.int8}),
        "add_rms_norm_quantize": (ops.add_rms_norm_quantize, (x, residual, weight), {"quant": "group", "group": 32}),
        "layer_norm": (ops.layer_norm, (x, weight, bias), {}),
        "layer_norm-plain": (ops.layer_norm, (half,), {}),
        "add_layer_norm": (ops.add_layer_norm, (x, residual, weight, bias, 1e-3), {"smooth": weight}),
        "layer_norm_quantize": (ops.layer_norm_quantize, (x, weight, bias), {}),
        "add_layer_norm_quantize": (ops.add_layer_norm_quantize, (x, residual), {"out_dtype": torch.int8}),
        "act_and_mul": (ops.act_and_mul, (half,), {}),
        "act_and_mul-options": (ops.act_and_mul, (x, "gelu_tanh"), {"gate": "interleaved", "limit": 0.5}),
        "act_and_mul-scale": (ops.act_and_mul, (x, "relu"), {"gate": "none", "squared": True, "scale": one}),
        "act_and_mul_quantize": (ops.act_and_mul_quantize, (half, "silu"), {"quant": "group", "group": 32}),
        "rope": (ops.rope, (q, *angles), {"positions": positions}),
        "rope-options": (ops.rope, (q.half(), *angles), {"interleaved": True, "inverse": True}),
        "rope_qk": (ops.rope_qk, (q, k, *angles), {}),
        "rope-sections": (
            ops.rope_qk,
            (q, k, *angles),
            {"positions": torch.stack([positions] * 3), "sections": [6, 5, 5], "section_order": "interleaved"},
        ),
        "rope-packed": (
            ops.rope,
            (q[0], *angles),
            {
                "cumulative_lengths": torch.tensor([0, 2, 5], dtype=torch.int32),
                "offsets": torch.tensor([1, 3], dtype=torch.int32),
            },
        ),
        "group_norm": (ops.group_norm, (x, 3), {"activation": "silu"}),
        "group_norm-weights": (ops.group_norm, (torch.randn(2, 6, 5, 4), 2, torch.randn(6), torch.randn(6), 1e-3), {}),
        "transpose": (ops.transpose, (half,), {}),
        "apply_penalties": (
            ops.apply_penalties,
            (x[0], torch.tensor([[3, 1], [63, 64], [0, -1]]), torch.randint(0, 64, (3, 5), dtype=torch.int32)),
            {"repetition": torch.full((3,), 1.5), "frequency": torch.full((3,), 0.25)},
        ),
        "softmax": (ops.softmax, (x,), {"log": True, "scale": 0.5}),
        "moe_routing": (ops.moe_routing, (x[0], 4), {"renormalise": True}),
        "moe_routing-groups": (
            ops.moe_routing,
            (half[1], 3),
            {"bias": weight, "score": "sigmoid", "groups": 4, "topk_groups": 2, "first_expert": 1, "local_experts": 9},
        ),
        "sample": (
            ops.sample,
            (x[0], torch.arange(x.shape[1])),
            {"top_p": torch.full((x.shape[1],), 0.8), "top_k": torch.full((x.shape[1],), 9, dtype=torch.int32)},
        ),
        "sample-greedy": (ops.sample, (half[1],), {"greedy": True}),
        "top_k": (ops.top_k, (half[0], 5), {}),
        "top_k-lengths": (ops.top_k, (x[1], 7), {"lengths": torch.tensor([3, 64, 0], dtype=torch.int32)}),
        "softmax-dtype": (ops.softmax, (half, 2), {"dtype": torch.float32}),
        "quantize": (ops.quantize, (x,), {"out_dtype": torch.int8}),
        "quantize-tensor": (ops.quantize, (half, "tensor"), {}),
        "quantize-block": (ops.quantize, (half, "block"), {"out_dtype": torch.int8}),
        "quantize-group": (ops.quantize, (half, "group"), {"smooth": weight, "group": 64}),
        "quantize-hadamard": (ops.quantize, (half, "group"), {"hadamard": 64, "group": 32, "smooth": weight}),
        "quantize-stochastic": (ops.quantize, (x,), {"random_state": torch.tensor([7, 3]), "hadamard": 16}),
        "dequantize": (ops.dequantize, ((x * 20).to(torch.int8), x.abs().amax(-1, keepdim=True)), {}),
        "dequantize-group": (
            ops.dequantize,
            ((x * 20).to(torch.int8), x[..., :2].contiguous(), "group"),
            {"group": 32, "out_dtype": torch.bfloat16},
        ),
        "dequantize-block": (ops.dequantize, ((x * 20).to(torch.int8), x[:, :1, :1].contiguous(), "block"), {}),
        "quantize_static": (ops.quantize_static, (x, one), {"out_dtype": torch.int8}),
    }


def written(op):
    """The names of an operator's results, as `into` has them."""
    name = str(op).rsplit(".", 1)[-1]
    if name.startswith("rope"):
        return ["q_out", "k_out"] if name == "rope_qk" else ["q_out"]
    if name.startswith("moe_routing"):
        return ["weights", "ids"]
    if name.startswith("top_k"):
        return ["values", "indices"]
    if name == "sample":
        return ["ids"]
    sums = ["residual_out"] if name.startswith("add_") else []
    scales = name == "quantize" or name.endswith("_quantize")
    return ["result", *sums, *(["scale"] if scales else [])]


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def assert_same(got, want):
    got, want = as_list(got), as_list(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape and g.stride() == w.stride()
        assert torch.equal(g.contiguous().view(torch.uint8), w.contiguous().view(torch.uint8))


def compiled(function, **options):
    # Everything but the generated C++ of other operators, which takes seconds and a compiler.
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


@pytest.mark.parametrize("case", cases())
def test_opcheck_passes_and_a_compiled_call_has_the_same_bits(case):
    op, arguments, options = cases()[case]
    torch.library.opcheck(op.default, arguments, options)
    assert_same(compiled(lambda *a: op(*a, **options))(*arguments), op(*arguments, **options))


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this PyTorch has no pairs of e2m1")
def test_a_compiled_call_of_nvfp4_has_the_same_bits():
    # opcheck compares no such floats.
    x, one = torch.randn(3, 64), torch.tensor([0.02])
    fp4 = {"quant": "group", "out_dtype": torch.float4_e2m1fn_x2, "scale_dtype": E4M3}
    assert_same(compiled(ops.quantize_nvfp4)(x), ops.quantize_nvfp4(x))
    for op in (ops.quantize, ops.rms_norm_quantize):
        given = lambda x, op=op: op(x, tensor_scale=one, **fp4)  # noqa: E731
        assert_same(compiled(given)(x), given(x))
    codes, scale, of_tensor = ops.quantize_nvfp4(x)
    back = ops.dequantize(codes, scale, "group", tensor_scale=of_tensor)
    assert (back - x).abs().max() <= x.abs().max() / 4


@pytest.mark.parametrize("case", cases())
def test_opcheck_passes_for_given_results_which_get_the_same_bits(case):
    op, arguments, options = cases()[case]
    want = as_list(op(*arguments, **options))
    options = {name: value for name, value in options.items() if name not in ("out_dtype", "dtype")}

    def poisoned(narrow=E4M3):
        dtypes = [narrow if w.dtype == E4M3 else w.dtype for w in want]
        bytes = [torch.full_like(w.view(torch.uint8), 0x7F) for w in want]
        return {name: b.view(dtype) for name, b, dtype in zip(written(op), bytes, dtypes)}

    # PyTorch cannot compare what is written in codes of 8-bit floats.
    torch.library.opcheck(op.into, arguments, {**options, **poisoned(torch.int8)})
    for function in (op.into, compiled(lambda *a, **o: op.into(*a, **o))):
        given = poisoned()
        assert function(*arguments, **options, **given) is None
        assert_same(list(given.values()), want)


@pytest.mark.parametrize(
    "case",
    [
        "add_rms_norm_quantize",
        "add_layer_norm",
        "act_and_mul",
        "softmax",
        "moe_routing",
        "sample",
        "rope_qk",
        "quantize",
    ],
)
def test_inductor_takes_it_in_one_graph(case):
    # No operator of PyTorch's among them: nothing is left for Inductor's C++ compiler.
    op, arguments, options = cases()[case]
    assert_same(torch.compile(lambda *a: op(*a, **options), fullgraph=True)(*arguments), op(*arguments, **options))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_works_in_place_does_so_when_compiled_too(backend):
    weight, angles = torch.randn(64), tables(6, 32)

    def block(x, residual, qkv):
        ops.add_rms_norm.into(x, residual, weight, result=x, residual_out=residual)
        q, k = qkv[:, :4], qkv[:, 4:6]
        ops.rope_qk.into(q, k, *angles, q_out=q, k_out=k)

    def run(function):
        torch.manual_seed(3)
        tensors = torch.randn(6, 64), torch.randn(6, 64), torch.randn(6, 8, 32)
        function(*tensors)
        return tensors

    assert_same(run(torch.compile(block, fullgraph=True, backend=backend)), run(block))
    torch.manual_seed(3)
    x, residual, qkv = torch.randn(6, 64), torch.randn(6, 64), torch.randn(6, 8, 32)
    want = (*ops.add_rms_norm(x, residual, weight), *ops.rope_qk(qkv[:, :4], qkv[:, 4:6], *angles), qkv[:, 6:])
    x, residual, qkv = run(block)
    for g, w in zip((x, residual, qkv[:, :4], qkv[:, 4:6], qkv[:, 6:]), want):
        assert torch.equal(g, w)


def test_they_are_the_functions_of_tilewright():
    x, residual, weight = torch.randn(4, 64), torch.randn(4, 64), torch.randn(64)
    assert_same(ops.add_rms_norm(x, residual, weight), tilewright.rms_norm(x, weight, residual=residual))
    assert_same(ops.layer_norm(x, weight), tilewright.layer_norm(x, weight))
    assert_same(ops.quantize(x), tilewright.quantize(x))
    assert_same(ops.act_and_mul_quantize(x), tilewright.act_and_mul(x, quant="row"))
    assert_same(ops.softmax(x, log=True), tilewright.softmax(x, log=True))
    heads = x.reshape(4, 2, 32)
    assert_same(ops.rope(heads, *tables(4, 32)), tilewright.rope(heads, *tables(4, 32)))
    scale = torch.tensor([0.1])
    want = tilewright.rms_norm(x, weight, residual=residual, quant="tensor", scale=scale, out_dtype=torch.int8)
    assert_same(ops.add_rms_norm(x, residual, weight, scale=scale, out_dtype=torch.int8), want)


def test_results_do_not_follow_the_strides_of_what_is_read():
    x = torch.randn(3, 5, 128).transpose(0, 1)
    for op in (ops.rms_norm, ops.act_and_mul, ops.quantize, ops.rms_norm_quantize):
        torch.library.opcheck(op.default, (x,))
    q = torch.randn(2, 3, 7, 32).transpose(1, 2)
    torch.library.opcheck(ops.rope.default, (q, *tables(7, 32)))


def test_one_graph_serves_every_number_of_rows():
    weight = torch.randn(64)
    cos, sin = tables(32, 32)

    def block(x):
        y, total = ops.add_rms_norm(x, x * 2, weight)
        codes, scale = ops.quantize(y, out_dtype=torch.int8)
        turned = ops.rope(ops.layer_norm(codes * scale).unflatten(-1, (2, 32)), cos, sin)
        return ops.act_and_mul(torch.cat((turned.flatten(1), total), -1))

    function = compiled(block, dynamic=True)
    for rows in (3, 5, 17):
        x = torch.randn(rows, 64)
        assert torch.equal(function(x), block(x))


# ---- Gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_the_gradient_of_rope_is_that_of_its_formula(interleaved, inverse):
    cos, sin = tables(9, 24)
    positions = torch.randint(0, 9, (2, 5), dtype=torch.int32)
    c, s = cos[positions.long()][:, :, None].double(), sin[positions.long()][:, :, None].double()
    s = -s if inverse else s

    def formula(x):
        turning, rest = x.double()[..., :24], x.double()[..., 24:]
        a, b = (turning[..., ::2], turning[..., 1::2]) if interleaved else turning.chunk(2, -1)
        first, second = a * c - b * s, b * c + a * s
        both = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
        return torch.cat((both, rest), -1)

    options = {"positions": positions, "interleaved": interleaved, "inverse": inverse}

    def loss_of(function, q, k):
        turned_q, turned_k = function(q, k)
        return (turned_q.double() ** 3).sum() + (turned_k.double() ** 3).sum()

    def operator(q, k):
        return ops.rope_qk(q, k, cos, sin, **options)

    q, k = torch.randn(2, 5, 4, 32), torch.randn(2, 5, 3, 32)
    wanted = [t.clone().requires_grad_() for t in (q, k)]
    loss_of(lambda q, k: (formula(q), formula(k)), *wanted).backward()
    for function in (operator, compiled(operator)):
        got = [t.clone().requires_grad_() for t in (q, k)]
        loss_of(function, *got).backward()
        for g, w in zip(got, wanted):
            torch.testing.assert_close(g.grad, w.grad, rtol=1e-5, atol=1e-5)
    # Of one tensor; and of a sum, whose gradient has strides of 0.
    alone = q.clone().requires_grad_()
    ops.rope(alone, cos, sin, **options).sum().backward()
    want = q.clone().requires_grad_()
    formula(want).sum().backward()
    torch.testing.assert_close(alone.grad, want.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", list(cases()))
def test_cpus_take_programmatic_edges_as_plain_ones(case):
    op, arguments, options = cases()[case]
    edged = as_list(op(*arguments, **options, programmatic_edge=True))
    for got, want in zip(edged, as_list(op(*arguments, **options)), strict=True):
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def test_rope_has_second_gradients():
    q = torch.randn(3, 2, 16, requires_grad=True)
    (grad,) = torch.autograd.grad((ops.rope(q, *tables(3, 16)) ** 4).sum(), q, create_graph=True)
    grad.sum().backward()
    twin = q.detach().clone().requires_grad_()
    # Squares of pairs stay: a rotation keeps them, so the fourth powers are all that depends on the angle.
    cos, sin = (t[:, None] for t in tables(3, 16))
    a, b = twin.chunk(2, -1)
    turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    (want,) = torch.autograd.grad((turned**4).sum(), twin, create_graph=True)
    want.sum().backward()
    torch.testing.assert_close(q.grad, twin.grad, rtol=1e-4, atol=1e-4)


def test_tables_of_rope_have_no_gradient():
    cos, sin = tables(3, 16)
    with pytest.raises(tilewright.InvalidArgument, match="rope: argument 'cos' requires grad"):
        ops.rope(torch.randn(3, 2, 16), cos.requires_grad_(), sin)


def records(case):
    """Whether it has a gradient; norms and activations have none of what is smoothed or scaled."""
    named = ("rms_norm", "add_rms_norm", "layer_norm", "add_layer_norm", "act_and_mul")
    plain = not {"smooth", "scale"} & cases()[case][2].keys()
    return case.startswith(("rope", "transpose", "group_norm")) or (case.split("-")[0] in named and plain)


@pytest.mark.parametrize("case", [case for case in cases() if not records(case)])
def test_gradients_are_refused_not_lost(case):
    op, arguments, options = cases()[case]
    name = str(op).rsplit(".", 1)[-1]
    next(a for a in arguments if a.is_floating_point()).requires_grad_()
    with pytest.raises(tilewright.InvalidArgument, match=f"^{name}: an argument requires grad"):
        op(*arguments, **options)
    with torch.no_grad():
        assert not any(result.requires_grad for result in as_list(op(*arguments, **options)))


def test_given_results_record_no_gradient():
    q, out = torch.randn(3, 2, 16, requires_grad=True), torch.empty(3, 2, 16)
    with pytest.raises(tilewright.InvalidArgument, match="rope: an argument requires grad"):
        ops.rope.into(q, *tables(3, 16), q_out=out)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.rms_norm_quantize(x, quant="tensor"), "rms_norm_quantize: argument 'quant' is 'tensor'"),
        (lambda x: ops.act_and_mul_quantize(x, quant="none"), "argument 'quant' is 'none', allowed: row, group"),
        (lambda x: ops.act_and_mul(x, "gellu"), "'activation' is gellu"),
        (lambda x: ops.rms_norm(x, torch.ones(3)), "'weight'"),
        (lambda x: ops.add_layer_norm(x, x[:1]), "'residual'"),
        (lambda x: ops.quantize(x, out_dtype=torch.float64), "float64"),
    ],
)
def test_refusals_name_the_argument(call, message):
    with pytest.raises(tilewright.Error, match=message):
        call(torch.randn(2, 64))
