"""A process that others are forked from shares more with them, and holds what it held."""

import gc
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import NEEDED, in_a_fork
from tests.rooms import ROOT

HOLDS = """
import gc, re
from pathlib import Path
from tests.page_sharing import share_before_forking

def in_huge_pages():
    return int(re.search(r"AnonHugePages: +(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1])

held = [bytes([number % 256]) * 4096 for number in range(8192)]
before, frozen = in_huge_pages(), gc.get_freeze_count()
share_before_forking()
assert gc.get_freeze_count() > frozen + 1000
assert held == [bytes([number % 256]) * 4096 for number in range(8192)]
print(in_huge_pages() - before)
"""
GATHERS = Path("/sys/kernel/mm/transparent_hugepage/enabled").exists() and tuple(
    map(int, platform.release().split(".")[:2])
) >= (6, 1)


@pytest.mark.skipif(not GATHERS, reason="Linux gathers pages on request from 6.1 on")
def test_what_a_fork_server_holds_lies_in_huge_pages_and_out_of_the_garbage_collectors_sight():
    done = subprocess.run([sys.executable, "-c", HOLDS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 16 << 10, "KiB of the 32 MiB that it holds"


def test_the_tests_own_fork_server_has_imported_all_that_is_named():
    lacking, frozen = in_a_fork(_lacking_and_frozen, NEEDED)
    assert not lacking and frozen


def _lacking_and_frozen(names):
    return [name for name in names if name not in sys.modules], gc.get_freeze_count()
