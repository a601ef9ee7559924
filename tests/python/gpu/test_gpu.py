# SPDX-License-Identifier: MIT
"""gemm of CUDA tensors: the tensors' device, torch's current stream, graphs and torch.compile."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch not found")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device for PyTorch", allow_module_level=True)

import tilewright  # noqa: E402
import tilewright.torch  # noqa: E402

DEVICES = [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def operands(m=64, n=96, k=128, device="cuda:0", dtype=torch.bfloat16):
    generator = torch.Generator(device).manual_seed(m * n + k)
    a = torch.randn(m, k, device=device, dtype=torch.float32, generator=generator).to(dtype)
    b = torch.randn(n, k, device=device, dtype=torch.float32, generator=generator).to(dtype).t()
    return a, b


def assert_product(d, a, b):
    expected = a.double() @ b.double()
    assert d.device == a.device and d.dtype == a.dtype
    error = (d.double() - expected).abs().max() / expected.abs().max()
    assert error < 1e-2, float(error)


@pytest.mark.parametrize("device", DEVICES)
def test_the_result_is_on_the_device_of_the_tensors(device):
    a, b = operands(device=device)
    with torch.cuda.device(0):  # whichever is current
        assert_product(tilewright.gemm(a, b), a, b)


@pytest.mark.skipif(len(DEVICES) < 2, reason="one CUDA device only")
def test_each_device_has_its_own_current_stream():
    for device in reversed(DEVICES):
        a, b = operands(256, 256, 4096, device=device)
        later = torch.zeros_like(a)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            later.copy_(a)  # behind the sleep: a call on another stream would read zeros
            with torch.cuda.device(0):  # the stream that counts is that of the tensors' device
                d = tilewright.gemm(later, b)
        stream.synchronize()
        assert_product(d, a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_out_is_written(dtype):
    a, b = operands(dtype=dtype)
    out = torch.full((64, 96), float("nan"), device="cuda:0", dtype=dtype)
    assert tilewright.gemm(a, b, out=out) is out
    assert_product(out, a, b)


def test_a_call_follows_the_current_stream():
    a, b = operands(256, 256, 4096)
    tilewright.prepare(a, b)
    later = torch.zeros_like(a)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        later.copy_(a)  # behind the sleep: a call on another stream would read zeros
        d = tilewright.gemm(later, b)
    stream.synchronize()
    assert_product(d, a, b)


def test_a_captured_call_is_replayed_with_changed_data():
    a, b = operands()
    d = torch.empty(64, 96, device="cuda:0", dtype=a.dtype)
    tilewright.prepare(a, b, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.gemm(a, b, out=d)
    for scale in (1, -2):
        a.mul_(scale)
        graph.replay()
        torch.cuda.synchronize()
        assert_product(d, a, b)


def test_a_call_with_a_workspace_is_captured_on_another_stream_and_replayed_beside_ordinary_calls():
    a, b = operands(512, 1024, 4096)
    d, ordinary = (torch.empty(512, 1024, device="cuda:0", dtype=a.dtype) for _ in range(2))
    tilewright.prepare(a, b, out=d)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        tilewright.gemm(a, b, out=d)
    for scale in (1, -2, 0.5):
        a.mul_(scale)
        graph.replay()
        tilewright.gemm(a, b, out=ordinary)
        torch.cuda.synchronize()
        assert_product(d, a, b)
        assert_product(ordinary, a, b)


def test_a_problem_that_is_new_during_a_capture_is_captured_too():
    a, b = operands(48, 80, 144)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = tilewright.gemm(a, b)
    a.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert_product(d, a, b)


def test_threads_call_at_the_same_time():
    failures = []

    def work(index):
        try:
            a, b = operands(32 + index, 64, 96)
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    d = tilewright.gemm(a, b)
            torch.cuda.synchronize()
            assert_product(d, a, b)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_weights_on_a_gpu_are_not_packed():
    with pytest.raises(tilewright.InvalidArgument, match="argument 'b' is on cuda:0, allowed: cpu"):
        tilewright.pack_weights(operands()[1])


def test_tensors_on_two_devices_are_refused_with_both():
    a, b = operands()
    with pytest.raises(tilewright.InvalidArgument, match="cuda:0.*cpu|cpu.*cuda:0"):
        tilewright.gemm(a, b.cpu())


def test_the_torch_operator_runs_on_cuda_and_compiles():
    a, b = operands()
    op = torch.ops.tilewright.gemm
    assert_product(op(a, b), a, b)
    compiled = torch.compile(lambda x, y: op(x, y) + 1, fullgraph=True)
    assert_product((compiled(a, b) - 1).to(a.dtype), a, b)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])  # the latter captures CUDA graphs itself
def test_a_compiled_linear_layer_runs_as_one_graph(mode):
    plain = torch.nn.Linear(128, 96, device="cuda:0", dtype=torch.bfloat16).requires_grad_(False)

    @torch.compile(fullgraph=True, mode=mode)
    def run(x):
        return torch.relu(tilewright.torch.linear(x, plain.weight, plain.bias)) * 2

    for scale in (1, 2, 3):
        x = operands()[0] * scale
        expected = torch.relu(plain(x).float()) * 2
        with torch.no_grad():
            torch.testing.assert_close(run(x).float(), expected, rtol=3e-2, atol=3e-2 * scale)


def test_gradients_are_those_of_torch():
    a, b = operands(dtype=torch.float32)
    ours, theirs = a.clone().requires_grad_(), a.clone().requires_grad_()
    tilewright.torch.gemm(ours, b).sum().backward()
    (theirs @ b).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)


def test_devices_lists_the_gpus():
    names = [device["name"] for device in tilewright.devices()]
    assert names[0] == "cpu" and set(DEVICES) <= set(names)
