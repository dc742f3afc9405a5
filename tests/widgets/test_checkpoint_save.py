"""A checkpoint's save: the browser's files are those that a killed process leaves, and its power cuts leave all that may be left."""

import itertools
import os
import random
import signal
from pathlib import Path

import pytest

from gpulab.widgets import CheckpointSave
from gpulab.widgets.checkpoint_save import ACCIDENTS, PROTOCOLS
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, options_on_a_page, still_of

FINAL, TEMPORARY = "state.pt", "state.pt.tmp"
PIECE = {"old": b"o" * 100, "new": b"n" * 100}


javascript = functions_of("checkpoint_save/model.js")


def make(call: str, file: str) -> None:
    """One system call, for real, in the working directory."""
    match call:
        case "truncate" | "create":
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        case "write":
            handle = os.open(file, os.O_WRONLY | os.O_APPEND)
            os.write(handle, PIECE["new"])
            os.close(handle)
        case "unlink":
            os.unlink(file)
        case "rename":
            os.replace(TEMPORARY, FINAL)
        case "fsync":
            handle = os.open("." if file == "folder" else file, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def killed_after(calls, moment, folder: Path) -> dict:
    """What a process leaves that is killed after so many of the calls: chunks and version of each file."""
    if (pid := os.fork()) == 0:
        os.chdir(folder)
        for call in calls[:moment]:
            make(*call)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    return {path.name: content(path.read_bytes()) for path in folder.iterdir()}


def content(data: bytes) -> dict:
    assert set(data) in (set(), {ord("o")}, {ord("n")})
    return {"version": "old" if b"o" in data else "new", "chunks": len(data) // 100}


def test_a_killed_process_leaves_what_the_browser_says(javascript, tmp_path):
    rng = random.Random(0)
    for number in range(40):
        protocol, chunks = rng.choice(list(PROTOCOLS)), rng.randint(1, 6)
        calls = javascript("m.calls(...given)", [protocol, chunks])
        moment = rng.randint(0, len(calls))
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FINAL).write_bytes(PIECE["old"] * chunks)
        left = killed_after(calls, moment, folder)
        assert left == javascript("m.filesAfter(...given)", [protocol, chunks, moment]), (protocol, chunks, moment)
        (result,) = javascript("m.outcomes(...given)", [protocol, "killed", chunks, moment])
        whole = FINAL in left and left[FINAL]["chunks"] == chunks
        assert (result in ("old", "new")) == whole and (result == "missing") == (FINAL not in left)


def survives(calls, chunks) -> set[str]:
    """All that may lie under the final name after a power cut: inodes, names in a journal, and chunks, each written or not."""
    synced = {file for call, file in calls if call == "fsync"}
    names = [call for call in calls if call[0] in ("truncate", "create", "unlink", "rename")]
    writes = sum(call == "write" for call, _ in calls)
    least = len(names) if "folder" in synced else 0
    results = set()
    for kept in range(least, len(names) + 1):
        for there in itertools.product([True] if TEMPORARY in synced else [False, True], repeat=writes):
            results.add(left_under_the_name([call for call, _ in names[:kept]], there, chunks))
    return results


def left_under_the_name(names, there, chunks) -> str:
    old, new = ["old"] * chunks, ["new" if one else None for one in there] + [None] * (chunks - len(there))
    if "truncate" in names:
        file = new
    elif "rename" in names:
        file = new
    elif "unlink" in names:
        return "missing"
    else:
        return "old"
    kinds = set(file)
    return kinds.pop() if len(kinds) == 1 and None not in kinds and file != old else "torn"


def test_a_power_cut_leaves_one_of_what_the_browser_says(javascript):
    rng = random.Random(1)
    for _ in range(60):
        protocol, chunks = rng.choice([name for name in PROTOCOLS if name != "overwrite"]), rng.randint(1, 5)
        calls = javascript("m.calls(...given)", [protocol, chunks])
        moment = rng.randint(0, len(calls))
        said = javascript("m.outcomes(...given)", [protocol, "power", chunks, moment])
        assert set(said) == survives([tuple(call) for call in calls[:moment]], chunks), (protocol, chunks, moment)


def test_a_power_cut_while_the_old_file_is_written_over_may_leave_anything_but_no_file(javascript):
    assert javascript("m.outcomes(...given)", ["overwrite", "power", 3, 0]) == ["old"]
    assert javascript("m.outcomes(...given)", ["overwrite", "power", 3, 2]) == ["old", "torn"]
    assert javascript("m.outcomes(...given)", ["overwrite", "power", 3, 4]) == ["new", "old", "torn"]


@pytest.mark.parametrize(
    "protocol, accident, dangerous",
    [
        ("overwrite", "killed", "3 are"),
        ("overwrite", "power", "4 are"),
        ("delete", "killed", "1 is"),
        ("rename", "killed", "none are"),
        ("rename", "power", "1 is"),
        ("fsync", "killed", "none are"),
        ("fsync", "power", "none are"),
    ],
)
def test_each_way_to_save_is_told_with_its_dangerous_moments(mount, protocol, accident, dangerous):
    page = mount(CheckpointSave())
    page.get_by_label("save", exact=True).select_option(protocol)
    page.get_by_label("accident").select_option(accident)
    assert f"moments {dangerous} dangerous" in page.locator(".count").inner_text()
    assert page.locator(".stop.bad").count() == (0 if "none" in dangerous else int(dangerous[0]))


def test_a_moment_is_chosen_by_button_and_by_keyboard(mount):
    page = mount(CheckpointSave(moment=0))
    assert "A load finds the old checkpoint, whole" in page.locator(".verdict").inner_text()
    page.get_by_role("button", name="Stop after 2 of 4 calls: not safe").press("Enter")
    assert page.evaluate("model.get('moment')") == 2 and "The run is lost" in page.locator(".verdict").inner_text()
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    page.get_by_role("slider", name="calls made").press("End")
    assert "the new checkpoint, whole" in page.locator(".verdict").inner_text()


def test_a_shorter_save_has_no_later_moments(mount):
    page = mount(CheckpointSave("overwrite"))
    page.get_by_label("save", exact=True).select_option("delete")
    page.get_by_role("slider", name="calls made").press("End")
    page.get_by_label("save", exact=True).select_option("overwrite")
    assert page.evaluate("model.get('moment')") == 4


def test_a_page_offers_the_ways_in_their_order():
    assert options_on_a_page(CheckpointSave(), "save") == list(PROTOCOLS.values())
    assert options_on_a_page(CheckpointSave(), "accident") == list(ACCIDENTS.values())


def test_it_is_drawn_without_a_script():
    html = still_of(CheckpointSave())
    assert html.count('class="chunk ') == 3 and "The run is lost" in html


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(CheckpointSave("delete", "power", moment=3), width=width, scheme=scheme), width)


def test_what_is_not_there_is_refused():
    for wrong in ({"protocol": "hope"}, {"accident": "fire"}, {"chunks": 7}, {"chunks": 2, "moment": 4}):
        with pytest.raises(ValueError):
            CheckpointSave(**wrong)
    assert set(ACCIDENTS) == {"killed", "power"}
