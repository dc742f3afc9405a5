"""The instructor's page of a class: what it counts, whom it names, and what it never lets in."""

import json
import re

import pytest

from autograder.core.ledger import Entry, Ledger
from autograder.core.verdict import Line, Verdict
from autograder.instructor.command import run
from autograder.instructor.page import page
from autograder.instructor.standing import standing
from tests.screens import px_beyond

SAYS = {"values": "every patch holds its own pixels", "no_copy": "no byte is copied"}


def verdict(**told):
    """Of ``views.patchify``; a criterion that is named was lost, and this is what its learner was told."""
    return Verdict(
        "views.patchify",
        tuple(
            Line(name, says, 2, "lost" if name in told else "earned", told.get(name, "")) for name, says in SAYS.items()
        ),
    )


def entry(student, **told):
    return Entry("views", student, "graded", verdicts={"patchify_hidden": verdict(**told)})


@pytest.fixture
def course(tmp_path):
    """Four learners: ada lost nothing, bob and cyd a copy, dan everything; eve's work is not graded yet."""
    dan = entry(
        "dan",
        values="The pixels are wrong: 'hi <script>alert(1)</script>'",
        no_copy="Not judged until this holds: every patch.",
    )
    dan.outcome, dan.notes, dan.incidents = (
        "timed out",
        ["A cell ran for more than 4 s."],
        ["sent a message of another exercise"],
    )
    for one in (
        entry("ada"),
        entry("bob", no_copy="768 B were copied."),
        entry("cyd", no_copy="1,024 B were copied."),
        dan,
    ):
        Ledger(tmp_path).write(one)
    for student in ("ada", "bob", "cyd", "dan", "eve"):
        (tmp_path / "submitted" / student / "views").mkdir(parents=True)
    return tmp_path


def test_learners_stand_by_points_and_who_is_not_graded_is_counted(course):
    found = standing(course, "views")
    assert [(one.name, one.score) for one in found.learners] == [("ada", 4), ("bob", 2), ("cyd", 2), ("dan", 0)]
    assert (found.median, found.max_score, found.ungraded) == (2, 4, 1)
    assert found.by_tenths() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 1]


def test_sentences_that_differ_in_their_figures_are_one(course):
    lost = standing(course, "views").misunderstood()
    assert [(row.criterion, len(row.lost)) for row in lost] == [("no_copy", 2), ("values", 1)]
    assert lost[0].sentences() == [(2, "768 B were copied.")]


def test_what_was_not_judged_is_nobodys_misconception(course):
    (_, no_copy) = standing(course, "views").rows
    assert no_copy.earned == 1 and len(no_copy.lost) == 2
    assert re.findall(r'<td class="([\w-]+)"', page(standing(course, "views")).split("no byte is copied</th>")[1])[
        :5
    ] == [
        "earned-by",
        "earned",
        "lost",
        "lost",
        "not-judged",
    ]


def test_the_page_says_what_to_teach_again(course):
    assert "When does <code>view</code> work?" in page(standing(course, "views"))


def test_what_a_learner_wrote_is_text_and_the_page_runs_nothing(course):
    written = page(standing(course, "views"))
    assert "&lt;script&gt;" in written and "<script" not in written and "default-src 'none'" in written


def test_an_anonymous_report_names_nobody_and_quotes_nobody(course):
    written = page(standing(course, "views", anonymous=True))
    assert not re.search(r"\b(ada|bob|cyd|dan)\b", written)
    assert "Learner 4" in written and re.search(r"(768|1,024) B were copied\.", written)
    assert "The pixels are wrong" not in written and "A cell ran" not in written and "another exercise" not in written


def test_numbers_are_drawn_and_no_list_of_names_leads_back(course):
    drawn = {tuple(one.name for one in standing(course, "views", anonymous=True).learners) for _ in range(20)}
    assert len(drawn) > 1 and {frozenset(names) for names in drawn} == {
        frozenset(f"Learner {place}" for place in range(1, 5))
    }


def test_a_broken_hidden_test_stands_on_the_page(course):
    broken = entry("fay", values="The hidden test failed.")
    broken.broken = ["the judge of views.patchify failed at patches.py:71"]
    Ledger(course).write(broken)
    assert "1 learners: the judge of views.patchify failed at patches.py:71" in page(standing(course, "views"))


def test_cells_are_timed_by_what_the_grader_noted(course):
    moment = lambda seconds: f"2026-10-12T10:00:{seconds:02d}.000000Z"
    noted = {"iopub.status.busy": moment(1), "iopub.status.idle": moment(4)}
    cells = [
        _cell("patchify", noted),
        _cell("compact", {**noted, "iopub.status.idle": moment(2)}),
        _cell("setup", {"iopub.status.busy": "now"}),
    ]
    folder = course / "autograded" / "ada" / "views"
    folder.mkdir(parents=True)
    (folder / "views.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    found = {one.name: one.runtime for one in standing(course, "views").learners}
    assert (found["ada"].seconds, found["ada"].slowest, found["ada"].slowest_seconds) == (4.0, "patchify", 3.0)
    assert found["bob"] is None


def _cell(grade_id, noted):
    metadata = {"execution": noted, "nbgrader": {"grade_id": grade_id}}
    return {
        "cell_type": "code",
        "id": grade_id,
        "metadata": metadata,
        "source": "",
        "outputs": [],
        "execution_count": None,
    }


def test_an_assignment_that_nobody_graded_is_refused_and_nothing_is_written(course, capsys):
    assert run(course, "streams", False, None) == 2
    assert "nothing of 'streams' was graded" in capsys.readouterr().err and not (course / "reports").exists()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(course, browser, width):
    assert run(course, "views", False, course / "page.html") == 0
    assert px_beyond(browser, (course / "page.html").read_text("utf-8"), width) <= 0
