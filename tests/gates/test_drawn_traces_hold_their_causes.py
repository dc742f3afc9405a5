"""The drawer of E12.2's traces: each cause takes as long as was asked for, and what is written is Kineto's format."""

import json
from pathlib import Path

import pytest

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.notebooks.cells import solution_of
from exercises.profiling.diagnose.cases import CAUSES, found, step, work, written

PROFILING = Path(__file__).parents[2] / "exercises" / "profiling" / "notebook.py"


@pytest.mark.parametrize("unit", [1, 1000])
def test_each_cause_takes_what_was_planted(unit):
    for seed in range(20):
        sampler = Sampler(seed)
        amounts = {cause: sampler.integer(20, 200) * 1000 for cause in CAUSES}
        assert found(step(sampler, amounts, unit), work(sampler)).times == amounts


def test_the_solution_finds_what_was_planted_in_a_file_that_was_written_and_read():
    namespace: dict = {}
    exec(solution_of(read_text_notebook(PROFILING), "diagnose"), namespace)
    for style in ("today", "2021"):
        sampler = Sampler(5)
        amounts, table = {cause: sampler.integer(20, 90) * 1000 for cause in CAUSES}, work(sampler)
        spans = step(sampler, amounts, 1000)
        verdict, times = namespace["diagnose"](json.loads(json.dumps(written(spans, style))), table.counts, table.ridge)
        assert verdict == found(spans, table).verdict
        assert times == pytest.approx({cause: amount / 1000 for cause, amount in amounts.items()}, abs=0.1)


def test_idle_times_without_room_between_the_work_are_refused():
    with pytest.raises(ValueError, match="no room"):
        step(Sampler(1), {"compute": 100, "input": 9000, "sync": 9000, "launch": 9000}, unit=100)
