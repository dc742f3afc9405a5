"""E13.3 place_groups: cases and judge."""

from collections import Counter
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

# Right for some questions: placements of least cost by a wrong account of it, rules of thumb, and searches of some orders.
_ACCOUNTS = ("total", "own", "modulo", "open", "plain")
_SEARCHES = ("heaviest", "rotations", "outward")
_LEAST = dict.fromkeys(_ACCOUNTS, True)
_FOUND = dict.fromkeys(_SEARCHES, True)
# By kind of question: whether what a rival chooses is as good as the best; and shapes at which that comes about: sizes, nodes,
# GPUs of a node. A rival that a kind does not name may do either.
_PAIRS = (((4, 8), 4, 8), ((2, 8), 2, 8), ((2, 6), 2, 6))
_KINDS = {
    "heavy": (_LEAST | _FOUND | {"lightest": False, "given": False}, (((2, 4, 4), 4, 8), *_PAIRS)),
    "shared": (_FOUND | {"own": False, "open": True, "plain": True}, (((3, 4), 2, 6), ((4, 6), 4, 6), ((2, 8), 2, 8))),
    "spread": (_FOUND | {"total": False, "own": True, "open": True, "plain": True}, _PAIRS),
    "dealt": (
        _FOUND | {"modulo": False, "open": True, "plain": True},
        (((4, 8), 4, 8), ((2, 6), 3, 4), ((3, 4), 2, 6)),
    ),
    "open": (
        {"open": False, "plain": True, "rotations": True, "outward": True, "heaviest": False},
        (((2, 6), 3, 4), ((3, 4), 3, 4)),
    ),
    "uneven": (_LEAST | _FOUND | {"plain": False}, (*_PAIRS, ((2, 4), 2, 4))),
    "rotations": (_LEAST | {"rotations": False}, (((2, 2, 3, 2), 4, 6),)),
    "outward": (_LEAST | {"outward": False}, (((2, 2, 6), 3, 8), ((2, 3, 2), 3, 4))),
    "heaviest": (_LEAST | {"heaviest": False}, (((2, 2, 6), 3, 8), ((2, 6), 3, 4), ((2, 3, 4), 3, 8))),
}


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("heavy", [_drawn(sampler, "heavy") for _ in range(4)])
    yield ask("ports", [_drawn(sampler, kind) for kind in ("shared", "spread", "dealt", "open") for _ in range(2)])
    yield ask("traffic", [_drawn(sampler, "uneven") for _ in range(3)])
    yield ask("orders", [*_any(sampler), *(_drawn(sampler, kind) for kind in _SEARCHES)])
    yield refuse("errors", _refused(sampler))


def _any(sampler: Sampler) -> Iterator[dict]:
    """One GPU, one node, one dimension, dimensions of one, four dimensions: asked only whether that is a placement."""
    for sizes, nodes, gpus in (
        ((1,), 1, 1),
        ((8,), 1, 8),
        ((2, 4), 1, 8),
        ((12,), 3, 4),
        ((1, 4, 2), 2, 4),
        ((2, 4, 4, 2), 8, 8),
    ):
        yield {**_question(sampler, sampler.permutation(sizes), nodes, gpus), "any": True}


def _question(sampler: Sampler, sizes: list[int], nodes: int, gpus: int, ports: int = 0) -> dict:
    names = sampler.permutation(("tp", "pp", "dp", "cp", "ep"))
    ports = ports or sampler.choice([count for count in range(1, gpus + 1) if gpus % count == 0])
    dims = [(name, size, sampler.integer(10, 999) * 10**6) for name, size in zip(names, sizes, strict=False)]
    return {"world": nodes * gpus, "dims": dims, "topology": {"nodes": nodes, "gpus": gpus, "ports": ports}}


def _drawn(sampler: Sampler, kind: str) -> dict:
    """A question at which the rivals of the right objective stand as ``_KINDS`` says."""
    standing, shapes = _KINDS[kind]
    for _ in range(3000):
        sizes, nodes, gpus = sampler.choice(shapes)
        question = _question(sampler, sampler.permutation(sizes), nodes, gpus)
        if _stands(question, standing):
            return question
    raise LookupError(f"no question of the kind {kind} was drawn")


def _stands(question: dict, standing: dict[str, bool]) -> bool:
    """Whether each rival's choice costs the least, or at least 2 % more, as ``standing`` says, however it settles a tie."""
    edges = {order: _leaving(question, place) for order, place in _nestings(question).items()}
    costs = {order: _busiest(question, found) for order, found in edges.items()}
    best = min(costs.values())
    if not best:
        return False
    for rival, as_good in standing.items():
        ratios = [costs[order] / best for order in _chosen(question, edges, costs, rival)]
        if max(ratios) > 1.000001 if as_good else min(ratios) < 1.02:
            return False
    return True


def _chosen(question: dict, edges: dict, costs: dict, rival: str) -> list[tuple[int, ...]]:
    """The orders that the rival may choose."""
    if rival in _ACCOUNTS:
        return _least({order: _busiest(question, found, rival) for order, found in edges.items()})
    nbytes = [each for _, _, each in question["dims"]]
    given = tuple(range(len(nbytes)))
    falling = sorted(given, key=lambda d: -nbytes[d])
    if rival == "rotations":
        return _least({order: costs[order] for order in (given[d:] + given[:d] for d in given)})
    if rival == "outward":  # each as the fastest, the others by their bytes
        return _least({order: costs[order] for order in ((d, *(o for o in falling if o != d)) for d in given)})
    return [{"heaviest": tuple(falling), "lightest": tuple(falling[::-1]), "given": given[::-1]}[rival]]


def _least(costs: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    return [order for order, cost in costs.items() if cost <= min(costs.values()) * 1.000001]


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    """One thing wrong at a time: as many ranks as GPUs and not as the grid, the other way round, and so on."""
    right = _question(sampler, sampler.permutation((2, 4, 4)), 4, 8, 8)
    dims, topology = right["dims"], right["topology"]
    gpus, grid = "`world` is not the number of GPUs", "`world` is not the product of the sizes"
    neither = "`world` is neither the product of the sizes nor the number of GPUs"
    yield from (({**right, "world": world}, neither) for world in (31, 33, 64, 16))
    yield {**right, "world": 64, "dims": [(name, 4 if size == 2 else size, each) for name, size, each in dims]}, gpus
    yield {**right, "world": 64, "topology": {**topology, "nodes": 8}}, grid
    yield {**right, "dims": [(name, 8 if size == 2 else size, each) for name, size, each in dims]}, grid
    yield {**right, "topology": {**topology, "gpus": 16, "ports": 8}}, gpus
    shared = "the GPUs of a node are no multiple of its ports"
    yield from (({**right, "topology": {**topology, "ports": ports}}, shared) for ports in (3, 5, 6, 7, 16))
    small = "a size is less than 1"
    yield {"world": 0, "dims": [("tp", 0, 10**6), ("dp", 4, 10**6)], "topology": {**topology, "nodes": 0}}, small
    yield {**right, "dims": [("tp", -2, 10**6), ("pp", -4, 10**6), ("dp", 4, 10**6)]}, small
    yield {**right, "dims": [("tp", 4, 10**6), ("pp", -8, 10**6), ("dp", -1, 10**6)]}, small


def _nestings(question: dict) -> dict[tuple[int, ...], list[int]]:
    """The GPU of every rank, by order of the dimensions."""
    sizes = [size for _, size, _ in question["dims"]]
    return {order: _nested(sizes, order) for order in permutations(range(len(sizes)))}


def _nested(sizes: list[int], order: tuple[int, ...]) -> list[int]:
    """GPU of every rank, the first dimension of ``order`` varying fastest along the GPUs."""
    strides, stride = {}, 1
    for d in order:
        strides[d], stride = stride, stride * sizes[d]
    return [sum(strides[d] * c for d, c in enumerate(at)) for at in product(*map(range, sizes))]


def _leaving(question: dict, place: list[int]) -> list[tuple[int, int, int, bool]]:
    """(sender, bytes of the buffer, ranks of the group, whether it closes the ring) of every message that leaves its node."""
    dims, gpus, groups = question["dims"], question["topology"]["gpus"], {}
    for gpu, at in zip(place, product(*(range(size) for _, size, _ in dims)), strict=True):
        for d in range(len(dims)):
            groups.setdefault((d, at[:d] + at[d + 1 :]), []).append(gpu)
    found = []
    for (d, _), members in groups.items():
        ring = sorted(members)
        steps = zip(ring, ring[1:] + ring[:1], strict=True)
        found += [
            (here, dims[d][2], len(ring), here == ring[-1]) for here, there in steps if here // gpus != there // gpus
        ]
    return found


def _busiest(question: dict, edges: list[tuple[int, int, int, bool]], account: str = "") -> float:
    """Bytes through the busiest port. Wrong accounts: ``total``: through all ports; ``own``: as if every GPU had one; ``modulo``:
    GPU i uses port i % ports; ``open``: as if no ring were closed; ``plain``: as if each sent its buffer.
    """
    gpus, ports, sent = question["topology"]["gpus"], question["topology"]["ports"], Counter()
    for gpu, nbytes, n, closes in edges:
        node, number = divmod(gpu, gpus)
        where = {"total": 0, "own": gpu, "modulo": (node, number % ports)}.get(account, (node, number * ports // gpus))
        sent[where] += 0 if account == "open" and closes else nbytes if account == "plain" else 2 * (n - 1) / n * nbytes
    return max(sent.values(), default=0)


_MISPLACED = {
    "heavy": "The busiest port sends more than it has to: what communicates most belongs inside a node.",
    "ports": (
        "The busiest port sends more than it has to. A step waits for that one: count what each port sends, of all its "
        "GPUs and with the edge that closes each ring, as `port_bytes` does."
    ),
    "traffic": (
        "The busiest port sends more than it has to: what leaves a node depends on the sizes of the groups too, not on "
        "their bytes alone."
    ),
    "orders": "Another order of the dimensions sends less through the busiest port: d dimensions have d! orders.",
}


def _wrong(criterion: str, question: dict, place: Any) -> str | None:
    if not isinstance(place, list) or any(type(gpu) is not int for gpu in place):
        return f"The function returned {type_name(place)}; expected a list of integers."
    if sorted(place) != list(range(question["world"])):
        return "That is no placement: every rank has one GPU, and every GPU one rank."
    if "any" in question:
        return None
    best = min(_busiest(question, _leaving(question, nested)) for nested in _nestings(question).values())
    return None if _busiest(question, _leaving(question, place)) <= best * 1.000001 else _MISPLACED[criterion]


def _traits(question: dict) -> dict[str, str]:
    nodes, gpus, ports = (question["topology"][name] for name in ("nodes", "gpus", "ports"))
    return {
        "the number of ports of a node": "1" if ports == 1 else "that of its GPUs" if ports == gpus else "between",
        "the number of nodes": "1" if nodes == 1 else "2 or more",
        "the number of dimensions": f"{len(question['dims'])}",
        "a dimension of size 1": "there" if 1 in (size for _, size, _ in question["dims"]) else "not there",
    }


exercise = answers(
    criteria=(
        Criterion("heavy", 2, "the dimension that communicates most stays inside the nodes"),
        Criterion("ports", 2, "the time is that of the busiest port, shared by GPUs or not", ("heavy",)),
        Criterion("traffic", 2, "the groups' sizes count where dimensions do not fill nodes", ("heavy",)),
        Criterion("orders", 1, "no order of the dimensions is better, of two to four, in any machine", ("heavy",)),
        Criterion("errors", 1, "inconsistent numbers are refused with ValueError", ("heavy",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["world"], question["dims"], question["topology"]),
    wrong=_wrong,
    kept="The function changed the list or the dictionary that it was given.",
    in_kernel=True,
    traits=_traits,
)
