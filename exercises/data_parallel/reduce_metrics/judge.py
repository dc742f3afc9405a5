"""E14.4 reduce_metrics: cases and judge.

A rank's totals are its own: the referee's broker hands them to it alone, and its record says what crossed.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.collective_broker import CollectiveRecord, Traffic
from autograder.judge.expect import raised_problem, type_name
from autograder.judge.ranks import by_call, stopped
from autograder.protocol.wire import Opaque

Call = list[list[list]]
"""By rank the metrics in the order in which it has them: name, sum, count."""
_WORDS = (
    "loss", "Loss", "lr", "accuracy", "grad_norm", "tokens", "reward", "kl", "entropy", "loss/vision", "loss/action", "åå",
)  # fmt: skip
_NAMES = (*_WORDS, "2", "10")
_ENDINGS = (
    "",
    "_count",
    "_sum",
    "_n",
    "_num",
    "_total",
    "_mean",
    "_samples",
    "/count",
    ".count",
    " count",
    "count",
    ":1",
    "0",
    "1",
)
"""What is put behind a name to make a key of its own: then it is another metric's name."""
_LARGE = (
    (torch.int64, torch.float32),
    (torch.int64, torch.float64, torch.float16),
)
"""Dtypes of tensors beside one another: of large sums, some that lose digits when they are made alike before they are `float64`."""
_LOOSE, _CLOSE = 1e-6, 1e-15


def _cases(sampler: Sampler) -> Iterator[Case]:
    for world in sampler.shuffled(1, 4):
        several = sampler.permutation(_WORDS)[: sampler.integer(3, 6)]
        calls = sampler.shuffled(several, several, several[:1], several[-2:])
        yield _case(("mean",), [_plain(sampler, world, names) for names in calls])
    many, alike = [f"layer_{n}" for n in range(sampler.integer(33, 40))], [f"loss{ending}" for ending in _ENDINGS]
    orders = [_shuffled(sampler, 2, names) for names in ([*_NAMES], many, alike)]
    larges = sampler.permutation([_large(sampler, 2), *(_large_tensors(sampler, 2, kinds) for kinds in _LARGE)])
    yield _case(("order", "exact", "kept"), [*orders, *larges, *(_tensors(sampler, 2) for _ in range(3))])
    yield _case(("exact",), [_large_tensors(sampler, 1, kinds) for kinds in sampler.permutation(_LARGE)])
    for world in sampler.shuffled(1, 2):
        calls = [_unseen(sampler, world), [[]] * world, _unseen(sampler, world), _infinite(sampler, world)]
        yield _case(("none",), sampler.permutation(calls))


def _case(criteria: tuple[str, ...], calls: list[Call]) -> Case:
    """As many of the calls are about one criterion as about another, in their order."""
    world = len(calls[0])
    each = tuple([{"totals": call[rank]} for call in calls] for rank in range(world))
    return Case((*criteria, "one_collective"), {"world": world, "calls": len(calls)}, ranks=world, per_rank_inputs=each)


def _plain(sampler: Sampler, world: int, names: list[str]) -> Call:
    """Floats or integers alone, the names in one order in all ranks, and every rank with samples of its own number."""
    eighths = sampler.choice((1, 8))
    while True:
        call = [[[name, _number(sampler, eighths), sampler.integer(1, 60)] for name in names] for _ in range(world)]
        if world == 1 or all(map(_tells, names, zip(*call, strict=True))):
            return call


def _number(sampler: Sampler, eighths: int) -> float | int:
    number = sampler.integer(-4000, 4000)
    return number / eighths if eighths > 1 else number


def _tells(name: str, parts: tuple[list, ...]) -> bool:
    """Whether what comes of the usual mistakes is another number than the mean, and no rank has what another has."""
    mean = _mean(parts)
    rivals = [_mean_of_means(parts), _total(parts), _total(parts) / len(parts), 0.0]
    rivals += [one[1] / one[2] for one in parts]
    apart = all(abs(rival - mean) > 0.01 * max(1.0, abs(mean)) for rival in rivals)
    return apart and len({one[1] for one in parts}) == len({one[2] for one in parts}) == len(parts)


def _shuffled(sampler: Sampler, world: int, names: list[str]) -> Call:
    """Every rank has the names in an order of its own."""
    numbers = sampler.permutation(range(1, 2 * world * len(names) + 1))
    call = [[[name, numbers.pop() / 4, numbers.pop()] for name in names] for _ in range(world)]
    orders = [names, names[::-1]] + [sampler.permutation(names) for _ in range(world - 2)]
    parts = zip(call, sampler.permutation(orders), strict=True)
    return [sorted(part, key=lambda one: order.index(one[0])) for part, order in parts]


def _large(sampler: Sampler, world: int) -> Call:
    """Sums and counts that need 34 to 50 bits each, some of them nearly undone by another rank's.

    A mean that is added up of quotients is never as close.
    """
    while True:
        call = _of_many_bits(sampler, world)
        *_, undone = zip(*call, strict=True)
        count = sum(samples for *_, samples in undone)
        if not _is_close(sum(total / count for _, total, _ in undone), _mean(undone), _CLOSE):
            return call


def _of_many_bits(sampler: Sampler, world: int) -> Call:
    names = sampler.permutation(_WORDS)[:3]
    bits = lambda low, high: sampler.integer(2**low, 2**high) | 1
    call = [
        [[names[0], bits(40, 50), sampler.integer(1, 9)], [names[1], bits(6, 9) / 2, bits(33, 40)]]
        for _ in range(world)
    ]
    undone = bits(45, 49)
    for rank, part in enumerate(call):
        total = undone / 2 if rank == 0 else -undone / 2 + sampler.integer(1, 99) if rank == 1 else 0.0
        part.append([names[2], total, sampler.integer(1, 9)])
    return call


def _unseen(sampler: Sampler, world: int) -> Call:
    """A metric that nobody saw, one that one rank saw, one whose mean is 0, and a rank that saw nothing."""
    nobody, one, zero, some = sampler.permutation(_WORDS)[:4]
    idle, only = sampler.permutation(range(world))[:2] if world > 1 else (None, 0)
    call = []
    for rank in range(world):
        saw = sampler.integer(1, 9) if rank != idle else 0
        own = [[zero, 0.0, saw], [some, _number(sampler, 8) * (saw > 0), saw], [nobody, sampler.choice((0.0, 0)), 0]]
        call.append([*own, [one, 12.5, 4] if rank == only else [one, 0.0, 0]])
    return call


def _infinite(sampler: Sampler, world: int) -> Call:
    """A sum of NaN and two of infinity, in one rank each, beside one as usual."""
    usual, *names = sampler.permutation(_WORDS)[:4]
    values = (math.nan, math.inf, -math.inf)
    bad = [(name, value, sampler.integer(0, world - 1)) for name, value in zip(names, values, strict=True)]
    return [
        [[usual, rank + 0.5, 2], *([name, value if rank == at else 1.5, 3] for name, value, at in bad)]
        for rank in range(world)
    ]


def _large_tensors(sampler: Sampler, world: int, kinds: tuple[torch.dtype, ...]) -> Call:
    """Zero-dimensional tensors whose sums need more bits than a `float32` has, where their dtype has them."""
    names, call = sampler.permutation(_WORDS)[: len(kinds)], []
    for _ in range(world):
        sums = [
            torch.tensor(sampler.integer(2**40, 2**48) | 1 if kind.itemsize == 8 else 2.75, dtype=kind)
            for kind in kinds
        ]
        call.append([[name, total, sampler.integer(1, 9)] for name, total in zip(names, sums, strict=True)])
    return call


def _tensors(sampler: Sampler, world: int) -> Call:
    """Sums of every kind, some that require a gradient, two of one storage, one tensor for two metrics."""
    kinds = (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.float16, torch.int16)
    call = []
    for rank in range(world):
        running = torch.tensor([3.5, -8.25, 100.0, 1.0], dtype=torch.float64) * (rank + sampler.integer(1, 9))
        sums = [torch.tensor(sampler.integer(-90, 90) * 2 + 1).to(kind) for kind in kinds]
        sums += [torch.tensor(sampler.integer(1, 90) / 4, dtype=kind, requires_grad=True) for kind in kinds[:2]]
        sums += [running[1], running[2], running[2], sampler.integer(-90, 90)]
        call.append([[name, total, sampler.integer(1, 30)] for name, total in zip(_WORDS, sums, strict=True)])
    return call


def _float(total: Any) -> float:
    return float(total.detach()) if isinstance(total, torch.Tensor) else float(total)


def _total(parts: tuple[list, ...]) -> float:
    numbers = [_float(total) for _, total, _ in parts]
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)


def _mean(parts: tuple[list, ...]) -> float:
    count = sum(count for *_, count in parts)
    return _total(parts) / count if count else math.nan


def _mean_of_means(parts: tuple[list, ...]) -> float:
    means = [_float(total) / count for _, total, count in parts if count]
    return math.fsum(means) / len(means) if means and all(map(math.isfinite, means)) else math.nan


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    traffic: Traffic = evidence["traffic"]
    if problem := _stopped(evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    calls = [tuple(own["totals"] for own in call) for call in zip(*case.per_rank_inputs, strict=True)]
    between = by_call(traffic.collectives)
    if met := len(between) != len(calls):
        yield Failure("one_collective", "The ranks met at a barrier: that is a collective too, and it is not needed.")
    for number, call in enumerate(calls):
        criteria = case.criteria[number * (len(case.criteria) - 1) // len(calls)]
        answers = [results[number] for results in evidence["results"]]
        if problem := _answers_problem(criteria, call, answers):
            yield Failure(criteria, problem)
        elif not met:
            yield from _judge_way(criteria, call, between[number])


def _stopped(evidence: dict) -> str | None:
    problem, traffic = stopped(evidence), evidence["traffic"].problem
    is_ours = traffic is not None and " barrier " in traffic.text
    return f"{problem} The barrier is the hidden test's, between two calls." if is_ours else problem


def _answers_problem(criteria: str, call: tuple, answers: list[dict]) -> str | None:
    metrics = _metrics(call)
    for part, answer in zip(call, answers, strict=True):
        if not isinstance(answer, dict) or not ("error" in answer or {"returned", "later", "totals"} <= answer.keys()):
            return "A rank's record of its calls is not the hidden test's."
        if "error" in answer:
            return raised_problem(answer["error"])
        for means in (answer["returned"], answer["later"]):
            if problem := _means_problem(criteria, metrics, part, _of_pairs(means)):
                return problem
        if criteria == "kept" and not _is_kept(part, answer["totals"]):
            return "The function changed `totals`, or a tensor in it: the caller goes on to count with them."
    return None


def _of_pairs(value: Any) -> Any:
    """The dictionary whose pairs came; what is no string among its keys is told from the string."""
    if not isinstance(value, dict) or not isinstance(pairs := value.get("pairs"), list):
        return value
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return None
    return {key if isinstance(key, str) else (repr(key),): mean for key, mean in pairs}


def _metrics(call: tuple) -> dict[str, tuple[list, ...]]:
    """By name what each rank has of it."""
    by_rank = [{one[0]: one for one in part} for part in call]
    return {name: tuple(own[name] for own in by_rank) for name in by_rank[0]}


def _means_problem(criteria: str, metrics: dict, own: list, means: Any) -> str | None:
    if not isinstance(means, dict):
        return f"A rank got {type_name(means)}; expected a dictionary, name to mean, on every rank."
    if set(means) != set(metrics):
        return (
            "A rank's dictionary does not have the names of this call's `totals`: expected all of them, and no others."
        )
    mine = {name: (total, count) for name, total, count in own}
    for name, parts in metrics.items():
        if type(means[name]) is not float:
            kind = "of another type" if isinstance(means[name], Opaque) else type_name(means[name])
            return f"A mean is {kind}; expected a Python float."
        if not _is_close(means[name], _mean(parts), _CLOSE if criteria == "exact" else _LOOSE):
            return _what_it_is(criteria, means[name], parts, mine[name])
    return None


def _is_close(value: float, expected: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(value):
        return math.isnan(expected) and math.isnan(value)
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance if tolerance == _LOOSE else 0.0)


def _what_it_is(criteria: str, value: float, parts: tuple, own: tuple) -> str:
    """The sentence of the misconception that gives this value."""
    if not any(count for *_, count in parts):
        return "No rank saw a sample, and the mean is not NaN: any number could be mistaken for a measured one."
    if math.isnan(_mean(parts)) or math.isinf(_mean(parts)):
        return "A sum of NaN or infinity has disappeared: a report has to show that a loss is not finite."
    if math.isnan(value):
        return (
            "A mean is NaN though some rank saw samples: expected NaN only where no rank saw any, or where a "
            "sum is NaN."
        )
    rivals = (
        (_total(parts), "A metric is summed over the ranks and not divided: count the samples of all ranks too."),
        (
            _mean_of_means(parts),
            "That is the mean of the ranks' means: it counts a rank of few samples like one of many.",
        ),
        (
            _total(parts) / len(parts),
            "A metric is divided by the number of ranks; expected the number of samples of all ranks.",
        ),
        (_float(own[0]) / max(own[1], 1), "A rank reports its own mean: what the other ranks saw is missing."),
    )
    for rival, sentence in rivals:
        if math.isclose(value, rival, rel_tol=_LOOSE):
            return sentence
    if criteria == "exact":
        return "Digits are lost: float32 has a 24-bit significand, and counts of samples soon need more."
    if criteria == "order":
        return (
            "Metrics are mixed up: the ranks' dictionaries are in different orders, and an all-reduce adds by position."
        )
    return "A mean is not the sum over all ranks divided by the count over all ranks."


def _is_kept(before: list, after: Any) -> bool:
    if not isinstance(after, list) or len(after) != len(before):
        return False
    return all(
        name == entry[0]
        and isinstance(entry[1], list)
        and len(entry[1]) == 2
        and _is_same(entry[1][0], total)
        and _is_same(entry[1][1], count)
        for (name, total, count), entry in zip(before, after, strict=True)
    )


def _is_same(after: Any, before: Any) -> bool:
    if type(after) is not type(before):
        return False
    if not isinstance(before, torch.Tensor):
        return after == before
    same_kind = (after.dtype, after.shape, after.requires_grad) == (before.dtype, before.shape, before.requires_grad)
    return same_kind and torch.equal(after, before)


def _judge_way(criteria: str, call: tuple, collectives: list[CollectiveRecord]) -> Iterator[Failure]:
    """What is wrong with the way on which the sums came together."""
    if not call[0]:
        if collectives:
            yield Failure(criteria, "`totals` is empty, and a collective ran all the same: expected none.")
        return
    if len(call) == 1 and not collectives:
        return
    if problem := _collective_problem(call, collectives):
        yield Failure("one_collective", problem)
    elif problem := _handed_problem(call, collectives[0]):
        yield Failure(criteria, problem)


def _collective_problem(call: tuple, collectives: list[CollectiveRecord]) -> str | None:
    entries = [collective.entry for collective in collectives]
    if not entries:
        return "The ranks did not communicate: a rank by itself knows only its own samples."
    if foreign := sorted({entry.operation for entry in entries} - {"all_reduce"}):
        return (
            f"The totals were sent by {foreign[0]}; expected an all_reduce, which adds them on the way and "
            "gives every rank the sums."
        )
    if len(entries) > 1:
        return (
            "More than one collective ran: each waits for the slowest rank again. Sums and counts of all "
            "metrics fit into one tensor."
        )
    (entry,) = entries
    if entry.reduces != "SUM" or len(entry.ranks) != len(call):
        return "The all_reduce does not sum over all ranks."
    if entry.dtype != "float64":
        return f"The reduced tensor is {entry.dtype}; expected float64."
    if entry.bytes != 2 * 8 * len(call[0]):
        return "The reduced tensor does not have two elements a name: a sum and a count."
    return None


def _handed_problem(call: tuple, collective: CollectiveRecord) -> str | None:
    """Whether the ranks handed in their own numbers, each metric at the same place in all of them."""
    given = [torch.frombuffer(bytearray(data), dtype=torch.float64).tolist() for data in collective.given]
    given = [list(map(_token, numbers)) for numbers in given]
    metrics = _metrics(call)
    expected = [tuple(_token(_float(one[at])) for one in parts) for parts in metrics.values() for at in (1, 2)]
    if Counter(zip(*given, strict=True)) == Counter(expected):
        return None
    if all(Counter(numbers) == Counter(column[rank] for column in expected) for rank, numbers in enumerate(given)):
        return "Ranks passed their metrics in different orders, so that sums of different metrics were added."
    return "A rank's tensor does not hold its own sums and counts, each once and unchanged."


def _token(number: float) -> float | str:
    """NaN is not what it is equal to."""
    return "NaN" if math.isnan(number) else number


exercise = Exercise(
    criteria=(
        Criterion("mean", 2, "every rank gets the mean over all samples of all ranks, in every call"),
        Criterion("order", 1, "also where the ranks' dictionaries are in different orders", ("mean",)),
        Criterion("exact", 1, "sums and counts keep full float64 precision", ("mean",)),
        Criterion("none", 1, "a metric without samples is NaN, and NaN and infinity are passed on", ("mean",)),
        Criterion(
            "one_collective", 2, "one all_reduce of float64 sums and counts is all that is communicated", ("mean",)
        ),
        Criterion("kept", 1, "sums may be tensors, and totals stays unchanged", ("mean",)),
    ),
    cases=_cases,
    judge=_judge,
)
