"""Every exercise in exercises/ passes every gate."""

from pathlib import Path

import pytest

from autograder.authoring.gates import GATES, benches

EXERCISES = Path(__file__).parents[2] / "exercises"
BENCHES = benches(EXERCISES)


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.name)
@pytest.mark.parametrize("check", GATES, ids=lambda check: check.__name__)
def test_gate(check, bench):
    assert list(check(bench)) == []


def test_every_chapter_with_a_notebook_is_on_the_bench():
    chapters = {path.parent.name for path in EXERCISES.glob("*/*.py") if path.stem == path.parent.name}
    assert chapters and chapters == {bench.name.partition(".")[0] for bench in BENCHES}


def test_every_solution_cell_is_graded():
    for bench in BENCHES:
        solutions = {
            cell.metadata["nbgrader"]["grade_id"]
            for cell in bench.notebook.cells
            if cell.metadata.get("nbgrader", {}).get("solution")
        }
        chapter = bench.name.partition(".")[0]
        assert solutions == {other.function for other in BENCHES if other.name.startswith(f"{chapter}.")}


def test_every_attempt_belongs_to_an_exercise():
    from autograder.authoring.mistakes import load_attempts

    for path in EXERCISES.glob("*/mistakes.py"):
        functions = {bench.function for bench in BENCHES if bench.name.startswith(f"{path.parent.name}.")}
        assert {attempt.exercise for attempt in load_attempts(path)} <= functions
