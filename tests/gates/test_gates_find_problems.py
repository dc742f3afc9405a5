"""Each gate finds the fault it is there for."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import gates, on_record, trials
from autograder.authoring.authored import HiddenTestBroken, authored_in, records
from autograder.authoring.clauses import Statement
from autograder.authoring.gates import gate
from autograder.authoring.isolated import IsolatedRuns
from autograder.authoring.mutants import mutants
from autograder.authoring.on_record import write
from autograder.authoring.trials import sample, tried
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.sentences import EquivalentMutant, Misconception, Said
from autograder.notebooks.cells import cell_of
from tests.audit import unit
from tests.gates.records import AsExpected, record_of

EXERCISES = Path(__file__).parents[2] / "exercises"
PATCHIFY = next(authored for authored in authored_in(EXERCISES / "views") if authored.name == "views.patchify")


@pytest.fixture
def authored():
    attempts = (*PATCHIFY.mistakes, *PATCHIFY.alternatives)
    made = replace(
        PATCHIFY, attempts=attempts, notebook=deepcopy(PATCHIFY.notebook), _namespaces={}, _above={}, record={}
    )
    return replace(made, record=record_of(made))


def rewrite(authored, grade_id: str, old: str, new: str) -> None:
    cell = cell_of(authored.notebook, grade_id)
    assert old in cell.source
    cell.source = cell.source.replace(old, new)


def rewrite_statement(authored, old: str, new: str) -> None:
    (cell,) = (
        cell
        for cell in authored.notebook.cells
        if cell.cell_type == "markdown" and "`patchify(images, patch)`" in cell.source
    )
    assert old in cell.source
    cell.source = cell.source.replace(old, new)


def test_a_starter_that_holds_the_solution(authored):
    rewrite(authored, "patchify", "### BEGIN SOLUTION", "")
    rewrite(authored, "patchify", "### END SOLUTION", "### BEGIN SOLUTION\n    ### END SOLUTION")
    assert list(gates.starter_earns_nothing(authored)) == ["the starter earns errors, layouts, no_copy, values"]


def test_a_starter_without_the_functions_head(authored):
    rewrite(authored, "patchify", "### BEGIN SOLUTION", "")
    rewrite(authored, "patchify", "### END SOLUTION", "")
    (problem,) = gates.starter_earns_nothing(authored)
    assert problem == "the starter is not a function patchify that raises NotImplementedError"


def test_a_solution_that_loses_a_point(authored):
    rewrite(authored, "patchify", "if patch < 1 or", "if False and")
    assert "the solution loses errors" in list(gates.solution_earns_everything(authored))


def test_a_solution_that_its_own_visible_check_refuses(authored):
    rewrite(authored, "patchify_seen", "patches.shape ==", "patches.shape !=")
    problem, *_ = gates.solved_notebook_runs(authored)
    assert problem.startswith("the solved notebook fails in patchify_seen: AssertionError")


def test_a_cell_above_the_solution_that_fails(authored):
    rewrite(authored, "setup", "import torch", "import torch\n1 / 0")
    problem, *_ = gates.solved_notebook_runs(authored)
    assert problem == "the solved notebook fails in setup: ZeroDivisionError: division by zero"


def test_a_cell_below_is_run_where_every_attempt_is_tried(authored):
    rewrite(authored, "to_tokens_seen", "\n_see_to_tokens()", "\n1 / 0")
    assert list(gates.solved_notebook_runs(authored)) == []
    (problem,) = gates.solved_notebook_runs(replace(authored, every=True))
    assert problem == "the solved notebook fails in to_tokens_seen: ZeroDivisionError: division by zero"


def test_a_check_that_holds_a_wrong_try_against_the_next(authored):
    made = "images = torch.arange(2 * 3 * 16 * 24).view(2, 3, 16, 24)\n"
    rewrite(authored, "patchify_seen", f"    {made}", "")
    rewrite(authored, "setup", "import torch", f"import torch\n{made}pixels = images.clone()")
    rewrite(authored, "patchify_seen", "images[1, :,", "pixels[1, :,")
    source = "def patchify(images, patch):\n    return images.zero_()"
    wrong = replace(authored.mistakes[0], name="wipes_the_images", source=source)
    (problem,) = gates.solved_notebook_runs(replace(authored, attempts=(wrong,)))
    assert problem.startswith("after wipes_the_images the solution fails in patchify_seen: AssertionError: patches[1,")


def test_a_mistake_that_loses_something_else(authored):
    wrong = replace(authored.mistakes[0], loses=("values",))
    problems = list(gates.mistakes_lose_what_they_name(replace(authored, attempts=(wrong,))))
    assert problems == [f"{wrong.name} loses layouts, no_copy, not values"]


def test_a_mistake_that_loses_nothing(authored):
    equivalent_mutant = replace(authored.alternatives[0], loses=("values",), kind="wrong")
    problems = list(gates.mistakes_lose_what_they_name(replace(authored, attempts=(equivalent_mutant,))))
    assert problems == [f"{equivalent_mutant.name} loses nothing, not values"]


CHEAT = "def patchify(images, patch):\n    raise ValueError"


def test_a_cheat_that_earns_a_criterion(authored):
    cheat = Attempt("patchify", "refuses", CHEAT, "cheat", None)
    assert list(gates.cheats_earn_nothing(replace(authored, attempts=(cheat,)))) == []
    earns = replace(cheat, source=authored.alternatives[0].source)
    (problem,) = gates.cheats_earn_nothing(replace(authored, attempts=(earns,)))
    assert problem == "the cheat refuses earns errors, layouts, no_copy, values"


def test_a_cheat_may_break_the_hidden_test(authored):
    cheat = next(one for one in PATCHIFY.cheats if one.name == "a_subclass")
    with pytest.raises(HiddenTestBroken):
        authored.lost(cheat.source, 1)
    assert list(gates.cheats_earn_nothing(replace(authored, attempts=(cheat,), every=True))) == []


def test_a_cheat_is_put_on_record_with_two_seeds_and_never_tried_with_thirty(authored):
    cheat = Attempt("patchify", "refuses", CHEAT, "cheat", None)
    both = replace(authored, attempts=(*authored.attempts, cheat))
    assert on_record.not_yet_seen(both) == [cheat] and on_record.not_yet_tried(both) == []
    record, problems = tried(both, AsExpected(both))
    assert problems == [] and record["tried"] == authored.record["tried"] and len(record["seen"]) == 1
    assert on_record.not_yet_seen(replace(both, record=record)) == []
    assert tried(both, IsolatedRuns(2), attempts=[])[1] == []
    earns = replace(cheat, source=authored.alternatives[0].source)
    earning = replace(authored, attempts=(earns,))
    record, problems = tried(earning, IsolatedRuns(2), attempts=[])
    assert problems == ["the cheat refuses earns errors, layouts, no_copy, values"] and on_record.not_yet_seen(earning)


def test_a_mistake_that_names_no_criterion(authored):
    wrong = replace(authored.mistakes[0], loses=("speed",))
    problems = list(gates.mistakes_lose_what_they_name(replace(authored, attempts=(wrong,))))
    assert "no such criterion" in problems[0]


def test_an_alternative_that_is_wrong(authored):
    wrong = replace(authored.mistakes[0], loses=(), kind="right")
    assert len(list(gates.alternatives_earn_everything(replace(authored, attempts=(wrong,))))) == 1


def test_no_alternative_at_all(authored):
    problems = list(gates.alternatives_earn_everything(replace(authored, attempts=())))
    assert problems == ["no right solution is written another way"]


def test_points_for_doing_nothing(authored, monkeypatch):
    free = {
        "returns views of its first argument": "import torch; return arguments[0].unfold(2, arguments[1], arguments[1])"
        ".unfold(3, arguments[1], arguments[1]).permute(0, 2, 3, 1, 4, 5)"
    }
    monkeypatch.setattr(gates, "IDLE", gates.IDLE | free)
    assert list(gates.idle_answers_earn_nothing(authored)) == [], "where all is on record three of them are enough"
    (problem,) = gates.idle_answers_earn_nothing(replace(authored, every=True))
    assert problem == "a function that returns views of its first argument earns layouts, no_copy, values"


def test_a_criterion_that_no_mistake_loses(authored):
    without = tuple(attempt for attempt in authored.attempts if "errors" not in authored.losses(attempt))
    problems = list(gates.every_criterion_is_lost_by_a_mistake(replace(authored, attempts=without)))
    assert problems == ["no mistake loses errors, values"]


def test_points_that_do_not_add_up(authored):
    problems = list(gates.points_are_those_of_the_criteria(replace(authored, points=7)))
    assert problems == ["the cell is worth 7 points, its criteria 8"]


def test_a_statement_that_does_not_show_the_call(authored):
    for cell in authored.notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("`patchify(images, patch)`", "`patchify`")
    assert len(list(gates.statement_names_the_function(authored))) == 1


def test_a_hidden_part_that_says_more(authored):
    rewrite(authored, "patchify_hidden", "import autograder;", "secret = 1; import autograder;")
    assert len(list(gates.hidden_part_is_one_line(authored))) == 1


def test_a_graded_cell_that_checks_in_sight(authored):
    rewrite(authored, "patchify_hidden", "### BEGIN", "assert True\n### BEGIN")
    assert len(list(gates.hidden_part_is_one_line(authored))) == 1


def test_a_problem_names_its_exercise(authored):
    (problem,) = gate(replace(authored, points=7))
    assert problem == "views.patchify: the cell is worth 7 points, its criteria 8"


def test_a_broken_clause_that_the_statement_does_not_have(authored):
    wrong = replace(authored.mistakes[0], breaks=("c99",))
    (problem,) = gates.clauses_have_tags(replace(authored, attempts=(wrong,)))
    assert problem == f"{wrong.name} names the clause [c99]: the statement has none"


def test_a_clause_that_no_mistake_breaks(authored):
    clauses = authored.statement.clauses | {"c99": "its sides are counted in pixels;"}
    longer = replace(authored, statement=replace(authored.statement, clauses=clauses))
    assert list(gates.every_clause_is_broken_by_a_mistake(longer)) == [
        "no mistake breaks this clause of the statement: [c99] its sides are counted in pixels;"
    ]


def test_a_clause_without_a_tag_and_one_tag_twice(authored):
    statement = replace(authored.statement, untagged=("its sides",), repeated=("c2",))
    without, twice = gates.clauses_have_tags(replace(authored, statement=statement))
    assert without == "a clause of the statement has no tag, as in `- [c1] returns the rows`: its sides"
    assert twice == "the statement has the tag [c2] twice"
    (none, *_) = gates.clauses_have_tags(replace(authored, statement=Statement()))
    assert none.startswith("the statement has no list whose clauses carry tags")


def test_a_clause_that_is_said_to_be_unbreakable_needs_a_reason(authored):
    said = replace(authored.said, unbreakable=authored.said.unbreakable | {"c1": ""})
    (problem,) = gates.every_clause_is_broken_by_a_mistake(replace(authored, said=said))
    assert problem == "no reason is given why no mistake can break [c1]"


def named(authored, *misconceptions: Misconception) -> list[str]:
    return list(gates.misconceptions_are_named(replace(authored, said=Said(misconceptions))))


def test_misconceptions_that_are_not_named_or_have_no_form(authored):
    few = replace(authored, attempts=(replace(authored.mistakes[0], says="copies"), *authored.alternatives))
    copies = Misconception("copies", "a copy", "You copy.", "Views")
    assert named(few, copies) == []
    nothing, unknown = named(few)
    assert nothing.startswith("0 misconceptions are named in misconceptions.yml: name 1 to 12")
    assert unknown == f"{few.mistakes[0].name} says copies: misconceptions.yml names no such misconception"
    (formless,) = named(few, copies, replace(copies, key="swaps"))
    assert formless == "no mistake is a form of swaps: write says=swaps at the head of one"


def test_a_sentence_that_is_too_long_and_more_names_than_anyone_reads(authored):
    few = replace(authored, attempts=(replace(authored.mistakes[0], says="copies"),))
    (long,) = named(few, Misconception("copies", "a copy", "You copy. " * 23, "Views"))
    assert long == "copies has a name of 1 to 6 words and a sentence of 45 at most"
    keys = [f"k{number}" for number in range(13)]
    many = replace(authored, attempts=tuple(replace(authored.mistakes[0], says=key) for key in keys))
    (problem,) = named(many, *(Misconception(key, "a copy", "You copy.", "Views") for key in keys))
    assert problem.startswith("13 misconceptions are named")


def test_a_solution_that_changed_since_its_mutants_were_tried(authored):
    assert list(gates.mutants_were_tried(authored)) == []
    rewrite(authored, "patchify", "h % patch or w % patch", "w % patch or h % patch")
    (problem,) = gates.mutants_were_tried(authored)
    assert problem == "its mutants were not tried since it changed: python -m autograder mutate views"


def test_comments_do_not_make_a_record_stale(authored):
    rewrite(authored, "patchify", "    grid = ", "    # six dimensions\n    grid = ")
    assert list(gates.mutants_were_tried(authored)) == []


def test_an_attempt_that_was_written_since(authored):
    new = replace(authored.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    (problem,) = gates.attempts_were_tried_with_many_seeds(replace(authored, attempts=(*authored.attempts, new)))
    assert problem.startswith("not tried with many seeds, or with a verdict that is a chance: new:")


def test_mutants_alone_leave_the_attempts_to_be_tried(authored):
    record, problems = tried(replace(authored, record={}), AsExpected(authored), attempts=[])
    assert problems == [] and record["mutants"] == authored.record["mutants"]
    again = replace(authored, record=record)
    assert list(gates.mutants_were_tried(again)) == []
    (problem,) = gates.attempts_were_tried_with_many_seeds(again)
    assert problem.startswith("not tried with many seeds")


def test_what_the_record_knows_is_not_tried_again(authored):
    class Never(IsolatedRuns):
        def all(self, trials):
            assert trials == []
            return []

    assert tried(authored, Never()) == (authored.record, [])


def test_attempts_that_are_tried_a_few_at_a_time_come_to_the_record_of_all(authored):
    record = {name: value for name, value in authored.record.items() if name != "tried"} | {
        "seen": authored.record["tried"]
    }
    for first in range(0, len(authored.attempts), 5):
        assert len(on_record.not_yet_tried(replace(authored, record=record))) == len(authored.attempts) - first
        record, problems = tried(
            replace(authored, record=record), AsExpected(authored), list(authored.attempts[first : first + 5])
        )
        assert problems == [] and on_record.not_yet_seen(replace(authored, record=record)) == []
    assert record == authored.record


def test_an_audit_looks_for_the_cheapest_anew_once_it_has_tried_what_was_only_seen(authored, tmp_path, monkeypatch):
    monkeypatch.setattr(unit, "IsolatedRuns", lambda: AsExpected(authored))
    monkeypatch.setattr(trials, "cheapest", lambda authored: ["found anew"])
    record = {name: value for name, value in authored.record.items() if name != "tried"} | {
        "seen": authored.record["tried"],
        "cheapest": [],
    }
    write(tmp_path, {authored.name: record})
    assert unit._tried(replace(authored, folder=tmp_path)) == []
    assert records(tmp_path)[authored.name] == authored.record | {"cheapest": ["found anew"]}


class StoppedAt(AsExpected):
    """As Ctrl-C does it, where a given attempt is begun."""

    def __init__(self, authored, attempt: Attempt) -> None:
        super().__init__(authored)
        self._attempt = attempt

    def all(self, trials):
        if self._attempt.source in (trial.source for trial in trials):
            raise KeyboardInterrupt
        return super().all(trials)


@pytest.mark.parametrize("every", [False, True])
def test_trials_that_are_stopped_go_on_where_they_were_and_forget_nothing(authored, tmp_path, monkeypatch, every):
    monkeypatch.setattr(trials, "cheapest", lambda authored: [])
    tried_before = {} if every else {"tried": [], "seen": authored.record["tried"]}
    begun = replace(authored, record=authored.record | tried_before, folder=tmp_path)
    monkeypatch.setattr(trials, "IsolatedRuns", lambda jobs: StoppedAt(authored, authored.attempts[trials.AT_ONCE]))
    with pytest.raises(KeyboardInterrupt):
        trials.run([begun], jobs=1, every=every)
    stopped = replace(begun, record=records(tmp_path)[authored.name])
    assert on_record.not_yet_seen(stopped) == []
    assert on_record.left_to_try(stopped) == list(authored.attempts[trials.AT_ONCE :])
    monkeypatch.setattr(trials, "IsolatedRuns", lambda jobs: AsExpected(authored))
    assert trials.run([stopped], jobs=1, every=False) == 0
    assert records(tmp_path)[authored.name] == authored.record | {"cheapest": []}


def test_to_try_mutants_once_more_forgets_nothing_of_attempts(authored, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "IsolatedRuns", lambda jobs: AsExpected(authored))
    kept = replace(authored, record=authored.record | {"mutants": 0, "seen": ["0"]}, folder=tmp_path)
    trials.run([kept], jobs=1, every=True, mutants_alone=True)
    record = records(tmp_path)[authored.name]
    assert record == authored.record | {"seen": ["0"]} and record["mutants"] > 0


def test_an_equivalent_mutant_that_was_not_found(authored):
    said = EquivalentMutant("return grid", "pass", "it is not")
    (problem,) = gates.equivalent_mutants_are_those_of_the_record(
        replace(authored, said=replace(authored.said, equivalent_mutants=(*authored.said.equivalent_mutants, said)))
    )
    assert "names other equivalent mutants than the record" in problem


def test_trials_find_a_mutant_that_keeps_its_points(authored, monkeypatch):
    rewrite(authored, "patchify", "patch < 1 or", "patch < 1 or (patch > 10**6) or")
    monkeypatch.setattr(trials, "mutants", lambda source: [one for one in mutants(source) if "10**" in one.becomes])
    record, problems = tried(authored, IsolatedRuns(2), attempts=[])
    assert any("became `if patch < 1 or (patch > 10**7)" in problem or "10**6" in problem for problem in problems)
    assert record["mutants"] > 2


def test_trials_find_an_attempt_whose_verdict_is_a_chance(authored, monkeypatch):
    monkeypatch.setattr(trials, "MANY_SEEDS", (1, 2, 3))
    wrong = replace(
        authored.mistakes[0], source="def patchify(images, patch):\n    raise ValueError", loses=("values",)
    )
    record, problems = tried(replace(authored, attempts=(wrong,)), IsolatedRuns(2))
    assert record["tried"] == []
    assert any(
        problem.startswith(f"{wrong.name} loses ") and "with seed 1 and with 2 more" in problem for problem in problems
    )


def test_of_attempts_on_record_one_mistake_for_every_criterion_one_alternative_and_one_cheat_are_tried():
    authored = replace(PATCHIFY, record=record_of(replace(PATCHIFY, record={})))
    chosen = sample(authored)
    of = {kind: [attempt for attempt in chosen if attempt.kind == kind] for kind in ("wrong", "right", "cheat")}
    assert len(of["right"]) == len(of["cheat"]) == 1
    assert {lost for attempt in of["wrong"] for lost in attempt.loses} == authored.criteria
    assert len(of["wrong"]) <= len(authored.criteria) and sample(authored) == chosen


def test_the_mistake_that_loses_the_fewest_is_tried(authored):
    of = {lost: min(len(one.loses) for one in authored.mistakes if lost in one.loses) for lost in authored.criteria}
    assert all(
        min(len(one.loses) for one in sample(authored) if lost in (one.loses or ())) == fewest
        for lost, fewest in of.items()
    )


def test_of_those_that_say_as_much_the_one_is_tried_that_the_record_knows_as_the_cheapest(authored, monkeypatch):
    dear = {attempt for attempt in sample(authored)}
    monkeypatch.setattr(trials, "_seconds", lambda authored, attempt: float(attempt in dear))
    again = replace(authored, record=trials.with_cheapest(authored, authored.record))
    alone = {
        one.loses
        for one in dear
        if sum(other.loses == one.loses for other in authored.attempts) > 1 and len(one.loses) < 2
    }
    assert alone and not [one for one in sample(again) if one.loses in alone and one in dear]


def test_of_a_sampled_mistake_no_case_is_played_by_which_it_can_lose_no_more_of_what_it_names(authored):
    source = "def patchify(images, patch):\n    counted.append(patch)\n    raise ValueError"
    calls = {}
    for until in ({"values"}, ()):
        authored._namespaces[source] = {"counted": calls.setdefault(bool(until), [])}
        exec(source, authored._namespaces[source])
        assert {"values"} <= authored.lost(source, 1, until=until)
    assert len(calls[True]) == 1 < len(calls[False])


def test_an_attempt_that_is_not_on_record_is_said_with_the_command_to_run(authored):
    assert list(gates.attempts_are_on_record(authored)) == []
    new = replace(authored.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    (problem,) = gates.attempts_are_on_record(replace(authored, attempts=(*authored.attempts, new)))
    assert problem == "not on record as judged rightly: new: python -m autograder check --keep views"


def test_an_attempt_that_the_record_does_not_know_is_always_tried(authored):
    new = replace(authored.mistakes[0], name="new", source="def patchify(images, patch):\n    return images")
    more = replace(authored, attempts=(*authored.attempts, new))
    assert new in sample(more) and len(sample(more)) == len(sample(authored)) + 1
    (problem,) = gates.mistakes_lose_what_they_name(more)
    assert problem.startswith("new loses ")


def test_every_attempt_is_tried_on_demand_and_where_there_is_no_record(authored):
    assert sample(replace(authored, every=True)) == sample(replace(authored, record={})) == list(authored.attempts)


def test_a_stale_record_knows_no_attempt(authored):
    rewrite(authored, "patchify", "h % patch or w % patch", "w % patch or h % patch")
    assert sample(authored) == list(authored.attempts)


def test_to_know_that_something_is_lost_no_case_is_played_after_it(authored):
    source = "def patchify(images, patch):\n    counted.append(patch)\n    return images"
    calls = {}
    for to_the_first in (True, False):
        authored._namespaces[source] = {"counted": calls.setdefault(to_the_first, [])}
        exec(source, authored._namespaces[source])
        assert authored.lost(source, 1, to_the_first)
    assert len(calls[True]) == 1 < len(calls[False])
