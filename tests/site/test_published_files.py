"""What can be judged without a browser: descriptions, icons, links, alt texts, widgets."""

import json
import re
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from gpulab.book.contents import Contents
from tests.site.conftest import ROOT

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
NEEDS_NO_KERNEL = {"LayoutModel", "LinkModel", "DirectionalLinkModel"}
CODE_CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}.*?\n(.*?)^\1", re.M | re.S)
# interact() and widget.observe() call Python when the reader moves something; here nobody answers.
CALLS_THE_KERNEL = re.compile(r"\binteract(?:ive\w*|_manual)?\s*\(|(?<!gpulab)\.observe\(|\.on_(?:click|msg)\(")


@pytest.fixture(scope="module")
def soups(site, pages):
    return {page: BeautifulSoup((site / page).read_text(), "html.parser") for page in pages}


def kernel_widgets(soup):
    """Names of the page's widget models that no static page can host."""
    states = [json.loads(tag.string)["state"] for tag in soup.find_all("script", type=WIDGET_STATE)]
    models = [model for state in states for model in state.values()]
    hosted = lambda model: model["model_module"] == "anywidget" or model["model_name"] in NEEDS_NO_KERNEL
    return [model["model_name"] for model in models if not hosted(model)]


def kernel_calls(markdown):
    """Calls in a chapter's code cells that need a kernel behind the page."""
    cells = [cell for _, cell in CODE_CELL.findall(markdown)]
    return [call for cell in cells for call in CALLS_THE_KERNEL.findall(cell)]


def unnamed_pictures(soup):
    """Pictures that say nothing to a screen reader, and neither decorate nor stand in a named link."""
    images = [image for image in soup.find_all("img") if not image.get("alt", "").strip()]
    images = [image for image in images if not (image.parent.name == "a" and image.parent.get_text(strip=True))]
    drawings = [
        svg
        for svg in soup.find_all("svg")
        if svg.get("aria-hidden") != "true" and not (svg.get("role") == "img" and svg.get("aria-label"))
    ]
    return [str(picture)[:120] for picture in images + drawings]


def broken_links(site, page, soup, ids):
    """Links and resources of a page that lead nowhere inside the site."""
    tags = soup.find_all(["a", "link", "script", "img"])
    targets = [value for tag in tags for value in [tag.get("href") or tag.get("src")] if value]
    return [target for target in targets if is_internal(target) and not leads(site, page, target, ids)]


def is_internal(target):
    parts = urlsplit(target)
    return not parts.scheme and not parts.netloc


def leads(site, page, target, ids):
    parts = urlsplit(target)
    file = ((site / page).parent / unquote(parts.path)).resolve() if parts.path else (site / page).resolve()
    if not file.is_file() or not file.is_relative_to(site):
        return False
    fragment = unquote(parts.fragment)
    return not fragment or file.suffix != ".html" or fragment in ids[file]


@pytest.fixture(scope="module")
def ids(site, soups):
    return {
        (site / page).resolve(): {"", *(tag["id"] for tag in soup.find_all(id=True))} for page, soup in soups.items()
    }


def test_chapters_alone_become_pages(pages):
    strangers = [str(page) for page in pages if page.parts[0] != "chapters" and page.name != "search.html"]
    assert not strangers


def test_internal_links_resolve(site, soups, ids):
    broken = {str(page): broken_links(site, page, soup, ids) for page, soup in soups.items()}
    assert not {page: links for page, links in broken.items() if links}


def test_the_link_check_finds_a_missing_page_and_a_missing_section(site, soups, ids):
    page = next(iter(soups))
    bad = BeautifulSoup('<a href="nowhere.html">x</a><a href="#no-such-section">y</a>', "html.parser")
    assert broken_links(site, page, bad, ids) == ["nowhere.html", "#no-such-section"]


def test_every_page_has_a_title_and_its_own_description(soups):
    descriptions = {}
    for page, soup in soups.items():
        assert soup.title.string.strip(), page
        tags = soup.find_all("meta", attrs={"name": "description"})
        assert len(tags) == 1 and len(tags[0]["content"].strip()) >= 30, f"{page}: description"
        descriptions[page] = tags[0]["content"]
    assert len(set(descriptions.values())) == len(descriptions), "two pages share a description"


def test_every_page_has_a_favicon(site, soups):
    for page, soup in soups.items():
        icons = [link["href"] for link in soup.find_all("link", rel="icon")]
        assert any(icon.split("?")[0].endswith("favicon.svg") for icon in icons), page


def test_the_front_door_has_an_icon_and_a_description(site):
    door = BeautifulSoup((site / "index.html").read_text(), "html.parser")
    assert door.find("link", rel="icon") and door.find("meta", attrs={"name": "description"})


def test_every_picture_has_a_text(soups):
    unnamed = {str(page): unnamed_pictures(soup) for page, soup in soups.items()}
    assert not {page: pictures for page, pictures in unnamed.items() if pictures}


def test_a_picture_without_a_text_is_found():
    assert unnamed_pictures(BeautifulSoup('<img src="a.png"><svg role="img"></svg>', "html.parser"))


def test_no_published_widget_needs_a_kernel(soups):
    assert not {str(page): kernel_widgets(soup) for page, soup in soups.items() if kernel_widgets(soup)}


def test_a_widget_that_needs_a_kernel_is_found():
    state = {"state": {"1": {"model_module": "@jupyter-widgets/controls", "model_name": "IntSliderModel"}}}
    page = f'<script type="{WIDGET_STATE}">{json.dumps(state)}</script>'
    assert kernel_widgets(BeautifulSoup(page, "html.parser")) == ["IntSliderModel"]


def published_sources():
    return [ROOT / f"{page}.md" for page in Contents.read(ROOT).pages]


def test_no_published_cell_calls_the_kernel():
    calls = {file.name: kernel_calls(file.read_text()) for file in published_sources()}
    assert not {name: found for name, found in calls.items() if found}


@pytest.mark.parametrize(
    "line", ["interact(plot, x=3)", "w = interactive(plot)", "slider.observe(draw)", "button.on_click(go)"]
)
def test_a_cell_that_calls_the_kernel_is_found(line):
    assert kernel_calls(f"```{{code-cell}} ipython3\n{line}\n```\n")


def test_a_cell_that_observes_with_gpulab_is_let_through():
    assert not kernel_calls("```{code-cell} ipython3\nwith gpulab.observe() as seen:\n    pass\n```\n")


def test_no_heavy_widget_host_is_published(site):
    published = [str(file.relative_to(site)) for file in site.rglob("*.js") if "mathjax" not in file.parts]
    assert not [name for name in published if re.search(r"require(js)?(\.min)?\.js|embed-amd|html-manager", name)]


def test_no_page_asks_for_an_icon_font_or_a_script_of_formulas(soups):
    asked = [str(tag) for soup in soups.values() for tag in soup.find_all(["script", "link"], src=True)]
    assert asked and not [tag for tag in asked if re.search(r"fontawesome|mathjax", tag, re.I)]
    assert any(soup.find("math") for soup in soups.values())


def test_icons_are_drawn_in_the_page(soups):
    named = [str(tag) for soup in soups.values() for tag in soup.select("i[class*=fa-], span[class*=fa-]")]
    assert not named and all(soup.select("svg.svg-inline--fa path[d]") for soup in soups.values())


def test_a_widget_is_stored_once(site, soups):
    """A file of the site for each kind of widget; a page's state only names it."""
    files = sorted((site / "_static" / "widgets").glob("*.js"))
    assert len({file.name.rpartition("-")[0] for file in files}) == len(files) > 5
    tags = [tag.string for soup in soups.values() for tag in soup.find_all("script", type=WIDGET_STATE)]
    models = [model["state"] for tag in tags for model in json.loads(tag)["state"].values()]
    assert {model["_esm"] for model in models if "_esm" in model} == {f"shared:{file.stem}" for file in files}
    assert not [model for model in models if "_css" in model]
