"""A prediction: the reader commits to an answer, then reads why."""

from typing import NamedTuple

import anywidget
import traitlets

from gpulab.widgets._source import module, style


class Choice(NamedTuple):
    """One answer. `text` and `why` may hold `code` between backticks."""

    text: str
    why: str
    correct: bool = False


class Question(NamedTuple):
    """A question with one right choice; every choice, right or wrong, says why."""

    text: str
    choices: tuple[Choice, ...]

    @classmethod
    def ask(cls, text: str, *choices: Choice) -> "Question":
        """Build a question.

        Raises:
            ValueError: unless there are two choices or more, exactly one of them is
                correct, and each says why.
        """
        if len(choices) < 2:
            raise ValueError(f"{text!r} has {len(choices)} choices: give it two or more")
        if sum(choice.correct for choice in choices) != 1:
            raise ValueError(f"{text!r} needs exactly one choice with correct=True")
        for choice in choices:
            if not choice.why.strip():
                raise ValueError(f"{text!r}: say why {choice.text!r} is right or wrong")
        return cls(text, choices)


def right(text: str, why: str) -> Choice:
    """The right answer and the reason."""
    return Choice(text, why, correct=True)


def wrong(text: str, why: str) -> Choice:
    """A wrong answer and what is wrong with it."""
    return Choice(text, why)


class Quiz(anywidget.AnyWidget):
    """One question or several. Needs no kernel; the choice survives a reload of the page."""

    _esm = module("quiz")
    _css = style("quiz")
    questions = traitlets.List().tag(sync=True)
    label = traitlets.Unicode("Prediction").tag(sync=True)

    def __init__(self, *questions: Question, label: str = "Prediction"):
        if not questions:
            raise ValueError("a quiz needs a question: Quiz(Question.ask(...))")
        super().__init__(questions=[plain(question) for question in questions], label=label)


def plain(question: Question) -> dict:
    """A question as the browser gets it."""
    return {"text": question.text, "choices": [choice._asdict() for choice in question.choices]}
