"""E9.2 activation_bytes: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import count_problem, type_name
from autograder.verdicts.questions import ask, judge_questions
from gpulab import Observation

_TOLERANCE = 0.1
_ITEM_BYTES = {"float32": 4, "bfloat16": 2}
_ALIKE = 0.01
"""What the notebook's decoder keeps is known as well as that."""
_MADE = (
    "A tensor was made: the bytes are to be computed from the shape's numbers, before there is a model, on no device."
)
_ANOTHER = "What was measured is not what the given decoder keeps: were its cell's functions changed further down?"


def _cases(draw: Draw) -> Iterator[Case]:
    yield ask("layers", list(_layers(draw)))
    yield ask("unfused", list(_unfused(draw)))
    yield ask("grouped", list(_grouped(draw)))
    yield ask("head", list(_heads_only(draw)))
    yield ask("errors", list(_refused(draw)), raises="ValueError")


def _ask(draw: Draw, how: tuple[str, ...], measure: bool = False, **shape: Any) -> dict:
    """Keys in any order. ``how``: the attention, or nothing, which is flash."""
    shape = {"vocabulary": 16} | shape
    width = shape.pop("head_dim") * shape["heads"]
    hidden = max(1, round(shape.pop("wider") * width))
    shape = dict(draw.shuffled(list({"kv_heads": shape["heads"], "width": width, "hidden": hidden, **shape}.items())))
    return {"shape": shape, "how": list(how), "measure": measure}


def _small(draw: Draw) -> dict:
    """Sizes of a decoder that is run."""
    return {
        "layers": draw.integer(3, 4),
        "heads": 4,
        "head_dim": 16,
        "batch": draw.integer(1, 3),
        "sequence": draw.integer(24, 48),
    }


def _large(draw: Draw) -> dict:
    """Sizes of one that no machine of a learner's runs."""
    return {
        "layers": draw.integer(24, 80),
        "heads": draw.integer(3, 16) * 8,
        "head_dim": draw.choice([64, 128]),
        "batch": draw.integer(2, 64),
        "sequence": draw.integer(1000, 3000),
    }


def _layers(draw: Draw) -> Iterator[dict]:
    """Flash, by narrow and wide MLPs, short and long sequences."""
    for plan in draw.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 8)):
        yield _ask(draw, ("flash",), True, **_small(draw), **plan)
        yield _ask(draw, draw.choice([(), ("flash",)]), **_large(draw), **plan)
        yield _ask(draw, (), **_large(draw) | {"sequence": draw.integer(30_000, 40_000), "batch": 1}, **plan)
        yield _ask(draw, ("flash",), **_large(draw) | {"sequence": 1}, **plan)
    yield _ask(draw, (), True, **_small(draw) | {"sequence": draw.integer(120, 160)}, dtype="float32", wider=1)


def _unfused(draw: Draw) -> Iterator[dict]:
    """Long sequences, where the probabilities are most of it, and short ones, where they are little."""
    for plan in draw.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), heads=(1, 4)):
        sizes = {"sequence": draw.integer(100, 140), "head_dim": 64 // plan["heads"]}
        yield _ask(draw, ("unfused",), True, **_small(draw) | sizes | plan)
    for plan in draw.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), sequence=(8, 512, 16_384)):
        yield _ask(draw, ("unfused",), **_large(draw) | plan)


def _grouped(draw: Draw) -> Iterator[dict]:
    """Fewer heads of keys and values, one or several; the sequence is short, or the probabilities would hide them."""
    for plan in draw.cover(dtype=tuple(_ITEM_BYTES), how=("flash", "unfused"), kv_heads=(1, 2)):
        how = plan.pop("how")
        yield _ask(draw, (how,), True, **_small(draw) | {"heads": 8, "layers": 5, "sequence": 4}, wider=0.125, **plan)
        yield _ask(draw, (how,), **_large(draw) | {"sequence": draw.integer(1, 16)}, wider=0.125, **plan)
        kv_heads = draw.integer(2, 5)
        yield _ask(
            draw,
            (how,),
            **_large(draw) | {"sequence": 16, "heads": 8 * kv_heads, "kv_heads": kv_heads},
            wider=0.125,
            dtype=plan["dtype"],
        )


def _heads_only(draw: Draw) -> Iterator[dict]:
    """No layer, or a vocabulary beside which a layer is little."""
    for plan in draw.cover(
        dtype=tuple(_ITEM_BYTES), how=("flash", "unfused"), measure=(True, False), sizes=((0, 1), (0, 50), (1, 50))
    ):
        layers, many = plan["sizes"]
        heads, vocabulary = (
            (4, 300 * many) if plan["measure"] else (draw.integer(8, 32), draw.integer(4000, 5000) * many)
        )
        sizes = {"layers": layers, "heads": heads, "head_dim": 16, "vocabulary": vocabulary}
        sizes |= {"batch": draw.integer(2, 4), "sequence": draw.integer(8, 16)}
        yield _ask(draw, (plan["how"],), plan["measure"], **sizes, wider=0.125, dtype=plan["dtype"])
    for dtype in draw.each(*_ITEM_BYTES):
        sizes = {"layers": 0, "heads": 8, "head_dim": draw.integer(60, 90), "vocabulary": draw.integer(2, 30)}
        yield _ask(draw, (), True, **sizes, batch=1, sequence=draw.integer(1, 9), wider=1, dtype=dtype)


def _refused(draw: Draw) -> Iterator[dict]:
    for attention in draw.each("Flash", "fused", "eager", "sdpa", ""):
        yield _ask(draw, (attention,), **_large(draw), dtype="bfloat16", wider=4)
    for how in draw.each((), ("flash",), ("unfused",)):
        for changed in (
            {"heads": 24, "width": 24 * 64 + draw.integer(1, 23)},
            {"heads": 24, "kv_heads": draw.choice([5, 7, 9, 16, 48])},
        ):
            yield _ask(draw, how, **_large(draw) | changed, dtype="float32", wider=4)


def due(shape: dict, attention: str = "flash") -> int:
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


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    yield from _problems(case, about, evidence)


def _problems(case: Case, about: str, evidence: dict) -> list[Lost]:
    questions = case.inputs["questions"]
    if Observation.from_dict(evidence["seen"]).ops:
        return [Lost(about, _MADE)]
    if not all(answer["kept"] is True for answer in evidence["answers"]):
        return [Lost(about, "The function changed the shape that it was given: the caller still needs it.")]
    if problem := count_problem(evidence["measured"], len(questions)):
        return [Lost(about, problem)]
    if not all(map(_as_measured, questions, evidence["measured"])):
        return [Lost(about, _ANOTHER)]
    return list(judge_questions(_wrong)(case, evidence))


def _as_measured(question: dict, measured: Any) -> bool:
    if not question["measure"]:
        return True
    right = due(question["shape"], *question["how"])
    return type(measured) is int and abs(measured - right) <= _ALIKE * right


def _wrong(about: str, question: dict, value: Any) -> str | None:
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected a Python integer, of bytes."
    shape = question["shape"]
    right = due(shape, *question["how"])
    if abs(value - right) <= _TOLERANCE * right:
        return None
    if value == shape["batch"] * shape["sequence"] * shape["width"] * shape["layers"] * 2:
        return "One tensor of two bytes an element for each layer is what its output takes: the many inside it are kept as well."
    if 2**9 * value < right:
        return "The number is far too small: these are not bytes, or no layer's inside was counted."
    return _SAID[about].format("more" if value > right else "less")


_SAID = {
    "layers": "It is {} than the layers keep: go through the block's lines with flash attention and count what each has to have "
    "again in backward, in the shape's dtype, a tensor once though two operations keep it. Nothing of (sequence, sequence) stays.",
    "unfused": "It is {} than written-out attention keeps: of the tensors of (sequence, sequence) for each head, which does a "
    "backward step need, and in which dtype is it?",
    "grouped": "It is {} than attention with fewer heads of keys and values keeps: are they repeated before they are used, or not?",
    "head": "It is {} than is kept behind the layers: the last norm, and what cross_entropy keeps of the logits, in its own dtype.",
    "errors": "",
}


activation_bytes = Exercise(
    "memory.activation_bytes",
    criteria=(
        Criterion("layers", 2, "the layers with flash attention are counted, in both dtypes"),
        Criterion("unfused", 2, "written-out attention keeps what it keeps for each pair of positions", ("layers",)),
        Criterion("grouped", 2, "shared keys and values are counted as each attention keeps them", ("layers",)),
        Criterion("head", 1, "what stands behind the layers is counted"),
        Criterion("errors", 1, "what is no attention or cannot be divided is refused with ValueError", ("layers",)),
    ),
    cases=_cases,
    judge=_judge,
)
