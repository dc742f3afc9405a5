"""The lines at the end of a run."""

from autograder.grading.job import Graded
from autograder.grading.summary import summary


def test_an_ordinary_class_is_one_line():
    assert summary([Graded("ada", "graded"), Graded("bob", "graded")], 4.0) == (
        "graded: 2 of 2 submissions in 4.0 s, 0.5 a second"
    )


def test_everyone_out_of_the_ordinary_is_named():
    text = summary(
        [
            Graded("ada", "graded", outcome="timed out"),
            Graded("bob", "graded", suspicious=2),
            Graded("cyd", "skipped"),
            Graded("dan", "held"),
            Graded("eve", "failed", remark="OSError: no space left"),
        ],
        1.0,
    )
    for line in (
        "timed out: 1 (ada)",
        "suspicious (see incidents in the ledger): 1 (bob)",
        "skipped: graded before and not changed since: 1 (cyd)",
        "skipped: another grader has it: 1 (dan)",
        "FAILED eve: OSError: no space left",
    ):
        assert line in text


def test_a_broken_hidden_test_is_one_line_with_everyone_it_touched():
    broken = ("the judge of views.patchify failed at exercises/views/patchify/judge.py:71 (KeyError: 'image')",)
    text = summary(
        [Graded("ada", "graded", broken=broken), Graded("bob", "graded", broken=broken), Graded("cyd", "graded")], 1.0
    )
    assert text.count("BROKEN HIDDEN TEST, points may be due") == 1
    assert "judge.py:71 (KeyError: 'image'): 2 (ada, bob)" in text and "suspicious" not in text


def test_a_long_list_of_names_is_cut():
    text = summary([Graded(f"s{number:03}", "skipped") for number in range(50)], 1.0)
    assert ": 50 (s000, " in text and "and 10 more)" in text


def test_a_run_that_graded_nothing_claims_no_pace():
    assert summary([Graded("ada", "skipped")], 1.0).startswith("graded: 0 of 1 submissions\n")


def test_what_explain_may_name_is_counted_over_the_class():
    text = summary([Graded("ada", "graded", unexplained=2), Graded("bob", "graded", unexplained=1)], 1.0)
    assert "functions in which a misconception may be named: 3 (python -m autograder explain ASSIGNMENT)" in text
