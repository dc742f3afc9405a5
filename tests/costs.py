"""What the tests cost in seconds of processor time, by chapter and by room, held against a chapter's budget."""

import json
import os
import platform
import resource
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.rooms import ROOT, chapters_of, room_of

CHAPTER_BUDGET_SECONDS = 120
TOO_MUCH = 1.5
"""Times its budget: a chapter whose tests take more fails the run."""
NOT_YET_CHEAP_SECONDS = {
    **{"kernels": 500, "transfers": 400, "streams": 300},
    **{"precision": 900, "memory": 400, "collectives": 400, "data_parallel": 900},
}
"""Chapters over their budget, and what they may take until they are made cheaper: most of it is their gates.

Of the second line every attempt is still tried with two seeds: no mutants were tried (``tests/gates``).
"""
KEPT = ROOT / "benchmarks" / "results" / "tests.json"
BEGAN = pytest.StashKey[tuple[float, float]]()


def _now() -> tuple[float, float]:
    """Seconds of processor time of this process and of those it has waited for, and of the clock.

    Processor time, since a busy machine must not fail a chapter. Chromium is never waited for and not in it.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used), time.perf_counter()


def allowed_seconds(chapter: str) -> float:
    """Of processor time."""
    return NOT_YET_CHEAP_SECONDS.get(chapter, CHAPTER_BUDGET_SECONDS * TOO_MUCH)


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
            names = [f"chapter {name}" for name in chapters_of(item)] or [f"room {room_of(item)}"]
            item.user_properties.append(("cost", [names, *used]))

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_dear():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.keep:
            self.write(KEPT)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        for sentence in self.too_dear():
            terminalreporter.write_line(sentence, red=True)

    def write(self, path: Path) -> None:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
        rounded = {name: {key: round(value, 1) for key, value in one.items()} for name, one in sorted(self.of.items())}
        path.write_text(json.dumps({"machine": machine, "seconds": rounded}, indent=1) + "\n")
