"""Which tests run one after the other in the same process, so that what their fixtures start is started once."""

from xdist.scheduler import LoadScopeScheduling


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
