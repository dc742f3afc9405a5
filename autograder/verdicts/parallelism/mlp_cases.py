"""E16.1: what is drawn: whole layers alike in all ranks, and shares that each rank alone is given before a pass."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case
from autograder.strata import laid_out

_ALL = ("outputs", "gradients", "forward", "backward", "shares")
Tensor = torch.Tensor


def cases(draw: Draw) -> Iterator[Case]:
    for case in draw.each(_usual, _several, _wide, _alone):
        yield case(draw)


def _usual(draw: Draw) -> Case:
    """Two ranks, both biases: x of one dimension to three, with gradients and without; no backward pass; gradients add up."""
    spec = _spec(draw, 2, torch.float32, (True, True))
    passes = [
        _Pass(draw, [spec], [0], [(5,)], strided=True),
        _Pass(draw, [spec], [0], [(3,)], input_requires_grad=False),
        _Pass(draw, [spec], [0], [(2, draw.integer(2, 4))], written=False, strided=True),
        _Pass(draw, [spec], [0], [(4,)], backward=False),
        _Pass(draw, [spec], [0], [()], input_requires_grad=draw.chance(0.5), backward=False, written=False),
        _Pass(draw, [spec], [0], [()]),
    ]
    return _case(draw, (*_ALL, "errors"), 2, [spec], passes, refused=_refused(draw, 2))


def _several(draw: Draw) -> Case:
    """Four ranks, two modules one behind the other, each with one of the biases; called twice before a backward pass."""
    width = draw.integer(2, 5)
    one = _spec(draw, 4, torch.float64, (True, False), takes=width)
    other = _spec(draw, 4, torch.float64, (False, True), takes=one["down"].shape[0], gives=width)
    specs = [one, other]
    passes = [
        _Pass(draw, specs, [0, 1], [(3,)], residual=True),
        _Pass(draw, specs, [0, 1], [(2,), (4,)], input_requires_grad=False),
        _Pass(draw, specs, [1, 0], [(2, 2)], written=False),
        _Pass(draw, specs, [0], [(2,), (2, 3)]),
    ]
    return _case(draw, _ALL, 4, specs, passes)


def _wide(draw: Draw) -> Case:
    """Two ranks, no bias, one hidden feature a rank; and larger layers beside it."""
    one = _spec(draw, 2, torch.float64, (False, False), hidden=2)
    other = _spec(draw, 2, torch.float64, (True, True), hidden=2 * draw.integer(8, 16))
    passes = [_Pass(draw, [one, other], [0], [(3,)]), _Pass(draw, [one, other], [1], [(7,)])]
    return _case(draw, _ALL, 2, [one, other], passes)


def _alone(draw: Draw) -> Case:
    spec = _spec(draw, 1, torch.float32, (draw.chance(0.5), draw.chance(0.5)))
    return _case(draw, ("outputs", "gradients", "shares"), 1, [spec], [_Pass(draw, [spec], [0], [(3,)])])


def _refused(draw: Draw, ranks: int) -> list[dict]:
    """Hidden features that the ranks do not divide, layers that do not fit each other, both, and the like of it that fits."""
    found = [
        _spec(draw, 1, torch.float32, (True, True), hidden=hidden) for hidden in (1, 3, 2 * draw.integer(2, 4) + 1)
    ]
    for hidden, more in ((4, 2), (6, -2), (4, 1), (3, 1), (5, -1)):
        spec = _spec(draw, 1, torch.float32, (True, draw.chance(0.5)), hidden=hidden)
        spec["down"] = _values(draw, spec["down"].shape[0], hidden + more)
        found.append(spec)
    found += [_spec(draw, ranks, torch.float32, (True, True)) for _ in range(2)]
    return draw.shuffled(found)


def is_sound(spec: dict, ranks: int) -> bool:
    hidden = spec["up"].shape[0]
    return hidden == spec["down"].shape[1] and hidden % ranks == 0


def _spec(
    draw: Draw,
    ranks: int,
    dtype: torch.dtype,
    biases: tuple[bool, bool],
    hidden: int | None = None,
    takes: int | None = None,
    gives: int | None = None,
) -> dict:
    """Whole layers; no two of their three sizes are alike, unless they are given."""
    hidden = hidden or ranks * draw.integer(2, 3)
    sizes = [size for size in draw.shuffled(range(2, 8)) if size != hidden]
    takes = takes or sizes[0]
    gives = gives or next(size for size in sizes if size != takes)
    return {
        "up": _values(draw, hidden, takes, dtype=dtype),
        "up_bias": _values(draw, hidden, dtype=dtype) if biases[0] else None,
        "down": _values(draw, gives, hidden, dtype=dtype),
        "down_bias": _values(draw, gives, dtype=dtype) if biases[1] else None,
    }


def _values(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return draw.values(*shape, kind="mixed", dtype=dtype) / 16


class _Pass:
    """``chain``: modules by number; ``leading``: for each x its dimensions before the last; ``written``: ranks get new shares.

    ``residual``: x is added to what comes out; ``strided``: x is a transposed tensor.
    """

    def __init__(
        self,
        draw: Draw,
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
            "xs": [_values(draw, *dims, first["up"].shape[1], dtype=dtype) for dims in leading],
            "grads": [_values(draw, *dims, last["down"].shape[0], dtype=dtype) for dims in leading],
        }
        if strided:
            self.common["xs"] = [laid_out(x, "transposed") for x in self.common["xs"]]
        self.written = written


def _case(
    draw: Draw,
    about: tuple[str, ...],
    ranks: int,
    specs: list[dict],
    passes: list[_Pass],
    refused: list[dict] | None = None,
) -> Case:
    each = [{"specs": specs, "refused": refused or [], "passes": []} for _ in range(ranks)]
    for step in passes:
        biases = [
            None if spec["down_bias"] is None else _values(draw, *spec["down_bias"].shape, dtype=spec["up"].dtype)
            for spec in specs
        ]
        for own in each:
            shares = [
                _share(draw, spec, bias, ranks) if step.written else None
                for spec, bias in zip(specs, biases, strict=True)
            ]
            own["passes"].append(step.common | {"shares": shares})
    return Case(about, {"world": ranks}, ranks=ranks, each=tuple(each))


def _share(draw: Draw, spec: dict, down_bias: Tensor | None, ranks: int) -> list[Tensor]:
    """Of one rank, in the order of its parameters; the second layer's bias is the same in all."""
    dtype, part = spec["up"].dtype, spec["up"].shape[0] // ranks
    found = [_values(draw, part, spec["up"].shape[1], dtype=dtype)]
    found += [] if spec["up_bias"] is None else [_values(draw, part, dtype=dtype)]
    found += [_values(draw, spec["down"].shape[0], part, dtype=dtype)]
    return found + ([] if down_bias is None else [down_bias])
