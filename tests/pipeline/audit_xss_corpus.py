"""Payloads that others collected, one on each line of a file: XSS_CORPUS=FILE python -m pytest --audit tests/pipeline/audit_xss_corpus.py

The texts are their authors' and not in this repository: payloadbox/xss-payload-list, cujanovic/Markdown-XSS-Payloads and
swisskyrepo/PayloadsAllTheThings on GitHub have lists.
"""

import os
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.nbgrader.links import leads_outside
from autograder.selfcheck.chapters import chapters
from autograder.selfcheck.mark import Marked
from autograder.selfcheck.page import page as marked_page
from tests.pipeline.touching import links, touched

_ON_A_PAGE = 800
"""A submission has 2000 cells at most."""


def _parts() -> list[list[str]]:
    file = os.environ.get("XSS_CORPUS")
    texts = list(dict.fromkeys(Path(file).read_text("utf-8", "replace").splitlines())) if file else []
    return [texts[at : at + _ON_A_PAGE] for at in range(0, len(texts), _ON_A_PAGE)]


PARTS = _parts() or [pytest.param([], marks=pytest.mark.skip("XSS_CORPUS names no file with payloads"))]
each_part = pytest.mark.parametrize("texts", PARTS, ids=range(len(PARTS)))


@each_part
def test_on_the_feedback_page_and_in_the_formgrader(texts, course, formgrader, watched):
    notebook = course.notebook("release")
    notebook.cells += [new_code_cell(f"texts = {texts!r}\nfor text in texts: print(text)\nraise Exception(texts)")]
    notebook.cells += map(new_markdown_cell, texts)
    course.hand_in("hostile", notebook)
    assert course.autograde("hostile")["success"]
    course.feedback("hostile")
    feedback = (course.root / "feedback" / "hostile" / "views" / "views.html").as_uri()
    for address, root in ((feedback, "main"), (course.formgrade("hostile", formgrader), "#notebook")):
        watched.goto(address, wait_until="load")
        assert watched.locator(root).first.inner_text().count("alert") > len(texts) / 4
        assert not [link for link in links(watched, root) if not leads_outside(link)]
        # Those that are left lead to public hosts, in a page of their own: what else does a click do?
        watched.eval_on_selector_all(f"{root} a[href]", "links => links.forEach(link => link.removeAttribute('href'))")
        touched(watched, root)
        assert not watched.evaluate("window.violations")


@each_part
def test_on_the_markers_page(texts, tmp_path, watched):
    chapter = next(chapter for chapter in chapters() if chapter.name == "views")
    marked = Marked(chapter, notes=texts, errors={"": texts})
    (tmp_path / "marked.html").write_text(marked_page(marked, "views.ipynb"))
    watched.goto((tmp_path / "marked.html").as_uri(), wait_until="load")
    assert watched.locator("body").inner_text().count("alert") > len(texts) / 4
    touched(watched, "body")
