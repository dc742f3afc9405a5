"""E4.3 work: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions

_ITEM_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
_TWO_BYTES = ("bf16", "fp16")


def _work_cases(draw: Draw) -> Iterator[Case]:
    for kind in _COUNTS:
        yield _case(kind, [_question(draw, kind, draw.choice(_TWO_BYTES)) for _ in range(3)])
    yield _case("formats", [_question(draw, "gemm", dtype) for dtype in _ITEM_BYTES])
    yield _case("errors", list(_refused(draw)), refused=True)


def _case(about: str, questions: list[dict], refused: bool = False) -> Case:
    return Case((about,), {"questions": questions, "refused": refused})


def _question(draw: Draw, kind: str, dtype: str) -> dict:
    return {"operation": {"kind": kind, **_SIZES[kind](draw)}, "dtype": dtype}


def _product_sizes(draw: Draw) -> dict:
    return {name: draw.integer(1, 9000) for name in ("m", "n", "k")}


def _attention_sizes(draw: Draw) -> dict:
    kv_heads = draw.integer(2, 8)
    return {
        "batch": draw.integer(2, 64),
        "heads": kv_heads * draw.integer(2, 8),
        "kv_heads": kv_heads,
        "head_dim": draw.choice((64, 80, 128)),
        "context": draw.integer(3, 9000),
    }


_SIZES = {
    "gemm": _product_sizes,
    "gemv": lambda draw: {name: draw.integer(2, 9000) for name in ("m", "k")},
    "layer_norm": lambda draw: {"rows": draw.integer(2, 9000), "width": draw.integer(2, 9000)},
    "decode_attention": _attention_sizes,
}


def _refused(draw: Draw) -> Iterator[dict]:
    for dtype in ("fp4", "float32", ""):
        yield _question(draw, draw.choice(list(_COUNTS)), dtype)
    for kind in ("convolution", "GEMM"):
        yield {"operation": {"kind": kind, **_product_sizes(draw)}, "dtype": "bf16"}


# (floating-point operations, elements read, elements written)
_COUNTS = {
    "gemm": lambda m, n, k: (2 * m * n * k, m * k + k * n, m * n),
    "gemv": lambda m, k: (2 * m * k, m * k + k, m),
    "layer_norm": lambda rows, width: (8 * rows * width, rows * width + 2 * width, rows * width),
    "decode_attention": lambda batch, heads, kv_heads, head_dim, context: (
        4 * batch * heads * head_dim * context,
        batch * head_dim * (heads + 2 * kv_heads * context),
        batch * heads * head_dim,
    ),
}


def _wrong(question: dict, answer: dict) -> str | None:
    if "returned" not in answer:
        return f"The function raised {answer['error']['type']} for an operation that has an answer."
    value = answer["returned"]
    if not isinstance(value, list) or len(value) != 2 or not all(type(number) is int for number in value):
        return f"The function returned {type_name(value)}; a pair of ints is due: operations, bytes."
    return _miscounted(question, *value)


def _miscounted(question: dict, flops: int, nbytes: int) -> str | None:
    kind, *sizes = question["operation"].values()
    due, read, written = _COUNTS[kind](*sizes)
    item = _ITEM_BYTES[question["dtype"]]
    if nbytes in (item * read, item * written):
        return f"Bytes that are {'read' if nbytes == item * read else 'written'} are only a part of those that move ({kind})."
    if (flops, nbytes) == (due, item * (read + written)):
        return None
    if flops == due:
        return f"The bytes are not those that must move ({kind}): each element of each input and of the output, once."
    return f"The floating-point operations are not those of the table ({kind}): a multiplication and an addition are two."


def _about(name: str, points: float, says: str) -> Criterion:
    return Criterion(name, points, says, () if name == "gemm" else ("gemm",))


work = Exercise(
    "hierarchy.work",
    criteria=(
        _about("gemm", 1, "a matrix product is counted"),
        _about("gemv", 1, "a matrix times a vector is counted"),
        _about("layer_norm", 1, "a normalisation is counted"),
        _about("decode_attention", 2, "one step of decoding's attention is counted, shared heads included"),
        _about("formats", 1, "every format has its size in memory"),
        _about("errors", 1, "other kinds and formats are refused with ValueError"),
    ),
    cases=_work_cases,
    judge=judge_questions(lambda about, question, answer: _wrong(question, answer)),
)
