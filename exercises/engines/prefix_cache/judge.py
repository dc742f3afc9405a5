"""E19.5 prefix_cache: cases and judge. Each event's answer is compared with a model's, and tables with what lies in a shadow memory."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from exercises.engines.prefix_cache.model import Script
from exercises.engines.prefix_cache.runs import a_run, draw_ids

_MORE_WORK = 4
"""As many times as long may a call take on the large cache; the least of many, in turns, of calls that do the same."""


@dataclass(frozen=True)
class Traces(Case):
    """``scripts``: the traces with what is due."""

    scripts: tuple[Script, ...] = ()


def _case(criteria: str, scripts: Sequence[Script]) -> Traces:
    return Traces((criteria,), {"traces": [script.inputs() for script in scripts]}, scripts=tuple(scripts))


def _cases(sampler: Sampler) -> Iterator[Case]:
    makers = {
        "found": (_lengths, _chunks, _outputs),
        "apart": (_alike, _hashes, _kinds),
        "tables": (_tables,),
        "no_room": (_no_room,),
        "free": (_free,),
        "kept": (_kept,),
        "copies": (_copies,),
        "runs": (_runs,),
    }
    for criteria, make in sampler.permutation([(criteria, make) for criteria in makers for make in makers[criteria]]):
        yield _case(criteria, sampler.permutation(list(make(sampler))))
    timed = [
        {"blocks": [60, blocks], "kept": kept, "rounds": 25}
        for blocks, kept in sampler.shuffled((4000, True), (60_000, False))
    ]
    yield Case(("work",), {"timed": timed})


def _probe(script: Script, ids: Sequence[int], of: int = 0, **fields) -> int:
    """What someone who waits is told, and is gone."""
    return script.found(script.comes(ids, of, **fields))


def _lengths(sampler: Sampler) -> Iterator[Script]:
    """Someone's whole prompt, parts of it on both sides of every block's end, more than it, and what parts from it somewhere."""
    for size in sampler.shuffled(1, 2, 3, 5, 16):
        script = Script((40, size))
        ids = draw_ids(sampler, 3 * size + sampler.integer(0, size - 1))
        _probe(script, ids)
        script.came(ids)
        for n in sampler.permutation(
            sorted({1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1, 3 * size, len(ids)} - {0})
        ):
            _probe(script, ids[:n])
        _probe(script, (*ids, *draw_ids(sampler, 2 * size + 1)))
        for at in sampler.shuffled(0, size - 1, size, 2 * size, 3 * size - 1):
            _probe(script, (*ids[:at], *draw_ids(sampler, 1), *ids[at + 1 :], 1))
        script.came((*ids[: 2 * size], *draw_ids(sampler, 2 * size)))
        _probe(script, (*script.requests[-1]["ids"], 5))
        _probe(script, ids)
        yield script


def _chunks(sampler: Sampler) -> Iterator[Script]:
    """A prompt in pieces, looked for before and after each; given up in the middle."""
    for size in sampler.shuffled(2, 3, 4):
        ids = draw_ids(sampler, 4 * size + 1)
        for end in sampler.shuffled("finished", "given up", "at once given up"):
            script = Script((30, size), look=sampler.chance(0.5))
            number = script.comes(ids)
            script.found(number)
            script.reserve(number, len(ids))
            _probe(script, ids)
            script.copies()
            pieces = {
                "finished": [1, size - 1, size, size - 1, 2, size],
                "given up": [size, size - 1],
                "at once given up": [],
            }[end]
            for piece in pieces:
                script.compute(number, piece)
                _probe(script, (*ids, 3))
            script.release(number)
            _probe(script, (*ids, 3))
            yield script


def _outputs(sampler: Sampler) -> Iterator[Script]:
    """What was written is found as what was read, but for the token that was told last; after a preemption, too."""
    for size, preempted in itertools.product((2, 3), (False, True)):
        script = Script((30, size))
        number = script.comes(draw_ids(sampler, size + 1))
        script.let_in(number)
        for token in draw_ids(sampler, 2 * size - 1):
            script.tell(number, token)
            _probe(script, (*script.live(number).ids, 1))
            script.goes_on(number)
        script.tell(number, 7)
        whole = [*script.live(number).ids, *draw_ids(sampler, 2)]
        script.release(number)
        _probe(script, whole)
        if preempted:
            script.waits(number)
            script.let_in(number)
            script.writes(number, *draw_ids(sampler, size))
            _probe(script, (*script.live(number).ids, 1))
            script.release(number)
        _probe(script, whole)
        yield script


def _alike(sampler: Sampler) -> Iterator[Script]:
    """The same block after another one, at another place, with its tokens in another order, in another cache."""
    for size in sampler.shuffled(2, 3, 4):
        a, b, c = (draw_ids(sampler, size) for _ in range(3))
        script = Script((30, size), (30, size))
        script.came((*a, *b))
        for blocks in sampler.shuffled((b,), (b, a), (a, c, b), (c, b), (a, a), (a[::-1], b), (a, b[::-1]), (a, b)):
            _probe(script, (*itertools.chain(*blocks), 1))
        script.came((*a, *a, *c))
        for blocks in sampler.shuffled((a, c), (a, a, c), (a, a, a), (c,), (a, b)):
            _probe(script, (*itertools.chain(*blocks), 1))
        _probe(script, (*a, *b, 1), of=1)
        script.came((*c, *b), of=1)
        _probe(script, (*c, *b, 1))
        _probe(script, (*c, *b, 1), of=1)
        yield script


def _hashes(sampler: Sampler) -> Iterator[Script]:
    """Ids of which Python's hash, 32 bits, a float or their digits one after the other are equal."""
    n, far = sampler.integer(1, 1000), sampler.integer(1, 99) << 40
    prime = 2**61 - 1
    pairs = [
        (0, prime),
        (n, n + prime),
        (n, n + 2**32),
        (2**53 + far, 2**53 + far + 1),
        (2**63 - 1, 2**63),
        (n, n + 256),
        (n, n + 65536),
    ]
    for first, second in sampler.permutation(pairs):
        script, after = Script((30, 2)), draw_ids(sampler, 3)
        script.came((first, after[0], *after))
        for ids in sampler.shuffled((second, after[0], *after), (first, after[0], *after)):
            _probe(script, ids)
        yield script
    script = Script((30, 2))
    script.came((1, 23, 45, 6, 7))
    for ids in sampler.shuffled(
        (12, 3, 45, 6, 7), (1, 23, 4, 56, 7), (1, 2, 345, 6, 7), (23, 1, 45, 6, 7), (1, 23, 45, 6, 7)
    ):
        _probe(script, ids)
    yield script


def _kinds(sampler: Sampler) -> Iterator[Script]:
    """Images, requests that are whole or only counted, and what plays no part."""
    images = (None, "", "None", "a", "b")
    script, ids = Script((60, 2)), draw_ids(sampler, 5)
    for image in sampler.permutation(images):
        _probe(script, ids, image=image)
        script.came(ids, image=image, name="same", priority=sampler.integer(0, 3))
    for image in sampler.permutation(images):
        _probe(script, (*ids, 4), image=image, name="other", priority=sampler.integer(4, 6), arrival_us=0.5)
        _probe(script, (*draw_ids(sampler, 4), 4), image=image, name="same")
    yield script
    for first, second in sampler.shuffled((True, False), (False, True), (True, True)):
        script, ids = Script((30, 3)), draw_ids(sampler, 8)
        script.came(ids, whole=first)
        _probe(script, ids, whole=second)
        number = script.comes(ids, whole=second)
        script.let_in(number)
        script.writes(number, *draw_ids(sampler, 3))
        _probe(script, (*script.live(number).ids, 1), whole=first)
        script.release(number)
        _probe(script, ids)
        yield script
    script = Script((30, 2))
    for counted in sampler.shuffled(6, 7):
        number = script.comes(counted=counted, prefix=[1, 2])
        script.let_in(number)
        script.tell(number)
        script.goes_on(number)
        script.found(script.comes(counted=counted, prefix=[1, 2]))
        script.release(number)
        script.found(script.comes(counted=counted, prefix=[1, 2]))
    ids = draw_ids(sampler, 5)
    script.came(ids)
    _probe(script, ids)
    yield script


def _tables(sampler: Sampler) -> Iterator[Script]:
    """Requests that share and go on writing, in several orders; one that shares nothing because it was not asked what it finds."""
    for size in sampler.shuffled(1, 2, 3, 4):
        ids, script = draw_ids(sampler, 3 * size), Script((40, size), look=True)
        first = script.comes((*ids, *draw_ids(sampler, sampler.integer(1, size))))
        script.let_in(first)
        others = [
            script.comes((*ids[: n * size], *draw_ids(sampler, sampler.integer(1, 2 * size))))
            for n in sampler.shuffled(1, 2, 3, 0)
        ]
        for number in others:
            script.let_in(number)
        unasked = script.comes((*ids, *draw_ids(sampler, 2)))
        script.goes_on(unasked)
        for _ in range(size + 1):
            for number in sampler.permutation([first, unasked, *others]):
                script.writes(number, *draw_ids(sampler, 1))
        for number in sampler.permutation([first, unasked]):
            script.release(number)
        again = script.comes((*ids, *draw_ids(sampler, 3)))
        script.let_in(again, sampler.integer(1, 2))
        script.goes_on(again)
        script.reserve(again, 3 * size)
        script.reserve(again, 1)
        for number in sampler.permutation(others):
            script.writes(number, *draw_ids(sampler, 2))
            script.release(number)
        script.writes(again, *draw_ids(sampler, size + 1))
        yield script


def _filling(sampler: Sampler, script: Script, ids: Sequence[int], more: int) -> int:
    """A request with these ids and tokens for so many further blocks, not yet let in; its last block lacks a token."""
    return script.comes((*ids, *draw_ids(sampler, more * script.caches[0][1] - 1)))


def _no_room(sampler: Sampler) -> Iterator[Script]:
    for size, over, held in itertools.product((2, 3), (0, 1), (False, True)):
        total = sampler.integer(7, 9)
        ids, script = draw_ids(sampler, 3 * size), Script((total, size))
        first = script.comes((*ids, 9))
        script.let_in(first)
        if not held:
            script.release(first)
        number = _filling(sampler, script, ids, total - 3 - held + over)
        if not script.let_in(number):
            _probe(script, (*ids, 8))
            script.let_in(_filling(sampler, script, (), total - 4 if held else total))
        else:
            script.tell(number, 1)
            script.goes_on(number)
            script.tell(number, 2)
            script.goes_on(number)
        _probe(script, (*ids, 8))
        yield script
    yield from (_gone(sampler, size) for size in (2, 3))
    yield from (_no_room_for_a_copy(sampler, size) for size in (2, 3))
    yield from (_no_room_to_go_on(sampler, size) for size in (2, 3))
    yield from (Script(sizes) for sizes in sampler.shuffled((0, 4), (4, 0), (-1, 4), (4, -2), (0, 0), (1, 1)))


def _gone(sampler: Sampler, size: int) -> Script:
    """What two found is taken by one of them; the other is refused, and asks again."""
    script, a, b = Script((9, size)), draw_ids(sampler, 3 * size), draw_ids(sampler, 3 * size)
    for ids in (a, b, draw_ids(sampler, 3 * size)):
        script.came(ids)
    one, two = _filling(sampler, script, b, 2), script.comes((*a, 1))
    script.found(one)
    script.found(two)
    script.reserve(one, 2 * size - 1)
    script.reserve(two, 1)
    script.copies()
    script.compute(one, 2 * size - 1)
    script.found(two)
    script.release(one)
    script.let_in(two)
    return script


def _no_room_to_go_on(sampler: Sampler, size: int) -> Script:
    """Someone asks for a block more than there is, and then for as many as there are; what is kept stays till then."""
    script, kept = Script((8, size)), draw_ids(sampler, 2 * size)
    script.came(kept)
    number = script.comes(draw_ids(sampler, size + 1))
    script.let_in(number)
    script.reserve(number, 6 * size)
    script.reserve(number, 5 * size + size)
    _probe(script, (*kept, 1))
    script.let_in(_filling(sampler, script, (), 7))
    _probe(script, (*kept, 1))
    script.reserve(number, 6 * size - 1)
    script.reserve(number, 9 * size)
    _probe(script, (*kept, 1))
    return script


def _no_room_for_a_copy(sampler: Sampler, size: int) -> Script:
    """Someone holds all blocks of a prompt, and there are no others: no copy can be made, and none is needed when he has gone."""
    script, ids = Script((3, size)), draw_ids(sampler, 3 * size)
    first = script.comes(ids)
    script.let_in(first)
    second = script.comes(ids)
    script.found(second)
    script.reserve(second, 1)
    script.copies()
    script.release(first)
    script.let_in(second)
    script.writes(second, 5)
    script.release(second)
    script.let_in(_filling(sampler, script, (), 3))
    return script


def _free(sampler: Sampler) -> Iterator[Script]:
    """Who shares goes in every order, some twice; at the end a single request takes all blocks."""
    for size, order in zip(
        itertools.cycle(sampler.shuffled(1, 2, 3)), sampler.permutation(list(itertools.permutations(range(3))))
    ):
        ids, script = draw_ids(sampler, 2 * size), Script((12, size))
        numbers = [script.comes((*ids, *draw_ids(sampler, n * size + 1))) for n in range(3)]
        script.release(numbers[0])
        for number in numbers:
            script.let_in(number)
        for place in order:
            script.release(numbers[place])
            if sampler.chance(0.5):
                script.release(numbers[place])
        script.waits(numbers[order[0]])
        script.let_in(numbers[order[0]])
        script.release(numbers[order[0]])
        script.let_in(_filling(sampler, script, (), 12))
        yield script
    for at_once in (True, False):
        ids, script = draw_ids(sampler, 9), Script((8, 4))
        (model,) = script.models
        model.strict = False
        numbers = [script.comes(ids) for _ in range(2)]
        for number in numbers:
            script.found(number)
        for number in numbers:
            script.reserve(number, 9)
        script.copies()
        for number in numbers:
            script.compute(number, 9)
            if not at_once:
                _probe(script, ids)
        for number in sampler.permutation(numbers):
            script.release(number)
        _probe(script, ids)
        script.let_in(_filling(sampler, script, (), 8))
        yield script


def _kept(sampler: Sampler) -> Iterator[Script]:
    """Three prompts fill a cache; some are used again, some are held; then new ones take block after block."""
    for use in sampler.shuffled("none", "hit", "asked", "held", "longer", "unfound", "late"):
        size = sampler.integer(2, 4)
        total = 7
        script, prompts = Script((total, size)), [draw_ids(sampler, 2 * size) for _ in range(3)]
        prompts = sampler.permutation(prompts)
        for prompt in prompts:
            script.came(prompt)
        held = _use(script, sampler, use, prompts, size)
        for _ in range(5):
            script.came(draw_ids(sampler, size))
            for prompt in sampler.permutation(prompts):
                _probe(script, (*prompt, 1))
        if held is not None:
            script.release(held)
        for number in (2, 1):
            script.let_in(blocks := _filling(sampler, script, (), number))
            script.release(blocks)
            for prompt in prompts:
                _probe(script, (*prompt, 1))
        yield script
    yield from (_shared_parent(sampler, first) for first in (0, 1))
    yield from (_one_release(sampler, size) for size in (2, 3))
    yield _the_same_twice(sampler)


def _use(script: Script, sampler: Sampler, use: str, prompts: list, size: int) -> int | None:
    oldest = prompts[0]
    if use in ("hit", "held"):
        number = script.comes((*oldest, 3))
        script.let_in(number)
        if use == "held":
            return number
        script.release(number)
    if use == "asked":
        for _ in range(3):
            _probe(script, (*oldest, 3))
    if use == "longer":
        script.came((*oldest[:size], *draw_ids(sampler, 1)))
    if use == "unfound":
        script.let_in(number := _filling(sampler, script, (), 1))
        script.release(number)
    if use == "late":
        number = script.comes((*oldest, 3))
        script.let_in(number)
        script.came((*oldest, 4))
        script.came((*prompts[1], 4))
        script.release(number)
    return None


def _shared_parent(sampler: Sampler, first: int) -> Script:
    """Two go on from the same beginning and are released one after the other: what they share was used last."""
    size = sampler.integer(2, 3)
    start, ends = draw_ids(sampler, 2 * size), [draw_ids(sampler, 2 * size) for _ in range(2)]
    script = Script((8, size))
    numbers = [script.comes((*start, *end)) for end in ends]
    for number in numbers:
        script.let_in(number)
    script.release(numbers[first])
    other = draw_ids(sampler, 2 * size)
    script.came(other)
    script.release(numbers[1 - first])
    for _ in range(7):
        script.came(draw_ids(sampler, size))
        for ids in ((*start, *ends[0], 1), (*start, *ends[1], 1), (*other, 1)):
            _probe(script, ids)
    return script


def _one_release(sampler: Sampler, size: int) -> Script:
    """One long prompt, eaten up from behind."""
    script, ids = Script((6, size)), draw_ids(sampler, 5 * size)
    script.came(ids)
    for _ in range(6):
        script.came(draw_ids(sampler, size))
        _probe(script, (*ids, 1))
    return script


def _the_same_twice(sampler: Sampler) -> Script:
    """What was computed a second time is the first to go, and the first copy stays."""
    script, ids, other = Script((6, 2)), draw_ids(sampler, 4), draw_ids(sampler, 4)
    script.came(ids)
    script.came(other)
    again = script.comes(ids)
    script.goes_on(again)
    script.release(again)
    for _ in range(4):
        script.came(draw_ids(sampler, 2))
        for prompt in (ids, other):
            _probe(script, (*prompt, 1))
    return script


def _copies(sampler: Sampler) -> Iterator[Script]:
    for size, blocks in zip(itertools.cycle(sampler.shuffled(2, 3, 4)), sampler.shuffled(1, 2, 3, 2)):
        yield _copied(sampler, size, blocks)
        yield _in_place(sampler, size, blocks)
        yield _source_goes(sampler, size, blocks)
        yield _copies_in_turn(sampler, size, blocks)


def _copied(sampler: Sampler, size: int, blocks: int) -> Script:
    """Several with the same whole prompt in one plan, while its first holder writes on; then each writes something else."""
    script, ids = Script((30, size)), draw_ids(sampler, blocks * size)
    first = script.comes(ids)
    script.let_in(first)
    if sampler.chance(0.5):
        script.writes(first, *draw_ids(sampler, 1))
    longer = script.comes((*ids, 1, 2))
    script.let_in(longer)
    numbers = [script.comes(ids) for _ in range(3)]
    for number in numbers:
        script.found(number)
    for number in numbers:
        script.reserve(number, 1)
    script.copies()
    script.copies()
    for number in sampler.permutation(numbers):
        script.compute(number, 1)
    for _ in range(size + 1):
        for number in sampler.permutation([first, longer, *numbers]):
            script.writes(number, *draw_ids(sampler, 1))
    for number in sampler.permutation([first, longer, *numbers]):
        script.release(number)
    _probe(script, ids)
    script.let_in(script.comes(draw_ids(sampler, 3)))
    return script


def _in_place(sampler: Sampler, size: int, blocks: int) -> Script:
    """Nobody holds the block any more: no copy, and nobody finds it while it is written."""
    script, ids = Script((12, size)), draw_ids(sampler, blocks * size)
    script.came(ids)
    second, third, longer = script.comes(ids), script.comes(ids), script.comes((*ids, 4))
    for number in (second, third, longer):
        script.found(number)
    script.reserve(second, 1)
    script.reserve(third, 1)
    script.reserve(longer, 1)
    script.found(third)
    script.copies()
    script.compute(second, 1)
    script.let_in(third)
    script.let_in(longer)
    script.writes(second, *draw_ids(sampler, 2))
    script.writes(third, *draw_ids(sampler, 2))
    for number in sampler.permutation([second, third, longer]):
        script.release(number)
    given_up = script.comes(ids)
    script.found(given_up)
    script.reserve(given_up, 1)
    script.copies()
    script.release(given_up)
    _probe(script, (*ids, 1))
    script.let_in(script.comes(ids))
    return script


def _source_goes(sampler: Sampler, size: int, blocks: int) -> Script:
    """Between the plan's copy and its carrying out the source is released, and given to another."""
    script, ids = Script((blocks + 3, size)), draw_ids(sampler, blocks * size)
    first, second = script.comes(ids), script.comes(ids)
    script.let_in(first)
    script.found(second)
    script.reserve(second, 1)
    script.release(first)
    third = script.comes(draw_ids(sampler, 3 * size))
    script.found(third)
    script.reserve(third, 3 * size)
    script.copies()
    script.compute(third, 3 * size)
    script.compute(second, 1)
    _probe(script, (*ids, 1))
    script.release(third)
    script.writes(second, *draw_ids(sampler, size))
    return script


def _copies_in_turn(sampler: Sampler, size: int, blocks: int) -> Script:
    """A block that was copied is released, and what another one holds is copied into it, all in one plan."""
    script, ids, other = Script((blocks + 2, size)), draw_ids(sampler, blocks * size), draw_ids(sampler, size)
    first, second, third, fourth = script.comes(ids), script.comes(ids), script.comes(other), script.comes(other)
    script.let_in(first)
    script.let_in(third)
    script.found(second)
    script.found(fourth)
    script.reserve(second, 1)
    script.release(first)
    script.reserve(fourth, 1)
    script.copies()
    for number in sampler.permutation([second, fourth]):
        script.compute(number, 1)
    script.release(fourth)
    script.writes(second, 5)
    return script


def _runs(sampler: Sampler) -> Iterator[Script]:
    for scheduler in sampler.shuffled(*["chunked"] * 4, *["continuous"] * 4):
        yield a_run(sampler, scheduler)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    if criteria == "work":
        problem = count_problem(evidence["timed"], len(case.inputs["timed"])) or _work_problem(evidence["timed"])
    else:
        problem = count_problem(evidence["played"], len(case.scripts)) or _first_problem(case, evidence["played"])
    if problem:
        yield Failure(criteria, problem)


def _work_problem(timed: list[dict]) -> str | None:
    for found in timed:
        if "error" in found:
            return raised_problem(found["error"])
        small, large = found["returned"]
        if not large <= _MORE_WORK * small:
            return "The same calls take several times as long on a large cache: something looks through all blocks, or all that is kept."
    return None


def _first_problem(case: Traces, played: list[dict]) -> str | None:
    (criteria,) = case.criteria
    for script, found in zip(case.scripts, played):
        if problem := _made_problem(script, found) or Read(criteria, script).problem(found["steps"]):
            return problem
    return None


def _made_problem(script: Script, found: dict) -> str | None:
    for sizes, made in zip(script.caches, found["made"], strict=True):
        if min(sizes) < 1:
            if problem := error_problem(made, "ValueError"):
                return f"{problem} No blocks, or none with room for a token, hold nothing."
        elif "error" in made:
            return raised_problem(made["error"])
        elif made["returned"] != [True, *sizes] or [type(said) for said in made["returned"]] != [bool, int, int]:
            return "The object's `shares` is to be True, and its `total` and `size` what was asked for."
    return None


class Read:
    """What was said and done in one trace, beside what was due. The memory holds for each slot what was last computed there."""

    def __init__(self, criteria: str, script: Script) -> None:
        self._criteria, self._script = criteria, script
        self._memory = [[[None] * max(size, 1) for _ in range(max(total, 0))] for total, size in script.caches]
        self._tables: list[list[int]] = [[] for _ in script.of]
        self._computed, self._ids = [0] * len(script.of), [list(request["ids"]) for request in script.requests]
        self._kinds: dict[tuple, int] = {}
        self._starts = [
            self._kind((request.get("image"), bool(request.get("whole")) and n))
            for n, request in enumerate(script.requests)
        ]
        self._content: list[list[int]] = [[] for _ in script.of]
        self._held = [False] * len(script.of)

    def problem(self, steps: list[dict]) -> str | None:
        if problem := count_problem(steps, len(self._script.events)):
            return problem
        for event, step, expected in zip(self._script.events, steps, self._script.expected):
            if problem := self._event_problem(event, step, expected):
                return problem
        return None

    def _event_problem(self, event: list, step: dict, expected: dict) -> str | None:
        of, what, number, *by = event
        if "error" in step:
            return raised_problem(step["error"])
        answer = getattr(self, f"_{what}")(of, number, step["returned"], expected["returned"], *by)
        return answer or ("free" in expected and self._looked_problem(of, step, expected)) or None

    def _found(self, of: int, number: int, said: Any, expected: int) -> str | None:
        if type(said) is not int:
            return f"found returned {type_name(said)}; expected a Python integer."
        self._computed[number] = expected
        if said > expected:
            return _TOO_MUCH.get(self._criteria, _TOO_MUCH["found"])
        return _TOO_LITTLE.get(self._criteria, _TOO_LITTLE["found"]) if said < expected else None

    def _reserve(self, of: int, number: int, said: Any, expected: bool, tokens: int) -> str | None:
        if type(said) is not bool:
            return f"reserve returned {type_name(said)}; expected True or False."
        self._held[number] |= expected
        if said != expected:
            return _REFUSED if expected else _GRANTED
        return None

    def _release(self, of: int, number: int, said: Any, expected: None) -> str | None:
        self._held[number] = False
        return None

    def _copies(self, of: int, number: None, said: Any, expected: list[int]) -> str | None:
        if not isinstance(said, list) or not all(
            isinstance(pair, list) and [*map(type, pair)] == [int, int] for pair in said
        ):
            return "copies is due to return a list of tuples (source, target) of Python integers."
        if len(said) != len(expected):
            return _COPIES[len(said) > len(expected)]
        memory = self._memory[of]
        for source, target in said:
            if not (0 <= source < len(memory) and 0 <= target < len(memory)):
                return "A copy names a block that does not exist."
            memory[target] = [*memory[source]]
        return None

    def _compute(self, of: int, number: int, said: Any, expected: None, tokens: int) -> str | None:
        """The new tokens are written, then all are read, as attention does."""
        table, size, memory = self._tables[number], self._script.caches[of][1], self._memory[of]
        first, last = self._computed[number], self._computed[number] + tokens
        written = set(table[first // size : -(-last // size)])
        for other, others in enumerate(self._tables):
            if other != number and self._script.of[other] == of and self._held[other] and written & set(others):
                return "A token is written into a block that another request holds too."
        content = self._contents(number, last)
        for t in range(first, last):
            memory[table[t // size]][t % size] = content[t]
        self._computed[number] = last
        if any(memory[table[t // size]][t % size] != content[t] for t in range(last)):
            return "A request reads keys and values that are not of its own beginning: its table's blocks hold something else."
        return None

    def _tell(self, of: int, number: int, said: Any, expected: None, *ids: int) -> None:
        self._ids[number] += ids

    def _waits(self, of: int, number: int, said: Any, expected: None) -> None:
        self._computed[number] = 0

    def _contents(self, number: int, tokens: int) -> list[int]:
        """What is to be where: a token's keys and values are made of it and of all before it."""
        content, ids = self._content[number], self._ids[number]
        while len(content) < tokens:
            at = len(content)
            token = ids[at] if ids else (number, at)
            content.append(self._kind((content[-1] if content else self._starts[number], token)))
        return content

    def _kind(self, key: tuple) -> int:
        return self._kinds.setdefault(key, len(self._kinds))

    def _looked_problem(self, of: int, step: dict, expected: dict) -> str | None:
        if step["blind"] is not None or not isinstance(step["looked"], dict):
            return raised_problem(step["blind"])
        looked, total = step["looked"], self._script.caches[of][0]
        mine = [number for number, its in enumerate(self._script.of) if its == of]
        if count_problem(looked["tables"], len(mine)):
            return "The record does not hold every table."
        for number, table in zip(mine, looked["tables"]):
            if not isinstance(table, list) or any(type(block) is not int or not 0 <= block < total for block in table):
                return "table is due to return a list of numbers of blocks, Python integers from 0 to total - 1."
            if len(set(table)) < len(table):
                return "A table names a block twice."
            if len(table) != expected["lengths"].get(number, 0):
                return _LENGTH[number in expected["lengths"]]
            self._tables[number] = table
        if type(looked["free"]) is not int:
            return f"`free` is {type_name(looked['free'])}; expected a property that is a Python integer."
        if looked["free"] != total - len({block for table in looked["tables"] for block in table}):
            return "`free` is not the number of blocks that are in nobody's table: shared ones count once, and kept ones are free."
        return None if looked["free"] == expected["free"] else _SHARED[looked["free"] > expected["free"]]


_TOO_MUCH = {
    "found": "More is found than is there: only full blocks, all of whose tokens are computed, can be found, and the last token never.",
    "apart": "A beginning is taken for another that differs from it: in tokens, in tokens before them, in the image, or in its kind.",
    "kept": "Something is found whose room should have gone to another: free blocks that cannot be found go first, then the one "
    "released longest ago, of a single release the one further back.",
}
_TOO_LITTLE = {
    "found": "Less is found than is there: a block can be found at the first call after its tokens are computed, output too, and "
    "for all that it is released, until its room is needed.",
    "apart": "A beginning that is the same is not found: only tokens and image tell blocks apart.",
    "kept": "Something is no longer found whose room was not needed, or not yet: of the free blocks, those that cannot be found go "
    "first, then the one released longest ago, of a single release the one further back.",
}
_REFUSED = "Room is refused that is there: kept blocks are free, and those that are found need no room."
_GRANTED = "Room is granted that is not there: what was found has gone, or a block would serve twice."
_COPIES = (
    "A copy is missing: the last token of a prompt that is there as a whole would be written into a block that another holds.",
    "A copy is made that is not due: a block is copied once, and only if another request holds it when its last token is written.",
)
_LENGTH = (
    "A request that holds nothing has blocks in its table.",
    "A table has more blocks, or fewer, than its tokens fill.",
)
_SHARED = (
    "A request takes blocks of its own where it was to share those that were found, or keeps some that nobody needs.",
    "Blocks are shared, or given back, that were not to be: what was not found, or is held by others.",
)


exercise = Exercise(
    criteria=(
        Criterion("found", 1, "full blocks of equal beginnings are found as soon as they are computed, and not before"),
        Criterion("apart", 1, "what is not the same is not taken for it, and what is the same is", ("found",)),
        Criterion("tables", 1, "every request reads its own tokens, and none writes where another reads"),
        Criterion("no_room", 1, "what has no room, or what was found and has gone, is refused, and nothing changes"),
        Criterion("free", 1, "every block that nobody holds is free, once"),
        Criterion("kept", 1, "free blocks are found until their room is needed, and go in order"),
        Criterion("copies", 1, "a block is copied before it is written into, and only if another holds it"),
        Criterion("runs", 1, "all that the engine asks in whole runs is answered rightly"),
        Criterion("work", 1, "calls take as long on a large cache as on a small one", ("found",)),
    ),
    cases=_cases,
    judge=_judge,
)
