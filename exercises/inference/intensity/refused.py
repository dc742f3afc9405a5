"""E18.3 intensity: passes that cannot be, each with the reason, and the least that can."""

from collections.abc import Iterator
from typing import Any

from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, ask, refuse
from exercises.inference.intensity.asked import PHASES, card_of, config_of, large, question_of


def refused_cases(sampler: Sampler) -> Iterator[Questions]:
    """Right ones between wrong ones, so that whoever refuses everything from some question on is seen."""
    bad, right = sampler.permutation(list(_refused(sampler))), list(_just_allowed(sampler))
    for half in range(2):
        yield refuse("errors", [(question, _why_refused(question)) for question in bad[half::2]])
        yield ask("errors", right[half::2])


def _refused(sampler: Sampler) -> Iterator[dict]:
    config = config_of(large(sampler))
    for phase in ("", "Prefill", "DECODE", "pre-fill", "train", "decoding"):
        yield question_of(sampler, phase, 2, 10, config)
    for phase in PHASES:
        for batch in (0, -1, -sampler.integer(2, 99)):
            yield question_of(sampler, phase, batch, 10, config)
        for seq in (-1, -sampler.integer(2, 99), *([0] if phase == "prefill" else [])):
            yield question_of(sampler, phase, 2, seq, config)
        for heads, kv_heads in ((8, 3), (4, 8), (sampler.integer(9, 15), 8), (2, 4)):
            yield question_of(sampler, phase, 2, 10, config | {"heads": heads, "kv_heads": kv_heads})
        yield question_of(sampler, phase, 0, 0, config)
    for dtype in ("bfloat16", "float8_e4m3fn", "float32"):
        card = card_of(sampler, dtype)
        dense = {name: rate for name, rate in card["dense"].items() if name != dtype}
        asked = sampler.choice(PHASES), 2, 10, config_of(large(sampler), dtype)
        yield question_of(sampler, *asked, card | {"dense": dense})
    unknown = config_of(large(sampler), "uint8", 4, 4)
    yield question_of(sampler, "decode", 2, 10, unknown, card_of(sampler, "bfloat16"))


def _just_allowed(sampler: Sampler) -> Iterator[dict]:
    """The fewest requests and tokens, heads with keys of their own and with the same for all, and one peak."""
    for phase in PHASES:
        config = config_of(large(sampler, 1), sampler.choice(["bfloat16", "float32"]))
        card, least = card_of(sampler, config["dtype"]), int(phase == "prefill")
        some = config_of(large(sampler, 4), config["dtype"])
        yield _allowed(f"1 request and `seq` {least} are allowed in {phase}", sampler, phase, 1, least, some, card)
        yield _allowed("each query head may have keys of its own", sampler, phase, 3, 7, config, card)
        only = {"dense": {config["dtype"]: card["dense"][config["dtype"]]}, "sparse": {}}
        one = "all query heads may share one head of keys, and a card have one peak"
        yield _allowed(one, sampler, phase, 1, 1, config | {"kv_heads": 1}, card | only)


def _allowed(why: str, *asked: Any) -> dict:
    return {**question_of(*asked), "allowed": why}


def _why_refused(question: dict) -> str:
    (phase, batch, seq), config, card = question["asked"], question["config"], question["card"]
    if phase not in PHASES:
        return f"the phase `{phase}` is neither of the two"
    if batch < 1:
        return f"`batch` is {batch}"
    if seq < (phase == "prefill"):
        return f"`seq` is {seq} in {phase}"
    if config["heads"] % config["kv_heads"]:
        return f"`heads` {config['heads']} is no multiple of `kv_heads` {config['kv_heads']}"
    others = ", whatever it has with sparsity" if config["dtype"] in card["sparse"] else ""
    return f"the card has no dense peak for {config['dtype']}{others}"
