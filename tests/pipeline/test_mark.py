"""``python -m autograder mark``, the self-check of a learner: the command, its page, its refusals."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.subset import write_subset
from autograder.core.layout import ROOT
from autograder.core.report import with_code
from autograder.misconceptions.corpus import CORPUS, attempts_at
from autograder.misconceptions.sentences import MISCONCEPTIONS, read_misconceptions
from autograder.sandbox import sandbox
from autograder.selfcheck import command
from autograder.selfcheck.chapters import anchor_of, chapters
from autograder.selfcheck.command import main
from autograder.selfcheck.mark import mark
from tests.screens import px_beyond

COPIES = (
    "def patchify(images, patch):\n"
    "    n, c, h, w = images.shape\n"
    "    if patch < 1 or h % patch or w % patch:\n"
    "        raise ValueError('<script>alert(1)</script>')\n"
    "    return images.view(n, c, h // patch, patch, w // patch, patch).permute(0, 2, 4, 1, 3, 5).clone()"
)
VIEWS = ROOT / "exercises" / "views"
RAISES = "def compact(batch):\n    raise RuntimeError('<script>alert(2)</script>')"


class Tried:
    """One run of the command in a folder with nothing but a notebook."""

    def __init__(self, notebook: nbformat.NotebookNode, folder: Path, name: str = "mine.ipynb", *options: str) -> None:
        self.path = folder / name
        nbformat.write(notebook, self.path)
        self.before = self.path.read_bytes()
        run = [sys.executable, "-m", "autograder", "mark", name, "--no-browser", *options]
        self.done = subprocess.run(run, cwd=folder, capture_output=True, text=True, env=os.environ | {"COLUMNS": "100"})
        assert self.done.returncode == 0, self.done.stderr
        self.page = self.path.with_name(f"{self.path.stem}-marked.html").read_text("utf-8")


@pytest.fixture(scope="module")
def tried(course, tmp_path_factory) -> Tried:
    """One function that copies, one that raises, one untouched, one right."""
    starter = next(cell.source for cell in course.notebook("release").cells if _grade_id(cell) == "to_tokens")
    return Tried(course.answered(patchify=COPIES, compact=RAISES, to_tokens=starter), tmp_path_factory.mktemp("alone"))


def _grade_id(cell: nbformat.NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def section(page: str, function: str) -> str:
    return page.split(f'id="{function}"')[1].split("</section>")[0]


def test_the_terminal_names_points_reasons_and_the_page(tried):
    said = tried.done.stdout
    assert "patchify            3 of 8" in said and "predict_view        8 of 8" in said
    assert "11 of 32 points" in said and "were copied" in said and "not written yet" in said
    assert "mine-marked.html" in said


def test_the_notebook_is_left_as_it_was_and_only_the_page_is_written(tried):
    assert tried.path.read_bytes() == tried.before
    assert sorted(path.name for path in tried.path.parent.iterdir()) == ["mine-marked.html", "mine.ipynb"]


def test_each_lost_criterion_has_its_points_and_its_sentence(tried):
    shown = section(tried.page, "patchify")
    assert "0 / 3" in shown and "2 / 2" in shown and "were copied" in shown


@pytest.mark.parametrize(
    ("function", "key"),
    [("predict_view", "remainder_ignored"), ("compact", "contiguous_is_compact")],
    ids=["asked", "played"],
)
def test_an_idea_that_is_certain_is_told_in_the_terminal_and_on_the_page(course, tmp_path, function, key):
    form = next(one for one in attempts_at(VIEWS / CORPUS, function) if one.says == key)
    said = next(one for one in read_misconceptions(VIEWS / function / MISCONCEPTIONS).misconceptions if one.key == key)
    tried = Tried(course.answered(**{function: form.source}), tmp_path)
    shown = section(tried.page, function)
    assert with_code(said.says) in shown and anchor_of(said.read) in shown.split("Read again")[1].split("</p>")[0]
    assert said.says.split(".")[0] in " ".join(tried.done.stdout.split())


def test_the_section_to_read_again_is_named(tried):
    assert "Read again" in section(tried.page, "patchify") and "When does <code>view</code> work?" in section(
        tried.page, "patchify"
    )


def test_the_second_hint_lies_within_the_first(tried, browser):
    context = browser.new_context()
    shown = context.new_page()
    shown.set_content(tried.page)
    hints = shown.locator("#patchify summary")
    assert [hint.is_visible() for hint in hints.all()] == [True, False]
    hints.first.click()
    assert [hint.is_visible() for hint in hints.all()] == [True, True]
    hints.last.click()
    assert shown.get_by_text("Split the height and the width").is_visible()
    context.close()


def test_full_marks_show_the_reference_solution_and_lost_points_do_not(tried):
    assert "evenly_spaced_runs" in section(tried.page, "predict_view") and "<details>" not in section(
        tried.page, "predict_view"
    )
    assert "return grid.permute(" not in tried.page and "after full marks" in section(tried.page, "patchify")


def test_what_a_learner_wrote_is_text(tried):
    assert "&lt;script&gt;alert(2)" in tried.page and "<script" not in tried.page
    assert "default-src 'none'" in tried.page


def test_hidden_tests_are_not_shown(tried):
    assert "autograder.grade" not in tried.page and "HIDDEN" not in tried.page


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(tried, browser, width):
    beyond = px_beyond(browser, tried.page, width)
    assert beyond <= 0, f"{beyond} px lie beyond a screen of {width}"


def test_no_word_is_broken_on_a_phone(tried, browser):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    shown = context.new_page()
    shown.set_content(tried.page)
    lines = shown.evaluate(LINES_OF_A_WORD, "NotImplementedError")
    context.close()
    assert lines and set(lines) == {1}


LINES_OF_A_WORD = """word => [...document.querySelectorAll('.verdict td, p.verdict')].flatMap(cell => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let text; (text = walk.nextNode());) {
    const start = text.data.indexOf(word);
    if (start < 0) continue;
    const range = document.createRange();
    range.setStart(text, start), range.setEnd(text, start + word.length);
    found.push(range.getClientRects().length);
  }
  return found;
})"""


@pytest.mark.audit
def test_of_an_assignment_with_some_exercises_those_are_marked_and_the_others_named(course, tmp_path):
    write_subset(ROOT / "exercises", ["views.patchify", "views.compact"], "week2", tmp_path)
    notebook = nbformat.read(tmp_path / "source" / "week2" / "week2.ipynb", as_version=4)
    said = Tried(notebook, tmp_path).done.stdout
    assert "16 of 16 points" in said and "Missing" not in said and "to_tokens  " not in said
    assert "Not in this notebook, and not marked: `predict_view`, `to_tokens`." in " ".join(said.split())


def test_solutions_come_on_demand_and_missing_cells_are_named(course, tmp_path):
    notebook = course.notebook("release")
    notebook.cells = [cell for cell in notebook.cells if _grade_id(cell) not in ("patchify", "compact_hidden")]
    tried = Tried(notebook, tmp_path, "execution.ipynb", "--solution")
    assert "return grid.permute(" in tried.page
    assert "holds the exercises of `views`" in tried.done.stdout
    assert "Missing from the notebook: `patchify`, `compact_hidden`" in tried.done.stdout
    assert "defines no `patchify`" in tried.done.stdout


def test_the_files_beside_it_and_odd_forms_are_taken_as_grading_takes_them(course, tmp_path):
    notebook = course.answered(patchify="from my_patches import patchify")
    (tmp_path / "my_patches.py").write_text(course.solution("patchify"))
    for cell in notebook.cells:
        cell.metadata = {}
    path = tmp_path / "mine (1).ipynb"
    path.write_bytes(nbformat.writes(notebook).encode("utf-16"))
    marked = mark(path, sandboxed=not sandbox.problem())
    assert marked.score == marked.max_score
    assert "it was read as UTF-16" in " ".join(marked.notes) and "known by what they hold" in " ".join(marked.notes)


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("views.ipynb", None, "There is no file"),
        ("folder.ipynb", "folder", "is a folder: name the notebook in it"),
        ("views.py", b"import torch\n", "the exercises of no chapter known here"),
        ("empty.ipynb", b"", "is not a Jupyter notebook"),
        (
            "other.ipynb",
            nbformat.writes(nbformat.v4.new_notebook()).encode(),
            "the exercises of no chapter known here (autograd, ",
        ),
    ],
)
def test_what_cannot_be_marked_is_refused_in_a_sentence(tmp_path, capsys, name, content, says):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    assert main([str(path), "--no-browser"]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.glob("*-marked.html"))


def test_without_bubblewrap_it_says_what_to_install_and_how_to_do_without(course, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "problem", lambda: "bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    nbformat.write(course.notebook("release"), tmp_path / "views.ipynb")
    assert main([str(tmp_path / "views.ipynb"), "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "apt-get install bubblewrap" in said and "--no-sandbox" in said


def test_where_the_page_cannot_be_written_another_place_is_asked_for_before_anything_runs(course, tmp_path, capsys):
    nbformat.write(course.notebook("release"), tmp_path / "views.ipynb")
    assert main([str(tmp_path / "views.ipynb"), "--no-browser", "--page", str(tmp_path / "no" / "such.html")]) == 2
    said = capsys.readouterr()
    assert "--page" in said.err and "runs from the first cell" not in said.out


@pytest.mark.parametrize(
    "versions, says",
    [
        (
            {"gpulab": "0.0.9", "gpulab-mark": "0.1.0"},
            "This is gpulab-mark 0.1.0, and gpulab is 0.0.9: pip install both wheels",
        ),
        ({"gpulab": "0.1.0", "gpulab-mark": "0.1.0"}, ""),
    ],
)
def test_another_gpulab_is_refused(monkeypatch, versions, says):
    monkeypatch.setattr(command, "is_packed", lambda: True)
    monkeypatch.setattr(command, "_version", versions.get)
    assert command.gpulab_problem().startswith(says) and bool(says) == bool(command.gpulab_problem())


def test_a_machine_without_gpulab_is_told_to_install_it(monkeypatch):
    monkeypatch.setattr(command.util, "find_spec", lambda name: None)
    assert "pip install the gpulab wheel" in command.gpulab_problem()


def test_every_chapter_with_exercises_can_be_marked():
    exercises = Path(__file__).parents[2] / "exercises"
    assert [chapter.name for chapter in chapters()] == sorted(
        path.parent.name for path in exercises.glob("*/corpus.txt")
    )


def test_an_interrupt_is_a_sentence(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_mark", interrupted)
    assert main(["views.ipynb"]) == 2
    assert capsys.readouterr().err == "Nothing was marked. You interrupted it.\n"
