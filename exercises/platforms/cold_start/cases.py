"""E20.1: plans of cold starts, drawn so that each thing one can have wrong about them shows in some."""

from collections.abc import Iterator
from typing import Any

from autograder.core.sampler import Sampler

Stages = dict[str, dict]


def work(seconds: float, *after: str) -> dict:
    return {"after": list(after), "seconds": seconds}


def load(nbytes: float, path: list[str], *after: str, chunk: float | None = None, **needed: float) -> dict:
    return {"after": list(after), "bytes": nbytes, "path": path, "chunk": chunk, **needed}


def _plan(sampler: Sampler, stages: Stages, tiers: dict[str, float]) -> dict:
    """The stages in any order."""
    return {"stages": {name: stages[name] for name in sampler.permutation(list(stages))}, "tiers": tiers}


def _rates(sampler: Sampler, *names: str) -> dict[str, float]:
    """Distinct bytes a second, the larger the later."""
    rate, rates = sampler.integer(2, 5), {}
    for name in names:
        rates[name] = rate
        rate += sampler.integer(2, 9) + rate
    return rates


def orders(sampler: Sampler) -> Iterator[dict]:
    """Stages that overlap and stages that wait, with one piece on one tier at most."""
    a, b, c = (sampler.integer(3, 20) for _ in range(3))
    tiers = _rates(sampler, "net", "bus")
    image, weights = load(tiers["net"] * a, ["net"]), load(tiers["bus"] * b, ["bus"])
    together = {"image": image, "weights": weights, "runtime": work(c, "image")}
    yield _plan(sampler, {**together, "warm": work(2.5, "runtime", "weights")}, tiers)
    both = {"first": work(a + b + c), "second": work(c), "third": work(a)}
    yield _plan(sampler, {**both, "last": work(1, "second", "first", "third")}, {})
    yield _plan(sampler, {**both, "last": work(1, "third", "second")}, {})  # what ends last is waited for by none
    yield _plan(sampler, {"only": work(sampler.integer(0, 9))}, {})
    yield _plan(sampler, {"empty": load(0, ["net"]), "then": work(0, "empty"), "after": work(a, "then")}, tiers)
    names = sampler.permutation(["e", "d", "c", "b", "a"])
    chain = {name: work(sampler.integer(1, 9) / 4, *names[:at][-2:]) for at, name in enumerate(names)}
    yield _plan(sampler, {**chain, "aside": work(sampler.integer(1, 30), names[0])}, {})
    shared = {"one": load(tiers["net"] * a, ["net"]), "other": load(tiers["net"] * b, ["net"])}
    yield _plan(sampler, {**shared, "end": work(c, "one", "other")}, tiers)


def pipelines(sampler: Sampler) -> Iterator[dict]:
    """Loads over several tiers, the slowest in every place, with chunks that divide the bytes and chunks that do not."""
    low, middle, high = _rates(sampler, "low", "middle", "high").values()
    for slow in sampler.shuffled(0, 1, 2):
        tiers = dict(zip(("store", "disk", "bus"), [middle, high][:slow] + [low] + [middle, high][slow:], strict=True))
        chunk, count = sampler.integer(5, 30), sampler.integer(3, 12)
        for nbytes in sampler.shuffled(chunk * count, chunk * count + sampler.integer(1, chunk - 1)):
            yield _plan(sampler, {"weights": load(nbytes, list(tiers), chunk=chunk), "warm": work(1, "weights")}, tiers)
        nbytes = chunk * count
        yield _plan(sampler, {"weights": load(nbytes, list(tiers))}, tiers)
        for needed in sampler.shuffled(0, chunk, 2 * chunk + sampler.integer(1, chunk - 1), nbytes):
            yield _plan(
                sampler,
                {"image": load(nbytes, list(tiers), chunk=chunk, needed=needed), "run": work(2, "image")},
                tiers,
            )
    yield _plan(sampler, {"weights": load(6, ["tape", "bus"])}, {"tape": 0.5, "bus": 1})
    tiers = {"store": middle, "disk": low, "bus": high}
    yield _plan(sampler, {"weights": load(60, list(tiers), chunk=sampler.integer(61, 90))}, tiers)
    yield _plan(
        sampler, {"image": load(60, list(tiers), needed=sampler.integer(5, 30))}, tiers
    )  # one chunk, of what is needed
    yield _plan(sampler, {"weights": load(1, list(tiers), chunk=0.125, needed=0.5)}, tiers)
    yield _plan(
        sampler,
        {"weights": load(48, ["disk", "bus"], chunk=6), "more": load(48, ["bus", "disk"], "weights", chunk=8)},
        tiers,
    )


def chains(sampler: Sampler) -> Iterator[dict]:
    """Where the longest stage is not critical, the last in the list does not end last, and several are."""
    tiers = _rates(sampler, "net", "bus")
    rate = tiers["net"]
    seconds = sampler.integer(4, 9)
    image, weights = load(rate * 10 * seconds, ["net"]), load(rate * 30 * seconds, ["net"])
    stages = {"image": image, "runtime": work(seconds, "image"), "weights": weights}
    yield _plan(sampler, {**stages, "graphs": work(2, "runtime", "weights")}, tiers)
    short = {f"s{number}": work(seconds, *([f"s{number - 1}"] if number else [])) for number in range(4)}
    yield _plan(sampler, {**short, "long": work(3 * seconds), "end": work(1, "s3", "long")}, {})
    yield _plan(sampler, {**short, "aside": work(4 * seconds + 1)}, {})  # alone on the critical path
    lazy = load(rate * 40 * seconds, ["net"], needed=rate * seconds)
    yield _plan(
        sampler,
        {"image": lazy, "weights": load(rate * 2 * seconds, ["net"]), "run": work(1, "image", "weights")},
        tiers,
    )
    yield _plan(sampler, {"a": work(seconds), "b": work(seconds), "c": work(seconds, "a", "b")}, {})
    chunked = load(rate * 20, ["net", "bus"], "first", chunk=rate)
    yield _plan(
        sampler,
        {"first": work(seconds), "second": work(seconds + 15), "weights": chunked, "end": work(2, "weights", "second")},
        tiers,
    )
    yield _plan(sampler, {"nothing": work(0), "then": work(seconds, "nothing"), "apart": work(seconds - 1)}, {})


def limits(sampler: Sampler) -> Iterator[dict]:
    """Where the most bytes, the slowest tier or the longest stage is not what saves most."""
    unit = sampler.integer(3, 9)
    tiers = {"registry": 2 * unit, "store": 4 * unit, "disk": 3 * unit, "bus": 8 * unit}
    way = ["store", "disk", "bus"]
    for image, weights in sampler.shuffled((20, 300), (200, 60)):
        stages = {
            "image": load(image * unit, ["registry"]),
            "runtime": work(3, "image"),
            "weights": load(weights * unit, way, chunk=unit),
        }
        yield _plan(sampler, {**stages, "graphs": work(4, "runtime", "weights")}, tiers)
    to_device = {**tiers, "bus": unit}
    yield _plan(sampler, {"weights": load(100 * unit, way, chunk=2 * unit), "graphs": work(10, "weights")}, to_device)
    yield _plan(sampler, {"weights": load(100 * unit, way), "graphs": work(30, "weights")}, tiers)  # in one piece
    yield _plan(sampler, {"weights": load(12 * unit, way, chunk=unit), "graphs": work(20, "weights")}, tiers)
    both = {
        "image": load(60 * unit, ["store"]),
        "weights": load(50 * unit, ["store"], "image"),
        "more": load(100 * unit, ["disk"], "weights"),
    }
    yield _plan(sampler, {**both, "start": work(20)}, tiers)  # one tier twice on the way
    equal = {"one": work(9), "other": work(9), "last": work(2, "one", "other")}
    yield _plan(sampler, equal, {"unused": unit})
    lazy = load(400 * unit, ["registry"], chunk=unit, needed=4 * unit)
    yield _plan(
        sampler,
        {"image": lazy, "weights": load(30 * unit, ["bus", "disk"], chunk=unit), "run": work(5, "image", "weights")},
        tiers,
    )


def broken(sampler: Sampler) -> Iterator[dict]:
    """Plans that are none, each in one way."""
    tiers = {"net": sampler.integer(2, 9), "bus": sampler.integer(2, 9)}
    sound = {"image": load(20, ["net"], chunk=5), "run": work(2, "image")}

    def but(**stages: dict) -> dict:
        return _plan(sampler, {**sound, **stages}, tiers)

    yield {"stages": {}, "tiers": tiers}
    yield but(more=work(1, "nobody"))
    yield but(more=work(1, "more"))
    yield but(more=work(1, "third"), third=work(1, "run", "fourth"), fourth=work(1, "more"))
    yield but(more=load(10, []))
    yield but(more=load(10, ["net", "tape"]))
    yield _plan(sampler, sound, {**tiers, sampler.choice(("net", "bus")): 0})
    yield _plan(sampler, sound, {**tiers, "bus": -sampler.integer(1, 9)})
    yield but(more=work(-1))
    yield but(more=load(-sampler.integer(1, 9), ["net"]))
    for chunk in sampler.shuffled(0, -2):
        yield but(more=load(10, ["net"], chunk=chunk))
    for needed in sampler.shuffled(-1, 11):
        yield but(more=load(10, ["net"], needed=needed))


def as_stages(plan: dict) -> list[Any]:
    """The library's own, for the timeline that is due."""
    from gpulab.platforms import Load, Work

    return [
        Work(name, one["seconds"], tuple(one["after"]))
        if "seconds" in one
        else Load(name, one["bytes"], tuple(one["path"]), tuple(one["after"]), one["chunk"], one.get("needed"))
        for name, one in plan["stages"].items()
    ]
