"""Editions, launch buttons, error reports, and what `make release` writes."""

import re
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from autograder.authoring.drafts import in_the_book
from autograder.core.edition import edition as asked_for
from autograder.core.published import version
from autograder.grading.shipped import shipped
from autograder.selfcheck.chapters import chapters_in_the_book
from tests.site.probe import probe

ROOT = Path(__file__).parents[2]
URL = "https://github.com/someone/tokens"
CHAPTERS = in_the_book(ROOT / "exercises")


@pytest.fixture(scope="module")
def edition():
    sys.path.insert(0, str(ROOT / "chapters" / "_extensions"))
    import edition

    sys.path.pop(0)
    return edition


def told(edition, page: str, url: str) -> dict:
    """What a page's template is told in a book whose repository is at ``url``."""
    context = {"header_buttons": []}
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options={"repository_url": url}))
    edition._tell_page(app, page, "page.html", context, object())
    return context


def test_every_page_names_its_edition_and_how_to_cite_it(site, pages, edition):
    for page in pages:
        said = re.findall(r'<p class="edition">(.*?)</p>', (site / page).read_text("utf-8"), re.S)
        assert len(said) == (page.name != "index.html" or page.parent != Path()), (
            page
        )  # the front page is a picture of its own
        assert all(f"Edition {edition.version()} of 20" in one and "#licence-and-citation" in one for one in said)


def test_the_edition_to_cite_is_this_one(edition):
    assert f"Edition {edition.version()}" in (ROOT / "chapters" / "sources.md").read_text("utf-8")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == edition.version()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_without_an_address_no_button_leads_anywhere(site, chapter):
    (page,) = site.glob(f"chapters/*/{chapter}.html")
    text = page.read_text("utf-8")
    assert not re.search("colab|mybinder|Report an error", text)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_with_an_address_a_chapter_opens_its_own_exercises(edition, chapter):
    (group,) = told(edition, f"chapters/device/{chapter}", URL)["header_buttons"]
    colab, binder = (button["url"] for button in group["buttons"])
    assert urlsplit(colab).path == f"/github/someone/tokens/blob/gh-pages/exercises/{chapter}.ipynb"
    assert urlsplit(binder).path == "/v2/gh/someone/tokens/main"
    assert parse_qs(urlsplit(binder).query) == {"urlpath": [f"lab/tree/{chapter}.ipynb"]}


def test_the_graded_edition_says_so_and_leads_to_no_image_that_holds_solutions(edition, monkeypatch):
    for name, value in asked_for("graded").environment().items():
        monkeypatch.setenv(name, value)
    context = told(edition, f"chapters/device/{CHAPTERS[0]}", URL)
    assert context["edition"].startswith(f"{edition.version()} (graded) of 20") and context["header_buttons"] == []


def test_with_an_address_an_error_is_reported_with_page_and_edition(edition):
    context = told(edition, "chapters/folklore", URL)
    asked = urlsplit(context["report_url"])
    assert asked.path == "/someone/tokens/issues/new"
    assert f"Page: chapters/folklore\nEdition: {edition.version()} of " in parse_qs(asked.query)["body"][0]
    assert context["header_buttons"] == []


def test_an_address_that_is_not_understood_stops_the_build(edition):
    with pytest.raises(ValueError, match="https://github.com/"):
        told(edition, "chapters/folklore", "git@example.org:tokens")


@pytest.fixture(scope="module")
def released(site, tmp_path_factory):
    """The folder of a release of the built site."""
    sys.path.insert(0, str(ROOT / "tools"))
    import release

    sys.path.pop(0)
    built = release.Built(site, ROOT / "_build" / "exercises")
    folder = tmp_path_factory.mktemp("release") / "release"
    release.write(built, folder, f"tensors-to-tokens-{version(ROOT)}")
    return folder


def test_a_release_is_the_site_the_notebooks_the_wheels_and_their_sums(released, edition):
    name, wheels = (
        f"tensors-to-tokens-{edition.version()}",
        [f"{one}-{edition.version()}-py3-none-any.whl" for one in ("gpulab", "gpulab_mark")],
    )
    assert sorted(path.name for path in released.iterdir()) == sorted(
        [f"{name}-site.zip", f"{name}-notebooks.zip", *wheels, "SHA256SUMS"]
    )
    held = {Path(one).name for one in zipfile.ZipFile(released / f"{name}-notebooks.zip").namelist()}
    assert held == {f"{chapter}.ipynb" for chapter in CHAPTERS}
    assert len((released / "SHA256SUMS").read_text().splitlines()) == 4


def test_of_what_every_edition_ships_nothing_holds_a_solution_and_the_open_one_s_marker_does(released):
    chapters = chapters_in_the_book()
    found = shipped(released, chapters)
    assert {
        f"the solution of {chapter.name}.{name}" for chapter in chapters for name in chapter.functions.values()
    } <= {one.what for one in found}
    assert [one for one in found if "gpulab_mark" not in one.where] == []


def test_the_released_site_opens_from_disk(released, browser, tmp_path):
    (archive,) = released.glob("*-site.zip")
    zipfile.ZipFile(archive).extractall(tmp_path)
    (site,) = tmp_path.iterdir()
    report = probe(browser.new_context(), (site / "chapters" / "tensors" / "views.html").as_uri(), accessibility=False)
    assert report.findings == [] and report.widgets > 0
    assert {path.name for path in (site / "exercises").glob("*.ipynb")} == {f"{chapter}.ipynb" for chapter in CHAPTERS}


def test_the_image_is_made_of_what_the_repository_holds():
    text = (ROOT / "binder" / "Dockerfile").read_text("utf-8")
    copied = [line.split()[1] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line]
    assert copied and all((ROOT / name).exists() for name in copied)
    assert text.count("--constraint") == 2 and "autograder downloads" in text
    assert (
        '--edition "${EDITION}" --service "${MARKING_SERVICE}" --to _build/exercises' in text
        and "ARG EDITION=open" in text
    )


@pytest.mark.parametrize("name", ["test", "publish"])
def test_a_workflow_runs_make_targets_that_exist(name):
    steps = [
        step
        for job in yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))["jobs"].values()
        for step in job["steps"]
    ]
    called = re.findall(r"\bmake (\w+)", "\n".join(step.get("run", "") for step in steps))
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1].split()
    assert called and set(called) <= set(targets)
