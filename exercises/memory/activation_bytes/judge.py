"""E9.2 activation_bytes: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, type_name
from autograder.judge.questions import ask, judge_questions
from gpulab import Observation

_TOLERANCE = 0.1
_ITEM_BYTES = {"float32": 4, "bfloat16": 2}
_ALIKE = 0.01
"""What the notebook's decoder keeps is known as well as that."""
_MADE = (
    "A tensor was made: the bytes are to be computed from the shape's numbers, before there is a model, on no device."
)
_ANOTHER = "What was measured is not what the given decoder keeps: were its cell's functions changed further down?"


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield ask("layers", list(_layers(sampler)))
    yield ask("unfused", list(_unfused(sampler)))
    yield ask("grouped", list(_grouped(sampler)))
    yield ask("head", list(_heads_only(sampler)))
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


def _ask(sampler: Sampler, how: tuple[str, ...], measure: bool = False, **shape: Any) -> dict:
    """Keys in any order. ``how``: the attention, or nothing, which is flash."""
    shape = {"vocabulary": 16} | shape
    width = shape.pop("head_dim") * shape["heads"]
    hidden = max(1, round(shape.pop("wider") * width))
    shape = dict(
        sampler.permutation(list({"kv_heads": shape["heads"], "width": width, "hidden": hidden, **shape}.items()))
    )
    return {"shape": shape, "how": list(how), "measure": measure}


def _small(sampler: Sampler) -> dict:
    """Sizes of a decoder that is run."""
    return {
        "layers": sampler.integer(3, 4),
        "heads": 4,
        "head_dim": 16,
        "batch": sampler.integer(1, 3),
        "sequence": sampler.integer(24, 48),
    }


def _large(sampler: Sampler) -> dict:
    """Sizes of one that no machine of a learner's runs."""
    return {
        "layers": sampler.integer(24, 80),
        "heads": sampler.integer(3, 16) * 8,
        "head_dim": sampler.choice([64, 128]),
        "batch": sampler.integer(2, 64),
        "sequence": sampler.integer(1000, 3000),
    }


def _layers(sampler: Sampler) -> Iterator[dict]:
    """Flash, by narrow and wide MLPs, short and long sequences."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 8)):
        yield _ask(sampler, ("flash",), True, **_small(sampler), **plan)
        yield _ask(sampler, sampler.choice([(), ("flash",)]), **_large(sampler), **plan)
        yield _ask(sampler, (), **_large(sampler) | {"sequence": sampler.integer(30_000, 40_000), "batch": 1}, **plan)
        yield _ask(sampler, ("flash",), **_large(sampler) | {"sequence": 1}, **plan)
    yield _ask(sampler, (), True, **_small(sampler) | {"sequence": sampler.integer(120, 160)}, dtype="float32", wider=1)


def _unfused(sampler: Sampler) -> Iterator[dict]:
    """Long sequences, where the probabilities are most of it, and short ones, where they are little."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), heads=(1, 4)):
        sizes = {"sequence": sampler.integer(100, 140), "head_dim": 64 // plan["heads"]}
        yield _ask(sampler, ("unfused",), True, **_small(sampler) | sizes | plan)
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), sequence=(8, 512, 16_384)):
        yield _ask(sampler, ("unfused",), **_large(sampler) | plan)


def _grouped(sampler: Sampler) -> Iterator[dict]:
    """Fewer heads of keys and values, one or several; the sequence is short, or the probabilities would hide them."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), how=("flash", "unfused"), kv_heads=(1, 2)):
        how = plan.pop("how")
        yield _ask(
            sampler, (how,), True, **_small(sampler) | {"heads": 8, "layers": 5, "sequence": 4}, wider=0.125, **plan
        )
        yield _ask(sampler, (how,), **_large(sampler) | {"sequence": sampler.integer(1, 16)}, wider=0.125, **plan)
        kv_heads = sampler.integer(2, 5)
        yield _ask(
            sampler,
            (how,),
            **_large(sampler) | {"sequence": 16, "heads": 8 * kv_heads, "kv_heads": kv_heads},
            wider=0.125,
            dtype=plan["dtype"],
        )


def _heads_only(sampler: Sampler) -> Iterator[dict]:
    """No layer, or a vocabulary beside which a layer is little."""
    for plan in sampler.cover(
        dtype=tuple(_ITEM_BYTES), how=("flash", "unfused"), measure=(True, False), sizes=((0, 1), (0, 50), (1, 50))
    ):
        layers, many = plan["sizes"]
        heads, vocabulary = (
            (4, 300 * many) if plan["measure"] else (sampler.integer(8, 32), sampler.integer(4000, 5000) * many)
        )
        sizes = {"layers": layers, "heads": heads, "head_dim": 16, "vocabulary": vocabulary}
        sizes |= {"batch": sampler.integer(2, 4), "sequence": sampler.integer(8, 16)}
        yield _ask(sampler, (plan["how"],), plan["measure"], **sizes, wider=0.125, dtype=plan["dtype"])
    for dtype in sampler.shuffled(*_ITEM_BYTES):
        sizes = {"layers": 0, "heads": 8, "head_dim": sampler.integer(60, 90), "vocabulary": sampler.integer(2, 30)}
        yield _ask(sampler, (), True, **sizes, batch=1, sequence=sampler.integer(1, 9), wider=1, dtype=dtype)


def _refused(sampler: Sampler) -> Iterator[dict]:
    for attention in sampler.shuffled("Flash", "fused", "eager", "sdpa", ""):
        yield _ask(sampler, (attention,), **_large(sampler), dtype="bfloat16", wider=4)
    for how in sampler.shuffled((), ("flash",), ("unfused",)):
        for changed in (
            {"heads": 24, "width": 24 * 64 + sampler.integer(1, 23)},
            {"heads": 24, "kv_heads": sampler.choice([5, 7, 9, 16, 48])},
        ):
            yield _ask(sampler, how, **_large(sampler) | changed, dtype="float32", wider=4)


def expected(shape: dict, attention: str = "flash") -> int:
    """Bytes that the notebook's decoder keeps on the CPU, to the last."""
    width, heads, item = shape["width"], shape["heads"], _ITEM_BYTES[shape["dtype"]]
    tokens, norms = shape["batch"] * shape["sequence"], 2 * shape["layers"] + 1
    if attention == "flash":
        keys, inside = width // heads * shape["kv_heads"], 4 * heads
    else:
        keys, inside = width, heads * shape["sequence"] * item
    layer = (2 * width + 2 * keys + 4 * shape["hidden"]) * item + inside  # and what its norms keep
    each = shape["layers"] * layer + norms * 2 * (width + 1) * item + 4 * shape["vocabulary"] + 2 * 8
    return tokens * each + 4


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    yield from _problems(case, criteria, evidence)


def _problems(case: Case, criteria: str, evidence: dict) -> list[Failure]:
    questions = case.inputs["questions"]
    if Observation.from_dict(evidence["seen"]).ops:
        return [Failure(criteria, _MADE)]
    if not all(answer["kept"] is True for answer in evidence["answers"]):
        return [Failure(criteria, "The function changed the shape that it was given: the caller still needs it.")]
    if problem := count_problem(evidence["measured"], len(questions)):
        return [Failure(criteria, problem)]
    if not all(map(_as_measured, questions, evidence["measured"])):
        return [Failure(criteria, _ANOTHER)]
    return list(judge_questions(_wrong)(case, evidence))


def _as_measured(question: dict, measured: Any) -> bool:
    if not question["measure"]:
        return True
    right = expected(question["shape"], *question["how"])
    return type(measured) is int and abs(measured - right) <= _ALIKE * right


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected a Python integer, of bytes."
    shape = question["shape"]
    right = expected(shape, *question["how"])
    if abs(value - right) <= _TOLERANCE * right:
        return None
    if value == shape["batch"] * shape["sequence"] * shape["width"] * shape["layers"] * 2:
        return "One tensor of two bytes an element for each layer is what its output takes: the many inside it are kept as well."
    if 2**9 * value < right:
        return "The number is far too small: these are not bytes, or no layer's inside was counted."
    return _SAID[criteria].format("more" if value > right else "less")


_SAID = {
    "layers": "It is {} than the layers keep: go through the block's lines with flash attention and count what each has to have "
    "again in backward, in the shape's dtype, a tensor once though two operations keep it. Nothing of (sequence, sequence) stays.",
    "unfused": "It is {} than written-out attention keeps: of the tensors of (sequence, sequence) for each head, which does a "
    "backward step need, and in which dtype is it?",
    "grouped": "It is {} than attention with fewer heads of keys and values keeps: are they repeated before they are used, or not?",
    "head": "It is {} than is kept behind the layers: the last norm, and what cross_entropy keeps of the logits, in its own dtype.",
    "errors": "",
}


exercise = Exercise(
    criteria=(
        Criterion("layers", 2, "the layers with flash attention are counted, in both dtypes"),
        Criterion(
            "unfused", 2, "written-out attention is counted with its tensors for each pair of positions", ("layers",)
        ),
        Criterion("grouped", 2, "grouped-query keys and values are counted as each attention saves them", ("layers",)),
        Criterion("head", 1, "the final norm, the head and the loss are counted"),
        Criterion(
            "errors", 1, "unknown attention and heads that do not divide are refused with ValueError", ("layers",)
        ),
    ),
    cases=_cases,
    judge=_judge,
)
