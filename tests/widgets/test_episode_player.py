"""The replay of episodes: what Python recorded is what a reader sees, and it moves only when asked."""

import json
import math

import numpy as np
import pytest

from gpulab.model import Worlds, load
from gpulab.model.episodes import STEPS, TOLERANCE
from gpulab.model.world import LINK
from gpulab.widgets import EpisodePlayer
from gpulab.widgets.episode_player import episodes
from tests.widgets.looks import assert_accessible, in_every_look


@pytest.fixture(scope="module")
def acted():
    worlds = Worlds(3, np.random.default_rng(11))
    return worlds, episodes(load(), worlds)


def moved(page):
    return page.evaluate("model.get('step')")


def test_a_record_is_the_episode(acted):
    worlds, told = acted
    for i, episode in enumerate(told):
        assert len(episode["tips"]) == len(episode["elbows"]) == STEPS + 1
        assert math.dist(episode["tips"][-1], worlds.goal()[i]) == pytest.approx(worlds.distance()[i], abs=0.15)
        assert episode["reached"] == (worlds.distance()[i] <= TOLERANCE) and episode["told"] == episode[
            "named"
        ] == worlds.say(i)
        assert math.dist(episode["base"], episode["elbows"][5]) == pytest.approx(LINK, abs=0.15)
        assert math.dist(episode["elbows"][5], episode["tips"][5]) == pytest.approx(LINK, abs=0.15)


def test_an_action_moves_the_tip_by_four_pixels_at_most(acted):
    for episode in acted[1]:
        assert np.abs(np.diff(episode["tips"], axis=0)).max() <= 4.2


def test_other_words_are_said_beside_what_is_meant():
    worlds = Worlds(2, np.random.default_rng(11))
    episode = episodes(load(), worlds, worlds.text((worlds.target + 1) % 4))[0]
    assert episode["told"] != episode["named"]


def test_five_episodes_are_a_few_kilobytes(acted):
    assert len(json.dumps(EpisodePlayer(acted[1]).get_state()["episodes"])) < 3 * 2000


def test_a_page_shows_the_whole_way_before_any_script(acted):
    widget = EpisodePlayer(acted[1])
    assert widget.step == STEPS


def test_the_tip_is_drawn_where_it_was(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    for step in (0, 7, STEPS):
        page.evaluate(f"model.set('step', {step})")
        x, y = acted[1][0]["tips"][step]
        circle = page.locator("svg.scene circle").last
        assert (float(circle.get_attribute("cx")), float(circle.get_attribute("cy"))) == (x, y)
        assert page.locator("svg.scene .way").get_attribute("points").count(",") == step + 1


def test_the_picture_says_in_words_what_it_shows(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    page.get_by_role("button", name=f"2. {acted[1][1]['told']}").click()
    page.get_by_role("button", name="Pause").click()
    page.evaluate("model.set('step', 3)")
    said = page.get_by_role("img").get_attribute("aria-label")
    assert (
        all(one["name"] in said for one in acted[1][1]["objects"]) and acted[1][1]["told"] in said and "3 of 24" in said
    )


def test_it_stands_still_until_it_is_asked(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    page.wait_for_timeout(500)
    assert moved(page) == STEPS


def test_it_plays_and_pauses_by_keyboard(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    page.get_by_role("button", name="Play").focus()
    page.keyboard.press("Space")
    page.wait_for_function("model.get('step') > 1 && model.get('step') < 20")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Play").wait_for()
    stood = moved(page)
    page.wait_for_timeout(500)
    assert moved(page) == stood


def test_it_plays_to_the_end_and_says_how_it_ended(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    page.evaluate(f"model.set('step', {STEPS - 2})")
    assert "eached" not in page.locator(".state").inner_text()
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"model.get('step') === {STEPS}")
    assert ("Reached." if acted[1][0]["reached"] else "Not reached.") in page.locator(".state").inner_text()
    page.get_by_role("button", name="Play").wait_for()


def test_for_who_wants_little_motion_a_picture_stays_a_second(mount, acted):
    page = mount(EpisodePlayer(acted[1]), changed=True)
    page.emulate_media(reduced_motion="reduce")
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(990)
    assert moved(page) == 0
    page.clock.run_for(20)
    assert moved(page) == 1


def test_the_slider_goes_through_the_actions(mount, acted):
    page = mount(EpisodePlayer(acted[1]))
    page.get_by_role("slider", name="Action").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert moved(page) == 1 and "after 1 of 24 actions" in page.get_by_role("slider").get_attribute("aria-valuetext")


@in_every_look
def test_axe_finds_nothing(mount, acted, scheme, width):
    page = mount(EpisodePlayer(acted[1]), width=width, scheme=scheme)
    assert_accessible(page, width)


@pytest.mark.parametrize("many", [0, 9])
def test_what_does_not_fit_is_refused(acted, many):
    with pytest.raises(ValueError, match=f"{many} episodes: show 1 to 8"):
        EpisodePlayer(acted[1][:1] * many)
