"""The release of a chapter, as submissions are held against it."""

import pytest
from nbgrader.api import Gradebook

from autograder.intake.released import Released
from autograder.nbgrader.released import released_notebooks
from tests.pipeline.conftest import Course, course  # noqa: F401


@pytest.fixture(scope="session")
def views(course: Course) -> Released:  # noqa: F811
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        return released_notebooks(gradebook, "views")["views"]
