"""E16.1: what is drawn: whole layers alike in all ranks, and shares that each rank alone is given before a pass."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from autograder.core.strata import laid_out

_ALL = ("outputs", "gradients", "forward", "backward", "shares")
Tensor = torch.Tensor


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_usual, _several, _wide, _alone):
        yield case(sampler)


def _usual(sampler: Sampler) -> Case:
    """Two ranks, both biases: x of one dimension to three, with gradients and without; no backward pass; gradients add up."""
    spec = _spec(sampler, 2, torch.float32, (True, True))
    passes = [
        _Pass(sampler, [spec], [0], [(5,)], strided=True),
        _Pass(sampler, [spec], [0], [(3,)], input_requires_grad=False),
        _Pass(sampler, [spec], [0], [(2, sampler.integer(2, 4))], written=False, strided=True),
        _Pass(sampler, [spec], [0], [(4,)], backward=False),
        _Pass(sampler, [spec], [0], [()], input_requires_grad=sampler.chance(0.5), backward=False, written=False),
        _Pass(sampler, [spec], [0], [()]),
    ]
    return _case(sampler, (*_ALL, "errors"), 2, [spec], passes, refused=_refused(sampler, 2))


def _several(sampler: Sampler) -> Case:
    """Four ranks, two modules one behind the other, each with one of the biases; called twice before a backward pass."""
    width = sampler.integer(2, 5)
    one = _spec(sampler, 4, torch.float64, (True, False), takes=width)
    other = _spec(sampler, 4, torch.float64, (False, True), takes=one["down"].shape[0], gives=width)
    specs = [one, other]
    passes = [
        _Pass(sampler, specs, [0, 1], [(3,)], residual=True),
        _Pass(sampler, specs, [0, 1], [(2,), (4,)], input_requires_grad=False),
        _Pass(sampler, specs, [1, 0], [(2, 2)], written=False),
        _Pass(sampler, specs, [0], [(2,), (2, 3)]),
    ]
    return _case(sampler, _ALL, 4, specs, passes)


def _wide(sampler: Sampler) -> Case:
    """Two ranks, no bias, one hidden feature a rank; and larger layers beside it."""
    one = _spec(sampler, 2, torch.float64, (False, False), hidden=2)
    other = _spec(sampler, 2, torch.float64, (True, True), hidden=2 * sampler.integer(8, 16))
    passes = [_Pass(sampler, [one, other], [0], [(3,)]), _Pass(sampler, [one, other], [1], [(7,)])]
    return _case(sampler, _ALL, 2, [one, other], passes)


def _alone(sampler: Sampler) -> Case:
    spec = _spec(sampler, 1, torch.float32, (sampler.chance(0.5), sampler.chance(0.5)))
    return _case(sampler, ("outputs", "gradients", "shares"), 1, [spec], [_Pass(sampler, [spec], [0], [(3,)])])


def _refused(sampler: Sampler, ranks: int) -> list[dict]:
    """Hidden features that the ranks do not divide, layers that do not fit each other, both, and the like of it that fits."""
    found = [
        _spec(sampler, 1, torch.float32, (True, True), hidden=hidden)
        for hidden in (1, 3, 2 * sampler.integer(2, 4) + 1)
    ]
    for hidden, more in ((4, 2), (6, -2), (4, 1), (3, 1), (5, -1)):
        spec = _spec(sampler, 1, torch.float32, (True, sampler.chance(0.5)), hidden=hidden)
        spec["down"] = _values(sampler, spec["down"].shape[0], hidden + more)
        found.append(spec)
    found += [_spec(sampler, ranks, torch.float32, (True, True)) for _ in range(2)]
    return sampler.permutation(found)


def is_sound(spec: dict, ranks: int) -> bool:
    hidden = spec["up"].shape[0]
    return hidden == spec["down"].shape[1] and hidden % ranks == 0


def _spec(
    sampler: Sampler,
    ranks: int,
    dtype: torch.dtype,
    biases: tuple[bool, bool],
    hidden: int | None = None,
    takes: int | None = None,
    gives: int | None = None,
) -> dict:
    """Whole layers; no two of their three sizes are alike, unless they are given."""
    hidden = hidden or ranks * sampler.integer(2, 3)
    sizes = [size for size in sampler.permutation(range(2, 8)) if size != hidden]
    takes = takes or sizes[0]
    gives = gives or next(size for size in sizes if size != takes)
    return {
        "up": _values(sampler, hidden, takes, dtype=dtype),
        "up_bias": _values(sampler, hidden, dtype=dtype) if biases[0] else None,
        "down": _values(sampler, gives, hidden, dtype=dtype),
        "down_bias": _values(sampler, gives, dtype=dtype) if biases[1] else None,
    }


def _values(sampler: Sampler, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return sampler.values(*shape, kind="mixed", dtype=dtype) / 16


class _Pass:
    """``chain``: modules by number; ``leading``: for each x its dimensions before the last; ``written``: ranks get new shares.

    ``residual``: x is added to what comes out; ``strided``: x is a transposed tensor.
    """

    def __init__(
        self,
        sampler: Sampler,
        specs: list[dict],
        chain: list[int],
        leading: list[tuple],
        input_requires_grad: bool = True,
        backward: bool = True,
        written: bool = True,
        residual: bool = False,
        strided: bool = False,
    ) -> None:
        first, last, dtype = specs[chain[0]], specs[chain[-1]], specs[0]["up"].dtype
        self.common = {
            "chain": chain,
            "input_requires_grad": input_requires_grad,
            "backward": backward,
            "residual": residual,
            "xs": [_values(sampler, *dims, first["up"].shape[1], dtype=dtype) for dims in leading],
            "grads": [_values(sampler, *dims, last["down"].shape[0], dtype=dtype) for dims in leading],
        }
        if strided:
            self.common["xs"] = [laid_out(x, "transposed") for x in self.common["xs"]]
        self.written = written


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    ranks: int,
    specs: list[dict],
    passes: list[_Pass],
    refused: list[dict] | None = None,
) -> Case:
    each = [{"specs": specs, "refused": refused or [], "passes": []} for _ in range(ranks)]
    for step in passes:
        biases = [
            None if spec["down_bias"] is None else _values(sampler, *spec["down_bias"].shape, dtype=spec["up"].dtype)
            for spec in specs
        ]
        for own in each:
            shares = [
                _share(sampler, spec, bias, ranks) if step.written else None
                for spec, bias in zip(specs, biases, strict=True)
            ]
            own["passes"].append(step.common | {"shares": shares})
    return Case(criteria, {"world": ranks}, ranks=ranks, per_rank_inputs=tuple(each))


def _share(sampler: Sampler, spec: dict, down_bias: Tensor | None, ranks: int) -> list[Tensor]:
    """Of one rank, in the order of its parameters; the second layer's bias is the same in all."""
    dtype, part = spec["up"].dtype, spec["up"].shape[0] // ranks
    found = [_values(sampler, part, spec["up"].shape[1], dtype=dtype)]
    found += [] if spec["up_bias"] is None else [_values(sampler, part, dtype=dtype)]
    found += [_values(sampler, spec["down"].shape[0], part, dtype=dtype)]
    return found + ([] if down_bias is None else [down_bias])
