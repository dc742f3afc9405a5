"""A cell that a learner runs behind a solution comes before hidden tests: it binds no name that a learner's helper may have."""

import ast
from pathlib import Path

import pytest

from autograder.authoring.text import read_text_notebook

EXERCISES = Path(__file__).parents[2] / "exercises"
NOTEBOOKS = {path.parent.name: read_text_notebook(path) for path in sorted(EXERCISES.glob("*/notebook.py"))}
# What cells between exercises give to the learner: what the statement, a message or the exercise's own solutions name.
GIVEN = {
    "kernels": "plain_softmax plain_linear first_squash",
    "precision": "cross_entropy",
    "memory": "saved_bytes",
    "collectives": "port_bytes",
    "data_parallel": "math dist run_ranks itertools",
    "inference": "dataclass KVConfig Video Request DecoderShape one_pass",
    "engines": "Chunked Continuous Plan dataclass Fraction Kind Workload Cluster tl triton gathered_attention",
    "platforms": "day fixed keeping pulses quiet_nights replay steady SETTLE four_loads MOST GEOMETRY NO_MIG",
}


def cells_behind_a_solution(notebook) -> dict[str, str]:
    """The sources, by grade_id, of the visible cells that stand behind the first solution and are none."""
    found, behind = {}, False
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        behind = behind or nbgrader.get("solution", False)
        if cell.cell_type == "code" and behind and not nbgrader.get("solution") and not nbgrader.get("grade"):
            found[nbgrader["grade_id"]] = cell.source
    return found


CELLS = {
    (chapter, grade_id): source
    for chapter in NOTEBOOKS
    for grade_id, source in cells_behind_a_solution(NOTEBOOKS[chapter]).items()
}
SEEN = [place for place in CELLS if place[1].endswith("_seen")]
BETWEEN = [place for place in CELLS if not place[1].endswith("_seen")]


@pytest.mark.parametrize("place", SEEN, ids=".".join)
def test_a_seen_cell_binds_one_name_which_is_the_cells_own(place):
    assert bound(CELLS[place]) == [f"_see_{place[1].removesuffix('_seen')}"]


@pytest.mark.parametrize("place", BETWEEN, ids=".".join)
def test_a_cell_between_exercises_binds_what_it_gives_and_names_with_underscores(place):
    assert [
        name for name in bound(CELLS[place]) if not name.startswith("_") and name not in GIVEN.get(place[0], "").split()
    ] == []


@pytest.mark.parametrize("chapter", GIVEN)
def test_what_a_chapter_is_said_to_give_is_bound_by_its_cells(chapter):
    assert set(GIVEN[chapter].split()) <= {
        name for place, source in CELLS.items() if place[0] == chapter for name in bound(source)
    }


def test_every_notebook_with_exercises_is_held_to_it():
    assert {chapter for chapter, _ in SEEN} == set(NOTEBOOKS) != set()


def bound(source: str) -> list[str]:
    """The names that a cell binds in the notebook, in order."""
    return [name for statement in ast.parse(source).body for name in _bound(statement)]


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    nodes = list(ast.walk(statement))
    imported = [
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    inner = {id(node) for one in nodes if isinstance(one, ast.comprehension) for node in ast.walk(one.target)}
    return imported + [
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner
    ]
