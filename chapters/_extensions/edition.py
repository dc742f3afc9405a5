"""Sphinx extension: which edition a page is of, where to report an error in it, and how to start its exercises elsewhere.

All addresses follow from one: ``repository: url:`` in _config.yml. While that is empty a page shows none of them.
"""

import subprocess
from datetime import date
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from autograder.core import published
from autograder.core.edition import of_this_build

ROOT = Path(__file__).parents[2]
GITHUB = "https://github.com/"
PUBLISHED = "gh-pages"
"""The branch that holds the published site."""


@cache
def version() -> str:
    return published.version(ROOT)


@cache  # git is asked once, not for each page
def last_commit() -> str:
    """Date and short hash of the last commit; where there is no git, today."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs, commit %h"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return date.today().isoformat()


def repository(app) -> str:
    """The address on GitHub, without a slash at its end; empty while there is none."""
    url = (app.config.html_theme_options.get("repository_url") or "").rstrip("/")
    if url and not url.startswith(GITHUB):
        raise ValueError(
            f"_config.yml: repository url is {url!r}: an address that begins with {GITHUB} is known, or none"
        )
    return url


def launches(app, chapter: str) -> dict[str, str]:
    """By name, the addresses that open a chapter's exercises; none while there is no repository.

    None in the graded edition: the image that Binder makes of the repository marks on the learner's side, with the solutions.
    """
    if of_this_build().graded or not (path := repository(app).removeprefix(GITHUB)):
        return {}
    branch = app.config.html_theme_options.get("repository_branch") or "main"
    return {
        "Colab": f"https://colab.research.google.com/github/{path}/blob/{PUBLISHED}/exercises/{chapter}.ipynb",
        "Binder": f"https://mybinder.org/v2/gh/{path}/{branch}?" + urlencode({"urlpath": f"lab/tree/{chapter}.ipynb"}),
    }


def report(url: str, page: str, edition: str) -> str:
    """The address of a new issue that names the page and the edition."""
    body = f"Page: {page}\nEdition: {edition}\n\nWhat is wrong, and what settles it:\n"
    return f"{url}/issues/new?" + urlencode({"title": f"Error on {page}", "body": body}, quote_via=quote)


def has_exercises(chapter: str) -> bool:
    return (ROOT / "exercises" / chapter / "notebook.py").is_file()


def _tell_page(app, pagename, templatename, context, doctree):
    graded = " (graded)" * of_this_build().graded
    url, edition = repository(app), f"{version()}{graded} of {last_commit()}"
    context["edition"] = edition
    context["report_url"] = report(url, pagename, edition) if url and doctree is not None else ""
    chapter = Path(pagename).name
    if has_exercises(chapter) and (addresses := launches(app, chapter)):
        buttons = [
            {
                "type": "link",
                "url": address,
                "text": name,
                "tooltip": f"Open this chapter's exercises in {name}",
                "icon": "fas fa-rocket",
            }
            for name, address in addresses.items()
        ]
        group = {
            "type": "group",
            "tooltip": "Open the exercises elsewhere",
            "icon": "fas fa-rocket",
            "label": "launch-buttons",
        }
        context["header_buttons"].insert(0, group | {"buttons": buttons})


def setup(app):
    # After the theme has begun its list of buttons (501 adds to it).
    app.connect("html-page-context", _tell_page, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
