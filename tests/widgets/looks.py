"""What the tests of every widget ask of a browser: the widget's own JavaScript, and what axe finds."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from gpulab.widgets._source import module
from tests.sampling import looks
from tests.site.probe import AXE

sys.path.insert(0, str(Path(__file__).parents[2] / "chapters" / "_extensions"))
from offline_site.stills import still

in_every_look = pytest.mark.parametrize("width, scheme", looks(desktop=1100, phone=390, now=["phone-dark"]))
"""For every change the look in which its page is not asked (:mod:`tests.site.test_every_page`)."""
_IMPORT = """async ([text, name]) => {
  window[name] = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
}"""


_CALL = """([source, text]) => {
  const given = new Function(`return ${text}`)();  // JSON with NaN and infinities, as Python writes them
  const isSaid = (x) => typeof x !== "number" || (Number.isFinite(x) && !Object.is(x, -0));
  const special = (_, x) => (isSaid(x) ? x : { float: Object.is(x, -0) ? "-0" : String(x) });
  return JSON.stringify((0, eval)(source)(given) ?? null, special);
}"""


@contextmanager
def imported(browser, file: str, name: str = "m") -> Iterator[Callable]:
    """evaluate(function, argument), with the functions of a widget's file in scope as ``name``.

    What goes in and out is one text: Playwright wraps each number of a list by itself, which takes longer than most functions.
    """
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f"<title>{file}</title>")
    page.evaluate(_IMPORT, [module(file), name])
    yield lambda function, argument=None: json.loads(
        page.evaluate(_CALL, [function, json.dumps(argument)]), object_hook=_number
    )
    context.close()


def functions_of(file: str) -> Callable:
    """A fixture, javascript(expression, given): the value of an expression over the functions of a widget's file, m."""

    @pytest.fixture(scope="module")
    def javascript(browser):
        with imported(browser, file) as evaluate:
            yield lambda expression, given: evaluate(f"(given) => {expression}", given)

    return javascript


def _number(found: dict) -> dict | float:
    """What JSON cannot say."""
    return float(found["float"]) if found.keys() == {"float"} else found


def assert_accessible(page, width: int) -> None:
    """axe finds nothing, and nothing is wider than the screen."""
    found = Axe().run(page, options=AXE)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def still_of(widget) -> str:
    """The HTML of a widget on a page before, and without, any script."""
    return still({**widget.get_state(), "_esm": widget._esm, "_css": widget._css})


def options_on_a_page(widget, label: str) -> list[str]:
    """What a select offers, in order, once a notebook's file has sorted the keys of the widget's state."""
    state = json.loads(
        json.dumps({name: value for name, value in widget.get_state().items() if name[0] != "_"}, sort_keys=True)
    )
    html = still({**state, "_esm": widget._esm, "_css": widget._css})
    select = re.search(rf"<label[^>]*>{re.escape(label)}</label>\s*<select.*?</select>", html, re.DOTALL)
    return re.findall(r"<option[^>]*>([^<]*)</option>", select[0])
