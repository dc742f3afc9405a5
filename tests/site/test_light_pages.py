"""The extension that makes pages light, on its own."""

import sys

import pytest
from sphinx.errors import ExtensionError

from gpulab.widgets import MemoryBar, Question, Quiz, StrideExplorer, right, wrong
from tests.site.conftest import ROOT

sys.path.insert(0, str(ROOT / "chapters" / "_extensions"))
from offline_site import formulas, icons, pages, widgets
from offline_site.stills import still


def state_of(widget):
    return {**widget.get_state(), "_esm": widget._esm, "_css": widget._css}


def test_an_icon_is_drawn_where_its_name_stood():
    svg = icons.drawn('<i class="fas fa-download theme" data-mode="light"></i>')
    assert (
        svg.startswith('<svg class="svg-inline--fa fas fa-download theme" data-mode="light"')
        and '<path fill="currentColor" d="M' in svg
    )


def test_an_icon_that_does_not_exist_fails_the_build():
    with pytest.raises(ExtensionError, match="fa-unicorn"):
        icons.drawn('<i class="fa-solid fa-unicorn"></i>')


def test_the_fonts_rules_leave_the_style_sheet_and_others_stay():
    sheet = 'a{b:c}.fa-list:before{content:"x"}.fade{d:e}@font-face{font-family:Font Awesome;src:f}.fas,.far{g:h}.fallback{i:j}'
    assert icons.FONT_RULES.sub("", sheet) == "a{b:c}.fade{d:e}.fallback{i:j}"


def test_scripts_keep_their_order_and_wait():
    page = '<script src="a.js"></script><script>DOCUMENTATION_OPTIONS.pagename = "x";</script><script>let now = 1;</script>'
    made = pages.deferred(page)
    assert made.startswith('<script defer src="a.js"></script><script defer src="data:text/javascript;base64,')
    assert made.endswith("<script>let now = 1;</script>")


def test_a_formula_becomes_mathml():
    made = formulas.mathml(r"\frac{a}{b}")
    assert made.startswith("<math ") and "<mfrac>" in made and "<mi>b</mi>" in made


def test_a_command_without_mathml_fails_the_build():
    with pytest.raises(ExtensionError, match="notacommand"):
        formulas.mathml(r"\notacommand{x}")


def test_a_picture_that_follows_its_width_is_drawn_where_nothing_has_one():
    html = still(state_of(MemoryBar("TinyVLA 7B", "RTX4090", precision="bf16", lora=32)))
    assert "It fits, and leaves" in html and 'viewBox="0 0 640 96"' in html


def test_a_picture_is_what_the_browser_would_draw(browser):
    widget = StrideExplorer((3, 4), (1, 3))
    context = browser.new_context()
    page = context.new_page()
    page.set_content("<div id=w></div>")
    state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
    page.evaluate(
        """async ([code, state]) => {
          const module = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
          const model = { get: (name) => state[name], set() {}, on() {}, off() {}, save_changes() {} };
          module.default.render({ model, el: document.querySelector("#w") });
        }""",
        [widget._esm, state],
    )
    shape = "(root) => [...root.querySelectorAll('*')].map((n) => [n.tagName, n.getAttribute('class'), n.children.length ? '' : n.textContent])"
    live = page.locator("#w").evaluate(shape)
    page.evaluate("(html) => { document.querySelector('#w').innerHTML = html; }", still(state_of(widget)))
    assert page.locator("#w").evaluate(shape) == live and len(live) > 40
    context.close()


def test_a_quiz_keeps_its_answers_for_readers_without_scripts():
    html = still(state_of(Quiz(Question.ask("`a < b`?", right("yes", "it is"), wrong("no", "it is not")))))
    picture, answers = html.split("<noscript>")
    assert "a &lt; b" in picture and "it is" not in picture
    assert "Right. it is" in answers and "No. it is not" in answers


def test_the_same_book_gives_the_same_page():
    quiz = state_of(StrideExplorer(quiz=True))
    assert still(quiz, 3) == still(quiz, 3) != still(quiz, 4)


def test_a_widget_of_another_package_keeps_its_own_code():
    assert (
        widgets.current({"_anywidget_id": "other.Widget", "_esm": "export default {}"})["_esm"] == "export default {}"
    )
    assert "stridesQuiz" in widgets.current({"_anywidget_id": "gpulab.widgets.stride_explorer.StrideExplorer"})["_esm"]
