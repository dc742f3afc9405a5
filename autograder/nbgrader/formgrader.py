"""nbgrader's Formgrader, in the instructor's own Jupyter: nothing a learner wrote runs there, and no link leads to another course."""

import html
from pathlib import Path

import jinja2
from jinja2.ext import Extension
from nbgrader.server_extensions.formgrader import formgrader, handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler, check_notebook_dir, check_xsrf
from tornado import web

from autograder.core.ledger import Ledger
from autograder.nbgrader import content_security
from autograder.nbgrader.flagged import WithFlags, to_look_at
from autograder.nbgrader.inert import EscapeLearners, InertExporter

_NAMES = ("student", "first_name", "last_name", "notebook_path")


class FormgraderExporter(InertExporter):
    """The exporter of the formgrader; its page shares an origin with the whole server, terminals included."""

    nonce = ""
    """Of the page that is made next."""
    course = ""
    """The folder of the course that it shows."""

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs):
        resources = {**(resources or {}), "nonce": self.nonce}
        resources["to_look_at"] = to_look_at(Ledger(self.course), resources)
        for name in _NAMES:
            if isinstance(resources.get(name), str):
                resources[name] = html.escape(resources[name])
        return super().from_filename(filename, resources=resources, **kwargs)

    def _init_preprocessors(self) -> None:
        super()._init_preprocessors()
        self.register_preprocessor(EscapeLearners, enabled=True)

    def _create_environment(self) -> jinja2.Environment:
        environment = super()._create_environment()
        environment.add_extension(content_security.WithNonces)
        environment.add_extension(WithFlags)
        return environment


def use_in_formgrader() -> None:
    """nbgrader has no traits for the parts of its formgrader; its modules look them up by these names."""
    formgrader.HTMLExporter = FormgraderExporter
    formgrader.Environment = _Environment
    BaseHandler.nonce = property(_nonce)
    BaseHandler.content_security_policy = property(lambda handler: content_security.policy(handler.nonce))
    BaseHandler.exporter = property(_exporter)
    BaseHandler.render = _render
    handlers.SubmissionFilesHandler.content_security_policy = content_security.FILES
    handlers.FormgraderHandler.get = _open_this_course


def add_page(address: str, handler: type[BaseHandler], leads_there: type[Extension]) -> None:
    """One page more, whose ``address`` nbgrader's server extension takes up with its own, and what puts links to it into its templates.

    A course may be configured more than once.
    """
    if (address, handler) not in handlers.default_handlers:
        handlers.default_handlers.append((address, handler))
        _Environment.of_pages.append(leads_there)


class _Environment(jinja2.Environment):
    of_pages: list[type[Extension]] = [content_security.WithNonces]

    def __init__(self, **options) -> None:
        super().__init__(**options, extensions=self.of_pages)


def _nonce(handler: BaseHandler) -> str:
    """One for each request."""
    return handler.__dict__.setdefault("_course_nonce", content_security.new_nonce())


def _exporter(handler: BaseHandler) -> FormgraderExporter:
    exporter = handler.settings["nbgrader_exporter"]
    exporter.nonce = handler.nonce
    exporter.course = handler.coursedir.root
    exporter.host = handler.request.host_name
    return exporter


def _render(handler: BaseHandler, name: str, **values) -> str:
    template = handler.settings["nbgrader_jinja2_env"].get_template(name)
    return template.render(nonce=handler.nonce, **values)


@web.authenticated
@check_xsrf
@check_notebook_dir
def _open_this_course(handler: handlers.FormgraderHandler) -> None:
    """nbgrader's own runs the nbgrader_config.py of whatever folder the address names, a learner's among them."""
    root = Path(handler.coursedir.root).resolve()
    asked = handler.get_argument("path", "")
    if asked and Path(asked).resolve() != root:
        handler.set_status(403)
        handler.set_header("Content-Type", "text/plain; charset=utf-8")
        handler.finish(f"This Formgrader works on the course in {root} alone. For another: COURSE=/its/folder make lab")
        return
    handler.redirect(f"{handler.base_url}/formgrader/manage_assignments")
