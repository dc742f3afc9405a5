"""Courses made of the book name what there is, and their hours are sums."""

from pathlib import Path

import pytest
import yaml

from autograder.instructor.effort import STEP, efforts, statements
from autograder.instructor.syllabus import Course, Unit, courses, planned
from gpulab.book.contents import Contents
from gpulab.book.length import lines, words

ROOT = Path(__file__).parents[2]
CONTENTS = Contents.read(ROOT)
COURSES = {course.title: course for course in courses()}
PLANNED = {course.title: course for course in planned()}
FOLDERS = sorted(path.parent for path in (ROOT / "exercises").glob("*/hints.yml"))


@pytest.mark.parametrize("title", ["A term of ten weeks", "A month before interviews"])
def test_a_long_course_reads_every_chapter_once(title):
    for course, chapters in (
        (PLANNED[title], CONTENTS.numbers),
        (COURSES[title], set(CONTENTS.numbers) - set(CONTENTS.draft_pages)),
    ):
        assert sorted(f"chapters/{page}" for unit in course.units for page in unit.read) == sorted(chapters)


def test_what_is_done_was_read_before():
    for course in COURSES.values():
        read: set[str] = set()
        for unit in course.units:
            read |= {Path(page).name for page in unit.read}
            assert {one.name.partition(".")[0] for one in unit.exercises} <= read, f"{course.title}, {unit.title}"


def test_ten_weeks_are_ten_and_a_workshop_fits_two_days():
    assert len(PLANNED["A term of ten weeks"].units) == 10
    assert PLANNED["A workshop of two days"].hours <= 14


def test_drafts_and_their_exercises_are_left_out_and_a_week_that_had_nothing_else():
    weeks = (
        Unit("1", "", ("tensors/views", "tensors/later"), ("views", "later.first")),
        Unit("2", "", ("tensors/later",)),
    )
    left = Course("Two weeks", "", weeks).without({"later": 2})
    assert left.units == (Unit("1", "", ("tensors/views",), ("views",), waits_for=(2,)),)
    assert left.waits_for == (2,) and left.hours == left.units[0].hours > 0


def test_what_is_no_exercise_is_refused():
    with pytest.raises(LookupError, match="'views.patch' is no exercise"):
        Unit("1", "", (), ("views.patch",)).hours


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_exercise_has_an_estimate_and_needs_a_section_of_its_page(folder):
    said = yaml.safe_load((folder / "hints.yml").read_text("utf-8"))
    headings = (ROOT / "chapters" / f"{said['page']}.md").read_text("utf-8")
    for one in efforts(folder):
        assert STEP <= one.minutes <= 240 and one.minutes % STEP == 0 and one.points > 0
        assert f"# {one.needs}\n" in headings, one.name


def test_a_docstring_is_no_statement():
    assert statements('def f(x):\n    """Said."""\n    y = x\n    return y\n') == 3


def test_hidden_code_takes_no_time_to_read(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "---\nhead: yes\n---\n# A title\n\n```{code-cell} ipython3\nx = 1\n\ny = 2\n```\n\n```{code-cell} ipython3\n:tags: [remove-input]\nz = 3\n```\nTwo words.\n"
    )
    assert (words(page), lines(page)) == (5, 2)
