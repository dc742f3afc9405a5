"""Checks that every exercise must pass before its release; each problem is a sentence."""

import re
from collections.abc import Iterator

from autograder.authoring import on_record, trials
from autograder.authoring.authored import SEEDS, AuthoredExercise, HiddenTestBroken, run_notebook
from autograder.authoring.handed import kept_by_handed_objects
from autograder.authoring.isolated import IsolatedRuns, Trial
from autograder.authoring.recognised import misnamed, names_of
from autograder.authoring.text import starter_of
from autograder.authoring.todos import todos
from autograder.core.hidden_region import BEGIN, END, without_hidden_tests
from autograder.core.layout import file_of, imported, run_module
from autograder.core.problems import NOTHING, in_course, listed
from autograder.core.sampler import Sampler
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.sentences import MISCONCEPTIONS
from autograder.notebooks.cells import cell_of, solution_of
from autograder.notebooks.forked import STOPPED, in_a_fork, silence
from autograder.runner.scenario_runner import scenario

__all__ = ["GATES", "ON_RECORD", "SEEDS", "AuthoredExercise", "gate", "run_notebook"]

MOST_NAMED, MOST_WORDS, MOST_WORDS_OF_A_NAME = 12, 45, 6
WORTH_A_TRY_BEFORE = 16
"""More tries than these, and the solution is tried before them in their parent: what it imports and compiles is then there."""

IDLE = {
    "returns None": "return None",
    "returns True": "return True",
    "returns an empty list": "return []",
    "returns its first argument": "return arguments[0]",
    "returns its first argument in a list": "return [arguments[0]]",
    "returns a tensor of one zero": "return torch.zeros(())",
    "refuses everything": "raise ValueError('refused')",
}
"""Answers that did no work, for any function."""
UNLIKE_IDLE = ("returns None", "returns its first argument in a list", "refuses everything")
"""Enough where the record knows the exercise: only another run or judge could tell the others apart."""


class Misjudged(str):
    """What is wrong with one ``attempt`` alone, in a sentence: of the others it says nothing."""

    attempt: Attempt

    @classmethod
    def of(cls, attempt: Attempt, says: str) -> "Misjudged":
        one = cls(says)
        one.attempt = attempt
        return one


def nothing_is_left_to_write(authored: AuthoredExercise) -> Iterator[str]:
    """Nor is a file missing in which the exercise's own would stand."""
    if authored.folder is not None:
        chapter = authored.folder.name
        yield from (left.sentence for left in todos(authored.folder.parent, chapter) if left.of == authored.function)


def hidden_tests_can_be_had(authored: AuthoredExercise) -> Iterator[str]:
    for find in (lambda: authored.exercise, lambda: scenario(authored.name)):
        try:
            find()
        except LookupError as why:
            yield str(why)
        except Exception as error:  # an author's module that does not run
            yield in_course(error)
    if not run_is_there_or_not_needed(authored):
        yield f"no scenario for {authored.name!r}: write {file_of(run_module(*authored.name.split('.')))}"


def run_is_there_or_not_needed(authored: AuthoredExercise) -> bool:
    """Questions are asked without a ``run.py``. An exercise that cannot be had, or whose cases fail, is another gate's."""
    try:
        needed = "calls" not in next(authored.exercise.cases(Sampler(SEEDS[0]))).inputs
        return not needed or imported(run_module(*authored.name.split("."))) is not None
    except Exception:
        return True


def starter_earns_nothing(authored: AuthoredExercise) -> Iterator[str]:
    starter = starter_of(authored.notebook, authored.function)
    if f"def {authored.function}(" not in starter or "raise NotImplementedError" not in starter:
        yield f"the starter is not a function {authored.function} that raises NotImplementedError"
    ((lost,),) = _isolated(authored, [Trial(authored, starter, SEEDS[:1], until=frozenset(authored.criteria))])
    if kept := authored.criteria - set(lost):
        yield f"the starter earns {listed(kept)}"


def solution_earns_everything(authored: AuthoredExercise) -> Iterator[str]:
    """In this process: what it imports and computes once is then there in all that are forked from here."""
    source, seeds = solution_of(authored.notebook, authored.function), _seeds(authored)
    with silence():
        verdicts = [sorted(authored.lost(source, seed)) for seed in seeds]
    for lost, which in _by_verdict(seeds, verdicts):
        if lost != NOTHING:
            yield f"the solution loses {lost}{which}"


def solved_notebook_runs(authored: AuthoredExercise) -> Iterator[str]:
    """To the graded cell, and to its end where all attempts are tried; and the visible check passes after mistakes too.

    A learner tries again in the same kernel: what a wrong try left there is not held against the next.
    """
    authored.begin()
    yield from in_a_fork(_fails_in, authored)


def _fails_in(authored: AuthoredExercise) -> Iterator[str]:
    solution = solution_of(authored.notebook, authored.function)
    for grade_id, error in authored.go_on(solution, None if authored.every else authored.grade_id).items():
        yield f"the solved notebook fails in {grade_id}: {type(error).__name__}: {error}"
    for attempt in _sampled(authored, authored.mistakes)[: None if authored.every else 1]:
        for source in (attempt.source, solution):
            error = authored.run_again(source)
        if error:
            yield f"after {attempt.name} the solution fails in {authored.check}: {type(error).__name__}: {error}"


def mistakes_lose_what_they_name(authored: AuthoredExercise) -> Iterator[str]:
    known = []
    for attempt in authored.mistakes:
        if unknown := set(attempt.loses) - authored.criteria:
            yield Misjudged.of(
                attempt, f"{attempt.name} is to lose {listed(unknown)}: {authored.name} has no such criterion"
            )
        else:
            known.append(attempt)
    yield from _differences(authored, known)


def alternatives_earn_everything(authored: AuthoredExercise) -> Iterator[str]:
    if not authored.alternatives:
        yield "no right solution is written another way"
    yield from _differences(authored, authored.alternatives)


def cheats_earn_nothing(authored: AuthoredExercise) -> Iterator[str]:
    cheats = _sampled(authored, authored.cheats)
    tries = [_trial(authored, cheat)._replace(may_break=True) for cheat in cheats]
    for cheat, trial, verdicts in zip(cheats, tries, _isolated(authored, tries), strict=True):
        kept = [trials.kept_by(authored, lost) for lost in verdicts]
        for earned, which in _by_verdict(trial.seeds, kept):
            if earned != NOTHING:
                yield Misjudged.of(cheat, f"the cheat {cheat.name} earns {earned}{which}")


def _differences(authored: AuthoredExercise, attempts: list[Attempt]) -> Iterator[str]:
    """Every seed must lose exactly what is named: so two runs with other seeds agree.

    Of one of the sample only the cases are played by which that is lost, and without the visible check before them.
    """
    attempts = _sampled(authored, attempts)
    tries = [_trial(authored, attempt) for attempt in attempts]
    for attempt, trial, verdicts in zip(attempts, tries, _isolated(authored, tries), strict=True):
        for lost, which in _by_verdict(trial.seeds, verdicts):
            if lost != listed(attempt.loses):
                yield Misjudged.of(attempt, f"{attempt.name} loses {lost}{which}, not {listed(attempt.loses)}")


def _trial(authored: AuthoredExercise, attempt: Attempt) -> Trial:
    if authored.every or attempt in on_record.not_yet_seen(authored):
        return Trial(authored, attempt.source, SEEDS)
    return trials.as_sampled(authored, attempt.source, authored.losses(attempt))


def _seeds(authored: AuthoredExercise) -> tuple[int, ...]:
    return SEEDS if authored.every or on_record.not_yet_seen(authored) else SEEDS[:1]


def _sampled(authored: AuthoredExercise, attempts: list[Attempt]) -> list[Attempt]:
    chosen = trials.sample(authored)
    return [attempt for attempt in attempts if attempt in chosen]


def _by_verdict(seeds: tuple[int, ...], verdicts: list) -> Iterator[tuple[str, str]]:
    """Each verdict that was found, in words, and with which seed; nothing where it is so with each."""
    found: dict[str, list[int]] = {}
    for seed, lost in zip(seeds, verdicts, strict=True):
        found.setdefault(listed(lost), []).append(seed)
    for lost, its_seeds in found.items():
        yield lost, "" if len(its_seeds) == len(seeds) else f" with seed {its_seeds[0]}"


def _isolated(authored: AuthoredExercise, tries: list[Trial]) -> list[list[list[str]]]:
    """What is lost, each try in a process of its own: what one leaves behind cannot help or hurt the next.

    Raises HiddenTestBroken.
    """
    isolated = IsolatedRuns(authored.jobs)
    if len(tries) > WORTH_A_TRY_BEFORE:
        isolated.after(authored, solution_of(authored.notebook, authored.function))
    found = isolated.all(tries)
    _require_whole(authored, [lost for verdicts in found for lost in verdicts])
    return found


def _require_whole(authored: AuthoredExercise, verdicts: list[list[str]]) -> None:
    if broken := {word for lost in verdicts for word in lost} - authored.criteria - {STOPPED}:
        raise HiddenTestBroken("; ".join(sorted(broken)))


def idle_answers_earn_nothing(authored: AuthoredExercise) -> Iterator[str]:
    """One after the other in one process: they keep nothing of each other."""
    authored.begin()
    answers = IDLE if authored.every or on_record.not_yet_seen(authored) else UNLIKE_IDLE
    found = in_a_fork(_lost_by_idle_answers, authored, [IDLE[what] for what in answers])
    _require_whole(authored, found)
    for what, lost in zip(answers, found, strict=True):
        if kept := authored.criteria - set(lost):
            yield f"a function that {what} earns {listed(kept)}"


def _lost_by_idle_answers(authored: AuthoredExercise, bodies: list[str]) -> Iterator[list[str]]:
    for body in bodies:
        trial = trials.as_sampled(authored, f"def {authored.function}(*arguments):\n    {body}", authored.criteria)
        trial.go_on()
        yield trial.lost(SEEDS[0])


def handed_objects_keep_nothing(authored: AuthoredExercise) -> Iterator[str]:
    """Where the record does not know the exercise: only another ``run.py`` hands over other objects."""
    if authored.every or on_record.not_yet_seen(authored):
        for kept in kept_by_handed_objects(authored):
            yield (
                f"{kept} changes in an object that the function is handed, which can edit it: note it (emit_note), or keep it "
                "in a closure or a generator"
            )


def every_criterion_is_lost_by_a_mistake(authored: AuthoredExercise) -> Iterator[str]:
    named = {criterion for attempt in authored.mistakes for criterion in attempt.loses}
    if never := authored.criteria - named:
        yield f"no mistake loses {listed(never)}"


def clauses_have_tags(authored: AuthoredExercise) -> Iterator[str]:
    if not authored.statement.clauses:
        yield "the statement has no list whose clauses carry tags, as in `- [c1] returns the rows`"
    for text in authored.statement.untagged:
        yield f"a clause of the statement has no tag, as in `- [c1] returns the rows`: {text}"
    for tag in authored.statement.repeated:
        yield f"the statement has the tag [{tag}] twice"
    broken = {tag: attempt.name for attempt in authored.mistakes for tag in attempt.breaks}
    for tag, by in {**dict.fromkeys(authored.said.unbreakable, MISCONCEPTIONS), **broken}.items():
        if tag not in authored.statement.clauses:
            yield f"{by} names the clause [{tag}]: the statement has none"


def every_clause_is_broken_by_a_mistake(authored: AuthoredExercise) -> Iterator[str]:
    broken = {tag for attempt in authored.mistakes for tag in attempt.breaks} | authored.said.unbreakable.keys()
    for tag, text in authored.statement.clauses.items():
        if tag not in broken:
            yield f"no mistake breaks this clause of the statement: [{tag}] {text}"
    for tag, because in authored.said.unbreakable.items():
        if not because:
            yield f"no reason is given why no mistake can break [{tag}]"


def misconceptions_are_named(authored: AuthoredExercise) -> Iterator[str]:
    """A few, each in a sentence and with its forms."""
    named = {one.key: one for one in authored.said.misconceptions}
    if not 1 <= len(named) <= MOST_NAMED:
        yield f"{len(named)} misconceptions are named in {MISCONCEPTIONS}: name 1 to {MOST_NAMED}, those that people have"
    for attempt in authored.mistakes:
        if attempt.says and attempt.says not in named:
            yield f"{attempt.name} says {attempt.says}: {MISCONCEPTIONS} names no such misconception"
    for key in named.keys() - {attempt.says for attempt in authored.mistakes}:
        yield f"no mistake is a form of {key}: write says={key} at the head of one"
    for one in named.values():
        if len(one.says.split()) > MOST_WORDS or not 1 <= len(one.name.split()) <= MOST_WORDS_OF_A_NAME:
            yield f"{one.key} has a name of 1 to {MOST_WORDS_OF_A_NAME} words and a sentence of {MOST_WORDS} at most"


def a_misconception_is_recognised(authored: AuthoredExercise) -> Iterator[str]:
    """By its first form, with one seed; an audit tries them all. Nothing where the judge cannot ask a function itself."""
    forms = [attempt for attempt in authored.mistakes if attempt.says]
    if authored.exercise.facts and forms:
        seeds = SEEDS[:1]
        yield from filter(None, [misnamed(forms[0], names_of(authored, forms[0], seeds))])


def attempts_are_on_record(authored: AuthoredExercise) -> Iterator[str]:
    """Each was judged rightly with two seeds at least, since solution, scenario and verdict are what they are."""
    if unknown := on_record.not_yet_seen(authored):
        names, chapter = listed(attempt.name for attempt in unknown), authored.name.partition(".")[0]
        yield f"not on record as judged rightly: {names}: {on_record.HOW_TO_KEEP} {chapter}"


def equivalent_mutants_are_those_of_the_record(authored: AuthoredExercise) -> Iterator[str]:
    record = on_record.current(authored)
    if on_record.has_mutants(record) and record["equivalent_mutants"] != sorted(
        [one.line, one.becomes] for one in authored.said.equivalent_mutants
    ):
        yield f"misconceptions.yml names other equivalent mutants than the record: {_how_to_try(authored)}"
    for one in authored.said.equivalent_mutants:
        if not one.because:
            yield f"no reason is given why a mutant is equivalent to the solution: {one.becomes}"


def mutants_were_tried(authored: AuthoredExercise) -> Iterator[str]:
    """The record beside the corpus is that of what stands there now."""
    if not on_record.has_mutants(on_record.current(authored)):
        yield f"its mutants were not tried since it changed: {_how_to_try(authored)}"


def attempts_were_tried_with_many_seeds(authored: AuthoredExercise) -> Iterator[str]:
    if untried := on_record.not_yet_tried(authored):
        names = listed(attempt.name for attempt in untried)
        yield f"not tried with many seeds, or with a verdict that is a chance: {names}: {_how_to_try(authored)}"


def _how_to_try(authored: AuthoredExercise) -> str:
    return f"{on_record.HOW_TO_TRY} {authored.name.partition('.')[0]}"


def points_are_those_of_the_criteria(authored: AuthoredExercise) -> Iterator[str]:
    if authored.points != authored.exercise.points:
        yield f"the cell is worth {authored.points:g} points, its criteria {authored.exercise.points:g}"


def statement_names_the_function(authored: AuthoredExercise) -> Iterator[str]:
    """Some text above the solution cell says how the function is called."""
    above: list[str] = []
    for cell in authored.notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == authored.function:
            break
        above += [cell.source] if cell.cell_type == "markdown" else []
    if not re.search(rf"`{authored.function}\([^`]*\)`", "\n".join(above)):
        yield f"no text above the solution cell shows how `{authored.function}(...)` is called"


def hidden_part_is_one_line(authored: AuthoredExercise) -> Iterator[str]:
    """And the visible rest of the graded cell is comments alone, so it earns nothing by itself."""
    source = cell_of(authored.notebook, authored.grade_id).source
    hidden = f'{BEGIN}\nimport autograder; autograder.grade("{authored.name}")\n{END}'
    if source.count(BEGIN) != 1 or hidden not in source:
        yield "the graded cell's hidden part is not the one line that names the exercise"
    if not all(line.startswith("#") for line in without_hidden_tests(source).splitlines()):
        yield "the visible part of the graded cell is more than comments"


GATES = (
    nothing_is_left_to_write,
    hidden_tests_can_be_had,
    solution_earns_everything,
    solved_notebook_runs,
    starter_earns_nothing,
    mistakes_lose_what_they_name,
    alternatives_earn_everything,
    cheats_earn_nothing,
    idle_answers_earn_nothing,
    handed_objects_keep_nothing,
    every_criterion_is_lost_by_a_mistake,
    clauses_have_tags,
    every_clause_is_broken_by_a_mistake,
    misconceptions_are_named,
    a_misconception_is_recognised,
    equivalent_mutants_are_those_of_the_record,
    points_are_those_of_the_criteria,
    statement_names_the_function,
    hidden_part_is_one_line,
)
ON_RECORD = (attempts_are_on_record, mutants_were_tried, attempts_were_tried_with_many_seeds)
"""What the record beside the corpus must say before an exercise is handed out."""


def gate(authored: AuthoredExercise) -> list[str]:
    """Every problem of one exercise, each a sentence; empty when it may be handed out.

    What is not written yet, or cannot judge the solution, is said alone: the rest would follow from it.
    """
    problems: list[str] = []
    for check in GATES:
        if problems and check in _AFTER_THESE:
            break
        try:
            problems += check(authored)
        except HiddenTestBroken as why:
            problems += [str(why)] if str(why) not in problems else []
            if check is solution_earns_everything:
                break
    return [_of(authored, problem) for problem in problems]


def _of(authored: AuthoredExercise, problem: str) -> str:
    says = f"{authored.name}: {problem}"
    return Misjudged.of(problem.attempt, says) if isinstance(problem, Misjudged) else says


_AFTER_THESE = (hidden_tests_can_be_had, solution_earns_everything)
