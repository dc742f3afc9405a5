"""Which tests run one after the other in the same process, so that what their fixtures start is started once, and in which order.

Some groups wait for other processes most of the time, others compute. One worker takes those that wait, so that one is
always under way beside what computes; none is left for the end, when the cores would have nothing else.

A fork copies the page tables of all that its process has come to hold: 8 ms at 200 MB, 110 ms at 2 GB. pytest's processes
grow with what tests import and allocate. So of those that compute, the ones that fork most run first.
"""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

WAIT_MOST = ("exploits", "faults", "pipeline", "grading", "site")
"""Folders of tests that wait for kernels, for deadlines and for browsers, in the order in which they run."""
FORK_MOST = ("gates", "collectives", "book")
"""Folders of tests, in the order in which they run, before all others that compute."""
WORTH_KEEPING_SECONDS = 5
MEASURED = Path(__file__).parents[1] / "benchmarks" / "results" / "tests.json"


def folder(name: str) -> str:
    """``name``: of a group, a file or a test, as ``tests/gates/test_gates.py``."""
    return name.split("/")[1]


def waits(group: str) -> bool:
    return folder(group) in WAIT_MOST


def in_order(group: str) -> tuple[bool, int, float]:
    """A key to sort by: of a folder the group that took longest comes first."""
    folders = WAIT_MOST if waits(group) else FORK_MOST
    place = folders.index(folder(group)) if folder(group) in folders else len(folders)
    return waits(group), place, -measured().get(group, 0.0)


@cache
def measured() -> dict[str, float]:
    """Seconds of the clock that groups took when it was last written down."""
    groups = json.loads(MEASURED.read_text()).get("groups", {})
    return {name: took["wall_s"] for name, took in groups.items()}


class GroupScheduling(LoadScopeScheduling):
    """Those of a file, of all exploits, and of one exercise's gates."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node) -> None:
        self.workqueue.move_to_end(next_for(node is self.nodes[0], list(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node) -> str | None:
        """The test that ended its worker. Others take over the rest; xdist's own would have them try this one too."""
        workload = self.assigned_work.pop(node)
        crashed = next((name for unit in workload.values() for name, done in unit.items() if not done), None)
        for unit in workload.values():
            unit |= {crashed: True} if crashed in unit else {}
        self.workqueue.update({scope: unit for scope, unit in workload.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


def next_for(first_worker: bool, groups: list[str]) -> str:
    """The first group that waits to the first worker, the first that computes to another, while there are both."""
    return next((group for group in groups if waits(group) is first_worker), groups[0])


def group_of(nodeid: str) -> str:
    """The name of a test's group. ``nodeid``: as ``tests/gates/test_gates.py::test_gate[starter_earns_nothing-views.patchify]``."""
    file, _, name = nodeid.partition("::")
    if file.startswith("tests/exploits/"):
        return "tests/exploits"
    if file == "tests/gates/test_gates.py" and "[" in name:
        return f"{file}::{name.rpartition('-')[2].removesuffix(']')}"
    return file


def by_group(costs: dict[str, list]) -> dict[str, dict[str, float]]:
    """Seconds of each group that takes long, the longest first. ``costs``: by test, as :mod:`tests.outcomes` has them."""
    groups = defaultdict(lambda: {"cpu_s": 0.0, "wall_s": 0.0})
    for name, (_, cpu_s, wall_s) in costs.items():
        one = groups[group_of(name)]
        one["cpu_s"], one["wall_s"] = one["cpu_s"] + cpu_s, one["wall_s"] + wall_s
    long = {name: took for name, took in groups.items() if took["wall_s"] > WORTH_KEEPING_SECONDS}
    return dict(sorted(long.items(), key=lambda item: -item[1]["wall_s"]))
