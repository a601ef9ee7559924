# SPDX-License-Identifier: MIT
"""The types in the package are those of the module: names, parameters, defaults; and mypy accepts the examples."""

import ast
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tilewright
from tilewright import _core

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
PACKAGE = pathlib.Path(tilewright.__file__).parent
STUB = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))


def typed_dict_names(name):
    """Keys of a TypedDict of the stub, its bases' first."""
    definition = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name)
    inherited = [key for base in definition.bases if base.id != "TypedDict" for key in typed_dict_names(base.id)]
    return inherited + [node.target.id for node in definition.body if isinstance(node, ast.AnnAssign)]


def parameters_of(function):
    """[(name, kind, has a default)] of a definition in the stub; **options: Unpack[T] stands for the keys of T."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found = [(arg.arg, "positional", i >= first_default) for i, arg in enumerate(positional)]
    found += [
        (arg.arg, "keyword", value is not None) for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    unpacked = arguments.kwarg and getattr(arguments.kwarg.annotation, "slice", None)
    if unpacked:
        found += [(name, "keyword", True) for name in typed_dict_names(unpacked.id)]
    return [entry for entry in found if entry[0] != "self"]


def runtime_parameters(function):
    """The same of a function of the module; nanobind's have a signature as text."""
    text = getattr(function, "__nb_signature__", None)
    if text is not None:
        declaration = text[0][0].replace("\\", "default_").replace("tilewright._core.", "")
        return parameters_of(ast.parse(declaration + ": ...").body[0])
    kinds = {"KEYWORD_ONLY": "keyword"}
    return [
        (p.name, kinds.get(p.kind.name, "positional"), p.default is not p.empty)
        for p in inspect.signature(function).parameters.values()
    ]


def is_overload(definition):
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in definition.decorator_list)


FUNCTIONS = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]
CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


@pytest.mark.parametrize("definition", FUNCTIONS, ids=lambda node: node.name)
def test_a_function_of_the_stub_has_the_parameters_of_the_module(definition):
    stub, module = parameters_of(definition), runtime_parameters(getattr(_core, definition.name))
    if is_overload(definition):  # one of them asks for `out`
        stub = [(name, kind, True if name == "out" else default) for name, kind, default in stub]
    assert stub == module


def test_the_page_describes_every_keyword_in_the_order_of_the_signature():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = page.split("| keyword | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    described = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert described == list(inspect.signature(tilewright.gemm).parameters)[2:]


def test_every_name_of_the_module_stands_in_the_stub_and_the_other_way_round():
    stub = {node.name for node in [*FUNCTIONS, *CLASSES]}
    assert stub == {name for name in dir(_core) if not name.startswith("_")}
    assert set(tilewright.__all__) <= stub | {"Error", "InvalidArgument"}


@pytest.mark.parametrize("definition", CLASSES, ids=lambda node: node.name)
def test_a_class_of_the_stub_has_the_members_of_the_module(definition):
    kind = getattr(_core, definition.name)
    members = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert {name for name in members if not name.startswith("_")} == public
    for name, node in members.items():
        if name in public and callable(getattr(kind, name)):
            assert parameters_of(node) == runtime_parameters(getattr(kind, name)), name


MYPY_SETTINGS = """
[mypy]
strict = True
disallow_subclassing_any = False
[mypy-torch.*,jax.*,tilewright.torch.*]
follow_imports = skip
ignore_missing_imports = True
[mypy-tilewright.*]
follow_imports = silent
"""


def run_mypy(tmp_path, *files):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    settings = tmp_path / "mypy.ini"
    settings.write_text(MYPY_SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", *files]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)


def test_mypy_accepts_the_examples_and_finds_a_wrong_call(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import numpy as np\n"
        "import tilewright\n"
        "a = np.ones((2, 2), np.float32)\n"
        "good: np.ndarray[tuple[int, int], np.dtype[np.float32]] = tilewright.gemm(a, a, activation='gelu')\n"
        "tilewright.gemm(a, a, activation='gellu')\n"
        "tilewright.gemm(a, a, biass=a)\n"
        "tilewright.gemm(a)\n"
    )
    done = run_mypy(tmp_path, wrong, *sorted((ROOT / "examples" / "python").glob("*.py")))
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    found = {tuple(line.split(":")[:2]) for line in lines}
    assert found == {("wrong.py", "5"), ("wrong.py", "6"), ("wrong.py", "7")}, done.stdout[:2000] + done.stderr
