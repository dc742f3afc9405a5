"""E10.3 caching_allocator: cases and judge. What is due is what the virtual card's allocator does, on one stream."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from autograder.protocol.plain import value_of, written
from gpulab.cuda.machine.allocator import Allocator, OutOfMemory
from gpulab.cuda.machine.blocks import Block

_KIB, _MIB = 1 << 10, 1 << 20
_ROOMY = 1 << 60
_ASKS = "exercises.trading.caching_allocator.run_asked"
_EVERYTHING = ("returned", "allocated", "reserved", "blocks")


class Memory:
    """The virtual card's allocator, by addresses."""

    def __init__(self, capacity: int) -> None:
        self._card = Allocator(capacity, _nothing, _nothing, lambda stream: stream, lambda use: True)
        self.used: dict[int, Block] = {}

    def malloc(self, size: int) -> dict:
        if size < 1:
            return {"raises": "ValueError"}
        try:
            block = self._card.malloc(size, 0)
        except OutOfMemory:
            return {"raises": "MemoryError", "named": (size, self._card.reserved - self._card.allocated)}
        self.used[block.address] = block
        return {"returned": block.address}

    def free(self, address: int) -> dict:
        if address not in self.used:
            return {"raises": "ValueError"}
        self._card.free(self.used.pop(address))
        return {"returned": None}

    def empty_cache(self) -> dict:
        self._card.empty_cache()
        return {"returned": None}

    def standing(self) -> dict:
        """As the learner's says it of itself."""
        segments = [
            [
                segment.address,
                segment.size,
                [[block.address, block.size, not block.is_free] for block in segment.blocks()],
            ]
            for segment in self._card.segments.values()
        ]
        return {"allocated": self._card.allocated, "reserved": self._card.reserved, "segments": segments}


def _nothing() -> None:
    pass


class Script:
    """A trace under way: its actions so far, and how the card's allocators stand after them."""

    def __init__(self, *capacities: int, look: bool = True) -> None:
        self._capacities, self._look = capacities or (_ROOMY,), look
        self._memories = [Memory(capacity) for capacity in self._capacities]
        self._actions: list[list] = []
        self._given: list[tuple[int, int | None]] = []
        self._freed: set[int] = set()
        self.expected: list[dict] = []

    @property
    def allocators(self) -> int:
        return len(self._memories)

    def malloc(self, size: int, of: int = 0) -> int:
        """The number of this malloc in the trace."""
        self._note(of, self._memories[of].malloc(size), "malloc", size)
        self._given.append((of, self.expected[-1].get("returned")))
        if "raises" in self.expected[-1]:
            self._freed.add(len(self._given) - 1)
        return len(self._given) - 1

    def free(self, number: int, beyond: int = 0, of: int = 0) -> None:
        """Of the block that a malloc gave, or of a place so many bytes beyond where it begins."""
        self._note(of, self._memories[of].free(self._given[number][1] + beyond), "free", number, beyond)
        if not beyond:
            self._freed.add(number)

    def free_at(self, address: int, of: int = 0) -> None:
        self._note(of, self._memories[of].free(address), "free_at", address)

    def empty_cache(self, of: int = 0) -> None:
        self._note(of, self._memories[of].empty_cache(), "empty_cache")

    def in_use(self, of: int) -> list[int]:
        """The numbers of the mallocs whose blocks an allocator has not had back."""
        return [number for number, (by, _) in enumerate(self._given) if by == of and number not in self._freed]

    def free_sizes(self, of: int) -> list[int]:
        return [
            size for _, _, blocks in self._memories[of].standing()["segments"] for _, size, used in blocks if not used
        ]

    def _note(self, of: int, came_to: dict, what: str, *by: int) -> None:
        self._actions.append([of, what, *by])
        self.expected.append(came_to | {"looked": self._memories[of].standing()})

    def trace(self) -> tuple:
        return list(self._capacities), self._actions, self._look

    def end(self) -> list[dict]:
        return [memory.standing() for memory in self._memories]


@dataclass(frozen=True)
class Traces(Case):
    """``scripts``: the traces with what is due. ``compared``: what of each step is to be so. Both stay in the referee."""

    scripts: tuple[Script, ...] = ()
    compared: tuple[str, ...] = _EVERYTHING


def _case(criteria: str, scripts: Sequence[Script], compared: tuple[str, ...] = _EVERYTHING) -> Traces:
    calls = written([script.trace() for script in scripts])
    inputs = {"calls": calls, "libraries": [], "in_kernel": False, "asks": _ASKS}
    return Traces((criteria,), inputs, scripts=tuple(scripts), compared=compared)


def _cases(sampler: Sampler) -> Iterator[Case]:
    makers = (_segments, _splitting, _best_fit, _merging, _counts, _cache, _memory_error, _errors, _long_traces)
    for make in sampler.permutation(makers):
        yield from make(sampler)


def _mallocs(*sizes: int, capacity: int = _ROOMY) -> Script:
    script = Script(capacity)
    for size in sizes:
        script.malloc(size)
    return script


def _frees(script: Script, *numbers: int) -> Script:
    for number in numbers:
        script.free(number)
    return script


def _segments(sampler: Sampler) -> Iterator[Case]:
    """One request each, on both sides of every boundary; then several, and one that was freed."""
    compared = ("returned", "reserved", "segments")
    small = [
        1,
        sampler.integer(2, 510),
        *sampler.around(512),
        sampler.integer(600, 900_000),
        _MIB - 512,
        _MIB - 511,
        *sampler.around(_MIB),
    ]
    large = [
        *sampler.around(_MIB + 512),
        sampler.integer(2 * _MIB, 9 * _MIB),
        *sampler.around(10 * _MIB - 512),
        10 * _MIB,
        10 * _MIB + 1,
    ]
    huge = [*sampler.around(12 * _MIB), sampler.integer(7, 40) * 2 * _MIB, sampler.integer(13 * _MIB, 99 * _MIB) | 1]
    beyond = [(1 << 31) + sampler.integer(1, 999), (1 << 53) + 1, (1 << 55) + sampler.integer(1, 511)]
    for sizes in (small, large, huge, beyond):
        yield _case("segments", [_mallocs(size) for size in sampler.permutation(sizes)], compared)
    in_turn = _mallocs(3 * _MIB, 3 * _KIB, 30 * _MIB, _MIB, 19 * _MIB, 13 * _MIB + sampler.integer(1, 999))
    kept = [_frees(_mallocs(size, size), 0, 1) for size in sampler.shuffled(_MIB, 8 * _MIB, 10 * _MIB)]
    yield _case("segments", [in_turn, *kept], compared)


def _splitting(sampler: Sampler) -> Iterator[Case]:
    """Rests of segments and of free blocks, on both sides of what is split off, in either pool."""
    rests = (0, 512, _MIB - 512, *sampler.around(_MIB), _MIB + 511, _MIB + 512, _MIB + 513)
    small = [_mallocs(_MIB, _MIB - rest) for rest in sampler.shuffled(0, 1, 511, 512, 513, 1024, 700_000)]
    small += [
        _mallocs(512),
        _mallocs(_MIB - 512, _MIB - 512, 1024 - sampler.integer(0, 511)),
        _mallocs(*[_MIB - 512] * 2, 512),
    ]
    whole = [_mallocs(12 * _MIB - rest) for rest in sampler.permutation(rests)]
    third = [_mallocs(8 * _MIB, 3 * _MIB, 9 * _MIB - rest) for rest in sampler.permutation(rests)]
    again = [_frees(_mallocs(5 * _MIB, 4 * _MIB), 0) for _ in range(3)]
    for script, rest in zip(again, sampler.shuffled(512, _MIB, _MIB + 512)):
        script.malloc(5 * _MIB - rest)
    for scripts in (small, whole, third, again):
        yield _case("splitting", scripts, ("returned", "blocks"))


def _gaps(sampler: Sampler, sizes: list[int], between: int, order: list[int] | None = None) -> Script:
    """Free blocks of these sizes, one after the other, with blocks in use between; freed in this order, or a random one."""
    script = Script()
    gaps = []
    for size in sizes:
        gaps.append(script.malloc(size))
        script.malloc(between)
    return _frees(script, *(gaps[i] for i in order or sampler.permutation(range(len(sizes)))))


def _best_fit(sampler: Sampler) -> Iterator[Case]:
    """Which of several free blocks is taken: sizes in every order, ties, blocks of several segments, and of the other pool."""
    scripts = []
    for unit, between in sampler.shuffled((_KIB, 512), (2 * _KIB, 1024), (_MIB, 2 * _MIB)):
        for sizes in itertools.permutations((3 * unit, 5 * unit, 4 * unit)):
            script = _gaps(sampler, [*sizes], between)
            for size in sampler.shuffled(
                3 * unit, 4 * unit - sampler.integer(0, 500), 4 * unit + sampler.integer(1, 900)
            ):
                script.malloc(size)
            scripts.append(script)
    yield _case("best_fit", sampler.permutation(scripts), ("returned",))
    ties = []
    for order in sampler.shuffled([1, 0, 2], [2, 0, 1], [0, 1, 2], [2, 1, 0]):
        for size, between in sampler.shuffled((4 * _KIB, 512), (3 * _MIB, _MIB + 512), (24 * _MIB, 7 * _MIB)):
            script = _gaps(sampler, [size] * 3, between, order)
            for _ in range(4):
                script.malloc(size - sampler.integer(0, 511))
            ties.append(script)
    yield _case("best_fit", sampler.permutation(ties), ("returned",))
    yield _case("best_fit", _pools(sampler), ("returned",))


def _pools(sampler: Sampler) -> list[Script]:
    """What is free in one pool is none of the other's."""
    scripts = []
    of_small = [(_MIB, _MIB + 1), (512, 3 * _MIB // 2), (64 * _KIB, 2 * _MIB)]
    of_large = [(2 * _MIB, 512), (16 * _MIB, _MIB), (9 * _MIB, _MIB - 512)]
    for freed, asked in sampler.permutation(of_small + of_large):
        script = _frees(_mallocs(freed), 0)
        script.malloc(asked)
        script.malloc(freed)
        scripts.append(script)
    return scripts


def _merging(sampler: Sampler) -> Iterator[Case]:
    """Three neighbours freed in every order, the rest of their segment free or in use; and neighbours of two segments."""
    scripts = []
    for size, rest in sampler.shuffled((640 * _KIB, 128 * _KIB), (640 * _KIB, 0), (6 * _MIB, 2 * _MIB), (6 * _MIB, 0)):
        for order in itertools.permutations(range(3)):
            script = _frees(_mallocs(*[size] * 3, *[rest] * bool(rest)), *order)
            script.malloc(min(2 * size, _MIB) if size < _MIB else 9 * _MIB)
            scripts.append(script)
    yield _case("merging", sampler.permutation(scripts), ("returned", "blocks"))
    apart = []
    alike, unlike = [([_MIB] * 4, _MIB), ([10 * _MIB] * 2, 20 * _MIB)], [_MIB, _MIB, 12 * _MIB]
    for sizes, again in sampler.permutation([*alike, (unlike, 14 * _MIB), (unlike[::-1], 14 * _MIB)]):
        for order in ([*range(len(sizes))], [*reversed(range(len(sizes)))]):
            script = _frees(_mallocs(*sizes), *order)
            script.malloc(again)
            apart.append(script)
    yield _case("merging", sampler.permutation(apart), ("returned", "blocks"))


def _counts(sampler: Sampler) -> Iterator[Case]:
    """Blocks of all kinds taken and freed, one after the other and together; two allocators side by side."""
    sizes = [1, sampler.integer(513, 9999), _MIB, _MIB + 1, sampler.integer(3, 8) * _MIB]
    sizes += [11 * _MIB, 20 * _MIB + sampler.integer(1, 999), (1 << 54) + 1]
    single = [_frees(_mallocs(size), 0) for size in sampler.permutation(sizes)]
    whole = 2 * sampler.integer(11, 14) * _MIB - sampler.integer(1, _MIB)
    mixed = [sampler.integer(2, 8) * _MIB + sampler.integer(1, 999), sampler.integer(1, 99_999), whole]
    together = [_frees(_mallocs(*mixed), *sampler.permutation(range(3))) for _ in range(2)]
    two = Script(_ROOMY, 1 << 50)
    for number in range(6):
        two.malloc(mixed[number // 2] + 512 * number, number % 2)
    for number in sampler.permutation(range(6)):
        two.free(number, of=number % 2)
    yield _case("counts", [*single, *together, two], ("allocated", "reserved"))


def _cache(sampler: Sampler) -> Iterator[Case]:
    """Segments with no block in use, with some, and with none free, in both pools; emptied once, twice, and at the very start."""
    scripts = []
    sizes = [12 * _MIB, 16 * _MIB, 9 * _MIB, 9 * _MIB, _MIB, _MIB, 700 * _KIB, 5 * _KIB]
    for kept in sampler.shuffled({0}, {0, 2}, {3, 5}, {4, 7}, set(range(8)), set(), {1, 2, 4}):
        script = _frees(_mallocs(*sizes), *(number for number in range(8) if number not in kept))
        script.empty_cache()
        for size in (12 * _MIB, 6 * _MIB, 600 * _KIB):
            script.malloc(size)
        _frees(script, *sorted(kept))
        script.empty_cache()
        script.empty_cache()
        script.malloc(9 * _MIB)
        scripts.append(script)
    first = Script()
    first.empty_cache()
    first.malloc(sampler.integer(1, 9 * _MIB))
    yield _case("cache", sampler.permutation([*scripts, first]), ("returned", "reserved", "segments"))


def _memory_error(sampler: Sampler) -> Iterator[Case]:
    compared = ("returned", "reserved", "segments")
    sizes = sampler.shuffled((700, 2 * _MIB), (3 * _MIB, 20 * _MIB), (10 * _MIB, 10 * _MIB), (30 * _MIB + 1, 32 * _MIB))
    exact = [
        _mallocs(size, size, capacity=capacity + beyond)
        for size, capacity in sizes
        for beyond in sampler.shuffled(-1, 0, 1)
    ]
    yield _case("memory_error", [*exact, _mallocs(1, capacity=0), _mallocs((1 << 53) + 1, capacity=8 * _MIB)], compared)
    yield _case("memory_error", [*_helped(sampler), *_not_helped(sampler)], compared)


def _helped(sampler: Sampler) -> list[Script]:
    """Requests that an emptied cache makes room for, of either pool, and one that a full card serves from its cache."""
    scripts = []
    for cached, asked in sampler.shuffled((20, 30), (30, 4), (1, 39), (6, 25)):
        script = _frees(_mallocs(cached * _MIB, capacity=40 * _MIB), 0)
        script.malloc(asked * _MIB - sampler.integer(1, 400))
        scripts.append(script)
    script = _frees(_mallocs(38 * _MIB, capacity=39 * _MIB), 0)
    script.malloc(sampler.integer(1, 900))
    several = _frees(_mallocs(12 * _MIB, 14 * _MIB, 600, capacity=40 * _MIB), 0, 1, 2)
    several.malloc(20 * _MIB)
    full = _frees(_mallocs(20 * _MIB, 18 * _MIB, 900, capacity=40 * _MIB), 1, 2)
    full.malloc(18 * _MIB)
    full.malloc(_MIB)
    return sampler.permutation([*scripts, script, several, full])


def _not_helped(sampler: Sampler) -> list[Script]:
    """Requests that are refused, with blocks in use and cached; what comes after goes on from there."""
    scripts = []
    for asked in sampler.shuffled(
        30 * _MIB + sampler.integer(1, 400), 24 * _MIB + sampler.integer(1, 400), (1 << 40) + 1
    ):
        script = _frees(_mallocs(6 * _MIB, 8 * _MIB, 6 * _MIB, 12 * _MIB, 600 * _KIB, capacity=41 * _MIB), 0, 2, 3, 4)
        script.malloc(asked)
        for size in (6 * _MIB, asked, 2 * sampler.integer(6, 10) * _MIB):
            script.malloc(size)
        script.free(1)
        script.malloc(40 * _MIB)
        scripts.append(script)
    pieces = _frees(_mallocs(*[9 * _MIB] * 4, capacity=sampler.choice([40, 41]) * _MIB), 0, 2)
    pieces.empty_cache()
    pieces.malloc(sampler.integer(11, 18) * _MIB)
    pieces.malloc(sampler.integer(1, 9))
    pieces.malloc(9 * _MIB)
    full = _mallocs(*[_MIB] * 4, sampler.integer(1, 999), capacity=4 * _MIB)
    return sampler.permutation([*scripts, pieces, full])


def _errors(sampler: Sampler) -> Iterator[Case]:
    """What is refused, between calls that are not."""
    compared = ("returned", "in_use")
    sizes = []
    for wrong in sampler.shuffled(0, -1, -sampler.integer(2, 5000), -(1 << 40)):
        for capacity in (21 * _MIB, 24 * _MIB):
            script = _frees(_mallocs(20 * _MIB, capacity=capacity), 0)
            script.malloc(wrong)
            script.malloc(20 * _MIB)
            sizes.append(script)
    addresses = []
    for unit in sampler.shuffled(600 * _KIB, 6 * _MIB):
        for beyond in sampler.shuffled(1, -1, 512, -512, unit - 512, 3 * unit):
            script = _mallocs(unit, unit, unit)
            script.free(1, beyond)
            script.free(1)
            addresses.append(script)
        for wrong in sampler.shuffled(0, -1, sampler.integer(1, 99) * 512, unit):
            script = _mallocs(unit, unit)
            script.free_at(wrong)
            addresses.append(script)
        for first, second in sampler.shuffled((0, 0), (1, 1), (2, 2), (0, 1), (1, 0), (2, 1)):
            script = _frees(_mallocs(unit, unit, unit, unit), *dict.fromkeys((first, second)), second, first)
            script.malloc(unit)
            script.malloc(unit)
            script.free(second)
            addresses.append(script)
    gone = _frees(_mallocs(12 * _MIB, 5000), 0)
    gone.empty_cache()
    gone.free(0)
    gone.free(1)
    other = Script(_ROOMY, _ROOMY)
    for size, of in ((5000, 0), (7000, 0), (5000, 1)):
        other.malloc(size, of)
    other.free(1, of=1)
    other.free(0, of=1)
    other.free(1)
    yield _case("errors", sizes, compared)
    yield _case("errors", [*addresses, gone, other], compared)


def _long_traces(sampler: Sampler) -> Iterator[Case]:
    """Random actions, after a few that each trace is to have met."""
    for _ in range(3):
        even = 2 * sampler.integer(15, 25) * _MIB
        roomy = _mallocs(10 * _MIB - sampler.integer(1, 511))
        exact = _frees(_mallocs(even - 2 * _MIB, sampler.integer(1, 900), capacity=even), 0)
        cached = _frees(_mallocs(12 * _MIB, 14 * _MIB, 20 * _MIB, capacity=60 * _MIB + 1), 0, 1)
        cached.malloc(24 * _MIB)
        tight = Script(sampler.integer(4, 30) * _MIB)
        unseen, unseen_too = Script(_ROOMY, look=False), Script(sampler.integer(30, 70) * _MIB, look=False)
        scripts = [roomy, exact, cached, tight, unseen, unseen_too, Script(sampler.integer(40, 60) * _MIB, _ROOMY)]
        for script in scripts:
            for _ in range(42):
                _act(sampler, script, sampler.integer(0, script.allocators - 1))
        yield _case("long_traces", sampler.permutation(scripts))


def _act(sampler: Sampler, script: Script, of: int) -> None:
    """One action, more often a malloc than a free while little is in use."""
    in_use = script.in_use(of)
    if in_use and sampler.chance(len(in_use) / 24 + 0.25):
        script.free(sampler.choice(in_use), of=of)
    elif sampler.chance(0.04):
        script.empty_cache(of)
    elif sampler.chance(0.06):
        _frees_all(script, of, sampler.permutation(in_use))
    else:
        script.malloc(_size(sampler, script.free_sizes(of)), of)


def _frees_all(script: Script, of: int, numbers: list[int]) -> None:
    for number in numbers:
        script.free(number, of=of)


def _size(sampler: Sampler, free: list[int]) -> int:
    """Of any kind; as often as not one that leaves a rest near what is split off, of a block that is free."""
    if free and sampler.chance(0.5):
        return max(1, sampler.choice(free) - sampler.choice((0, 0, 511, 512, 1024, _MIB, _MIB + 512)))
    kind = sampler.choice(("bytes", "small", "small", "edge", "large", "large", "whole"))
    if kind == "edge":
        return sampler.choice(
            (512, 1024, _MIB - 512, _MIB, 9 * _MIB, 10 * _MIB - 512, 10 * _MIB, 12 * _MIB)
        ) + sampler.integer(-1, 1)
    low, high = {"bytes": (1, 4096), "small": (1, _MIB), "large": (_MIB + 1, 9 * _MIB), "whole": (9 * _MIB, 30 * _MIB)}[
        kind
    ]
    return sampler.integer(low, high)


def _judge(case: Traces, evidence: dict) -> Iterator[Failure]:
    played = value_of(evidence["played"])
    if problem := count_problem(played, len(case.scripts)) or _first_problem(case, played):
        yield Failure(*case.criteria, problem)


def _first_problem(case: Traces, played: list[dict]) -> str | None:
    for script, found in zip(case.scripts, played):
        if problem := raised_problem(found["error"]) if "error" in found else _trace_problem(case, script, found):
            return problem
    return None


def _trace_problem(case: Traces, script: Script, found: dict) -> str | None:
    if problem := count_problem(found["steps"], len(script.expected)) or count_problem(found["end"], len(script.end())):
        return problem
    before = None
    for step, expected in zip(found["steps"], script.expected):
        if problem := _step_problem(case, step, expected, before):
            return problem
        before = step.get("looked")
    for step, expected in zip(found["end"], script.end()):
        if problem := _looked_problem(case, step, expected):
            return problem
    return None


def _step_problem(case: Traces, step: dict, expected: dict, before: dict | None) -> str | None:
    (criteria,) = case.criteria
    if problem := _call_problem(criteria, step, expected, "returned" in case.compared):
        return problem
    if "looked" not in step:
        return None
    if problem := _looked_problem(case, step, expected["looked"]):
        return problem
    if expected.get("raises") == "ValueError" and before is not None and step["looked"] != before:
        return "A call that is refused with ValueError has changed something."
    return None


def _call_problem(criteria: str, step: dict, expected: dict, compares: bool) -> str | None:
    """What a call returned or raised."""
    if "raises" in expected:
        if problem := error_problem(step, expected["raises"]):
            return f"{problem} {_DUE_ERROR[expected['raises']]}"
        return (
            _text_problem(step["error"]["message"], expected["named"])
            if criteria == "memory_error" and "named" in expected
            else None
        )
    if "error" in step:
        told = raised_problem(step["error"])
        return f"{told} {_DUE_ERROR['none']}" if "MemoryError" in step["error"]["kinds"] else told
    if expected["returned"] is None or not compares:
        return None
    if type(step["returned"]) is not int:
        return f"malloc returned {type_name(step['returned'])}; expected an address, a Python integer."
    return None if step["returned"] == expected["returned"] else _WRONG[criteria]


def _text_problem(message: str, named: tuple[int, int]) -> str | None:
    numbers = set(map(int, re.findall(r"\d+", message[:2000])))
    if named[0] not in numbers:
        return "The message of the MemoryError does not hold the size that malloc was called with."
    if named[1] not in numbers:
        return "The MemoryError does not say how many bytes are reserved but not allocated, the cache being empty."
    return None


def _looked_problem(case: Traces, step: dict, expected: dict) -> str | None:
    (criteria,) = case.criteria
    looked = step["looked"]
    if step["blind"] is not None or not isinstance(looked, dict):
        return raised_problem(step["blind"])
    if problem := _kind_problem(looked):
        return problem
    if criteria in ("merging", "long_traces") and (problem := _law_broken(looked)):
        return problem
    for what in case.compared:
        if what in _READ and _READ[what](looked) != _READ[what](expected):
            return _WRONG.get(what) if criteria == "long_traces" else _WRONG[criteria]
    return None


_READ = {
    "allocated": lambda looked: looked["allocated"],
    "reserved": lambda looked: looked["reserved"],
    "segments": lambda looked: [segment[:2] for segment in looked["segments"]],
    "blocks": lambda looked: looked["segments"],
    "in_use": lambda looked: [address for segment in looked["segments"] for address, _, used in segment[2] if used],
}


def _kind_problem(looked: dict) -> str | None:
    """Why what an allocator says of itself cannot be compared, or None."""
    for name in ("allocated", "reserved"):
        if type(looked[name]) is not int:
            return f"`{name}` is {type_name(looked[name])}; expected a property that is a Python integer."
    segments = looked["segments"]
    if not _rows(segments, int, int, list) or not all(_rows(blocks, int, int, bool) for _, _, blocks in segments):
        return "`segments()` is not a list of (address, size, blocks), with blocks a list of (address, size, used)."
    return None


def _rows(value: Any, *kinds: type) -> bool:
    return isinstance(value, list) and all(isinstance(row, list) and [*map(type, row)] == [*kinds] for row in value)


def _law_broken(looked: dict) -> str | None:
    """What holds of every allocator of this kind, whatever was asked of it: a reference beside the card's."""
    segments = looked["segments"]
    if any(address + size > after for (address, size, _), (after, _, _) in itertools.pairwise(segments)):
        return "Two segments overlap, or do not stand by address."
    for address, size, blocks in segments:
        places = [begin for begin, _, _ in blocks] + [address + size]
        if places[0] != address or any(begin + long != after for (begin, long, _), after in zip(blocks, places[1:])):
            return "The blocks of a segment do not fill it without a gap: bytes are lost, or handed out twice."
        if any(not used and not behind for (_, _, used), (_, _, behind) in itertools.pairwise(blocks)):
            return "Two free blocks stand side by side in a segment: they are due to be one."
    if looked["reserved"] != sum(size for _, size, _ in segments):
        return "`reserved` is not the sum of the segments."
    if looked["allocated"] != sum(size for _, _, blocks in segments for _, size, used in blocks if used):
        return "`allocated` is not the sum of the blocks in use."
    return None


_DUE_ERROR = {
    "ValueError": "A size below 1 and an address where no block in use begins are refused.",
    "MemoryError": "No free block is large enough, and the driver has no segment to give, also after the cache was emptied.",
    "none": "A free block is large enough, or the driver has a segment to give once the cache is emptied.",
}
_WRONG = {
    "segments": "The driver was not asked for what is due: the rounded request decides on the pool and on the size of the "
    "segment, and a segment stays when its blocks are freed.",
    "splitting": "A block was not split as is due: requests are rounded up to 512 bytes, and a rest is split off from 512 bytes "
    "on in the small pool, and in the large one beyond 1 MiB.",
    "best_fit": "Another block was handed out than the smallest that is large enough, in the request's own pool, and of several "
    "the one with the lowest address.",
    "merging": "A block that is freed becomes one with the free blocks on both sides of it, and never with one of another "
    "segment.",
    "counts": "`allocated` counts the blocks in use with their own sizes, whatever was asked for; `reserved` counts the "
    "segments.",
    "cache": "`empty_cache` is to give back the segments that have no block in use, all of them and no others, and their "
    "addresses do not come again.",
    "memory_error": "When the driver refuses, the cache is emptied, in both pools, and the driver is asked once more; before "
    "that nothing is given back, and a refusal takes no address.",
    "errors": "Another block is in use than is due, among calls that are refused.",
    "long_traces": "In a long trace another block is handed out than is due.",
    "allocated": "In a long trace `allocated` is not the sum of the blocks that are due to be in use.",
    "reserved": "In a long trace `reserved` is not the sum of the segments that are due to be held.",
    "blocks": "In a long trace the blocks are not those that are due: see how they are split, merged and given back.",
}

exercise = Exercise(
    criteria=(
        Criterion("segments", 1, "the driver is asked for segments of the sizes of each pool"),
        Criterion(
            "splitting", 1, "requests are rounded, and what is left of a block is split off where the rules say so"
        ),
        Criterion("best_fit", 1, "the smallest free block of the pool that is large enough is taken"),
        Criterion("merging", 1, "free neighbours become one block, inside a segment"),
        Criterion("counts", 1, "allocated and reserved count blocks and segments"),
        Criterion("cache", 1, "empty_cache gives back the segments that have no block in use, and no others"),
        Criterion(
            "memory_error",
            1,
            "memory runs out when PyTorch's would, after the cache was emptied, and the error says so",
        ),
        Criterion("errors", 1, "sizes and addresses of no use are refused with ValueError"),
        Criterion("long_traces", 1, "long random traces go as on the virtual card"),
    ),
    cases=_cases,
    judge=_judge,
)
