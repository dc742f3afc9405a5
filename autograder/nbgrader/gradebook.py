"""How nbgrader's gradebook reaches its database."""

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbgrader.api
from sqlalchemy import Engine, create_engine, make_url

LOCK_SECONDS = 60


@functools.cache
def shared_engine(url: str, **options) -> Engine:
    """One engine a database: its cache of compiled statements outlives a ``Gradebook``.

    SQLite waits ``LOCK_SECONDS`` for another grader's transaction instead of giving up.
    """
    if make_url(url).get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": LOCK_SECONDS}
    return create_engine(url, **options)


def share_engines() -> None:
    """nbgrader opens the gradebook about ten times a submission, each time with a new engine."""
    nbgrader.api.create_engine = shared_engine


def find_alembic() -> None:
    """nbgrader runs ``alembic`` by name, which fails where its environment is not activated."""
    here = str(Path(sys.executable).parent)
    if here not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([here, os.environ.get("PATH", "")])


@contextmanager
def gradebook_of(course: Path) -> Iterator[nbgrader.api.Gradebook | None]:
    """The one that the course's nbgrader_config.py names; None where its file is not there, and none is made."""
    from nbgrader.apps.baseapp import NbGrader

    app = NbGrader()
    app.initialize([f"--CourseDirectory.root={course}", "--log-level=ERROR"])
    url = make_url(app.coursedir.db_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        yield None
        return
    find_alembic()
    with nbgrader.api.Gradebook(app.coursedir.db_url, app.coursedir.course_id) as gradebook:
        yield gradebook
