"""A chapter whose scenarios cannot be imported costs its kernels a message, and never their server."""

import importlib

import pytest

from autograder.sandbox import fork_server


@pytest.mark.parametrize("error", [ImportError("no Triton"), SyntaxError("typo"), RuntimeError("no such operator")])
def test_what_fails_at_import_is_left_to_the_kernel(monkeypatch, error):
    shared = []

    def fail(name):
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    monkeypatch.setattr(fork_server, "_share_all", lambda: shared.append(True))
    fork_server._import_scenarios("views")
    assert shared == [True]
