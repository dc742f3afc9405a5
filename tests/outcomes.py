"""What came of each test, written where a runner can read it: a plugin of pytest that needs nothing of the course.

``python -m pytest -p tests.outcomes --outcomes=FILE``
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"
COST = "cost"
"""The property of a report that holds who pays for the test, and its seconds of processor time and of the clock."""


@dataclass
class Test:
    came: str = NOT_RUN
    said: str = ""
    """The short text of its failure."""
    cost: list = field(default_factory=list)

    __test__ = False

    def take(self, report: pytest.TestReport) -> None:
        """The report of one of its three phases, or of the worker that it ended."""
        if report.failed and self.came != FAILED:
            self.came, self.said = FAILED, short(report)
        elif self.came == NOT_RUN and (report.skipped or report.when == "call"):
            self.came = report.outcome
        self.cost = next((value for key, value in report.user_properties if key == COST), self.cost)


def short(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip()[:500]


class Outcomes:
    """Where tests are reported, which with pytest-xdist is not where they run."""

    def __init__(self, path: Path) -> None:
        self.path, self.tests = path, {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids) -> None:
        self.expect(ids)

    def expect(self, names) -> None:
        for name in names:
            self.tests.setdefault(name, Test())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests.setdefault(report.nodeid, Test()).take(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps({name: asdict(test) for name, test in self.tests.items()}))


def pytest_addoption(parser) -> None:
    parser.addoption("--outcomes", type=Path, help="write what came of each test to this file")


def pytest_configure(config) -> None:
    if config.option.outcomes and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.option.outcomes))


def read(path: Path) -> dict[str, Test]:
    """Empty if the run ended before it could write."""
    return {name: Test(**test) for name, test in json.loads(path.read_text()).items()} if path.exists() else {}
