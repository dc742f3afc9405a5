"""Fixtures that more than one folder of tests needs."""

import inspect
import os
import sys
import threading
import time

import pytest
import torch
import tqdm
from playwright.sync_api import sync_playwright

import gpulab.cuda
from autograder.cli.doctor import chromium
from autograder.runner.background_work import detector
from tests.costs import Costs, already_charged, seconds_of_browsers, was_spent_elsewhere
from tests.groups import GroupScheduling, group_of, in_order
from tests.page_sharing import share_before_forking
from tests.rooms import ROOMS, belongs_to, is_draft, is_draft_file, pages, room_of

NO_CHROMIUM = (
    "the browser tests need Chromium: install one of Debian's packages (apt-get install chromium-headless-shell, or chromium), "
    "or set CHROMIUM to the path of a Chromium or Chrome binary"
)


# A progress bar's monitor wakes up now and then, and a witness in this process would hear of it.
tqdm.tqdm.monitor_interval = 0


def pytest_addoption(parser):
    parser.addoption("--chapter", choices=sorted(pages()), help="only the tests of this chapter")
    parser.addoption("--room", choices=sorted(ROOMS), help="only the tests of this part of the machinery")
    parser.addoption("--audit", action="store_true", help="also what is marked `audit`: too slow for every change")


def pytest_configure(config):
    os.environ["OMP_NUM_THREADS"] = "1"  # as in a grading kernel; two pools would spin on the same cores
    torch.set_num_threads(1)
    config.pluginmanager.register(Costs())


@pytest.fixture(autouse=True)
def _threads_of_before_are_nobodys():
    """xdist's, which hears of the next test, and those of servers that tests share: not the learner's of this test.

    A witness would see them work, now and then, and every point would be lost.
    """
    detector._threads.clear()
    for ident in sys._current_frames().keys() - {thread.ident for thread in threading.enumerate()}:
        known = threading.Thread(name="xdist", daemon=True)
        known._ident = ident
        threading._active[ident] = known


def pytest_ignore_collect(collection_path, config):
    """Tests of drafts, and files of an audit, are not even imported; one that the command line names is, whatever this says."""
    if collection_path.name.startswith("audit_") and not config.option.audit:
        return True
    return is_draft_file(collection_path, config.option.chapter, config.option.room) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    chapter, room, audit = config.option.chapter, config.option.room, config.option.audit
    wanted = {
        item: (not chapter or belongs_to(item, chapter))
        and not is_draft(item, chapter)
        and (not room or room_of(item) == room)
        and (audit or not item.get_closest_marker("audit"))
        for item in items
    }
    config.hook.pytest_deselected(items=[item for item in items if not wanted[item]])
    groups = {name: place for place, name in enumerate(dict.fromkeys(group_of(item.nodeid) for item in items))}
    place = {name: (in_order(name), at) for name, at in groups.items()}
    items[:] = sorted((item for item in items if wanted[item]), key=lambda item: place[group_of(item.nodeid)])


def pytest_collection_finish(session):
    """From here on tests fork ranks, judges and whole processes from this one, which holds all that was collected."""
    if session.items and not session.config.option.collectonly:
        share_before_forking()


def pytest_make_parametrize_id(config, val, argname):
    """Bytes may hold the time at which they were made, as gzip's do: workers would not agree on the name of a test."""
    return argname if isinstance(val, bytes) else None


def pytest_xdist_make_scheduler(config, log):
    return GroupScheduling(config, log)


@pytest.fixture(autouse=True)
def _device_off_afterwards():
    """A notebook run in this process may switch a card on for good; the next test meets none."""
    yield
    gpulab.cuda.use("off", quiet=True)
    assert inspect.isbuiltin(time.monotonic), "this test left the clock of a switched off card behind"


@pytest.fixture(autouse=True)
def _pays_for_its_browser(request):
    """Whoever opens pages, not whoever is the last to run beside the browser."""
    if "browser" not in request.fixturenames:
        yield
        return
    before = seconds_of_browsers()
    yield
    was_spent_elsewhere(request.node, seconds_of_browsers() - before)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; a machine without one fails, it does not skip."""
    binary = chromium()
    if binary is None:
        pytest.fail(NO_CHROMIUM)
    playwright = sync_playwright().start()
    running = playwright.chromium.launch(
        executable_path=binary,
        args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
    )
    yield running
    with already_charged():
        running.close()
        playwright.stop()
