"""Docstrings list every argument of the public names, and the reference of the package shows these names."""

import re
import sys
import warnings
from functools import cached_property
from pathlib import Path

import pytest
from pdoc import doc

import slipstream as ss

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import reference

SECTION = re.compile(r"^(?:Arguments.*|Attributes):\n((?:\n|    .*\n?)+)", re.MULTILINE)
ITEM = re.compile(r"^    (\w+(?:, \w+)*)(?: \(.*\))?: ", re.MULTILINE)


def is_public(member):
    return not member.name.startswith("_") or member.name in ("__call__", "__getitem__")


def public_objects():
    """Public classes and functions, and the methods and properties of these classes."""
    for module in map(doc.Module.from_name, ("slipstream", "slipstream.transforms")):
        for each in [*module.classes, *module.functions]:
            yield each
            for member in filter(is_public, each.own_members if isinstance(each, doc.Class) else ()):
                is_property = isinstance(vars(each.obj).get(member.name), property | cached_property)
                if isinstance(member, doc.Function) or is_property and not each.obj.__module__.endswith("._native"):
                    yield member


def expected_names(of):
    if isinstance(of, doc.Class) and "\nAttributes:" in of.docstring:
        return [each.name for each in of.instance_variables if is_public(each) and not each.docstring]
    if isinstance(of, doc.Class):
        of = next((each for each in of.own_members if each.name == "__init__"), None)
    return [name for name in of.signature.parameters if name != "self"] if isinstance(of, doc.Function) else []


OBJECTS = {each.fullname: each for each in public_objects()}


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_lists_arguments_or_attributes(name):
    docstring = OBJECTS[name].docstring
    assert docstring
    listed = [each for items in ITEM.findall("".join(SECTION.findall(docstring))) for each in items.split(", ")]
    assert sorted(listed) == sorted(expected_names(OBJECTS[name]))


def test_reference_shows_public_names_without_warnings(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference.write(tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert files == {"index.html", "slipstream.html", "slipstream/transforms.html"}
    page = (tmp_path / "slipstream.html").read_text(encoding="utf-8")
    assert {*re.findall(r'<section id="(\w+)"', page)} == {*ss.__all__} - {"transforms"}
    assert "<strong>early_stop (int, default None):</strong>" in page
    assert 'id="Stage.__call__"' in page and 'id="Advice.__init__"' not in page
