"""E15.2: a case that came to its end: what each rank says, what each did, and what was due."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from autograder.core.exercise import Case
from exercises.sharding.mini_fsdp import units as fsdp_units
from exercises.sharding.mini_fsdp.log import RankLog
from exercises.sharding.mini_fsdp.units import Sharded

Tensor = torch.Tensor


@dataclass(frozen=True)
class Played:
    """What each rank said: its ``parts`` at the beginning and after each pass, its ``grads``, what came out (``outs``), and
    the gradients of its ``inputs``; what it did: ``rank_logs``."""

    case: Case
    parts: list
    grads: list
    outs: list
    inputs: list
    rank_logs: list[RankLog]
    units: list[Sharded]
    _own: dict = field(default_factory=dict)

    @property
    def models(self) -> Sequence[Sequence[dict]]:
        return self.case.per_rank_inputs[0]["models"]

    @property
    def world(self) -> int:
        return self.case.ranks

    @property
    def passes(self) -> list[dict]:
        """As rank 0 has them: the ranks' differ in ``x``."""
        return self.case.per_rank_inputs[0]["passes"]

    def whole(self, number: int) -> list[Tensor]:
        """Of each unit what all ranks together hold before pass ``number``."""
        return [torch.cat([parts[number][i] for parts in self.parts]) for i in range(len(self.units))]

    def expected_out(self, rank: int, number: int) -> Tensor:
        """What ``rank`` computes in a pass, as float64."""
        with torch.no_grad():
            return fsdp_units.output(
                self.models, self.whole(number), self.case.per_rank_inputs[rank]["passes"][number]["x"]
            )

    def own(self, rank: int, number: int) -> list[Tensor]:
        """The gradient of each unit that ``rank`` has of its own in a pass, flat and padded, as float64."""
        return self._gradients(rank, number)[0]

    def of_input(self, rank: int, number: int) -> Tensor:
        """The gradient of what ``rank`` puts into the models in a pass, as float64."""
        return self._gradients(rank, number)[1]

    def size(self, number: int, whole: Tensor) -> float:
        """How large a unit's gradients are, or what is added up to them: of one number the terms may nearly cancel."""
        every = (own for rank in range(self.world) for own in self.own(rank, number))
        return max(float(whole.abs().max()), max(float(own.abs().max()) for own in every) / 10)

    def _gradients(self, rank: int, number: int) -> tuple[list[Tensor], Tensor | None]:
        if (rank, number) not in self._own:
            x = self.case.per_rank_inputs[rank]["passes"][number]["x"]
            self._own[rank, number] = fsdp_units.gradients(self.models, self.whole(number), x)
        return self._own[rank, number]

    def expected_grads(self, number: int) -> list[Tensor | None]:
        """Of each unit what all ranks' gradients together are after a pass, with what was there before it."""
        before = self._left(number)
        if self.passes[number]["do"] != "train":
            return before
        means = [
            sum(of) / self.world for of in zip(*(self.own(rank, number) for rank in range(self.world)), strict=True)
        ]
        return [mean if old is None else old + mean for old, mean in zip(before, means, strict=True)]

    def _left(self, number: int) -> list[Tensor | None]:
        """What is there before a pass; zeros are as good as None."""
        if number == 0 or self.passes[number - 1]["then"] != "keep":
            return [None] * len(self.units)
        return self.expected_grads(number - 1)

    def of_rank(self, whole: Tensor, rank: int) -> Tensor:
        """The part of ``rank``."""
        return whole.chunk(self.world)[rank]

    def padding(self, i: int) -> int:
        """How many elements of unit ``i`` are none of its parameters'."""
        return self.units[i].part * self.world - sum(p.numel() for p in fsdp_units.parameters(self.units[i].unit))
