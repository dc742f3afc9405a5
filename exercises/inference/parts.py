"""Questions that rest on others, which are asked beside them as their parts; and questions that must not be refused."""

from collections.abc import Iterable, Iterator

from autograder.core.exercise import Failure
from autograder.judge.expect import raised_problem


def with_parts(drawn: Iterable[dict], *before: dict) -> list[dict]:
    """All that is asked. A question whose ``parts`` are given says in ``rests_on`` at which places they are."""
    found = list(before)
    for question in drawn:
        parts = [{**part, "part": True} for part in question.get("parts", ())]
        found += [part for part in parts if part not in found]
        found.append({**question, "rests_on": [found.index(part) for part in parts]})
    return found


def refused_wrongly(questions: list[dict], told: list[dict]) -> Iterator[Failure]:
    """The first question that was refused though it is ``allowed``, which says what it has at the edge."""
    for question, answer in zip(questions, told, strict=True):
        if "ValueError" in answer.get("error", {}).get("kinds", ()):
            yield Failure("errors", f"{raised_problem(answer['error'])}. But it is no error: {question['allowed']}.")
            return
