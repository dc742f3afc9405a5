"""E14.5 find_desync: cases and judge."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

_OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
_DTYPES = ("float32", "bfloat16", "int64", "float64")
_WAYS = ("op", "bytes", "dtype")
_ENDED = "."
_CLEAR = ("ABBB", "AAAB", "ABA", "ABBBA", "ABCC", "AABCBCA", "ABBCCBCBBACB")
_TIED = ("AB", "AABB", "ABBA", "ABAB", "ABC", "ABCD", "ABBCC", "ABCCB", "ABCBC", "ABABCC", "ABCDCBADABCD")
_SHORT = (".A", "A.", "AAA.", ".AA", "A.AA", "..AA", "...A", "A...", ".A..AA")
_SHORT_AND_APART = ("..AB", "A..B", ".AB", "A.BB", "...ABB")
"""By rank the party at the first position that tells; a point: the log has ended there."""


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield _asked(sampler, "agree", list(_agreeing(sampler)))
    yield _asked(sampler, "index", list(_indices(sampler)))
    yield _asked(sampler, "ended", [*_early_and_late(sampler, *_SHORT), _with_barriers(sampler, is_short=True)])
    parted = [_parted(sampler, pattern, sampler.integer(0, 4)) for pattern in sampler.shuffled(*_CLEAR, *_TIED * 2)]
    parted += [*_early_and_late(sampler, *_SHORT_AND_APART), *_by_op_alone(sampler)]
    yield _asked(sampler, "culprits", sampler.permutation(parted))
    yield _asked(sampler, "lines", _early_and_late(sampler, "AB", "ABB.", "A..", "ABC", "BABB.BBABBBB", "AAB"))
    yield refuse("errors", [({"logs": []}, "there are no ranks")])


def _asked(sampler: Sampler, criteria: str, questions: list[dict]) -> Questions:
    """The questions, with the time of each entry: each rank has a clock of its own."""
    for log in (log for question in questions for log in question["logs"]):
        us = sampler.integer(0, 10**6) / 8
        for entry in log:
            us += sampler.integer(1, 10**4) / 8
            entry["us"] = us
    return ask(criteria, questions)


def _agreeing(sampler: Sampler) -> Iterator[dict]:
    """One rank, two, many; of no entry, one, several; in step, and each on lines of its own."""
    for world, length in sampler.shuffled((1, 0), (1, 1), (1, 6), (2, 0), (5, 0), (2, 1), (2, 7), (3, 4), (12, 3)):
        yield {"logs": _logs(sampler, world, length)}
    yield {"logs": _logs(sampler, 3, 5, in_step=True)}
    yield {"logs": [[_entry("barrier", 0, "", "train.py:9") for _ in range(3)] for _ in range(2)]}


def _indices(sampler: Sampler) -> Iterator[dict]:
    """What differs, where, and what comes after it: agreement or more that differs; a log shifted; a step repeated."""
    for way in _WAYS:
        for at, after in sampler.shuffled(
            (0, 0), (0, 5), (sampler.integer(2, 6), 3), (sampler.integer(3, 6), 0), (1, 1)
        ):
            yield _differing(sampler, way, at, after, is_noisy=False)
            yield _differing(sampler, way, at, after, is_noisy=True)
    for change in (_skipped, _doubled, _swapped):
        logs = _logs(sampler, sampler.integer(2, 4), sampler.integer(6, 9), in_step=sampler.choice((True, False)))
        change(logs[sampler.integer(0, len(logs) - 1)], sampler.integer(1, 3))
        yield {"logs": logs}
    for way in _WAYS:
        yield _repeating(sampler, way)
    yield _with_barriers(sampler, is_short=False)
    yield from _nearly_alike(sampler)
    for change in (lambda nbytes: 0, lambda nbytes: nbytes + 1, lambda nbytes: nbytes - 1):
        logs = _logs(sampler, 2, 3)
        entry = logs[sampler.integer(0, 1)][1]
        entry["bytes"] = change(entry["bytes"])
        yield {"logs": logs}


def _nearly_alike(sampler: Sampler) -> Iterator[dict]:
    """Entries that are one when they are written behind each other, by upper and lower case, or as floats."""
    pairs = [
        (("send_1", 23, "int8"), ("send_12", 3, "int8")),
        (("send", 2, "4int"), ("send", 24, "int")),
        (("send", 8, "a"), ("senda", 8, "")),
        (("send a", 8, "b"), ("send", 8, "a b")),
        (("send,a", 8, "b"), ("send", 8, "a,b")),
        (("send_a", 8, "b"), ("send", 8, "a_b")),
        (("send", 2**53, "int8"), ("send", 2**53 + 1, "int8")),
        (("send", 8, "int8"), ("Send", 8, "int8")),
        (("send", 8, "int8"), ("send ", 8, "int8")),
    ]
    for pair in sampler.permutation(pairs):
        logs = _logs(sampler, 2, 3)
        for log, (op, nbytes, dtype) in zip(logs, sampler.permutation(pair), strict=True):
            log[1] = _entry(op, nbytes, dtype, log[1]["line"])
        yield {"logs": logs}


def _differing(sampler: Sampler, way: str, at: int, after: int, is_noisy: bool) -> dict:
    world = sampler.integer(2, 5)
    logs = _logs(sampler, world, at + 1 + after, in_step=not is_noisy and at % 2 == 0)
    culprit = sampler.integer(0, world - 1)
    _change(sampler, [logs[culprit][at]], way)
    if is_noisy and after:
        other = sampler.integer(0, world - 1)
        _change(sampler, [logs[other][sampler.integer(at + 1, at + after)]], sampler.choice(_WAYS))
        del logs[sampler.integer(0, world - 1)][sampler.integer(at + 1, at + after) :]
    return {"logs": logs}


def _repeating(sampler: Sampler, way: str) -> dict:
    """Steps of two collectives, again and again; one rank differs in a later step, and in the step after it."""
    world, steps = sampler.integer(2, 4), sampler.integer(4, 6)
    logs = [[dict(entry) for _ in range(steps) for entry in log] for log in _logs(sampler, world, 2)]
    log, at = sampler.choice(logs), sampler.integer(2, 2 * steps - 3)
    _change(sampler, [log[at], log[at + 2]], way)
    return {"logs": logs}


def _parted(sampler: Sampler, pattern: str, at: int) -> dict:
    """Logs that agree up to ``at``, where the ranks part as ``pattern`` says, and are of any length after it."""
    after, world = sampler.integer(0, 3), len(pattern)
    logs = _logs(sampler, world, at + 1 + after, in_step=sampler.chance(0.2))
    for party, way in zip(sorted(set(pattern) - {_ENDED, "A"}), sampler.permutation(_WAYS), strict=False):
        _change(sampler, [log[at] for log, own in zip(logs, pattern, strict=True) if own == party], way)
    for log, party in zip(logs, pattern, strict=True):
        del log[at if party == _ENDED else at + 1 + sampler.integer(0, after) :]
    return {"logs": logs}


def _by_op_alone(sampler: Sampler) -> Iterator[dict]:
    """The op of most ranks, or the op and the dtype, is not that of the largest party."""
    for many, few in sampler.shuffled(("op", "bytes"), ("op", "dtype"), ("dtype", "bytes"), ("bytes", "dtype")):
        ranks = sampler.permutation(range(5))
        while True:
            logs = _logs(sampler, 5, 4)
            _change(sampler, [logs[rank][2] for rank in ranks[:2]], many)
            for rank in ranks[2:]:
                _change(sampler, [logs[rank][2]], few)
            if len({_key(log[2]) for log in logs}) == 4:
                break
        yield {"logs": logs}


def _early_and_late(sampler: Sampler, *patterns: str) -> list[dict]:
    """Each of them at position 0, where a log that has ended is empty, and later."""
    return sampler.permutation(
        [_parted(sampler, pattern, at) for pattern in patterns for at in (0, sampler.integer(1, 4))]
    )


def _with_barriers(sampler: Sampler, is_short: bool) -> dict:
    """One rank is at a barrier, which has no bytes and no dtype, or has ended before one at which the others are."""
    logs, at = _logs(sampler, 3, 5), sampler.integer(1, 3)
    own = sampler.integer(0, 2)
    for rank, log in enumerate(logs):
        if is_short != (rank == own):
            log[at] = _entry("barrier", 0, "", log[at]["line"])
    if is_short:
        del logs[own][at:]
    return {"logs": logs}


def _skipped(log: list[dict], at: int) -> None:
    del log[at]


def _doubled(log: list[dict], at: int) -> None:
    log.insert(at, dict(log[at]))


def _swapped(log: list[dict], at: int) -> None:
    log[at], log[at + 1] = log[at + 1], log[at]


def _logs(sampler: Sampler, world: int, length: int, in_step: bool = False) -> list[list[dict]]:
    """Logs that agree, of collectives no two of which are alike; ``in_step``: on the same lines in every rank."""
    numbers = sampler.permutation(range(100, 100 + world * length + length))
    sizes = sampler.permutation(range(1, 1000))[:length]
    logs: list[list[dict]] = [[] for _ in range(world)]
    for size in sizes:
        op, dtype, line = sampler.choice(_OPS), sampler.choice(_DTYPES), numbers.pop()
        for log in logs:
            own = line if in_step else numbers.pop()
            log.append(_entry(op, 1024 * size, dtype, f"train.py:{own}"))
    return logs


def _entry(op: str, nbytes: int, dtype: str, line: str) -> dict:
    return {"op": op, "bytes": nbytes, "dtype": dtype, "line": line}


def _change(sampler: Sampler, entries: list[dict], way: str) -> None:
    """Give all entries, of one collective, another op, size or dtype, and that alone."""
    changed = {
        "op": sampler.choice([op for op in _OPS if op != entries[0]["op"]]),
        "bytes": sampler.choice((0, entries[0]["bytes"] + 8 * sampler.choice((-1, 1)) * sampler.integer(1, 100))),
        "dtype": sampler.choice([dtype for dtype in _DTYPES if dtype != entries[0]["dtype"]]),
    }[way]
    for entry in entries:
        entry[way] = changed


def _key(entry: dict) -> tuple:
    return entry["op"], entry["bytes"], entry["dtype"]


def _first(logs: list[list[dict]], key: Callable[[dict], Any] = _key) -> tuple[int, list] | None:
    """The first position at which the ranks' entries differ by ``key``, and these entries."""
    for index, entries in enumerate(zip_longest(*logs)):
        if len({entry and key(entry) for entry in entries}) > 1:
            return index, list(entries)
    return None


def _outside(entries: list, key: Callable[[dict], Any] = _key) -> list[int]:
    """The ranks that are not of the largest party; of equally large ones that of the lowest rank is the larger."""
    posted = [entry and key(entry) for entry in entries]
    largest = max((one for one in posted if one), key=posted.count)
    return [rank for rank, one in enumerate(posted) if one != largest]


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    logs = question["logs"]
    expected = _first(logs)
    if expected is None:
        return (
            None if value is None else f"The function returned {type_name(value)} where the logs agree; expected None."
        )
    if value is None:
        return "The function returned None where the logs do not agree."
    if not isinstance(value, dict) or set(value) != {"index", "culprits", "lines"}:
        return "Expected a dictionary of `index`, `culprits` and `lines`, and of nothing else."
    problems = {
        "index": _index_problem,
        "ended": _ended_problem,
        "culprits": _culprits_problem,
        "lines": _lines_problem,
    }
    for name, entry in (
        (("index", "index"), ("ended", "culprits")) if criterion == "ended" else ((criterion, criterion),)
    ):
        if problem := problems[name](logs, value[entry], *expected):
            return problem
    return None


def _index_problem(logs: list, value: Any, index: int, entries: list) -> str | None:
    if type(value) is not int:
        return f"The index is {type_name(value)}; expected an int."
    if value == index:
        return None
    by_line = _first(logs, lambda entry: (*_key(entry), entry["line"]))
    if value < index and by_line is not None and value == by_line[0]:
        return "Entries of other lines were taken to disagree: ranks may post the same collective from different lines."
    if value > index:
        return "The ranks diverged before that position: later differences follow from the first."
    return "At that position, and before it, all ranks posted the same op of the same bytes and dtype."


def _ended_problem(logs: list, value: Any, index: int, entries: list) -> str | None:
    if not isinstance(value, list) or any(type(rank) is not int for rank in value):
        return f"The culprits are {type_name(value)}; expected a list of ints."
    if {rank for rank, entry in enumerate(entries) if entry is None} <= set(value):
        return None
    return "A rank whose log has ended is not among the culprits: it always is one, since the ranks that posted wait for it."


def _culprits_problem(logs: list, value: Any, index: int, entries: list) -> str | None:
    expected = _outside(entries)
    if value == expected:
        return None
    if problem := _ended_problem(logs, value, index, entries):
        return problem
    if sorted(value) == expected:
        return "The culprits are right, and not in ascending order."
    ended = [rank for rank, entry in enumerate(entries) if entry is None]
    if ended and value == ended:
        return (
            "Only the ranks whose logs have ended are named: ranks outside the largest group that agrees are "
            "culprits too."
        )
    found = {sentence for wrong, sentence in _other_culprits(entries) if value == wrong}
    return found.pop() if len(found) == 1 else "The culprits are not the ranks outside the largest group that agrees."


def _other_culprits(entries: list) -> Iterator[tuple[list[int], str]]:
    """What comes of the usual mistakes."""
    posted = [entry and _key(entry) for entry in entries]
    if posted[0]:
        others = [rank for rank, one in enumerate(posted) if one != posted[0]]
        yield others, "Rank 0 is taken to be right: it may itself be the one that diverged."
    by_op = _outside(entries, lambda entry: entry["op"])
    yield by_op, "The largest group was found by op alone: ranks that differ in bytes or dtype do not agree."
    for by_line in (lambda entry: entry["line"], lambda entry: (*_key(entry), entry["line"])):
        yield _outside(entries, by_line), "The largest group was found by line: ranks may agree from different lines."
    everybody = "Every rank is named: the largest group is not to blame, however small it is."
    yield list(range(len(entries))), everybody
    alone = [rank for rank, one in enumerate(posted) if one is not None and posted.count(one) == 1]
    yield alone, "Only ranks that are alone are named: every rank outside the largest group is a culprit."
    sizes = {one: posted.count(one) for one in posted if one}
    for group in (one for one in sizes if sizes[one] == max(sizes.values())):
        outside = [rank for rank, one in enumerate(posted) if one != group]
        yield outside, "Of groups of equal size, the one that has the lowest rank counts as the largest."


def _lines_problem(logs: list, value: Any, index: int, entries: list) -> str | None:
    if not isinstance(value, dict):
        return f"The lines are {type_name(value)}; expected a dictionary, rank to line."
    expected = {rank: entry and entry["line"] for rank, entry in enumerate(entries)}
    if value == expected:
        return None
    if set(map(str, value)) != set(map(str, expected)):
        return "The lines of some ranks are missing: each rank has one, or None where its log has ended."
    return "These are not the lines of the ranks' entries at the first difference, with None where a log has ended."


def _traits(logs: list[list[dict]]) -> dict[str, str]:
    lengths, entries = {len(log) for log in logs}, [entry for log in logs for entry in log]
    return {
        "the number of ranks": "1" if len(logs) == 1 else "2" if len(logs) == 2 else "3 or more",
        "the logs' length": "the same" if len(lengths) == 1 else "not the same",
        "a log without entries": "there" if 0 in lengths else "not there",
        "a barrier": "there" if any(entry["op"] == "barrier" for entry in entries) else "not there",
    }


exercise = answers(
    criteria=(
        Criterion("index", 2, "the first position at which op, bytes or dtype differ is found"),
        Criterion("agree", 1, "ranks that posted the same give None", ("index",)),
        Criterion("ended", 1, "a rank whose log has ended is found, and is the culprit", ("index",)),
        Criterion("culprits", 2, "the ranks outside the largest group that agrees are named", ("index",)),
        Criterion("lines", 1, "each rank's line at that position is given", ("index",)),
        Criterion("errors", 1, "no ranks are refused with ValueError", ("index",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["logs"],),
    wrong=_wrong,
    kept="The function changed the logs that it was given.",
    in_kernel=True,
    traits=lambda question: _traits(question["logs"]),
)
