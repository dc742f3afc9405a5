"""E4.4 work: cases and judge."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse
from autograder.protocol.plain import value_of

Question = tuple[dict, str]
"""An operation and a format."""
_ITEM_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


def _work_cases(sampler: Sampler) -> Iterator[Questions]:
    for kind in _COUNTS:
        sizes = [*_sizes(sampler, kind), _vast(sampler, kind)]
        yield ask(kind, [_question(sampler, kind, size, dtype) for size in sizes for dtype in ("bf16", "fp16")])
    yield ask("formats", [question for kind in _COUNTS for question in _in_every_format(sampler, kind)])
    yield refuse("errors", [(question, _why_refused(*question)) for question in _refused(sampler)])


def _question(sampler: Sampler, kind: str, sizes: dict, dtype: str) -> Question:
    """The dictionary's entries are in any order."""
    return dict(sampler.permutation([("kind", kind), *sizes.items()])), dtype


def _sizes(sampler: Sampler, kind: str) -> Iterator[dict]:
    """Every size once 1 and once not, with every other that way."""
    for is_one in sampler.cover(**dict.fromkeys(_LARGEST[kind], (True, False))):
        sizes = {name: 1 if is_one[name] else sampler.integer(2, most) for name, most in _LARGEST[kind].items()}
        yield _with_heads(sizes)


def _vast(sampler: Sampler, kind: str) -> dict:
    """So large that a float holds neither of the counts, which four times two divides at most."""
    sizes = dict.fromkeys(_LARGEST[kind], 1) | {
        name: 4 * sampler.integer(10**8, 14 * 10**7) + 1 for name in _VAST[kind]
    }
    return _with_heads(sizes)


def _with_heads(sizes: dict) -> dict:
    """Heads are so many for each of the cached ones: one, where every head has a cache of its own."""
    return {**sizes, "heads": sizes["heads"] * sizes["kv_heads"]} if "heads" in sizes else sizes


def _in_every_format(sampler: Sampler, kind: str) -> Iterator[Question]:
    sizes = _with_heads({name: sampler.integer(2, most) for name, most in _LARGEST[kind].items()})
    yield from (_question(sampler, kind, sizes, dtype) for dtype in sampler.shuffled(*_ITEM_BYTES))


_LARGEST = {
    "gemm": {"m": 9000, "n": 9000, "k": 9000},
    "gemv": {"m": 9000, "k": 9000},
    "layer_norm": {"rows": 9000, "width": 9000},
    "decode_attention": {"batch": 64, "heads": 8, "kv_heads": 8, "head_dim": 256, "context": 9000},
}


_VAST = {
    "gemm": ("m", "k"),
    "gemv": ("m", "k"),
    "layer_norm": ("rows", "width"),
    "decode_attention": ("head_dim", "context"),
}


def _refused(sampler: Sampler) -> Iterator[Question]:
    for kind in _COUNTS:
        sizes = next(_sizes(sampler, kind))
        yield from (_question(sampler, kind, sizes, dtype) for dtype in ("fp4", "fp64", "float32", "FP32", "fp", ""))
        yield from (
            _question(sampler, other, sizes, "bf16")
            for other in ("convolution", kind.upper(), f"{kind}_backward", kind[:3], "")
        )
        yield _question(sampler, "convolution", sizes, "fp4")
    for dtype in _ITEM_BYTES:
        yield _question(sampler, "copy", {"elements": sampler.integer(1, 9000)}, dtype)


def _why_refused(operation: dict, dtype: str) -> str:
    if operation["kind"] in _COUNTS:
        return f"the dtype `{dtype}` is none of the six"
    return f"the kind `{operation['kind']}` is none of the four"


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


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    lost = list(_one_by_one.judge(case, evidence))
    if not lost and case.criteria == ("formats",):
        if not all(answer["kept"] for answer in evidence["answers"]):
            lost.append(Failure("formats", "The function changed the operation that it was given."))
        lost += _format_problems(case.questions, [value_of(answer["returned"]) for answer in evidence["answers"]])
    yield from lost


def _format_problems(questions: list[Question], pairs: list[list[int]]) -> Iterator[Failure]:
    """Bytes are in the ratio of the formats, and operations the same, however many either are."""
    for kind in _COUNTS:
        found = [
            (*pair, _ITEM_BYTES[dtype])
            for (operation, dtype), pair in zip(questions, pairs, strict=True)
            if operation["kind"] == kind
        ]
        if len({flops for flops, _, _ in found}) > 1:
            yield Failure(
                "formats",
                f"The floating-point operations change with the format ({kind}): they are counted, not timed.",
            )
        if len({nbytes * 4 // item for _, nbytes, item in found}) > 1:
            yield Failure("formats", f"The bytes are not in the ratio of the formats' sizes ({kind}).")


def _wrong(criteria: str, question: Question, value: Any) -> str | None:
    if not isinstance(value, list) or len(value) != 2 or not all(type(number) is int for number in value):
        return f"The function returned {type_name(value)}; expected a pair of integers: operations, bytes."
    return None if criteria == "formats" else _miscounted(question[0], *value)


def _miscounted(operation: dict, flops: int, nbytes: int) -> str | None:
    kind = operation["kind"]
    expected, read, written = _COUNTS[kind](**{name: size for name, size in operation.items() if name != "kind"})
    if (flops, nbytes) == (expected, 2 * (read + written)):
        return None
    if nbytes in (2 * read, 2 * written):
        return (
            f"Bytes that are {'read' if nbytes == 2 * read else 'written'} are only a part of those that move ({kind})."
        )
    if flops == expected:
        return f"The bytes are not those that must move ({kind}): each element of each input and of the output, once."
    return (
        f"The floating-point operations are not those of the table ({kind}): a multiplication and an addition are two."
    )


def _traits(operation: dict, dtype: str) -> dict[str, str]:
    sizes = {name: size for name, size in operation.items() if name != "kind"}
    ones = {f"`{name}`": "1" if size == 1 else "more than 1" for name, size in sizes.items()}
    smallest = {"the smallest size": "1" if 1 in sizes.values() else "more than 1"}
    return {"the kind": f"`{operation['kind']}`", "the dtype": f"`{dtype}`", **smallest, **ones}


def _criteria(name: str, points: float, says: str) -> Criterion:
    return Criterion(name, points, says, () if name == "gemm" else ("gemm",))


_one_by_one = answers(
    criteria=(
        _criteria("gemm", 1, "a GEMM is counted"),
        _criteria("gemv", 1, "a GEMV is counted"),
        _criteria("layer_norm", 1, "a layer norm is counted"),
        _criteria("decode_attention", 2, "one decoding step of attention is counted, grouped-query heads included"),
        _criteria("formats", 1, "every format is counted by its size in memory"),
        _criteria("errors", 1, "other kinds and formats are refused with ValueError"),
    ),
    cases=_work_cases,
    arguments=lambda question: question,
    wrong=_wrong,
    kept="",
    in_kernel=True,
    traits=lambda question: _traits(*question),
)
exercise = replace(_one_by_one, judge=_judge)
