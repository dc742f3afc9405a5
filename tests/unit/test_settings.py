"""Hidden tests run under the settings of a fresh notebook, and leave the learner's as they were."""

import numpy as np
import pytest
import torch

import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.core.settings import fresh_settings
from autograder.judge.referee import judge_here
from autograder.protocol import wire
from autograder.runner.scenario_runner import run_case


def settings() -> tuple:
    return (
        torch.get_default_dtype(),
        torch.get_default_device().type,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_anomaly_enabled(),
        np.geterr(),
    )


FRESH = settings()


@pytest.fixture
def odd():
    """A notebook in which everything has been switched."""
    with gpulab.cuda.use("virtual:A10", quiet=True), np.errstate(all="raise"), torch.autograd.set_detect_anomaly(True):
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cuda")
        try:
            with torch.inference_mode(), torch.no_grad():
                yield settings()
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float32)


def test_inside_they_are_the_defaults_and_afterwards_the_learners(odd):
    assert odd != FRESH
    with fresh_settings():
        assert settings() == FRESH
    assert settings() == odd


def test_a_fresh_notebooks_are_left_alone():
    with fresh_settings():
        assert settings() == FRESH
    assert settings() == FRESH


def test_a_scenario_runs_under_them(odd):
    found = []
    name = "views.patchify"
    judge_here(name, lambda data: run_case(name, {"patchify": lambda *a: found.append(settings())}, data), Sampler(1))
    assert set(map(str, found)) == {str(FRESH)} and settings() == odd


def test_evidence_is_written_under_them(odd):
    with fresh_settings():
        inputs = wire.encode({"images": torch.ones(1, 1, 2, 2), "patch": 1, "turned_first": False})
    evidence = run_case("views.patchify", {"patchify": lambda images, patch: images}, inputs)
    with fresh_settings():
        assert wire.decode(evidence)["patches"].dtype == torch.float32
