"""Answers to chapter "Data parallelism in depth" that were not earned: each earns nothing."""

from autograder.draw import Draw
from autograder.proctor import sit
from autograder.referee import judge_here


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"data_parallel.{exercise}"
    return judge_here(name, lambda inputs: sit(name, {exercise: function}, inputs), Draw(seed)).score


def test_a_cheat_at_mini_ddp_earns_nothing():
    cheats = {
        # WRITE(mini_ddp): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("mini_ddp", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_best_bucket_earns_nothing():
    cheats = {
        # WRITE(best_bucket): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("best_bucket", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_epoch_indices_earns_nothing():
    cheats = {
        # WRITE(epoch_indices): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("epoch_indices", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_reduce_metrics_earns_nothing():
    cheats = {
        # WRITE(reduce_metrics): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("reduce_metrics", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_find_desync_earns_nothing():
    cheats = {
        # WRITE(find_desync): answers by name, of someone who has read the scenario and wants points without the work
    }
    assert {what: score("find_desync", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
