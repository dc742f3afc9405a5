"""``python -m autograder similar``: who has code in common with whom, and with what the course publishes."""

import re

import pytest

from autograder.grading.similar import run, similar
from autograder.misconceptions.corpus import read_corpus
from tests.pipeline.conftest import ROOT, Course

OWN_WAY = """
def compact(x):
    kept = []
    while len(kept) < 3 and x is not None:
        kept.append({"one": x, "two": [x, (x,), {x: 1}]})
        try:
            assert kept or not kept, "never"
        except AssertionError as found:
            raise ValueError(f"{found}") from found
        finally:
            del kept[1:]
    return kept[0]["one"]
"""


def renamed(source: str) -> str:
    """With another name for every local one, as a copy is disguised."""
    return re.sub(r"\b(x|out|span|needed|count|step|size|stride)\b", lambda name: f"my_{name[0]}", source)


@pytest.fixture
def of_ones_own(tmp_path) -> Course:
    """Bob's is a renamed copy of Ada's, whose way is hers; Eve's is the course's solution with other names."""
    course = Course(tmp_path)
    course.hand_in("ada", course.answered(compact=OWN_WAY))
    course.hand_in("bob", course.answered(compact=OWN_WAY.replace("kept", "mine").replace("found", "why")))
    course.hand_in("eve", course.answered(compact=renamed(course.solution("compact"))))
    return course


def compared(course: Course) -> set[tuple[str, str]]:
    return {(pair.one, pair.other) for pair in similar(course.root, "views") if pair.cell == "compact"}


def test_a_renamed_copy_is_named_and_a_way_of_ones_own_is_not(of_ones_own):
    found = compared(of_ones_own)
    assert ("ada", "bob") in found and not {("ada", "eve"), ("bob", "eve")} & found
    assert not {one for one, other in found if "course" in other} & {"ada", "bob"}


def test_the_courses_own_solution_is_known_again(of_ones_own):
    assert ("eve", "the course's own solution") in compared(of_ones_own)


def test_so_is_a_right_answer_of_its_corpus(tmp_path):
    course = Course(tmp_path)
    (other, *_) = [
        a for a in read_corpus(ROOT / "exercises/views/corpus.txt") if (a.function, a.kind) == ("compact", "right")
    ]
    course.hand_in("eve", course.answered(compact=other.source))
    assert ("eve", f"the course's other answer `{other.name}`") in compared(course)


def test_a_copy_that_the_whole_class_took_from_the_course_is_named_for_each(tmp_path):
    course = Course(tmp_path)
    for student in "abcdef":
        course.hand_in(student, course.answered())
    assert {(student, "the course's own solution") for student in "abcdef"} <= compared(course)


def test_both_are_printed_apart(of_ones_own, capsys):
    assert run(of_ones_own.root, "views", 0.7) == 0
    said = capsys.readouterr().out
    pairs, ours = said.split(" with an answer that the course publishes")
    assert "compact: ada, bob" in pairs and "compact: eve, the course's own solution" in ours


def test_what_is_not_there_is_said(tmp_path, capsys):
    assert run(tmp_path, "views", 0.7) == 2
    assert "0 submissions of 'views'" in capsys.readouterr().out
