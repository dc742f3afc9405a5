"""E9.1 state_bytes: cases and judge.

What a criterion is about is judged by what the learner says of the same recipe elsewhere: a name by the dictionary that it
stands for, a share by the whole, scales by the moments. A wrong moment is lost once.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, islice

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from autograder.judge.questions import ask, judge_questions, refuse

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
    yield ask("sharding", list(_beside_the_whole(_sharded(sampler))))
    yield ask("uneven", list(_beside_the_whole(_uneven(sampler))))
    yield ask("scales", list(_in_blocks(sampler)))
    yield ask("errors", list(_allowed(sampler)))
    yield refuse("errors", list(_refused(sampler)))


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
    """Each name, and after it the dictionary that it stands for."""
    for name in sampler.shuffled(*_NAMED):
        run = _ask(256 * sampler.integer(2, 40), name, run=name != "adam 8-bit")
        for question in (run, _ask(256 * sampler.integer(10**6, 10**9), name, 0, 1)):
            yield question
            yield question | {"recipe": _mixed_up(sampler, _NAMED[name]), "run": None}


def _beside_the_whole(questions: Iterator[dict]) -> Iterator[dict]:
    """Each question, and after it the same recipe on a single rank."""
    for question in questions:
        yield question
        yield question | {"ranks": [], "named": {}, "run": None}


def _unseen(sampler: Sampler) -> Iterator[dict]:
    """Each kind in each dtype or none, and none to three moments, which may differ."""
    dtypes = tuple(_ITEM_BYTES)
    kinds = [sampler.permutation(options) for options in (dtypes, dtypes, (None, *dtypes), (None, *dtypes))]
    for number, values in enumerate(islice(zip(*map(cycle, kinds)), 12)):
        moments = [sampler.choice(dtypes) for _ in range(number % 4)]
        recipe = dict(zip(_KEYS, (*values, moments, None), strict=True))
        ranks = ((), (0,), (0, sampler.integer(2, 64)))[number % 3]
        yield _ask(sampler.integer(1, 10**10), _mixed_up(sampler, recipe), *ranks)
    for moments in sampler.shuffled(*range(4)):
        yield _ask(sampler.integer(200, 5000), _trainable(sampler, moments, moments % 2 == 0), run=True)
    yield _ask(2**56 + 32 * sampler.integer(1, 2**40) + 3, _trainable(sampler, 2, True))
    yield _ask(0, _all_kinds(sampler))


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
        for world in sampler.shuffled(1, sampler.integer(3, 9), sampler.integer(60, 600)):
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
    """One left over, one too few, fewer parameters than ranks, and more than a float can hold."""
    for stage in sampler.shuffled(1, 2, 3):
        world = sampler.integer(5, 40)
        for parameters in sampler.shuffled(
            world * sampler.integer(9, 99) + 1, world * sampler.integer(9, 99) - 1, world // 2, 1
        ):
            yield _ask(parameters, _trainable(sampler, 2, True), stage, world, run=True)
        no_float = 2**56 + 32 * sampler.integer(1, 2**40) + 3
        yield _ask(3 * no_float - sampler.integer(1, 2), _trainable(sampler, 2, True), stage, 3)


def _in_blocks(sampler: Sampler) -> Iterator[dict]:
    """A share on both sides of whole blocks; less than one; blocks of one; each moment its own scales."""
    for stage, block in sampler.shuffled(
        *((stage, block) for stage in _STAGES for block in (sampler.choice([64, 128, sampler.integer(33, 999)]),))
    ):
        world = sampler.integer(2, 9)
        for share in sampler.around(block * sampler.integer(2, 50)):
            yield _ask(share * world, _quantised(sampler, block, 2), stage, world)
    for moments in sampler.shuffled(0, 1, 3):
        yield _ask(sampler.integer(10**4, 10**6), _quantised(sampler, sampler.choice([1, 100]), moments))
    for parameters in sampler.shuffled(1, 255, 257):
        yield _ask(parameters, _quantised(sampler, 256, 2))
    world = sampler.integer(3, 7)
    yield _ask(
        256 * world * sampler.integer(2, 9) - sampler.integer(1, 200) * world - 1, _quantised(sampler, 256, 2), 1, world
    )
    yield _ask(2**57 + 32 * sampler.integer(1, 2**40) + 1, _quantised(sampler, 1, 2))


def _quantised(sampler: Sampler, block: int, moments: int) -> dict:
    """With moments of one byte an element, of two and of four."""
    widths = sampler.shuffled("int8", "float16", "float32")[:moments]
    values = ("bfloat16", "float32", None, sampler.choice([None, "float32"]), widths, block)
    return _mixed_up(sampler, dict(zip(_KEYS, values, strict=True)))


def _allowed(sampler: Sampler) -> Iterator[dict]:
    """The least and the most of everything: whoever refuses everything refuses these."""
    for stage, name in zip((0, 1, 2, 3, 3), _NAMED):
        yield _ask(0, name, stage, 1)
        yield _ask(1, _all_kinds(sampler), stage, sampler.integer(2, 9))


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    for name in sampler.shuffled("fp16", "FP32", "zero ", "megatron", "adam", ""):
        yield _ask(1000, name), f"the recipe {name!r} is none of the five"
    recipes = cycle(sampler.shuffled("fp32", "adam 8-bit", _all_kinds(sampler)))
    for stage in sampler.shuffled(-1, 4, sampler.integer(5, 99), 0.5, 1.5, 2.5):
        yield _ask(1000, next(recipes), stage, sampler.integer(2, 8)), f"stage {stage} is none of the four"
        yield _ask(1000, next(recipes), stage, 1), f"stage {stage} is none of the four"
    for world in sampler.shuffled(0, -1, -sampler.integer(2, 9)):
        for stage in (0, sampler.integer(1, 3)):
            yield _ask(1000, next(recipes), stage, world), "`world` is less than 1"
    for parameters in sampler.shuffled(-1, -sampler.integer(1000, 10**9)):
        for ranks in ((), (3, 4)):
            yield _ask(parameters, next(recipes), *ranks), "`parameters` is less than 0"


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
    questions, answers = case.inputs["questions"], evidence["answers"]
    problem = count_problem(answers, len(questions)) or count_problem(evidence["held"], len(questions))
    if not problem and not all(map(_as_held, questions, evidence["held"])):
        problem = _UNLIKE
    if problem:
        yield Failure(criteria, problem)
    elif case.raises:
        yield from judge_questions(lambda *_: None)(case, evidence)
    elif problem := next(_problems(criteria, questions, answers), None):
        yield Failure(criteria, problem)


def _problems(criteria: str, questions: list[dict], answers: list[dict]) -> Iterator[str]:
    for answer in answers:
        if "error" in answer:
            yield raised_problem(answer["error"])
        elif not isinstance(answer.get("returned"), dict):
            yield f"The function returned {type_name(answer.get('returned'))}; expected a dictionary of the six kinds and the total."
    values = [answer["returned"] for answer in answers]
    if criteria in ("named", "sharding", "uneven"):
        yield from filter(None, map(_ABOUT[criteria], questions[::2], values[::2], values[1::2]))
    elif criteria != "errors":
        yield from filter(None, map(_ABOUT[criteria], questions, values))
    if criteria == "unseen" and not all(answer["kept"] is True for answer in answers):
        yield "The function changed the recipe that it was given: the caller still needs it."


def _as_held(question: dict, held: dict | None) -> bool:
    """Whether a real step with the recipe held what it says, where one was run."""
    if not question["run"]:
        return True
    return (
        held == {kind: nbytes for kind, nbytes in _expected(question).items() if kind in (held or ())} and len(held) > 2
    )


def _expected(question: dict) -> dict[str, int]:
    return expected(question["parameters"], _plain(question["recipe"]), *question["ranks"], **question["named"])


def _unseen_problem(question: dict, value: dict) -> str | None:
    right = _expected(question)
    if set(value) != set(right):
        return "The dictionary does not have the six kinds and the total, or has others."
    if strange := next((number for number in value.values() if type(number) is not int), None):
        return f"A number of bytes is {type_name(strange)}; expected an exact Python integer."
    for kind, nbytes in right.items():
        if kind != "total" and value[kind] != nbytes:
            return f"The bytes of {_WORDS[kind]} are not those of the recipe. {_HELD[kind]}"
    return (
        None
        if value["total"] == sum(value[kind] for kind in _SHARDED_FROM)
        else "The total is not the sum of the kinds."
    )


def _named_problem(question: dict, value: dict, spelled_out: dict) -> str | None:
    right = _expected(question)
    believed = any(spelled_out.get(kind) == right[kind] > 0 for kind in _SHARDED_FROM)
    for kind in _SHARDED_FROM:
        own = _number(spelled_out, kind) if believed else right[kind]
        if _number(value, kind) not in (right[kind], own):
            return f"Other bytes of {_WORDS[kind]} are kept with the recipe {question['recipe']!r}. {_HELD[kind]}"
    return None


def _sharding_problem(question: dict, value: dict, whole: dict) -> str | None:
    for kind in _KEYS[:5]:
        if found := _elements(question, value, whole, kind):
            elements, _, share = found
            if elements == share:
                return f"{_WORDS[kind].capitalize()} are sharded in a stage that holds them whole: {_STAGES_SAY}"
            if elements == question["parameters"]:
                return f"{_WORDS[kind].capitalize()} are held whole in a stage that shards them: {_STAGES_SAY}"
            return (
                f"Of {_WORDS[kind]} a rank holds neither the whole nor a share, which is the whole divided by `world`."
            )
    return None


def _uneven_problem(question: dict, value: dict, whole: dict) -> str | None:
    """Which stage shards what is not asked here: a kind may be held whole beside one that is shared out."""
    found = {kind: _elements(question, value, whole, kind) for kind in _KEYS[:5]}
    parameters, world = question["parameters"], question["ranks"][1]
    share = -(-parameters // world)
    due = [kind for kind in found if _SHARDED_FROM[kind] <= question["ranks"][0]]
    shared = any(found[kind] is None for kind in due) or any(each and each[0] == share for each in found.values())
    for kind, elements in ((kind, each[0]) for kind, each in found.items() if each):
        if elements == share or (elements == parameters and shared):
            continue
        if type(value.get(kind)) is not int:
            return f"The bytes of {_WORDS[kind]} are {type_name(value.get(kind))}; expected a Python integer."
        if share > 2**53 and abs(elements - share) < 2**16:
            return "A share of more than 2^53 elements is off by a few: a float does not hold every such integer."
        if elements == share - 1:
            return (
                f"A share of {_WORDS[kind]} is rounded down: it is padded, so that every rank holds as many elements."
            )
        return (
            f"A share of {_WORDS[kind]} is not the whole, padded to the next multiple of `world`, divided by `world`."
        )
    return None


def _elements(question: dict, value: dict, whole: dict, kind: str) -> tuple[Fraction, int, int] | None:
    """How many elements of a kind a rank was said to hold, how many it holds, and a share; None where that is right.

    They are counted in bytes of an element as the learner counts the whole, where there is a right kind beside it.
    """
    parameters, recipe = question["parameters"], _plain(question["recipe"])
    right, alone = _expected(question), expected(parameters, recipe)
    found, own = Fraction(_number(value, kind)), Fraction(_number(whole, kind))
    stage, world = [*question["ranks"], *(0, 1)[len(question["ranks"]) :]]
    share = -(-parameters // world)
    due = share if stage >= _SHARDED_FROM[kind] else parameters
    believed = any(_number(value, other) == right[other] > 0 for other in _KEYS[:5])
    if (
        found == right[kind]
        or (believed and found - right[kind] == own - alone[kind])
        or found * parameters == own * due > 0
    ):
        return None
    if believed and found == own == 0:
        return None
    each = (own if own > 0 else alone[kind] or parameters) / Fraction(parameters)
    return found / each, due, share


def _scales_problem(question: dict, value: dict) -> str | None:
    recipe, found, right = question["recipe"], _number(value, "scales"), _expected(question)["scales"]
    each = sum(_ITEM_BYTES[dtype] for dtype in recipe["moments"])
    own = Fraction(max(_number(value, "moments"), 0)) / (each or 1)
    if found in (right, 4 * len(recipe["moments"]) * -(-own // recipe["block"]) if own else right):
        return None
    if not found:
        return "The scales are left out: each block of a moment has one, in float32."
    if found < right == found * len(recipe["moments"]):
        return (
            "These are too few scales: each moment has blocks of its own, whatever its dtype, and a scale four bytes."
        )
    if found == right - 4 * len(recipe["moments"]):
        return "One block of each moment is left out: the first starts where the rank's shard starts, and the last, shorter one has a scale, too."
    return (
        "The scales are not 4 bytes for each block, the shorter last one included, of each moment's shard on this rank."
    )


def _number(value: dict, kind: str) -> int | float:
    """The bytes of a kind; what is left out counts as none, and what is no number as less than none."""
    number = value.get(kind, 0)
    return number if type(number) in (int, float) and abs(number) < 2**70 else -1


_ABOUT = {
    "named": _named_problem,
    "unseen": _unseen_problem,
    "sharding": _sharding_problem,
    "uneven": _uneven_problem,
    "scales": _scales_problem,
}
_STAGES_SAY = "stage 1 shards what only the optimizer uses, 2 the gradients too, 3 the weights too."
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
        Criterion("sharding", 2, "each ZeRO stage shards its kinds and nothing else"),
        Criterion("uneven", 1, "a shard is padded to whole elements, exactly"),
        Criterion("scales", 1, "every block of a rank's shard has a scale, for each moment"),
        Criterion("errors", 1, "invalid names, stages, worlds and counts, and no others, are refused with ValueError"),
    ),
    cases=_cases,
    judge=_judge,
)
