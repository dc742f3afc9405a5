"""What `make test CHAPTER=` and `ONLY=` choose, and what a run costs."""

import gzip
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import psutil
import pytest

from tests.budgets import (
    CHAPTER_BUDGET_SECONDS,
    ROOMS_BUDGET_SECONDS,
    TOO_MUCH,
    by_payer,
    too_dear,
)
from tests.closing import spent
from tests.costs import Costs, already_charged, seconds_of, seconds_of_browsers, was_spent_elsewhere, who_pays
from tests.groups import FORK_MOST, WAIT_MOST, by_group, group_of, in_order, next_for
from tests.outcomes import Test
from tests.rooms import ROOMS, TESTS, all_widgets, chapters_of, pages, room_of, shown_by
from tests.speed import QUIET_SECONDS, Slowness


def item(path: str, **parameters) -> SimpleNamespace:
    return SimpleNamespace(path=TESTS / path, callspec=SimpleNamespace(params=parameters))


def reported(costs: Costs, cpu_s: float, *names: str) -> None:
    costs.pytest_runtest_logreport(
        SimpleNamespace(when="teardown", user_properties=[("cost", [names, cpu_s, 2 * cpu_s])])
    )


def test_every_folder_of_tests_is_in_one_room():
    folders = [folder for folders in ROOMS.values() for folder in folders]
    assert sorted(folders) == sorted(path.parent.name for path in TESTS.glob("*/__init__.py"))


def test_a_folder_without_a_room_is_said():
    with pytest.raises(LookupError, match="tests/attic belongs to no room"):
        room_of(item("attic/test_old.py"))


def test_every_chapter_with_exercises_has_a_page():
    assert list(pages()) == sorted(path.parent.name for path in (TESTS.parent / "exercises").glob("*/corpus.txt"))


@pytest.mark.parametrize(
    ("path", "parameters", "chapters"),
    [
        ("book/test_claims_views.py", {}, {"views"}),
        ("gates/test_cheats_at_streams.py", {"card": "H100"}, {"streams"}),
        ("gates/test_gates.py", {"authored": SimpleNamespace(name="kernels.squash")}, {"kernels"}),
        ("book/test_pages.py", {"page": "device/execution.md"}, {"execution"}),
        ("site/test_every_page.py", {"page": "chapters/tensors/views.html"}, {"views"}),
        ("widgets/test_stride_explorer.py", {}, {"views"}),
        ("unit/test_wire.py", {}, set()),
    ],
)
def test_a_test_belongs_to_the_chapter_that_it_names(path, parameters, chapters):
    assert chapters_of(item(path, **parameters)) == chapters


def test_every_widget_has_tests_and_a_page():
    tested = {path.stem.removeprefix("test_") for path in (TESTS / "widgets").glob("test_*.py")}
    shown = set().union(*map(shown_by, (TESTS.parent / "chapters").rglob("*.md")))
    assert shown == all_widgets() <= tested


def test_costs_are_summed_by_chapter_the_dearest_first_and_what_chapters_share_is_split():
    of = by_payer(
        [
            (["chapter streams"], 1.0, 2.0),
            (["chapter views", "chapter streams"], 3.0, 6.0),
            (["chapter views"], 2.0, 4.0),
        ]
    )
    assert list(of.items()) == [
        ("chapter views", {"tests": 2, "cpu_s": 3.5, "wall_s": 7.0}),
        ("chapter streams", {"tests": 2, "cpu_s": 2.5, "wall_s": 5.0}),
    ]


def test_a_run_says_where_its_time_went():
    tests = {"tests/unit/test_a.py::test_b": Test("passed", cost=[["room unit"], 7.0, 12.0])}
    said = "\n".join(spent({"book": {"wall_s": 61.0, "cpu_s": 90.0}}, tests))
    for line in (
        "environment +0 +0 +not needed",
        "book +61 +90",
        "room unit +1 +12 +7",
        "12 +7.0  tests/unit/test_a.py::test_b",
    ):
        assert re.search(line, said), said


def test_where_time_went_is_a_table_of_forty_five_lines():
    names = [f"room {name}" for name in ROOMS] + [f"chapter {name}" for name in pages()]
    tests = {f"tests/{n}.py::test_{i}": Test("passed", cost=[[n], 1.0, 2.0]) for n in names for i in range(3)}
    assert len(spent({}, tests)) <= 45


@pytest.mark.parametrize(
    ("path", "parameters", "payers"),
    [
        ("gates/test_gates.py", {"authored": SimpleNamespace(name="kernels.squash")}, ["chapter kernels"]),
        ("pipeline/test_odd_learners.py", {"odd_class": "hierarchy"}, ["room grader"]),
        ("unit/test_wire.py", {}, ["room unit"]),
    ],
)
def test_a_chapter_pays_for_its_tests_and_the_grader_for_those_that_take_one_as_an_example(path, parameters, payers):
    assert who_pays(item(path, **parameters)) == payers


def test_a_chapter_that_takes_twice_its_budget_fails_the_run():
    costs, session = Costs(), SimpleNamespace(exitstatus=0)
    reported(costs, CHAPTER_BUDGET_SECONDS * TOO_MUCH, "chapter cheap")
    costs.pytest_sessionfinish(session)
    assert session.exitstatus == 0
    reported(costs, 1.0, "chapter cheap")
    costs.pytest_sessionfinish(session)
    assert session.exitstatus == 1


@pytest.mark.parametrize(("piece", "expected"), [(QUIET_SECONDS * 2, 0.5), (QUIET_SECONDS / 2, 1.0)])
def test_processor_time_is_that_of_a_quiet_machine(piece, expected):
    one = SimpleNamespace(path=TESTS / "unit/test_a.py", stash=pytest.Stash(), user_properties=[])
    costs = Costs(Slowness(lambda: piece))
    costs.pytest_runtest_setup(one)
    was_spent_elsewhere(one, 100.0)
    teardown = costs.pytest_runtest_teardown(one)
    next(teardown)
    with pytest.raises(StopIteration):
        teardown.send(None)
    ((_, (_, cpu_s, _)),) = one.user_properties
    assert cpu_s == pytest.approx(100.0 * expected, rel=0.05)


def test_all_rooms_together_have_a_budget():
    most = ROOMS_BUDGET_SECONDS * TOO_MUCH
    assert too_dear(by_payer([(["room unit"], most / 2, 1.0), (["room grader"], most / 2, 1.0)])) == []
    (sentence,) = too_dear(by_payer([(["room unit"], most, 1.0), (["room grader"], 1.0, 1.0)]))
    assert sentence == f"the tests of all rooms took {most + 1:.0f} s of processor time: {most:.0f} s are allowed"


def test_a_process_whose_work_was_charged_is_not_charged_again_when_it_is_waited_for():
    work = "import time\nwhile time.process_time() < 0.5: pass"
    paid = []
    for waiting in (nullcontext, already_charged):
        costs = Costs(Slowness(lambda: 0.0))
        one = SimpleNamespace(path=TESTS / "unit/test_a.py", stash=pytest.Stash(), user_properties=[])
        costs.pytest_runtest_setup(one)
        with waiting():
            subprocess.run([sys.executable, "-c", work], check=True)
        teardown = costs.pytest_runtest_teardown(one)
        next(teardown)
        with pytest.raises(StopIteration):
            next(teardown)
        paid.append(one.user_properties[0][1][1])
    assert paid[0] > 0.5 > paid[1]


def test_what_a_process_and_its_own_do_is_seen_until_it_is_waited_for():
    work = "import time\nwhile time.process_time() < 0.3: pass"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}]); input()"
    with subprocess.Popen([sys.executable, "-c", starts], stdin=subprocess.PIPE) as grader:
        one = psutil.Process(grader.pid)
        while seconds_of([one]) < 0.3:
            time.sleep(0.02)
    assert seconds_of([one]) == 0


def test_what_a_browser_does_is_seen_while_it_lives_and_after_its_page_is_closed(browser):
    before, page = seconds_of_browsers(), browser.new_page()
    page.evaluate("() => { let sum = 0; for (let i = 0; i < 3e8; i++) sum += i; return sum; }")
    page.close()
    assert seconds_of_browsers() > before + 0.05


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/unit/test_wire.py::test_a[1-2]", "tests/unit/test_wire.py"),
        (
            "tests/gates/test_gates.py::test_gate[starter_earns_nothing-views.patchify]",
            "tests/gates/test_gates.py::views.patchify",
        ),
        ("tests/gates/test_gates.py::test_every_solution_cell_is_graded", "tests/gates/test_gates.py"),
        ("tests/exploits/test_memory_watch.py::test_b", "tests/exploits"),
    ],
)
def test_what_shares_a_fixture_runs_in_one_process(nodeid, group):
    assert group_of(nodeid) == group


def test_of_what_computes_runs_first_what_forks_most():
    files = [
        "tests/unit/test_wire.py",
        "tests/book/test_claims_views.py",
        "tests/gates/test_gates.py",
        "tests/exploits",
    ]
    assert sorted(files, key=in_order) == [files[2], files[1], files[0], files[3]]
    assert all((TESTS / folder).is_dir() for folder in (*FORK_MOST, *WAIT_MOST))


def test_one_worker_begins_with_what_waits_and_the_others_with_what_computes():
    groups = ["tests/gates/test_gates.py", "tests/unit/test_wire.py", "tests/exploits", "tests/site/test_labels.py"]
    assert (next_for(True, groups), next_for(False, groups)) == (groups[2], groups[0])
    assert (next_for(True, groups[:2]), next_for(False, groups[2:])) == (groups[0], groups[2])


def test_what_long_groups_took_is_kept_the_longest_first():
    of = {"tests/exploits/test_a.py::test_b": [[], 1.0, 4.0], "tests/exploits/test_c.py::test_d": [[], 1.0, 4.0]}
    of |= {"tests/unit/test_a.py::test_b": [[], 9.0, 9.0], "tests/unit/test_c.py::test_d": [[], 1.0, 1.0]}
    assert list(by_group(of).items()) == [
        ("tests/unit/test_a.py", {"cpu_s": 9.0, "wall_s": 9.0}),
        ("tests/exploits", {"cpu_s": 2.0, "wall_s": 8.0}),
    ]


@pytest.mark.parametrize("packed", [gzip.compress(b"", mtime=time.time()), b"plain"])
def test_a_tests_name_holds_no_bytes(packed, request):
    """Those of gzip hold the time, and two workers that collect at different seconds would run nothing."""
    assert request.node.name in (
        "test_a_tests_name_holds_no_bytes[packed0]",
        "test_a_tests_name_holds_no_bytes[packed1]",
    )
