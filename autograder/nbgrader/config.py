"""``configure(c)``: what ``nbgrader_config.py`` sets, in one place."""

import os
import sys
import warnings
from pathlib import Path

from nbformat.warnings import DuplicateCellId
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.core.hidden_region import STUB
from autograder.nbgrader.execute import ExecuteGraded
from autograder.nbgrader.feedback import STYLES, TEMPLATES, FeedbackExporter, HideHiddenTests, ShowLedger
from autograder.nbgrader.formgrader import use_in_formgrader
from autograder.nbgrader.gradebook import share_engines
from autograder.nbgrader.inert import EscapeLearners
from autograder.nbgrader.reading import SubmissionExporter
from autograder.nbgrader.record import SaveLedgerGrades
from autograder.nbgrader.submission import AutogradeSubmissions


def configure(c: Config) -> None:
    """Everything that makes nbgrader's own commands grade through the referee."""
    from nbgrader.preprocessors import (
        AssignLatePenalties,
        CheckCellMetadata,
        ClearOutput,
        GetGrades,
        OverwriteKernelspec,
    )

    c.ClearSolutions.code_stub = {"python": STUB}
    c.Autograde.exporter_class = SubmissionExporter
    c.Autograde.sanitize_preprocessors = [ClearOutput, OverwriteKernelspec, CheckCellMetadata]
    c.Autograde.autograde_preprocessors = [
        ExecuteGraded,
        SaveLedgerGrades,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.GenerateFeedback.preprocessors = [GetGrades, EscapeLearners, HideHiddenTests, ShowLedger]
    c.GenerateFeedback.exporter_class = FeedbackExporter
    c.FeedbackExporter.exclude_anchor_links = True
    c.FeedbackExporter.template_name = "course_feedback"
    c.FeedbackExporter.extra_template_basedirs = TEMPLATES
    c.FeedbackExporter.extra_template_paths = STYLES
    _use_our_converter()
    use_in_formgrader()
    share_engines()
    _find_alembic()
    _quieten()


def _use_our_converter() -> None:
    # nbgrader offers no trait for the converter itself; its commands look the class up in
    # these two modules. The version is pinned, and a test runs both paths.
    from nbgrader.apps import api, autogradeapp

    api.Autograde = autogradeapp.Autograde = AutogradeSubmissions


def _find_alembic() -> None:
    # nbgrader runs `alembic` by name, which fails when its environment is not activated.
    here = str(Path(sys.executable).parent)
    if here not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([here, os.environ.get("PATH", "")])


def _quieten() -> None:
    # Known and harmless: nbgrader 0.9.6 under SQLAlchemy 2.1, and notebooks with repeated ids.
    warnings.filterwarnings("ignore", message="Object of type .* not in session", category=SAWarning)
    warnings.filterwarnings("ignore", category=DuplicateCellId)
