"""nbgrader's exchange with courses, assignments and learners whose names hold brackets, spaces and letters of the world."""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.nbgrader.config import configure
from tests.pipeline.conftest import Course, share_one_kernel_server

COURSE, ASSIGNMENT = "Kurs [2026] für 张", "Blatt [1] ü 张"
LEARNERS = ["[x]", "x", "Zoë Müller", "张伟", "a+b@example.org"]
ANOTHER = "Blatt 1 ü 张"
"""What the assignment's name matches as a pattern."""


class ByExchange(Course):
    """One whose learners fetch and submit; ``call`` does what an instructor's command does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / COURSE)
        self.exchange = folder / "exchange [0]"
        self.exchange.mkdir(mode=0o777)
        self.exchange.chmod(0o777)
        (self.root / "source" / self.chapter).rename(self.root / "source" / ASSIGNMENT)
        shutil.rmtree(self.root / "release")
        shutil.copytree(self.root / "source" / ASSIGNMENT, self.root / "source" / ANOTHER)
        for assignment in (ASSIGNMENT, ANOTHER):
            assert self.call("generate_assignment", assignment=assignment, force=True, create=True)["success"]

    def notebook(self, kind: str) -> nbformat.NotebookNode:
        return nbformat.read(self.root / kind / ASSIGNMENT / "views.ipynb", as_version=4)

    def call(self, command: str, *arguments: str, course_id: str = COURSE, assignment: str = ASSIGNMENT, **settings):
        share_one_kernel_server()
        config = Config()
        configure(config)
        config.Exchange.root = str(self.exchange)
        course = CourseDirectory(root=str(self.root), course_id=course_id, config=config)
        return getattr(NbGraderAPI(course, config=config), command)(assignment, *arguments, **settings)

    def submit(self, learner: str, assignment: str = ASSIGNMENT, when: str = "2026-01-01 00:00:00 UTC") -> None:
        """As ``nbgrader submit`` does it."""
        folder = self.exchange / COURSE / "inbound" / f"{learner}+{assignment}+{when}+ab-_c"
        folder.mkdir()
        nbformat.write(self.answered(), folder / "views.ipynb")
        (folder / "timestamp.txt").write_text(when)
        (folder / "submission_secret.txt").write_text(f"secret of {learner}")

    def collected(self) -> list[str]:
        return sorted(path.parent.name for path in (self.root / "submitted").glob("*/*/") if path.name == ASSIGNMENT)


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> ByExchange:
    course = ByExchange(tmp_path_factory.mktemp("by exchange [b]"))
    for folder in ("inbound", "outbound"):
        (course.exchange / COURSE / folder).mkdir(parents=True)
    for learner in LEARNERS:
        course.submit(learner)
    course.submit("stranger", ANOTHER)
    return course


def test_names_by_which_a_learners_own_nbgrader_finds_nothing_are_refused_in_a_sentence(course):
    said = course.call("release_assignment")
    assert not said["success"] and f"the course's name `{COURSE}` for a pattern" in said["log"]


def test_of_other_names_what_is_released_is_there(course, tmp_path):
    course.call("release_assignment", course_id="Kurs 2026 für 张", assignment=ANOTHER)
    released = course.exchange / "Kurs 2026 für 张" / "outbound" / ANOTHER
    assert [path.name for path in released.glob("*.ipynb")] == ["views.ipynb"]


def test_collected_is_what_was_submitted_to_this_assignment_under_the_learners_own_names(course):
    said = course.call("collect")
    assert said["success"], said
    assert course.collected() == sorted(LEARNERS)


def test_feedback_is_released_to_each_of_them(course):
    course.call("collect")
    assert course.call("autograde", "[x]", create=True)["success"]
    assert course.call("generate_feedback", "[x]")["success"]
    said = course.call("release_feedback", "[x]")
    assert said["success"], said
    (page,) = (course.exchange / COURSE / "feedback").glob("*.html")
    assert "32 of 32 points" in page.read_text()


def test_a_class_is_graded_listed_and_told_that_no_feedback_is_there(course):
    course.call("collect")
    assert course.call("get_submitted_students") == set(LEARNERS)
    assert course.call("get_submitted_students", assignment="*") == set(LEARNERS)
    assert ASSIGNMENT in course.api().get_source_assignments()
    said = course.call("release_feedback", "x")
    assert said["success"] and "No feedback is there to release" in said["log"]


def test_a_submission_whose_time_is_none_stops_no_other(course):
    course.submit("odd", when="yesterday")
    said = course.call("collect")
    assert said["success"], said
    assert "odd+" in said["log"]
