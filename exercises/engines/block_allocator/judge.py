"""E19.2 block_allocator: cases and judge. Which free block is taken is the learner's choice."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem
from exercises.engines.block_allocator.books import Script
from exercises.engines.block_allocator.rules import Served, served

_ROOMY = 160
_NAMES = (0, 7, "", "7", -1, -2, ("beam", 0), ("beam", 1), "request 12")


@dataclass(frozen=True)
class Traces(Case):
    """``scripts``: the traces with what is due. They stay in the referee."""

    scripts: tuple[Script, ...] = ()


def _cases(sampler: Sampler) -> Iterator[Case]:
    makers = sampler.shuffled(_room, _forks, _writers, _in_place, _free, _memory, _errors)
    # Small ones first, several objects at once last: what stays behind, where a class keeps it, spoils few other traces.
    scripts = [script for make in (*makers, _apart) for script in make(sampler)]
    scripts = tuple(sorted(scripts, key=lambda script: (len(script.made), script.made[0][0])))
    yield Traces(
        tuple(one.name for one in exercise.criteria), {"traces": [one.inputs() for one in scripts]}, scripts=scripts
    )


def _room(sampler: Sampler) -> Iterator[Script]:
    """Sequences that grow to both sides of every boundary, token by token and by many; nobody shares anything."""
    for size in sampler.shuffled(1, 2, sampler.integer(3, 7), 16):
        script = Script(("room",), (_ROOMY, size))
        for n in sampler.shuffled(
            *{1, max(size - 1, 1), size, size + 1, 2 * size, 2 * size + sampler.integer(1, size)}
        ):
            for name in sampler.shuffled("a", "b"):
                script.append(name, n)
            script.append("c")
        for _ in range(min(size + 1, 9)):
            script.append("d", n=1)
        yield script.end(sampler)


def _family(
    sampler: Sampler, topics: tuple[str, ...], size: int, filled: int, *forks: str, full: int | None = None
) -> Script:
    """Sequence p, its last block with so many tokens (0: full), another beside it, and its forks: "pc" is c, forked from p."""
    script = Script(topics, (_ROOMY, size))
    script.append("other", sampler.integer(1, 2 * size))
    script.append("p", size * (sampler.integer(1, 3) if full is None else full) + filled)
    for parent, child in forks:
        script.fork(parent, child)
    return script


def _forks(sampler: Sampler) -> Iterator[Script]:
    """Nobody writes after a fork."""
    for filled in sampler.shuffled(0, 1, 2):
        yield _family(sampler, ("fork",), 3, filled, "pc", sampler.choice(("cg", "pg")), "pd").end(sampler)


def _writers(sampler: Sampler) -> Iterator[Script]:
    """Those write who need a copy; the last that has the block does not. Of those who write beyond the block, the first write one
    token more than fits in."""
    families = sampler.shuffled(
        (("pc",), "p"),
        (("pc",), "c"),
        (("pc", "pd"), "cp"),
        (("pc", "pd"), "pd"),
        (("pc", "cg"), "gc"),
        (("pc", "cg"), "pg"),
    )
    for number, (forks, order) in enumerate(families):
        for beyond in sampler.shuffled(False, True):
            size = sampler.integer(3, 6)
            script = _family(
                sampler, ("shared", "copies"), size, sampler.integer(1, size - 1), *forks, full=None if beyond else 0
            )
            for name in order:
                more = sampler.integer(0, size) if beyond and number else 0
                script.append(name, script.in_place(name) * beyond + 1 + more)
            yield script.end(sampler)


def _in_place(sampler: Sampler) -> Iterator[Script]:
    """No copy is due: of full blocks, of what one has alone, because the others have gone or have copies of their own."""
    topics = ("in_place",)
    for size in sampler.shuffled(1, sampler.integer(2, 5)):
        script = _family(sampler, topics, size, 0, "pc", "pd")
        for name in sampler.shuffled("p", "c", "d"):
            script.append(name, sampler.integer(1, 2 * size))
        yield script.end(sampler)
    for gone in sampler.shuffled("", "p", "c", "pd", "cd", "pc"):
        size = sampler.integer(3, 6)
        script = _family(sampler, topics, size, 1, *(("pc", "pd")[: 2 if "d" in gone or gone == "pc" else bool(gone)]))
        for name in gone:
            script.release(name)
        (last,) = set(script.books[0].tables) - {"other"}
        script.append(last, n=script.in_place(last))
        yield script.end(sampler)
    for first, last in sampler.shuffled("pc", "cp"):
        size = sampler.integer(4, 6)
        script = _family(sampler, topics, size, 1, "pc")
        for name in (first, last, first, last):
            script.append(name, 1)
        script.fork(last, "again")
        script.release(last)
        script.append("again", script.in_place("again"))
        yield script.end(sampler)


def _free(sampler: Sampler) -> Iterator[Script]:
    """Families that leave in every order, and then someone who takes every block that there is."""
    script = Script(("free",), (_ROOMY, 4))
    for name, n in zip(sampler.shuffled("a", "b", "c"), sampler.shuffled(3, 4, 9)):
        script.append(name, n)
    for name in sampler.shuffled("a", "b", "c"):
        script.release(name)
        script.append("d", 3)
    yield script.end(sampler)
    for order in sampler.shuffled(*itertools.permutations("pcg")):
        for writers in ((), sampler.choice((order[:1], order[1:], order))):
            size = sampler.integer(2, 6)
            script = Script(("free",), (sampler.integer(20, 24), size))
            script.append("p", size * sampler.integer(1, 2) + sampler.integer(1, size - 1))
            script.fork("p", "c")
            script.fork(sampler.choice("pc"), "g")
            for name in writers:
                script.append(name, sampler.integer(1, 2 * size))
            for name in order:
                script.release(name)
                script.append("x")
            script.append("all", script.books[0].free * size)
            yield script.end(sampler)


def _memory(sampler: Sampler) -> Iterator[Script]:
    """As many tokens as there is room for, and one more: behind a last block that is full, partly filled, or shared."""
    tight = []
    size = sampler.integer(4, 7)
    for (size, filled), shared, free in itertools.product(((1, 0), (3, 0), (size, size - 2)), (False, True), (0, 1, 2)):
        script = _short(sampler, size, filled, "pc" if shared else "", free)
        copied = shared and filled > 0
        script.append("p", script.in_place("p") + (free - copied) * size + 1 if free >= copied else 1)
        if most := script.in_place("p") + (free - copied) * size if free >= copied else 0:
            script.append("p", most)
        script.append("p")
        tight.append(script)
    for writer, other in sampler.shuffled("pc", "cp"):
        tight.append(_full(sampler, writer, other))
    for script in (*tight, _too_much(sampler), _many(sampler), _one_block(sampler)):
        yield from _roomy_beside(sampler, script)


def _roomy_beside(sampler: Sampler, script: Script) -> list[Script]:
    """A trace, and the same where nothing runs short: with what is refused here, and without."""
    script.end(sampler)
    roomy = (_ROOMY, script.made[0][1])
    return script.beside(
        sampler, script.again(roomy), script.again(roomy, which=lambda asked: asked.raises != "MemoryError")
    )


_SHORT = "Where blocks run short, and nowhere else: "


def _short(sampler: Sampler, size: int, filled: int, forks: str, free: int) -> Script:
    """Sequence p with its last block filled so far, forked or not, and so many blocks free."""
    blocks = sampler.integer(1, 3)
    script = Script(("memory",), (blocks + (filled > 0) + 2 + free, size), says=_SHORT)
    script.append("p", blocks * size + filled)
    script.append("rest", 2 * size)
    for child in forks[1:]:
        script.fork("p", child)
    return script


def _full(sampler: Sampler, writer: str, other: str) -> Script:
    """Nothing is free: forks go on, who has a last block alone goes on in place, who shares it has to wait for the other."""
    script = _short(sampler, sampler.integer(4, 6), 1, "", free=0)
    script.append("p")
    script.fork("p", "c")
    script.fork("c", "d")
    script.append(writer)
    script.append("new")
    script.release("d")
    script.append(writer)
    script.release(other)
    script.append(writer)
    script.release("rest")
    script.append(writer, 2 * script.books[0].size)
    return script


def _too_much(sampler: Sampler) -> Script:
    """More than the whole cache holds, by new names, of which nothing stays."""
    total, size = sampler.integer(3, 9), sampler.integer(2, 5)
    script = Script(("memory",), (total, size), says=_SHORT)
    for ask in sampler.shuffled(script.table, script.length, script.release):
        ask("never")
    script.fork("never", "b")
    for n in sampler.shuffled(total * size + 1, (total + 1) * size, 3 * total * size):
        script.append("a", n)
        script.table("a")
        script.length("a")
    script.append("b", size)
    script.append("b", total * size)
    script.append("b", (total - 1) * size)
    script.append("b")
    script.append("a")
    script.fork("b", "c")
    script.release("b")
    script.release("c")
    script.append("b", total * size)
    return script


def _one_block(sampler: Sampler) -> Script:
    """The smallest cache: it fills, is shared, and is free again."""
    size = sampler.integer(2, 4)
    script = Script(("memory",), (1, size), says=_SHORT)
    script.append("a", size - 1)
    script.fork("a", "b")
    script.append("b")
    script.release("a")
    script.append("b")
    script.append("b")
    return script


def _many(sampler: Sampler) -> Script:
    """Samples that hold far more tokens together than the cache, and share them."""
    total, size = sampler.integer(3, 5), sampler.integer(2, 5)
    script = Script(("memory",), (total, size), says=_SHORT)
    script.append("p", (total - 1) * size)
    for child in range(8):
        script.fork("p", f"c{child}")
    script.append("c5")
    script.append("p")
    script.append("c5", size - 1)
    return script


def _errors(sampler: Sampler) -> Iterator[Script]:
    """What is refused, among calls that are not."""
    for bad in sampler.shuffled(
        (0, 4), (4, 0), (-1, 4), (4, -sampler.integer(1, 9)), (0, 0), (-1, -sampler.integer(1, 9))
    ):
        yield Script((), bad)
    for make in sampler.shuffled(_refused_tokens, _refused_names, _refused_forks):
        script = make(sampler).end(sampler)
        yield from script.beside(sampler, script.again(*script.made, which=lambda asked: not asked.raises))


_REFUSED = "After a call that was refused, and not without it: "


def _refused_tokens(sampler: Sampler) -> Script:
    script = Script(("errors",), (20, 4), says=_REFUSED)
    script.append("a", 8)
    for n in sampler.shuffled(0, -1, -sampler.integer(2, 9)):
        script.append("a", n)
        script.append("new", n)
        script.length("new")
    script.fork("a", "new")
    script.append("new")
    return script


def _refused_names(sampler: Sampler) -> Script:
    """Of sequences that never were, and of one that has gone."""
    script = Script(("errors",), (20, 4), says=_REFUSED)
    script.append("a", 9)
    script.append("gone", 5)
    script.release("gone")
    for name in sampler.shuffled("never", "gone"):
        for ask in sampler.shuffled(script.table, script.length, script.release):
            ask(name)
        script.fork(name, "nobody")
        script.fork(name, name)
        script.length("nobody")
    script.append("gone", 4)
    return script


def _refused_forks(sampler: Sampler) -> Script:
    """Under names that are there; then nobody is left, or the last writes in place."""
    script = Script(("errors",), (20, 4), says=_REFUSED)
    script.append("a", 9)
    script.append("b", 3)
    for parent, child in sampler.shuffled("aa", "ab", "ba", "bb"):
        script.fork(parent, child)
    script.append("b", 1)
    script.append("a", 2)
    return script


def _apart(sampler: Sampler) -> Iterator[Script]:
    """Names of every kind, lists that the caller spoils or keeps, and objects side by side."""
    for lists, says in sampler.shuffled(
        ("spoils", "Once the caller has changed the lists that `table` and `append` returned, and not without it: "),
        ("keeps", ""),
    ):
        for filled in sampler.shuffled(0, 1, 3):
            script = Script(("apart",), (60, 4), lists=lists, says=says)
            _renewed(sampler, script, filled)
            script.end(sampler)
            yield from script.beside(sampler, script.again((60, 4)))
    for forks in sampler.shuffled(False, True):
        script = _named(sampler, forks).end(sampler)
        yield from script.beside(sampler, script.again((_ROOMY, 3), name=lambda name: f"n{_NAMES.index(name)}"))
    for forks in sampler.shuffled(False, True):
        script = _side_by_side(sampler, forks).end(sampler)
        yield from script.beside(
            sampler,
            *(script.again(made, which=lambda asked, of=of: asked.of == of) for of, made in enumerate(script.made)),
        )


def _renewed(sampler: Sampler, script: Script, filled: int) -> None:
    """A family whose names leave and come again."""
    script.append("a", 4 + filled)
    script.fork("a", "b")
    script.release("a")
    script.append("a", sampler.integer(1, 9))
    script.append("b", 3)
    script.append("a", 3)
    script.release("b")
    script.fork("a", "b")
    for name in "bba":
        script.append(name, 1)


def _named(sampler: Sampler, forks: bool) -> Script:
    """Each begun alone, or forked from the one before it; no two equal, some with equal hashes or equal texts."""
    names = sampler.permutation(_NAMES)
    script = Script(
        ("apart",), (_ROOMY, 3), says="With names that are integers, texts and tuples, and not with texts alone: "
    )
    script.append(names[0], 4)
    for before, name in itertools.pairwise(names):
        if forks:
            script.fork(before, name)
        else:
            script.append(name)
    for name in sampler.permutation(names):
        script.append(name, sampler.integer(1, 4))
    for name in sampler.permutation(names)[:5]:
        script.release(name)
    return script


def _side_by_side(sampler: Sampler, forks: bool) -> Script:
    """Two objects that are asked the same in turn."""
    says = "Where two objects are used in turn, and not where each is alone: "
    script = Script(("apart", "beside"), (_ROOMY, 4), (_ROOMY, 4), says=says)
    calls = [("append", "a", sampler.integer(5, 7)), ("fork", "a", "b") if forks else ("append", "b", 3)]
    calls += [("append", name, n) for n in (1, sampler.integer(4, 6)) for name in "ab"]
    for what, *by in (*calls, ("release", "a"), ("append", "b", 1), ("append", "c", 4)):
        for of in (0, 1):
            getattr(script, what)(*by, of=of)
    return script


def _judge(case: Traces, evidence: dict) -> Iterator[Failure]:
    if problem := count_problem(evidence["played"], len(case.scripts)):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    every = {id(script): served(script, played) for script, played in zip(case.scripts, evidence["played"])}
    lost: dict[str, str] = {}
    earned: set[str] = set()
    for script in case.scripts:
        found, twins = every[id(script)], [every[id(twin)] for twin in script.twins]
        for criterion, problem in _own_faults(script, found, twins):
            lost.setdefault(criterion, problem)
        if found.finished and all(twin.finished for twin in twins):
            earned.update(script.topics)
    for criterion in case.criteria:
        if criterion in lost:
            yield Failure(criterion, lost[criterion])
        elif not earned >= {criterion, *(("beside",) if criterion == "apart" else ())}:
            before = next(
                every[id(one)].faults[0][1] for one in _rivals(case.scripts, criterion) if every[id(one)].faults
            )
            yield Failure(
                criterion,
                f"Not judged, since in each trace that could show it something else went wrong before: {before}",
            )


def _rivals(scripts: Sequence[Script], criterion: str) -> Iterator[Script]:
    for script in scripts:
        if criterion in script.topics:
            yield from (*script.twins, script)


def _own_faults(script: Script, found: Served, twins: list[Served]) -> Iterator[tuple[str, str]]:
    """Of a trace with twins: what they do not show, as a fault of what is tried in it."""
    if not twins:
        yield from found.faults
        return
    if all(twin.finished and not twin.leaks for twin in twins):
        known = {criterion for twin in twins for criterion, _ in twin.faults}
        for criterion, problem in found.faults:
            if criterion == script.topics[0]:
                yield criterion, problem
            elif criterion not in known:
                yield script.topics[0], script.says + problem


exercise = Exercise(
    criteria=(
        Criterion("room", 1, "sequences hold the blocks that their tokens fill, and no more"),
        Criterion("fork", 1, "a fork shares every block of its parent and takes none"),
        Criterion("shared", 1, "nobody writes into a block that stands in two tables"),
        Criterion("copies", 1, "`append` returns the copy that is due, and an empty list where none is"),
        Criterion("in_place", 1, "a block is replaced only where it is shared and partly filled"),
        Criterion("free", 1, "a block is free when the last table that names it has gone"),
        Criterion("memory", 1, "MemoryError comes exactly when there is no room, and changes nothing"),
        Criterion("errors", 1, "wrong names and numbers are refused, and change nothing"),
        Criterion("apart", 1, "sequences, objects and the lists that are returned do not change each other"),
    ),
    cases=_cases,
    judge=_judge,
)
