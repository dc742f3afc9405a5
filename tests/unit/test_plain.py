"""Numbers as Python's own, whichever library made them."""

from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

from autograder.runner.plain import plain

Pair = namedtuple("Pair", "one two")


class Half(float):
    """Equal to whatever one likes."""

    __eq__ = lambda self, other: True
    __add__ = __radd__ = lambda self, other: self


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (Half(0.5), 0.5),
        (Pair(np.float64(1.5), 2), (1.5, 2)),
        ([np.int32(1), None], [1, None]),
        (defaultdict(float, a=np.float64(2.0)), {"a": 2.0}),
        (OrderedDict(a=[np.int8(1)]), {"a": [1]}),
    ],
)
def test_numbers_and_what_holds_them_are_pythons_own(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert [type(each) for each in _inside(found)] == [type(each) for each in _inside(expected)]


def _inside(value):
    return (
        list(value.values())
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, (list, tuple))
        else [value]
    )


def test_what_is_no_number_is_left():
    told = object()
    assert plain(told) is told
    assert plain(True) is True
    assert plain("1.0") == "1.0"
