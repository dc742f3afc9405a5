"""A pytest plugin: no virtual card, no interpreter. What passes under it has run the real thing."""

import pytest

from gpulab.cuda import runtime
from gpulab.kernels.simt.launcher import Configured
from gpulab.kernels.tiles.interpret import Run


@pytest.fixture(autouse=True)
def real_thing(monkeypatch):
    chosen = runtime._chosen
    monkeypatch.setattr(runtime, "_chosen", lambda kind, card: chosen(kind, card) if kind == "off" else _refused())
    monkeypatch.setattr(Configured, "__call__", _refused)
    monkeypatch.setattr(Run, "__init__", _refused)


def _refused(*_, **__):
    raise AssertionError("this is the model, and not the real thing")
