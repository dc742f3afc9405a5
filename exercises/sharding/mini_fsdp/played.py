"""E15.2: a case that came to its end: what each rank says, what each did, and what was due."""

from dataclasses import dataclass
from functools import cached_property

import torch

from autograder.core.exercise import Case
from exercises.sharding.mini_fsdp.log import Pass, RankLog
from exercises.sharding.mini_fsdp.units import Passed, Sharded, passed, sharded

Tensor = torch.Tensor
_NEAR = 2e-5
"""How much of a number's size two computations of it may differ by."""


@dataclass(frozen=True)
class Played:
    """What each rank said: its ``parts`` at the beginning and after each pass, its ``grads``, what came out (``outs``); what it
    did: ``rank_logs``."""

    case: Case
    parts: list
    grads: list
    outs: list
    rank_logs: list[RankLog]

    @property
    def world(self) -> int:
        return self.case.ranks

    @cached_property
    def units(self) -> list[Sharded]:
        return sharded(self.case.per_rank_inputs[0]["units"], self.world)

    @property
    def passes(self) -> list[dict]:
        """As rank 0 has them: the ranks' differ in ``x``."""
        return self.case.per_rank_inputs[0]["passes"]

    @cached_property
    def due(self) -> list[Passed]:
        return list(passed(self.case))

    def logged(self, number: int) -> list[Pass]:
        return [said.passes[number] for said in self.rank_logs]

    @property
    def largest(self) -> int:
        """Bytes of the largest unit, padded."""
        return max(unit.part_bytes for unit in self.units) * self.world


def is_near(one: Tensor, other: Tensor, size: float | None = None) -> bool:
    size = float(other.abs().max()) if size is None else size
    return len(one) == len(other) and bool(((one.double() - other).abs() <= _NEAR * size).all())


def is_near_in_any_order(one: Tensor, other: Tensor, size: float | None = None) -> bool:
    """Where the elements stand, and how many zeros behind them, is asked elsewhere."""
    one, other = (values[values != 0].double().sort().values for values in (one, other))
    return is_near(one, other, size)
