"""E14.1: what is drawn: models of unlike layers, in every rank with numbers of its own, and each rank's steps."""

import itertools
from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from exercises.data_parallel.mini_ddp import replica

_WIDTH, _ROWS = 3, 2
_SINGLE, _DOUBLE = torch.float32, torch.float64
_ALL = ("values", "buckets", "launched")


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_alone, _two_models, _four_ranks, _apart, _unused, _mixed, _gated):
        yield case(sampler)


def _alone(sampler: Sampler) -> Case:
    """One rank: nobody to hear from, and the gradients are its own."""
    model = _model(sampler, 2, [sampler.choice([_SINGLE, _DOUBLE])])
    return _case(sampler, ("values",), [model], [_first_two], [[[[0, 1]]], [[[1, 0]]]])


def _two_models(sampler: Sampler) -> Case:
    """One behind the other, with limits of their own; in the second step the layers come in another order."""
    models = [_model(sampler, 3, [_SINGLE]) for _ in range(2)]
    steps = [[[0, 1, 2]] * 2, [_another_order(sampler), _another_order(sampler)], [[0, 1, 2]] * 2]
    return _case(
        sampler, _ALL, models, sampler.permutation([_first_two, _all_but_the_largest]), [[step] * 2 for step in steps]
    )


def _four_ranks(sampler: Sampler) -> Case:
    models = [_model(sampler, 3, [_DOUBLE]), _model(sampler, 2, [_DOUBLE])]
    steps = [[_another_order(sampler), [0, 1]], [[0, 1, 2, sampler.integer(1, 2)], [1, 0, 1]]]
    limits = sampler.permutation([_one_byte, _everything])
    return _case(sampler, _ALL, models, limits, [[step] * 4 for step in sampler.permutation(steps)])


def _apart(sampler: Sampler) -> Case:
    """No rank goes through the layers in another's order."""
    orders = [sampler.permutation([[0, 1, 2], sampler.choice([[2, 0, 1], [2, 1, 0]])]) for _ in range(2)]
    steps = [[[path] for path in order] for order in orders]
    return _case(sampler, ("buckets",), [_model(sampler, 3, [_SINGLE])], [_first_two], steps)


def _unused(sampler: Sampler) -> Case:
    """Each rank without another layer; then one that nobody uses, and a rank that uses none: without gradients, and with zeros."""
    first, second, third, fourth = sampler.permutation(range(4))
    everything, lacking = [0, 1, 2, 3], [[i for i in range(4) if i != lacked] for lacked in (first, second, third)]
    nothing = sampler.permutation([[i for i in range(4) if i != fourth], [], [first, second]])
    everyone = [everything] * 3
    steps = [[[path] for path in paths] for paths in (everyone, lacking, everyone, nothing, everyone, nothing)]
    first, then = sampler.permutation([True, False])
    to_none = [first] * 3 + [then] * 3
    return _case(sampler, ("unused",), [_model(sampler, 4, [_SINGLE])], [_first_two], steps, to_none=to_none)


def _mixed(sampler: Sampler) -> Case:
    """Both dtypes in turn: a model with frozen parameters among others, one without, and one with no other."""
    dtypes = sampler.permutation([_SINGLE, _DOUBLE])
    some, none, every = _model(sampler, 4, dtypes), _model(sampler, 3, dtypes), _model(sampler, 1, [_SINGLE])
    ends, inner = (
        sampler.shuffled([True] * 3, [False] * 3),
        sampler.shuffled([True, False, False], [False, True, False]),
    )
    for layer, frozen in zip([*some["layers"], *every["layers"]], [ends[0], *inner, ends[1], [True] * 3], strict=True):
        layer["frozen"] = frozen
    limits, path = [_around_a_frozen_one, _everything, _everything], [[0, 1, 2, 3], [0, 1, 2], [0]]
    return _case(sampler, ("mixed", "buckets"), [some, none, every], limits, [[path] * 2] * 2, to_none=(True, False))


def _gated(sampler: Sampler) -> Case:
    """At the last place one rank waits for what the other sends at the first, when it has launched all."""
    gates = [{rank: (None, "recv", 1 - rank), 1 - rank: (0, "isend", rank)} for rank in sampler.shuffled(0, 1)]
    model = _model(sampler, 3, [_SINGLE])
    return _case(sampler, ("no_waiting",), [model], [_first_two], [[[[0, 1, 2]]] * 2] * 2, gates, to_none=(True, False))


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    models: list[dict],
    limits: list,
    steps: list,
    gates: Sequence[dict] = (),
    to_none: Sequence[bool] = (),
) -> Case:
    """``steps``: of each, of each rank, of each model the path; ``gates``: of each, by rank, what it does at a place.

    ``to_none``: how gradients are zeroed after each step, and then from the beginning; in turn where it is not said.
    """
    to_none = to_none or sampler.shuffled(True, False)
    dtype, each = models[0]["layers"][0]["weights"][0].dtype, []
    for rank in range(len(steps[0])):
        mine = [
            {"x": _numbers(sampler, _ROWS, _WIDTH, dtype=dtype), "paths": step[rank], "to_none": none}
            for step, none in zip(steps, itertools.cycle(to_none))
        ]
        for number, step in enumerate(mine):
            step["gates"] = [_gate(step, *gates[number][rank])] if gates else []
        each.append({"models": [_own(sampler, model) for model in models], "steps": mine})
    rooms = [limit(model) for limit, model in zip(limits, models, strict=True)]
    return Case(criteria, {"world": len(each), "bucket_bytes": rooms}, ranks=len(each), per_rank_inputs=tuple(each))


def _gate(step: dict, place: int | None, operation: str, peer: int) -> list:
    return [replica.top(step) if place is None else place, operation, peer]


def _model(sampler: Sampler, layers: int, dtypes: list[torch.dtype]) -> dict:
    """Layers of unlike sizes, of ``dtypes`` in turn; every parameter ``b`` lies by columns."""
    inner = sampler.permutation(range(1, 6))[:layers]
    made = [_layer(sampler, size, dtypes[i % len(dtypes)]) | {"persistent": i % 2 == 0} for i, size in enumerate(inner)]
    return {"layers": made, "count": torch.tensor(0), "on": torch.zeros(2, dtype=torch.bool)}


def _layer(sampler: Sampler, inner: int, dtype: torch.dtype) -> dict:
    a, b = (0.3 * _numbers(sampler, inner, _WIDTH, dtype=dtype) for _ in range(2))
    scale = 1 + 0.1 * _numbers(sampler, _WIDTH, dtype=dtype)
    return {"weights": [a, b.t(), _numbers(sampler, dtype=dtype)], "frozen": [False] * 3, "scale": scale}


def _numbers(sampler: Sampler, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return sampler.values(*shape, kind="mixed", dtype=dtype) / 8


def _own(sampler: Sampler, model: dict) -> dict:
    """The same model as a rank has it before the call: with numbers of its own."""
    layers = []
    for layer in model["layers"]:
        inner = layer["weights"][0]
        layers.append(layer | _layer(sampler, len(inner), inner.dtype) | {"frozen": layer["frozen"]})
    on = torch.tensor(sampler.permutation([True, False]))
    return {"layers": layers, "count": torch.tensor(2**53 + 2 * sampler.integer(0, 2**40) + 1), "on": on}


def _another_order(sampler: Sampler) -> list[int]:
    return sampler.choice([[1, 2, 0], [2, 0, 1], [2, 1, 0]])


def _bytes(model: dict) -> list[int]:
    return [parameter.like.nbytes for parameter in reversed(replica.parameters(model)) if not parameter.frozen]


def _first_two(model: dict) -> int:
    """Two parameters fill the first bucket to the last byte."""
    return sum(_bytes(model)[:2])


def _all_but_the_largest(model: dict) -> int:
    return max(_bytes(model)) - 1


def _around_a_frozen_one(model: dict) -> int:
    """What is not frozen of the layer whose middle parameter is."""
    of = next(layer for layer in model["layers"] if layer["frozen"] == [False, True, False])
    return sum(w.nbytes for w, frozen in zip(of["weights"], of["frozen"], strict=True) if not frozen)


def _one_byte(model: dict) -> int:
    return 1


def _everything(model: dict) -> int:
    return max(1, sum(_bytes(model)))
