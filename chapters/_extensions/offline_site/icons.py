"""The icons that a page uses, drawn into it, instead of all of Font Awesome behind it.

The drawings are read from the theme's own copy of Font Awesome (CC BY 4.0, fontawesome.com).
"""

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from sphinx.errors import ExtensionError

DRAWING = re.compile(r'(?:"([\w-]+)"|([a-z]\w*)):\[(\d+),(\d+),(\[[^\]]*\]),"[0-9a-f]+","([^"]*)"\]')
PACK = re.compile(r'\w\("fa([brs])",')
STYLES = {"fab": "b", "fa-brands": "b", "far": "r", "fa-regular": "r", "fas": "s", "fa-solid": "s"}
ICON = re.compile(r'<(i|span) class="([^"]*\bfa[brs]?[ -][^"]*)"([^>]*)></\1>')

# What the theme writes into style sheets as characters of an icon font.
MASKED = {
    ".admonition > .admonition-title": "bell",
    ".admonition.attention > .admonition-title": "circle-exclamation",
    ".admonition.caution > .admonition-title": "triangle-exclamation",
    ".admonition.warning > .admonition-title": "triangle-exclamation",
    ".admonition.danger > .admonition-title": "triangle-exclamation",
    ".admonition.error > .admonition-title": "circle-xmark",
    ".admonition.hint > .admonition-title": "lightbulb",
    ".admonition.tip > .admonition-title": "lightbulb",
    ".admonition.important > .admonition-title": "circle-exclamation",
    ".admonition.note > .admonition-title": "circle-info",
    ".admonition.seealso > .admonition-title": "circle-info",
    "a.reference.download": "download",
}
RULES = """\
/* Written when the book is built: the icons that style sheets show, and how icons stand in a line. */
.svg-inline--fa { display: inline-block; height: 1em; overflow: visible; vertical-align: -0.125em; box-sizing: content-box; }
.svg-inline--fa.fa-lg { font-size: 1.25em; line-height: 0.05em; vertical-align: -0.2em; }
div.admonition > .admonition-title::after, .admonition > .admonition-title::after {
  content: ""; background: currentColor; mask: var(--icon) center / 1rem 1rem no-repeat; }
a.reference.download::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; padding: 0;
  margin-inline-end: 0.3em; background: currentColor; mask: var(--icon) center / contain no-repeat; }
"""
# Rules of the theme's style sheet that draw with the font: .fa, .fas, .fa-list, but not .fade.
FONT_RULES = re.compile(
    r"@font-face\{[^{}]*Font Awesome[^{}]*\}|@(?:-webkit-)?keyframes fa-[\w-]+\{(?:[^{}]+\{[^{}]*\})*\}"
    r"|(?<=[}/])\.fa(?:[brsld]?(?=[:,{ .])|-)[^{}]*\{[^{}]*\}"
)


@cache
def drawings() -> dict[tuple[str, str], tuple[str, str, str]]:
    """Width, height and path of each icon, by style (b, r or s) and name."""
    package = find_spec("pydata_sphinx_theme").submodule_search_locations[0]
    script = Path(package, "theme/pydata_sphinx_theme/static/scripts/fontawesome.js").read_text("utf-8")
    found, begin = {}, 0
    for pack in PACK.finditer(script):
        for quoted, bare, width, height, others, path in DRAWING.findall(script[begin : pack.start()]):
            names = [quoted or bare, *(name for name in json.loads(others) if isinstance(name, str))]
            found |= {(pack[1], name): (width, height, path) for name in names}
        begin = pack.start()
    if not found:
        raise ExtensionError("no icon was found in the theme's Font Awesome: its script has another form now")
    return found


def inline(match: re.Match) -> str:
    """The ``<svg>`` for one element that asks for an icon by its classes."""
    classes, attributes = match[2].split(), match[3]
    style = next((STYLES[name] for name in classes if name in STYLES), "s")
    name = next((c for c in classes if (style, c.removeprefix("fa-")) in drawings()), None)
    if name is None:
        raise ExtensionError(f"no icon for {match[0]}")
    width, height, path = drawings()[style, name.removeprefix("fa-")]
    return (
        f'<svg class="svg-inline--fa {" ".join(classes)}"{attributes} aria-hidden="true" focusable="false" '
        f'viewBox="0 0 {width} {height}"><path fill="currentColor" d="{path}"/></svg>'
    )


def drawn(html: str) -> str:
    """The page with each icon drawn where its name stood."""
    return ICON.sub(inline, html)


def mask(name: str) -> str:
    width, height, path = drawings()["s", name]
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><path d="{path}"/></svg>'
    return f'url("data:image/svg+xml,{quote(svg, safe=" =/:,-.")}")'.replace("%22", "'")


def style_sheet() -> str:
    return RULES + "".join(f"{place} {{ --icon: {mask(name)}; }}\n" for place, name in MASKED.items())


def write(app, error):
    """Write icons.css; take Font Awesome, font and rules, out of the site."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    (static / "icons.css").write_text(style_sheet(), "utf-8")
    theme = static / "styles" / "pydata-sphinx-theme.css"
    theme.write_text(FONT_RULES.sub("", theme.read_text("utf-8")), "utf-8")


def setup(app):
    app.add_css_file("icons.css", priority=300)
    app.connect("build-finished", write)
