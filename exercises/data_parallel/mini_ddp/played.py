"""E14.1: a case that came to its end, and which gradients are in what a rank handed in."""

from dataclasses import dataclass, field

import torch

from autograder.core.exercise import Case
from exercises.data_parallel.mini_ddp import replica
from exercises.data_parallel.mini_ddp.launches import RankLog
from exercises.data_parallel.mini_ddp.replica import Parameter

Tensor = torch.Tensor


@dataclass(frozen=True)
class Played:
    """What each rank said: its models' ``starts``, what is ``written`` where they lay before, and its ``grads`` by step.

    What each did: ``rank_logs``. ``own``: the gradients that each has of its own, by step, model and parameter, at the weights
    that it said. ``near``: how much of a number's size two computations of it may differ by.
    """

    case: Case
    starts: list
    written: list
    grads: list
    rank_logs: list[RankLog]
    own: list[list]
    near: float
    _elements: dict = field(default_factory=dict)

    @property
    def models(self) -> list[dict]:
        """As rank 0 begins with them."""
        return self.case.per_rank_inputs[0]["models"]

    @property
    def steps(self) -> range:
        return range(len(self.case.per_rank_inputs[0]["steps"]))

    def buckets(self) -> list[list[list[Parameter]]]:
        """Of each model."""
        rooms = self.case.inputs["bucket_bytes"]
        return [replica.buckets(model, most) for model, most in zip(self.models, rooms, strict=True)]

    def flat(self, rank: int, step: int, model: int, bucket: list[Parameter]) -> Tensor:
        """What ``rank`` is to hand in for ``bucket``, as float64."""
        found = self.own[rank][step][model]
        parts = [found[p.number] if found[p.number] is not None else torch.zeros_like(p.like) for p in bucket]
        return torch.cat([part.reshape(-1).double() for part in parts])

    def elements(self, rank: int, step: int) -> "Elements":
        """Of the gradients that ``rank`` has in ``step``."""
        if (rank, step) not in self._elements:
            self._elements[rank, step] = _elements(self, rank, step)
        return self._elements[rank, step]


@dataclass(frozen=True)
class Elements:
    """All elements of a rank's gradients in a step, numbered: their values, models, parameters, and where they are ready."""

    values: Tensor
    model: Tensor
    parameter: Tensor
    place: Tensor
    near: float

    def numbers_in(self, given: Tensor, world: int) -> Tensor:
        """Of the elements that are in ``given``, as they are or divided by the number of ranks."""
        as_it_is = self._found(given)
        return as_it_is if len(as_it_is) == len(given) else max(as_it_is, self._found(world * given), key=len)

    def _found(self, given: Tensor) -> Tensor:
        if not len(given) or not len(self.values):
            return torch.zeros(0, dtype=torch.int64)
        ordered, order = self.values.sort()
        after = torch.searchsorted(ordered, given).clamp(max=len(ordered) - 1)
        before = (after - 1).clamp(min=0)
        is_before = (given - ordered[before]).abs() < (given - ordered[after]).abs()
        number, sizes = order[torch.where(is_before, before, after)], self.values.abs()
        away = (given - self.values[number]).abs()
        return number[away <= self.near * sizes[number].clamp(min=0.01 * float(sizes.max()))]

    def of_bucket(self, model: int, bucket: list[Parameter]) -> Tensor:
        of = torch.isin(self.parameter, torch.tensor([p.number for p in bucket])) & (self.model == model)
        return of.nonzero()[:, 0]

    def ready(self, numbers: Tensor) -> list[tuple[int, int]]:
        """Of each model among the elements the place where the last of them is ready."""
        models = self.model[numbers]
        return [(int(model), int(self.place[numbers][models == model].min())) for model in models.unique()]


def _elements(played: Played, rank: int, step: int) -> Elements:
    mine = played.case.per_rank_inputs[rank]["steps"][step]
    values, rows = [torch.zeros(0, dtype=torch.float64)], [torch.zeros(0, 3, dtype=torch.int64)]
    for number, model in enumerate(played.models):
        for p in replica.parameters(model):
            place = replica.ready_at(number, p.layer, mine)
            if not p.frozen and place is not None:
                values.append(played.flat(rank, step, number, [p]))
                rows.append(torch.tensor([[number, p.number, place]]).expand(p.like.numel(), 3))
    return Elements(torch.cat(values), *torch.cat(rows).unbind(1), near=played.near)
