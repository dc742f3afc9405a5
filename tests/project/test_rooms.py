"""What `make test CHAPTER=` and `ONLY=` choose, and what a run costs."""

from types import SimpleNamespace

import pytest

from tests.costs import CHAPTER_BUDGET_SECONDS, TOO_MUCH, Costs
from tests.rooms import ROOMS, TESTS, all_widgets, chapters_of, pages, room_of, shown_by
from tests.together import together


def item(path: str, **parameters) -> SimpleNamespace:
    return SimpleNamespace(path=TESTS / path, callspec=SimpleNamespace(params=parameters))


def reported(costs: Costs, cpu_s: float, *names: str) -> None:
    costs.pytest_runtest_logreport(SimpleNamespace(when="teardown", user_properties=[("cost", [names, cpu_s, 2 * cpu_s])]))


def test_every_folder_of_tests_is_in_one_room():
    folders = [folder for folders in ROOMS.values() for folder in folders]
    assert sorted(folders) == sorted(path.parent.name for path in TESTS.glob("*/__init__.py"))


def test_a_folder_without_a_room_is_said():
    with pytest.raises(LookupError, match="tests/attic belongs to no room"):
        room_of(item("attic/test_old.py"))


def test_every_chapter_with_exercises_has_a_page():
    assert list(pages()) == sorted(path.parent.name for path in (TESTS.parent / "exercises").glob("*/mistakes.py"))


@pytest.mark.parametrize(
    ("path", "parameters", "chapters"),
    [
        ("book/test_claims_views.py", {}, {"views"}),
        ("gates/test_cheats_at_streams.py", {"card": "H100"}, {"streams"}),
        ("gates/test_gates.py", {"bench": SimpleNamespace(name="kernels.squash")}, {"kernels"}),
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


def test_costs_are_summed_by_chapter():
    costs = Costs(keep=False)
    reported(costs, 1.5, "chapter views", "chapter streams")
    reported(costs, 2.0, "chapter views")
    assert costs.of["chapter views"] == {"tests": 2, "cpu_s": 3.5, "wall_s": 7.0}
    assert costs.of["chapter streams"]["tests"] == 1


def test_a_chapter_that_passes_its_budget_by_half_fails_the_run():
    costs, session = Costs(keep=False), SimpleNamespace(exitstatus=0)
    reported(costs, CHAPTER_BUDGET_SECONDS * TOO_MUCH, "chapter views")
    costs.pytest_sessionfinish(session)
    assert session.exitstatus == 0
    reported(costs, 1.0, "chapter views")
    costs.pytest_sessionfinish(session)
    assert session.exitstatus == 1 and "the tests of chapter views took 181 s" in costs.too_dear()[0]


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/unit/test_wire.py::test_a[1-2]", "tests/unit/test_wire.py"),
        ("tests/gates/test_gates.py::test_gate[starter_earns_nothing-views.patchify]", "tests/gates/test_gates.py::views.patchify"),
        ("tests/gates/test_gates.py::test_every_solution_cell_is_graded", "tests/gates/test_gates.py"),
        ("tests/exploits/test_memory_watch.py::test_b", "tests/exploits"),
    ],
)
def test_what_shares_a_fixture_runs_in_one_process(nodeid, group):
    assert together(nodeid) == group
