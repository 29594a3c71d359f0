"""The stub of the compiled module has exactly the names of the module."""

import ast
import inspect
from pathlib import Path

import pytest

from slipstream import _native

STUB = ast.parse((Path(__file__).resolve().parents[2] / "python" / "slipstream" / "_native.pyi").read_text("utf-8"))


def named(body):
    """Returns names and their nodes, except names that the stub imports."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return found


def own(names):
    return {name for name in names if not (name.startswith("__") and name.endswith("__"))}


CLASSES = {name: node for name, node in named(STUB.body).items() if isinstance(node, ast.ClassDef)}


def test_stub_lists_names_of_native_module():
    assert set(named(STUB.body)) == own(vars(_native))


@pytest.mark.parametrize("name", CLASSES)
def test_stub_lists_members_of_native_class(name):
    found, there = named(CLASSES[name].body), vars(getattr(_native, name))
    # These attributes are set by the Python package, on objects whose class allows that.
    put = {each for each, node in found.items() if isinstance(node, ast.AnnAssign) and "__dict__" in there}
    assert own(found) - own(there) <= put
    assert own(there) - own(found) <= {"_pybind11_conduit_v1_"}
    assert all(each in there for each in found if isinstance(found[each], ast.FunctionDef) and each != "__init__")


def test_stub_classes_and_functions_have_docstrings():
    nodes = [node for node in named(STUB.body).values() if not isinstance(node, ast.AnnAssign)]
    assert [node.name for node in nodes if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("name", [name for name in CLASSES if vars(getattr(_native, name))["__doc__"]])
def test_stub_docstring_equals_docstring_of_native_class(name):
    assert inspect.cleandoc(getattr(_native, name).__doc__) == ast.get_docstring(CLASSES[name])
