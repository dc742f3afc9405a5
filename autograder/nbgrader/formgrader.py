"""nbgrader's page for one submission, in the instructor's own Jupyter: nothing a learner wrote runs there."""

import html

from autograder.nbgrader.inert import EscapeLearners, InertExporter

_NAMES = ("student", "first_name", "last_name", "notebook_path")


class FormgraderExporter(InertExporter):
    """The exporter of the formgrader; its page shares an origin with the whole server, terminals included."""

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs):
        resources = dict(resources or {})
        for name in _NAMES:
            if isinstance(resources.get(name), str):
                resources[name] = html.escape(resources[name])
        return super().from_filename(filename, resources=resources, **kwargs)

    def _init_preprocessors(self) -> None:
        super()._init_preprocessors()
        self.register_preprocessor(EscapeLearners, enabled=True)


def use_in_formgrader() -> None:
    """nbgrader has no trait for the exporter of its formgrader; its module looks the class up by this name."""
    from nbgrader.server_extensions.formgrader import formgrader

    formgrader.HTMLExporter = FormgraderExporter
