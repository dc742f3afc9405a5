"""The reaching world: geometry, instructions, camera, expert."""

import numpy as np
import pytest

from gpulab.model.camera import COLOURS
from gpulab.model.world import BINS, FARTHEST, NEAREST, WORDS, Worlds, frames, joints_for, tip_of


@pytest.fixture
def worlds():
    return Worlds(64, np.random.default_rng(5))


def test_joints_bring_the_tip_where_they_must():
    tip = np.random.default_rng(1).uniform(NEAREST, FARTHEST, (1000, 2))
    assert np.allclose(tip_of(joints_for(tip))[1], tip, atol=1e-6)


def test_one_seed_is_one_set_of_episodes():
    one, same, other = (frames(16, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_an_instruction_needs_both_of_its_words(worlds):
    """Two colours times two shapes: each word alone fits two objects, both together one."""
    for colours, shapes, target in zip(worlds.colour, worlds.shape, worlds.target, strict=True):
        colour, shape = colours == colours[target], shapes == shapes[target]
        assert colour.sum() == shape.sum() == 2 and (colour & shape).sum() == 1


def test_an_instruction_says_what_is_to_be_reached(worlds):
    for i in range(worlds.n):
        *_, colour, shape = worlds.say(i).split()
        assert list(COLOURS)[worlds.colour[i, worlds.target[i]]] == colour
        assert ("block", "ring", "cross")[worlds.shape[i, worlds.target[i]]] == shape


def test_no_place_is_near_two_objects(worlds):
    away = np.linalg.norm(worlds.place[:, :, None] - worlds.place[:, None], axis=-1)
    assert away[:, ~np.eye(4, dtype=bool)].min() >= 12


def test_the_camera_shows_each_object_in_its_colour():
    worlds = Worlds(32, np.random.default_rng(2))
    worlds.joints = joints_for(np.full((32, 2), 60.0))  # out of the way of most
    image = worlds.camera()
    assert image.shape == (32, 64, 64, 3) and image.dtype == np.uint8
    blocks = [(i, k) for i in range(32) for k in range(4) if worlds.shape[i, k] == 0]
    shown = [
        tuple(image[i, *np.floor(worlds.place[i, k]).astype(int)[::-1]]) == list(COLOURS.values())[worlds.colour[i, k]]
        for i, k in blocks
    ]
    assert np.mean(shown) > 0.8  # the arm lies over some


def test_what_is_not_seen_is_not_drawn():
    worlds = Worlds(1, np.random.default_rng(0))
    worlds.seen[:] = False
    empty = worlds.camera()
    worlds.seen[0, 0] = True
    assert (empty != worlds.camera()).any()


def test_the_expert_reaches_every_object():
    worlds = Worlds(500, np.random.default_rng(9))
    for _ in range(24):
        worlds.step(worlds.expert())
    assert worlds.distance().max() < 2 and np.median(worlds.distance()) < 0.3  # the far corners are just out of reach


@pytest.mark.parametrize("wrong", [np.zeros((64, 1), int), np.full((64, 2), BINS), np.full((64, 2), -1)])
def test_what_is_no_action_is_refused(worlds, wrong):
    with pytest.raises(ValueError, match="two bins from 0 to 16"):
        worlds.step(wrong)


def test_a_colour_can_be_in_every_instruction():
    orange = list(COLOURS).index("orange")
    worlds = Worlds(50, np.random.default_rng(4), colours=tuple(range(6)), always=orange)
    assert all("orange" in worlds.say(i) for i in range(50)) and len(WORDS) == 16
