"""E9.3 fits: cases and judge.

Every entry is judged by the learner's own entries before it, so that a wrong cache is no wrong `free`.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

from autograder.core.exercise import Case, Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

_ORDER = {
    "serve": ("weights", "cache", "reserve"),
    "train": ("weights", "gradients", "optimizer", "activations", "reserve"),
}
_GROWING = {"serve": "cache", "train": "activations"}
_UNITS = {"GB": 10**9, "GiB": 2**30}
_WEIGHT_BITS = {"serve": (4, 8, 16, 32), "train": (16, 32)}
_CACHE_BITS = (8, 16, 32)
_70B = {"parameters": 70_553_706_496, "weight_bits": 4, "layers": 80, "width": 8192, "heads": 64, "kv_heads": 8}
_70B |= {"head_dim": 128, "cache_bits": 16, "saved": 34 * 8192}
_8B = _70B | {
    "parameters": 8_030_261_248,
    "weight_bits": 16,
    "layers": 32,
    "width": 4096,
    "heads": 32,
    "saved": 34 * 4096,
}
_SEEN = ((_70B, "serve", 16, 4096), (_70B, "serve", 1, 2048), (_8B, "serve", 8, 8192), (_8B, "train", 1, 2048))


def _cases(sampler: Sampler) -> Iterator[Questions]:
    seen = [_job(job, size) for job in _SEEN for size in (40, 80)]
    for criterion, mode in (("serving", "serve"), ("training", "train")):
        yield ask(criterion, [job for job in seen if job["mode"] == mode] + _each_of(sampler, mode))
    yield ask("free", seen + [question for mode in _ORDER for question in _brim(sampler, mode)])
    yield ask("binding", seen + list(_contests(sampler)) + list(_grid(sampler)))
    yield ask("largest", seen + list(_grid(sampler)) + list(_batches(sampler)))
    yield ask("errors", list(_least(sampler)))
    yield refuse("errors", list(_refused(sampler)))


def _job(job: tuple, size: int) -> dict:
    """What the visible check asks, and the statement: 70B in 4 bits on a card of 40 GB."""
    gpu = {"memory": size, "unit": "GB", "reserve_mib": 768}
    return {"gpu": gpu, **dict(zip(("model", "mode", "batch", "sequence"), job, strict=True))}


def _model(sampler: Sampler, **given: int) -> dict:
    """Heads are shared, and fill the width."""
    kv_heads, head_dim = sampler.integer(2, 9), 8 * sampler.integer(3, 20)
    heads = kv_heads * sampler.integer(2, 8)
    sizes = {"parameters": sampler.integer(10**9, 9 * 10**9), "weight_bits": sampler.choice((16, 32))}
    sizes |= {"layers": sampler.integer(11, 90), "saved": sampler.integer(20_000, 300_000), "heads": heads}
    sizes |= {"kv_heads": kv_heads, "head_dim": head_dim, "cache_bits": sampler.choice(_CACHE_BITS)} | given
    return {"width": sizes["heads"] * sizes["head_dim"], **sizes}


def _unfilled(model: dict, wider: int) -> dict:
    """The heads fill less or more than the width."""
    return model | {"width": model["heads"] * (model["head_dim"] + wider * min(8, model["head_dim"] // 2 + 1))}


def _gpu(sampler: Sampler, **given: Any) -> dict:
    unit = sampler.choice(tuple(_UNITS))
    return {"memory": sampler.integer(40, 800) / 4, "unit": unit, "reserve_mib": sampler.integer(300, 2000), **given}


def _question(sampler: Sampler, mode: str, model: dict, gpu: dict | None = None, **given: int) -> dict:
    job = {"batch": sampler.integer(2, 40), "sequence": sampler.integer(100, 9000), **given}
    return {"model": model, "gpu": gpu or _gpu(sampler), "mode": mode, **job}


def _each_of(sampler: Sampler, mode: str) -> list[dict]:
    """Every width; odd numbers of weights; heads shared by all, some, none; one of each; more than a float can hold."""
    widths = zip(_CACHE_BITS * 2, cycle(_WEIGHT_BITS[mode]))
    models = [_model(sampler, weight_bits=bits, cache_bits=cached) for cached, bits in widths]
    models += [_model(sampler, weight_bits=b, parameters=2 * sampler.integer(3, 10**9) + 1) for b in _WEIGHT_BITS[mode]]
    if mode == "serve":
        models += [_model(sampler, heads=12, kv_heads=kv_heads) for kv_heads in (1, 4, 12)]
        models = [_unfilled(model, wider) for model, wider in zip(models, cycle((-1, 1)))]
    questions = [_question(sampler, mode, model) for model in sampler.permutation(models)]
    little = _model(sampler, saved=sampler.integer(1, 9), head_dim=1, layers=1)
    questions += [_question(sampler, mode, little, batch=1, sequence=1)]
    questions += [_question(sampler, mode, _model(sampler), _gpu(sampler, reserve_mib=few)) for few in (0, 1)]
    vast = {"layers": 1, "saved": 1, "heads": 6, "kv_heads": 3, "head_dim": 1, "cache_bits": 8}
    if mode == "serve":
        vast |= {"parameters": 2**56 + 2 * sampler.integer(1, 2**40) + 1, "weight_bits": 8}
    sequence = 2**54 + 2 * sampler.integer(1, 2**40) + 1
    return [*questions, _question(sampler, mode, _model(sampler, **vast), batch=3, sequence=sequence)]


def _brim(sampler: Sampler, mode: str) -> Iterator[dict]:
    """Cards a byte too small, exactly full and a byte too large; far too small and far too large ones; both units."""
    for unit in _UNITS:
        yield from (_room(sampler, mode, 2 * sampler.integer(0, 4) + 1, free, unit=unit) for free in sampler.around(0))
        for memory in (0.25, sampler.integer(200, 900) + 0.75, sampler.integer(4000, 9000)):
            gpu = _gpu(sampler, memory=memory, unit=unit)
            yield _question(sampler, mode, _model(sampler), gpu, batch=2, sequence=sampler.integer(9, 99))


def _room(sampler: Sampler, mode: str, sequences: int, free: int, **given: Any) -> dict:
    """A question in which ``sequences``, an odd number, leave ``free`` bytes of the card.

    To train, a parameter takes 16 bytes, whatever its bits, and what a layer saves settles the rest of the division.
    """
    gpu = _gpu(sampler, **{"memory": sampler.integer(200, 900) / 4, **given})
    serves, length = mode == "serve", 2 * sampler.integer(5, 50) + 1
    model = _model(sampler, layers=1, parameters=1, **({"weight_bits": 8} if serves else {}))
    if not serves:
        model["saved"] = 16 * sampler.integer(1000, 9000) - free * pow(sequences * length, -1, 16)
    question = _question(sampler, mode, model, gpu, batch=sequences, sequence=length)
    model["parameters"] += (_free(question) - free) // (1 if serves else 16)
    return question


def _contests(sampler: Sampler) -> Iterator[dict]:
    """Each term the largest by little, two equal, and a reserve above all."""
    for mode in _ORDER:
        for bits in _WEIGHT_BITS[mode][-2:]:
            yield from (_rivals(sampler, mode, bits, ahead) for ahead in (-1, 0, 1))
        small = {"parameters": sampler.integer(100, 9000), "saved": sampler.integer(1, 9), "layers": 2, "head_dim": 1}
        gpu = _gpu(sampler, reserve_mib=4000)
        yield _question(sampler, mode, _model(sampler, **small), gpu, batch=1, sequence=sampler.integer(1, 9))


def _rivals(sampler: Sampler, mode: str, bits: int, ahead: int) -> dict:
    """The term that grows with the batch is by ``ahead`` parameters' bytes larger than the largest that does not."""
    given = {"head_dim": 8 * sampler.integer(1, 9), "cache_bits": 32, "saved": 24 * sampler.integer(999, 9999)}
    model = _model(sampler, weight_bits=bits, **given)
    question = _question(sampler, mode, {**model, "parameters": 1})
    each = bits // 8 if mode == "serve" else 8 if bits == 32 else 12
    return {**question, "model": {**model, "parameters": _terms(question)[_GROWING[mode]] // each - ahead}}


def _grid(sampler: Sampler) -> Iterator[dict]:
    """Either term the largest on cards that hold the batch, a smaller one, and none: one model on three cards."""
    for mode in _ORDER:
        for times in (0.5, 2):
            sizes = {"layers": 80, "kv_heads": 8, "heads": 64, "head_dim": 128, "cache_bits": 16, "saved": 400_000}
            model = _model(sampler, **sizes, weight_bits=16)
            question = _question(
                sampler, mode, model, batch=sampler.integer(6, 40), sequence=sampler.integer(8000, 9000)
            )
            growing = _terms(question)[_GROWING[mode]]
            model["parameters"] = int(times * growing) // (2 if mode == "serve" else 12)
            fixed, of_one = sum(_terms(question).values()) - growing, growing // question["batch"]
            for sequences in sampler.shuffled(0, question["batch"] // 2, question["batch"] + 1):
                memory = int(4 * (fixed + sequences * of_one + of_one // 2) / _UNITS[question["gpu"]["unit"]]) / 4
                yield {**question, "gpu": {**question["gpu"], "memory": memory}}


def _batches(sampler: Sampler) -> Iterator[dict]:
    """Room for exactly so many sequences, a byte less or more; for millions; not even for the weights; beyond a float."""
    for mode in _ORDER:
        for batch, sequences in ((1, 2 * sampler.integer(1, 15) + 1), (sampler.integer(2, 40), 1)):
            yield from ({**_room(sampler, mode, sequences, free), "batch": batch} for free in sampler.around(0))
        small = {"parameters": sampler.integer(10**8, 10**9), "layers": 1, "heads": 2, "kv_heads": 1}
        small |= {"head_dim": 1, "saved": 4}
        yield _question(sampler, mode, _model(sampler, **small), batch=sampler.integer(1, 10**6), sequence=2)
        far = _model(sampler, parameters=sampler.integer(10**12, 10**13))
        yield _question(sampler, mode, far, _gpu(sampler), batch=sampler.integer(2, 40))
    yield _vast_room(sampler)


def _vast_room(sampler: Sampler) -> dict:
    """A byte less than a batch takes whose bytes no float holds."""
    batch, sizes = 2**52 + 2 * sampler.integer(1, 2**40) + 1, {"layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8}
    model = _model(sampler, **sizes, weight_bits=8, cache_bits=8, parameters=1)
    question = _question(sampler, "serve", model, _gpu(sampler, memory=2**27, unit="GiB"), batch=batch, sequence=1)
    model["parameters"] += _free(question) + 1
    return {**question, "batch": 1}


def _least(sampler: Sampler) -> Iterator[dict]:
    """The least that is allowed, on a card that holds it, in every width: whoever refuses everything refuses these."""
    for mode in _ORDER:
        for bits, cached in zip(_WEIGHT_BITS[mode], cycle(_CACHE_BITS)):
            model = _model(sampler, heads=12, kv_heads=12, weight_bits=bits, cache_bits=cached)
            yield _question(sampler, mode, _unfilled(model, 1), _gpu(sampler, memory=9000), batch=1, sequence=1)


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    """One thing wrong at a time, in either mode where it can be."""
    units, modes = (iter(sampler.permutation(names)) for names in (_OTHER_UNITS, _OTHER_MODES))
    for mode in _ORDER:
        right = _question(sampler, mode, _model(sampler, weight_bits=16, heads=12, kv_heads=4))
        for name in ("batch", "sequence"):
            yield from (({**right, name: count}, f"`{name}` is less than 1") for count in (0, -sampler.integer(1, 9)))
        for unit in (next(units) for _ in range(4)):
            yield {**right, "gpu": {**right["gpu"], "unit": unit}}, f"the unit `{unit}` is none of the two"
        for other in (next(modes) for _ in range(3)):
            yield {**right, "mode": other}, f"the mode `{other}` is none of the two"
        changes = [({"kv_heads": n}, f"{n} key-value heads do not divide 12 query heads") for n in (5, 8, 24)]
        changes += [({"cache_bits": n}, f"`cache_bits` is {n}, none of its widths") for n in (1, 4, 12, 64)]
        changes += [({"weight_bits": n}, f"`weight_bits` is {n}, none of its widths") for n in (1, 2, 12, 64)]
        if mode == "train":
            changes += [({"weight_bits": n}, f"weights of {n} bits are not trained") for n in (4, 8)]
        yield from (({**right, "model": right["model"] | change}, because) for change, because in changes)


_OTHER_UNITS = ("MB", "gb", "Gib", "GIB", "G", "TB", "", " GB")
_OTHER_MODES = ("Serve", "TRAIN", "serve ", "training", "", "infer")


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


def _capacity(question: dict) -> int:
    return int(4 * question["gpu"]["memory"]) * _UNITS[question["gpu"]["unit"]] // 4


def _free(question: dict) -> int:
    return _capacity(question) - sum(_terms(question).values())


def _largest(terms: dict, free: int, question: dict) -> int | None:
    """The batch for which there is room where ``terms`` leave ``free`` bytes; None where a sequence takes nothing."""
    growing = terms[_GROWING[question["mode"]]]
    return max((free + growing) * question["batch"] // growing, 0) if growing else None


def _own_terms(question: dict, value: dict) -> dict | None:
    """The learner's terms in the statement's order; None where they are no numbers, or none but the reserve is right.

    Ones in all of them would be consistent, too.
    """
    terms, right = value.get("terms"), _terms(question)
    if not isinstance(terms, dict) or not set(right) <= set(terms):
        return None
    if any(type(count) not in (int, float) or not 0 <= count < 2**63 for count in terms.values()):
        return None
    believed = any(terms[name] == right[name] for name in right if name != "reserve")
    return {name: terms[name] for name in (*right, *terms)} if believed else None


_MISREAD = {
    "weights": "each takes `weight_bits`, eight bits are a byte, and a part of a byte counts as one.",
    "cache": "keys and values, of each head of keys (not of queries), in each layer, for every token of every sequence.",
    "gradients": "each weight that is trained has one, of as many bytes.",
    "optimizer": "two moments in float32, and a master copy where the weights are not float32 themselves.",
    "activations": "every layer saves its bytes for every token of every sequence.",
    "reserve": "it is given in MiB, 2^20 bytes, and it is a term like the others.",
}


def _terms_problem(question: dict, value: dict, terms: dict) -> str | None:
    terms, right = value["terms"], _terms(question)
    if len(value) > 5:
        return "The dictionary has more than the five entries."
    if not isinstance(terms, dict) or set(terms) != set(right):
        return "The terms are not those of this mode: expected each of them by its name, and no others."
    for name, count in right.items():
        if type(terms[name]) is not int:
            return f"`{name}` is {type_name(terms[name])}; expected an int."
        if terms[name] != count:
            if count > 2**53 and abs(terms[name] - count) < 2**16:
                return f"`{name}` is off by a few bytes of more than 2^53: a float does not hold every such integer."
            return f"`{name}` is too {'large' if terms[name] > count else 'small'}: {_MISREAD[name]}"
    return None


def _free_problem(question: dict, value: dict, terms: dict) -> str | None:
    found, fit = value["free"], value.get("fits")
    due = _capacity(question) - sum(terms.values())
    if type(found) is not int and type(found) is not type(due):
        return f"`free` is {type_name(found)}; expected an int."
    if found not in (due, _free(question)):
        return _why_free(question, terms, found, due)
    if type(fit) is not bool:
        return f"`fits` is {type_name(fit)}; expected a bool."
    if fit == (found >= 0):
        return None
    return "`fits` is not what `free` says: a job fits where `free` is 0 or more. What is exactly full fits."


def _why_free(question: dict, terms: dict, found: int, due: int) -> str:
    unit, other = question["gpu"]["unit"], {"GB": "GiB", "GiB": "GB"}[question["gpu"]["unit"]]
    if found + sum(terms.values()) == int(question["gpu"]["memory"] * _UNITS[other]):
        return f"`free` is that of a card in {other}, and this one is in {unit}: a GB is 10^9 bytes, a GiB 2^30."
    if found == due + terms["reserve"]:
        return "`free` leaves out the reserve, which is a term like the others."
    if due < 0 <= found:
        return "`free` is negative where the card is too small: by as many bytes as are missing."
    return "`free` is not the card's bytes (a GB is 10^9, a GiB 2^30) without the sum of your terms."


def _binding_problem(question: dict, value: dict, terms: dict) -> str | None:
    found = value["binding"]
    if found in [_of(terms), _of(_terms(question))]:
        return None
    if found == "reserve":
        return "`binding` names the reserve, which no choice changes: the largest of the other terms is expected."
    if not isinstance(found, str) or found not in terms:
        return "`binding` is not the name of a term of this mode."
    if terms[found] == terms[_of(terms)]:
        return "`binding` names the later of two equal terms; the first in the order of the statement is expected."
    return f"`binding` names `{found}`, and `{_of(terms)}` is larger: whether the job fits, or what could be changed, does not matter."


def _of(terms: dict) -> str:
    return max((name for name in terms if name != "reserve"), key=terms.__getitem__)


def _largest_problem(question: dict, value: dict, terms: dict) -> str | None:
    found, free, due = value["largest"], value.get("free"), _largest(_terms(question), _free(question), question)
    by_terms = _largest(terms, _capacity(question) - sum(terms.values()), question)
    if type(found) is not int and type(found) is not type(by_terms):
        return f"`largest` is {type_name(found)}; expected an int."
    by_free = _largest(terms, free, question) if type(free) in (int, float) and abs(free) < 2**63 else due
    if found in (due, by_terms, by_free):
        return None
    if found < 0 or not due:
        return "`largest` is 0 where the card does not hold one sequence beside the terms that do not grow."
    if found < due:
        return "A larger batch than `largest` fits, whatever `batch` is: the terms that do not grow leave room for more sequences."
    return "A batch of `largest` sequences does not fit: divide what the terms that do not grow leave by the bytes of one sequence."


_PROBLEMS = {
    "serving": ("terms", _terms_problem),
    "training": ("terms", _terms_problem),
    "free": ("free", _free_problem),
    "binding": ("binding", _binding_problem),
    "largest": ("largest", _largest_problem),
}


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary with the five entries."
    if criterion == "errors":
        return None
    entry, problem = _PROBLEMS[criterion]
    if entry not in value:
        return f"The dictionary has no entry `{entry}`."
    own = _own_terms(question, value)
    found = problem(question, value, own or _terms(question))
    if found and not own and entry != "terms":
        return f"`{entry}` is wrong, and there is no right term to judge it by: begin with the terms."
    return found


def _traits(question: dict) -> dict[str, str]:
    model, free = question["model"], _free(question)
    shared = model["kv_heads"] < model["heads"]
    return {
        "the mode": f"`{question['mode']}`",
        "the card": "too small" if free < 0 else "full to the byte" if free == 0 else "larger than it has to be",
        "the card's unit": f"`{question['gpu']['unit']}`",
        "`reserve_mib`": "greater than 0" if question["gpu"]["reserve_mib"] else "0",
        "`weight_bits`": f"{model['weight_bits']}",
        "`cache_bits`": f"{model['cache_bits']}",
        "`kv_heads`": "less than `heads`" if shared else "as large as `heads`",
        "`width`": "heads times head_dim" if model["width"] == model["heads"] * model["head_dim"] else "another number",
        "`batch`": "1" if question["batch"] == 1 else "2 or more",
    }


_asked = answers(
    criteria=(
        Criterion("serving", 2, "weights, cache and reserve are right to the byte"),
        Criterion("training", 2, "weights, gradients, optimizer, activations and reserve are right to the byte"),
        Criterion("free", 2, "the free bytes are right in GB and in GiB, and a full card fits"),
        Criterion("binding", 1, "the largest term is named, and of equal terms the first"),
        Criterion("largest", 1, "the largest batch is right, on cards that it fills and that hold no sequence"),
        Criterion("errors", 1, "impossible cards and jobs, and no others, are refused with ValueError"),
    ),
    cases=_cases,
    arguments=lambda question: tuple(question[name] for name in ("model", "gpu", "mode", "batch", "sequence")),
    wrong=_wrong,
    kept="",
    in_kernel=True,
    traits=_traits,
)
_KEPT = "The function changed a dictionary that it was given."


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    """That dictionaries are left alone is asked of the terms only: one fault, one criterion."""
    lost = list(_asked.judge(case, evidence))
    if not lost and case.criteria[0] in ("serving", "training") and not all(a["kept"] for a in evidence["answers"]):
        lost = [Failure(case.criteria[0], _KEPT)]
    yield from lost


exercise = replace(_asked, judge=_judge)
