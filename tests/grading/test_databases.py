"""Several graders write one gradebook: SQLite, and PostgreSQL on a cluster."""

import pytest
from nbgrader.api import Gradebook

from tests.faults.conftest import grade_to_the_end
from tests.forks import forks
from tests.grading.conftest import scheduler_and_workers
from tests.grading.consistent import assert_consistent

WRITERS, ROUNDS = 4, 25


def _write(url: str, writer: int) -> None:
    from autograder.nbgrader.gradebook import share_engines

    share_engines()
    for number in range(ROUNDS):
        with Gradebook(url) as gradebook:
            gradebook.update_or_create_student(f"s{writer}_{number}")
            gradebook.update_or_create_submission("views", f"s{writer}_{number}")


def _write_at_once(url: str) -> list[int | None]:
    writers = [forks.Process(target=_write, args=(url, number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return [writer.exitcode for writer in writers]


def test_four_writers_of_a_sqlite_gradebook_lose_nothing(group):
    url = f"sqlite:///{group.root / 'gradebook.db'}"
    assert _write_at_once(url) == [0] * WRITERS
    with Gradebook(url) as gradebook:
        assert len(gradebook.assignment_submissions("views")) == WRITERS * ROUNDS


def test_a_gradebook_may_be_postgresqls(group, postgresql_url):
    group.release_into(postgresql_url)
    group.hand_in("right", group.answered())
    assert grade_to_the_end(group, f"--CourseDirectory.db_url={postgresql_url}") == 0
    assert_consistent(group.root, group.chapter, postgresql_url)
    assert not (group.root / "gradebook.db").exists()


@pytest.mark.audit
def test_a_cluster_grades_into_postgresql(group, postgresql_url):
    option = f"--CourseDirectory.db_url={postgresql_url}"
    group.release_into(postgresql_url)
    group.hand_in_all()
    with scheduler_and_workers(2) as address:
        run = group.command("--scheduler", address, option)
        assert run.returncode == 0, run.stdout + run.stderr
        again = group.command("--scheduler", address, option)
    assert "graded: 3 of 3" in run.stdout and "graded: 0 of 3" in again.stdout
    assert_consistent(group.root, group.chapter, postgresql_url)
    assert not (group.root / "gradebook.db").exists()
