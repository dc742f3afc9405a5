"""E21.3 find_straggler: cases and judge. The ranks' clocks are simulated, so that who is late is known."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.operating.find_straggler import cases as watched


def _cases(sampler: Sampler) -> Iterator[Questions]:
    strata = {
        "culprit": watched.with_culprit,
        "single": watched.with_one_meeting,
        "noise": watched.with_noise,
        "nobody": watched.without_culprit,
    }
    for criteria, drawn in strata.items():
        yield ask(criteria, list(drawn(sampler)))
    yield ask("errors", list(watched.refused(sampler)), raises="ValueError")


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    due = watched.due(question["metrics"])
    if value is None:
        return None if due is None else f"Nobody was named where a rank holds up the others. {_SENTENCES[criteria]}"
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected a rank or None."
    if value == due:
        return None
    if due is None:
        return f"A rank was named where none is the straggler. {_SENTENCES[criteria]}"
    return f"The wrong rank was named. {_SENTENCES[criteria]}"


_SENTENCES = {
    "culprit": "Whoever has the longest time in collectives waits for somebody: the straggler comes last, so its time is the shortest, in both "
    "of its meetings, whatever the cards' sensors say.",
    "single": "A meeting of one rank says nothing: then the other one decides alone.",
    "noise": "The median over the steps decides, of the steps in which nobody of the meeting has a hole: not one spike, not a sum.",
    "nobody": "Somebody always comes last. What counts is by how much the others would gain, against the second-last, and in both meetings.",
}

exercise = answers(
    criteria=(
        Criterion("culprit", 3, "the rank that the others wait for is named, and no victim and no hot card"),
        Criterion("single", 2, "one kind of meeting is enough where the other is of one rank"),
        Criterion("noise", 2, "spikes and holes change nothing: the median step decides"),
        Criterion("nobody", 2, "nobody is named where no rank alone holds up both of its meetings"),
        Criterion("errors", 1, "metrics that do not fit together are refused with ValueError", ("culprit",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["metrics"],),
    wrong=_wrong,
    kept="The function changed the metrics that it was given: the caller still needs them.",
    libraries=("numpy",),
)
