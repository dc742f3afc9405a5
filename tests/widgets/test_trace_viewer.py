"""The trace viewer: the browser's times are Python's, a reader's own file opens, and a broken one gets a sentence."""

import gzip
import json
import random

import pytest

from gpulab.traces import breakdown, read, self_times
from gpulab.traces.public import NAMES, public
from gpulab.widgets import TraceViewer
from tests.traces.drawn import random_document
from tests.widgets.looks import assert_accessible, imported, in_every_look, still_of

_FOUND = """(documents) => documents.map(({ document, windows }) => {
  const events = m.read(document), sets = m.sets(events), lanes = m.lanes(events);
  return {
    window: m.windowOf(events), parts: windows.map((window) => m.breakdown(sets, window)),
    selves: lanes.filter(({ host }) => host).flatMap(({ events: own }) => own.map((e) => [e.name, e.start, e.end - e.start, e.self])),
    exposed: events.filter(({ kind }) => kind === "collective").map((e) => m.exposedOf(e, sets)),
  };
})"""


@pytest.fixture(scope="module")
def found(browser):
    """found(documents): what the browser makes of each, with its windows."""
    with imported(browser, "trace_viewer/model.js") as evaluate:
        yield lambda documents: evaluate(_FOUND, documents)


def asked(document, rng):
    window = read(document).window
    cuts = sorted(rng.uniform(*window) for _ in range(2))
    return {"document": document, "windows": [window, cuts]}


def test_the_browsers_breakdown_self_times_and_exposed_times_are_pythons(found):
    rng = random.Random(12)
    documents = [random_document(seed) for seed in range(60)]
    documents += [
        json.loads(gzip.decompress(public(name).read_bytes()))
        for name in ("nccl_excerpt", "amd_mi250", "cuda_event_sync")
    ]
    given = [asked(document, rng) for document in documents]
    for one, there in zip(given, found(given), strict=True):
        trace = read(one["document"])
        assert there["window"] == pytest.approx(trace.window)
        for window, parts in zip(one["windows"], there["parts"], strict=True):
            expected = breakdown(trace, window)
            if expected.device:
                names = ("total", "compute", "communication", "hidden", "copies", "idle")
                assert [parts[name] for name in names] == pytest.approx(
                    [getattr(expected, name) for name in names], abs=1e-6
                )
        expected = sorted((t.event.name, t.event.start, t.total, t.self_time) for t in self_times(trace, calls=True))
        assert [tuple(each) for each in sorted(there["selves"])] == [_near(each) for each in expected]
        collectives = [breakdown(trace, e.span).communication for e in trace.of("collective") if e.duration]
        assert there["exposed"] == pytest.approx(collectives, abs=1e-6)


def _near(row):
    name, *numbers = row
    return (name, *(pytest.approx(number, abs=1e-6) for number in numbers))


@pytest.mark.parametrize("name", [name for name in NAMES if name in ("alexnet", "triton_example")])
def test_every_format_of_the_public_traces_is_read_alike(found, name):
    document = json.loads(gzip.decompress(public(name).read_bytes()))
    there = found([{"document": document, "windows": [read(document).device_span]}])[0]
    expected = breakdown(read(document), read(document).device_span)
    assert [there["parts"][0]["idle"], there["parts"][0]["compute"]] == pytest.approx(
        [expected.idle, expected.compute], abs=1e-3
    )


def document(collective=(10, 30), kernel=(0, 20)):
    def on_device(name, span):
        return {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": span[0],
            "dur": span[1] - span[0],
            "args": {"stream": 7},
        }

    host = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 12}
    child = {**host, "name": "aten::empty", "ts": 2, "dur": 4}
    return {
        "traceEvents": [
            host,
            child,
            on_device("gemm", kernel),
            {**on_device("ncclDevKernel_AllReduce", collective), "tid": 9, "args": {"stream": 9}},
        ]
    }


def fact(page, name):
    return page.locator(f"dt:text-is('{name}') + dd").first.inner_text()


def give(page, name, raw):
    page.get_by_label("Your own trace").set_input_files({"name": name, "mimeType": "application/json", "buffer": raw})


def test_a_file_that_the_reader_chooses_opens_packed_or_not(mount):
    page = mount(TraceViewer(document()))
    for name, raw in (
        ("mine.json", json.dumps(document((0, 40))).encode()),
        ("mine.json.gz", gzip.compress(json.dumps(document((5, 45))).encode())),
    ):
        give(page, name, raw)
        page.get_by_text(f"{name}: 4 events, read in this page and sent nowhere.").wait_for()
        assert page.locator(".heading").inner_text() == name
        assert fact(page, "communication, exposed").startswith("20.0 µs" if name == "mine.json" else "25.0 µs")


@pytest.mark.parametrize(
    ("name", "raw", "sentence"),
    [
        ("cut.json", b'{"traceEvents": [{"ph": "X"', "The file is no JSON."),
        ("cut.json.gz", gzip.compress(json.dumps(document()).encode())[:40], "The gzip file is cut off or broken."),
        ("other.json", b'{"cells": []}', "no list called traceEvents"),
        (
            "empty.json",
            b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}',
            "None of its 1 events is a profiler's",
        ),
        (
            "odd.json",
            b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": "2"}]}',
            "no dur that is a time",
        ),
    ],
)
def test_a_file_that_is_no_trace_gets_a_sentence_and_the_picture_stays(mount, name, raw, sentence):
    page = mount(TraceViewer(document(), "before"))
    give(page, name, raw)
    page.get_by_text(sentence).wait_for()
    assert page.locator(".heading").inner_text() == "before" and page.get_by_text("was not opened").is_visible()


def test_a_click_and_arrow_keys_choose_events_and_their_times_are_told(mount):
    page = mount(TraceViewer(document()))
    box = page.locator(".lanes svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 10 / 30, box["y"] + 30)
    assert [fact(page, name) for name in ("kind", "total", "self")] == ["operation", "12.0 µs", "8.00 µs"]
    page.locator(".lanes").focus()
    page.keyboard.press("ArrowDown")
    assert [fact(page, name) for name in ("total", "self")] == ["4.00 µs", "4.00 µs"]
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert (
        page.get_by_text("ncclDevKernel_AllReduce (stream 9)").is_visible() and fact(page, "exposed") == "10.0 µs, 50 %"
    )


def test_keys_buttons_the_wheel_and_a_drag_move_the_view(mount):
    page = mount(TraceViewer(document()))
    lanes, view = page.locator(".lanes"), lambda: fact(page, "in view")
    lanes.focus()
    assert view() == "30.0 µs"
    page.keyboard.press("+")
    assert view() == "15.0 µs"
    page.get_by_role("button", name="Zoom in").click()
    assert view() == "7.50 µs"
    axis = (
        "[...document.querySelectorAll('.lanes svg > text:not(.inside):not(.place)')].map((text) => text.textContent)"
    )
    ends = lambda: page.evaluate(axis)
    before = ends()
    page.keyboard.press("Shift+ArrowRight")
    lanes.focus()
    page.keyboard.press("Shift+ArrowRight")
    assert ends() != before
    box = lanes.bounding_box()
    before = ends()
    page.mouse.move(box["x"] + 300, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 40, steps=4)
    page.mouse.up()
    assert ends() != before and view() == "7.50 µs"
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('.lanes').isConnected")
    assert view() == "3.75 µs"
    page.keyboard.press("0")
    assert view() == "30.0 µs"


def test_two_fingers_zoom(mount):
    page = mount(TraceViewer(document()))
    page.evaluate("""() => {
      const lanes = document.querySelector(".lanes"), box = lanes.getBoundingClientRect();
      lanes.setPointerCapture = () => {};
      const say = (type, pointerId, x) => lanes.dispatchEvent(new PointerEvent(type, { pointerId, clientX: box.left + x, clientY: box.top + 30, bubbles: true }));
      say("pointerdown", 1, 200); say("pointerdown", 2, 300); say("pointermove", 2, 400); say("pointerup", 1, 200); say("pointerup", 2, 400);
    }""")
    assert fact(page, "in view") == "15.0 µs"


def test_the_shipped_trace_is_there_before_any_script_and_light():
    widget = TraceViewer()
    html = still_of(widget)
    assert (
        "nccl" in html
        and len(gzip.compress(json.dumps(widget.trace).encode())) < 40_000
        and len(gzip.compress(html.encode())) < 40_000
    )


def test_a_file_that_is_no_trace_is_refused_in_python_too():
    with pytest.raises(ValueError, match="traceEvents"):
        TraceViewer({"cells": []})


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(TraceViewer(), width=width, scheme=scheme), width)
