"""Which tests run one after the other in the same process, so that what their fixtures start is started once, and in which order.

A fork copies the page tables of all that its process has come to hold: 8 ms at 200 MB, 110 ms at 2 GB. A verdict on ranks
forks 35 times, and pytest's processes grow with what tests import and allocate. So those that fork most run first.
"""

from xdist.scheduler import LoadScopeScheduling


FORK_MOST = ("gates", "collectives", "book")
"""Folders of tests, in the order in which they run, before all others."""


def by_forks(file: str) -> int:
    """A key to sort by. ``file``: as ``tests/gates/test_gates.py``."""
    folder = file.split("/")[1]
    return FORK_MOST.index(folder) if folder in FORK_MOST else len(FORK_MOST)


class Together(LoadScopeScheduling):
    """Those of a file, of all exploits, and of one exercise's gates."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def together(nodeid: str) -> str:
    """The name of a test's group. ``nodeid``: as ``tests/gates/test_gates.py::test_gate[starter_earns_nothing-views.patchify]``."""
    file, _, name = nodeid.partition("::")
    if file.startswith("tests/exploits/"):
        return "tests/exploits"
    if file == "tests/gates/test_gates.py" and "[" in name:
        return f"{file}::{name.rpartition('-')[2].removesuffix(']')}"
    return file
