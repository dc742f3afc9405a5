"""E2.3 saved_bytes: cases and judge."""

from collections.abc import Callable, Iterable, Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem, type_name

_HIDDEN = 5

# Bytes by rows, columns and bytes of an element, where every input requires gradients.
_Size = Callable[[int, int, int], int]


def _times(count: int) -> _Size:
    return lambda rows, columns, item: count * rows * columns * item


_NOTHING, _ONE, _TWO = _times(0), _times(1), _times(2)
_ALONE: dict[str, _Size] = {
    **dict.fromkeys(("relu", "gelu", "silu", "exp", "sin", "tanh", "sigmoid", "softmax", "in place"), _ONE),
    **dict.fromkeys(("add", "neg", "double", "sum"), _NOTHING),
    **dict.fromkeys(("product", "matmul"), _TWO),
    "mask": lambda rows, columns, item: rows * columns,
    "max": lambda rows, columns, item: 8 * rows,
    "norm": lambda rows, columns, item: (rows * columns + 2 * rows) * item,
}
_STORAGES: dict[str, _Size] = {
    **dict.fromkeys(("square", "relu gelu", "exp sin", "gram", "row", "chunks", "halves"), _ONE),
    **dict.fromkeys(("sin add exp", "two rows", "listed"), _TWO),
    "expanded": lambda rows, columns, item: item,
    "several": _times(4),
}
_HELD: dict[str, _Size] = {
    **dict.fromkeys(("dropped branch", "over and over", "gone back", "penalty", "keeps it itself"), _ONE),
    **dict.fromkeys(("nothing left", "returns nothing"), _NOTHING),
}
_PARAMETERS: dict[str, _Size] = {
    "linear": _ONE,
    "frozen": _NOTHING,
    "two layers": lambda rows, columns, item: rows * (columns + _HIDDEN) * item,
    "table": lambda rows, columns, item: (rows + 1) * columns * item,
    "slices": _TWO,
    "closes over": _TWO,
}
_OTHERS: dict[str, _Size] = {
    **dict.fromkeys(("own hooks", "checkpointed"), _ONE),
    "asks itself": _TWO,
    "without gradients": _NOTHING,
    "stops": _NOTHING,
}
_DUE = _ALONE | _STORAGES | _HELD | _PARAMETERS | _OTHERS
_BOTH = ("product", "matmul", "listed", "several", "halves")
"""Programs that are asked about with two inputs that require gradients."""
_ON_CARD = ("exp", "sin", "softmax", "relu gelu", "row", "several", "over and over", "dropped branch", "chunks")


def _cases(sampler: Sampler) -> Iterator[Case]:
    singles = [
        _question(sampler, name, dtype=sampler.choice(("float32", "float64")))
        for name in sampler.permutation(list(_ALONE))
    ]
    yield _case(
        ("bytes",),
        singles
        + [_question(sampler, name, dtype="bfloat16") for name in sampler.shuffled("relu", "add", "product", "max")],
    )
    yield _case(
        ("bytes",), [_question(sampler, name, grads=(True, False)) for name in sampler.shuffled("product", "matmul")]
    )
    yield _case(
        ("bytes",), [_question(sampler, name, grads=(False, False)) for name in sampler.shuffled("product", "exp")]
    )
    for device in sampler.shuffled("cpu", "meta"):
        yield _case(
            ("storages",), [_question(sampler, name, device=device) for name in sampler.permutation(list(_STORAGES))]
        )
        yield _case(
            ("parameters",),
            [_question(sampler, name, device=device) for name in sampler.permutation(list(_PARAMETERS))],
        )
    yield _case(("parameters",), [_question(sampler, "linear", grads=(False, False))])
    yield _case(("held",), [_question(sampler, name) for name in sampler.permutation(list(_HELD))])
    yield _case(
        ("memory",), [_question(sampler, name, device="cuda", least=40) for name in sampler.permutation(_ON_CARD)]
    )
    others = [
        _question(sampler, name)
        for name in sampler.permutation([*_OTHERS, "gone back", "penalty", "relu", "linear", "listed"])
    ]
    yield _case(("function",), [*others, _question(sampler, "exp", grad_mode=False)])


def _case(criteria: tuple[str, ...], questions: list[dict]) -> Case:
    return Case(criteria, {"questions": questions})


def _question(
    sampler: Sampler, program: str, dtype="float32", device="cpu", grads: tuple | None = None, grad_mode=True, least=3
) -> dict:
    """Rows and columns differ, so that no count of one is a count of the other."""
    rows = sampler.integer(least, least + 9)
    columns = rows + sampler.integer(1, 7)
    criteria = {
        "program": program,
        "rows": rows,
        "columns": columns,
        "dtype": dtype,
        "device": device,
        "grad_mode": grad_mode,
    }
    return criteria | {"grads": list(grads or (True, program in _BOTH))}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    questions = case.inputs["questions"]
    if problem := count_problem(evidence.get("answers"), len(questions)):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    for criterion in case.criteria:
        problems = (
            _PROBLEMS[criterion](question, answer)
            for question, answer in zip(questions, evidence["answers"], strict=True)
        )
        if found := next((problem for problem in problems if problem), None):
            yield Failure(criterion, found)


def _expected(question: dict) -> int:
    """Of a product with an input that requires no gradient only that one is saved; without any, nothing."""
    if not question["grad_mode"] or (question["program"] in _ALONE and not any(question["grads"])):
        return 0
    size = (
        _ONE
        if question["program"] in ("product", "matmul") and not all(question["grads"])
        else _DUE[question["program"]]
    )
    return size(question["rows"], question["columns"], getattr(torch, question["dtype"]).itemsize)


def _number_problem(answer: dict, expected: int, why: str) -> str | None:
    if "error" in answer:
        return raised_problem(answer["error"])
    found = answer["returned"]
    if type(found) is not int:
        return f"The function returned {type_name(found)}; expected a Python int."
    return None if found == expected else f"{why} The number is too {'large' if found > expected else 'small'}."


def _bytes_problem(question: dict, answer: dict) -> str | None:
    return _number_problem(
        answer,
        _expected(question),
        "The bytes are not those that one operation saves: some save their input, some their result, some neither.",
    )


def _storages_problem(question: dict, answer: dict) -> str | None:
    return _number_problem(
        answer,
        _expected(question),
        "A storage counts once, whoever saved it and wherever in it, and with all its bytes; on `meta` none has an address to know "
        "it by.",
    )


def _held_problem(question: dict, answer: dict) -> str | None:
    return _number_problem(
        answer,
        _expected(question),
        "What was saved is not what is still held when the function has returned: graphs are dropped, and gone back through, before "
        "that.",
    )


def _parameters_problem(question: dict, answer: dict) -> str | None:
    return _number_problem(
        answer,
        _expected(question),
        "Of a module the storages of parameters and buffers do not count, a transposed or sliced weight is one of them; all else "
        "does.",
    )


def _memory_problem(question: dict, answer: dict) -> str | None:
    if "error" in answer:
        return raised_problem(answer["error"])
    if answer["left"] > 0:
        return (
            "Memory of the device is still taken after the call: what a pack hook returns is held by the graph, and a result of an "
            "operation holds the graph."
        )
    if answer["peak_more"] > 0:
        return "The instrument took memory of its own, or held what the function had let go of."
    return _number_problem(answer, _expected(question), "On the device the bytes are not those that are saved.")


def _function_problem(question: dict, answer: dict) -> str | None:
    calls = answer["calls"]
    if len(calls) != 1 or not all(call["same"] for call in calls):
        return "`fn` is to be called once, with the very inputs that were given."
    if any(call["grad"] != question["grad_mode"] for call in calls) or not answer["stays"]:
        return "`fn` was not called in the caller's grad mode, or another one was left behind."
    if not answer["untouched"]:
        return "An input was changed: it requires a gradient, or holds one, that it did not."
    if not answer["hooks"]:
        return "Hooks are still in force after the call, whether `fn` returned or raised."
    if question["program"] == "stops":
        return error_problem(answer, "KeyError")
    if not _same(answer["found"], _found_and_expected(question, answer["x"])):
        return "`fn` did not find what it finds without the instrument: what is unpacked must be what was packed."
    return _number_problem(
        answer,
        _expected(question),
        "What `fn` packs with hooks of its own, or asks by itself, does not count; what else it saves does.",
    )


def _found_and_expected(question: dict, x: torch.Tensor) -> list:
    """What the function notes itself: gradients, or an answer of the instrument's."""
    if question["program"] == "asks itself":
        return [3 * question["rows"] * question["columns"] * 4]
    x = x.clone().requires_grad_()
    if question["program"] == "gone back":
        return list(torch.autograd.grad((x.sin() * x.exp()).sum(), x))
    if question["program"] == "penalty":
        first = torch.autograd.grad(x.exp().sin().sum(), x, create_graph=True)[0]
        return list(torch.autograd.grad(first.square().sum(), x))
    return []


def _same(found: Iterable, expected: list) -> bool:
    if not isinstance(found, list) or len(found) != len(expected):
        return False
    return all(
        one == right if isinstance(right, int) else tensor_problem(one, right) is None and torch.equal(one, right)
        for one, right in zip(found, expected)
    )


_PROBLEMS = {
    "bytes": _bytes_problem,
    "storages": _storages_problem,
    "held": _held_problem,
    "parameters": _parameters_problem,
    "memory": _memory_problem,
    "function": _function_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("bytes", 2, "the bytes are those that an operation saves"),
        Criterion("storages", 2, "a storage counts once and whole, on `meta` too", ("bytes",)),
        Criterion("held", 1, "only what is held when the function has returned counts", ("bytes",)),
        Criterion("parameters", 1, "a module's parameters and buffers do not count, and all else does", ("bytes",)),
        Criterion("memory", 1, "the instrument takes no memory, and leaves none taken", ("bytes",)),
        Criterion(
            "function",
            1,
            "the function runs once, as without the instrument, and the hooks are gone afterwards",
            ("bytes",),
        ),
    ),
    cases=_cases,
    judge=_judge,
)
