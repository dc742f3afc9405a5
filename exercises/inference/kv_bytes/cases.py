"""E18.2 kv_bytes: decoders and requests that can be."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, ask
from exercises.inference.kv_bytes.asked import PLAIN, decoder, question_of, request_of
from exercises.inference.kv_bytes.expected import ITEM_BYTES, lengths
from exercises.inference.parts import with_parts

_HALVES = ("bfloat16", "float16")


def counted_cases(sampler: Sampler) -> Iterator[Questions]:
    """All begin with a token and three of a plain decoder, in whose bytes all but `heads` are judged."""
    for criterion, drawn in _DRAWN.items():
        plain = [{**question_of(PLAIN, [request_of(text, generated=0)]), "part": True} for text in (1, 3)]
        yield ask(criterion, with_parts(drawn(sampler), *plain))


def _of_halves(sampler: Sampler, config: dict, *requests: dict) -> dict:
    return question_of(config, list(requests), sampler.choice(_HALVES))


def _exact_in_floats(sampler: Sampler, *requests: dict, **named: Any) -> dict:
    """Eight bytes a token: of 2**53 tokens or so the bytes are a float's still, and what leads to them is not."""
    return _of_halves(sampler, PLAIN | {"width": 1, "head_dim": 1} | named, *requests)


def _heads(sampler: Sampler) -> Iterator[dict]:
    """Each kind of sharing, in each dtype, with heads that fill the width, and more or less than fill it."""
    for plan in sampler.cover(kind=("own", "shared", "one", "alone"), dtype=tuple(ITEM_BYTES), fill=(-1, 0, 1)):
        kv_heads = sampler.integer(2, 9) if plan["kind"] in ("own", "shared") else 1
        heads = kv_heads * (sampler.integer(2, 9) if plan["kind"] in ("shared", "one") else 1)
        head_dim = sampler.choice([48, 64, 80, 97, 128, 255])
        width = heads * (head_dim + plan["fill"] * sampler.integer(1, 40))
        config = decoder(sampler, heads=heads, kv_heads=kv_heads, head_dim=head_dim, width=width)
        yield question_of(config, [request_of(sampler.integer(1, 9000))], plan["dtype"])
    odd = 2 * sampler.integer(50, 499) + 1
    yield question_of(decoder(sampler, heads=2, kv_heads=1, head_dim=1, width=odd), [request_of(1)], "int8")


def _batches(sampler: Sampler) -> Iterator[dict]:
    """No request, one, many and equal ones, the longest anywhere; before and after the first tokens; more than floats hold."""
    odd, some = 2 * sampler.integer(50, 500) + 1, [sampler.integer(1, 99) for _ in range(150)]
    unlike = sampler.permutation([1, 5, sampler.integer(100, 200), sampler.integer(5000, 9000)])
    for texts in sampler.shuffled([], [1], [sampler.integer(2, 9000)], [7, 7, 7], [1, odd], [odd, 1], some, unlike):
        yield _of_halves(sampler, decoder(sampler), *map(request_of, texts))
    for generated in sampler.shuffled(0, 1, 2, sampler.integer(3, 2000)):
        texts = sampler.shuffled(1, odd, sampler.integer(1000, 2000))
        yield _of_halves(sampler, decoder(sampler), *(request_of(text, generated=generated) for text in texts))
    mixed = [request_of(sampler.integer(1, 300), generated=sampled) for sampled in sampler.shuffled(0, 0, 1, 1, 2, 40)]
    twice, again = (_of_halves(sampler, decoder(sampler), *mixed) for _ in range(2))
    yield from ({**question} for question in (twice, again, twice))
    for many in sampler.shuffled(2**53 + 2 * sampler.integer(1, 2**40) + 1, 2**64 + 2 * sampler.integer(1, 2**50) + 1):
        yield _of_halves(sampler, decoder(sampler), request_of(many), request_of(odd, generated=many))


def _pictured(sampler: Sampler) -> Iterator[dict]:
    """Sides before, at and after a whole token and a whole patch; wide, high and tiny ones; none, one, several, equal ones."""
    for merge in (*sampler.shuffled(2, 3), 1):
        patch = sampler.choice([5, 8, 14, 16])
        config, side = decoder(sampler, patch=patch, merge=merge, temporal=sampler.integer(2, 3)), patch * merge
        long, short = side * sampler.integer(9, 40), side * sampler.integer(2, 8)
        sides = [short + side // 2 + 1, *sampler.around(short), 1, patch, patch * (merge + 1)]
        sides += [short + max(side // 3, 1)]
        others = sampler.permutation([*sampler.around(long), long, 1, side + 1, long + side // 2])
        for pixels in zip(sides, [long + 1, *others], strict=True):  # the first one tells what was rounded, and how
            for image in (list(pixels), list(pixels)[::-1]):
                yield _of_halves(sampler, config, request_of(sampler.integer(1, 3), [image]))
        yield _of_halves(sampler, config, request_of(0, [[short - 1, long + 1]]))
        several = [[short + 1, long], [short + 1, long], [1, long + 1], [side, side]]
        yield _of_halves(sampler, config, request_of(5, several))
    same = request_of(sampler.integer(1, 9), [[sampler.integer(100, 300), sampler.integer(100, 300)]])
    for patch, merge in sampler.shuffled((14, 1), (14, 4), (7, 1)):
        yield _of_halves(sampler, decoder(sampler, patch=patch, merge=merge), same)
    tokens = 2**52 + sampler.integer(1, 2**20)
    for long in (14 * tokens, 14 * tokens - 13):
        yield from (_exact_in_floats(sampler, request_of(0, [image])) for image in ([long, 28], [28, long]))


def _filmed(sampler: Sampler) -> Iterator[dict]:
    """Ends before, at and after a frame; left-over frames, in one film and in two; no frame, and one; sizes of whole tokens or not."""
    for temporal, merge in zip(sampler.shuffled(1, 2, 3), (1, 2, 2), strict=True):
        config = decoder(sampler, patch=sampler.choice([5, 8, 14]), merge=merge, temporal=temporal)
        side = config["patch"] * merge
        size = [side * sampler.integer(2, 9), side * sampler.integer(10, 19)]
        rates = sampler.shuffled(1, sampler.choice([2, 10, 25]), sampler.choice([7, 24, 30]))
        for fps, left_over in zip(rates, sampler.shuffled(*range(3))):
            last = -(-1000 * (temporal * sampler.integer(4, 20) + left_over) // fps)
            for end in sampler.shuffled(last, last + 1, last - 1, 0, 1, 1000 // fps, 999, 1500):
                yield _film(sampler, config, [[end, fps, *size]])
        leftover = [[1000 * (temporal * times + 1), 1, *size] for times in (2, 2, 5)]
        yield _film(sampler, config, leftover)
        yield _film(sampler, config, [[3000, 1, size[0] + 1, size[1] - 1], [3000, 1, size[0] - 1, size[1] + 1]])
    same = [[1000 * sampler.integer(9, 30), 2, 60, 40]]
    for temporal, merge in sampler.shuffled((1, 1), (2, 1), (3, 1), (1, 2)):
        yield _film(sampler, decoder(sampler, patch=10, temporal=temporal, merge=merge), same)
    for end, fps in sampler.shuffled((sampler.integer(3, 99), sampler.integer(1500, 9000)), *_rounded_wrongly(sampler)):
        yield _film(sampler, decoder(sampler, patch=10), [[end, fps, 30, 20]])
    odd = 2**53 + 4 * sampler.integer(1, 2**20) + 1
    for frames in (odd, odd + 1):  # in floats half of the one is rounded down, and half of one more than the other up
        yield _exact_in_floats(sampler, request_of(0, videos=[[1000 * frames - 999, 1, 14, 14]]), temporal=2)


def _film(sampler: Sampler, config: dict, videos: list[list[int]]) -> dict:
    """Rests on images of its sizes: how many tokens those have is asked elsewhere."""
    found = _of_halves(sampler, config, request_of(sampler.integer(1, 9), videos=videos))
    return {**found, "parts": [question_of(config, [request_of(1, [sides])]) for _, _, *sides in videos]}


def _rounded_wrongly(sampler: Sampler) -> Iterator[tuple[int, int]]:
    """Ends at a frame exactly, where some way of writing this in floats comes out above it."""
    ways: tuple[tuple[Callable[[int, int], float], tuple[int, ...], int], ...] = (
        (lambda end, fps: end / 1000 * fps, (15, 25, 30, 50), 100_000),
        (lambda end, fps: end / 1000 * fps, (25, 50, 100), 1000),  # of the seconds' rest alone
        (lambda end, fps: end * 0.001 * fps, (10, 15, 25, 30, 50), 100_000),
        (lambda end, fps: end / (1000 / fps), (3, 12, 24), 100_000),
    )
    for way, rates, most in ways:
        for fps in sampler.shuffled(*rates):
            whole = range(0, most, 1000 // math.gcd(1000, fps))
            yield sampler.choice([end for end in whole if math.ceil(way(end, fps)) != end * fps // 1000]), fps


def _unlike_layers(sampler: Sampler) -> Iterator[dict]:
    """Windows that are not full, just full and over; layers without, of each number; sharing; whole requests where none is.

    The first question tells most misreadings of the numbers apart.
    """
    telling = decoder(sampler, layers=10, window=sampler.integer(20, 90), full_every=3, shared=2)
    yield _of_halves(sampler, telling, request_of(sampler.integer(200, 900)))
    for every in sampler.shuffled(None, 1, 2, 3, sampler.integer(4, 6), 99):
        step = every if every in range(2, 7) else 5
        layers, window = step * sampler.integer(3, 6) + sampler.integer(0, step - 2), sampler.integer(20, 900)
        for shared in sampler.shuffled(0, 1, step - 1, step, sampler.integer(step + 1, 2 * step), layers - 1):
            config = decoder(sampler, layers=layers, window=window, full_every=every, shared=shared)
            yield _of_halves(sampler, config, request_of(sampler.integer(2 * window, 9 * window)))
        config = decoder(sampler, layers=step * sampler.integer(2, 6), window=window, full_every=every)
        yield from (_of_halves(sampler, config, request_of(tokens)) for tokens in sampler.around(window))
        unlike = map(request_of, sampler.shuffled(1, window - 1, window + 1, 5 * window))
        yield _rests_on_its_requests(_of_halves(sampler, config, *unlike))
        config = decoder(sampler, full_every=every, shared=sampler.choice([0, 1]))
        yield _of_halves(sampler, config, request_of(sampler.integer(50, 999)))
    yield _of_halves(sampler, decoder(sampler, layers=7, window=1, full_every=3), request_of(sampler.integer(2, 9)))
    one = decoder(sampler, layers=1, window=sampler.integer(2, 9), full_every=1)
    yield _of_halves(sampler, one, request_of(40))
    odd = 2**53 + 2 * sampler.integer(1, 2**20) + 1
    for texts, window in (((odd, 2**54 - odd), 2**54), ((2**60, 2**54 - odd), odd)):
        yield _rests_on_its_requests(_exact_in_floats(sampler, *map(request_of, texts), window=window))
    for window in sampler.around(60):  # which the last tokens reach that were generated
        config = decoder(sampler, layers=6, window=window, full_every=6)
        some = [request_of(50, generated=generated) for generated in sampler.shuffled(10, 30)]
        yield from (_rests_on_its_requests(_of_halves(sampler, config, request)) for request in some)


def _rests_on_its_requests(question: dict) -> dict:
    """Which of their tokens are read, and that all of them count, is asked elsewhere."""
    return {**question, "parts": [question_of(PLAIN, question["requests"])]}


def _latent(sampler: Sampler) -> Iterator[dict]:
    """With and without a rotary key, for one head and many; a rotary key without a latent."""
    for rope_dim in sampler.shuffled(0, 1, sampler.integer(8, 99)):
        for heads, kv_heads in sampler.shuffled((1, 1), (12, 12), (12, 4), (12, 1)):
            named = {"heads": heads, "kv_heads": kv_heads, "head_dim": sampler.choice([64, 97, 128]), "width": 768}
            for latent in sampler.shuffled(1, sampler.integer(100, 600)):
                config = decoder(sampler, **named, rope_dim=rope_dim, latent=latent)
                yield _of_halves(sampler, config, request_of(sampler.integer(1, 5000)))
        yield _of_halves(sampler, decoder(sampler, rope_dim=rope_dim), request_of(sampler.integer(1, 5000)))
    huge = request_of(2**60 + 2 * sampler.integer(1, 2**40) + 1)
    yield _rests_on_its_requests(_of_halves(sampler, decoder(sampler, latent=64), huge))


def _mixed(sampler: Sampler) -> Iterator[dict]:
    """Each two of five that can be chosen, and then all five, in every kind of windows and with every merging."""
    fields = ("latent", "window", "dtype", "prompt", "requests")
    dtypes = sampler.shuffled("float32", "float8_e4m3fn", "float8_e5m2", "int8", "float64")
    windows = [(0, 3), (2, 0), (5, 3), (2, 3), (5, 0)]
    for number, meet in enumerate([*combinations(fields, 2), *[fields] * len(windows)]):
        config = decoder(sampler, layers=10 * sampler.integer(1, 4) + sampler.choice([0, 2]))
        config |= {"patch": sampler.choice([5, 14, 16]), "merge": 1 + number % 3, "temporal": 1 + number // 3 % 3}
        config["heads"] *= 1 + 3 * (number % 2)
        if "latent" in meet:
            config |= {"latent": sampler.integer(100, 600), "rope_dim": sampler.integer(1, 64)}
        if "window" in meet:
            every, shared = windows[number % 5]
            config |= {"window": sampler.integer(5, 20), "full_every": every or None, "shared": shared}
        dtype = dtypes[number % 5] if "dtype" in meet else "bfloat16"
        asked = _some_requests(sampler, config, "prompt" in meet)[: 5 if "requests" in meet else 1]
        found = question_of(config, asked, dtype)
        yield {**found, "meet": meet, "parts": list(_parts(found))}


def _some_requests(sampler: Sampler, config: dict, prompts: bool) -> list[dict]:
    def uneven(most: int) -> int:
        return side * sampler.integer(1, most) + sampler.integer(1, max(side // 3, 1))

    side = config["patch"] * config["merge"]
    film = [1000 * (config["temporal"] * sampler.integer(1, 4) + 1) + 1, 1, 4 * side, uneven(9)]
    between = [2 * sampler.integer(1, 4500) - 1, sampler.choice([2, 4]), uneven(3), side]  # it ends between frames
    found = [
        request_of(sampler.integer(21, 99), [[uneven(4), uneven(12)], [1, side]], [film], sampler.integer(2, 9)),
        request_of(sampler.integer(1, 30), generated=sampler.integer(2, 300)),
        request_of(sampler.integer(1, 9), [[uneven(9), uneven(5)]], generated=0),
        request_of(sampler.integer(1, 30), [], [film, between]),
    ]
    found.append(found[1])
    return found if prompts else [{**request, "images": [], "videos": []} for request in found]


def _parts(question: dict) -> Iterator[dict]:
    """Each text, the images and the films of each alone; the layers, for texts as long; tokens in heads or latents, and in the dtype."""
    config = question["config"]
    sees = PLAIN | {name: config[name] for name in ("patch", "merge", "temporal")}
    for request in question["requests"]:
        yield question_of(sees, [request_of(request["text"], generated=request["generated"])])
        yield question_of(sees, [request_of(1, request["images"])])
        yield question_of(sees, [request_of(1, videos=request["videos"])])
    layers = {name: config[name] for name in ("layers", "window", "full_every", "shared")}
    texts = zip(lengths(question, prompts=True), (request["generated"] for request in question["requests"]))
    yield question_of(PLAIN | layers, [request_of(tokens, generated=some) for tokens, some in texts])
    held = {name: config[name] for name in ("width", "heads", "kv_heads", "head_dim", "latent", "rope_dim")}
    yield question_of(PLAIN | held, [request_of(7)])
    yield question_of(PLAIN, [request_of(7)], question["dtype"])


_DRAWN = {
    "heads": _heads,
    "requests": _batches,
    "images": _pictured,
    "videos": _filmed,
    "layers": _unlike_layers,
    "latents": _latent,
    "together": _mixed,
}
