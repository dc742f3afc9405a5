"""Every fact is asserted on each runtime at hand: the virtual card, and a GPU where there is one.

``python -m pytest tests/cuda`` takes what this machine has; with ``--runtime real`` it takes the GPU, or that is an error.
"""

import pytest
import torch

import gpulab.cuda

HAS_GPU = torch.cuda.is_available()


def pytest_addoption(parser):
    parser.addoption("--runtime", choices=["virtual", "real", "all"], default="all")
    parser.addoption("--only-that-runtime", action="store_true", help="leave out what no runtime is asked for")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--only-that-runtime", False):
        kept = [item for item in items if "cuda" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_generate_tests(metafunc):
    if "cuda" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--runtime", "all")
        at_hand = ["virtual", "real"] if HAS_GPU else ["virtual"]
        runtimes = at_hand if wanted == "all" else [wanted]
        metafunc.parametrize("cuda", runtimes, indirect=True)


@pytest.fixture
def cuda(request):
    """The runtime that ``device="cuda"`` means in this test."""
    with gpulab.cuda.use(request.param, quiet=True) as runtime:
        torch.cuda.set_stream(torch.cuda.default_stream())  # a capture that failed leaves its own
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        yield runtime
        torch.cuda.synchronize()


@pytest.fixture
def virtual():
    """The virtual H100, for what is modelled and no GPU could be asked."""
    with gpulab.cuda.use("virtual:H100", quiet=True) as runtime:
        yield runtime


@pytest.fixture
def no_tf32(monkeypatch):
    """cuDNN rounds the factors of float32 convolutions and recurrent layers to TF32 unless told otherwise."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
