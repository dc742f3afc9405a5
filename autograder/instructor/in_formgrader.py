"""Where the class stands, one click from the Formgrader's pages of an assignment: what ``python -m autograder report`` writes, as of now."""

from pathlib import Path

from jinja2.ext import Extension
from nbgrader.server_extensions.formgrader.base import BaseHandler, check_notebook_dir, check_xsrf
from nbgrader.server_extensions.formgrader.handlers import template_path
from tornado import web

from autograder.core.problems import Unreadable
from autograder.instructor.named import Named
from autograder.instructor.page import page
from autograder.instructor.standing import standing
from autograder.nbgrader.formgrader import add_page

ADDRESS = r"/formgrader/class/([^/]+)/?"
_OF_AN_ASSIGNMENT = """  <li class="active">{{ assignment_id }}</li>
</ol>"""
_LINK = """
<p><a id="class-report" href="{{ base_url }}/formgrader/class/{{ assignment_id | urlencode }}">Where the class stands: \
misconceptions, and what was lost without a name</a></p>"""


def show_report() -> None:
    add_page(ADDRESS, ClassReport, WithReport)


class WithReport(Extension):
    """Puts the link below the heading of nbgrader's own pages of one assignment, which have no block for it."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        if filename is None or not Path(filename).is_relative_to(template_path):
            return source
        return source.replace(_OF_AN_ASSIGNMENT, _OF_AN_ASSIGNMENT + _LINK)


class ClassReport(BaseHandler):
    """The page, made anew at each request and kept nowhere. No script runs on it."""

    content_security_policy = (
        "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
    )

    @web.authenticated
    @check_xsrf
    @check_notebook_dir
    def get(self, assignment: str) -> None:
        try:
            found = standing(Path(self.coursedir.root), _one_name(assignment))
            self.finish(page(found, Named(found, published=True)))
        except (LookupError, Unreadable) as why:
            self.set_status(404)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"There is no report: {why}")


def _one_name(assignment: str) -> str:
    """What an address spells may hold slashes: that would be another folder. Raises LookupError."""
    if Path(assignment).name != assignment or "\0" in assignment:
        raise LookupError(f"{assignment!r} is no assignment")
    return assignment
