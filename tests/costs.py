"""What the tests cost in seconds of processor time, by chapter and by room, held against a chapter's budget."""

import json
import os
import platform
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rooms import ROOT, chapters_of, room_of

CHAPTER_BUDGET_SECONDS = 120
TOO_MUCH = 1.5
"""Times its budget: a chapter whose tests take more fails the run."""
NOT_YET_CHEAP_SECONDS = {
    **{"sharding": 850, "engines": 520, "stability": 500, "execution": 480, "trading": 440, "data_parallel": 330},
    **{"parallelism": 300, "inference": 240, "kernels": 240, "precision": 240},
    **{"platforms": 500, "operating": 400, "capstone": 600, "feeding": 300},
}
"""Chapters over their budget, and a third more than a whole run on two cores took for each. The last four are guesses.

Most of it are ranks, which are processes, and Triton's interpreter.
"""
WORTH_A_LINE_SECONDS = 60
KEPT = ROOT / "benchmarks" / "results" / "tests.json"
_twice = {"cpu_s": 0.0}
"""Seconds of processor time of children waited for in :func:`already_charged`, which the kernel counts again."""
BEGAN, ELSEWHERE = pytest.StashKey[tuple[float, float]](), pytest.StashKey[float]()


def _now() -> tuple[float, float]:
    """Seconds of processor time of this process and of those it has waited for, and of the clock.

    Processor time, since a busy machine must not fail a chapter. Chromium is never waited for and not in it.
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


@contextmanager
def already_charged() -> Iterator[None]:
    """Wait here for processes whose tests were charged with :func:`was_spent_elsewhere`: waiting charges nobody again."""
    before = _used_by(resource.RUSAGE_CHILDREN)
    yield
    _twice["cpu_s"] += _used_by(resource.RUSAGE_CHILDREN) - before


def allowed_seconds(chapter: str) -> float:
    """Of processor time."""
    return NOT_YET_CHEAP_SECONDS.get(chapter, CHAPTER_BUDGET_SECONDS * TOO_MUCH)


def who_pays(item: pytest.Item) -> list[str]:
    """The chapters it tests; the grader for a test of its own that takes a chapter as its example."""
    room = room_of(item)
    chapters = [] if room == "grader" else [f"chapter {name}" for name in chapters_of(item)]
    return chapters or [f"room {room}"]


class Costs:
    """Measures where tests run, sums where they are reported: with pytest-xdist that is another process."""

    def __init__(self, keep: bool) -> None:
        self.keep, self.of = keep, defaultdict(lambda: {"tests": 0, "cpu_s": 0.0, "wall_s": 0.0})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[BEGAN] = _now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item):
        try:
            return (yield)
        finally:
            used = [after - before for before, after in zip(item.stash[BEGAN], _now(), strict=True)]
            used[0] += item.stash.get(ELSEWHERE, 0.0)
            item.user_properties.append(("cost", [who_pays(item), *used]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        for names, cpu_s, wall_s in [value for key, value in report.user_properties if key == "cost"]:
            for name in names:
                one = self.of[name]
                one["tests"], one["cpu_s"], one["wall_s"] = one["tests"] + 1, one["cpu_s"] + cpu_s, one["wall_s"] + wall_s

    def too_dear(self) -> list[str]:
        """A sentence for each chapter whose tests took more than its budget allows."""
        chapters = {name: one["cpu_s"] for name, one in self.of.items() if name.startswith("chapter ")}
        return [
            f"the tests of {name} took {cpu_s:.0f} s of processor time: {most:.0f} s are allowed"
            for name, cpu_s in chapters.items()
            if cpu_s > (most := allowed_seconds(name.removeprefix("chapter ")))
        ]

    def total_cpu_s(self) -> float:
        """A test of two chapters counts for both."""
        return sum(one["cpu_s"] for one in self.of.values())

    def summary(self) -> str:
        """What each chapter and room took, the dearest first."""
        dearest = sorted(self.of.items(), key=lambda item: -item[1]["cpu_s"])
        each = ", ".join(f"{name} {one['cpu_s']:.0f}" for name, one in dearest)
        return f"Seconds of processor time: {self.total_cpu_s():.0f} in all; {each}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_dear():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.keep:
            self.write(KEPT)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if self.total_cpu_s() > WORTH_A_LINE_SECONDS:
            terminalreporter.write_line(self.summary())
        for sentence in self.too_dear():
            terminalreporter.write_line(sentence, red=True)

    def write(self, path: Path) -> None:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
        rounded = {name: {key: round(value, 1) for key, value in one.items()} for name, one in sorted(self.of.items())}
        path.write_text(json.dumps({"machine": machine, "seconds": rounded}, indent=1) + "\n")
