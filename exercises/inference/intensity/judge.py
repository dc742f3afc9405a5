"""E18.3 intensity: judge. One fault costs one criterion: formats are judged where 16 bits are right, the bound by the
function's own counts, and the crossover by its own line where that is another.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from autograder.judge.questions import Questions, answers
from autograder.protocol.plain import value_of
from exercises.inference.intensity.asked import config_of
from exercises.inference.intensity.bound import bound_problem, crossover_problem, has_parts
from exercises.inference.intensity.cases import PARTS, counted_cases
from exercises.inference.intensity.expected import expected
from exercises.inference.intensity.misreadings import of_other_formats, rivals
from exercises.inference.intensity.refused import refused_cases
from exercises.inference.parts import refused_wrongly

_ANOTHER = (
    "The passes that were made are not those of the given decoder: were its cell's functions changed further down?"
)


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield from counted_cases(sampler)
    yield from refused_cases(sampler)


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    criterion, told = case.criteria[0], evidence.get("answers")
    if criterion == "errors" or count_problem(told, len(case.questions)):
        wrongly = [] if case.raises or criterion != "errors" else list(refused_wrongly(case.questions, told))
        yield from wrongly or _asked.judge(case, evidence)
        return
    own = [_value(answer) for answer in told]
    questions = [{**asked, "own": [own[at] for at in asked.get("rests_on", ())]} for asked in case.questions]
    judged = [at for at, pair in enumerate(zip(questions, told)) if _is_judged(criterion, *pair)]
    if not judged:
        yield Failure(criterion, _not_judged(told))
        return
    kept = [questions[at] for at in judged]
    yield from _asked.judge(replace(case, questions=kept), evidence | {"answers": [told[at] for at in judged]})
    if criterion == "linear" and not all(answer["kept"] for answer in told):
        yield Failure(criterion, "The function changed the card that it was given: the caller still needs it.")


def _value(answer: dict) -> Any:
    return value_of(answer["returned"]) if "returned" in answer else None


def _not_judged(told: list[dict]) -> str:
    if all("error" in answer for answer in told):
        return raised_problem(told[0]["error"])
    return "Not judged yet: where all formats have 16 bits, no part's bytes are right. Begin with those."


def _refused(answer: dict) -> bool:
    return "ValueError" in answer.get("error", {}).get("kinds", ())


def _is_judged(criterion: str, question: dict, answer: dict) -> bool:
    """A part is not itself, nor a refusal of what `errors` asks about: an empty cache, heads that share nothing."""
    if question.get("part"):
        return False
    if criterion == "formats":
        return any(_plain_is_right(question, part) for part in PARTS)
    empty, config = question["asked"][2] == 0, question["config"]
    if criterion == "crossover" and config != config_of(config) and "error" in answer:
        return False  # `formats` asks about others than 16 bits
    return not (_refused(answer) and (empty or config["heads"] == config["kv_heads"]))


def _plain_is_right(question: dict, part: str) -> bool:
    """Whether the function's own bytes are right where all formats have 16 bits."""
    right = expected(*question["asked"], config_of(question["config"]))[part][1]
    return _plain(question, part)["bytes"] == right


def _plain(question: dict, part: str) -> dict:
    own = question["own"][0]
    return own[part] if has_parts(own) else dict.fromkeys(("flops", "bytes"))


# ---- what is wrong


def _wrong(criterion: str, question: dict, answer: Any) -> str | None:
    value, ran = answer if question["measure"] else (answer, None)
    if question["measure"] and ran != list(expected(*question["asked"], question["config"])[question["measure"]]):
        return _ANOTHER
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    if criterion == "crossover":
        return crossover_problem(question, value)
    if criterion == "errors":
        return None
    if not has_parts(value):
        return 'Expected a dictionary of "linear", "attention" and "crossover", two of "flops", "bytes", "intensity" and "bound".'
    parts = (criterion,) if criterion in PARTS else PARTS
    return next(
        filter(None, (_PROBLEMS.get(criterion, _counts_problem)(part, question, value[part]) for part in parts)), None
    )


def _counts_problem(part: str, question: dict, told: dict) -> str | None:
    right = expected(*question["asked"], question["config"])[part]
    for key, count in zip(("flops", "bytes"), right, strict=True):
        if type(told[key]) is not int:
            return f"A count is {type_name(told[key])}; expected a Python integer."
        if told[key] != count:
            return _why(part, key, told[key], count, question)
    return None


def _why(part: str, key: str, told: int, right: int, question: dict) -> str:
    phase, _, seq = question["asked"]
    without_itself = (phase, seq) in (("decode", 1), ("prefill", 3))  # has half of the pairs, too
    if 2 * told == right and key == "flops" and not (part == "attention" and without_itself):
        return _HALF[part]
    if abs(told - right) * 2**51 <= right:
        return "The count is rounded: it is an exact integer beyond what a float64 holds."
    found = (sentence for of, count, sentence in rivals(part, question) if (of, count) == (key, told))
    return next(found, _SENTENCES[part, key])


_HALF = {
    "linear": "That is half of the FLOPs: a multiply-add is two.",
    "attention": "That is half of the FLOPs: a multiply-add is two, attention has two products, and in decode a token attends to all.",
}


def _formats_problem(part: str, question: dict, told: dict) -> str | None:
    right, plain = expected(*question["asked"], question["config"])[part], _plain(question, part)
    if plain["flops"] == right[0] != told["flops"]:
        return "The FLOPs of a pass are the same in all formats: only bytes and peaks are others."
    if told["bytes"] == right[1] or not _plain_is_right(question, part):
        return None
    found = (sentence for count, sentence in of_other_formats(part, question) if count == told["bytes"])
    return next(found, _FORMATS[part])


_PROBLEMS = {
    "formats": _formats_problem,
    "bound": lambda part, question, told: bound_problem(
        question, told, expected(*question["asked"], question["config"])[part]
    ),
}


_SENTENCES = {
    ("linear", "flops"): (
        "The FLOPs of the linear layers are wrong: each row has two for each weight of the seven matrices of each layer, by "
        "their own sizes; decode has a row for each request, and the head has one for each request in prefill too."
    ),
    ("linear", "bytes"): (
        "The bytes of the linear layers are wrong: each of the seven products of a layer, and the head, reads its weights once "
        "for the whole batch, and reads an input and writes an output of its own for each row."
    ),
    ("attention", "flops"): (
        "The FLOPs of attention are wrong: for every query head, two products over each pair of a token and itself or one before "
        "it in the same request, in every layer."
    ),
    ("attention", "bytes"): (
        "The bytes of attention are wrong: for each request and layer, queries in and outputs out for the new tokens, keys and "
        "values written for the new tokens, and read for all, by heads of keys and values. Scores are on the chip."
    ),
}
_FORMATS = {
    "linear": (
        "The bytes of the linear layers are right where all formats have 16 bits, and not where they differ: weights have "
        "`weight_bits`, inputs and outputs `dtype`."
    ),
    "attention": (
        "The bytes of attention are right where all formats have 16 bits, and not where they differ: queries and outputs have "
        "`dtype`, the cache `kv_bits`; a token's key together with its value takes whole bytes."
    ),
}

_asked = answers(
    criteria=(
        Criterion("linear", 2, "FLOPs and bytes of the linear layers are right, in both phases"),
        Criterion("attention", 2, "FLOPs and bytes of attention are right, in both phases"),
        Criterion("formats", 1, "weights, cache and activations have bytes of their own"),
        Criterion("bound", 1, "intensity and bound of each part follow from its counts and the card"),
        Criterion(
            "crossover",
            2,
            "the batch that makes decode's linear layers compute-bound is right, and None where none does",
        ),
        Criterion("errors", 1, "what makes no sense is refused with ValueError, and nothing else is"),
    ),
    cases=_cases,
    arguments=lambda question: (*question["asked"], question["config"], question["card"], question["measure"]),
    wrong=_wrong,
    kept="",
    in_kernel=True,
)
exercise = replace(_asked, judge=_judge)
