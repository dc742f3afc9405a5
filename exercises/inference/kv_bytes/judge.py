"""E18.2 kv_bytes: cases and judge. What is due is added up layer by layer and request by request."""

import math
from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}
_SIZES = (
    "layers",
    "width",
    "heads",
    "kv_heads",
    "head_dim",
    "latent",
    "window",
    "full_every",
    "patch",
    "merge",
    "temporal",
)
_HALVES = ("bfloat16", "float16")
_OPTIONS = {
    "latent": None,
    "rope_dim": 0,
    "window": None,
    "full_every": None,
    "shared": 0,
    "patch": 14,
    "merge": 1,
    "temporal": 1,
}


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("heads", list(_heads(sampler)))
    yield ask("requests", list(_batches(sampler)))
    yield ask("images", list(_pictured(sampler)))
    yield ask("videos", list(_filmed(sampler)))
    yield ask("layers", list(_unlike_layers(sampler)))
    yield ask("latents", list(_latent(sampler)))
    yield ask("together", list(_mixed(sampler)))
    refused, allowed = sampler.permutation(list(_refused(sampler))), sampler.permutation(list(_just_allowed(sampler)))
    for half in range(2):
        yield ask("errors", refused[half::2], raises="ValueError")
        yield ask("errors", allowed[half::2])


def _question(config: dict, requests: list[dict], dtype: str) -> dict:
    return {"config": config, "requests": requests, "dtype": dtype}


def _request(text: int, images: list = (), videos: list = (), generated: int = 1) -> dict:
    """With one token sampled the prompt is kept: what holds before and after, `requests` and `together` ask."""
    return {"text": text, "images": list(images), "videos": list(videos), "generated": generated}


def _decoder(sampler: Sampler, **named: Any) -> dict:
    """Every head of queries has its keys, and the heads fill the width, unless ``named`` says otherwise."""
    heads, head_dim = sampler.integer(1, 20), sampler.choice([48, 64, 80, 97, 128])
    plain = {
        "layers": sampler.integer(2, 30),
        "width": heads * head_dim,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": head_dim,
    }
    return _OPTIONS | plain | named


def _exact_in_floats(sampler: Sampler, requests: list[dict], **named: Any) -> dict:
    """Eight bytes a token: of 2**53 tokens or so the bytes are a float's still, and what leads to them is not."""
    small = {"layers": 2, "width": 1, "heads": 1, "kv_heads": 1, "head_dim": 1}
    return _of_halves(sampler, _OPTIONS | small | named, requests)


def _heads(sampler: Sampler) -> Iterator[dict]:
    """Each kind of sharing, in each dtype, with heads that fill the width, and more or less than fill it."""
    for plan in sampler.cover(kind=("own", "shared", "one", "alone"), dtype=tuple(_ITEM_BYTES), fill=(-1, 0, 1)):
        kv_heads = sampler.integer(2, 9) if plan["kind"] in ("own", "shared") else 1
        heads = kv_heads * (sampler.integer(2, 9) if plan["kind"] in ("shared", "one") else 1)
        head_dim = sampler.choice([48, 64, 80, 97, 128, 255])
        width = heads * (head_dim + plan["fill"] * sampler.integer(1, 40))
        config = _decoder(sampler, heads=heads, kv_heads=kv_heads, head_dim=head_dim, width=width)
        yield _question(config, [_request(sampler.integer(1, 9000))], plan["dtype"])
    config = _decoder(sampler, layers=1, heads=2, kv_heads=1, head_dim=1, width=2 * sampler.integer(50, 499) + 1)
    yield _question(config, [_request(1)], "int8")


def _batches(sampler: Sampler) -> Iterator[dict]:
    """No request and one, many, equal ones, the longest anywhere; before and after the first tokens; more than floats hold."""
    odd = 2 * sampler.integer(50, 500) + 1
    lengths = [
        [],
        [1],
        [sampler.integer(2, 9000)],
        [7, 7, 7],
        [1, odd],
        [odd, 1],
        [sampler.integer(1, 99) for _ in range(150)],
        sampler.permutation([1, 5, sampler.integer(100, 200), sampler.integer(5000, 9000)]),
    ]
    for texts in sampler.shuffled(*lengths):
        yield _of_halves(sampler, _decoder(sampler), [_request(text) for text in texts])
    for generated in sampler.shuffled(0, 1, 2, sampler.integer(3, 2000)):
        texts = sampler.shuffled(1, odd, sampler.integer(1000, 2000))
        yield _of_halves(sampler, _decoder(sampler), [_request(text, generated=generated) for text in texts])
    some = [_request(sampler.integer(1, 300), generated=sampled) for sampled in sampler.shuffled(0, 0, 1, 1, 2, 40)]
    twice, again = _of_halves(sampler, _decoder(sampler), some), _of_halves(sampler, _decoder(sampler), some)
    yield from (twice, again, twice)
    for many in sampler.shuffled(2**53 + 2 * sampler.integer(1, 2**40) + 1, 2**64 + 2 * sampler.integer(1, 2**50) + 1):
        yield _of_halves(sampler, _decoder(sampler), [_request(many), _request(odd, generated=many)])


def _of_halves(sampler: Sampler, config: dict, requests: list[dict]) -> dict:
    return _question(config, requests, sampler.choice(_HALVES))


def _pictured(sampler: Sampler) -> Iterator[dict]:
    """Sides before, at and after a whole token and a whole patch; wide, high and tiny ones; none, one, several, equal ones."""
    for merge in sampler.shuffled(1, 2, 3):
        patch = sampler.choice([5, 8, 14, 16])
        config, side = _decoder(sampler, patch=patch, merge=merge, temporal=sampler.integer(2, 3)), patch * merge
        long, short = side * sampler.integer(9, 40), side * sampler.integer(2, 8)
        sides = [*sampler.around(short), 1, patch, patch * (merge + 1)]
        sides += [short + side // 2 + 1, short + max(side // 3, 1)]
        for height, width in zip(
            sides,
            sampler.permutation([*sampler.around(long), long, 1, side + 1, long + 1, long + side // 2]),
            strict=True,
        ):
            for image in sampler.shuffled([height, width], [width, height]):
                yield _of_halves(sampler, config, [_request(sampler.choice([0, 3]), [image])])
        yield _of_halves(sampler, config, [_request(0, [[short - 1, long + 1]])])
        yield _of_halves(
            sampler, config, [_request(5, [[short + 1, long], [short + 1, long], [1, long + 1], [side, side]])]
        )
    same = [_request(sampler.integer(1, 9), [[sampler.integer(100, 300), sampler.integer(100, 300)]])]
    for patch, merge in sampler.shuffled((14, 1), (14, 4), (7, 1)):
        yield _of_halves(sampler, _decoder(sampler, patch=patch, merge=merge), same)
    tokens = 2**52 + sampler.integer(1, 2**20)
    for long in (14 * tokens, 14 * tokens - 13):
        for image in ([long, 28], [28, long]):
            yield _exact_in_floats(sampler, [_request(0, [image])])


def _filmed(sampler: Sampler) -> Iterator[dict]:
    """Frames of whole tokens. Ends before, at and after a frame; left-over frames, in one film and in two; no frame, and one."""
    for temporal, merge in zip(sampler.shuffled(1, 2, 3), (1, 2, 2), strict=True):
        config = _decoder(sampler, patch=sampler.choice([5, 8, 14]), merge=merge, temporal=temporal)
        size = [config["patch"] * config["merge"] * times for times in (sampler.integer(2, 9), sampler.integer(10, 19))]
        for fps in sampler.shuffled(1, sampler.choice([2, 10, 25]), sampler.choice([7, 24, 30])):
            for groups in sampler.shuffled(*range(3)):
                frames = temporal * sampler.integer(4, 20) + groups
                last = -(-1000 * frames // fps)
                for end in sampler.shuffled(last, last + 1, last - 1):
                    yield _of_halves(sampler, config, [_request(sampler.integer(1, 9), videos=[[end, fps, *size]])])
            for end in sampler.shuffled(0, 1, 1000 // fps, 999, 1500):
                yield _of_halves(sampler, config, [_request(sampler.integer(1, 9), videos=[[end, fps, *size]])])
        leftover = [[1000 * (temporal * times + 1), 1, *size] for times in (2, 2, 5)]
        yield _of_halves(sampler, config, [_request(0, videos=leftover)])
    same = [_request(sampler.integer(1, 9), videos=[[1000 * sampler.integer(9, 30), 2, 60, 40]])]
    for temporal, merge in sampler.shuffled((1, 1), (2, 1), (3, 1), (1, 2)):
        yield _of_halves(sampler, _decoder(sampler, patch=10, temporal=temporal, merge=merge), same)
    config = _decoder(sampler, patch=10)
    several_a_millisecond = sampler.integer(3, 99), sampler.integer(1500, 9000)
    for end, fps in sampler.shuffled(several_a_millisecond, *_rounded_wrongly(sampler)):
        yield _of_halves(sampler, config, [_request(2, videos=[[end, fps, 30, 20]])])
    odd = 2**53 + 4 * sampler.integer(1, 2**20) + 1
    for frames in (odd, odd + 1):  # in floats half of the one is rounded down, and half of one more than the other up
        yield _exact_in_floats(sampler, [_request(0, videos=[[1000 * frames - 999, 1, 14, 28]])], temporal=2)


def _rounded_wrongly(sampler: Sampler) -> Iterator[tuple[int, int]]:
    """Ends at a frame exactly, where some way of writing this in floats comes out above it."""
    ways = (
        (lambda end, fps: end / 1000 * fps, (15, 25, 30, 50)),
        (lambda end, fps: end * 0.001 * fps, (10, 15, 25, 30, 50)),
        (lambda end, fps: end / (1000 / fps), (3, 12, 24)),
    )
    for way, rates in ways:
        for fps in sampler.shuffled(*rates):
            whole = range(0, 100_000, 1000 // math.gcd(1000, fps))
            yield sampler.choice([end for end in whole if math.ceil(way(end, fps)) != end * fps // 1000]), fps


def _unlike_layers(sampler: Sampler) -> Iterator[dict]:
    """Windows that are not full, just full and over; layers without, of each number; sharing; whole requests where none is."""
    for every in sampler.shuffled(None, 1, 2, 3, sampler.integer(4, 6), 99):
        step = every if every in range(2, 7) else 5
        layers, window = step * sampler.integer(3, 6) + sampler.integer(0, step - 2), sampler.integer(20, 900)
        for shared in sampler.shuffled(0, 1, step - 1, step, sampler.integer(step + 1, 2 * step), layers - 1):
            config = _decoder(sampler, layers=layers, window=window, full_every=every, shared=shared)
            tokens = sampler.choice([*sampler.around(window), 3 * window])
            yield _of_halves(sampler, config, [_request(tokens)])
            yield _of_halves(sampler, config, [_request(sampler.integer(2 * window, 9 * window))])
        config = _decoder(sampler, layers=step * sampler.integer(2, 6), window=window, full_every=every)
        for tokens in sampler.around(window):
            yield _of_halves(sampler, config, [_request(tokens)])
        yield _of_halves(
            sampler, config, [_request(text) for text in sampler.shuffled(1, window - 1, window + 1, 5 * window)]
        )
        yield _of_halves(
            sampler,
            _decoder(sampler, window=None, full_every=every, shared=sampler.choice([0, 1])),
            [_request(sampler.integer(50, 999))],
        )
    yield _of_halves(sampler, _decoder(sampler, layers=7, window=1, full_every=3), [_request(sampler.integer(2, 9))])
    yield _of_halves(sampler, _decoder(sampler, layers=1, window=sampler.integer(2, 9), full_every=1), [_request(40)])
    odd = 2**53 + 2 * sampler.integer(1, 2**20) + 1
    yield _exact_in_floats(sampler, [_request(odd), _request(2**54 - odd)], window=2**54)
    yield _exact_in_floats(sampler, [_request(2**60), _request(2**54 - odd)], window=odd)
    for window in sampler.around(60):  # which the last tokens reach that were generated
        for generated in sampler.shuffled(10, 30):
            yield _of_halves(
                sampler, _decoder(sampler, layers=6, window=window, full_every=6), [_request(50, generated=generated)]
            )


def _latent(sampler: Sampler) -> Iterator[dict]:
    """With and without a rotary key, for one head and many; a rotary key without a latent."""
    for rope_dim in sampler.shuffled(0, 1, sampler.integer(8, 99)):
        for heads, kv_heads in sampler.shuffled((1, 1), (12, 12), (12, 4), (12, 1)):
            head_dim = sampler.choice([64, 97, 128])
            named = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "width": 12 * 64, "rope_dim": rope_dim}
            for latent in sampler.shuffled(1, sampler.integer(100, 600)):
                yield _of_halves(
                    sampler, _decoder(sampler, **named, latent=latent), [_request(sampler.integer(1, 5000))]
                )
        yield _of_halves(sampler, _decoder(sampler, rope_dim=rope_dim), [_request(sampler.integer(1, 5000))])


def _mixed(sampler: Sampler) -> Iterator[dict]:
    """Everything at once: each two of what can be chosen meet."""
    windows = ((False, 2, 3), (False, 5, 0), (True, None, 0), (True, None, 3), (True, 2, 3), (True, 5, 3), (True, 5, 0))
    choices = {
        "dtype": ("float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"),
        "latent": (True, False),
        "windows": windows,
        "merge": (1, 2, 3),
        "temporal": (1, 2, 3),
        "group": (1, 4),
    }
    same = [sampler.integer(100, 300), sampler.integer(301, 500)]  # sides, in tokens of every size
    for plan in sampler.cover(**choices):
        kv_heads, head_dim, patch = sampler.integer(1, 8), sampler.choice([64, 97, 128]), sampler.choice([5, 14, 16])
        window, every, shared = plan["windows"]
        config = _decoder(
            sampler,
            layers=10 * sampler.integer(1, 4) + sampler.choice([0, 2]),
            heads=kv_heads * plan["group"],
            kv_heads=kv_heads,
            head_dim=head_dim,
            width=sampler.integer(500, 5000),
            latent=sampler.integer(100, 600) if plan["latent"] else None,
            rope_dim=sampler.integer(1, 64),
            window=sampler.integer(50, 400) if window else None,
            full_every=every,
            shared=shared,
            patch=patch,
            merge=plan["merge"],
            temporal=plan["temporal"],
        )
        yield _question(config, _some_requests(sampler, patch * plan["merge"], config["temporal"], same), plan["dtype"])


def _some_requests(sampler: Sampler, side: int, temporal: int, same: list[int]) -> list[dict]:
    def uneven(most: int) -> int:
        return side * sampler.integer(1, most) + sampler.integer(1, max(side // 3, 1))

    film = [1000 * (temporal * sampler.integer(1, 4) + 1) + 1, 1, *same]
    between = [2 * sampler.integer(1, 4500) - 1, sampler.choice([2, 4]), uneven(3), side]  # it ends between frames
    found = [
        _request(sampler.integer(1, 30), generated=sampler.integer(2, 300)),
        _request(0, [[uneven(9), uneven(5)]], generated=0),
        _request(sampler.integer(0, 30), [[uneven(4), uneven(12)], [1, side]], [film], sampler.integer(2, 9)),
        _request(sampler.integer(0, 30), [], [film, between]),
        _request(2**60 + 2 * sampler.integer(1, 2**50) + 1),
    ]
    return sampler.permutation(found)


def _refused(sampler: Sampler) -> Iterator[dict]:
    low = -sampler.integer(2, 99)
    for name in _SIZES:
        yield from (_bad_decoder(sampler, {name: number}) for number in (0, -1, low))
    yield from (_bad_decoder(sampler, {"window": 40, "full_every": number}) for number in (0, -1))
    for name in ("rope_dim", "shared"):
        yield from (
            _bad_decoder(sampler, {name: number} | also) for number in (-1, low) for also in ({}, {"latent": 64})
        )
    yield from (_bad_decoder(sampler, {"layers": 6, "shared": shared}) for shared in (6, 7, 60))
    yield from (
        _bad_decoder(sampler, {"heads": heads, "kv_heads": kv_heads} | also)
        for heads, kv_heads in ((12, 5), (12, 24), (7, 2), (1, 2))
        for also in ({}, {"latent": 64})
    )
    for number in (-1, low):
        yield from _bad_request(
            sampler, _request(number), _request(number, [[28, 28]] * 9), _request(5, generated=number)
        )
        yield from _bad_request(
            sampler,
            _request(5, videos=[[number, 2, 28, 28]]),
            _request(5, videos=[[number, 2, 28, 28], [2000, 2, 28, 28]]),
        )
    for number in (0, -1, low):
        yield from _bad_request(
            sampler, *(_request(5, images) for images in ([[number, 28]], [[28, number]], [[28, 28], [28, number]]))
        )
        for at in (1, 2, 3):
            film = [2000, 2, 28, 28]
            film[at] = number
            yield from _bad_request(sampler, _request(5, videos=[film]), _request(5, videos=[[2000, 2, 28, 28], film]))
        yield from _bad_request(sampler, _request(5, videos=[[0, number, 28, 28]]), _request(5, [[number, number]]))
    none = (
        *(_request(0, generated=sampled) for sampled in (0, 1, sampler.integer(2, 99))),
        _request(0, videos=[[0, 2, 28, 28]]),
    )
    yield from _bad_request(sampler, *none)


def _just_allowed(sampler: Sampler) -> Iterator[dict]:
    """The least numbers that are right, so that whoever refuses everything from some question on is seen."""
    some = [_request(9, [[28, 28]], [[2000, 2, 28, 28]], 7)]
    for name in _SIZES:
        yield _of_halves(
            sampler,
            _decoder(sampler) | {"heads": 6, "kv_heads": 1, "rope_dim": int(name == "latent"), name: 1},
            some[:],
        )
    for shared in (0, 5):
        yield _of_halves(sampler, _decoder(sampler) | {"layers": 6, "shared": shared}, some[:])
    for request in (
        _request(1),
        _request(1, [[28, 28]]),
        _request(1, videos=[[1000, 1, 28, 28]]),
        _request(1, generated=0),
    ):
        for asked in ([request], [*some, request], [request, *some]):
            yield _of_halves(sampler, _decoder(sampler), asked)


def _bad_decoder(sampler: Sampler, named: dict) -> dict:
    return _of_halves(
        sampler, _decoder(sampler) | named, sampler.choice([[], [_request(9)], [_request(9, [[20, 30]])]])
    )


def _bad_request(sampler: Sampler, *requests: dict) -> Iterator[dict]:
    """Each alone, and before and behind one that is good."""
    good = _request(9, [[20, 30]], [[2000, 2, 20, 30]], 7)
    for request in requests:
        for asked in ([request], [good, request], [request, good]):
            yield _of_halves(sampler, _decoder(sampler), asked)


# ---- what is due


def _up(whole: int, part: int) -> int:
    return (whole + part - 1) // part


def _squares(height: int, width: int, config: dict) -> int:
    side = config["patch"] * config["merge"]
    return _up(height, side) * _up(width, side)


def _prompt(request: dict, config: dict) -> int:
    tokens = request["text"] + sum(_squares(*sides, config) for sides in request["images"])
    for milliseconds, fps, *sides in request["videos"]:
        tokens += _up(_up(milliseconds * fps, 1000), config["temporal"]) * _squares(*sides, config)
    return tokens


def _lengths(question: dict) -> list[int]:
    return [_prompt(request, question["config"]) + max(request["generated"] - 1, 0) for request in question["requests"]]


def _misread(question: dict) -> Iterator[tuple[list[int], str]]:
    """Lengths as some misconceptions have them, each with its sentence."""
    read = [(_prompt(request, question["config"]), request["generated"]) for request in question["requests"]]
    yield [prompt + some for prompt, some in read], "The newest token has not been read: it has no keys and values yet."
    yield [prompt for prompt, _ in read], "Tokens that were generated and read again are kept like the prompt's."
    yield (
        [prompt + some - 1 for prompt, some in read],
        "Before the first token is sampled, the whole prompt has been read.",
    )
    lengths = _lengths(question)
    yield [max(lengths, default=0)] * len(lengths), "Requests were padded to the longest: each keeps its own tokens."


def _expected(question: dict, lengths: list[int] | None = None, **named: Any) -> int:
    """Bytes; of other lengths, or of another decoder, where these are given."""
    config, kept = question["config"] | named, 0
    lengths = _lengths(question) if lengths is None else lengths
    for number in range(1, config["layers"] - config["shared"] + 1):
        whole = config["window"] is None or (config["full_every"] is not None and number % config["full_every"] == 0)
        kept += sum(tokens if whole else min(tokens, config["window"]) for tokens in lengths)
    if config["latent"] is not None:
        return kept * (config["latent"] + config["rope_dim"]) * _ITEM_BYTES[question["dtype"]]
    return kept * (config["kv_heads"] + config["kv_heads"]) * config["head_dim"] * _ITEM_BYTES[question["dtype"]]


# ---- what is wrong


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if criteria == "errors":
        return None  # the other cases ask what is counted
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected an int."
    expected = _expected(question)
    if value == expected:
        return None
    misread = (_expected(question, lengths) for lengths, _ in _misread(question))
    if criteria not in ("requests", "together") and value in misread:
        return None  # which of its tokens a request keeps is `requests`' question
    return next(
        (sentence for rival, sentence in _rivals(criteria, question, expected) if rival == value), _SENTENCES[criteria]
    )


def _rivals(criteria: str, question: dict, expected: int) -> Iterator[tuple[Any, str]]:
    """What some misconceptions come to, each with its sentence."""
    config, item = question["config"], _ITEM_BYTES[question["dtype"]]
    yield float(expected), "That is the nearest float: bytes are counted exactly, in integers."
    if criteria == "heads":
        yield (
            _expected(question, kv_heads=config["heads"]),
            "Heads of queries were counted: several of them share a head of keys and values.",
        )
        yield (
            _expected(question, kv_heads=1, head_dim=config["width"]),
            "The width was counted: keys and values have kv_heads times head_dim elements.",
        )
        yield (
            _expected(question, head_dim=config["width"] // config["heads"]),
            "A head has head_dim elements: the heads need not fill the width.",
        )
        if item != 4:  # where these two are the same
            yield expected // 2, "That is half of what is kept: there are keys, and there are values."
            yield expected * 2 // item, "Every element was counted as 2 bytes, whatever the dtype."
    if criteria == "requests":
        yield from ((_expected(question, lengths), sentence) for lengths, sentence in _misread(question))
        yield (
            _expected(question, _lengths(question)[:1]),
            "Only one request was counted: every one has keys and values of its own.",
        )
    if criteria == "layers":
        yield _expected(question, window=None), "A layer with a window keeps no more than its last tokens."
        yield _expected(question, full_every=None), "Some layers have no window, and keep every token."
        yield _expected(question, shared=0), "The last layers that share keep nothing themselves."
    if criteria == "latents":
        yield _expected(question, latent=None), "With a latent no keys and values of heads are kept."
        yield _expected(question, rope_dim=0), "Beside the latent a rotary key is kept."
        yield 2 * expected, "One latent stands for keys and values together: it is kept once."


_SENTENCES = {
    "heads": "Each token takes, in each layer, a key and a value of head_dim elements in each of the kv_heads heads, in bytes of the dtype.",
    "requests": "The tokens of all requests, equal ones too, are added up in exact integers: those that have been read and no others.",
    "images": (
        "Every image counts, equal ones too. Each of its sides is rounded up by itself, in exact integers, to whole tokens of "
        "merge x patch pixels; the product is its tokens."
    ),
    "videos": (
        "Frames are taken at 0, 1/fps, 2/fps ... seconds, strictly before the video's end, in exact arithmetic. In each video, equal ones too, "
        "every temporal frames, and those left over, become one, with the tokens of an image of that size."
    ),
    "layers": (
        "Layers are numbered from 1. With a window, multiples of full_every keep all tokens, the others the last ones of each request; "
        "the last `shared` layers keep nothing, with or without. Counted in exact integers."
    ),
    "latents": "With a latent each layer keeps latent + rope_dim elements of a token, for all heads together; without, rope_dim says nothing.",
    "together": (
        "Heads or latents, layers, images, videos and requests may each be right alone; in one question they are not. A latent is kept in the "
        "same layers, and for the same tokens, as keys and values are."
    ),
}


exercise = answers(
    criteria=(
        Criterion("heads", 2, "keys and values are counted by their own heads, in bytes of their dtype"),
        Criterion("requests", 1, "all requests are counted, each with the tokens that were read, exactly"),
        Criterion("images", 1, "an image has as many tokens as cover it"),
        Criterion("videos", 1, "a video has the tokens of its frames, as they are taken and brought together"),
        Criterion("layers", 1, "every layer keeps what it keeps: all tokens, those in its window, or none"),
        Criterion("latents", 1, "a latent is counted in the place of keys and values, once for all heads"),
        Criterion("together", 1, "all of this holds at once"),
        Criterion("errors", 1, "what no decoder and no request can be is refused with ValueError", ("heads",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["config"], question["requests"], question["dtype"]),
    wrong=_wrong,
    kept="The function changed what it was given: the caller still needs its requests.",
    in_kernel=True,
)
