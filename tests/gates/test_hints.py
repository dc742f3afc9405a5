"""Every graded function has two hints, misconceptions and sections to read again, and none of these gives its solution away."""

import re
from pathlib import Path

import pytest
from docutils.nodes import make_id

from autograder.misconceptions.sentences import MISCONCEPTIONS, read_misconceptions
from autograder.notebooks.cells import cell_of
from autograder.selfcheck.chapters import Chapter, anchor_of, chapters

PAGES = Path(__file__).parents[2] / "chapters"
CHAPTERS = {chapter.name: chapter for chapter in chapters()}
FUNCTIONS = [(chapter, function) for chapter in CHAPTERS for function in CHAPTERS[chapter].functions.values()]


def page(chapter: Chapter) -> str:
    return (PAGES / f"{chapter.said['page']}.md").read_text("utf-8")


def solution_lines(chapter: Chapter, function: str) -> set[str]:
    """What stands between the marks, line by line, without comments."""
    between = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell_of(chapter.notebook, function).source, re.S)
    lines = {line.split("  # ")[0].strip() for line in "\n".join(between).split("\n")}
    return {line for line in lines if re.search(r"\w", line) and not line.startswith("#")}


def misconceptions(chapter: Chapter, function: str) -> list:
    return list(read_misconceptions(chapter.folder / function / MISCONCEPTIONS).misconceptions)


def given_away(lines: set[str], hints: tuple[str, ...]) -> list[str]:
    said = re.sub(r"\s+", "", " ".join(hints)).replace("`", "")
    return [line for line in lines if re.sub(r"\s+", "", line) in said]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_hints_are_of_the_graded_functions_and_of_no_other(chapter):
    assert list(CHAPTERS[chapter].said["functions"]) == list(CHAPTERS[chapter].functions.values())


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_a_function_has_exactly_two_hints(chapter, function):
    hints = CHAPTERS[chapter].help(function).hints
    assert len(hints) == 2 and all(len(hint.split()) > 15 for hint in hints)


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_no_hint_holds_a_line_of_the_solution(chapter, function):
    lines = solution_lines(CHAPTERS[chapter], function)
    assert lines
    assert not given_away(lines, CHAPTERS[chapter].help(function).hints)


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_no_sentence_of_a_misconception_holds_a_line_of_the_solution(chapter, function):
    named = misconceptions(CHAPTERS[chapter], function)
    assert named
    assert not given_away(solution_lines(CHAPTERS[chapter], function), tuple(one.says for one in named))


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_the_hints_of_a_misconception_are_as_the_functions_own(chapter, function):
    lines = solution_lines(CHAPTERS[chapter], function)
    for one in misconceptions(CHAPTERS[chapter], function):
        assert not one.hints or all(len(hint.split()) > 15 for hint in one.hints), one.key
        assert not given_away(lines, one.hints), one.key


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_a_misconception_names_a_section_of_the_chapter(chapter, function):
    for one in misconceptions(CHAPTERS[chapter], function):
        assert re.search(rf"^##+ {re.escape(one.read)}$", page(CHAPTERS[chapter]), re.M), one.key


def test_a_hint_that_holds_a_line_is_found():
    assert given_away({"x, y = cuda.grid(2)", "return order"}, ("Write `x, y = cuda.grid( 2 )` first.",)) == [
        "x, y = cuda.grid(2)"
    ]


@pytest.mark.parametrize("chapter, function", FUNCTIONS)
def test_the_section_to_read_again_is_one_of_the_chapters(chapter, function):
    section = CHAPTERS[chapter].help(function).read
    assert re.search(rf"^##+ {re.escape(section)}$", page(CHAPTERS[chapter]), re.M)
    assert anchor_of(section) == make_id(section)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_title_is_that_of_the_page(chapter):
    assert f"\n# {CHAPTERS[chapter].title}\n" in page(CHAPTERS[chapter])


def test_a_section_leads_to_the_published_book_once_its_address_is_known(monkeypatch):
    monkeypatch.setattr("autograder.selfcheck.chapters._site", lambda: "https://example.org/course/")
    assert CHAPTERS["views"].where("When does `view` work?") == (
        "https://example.org/course/chapters/tensors/views.html#when-does-view-work"
    )
