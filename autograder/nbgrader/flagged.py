"""What of a submission's code a person should look at, above it on the Formgrader's page."""

from html import escape
from pathlib import Path

from jinja2.ext import Extension
from nbgrader.server_extensions.formgrader.handlers import template_path

from autograder.core.flag import Flag
from autograder.core.ledger import Ledger
from autograder.core.printable import visible
from autograder.core.report import with_code

_BEFORE = '<div id="notebook" class="border-box-sizing">'
_MOST = 40
"""Places that are shown."""
# nbgrader's own script shows Resolve where points were given by hand alone.
_HEAD = """<style>.pull-right:has(.score.needs_manual_grade) .mark-graded { display: inline-block !important; }</style>
<div class="alert alert-warning" id="to-look-at">
<p><strong>Look at these places before you release the grade.</strong> They use what no exercise needs, and some of it can make a
wrong answer count. They cost no points: <em>Resolve</em> below keeps the points as they are.</p>
<ul>"""


def to_look_at(ledger: Ledger, resources: dict) -> str:
    """HTML, empty where nothing was flagged. ``resources``: the Formgrader's, as ``{"assignment_id": "views", ...}``."""
    entry = ledger.read(resources.get("assignment_id", ""), resources.get("student", ""))
    flags = [flag for flag in entry.flags if flag.notebook == resources["notebook_id"]] if entry else []
    more = f"<li>and {len(flags) - _MOST} more places: see the ledger</li>" if len(flags) > _MOST else ""
    return f"{_HEAD}{''.join(map(_item, flags[:_MOST]))}{more}</ul></div>" if flags else ""


def _item(flag: Flag) -> str:
    place, code = (escape(visible(text)) for text in (flag.place, flag.code))
    return f"<li><strong>{place}</strong>: {with_code(visible(flag.reason))}<br><code>{code}</code></li>"


class WithFlags(Extension):
    """Puts them into the source of nbgrader's own template, which has no block for it."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        if filename is None or not Path(filename).is_relative_to(template_path):
            return source
        return source.replace(_BEFORE, "{{ resources.to_look_at | safe }}" + _BEFORE)
