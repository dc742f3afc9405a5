"""E9.1 state_bytes: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, type_name
from autograder.judge.questions import ask, judge_questions

_ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}
_KEYS = ("weights", "gradients", "main_gradients", "master", "moments", "block")
_ADAM = ("float32", "float32")
_NAMED = {
    name: dict(zip(_KEYS, values, strict=True))
    for name, values in {
        "fp32": ("float32", "float32", None, None, _ADAM, None),
        "zero": ("float16", "float16", None, "float32", _ADAM, None),
        "megatron bf16": ("bfloat16", "float32", None, "float32", _ADAM, None),
        "megatron fp16": ("float16", "float16", "float32", "float32", _ADAM, None),
        "adam 8-bit": ("float32", "float32", None, None, ("uint8", "uint8"), 256),
    }.items()
}
_SHARDED_FROM = {"weights": 3, "gradients": 2, "main_gradients": 1, "master": 1, "moments": 1, "scales": 1}
_STAGES = range(4)
_UNLIKE = "The bytes that a real step held are not those of its recipe: were torch or the course's files changed in the notebook?"


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield ask("named", list(_by_name(sampler)))
    yield ask("unseen", list(_unseen(sampler)))
    yield ask("sharding", list(_sharded(sampler)))
    yield ask("uneven", list(_uneven(sampler)))
    yield ask("scales", list(_in_blocks(sampler)))
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


def _ask(parameters: int, recipe: dict | str, *ranks: int, run: bool = False, **named: int) -> dict:
    """``ranks``: stage and world, or fewer; ``named``: by name. ``run``: a step is trained with the recipe and looked at."""
    return {
        "parameters": parameters,
        "recipe": recipe,
        "ranks": list(ranks),
        "named": named,
        "run": _plain(recipe) if run else None,
    }


def _plain(recipe: dict | str) -> dict | None:
    """The dictionary of a name; None where it names nothing."""
    return recipe if isinstance(recipe, dict) else _NAMED.get(recipe)


def _by_name(sampler: Sampler) -> Iterator[dict]:
    for name in sampler.shuffled(*_NAMED):
        yield _ask(256 * sampler.integer(2, 40), name, run=name != "adam 8-bit")
        yield _ask(256 * sampler.integer(10**6, 10**9), name, 0, sampler.integer(2, 9))
        yield _ask(0, name, 0, 1)


def _unseen(sampler: Sampler) -> Iterator[dict]:
    """Each kind in each dtype or none, and none to three moments, which may differ."""
    dtypes = tuple(_ITEM_BYTES)
    for plan in sampler.cover(
        weights=dtypes, gradients=dtypes, main_gradients=(None, *dtypes), master=(None, *dtypes), moments=range(4)
    ):
        recipe = plan | {"moments": [sampler.choice(dtypes) for _ in range(plan["moments"])], "block": None}
        yield _ask(
            sampler.integer(1, 10**10),
            _mixed_up(sampler, recipe),
            *sampler.choice([(), (0,), (0, sampler.integer(2, 64))]),
        )
    for moments in sampler.shuffled(*range(4)):
        yield _ask(sampler.integer(200, 5000), _trainable(sampler, moments, moments % 2 == 0), run=True)


def _mixed_up(sampler: Sampler, recipe: dict) -> dict:
    """Its keys in any order."""
    return dict(sampler.permutation(list(recipe.items())))


def _trainable(sampler: Sampler, moments: int, master: bool) -> dict:
    """A recipe that PyTorch's optimizers can follow: their moments have the dtype of what they update."""
    half = sampler.choice(["float16", "bfloat16"])
    wide = sampler.choice(["float32", "float64"])
    updated = wide if master else half
    values = (
        half,
        sampler.choice([half, "float32"]),
        wide if master else None,
        wide if master else None,
        (updated,) * moments,
        None,
    )
    return _mixed_up(sampler, dict(zip(_KEYS, values, strict=True)))


def _sharded(sampler: Sampler) -> Iterator[dict]:
    """Shares that come out even. Every kind has a width of its own, so no two are taken for each other."""
    for stage in sampler.shuffled(*_STAGES):
        for world in sampler.shuffled(1, 2, sampler.integer(3, 9), sampler.integer(60, 600)):
            yield _ask(world * sampler.integer(1, 10**7), _all_kinds(sampler), stage, world)
        yield _ask(3 * sampler.integer(100, 900), _trainable(sampler, sampler.integer(1, 3), True), stage, 3, run=True)
        yield _ask(4 * sampler.integer(100, 900), _trainable(sampler, sampler.integer(1, 3), False), stage, 4, run=True)
        yield _ask(sampler.integer(999, 10**6), _all_kinds(sampler), stage)
    world = sampler.integer(2, 9)
    yield _ask(world * sampler.integer(999, 10**6), _all_kinds(sampler), world=world)


def _all_kinds(sampler: Sampler) -> dict:
    values = (
        *sampler.permutation(["float64", "float32", "bfloat16", "int8"]),
        [sampler.choice(list(_ITEM_BYTES)) for _ in range(2)],
        None,
    )
    return _mixed_up(sampler, dict(zip(_KEYS, values, strict=True)))


def _uneven(sampler: Sampler) -> Iterator[dict]:
    """One left over, one too few, fewer parameters than ranks, none, and more than a float can hold."""
    for stage in sampler.shuffled(1, 2, 3):
        world = sampler.integer(5, 40)
        for parameters in sampler.shuffled(
            world * sampler.integer(9, 99) + 1, world * sampler.integer(9, 99) - 1, world // 2, 1, 0
        ):
            run = parameters > 0
            yield _ask(parameters, _trainable(sampler, 2, True) if run else _all_kinds(sampler), stage, world, run=run)
        no_float = 2**56 + 32 * sampler.integer(1, 2**40) + 3
        yield _ask(3 * no_float - sampler.integer(1, 2), _trainable(sampler, 2, True), stage, 3)


def _in_blocks(sampler: Sampler) -> Iterator[dict]:
    """A share on both sides of whole blocks; less than one; blocks of one; each moment its own scales."""
    for stage, block in sampler.shuffled(
        *((stage, block) for stage in _STAGES for block in (sampler.choice([64, 128]), sampler.integer(33, 999)))
    ):
        world = sampler.integer(2, 9)
        for share in sampler.around(block * sampler.integer(2, 50)):
            yield _ask(share * world, _quantised(sampler, block, 2), stage, world)
    for moments in sampler.shuffled(0, 1, 3):
        yield _ask(sampler.integer(10**4, 10**6), _quantised(sampler, sampler.choice([1, 100]), moments))
    for parameters in sampler.shuffled(0, 1, 255, 257, 256 * sampler.integer(9, 99) + sampler.integer(1, 255)):
        yield _ask(parameters, "adam 8-bit")
    world = sampler.integer(3, 7)
    yield _ask(256 * world * sampler.integer(2, 9) - sampler.integer(1, 200) * world - 1, "adam 8-bit", 1, world)
    yield _ask(2**57 + 32 * sampler.integer(1, 2**40) + 1, _quantised(sampler, 1, 2))


def _quantised(sampler: Sampler, block: int, moments: int) -> dict:
    """With moments of one byte an element, of two and of four."""
    widths = sampler.shuffled("int8", "float16", "float32")[:moments]
    values = ("bfloat16", "float32", None, sampler.choice([None, "float32"]), widths, block)
    return _mixed_up(sampler, dict(zip(_KEYS, values, strict=True)))


def _refused(sampler: Sampler) -> Iterator[dict]:
    for name in sampler.shuffled("fp16", "FP32", "zero ", "megatron", "adam", ""):
        yield _ask(1000, name)
    for recipe in sampler.shuffled("fp32", "adam 8-bit", _all_kinds(sampler)):
        for stage in sampler.shuffled(-1, 4, sampler.integer(5, 99)):
            yield _ask(1000, recipe, stage, sampler.integer(1, 8))
        for world in sampler.shuffled(0, -1, -sampler.integer(2, 9)):
            yield _ask(1000, recipe, sampler.choice(_STAGES), world)
        for parameters in sampler.shuffled(-1, -sampler.integer(1000, 10**9)):
            yield _ask(parameters, recipe, *sampler.choice([(), (3, 4)]))


def expected(parameters: int, recipe: dict, stage: int = 0, world: int = 1) -> dict[str, int]:
    """Bytes by kind, and their total."""
    share = (parameters + world - 1) // world
    count = {kind: share if stage >= first else parameters for kind, first in _SHARDED_FROM.items()}
    held = {kind: count[kind] * _ITEM_BYTES.get(recipe[kind], 0) for kind in _KEYS[:4]}
    held["moments"] = sum(count["moments"] * _ITEM_BYTES[dtype] for dtype in recipe["moments"])
    block = recipe["block"]
    held["scales"] = 4 * len(recipe["moments"]) * ((count["scales"] + block - 1) // block) if block else 0
    return held | {"total": sum(held.values())}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    lost = list(judge_questions(_wrong)(case, evidence))
    if not all(answer["kept"] is True for answer in evidence["answers"]):
        lost.append(Failure(criteria, "The function changed the recipe that it was given: the caller still needs it."))
    held = evidence["held"]
    if problem := count_problem(held, len(case.inputs["questions"])):
        lost.append(Failure(criteria, problem))
    elif not all(map(_as_held, case.inputs["questions"], held)):
        lost.append(Failure(criteria, _UNLIKE))
    yield from lost[:1]


def _as_held(question: dict, held: dict | None) -> bool:
    """Whether a real step with the recipe held what it says, where one was run."""
    if not question["run"]:
        return True
    return (
        held == {kind: nbytes for kind, nbytes in _expected(question).items() if kind in (held or ())} and len(held) > 2
    )


def _expected(question: dict) -> dict[str, int]:
    return expected(question["parameters"], _plain(question["recipe"]), *question["ranks"], **question["named"])


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    right = _expected(question)
    if not isinstance(value, dict) or set(value) != set(right):
        return f"The function returned {type_name(value)}; expected a dictionary of the six kinds and the total, and no others."
    if strange := next((number for number in value.values() if type(number) is not int), None):
        return f"A number of bytes is {type_name(strange)}; expected an exact Python integer."
    wrong = [kind for kind in right if value[kind] != right[kind]]
    if wrong == ["total"]:
        return "The total is not the sum of the kinds."
    return _said(criteria, question, wrong[0], value[wrong[0]] > right[wrong[0]]) if wrong else None


def _said(criteria: str, question: dict, kind: str, too_much: bool) -> str:
    if criteria == "named":
        return f"Other bytes of {_WORDS[kind]} are kept with the recipe {question['recipe']!r}. {_HELD[kind]}"
    if criteria == "sharding":
        how = "held whole that this stage shards" if too_much else "sharded that this stage holds whole"
        return f"Something is {how} ({_WORDS[kind]}): stage 1 shards what only the optimizer uses, 2 the gradients too, 3 the weights too."
    if criteria == "uneven":
        return f"Every rank holds the same number of elements, whole ones: an uneven share is rounded up, exactly ({_WORDS[kind]})."
    return f"The bytes of {_WORDS[kind]} are not those of the recipe. {_HELD[kind]}"


_WORDS = {kind: kind.replace("_", " ") for kind in _SHARDED_FROM} | {"master": "master weights", "total": "all kinds"}
_HELD = {
    "weights": "They count by their own dtype, whatever the optimizer updates.",
    "gradients": "They count in the dtype in which they stay until the optimizer has used them.",
    "main_gradients": "Some recipes keep a second copy of the gradients for the optimizer, others widen them when they are used.",
    "master": "A copy of the weights that the optimizer updates is held beside the weights; where it updates these, there is none.",
    "moments": "Each moment has one element for every parameter, in its own dtype; Adam has two.",
    "scales": "Each moment has a float32 scale for each of this rank's blocks, for the last, shorter one too.",
    "total": "",
}


exercise = Exercise(
    criteria=(
        Criterion("named", 2, "each of the five named recipes has its bytes"),
        Criterion("unseen", 2, "other recipes are counted by their dtypes, moments and copies, and are not modified"),
        Criterion("sharding", 2, "each ZeRO stage shards its kinds and nothing else", ("unseen",)),
        Criterion("uneven", 1, "a shard is padded to whole elements, exactly", ("unseen",)),
        Criterion("scales", 1, "every block of a rank's shard has a scale, for each moment", ("unseen",)),
        Criterion("errors", 1, "invalid names, stages, worlds and counts are refused with ValueError", ("named",)),
    ),
    cases=_cases,
    judge=_judge,
)
