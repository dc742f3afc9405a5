"""The scenarios' own look at launches: what the interpreter handed over, and nothing else."""

from dataclasses import replace

import torch

from autograder.runner.kernels_ran import kernels_ran
from gpulab import observe
from gpulab.kernels import cuda
from gpulab.kernels.simt import launcher, requests
from gpulab.observe import device


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def watched(function):
    with kernels_ran() as ran, observe() as seen:
        function()
    return ran.problem(seen)


def test_an_honest_launch_is_believed():
    assert watched(lambda: double[2, 32](torch.ones(40))) == ""


def test_no_launch_is_believed_too():
    assert watched(lambda: None) == ""


def test_a_record_without_a_launch_is_not_believed():
    with observe() as seen:
        double[2, 32](torch.ones(40))
    assert "not that of the kernels" in watched(lambda: device.record_launch(seen.launches[0]))


def test_a_record_replaced_inside_is_not_believed():
    def patched():
        record = launcher.record_launch
        launcher.record_launch = lambda launch, *rest, **named: record(replace(launch, lines=()), *rest, **named)
        double[2, 32](torch.ones(40))

    assert watched(patched) == "record_launch is not gpulab's own"
    assert launcher.record_launch is device.record_launch


def test_an_instrument_replaced_before_is_not_believed(monkeypatch):
    monkeypatch.setattr(requests, "sectors", lambda addresses, warps: (0, 0))
    assert watched(lambda: double[2, 32](torch.ones(40))) == "sectors is not gpulab's own"
