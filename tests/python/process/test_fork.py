# SPDX-License-Identifier: MIT
"""Processes: a fork after use, multiprocessing by fork, by spawn and by a fork server."""

import multiprocessing
import subprocess
import sys
import warnings

import numpy as np
import pytest
import tilewright

SIZES = [(1, 48, 64), (17, 33, 65), (200, 256, 256)]  # the last one takes all units


def product(size):
    """What every process must find: the sum of a product of small integers, exact in float32."""
    m, n, k = size
    a = (np.arange(m * k) % 5 - 2).astype(np.float32).reshape(m, k)
    b = (np.arange(k * n) % 3 - 1).astype(np.float32).reshape(k, n)
    d = tilewright.gemm(a, tilewright.pack_weights(b))
    assert np.array_equal(d, a.astype(np.int64) @ b.astype(np.int64))
    return float(np.abs(d).sum())


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


FORK = (
    "import os, sys\n"
    "{prepare}"
    "def work():\n"
    "    for _ in range(2):\n"
    "{work}"
    "work()\n"
    "children = []\n"
    "for _ in range(2):\n"
    "    child = os.fork()\n"
    "    if child == 0:\n"
    "        try:\n"
    "            work()\n"
    "            grandchild = os.fork()\n"
    "            if grandchild == 0:\n"
    "                work()\n"
    "                os._exit(0)\n"
    "            os._exit(os.waitpid(grandchild, 0)[1])\n"
    "        except BaseException as error:\n"
    "            print(error, file=sys.stderr, flush=True)\n"
    "            os._exit(1)\n"
    "    children.append(child)\n"
    "work()\n"
    "assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]\n"
    "work()\n"
)


def test_children_and_their_children_call_after_a_fork():
    run_python(
        FORK.format(
            prepare="import numpy as np, tilewright\n"
            "a, b = np.ones((200, 256), np.float32), np.ones((256, 256), np.float32)\n"
            "packed = tilewright.pack_weights(b)\n",
            work="        assert (tilewright.gemm(a, packed) == 256).all()\n"
            "        assert (tilewright.gemm(a[:3], b) == 256).all()\n",
        )
    )


def test_children_call_with_tensors_of_pytorch_whose_threads_did_not_come_along():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    run_python(
        FORK.format(
            prepare="import torch, tilewright\n"
            "torch.set_num_threads(2)\n"
            "a, b = torch.ones(200, 256), torch.ones(256, 256)\n"
            "assert (torch.mm(a, b) == 256).all()\n"
            "packed = tilewright.pack_weights(b)\n",
            # Nothing of PyTorch's own that takes its threads: those do not survive a fork.
            work="        d = tilewright.gemm(a, packed).numpy()\n"
            "        assert (d == 256).all() and (tilewright.gemm(a, b).numpy() == 256).all()\n",
        )
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes(method):
    want = [product(size) for size in SIZES]
    with warnings.catch_warnings():
        # Python 3.12 and later warn of every fork in a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(product, SIZES * 2) == want * 2


def test_packed_weights_go_to_another_process():
    b = np.arange(40, dtype=np.float32).reshape(8, 5)
    packed = tilewright.pack_weights(b)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(tilewright.gemm, (np.eye(8, dtype=np.float32), packed)), b)
