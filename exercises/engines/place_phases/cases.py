"""Questions for E19.4: workloads and clusters on both sides of everything that its model decides."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from autograder.core.sampler import Sampler
from exercises.engines.place_phases.phases import Model, stated

LOOSE = 10**15
NO_END = 10**15
"""A limit, and slots, that decide nothing."""
HAIR = Fraction(1, 10**20)
BESIDE = (1 - HAIR, Fraction(1), 1 + HAIR)
"""Below a boundary, on it, above it: no float can tell them apart, so that luck decides nothing."""
COUNTS = ("instances", "slots", "chunk", "layers", "kv_bytes")
NAMES = (*COUNTS, "rate", "most_ttft_us", "most_gap_us", "prefill_us", "step_us", "link_gbps", "link_latency_us")


# ---- one question


def with_(question: dict, **named: Any) -> dict:
    """Another question with other numbers, or another ``mix``."""
    parts = {
        part: {name: stated(named.get(name, number)) for name, number in question[part].items()}
        for part in ("workload", "cluster")
    }
    return parts | {"mix": [list(kind) for kind in named.get("mix", question["mix"])]}


def mix_of(sampler: Sampler, kinds: int, most: int = 400) -> list[list[int]]:
    """Prompts of unlike lengths and shares of cached tokens."""
    found = []
    for share in sampler.shuffled(0, 1, 3, 5, 7)[:kinds]:
        prompt = sampler.integer(300, 9000)
        cached = prompt * share // 8 + (sampler.integer(0, prompt // 9) if share else 0)
        found.append([prompt, cached, sampler.integer(2, most), sampler.integer(1, 9)])
    return found


def holds(question: dict) -> bool:
    """Whether both placements do, and a link of some bandwidth makes them equal while it holds, as does one a third slower."""
    model = Model(question)
    gain, even = model.gain(), model.break_even()
    if gain is None or even is None or model.split(even * 3 / 4) is None:
        return False
    return model.split(model.has.link_gbps) is not None and gain > 2 * model.has.link_latency_us


def weighs(question: dict) -> bool:
    """As ``holds``, and outputs that are averaged without their weights come to another number."""
    model = Model(question)
    return holds(question) and model.after_first * len(model.mix) != sum(output - 1 for _, _, output, _ in model.mix)


def some(sampler: Sampler, kinds: int = 0, suits: Callable[[dict], bool] = holds, **named: Any) -> dict:
    """A question for which ``suits``: a mix of so many kinds, or of one to four."""
    for _ in range(3000):
        question = with_(_any(sampler, kinds or sampler.integer(1, 4)), **named)
        if suits(question):
            return question
    raise ValueError("no question suits")


def _any(sampler: Sampler, kinds: int) -> dict:
    instances, prefill_us = (
        sampler.integer(4, 10),
        sampler.choice([sampler.integer(5, 60), Fraction(sampler.integer(50, 400), 7)]),
    )
    cluster = {
        "instances": instances,
        "slots": NO_END,
        "prefill_us": prefill_us,
        "step_us": sampler.integer(3000, 20_000),
        "chunk": sampler.integer(256, 2048),
        "layers": sampler.integer(3, 80),
        "kv_bytes": sampler.integer(10**4, 4 * 10**5),
        "link_gbps": 1,
        "link_latency_us": sampler.integer(1, 900),
    }
    workload = {"rate": 1, "most_ttft_us": LOOSE, "most_gap_us": LOOSE}
    question = {"mix": mix_of(sampler, kinds), "workload": workload, "cluster": cluster}
    busy = Fraction(sampler.integer(8, 35), 100) * instances
    question = at_load(question, busy, lambda model: model.load(1, model.computing))
    return sent_for(with_slots(question, sampler.integer(1, instances // 2)), Fraction(sampler.integer(3, 14), 10))


def at_load(question: dict, load: Fraction, of: Callable[[Model], Fraction]) -> dict:
    """At the rate that makes ``of``, which is in proportion to it, this ``load``."""
    return with_(question, rate=Model(question).has.rate * load / of(Model(question)))


def with_slots(question: dict, decode: int) -> dict:
    """With so few slots that ``decode`` instances have to decode, or a few less where hardly anybody does."""
    model = Model(question)
    return with_(question, slots=max(1, -int(-model.at_once(model.has.step_us) // decode)))


def sent_for(question: dict, ratio: Fraction) -> dict:
    """With a link on which the average prompt is sent for ``ratio`` times as long as it is computed."""
    model = Model(question)
    return with_(question, link_gbps=8 * model.average(model.sent) / (1000 * ratio * model.average(model.computing)))


def idle(question: dict, most: Fraction = Fraction(1, 2)) -> dict:
    """At a rate that loads instances and links by less than half, with slots for everyone."""
    question = with_(question, slots=NO_END)
    model = Model(question)
    loads = model.load(1, model.chunked()), 8 * model.load(1, model.sent) / (1000 * model.has.link_gbps)
    return with_(question, rate=min(model.has.rate, model.has.rate * most / max(loads)))


# ---- shared


def shared(sampler: Sampler) -> Iterator[dict]:
    for kinds in (1, 2, 3, 4):
        question = some(sampler, kinds)
        yield from (question, idle(question))
    yield from _chunked(sampler)
    for load in (*BESIDE, Fraction(9, 10), Fraction(999, 1000), Fraction(2)):
        yield at_load(with_(question, slots=NO_END), load, _shared_load)
    yield from _slots_full(question, *BESIDE, Fraction(2, 3), Fraction(3, 2))
    for mix in _mixes(sampler, question["mix"]).values():
        yield idle(with_(question, mix=mix))
    yield with_(idle(question), instances=2, rate=Fraction(1, sampler.integer(7, 99)))
    yield with_(idle(question), slots=1)


def _mixes(sampler: Sampler, mix: list[list[int]]) -> dict[str, list]:
    """The like of a mix: of one token, cached but one, of one output token, of weights far apart, twice the same."""
    weights = sampler.shuffled(1, 2, 10**6)
    tall = [[*kind[:3], weight] for kind, weight in zip(mix, weights, strict=False)]
    return {
        "one token": [[1, 0, 1, 1]],
        "all but one cached": [[prompt, prompt - 1, output, weight] for prompt, _, output, weight in mix],
        "nothing cached": [[prompt, 0, output, weight] for prompt, _, output, weight in mix],
        "one output token": _only_first(mix),
        "one kind of one output token": [*mix[1:], [*mix[0][:2], 1, mix[0][3]]],
        "weights": tall,
        "twice": [*mix, *mix[:1]],
        "one million": [*mix, [10**6 + 1, sampler.integer(0, 10**5), sampler.integer(2, 99), 1]],
    }


def _only_first(mix: list[list[int]]) -> list[list[int]]:
    return [[prompt, cached, 1, weight] for prompt, cached, _, weight in mix]


def _chunked(sampler: Sampler) -> Iterator[dict]:
    """What is computed ends before, at and after the end of a chunk; and is less than one."""
    question = some(sampler, 2)
    for chunks in (1, 2, sampler.integer(3, 9)):
        for off in (-1, 0, 1):
            chunk, cached = sampler.integer(64, 700), sampler.integer(0, 500)
            first = [chunks * chunk + off + cached, cached, *question["mix"][0][2:]]
            others = sampler.choice([[], question["mix"][1:]])
            yield idle(with_(question, mix=[first, *others], chunk=chunk))
    yield idle(with_(question, chunk=10_000))
    yield idle(with_(question, chunk=1, step_us=Fraction(sampler.integer(3, 50), 7)))


def _shared_load(model: Model) -> Fraction:
    return model.load(model.has.instances, model.chunked())


def _slots_full(question: dict, *times: Fraction) -> Iterator[dict]:
    """So many ``times`` as many requests decode as have slots. Outputs are longer for that: they load nothing."""
    question = idle(question)
    running = Model(question).running()
    question = with_(question, mix=[[*kind[:2], kind[2] * (1 + int(9 / running)), kind[3]] for kind in question["mix"]])
    model = Model(question)
    slots = int(model.running()) + 1
    for beside in times:
        yield with_(question, slots=slots, step_us=model.has.step_us * beside * slots / model.running())


# ---- split


def instances(sampler: Sampler) -> Iterator[dict]:
    """Links are fast, or loaded so that each carries what comes and one of them would not carry all."""
    for kinds in (1, 3):
        question = with_(some(sampler, kinds, weighs if kinds > 1 else holds), link_gbps=10**9)
        yield question
        for decode in (1, 2, 3):
            for beside in (*BESIDE, Fraction(2, 3)):
                yield _decoding(sampler, question, decode * beside)
    yield with_(idle(question), mix=_only_first(question["mix"]), slots=1)
    yield from (with_(idle(question), **named) for named in ({}, {"chunk": 1}, {"instances": 1}, {"instances": 2}))
    for short in (-1, 0, 1):
        yield _decoding(sampler, idle(question), Fraction(sampler.integer(2, 3)), missing=short)
    for few in (2, sampler.integer(3, 8)):
        question = with_(question, instances=few, slots=NO_END)
        for load in (*BESIDE, Fraction(2)):
            yield at_load(question, load * (few - 1), _prompt_load)
    slow = sent_for(with_(question, instances=sampler.integer(4, 9)), Fraction(sampler.integer(11, 40), 10))
    yield at_load(slow, Fraction(9, 10) * (Model(slow).has.instances - 1), _link_load)


def _prompt_load(model: Model) -> Fraction:
    """On one instance."""
    return model.load(1, model.computing)


def _link_load(model: Model) -> Fraction:
    """On one link."""
    return 8 * model.load(1, model.sent) / (1000 * model.has.link_gbps)


def _decoding(sampler: Sampler, question: dict, decode: Fraction, missing: int | None = None) -> dict:
    """With requests for so many instances at once; of one, none or ``-missing`` others."""
    model = Model(question)
    slots = sampler.integer(1, 90)
    step_us = decode * slots * 10**6 / (model.has.rate * model.after_first)
    named = {} if missing is None else {"instances": max(1, int(decode) - missing)}
    return with_(question, slots=slots, step_us=step_us, **named)


def transfers(sampler: Sampler) -> Iterator[dict]:
    """Instances are idle, or two: however they are divided, prompts are computed."""
    base = some(sampler)
    ratios = (Fraction(1, 9), Fraction(9, 10), Fraction(1), Fraction(11, 10), Fraction(4))
    for plan in sampler.cover(
        ratio=ratios, layers=(1, 2, 3, 80), link_latency_us=(0, 13, 40_000), cached=("no", "some", "nearly all")
    ):
        kinds = sampler.integer(1, 4)
        mix = mix_of(sampler, kinds)
        shares = {"no": [0] * kinds, "some": [kind[1] for kind in mix]}
        shares["nearly all"] = [kind[0] - sampler.integer(1, 9) for kind in mix]
        mix = [[prompt, cached, *rest] for (prompt, _, *rest), cached in zip(mix, shares[plan["cached"]], strict=True)]
        question = with_(base, mix=mix, layers=plan["layers"], link_latency_us=plan["link_latency_us"])
        yield idle(sent_for(question, plan["ratio"]))
    yield from _apart(sampler, base)
    for exact in (2**40 + 1, 2**61 - 1):
        odd = [[2 * sampler.integer(10**4, 10**5) + 1, cached, 2, 2 * cached + 1] for cached in (0, 7)]
        for mix in (odd, odd[:1]):
            yield idle(sent_for(with_(base, mix=mix, kv_bytes=exact), Fraction(sampler.integer(1, 30), 10)))
    yield with_(idle(base), link_gbps=Fraction(1, 10**4))
    slow = sent_for(with_(base, instances=2, slots=NO_END), Fraction(sampler.integer(11, 40), 10))
    yield from (at_load(slow, load, _link_load) for load in (*BESIDE, Fraction(2)))


def _apart(sampler: Sampler, question: dict) -> Iterator[dict]:
    """One kind is sent for longer than it is computed, the other for less, and so is their average."""
    for ratio in (Fraction(1, 2), Fraction(3, 2)):
        mix = [[sampler.integer(3000, 6000), 0, 9, 1], [8000, sampler.integer(7000, 7900), 9, sampler.integer(1, 2)]]
        yield idle(sent_for(with_(question, mix=mix, layers=sampler.integer(20, 60)), ratio))


def splits(sampler: Sampler) -> Iterator[dict]:
    """However instances are divided, one that computes prompts can do it, and one that decodes has slots."""
    for kinds in (1, 2, 3, 4):
        question = sent_for(some(sampler, kinds), Fraction(1, sampler.integer(20, 90)))
        yield from (idle(question), idle(question, Fraction(1, sampler.integer(6, 30))))
    for mix in _mixes(sampler, question["mix"]).values():
        yield idle(sent_for(with_(question, mix=mix), Fraction(sampler.integer(3, 20), 10)))
    yield with_(idle(question), chunk=1)  # shared does not hold
    for load in (Fraction(9, 10), Fraction(999, 1000)):
        yield at_load(with_(question, instances=2, slots=NO_END, link_gbps=10**9), load, _prompt_load)


# ---- both


def placements(sampler: Sampler) -> Iterator[dict]:
    base = some(sampler)
    for first, apart in ((0, Fraction(2, 3)), (1, Fraction(3))):
        question = _even_at(sampler, base, sampler.integer(3, 60), lambda x: (x[first] + x[first + 1]) / 2)
        even = Model(question).break_even()
        for times in (*BESIDE, Fraction(2, 3), Fraction(3)):
            yield with_(question, link_gbps=even * times)
        yield from _limited(with_(question, link_gbps=even * apart))
    yield with_(question, mix=_only_first(question["mix"]), link_gbps=10**6)
    for alone in ({"chunk": 1}, {"link_gbps": Fraction(1, 10**4)}):
        yield with_(question, **alone)
        yield with_(question, **alone, most_gap_us=Fraction(1, 2))
        yield with_(question, **alone, most_ttft_us=Fraction(1, 2))
    yield with_(question, chunk=1, link_gbps=Fraction(1, 10**4))


def _limited(question: dict) -> Iterator[dict]:
    """Each limit at what either placement has, and a hair less."""
    model = Model(question)
    for plan in (model.shared(), model.split(model.has.link_gbps)):
        for limit, key in (("most_ttft_us", "ttft_us"), ("most_gap_us", "gap_us")):
            yield from (with_(question, **{limit: plan[key] * less}) for less in BESIDE)


def evens(sampler: Sampler) -> Iterator[dict]:
    for kinds in (1, 2, 3, 4):
        yield some(sampler, kinds)
    question = some(sampler)
    places = [lambda x: x[0] / 2, lambda x: x[0], lambda x: (x[0] + x[1]) / 2]
    places += [lambda x: x[1], lambda x: (x[1] + x[2]) / 2, lambda x: x[2] * 5 / 4]
    for layers in (1, 2, 60):
        yield from (_even_at(sampler, question, layers, place) for place in places)
    for times in (
        Fraction(999, 1000),
        1,
        Fraction(1001, 1000),
        2,
    ):  # the latency alone takes all that is saved, more and less
        yield with_(question, link_latency_us=Model(question).gain() * times)
    yield with_(question, link_latency_us=Model(question).gain() - 1)  # it leaves a microsecond
    yield some(sampler, 1, _loses_anyway, instances=2, step_us=1, slots=NO_END, link_latency_us=0)
    yield with_(question, chunk=1)  # shared does not hold
    yield with_(question, link_gbps=Fraction(1, 10**4))
    yield with_(question, most_ttft_us=1, most_gap_us=Fraction(1, 3))
    yield with_(question, chunk=1, most_ttft_us=1)
    yield with_(question, rate=10**9)
    full = some(sampler, suits=_is_full)
    yield from (full, with_(full, link_latency_us=0), with_(full, link_gbps=Fraction(1, 10**4)))


def _is_full(question: dict) -> bool:
    """Whether the least bandwidth is that which carries the rate."""
    model = Model(question)
    even, sizes = model.break_even(), model.sizes()
    return even is not None and model.shared() is not None and even * 1000 == 8 * model.load(sizes[0], model.sent)


def _even_at(sampler: Sampler, base: dict, layers: int, place: Callable[[list[Fraction]], Fraction]) -> dict:
    """Equal at a bandwidth by its place among the three at which a kind is sent for as long as it is computed."""
    mix = [[sampler.integer(3000, 9000), 0, 4000, sampler.integer(1, 4)]]
    mix += [
        [8 * size, size * part, 4000, sampler.integer(1, 4)] for size, part in zip((900, 1100), (2, 5), strict=True)
    ]
    question = idle(with_(base, mix=mix, layers=layers, link_latency_us=0), Fraction(1, 8))
    question = with_(question, step_us=max(Model(question).has.step_us, 9000))
    while (latency := _left(question, place)) < 0:  # the longer a step, the more a split saves
        question = with_(question, step_us=Model(question).has.step_us * Fraction(5, 4))
    return with_(question, link_latency_us=latency)


def _left(question: dict, place: Callable[[list[Fraction]], Fraction]) -> Fraction:
    """Of what a split saves, beside what is exposed at a place."""
    model = Model(question)
    return model.gain() - model.exposed_us(place(model.bends()))


def _loses_anyway(question: dict) -> bool:
    gain = Model(question).gain()
    return gain is not None and gain < 0


# ---- errors


def refusals(sampler: Sampler) -> Iterator[dict]:
    """What ValueError is due for, in each place, whether the number would matter or not."""
    question = some(sampler, 3)
    for question in (question, with_(question, instances=1)):
        mix, low = question["mix"], -sampler.integer(2, 99)
        yield with_(question, mix=[])
        for name in NAMES:
            few = (Fraction(-1, 2), low) if name == "link_latency_us" else (0, low)
            yield from (with_(question, **{name: number}) for number in few)
        prompt, cached, output, weight = mix[sampler.integer(0, 2)]
        for other in (
            [0, 0, output, weight],
            [prompt, -1, output, weight],
            [prompt, prompt, output, weight],
            [prompt, prompt + 1, output, weight],
            [prompt, cached, 0, weight],
            [prompt, cached, output, 0],
            [prompt, cached, output, -1],
        ):
            yield with_(question, mix=sampler.permutation([*mix[1:], other]))
    yield from (with_(question, mix=[*mix[:2], [*mix[2][:1], bad, *mix[2][2:]]]) for bad in (-1, mix[2][0]))


def allowed(sampler: Sampler) -> Iterator[dict]:
    """The least that each number can be."""
    question = some(sampler, 3)
    yield question
    for name in NAMES:
        yield with_(question, **{name: 1 if name in COUNTS else Fraction(1, sampler.integer(3, 10**5))})
    yield with_(question, link_latency_us=0)
    yield from (with_(question, mix=mix) for mix in _mixes(sampler, question["mix"]).values())
