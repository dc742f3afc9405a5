"""chapters/_assets/widgets.js, the host of anywidgets on a page with no kernel."""

import base64
import json
import shutil

import pytest

from tests.site.conftest import ROOT
from tests.site.probe import reader

STATE, VIEW = (f"application/vnd.jupyter.widget-{kind}+json" for kind in ("state", "view"))

COUNTER = """
export default {
  initialize({ model }) { globalThis.initialised = (globalThis.initialised ?? 0) + 1; },
  render({ model, el }) {
    const button = document.createElement("button");
    const show = () => { button.textContent = "n=" + model.get("n"); };
    button.addEventListener("click", () => {
      model.set("n", model.get("n") + 1);
      model.save_changes();
      model.send({ kind: "clicked" });
    });
    model.on("change:n", show);
    show();
    el.append(button);
  },
};"""
SUM = """export default () => ({ render({ model, el }) {
  const numbers = new Float32Array(model.get("bytes").buffer);
  el.textContent = "sum=" + numbers.reduce((a, b) => a + b, 0);
} });"""


def anywidget(esm, buffers=(), **state):
    return {
        "model_module": "anywidget",
        "model_name": "AnyModel",
        "state": {"_esm": esm, **state},
        "buffers": list(buffers),
    }


def core(name, **state):
    return {"model_module": "@jupyter-widgets/controls", "model_name": name, "state": state}


@pytest.fixture
def open_page(browser, serve, tmp_path):
    """A function: (models, ids of views) -> a page that shows them, and its console errors."""
    shutil.copy(ROOT / "chapters" / "_assets" / "widgets.js", tmp_path)
    address = serve(tmp_path)
    with reader(browser) as context:

        def open_page(models, views):
            state = json.dumps({"version_major": 2, "version_minor": 0, "state": models})
            tags = "".join(f'<script type="{VIEW}">{{"model_id": "{view}"}}</script>' for view in views)
            (tmp_path / "page.html").write_text(
                '<!doctype html><html><head><link rel="icon" href="data:,">'
                f'<script defer src="widgets.js"></script></head><body><p>Before.</p>{tags}'
                f'<script type="{STATE}">{state}</script></body></html>'
            )
            page, errors = context.new_page(), []
            page.on("console", lambda message: message.type == "error" and errors.append(message.text))
            page.goto(f"{address}/page.html")
            page.wait_for_function("document.documentElement.dataset.widgets === 'drawn'")
            return page, errors

        yield open_page


def texts(page):
    return page.locator(".anywidget-view").all_inner_texts()


def test_views_of_one_model_move_together_and_initialise_once(open_page):
    page, errors = open_page({"a": anywidget(COUNTER, n=3)}, ["a", "a"])
    page.get_by_role("button").first.click()
    assert texts(page) == ["n=4", "n=4"]
    assert page.evaluate("globalThis.initialised") == 1
    assert errors == []


def test_jslink_moves_both_ways(open_page):
    ends = {"source": ["IPY_MODEL_a", "n"], "target": ["IPY_MODEL_b", "n"]}
    models = {"a": anywidget(COUNTER, n=3), "b": anywidget(COUNTER, n=0), "l": core("LinkModel", **ends)}
    page, _ = open_page(models, ["a", "b"])
    assert texts(page) == ["n=3", "n=3"]
    page.get_by_role("button").last.click()
    assert texts(page) == ["n=4", "n=4"]


def test_jsdlink_moves_one_way(open_page):
    ends = {"source": ["IPY_MODEL_a", "n"], "target": ["IPY_MODEL_b", "n"]}
    models = {"a": anywidget(COUNTER, n=3), "b": anywidget(COUNTER, n=0), "l": core("DirectionalLinkModel", **ends)}
    page, _ = open_page(models, ["a", "b"])
    page.get_by_role("button").last.click()
    assert texts(page) == ["n=3", "n=4"]


def test_binary_traits_arrive(open_page):
    data = base64.b64encode(bytes.fromhex("0000803f00000040")).decode()  # float32: 1, 2
    buffer = {"encoding": "base64", "path": ["bytes"], "data": data}
    page, errors = open_page({"a": anywidget(SUM, [buffer])}, ["a"])
    assert texts(page) == ["sum=3"] and errors == []


def test_a_widget_that_needs_a_kernel_says_so(open_page):
    page, errors = open_page({"a": core("IntSliderModel"), "b": anywidget(COUNTER, n=3)}, ["a", "b"])
    needs, works = texts(page)
    assert "needs a running kernel" in needs and works == "n=3"
    assert errors


def test_a_link_to_a_widget_that_needs_a_kernel_is_an_error(open_page):
    ends = {"source": ["IPY_MODEL_s", "value"], "target": ["IPY_MODEL_a", "n"]}
    models = {"s": core("IntSliderModel"), "a": anywidget(COUNTER, n=3), "l": core("LinkModel", **ends)}
    page, errors = open_page(models, ["a"])
    assert texts(page) == ["n=3"]
    assert "no anywidget" in errors[0]


@pytest.mark.parametrize("module", ["not JavaScript", "export default { render() { throw new Error('x'); } };"])
def test_a_widget_that_fails_says_so_and_spares_its_neighbour(open_page, module):
    page, errors = open_page({"a": anywidget(module), "b": anywidget(COUNTER, n=3)}, ["a", "b"])
    assert texts(page) == ["This widget did not start. The rest of the page does not need it.", "n=3"]
    assert errors
