"""A pytest plugin: a test that uses the virtual card or an interpreter of kernels fails. What passes ran PyTorch itself."""

import pytest

from gpulab.cuda import runtime
from gpulab.kernels.simt.launcher import Configured
from gpulab.kernels.tiles.interpret import Run


@pytest.fixture(autouse=True)
def no_simulator(monkeypatch):
    choose = runtime._chosen
    monkeypatch.setattr(runtime, "_chosen", lambda kind, card: choose(kind, card) if kind == "off" else _fail())
    monkeypatch.setattr(Configured, "__call__", _fail)
    monkeypatch.setattr(Run, "__init__", _fail)


def _fail(*_, **__):
    raise AssertionError("a claim that is to run on PyTorch itself used a simulator of gpulab")
