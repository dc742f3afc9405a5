"""E13.3 place_groups: cases and judge."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_RIVALS = ("total", "own", "plain", "heaviest", "lightest", "given")
# By kind of question: whether what minimises something else is as good as the best (1) or not (0), in the order of
# _RIVALS; and shapes at which that comes about: sizes, nodes, GPUs of a node.
_KINDS = {
    "heavy": ((1, 1, 1, 1, 0, 0), (((2, 2, 2), 2, 4), ((2, 4, 4), 4, 8), ((4, 8), 4, 8), ((2, 4), 2, 4))),
    "shared": ((1, 0, 1, 1, 0, 0), (((3, 4), 2, 6), ((4, 6), 4, 6), ((2, 8), 2, 8))),
    "spread": ((0, 1, 1, 0, 0, 0), (((2, 3, 4), 4, 6), ((2, 4, 4), 4, 8), ((2, 3, 4), 3, 8))),
    "uneven": ((1, 1, 1, 0, 0, 0), (((2, 2, 6), 3, 8), ((2, 2, 8), 4, 8), ((2, 3, 4), 3, 8))),
}
_SIZED = (0, 1, 0, 0, 1, 0)


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("valid", list(_any(sampler)))
    yield ask("heavy", [_drawn(sampler, "heavy") for _ in range(4)])
    yield ask("ports", [_drawn(sampler, kind) for kind in ("shared", "spread") for _ in range(2)])
    yield ask("traffic", [_drawn(sampler, "uneven") for _ in range(2)] + [_sized(sampler) for _ in range(2)])
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


def _any(sampler: Sampler) -> Iterator[dict]:
    """One GPU, one node, one dimension, dimensions of one, four dimensions."""
    for sizes, nodes, gpus in (
        ((1,), 1, 1),
        ((8,), 1, 8),
        ((2, 4), 1, 8),
        ((12,), 3, 4),
        ((1, 4, 2), 2, 4),
        ((2, 2, 3, 2), 4, 6),
        ((2, 4, 4, 2), 8, 8),
    ):
        yield _question(sampler, sampler.permutation(sizes), nodes, gpus)


def _question(
    sampler: Sampler, sizes: list[int], nodes: int, gpus: int, ports: int = 0, heavy: tuple[int, ...] = ()
) -> dict:
    names = sampler.permutation(("tp", "pp", "dp", "cp", "ep"))
    nbytes = heavy or [sampler.integer(10, 999) * 10**6 for _ in sizes]
    ports = ports or sampler.choice([count for count in range(1, gpus + 1) if gpus % count == 0])
    dims = [(name, size, each) for name, size, each in zip(names, sizes, nbytes, strict=False)]
    return {"world": nodes * gpus, "dims": dims, "topology": {"nodes": nodes, "gpus": gpus, "ports": ports}}


def _drawn(sampler: Sampler, kind: str) -> dict:
    """A question at which the rivals of the right objective stand as ``_KINDS`` says."""
    standing, shapes = _KINDS[kind]
    for _ in range(2000):
        sizes, nodes, gpus = sampler.choice(shapes)
        question = _question(sampler, sampler.permutation(sizes), nodes, gpus)
        if _standing(question) == standing:
            return question
    raise LookupError(f"no question of the kind {kind} was drawn")


def _sized(sampler: Sampler) -> dict:
    """Two nodes of eight and a port each: a group of eight sends nearly twice what a pair does of as many bytes."""
    small = sampler.integer(40, 400)
    large = sampler.integer(small * 11 // 10 + 1, small * 16 // 10)
    question = _question(sampler, [8, 2], 2, 8, 8, (small * 10**6, large * 10**6))
    assert _standing(question) == _SIZED, question
    return question


def _standing(question: dict) -> tuple[int, ...] | None:
    """By rival, whether what it chooses is as good as the best; None where it depends on how it settles a tie, or hardly matters."""
    sizes, nbytes = [size for _, size, _ in question["dims"]], [each for _, _, each in question["dims"]]
    places = {order: _nested(sizes, order) for order in permutations(range(len(sizes)))}
    edges = {order: _leaving(question, place) for order, place in places.items()}
    costs = {order: _busiest(question, found) for order, found in edges.items()}
    best, orders = min(costs.values()), sorted(range(len(sizes)), key=lambda d: nbytes[d])
    if not best:
        return None
    chosen = {name: _best_by(question, edges, name) for name in _RIVALS[:3]}
    chosen |= {
        "heaviest": [tuple(orders[::-1])],
        "lightest": [tuple(orders)],
        "given": [tuple(reversed(range(len(sizes))))],
    }
    found = []
    for name in _RIVALS:
        ratios = {costs[order] / best for order in chosen[name]}
        if max(ratios) > 1.000001 > min(ratios) or 1.000001 < min(ratios) < 1.02:
            return None
        found.append(int(max(ratios) < 1.000001))
    return tuple(found)


def _best_by(question: dict, edges: dict, objective: str) -> list[tuple[int, ...]]:
    worth = {order: _busiest(question, found, objective) for order, found in edges.items()}
    return [order for order, value in worth.items() if value <= min(worth.values()) * 1.000001]


def _refused(sampler: Sampler) -> Iterator[dict]:
    """One thing wrong at a time: as many ranks as GPUs and not as the grid, the other way round, and so on."""
    right = _question(sampler, sampler.permutation((2, 4, 4)), 4, 8, 8)
    dims, topology = right["dims"], right["topology"]
    yield from ({**right, "world": world} for world in (31, 33, 64, 16))
    yield {**right, "world": 64, "dims": [(name, 4 if size == 2 else size, each) for name, size, each in dims]}
    yield {**right, "world": 64, "topology": {**topology, "nodes": 8}}
    yield {**right, "dims": [(name, 8 if size == 2 else size, each) for name, size, each in dims]}
    yield {**right, "topology": {**topology, "gpus": 16, "ports": 8}}
    yield from ({**right, "topology": {**topology, "ports": ports}} for ports in (3, 5, 6, 7, 16))
    yield {"world": 0, "dims": [("tp", 0, 10**6), ("dp", 4, 10**6)], "topology": {**topology, "nodes": 0}}
    yield {**right, "dims": [("tp", -2, 10**6), ("pp", -4, 10**6), ("dp", 4, 10**6)]}
    yield {**right, "dims": [("tp", 4, 10**6), ("pp", -8, 10**6), ("dp", -1, 10**6)]}


def _nested(sizes: list[int], order: tuple[int, ...]) -> list[int]:
    """GPU of every rank, the first dimension of ``order`` varying fastest along the GPUs."""
    strides, stride = {}, 1
    for d in order:
        strides[d], stride = stride, stride * sizes[d]
    return [sum(strides[d] * c for d, c in enumerate(at)) for at in product(*map(range, sizes))]


def _leaving(question: dict, place: list[int]) -> list[tuple[int, int, int]]:
    """(sender, bytes of the buffer, ranks of the group) of every message of a ring that leaves its node."""
    dims, gpus, groups = question["dims"], question["topology"]["gpus"], {}
    for gpu, at in zip(place, product(*(range(size) for _, size, _ in dims)), strict=True):
        for d in range(len(dims)):
            groups.setdefault((d, at[:d] + at[d + 1 :]), []).append(gpu)
    found = []
    for (d, _), members in groups.items():
        ring = sorted(members)
        steps = zip(ring, ring[1:] + ring[:1], strict=True)
        found += [(here, dims[d][2], len(ring)) for here, there in steps if here // gpus != there // gpus]
    return found


def _busiest(question: dict, edges: list[tuple[int, int, int]], objective: str = "port") -> float:
    """Bytes through the busiest port; ``total``: through all, ``own``: as if every GPU had one, ``plain``: as if each sent its buffer."""
    gpus, ports, sent = question["topology"]["gpus"], question["topology"]["ports"], Counter()
    for gpu, nbytes, n in edges:
        where = {"total": 0, "own": gpu}.get(objective, (gpu // gpus, gpu % gpus * ports // gpus))
        sent[where] += nbytes if objective == "plain" else 2 * (n - 1) / n * nbytes
    return max(sent.values(), default=0)


_MISPLACED = {
    "heavy": "The busiest port sends more than it has to: what communicates most belongs inside a node.",
    "ports": "The busiest port sends more than it has to: a step waits for that one, whatever the others and the sum of them do.",
    "traffic": "The busiest port sends more than it has to: what leaves a node depends on the sizes of the groups too, not on their bytes alone.",
}


def _wrong(criterion: str, question: dict, place: Any) -> str | None:
    world = question["world"]
    if not isinstance(place, list) or any(type(gpu) is not int for gpu in place):
        return f"The function returned {type_name(place)}; expected a list of integers."
    if sorted(place) != list(range(world)):
        return "That is no placement: every rank has one GPU, and every GPU one rank."
    if criterion == "valid":
        return None
    sizes = [size for _, size, _ in question["dims"]]
    best = min(
        _busiest(question, _leaving(question, _nested(sizes, order))) for order in permutations(range(len(sizes)))
    )
    return None if _busiest(question, _leaving(question, place)) <= best * 1.000001 else _MISPLACED[criterion]


exercise = answers(
    criteria=(
        Criterion("valid", 1, "every rank has its own GPU", ("heavy",)),
        Criterion("heavy", 2, "the dimension that communicates most stays inside the nodes"),
        Criterion("ports", 2, "the time is that of the busiest port, shared by GPUs or not", ("heavy",)),
        Criterion("traffic", 2, "the groups' sizes count where dimensions do not fill nodes", ("heavy",)),
        Criterion("errors", 1, "inconsistent numbers are refused with ValueError", ("heavy",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["world"], question["dims"], question["topology"]),
    wrong=_wrong,
    kept="The function changed the list or the dictionary that it was given.",
    in_kernel=True,
)
