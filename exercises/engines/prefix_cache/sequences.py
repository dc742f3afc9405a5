"""Sequences of calls for each criterion: some by hand, others drawn until they show what they are for and nothing besides."""

import itertools
from collections.abc import Iterator

from autograder.core.sampler import Sampler
from exercises.engines.prefix_cache.model import Script


def draw_ids(sampler: Sampler, n: int) -> tuple[int, ...]:
    return tuple(sampler.integer(0, 2**31) for _ in range(n))


def served(
    sampler: Sampler, about: str, sizes: tuple[int, int], least: dict[str, int] | None = None, **parts: bool
) -> Script:
    """What an engine asks in some thirty steps. ``least``: how often the model has met what, at least; what is not named, never."""
    for _ in range(4000):
        script = _served(sampler, Script(sizes, about=about), **parts)
        (model,) = script.models
        met = {name: getattr(model, name) for name in ("evicted", "refused", "partly", "twins", "copied", "taken")}
        if all(n >= least[name] if least and name in least else n == 0 for name, n in met.items()):
            return script
    raise RuntimeError(f"nothing drawn shows {least}")


def _served(
    sampler: Sampler, script: Script, whole_hits: bool = False, ahead: bool = False, plain: bool = False
) -> Script:
    """``whole_hits``: prompts that are there as a whole come too. ``ahead``: room is made for more than is computed.
    ``plain``: prompts are computed at once, and write nothing."""
    size, running, waiting = script.caches[0][1], [], []
    begun: list[tuple[int, ...]] = [draw_ids(sampler, 2 * size)]
    script.came((*begun[0], *draw_ids(sampler, 1)))

    def further(number: int, tokens: int) -> None:
        if not script.goes_on(number, tokens, sampler.choice((0, size, 2 * size + 1)) if ahead else 0):
            running.remove(number)
            script.leaves(number)
            waiting.append(number)

    for _ in range(40 if plain else 26):
        what = sampler.choice(
            ("comes", "comes", "again", *([] if plain else ["goes on"] * 3), "ends", "leaves", "asked")
        )
        if what == "comes" and len(running) < 4:
            start = sampler.choice(begun) if whole_hits else sampler.choice((sampler.choice(begun), ()))
            ids = (
                *start,
                *draw_ids(sampler, 0 if whole_hits and sampler.chance(0.6) else sampler.integer(1, 2 * size)),
            )
            waiting.append(script.comes(ids if whole_hits or len(ids) % size else (*ids, *draw_ids(sampler, 1))))
        if what in ("comes", "again") and waiting and len(running) < 4:
            number = waiting.pop(sampler.integer(0, len(waiting) - 1))
            left = script.live(number).tokens - script.found(number)
            chunk = left if plain else sampler.integer(1, left)
            if script.goes_on(number, chunk, sampler.choice((0, size + 1)) if ahead else 0):
                running.append(number)
            else:
                waiting.append(number)
        elif what == "goes on" and running:
            number = sampler.choice(running)
            live = script.live(number)
            if live.tokens == live.computed:
                script.tell(number, *draw_ids(sampler, 1))
            further(number, sampler.integer(1, live.tokens - live.computed))
        elif what in ("ends", "leaves") and running:
            number = running.pop(sampler.integer(0, len(running) - 1))
            live = script.live(number)
            done = live.computed // size * size
            begun += [tuple(live.ids[:done])] if done and live.computed == live.tokens else []
            if what == "leaves":
                script.leaves(number)
                waiting.append(number)
            else:
                script.release(number)
        elif what == "asked":
            script.probe((*sampler.choice(begun), *draw_ids(sampler, 1)))
    return script


def found(sampler: Sampler) -> Iterator[Script]:
    for size in sampler.shuffled(1, 2, 3, 5, 16):
        yield _lengths(sampler, size)
    for size, pieces in itertools.product(sampler.shuffled(2, 4), ("all", "some", "none")):
        yield _in_pieces(sampler, size, pieces)
    for size in sampler.shuffled(2, 3):
        yield _after_preemption(sampler, size)
        yield _unknown_ids(sampler, size)
    for size in sampler.shuffled(1, 2, 3):
        yield served(sampler, "requests come, write, are preempted and come again", (60, size))


def _lengths(sampler: Sampler, size: int) -> Script:
    """Someone's whole prompt, parts of it on both sides of every block's end, and what parts from it somewhere."""
    script, ids = Script((40, size), about="parts of a computed prompt are asked for"), draw_ids(sampler, 4 * size - 1)
    script.probe(ids)
    script.came(ids)
    for n in sampler.permutation(sorted({1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1, 3 * size, len(ids)})):
        script.probe(ids[:n])
    script.probe((*ids, *draw_ids(sampler, 2 * size + 1)))
    for at in sampler.shuffled(0, size - 1, size, 2 * size, 3 * size - 1):
        script.probe((*ids[:at], *draw_ids(sampler, 1), *ids[at + 1 :], 1))
    return script


def _in_pieces(sampler: Sampler, size: int, pieces: str) -> Script:
    """A prompt in pieces, looked for before and after each, while it is held and when it was given up."""
    script, ids = (
        Script((30, size), about="a prompt is computed in pieces, or given up"),
        draw_ids(sampler, 4 * size + 1),
    )
    number = script.comes(ids)
    script.found(number)
    script.reserve(number, len(ids))
    script.probe(ids)
    script.copies()
    parts = {"all": [1, size - 1, size, size - 1, 2, size], "some": [size, size - 1], "none": []}
    for piece in parts[pieces]:
        script.compute(number, piece)
        script.probe((*ids, 3))
    script.release(number)
    script.probe((*ids, 3))
    return script


def _after_preemption(sampler: Sampler, size: int) -> Script:
    """Output is found too. What was evicted after a preemption is computed anew, and found again."""
    script = Script((8, size), about="a request writes, is preempted, loses its blocks and computes them anew")
    number = script.comes(draw_ids(sampler, size + 1))
    script.let_in(number)
    for token in draw_ids(sampler, 2 * size - 2):
        script.writes(number, token)
        script.probe((*script.live(number).ids, 1))
    script.tell(number, 7)
    written = (*script.live(number).ids, *draw_ids(sampler, 2))
    script.probe(written)
    script.leaves(number)
    script.probe(written)
    script.came(draw_ids(sampler, 8 * size - 1))
    script.let_in(number)
    script.probe(written)
    script.writes(number, *draw_ids(sampler, size))
    script.probe((*script.live(number).ids, 1))
    script.release(number)
    script.probe(written)
    return script


def _unknown_ids(sampler: Sampler, size: int) -> Script:
    """All ids of a preempted request that are known fill blocks; its output was only counted."""
    script = Script((30, size), about="output tokens are only counted")
    number = script.comes(draw_ids(sampler, 2 * size))
    script.let_in(number)
    for _ in range(size - 1):
        script.tell(number)
        script.goes_on(number)
    script.tell(number)
    script.leaves(number)
    script.found(number)
    return script


def apart(sampler: Sampler) -> Iterator[Script]:
    yield from (_places(sampler, size) for size in sampler.shuffled(2, 3, 4))
    yield from _collisions(sampler)
    yield from _kinds(sampler)
    for size in sampler.shuffled(2, 3):
        plain = served(sampler, "requests come, write and are preempted", (60, size))
        script = plain.with_fields(
            name=("same",), prefix=((1, 2), (1, 2), (1, 3)), priority=(1, 0), arrival_us=(0.5, 9.5, 3.0)
        )
        script.about, script.control = (
            "requests have the same name, or differ in priority, arrival or `live.prefix` alone (else all goes right)",
            plain,
        )
        yield script


def _places(sampler: Sampler, size: int) -> Script:
    """The same block after another one, at another place, with its tokens in another order, in another cache."""
    a, b, c = (draw_ids(sampler, size) for _ in range(3))
    script = Script(
        (30, size), (30, size), about="the same block stands after other ones, or in another cache", own="found"
    )
    script.came((*a, *b))
    for blocks in sampler.shuffled((b,), (b, a), (a, c, b), (c, b), (a, a), (a[::-1], b), (a, b[::-1]), (a, b)):
        script.probe((*itertools.chain(*blocks), 1))
    script.came((*a, *a, *c))
    for blocks in sampler.shuffled((a, c), (a, a, c), (a, a, a), (c,), (a, b)):
        script.probe((*itertools.chain(*blocks), 1))
    script.probe((*a, *b, 1), of=1)
    script.came((*c, *b), of=1)
    script.probe((*c, *b, 1))
    script.probe((*c, *b, 1), of=1)
    return script


def _collisions(sampler: Sampler) -> Iterator[Script]:
    """Ids of which Python's hash, 32 bits, a float or their digits one after the other are equal."""
    n, far, prime = sampler.integer(1, 1000), sampler.integer(1, 99) << 40, 2**61 - 1
    about = "ids differ that have the same hash, the same low bits or the same digits"
    pairs = [(0, prime), (n, n + 2**32), (2**53 + far, 2**53 + far + 1), (n, n + 256), (n, n + 65536)]
    script = Script((60, 2), about=about, own="found")
    for first, second in sampler.permutation(pairs):
        after = draw_ids(sampler, 3)
        script.came((first, after[0], *after))
        for ids in sampler.shuffled((second, after[0], *after), (first, after[0], *after)):
            script.probe(ids)
    script.came((1, 23, 45, 6, 7))
    for ids in sampler.shuffled((12, 3, 45, 6, 7), (1, 23, 4, 56, 7), (1, 2, 345, 6, 7), (23, 1, 45, 6, 7)):
        script.probe(ids)
    yield script


def _kinds(sampler: Sampler) -> Iterator[Script]:
    """Images, requests that are whole or only counted."""
    images = (None, "", " ", "None", "a", "A", "b")
    script, ids = Script((60, 2), about="images differ", own="found"), draw_ids(sampler, 5)
    for image in sampler.permutation(images):
        script.probe(ids, image=image)
        script.came(ids, image=image)
    for image in sampler.permutation(images):
        script.probe((*ids, 4), image=image)
        script.probe((*draw_ids(sampler, 4), 4), image=image)
    yield script
    for first, second in sampler.shuffled((True, False), (False, True), (True, True)):
        script, ids = Script((30, 3), about="a request is `live.whole`", own="found"), draw_ids(sampler, 8)
        script.came(ids, whole=first)
        script.probe(ids, whole=second)
        number = script.comes(draw_ids(sampler, 5), whole=True)
        script.let_in(number)
        script.writes(number, *draw_ids(sampler, 3))
        script.probe((*script.live(number).ids, 1), whole=first)
        script.release(number)
        script.probe(ids)
        yield script
    script = Script((40, 2), about="tokens, or output tokens, are only counted", own="found")
    for counted in sampler.shuffled(6, 7):
        script.found(script.comes(counted=counted, prefix=[1, 2]))
        number = script.comes(counted=counted, prefix=[1, 2])
        script.let_in(number)
        script.tell(number)
        script.goes_on(number)
        script.found(script.comes(counted=counted, prefix=[1, 2]))
        script.release(number)
    for n in sampler.shuffled(2, 3):
        ids = draw_ids(sampler, n)
        number = script.comes(ids)
        script.let_in(number)
        for _ in range(3):
            script.tell(number)
            script.goes_on(number)
        script.found(script.comes(ids, counted=n + 3))
        script.probe((*ids, 5, 6, 7))
        script.release(number)
        script.found(script.comes(ids, counted=n + 3))
    yield script


def tables(sampler: Sampler) -> Iterator[Script]:
    for size in sampler.shuffled(1, 2, 3, 4):
        yield served(sampler, "requests share what they find, and go on", (90, size), ahead=True)


def no_room(sampler: Sampler) -> Iterator[Script]:
    yield from (
        Script(sizes, about="it is made") for sizes in sampler.shuffled((0, 4), (4, 0), (-1, 4), (4, -2), (1, 1))
    )
    scripts = [_grows(sampler, size, kept) for size in (1, 2, 3) for kept in (False, True)]
    scripts += [_gone(sampler, size) for size in (2, 3)]
    scripts += [_not_in_place(sampler, size) for size in (2, 3)] + [_just_a_copy(sampler, size) for size in (2, 3)]
    scripts += [_new_one(sampler, size, held) for size in (1, 2, 3) for held in (False, True)]
    some = {"refused": 3, "evicted": 3, "partly": 0}
    scripts += [served(sampler, "", (9, size), some, ahead=True) for size in (2, 3)]
    for script in sampler.permutation(scripts):
        script.about = "a `reserve` is to be refused (without it all goes right)"
        script.control = script.without_refusals(about="room is short")
        yield script


def _fills(script: Script, blocks: int) -> int:
    """One that takes so many new blocks, which cannot be found afterwards."""
    number = script.comes(counted=blocks * script.caches[0][1])
    script.let_in(number)
    return number


def _grows(sampler: Sampler, size: int, kept: bool) -> Script:
    """Someone who holds a block asks for more than there are, and then for all there are."""
    script, ids = Script((7, size), about=""), draw_ids(sampler, 3 * size)
    if kept:
        script.came(ids)
    number = script.comes(draw_ids(sampler, size))
    script.let_in(number)
    for more in sampler.shuffled(7, 8, 12):
        script.reserve(number, more * size)
        script.probe((*ids, 1))
    script.reserve(number, 3 * size)
    script.probe((*ids, 1))
    script.reserve(number, 6 * size)
    script.probe((*ids, 1))
    return script


def _new_one(sampler: Sampler, size: int, held: bool) -> Script:
    """A request finds three blocks and needs more than there are; what it found is used no later for it."""
    script, ids, other = Script((8, size), about=""), draw_ids(sampler, 3 * size), draw_ids(sampler, 3 * size)
    first = script.comes((*ids, 1)[: None if held else 3 * size])
    script.let_in(first)
    if not held:
        script.release(first)
    script.came(other)
    script.let_in(script.comes(draw_ids(sampler, 9 * size)))
    script.probe((*ids, 1))
    script.probe((*other, 1))
    for more in sampler.shuffled(6 - held, 7, 9):
        number = script.comes((*ids, *draw_ids(sampler, more * size)))
        script.let_in(number)
        script.probe((*ids, 1))
        script.probe((*other, 1))
    for blocks in (2, 2) if held else (3, 2):
        script.release(_fills(script, blocks))
        script.let_in(script.comes(draw_ids(sampler, size * 2)))
        script.probe((*ids, 1))
        script.probe((*other, 1))
    return script


def _gone(sampler: Sampler, size: int) -> Script:
    """What two found is taken for one of them; the other is refused, and asks again."""
    script, a, b = Script((9, size), about=""), draw_ids(sampler, 3 * size), draw_ids(sampler, 3 * size)
    for ids in (a, b, draw_ids(sampler, 3 * size)):
        script.came(ids)
    one, two = script.comes((*b, *draw_ids(sampler, 2 * size - 1))), script.comes((*a, 1))
    script.found(one)
    script.found(two)
    script.reserve(one, 2 * size - 1)
    script.reserve(two, 1)
    script.copies()
    script.compute(one, 2 * size - 1)
    script.let_in(two)
    return script


def _just_a_copy(sampler: Sampler, size: int) -> Script:
    """A copy takes the last free block."""
    script, ids = Script((4, size), about=""), draw_ids(sampler, 3 * size)
    for _ in range(2):
        script.let_in(script.comes(ids))
    return script


def _no_copy(sampler: Sampler, size: int) -> Script:
    """Someone holds all blocks, a prompt's: no copy can be made. When he has gone, none is needed."""
    script, ids = Script((3, size), about=_WHOLE, own="all"), draw_ids(sampler, 3 * size)
    first, second = script.comes(ids), script.comes(ids)
    script.let_in(first)
    script.found(second)
    script.reserve(second, 1)
    script.copies()
    script.release(first)
    script.let_in(second)
    script.writes(second, 5)
    script.release(second)
    return script


def _not_in_place(sampler: Sampler, size: int) -> Script:
    """The last block could be taken as it is, but what is asked for besides is not there: it can still be found."""
    script, ids = Script((4, size), about=""), draw_ids(sampler, 2 * size)
    script.came(ids)
    number = script.comes(ids)
    script.found(number)
    script.reserve(number, 2 * size + 2)
    script.probe((*ids, 1))
    script.found(number)
    script.reserve(number, 2 * size + 1)
    return script


def free(sampler: Sampler) -> Iterator[Script]:
    """Who shares goes in every order, some twice, and one that never held anything; at the end one takes all blocks."""
    for size, order in zip(
        itertools.cycle(sampler.shuffled(1, 2, 3)), sampler.permutation([*itertools.permutations(range(3))])
    ):
        ids, script = (
            draw_ids(sampler, 2 * size),
            Script((12, size), about="requests that share are released, some twice"),
        )
        numbers = [script.comes((*ids, *draw_ids(sampler, n * size + 1))) for n in range(3)]
        script.release(numbers[0])
        for number in numbers:
            script.let_in(number)
        for place in order:
            script.release(numbers[place])
            if sampler.chance(0.5):
                script.release(numbers[place])
        _fills(script, 12)
        yield script


def kept(sampler: Sampler) -> Iterator[Script]:
    for use in sampler.shuffled("none", "hit", "asked", "held", "longer", "unfound"):
        yield _used(sampler, use)
    yield from (_shared_beginning(sampler, first) for first in (0, 1))
    yield from (_orphan(sampler, size) for size in (2, 3))
    for size in sampler.shuffled(2, 3):
        yield served(sampler, "room runs short, and blocks are evicted", (12, size), {"evicted": 4}, plain=True)


def _used(sampler: Sampler, use: str) -> Script:
    """Three prompts fill a cache; the oldest is used again somehow; then new ones take block after block."""
    size = sampler.integer(2, 4)
    script = Script((7, size), about="room runs short, and blocks are evicted", own="found")
    prompts, held = [draw_ids(sampler, 2 * size) for _ in range(3)], None
    for prompt in prompts:
        script.came(prompt)
    if use in ("hit", "held"):
        held = script.comes((*prompts[0], 3))
        script.let_in(held)
        if use == "hit":
            script.release(held)
    elif use == "asked":
        for _ in range(3):
            script.probe((*prompts[0], 3))
    elif use == "longer":
        script.came((*prompts[0][:size], 3))
    elif use == "unfound":
        script.came(draw_ids(sampler, size - 1))
    for _ in range(4):
        script.came(draw_ids(sampler, size))
        for prompt in sampler.permutation(prompts):
            script.probe((*prompt, 1))
    if use == "held":
        script.release(held)
        for _ in range(4):
            script.came(draw_ids(sampler, size))
            script.probe((*prompts[0], 1))
    return script


def _shared_beginning(sampler: Sampler, first: int) -> Script:
    """Two go on from the same beginning and are released one after the other: what they share was used last."""
    size = sampler.integer(2, 3)
    start, ends = draw_ids(sampler, 2 * size), [draw_ids(sampler, 2 * size) for _ in range(2)]
    script = Script((8, size), about="two that share a beginning are released, then blocks are evicted", own="found")
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
            script.probe(ids)
    return script


def _orphan(sampler: Sampler, size: int) -> Script:
    """A block is evicted before the one behind it, which is found again once the one before it was computed anew."""
    ids, script = (
        draw_ids(sampler, 2 * size),
        Script((5, size), about="a block goes before the one behind it", own="found"),
    )
    first, second = script.comes((*ids[:size], 1)), script.comes((*ids, 1))
    script.found(second)
    script.let_in(first)
    script.goes_on(second)
    script.release(first)
    script.release(second)
    script.release(_fills(script, 4))
    script.probe((*ids, 1))
    script.came((*ids[:size], 2))
    script.probe((*ids, 1))
    return script


def copies(sampler: Sampler) -> Iterator[Script]:
    for size, blocks in zip(itertools.cycle(sampler.shuffled(2, 3, 4)), sampler.shuffled(1, 2, 3)):
        yield _copied(sampler, size, blocks)
        yield _in_place(sampler, size, blocks)
        yield _source_goes(sampler, size, blocks)
        yield _target_goes(sampler, size, blocks)
        yield _no_copy(sampler, size)
        yield served(sampler, _WHOLE, (60, size), {"copied": 2, "taken": 1, "twins": 0}, whole_hits=True, ahead=True)
    ids = draw_ids(sampler, 3)
    control, script = (
        Script((30, 1), about="blocks have one token"),
        Script((30, 1), about="blocks have one token, and prompts are there as a whole"),
    )
    for one, ends in ((control, ((4,), (5,), (6,))), (script, ((), (), ()))):
        one.came(ids)
        for end in ends:
            one.let_in(one.comes((*ids, *end)))
    script.control = control
    yield script


_WHOLE = "prompts are there as a whole"


def _copied(sampler: Sampler, size: int, blocks: int) -> Script:
    """Several with the same whole prompt in one plan, with room for more than a token, while its first holder writes on."""
    script, ids = Script((60, size), about=_WHOLE), draw_ids(sampler, blocks * size)
    first = script.comes(ids)
    script.let_in(first)
    numbers = [script.comes(ids) for _ in range(3)]
    for number in numbers:
        script.found(number)
    for number, tokens in zip(numbers, sampler.shuffled(1, 2, size + 2)):
        script.reserve(number, tokens)
    script.copies()
    script.copies()
    for number in sampler.permutation(numbers):
        script.compute(number, 1)
        script.probe((*ids, 1))
    for _ in range(size + 1):
        for number in sampler.permutation([first, *numbers]):
            script.writes(number, *draw_ids(sampler, 1))
    for number in sampler.permutation([first, *numbers]):
        script.release(number)
    return script


def _in_place(sampler: Sampler, size: int, blocks: int) -> Script:
    """Nobody holds the block any more: no copy, and nobody finds it while it is written, or when that was given up."""
    script, ids = Script((60, size), about=_WHOLE), draw_ids(sampler, blocks * size)
    script.came(ids)
    second, third = script.comes(ids), script.comes(ids)
    for number in (second, third):
        script.found(number)
    script.reserve(second, sampler.integer(1, size + 1))
    script.found(third)
    script.copies()
    script.compute(second, 1)
    script.let_in(third)
    for number in sampler.shuffled(second, third):
        script.writes(number, *draw_ids(sampler, 2))
    for number in sampler.shuffled(second, third):
        script.release(number)
    given_up = script.comes(ids)
    script.found(given_up)
    script.reserve(given_up, 1)
    script.copies()
    script.release(given_up)
    script.probe((*ids, 1))
    script.let_in(script.comes(ids))
    return script


def _source_goes(sampler: Sampler, size: int, blocks: int) -> Script:
    """Between the plan's copy and its carrying out the source is released."""
    script, ids = Script((blocks + 3, size), about=_WHOLE), draw_ids(sampler, blocks * size)
    first, second = script.comes(ids), script.comes(ids)
    script.let_in(first)
    script.found(second)
    script.reserve(second, 1)
    script.release(first)
    script.copies()
    script.compute(second, 1)
    script.writes(second, *draw_ids(sampler, size))
    return script


def _target_goes(sampler: Sampler, size: int, blocks: int) -> Script:
    """Two copies in one plan, and who needed the first is released before they are asked for."""
    script, ids = Script((blocks + 4, size), about=_WHOLE), draw_ids(sampler, blocks * size)
    numbers = [script.comes(ids) for _ in range(3)]
    script.let_in(numbers[0])
    for number in numbers[1:]:
        script.found(number)
        script.reserve(number, 1)
    script.release(numbers[sampler.integer(1, 2)])
    script.copies()
    return script


def twins(sampler: Sampler) -> Iterator[Script]:
    for size, first_goes in itertools.product(sampler.shuffled(2, 3), (False, True)):
        control, script = (_twins(sampler, size, first_goes, whole) for whole in (True, False))
        script.control = control
        yield script
    for size in sampler.shuffled(1, 2, 3):
        yield _asked_before(sampler, size)


def _asked_before(sampler: Sampler, size: int) -> Script:
    """Nothing was found of a request: it gets blocks of its own, though another has computed the same since."""
    about = "a beginning is computed by another between a request's `found` and its `reserve`"
    script, ids = Script((40, size), about=about, own="all"), draw_ids(sampler, 3 * size)
    late = script.comes((*ids, 1))
    script.found(late)
    script.let_in(script.comes((*ids, 2)))
    script.goes_on(late)
    script.writes(late, 3)
    return script


def _twins(sampler: Sampler, size: int, first_goes: bool, whole: bool) -> Script:
    """Two compute the same, then one of them goes. ``whole``: no twins."""
    about = "two compute equal beginnings at the same time"
    about += "" if whole else " (where one is `live.whole`, all goes right)"
    script, ids, other = Script((9, size), about=about), draw_ids(sampler, 2 * size), draw_ids(sampler, 2 * size)
    script.came(other)
    first, second = script.comes((*ids, 1)), script.comes((*ids, 2), whole=whole)
    script.found(first)
    script.found(second)
    script.goes_on(first)
    script.probe((*ids, 3))
    script.goes_on(second)
    script.probe((*ids, 3))
    sharer = script.comes((*ids, 3))
    script.let_in(sharer)
    script.release(sharer)
    script.release(first if first_goes else second)
    script.probe((*ids, 3))
    if first_goes:
        rest = _fills(script, 6)
        script.probe((*ids, 3))
        script.release(second)
        script.probe((*ids, 3))
        script.release(rest)
        script.came((*ids, 4))
        script.probe((*ids, 3))
    else:
        rest = _fills(script, 4)
        script.probe((*ids, 3))
        script.probe((*other, 3))
        script.release(first)
        script.probe((*ids, 3))
    return script


SEQUENCES = {
    "found": found,
    "apart": apart,
    "tables": tables,
    "no_room": no_room,
    "free": free,
    "kept": kept,
    "copies": copies,
    "twins": twins,
}
