"""What an instructor writes after --tries."""

import pytest

from autograder.marking.limits import limits

CHAPTERS = ["views", "kernels"]


def test_a_number_is_for_every_chapter_and_a_named_one_for_its_own():
    given = limits(["3", "views=10", "kernels=0"], CHAPTERS)
    assert (given.of("views"), given.of("kernels"), given.of("streams")) == (10, 0, 3)


def test_without_a_number_there_are_five_tries():
    assert limits([], CHAPTERS).of("views") == limits(["kernels=1"], CHAPTERS).of("views") == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("many", "a number of tries"),
        ("-1", "a number of tries"),
        ("=3", "no chapter ''"),
        ("veiws=3", "There are views, kernels"),
    ],
)
def test_what_is_no_number_and_no_chapter_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        limits([text], CHAPTERS)
