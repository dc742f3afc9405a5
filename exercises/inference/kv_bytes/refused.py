"""E18.2 kv_bytes: decoders and requests that cannot be, each with the reason, and the least that can."""

from collections.abc import Iterator
from itertools import cycle

from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, ask, refuse
from exercises.inference.kv_bytes.asked import decoder, question_of, request_of
from exercises.inference.kv_bytes.expected import SIZES
from exercises.inference.parts import with_parts

_FILM = [2000, 2, 28, 28]
_GOOD = request_of(9, [[28, 28]], [_FILM], 7)


def refused_cases(sampler: Sampler) -> Iterator[Questions]:
    """Right ones between wrong ones, so that whoever refuses everything from some question on is seen."""
    bad = sampler.permutation([*_bad_decoders(sampler), *_bad_requests(sampler)])
    right = sampler.permutation(list(_just_allowed(sampler)))
    for half in range(2):
        yield refuse("errors", [(question, _why_refused(question)) for question in bad[half::2]])
        yield ask("errors", with_parts(right[half::2]))


def _bad_decoders(sampler: Sampler) -> Iterator[dict]:
    low, latent = -sampler.integer(2, 99), {"latent": 64}
    changes = [{name: number} for name in SIZES for number in (0, -1, low)]
    changes += [{name: number} | latent for name in ("heads", "kv_heads", "head_dim") for number in (0, -1)]
    changes += [{"window": 40, "full_every": number} for number in (0, -1)]
    changes += [{name: n} | also for name in ("rope_dim", "shared") for n in (-1, low) for also in ({}, latent)]
    changes += [{"layers": 6, "shared": shared} for shared in (6, 7, 60)]
    uneven = [{"heads": heads, "kv_heads": kv_heads} for heads, kv_heads in ((12, 5), (12, 24), (7, 2), (1, 2))]
    changes += [heads | also for heads in uneven for also in ({}, latent)]
    requests = cycle(sampler.shuffled([], [request_of(9)], [request_of(9, [[20, 30]])], []))
    yield from (question_of(decoder(sampler) | change, next(requests)) for change in sampler.permutation(changes))


def _bad_requests(sampler: Sampler) -> Iterator[dict]:
    """Each alone, before or behind one that is good, in turn."""
    low = -sampler.integer(2, 99)
    bad = [request for number in (-1, low) for request in _too_short(number)]
    bad += [request for number in (0, -1, low) for request in _without_a_side(number)]
    bad += [request_of(0, generated=sampled) for sampled in (0, 1, sampler.integer(2, 99))]
    places = cycle(sampler.shuffled(slice(0, 1), slice(0, 2), slice(1, 3)))
    for request in bad:
        yield question_of(decoder(sampler), [request, _GOOD, request][next(places)])
    yield question_of(decoder(sampler), [request_of(0, videos=[[0, 2, 28, 28]])])


def _too_short(number: int) -> list[dict]:
    pictured = request_of(number, [[28, 28]] * 9)  # as many tokens as would make up for it
    films = [[number, *_FILM[1:]]], [[number, *_FILM[1:]], _FILM]
    return [request_of(number), pictured, request_of(5, generated=number), *(request_of(5, videos=f) for f in films)]


def _without_a_side(number: int) -> Iterator[dict]:
    for images in ([[number, 28]], [[28, number]], [[28, 28], [28, number]], [[number, number]]):
        yield request_of(5, images)
    for at in (1, 2, 3):
        film = [*_FILM[:at], number, *_FILM[at + 1 :]]
        yield from (request_of(5, videos=videos) for videos in ([film], [_FILM, film]))
    yield request_of(5, videos=[[0, number, 28, 28]])


def _just_allowed(sampler: Sampler) -> Iterator[dict]:
    """The least numbers that are right, of the decoder and of a request in every place."""
    for name in SIZES:
        least = {"heads": 6, "kv_heads": 1, "rope_dim": int(name == "latent"), name: 1}
        yield _allowed(f"`{name}` may be 1", decoder(sampler) | least, [_GOOD])
    for shared in (0, 5):
        yield _allowed(f"{shared} layers of 6 may share", decoder(sampler) | {"layers": 6, "shared": shared}, [_GOOD])
    yield _allowed("`rope_dim` may be 0, with a latent, too", decoder(sampler) | {"latent": 64}, [_GOOD])
    prompts = {
        "a prompt may have 1 token": (1, [], []),
        "a prompt may have 1 token and an image": (1, [[28, 28]], []),
        "a prompt may have no text beside an image": (0, [[28, 28]], []),
        "a prompt may have no text beside a video": (0, [], [[1000, 1, 28, 28]]),
    }
    for why, prompt in prompts.items():
        least, config = request_of(*prompt, generated=0), decoder(sampler)
        parts = [question_of(config, [{**least, "text": 7}])]  # other criteria ask what a picture has
        for asked in ([least], [_GOOD, least], [least, _GOOD]):
            yield {**_allowed(f"{why}, and nothing generated", config, asked), "parts": parts}


def _allowed(why: str, config: dict, requests: list[dict]) -> dict:
    return {**question_of(config, requests), "allowed": why}


# ---- why


def _why_refused(question: dict) -> str:
    found = [*_of_decoder(question["config"], not question["requests"])]
    return next(iter([*found, *(why for request in question["requests"] for why in _of_request(request))]))


def _of_decoder(config: dict, alone: bool) -> Iterator[str]:
    even_so = ", also where there are no requests" if alone else ""
    with_latent = " with a latent, and is checked there, too" if config["latent"] else ""
    for name in (*SIZES, "rope_dim", "shared"):
        if config[name] is not None and config[name] < (name not in ("rope_dim", "shared")):
            unused = with_latent if name in ("heads", "kv_heads", "head_dim") else ""
            yield f"`{name}` is {config[name]}{unused}{even_so}"
    if config["shared"] >= config["layers"]:
        yield f"`shared` is {config['shared']} of {config['layers']} layers, and none is left{even_so}"
    if config["kv_heads"] < 1 or config["heads"] % config["kv_heads"]:
        yield f"`kv_heads` {config['kv_heads']} does not divide `heads` {config['heads']}{with_latent and ' (there is a latent)'}{even_so}"


def _of_request(request: dict) -> Iterator[str]:
    yield from (f"`{name}` of a request is {request[name]}" for name in ("text", "generated") if request[name] < 0)
    for height, width in request["images"]:
        yield from (f"an image has a side of {side} pixels" for side in (height, width) if side < 1)
    for milliseconds, fps, height, width in request["videos"]:
        if milliseconds < 0:
            yield f"`milliseconds` of a video is {milliseconds}"
        named = {"fps": fps, "height": height, "width": width}
        yield from (f"`{name}` of a video is {number}" for name, number in named.items() if number < 1)
    films = any(milliseconds for milliseconds, *_ in request["videos"])
    if not request["text"] and not request["images"] and not films:
        yield "a prompt has no token at all"
