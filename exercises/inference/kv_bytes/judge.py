"""E18.2 kv_bytes: judge. One fault costs one criterion: bytes are judged in the learner's own bytes of one token,

and a question that rests on others where those are right.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from autograder.judge.questions import Questions, answers
from autograder.protocol.plain import value_of
from exercises.inference.kv_bytes.cases import counted_cases
from exercises.inference.kv_bytes.expected import due, misread, rivals
from exercises.inference.kv_bytes.refused import refused_cases
from exercises.inference.parts import refused_wrongly


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield from counted_cases(sampler)
    yield from refused_cases(sampler)


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    criterion, told = case.criteria[0], evidence.get("answers")
    if count_problem(told, len(case.questions)):
        yield from _asked.judge(case, evidence)
        return
    questions = _with_own(case, told)
    judged = _judged(case, questions, told)
    if not judged:
        yield Failure(criterion, _not_judged(told))
        return
    reasons = case.reasons and [case.reasons[at] for at in judged]
    asked, told = [questions[at] for at in judged], [told[at] for at in judged]
    if criterion == "errors" and not case.raises and (wrongly := list(refused_wrongly(asked, told))):
        yield from wrongly
        return
    yield from _asked.judge(replace(case, questions=asked, reasons=reasons), evidence | {"answers": told})
    if criterion == "requests" and not all(answer["kept"] for answer in evidence["answers"]):
        yield Failure(criterion, "The function changed what it was given: the caller still needs its requests.")


def _with_own(case: Questions, told: list[dict]) -> list[dict]:
    """The questions, with what the function's own bytes of a token are, and whether it reads the right tokens in all parts."""
    own = _NONE if case.criteria[0] in ("heads", "errors") else _own(case.questions, told)
    questions = [{**question, **own} for question in case.questions]
    strict = not any(_is_misread(*pair) for pair in zip(questions, told) if pair[0].get("part"))
    return [{**question, "strict": strict} for question in questions]


def _judged(case: Questions, questions: list[dict], told: list[dict]) -> list[int]:
    """Places of those that rest on nothing, or on what is right."""
    pairs = list(enumerate(zip(questions, told)))
    right = {at for at, pair in pairs if pair[0].get("part") and _is_right(*pair)}
    return [at for at, pair in pairs if _is_judged(case, *pair, right)]


_NONE = {"scale": 1, "floats": False}


def _own(questions: list[dict], told: list[dict]) -> dict:
    """How many times as much as is due the function gives for tokens of a plain decoder, if it does for one and for three."""
    one, three = map(_value, told[:2])
    if type(one) not in (int, float) or type(three) is not type(one) or not 0 < one < 2**63 or three != 3 * one:
        return _NONE
    return {"scale": Fraction(one) / due(questions[0]), "floats": type(one) is float}


def _not_judged(told: list[dict]) -> str:
    if all("error" in answer for answer in told):
        return raised_problem(told[0]["error"])
    return "Not judged yet: of the answers that this rests on none is right. Begin with those."


def _value(answer: dict) -> Any:
    return value_of(answer["returned"]) if "returned" in answer else None


def _is_right(question: dict, answer: dict) -> bool:
    return _wrong("", question, _value(answer)) is None


def _is_misread(question: dict, answer: dict) -> bool:
    """Right but for which of its tokens a request keeps."""
    return _is_right(question, answer) and not _is(_value(answer), question, due(question))


def _is_judged(case: Questions, question: dict, answer: dict, right: set[int]) -> bool:
    """A part is not itself, nor what other criteria ask about: frames of no time, and the least numbers that are right."""
    if question.get("part") or not right.issuperset(question.get("rests_on", ())):
        return False
    if case.raises:
        empty_film = any(request["videos"] and not request["text"] for request in question["requests"])
        return not (empty_film and _value(answer))
    refused = "ValueError" in answer.get("error", {}).get("kinds", ())
    return case.criteria == ("errors",) or not (refused and _has_a_least_number(question))


def _has_a_least_number(question: dict) -> bool:
    config = question["config"]
    least = 1 in (config["layers"], config["latent"], config["window"], config["full_every"])
    least |= config["shared"] == config["layers"] - 1 or (config["latent"] is not None and not config["rope_dim"])
    return least or any(request["text"] == 0 for request in question["requests"])


# ---- what is wrong


def _is(value: Any, question: dict, nbytes: int) -> bool:
    """So many bytes, or as many of the learner's own."""
    own = nbytes * question["scale"]
    if question["floats"] and type(value) is float and isfinite(value):
        return abs(Fraction(value) - own) * _ROUNDED <= own
    return type(value) is int and value in (nbytes, own)


_ROUNDED = 2**50
"""Of more bytes a float loses one."""


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    """``criterion`` is empty for a part of a question."""
    if criterion == "errors":
        return None  # the other cases ask what is counted
    right = due(question)
    if _is(value, question, right):
        return None
    forgiven = criterion != "requests" and not (criterion == "together" and question["strict"])
    if forgiven and any(_is(value, question, due(question, held)) for held, _ in misread(question)):
        return None  # which of its tokens a request keeps is `requests`' question
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected an int."
    return _why(criterion, question, value, right)


def _why(criterion: str, question: dict, value: int, right: int) -> str:
    if abs(value - right) * _ROUNDED <= right:
        return "The bytes are rounded: a float or a tensor on the way does not hold every integer of this size."
    for rival, sentence in rivals(criterion, question):
        if _is(value, question, rival):
            return sentence
    if not (value - right) % 2**64:
        return "The bytes are beyond 64 bits, and yours were counted in so many: count in Python's integers."
    if criterion == "together":
        *most, last = (_MEETS[field] for field in question["meet"])
        return f"{', '.join(most).capitalize()} and {last} are each right alone, by your own answers, and together they are not. {_SAME}"
    return _SENTENCES.get(criterion, "")


_MEETS = {
    "latent": "a latent",
    "window": "windows and layers that share",
    "dtype": "the bytes of a dtype",
    "prompt": "images and videos",
    "requests": "several requests",
}
_SAME = (
    "Whatever a layer keeps of a token, it keeps it of the same tokens, and every element has the bytes of the dtype."
)
_SENTENCES = {
    "heads": "Each token takes, in each layer, a key and a value of head_dim elements in each of the kv_heads heads, in bytes of the dtype.",
    "requests": "The tokens of all requests, equal ones too, are added up in exact integers: those that have been read and no others.",
    "images": (
        "Every image counts, equal ones too. Each of its sides is rounded up by itself, in exact integers, to whole tokens of "
        "merge x patch pixels; the product is its tokens."
    ),
    "videos": (
        "Frames are taken at 0, 1/fps, 2/fps ... seconds, strictly before the video's end, in exact arithmetic. In each video, equal ones too, "
        "every temporal frames, and those left over, become one, with the tokens of an image of that size."
    ),
    "layers": (
        "Layers are numbered from 1. With a window, multiples of full_every keep all tokens, the others the last ones of each request; "
        "the last `shared` layers keep nothing, with or without."
    ),
    "latents": "With a latent each layer keeps latent + rope_dim elements of a token, for all heads together; without, rope_dim says nothing.",
}

_asked = answers(
    criteria=(
        Criterion("heads", 2, "keys and values are counted by their own heads, in bytes of their dtype"),
        Criterion("requests", 1, "all requests are counted, each with the tokens that were read, exactly"),
        Criterion("images", 1, "an image has as many tokens as cover it"),
        Criterion("videos", 1, "a video has the tokens of its frames, as they are taken and brought together"),
        Criterion("layers", 1, "every layer keeps what it keeps: all tokens, those in its window, or none"),
        Criterion("latents", 1, "a latent is counted in the place of keys and values, once for all heads"),
        Criterion("together", 1, "all of this holds at once"),
        Criterion("errors", 1, "what no decoder and no request can be is refused with ValueError"),
    ),
    cases=_cases,
    arguments=lambda question: (question["config"], question["requests"], question["dtype"]),
    wrong=_wrong,
    kept="",
    in_kernel=True,
)
exercise = replace(_asked, judge=_judge)
