"""E14.1: what is drawn: models of unlike layers, in every rank with numbers of its own, and each rank's steps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler

_WIDTH, _ROWS = 3, 2
_SINGLE, _DOUBLE = torch.float32, torch.float64
_ALL = ("values", "buckets", "launched")
Layers = list[dict]
"""A model's, before numbers are drawn for them: of each the inner size, the dtype, which parameters are frozen, and whether it is tied."""


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_alone, _unused_alone, _two_models, _four_ranks, _apart, _unused, _mixed, _gated):
        yield case(sampler)


def _alone(sampler: Sampler) -> Case:
    """One rank: nobody to hear from, and the gradients are its own."""
    layers = _layers(sampler, [sampler.choice([_SINGLE, _DOUBLE])] * 2)
    return _case(sampler, ("values",), [(layers, _first_two(layers))], [[[0, 1]], [[1, 0]]])


def _unused_alone(sampler: Sampler) -> Case:
    """One rank, and a layer that a step does not use."""
    layers, (some, other) = _layers(sampler, [_SINGLE] * 2), sampler.permutation([0, 1])
    return _case(sampler, ("unused",), [(layers, _first_two(layers))], [[[some]], [[other]]])


def _two_models(sampler: Sampler) -> Case:
    """One behind the other, with limits of their own; in the second step the layers come in another order."""
    one = _layers(sampler, [_SINGLE] * 3)
    draw = lambda: _layers(sampler, [_SINGLE] * 3)
    models = sampler.permutation([(one, _first_two(one) - 1), _telling(sampler, draw, {"at_most": True})])
    plain, another = [0, 1, 2, 10, 11, 12], [*_another_order(sampler), *(10 + n for n in _another_order(sampler))]
    return _case(sampler, _ALL, models, [[route] * 2 for route in (plain, another, plain)])


def _four_ranks(sampler: Sampler) -> Case:
    """All of a model in one bucket, and a bucket for each parameter of another; layers that a step uses twice."""
    three, two = _layers(sampler, [_DOUBLE] * 3), _layers(sampler, [_DOUBLE] * 2)
    limits = sampler.choice([(1, _all_bytes(two)), (_all_bytes(three), 1)])
    routes = [[*_another_order(sampler), 10, 11], [0, 1, 2, sampler.integer(1, 2), 11, 10, 11]]
    models = zip((three, two), limits, strict=True)
    return _case(sampler, _ALL, models, [[route] * 4 for route in sampler.permutation(routes)])


def _apart(sampler: Sampler) -> Case:
    """No rank goes through the layers in another's order; a parameter is in two of them."""
    steps = [sampler.permutation([[0, 1, 2], sampler.choice([[2, 0, 1], [2, 1, 0]])]) for _ in range(2)]
    draw = lambda: [*_layers(sampler, [_SINGLE] * 2), _layers(sampler, [_SINGLE])[0] | {"tied": True}]
    return _case(sampler, ("buckets",), [_telling(sampler, draw, {"above": True}, {"twice": True})], steps)


def _unused(sampler: Sampler) -> Case:
    """Each rank without another layer; then one that nobody uses, and a rank that uses none: without gradients, and with zeros."""
    layers, (first, second, third, fourth) = _layers(sampler, [_SINGLE] * 4), sampler.permutation(range(4))
    everyone, lacking = [[0, 1, 2, 3]] * 3, [[i for i in range(4) if i != lacked] for lacked in (first, second, third)]
    nothing = sampler.permutation([[i for i in range(4) if i != fourth], [], [first, second]])
    steps = [everyone, lacking, everyone, nothing, everyone, nothing]
    to_none = [none for none in sampler.shuffled(True, False) for _ in range(3)]
    return _case(sampler, ("unused",), [(layers, _first_two(layers))], steps, to_none)


def _mixed(sampler: Sampler) -> Case:
    """Both dtypes in turn: a model with frozen parameters among others, one without, and one with no other."""
    dtypes, (first, last) = sampler.permutation([_SINGLE, _DOUBLE]), sampler.shuffled([True] * 3, [False] * 3)
    frozen = [first, *sampler.shuffled([True, False, False], _AROUND), last]
    some = _telling(sampler, lambda: _layers(sampler, dtypes * 2, frozen), {"frozen": True})
    rivals = {"in_turn": True}, {"when_full": True}, {"at_most": True}
    none = _telling(sampler, lambda: _layers(sampler, dtypes * 2)[:3], *rivals)
    models = [some, none, (_layers(sampler, [_SINGLE], [[True] * 3]), 1)]
    return _case(sampler, ("mixed", "buckets"), models, [[[0, 1, 2, 3, 10, 11, 12, 20]] * 2] * 2, (True, False))


_AROUND = [False, True, False]


def _gated(sampler: Sampler) -> Case:
    """One rank begins its backward pass when the other is at the end of its own, and has launched all."""
    layers, gates = _layers(sampler, [_SINGLE] * 3), sampler.permutation([("send", "recv"), ("recv", "send")])
    model = (layers, _first_two(layers) - 1)
    return _case(sampler, ("no_waiting",), [model], [[[0, 1, 2]] * 2] * 2, (True, False), gates)


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    models: Iterable[tuple[Layers, int]],
    steps: list[list[list[int]]],
    to_none: Sequence[bool] = (),
    gates: Sequence[tuple[str, ...]] = (),
) -> Case:
    """``models``: their layers and ``bucket_bytes``; ``steps``: of each, by rank, the layers in order, each ``10 * model + layer``.

    ``to_none``: how gradients are zeroed after each step, one way and the other in turn where it is not given; ``gates``: of
    each step, by rank.
    """
    models, ranks = list(models), range(len(steps[0]))
    each = tuple({"models": [_model(sampler, layers) for layers, _ in models], "steps": []} for _ in ranks)
    to_none, gates = to_none or cycle(sampler.shuffled(True, False)), gates or cycle([[""] * len(ranks)])
    for routes, none, gate in zip(steps, to_none, gates):
        for rank in ranks:
            x = _numbers(sampler, models[0][0][0]["dtype"], _ROWS, _WIDTH)
            each[rank]["steps"].append({"x": x, "route": routes[rank], "to_none": none, "gate": gate[rank]})
    inputs = {"world": len(ranks), "bucket_bytes": [most for _, most in models]}
    return Case(criteria, inputs, ranks=len(ranks), per_rank_inputs=each)


def _layers(sampler: Sampler, dtypes: list[torch.dtype], frozen: Sequence[list[bool]] = ()) -> Layers:
    """Of unlike sizes."""
    frozen, sizes = frozen or [[False] * 3] * len(dtypes), sampler.permutation(range(1, 6))
    return [dict(zip(("inner", "dtype", "frozen"), layer), tied=False) for layer in zip(sizes, dtypes, frozen)]


def _model(sampler: Sampler, layers: Layers) -> dict:
    """As a rank has it before the call: with numbers of its own. A ``count`` is odd and above 2**53: no float holds it."""
    count, on = 2**53 + 2 * sampler.integer(0, 2**40) + 1, sampler.permutation([True, False])
    drawn = [_layer(sampler, **layer) for layer in layers]
    return {"layers": drawn, "count": torch.tensor(count), "on": torch.tensor(on)}


def _layer(sampler: Sampler, inner: int, dtype: torch.dtype, frozen: list[bool], tied: bool) -> dict:
    """The second of its weights lies by columns."""
    a, b = (0.3 * _numbers(sampler, dtype, inner, _WIDTH) for _ in range(2))
    scale = 1 + 0.1 * _numbers(sampler, dtype, _WIDTH)
    return {"weights": [a, b.t(), _numbers(sampler, dtype)], "frozen": frozen, "scale": scale, "tied": tied}


def _numbers(sampler: Sampler, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return sampler.values(*shape, kind="mixed", dtype=dtype) / 8


def _another_order(sampler: Sampler) -> list[int]:
    return sampler.choice([[1, 2, 0], [2, 0, 1], [2, 1, 0]])


def _parameters(layers: Layers, frozen: bool = False, twice: bool = False) -> list[tuple[int, torch.dtype, bool]]:
    """(bytes, dtype, frozen) from the last to the first; ``frozen``: those too; ``twice``: one that is tied too."""
    every = []
    for layer in layers:
        matrix, dtype = _WIDTH * layer["inner"], layer["dtype"]
        sizes = [matrix, matrix] + [1] * (twice or not layer["tied"])
        own = zip(sizes, layer["frozen"])
        every += [(size * dtype.itemsize, dtype, is_frozen) for size, is_frozen in own if frozen or not is_frozen]
    return every[::-1]


def _first_two(layers: Layers) -> int:
    """Two parameters fill the first bucket to the last byte."""
    return sum(nbytes for nbytes, *_ in _parameters(layers)[:2])


def _all_bytes(layers: Layers) -> int:
    return sum(nbytes for nbytes, *_ in _parameters(layers))


def _telling(sampler: Sampler, draw: Callable[[], Layers], *rivals: dict[str, bool]) -> tuple[Layers, int]:
    """Layers, and a limit at which each of these wrong rules cuts other buckets."""
    while True:
        layers = draw()
        limit = sampler.integer(2, _all_bytes(layers))
        right = _cut(layers, limit)
        if all(_cut(layers, limit, **rival) != right for rival in rivals):
            return layers, limit


def _cut(
    layers: Layers,
    limit: int,
    at_most: bool = False,
    above: bool = False,
    in_turn: bool = False,
    when_full: bool = False,
    frozen: bool = False,
    twice: bool = False,
) -> list[list[int]]:
    """The sizes in each bucket by PyTorch's rule, or by a wrong one.

    ``at_most``: a bucket never holds more than ``limit``; ``above``: it is full when it does; ``in_turn``: another dtype closes it;
    ``when_full``: they are numbered as they are full; ``frozen``, ``twice``: what is frozen, or tied, takes room.
    """
    buckets, opened, order = [], {}, []
    for nbytes, dtype, is_frozen in _parameters(layers, frozen, twice):
        if in_turn and dtype not in opened:
            opened.clear()
        held = opened.get(dtype)
        if held is None or (at_most and held[0] + nbytes > limit):
            held = opened[dtype] = [0, []]
            buckets.append(held[1])
        held[0] += nbytes
        held[1] += [nbytes] * (not is_frozen)
        if not at_most and (held[0] > limit if above else held[0] >= limit):
            order.append(opened.pop(dtype)[1])
    found = [*order, *(held for _, held in opened.values())] if when_full else buckets
    return [sizes for sizes in found if sizes]
