"""``report --new``: what a class lost without a name, as a file that `try` takes, without a learner's name."""

import pytest
from nbgrader.api import Gradebook

from autograder.authoring.tried import run as run_try
from autograder.cli.main import main
from autograder.core.flag import Flag
from autograder.core.layout import ROOT
from autograder.core.ledger import Entry
from autograder.core.verdict import Line, Verdict
from autograder.instructor.solutions import LeftOut, solution
from autograder.intake.files import digest, handed_in
from autograder.misconceptions.corpus import read_corpus
from autograder.notebooks.cells import exercises_of
from tests.pipeline.conftest import Course

ZEROS = '''\
# by Ada Lovelace, ada@example.org
def predict_view(size, stride, new_size):
    """Ada's."""
    answer = 0  # Ada
    return tuple(answer for n in new_size)
'''
RENAMED = "def predict_view(old, step, new):\n    zero = 0\n    return tuple(zero for _ in new)\n"
ONES = "def predict_view(size, stride, new_size):\n    return (1,) * len(new_size)\n"
HELD = next(
    one
    for one in read_corpus(ROOT / "exercises/views/corpus.txt")
    if (one.function, one.kind) == ("predict_view", "wrong")
)
ALL = "merges,ones,expanded,inferred,empty,errors"


class Class(Course):
    """Views, with ledger entries as a grader would have left them: all of ``predict_view`` is lost, and nothing named."""

    def lost(
        self, student: str, source: str, told: str = "The function returned a tuple.", key: str = "", **about
    ) -> Entry:
        folder = self.hand_in(student, self.answered(predict_view=source))
        lines = tuple(Line(one, one, 1, "lost", told, key) for one in ALL.split(","))
        verdict = Verdict("views.predict_view", lines)
        entry = Entry("views", student, "graded", verdicts={"predict_view_hidden": verdict}, **about)
        entry.handed_in = entry.handed_in or digest(handed_in(folder))
        self.ledger.write(entry)
        return entry


@pytest.fixture
def course(tmp_path, monkeypatch) -> Class:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE", str(tmp_path))
    return Class(tmp_path)


def report(*more: str) -> int:
    return main(["report", "views", "--new", "candidates", *more])


def candidates(course: Class):
    return read_corpus(course.root / "candidates/views.txt")


def test_the_exercise_loses_what_the_ledgers_here_say(course):
    assert "views.predict_view" in {name for _, name, _ in exercises_of(course.notebook("source"))}


def test_solutions_that_differ_in_names_and_comments_are_one_candidate(course, capsys):
    for student, source in (("ada", ZEROS), ("bob", RENAMED), ("cyd", ONES)):
        course.lost(student, source)
    assert report() == 0
    zeros, ones = candidates(course)
    assert (zeros.function, zeros.name, zeros.kind, zeros.loses) == (
        "predict_view",
        "unnamed_1",
        "wrong",
        tuple(ALL.split(",")),
    )
    assert "# 2 learners wrote it; 3 lost the same and were told the same.\n" in zeros.source
    assert "# 1 learner wrote it" in ones.source
    assert "2 candidates, of 3 learners" in capsys.readouterr().out


def test_those_that_were_told_what_most_were_told_come_first(course):
    course.lost("ada", ZEROS, "The function raised KeyError: 3.")
    for student, source in (("bob", ONES), ("cyd", ONES.replace("1", "7"))):
        course.lost(student, source, "The function returned 8 numbers.")
    assert report() == 0
    assert ["(0" in one.source or "= 0" in one.source for one in candidates(course)] == [False, False, True]


def test_one_solution_that_was_told_several_things_is_one_candidate(course):
    for student, told in (("ada", "Wrong strides."), ("bob", "Wrong strides."), ("cyd", "A wrong size.")):
        course.lost(student, ONES, told)
    assert report() == 0
    (one,) = candidates(course)
    assert one.source.startswith("# 3 learners wrote it.\n")


def test_try_takes_the_file_and_finds_what_it_declares(course, capsys):
    course.lost("ada", ZEROS)
    assert report() == 0
    run_try(course.root / "candidates/views.txt", ROOT / "exercises", "", "", [1], 1, False)
    assert "wrong predict_view unnamed_1: loses" in capsys.readouterr().out


def test_no_name_of_a_learner_is_in_the_file(course, capsys):
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_student("u77", first_name="Grace", last_name="Hopper")
    course.lost("ada", ZEROS)
    course.lost("u77", ONES.replace("new_size):", "new_size):\n    graces = 'of Graces'"))
    course.lost("bob", ONES.replace("size, stride", "size, by_u77"))
    assert report() == 0
    text = (course.root / "candidates/views.txt").read_text().lower()
    assert not any(name in text for name in ("ada", "lovelace", "grace", "hopper", "u77", "bob"))
    assert (
        len(candidates(course)) == 1 and "left out: 2 that hold what may be a learner's name" in capsys.readouterr().out
    )


def test_no_text_of_a_solution_begins_another(course):
    text = "'''\n# %% wrong predict_view mine\n'''"
    course.lost("ada", f"def predict_view(size, stride, new_size):\n    {text}\n    return f{text}, size, {text}\n")
    assert report() == 0
    assert [one.name for one in candidates(course)] == ["unnamed_1"]


def test_a_word_of_the_chapter_names_nobody(course):
    course.lost("stride", ONES)
    course.lost("len", ZEROS)
    assert report() == 0 and len(candidates(course)) == 2


def test_what_the_corpus_has_is_no_candidate_and_is_named(course, capsys):
    course.lost("ada", f"# mine\n{HELD.source}")
    assert report() == 0
    said = capsys.readouterr().out
    assert f"views.predict_view: 1 learner wrote what the corpus has as {HELD.name}, a form of {HELD.says}" in said
    assert "no candidates for a corpus" in said and not (course.root / "candidates").exists()


@pytest.mark.parametrize(
    ("source", "about", "why"),
    [
        ("def predict_view(size:\n    return size", {}, "1 that Python cannot read"),
        ("predict = 1", {}, "1 that define their function elsewhere"),
        (ONES, {"handed_in": "another"}, "1 that changed since they were graded"),
        (ONES, {"flags": [Flag("views", "predict_view", 1, "system", "os", "")]}, "that a person is to look at"),
        (ONES, {"incidents": ["sent a message"]}, "that a person is to look at"),
    ],
)
def test_what_cannot_be_one_is_counted_with_the_reason(course, capsys, source, about, why):
    course.lost("ada", source, **about)
    assert report() == 0
    said = capsys.readouterr().out
    assert "no candidates" in said and why in said


def test_what_has_a_name_was_not_written_or_had_a_failing_test_is_no_candidate(course, capsys):
    course.lost("ada", ONES, key="contiguous_only")
    course.lost("bob", ONES, told="The function is not written yet: it raised NotImplementedError.")
    course.lost("cyd", ONES, broken=["the judge of views.predict_view failed at judge.py:71"])
    assert report() == 0
    said = capsys.readouterr().out
    assert "no candidates" in said and "left out" not in said


def test_what_is_there_is_not_written_over(course, capsys):
    course.lost("ada", ONES)
    (course.root / "candidates").mkdir()
    (course.root / "candidates/views.txt").write_text("mine")
    assert report() == 2
    assert "is there already" in capsys.readouterr().err
    assert (course.root / "candidates/views.txt").read_text() == "mine"


def test_an_anonymous_report_has_the_same_candidates(course):
    course.lost("ada", ONES)
    assert report("--anonymous") == 0 and len(candidates(course)) == 1


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("def f(x):\n    return x + 1", "def f(value):\n    'Adds.'\n    return value + 1  # one", True),
        ("def f(x):\n    return x + 1", "def f(x):\n    return x + 2", False),
        ("def f(x, y):\n    return x - y", "def f(x, y):\n    return y - x", False),
        ("def f(x):\n    return len(x)", "def f(x):\n    return sum(x)", False),
        ("import numpy as np\ndef f(x):\n    return np.e", "import math as m\ndef f(x):\n    return m.e", False),
    ],
)
def test_alike_are_those_that_differ_in_names_of_their_own_alone(one, other, alike):
    assert (solution(one, "f").shape == solution(other, "f").shape) is alike


def test_a_source_that_is_too_deep_for_python_is_left_out():
    with pytest.raises(LeftOut, match="Python cannot read"):
        solution("def f(x):\n    return " + "-" * 20_000 + "x", "f")
