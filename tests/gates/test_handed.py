"""What a learner's function is handed keeps nothing that is judged later."""

from functools import partial
from pathlib import Path

import pytest
import torch

from autograder.authoring import handed
from autograder.authoring.authored import authored_in
from autograder.authoring.handed import changes_in, kept_by_handed_objects

EXERCISES = Path(__file__).parents[2] / "exercises"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The classes of this file are the course's."""
    monkeypatch.setattr(handed, "_COURSE", (__file__,))


class Constant:
    def __init__(self) -> None:
        self.width, self.weight = 3, torch.ones(2)

    def __call__(self) -> int:
        return self.width


class Counts:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


class Lists(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.given = []


class Holds:
    def __init__(self, other) -> None:
        self.other = other


class Placed(torch.nn.Module):
    def place(self) -> "Placed":
        self.scale = torch.ones(1)
        return self


def hooked() -> torch.nn.Module:
    model, counts = torch.nn.Linear(1, 1), Counts()
    model.register_forward_pre_hook(counts.__call__)
    return model


def names(*values) -> list[str]:
    return sorted(place.rpartition("test_handed.")[2] for place in changes_in(values))


@pytest.mark.parametrize(
    "value", [Constant(), Constant().__call__, lambda: 1, iter([1]), [1], torch.ones(1), Placed().place()]
)
def test_what_stays_as_it_was_made_is_nothing_to_edit(value):
    assert names(value) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Counts(), ["Counts.calls"]),
        (Lists(), ["Lists.given"]),
        ([{"a": (Counts(),)}], ["Counts.calls"]),
        (Holds(Counts()), ["Counts.calls"]),
        (Counts().__call__, ["Counts.calls"]),
        (torch.nn.Sequential(Lists()), ["Lists.given"]),
        (hooked(), ["Counts.calls"]),
        (partial(Counts()), ["Counts.calls"]),
    ],
)
def test_a_count_or_a_list_is_found_wherever_it_can_be_reached(value, found):
    assert names(value) == found


def test_an_exemption_is_still_needed(monkeypatch):
    monkeypatch.undo()
    (authored,) = (one for one in authored_in(EXERCISES / "engines") if one.name == "engines.continuous_batcher")
    monkeypatch.setattr(handed, "EXEMPT", {})
    assert kept_by_handed_objects(authored) == ["exercises.engines.run_played._Heard._asked"]
