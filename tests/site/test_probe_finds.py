"""The browser probe of a page finds every kind of defect: each page here has exactly one."""

import pytest

from tests.site.probe import probe, reader

PAGE = """<!doctype html><html lang="en"><head><title>A page</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"></head>
<body><main><h1>A page</h1>{fault}</main></body></html>"""

VIEW = '<script type="application/vnd.jupyter.widget-view+json">{"model_id": "m"}</script>'
DRAWN = '<script>document.documentElement.dataset.widgets = "drawn"</script>'

FAULTS = {
    "external-request": ('<img alt="" src="https://example.org/a.png">', "request leaves the machine"),
    "missing-file": ('<script src="nowhere.js"></script>', "404: "),
    "console-error": ('<script>console.error("broken")</script>', "console error: broken"),
    "console-warning": ('<script>console.warn("careful")</script>', "console warning: careful"),
    "exception": ("<script>throw new Error('lost')</script>", "page error: lost"),
    "unlabelled-button": ("<button></button>", "axe button-name"),
    "low-contrast": ('<p style="color:#aaa;background:#fff">pale</p>', "axe color-contrast"),
    "low-contrast-of-code": (
        '<pre style="background:#fff"><span class="k">def</span> <span class="k">if</span> <span class="n" style="color:#aaa">pale</span></pre>',
        "axe color-contrast",
    ),
    "dead-widget": (f'<div class="anywidget-view"></div>{VIEW}{DRAWN}', "1 of 1 widgets drew nothing"),
    "widget-in-words": (
        f'<div class="anywidget-view"><p class="widget-error">It did not start.</p></div>{VIEW}{DRAWN}',
        "1 of 1 widgets drew nothing",
    ),
    "raw-mathematics": ('<span class="math">\\(x\\)</span>', "mathematics not set"),
    "wide-page": ('<div style="width:3000px">wide</div>', "px wider than the screen"),
    "broken-image": ('<img alt="a drawing" src="data:image/png;base64,AAAA">', "images that do not load"),
    "wrong-theme": ('<script>document.documentElement.dataset.theme = "dark"</script>', "asked for light"),
}


@pytest.fixture(scope="module")
def faulty(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    for name, (fault, _) in FAULTS.items():
        (folder / f"{name}.html").write_text(PAGE.format(fault=fault))
    (folder / "sound.html").write_text(PAGE.format(fault="<p>Nothing is wrong here.</p>"))
    return serve(folder)


@pytest.fixture(scope="module")
def context(browser):
    with reader(browser) as context:
        context.set_default_timeout(60_000)
        yield context


@pytest.mark.parametrize("name", FAULTS)
def test_probe_names_the_fault(context, faulty, monkeypatch, name):
    monkeypatch.setattr("tests.site.probe.settle.__defaults__", (500,))
    sentence = FAULTS[name][1]
    findings = probe(context, f"{faulty}/{name}.html", accessibility=sentence.startswith("axe")).findings
    assert any(sentence in finding for finding in findings), findings


def test_probe_finds_nothing_wrong_with_a_sound_page(context, faulty):
    assert probe(context, f"{faulty}/sound.html").findings == []
