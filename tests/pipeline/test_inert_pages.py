"""What a learner wrote is inert on every page that shows it: nothing runs, nothing is fetched, no link leads in, no score moves."""

import json
import re
from urllib.request import Request, urlopen

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder.nbgrader.links import leads_outside
from autograder.selfcheck.chapters import chapters
from autograder.selfcheck.mark import Marked
from autograder.selfcheck.page import page as marked_page
from tests.intake.forms import PIXEL
from tests.pipeline.payloads import payloads
from tests.pipeline.touching import links, touched

_DISPLAYS = """
import sys
from IPython.display import HTML, Javascript, Latex, Markdown, SVG, display, publish_display_data
texts = {texts!r}
for text in texts:
    print(text); print(text, file=sys.stderr)
for made in (HTML, Markdown, Latex):
    display(made(texts[0]))
display(Javascript("window.ran = 'a script'; element.append('<img src=x onerror=window.ran=1>')"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran = 1'><script>window.ran = 2</script></svg>"))
publish_display_data({{"application/vnd.mine+html": texts[0], "text/plain": texts[0]}})
raise type(texts[0], (Exception,), {{}})("\\n".join(texts))
"""


def hostile(course) -> nbformat.NotebookNode:
    """The untouched release with every payload in a Markdown cell, and all of them in code, outputs, errors and raw cells."""
    notebook, texts = course.notebook("release"), payloads()
    for number, cell in enumerate(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")):
        cell.source = _DISPLAYS.format(texts=texts[number::8])
    attached = {"a b.png": {"image/png": PIXEL}, "c.svg": {"image/svg+xml": "<svg onload=window.ran=1>"}}
    shown = "![a picture](attachment:a%20b.png) ![a drawing](attachment:c.svg) ![far](https://far.invalid/far.png)"
    notebook.cells.insert(1, new_markdown_cell(shown, attachments=attached))
    notebook.cells[2:2] = map(new_markdown_cell, texts)
    notebook.cells += [new_raw_cell("\n".join(texts)), new_code_cell("# " + "\n# ".join("\n".join(texts).split("\n")))]
    for number, cell in enumerate(notebook.cells):
        cell.metadata["name"] = texts[number % len(texts)]
    return notebook


@pytest.fixture(scope="module")
def graded(course, formgrader):
    """A course in which the hostile notebook was graded by the formgrader's button."""
    course.hand_in("hostile", hostile(course))
    autograde = Request(f"{formgrader}/api/submission/views/hostile/autograde", method="POST")
    assert json.load(urlopen(autograde, timeout=600))["success"]
    return course


def test_on_the_formgraders_page(graded, formgrader, watched):
    before = graded.scores("hostile")
    watched.goto(graded.formgrade("hostile", formgrader), wait_until="load")
    text = watched.locator("#notebook").first.inner_text()
    assert text.count("window.ran=1") > 500, "the payloads themselves were not on the page"
    assert "[Picture a drawing, not handed in with the notebook]" in text and "[Picture far, not shown]" in text
    assert watched.locator("#notebook img[src]").count() == 1, "the attached picture alone is shown"
    assert watched.locator("table.verdict").count() == len(graded.full_marks()), "the referee's tables are gone"
    kept = "#notebook .full-credit:not(.scoring-buttons *), #notebook .text_cell_render :is([id], [style], [data-link])"
    assert watched.locator(kept).count() == 0
    assert not [link for link in links(watched, "#notebook") if not leads_outside(link)]
    touched(watched, "#notebook")
    assert graded.scores("hostile") == before, "a score moved"
    assert not watched.evaluate("window.violations"), "what the policy stopped should not have been on the page"


def test_on_the_feedback_page(graded, watched):
    page = graded.feedback("hostile")
    assert page.count("window.ran=1") > 500
    watched.goto((graded.root / "feedback" / "hostile" / "views" / "views.html").as_uri(), wait_until="load")
    assert watched.locator("img[src]").count() == 1
    assert not [link for link in links(watched, "main") if not leads_outside(link)]
    touched(watched, "body")
    assert not watched.evaluate("window.violations")


def test_on_the_markers_page(tmp_path, watched):
    chapter = next(chapter for chapter in chapters() if chapter.name == "views")
    function = next(iter(chapter.functions.values()))
    marked = Marked(chapter, notes=payloads(), errors={"": payloads(), function: payloads()})
    (tmp_path / "marked.html").write_text(marked_page(marked, f"{payloads()[0]}.ipynb"))
    watched.goto((tmp_path / "marked.html").as_uri(), wait_until="load")
    assert watched.locator("body").inner_text().count("window.ran=1") > 500
    touched(watched, "body")


def test_a_second_wall_stands_in_the_formgrader(graded, formgrader, watched):
    watched.goto(graded.formgrade("hostile", formgrader), wait_until="load")
    watched.evaluate(
        """() => {
          for (const html of ['<img src=x onerror=window.ran=1>', '<iframe srcdoc="<script>parent.ran=1</script>">',
                              '<img src="https://far.invalid/x">', '<a href="javascript:window.ran=1" id=lure>x</a>'])
            document.body.insertAdjacentHTML('beforeend', html);
          const script = document.createElement('script');
          script.textContent = 'window.ran = 1';
          document.body.append(script);
          document.getElementById('lure').click();
        }"""
    )
    watched.wait_for_timeout(300)
    assert watched.evaluate("window.ran") is None and not watched.far
    assert watched.evaluate("window.violations.length") >= 4


_PAGES = (
    "manage_assignments manage_submissions/views gradebook gradebook/views gradebook/views/views manage_students "
    "manage_students/hostile manage_students/hostile/views"
).split()


def test_the_policy_lets_the_formgrader_work(graded, formgrader, watched):
    errors = []
    watched.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    watched.on("pageerror", lambda error: errors.append(str(error)))
    for path in _PAGES:
        watched.goto(f"{formgrader}/{path}", wait_until="load")
        watched.wait_for_selector("#main-table tr:has(td:not([colspan]))")
        for control in watched.locator("[onclick]").all():
            control.click()
            watched.wait_for_timeout(100)
            if watched.locator(".modal").count():
                watched.evaluate("$('.modal').modal('hide')")
                watched.wait_for_timeout(600)
    watched.goto(graded.formgrade("hostile", formgrader), wait_until="load")
    watched.wait_for_timeout(500)
    assert watched.evaluate("formgrader.loaded && MathJax.loaded"), "nbgrader's own script did not come to its end"
    watched.locator("[onclick]:visible").click()
    assert not watched.evaluate("window.violations") and not watched.far
    assert not [error for error in errors if "404" not in error], errors


def test_no_address_makes_the_formgrader_run_a_learners_file(graded, formgrader):
    folder = graded.root / "submitted" / "hostile" / "views"
    ran = graded.root / "ran"
    (folder / "nbgrader_config.py").write_text(f"open({str(ran)!r}, 'w')")
    for path in (folder, "submitted/hostile/views"):
        with pytest.raises(Exception, match="403"):
            urlopen(f"{formgrader}?path={path}")
    assert urlopen(f"{formgrader}?path={graded.root}").status == 200
    assert not ran.exists()


def test_a_file_of_a_submission_opens_without_any_right(graded, formgrader):
    folder = graded.root / "autograded" / "hostile" / "views"
    (folder / "evil.html").write_text("<script>window.ran = 1</script>")
    answer = urlopen(f"{graded.formgrade('hostile', formgrader)}evil.html")
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_a_graded_notebook_keeps_text_and_pictures_of_outputs_alone(graded):
    path = graded.root / "autograded" / "hostile" / "views" / "views.ipynb"
    kinds = {
        kind
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("points")
        for output in cell.outputs
        for kind in output.get("data", {})
    }
    assert kinds == {"text/plain"}


def test_no_control_character_and_no_bidirectional_mark_stands_on_a_page(course):
    notebook = course.notebook("release")
    notebook.cells.insert(1, new_markdown_cell("a\u202eb &#x202e; \x07"))
    notebook.cells.insert(2, new_code_cell("print('c\u2066d\\x1b]0;title\\x07')  # \u202e"))
    course.hand_in("reversed", notebook)
    assert course.autograde("reversed")["success"]
    page = course.feedback("reversed")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert r"a\u202eb \u202e \x07" in page and r"c\u2066d" in page
