"""The examples in the package's docstrings give the results that they show."""

import doctest
import importlib

import pytest
import torch

import slipstream as ss

MODULES = ["_feature_cache", "_stages", "capture", "data", "datasets", "doctor", "pipeline", "trainer", "transforms", "watch"]
SHOWN = ["DataLoader", "DataLoader.state_dict", "Pipeline", "Stage", "Compose", "FeatureCache", "Trainer", "Transform.__call__",
         "Comparison", "DoctorReport", "capture", "doctor", "watch"]


def examples(module):
    found = doctest.DocTestFinder(exclude_empty=True).find(
        importlib.import_module(f"slipstream.{module}"), globs={"ss": ss, "torch": torch})
    return [each for each in found if each.examples]


@pytest.mark.parametrize("test", [each for module in MODULES for each in examples(module)], ids=lambda test: test.name)
def test_docstring_example_gives_shown_output(test, photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    said = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert not said, "".join(said)


def test_main_classes_have_docstring_examples():
    names = {each.name.split(".", 2)[2] for module in MODULES for each in examples(module)}
    assert not {*SHOWN} - names
