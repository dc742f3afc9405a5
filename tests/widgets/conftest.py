"""A page that hosts one widget as the static book does: a model, no kernel, no network."""

import json

import pytest

ADDRESS = "http://book.test/page.html"
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


@pytest.fixture
def mount(browser):
    """mount(widget, width, scheme) -> Page. Errors on the page and requests that leave it fail the test."""
    contexts, faults = [], []

    def open_page(widget, width=1100, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.route("**/*", lambda route: _serve(route, widget, faults))
        page.goto(ADDRESS)
        page.wait_for_function("window.ready")
        return page

    yield open_page
    for context in contexts:
        context.close()
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
