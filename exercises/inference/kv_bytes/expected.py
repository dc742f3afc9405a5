"""E18.2 kv_bytes: what is due, added up layer by layer and request by request; and what some misreadings come to."""

from collections.abc import Callable, Iterator
from typing import Any

ITEM_BYTES = {
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
SIZES = "layers width heads kv_heads head_dim latent window full_every patch merge temporal".split()
OPTIONS = {"latent": None, "rope_dim": 0, "window": None, "full_every": None, "shared": 0}
OPTIONS |= {"patch": 14, "merge": 1, "temporal": 1}


def up(whole: int, part: int) -> int:
    return (whole + part - 1) // part


def _squares(height: int, width: int, config: dict) -> int:
    side = config["patch"] * config["merge"]
    return up(height, side) * up(width, side)


def _images(sides: list, config: dict) -> int:
    return sum(_squares(*pixels, config) for pixels in sides)


def _frames(milliseconds: int, fps: int) -> int:
    return up(milliseconds * fps, 1000)


def _films(videos: list, config: dict, frames: Callable = _frames, groups: Callable = up) -> int:
    return sum(
        groups(frames(milliseconds, fps), config["temporal"]) * _squares(*sides, config)
        for milliseconds, fps, *sides in videos
    )


def lengths(question: dict, images: Callable = _images, films: Callable = _films, prompts: bool = False) -> list[int]:
    """Tokens that were read of each request, or those of its prompt alone."""
    config = question["config"]
    return [
        request["text"]
        + images(request["images"], config)
        + films(request["videos"], config)
        + (0 if prompts else max(request["generated"] - 1, 0))
        for request in question["requests"]
    ]


def due(question: dict, held: list[int] | None = None, **named: Any) -> int:
    """Bytes; of other lengths, or of another decoder, where these are given."""
    config, kept = question["config"] | named, 0
    held = lengths(question) if held is None else held
    for number in range(1, config["layers"] - config["shared"] + 1):
        whole = config["window"] is None or (config["full_every"] is not None and number % config["full_every"] == 0)
        kept += sum(tokens if whole else min(tokens, config["window"]) for tokens in held)
    if config["latent"] is not None:
        return kept * (config["latent"] + config["rope_dim"]) * ITEM_BYTES[question["dtype"]]
    return kept * (config["kv_heads"] + config["kv_heads"]) * config["head_dim"] * ITEM_BYTES[question["dtype"]]


# ---- misreadings, each with its sentence


def misread(question: dict) -> Iterator[tuple[list[int], str]]:
    """Lengths of requests of which other tokens are thought to be read."""
    read = list(zip(lengths(question, prompts=True), (request["generated"] for request in question["requests"])))
    yield [prompt + some for prompt, some in read], "The newest token has not been read: it has no keys and values yet."
    yield [prompt for prompt, _ in read], "Tokens that were generated and read again are kept like the prompt's."
    early = "Before the first token is sampled, the whole prompt has been read."
    yield [prompt + some - 1 for prompt, some in read], early
    yield [prompt + some - 1 if some else 0 for prompt, some in read], early
    held = lengths(question)
    yield [max(held, default=0)] * len(held), "Requests were padded to the longest: each keeps its own tokens."


def rivals(criterion: str, question: dict) -> Iterator[tuple[int, str]]:
    yield from {
        "heads": _of_heads,
        "requests": _of_requests,
        "images": _of_images,
        "videos": _of_videos,
        "layers": _of_layers,
        "latents": _of_latents,
    }.get(criterion, lambda question: ())(question)


def _of_heads(question: dict) -> Iterator[tuple[int, str]]:
    config, item, right = question["config"], ITEM_BYTES[question["dtype"]], due(question)
    shared = "Heads of queries were counted: several of them share a head of keys and values."
    yield due(question, kv_heads=config["heads"]), shared
    width = "The width was counted: keys and values have kv_heads times head_dim elements."
    yield due(question, kv_heads=1, head_dim=config["width"]), width
    share = "A head has head_dim elements: the heads need not fill the width."
    yield due(question, head_dim=config["width"] // config["heads"]), share
    yield right // 1024, "That is in kibibytes, and bytes are due."
    if item != 4:  # where these two are the same
        yield right // 2, "That is half of what is kept: there are keys, and there are values."
        yield right * 2 // item, "An element was counted as 2 bytes, and those of this dtype have another size."


def _of_requests(question: dict) -> Iterator[tuple[int, str]]:
    yield from ((due(question, held), sentence) for held, sentence in misread(question))
    alone = "Only one request was counted: every one has keys and values of its own."
    yield due(question, lengths(question)[:1]), alone
    once = "Equal requests were counted once: every one has keys and values of its own."
    yield due(question, list(dict(zip(map(str, question["requests"]), lengths(question))).values())), once


def _of_images(question: dict) -> Iterator[tuple[int, str]]:
    def by(squares: Callable) -> int:
        return due(question, lengths(question, lambda sides, config: sum(squares(h, w) for h, w in sides)))

    patch, merge = question["config"]["patch"], question["config"]["merge"]
    side = patch * merge
    yield by(lambda h, w: 0), "The tokens of images were left out: they are kept like words."
    yield by(lambda h, w: (h // side) * (w // side)), "Edges were cut off: whole tokens cover an image."
    yield by(lambda h, w: round(h / side) * round(w / side)), "Sides were rounded to the nearest token, and not up."
    yield by(lambda h, w: up(h * w, side**2)), "The area was rounded up: each side is, by itself."
    patches = "Patches were merged wherever they lie: a token is a square of them, and each side is rounded up to whole tokens."
    yield by(lambda h, w: up(up(h, patch) * up(w, patch), merge**2)), patches
    unmerged = "Patches were counted: a token has merge x merge of them."
    yield by(lambda h, w: up(h, patch) * up(w, patch)), unmerged
    one_way = "Patches were merged in one direction: a token has `merge` of them in both."
    yield by(lambda h, w: up(up(h, patch) * up(w, patch), merge)), one_way
    only = "Only one image was counted: every one of a prompt is, equal ones too."
    yield due(question, lengths(question, lambda sides, config: _images(sides[:1], config))), only
    yield by(lambda h, w: up(h, side) ** 2), "The height was taken for the width: an image need not be a square."


def _of_videos(question: dict) -> Iterator[tuple[int, str]]:
    def by(frames: Callable = _frames, groups: Callable = up) -> int:
        return due(question, lengths(question, films=lambda films, config: _films(films, config, frames, groups)))

    yield by(lambda ms, fps: max(1, _frames(ms, fps))), "A video of 0 milliseconds has no frame."
    yield (
        by(lambda ms, fps: ms * fps // 1000),
        "The last frame is missing where a video ends between two: one begins there.",
    )
    at_end = "A frame was taken at a video's end: all are taken before it. Or was the time rounded, in floats or milliseconds?"
    yield by(lambda ms, fps: ms * fps // 1000 + 1), at_end
    yield by(lambda ms, fps: ms // 1000 * fps), "A part of a second was cut off: it has frames, too."
    yield by(lambda ms, fps: up(ms, 1000) * fps), "A part of a second was taken for a whole one."
    yield by(groups=lambda frames, size: frames // size), "Frames that were left over by `temporal` become one, too."
    yield by(groups=lambda frames, size: frames), "Frames were counted singly: every `temporal` of them become one."
    only = "Only one video was counted: every one of a prompt is, equal ones too."
    yield due(question, lengths(question, films=lambda films, config: _films(films[:1], config))), only
    at_once = "Frames of two videos became one: those of each video are merged, and what is left over, by themselves."
    yield due(question, lengths(question, films=_films_at_once)), at_once


def _films_at_once(videos: list, config: dict) -> int:
    frames: dict[int, int] = {}
    for milliseconds, fps, *sides in videos:
        size = _squares(*sides, config)
        frames[size] = frames.get(size, 0) + _frames(milliseconds, fps)
    return sum(up(count, config["temporal"]) * size for size, count in frames.items())


def _of_layers(question: dict) -> Iterator[tuple[int, str]]:
    config, held = question["config"], lengths(question)
    window, every, layers = config["window"], config["full_every"], config["layers"]
    if window is None:
        yield due(question, window=0), "Without `window` every layer keeps all tokens, whatever `full_every` is."
        return
    batch = due(question, [min(sum(held), window * len(held))], full_every=None)
    yield (
        batch + due(question) - due(question, full_every=None),
        "The window is of each request, and not of all together.",
    )
    yield due(question, shared=0), "The last `shared` layers keep nothing themselves."
    if every:
        yield due(question, window=None), "A layer with a window keeps no more than its last tokens."
        yield (
            due(question, full_every=None),
            "Some layers have no window, and keep every token: multiples of `full_every`.",
        )
        others = (
            "Without a window are the multiples of `full_every`, numbered from 1, and those that share are the last."
        )
        for first in (0, 1 + config["shared"]):
            numbers = range(first, first + layers - config["shared"])
            yield _by_layer(question, [number % every == 0 for number in numbers]), others
        among_all = layers // every - (layers - config["shared"]) // every
        whole, windowed = (_by_layer(question, [kind]) for kind in (True, False))
        none_of_them = "The last `shared` layers keep nothing, those among them that have no window either."
        yield due(question) + among_all * (whole - windowed), none_of_them
        turned = "Multiples of `full_every` have no window, and all others have one."
        yield _by_layer(question, [n % every != 0 for n in range(1, layers - config["shared"] + 1)]), turned
    else:
        yield (
            due(question, window=None),
            "Without `full_every` every layer has the window, and keeps no more than that.",
        )
    yield (
        due(question, [max(tokens, window) for tokens in held]),
        "A request that is shorter than the window keeps what it has.",
    )
    newest = "The window was counted one short: the newest of its tokens has been read as well."
    yield due(question, window=window - 1), newest
    yield due(question, window=window + 1), "A token too many: a layer keeps the last `window`, and no more."


def _by_layer(question: dict, wholes: list[bool]) -> int:
    """Of layers that keep all tokens, or those of the window."""
    one = [due(question, layers=1, shared=0, full_every=1 if whole else None) for whole in (False, True)]
    return sum(one[whole] for whole in wholes)


def _of_latents(question: dict) -> Iterator[tuple[int, str]]:
    config = question["config"]
    if config["latent"] is None:
        return
    yield due(question, latent=None), "With a latent no keys and values of heads are kept."
    yield due(question, rope_dim=0), "Beside the latent a rotary key is kept."
    yield 2 * due(question), "One latent stands for keys and values together: it is kept once."
    heads = "Latent and rotary key are kept once for all heads, and not for each."
    yield config["kv_heads"] * due(question), heads
    yield config["heads"] * due(question), heads
