"""``configure(c)``: what ``nbgrader_config.py`` sets, in one place."""

import warnings

from nbformat.warnings import DuplicateCellId
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.core.hidden_region import STUB
from autograder.nbgrader import due_dates, students
from autograder.nbgrader.exchange import use_names
from autograder.nbgrader.execute import ExecuteGraded
from autograder.nbgrader.feedback import (
    STYLES,
    TEMPLATES,
    FeedbackExporter,
    FeedbackOfToday,
    HideHiddenTests,
    ShowLedger,
)
from autograder.nbgrader.folders import init_notebooks
from autograder.nbgrader.formgrader import use_in_formgrader
from autograder.nbgrader.gradebook import find_alembic, share_engines
from autograder.nbgrader.inert import EscapeLearners
from autograder.nbgrader.logs import make_printable
from autograder.nbgrader.reading import SubmissionExporter
from autograder.nbgrader.record import SaveLedgerGrades
from autograder.nbgrader.submission import AutogradeSubmissions
from autograder.nbgrader.times import existing_timestamp, parsed_utc, submitted_timestamp


def configure(c: Config) -> None:
    """Everything that makes nbgrader's own commands grade through the referee."""
    from nbgrader.preprocessors import AssignLatePenalties, ClearOutput, GetGrades, OverwriteKernelspec

    c.ClearSolutions.code_stub = {"python": STUB}
    c.Autograde.exporter_class = SubmissionExporter
    # Not CheckCellMetadata: cells are laid out as the release's, whose metadata nbgrader checked when it made them.
    c.Autograde.sanitize_preprocessors = [ClearOutput, OverwriteKernelspec]
    c.Autograde.autograde_preprocessors = [ExecuteGraded, SaveLedgerGrades, AssignLatePenalties]
    c.GenerateFeedback.preprocessors = [GetGrades, EscapeLearners, HideHiddenTests, ShowLedger]
    c.GenerateFeedback.exporter_class = FeedbackExporter
    c.FeedbackExporter.exclude_anchor_links = True
    c.FeedbackExporter.template_name = "course_feedback"
    c.FeedbackExporter.extra_template_basedirs = TEMPLATES
    c.FeedbackExporter.extra_template_paths = STYLES
    _use_our_converters()
    _read_times()
    use_names()
    use_in_formgrader()
    share_engines()
    find_alembic()
    make_printable()
    _quieten()


def _use_our_converters() -> None:
    # nbgrader offers no trait for the converters themselves; its commands look the classes up in
    # these modules. The version is pinned, and tests run both paths.
    from nbgrader.apps import api, autogradeapp, generatefeedbackapp
    from nbgrader.converters.base import BaseConverter

    BaseConverter.init_notebooks = init_notebooks
    api.Autograde = autogradeapp.Autograde = AutogradeSubmissions
    api.GenerateFeedback = generatefeedbackapp.GenerateFeedback = FeedbackOfToday


def _read_times() -> None:
    # nbgrader reads -0800 as 800 seconds, PDT as UTC and 12.10. as the tenth of December.
    from nbgrader import coursedir, utils
    from nbgrader.apps import api, dbapp, zipcollectapp
    from nbgrader.exchange.default import collect

    for module in (utils, coursedir, api, zipcollectapp, collect):
        module.parse_utc = parsed_utc
    coursedir.CourseDirectory.get_existing_timestamp = existing_timestamp
    api.NbGraderAPI.get_submitted_timestamp = submitted_timestamp
    dbapp.DbAssignmentAddApp.start = due_dates.start
    dbapp.DbStudentImportApp.start = students.start


def _quieten() -> None:
    # Known and harmless: nbgrader 0.9.6 under SQLAlchemy 2.1, and notebooks with repeated ids.
    warnings.filterwarnings("ignore", message="Object of type .* not in session", category=SAWarning)
    warnings.filterwarnings("ignore", category=DuplicateCellId)
