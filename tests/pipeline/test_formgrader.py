"""The formgrader in JupyterLab works on the course as it is configured."""

import json
import os
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

import nbformat
import pytest
from nbgrader.api import Gradebook

from tests.intake.forms import PIXEL
from tests.pipeline.conftest import ROOT


@pytest.fixture(scope="module")
def formgrader(course):
    """The address of a Jupyter server that runs on ``course``, started as `make lab` does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    # nbgrader serves courses below the server's root only.
    command += [f"--ServerApp.root_dir={course.root}"]
    environment = os.environ | {"COURSE": str(course.root)}
    with open(course.root / "lab.log", "w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield _answering(f"http://127.0.0.1:{port}/formgrader", server, course.root / "lab.log")
    finally:
        server.terminate()
        server.wait(60)


def _answering(address, server, log):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urlopen(f"{address}/api/assignments", timeout=60)
            return address
        except URLError:
            time.sleep(0.3)
    raise AssertionError(f"the server did not answer:\n{log.read_text()[-3000:]}")


def test_the_formgrader_grades_a_submission_and_lists_its_score(course, formgrader):
    course.hand_in("by_button", course.answered())
    autograde = Request(f"{formgrader}/api/submission/views/by_button/autograde", method="POST")
    assert json.load(urlopen(autograde, timeout=600))["success"]
    (listed,) = [
        submission
        for submission in json.load(urlopen(f"{formgrader}/api/submissions/views"))
        if submission["student"] == "by_button"
    ]
    assert listed["score"] == listed["max_score"] == sum(course.full_marks().values())
    assert course.entry("by_button")["state"] == "graded"


def test_the_formgrader_shows_the_assignment(formgrader):
    assignments = {found["name"]: found for found in json.load(urlopen(f"{formgrader}/api/assignments"))}
    assert assignments["views"]["num_submissions"] > 0
    page = urlopen(f"{formgrader}/manage_assignments").read().decode()
    assert "formgrade" in page


_SCRIPT = "<script>window.ran = 'a script in %s'</script>"
_PICTURE = "<img src=x onerror=\"window.ran = 'a handler in %s'\">"
_DISPLAYS = """
import sys
from IPython.display import HTML, Javascript, Latex, Markdown, SVG, display, publish_display_data
for made in (HTML, Markdown, Latex):
    display(made({html!r}))
display(Javascript("window.ran = 'a script'; element.append('<img src=x onerror=window.ran=1>')"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran = 1'><script>window.ran = 2</script></svg>"))
publish_display_data({{"application/vnd.mine+html": {html!r}, "text/plain": {html!r}}})
print({html!r}); print({html!r}, file=sys.stderr)
raise type({html!r}, (Exception,), {{}})({html!r})
"""


def hostile(course):
    """The untouched release with a script in every kind of cell and of output."""
    notebook, html = course.notebook("release"), _SCRIPT + _PICTURE
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = _DISPLAYS.format(html=html.replace("%s", "an output"))
    link = (
        "[link](javascript:window.ran=1) <a href='javascript:window.ran=1' id=lure>lure</a> <svg onload=window.ran=1>"
    )
    texts = [
        html % ("Markdown", "Markdown"),
        f"# {html % ('a heading', 'a heading')}\n{link}",
        "```\n" + html % ("code", "code"),
        "![missing](attachment:none.png) ![far](http://127.0.0.1:9/far.png)",
    ]
    notebook.cells[1:1] = [nbformat.v4.new_markdown_cell(text) for text in texts] + [nbformat.v4.new_raw_cell(texts[0])]
    attached = {"a b.png": {"image/png": PIXEL}, "c.svg": {"image/svg+xml": "<svg onload=window.ran=1>"}}
    shown = "![a picture](attachment:a%20b.png) ![a drawing](attachment:c.svg)"
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(shown, attachments=attached))
    return notebook


def test_nothing_that_a_learner_wrote_runs_in_the_instructors_browser(course, formgrader, browser):
    course.hand_in("hostile", hostile(course))
    autograde = Request(f"{formgrader}/api/submission/views/hostile/autograde", method="POST")
    assert json.load(urlopen(autograde, timeout=600))["success"]
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission("views", "hostile").notebooks
        page_of = f"{formgrader}/submissions/{notebook.id}/"
    page = browser.new_page()
    page.goto(page_of, wait_until="load")
    page.wait_for_timeout(500)
    assert page.evaluate("window.ran") is None
    assert (
        page.locator("#notebook script, #notebook [onerror], #notebook [onload], #notebook a[href^=javascript]").count()
        == 0
    )
    assert "window.ran" in page.locator("#notebook").first.inner_text(), "the hostile text itself was not on the page"
    assert (
        page.locator("#notebook img[src]").count() == page.locator("#notebook img[src^='data:image/png']").count() == 1
    )
    text = page.locator("#notebook").first.inner_text()
    assert "[Picture missing, not handed in with the notebook]" in text and "[Picture far, not shown]" in text
    assert page.locator("table.verdict").count() == len(course.full_marks()), "the referee's tables are gone"
    page.close()


def test_a_graded_notebook_keeps_text_and_pictures_of_outputs_alone(course, formgrader):
    path = course.root / "autograded" / "hostile" / "views" / "views.ipynb"
    kinds = {
        kind
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("points")
        for output in cell.outputs
        for kind in output.get("data", {})
    }
    assert kinds == {"text/plain"}
