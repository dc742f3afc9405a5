"""By what the service knows a learner."""

import stat

import pytest

from autograder.marking.tokens import secret_of, student_of, token_of

SECRET = b"of this course"


@pytest.mark.parametrize("student", ["ada", "Ada Lovelace", "übung-7", "a.b=c", "x" * 300])
def test_a_token_tells_whose_it_is(student):
    token = token_of(student, SECRET)
    assert student_of(token, SECRET) == student
    assert token.isascii() and not set(token) & set(" ,\"'$\\")


@pytest.mark.parametrize(
    "forged",
    [
        "",
        ".",
        "ada",
        "YWRh.",
        f"YWRh.{'a' * 32}",
        token_of("ada", b"of another course"),
        token_of("ada", SECRET)[:-1],
        token_of("bob", SECRET).replace("Ym9i", "YWRh"),
        "\u00e9.\u00e9",
        f".{token_of('', SECRET).partition('.')[2]}",
    ],
)
def test_what_the_course_did_not_write_is_nobodys(forged):
    assert student_of(forged, SECRET) is None


def test_a_course_has_one_secret_which_its_owner_alone_can_read(tmp_path):
    one = secret_of(tmp_path / "marking")
    assert secret_of(tmp_path / "marking") == one != secret_of(tmp_path / "another")
    assert stat.S_IMODE((tmp_path / "marking" / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "marking").stat().st_mode) == 0o700
