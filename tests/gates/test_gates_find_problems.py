"""Each gate finds the fault it is there for."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import gates
from autograder.authoring.gates import benches, gate
from autograder.authoring.text import cell_of

EXERCISES = Path(__file__).parents[2] / "exercises"
PATCHIFY = next(bench for bench in benches(EXERCISES) if bench.name == "views.patchify")


@pytest.fixture
def bench():
    return replace(PATCHIFY, notebook=deepcopy(PATCHIFY.notebook), _namespaces={})


def rewrite(bench, grade_id: str, old: str, new: str) -> None:
    cell = cell_of(bench.notebook, grade_id)
    assert old in cell.source
    cell.source = cell.source.replace(old, new)


def test_a_starter_that_holds_the_solution(bench):
    rewrite(bench, "patchify", "### BEGIN SOLUTION", "")
    rewrite(bench, "patchify", "### END SOLUTION", "### BEGIN SOLUTION\n    ### END SOLUTION")
    assert list(gates.starter_earns_nothing(bench)) == ["the starter earns errors, layouts, no_copy, values"]


def test_a_starter_without_the_functions_head(bench):
    rewrite(bench, "patchify", "### BEGIN SOLUTION", "")
    rewrite(bench, "patchify", "### END SOLUTION", "")
    (problem,) = gates.starter_earns_nothing(bench)
    assert problem == "the starter is not a function patchify that raises NotImplementedError"


def test_a_solution_that_loses_a_point(bench):
    rewrite(bench, "patchify", "if patch < 1 or", "if False and")
    assert "the solution loses errors with seed 1" in list(gates.solution_earns_everything(bench))


def test_a_solution_that_its_own_visible_check_refuses(bench):
    rewrite(bench, "patchify_seen", "patches.shape ==", "patches.shape !=")
    (problem,) = gates.solution_earns_everything(bench)
    assert "fails in patchify_seen: AssertionError" in problem


def test_a_check_that_holds_a_wrong_try_against_the_next(bench):
    made = "images = torch.arange(2 * 3 * 16 * 24).view(2, 3, 16, 24)\n"
    rewrite(bench, "patchify_seen", made, "")
    rewrite(bench, "setup", "import torch", f"import torch\n{made}pixels = images.clone()")
    rewrite(bench, "patchify_seen", "images[1, :,", "pixels[1, :,")
    source = "def patchify(images, patch):\n    return images.zero_()"
    wrong = replace(bench.mistakes[0], name="wipes_the_images", source=source)
    (problem,) = gates.solution_passes_its_check_after_every_mistake(replace(bench, attempts=(wrong,)))
    assert problem.startswith("after wipes_the_images the solution fails in patchify_seen: AssertionError: patches[1,")


def test_a_mistake_that_loses_something_else(bench):
    wrong = replace(bench.mistakes[0], loses=("values",))
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(wrong,))))
    assert problems[0] == f"{wrong.name} loses layouts, no_copy with seed 1, not values"
    assert len(problems) == len(gates.SEEDS)


def test_a_mistake_that_loses_nothing(bench):
    harmless = replace(bench.alternatives[0], loses=("values",), because="it is right")
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(harmless,))))
    assert problems[0] == f"{harmless.name} loses nothing with seed 1, not values"


def test_a_mistake_that_names_no_criterion(bench):
    wrong = replace(bench.mistakes[0], loses=("speed",))
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(wrong,))))
    assert "no such criterion" in problems[0]


def test_an_alternative_that_is_wrong(bench):
    wrong = replace(bench.mistakes[0], loses=())
    assert len(list(gates.alternatives_earn_everything(replace(bench, attempts=(wrong,))))) == len(gates.SEEDS)


def test_no_alternative_at_all(bench):
    problems = list(gates.alternatives_earn_everything(replace(bench, attempts=())))
    assert problems == ["no right solution is written another way"]


def test_points_for_doing_nothing(bench, monkeypatch):
    free = {"returns views of its first argument": "import torch; return arguments[0].unfold(2, arguments[1], arguments[1])"
            ".unfold(3, arguments[1], arguments[1]).permute(0, 2, 3, 1, 4, 5)"}  # fmt: skip
    monkeypatch.setattr(gates, "IDLE", free)
    (problem,) = gates.idle_answers_earn_nothing(bench)
    assert problem == "a function that returns views of its first argument earns layouts, no_copy, values"


def test_a_criterion_that_no_mistake_loses(bench):
    without = tuple(attempt for attempt in bench.attempts if "errors" not in attempt.loses)
    problems = list(gates.every_criterion_is_lost_by_a_mistake(replace(bench, attempts=without)))
    assert problems == ["no mistake loses errors, values"]


def test_points_that_do_not_add_up(bench):
    problems = list(gates.points_are_those_of_the_criteria(replace(bench, points=7)))
    assert problems == ["the cell is worth 7 points, its criteria 8"]


def test_a_statement_that_does_not_show_the_call(bench):
    for cell in bench.notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("`patchify(images, patch)`", "`patchify`")
    assert len(list(gates.statement_names_the_function(bench))) == 1


def test_a_hidden_part_that_says_more(bench):
    rewrite(bench, "patchify_hidden", "import autograder;", "secret = 1; import autograder;")
    assert len(list(gates.hidden_part_is_one_line(bench))) == 1


def test_a_graded_cell_that_checks_in_sight(bench):
    rewrite(bench, "patchify_hidden", "### BEGIN", "assert True\n### BEGIN")
    assert len(list(gates.hidden_part_is_one_line(bench))) == 1


def test_a_problem_names_its_exercise(bench):
    (problem,) = gate(replace(bench, points=7))
    assert problem == "views.patchify: the cell is worth 7 points, its criteria 8"
