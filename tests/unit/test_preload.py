"""A chapter whose scenarios cannot be imported costs its kernels a message, and never who forks them."""

import importlib

import pytest

from autograder.core.preload import preload


@pytest.mark.parametrize("error", [ImportError("no Triton"), SyntaxError("typo"), RuntimeError("no such operator")])
def test_what_fails_at_import_is_left_to_the_kernel(monkeypatch, error):
    asked = []

    def fail(name):
        asked.append(name)
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    preload("views")
    assert asked
