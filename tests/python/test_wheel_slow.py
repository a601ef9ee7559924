# SPDX-License-Identifier: MIT
"""`pip install .` makes a wheel that works alone: built from the sources, unpacked elsewhere, run without the build."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BINARY_DIR = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    for module in ("pip", "scikit_build_core", "nanobind"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    target = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    if "TILEWRIGHT_TEST_CXX" in os.environ:
        environment["CXX"] = os.environ["TILEWRIGHT_TEST_CXX"]
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--target", str(target), f"--config-settings=build-dir={BINARY_DIR / 'wheel'}", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return target


def run_python(installed, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd=installed
    )


def test_the_installed_package_holds_types_and_one_extension(installed):
    names = {path.name for path in (installed / "tilewright").iterdir()}
    assert {"__init__.py", "_core.pyi", "py.typed"} <= names
    assert (installed / "tilewright" / "torch" / "__init__.py").is_file()
    assert len([name for name in names if name.endswith(".so")]) == 1
    done = run_python(installed, "-c", "import tilewright; print(tilewright.__file__, tilewright.__version__)")
    assert done.stdout.startswith(str(installed)), done.stderr


def test_the_installed_bench_knows_the_models(installed):
    done = run_python(installed, "-m", "tilewright.bench", "--list-models")
    assert "Llama-3.1-8B" in done.stdout.splitlines(), done.stderr


def test_the_extension_links_only_the_runtime(installed):
    if shutil.which("readelf") is None:
        pytest.skip("readelf not found")
    (extension,) = (installed / "tilewright").glob("*.so")
    listing = subprocess.run(["readelf", "-dW", extension], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in listing.splitlines() if "(NEEDED)" in line]
    runtime = ("libstdc++.so", "libgcc_s.so", "libm.so", "libc.so", "libdl.so", "libpthread.so", "ld-linux")
    assert [name for name in needed if not name.startswith(runtime)] == []
    assert "RUNPATH" not in listing


@pytest.mark.parametrize("example", sorted((ROOT / "examples" / "python").glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_run_with_the_installed_package(installed, example):
    done = run_python(installed, example)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("ok\n")
