"""What a run of ``autograder grade`` says at its end."""

from collections.abc import Iterable

from autograder.core.ledger import NOT_GRADED
from autograder.core.printable import on_terminal, printable
from autograder.grading.job import Graded

_HEADINGS = {
    NOT_GRADED: "NOT GRADED, each waits for you (why: its note in the ledger and on the feedback page)",
    "timed out": "timed out",
    "crashed": "crashed (the kernel died)",
    "flooded": "stopped for the amount they printed",
}
_TO_LOOK_AT = "to look at, for what their code uses (Formgrader: needs manual grade; it costs no points)"
_NAMES = 40


def summary(results: list[Graded], seconds: float) -> str:
    """Lines of text: how many, and by name all but the ordinary."""
    graded = [result for result in results if result.ending == "graded"]
    pace = f" in {seconds:.1f} s, {len(graded) / seconds:.1f} a second" if graded else ""
    lines = [f"graded: {len(graded)} of {len(results)} submissions{pace}"]
    for outcome, heading in _HEADINGS.items():
        lines += _named(heading, (r for r in graded if r.outcome == outcome))
    lines += _named("suspicious (see incidents in the ledger)", (r for r in graded if r.suspicious))
    lines += _named(_TO_LOOK_AT, (r for r in graded if r.flagged))
    lines += _broken(graded) + _unexplained(graded)
    for why in sorted({r.why for r in graded if r.why}):
        lines += _named(f"graded again: {why}", (r for r in graded if r.why == why))
    lines += [f"  {printable(r.student)}: {sentence}" for r in results for sentence in r.moved]
    lines += _named("skipped: graded before and not changed since", (r for r in results if r.ending == "skipped"))
    lines += _named("skipped: another grader has it", (r for r in results if r.ending == "held"))
    lines += [f"FAILED {printable(r.student)}: {on_terminal(r.remark)}" for r in results if r.ending == "failed"]
    return "\n".join(lines)


def _broken(graded: list[Graded]) -> list[str]:
    """One line a failing judge or scenario, with everyone who may have lost points by it."""
    by_place: dict[str, list[Graded]] = {}
    for result in graded:
        for sentence in result.broken:
            by_place.setdefault(printable(sentence), []).append(result)
    return [
        line
        for place, some in by_place.items()
        for line in _named(f"BROKEN HIDDEN TEST, points may be due: {place}", some)
    ]


def _unexplained(graded: list[Graded]) -> list[str]:
    if not (functions := sum(result.unexplained for result in graded)):
        return []
    return [f"  functions in which a misconception may be named: {functions} (python -m autograder explain ASSIGNMENT)"]


def _named(heading: str, results: Iterable[Graded]) -> list[str]:
    students = sorted(printable(result.student) for result in results)
    if not students:
        return []
    more = f" and {len(students) - _NAMES} more" if len(students) > _NAMES else ""
    return [f"  {heading}: {len(students)} ({', '.join(students[:_NAMES])}{more})"]
