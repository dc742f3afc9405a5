"""Forms of misconceptions as functions: with what the notebook above gives them, and nothing else of it."""

import json

import pytest

from autograder.core.exercise import Criterion, Exercise
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.forms import as_function, forms, lost_by_itself, worth_asking

NOTEBOOK = """\
# %% [markdown]
# # Rows
# %%
import math
import torch
raise_nothing = 1 / 1
table = {"row": 4}
def helper(x):
    return math.floor(x) + table["row"]
cuda = undefined_here
# %%
def rows(x):
    return 0
later = 5
"""
CORPUS = """\
# %% wrong rows by_helper loses=values breaks=c1 says=adds_the_row
def rows(x):
    return helper(x)

# %% wrong rows not_a_form loses=values breaks=c1
def rows(x):
    return 1

# %% right rows as_it_is
def rows(x):
    return 0

# %% wrong columns of_another_function loses=values breaks=c1 says=adds_the_row
def columns(x):
    return 2
"""


@pytest.fixture
def chapter(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "notebook.py").write_text(NOTEBOOK)
    (folder / "corpus.txt").write_text(CORPUS)
    return folder


def form(source: str) -> Attempt:
    return Attempt("rows", "made_up", source, "wrong", ("values",), (), "adds_the_row")


def test_forms_are_the_wrong_attempts_that_say_a_misconception(chapter):
    (one,) = forms(chapter, "rows")
    assert (one.name, one.says, one.loses) == ("by_helper", "adds_the_row", ("values",))


def test_without_a_corpus_there_are_none(tmp_path):
    assert forms(tmp_path, "rows") == []


def test_a_form_has_what_it_names_of_the_cells_above_and_what_that_names(chapter):
    """And no more: the notebook's line that fails is not executed."""
    assert as_function(forms(chapter, "rows")[0], chapter)(1.5) == 5


def test_a_name_of_the_notebooks_that_a_form_binds_itself_is_its_own(chapter):
    function = as_function(form("def rows(x):\n    cuda = 3\n    return cuda"), chapter)
    assert function(0) == 3


def test_what_a_form_changes_no_other_sees(chapter):
    greedy = form("def rows(x):\n    table['row'] += 1\n    return table['row']")
    assert [as_function(greedy, chapter)(0) for _ in range(2)] == [5, 5]


def test_a_form_names_nothing_of_the_cells_below(chapter):
    with pytest.raises(NameError):
        as_function(form("def rows(x):\n    return later"), chapter)(0)


def test_in_plain_python_a_library_can_be_named_and_not_used(chapter):
    named = as_function(form("def rows(x):\n    return isinstance(x, torch.Tensor)"), chapter, libraries=())
    assert named(0) is False
    for source in ("def rows(x):\n    return torch.tensor(x)", "def rows(x):\n    import numpy\n    return numpy"):
        with pytest.raises(ModuleNotFoundError):
            as_function(form(source), chapter, libraries=())(0)
    assert as_function(form("def rows(x):\n    return torch.tensor(x)"), chapter, libraries=("torch",))(1) == 1


def test_pythons_own_modules_are_there(chapter):
    source = "import itertools\ndef rows(x):\n    import json\n    return json.dumps(next(itertools.count(x)))"
    assert as_function(form(source), chapter, libraries=())(7) == "7"


def test_a_markers_wheel_holds_the_notebook_that_was_made_of_the_text(chapter):
    (chapter / "notebook.py").unlink()
    cells = [
        {"cell_type": "markdown", "source": ["# Rows"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"]},
        {"cell_type": "code", "source": ["def helper(x):\n", "    return x + 7"]},
        {"cell_type": "code", "source": ["def rows(x):\n", "    return 0"]},
    ]
    (chapter / "rows.ipynb").write_text(json.dumps({"cells": cells}))
    assert as_function(forms(chapter, "rows")[0], chapter)(1) == 8


ROWS = Exercise(
    (
        Criterion("values", 2, "right"),
        Criterion("copies", 1, "no copy", ("values",)),
        Criterion("errors", 1, "refused"),
    ),
    lambda sampler: iter(()),
    lambda case, evidence: (),
)


def losing(*criteria: str) -> Attempt:
    return Attempt("rows", f"loses_{'_'.join(criteria)}", "def rows(x): ...", "wrong", criteria, (), "adds_the_row")


def test_what_requires_a_lost_criterion_is_not_lost_by_what_a_form_does():
    assert lost_by_itself(ROWS, losing("values", "copies", "errors")) == {"values", "errors"}
    assert lost_by_itself(ROWS, losing("copies")) == {"copies"}


def test_forms_are_worth_asking_that_lose_nothing_which_was_earned():
    every = [losing("copies"), losing("errors"), losing("copies", "errors")]
    assert worth_asking(ROWS, every, ["copies"], {"copies"}) == [losing("copies")]
    assert worth_asking(ROWS, every, ["copies", "errors"], {"copies", "errors"}) == every


def test_no_form_is_worth_asking_where_together_they_leave_something_unexplained():
    assert worth_asking(ROWS, [losing("copies")], ["copies", "errors"], {"copies", "errors"}) == []
    assert worth_asking(ROWS, [losing("values", "copies")], ["values", "copies"], {"copies"}) == []


def test_a_form_may_explain_what_requires_another_criterion_that_it_loses():
    one = losing("values", "copies")
    assert worth_asking(ROWS, [one], ["values", "copies"], {"values", "copies"}) == [one]
