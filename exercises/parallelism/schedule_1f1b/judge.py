"""E16.3 schedule_1f1b: cases and judge. Any table that has the properties is right."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from gpulab.parallel import Action, most_in_flight, violations

Sizes = tuple[int, int]
"""Stages and microbatches."""
_PROPERTIES = ("sound", "slots", "flight", "order")


def _cases(sampler: Sampler) -> Iterator[Questions]:
    enough = sampler.permutation(list(_enough(sampler)))
    yield from (ask(criterion, enough) for criterion in _PROPERTIES)
    yield ask("few", sampler.permutation(list(_few(sampler))))
    wrong = ((0, 1), (1, 0), (0, 0), (-1, 4), (4, -2), (sampler.integer(2, 5), 0), (0, sampler.integer(2, 5)))
    yield ask("errors", sampler.shuffled(*wrong), raises="ValueError")


def _enough(sampler: Sampler) -> Iterator[Sizes]:
    """One stage and many; as many microbatches as stages, one more, twice as many, many; and the same once more."""
    for stages in (1, 2, 3, sampler.integer(4, 6), sampler.integer(7, 12)):
        for microbatches in (stages, stages + 1, 2 * stages, sampler.integer(2 * stages + 1, 4 * stages + 5)):
            yield stages, microbatches
    again = sampler.integer(2, 4)
    yield from 2 * [(again, again + 3)]


def _few(sampler: Sampler) -> Iterator[Sizes]:
    for stages in (2, 3, sampler.integer(4, 6), sampler.integer(7, 12)):
        for microbatches in {1, stages // 2, stages - 1} - {0}:
            yield stages, microbatches


def _wrong(criterion: str, sizes: Sizes, table: Any) -> str | None:
    if problem := _form_problem(table, sizes[0]):
        return problem
    asked = _PROPERTIES if criterion == "few" else (criterion,)
    return next(filter(None, (_CHECKS[one](table, *sizes) for one in asked)), None)


def _spoiling(case: Questions) -> Questions:
    """Each table is spoilt before the next one is asked for: one that is kept is no new one."""
    return replace(case, inputs=case.inputs | {"asks": "exercises.parallelism.schedule_1f1b.run_asked"})


def _form_problem(table: Any, stages: int) -> str | None:
    if not isinstance(table, list) or not all(isinstance(row, list) for row in table):
        return (
            f"The function returned {type_name(table)}; expected a list of lists."
            if not isinstance(table, list)
            else "A row is no list."
        )
    if len(table) != stages:
        return "There is not one row for each stage."
    for cell in (cell for row in table for cell in row if cell is not None):
        try:
            Action.of(cell)
        except ValueError:
            return "A cell is neither None nor an action such as 2F0."
    return None


def _sound(table: list, stages: int, microbatches: int) -> str | None:
    if found := violations(table, stages, microbatches):
        return _VIOLATED[found[0].kind]
    for gpu, row in enumerate(table):
        if any(Action.of(cell).stage != gpu for cell in row if cell is not None):
            return "Row s is not the row of stage s."
        if any(Action.of(cell).kind in "IW" for cell in row if cell is not None):
            return "Backward passes are in halves; expected whole ones."
    return None


_VIOLATED = {
    "early": "The schedule could not run: an action stands no later than what it needs from a neighbour or from its own stage.",
    "missing": "A stage does not run every microbatch forward and backward.",
    "twice": "An action runs more than once.",
    "foreign": "A microbatch or a stage runs that there is not: both are counted from 0.",
    "split": "A stage runs on more than one GPU.",
}


def _slots(table: list, stages: int, microbatches: int) -> str | None:
    expected = 2 * (microbatches + stages - 1)
    if all(len(row) == expected for row in table):
        return None
    if any(cell is not None for row in table for cell in row[expected:]):
        return "The schedule takes more slots than it needs: a stage waits longer for its turn than the pipeline's filling takes."
    if min(map(len, table)) < expected:
        return "A row has too few cells: filling and draining the pipeline takes slots beside those in which a stage works."
    return "A row has more cells than the schedule has slots."


def _flight(table: list, stages: int, microbatches: int) -> str | None:
    most = most_in_flight(table)
    if all(many <= stages - stage for stage, many in enumerate(most)):
        return None
    if most == [min(microbatches, max(most))] * stages and max(most) == microbatches:
        return "Every stage holds the activations of all microbatches at once: that is GPipe."
    return "A stage runs ahead further than the stages behind it take: stage s may have as many in flight as stages from s on."


def _order(table: list, stages: int, microbatches: int) -> str | None:
    for row in table:
        for kind in "FB":
            numbers = [Action.of(cell).microbatch for cell in row if cell is not None and Action.of(cell).kind == kind]
            if numbers != sorted(numbers):
                return "A stage does not run the microbatches in their order, forward and backward."
    return None


_CHECKS = {"sound": _sound, "slots": _slots, "flight": _flight, "order": _order}


_answers = answers(
    criteria=(
        Criterion("sound", 2, "every stage runs every microbatch, after what it needs"),
        Criterion("slots", 2, "there are twice as many slots as microbatches and stages, less one", ("sound",)),
        Criterion("flight", 3, "no stage has more in flight than there are stages from it on", ("sound",)),
        Criterion("order", 1, "microbatches go and come back in their order", ("sound",)),
        Criterion("few", 1, "all of it holds where there are fewer microbatches than stages", ("sound",)),
        Criterion("errors", 1, "pipelines of nothing are refused with ValueError", ("sound",)),
    ),
    cases=_cases,
    arguments=lambda sizes: sizes,
    wrong=_wrong,
)
exercise = replace(_answers, cases=lambda sampler: map(_spoiling, _answers.cases(sampler)))
