"""E19.2 block_allocator: cases and judge. Which free block is taken is the learner's choice: tables are held to rules."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem
from exercises.engines.block_allocator import rules
from exercises.engines.block_allocator.books import Script

_ROOMY = 400
_NAMES = ("", 0, None, -1, 7, "7", ("beam", 0), ("beam", 1), (), 1 << 53, (1 << 53) + 1, "request 12", 2.5, -2)


@dataclass(frozen=True)
class Traces(Case):
    """``scripts``: the traces with what is due. They stay in the referee."""

    scripts: tuple[Script, ...] = ()


def _cases(sampler: Sampler) -> Iterator[Case]:
    makers = {
        ("room",): _room,
        ("tokens", "shared", "copies"): _families,
        ("counts",): _counts,
        ("memory",): _memory,
        ("errors",): _errors,
        ("apart",): _apart,
        ("serving",): _serving,
    }
    for criteria, make in sampler.permutation(list(makers.items())):
        scripts = sampler.permutation(list(make(sampler)))
        yield Traces(criteria, {"traces": [script.inputs() for script in scripts]}, scripts=tuple(scripts))


def _sizes(sampler: Sampler) -> list[int]:
    return sampler.shuffled(1, 2, sampler.integer(3, 7), 16, sampler.integer(17, 40))


def _room(sampler: Sampler) -> Iterator[Script]:
    """Sequences that grow to both sides of every boundary, token by token and by many; nobody shares anything."""
    for size in _sizes(sampler):
        script = Script((_ROOMY, size))
        for n in sampler.shuffled(
            *dict.fromkeys((1, max(size - 1, 1), size, size + 1, 2 * size, 2 * size + sampler.integer(1, size)))
        ):
            for name in sampler.shuffled("a", "b"):
                script.append(name, n)
            script.append("c")
        for _ in range(min(size + 1, 18)):
            script.append("d", n=1)
        for name in sampler.shuffled("a", "b", "c", "d"):
            script.release(name)
        yield script
    for size in sampler.shuffled(1 << 53, (1 << 55) + sampler.integer(0, 9)):
        script = Script((_ROOMY, size))
        for n in (size + 1, size - 2, 1, 2 * size + 1, size - 1, 1):
            script.append("a", n)
        script.append("b", size)
        script.append("c", size - 1)
        yield script


def _families(sampler: Sampler) -> Iterator[Script]:
    """A prompt, its forks, and who writes when, how much, and who has gone by then."""
    for size in sampler.shuffled(1, 2, sampler.integer(3, 5), sampler.integer(6, 9)):
        for filled in sampler.shuffled(*dict.fromkeys((0, 1, size // 2, size - 1))):
            yield _written_by_all(sampler, size, filled, sampler.integer(2, 3))
            yield _written_by_all(sampler, size, filled, 1)
    size = sampler.integer(3, 6)
    for writer, gone in sampler.shuffled(*itertools.permutations(("p", "c", "d"), 2)):
        yield _gone_before(sampler, size, writer, gone)
    for order in sampler.shuffled(*itertools.permutations(("p", "c", "g"))):
        yield _grandchildren(sampler, size, order)


def _prompt(sampler: Sampler, size: int, filled: int) -> Script:
    """Sequence p of one to three blocks, the last with so many tokens; and another beside it."""
    script = Script((_ROOMY, size))
    script.append("p", size * sampler.integer(1, 3) + filled)
    script.append("other", sampler.integer(1, 2 * size))
    return script


def _written_by_all(sampler: Sampler, size: int, filled: int, children: int) -> Script:
    script = _prompt(sampler, size, filled)
    family = ["p", *(f"c{number}" for number in range(children))]
    for child in family[1:]:
        script.fork("p", child)
    for name in sampler.permutation(family):
        for n in sampler.shuffled(
            1, 1 + sampler.integer(0, size), script.in_place(name) + 1 + sampler.integer(0, size)
        ):
            script.append(name, n)
    for name in sampler.permutation([*family, "other"]):
        script.append(name)
    return script


def _gone_before(sampler: Sampler, size: int, writer: str, gone: str) -> Script:
    """One of three leaves before anyone writes; the last of them to write is the last that has the block."""
    script = _prompt(sampler, size, sampler.integer(1, size - 1))
    script.fork("p", "c")
    script.fork("p", "d")
    script.release(gone)
    script.append(writer)
    (last,) = {"p", "c", "d"} - {writer, gone}
    script.append("other", script.in_place("other") + 1)
    script.append(last, sampler.integer(1, script.in_place(last)))
    script.append("new", sampler.integer(1, 3 * size))
    script.append(writer, size)
    script.append(last, 2 * size)
    return script


def _grandchildren(sampler: Sampler, size: int, order: Sequence[str]) -> Script:
    """A fork of a fork, a second fork once it was written to, and one who leaves in between."""
    script = _prompt(sampler, size, sampler.integer(1, size - 1))
    script.fork("p", "c")
    script.fork("c", "g")
    for name in order:
        script.append(name, 1)
    first, second, third = order
    script.append(first, size + 1)
    script.fork(first, "again")
    script.release(first)
    script.append("again", sampler.integer(1, 2 * size))
    script.fork("again", first)
    script.append("again")
    script.append(first, 2)
    script.release(second)
    script.append("new", 2 * size + 1)
    script.append(third)
    return script


def _counts(sampler: Sampler) -> Iterator[Script]:
    """Families that leave in every order, and then someone who takes every block that there is."""
    for order in sampler.shuffled(*itertools.permutations(("p", "c", "g"))):
        for writers in sampler.shuffled((), order[:1], order[1:], order):
            size = sampler.integer(2, 6)
            script = Script((sampler.integer(24, 30), size))
            script.append("p", size * sampler.integer(1, 2) + sampler.integer(1, size - 1))
            script.fork("p", "c")
            script.fork(sampler.choice(("p", "c")), "g")
            for name in writers:
                script.append(name, sampler.integer(1, 2 * size))
            for name in order:
                script.release(name)
            script.append("all", script.books[0].total * size)
            script.release("all")
            yield script
    yield _many(sampler)


def _many(sampler: Sampler) -> Script:
    """More samples of a prompt than a byte counts; all of them leave."""
    script = Script((12, 4), sees=False)
    script.append("p", sampler.integer(9, 11))
    for number in range(sampler.integer(257, 280)):
        script.fork("p", number)
    script.append("p", 5)
    script.release("p")
    for number in sampler.permutation([*script.books[0].tables]):
        script.release(number)
    script.append("all", 48)
    return script


def _memory(sampler: Sampler) -> Iterator[Script]:
    """As many tokens as there is room for, and one more: behind a last block that is full, partly filled, or shared."""
    for size, filled in sampler.shuffled((1, 0), (2, 1), (3, 0), (4, 1), (sampler.integer(5, 9), 2)):
        for shared, free in sampler.shuffled(*itertools.product((False, True), (0, 1, 3))):
            script = _leaving_free(sampler, size, filled, shared, free)
            copied = shared and filled > 0
            most = script.in_place("p") + (free - copied) * size if free >= copied else 0
            script.append("p", most + 1)
            if most:
                script.append("p", most)
            script.append("p")
            yield script
    yield from _full(sampler)
    yield from _too_much(sampler)


def _leaving_free(sampler: Sampler, size: int, filled: int, shared: bool, free: int) -> Script:
    """Sequence p with its last block filled so far, shared or not, and so many blocks free."""
    blocks = sampler.integer(1, 3)
    script = Script((blocks + (filled > 0) + 2 + free, size))
    script.append("p", blocks * size + filled)
    script.append("rest", 2 * size)
    if shared:
        script.fork("p", "c")
    return script


def _full(sampler: Sampler) -> Iterator[Script]:
    """Nothing is free: forks go on, who has a last block alone goes on in place, who shares it has to wait for the other."""
    for writer, other in sampler.shuffled(("p", "c"), ("c", "p")):
        size = sampler.integer(3, 6)
        script = _leaving_free(sampler, size, 1, False, free=0)
        script.append("p")
        script.fork("p", "c")
        script.fork("c", "d")
        script.append(writer)
        script.append("new")
        script.release("d")
        script.append(other, 1)
        script.append(writer, size)
        script.release(other)
        script.append(writer, size - 2)
        script.append(writer)
        script.release("rest")
        script.append(writer, 2 * size)
        script.append(writer, 1)
        yield script


def _too_much(sampler: Sampler) -> Iterator[Script]:
    """A newcomer of more than there is, of very much more, of exactly as much; and what is refused leaves no name behind."""
    for size in sampler.shuffled(1, 2, sampler.integer(3, 9)):
        total = sampler.integer(3, 9)
        script = Script((total, size))
        for n in sampler.shuffled(total * size + 1, (total + 1) * size, 10**18):
            script.append("a", n)
            script.table("a")
        script.append("b", size)
        script.append("b", total * size)
        script.append("b", (total - 1) * size)
        script.append("b")
        script.append("a")
        script.release("a")
        script.fork("b", "a")
        script.release("b")
        script.release("a")
        script.append("b", total * size)
        yield script


def _errors(sampler: Sampler) -> Iterator[Script]:
    """What is refused, among calls that are not."""
    for n in sampler.shuffled(0, -1, -sampler.integer(2, 9), -(1 << 60)):
        script = Script((20, 4))
        script.append("a", 8)
        script.append("a", n)
        script.append("new", n)
        script.length("new")
        script.fork("a", "new")
        script.append("new", n)
        script.append("new")
        script.append("a", n)
        yield script
        full = Script((3, 4))
        full.append("a", sampler.integer(9, 12))
        full.append("a", n)
        full.append("new", n)
        full.table("new")
        yield full
    yield from _wrong_names(sampler)
    for bad in sampler.shuffled((0, 4), (4, 0), (-1, 4), (4, -sampler.integer(1, 9)), (0, 0)):
        script = Script((5, 3), bad, (1, 1))
        script.append("a", 15)
        script.append("a", 1, of=2)
        yield script


def _wrong_names(sampler: Sampler) -> Iterator[Script]:
    """Of sequences that never were, of some that have gone, and of some that are there already."""
    for size in sampler.shuffled(1, 4):
        script = Script((20, size))
        script.append("a", 2 * size + 1)
        for gone in sampler.shuffled("never", "gone"):
            if gone == "gone":
                script.append(gone, size + 1)
                script.fork(gone, "child")
                script.release(gone)
            for ask in sampler.shuffled(script.table, script.length, script.release):
                ask(gone)
            for child in sampler.shuffled("a", gone, "nobody"):
                script.fork(gone, child)
            script.length("nobody")
        for parent, child in sampler.shuffled(("a", "a"), ("a", "child"), ("child", "a"), ("child", "child")):
            script.fork(parent, child)
        for name in sampler.permutation(("a", "child")):
            script.append(name, size)
            script.release(name)
            script.release(name)
        script.append("gone", 20 * size)
        yield script


def _apart(sampler: Sampler) -> Iterator[Script]:
    """Objects side by side with the same names, names of every kind, names that come again; lists are overwritten."""
    yield from _side_by_side(sampler)
    yield from _any_names(sampler)
    for filled, again in sampler.shuffled((1, 1), (2, 9), (0, 2), (3, 5), (4, 4)):
        script = Script((60, 4), spoils=True)
        script.append("a", 4 + filled)
        script.fork("a", "b")
        script.release("a")
        script.append("a", again)
        script.append("b", 3)
        script.append("a", 3)
        script.release("b")
        script.fork("a", "b")
        script.append("b", 1)
        script.append("b", 1)
        script.append("a", 1)
        yield script


def _side_by_side(sampler: Sampler) -> Iterator[Script]:
    """Two that are asked the same in turn, a third that never forks, and each of them alone."""
    for spoils in sampler.shuffled(False, True):
        script = Script((40, 4), (40, 4), (40, 4), spoils=spoils)
        filled, more = sampler.integer(5, 7), sampler.integer(4, 6)
        for of in sampler.shuffled(0, 1):
            script.append("a", filled, of=of)
            script.fork("a", "b", of=of)
        script.append("a", filled, of=2)
        for name in sampler.shuffled("a", "b"):
            for of in sampler.shuffled(0, 1, 2):
                script.append(name, 1, of=of)
        for of in sampler.shuffled(0, 1):
            script.fork("b", "c", of=of)
        script.append("c", filled, of=2)
        for of in sampler.shuffled(0, 1, 2):
            script.release("a", of=of)
            script.append("b", more, of=of)
            script.append("c", 1, of=of)
            script.append("a", more, of=of)
        yield from script.each_alone()


def _any_names(sampler: Sampler) -> Iterator[Script]:
    """All of them at once, each begun alone, or forked from the one before it, with each the parent of another once."""
    order = sampler.permutation(_NAMES)
    for names, forks in sampler.shuffled((order, False), (order, True), (order[::-1], True)):
        script = Script((_ROOMY, 3), spoils=True)
        script.append(names[0], 4)
        for before, name in itertools.pairwise(names):
            if forks:
                script.fork(before, name)
            else:
                script.append(name)
        for name in sampler.permutation(names):
            script.append(name, sampler.integer(1, 4))
        for name in sampler.permutation(names)[:9]:
            script.release(name)
        yield script


def _serving(sampler: Sampler) -> Iterator[Script]:
    """As an engine asks: prompts, samples of them, a token each, requests that finish, hang up or find no room."""
    for size, sees in sampler.shuffled((1, True), (4, True), (sampler.integer(5, 8), True), (3, False), (16, True)):
        script = Script((sampler.integer(18, 24), size), sees=sees)
        names = (f"r{number}" for number in itertools.count())
        script.append("first", 2 * size + 1)
        script.fork("first", "second")
        script.append("second", 24 * size)
        script.append("first", size)
        script.append("second")
        for _ in range(8):
            _step(sampler, script, names)
        yield script.look_at_all()


def _step(sampler: Sampler, script: Script, names: Iterator[str]) -> None:
    """Whoever finds no room makes the newest leave; prompts come, and some are sampled more than once."""
    books = script.books[0]
    for name in list(books.tables):
        if name in books.tables:
            script.append(name, *sampler.choice(((), (1,), (sampler.integer(1, books.size),))))
            if "raises" in script.expected[-1]:
                script.release(list(books.tables)[-1])
    new = next(names)
    script.append(new, sampler.integer(1, 4 * books.size))
    for _ in range(sampler.integer(0, 3) if new in books.tables else 0):
        script.fork(new, next(names))
    if len(books.tables) > sampler.integer(3, 9):
        script.release(sampler.choice(list(books.tables)))


def _judge(case: Traces, evidence: dict) -> Iterator[Failure]:
    for criteria in case.criteria:
        if problem := count_problem(evidence["played"], len(case.scripts)) or _first_problem(
            criteria, case, evidence["played"]
        ):
            yield Failure(criteria, problem)


def _first_problem(criteria: str, case: Traces, every: list[dict]) -> str | None:
    for script, played in zip(case.scripts, every):
        if problem := _made_problem(script, played) or _trace_problem(criteria, script, played["steps"]):
            return problem
        if criteria == "apart" and (problem := _apart_problem(case, script, every, played)):
            return problem
    return None


def _apart_problem(case: Traces, script: Script, every: list[dict], played: dict) -> str | None:
    if played["changed"]:
        return "A list that was returned has changed since: each call is due to return a new one."
    for number, alone in enumerate(script.alone):
        beside = [step for step, expected in zip(played["steps"], script.expected) if expected["of"] == number]
        if problem := rules.crosstalk(beside, every[case.scripts.index(alone)]["steps"]):
            return problem
    return None


def _made_problem(script: Script, played: dict) -> str | None:
    if problem := count_problem(played["made"], len(script.made)):
        return problem
    for sizes, error in zip(script.made, played["made"]):
        expected = min(sizes) < 1
        if expected and (problem := error_problem({"error": error} if error else {}, "ValueError")):
            return f"{problem} A cache without blocks, or with blocks without places, is refused."
        if not expected and error:
            return raised_problem(error)
    return None


def _trace_problem(criteria: str, script: Script, steps: list[dict]) -> str | None:
    if problem := count_problem(steps, len(script.expected)):
        return problem
    stands = [rules.Stand(total, {}, {}) for total, _ in script.made]
    memories = [rules.Memory() for _ in script.made]
    for step, expected in zip(steps, script.expected):
        of = expected["of"]
        if problem := _call_problem(step, expected) or _seen_problem(step, expected, script.made[of][0]):
            return problem
        moment = _moment(script, step, expected, stands[of])
        if criteria in _FOLLOWED:
            memories[of].follow(moment)
        if problem := next(filter(None, (rule(moment, memories[of]) for rule in _RULES[criteria])), None):
            return problem
        stands[of].goes_on(expected, moment.now)
    return None


def _call_problem(step: dict, expected: dict) -> str | None:
    """What a call raised and should not have, or should have."""
    if "raises" in expected:
        problem = error_problem(step, expected["raises"])
        return f"{problem} {_DUE_ERROR[expected['raises']]}" if problem else None
    if "error" not in step:
        return None
    problem = raised_problem(step["error"])
    return f"{problem} {_DUE_ERROR['none']}" if "MemoryError" in step["error"]["kinds"] else problem


def _seen_problem(step: dict, expected: dict, total: int) -> str | None:
    looked = step["looked"]
    if step["blind"] is not None or not isinstance(looked, dict):
        return raised_problem(step["blind"])
    return count_problem(looked["sequences"], len(expected["standing"])) or rules.kind_problem(looked, total)


def _moment(script: Script, step: dict, expected: dict, stood: rules.Stand) -> rules.Moment:
    looked = step["looked"]
    seen = dict(zip(expected["standing"], looked["sequences"]))
    lengths, tables = {name: one[0] for name, one in seen.items()}, {name: one[1] for name, one in seen.items()}
    now = rules.Stand(looked["free"], lengths, tables)
    return rules.Moment(*script.made[expected["of"]], expected, step.get("returned"), stood, now)


_RULES: dict[str, tuple[rules.Rule, ...]] = {
    "room": (rules.lengths, rules.room, rules.free),
    "tokens": (rules.tokens,),
    "shared": (rules.unshared,),
    "copies": (rules.copies,),
    "counts": (rules.free,),
    "memory": (rules.nothing_changed, rules.free),
    "errors": (rules.nothing_changed,),
    "apart": (rules.lengths, rules.others_kept),
    "serving": (
        rules.lengths,
        rules.room,
        rules.tokens,
        rules.unshared,
        rules.copies,
        rules.free,
        rules.nothing_changed,
    ),
}
_FOLLOWED = {criteria for criteria, held in _RULES.items() if rules.tokens in held}
_DUE_ERROR = {
    "KeyError": "A sequence that is not there, or no longer, can be asked nothing, released or forked.",
    "ValueError": "Fewer tokens than one, and a fork under a name that is there already, are refused.",
    "MemoryError": "Fewer blocks are free than the tokens need, the target of a copy counted too.",
    "none": "Enough blocks are free: the last block's empty places come first, and a copy needs one block, where it is shared.",
}

exercise = Exercise(
    criteria=(
        Criterion("room", 1, "sequences hold the blocks that their tokens fill, and no more"),
        Criterion("tokens", 1, "every sequence reads its own tokens, whoever was forked and wrote"),
        Criterion("shared", 1, "nobody writes into a block that stands in two tables"),
        Criterion("copies", 1, "a fork shares everything, and only a shared, partly filled last block is copied"),
        Criterion("counts", 1, "a block is free when the last table that names it has gone"),
        Criterion("memory", 1, "MemoryError comes exactly when there is no room, and changes nothing"),
        Criterion("errors", 1, "wrong names and numbers are refused, and change nothing"),
        Criterion("apart", 1, "objects, lists and names that come again know nothing of each other", ("room",)),
        Criterion("serving", 1, "an engine's requests are served as far as the blocks reach"),
    ),
    cases=_cases,
    judge=_judge,
)
