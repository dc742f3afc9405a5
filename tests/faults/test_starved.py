"""Grading with a full disk and with a locked gradebook."""

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import grade_to_the_end
from tests.grading.conftest import Group
from tests.grading.consistent import assert_consistent

NEEDS_ROOT = "mounting a small file system needs root: run this test as root, as CI does"
LOCKED_SECONDS = 8


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 6 MiB. Fails, and does not skip, where it cannot be mounted."""
    if os.getuid() != 0:
        pytest.fail(NEEDS_ROOT)
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.audit
def test_a_full_disk_loses_nothing_that_was_graded(small_disk):
    group = Group(small_disk)
    for number in range(3):
        group.hand_in(f"s{number}", group.answered())
    with _filled(small_disk, leave_bytes=80 * 1024):
        assert grade_to_the_end(group) == 1
        entries = list(group.ledger.entries(group.chapter))
        assert not all(entry.state == "graded" for entry in entries) or len(entries) < 3
    assert grade_to_the_end(group) == 0
    assert_consistent(group.root, group.chapter)
    assert group.scores("s2") == group.full_marks()


@contextmanager
def _filled(folder: Path, leave_bytes: int) -> Iterator[None]:
    filler = folder / "filler"
    filler.write_bytes(b"x" * (shutil.disk_usage(folder).free - leave_bytes))
    yield
    filler.unlink()


def test_a_gradebook_locked_for_a_while_is_waited_for(group):
    """Longer than the 5 s for which SQLite's Python module waits by itself."""
    group.hand_in("waits", group.answered())
    locked, released = threading.Event(), threading.Event()
    holder = threading.Thread(target=_hold, args=(group.root / "gradebook.db", locked, released))
    holder.start()
    assert locked.wait(60)
    assert grade_to_the_end(group) == 0
    assert released.is_set(), "it was graded while the gradebook was locked"
    holder.join()
    assert_consistent(group.root, group.chapter)


def _hold(gradebook: Path, locked: threading.Event, released: threading.Event) -> None:
    connection = sqlite3.connect(gradebook, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    locked.set()
    time.sleep(LOCKED_SECONDS)
    released.set()
    connection.execute("ROLLBACK")
    connection.close()
