"""E10.4 classify_growth: cases and judge."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from gpulab import Observation
from gpulab.cuda.machine.allocator import Allocator
from gpulab.cuda.machine.blocks import round_size

_MIB = 1 << 20
_KINDS = ("flat", "plateau", "leak", "fragmentation")
_STOPPED = "exercises.trading.classify_growth.run_growth.Stopped"


def _cases(sampler: Sampler) -> Iterator[Case]:
    """Four epochs of one step to five. In every group loops of one kind lie close to such of another."""
    for criteria, loops in (("startup", _startup), ("leak", _leaks), ("sawtooth", _teeth), ("reserved", _fragmented)):
        yield Case(
            (criteria, "rate", "untouched"), {"loops": sampler.permutation(list(loops(sampler))), "observed": False}
        )
    yield Case(("untouched",), {"loops": list(_watched(sampler)), "observed": True})
    yield Case(("errors",), {"loops": list(_refused(sampler)), "observed": False}, raises="ValueError")
    yield Case(("errors",), {"loops": list(_stopped(sampler)), "observed": False}, raises=_STOPPED)


def _plan(sampler: Sampler, epoch: int, **given: Any) -> dict:
    """A loop that evaluates without a graph and keeps nothing; ``given``: in what it differs."""
    steps = 4 * epoch
    return {
        "steps": steps, "rows": [sampler.integer(1, 9)] * steps, "width": sampler.integer(1, 300),
        "graph": False, "named": False, "returns": sampler.chance(0.5), "stops": 0,
        "optimizer": "SGD", "trains_from": 0, "clears": "after",
        "keeps": [], "stored": 0, "drawn": 0, "scratch": [[]] * steps, "ring": [0, 0], **given,
    }  # fmt: skip


def _keep(what: str, keys: list, once: bool = False, before: tuple = (), after: tuple = ()) -> dict:
    return {"what": what, "keys": keys, "once": once, "emptied": [list(before), list(after)]}


def _from(epoch: int, first: int = 1, last: int = 10**6) -> list:
    """A key of its own for each step from ``first`` to ``last``."""
    return [number if first <= number <= last else None for number in range(1, 4 * epoch + 1)]


def _turns(epoch: int, room: int) -> list:
    """``room`` keys that take turns."""
    return [number % room for number in range(4 * epoch)]


def _startup(sampler: Sampler) -> Iterator[dict]:
    """What is made in step 1, somewhere, and in the last step of the second epoch; what leaves nothing behind, or less."""
    few = cycle(sampler.shuffled(1, 2, 3))
    for graph in (False, True):
        e = next(few)
        yield _plan(sampler, e, graph=graph, keeps=[_keep("number", _from(e)), _keep("host", _from(e))])
        yield _plan(sampler, next(few), graph=graph, returns=True)
        yield _plan(sampler, next(few), graph=graph, named=True)
    for optimizer, clears in (("SGD", "after"), ("SGD", "before"), ("momentum", "after")):
        e = next(few)
        yield _plan(
            sampler, e, optimizer=optimizer, clears=clears, trains_from=sampler.choice((1, e, e + 1)), returns=True
        )
    e = sampler.integer(2, 3)
    yield _plan(sampler, 2, optimizer="Adam", trains_from=4)
    yield _plan(sampler, 1, optimizer="Adam", trains_from=1)
    yield _plan(sampler, e, trains_from=1, keeps=[_keep("total", [0] * 4 * e)])
    for room in (1, e, 2 * e):
        yield _plan(
            sampler, e, graph=sampler.chance(0.5), keeps=[_keep("output", _turns(e, room), once=sampler.chance(0.5))]
        )
    yield _plan(sampler, e, keeps=[_keep("output", _from(e, last=2 * e), after=(2 * e,))])
    yield _plan(sampler, e, stored=8 * e, drawn=2, returns=True)
    for stored, rows in ((3, 1), (1, 3)):
        one = {"width": 128 * sampler.integer(1, 3), "rows": [rows] * 4 * e, "stored": stored, "drawn": 1}
        yield _plan(sampler, e, **one, keeps=[_keep("output", [0] * 4 * e)])


def _leaks(sampler: Sampler) -> Iterator[dict]:
    """Everything that is kept, with a graph, after a backward pass, without either; rare, late, small, and hidden in number."""
    few = cycle(sampler.shuffled(1, 2, 3, 5))
    for what in ("loss", "output", "weighted"):
        e = next(few)
        keys = [0] * 4 * e if what == "weighted" else _from(e)
        yield _plan(sampler, e, graph=True, keeps=[_keep(what, keys)])
        yield _plan(sampler, e, trains_from=1, optimizer=sampler.choice(("SGD", "momentum")), keeps=[_keep(what, keys)])
    e = 3
    yield _plan(sampler, 1, keeps=[_keep("output", _from(1))])
    yield _plan(sampler, e, graph=True, keeps=[_keep("total", [0] * 4 * e)])
    yield _plan(sampler, e, graph=True, keeps=[_keep("cycle", _from(e))])
    yield _plan(sampler, e, keeps=[_keep("detached", _from(e, first=2 * e + 1))])
    for place in (0, sampler.integer(1, e - 2), e - 1):
        rare = [number if (number - 1) % e == place else None for number in range(1, 4 * e + 1)]
        yield _plan(sampler, e, keeps=[_keep("batch", rare)])
    yield _plan(sampler, e, stored=e, drawn=1, width=1000, rows=[1] * 4 * e, keeps=[_keep("detached", _from(e))])
    both = [_keep("detached", _from(e)), _keep("output", _turns(e, 2 * e))]
    yield _plan(sampler, e, optimizer="momentum", trains_from=2 * e, keeps=both)
    yield _plan(sampler, e, keeps=[_keep("detached", _from(e))], scratch=_growing(e))
    yield _plan(sampler, e, ring=[2 * _MIB, 4 * e + 1])


def _teeth(sampler: Sampler) -> Iterator[dict]:
    """Lengths and logs that rise and fall within an epoch, each with and without a small leak below."""
    lengths = sorted(sampler.permutation(range(1, 30))[:3])
    for order in (lengths, lengths[::-1], [lengths[2], *lengths[:2]], [lengths[0], lengths[2]] * 2):
        e, leak = len(order), _keep(sampler.choice(("detached", "loss")), _from(len(order)))
        for keeps in ([], [leak]):
            yield _plan(sampler, e, rows=order * 4, width=sampler.integer(128, 300), named=True, keeps=keeps)
    for e, every in ((4, 2), (3, 3)):
        full = [number for number in range(1, 4 * e + 1) if number % every == 0]
        yield _plan(sampler, e, keeps=[_keep("output", _from(e), before=[number + 1 for number in full])])
        yield _plan(sampler, e, keeps=[_keep("output", _from(e), after=full)])
    yield _plan(sampler, 3, keeps=[_keep("output", _from(3), after=(3, 6, 9, 12)), _keep("detached", _from(3))])
    yield _plan(sampler, 3, rows=lengths * 4, width=200, graph=True, keeps=[_keep("output", _turns(3, 2))])


def _growing(epoch: int, first: int = 1, last: int = 10**6) -> list[list[int]]:
    """For each step a temporary block, from ``first`` to ``last`` a larger one each time than any before."""
    sizes, size = [], 10 * _MIB
    for number in range(1, 4 * epoch + 1):
        size += 2 * _MIB * (first <= number <= last)
        sizes.append([size])
    return sizes


def _fragmented(sampler: Sampler) -> Iterator[dict]:
    """Temporaries that outgrow what is cached: to the end, to the last step of an epoch, in one step of the last one."""
    e = sampler.choice((2, 3))
    for more in (
        {},
        {"optimizer": "momentum", "trains_from": sampler.choice((1, 2 * e))},
        {"graph": True, "named": True},
    ):
        yield _plan(sampler, e, scratch=_growing(e), **more)
    yield _plan(sampler, 3, scratch=_growing(3), ring=[2 * _MIB, sampler.integer(2, 4)])
    for rows in ([1, 2, 3], [3, 2, 1]):
        yield _plan(sampler, 3, scratch=_growing(3), rows=rows * 4, width=sampler.integer(128, 300), named=True)
    yield _plan(sampler, e, scratch=_growing(e), stored=4 * e, drawn=1)
    yield _plan(sampler, e, scratch=[[3 * _MIB] * (2 + 3 * number) for number in range(4 * e)])
    for last in (1, 4, 6, 9):
        yield _plan(sampler, 3, scratch=_growing(3, last=last))
    for only in (10, 11, 12):
        yield _plan(sampler, 3, scratch=_growing(3, only, only))
    yield _plan(sampler, e, scratch=_growing(e)[::-1], returns=True)
    yield _plan(sampler, e, scratch=[[(12 + 20 * (number % 2)) * _MIB] for number in range(4 * e)], returns=True)


def _watched(sampler: Sampler) -> Iterator[dict]:
    """Loops of each kind, some of which wait for the card themselves."""
    e = 2
    yield _plan(sampler, e, graph=True, returns=True, keeps=[_keep("number", _from(e))])
    yield _plan(sampler, e, trains_from=1, optimizer="momentum", returns=True)
    yield _plan(sampler, e, graph=True, returns=True, keeps=[_keep("loss", _from(e))])
    yield _plan(sampler, e, scratch=_growing(e))


def _refused(sampler: Sampler) -> Iterator[dict]:
    more = 4 * sampler.integer(1, 5)
    for steps in sampler.shuffled(0, -4, -8, -more, -1, 1, 2, 3, more + 1, more + 2, more + 3):
        yield _plan(sampler, abs(steps) + 1) | {"steps": steps}


def _stopped(sampler: Sampler) -> Iterator[dict]:
    """In the first step, somewhere, and in the last."""
    e = 2
    for stops in (1, sampler.integer(2, 4 * e - 1), 4 * e):
        yield _plan(sampler, e, keeps=[_keep("output", _from(e))], stops=stops)


def _held(plan: dict) -> list[int]:
    """Bytes that are held after each step beyond those before the first: of every block that somebody still refers to."""
    sizes: dict[tuple, int] = {}
    kept: list[dict] = [{} for _ in plan["keeps"]]
    garbage: set[tuple] = set()
    held = []
    for number, rows in enumerate(plan["rows"], 1):
        sizes |= _sizes(number, rows, plan["width"])
        for keep, slots in zip(plan["keeps"], kept, strict=True):
            _keeps(keep, slots, number, plan, garbage)
        alive = garbage.union(*(blocks for slots in kept for blocks in slots.values()))
        alive |= {(part, number) for part in ("batch", "output", "loss")} if plan["named"] else set()
        held.append(sum(sizes.get(block, 512) for block in alive) + _state(plan, number))
    return held


def _sizes(number: int, rows: int, width: int) -> dict[tuple, int]:
    of_rows = round_size(4 * rows * width)
    return {("batch", number): of_rows, ("output", number): of_rows}


def _keeps(keep: dict, slots: dict, number: int, plan: dict, garbage: set) -> None:
    """What one step adds to the blocks that are referred to under its key."""
    before, after = keep["emptied"]
    key = keep["keys"][number - 1]
    if number in before:
        slots.clear()
    if key is not None and not (keep["once"] and key in slots):
        garbage |= {("output", number)} if keep["what"] == "cycle" else set()
        slots[key] = _referred(keep["what"], slots.get(key, set()), number, _trains(plan, number), plan["graph"])
    if number in after:
        slots.clear()


def _trains(plan: dict, number: int) -> bool:
    return 0 < plan["trains_from"] <= number


def _referred(what: str, old: set, number: int, trains: bool, graph: bool) -> set[tuple]:
    """A graph saves batch and output until its backward pass; the nodes of a total's terms stay, and what they saved."""
    saved = {("batch", number), ("output", number)} if graph and not trains else set()
    scale = {("scale", number)} if graph or trains else set()
    return {
        "loss": saved | {("loss", number)},
        "output": saved | {("output", number)},
        "detached": {("loss", number)},
        "batch": {("batch", number)},
        "total": old | saved | {("total", 0)},
        "weighted": old | saved | scale | {("total", 0)},
    }.get(what, set())


def _state(plan: dict, number: int) -> int:
    """Gradient, moments and the ring, without what was taken from the store."""
    one = round_size(4 * plan["width"])
    vectors = {"SGD": 0, "momentum": 1, "Adam": 2}[plan["optimizer"]] + (plan["clears"] == "before")
    size, room = plan["ring"]
    taken = one * min(number * plan["drawn"], plan["stored"])
    return one * vectors * _trains(plan, number) + size * min(number, room) - taken


def _reserved(plan: dict) -> list[int]:
    """Bytes of the segments after each step: those of large blocks are made anew; all small ones lie in a first one."""
    card = Allocator(80 << 30, lambda: None, lambda: None, lambda stream: None, lambda use: True)
    (size, room), ring, reserved = plan["ring"], {}, []
    for number, sizes in enumerate(plan["scratch"], 1):
        scratch = [card.malloc(one, 0) for one in sizes]
        if room:
            block = card.malloc(size, 0)
            if (old := ring.pop(number % room, None)) is not None:
                card.free(old)
            ring[number % room] = block
        for one in scratch:
            card.free(one)
        reserved.append(card.reserved)
    return reserved


def _expected(plan: dict) -> tuple[str, float]:
    """The kind, and the bytes of an epoch by its steps, from what the loop was made of."""
    epoch, held, reserved = plan["steps"] // 4, _held(plan), _reserved(plan)
    leaked, taken = held[-1] - held[-1 - epoch], reserved[-1] - reserved[-1 - epoch]
    if leaked > 0:
        return "leak", leaked / epoch
    if taken > 0:
        return "fragmentation", taken / epoch
    return ("plateau" if max(held[-epoch:]) > 0 else "flat"), 0.0


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    criteria, loops = case.criteria[0], case.inputs["loops"]
    if problem := count_problem(answers := evidence.get("answers"), len(loops)):
        yield Failure(criteria, problem)
        return
    for plan, answer in zip(loops, answers, strict=True):
        if case.raises:
            problem = _errors_problem(case, plan, answer)
            yield from [Failure("errors", problem)] if problem else []
            continue
        if problem := _untouched_problem(plan, answer):
            yield Failure("untouched", problem)
        if criteria != "untouched":
            yield from _wrong(criteria, _expected(plan), answer)
    if case.inputs["observed"] and len(Observation.from_dict(evidence["seen"]).waits) != len(loops) + sum(
        map(_waits, loops)
    ):
        yield Failure(
            "untouched", "The host waited for the card where no step did: the allocator's numbers are the host's."
        )


def _wrong(criteria: str, expected: tuple[str, float], answer: dict) -> Iterator[Failure]:
    if "error" in answer:
        yield Failure(criteria, raised_problem(answer["error"]))
        return
    found = answer.get("returned")
    if not isinstance(found, list) or len(found) != 2:
        yield Failure(
            criteria, f"The function returned {type_name(found)}; expected a tuple of the kind and the bytes per step."
        )
    elif type(found[0]) is not str or found[0] not in _KINDS:
        yield Failure(criteria, "The first of the two is none of the four kinds.")
    elif found[0] != expected[0]:
        yield Failure(criteria, _CONFUSED[criteria].get((expected[0], found[0]), _MISTAKEN[expected[0]]))
    elif type(found[1]) not in (int, float):
        yield Failure("rate", f"The bytes per step are {type_name(found[1])}; expected a float.")
    elif abs(found[1] - expected[1]) > 1e-9 * expected[1]:
        yield Failure("rate", _RATES[expected[0]])


_MISTAKEN = {
    "flat": "A loop that holds no more in its last epoch than before it began is called something else: it is flat.",
    "plateau": "A loop that holds more than before it began, and no more in the fourth epoch than in the third, is a plateau.",
    "leak": "A leak is not found: the same step of the fourth epoch ends with more held than that of the third.",
    "fragmentation": "Reserved memory grows in the last epoch and allocated memory does not: that is fragmentation.",
}
_CONFUSED: dict[str, dict[tuple[str, str], str]] = {
    "startup": {
        ("plateau", "leak"): "What is made once, in the first two epochs, is called a leak: no more of it comes.",
        ("flat", "leak"): "A loop that holds nothing more is called a leak. Does what a step returned outlive it here?",
        (
            "flat",
            "plateau",
        ): "A flat loop is called a plateau: compare with what was held before, and keep nothing of a step.",
        ("plateau", "flat"): "A plateau is called flat: what the first steps make was not there before them.",
    },
    "leak": {
        (
            "leak",
            "fragmentation",
        ): "A leak is called fragmentation: reserved memory grows with it, but allocated memory decides.",
    },
    "sawtooth": {
        (
            "plateau",
            "leak",
        ): "What rises and falls in each epoch is called a leak: compare with the same step of another epoch.",
        ("plateau", "flat"): "A loop that holds more after some steps of an epoch is called flat.",
        ("leak", "plateau"): "A small leak below a wave is not seen: compare with the same step of another epoch.",
    },
    "reserved": {
        (
            "flat",
            "fragmentation",
        ): "What was reserved in the first three epochs and is reused since is called fragmentation.",
        (
            "plateau",
            "fragmentation",
        ): "What was reserved in the first three epochs and is reused since is called fragmentation.",
        ("fragmentation", "leak"): "Reserved memory that grows is called a leak: nothing more is allocated.",
    },
}
_RATES = {
    "flat": "Where nothing grows any more, the bytes per step are 0.",
    "plateau": "Where nothing grows any more, the bytes per step are 0.",
    "leak": "A leak's bytes per step are wrong: what an epoch adds to the allocated bytes, by the steps of an epoch.",
    "fragmentation": "Fragmentation's bytes per step are wrong: what the fourth epoch adds to the reserved bytes, by its steps.",
}


def _untouched_problem(plan: dict, answer: dict) -> str | None:
    """Why the loop was not the one that it is when nobody looks, or None."""
    if answer["calls"] != plan["steps"]:
        return "`step` was not called `steps` times."
    if answer["collected"]:
        return "Python's collector was run: it frees what the loop would go on holding."
    taken, returned = answer["outside"]
    if answer["peak"] < _MIB or min(taken, returned) < 0:
        return "The card's statistics were reset: whoever called may still want them."
    if returned:
        return (
            "Cached memory was given back to the driver between the steps: the loop's next ones run on another cache."
        )
    if taken:
        return "Memory of the card was taken between the steps."
    before = answer["held"][0]
    if [held - before for held in answer["held"]] != [0, *_held(plan)[:-1]]:
        return "The loop did not hold what it holds by itself: was a step's result kept until the next?"
    return None


def _waits(plan: dict) -> int:
    """How often the loop's own steps wait: for each number that they read. (Before each loop the scenario waits once.)"""
    return sum(key is not None for keep in plan["keeps"] if keep["what"] in ("number", "host") for key in keep["keys"])


def _errors_problem(case: Case, plan: dict, answer: dict) -> str | None:
    if case.raises == _STOPPED:
        if (
            case.raises not in answer.get("error", {}).get("kinds", ())
            or answer["error"]["message"] != f"step {plan['stops']}"
        ):
            return "An exception that `step` raises is to come out as it is."
        return None if answer["calls"] == plan["stops"] else "`step` was called again after it had raised."
    if problem := error_problem(answer, case.raises):
        return f"{problem} These steps are not four epochs."
    return "`step` was called before the error was raised." if answer["calls"] else None


exercise = Exercise(
    criteria=(
        Criterion(
            "startup", 2, "what is made in the first two epochs is a plateau, and what leaves nothing behind is flat"
        ),
        Criterion("leak", 2, "a leak is found, however small, rare or late it is", ("startup",)),
        Criterion(
            "sawtooth", 1, "what rises and falls within an epoch is no leak, and hides none", ("startup", "leak")
        ),
        Criterion("reserved", 1, "fragmentation is what reserved memory alone does, in the last epoch", ("startup",)),
        Criterion("rate", 1, "the bytes per step are right to the byte", ("startup", "leak")),
        Criterion(
            "untouched", 1, "steps are called as often as asked, and nothing is done to their memory", ("startup",)
        ),
        Criterion("errors", 1, "what is not four epochs is refused, and what a step raises comes out", ("startup",)),
    ),
    cases=_cases,
    judge=_judge,
)
