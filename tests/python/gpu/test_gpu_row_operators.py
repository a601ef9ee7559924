# SPDX-License-Identifier: MIT
"""Operators of torch.ops.tilewright that are no products, on CUDA tensors: the results of CPUs, torch.compile in one
graph, and CUDA graphs that are replayed on other data."""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch not found")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device for PyTorch", allow_module_level=True)

import tilewright  # noqa: E402
import tilewright.torch  # noqa: E402

# Cases that CPUs have, too.
from pytorch import test_torch_elementwise, test_torch_kv_cache, test_torch_row_operators  # noqa: E402

ops = torch.ops.tilewright
FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(11)
    torch.compiler.reset()


def loss_cases():
    logits, target = torch.randn(6, 1000), torch.randint(0, 1000, (6,))
    return {"cross_entropy": (ops.cross_entropy, (logits, target), {})}


def nvfp4_cases():
    return {} if FLOAT4 is None else {"quantize_nvfp4": (ops.quantize_nvfp4, (torch.randn(3, 64),), {})}


def cases(device):
    """Operators, arguments and options by name, of the same data on any device."""
    torch.manual_seed(11)
    made = {}
    for some in (
        test_torch_row_operators.cases,
        test_torch_elementwise.cases,
        test_torch_kv_cache.cases,
        loss_cases,
        nvfp4_cases,
    ):
        made.update(some())
    return {name: tuple(moved(part, device) for part in case) for name, case in made.items()}


def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (tuple, list)):
        return type(value)(moved(one, device) for one in value)
    if isinstance(value, dict):
        return {name: moved(one, device) for name, one in value.items()}
    return value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for one in value for t in tensors(one)] if isinstance(value, (tuple, list)) else []


def bits(value):
    return [t.detach().clone().contiguous().view(-1).view(torch.uint8) for t in tensors(value)]


def assert_same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert torch.equal(g, w)


def run(case, call=None):
    """What a call returns and what its arguments are then, as bits."""
    op, arguments, options = case
    result = (call or op)(*arguments, **options)
    return bits([result, arguments, options])


NAMES = list(cases("cpu"))
# Their results differ where two sums differ by a rounding; or are drawn, ids that a test of statistics belongs to.
CHOOSES = ("sample", "moe_routing", "top_k")


@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_cpus(name):
    op, arguments, options = cases("cuda")[name]
    got = tensors([op(*arguments, **options), arguments])
    op, arguments, options = cases("cpu")[name]
    want = tensors([op(*arguments, **options), arguments])
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.device.type == "cuda" and g.dtype == w.dtype and g.shape == w.shape
        if w.dtype == FLOAT4:
            g, w = g.view(torch.uint8), w.view(torch.uint8)
        if w.dtype == torch.uint8 or (name.startswith(CHOOSES) and not w.is_floating_point()):
            assert torch.equal(g.cpu(), w)
            continue
        narrow = w.dtype.itemsize == 1
        error = (g.cpu().double() - w.double()).abs()
        # One code of 8 bits, one rounding of 16, some of 32.
        allowed = 0.13 if narrow and w.is_floating_point() else {2: 2e-2}.get(w.dtype.itemsize, 1e-4)
        scale = w.double().abs().nan_to_num().clamp(min=1e-2 if not narrow else 1.0)
        bad = error > (1.0 if narrow and not w.is_floating_point() else allowed * scale)
        assert not bool(bad.any()), (name, float(error.max()))


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_call_is_one_graph_with_the_same_bits(name):
    op = cases("cuda")[name][0]
    compiled = torch.compile(lambda *a, **o: op(*a, **o), fullgraph=True, backend="aot_eager")
    assert_same(run(cases("cuda")[name], compiled), run(cases("cuda")[name]))


@pytest.mark.parametrize("name", NAMES)
def test_programmatic_edges_change_no_bit(name):
    op = cases("cuda")[name][0]
    edged = run(cases("cuda")[name], lambda *a, **o: op(*a, **o, programmatic_edge=True))
    assert_same(edged, run(cases("cuda")[name]))


def test_calls_with_programmatic_edges_read_what_the_one_in_front_wrote():
    x, residual = torch.randn(2, 24, 4096, device="cuda", dtype=torch.bfloat16).unbind()
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)

    def layer(edge):
        y, total = ops.add_rms_norm(x, residual, weight, programmatic_edge=edge)
        gated = ops.act_and_mul(y, programmatic_edge=edge)
        return y, total, gated, *ops.quantize(gated, "group", programmatic_edge=edge)

    layer(True)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(8):  # where its tensors lie again, too
            made = layer(True)
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert_same(bits(made), bits(layer(False)))


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_call_is_replayed_on_other_data(name):
    case = cases("cuda")[name]
    op, arguments, options = case
    start = [t.clone() for t in tensors([arguments, options])]
    op(*arguments, **options)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = op(*arguments, **options)

    def other(t, before):
        # Turned rows, numbers that stay what they may be.
        return before.flip(0) if t.dim() > 1 and t.is_floating_point() else before

    given = tensors([arguments, options])
    for t, before in zip(given, start):
        t.copy_(other(t, before))
    graph.replay()
    got = bits([result, arguments, options])
    for t, before in zip(given, start):
        t.copy_(other(t, before))
    assert_same(got, run(case))


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("rms_norm", lambda: (torch.randn(5, 64), torch.randn(64))),
        ("layer_norm", lambda: (torch.randn(5, 64), torch.randn(64), torch.randn(64))),
        ("act_and_mul", lambda: (torch.randn(5, 64),)),
        ("group_norm", lambda: (torch.randn(2, 6, 5, 4), 2, torch.randn(6), torch.randn(6))),
        ("rope", lambda: (torch.randn(2, 5, 4, 32), torch.randn(9, 16).cos(), torch.randn(9, 16).sin())),
        ("softmax", lambda: (torch.randn(5, 64),)),
    ],
)
def test_gradients_are_the_cpus_where_there_are_any(name, inputs):
    op = getattr(ops, name)
    first = inputs()
    results = []
    for device in ("cpu", "cuda"):
        given = [a.detach().to(device) if isinstance(a, torch.Tensor) else a for a in first]
        wanted = given[0].requires_grad_()
        try:
            out = op(*given)
        except tilewright.Error as refused:
            assert "gradient" in str(refused)
            results.append(None)
            continue
        out = out[0] if isinstance(out, tuple) else out
        torch.manual_seed(3)
        out.backward(torch.randn(out.shape).to(device))
        results.append(wanted.grad.cpu())
    if results[0] is None:
        assert results[1] is None
    else:
        assert (results[0] - results[1]).abs().max() <= 1e-4 * math.sqrt(results[0].numel())
