# SPDX-License-Identifier: MIT
"""tilewright.torch.Linear and GatedLinear: the functions of torch.nn.Linear, and its state_dict."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")

nn = torch.nn
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def no_grad():
    torch.manual_seed(17)
    with torch.no_grad():
        yield


def close(got, want):
    low = want.dtype != torch.float32
    torch.testing.assert_close(got, want, rtol=2e-2 if low else 1e-5, atol=2e-2 if low else 1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_is_torch_linear_with_an_activation(dtype, bias):
    layer = nn.Linear(48, 20, bias=bias).to(dtype)
    module = tt.Linear.from_linear(layer, "gelu")
    x = torch.randn(2, 3, 48).to(dtype)
    close(module(x), nn.functional.gelu(layer(x)))
    close(module(x[0, 0]), nn.functional.gelu(layer(x[0, 0])))
    assert torch.equal(module.weight, layer.weight)


def test_linear_takes_inputs_of_any_strides():
    layer = nn.Linear(24, 20)
    module = tt.Linear.from_linear(layer)
    base = torch.randn(48, 6, 5)
    for x in (
        base.permute(2, 1, 0)[..., ::2],
        base[:24].permute(1, 2, 0),
        torch.randn(7, 30)[:, 3:27],
        base[:24, 0, 0],
    ):
        close(module(x), layer(x))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gated_linear_is_two_layers_in_one(dtype, bias):
    gate, up = (nn.Linear(32, 24, bias=bias).to(dtype) for _ in range(2))
    module = tt.GatedLinear.from_linears(gate, up, "silu")
    x = torch.randn(5, 32).to(dtype)
    close(module(x), nn.functional.silu(gate(x)) * up(x))
    fused = nn.Linear(32, 48, bias=bias).to(dtype)
    fused.load_state_dict(module.state_dict())
    assert torch.equal(tt.GatedLinear.from_linear(fused, "silu")(x), module(x))


def test_a_state_dict_holds_plain_weights_under_the_keys_of_torch_linear():
    layer = nn.Linear(40, 24)
    module = tt.Linear(40, 24)
    assert str(module.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    x = torch.randn(3, 40)
    close(module(x), layer(x))
    state = module.state_dict()
    assert {key: tuple(value.shape) for key, value in state.items()} == {"weight": (24, 40), "bias": (24,)}
    assert torch.equal(state["weight"], layer.weight)
    back = nn.Linear(40, 24)
    back.load_state_dict(state)
    assert torch.equal(back(x), layer(x))
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again = tt.Linear(40, 24)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(x), module(x))


def test_loading_says_what_is_missing_unexpected_or_of_the_wrong_shape():
    module = tt.Linear(8, 4)
    with pytest.raises(RuntimeError, match='Missing key.*"weight"'):
        module.load_state_dict({"bias": torch.zeros(4)})
    assert module.load_state_dict({"bias": torch.zeros(4)}, strict=False).missing_keys == ["weight"]
    with pytest.raises(RuntimeError, match='Unexpected key.*"packed"'):
        module.load_state_dict({"weight": torch.zeros(4, 8), "bias": torch.zeros(4), "packed": torch.zeros(3)})
    with pytest.raises(RuntimeError, match=r"expected \(4, 8\)"):
        module.load_state_dict({"weight": torch.zeros(8, 4), "bias": torch.zeros(4)})
    with pytest.raises(RuntimeError, match="While packing 'weight'"):
        module.load_state_dict({"weight": torch.zeros(4, 8, device="meta"), "bias": torch.zeros(4)})


def test_loading_converts_to_the_dtype_of_the_module_or_with_assign_takes_the_given_one():
    state = nn.Linear(8, 4).bfloat16().state_dict()
    module = tt.Linear(8, 4)
    module.load_state_dict(state)
    assert (module.dtype, module.weight.dtype, module.bias.dtype) == (torch.float32,) * 3
    module.load_state_dict(state, assign=True)
    assert (module.dtype, module.weight.dtype, module.bias.dtype) == (torch.bfloat16,) * 3


def test_to_changes_the_dtype_of_weights_that_are_packed():
    layer = nn.Linear(16, 8)
    module = tt.Linear.from_linear(layer)
    module.to(torch.bfloat16)
    layer.to(torch.bfloat16)
    assert torch.equal(module.weight, layer.weight)
    x = torch.randn(3, 16).bfloat16()
    close(module(x), layer(x))
    module.to("cpu")
    assert module.weight.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="float64, allowed: torch.float32"):
        module.double()


def test_a_module_on_the_meta_device_is_filled_by_loading():
    layer = nn.Linear(16, 8)
    with torch.device("meta"):
        module = tt.Linear(16, 8)
    assert module.packed.is_meta
    module = module.to_empty(device="cpu")
    module.load_state_dict(layer.state_dict())
    x = torch.randn(3, 16)
    close(module(x), layer(x))


def test_copies_and_pickles_are_whole_and_independent():
    module = tt.Linear.from_linear(nn.Linear(16, 8), ("clamp", -1, 1))
    x = torch.randn(3, 16)
    want = module(x)
    copied = copy.deepcopy(module)
    again = pickle.loads(pickle.dumps(module))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    module.set_weight(torch.zeros(8, 16))
    for one in (copied, again, loaded):
        assert torch.equal(one(x), want)
        assert repr(one) == repr(module)


def test_a_model_is_converted_layer_by_layer_and_its_checkpoints_stay_the_same():
    shared = nn.Linear(12, 12)
    model = nn.Sequential(
        nn.Linear(16, 12), nn.ReLU(), shared, nn.Sequential(shared, nn.Linear(12, 4)), nn.LayerNorm(4)
    )
    x = torch.randn(3, 16)
    want, keys = model(x), list(model.state_dict())
    state = {key: value.clone() for key, value in model.state_dict().items()}
    assert tt.convert(model, lambda name, layer: name != "3.1") is model
    assert [type(m) for m in (model[0], model[2], model[3][0], model[3][1])] == [tt.Linear] * 3 + [nn.Linear]
    assert model[2] is model[3][0]
    close(model(x), want)
    assert list(model.state_dict()) == keys
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    model.load_state_dict(state)
    close(model(x), want)
    assert type(tt.convert(nn.Linear(3, 2))) is tt.Linear


def test_every_name_of_a_tied_layer_is_converted_and_stays_tied():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    model = nn.Sequential(first, nn.ReLU(), first, nn.Sequential(second, first))
    x = torch.randn(3, 8)
    with torch.no_grad():
        want = model(x)
    chosen = []
    tt.convert(model, lambda name, layer: not chosen.append(name))
    assert sorted(chosen) == ["0", "2", "3.0", "3.1"]
    assert isinstance(model[0], tt.Linear) and isinstance(model[3][0], tt.Linear)
    assert model[0] is model[2] is model[3][1]
    torch.testing.assert_close(model(x), want)


@pytest.mark.parametrize("dynamic", [False, True])
def test_modules_compile_in_one_graph(dynamic):
    torch.compiler.reset()
    model = nn.Sequential(
        tt.GatedLinear.from_linears(nn.Linear(16, 12), nn.Linear(16, 12)),
        tt.Linear.from_linear(nn.Linear(12, 8), "relu"),
    )
    function = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for m in (1, 4, 7):
        x = torch.randn(m, 16)
        assert torch.equal(function(x), model(x))


def test_modules_are_exported():
    model = tt.Linear.from_linear(nn.Linear(16, 8), "tanh")
    x = torch.randn(4, 16)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))
