"""The trained policy in the repository does what its record says."""

import pytest
import torch

from gpulab.model import load, success
from gpulab.model.checkpoint import TRAINED, record
from gpulab.model.episodes import WITHOUT


@pytest.fixture(scope="module")
def policy():
    return load()


def test_it_reaches_the_named_object(policy):
    assert success(policy, 50, seed=4000) >= 0.9


def test_it_obeys_the_words_and_not_the_picture_alone(policy):
    assert success(policy, 50, seed=4000, without="another object") < 0.1


def test_without_eyes_it_reaches_next_to_nothing(policy):
    assert success(policy, 50, seed=4000, without="camera") < 0.2


def test_what_it_can_be_denied_has_names(policy):
    with pytest.raises(ValueError, match="another object, another episode, colour, shape, camera"):
        success(policy, 1, seed=0, without="ears")


def test_the_record_says_score_seed_versions_and_time():
    told = record()
    assert told["success_of_200"] >= 0.9 and told["unseen_seed"] != told["seed"]
    assert {"torch", "numpy", "python"} == set(told["versions"]) and told["cpu_seconds"] < 15 * 60
    assert told["curve"][-1]["step"] == told["steps"]


@pytest.mark.audit
def test_the_record_says_what_is_left_without_words_or_eyes(policy):
    told = record()
    assert set(told["success_without"]) == set(WITHOUT) and max(told["success_without"].values()) < 0.2
    assert (
        success(policy, 200, told["unseen_seed"], without="another episode")
        == told["success_without"]["another episode"]
    )


def test_the_colours_that_training_left_out_are_not_reached():
    told = record()["success_in_colours_left_out"]
    assert set(told) == {"purple", "orange"} and max(told.values()) < 0.2


def test_the_file_is_small():
    assert TRAINED.with_suffix(".safetensors").stat().st_size < 5e6


@pytest.mark.audit
def test_half_precision_weights_act_alike(policy):
    assert success(load(dtype=torch.bfloat16), 20, seed=4000) >= 0.85


def test_a_checkpoint_that_is_missing_is_said_with_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="python -m gpulab.model.train"):
        load(tmp_path / "none")
