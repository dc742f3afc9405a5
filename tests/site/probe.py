"""What a browser finds wrong with one page."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError as NotInTime

AXE = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    },
    "resultTypes": ["violations"],
    # Preloading, axe resolves a stylesheet's @import against the page and asks for files
    # that no reader asks for.
    "preload": False,
}

# Most of axe's time went into the contrast of each of the thousands of words of a page's code. Words of one class in one
# kind of box have one colour on one ground: the first is looked at, and the others become text of the box.
ONE_WORD_OF_EACH_COLOUR = """() => {
  const seen = new Set();
  for (const word of document.querySelectorAll("pre span:not(:has(*))")) {
    const boxes = [];
    for (let box = word; box !== document.body; box = box.parentElement) boxes.push(box.className);
    const kind = boxes.join("<");
    if (seen.has(kind)) word.replaceWith(word.textContent);
    seen.add(kind);
  }
}"""

SETTLED = """() => {
  const views = document.querySelector('script[type="application/vnd.jupyter.widget-view+json"]');
  const drawn = !views || document.documentElement.dataset.widgets === "drawn";
  const still = document.getAnimations().every((animation) => animation.playState !== "running");
  return document.readyState === "complete" && drawn && still;
}"""

LOOK = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const views = all('script[type="application/vnd.jupyter.widget-view+json"]');
  const alive = (view) => {
    const element = view.previousElementSibling;
    return element?.matches(".anywidget-view:not(.still)") && element.childElementCount > 0
      && element.offsetHeight > 0 && !element.querySelector(".widget-error");
  };
  const formulas = all(".math");
  return {
    heading: document.querySelector("h1")?.textContent ?? "",
    theme: document.documentElement.dataset.theme ?? null,
    widgets: views.length,
    deadWidgets: views.filter((view) => !alive(view)).length,
    formulas: formulas.length,
    unset: formulas.filter((m) => !m.querySelector("math")?.offsetHeight && !m.querySelector("math")?.getBoundingClientRect().height)
      .map((m) => m.textContent.slice(0, 80)),
    brokenImages: all("img").filter((image) => image.complete && !image.naturalWidth).map((i) => i.src),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
}"""


@dataclass
class Report:
    """One page as a browser met it; ``findings`` is empty when nothing is wrong."""

    findings: list = field(default_factory=list)
    requests: int = 0
    widgets: int = 0
    formulas: int = 0


@contextmanager
def reader(browser, width=1280, height=900, scheme="light"):
    """A browser context as one reader has it; ``scheme`` is "light" or "dark"."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        yield context
    finally:
        context.close()


def probe(context, url, scheme="light", accessibility=True):
    """Open ``url`` in ``context``, let it settle, and report what is wrong with it."""
    report, page = Report(), context.new_page()
    listen(page, report)
    try:
        page.goto(url, wait_until="load")
        settle(page, report)
        look(page, report, scheme)
        if accessibility:
            ask_axe(page, report)
    finally:
        page.close()
    return report


def is_local(url):
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob", "file") or parts.hostname == "127.0.0.1"


def listen(page, report):
    def on_request(route):
        report.requests += 1
        if is_local(route.request.url):
            return route.continue_()
        report.findings.append(f"request leaves the machine: {route.request.url}")
        return route.abort()

    def on_response(response):
        if response.status >= 400:
            report.findings.append(f"{response.status}: {response.url}")

    def on_failure(request):
        if is_local(request.url):
            report.findings.append(f"request failed: {request.url} ({request.failure})")

    def on_console(message):
        if message.type in ("error", "warning"):
            report.findings.append(f"console {message.type}: {message.text[:300]}")

    page.route("**/*", on_request)
    page.on("response", on_response)
    page.on("requestfailed", on_failure)
    page.on("console", on_console)
    page.on("pageerror", lambda error: report.findings.append(f"page error: {error}"))


def settle(page, report, milliseconds=60_000):
    try:
        page.wait_for_function(SETTLED, timeout=milliseconds)
    except NotInTime:
        report.findings.append(f"widgets not ready after {milliseconds} ms")


def look(page, report, scheme):
    seen = page.evaluate(LOOK)
    report.widgets, report.formulas = seen["widgets"], seen["formulas"]
    wrong = {
        "no heading on the page": not seen["heading"].strip(),
        f"asked for {scheme}, shows {seen['theme']}": seen["theme"] not in (None, scheme),
        f"{seen['deadWidgets']} of {seen['widgets']} widgets drew nothing": seen["deadWidgets"],
        f"mathematics not set: {seen['unset']}": seen["unset"],
        f"images that do not load: {seen['brokenImages']}": seen["brokenImages"],
        f"the page is {seen['overflow']} px wider than the screen": seen["overflow"] > 0,
    }
    report.findings += [sentence for sentence, is_wrong in wrong.items() if is_wrong]


def ask_axe(page, report):
    """Asked last: it changes the page."""
    page.evaluate(ONE_WORD_OF_EACH_COLOUR)
    for violation in Axe().run(page, options=AXE).response["violations"]:
        places = [node["html"][:160] for node in violation["nodes"][:3]]
        report.findings.append(f"axe {violation['id']}: {violation['help']}: {places}")
