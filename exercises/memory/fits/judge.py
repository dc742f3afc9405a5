"""E9.3 fits: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_ORDER = {
    "serve": ("weights", "cache", "reserve"),
    "train": ("weights", "gradients", "optimizer", "activations", "reserve"),
}
_UNITS = {"GB": 10**9, "GiB": 2**30}
_WEIGHT_BITS = {"serve": (4, 8, 16, 32), "train": (16, 32)}
_CACHE_BITS = (8, 16, 32)


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("serving", _each_of(sampler, "serve"))
    yield ask("training", _each_of(sampler, "train"))
    yield ask("free", [question for mode in _ORDER for question in _brim(sampler, mode)])
    yield ask("binding", list(_contests(sampler)))
    yield ask("largest", [question for mode in _ORDER for question in _batches(sampler, mode)])
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


def _model(sampler: Sampler, **given: int) -> dict:
    """Heads are shared, and fill less or more than the width."""
    kv_heads, head_dim = sampler.integer(2, 9), 8 * sampler.integer(3, 20)
    heads = kv_heads * sampler.integer(2, 8)
    return {
        "parameters": sampler.integer(10**9, 9 * 10**9),
        "weight_bits": sampler.choice((16, 32)),
        "layers": sampler.integer(11, 90),
        "width": heads * (head_dim + 8 * sampler.choice((-1, 1, 2))),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "cache_bits": sampler.choice(_CACHE_BITS),
        "saved": sampler.integer(20_000, 300_000),
        **given,
    }


def _gpu(sampler: Sampler, **given: Any) -> dict:
    unit = sampler.choice(tuple(_UNITS))
    return {"memory": sampler.integer(40, 800) / 4, "unit": unit, "reserve_mib": sampler.integer(300, 2000), **given}


def _question(sampler: Sampler, mode: str, model: dict, gpu: dict | None = None, **given: int) -> dict:
    job = {"batch": sampler.integer(2, 40), "sequence": sampler.integer(100, 9000), **given}
    return {"model": model, "gpu": gpu or _gpu(sampler), "mode": mode, **job}


def _each_of(sampler: Sampler, mode: str) -> list[dict]:
    """Every width of weights and of caches; odd numbers of weights; heads shared by all, by some and by none; one of each."""
    models = [
        _model(sampler, weight_bits=bits, cache_bits=cached) for bits in _WEIGHT_BITS[mode] for cached in _CACHE_BITS
    ]
    models += [
        _model(sampler, weight_bits=bits, parameters=2 * sampler.integer(3, 10**9) + 1) for bits in _WEIGHT_BITS[mode]
    ]
    models += [_model(sampler, heads=12, kv_heads=kv_heads) for kv_heads in (1, 4, 12)]
    questions = [_question(sampler, mode, model) for model in sampler.permutation(models)]
    questions += [
        _question(sampler, mode, _model(sampler, saved=sampler.integer(1, 9), head_dim=1), batch=1, sequence=1)
    ]
    questions += [_question(sampler, mode, _model(sampler, layers=1), **{few: 1}) for few in ("batch", "sequence")]
    return questions + [
        _question(sampler, mode, _model(sampler), _gpu(sampler, reserve_mib=reserve)) for reserve in (0, 1)
    ]


def _brim(sampler: Sampler, mode: str) -> Iterator[dict]:
    """Cards a byte too small, exactly full and a byte too large; far too small and far too large ones; both units."""
    for unit, size in _UNITS.items():
        for free in sampler.around(0):
            yield _room(sampler, mode, 2 * sampler.integer(0, 4) + 1, free, unit=unit)
        for memory in (sampler.integer(1, 8) / 4, sampler.integer(4000, 9000), 0.25, sampler.integer(200, 900) + 0.75):
            yield _question(
                sampler,
                mode,
                _model(sampler),
                _gpu(sampler, memory=memory, unit=unit),
                batch=2,
                sequence=sampler.integer(9, 99),
            )
        for share in (0.97, 1.03):
            question = _question(sampler, mode, _model(sampler), _gpu(sampler, unit=unit))
            memory = int(4 * share * sum(_terms(question).values()) / size) / 4
            yield {**question, "gpu": {**question["gpu"], "memory": memory}}


def _room(sampler: Sampler, mode: str, sequences: int, free: int, **given: Any) -> dict:
    """A question in which ``sequences``, an odd number, leave ``free`` bytes of the card.

    To train, a parameter takes 16 bytes, whatever its bits, and what a layer saves settles the rest of the division.
    """
    gpu = _gpu(sampler, memory=sampler.integer(200, 900) / 4, **given)
    serves, length = mode == "serve", 2 * sampler.integer(5, 50) + 1
    model = _model(sampler, layers=1, parameters=1, **({"weight_bits": 8} if serves else {}))
    if not serves:
        model["saved"] = 16 * sampler.integer(1000, 9000) - free * pow(sequences * length, -1, 16)
    question = _question(sampler, mode, model, gpu, batch=sequences, sequence=length)
    model["parameters"] += (_free(question) - free) // (1 if serves else 16)
    return question


def _contests(sampler: Sampler) -> Iterator[dict]:
    """Each term the largest, by little and by much, two equal, and a reserve above all."""
    for mode in _ORDER:
        for bits in _WEIGHT_BITS[mode][-2:]:
            yield from (_rivals(sampler, mode, bits, ahead) for ahead in (-1000, -1, 0, 1, 1000))
        small = _model(
            sampler, parameters=sampler.integer(100, 9000), saved=sampler.integer(1, 9), layers=2, head_dim=1
        )
        yield _question(sampler, mode, small, _gpu(sampler, reserve_mib=4000), batch=1, sequence=sampler.integer(1, 9))
        yield _question(sampler, mode, _model(sampler), batch=1, sequence=1)
        yield _question(sampler, mode, _model(sampler), batch=sampler.integer(900, 999), sequence=9000)


def _rivals(sampler: Sampler, mode: str, bits: int, ahead: int) -> dict:
    """The term that grows with the batch is by ``ahead`` parameters' bytes larger than the largest that does not."""
    if mode == "serve":
        model = _model(sampler, weight_bits=bits, head_dim=8 * sampler.integer(1, 9), cache_bits=32)
    else:
        model = _model(sampler, weight_bits=bits, saved=24 * sampler.integer(999, 9999))
    question = _question(sampler, mode, {**model, "parameters": 1})
    each = bits // 8 if mode == "serve" else 8 if bits == 32 else 12
    grown = _terms(question)["cache" if mode == "serve" else "activations"]
    return {**question, "model": {**model, "parameters": grown // each - ahead}}


def _batches(sampler: Sampler, mode: str) -> Iterator[dict]:
    """Room for exactly so many sequences, a byte less or more; for many and for none; not even for the weights; for millions."""
    for numbers in (1, 8 * sampler.integer(9, 99)):
        small = {
            "parameters": sampler.integer(10**8, 10**9),
            "layers": 1,
            "heads": 2,
            "kv_heads": 1,
            "head_dim": numbers,
            "saved": 4 * numbers,
        }
        gpu = _gpu(sampler, memory=sampler.integer(800, 900) / 4)
        yield _question(
            sampler,
            mode,
            _model(sampler, **small),
            gpu,
            batch=sampler.integer(1, 10**6),
            sequence=sampler.integer(1, 9),
        )
    for batch in (1, sampler.integer(2, 40), 500):
        for sequences in (1, 2 * sampler.integer(1, 15) + 1):
            yield from ({**_room(sampler, mode, sequences, free), "batch": batch} for free in sampler.around(0))
        for unit in _UNITS:
            gpu = _gpu(sampler, memory=sampler.integer(800, 900) / 4, unit=unit)
            for parameters in (sampler.integer(10**8, 10**9), sampler.integer(10**12, 10**13)):
                yield _question(sampler, mode, _model(sampler, parameters=parameters), gpu, batch=batch)


def _refused(sampler: Sampler) -> Iterator[dict]:
    """One thing wrong at a time, in either mode where it can be."""
    for mode in _ORDER:
        right = _question(sampler, mode, _model(sampler, weight_bits=16, heads=12, kv_heads=4))
        yield from ({**right, name: count} for name in ("batch", "sequence") for count in (0, -sampler.integer(1, 9)))
        yield from (
            {**right, "gpu": {**right["gpu"], "unit": unit}}
            for unit in ("MB", "gb", "Gib", "GIB", "G", "Gb", "TB", "", " GB")
        )
        changes = [{"kv_heads": count} for count in (5, 8, 24)] + [{"cache_bits": bits} for bits in (1, 2, 4, 12, 64)]
        changes += [{"weight_bits": bits} for bits in (1, 2, 3, 12, 64, *((4, 8) if mode == "train" else ()))]
        yield from ({**right, "model": {**right["model"], **change}} for change in changes)
        yield from (
            {**right, "mode": other}
            for other in (mode.upper(), mode.capitalize(), f"{mode} ", f"{mode}ing", "", "infer")
        )


def _terms(question: dict) -> dict:
    model, tokens = question["model"], question["batch"] * question["sequence"]
    weights = (model["parameters"] * model["weight_bits"] + 7) // 8
    numbers = model["layers"] * model["kv_heads"] * model["head_dim"] * 2
    found = {
        "weights": weights,
        "cache": tokens * numbers * model["cache_bits"] // 8,
        "gradients": weights,
        "optimizer": model["parameters"] * (8 + 4 * (model["weight_bits"] == 16)),
        "activations": tokens * model["layers"] * model["saved"],
        "reserve": question["gpu"]["reserve_mib"] << 20,
    }
    return {name: found[name] for name in _ORDER[question["mode"]]}


def _free(question: dict) -> int:
    gpu = question["gpu"]
    return int(4 * gpu["memory"]) * _UNITS[gpu["unit"]] // 4 - sum(_terms(question).values())


def _reference(question: dict) -> dict:
    """By asking, not by dividing: the verdict for a batch is the one of its bytes."""
    terms, free = _terms(question), _free(question)
    of_one = sum(_terms({**question, "batch": 1}).values()) - sum(_terms({**question, "batch": 0}).values())
    order = [name for name in terms if name != "reserve"]
    return {
        "terms": terms,
        "free": free,
        "fits": free >= 0,
        "binding": next(name for name in order if terms[name] == max(terms[other] for other in order)),
        "largest": max(_free({**question, "batch": 0}) // of_one, 0),
    }


_LOOKED_AT = {
    "serving": ("terms",),
    "training": ("terms",),
    "free": ("free", "fits"),
    "binding": ("binding",),
    "largest": ("largest",),
}
_MISREAD = {
    "weights": "The weights are wrong: bits are not bytes, and a part of a byte counts as one.",
    "cache": "The cache is wrong: keys and values, of each head of keys (not of queries), in each layer, for every token of every sequence.",
    "gradients": "The gradients are wrong: each weight that is trained has one, of as many bytes.",
    "optimizer": "The optimizer's bytes are wrong: two moments in float32, and a master copy where the weights are not float32 themselves.",
    "activations": "The activations are wrong: every layer saves its bytes for every token of every sequence.",
    "reserve": "The reserve is wrong: it is given in MiB, and it is a term like the others.",
    "free": "What is free is wrong: the card's bytes (GB are 10^9, GiB 2^30) without those of every term.",
    "fits": "The verdict is wrong: what is exactly full fits, and a byte more does not.",
    "binding": (
        "Another term is larger, or as large and earlier in the order; the reserve does not count, since "
        "no choice changes it."
    ),
    "largest": (
        "The largest batch is wrong: subtract the terms that do not depend on the batch, and divide the "
        "rest by the bytes of one sequence."
    ),
}


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    expected = _reference(question)
    if not isinstance(value, dict) or set(value) != set(expected):
        return f"The function returned {type_name(value)}; expected a dictionary with the five entries."
    for name in _LOOKED_AT[criterion]:
        if (
            problem := _terms_problem(value[name], expected[name])
            if name == "terms"
            else _entry_problem(name, value[name], expected[name])
        ):
            return problem
    return None


def _terms_problem(terms: Any, expected: dict) -> str | None:
    if not isinstance(terms, dict) or set(terms) != set(expected):
        return "The terms are not those of this mode: expected each of them by its name, and no others."
    return next((problem for name in expected if (problem := _entry_problem(name, terms[name], expected[name]))), None)


def _entry_problem(name: str, found: Any, expected: Any) -> str | None:
    if type(found) is not type(expected):
        return f"`{name}` is {type_name(found)}; expected {type_name(expected)}."
    return None if found == expected else _MISREAD[name]


exercise = answers(
    criteria=(
        Criterion("serving", 2, "weights, cache and reserve are right to the byte"),
        Criterion("training", 2, "weights, gradients, optimizer, activations and reserve are right to the byte"),
        Criterion("free", 2, "the free bytes are right in GB and in GiB, and a full card fits"),
        Criterion("binding", 1, "the largest term is named, and of equal terms the first"),
        Criterion("largest", 1, "the largest batch is right, on cards that it fills and that hold no sequence"),
        Criterion("errors", 1, "invalid cards and jobs are refused with ValueError", ("serving",)),
    ),
    cases=_cases,
    arguments=lambda question: tuple(question[name] for name in ("model", "gpu", "mode", "batch", "sequence")),
    wrong=_wrong,
    kept="The function changed a dictionary that it was given.",
    in_kernel=True,
)
