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


class AnyTime(float):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = lambda self, other: AnyTime()


def refuse_all(*asked, **named):
    raise ValueError("no")


def the_same_for_all(us, best=min):
    """An answer with one time for everything."""
    return lambda layers, link, buckets: {
        "step_us": dict.fromkeys(buckets, us), "exposed_us": dict.fromkeys(buckets, us), "best": best(buckets),
    }  # fmt: skip


def test_a_cheat_at_best_bucket_earns_nothing():
    def backward_alone(layers, link, buckets):
        return the_same_for_all(float(sum(layer["us"] for layer in layers)))(layers, link, buckets)

    def an_easy_question(layers, link, buckets):
        layers[:], buckets[:] = [{"us": 0, "bytes": 0}], [1]
        return {"step_us": {1: 0.0}, "exposed_us": {1: 0.0}, "best": 1}

    cheats = {
        "no time": the_same_for_all(0.0),
        "agreeable": the_same_for_all(AnyTime(1)),
        "not a number": the_same_for_all(float("nan")),
        "infinite": the_same_for_all(float("inf"), max),
        "the backward pass": backward_alone,
        "another question": an_easy_question,
        "everything refused": refuse_all,
        "nothing": lambda *asked: {"step_us": {}, "exposed_us": {}, "best": None},
    }
    assert {what: score("best_bucket", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class AnyList(list):
    """A list that is as long as one likes and equals every other."""

    __eq__ = lambda self, other: True
    __hash__ = None
    __iter__ = lambda self: iter(range(3))


def rank_reads(indices, repeated=()):
    return {"indices": indices, "repeated": list(repeated)}


def test_a_cheat_at_epoch_indices_earns_nothing():
    cheats = {
        "no samples": lambda *asked, **named: rank_reads([]),
        "all samples": lambda length, *asked, **named: rank_reads(list(range(length))),
        "in order": lambda length, world, rank, *asked, **named: rank_reads(list(range(rank, length, world))),
        "any list": lambda *asked, **named: {"indices": AnyList([0]), "repeated": AnyList([0])},
        "everything refused": refuse_all,
        "nothing": lambda *asked, **named: None,
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
