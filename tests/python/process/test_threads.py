# SPDX-License-Identifier: MIT
"""Threads: many that call, the interpreter lock, the pool's workers, and PyTorch's OpenMP threads."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import reference
import tilewright

UNITS = tilewright.devices()[0]["units"]
needs_two_cores = pytest.mark.skipif(UNITS < 2, reason="one core: tilewright starts no thread")


def run_python(code, **environment):
    """In a process of its own, whose threads are those of the code alone."""
    prologue = (
        "import os, time, pathlib\n"
        "def names():\n"
        "    tasks = [pathlib.Path('/proc/self/task', task, 'comm') for task in os.listdir('/proc/self/task')]\n"
        "    return [task.read_text().strip() for task in tasks]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prologue + code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_many_threads_call_at_once():
    rng = np.random.default_rng(1)
    problems = []
    for i in range(8):
        m, n, k = 1 + 7 * i, 40 + i, 30 + 3 * i
        a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
        problems.append((a, b, tilewright.pack_weights(b)))
    errors = []

    def work(seed):
        try:
            for i in range(30):
                a, b, packed = problems[(seed + i) % len(problems)]
                reference.check(tilewright.gemm(a, packed if i % 2 else b), a, b)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


FIRST_CALLS = (
    "import sys, threading\n"
    "import {framework} as f, tilewright\n"
    "sys.setswitchinterval(1e-6)\n"
    "a, b, bias = f.ones((3, 8), dtype=f.float32), f.ones((8, 5), dtype=f.float32), f.ones(5, dtype=f.float32)\n"
    "gate, found, errors = threading.Barrier(16), [], []\n"
    "def work(i):\n"
    "    try:\n"
    "        gate.wait()\n"
    "        d = tilewright.gemm(a, b, bias=bias, out_dtype=(f.float16, 'f32', f.float32)[i % 3], activation='relu')\n"
    "        found.append((d == 9).all())\n"
    "    except BaseException as error: errors.append(error)\n"
    "threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]\n"
    "for thread in threads: thread.start()\n"
    "for thread in threads: thread.join()\n"
    "assert not errors and len(found) == 16 and all(found), errors\n"
)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_first_calls_of_many_threads_do_not_wait_for_each_other_for_ever(framework):
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    for _ in range(1 if framework == "torch" else 4):
        run_python(FIRST_CALLS.format(framework=framework))


def steps_of_another_thread(call):
    """How far another thread comes while `call` runs, if nobody asks for the interpreter lock to be given away."""
    counted = 0
    stop = False

    def count():
        nonlocal counted
        while not stop:
            counted += 1
            time.sleep(0)  # gives the interpreter lock back

    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        thread.start()
        before = counted
        call()
        return counted - before
    finally:
        stop = True
        thread.join()
        sys.setswitchinterval(interval)


def test_the_interpreter_runs_while_a_kernel_does():
    a, b = np.ones((700, 700), np.float32), np.ones((700, 700), np.float32)
    tilewright.prepare(a, b, units=1)
    # Again until the other thread has come to run: on a busy machine it may get no core for the milliseconds of a call.
    assert any(steps_of_another_thread(lambda: tilewright.gemm(a, b, units=1)) for _ in range(500))


def test_a_small_product_that_was_seen_keeps_the_interpreter():
    a, b, out = np.ones((4, 64), np.float32), np.ones((64, 64), np.float32), np.empty((4, 64), np.float32)
    call, keywords = tilewright.gemm, {"out": out, "units": 1}
    call(a, b, **keywords)
    assert steps_of_another_thread(lambda: [call(a, b, **keywords) for _ in range(200)]) == 0


def test_the_interpreter_runs_while_a_small_product_is_compiled(tmp_path):
    run_python(
        "import sys, threading, time, numpy as np, tilewright\n"
        "shapes = [(1, 64, 64), (16, 48, 64), (4, 40, 72), (33, 33, 33), (8, 80, 96)]\n"
        "def made(m, n, k): return np.ones((m, k), np.float32), tilewright.pack_weights(np.ones((k, n), np.float32))\n"
        "new = [pair for pair in (made(*shape) for shape in shapes) if not tilewright.query(*pair).built]\n"
        "if not new: sys.exit(0)\n"
        "counted, stop = 0, False\n"
        "def count():\n"
        "    global counted\n"
        "    while not stop:\n"
        "        counted += 1\n"
        "        time.sleep(0)\n"
        "thread = threading.Thread(target=count)\n"
        "sys.setswitchinterval(60)\n"
        "thread.start()\n"
        "before = counted\n"
        "tilewright.gemm(*new[0])\n"
        "after, stop = counted, True\n"
        "thread.join()\n"
        "assert after > before, tilewright.query(*new[0])\n",
        TILEWRIGHT_CACHE_DIR=str(tmp_path),
    )


@needs_two_cores
def test_workers_that_have_nothing_to_do_sleep():
    run_python(
        "import numpy as np, tilewright\n"
        "a, b = np.ones((256, 512), np.float32), np.ones((512, 512), np.float32)\n"
        "for _ in range(20): tilewright.gemm(a, b)\n"
        "assert 'tilewright' in names(), names()\n"
        "def ticks():\n"
        "    total = 0\n"
        "    for task in os.listdir('/proc/self/task'):\n"
        "        fields = pathlib.Path('/proc/self/task', task, 'stat').read_text().rsplit(')', 1)[1].split()\n"
        "        if pathlib.Path('/proc/self/task', task, 'comm').read_text().strip() == 'tilewright':\n"
        "            assert fields[0] == 'S', fields[0]\n"
        "            total += int(fields[11]) + int(fields[12])\n"
        "    return total\n"
        "time.sleep(0.3)\n"
        "before = ticks()\n"
        "time.sleep(0.5)\n"
        "assert ticks() == before, 'a worker used the CPU while it had nothing to do'\n"
    )


TORCH_CODE = (
    "import torch, tilewright\n"
    "torch.set_num_threads({threads})\n"
    "a, b = torch.randn(256, 512), torch.randn(512, 512)\n"
    "def call():\n"
    "    d = tilewright.gemm(a, b)\n"
    "    assert torch.allclose(d, torch.mm(a, b), rtol=1e-4, atol=1e-3)\n"
    "{body}"
)


def run_torch(body, threads=2, **environment):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    return run_python(TORCH_CODE.format(threads=threads, body=body), **environment)


@needs_two_cores
def test_tensors_of_pytorch_run_on_its_threads_and_those_of_numpy_on_the_pool():
    body = (
        "torch.mm(a, b)\n"
        "call()\n"
        "assert 'tilewright' not in names(), names()\n"
        "tilewright.gemm(a.numpy(), b.numpy())\n"
        "assert 'tilewright' in names(), names()\n"
    )
    if "OpenMP" not in run_torch("print(torch.__config__.parallel_info())"):
        pytest.skip("this PyTorch has no OpenMP")
    run_torch(body)


@needs_two_cores
def test_the_pool_serves_pytorch_when_openmp_is_switched_off():
    run_torch("call(); assert 'tilewright' in names(), names()\n", TILEWRIGHT_OPENMP="off")


@needs_two_cores
def test_the_pool_serves_pytorch_while_its_workers_come_late():
    # Two threads on one core: when the caller has done its share, the worker has yet to be scheduled.
    run_torch(
        "torch.mm(a, b)\n"
        "call()\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "for task in os.listdir('/proc/self/task'): os.sched_setaffinity(int(task), os.sched_getaffinity(0))\n"
        "end = time.monotonic() + 60\n"
        "while 'tilewright' not in names():\n"
        "    d = tilewright.gemm(a, b)\n"
        "    assert time.monotonic() < end, 'no worker came late'\n"
        "call()\n"
    )


def test_one_thread_of_pytorch_is_one_thread_of_tilewright():
    run_torch("before = len(names()); call(); assert len(names()) == before, names()\n", threads=1)


def test_threads_that_call_with_tensors_of_pytorch_at_once():
    run_torch(
        "import threading\n"
        "errors = []\n"
        "def work():\n"
        "    try:\n"
        "        for _ in range(20): call()\n"
        "    except BaseException as error: errors.append(error)\n"
        "threads = [threading.Thread(target=work) for _ in range(6)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert not errors, errors\n"
    )
