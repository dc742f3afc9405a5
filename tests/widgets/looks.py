"""What the tests of every widget ask of a browser: the widget's own JavaScript, and what axe finds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe

from gpulab.widgets._source import module

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}}
_IMPORT = """async ([text, name]) => {
  window[name] = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
}"""


@contextmanager
def imported(browser, file: str, name: str = "m") -> Iterator[Callable]:
    """evaluate(expression, argument), with the functions of a widget's file in scope as ``name``."""
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f"<title>{file}</title>")
    page.evaluate(_IMPORT, [module(file), name])
    yield page.evaluate
    context.close()


def assert_accessible(page, width: int) -> None:
    """axe finds nothing, and nothing is wider than the screen."""
    found = Axe().run(page, options=RULES)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
