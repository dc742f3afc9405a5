"""Every exercise in exercises/ passes every gate."""

from pathlib import Path

import pytest

from autograder.authoring.bench import readable
from autograder.authoring.gates import GATES, mutants_and_many_seeds_were_tried

EXERCISES = Path(__file__).parents[2] / "exercises"
BENCHES, UNREADABLE = readable(EXERCISES)
# Every mutant of these, and every attempt with thirty seeds, is still to be tried: python -m autograder mutate.
NOT_YET_TRIED = {
    f"{chapter}.{function}"
    for chapter, functions in {
        "transfers": "overlapped move_to",
        "streams": "honest_time train run_two_models",
        "memory": "state_bytes activation_bytes fits lora_memory",
        "kernels": "fused_gate row_softmax linear_silu squash",
        "precision": "round_to dynamic_scaler amp_step training_drift",
        "collectives": "ring_all_reduce",
        "data_parallel": "mini_ddp reduce_metrics",
    }.items()
    for function in functions.split()
}


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.name)
@pytest.mark.parametrize("check", GATES, ids=lambda check: check.__name__)
def test_gate(check, bench, capsys):
    if check is mutants_and_many_seeds_were_tried and bench.name in NOT_YET_TRIED:
        assert not bench.record, f"{bench.name} has been tried: take it from the list"
        return
    found = list(check(bench))
    capsys.readouterr()  # what attempts print would bury the finding
    assert found == []


def test_every_chapters_files_can_be_read():
    assert UNREADABLE == {}


def test_what_was_not_yet_tried_is_an_exercise():
    assert {bench.name for bench in BENCHES} >= NOT_YET_TRIED


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
