"""A page that hosts one widget as the static book does: a model, no kernel, no network."""

import json
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page

ADDRESS, HEIGHT = "http://book.test/page.html", 900
HOST = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>One widget</title>
<style>:root { color-scheme: light dark; } body { margin: 1rem; font-family: sans-serif; }</style></head>
<body><main><h1>One widget</h1><div id="widget"></div></main>
<script type="module">
import * as widget from "/widget.mjs";
const state = STATE;
const handlers = {};
window.model = {
  get: (key) => state[key],
  set(key, value) { state[key] = value; (handlers["change:" + key] ?? []).forEach((f) => f()); },
  on: (name, f) => (handlers[name] ??= []).push(f),
  off: (name, f) => { handlers[name] = (handlers[name] ?? []).filter((g) => g !== f); },
  save_changes() {},
};
window.widget = widget;
await widget.default.initialize?.({ model });
await widget.default.render({ model, el: document.querySelector("#widget") });
window.ready = true;
</script></body></html>"""


@dataclass
class Tab:
    """A page with a context of its own, the widget that it shows, and what went wrong in it.

    ``changed``: a test leaves it otherwise than it was.
    """

    page: Page
    changed: bool = False
    widget: object = None
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        self.page.route("**/*", lambda route: _serve(route, self.widget, self.faults))

    def show(self, widget, width: int, scheme: str) -> Page:
        self.widget = widget
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=scheme)
        self.page.goto(ADDRESS)
        self.page.wait_for_function("window.ready")
        return self.page

    def forget(self) -> None:
        """What the widget kept in the browser, what it goes on doing, and where the mouse is."""
        self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self.faults.clear()


@pytest.fixture(scope="session")
def tabs(browser) -> list[Tab]:
    """Those that no test has: a page in a new tab costs Chromium 1.6 times what one in a tab that is there does."""
    return []


@pytest.fixture
def mount(browser, tabs):
    """mount(widget, width, scheme) -> Page. Errors on the page and requests that leave it fail the test.

    ``changed``: the test leaves the page otherwise than it was (a script of its own, another clock or medium): nobody else gets it.
    """
    taken = []

    def show(widget, width=1100, scheme="light", changed=False):
        taken.append(tabs.pop() if tabs and not changed else Tab(browser.new_context().new_page(), changed))
        return taken[-1].show(widget, width, scheme)

    yield show
    faults = [fault for tab in taken for fault in tab.faults]
    for tab in taken:
        if tab.changed or faults:
            tab.page.context.close()
        else:
            tab.forget()
            tabs.append(tab)
    assert not faults, faults


def _serve(route, widget, faults):
    path = route.request.url.removeprefix("http://book.test")
    if path == "/page.html":
        route.fulfill(content_type="text/html", body=_page(widget))
    elif path == "/widget.mjs":
        route.fulfill(content_type="text/javascript", body=widget._esm)
    elif path == "/favicon.ico":
        route.fulfill(status=204)
    else:
        faults.append(f"the widget asked for {route.request.url}")
        route.abort()


def _page(widget):
    state = {k: v for k, v in widget.get_state().items() if not k.startswith("_")}
    page = HOST.replace("STATE", json.dumps(state, default=str).replace("</", "<\\/"))
    return page.replace("</head>", f"<style>{widget._css}</style></head>")
