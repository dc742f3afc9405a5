"""Notebooks as learners really hand them in: right answers in an odd form, each after a public report. All of them earn everything."""

import copy
import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FORMS: dict[str, Callable[[Path, NotebookNode], None]] = {}
"""By name: writes into a learner's folder what was made of the answered notebook."""


def form(write: Callable[[Path, NotebookNode], None]) -> Callable[[Path, NotebookNode], None]:
    FORMS[write.__name__] = write
    return write


def changed(change: Callable[[NotebookNode], None]) -> Callable[[NotebookNode], None]:
    """A form in which the notebook's cells are other ones, and the file is an ordinary one."""

    def write(folder: Path, notebook: NotebookNode) -> None:
        change(notebook)
        (folder / "views.ipynb").write_text(json.dumps(notebook))

    FORMS[change.__name__] = write
    return change


def grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def cell(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(one for one in notebook.cells if grade_id(one) == name)


def _without_metadata(cells: list[NotebookNode]) -> None:
    for one in cells:
        one.metadata = NotebookNode()


@changed
def no_metadata(notebook):
    _without_metadata(notebook.cells)


@changed
def no_metadata_and_no_ids(notebook):
    _without_metadata(notebook.cells)
    for one in notebook.cells:
        one.pop("id")
    notebook.nbformat_minor = 4


@changed
def no_metadata_and_other_ids(notebook):
    _without_metadata(notebook.cells)
    for number, one in enumerate(notebook.cells):
        one["id"] = f"{number:08x}"


@changed
def no_metadata_in_one_exercise(notebook):
    _without_metadata([one for one in notebook.cells if grade_id(one).startswith("compact")])


@changed
def no_metadata_and_formatted_anew(notebook):
    for one in notebook.cells:
        one.pop("id")
        if one.cell_type == "code":
            one.source = one.source.replace("    ", "  ") + "\n"
    _without_metadata(notebook.cells)


@changed
def grade_ids_of_ones_own(notebook):
    for number, one in enumerate(notebook.cells):
        one["id"] = f"{number:08x}"
        if grade_id(one):
            one.metadata["nbgrader"]["grade_id"] = f"cell-{number:x}"


@changed
def answer_retyped_into_a_new_cell(notebook):
    at = notebook.cells.index(cell(notebook, "compact"))
    notebook.cells[at] = new_code_cell(notebook.cells[at].source)


@changed
def answer_retyped_and_its_check_and_test_deleted(notebook):
    answer = cell(notebook, "compact")
    notebook.cells = [one for one in notebook.cells if not grade_id(one).startswith("compact")]
    notebook.cells.append(new_code_cell(answer.source))


@changed
def answer_deleted_and_retyped_below_everything(notebook):
    answer = cell(notebook, "patchify")
    notebook.cells.remove(answer)
    notebook.cells.append(new_code_cell(answer.source))


@changed
def starters_left_and_all_answers_in_one_cell_at_the_end(notebook):
    answers = []
    for one in notebook.cells:
        if one.metadata.get("nbgrader", {}).get("solution"):
            answers.append(one.source)
            one.source = STARTER.format(name=grade_id(one))
    notebook.cells.append(new_code_cell("\n\n\n".join(answers)))


@changed
def starters_left_and_all_answers_in_one_cell_at_the_top(notebook):
    starters_left_and_all_answers_in_one_cell_at_the_end(notebook)
    notebook.cells.insert(2, notebook.cells.pop())


@changed
def starters_left_and_each_answer_below_its_tests(notebook):
    for one in [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]:
        test = notebook.cells.index(cell(notebook, f"{grade_id(one)}_hidden"))
        notebook.cells.insert(test + 1, new_code_cell(one.source))
        one.source = STARTER.format(name=grade_id(one))


@changed
def tests_above_their_answers(notebook):
    tests = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("points")]
    others = [one for one in notebook.cells if one not in tests]
    notebook.cells = [*others[:2], *tests, *others[2:]]


@changed
def all_checks_and_tests_first(notebook):
    locked = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("locked")]
    notebook.cells = locked + [one for one in notebook.cells if one not in locked]


@changed
def a_helper_below_the_tests(notebook):
    answer = cell(notebook, "patchify")
    body = answer.source.replace("def patchify(", "def _patches(")
    answer.source = "def patchify(images, patch):\n    return _patches(images, patch)"
    notebook.cells.append(new_code_cell(body))


@changed
def only_the_answers(notebook):
    notebook.cells = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]
    _without_metadata(notebook.cells)


@changed
def exercises_in_another_order(notebook):
    at = notebook.cells.index(cell(notebook, "compact")) - 1
    notebook.cells = [*notebook.cells[:2], *notebook.cells[at:], *notebook.cells[2:at]]


@changed
def an_answer_as_a_raw_cell(notebook):
    cell(notebook, "patchify").cell_type = "raw"


@changed
def line_ends_of_windows(notebook):
    for one in notebook.cells:
        one.source = one.source.replace("\n", "\r\n")


@changed
def sources_as_lists_of_lines(notebook):
    for one in notebook.cells:
        one["source"] = one.source.splitlines(keepends=True)


@changed
def a_pasted_picture(notebook):
    picture = new_markdown_cell("![x](attachment:x.png)", attachments={"x.png": {"image/png": PIXEL}})
    notebook.cells.insert(1, picture)


@changed
def a_picture_that_is_not_there(notebook):
    notebook.cells.insert(1, new_markdown_cell("![x](attachment:y.png)"))


@changed
def half_a_surrogate_pair(notebook):
    notebook.cells.insert(1, new_markdown_cell("\ud83d"))


@form
def types_and_sources_alone(folder, notebook):
    cells = [{"cell_type": one.cell_type, "source": one.source} for one in notebook.cells]
    (folder / "views.ipynb").write_text(json.dumps({"cells": cells}))


@form
def nbformat_3(folder, notebook):
    cells = [
        {
            "cell_type": one.cell_type,
            "metadata": one.metadata,
            ("input" if one.cell_type == "code" else "source"): one.source,
        }
        for one in notebook.cells
    ]
    (folder / "views.ipynb").write_text(
        json.dumps({"nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]})
    )


@form
def nbformat_99(folder, notebook):
    (folder / "views.ipynb").write_text(json.dumps(notebook | {"nbformat": 99}))


@form
def utf_8_with_a_mark(folder, notebook):
    (folder / "views.ipynb").write_bytes(_with_an_umlaut(notebook).encode("utf-8-sig"))


@form
def utf_16(folder, notebook):
    (folder / "views.ipynb").write_bytes(_with_an_umlaut(notebook).encode("utf-16"))


@form
def utf_16_without_a_mark(folder, notebook):
    (folder / "views.ipynb").write_bytes(_with_an_umlaut(notebook).encode("utf-16-le"))


@form
def windows_1252(folder, notebook):
    (folder / "views.ipynb").write_bytes(_with_an_umlaut(notebook).encode("cp1252"))


@form
def copied_by_a_browser(folder, notebook):
    nbformat.write(notebook, folder / "views (1).ipynb")


@form
def in_capitals(folder, notebook):
    nbformat.write(notebook, folder / "Views.ipynb")


@form
def with_a_second_suffix(folder, notebook):
    (folder / "views.ipynb.txt").write_text(json.dumps(notebook))


@form
def packed(folder, notebook):
    answer = cell(notebook, "patchify")
    with zipfile.ZipFile(folder / "homework.zip", "w") as archive:
        archive.writestr("homework/my_patches.py", answer.source)
        archive.writestr("__MACOSX/homework/._views.ipynb", b"\0\5\26\7")
        answer.source = "from my_patches import patchify"
        archive.writestr("homework/views.ipynb", json.dumps(notebook))


@form
def packed_by_tar(folder, notebook):
    answer = cell(notebook, "patchify")
    (folder / "homework").mkdir()
    (folder / "homework" / "my_patches.py").write_text(answer.source)
    answer.source = "from my_patches import patchify"
    nbformat.write(notebook, folder / "homework" / "views.ipynb")
    with tarfile.open(folder / "homework.tgz", "w:gz") as archive:
        archive.add(folder / "homework", "./homework")
    shutil.rmtree(folder / "homework")


@form
def packed_twice(folder, notebook):
    packed(folder, notebook)
    with zipfile.ZipFile(folder / "hand-in.zip", "w") as archive:
        archive.write(folder / "homework.zip", "week 1/homework.zip")
    (folder / "homework.zip").unlink()


@form
def renamed_by_canvas(folder, notebook):
    nbformat.write(notebook, folder / "lovelaceada_12345_678910_views.ipynb")


@form
def as_json(folder, notebook):
    (folder / "views.json").write_text(json.dumps(notebook))


@form
def in_a_folder_in_a_folder(folder, notebook):
    (folder / "week 1" / "views").mkdir(parents=True)
    helper = cell(notebook, "patchify")
    (folder / "week 1" / "views" / "my_patches.py").write_text(helper.source)
    helper.source = "from my_patches import patchify"
    nbformat.write(notebook, folder / "week 1" / "views" / "views.ipynb")


@form
def beside_an_export_and_a_checkpoint(folder, notebook):
    (folder / "views.html").write_text("<html><body>def patchify(images, patch): ...</body></html>")
    (folder / ".ipynb_checkpoints").mkdir()
    old = copy.deepcopy(notebook)
    cell(old, "patchify").source = "def patchify(images, patch):\n    return images.clone()"
    nbformat.write(old, folder / ".ipynb_checkpoints" / "views-checkpoint.ipynb")
    nbformat.write(notebook, folder / "my views.ipynb")


@form
def beside_the_untouched_release(folder, notebook):
    nbformat.write(notebook, folder / "views-done.ipynb")
    for one in notebook.cells:
        if one.metadata.get("nbgrader", {}).get("solution"):
            one.source = STARTER.format(name=grade_id(one))
    nbformat.write(notebook, folder / "views.ipynb")


@form
def beside_what_is_no_notebook(folder, notebook):
    (folder / "views.ipynb").write_bytes(b"%PDF-1.7")
    nbformat.write(notebook, folder / "views-1.ipynb")


@form
def a_script_in_the_percent_format(folder, notebook):
    lines = []
    for one in notebook.cells:
        if one.cell_type == "markdown":
            lines += ["# %% [markdown]", re.sub(r"^", "# ", one.source, flags=re.MULTILINE), ""]
        else:
            lines += ["# %%", one.source, ""]
    (folder / "views.py").write_text("\n".join(lines))


@form
def a_script_of_nbconvert(folder, notebook):
    lines = ["#!/usr/bin/env python", "# coding: utf-8", ""]
    for one in notebook.cells:
        lines += (
            ["# " + one.source.replace("\n", "\n# ")]
            if one.cell_type == "markdown"
            else ["# In[ ]:", "", one.source, ""]
        )
    (folder / "views.py").write_text("\n".join(lines))


@form
def a_script_without_marks(folder, notebook):
    code = [
        one.source for one in notebook.cells if one.cell_type == "code" and not grade_id(one).endswith(("seen", "try"))
    ]
    (folder / "solution.py").write_text("\n\n".join(code))


STARTER = 'def {name}(*given):\n    """What it does."""\n    # YOUR CODE HERE\n    raise NotImplementedError("write your code")'
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def _with_an_umlaut(notebook: NotebookNode) -> str:
    notebook.cells.insert(1, new_markdown_cell("Grüße"))
    return json.dumps(notebook, ensure_ascii=False)


@changed
def everything_in_one_cell(notebook):
    """As Colab's download of a script, or cells that were merged one after the other."""
    code = [one.source for one in notebook.cells if one.cell_type == "code"]
    notebook.cells = [new_code_cell("\n\n".join(code))]


@changed
def an_import_added_to_the_setup(notebook):
    cell(notebook, "setup").source += "\nimport itertools\nTWO = len(list(itertools.repeat(torch, 2)))"
    answer = cell(notebook, "patchify")
    answer.source = answer.source.replace("):\n", "):\n    assert TWO == 2 and itertools\n", 1)


@changed
def an_answer_typed_into_the_hidden_tests(notebook):
    answer = cell(notebook, "patchify")
    hidden = cell(notebook, "patchify_hidden")
    hidden.source = f"{hidden.source}\n{answer.source}"
    answer.source = STARTER.format(name="patchify")


@changed
def an_answer_above_the_tests_and_its_name_bound_below(notebook):
    answer = cell(notebook, "patchify")
    notebook.cells.insert(notebook.cells.index(answer) + 1, new_code_cell(answer.source))
    answer.source = STARTER.format(name="patchify")
    notebook.cells.append(
        new_code_cell("results = {}\nfor patchify in range(3): results[patchify] = 0\ncompact.calls = 0")
    )


@changed
def an_old_attempt_put_aside_as_text(notebook):
    answer = cell(notebook, "patchify")
    notebook.cells.insert(notebook.cells.index(answer) + 1, new_code_cell(answer.source))
    answer.source, answer.cell_type = "def patchify(images, patch):\n    return images.clone()", "raw"


@changed
def an_answer_in_markdown_with_fences(notebook):
    answer = cell(notebook, "patchify")
    answer.source, answer.cell_type = f"```python\n{answer.source}\n```", "markdown"


@changed
def an_alias_above_its_definition(notebook):
    answer = cell(notebook, "patchify")
    notebook.cells.append(new_code_cell(answer.source.replace("def patchify(", "def my_patches(")))
    answer.source = "patchify = my_patches"


@changed
def a_copy_of_the_starter_below_the_answer(notebook):
    at = notebook.cells.index(cell(notebook, "patchify"))
    notebook.cells.insert(at + 1, new_code_cell(STARTER.format(name="patchify")))


@changed
def answers_above_the_setup(notebook):
    setup = cell(notebook, "setup")
    notebook.cells.remove(setup)
    answer = cell(notebook, "patchify")
    answer.source = f"@torch.no_grad()\n{answer.source}"
    notebook.cells.insert(notebook.cells.index(answer) + 1, setup)


@changed
def a_half_edited_starter_and_the_answer_below(notebook):
    answer = cell(notebook, "patchify")
    notebook.cells.append(new_code_cell(answer.source))
    answer.source = "def patchify(images, patch):\n    n, c, h, w = images.shape\n    # no idea\n    raise NotImplementedError('see below')"


@form
def with_modules_beside_a_git_repository(folder, notebook):
    (folder / ".git" / "objects").mkdir(parents=True)
    for number in range(1200):
        (folder / ".git" / "objects" / str(number)).write_text("x")
    answer = cell(notebook, "patchify")
    (folder / "my_patches.py").write_text(answer.source)
    answer.source = "from my_patches import *"
    nbformat.write(notebook, folder / "views.ipynb")


@form
def an_archive_under_the_notebooks_name(folder, notebook):
    with zipfile.ZipFile(folder / "views.ipynb", "w") as archive:
        archive.writestr("views.ipynb", json.dumps(notebook))


@changed
def typed_on_a_phone(notebook):
    for one in notebook.cells:
        if one.metadata.get("nbgrader", {}).get("solution"):
            one.source = one.source.replace(" ", "\u00a0").replace('"', "\u201d")


@changed
def copied_out_of_a_console(notebook):
    answer = cell(notebook, "patchify")
    answer.source = "In [7]: " + answer.source.replace("\n", "\n   ...: ") + "\n\nIn [8]: "
    notebook.cells[notebook.cells.index(answer)] = new_code_cell(answer.source)


@form
def starters_left_and_a_module_with_all_the_answers(folder, notebook):
    answers = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]
    modules = "import math\n\nimport torch\n\n" + "\n\n\n".join(one.source for one in answers)
    (folder / "my_patches.py").write_text(modules)
    for one in answers:
        one.source = STARTER.format(name=grade_id(one))
    notebook.cells.append(new_code_cell("from my_patches import *  # all of them"))
    nbformat.write(notebook, folder / "views.ipynb")


@form
def a_notebook_that_runs_another(folder, notebook):
    answer = cell(notebook, "patchify")
    other = new_notebook(cells=[new_markdown_cell("mine"), new_code_cell("%%time\n" + answer.source)])
    nbformat.write(other, folder / "my patches.ipynb")
    notebook.cells.append(new_code_cell("%run 'my patches.ipynb'"))
    answer.source = STARTER.format(name="patchify")
    nbformat.write(notebook, folder / "views.ipynb")


@form
def in_an_archive_with_the_notebook_that_it_runs(folder, notebook):
    a_notebook_that_runs_another(folder, notebook)
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for name in ("views.ipynb", "my patches.ipynb"):
            archive.write(folder / name, f"week 1/{name}")
            (folder / name).unlink()


@form
def a_notebook_for_each_exercise(folder, notebook):
    answers = [grade_id(one) for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]
    for name in answers:
        one = copy.deepcopy(notebook)
        for other in set(answers) - {name}:
            cell(one, other).source = STARTER.format(name=other)
        nbformat.write(one, folder / f"views {name}.ipynb")


@form
def a_notebook_with_each_exercise_alone(folder, notebook):
    answers = [grade_id(one) for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]
    for name in answers:
        others = [one for one in notebook.cells if grade_id(one).startswith(tuple(set(answers) - {name}))]
        one = copy.deepcopy(new_notebook(cells=[each for each in notebook.cells if each not in others]))
        nbformat.write(one, folder / f"{name}.ipynb")


@form
def beside_a_copy_with_more_answers(folder, notebook):
    nbformat.write(notebook, folder / "views (1).ipynb")
    for name in ("patchify", "compact"):
        cell(notebook, name).source = STARTER.format(name=name)
    nbformat.write(notebook, folder / "views.ipynb")
