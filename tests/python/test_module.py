# SPDX-License-Identifier: MIT
"""The package itself: quiet and lazy at import, introspection."""

import gc
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import reference
import tilewright


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )


def test_import_loads_no_framework_starts_no_thread_and_prints_nothing():
    done = run_python(
        "import sys, threading, os\n"
        "import tilewright\n"
        "loaded = {'torch', 'jax', 'numpy', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_call_prints_nothing_and_leaks_nothing_at_exit():
    done = run_python(
        "import numpy as np, tilewright\n"
        "a = np.ones((4, 4), np.float32)\n"
        "packed = tilewright.pack_weights(a)\n"
        "tilewright.gemm(a, packed)\n"
        "tilewright.query(a, packed)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_gpus_behind_hip_are_listed():
    library = os.path.join(os.environ.get("TILEWRIGHT_BINARY_DIR", "build"), "tests", "libfake_hip.so")
    if not os.path.exists(library):
        pytest.skip("the fake HIP library is not built")
    done = run_python(
        "import tilewright\n"
        "print([(d['name'], d['target'], d['part']) for d in tilewright.devices() if d['name'].startswith('hip')])\n",
        TILEWRIGHT_HIP_DRIVER=library,
        FAKE_HIP_TARGET="gfx1201",
        FAKE_HIP_DEVICES="1",
    )
    assert (done.stdout, done.stderr) == ("[('hip:0', 'gfx1201', 'rx_9070_xt')]\n", "")


def test_version_is_one_and_typed():
    assert re.fullmatch(r"\d+\.\d+\.\d+", tilewright.__version__)
    assert tilewright.version() == tilewright.__version__
    folder = os.path.dirname(tilewright.__file__)
    assert {"py.typed", "_core.pyi"} <= set(os.listdir(folder))


def test_the_extension_shows_the_function_that_loads_it_and_nothing_else():
    if shutil.which("nm") is None:
        pytest.skip("nm not found")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", tilewright._core.__file__], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in listing.stdout.splitlines()] == ["PyInit__core"]


def test_calls_and_refusals_keep_no_reference():
    a, b, out, bias = (np.ones(shape, np.float32) for shape in ((3, 8), (8, 5), (3, 5), (5,)))
    packed, step = tilewright.pack_weights(b), ("mul", bias)
    objects = [a, b, out, bias, packed, step, np.float16, None]

    def use():
        tilewright.gemm(a, b, bias=bias, steps=[step], out=out)
        tilewright.gemm(a, packed, out_dtype=np.float16, scale_a=2.0)
        tilewright.linear(a, b.T, bias, "gelu", units=1)
        tilewright.query(a, packed, bias=bias)
        for wrong in (dict(out=a), dict(steps=[("sub", bias)]), dict(biass=bias), dict(bias=a), dict(units=-1)):
            with pytest.raises((tilewright.Error, TypeError)):
                tilewright.gemm(a, b, **wrong)

    use()
    gc.collect()  # what tests before this one left refers to None, too
    before = [sys.getrefcount(x) for x in objects]
    for _ in range(50):
        use()
    after = [sys.getrefcount(x) for x in objects]
    # Others may come to use None and float16 meanwhile, but not fifty times.
    assert all(abs(x - y) < 40 for x, y in zip(before, after)), (before, after)


def test_devices_counters_and_digest():
    (cpu,) = tilewright.devices()
    assert all(node["cpus"] and node["memory_bytes"] >= 0 for node in cpu["nodes"])
    assert cpu["name"] == "cpu"
    assert cpu["units"] >= 1
    before = tilewright.counters()
    a = np.ones((2, 3), np.float32)
    tilewright.gemm(a, a.T)
    tilewright.gemm(a, a.T)
    after = tilewright.counters()
    assert after["calls"] - before["calls"] == 2
    assert after["plan_hits"] > before["plan_hits"]
    assert tilewright.tables_digest() == tilewright.tables_digest()


def test_query_prepare_and_explain_tell_what_gemm_does():
    a, b = np.ones((19, 64), np.float32), np.ones((64, 23), np.float32)
    result = tilewright.query(a, b, bias=np.ones(23, np.float32), activation="gelu")
    assert result.source in ("forced", "tuned", "bucket", "cost", "generic")
    assert result.recipe
    assert result.workspace_bytes >= 0
    assert tilewright.prepare(a, b) is None
    before = tilewright.counters()
    tilewright.gemm(a, b)
    assert tilewright.counters()["plan_misses"] == before["plan_misses"]
    text = tilewright.explain(a, b)
    assert result.recipe.split("{")[0].split("/")[0] in text
    forced = tilewright.query(a, b, recipe=tilewright.query(a, b).recipe)
    assert forced.source == "forced"
    reference.check(tilewright.gemm(a, b, recipe=forced.recipe), a, b)
