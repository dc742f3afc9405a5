"""E12.1 self_times: cases and judge. A forest is drawn with its self times, so nothing is computed from the intervals."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_SINCE_1970 = 1_790_000_000 * 10**9
"""Nanoseconds: a float64 there is right to 256."""
_DEEP = 1200


class Node(NamedTuple):
    """An event of the host: when it starts, how long it takes and its self time. Of two with equal times the outer is first."""

    start: int
    duration: int
    own: int


class Asked(NamedTuple):
    """Events, and what is due of each."""

    events: list[dict]
    expected: list[int | None]


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("nested", [_question(sampler, [_forest(sampler, depth)]) for depth in sampler.shuffled(1, 2, 3, 4)])
    yield ask("threads", sampler.permutation(list(_of_several_threads(sampler))))
    yield ask("device", sampler.permutation(list(_beside_a_device(sampler))))
    yield ask("ties", sampler.permutation(list(_tied(sampler))))
    yield ask(
        "exact", [_question(sampler, [_forest(sampler, 3, _SINCE_1970 + sampler.integer(1, 10**15))]), _deep(sampler)]
    )
    yield ask("errors", sampler.permutation(list(_refused(sampler))), raises="ValueError")


def _question(sampler: Sampler, threads: list[list[Node]], on_device: tuple[dict, ...] = ()) -> Asked:
    """``threads``: a list of nodes for each. The order is random; of two with equal times the outer one stays first."""
    places = _places(sampler, len(threads))
    rows = [(_event(sampler, places[number], node), node.own) for number, nodes in enumerate(threads) for node in nodes]
    return _in_any_order(sampler, [*rows, *((event, None) for event in on_device)])


def _places(sampler: Sampler, count: int) -> list[tuple[int, int]]:
    """Processes and threads. The first two differ by process alone, the next by thread alone."""
    pid, tid = sampler.integer(100, 900), sampler.integer(1000, 9000)
    return [(pid, tid), (pid + 1, tid), (pid + 1, tid + 1), (pid, tid + 2)][:count]


def _event(sampler: Sampler, place: tuple[int, int], node: Node, device: str = "cpu") -> dict:
    name, (pid, tid) = sampler.choice(("aten::mm", "aten::add", "step")), place
    return {
        "name": name,
        "device": device,
        "pid": pid,
        "tid": tid,
        "start_ns": node.start,
        "duration_ns": node.duration,
    }


def _in_any_order(sampler: Sampler, rows: list[tuple[dict, int | None]]) -> Asked:
    """Among events of equal places and times the order stays."""
    waiting: dict[tuple, list] = {}
    for row in rows:
        waiting.setdefault(_times(row[0]), []).append(row)
    mixed = [waiting[_times(event)].pop(0) for event, _ in sampler.permutation(rows)]
    return Asked([event for event, _ in mixed], [own for _, own in mixed])


def _times(event: dict) -> tuple:
    return event["device"], event["pid"], event["tid"], event["start_ns"], event["duration_ns"]


def _forest(sampler: Sampler, depth: int, start: int = 0) -> list[Node]:
    """Two trees with a gap between them, each event down to the ``depth``-th with two or three children."""
    nodes: list[Node] = []
    at = start + sampler.integer(10, 999)
    for _ in range(2):
        nodes += _tree(sampler, at, depth)
        at += nodes[-1].duration + sampler.integer(1, 50)
    return nodes


def _tree(sampler: Sampler, start: int, depth: int) -> list[Node]:
    """Children first: the root is the last."""
    nodes, at, own = [], start, 0
    for _ in range(sampler.integer(2, 3) if depth > 1 else 0):
        gap = sampler.integer(1, 40)
        nodes += _tree(sampler, at + gap, depth - 1)
        at, own = at + gap + nodes[-1].duration, own + gap
    own += (rest := sampler.integer(5, 60))
    return [*nodes, Node(start, at + rest - start, own)]


def _of_several_threads(sampler: Sampler) -> Iterator[Asked]:
    """What runs in one thread lies within an event of another, overlaps it in part, or has its very times."""
    for count in sampler.shuffled(2, 3, 4):
        around = Node(sampler.integer(0, 9), sampler.integer(900, 999), 0)
        threads = [[around._replace(own=around.duration)]]
        for _ in range(count - 1):
            threads.append(_tree(sampler, sampler.integer(10, 200), 2))
        yield _question(sampler, sampler.permutation(threads))
    one = Node(sampler.integer(50, 99), sampler.integer(100, 200), 0)
    same, late = one._replace(own=one.duration), Node(one.start + 30, one.duration, one.duration)
    for other in sampler.shuffled(same, late):
        for threads in sampler.shuffled([[same], [other]], [[Node(0, 9, 9)], [same], [other]]):
            yield _question(sampler, threads)
    rows = [(_event(sampler, place, same), same.own) for place in _confusable(sampler)]
    yield _in_any_order(sampler, rows)


def _confusable(sampler: Sampler) -> Iterator[tuple[int, int]]:
    """Pairs of places that are one where a process and a thread are written side by side, swapped, or packed into one number."""
    a, b, c = sampler.integer(1, 9), sampler.integer(1, 9), sampler.integer(1, 9)
    yield from ((a, 10 * b + c), (10 * a + b, c), (a + 40, b + 50), (b + 50, a + 40))
    pid, tid = sampler.integer(100, 900), sampler.integer(1000, 9000)
    for number, base in enumerate((10**3, 10**4, 10**5, 10**6, 10**7, 2**16, 2**20, 2**22, 2**32)):
        yield from ((pid + 2 * number + 1, tid), (pid + 2 * number, tid + base))


def _beside_a_device(sampler: Sampler) -> Iterator[Asked]:
    """Kernels that lie in an operation, around it and across its end, on a stream with a thread's number and on others."""
    for like_a_thread in sampler.shuffled(True, False):
        nodes, place = _forest(sampler, 3, sampler.integer(500, 999)), _places(sampler, 1)[0]
        first, last = nodes[0], nodes[-1]
        spans = [(last.start + 1, 3), (last.start - 9, 5000), (last.start + 2, last.duration), (first.start, 0)]
        kernels = [_event(sampler, place if like_a_thread else (0, 7), Node(*span, 0), "cuda") for span in spans]
        rows = [(_event(sampler, place, node), node.own) for node in nodes] + [(kernel, None) for kernel in kernels]
        yield _in_any_order(sampler, rows)
    for duration in sampler.shuffled(sampler.integer(5, 90), -sampler.integer(1, 9)):
        yield Asked([_event(sampler, (0, 7), Node(5, duration, 0), "cuda")], [None])
    yield Asked([], [])


def _tied(sampler: Sampler) -> Iterator[Asked]:
    start, a, b = sampler.integer(10, 999), sampler.integer(20, 50), sampler.integer(60, 90)
    # Children from the parent's start to its end, without a gap; then a second root that starts where the first one ends.
    yield _question(
        sampler, [[Node(start, a + b, 0), Node(start, a, a), Node(start + a, b, b), Node(start + a + b, a, a)]]
    )
    # Three that start together, and three that end together.
    yield _question(sampler, [[Node(start, a + b, b), Node(start, a, a - 9), Node(start, 9, 9)]])
    yield _question(sampler, [[Node(start, a + b, b), Node(start + b, a, a - 9), Node(start + b + a - 9, 9, 9)]])
    # Equal times twice and three times; what lies inside belongs to the innermost of them.
    for many in sampler.shuffled(2, 3):
        chain = [Node(start, a + b, 0)] * (many - 1) + [Node(start, a + b, a), Node(start + a, b, b)]
        order = [*range(many)]
        order.insert(sampler.integer(0, many), many)
        place = _places(sampler, 1)[0]
        yield Asked(
            [_event(sampler, place, chain[number]) for number in order], [chain[number].own for number in order]
        )
    # No duration: at both ends, inside, alone, twice; on the border of two.
    for _ in range(2):
        nothing = [Node(at, 0, 0) for at in (start, start + 7, start + a, start + a, start + a + b, start + 500)]
        yield _question(sampler, [[Node(start, a, a), Node(start + a, b, b), *nothing]])
        yield _question(
            sampler, [[Node(start, a + b, b - 9), Node(start, a, a), Node(start + a + b - 9, 9, 9), *nothing]]
        )


def _deep(sampler: Sampler) -> Asked:
    """Each event the only child of the one before; those that are listed first are not the outermost."""
    start = _SINCE_1970 + sampler.integer(1, 10**15)
    edges = [sampler.integer(1, 3) for _ in range(_DEEP)]
    nodes, end = [], start + 4 * _DEEP * 3
    for edge in edges:
        nodes.append(Node(start, end - start, 2 * edge))
        start, end = start + edge, end - edge
    nodes[-1] = nodes[-1]._replace(own=nodes[-1].duration)
    return _question(sampler, [nodes])


def _refused(sampler: Sampler) -> Iterator[Asked]:
    start, a, b = sampler.integer(10, 999), sampler.integer(20, 50), sampler.integer(60, 90)
    across = [Node(start, a, 0), Node(start + a - 1, b, 0)]  # by a nanosecond
    for nodes in (
        across,
        [
            Node(start, a + b, 0),
            *across[:1],
            Node(start + a - 5, b, 0),
        ],  # two children; their sum does not exceed the parent
        [Node(start, 10 * b, 0), *across],  # nor does it here, by far
        [Node(start, a, 0), Node(start + 5, a, 0)],
        [
            Node(start, 10, 0),
            Node(start, 5, 0),
            Node(start + 5, 4, 0),
            Node(start + 9, 2, 0),
        ],  # the last of three sticks out
        [
            Node(start, 100, 0),
            Node(start, 50, 0),
            Node(start + 2, 30, 0),
            Node(start + 20, 40, 0),
        ],  # a grandchild out of a child
    ):
        yield _question(sampler, [nodes])
        yield _question(sampler, [_forest(sampler, 2), [Node(node.start + 5, *node[1:]) for node in nodes]])
    for less in sampler.shuffled(-1, -sampler.integer(2, 99)):
        yield _question(sampler, [[Node(start, less, 0)]])
        yield _question(sampler, [[Node(start, b, 0), Node(start + 9, less, 0)]])
        yield _question(sampler, [[Node(start, b, 0), Node(start + b + 9, less, 0)]])


# ---- what is wrong


def _wrong(criterion: str, asked: Asked, value: Any) -> str | None:
    events, expected = asked
    if not isinstance(value, list):
        return f"The function returned {type_name(value)}; expected a list."
    if len(value) != len(expected):
        return "The list does not have one entry for each event."
    for event, told, right in zip(events, value, expected, strict=True):
        if right is None and told is not None:
            return "An event on the device has an entry other than None: time there is not the host's."
        if right is not None and type(told) is not int:
            return f"The self time of an event on the host is {type_name(told)}; expected an integer."
        if told != right:
            return _why(criterion, event, told)
    return None


def _why(criterion: str, event: dict, told: int) -> str:
    if told < 0:
        return "A self time is below 0: something was subtracted that is no child, or twice."
    if told == event["duration_ns"]:
        return f"A self time is the whole duration, and the event has children. {_SENTENCES[criterion]}"
    return f"A self time is wrong. {_SENTENCES[criterion]}"


_SENTENCES = {
    "nested": "What is subtracted is the duration of each child, and not of what the child calls.",
    "threads": "Only what runs in the same thread of the same process is a child.",
    "device": "A kernel runs while the host goes on: it is not the child of what launched it, and no host event is its.",
    "ties": "Of two that start together the longer one is the outer one; of equal ones, the first in the list.",
    "exact": "Nanoseconds since 1970 have more digits than a float holds, and a child may be one of thousands in each other.",
}

exercise = answers(
    criteria=(
        Criterion("nested", 2, "each child is subtracted from its own parent, in whatever order they come"),
        Criterion("threads", 1, "threads are told apart, by process and number"),
        Criterion("device", 1, "what runs on the device is nobody's child or parent"),
        Criterion("ties", 2, "equal starts, ends and times, borders and durations of 0 are put in the right order"),
        Criterion("exact", 1, "times are exact to the nanosecond, however deep the calls are nested"),
        Criterion("errors", 2, "events that are no tree are refused with ValueError", ("nested",)),
    ),
    cases=_cases,
    arguments=lambda asked: (asked.events,),
    wrong=_wrong,
    kept="The function changed the events that it was given: the caller still needs them.",
    libraries=("numpy", "torch"),
)
