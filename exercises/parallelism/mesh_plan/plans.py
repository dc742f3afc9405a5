"""E16.4: the fastest plan, by trying all; and plans of someone who has a rule wrong, to draw cases on which that shows."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

from autograder.core.sampler import Sampler

Plan = tuple[int, int, int]
Rule = Callable[[dict, dict, int, int, int], object]


def _all_gpus(model: dict, cluster: dict, dp: int, pp: int, tp: int) -> bool:
    return dp * pp * tp == cluster["nodes"] * cluster["gpus"]


def held(model: dict, cluster: dict, dp: int, pp: int, tp: int, **otherwise: int) -> Fraction:
    """Bytes on a GPU of the first stage. otherwise: ``flight``, or activations (``saved``), of someone who counts them so."""
    flight = otherwise.get("flight", min(pp, model["batch"] // dp))
    of_layers = otherwise.get("saved", 1) * flight * model["layers"] * model["activation_bytes"]
    return Fraction(model["state_bytes"] * model["parameters"] + of_layers, pp * tp)


def _time(model: dict, cluster: dict, dp: int, pp: int, tp: int, **without: float) -> float:
    """Microseconds of a step; ``bubble``, ``sums`` and ``gradients`` are 0 for someone who forgets them."""
    sums = 8 * (tp - 1) / tp * model["layer_bytes"] / cluster["link"] * without.get("sums", 1)
    stage = model["layers"] / pp * (model["layer_us"] / tp + sums)
    gradients = 4 * (dp - 1) / dp * model["parameters"] / (pp * tp) / cluster["network"] * without.get("gradients", 1)
    return (model["batch"] / dp + (pp - 1) * without.get("bubble", 1)) * stage + gradients


_RULES: dict[str, Rule] = {
    "gpus": _all_gpus,
    "node": lambda model, cluster, dp, pp, tp: cluster["gpus"] % tp == 0,
    "heads": lambda model, cluster, dp, pp, tp: model["heads"] % tp == 0,
    "layers": lambda model, cluster, dp, pp, tp: model["layers"] % pp == 0,
    "batch": lambda model, cluster, dp, pp, tp: model["batch"] % dp == 0,
    "memory": lambda *of: held(*of) <= of[1]["memory"],
    "time": _time,
}


def _with_floors(model: dict, cluster: dict) -> list[Plan]:
    """Of someone who leaves over what does not divide."""
    gpus = cluster["nodes"] * cluster["gpus"]
    tps = [tp for tp in _divisors(cluster["gpus"]) if model["heads"] % tp == 0]
    return [(gpus // (pp * tp), pp, tp) for tp in tps for pp in range(1, gpus // tp + 1)]


def _exactly(model: dict, cluster: dict) -> list[Plan]:
    gpus = cluster["nodes"] * cluster["gpus"]
    return [(gpus // (pp * tp), pp, tp) for tp in _divisors(gpus) for pp in _divisors(gpus // tp)]


_ANY: Rule = lambda *of: True

DIVIDES: dict[str, dict[str, Rule]] = {
    "tp out of a node": {"node": _ANY},
    "tp as large as a node": {"node": lambda model, cluster, dp, pp, tp: tp <= cluster["gpus"]},
    "heads": {"heads": _ANY},
    "layers": {"layers": _ANY},
    "batch": {
        "batch": lambda model, cluster, dp, pp, tp: model["batch"] >= dp,
        "time": lambda model, *of: _time(model | {"batch": model["batch"] // of[1] * of[1]}, *of),
    },
    "left over": {"plans": _with_floors, "gpus": _ANY},
}
TOO_MUCH: dict[str, dict[str, Rule]] = {
    "none": {"memory": _ANY},
    "state alone": {"memory": lambda *of: held(*of, saved=0) <= of[1]["memory"]},
    "one microbatch": {"memory": lambda *of: held(*of, flight=1) <= of[1]["memory"]},
    "as ZeRO": {"memory": lambda *of: held(*of) - _state(*of) + _state(*of) / of[2] <= of[1]["memory"]},
    "a fixed state": {"memory": lambda *of: held(of[0] | {"state_bytes": 16}, *of[1:]) <= of[1]["memory"]},
}
TOO_LITTLE: dict[str, dict[str, Rule]] = {
    "as GPipe": {"memory": lambda *of: held(*of, flight=of[0]["batch"] // of[2]) <= of[1]["memory"]},
    "always pp": {"memory": lambda *of: held(*of, flight=of[3]) <= of[1]["memory"]},
    "less than memory": {"memory": lambda *of: held(*of) < of[1]["memory"]},
    "activations whole": {"memory": lambda *of: held(*of, saved=of[4]) <= of[1]["memory"]},
    "a fixed state": {"memory": lambda *of: held(of[0] | {"state_bytes": 16}, *of[1:]) <= of[1]["memory"]},
}
SLOWER: dict[str, dict[str, Rule]] = {
    "no bubble": {"time": lambda *of: _time(*of, bubble=0)},
    "a turn more": {"time": lambda *of: _time(*of) + _time(*of, gradients=0) / (of[0]["batch"] / of[2] + of[3] - 1)},
    "no sums": {"time": lambda *of: _time(*of, sums=0)},
    "a quarter of the sums": {"time": lambda *of: _time(*of, sums=0.25)},
    "sums over the network": {"time": lambda *of: _time(*of, sums=of[1]["link"] / of[1]["network"])},
    "no gradients": {"time": lambda *of: _time(*of, gradients=0)},
    "gradients by the link": {"time": lambda *of: _time(*of, gradients=of[1]["network"] / of[1]["link"])},
    "all gradients": {"time": lambda *of: _time(*of, gradients=of[3] * of[4])},
    "gradients of four bytes": {"time": lambda *of: _time(*of, gradients=2)},
    "most replicas": {"time": lambda *of: (-of[2], of[4])},
    "most tp": {"time": lambda *of: (-of[4], of[3])},
    "least held": {"time": lambda *of: held(*of)},
    "the notes'": {"time": lambda *of: of[2:] != (of[1]["nodes"] * of[1]["gpus"] // 8, 4, 2)},
}
"""Rules that someone has wrong: DIVIDES loses what has to divide, TOO_MUCH holds more than there is room for, TOO_LITTLE refuses
what fits, SLOWER takes a plan that is not the fastest."""


def possible(model: dict, cluster: dict, **otherwise: Rule) -> list[Plan]:
    rules = _RULES | {"plans": _exactly} | otherwise
    checks = [rule for name, rule in rules.items() if name not in ("time", "plans")]
    return [plan for plan in rules["plans"](model, cluster) if all(check(model, cluster, *plan) for check in checks)]


def best(model: dict, cluster: dict, **otherwise: Rule) -> Plan | None:
    """None where no plan may be."""
    time = (_RULES | otherwise)["time"]
    return min(possible(model, cluster, **otherwise), key=lambda plan: time(model, cluster, *plan), default=None)


def divides(model: dict, cluster: dict, dp: int, pp: int, tp: int) -> bool:
    return all(_RULES[name](model, cluster, dp, pp, tp) for name in ("gpus", "node", "heads", "layers", "batch"))


def _is_clear(model: dict, cluster: dict) -> bool:
    """Whether the second-best plan is slower by more than rounding."""
    times = sorted(_time(model, cluster, *plan) for plan in possible(model, cluster))
    return bool(times) and (len(times) < 2 or times[1] > 1.000001 * times[0])


def _is_whole(model: dict, cluster: dict, dp: int, pp: int, tp: int) -> bool:
    """Whether what a GPU holds, and each part of it, is a whole number of bytes, which floating-point numbers add up exactly."""
    return model["state_bytes"] * model["parameters"] % (pp * tp) == 0 and model["activation_bytes"] % tp == 0


def _state(model: dict, cluster: dict, dp: int, pp: int, tp: int) -> Fraction:
    return Fraction(model["state_bytes"] * model["parameters"], pp * tp)


@cache
def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


# ---- what is drawn


def job(sampler: Sampler) -> tuple[dict, dict]:
    model = {
        "layers": sampler.choice([8, 12, 16, 24, 32, 36, 40, 48]),
        "heads": sampler.choice([4, 6, 8, 12, 20, 32, 40, 64]),
        "parameters": sampler.integer(1, 64) * 2**30,
        "state_bytes": sampler.choice([12, 18, 20]),
        "activation_bytes": sampler.integer(1, 60) * 2**24,
        "layer_us": sampler.integer(2, 400) * 100,
        "layer_bytes": sampler.integer(1, 64) * 2**21,
        "batch": sampler.choice([8, 12, 24, 32, 48, 64, 96, 128, 256]),
    }
    cluster = {
        "nodes": sampler.choice([1, 2, 3, 4, 8, 16]),
        "gpus": sampler.choice([2, 4, 6, 8]),
        "memory": 2**50,
        "link": sampler.choice([100_000, 300_000, 450_000]),
        "network": sampler.choice([5_000, 25_000, 50_000]),
    }
    return model, cluster


def that_divides(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """With room for everything; for each wrong rule two, in which its plan is none."""
    for rules in sampler.shuffled(*DIVIDES.values()):
        yield from _some(
            sampler,
            lambda m, c, rules=rules: (theirs := best(m, c, **rules)) is not None and not divides(m, c, *theirs),
        )


def that_fits(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """For each wrong rule two: in which its plan is too large, or it finds none, where one fits exactly and no other does."""
    for rules in sampler.shuffled(*TOO_MUCH.values()):
        yield from _some(
            sampler,
            lambda m, c, rules=rules: (theirs := best(m, c, **rules)) is not None and held(m, c, *theirs) > c["memory"],
            tight=True,
        )
    for rules in sampler.shuffled(*TOO_LITTLE.values()):
        yield from _some(
            sampler, lambda m, c, rules=rules: len(possible(m, c)) == 1 and not possible(m, c, **rules), tight=True
        )


def that_is_fast(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """With room for everything, and the same plan if more divided; for each wrong rule two, in which its plan is slower."""
    for rules in sampler.shuffled(*SLOWER.values()):
        yield from _some(
            sampler, lambda m, c, rules=rules: best(m, c, **rules) != best(m, c) and _is_best_of_more(m, c)
        )


def _is_best_of_more(model: dict, cluster: dict) -> bool:
    return all(best(model, cluster, **rules) == best(model, cluster) for rules in DIVIDES.values())


def _some(sampler: Sampler, shows: Callable[[dict, dict], bool], tight: bool = False) -> Iterator[tuple[dict, dict]]:
    """Two jobs that have a plan. ``tight``: the memory is what one of their plans holds."""
    found = 0
    while found < 2:
        model, cluster = job(sampler)
        if tight and (plans := [plan for plan in possible(model, cluster) if _is_whole(model, cluster, *plan)]):
            cluster["memory"] = int(held(model, cluster, *sampler.choice(plans)))
        if _is_clear(model, cluster) and shows(model, cluster):
            found += 1
            yield model, cluster


def of_every_shape(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """Whose best plan has a given set of dimensions that are larger than 1."""
    for wanted in sampler.shuffled(
        (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 1, 2), (1, 2, 2), (2, 2, 2), (2, 2, 2)
    ):
        while True:
            model, cluster = job(sampler)
            if wanted == (1, 1, 1):
                cluster |= {"nodes": 1, "gpus": 1}
            expected = best(model, cluster)
            if expected and _is_clear(model, cluster) and tuple(min(2, size) for size in expected) == wanted:
                yield model, cluster
                break


def impossible(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """By a byte, by memory altogether, since nothing divides; and for each rule that lets too much through where it does."""
    for rules in sampler.shuffled(*DIVIDES.values(), *TOO_MUCH.values()):
        while True:
            model, cluster = job(sampler)
            plans = possible(model, cluster)
            if plans and sampler.chance(0.8):
                cluster["memory"] = -int(-min(held(model, cluster, *plan) for plan in plans)) - 1
            if not possible(model, cluster) and possible(model, cluster, **rules):
                yield model, cluster
                break
    model, cluster = job(sampler)
    yield model, cluster | {"memory": 2**20}
    yield model | {"layers": 9, "heads": 9, "batch": 9}, cluster | {"nodes": 16, "gpus": 2}
