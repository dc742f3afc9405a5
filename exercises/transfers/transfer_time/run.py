"""E5.2 transfer_time: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question; a line that is asked about twice is one dictionary. ``links``: what they are in the end."""
    lines: list[tuple[dict, dict]] = []
    answers = [_seconds(learner, question, lines) for question in case["questions"]]
    return {"answers": answers, "links": [_line(question["link"], lines) for question in case["questions"]]}


def _seconds(learner: Learner, question: dict, lines: list[tuple[dict, dict]]) -> dict:
    """What a call gave. A float of a subclass, such as NumPy's, is a float."""
    answer = outcome(lambda: learner.transfer_time(*_arguments(question, lines)))
    value = answer.get("returned")
    return {"returned": float(value)} if isinstance(value, float) else answer


def _arguments(question: dict, lines: list[tuple[dict, dict]]) -> list:
    return [
        question["nbytes"],
        _line(question["link"], lines),
        *([question["messages"]] if "messages" in question else []),
    ]


def _line(link: dict, lines: list[tuple[dict, dict]]) -> dict:
    """The dictionary that stands for ``link``: the one that was handed out for it before, if any."""
    for known, given in lines:
        if known == link:
            return given
    pair = {"encoding": tuple(link["encoding"])} if "encoding" in link else {}
    lines.append((link, {**link, **pair}))
    return lines[-1][1]
