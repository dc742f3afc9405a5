"""Measures each test's processor time and sums it by chapter and room, for their budgets."""

import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.budgets import by_payer, too_dear
from tests.outcomes import COST
from tests.rooms import DRAFTS, chapters_of, room_of
from tests.speed import Slowness

_twice = {"cpu_s": 0.0}
"""Seconds of processor time of children waited for in :func:`already_charged`, which the kernel counts again."""
BEGAN, ELSEWHERE = pytest.StashKey[tuple[float, float]](), pytest.StashKey[float]()


def _now() -> tuple[float, float]:
    """Seconds of processor time of this process and of those it has waited for, and of the clock.

    Processor time, since a busy machine must not fail a chapter.
    """
    return processor_seconds() - _twice["cpu_s"], time.perf_counter()


def processor_seconds() -> float:
    """Of this process and of those it has waited for."""
    return _used_by(resource.RUSAGE_SELF) + _used_by(resource.RUSAGE_CHILDREN)


def _used_by(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def was_spent_elsewhere(item: pytest.Item, cpu_s: float) -> None:
    """``cpu_s`` seconds of processor time that a test had a process take that lives on."""
    item.stash[ELSEWHERE] = item.stash.get(ELSEWHERE, 0.0) + cpu_s


def seconds_of_browsers() -> float:
    """Of processor time, of the browsers that this process has started."""
    return seconds_of(child for child in psutil.Process().children() if child.name().startswith("node"))


def seconds_of(processes: Iterable[psutil.Process]) -> float:
    """Of processor time, of children of this one and of what they started, alive or ended.

    A process that ended is counted with the one that waited for it; one that this process has waited for, with none of these.
    """
    return sum(_seconds(one) for process in processes for one in _with_all_below(process))


def _with_all_below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _seconds(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])
    except psutil.NoSuchProcess:
        return 0.0


@contextmanager
def already_charged() -> Iterator[None]:
    """Wait here for processes whose tests were charged with :func:`was_spent_elsewhere`: waiting charges nobody again."""
    before = _used_by(resource.RUSAGE_CHILDREN)
    yield
    _twice["cpu_s"] += _used_by(resource.RUSAGE_CHILDREN) - before


def who_pays(item: pytest.Item) -> list[str]:
    """The chapters it tests; the grader for a test of its own that takes a chapter as its example."""
    room, chapters = room_of(item), chapters_of(item)
    if drafts := chapters & DRAFTS.contents.draft_names:
        chapters -= drafts - {item.config.option.chapter}
    return [f"room {room}"] if room == "grader" or not chapters else [f"chapter {name}" for name in sorted(chapters)]


class Costs:
    """Measures where tests run, and says what was too dear where they are reported: with pytest-xdist that is another process.

    Processor time is that of a quiet machine: on a busy one the same work takes up to twice as much.
    """

    def __init__(self, slowness: Slowness | None = None) -> None:
        self.costs, self._slowness = [], slowness or Slowness()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[BEGAN] = _now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item):
        try:
            return (yield)
        finally:
            used = [after - before for before, after in zip(item.stash[BEGAN], _now(), strict=True)]
            used[0] = (used[0] + item.stash.get(ELSEWHERE, 0.0)) / self._slowness.times()
            item.user_properties.append((COST, [who_pays(item), *used]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.costs += [value for key, value in report.user_properties if key == COST]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and too_dear(by_payer(self.costs)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter) -> None:
        for sentence in too_dear(by_payer(self.costs)):
            terminalreporter.write_line(sentence, red=True)
