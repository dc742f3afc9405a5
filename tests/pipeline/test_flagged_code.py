"""Code that uses what no exercise needs costs nothing, and waits for a person with cell, line and reason."""

import pytest
from nbformat.v4 import new_code_cell

from autograder.core.flag import REASONS
from autograder.nbgrader.flagged import to_look_at

HELPER = "import math\nimport ctypes"


def with_cell(course, code, before="patchify"):
    """The course's own solutions, and a cell of the learner's above one of them."""
    notebook = course.answered()
    places = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    notebook.cells.insert(places.index(before), new_code_cell(code))
    return notebook


@pytest.fixture(scope="module")
def flagged(course):
    course.hand_in("reads_memory", with_cell(course, HELPER))
    assert course.autograde("reads_memory")["success"]
    return course


def test_it_costs_no_points(flagged):
    assert flagged.scores("reads_memory") == flagged.full_marks()


def test_the_ledger_names_cell_line_and_reason(flagged):
    (flag,) = flagged.entry("reads_memory")["flags"]
    assert (flag["line"], flag["code"], flag["kind"], flag["name"]) == (2, "import ctypes", "system", "ctypes")
    cells = flagged.notebook("release").cells
    assert flag["cell"].startswith("cell ") and int(flag["cell"].split()[1]) <= len(cells) + 1


def test_nbgrader_asks_for_a_person_at_every_exercise_where_a_helper_is_flagged(flagged):
    assert waiting(flagged, "reads_memory") == set(flagged.full_marks())


def test_of_a_flagged_answer_its_own_exercise_waits_alone(course):
    answer = "import ctypes\n" + course.solution("patchify")
    course.hand_in("answers_oddly", course.answered(patchify=answer))
    assert course.autograde("answers_oddly")["success"]
    assert waiting(course, "answers_oddly") == {"patchify_hidden"}


def test_an_honest_one_waits_for_nobody(course):
    course.hand_in("flagged_nowhere", course.answered())
    assert course.autograde("flagged_nowhere")["success"]
    assert course.entry("flagged_nowhere")["flags"] == [] and not course.needs_manual_grade("flagged_nowhere")


def test_a_module_beside_the_notebook_is_read_too(course):
    folder = course.hand_in("brings_a_module", with_cell(course, "import helper"))
    (folder / "helper.py").write_text("import torch\ntorch.add = None\n")
    assert course.autograde("brings_a_module")["success"]
    (flag,) = course.entry("brings_a_module")["flags"]
    assert (flag["cell"], flag["line"], flag["kind"]) == ("helper.py", 2, "patch")


def test_the_feedback_page_says_nothing_of_it(flagged):
    assert not any(reason in flagged.feedback("reads_memory") for reason in REASONS.values())


def test_graded_again_without_it_nobody_is_asked(course):
    course.hand_in("takes_it_out", with_cell(course, HELPER))
    course.autograde("takes_it_out")
    assert course.needs_manual_grade("takes_it_out")
    course.hand_in("takes_it_out", course.answered(), at="2026-01-02 00:00:00")
    course.autograde("takes_it_out")
    assert not course.needs_manual_grade("takes_it_out")


def test_the_formgraders_page_shows_places_and_reasons_as_text(flagged):
    resources = {"assignment_id": "views", "student": "reads_memory", "notebook_id": "views"}
    page = to_look_at(flagged.ledger, resources)
    assert "<code>import ctypes</code>" in page and "line 2" in page and REASONS["system"] in page
    entry = flagged.ledger.read("views", "reads_memory")
    assert not to_look_at(flagged.ledger, resources | {"student": "nobody"}) and entry.flags


def waiting(course, student) -> set[str]:
    """The graded cells that nbgrader lists for a person."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(course.chapter, student)
        grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
        return {grade.name for grade in grades if grade.needs_manual_grade}


def test_what_reading_misses_is_flagged_when_it_happens(course):
    code = "# spelt so that nobody reads it\n[c for n, c in vars(torch).items() if n == '_' + 'C'][0]\n"
    code += "(lambda put, of: put(of, 'memory_' + 'allocated', lambda: 0))(setattr, torch.cuda)"
    course.hand_in("spelt_obscurely", with_cell(course, "import torch\n" + code))
    assert course.autograde("spelt_obscurely")["success"]
    flags = course.entry("spelt_obscurely")["flags"]
    assert ("patch", "torch.cuda.memory_allocated", 4) in {(one["kind"], one["name"], one["line"]) for one in flags}
    assert waiting(course, "spelt_obscurely") == set(course.full_marks())
