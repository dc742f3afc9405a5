"""Cases that are drawn once."""

from autograder.authoring.drawn import Drawn


def test_cases_are_drawn_as_far_as_somebody_comes_and_once_for_all():
    said = []

    def draw():
        for number in range(4):
            said.append(number)
            yield number

    drawn = Drawn(draw)
    assert said == []
    first, second = iter(drawn), iter(drawn)
    assert [next(first), next(first), next(second)] == [0, 1, 0] and said == [0, 1]
    assert list(drawn) == [0, 1, 2, 3] == [0, 1, *first] and list(second) == [1, 2, 3] and said == [0, 1, 2, 3]
