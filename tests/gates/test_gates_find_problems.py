"""Each gate finds the fault it is there for."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import gates, trials
from autograder.authoring.apart import Apart
from autograder.authoring.bench import benches_of, records
from autograder.authoring.gates import gate
from autograder.authoring.mistakes import Harmless, Unbreakable
from autograder.authoring.mutants import mutants
from autograder.authoring.trials import sample, tried, write
from autograder.notebooks.cells import cell_of
from tests.audit import unit
from tests.gates.records import AsDue, record_of

EXERCISES = Path(__file__).parents[2] / "exercises"
PATCHIFY = next(bench for bench in benches_of(EXERCISES / "views") if bench.name == "views.patchify")


@pytest.fixture
def bench():
    made = replace(PATCHIFY, notebook=deepcopy(PATCHIFY.notebook), _namespaces={}, _above={}, record={})
    return replace(made, record=record_of(made))


def rewrite(bench, grade_id: str, old: str, new: str) -> None:
    cell = cell_of(bench.notebook, grade_id)
    assert old in cell.source
    cell.source = cell.source.replace(old, new)


def rewrite_statement(bench, old: str, new: str) -> None:
    (cell,) = (
        cell
        for cell in bench.notebook.cells
        if cell.cell_type == "markdown" and "`patchify(images, patch)`" in cell.source
    )
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
    assert "the solution loses errors" in list(gates.solution_earns_everything(bench))


def test_a_solution_that_its_own_visible_check_refuses(bench):
    rewrite(bench, "patchify_seen", "patches.shape ==", "patches.shape !=")
    problem, *_ = gates.solved_notebook_runs(bench)
    assert problem.startswith("the solved notebook fails in patchify_seen: AssertionError")


def test_a_cell_above_the_solution_that_fails(bench):
    rewrite(bench, "setup", "import torch", "import torch\n1 / 0")
    problem, *_ = gates.solved_notebook_runs(bench)
    assert problem == "the solved notebook fails in setup: ZeroDivisionError: division by zero"


def test_a_cell_below_is_run_where_every_attempt_is_tried(bench):
    rewrite(bench, "to_tokens_seen", "\n_see_to_tokens()", "\n1 / 0")
    assert list(gates.solved_notebook_runs(bench)) == []
    (problem,) = gates.solved_notebook_runs(replace(bench, every=True))
    assert problem == "the solved notebook fails in to_tokens_seen: ZeroDivisionError: division by zero"


def test_a_check_that_holds_a_wrong_try_against_the_next(bench):
    made = "images = torch.arange(2 * 3 * 16 * 24).view(2, 3, 16, 24)\n"
    rewrite(bench, "patchify_seen", f"    {made}", "")
    rewrite(bench, "setup", "import torch", f"import torch\n{made}pixels = images.clone()")
    rewrite(bench, "patchify_seen", "images[1, :,", "pixels[1, :,")
    source = "def patchify(images, patch):\n    return images.zero_()"
    wrong = replace(bench.mistakes[0], name="wipes_the_images", source=source)
    (problem,) = gates.solved_notebook_runs(replace(bench, attempts=(wrong,)))
    assert problem.startswith("after wipes_the_images the solution fails in patchify_seen: AssertionError: patches[1,")


def test_a_mistake_that_loses_something_else(bench):
    wrong = replace(bench.mistakes[0], loses=("values",))
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(wrong,))))
    assert problems == [f"{wrong.name} loses layouts, no_copy, not values"]


def test_a_mistake_that_loses_nothing(bench):
    harmless = replace(bench.alternatives[0], loses=("values",), because="it is right")
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(harmless,))))
    assert problems == [f"{harmless.name} loses nothing, not values"]


def test_a_mistake_that_names_no_criterion(bench):
    wrong = replace(bench.mistakes[0], loses=("speed",))
    problems = list(gates.mistakes_lose_what_they_name(replace(bench, attempts=(wrong,))))
    assert "no such criterion" in problems[0]


def test_an_alternative_that_is_wrong(bench):
    wrong = replace(bench.mistakes[0], loses=())
    assert len(list(gates.alternatives_earn_everything(replace(bench, attempts=(wrong,))))) == 1


def test_no_alternative_at_all(bench):
    problems = list(gates.alternatives_earn_everything(replace(bench, attempts=())))
    assert problems == ["no right solution is written another way"]


def test_points_for_doing_nothing(bench, monkeypatch):
    free = {
        "returns views of its first argument": "import torch; return arguments[0].unfold(2, arguments[1], arguments[1])"
        ".unfold(3, arguments[1], arguments[1]).permute(0, 2, 3, 1, 4, 5)"
    }
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


def test_a_quotation_that_the_statement_does_not_have(bench):
    wrong = replace(bench.mistakes[0], breaks="the result is a copy")
    (problem,) = gates.mistakes_quote_what_they_break(replace(bench, attempts=(wrong,)))
    assert "breaks 'the result is a copy', words that the statement of patchify does not have" in problem


def test_a_clause_that_no_mistake_breaks(bench):
    rewrite_statement(bench, "- returns a tensor", "- its sides are counted in pixels;\n- returns a tensor")
    assert list(gates.every_clause_is_broken_by_a_mistake(bench)) == [
        "no mistake breaks this clause of the statement: its sides are counted in pixels;"
    ]


def test_a_clause_that_is_said_to_be_unbreakable_needs_a_reason(bench):
    said = Unbreakable("patchify", "not one byte is copied", "")
    (problem,) = gates.mistakes_quote_what_they_break(replace(bench, unbreakable=(said,)))
    assert "no reason is given" in problem


def test_a_solution_that_changed_since_its_mutants_were_tried(bench):
    assert list(gates.mutants_were_tried(bench)) == []
    rewrite(bench, "patchify", "h % patch or w % patch", "w % patch or h % patch")
    (problem,) = gates.mutants_were_tried(bench)
    assert problem == "its mutants were not tried since it changed: python -m autograder mutate views"


def test_comments_do_not_make_a_record_stale(bench):
    rewrite(bench, "patchify", "    grid = ", "    # six dimensions\n    grid = ")
    assert list(gates.mutants_were_tried(bench)) == []


def test_an_attempt_that_was_written_since(bench):
    new = replace(bench.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    (problem,) = gates.attempts_were_tried_with_many_seeds(replace(bench, attempts=(*bench.attempts, new)))
    assert problem.startswith("not tried with many seeds, or with a verdict that is a chance: new:")


def test_mutants_alone_leave_the_attempts_to_be_tried(bench):
    record, problems = tried(replace(bench, record={}), AsDue(bench), attempts=[])
    assert problems == [] and record["mutants"] == bench.record["mutants"]
    again = replace(bench, record=record)
    assert list(gates.mutants_were_tried(again)) == []
    (problem,) = gates.attempts_were_tried_with_many_seeds(again)
    assert problem.startswith("not tried with many seeds")


def test_what_the_record_knows_is_not_tried_again(bench):
    class Never(Apart):
        def all(self, trials):
            assert trials == []
            return []

    assert tried(bench, Never()) == (bench.record, [])


def test_attempts_that_are_tried_a_few_at_a_time_come_to_the_record_of_all(bench):
    record = {name: value for name, value in bench.record.items() if name != "tried"} | {"seen": bench.record["tried"]}
    for first in range(0, len(bench.attempts), 5):
        assert len(trials.not_yet_tried(replace(bench, record=record))) == len(bench.attempts) - first
        record, problems = tried(replace(bench, record=record), AsDue(bench), list(bench.attempts[first : first + 5]))
        assert problems == [] and trials.not_yet_seen(replace(bench, record=record)) == []
    assert record == bench.record


def test_an_audit_looks_for_the_cheapest_anew_once_it_has_tried_what_was_only_seen(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(unit, "Apart", lambda: AsDue(bench))
    monkeypatch.setattr(trials, "cheapest", lambda bench: ["found anew"])
    record = {name: value for name, value in bench.record.items() if name != "tried"} | {
        "seen": bench.record["tried"],
        "cheapest": [],
    }
    write(tmp_path, {bench.name: record})
    assert unit._tried(replace(bench, folder=tmp_path)) == []
    assert records(tmp_path)[bench.name] == bench.record | {"cheapest": ["found anew"]}


def test_to_try_mutants_once_more_forgets_nothing_of_attempts(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "Apart", lambda jobs: AsDue(bench))
    kept = replace(bench, record=bench.record | {"mutants": 0, "seen": ["0"]}, folder=tmp_path)
    trials.run([kept], jobs=1, every=True, mutants_alone=True)
    record = records(tmp_path)[bench.name]
    assert record == bench.record | {"seen": ["0"]} and record["mutants"] > 0


def test_a_harmless_mutant_that_was_not_found(bench):
    said = Harmless("patchify", "return grid", "pass", "it is not")
    (problem,) = gates.harmless_mutants_are_those_of_the_record(replace(bench, harmless=(*bench.harmless, said)))
    assert "names other harmless mutants than the record" in problem


def test_trials_find_a_mutant_that_keeps_its_points(bench, monkeypatch):
    rewrite(bench, "patchify", "patch < 1 or", "patch < 1 or (patch > 10**6) or")
    monkeypatch.setattr(trials, "mutants", lambda source: [one for one in mutants(source) if "10**" in one.becomes])
    record, problems = tried(bench, Apart(2), attempts=[])
    assert any("became `if patch < 1 or (patch > 10**7)" in problem or "10**6" in problem for problem in problems)
    assert record["mutants"] > 2


def test_trials_find_an_attempt_whose_verdict_is_a_chance(bench, monkeypatch):
    monkeypatch.setattr(trials, "MANY_SEEDS", (1, 2, 3))
    wrong = replace(bench.mistakes[0], source="def patchify(images, patch):\n    raise ValueError", loses=("values",))
    record, problems = tried(replace(bench, attempts=(wrong,)), Apart(2))
    assert record["tried"] == []
    assert any(
        problem.startswith(f"{wrong.name} loses ") and "with seed 1 and with 2 more" in problem for problem in problems
    )


def test_of_attempts_on_record_one_mistake_for_every_criterion_and_one_alternative_is_tried(bench):
    chosen = sample(bench)
    assert len([attempt for attempt in chosen if not attempt.loses]) == 1
    assert {lost for attempt in chosen for lost in attempt.loses} == bench.criteria
    assert len(chosen) <= len(bench.criteria) + 1 and sample(bench) == chosen


def test_the_mistake_that_loses_the_fewest_is_tried(bench):
    of = {lost: min(len(one.loses) for one in bench.mistakes if lost in one.loses) for lost in bench.criteria}
    assert all(
        min(len(one.loses) for one in sample(bench) if lost in one.loses) == fewest for lost, fewest in of.items()
    )


def test_of_those_that_say_as_much_the_one_is_tried_that_the_record_knows_as_the_cheapest(bench, monkeypatch):
    dear = {attempt for attempt in sample(bench)}
    monkeypatch.setattr(trials, "_seconds", lambda bench, attempt: float(attempt in dear))
    again = replace(bench, record=trials.with_cheapest(bench, bench.record))
    alone = {
        one.loses
        for one in dear
        if sum(other.loses == one.loses for other in bench.attempts) > 1 and len(one.loses) < 2
    }
    assert alone and not [one for one in sample(again) if one.loses in alone and one in dear]


def test_of_a_sampled_mistake_no_case_is_played_by_which_it_can_lose_no_more_of_what_it_names(bench):
    source = "def patchify(images, patch):\n    counted.append(patch)\n    raise ValueError"
    calls = {}
    for until in ({"values"}, ()):
        bench._namespaces[source] = {"counted": calls.setdefault(bool(until), [])}
        exec(source, bench._namespaces[source])
        assert {"values"} <= bench.lost(source, 1, until=until)
    assert len(calls[True]) == 1 < len(calls[False])


def test_an_attempt_that_is_not_on_record_is_said_with_the_command_to_run(bench):
    assert list(gates.attempts_are_on_record(bench)) == []
    new = replace(bench.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    (problem,) = gates.attempts_are_on_record(replace(bench, attempts=(*bench.attempts, new)))
    assert problem == "not on record as judged rightly: new: python -m autograder check --keep views"


def test_an_attempt_that_the_record_does_not_know_is_always_tried(bench):
    new = replace(bench.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    more = replace(bench, attempts=(*bench.attempts, new))
    assert new in sample(more) and len(sample(more)) == len(sample(bench)) + 1
    (problem,) = gates.mistakes_lose_what_they_name(more)
    assert problem.startswith("new loses ")


def test_every_attempt_is_tried_on_demand_and_where_there_is_no_record(bench):
    assert sample(replace(bench, every=True)) == sample(replace(bench, record={})) == list(bench.attempts)


def test_a_stale_record_knows_no_attempt(bench):
    rewrite(bench, "patchify", "h % patch or w % patch", "w % patch or h % patch")
    assert sample(bench) == list(bench.attempts)


def test_to_know_that_something_is_lost_no_case_is_played_after_it(bench):
    source = "def patchify(images, patch):\n    counted.append(patch)\n    return images"
    calls = {}
    for to_the_first in (True, False):
        bench._namespaces[source] = {"counted": calls.setdefault(to_the_first, [])}
        exec(source, bench._namespaces[source])
        assert bench.lost(source, 1, to_the_first)
    assert len(calls[True]) == 1 < len(calls[False])
