"""E5.3 move_to: the nestings that are handed in, as plain data, and how what came back differs."""

from typing import Any

from autograder.judge.expect import type_name

FORMS = ("tensor", "list", "tuple", "namedtuple", "dict", "nothing", "pairs")
"""Of one tensor. Of several there are ``plain``, a list that any function gets right, and ``all``."""
_KINDS = ("list", "tuple", "namedtuple", "dict", "OrderedDict")
PLAIN, REPEATED = 7, 6
"""How many tensors a plain list has, and the number of the one that stands there twice."""


def _tensor(number: int) -> list:
    return ["tensor", number]


def _other(value: Any) -> list:
    return ["other", value]


def expected_nesting(form: str) -> list:
    """The nesting that was handed in: each tensor by its place among the case's tensors."""
    alone = {
        "tensor": _tensor(0),
        "list": ["list", [_tensor(0), ["list", []], ["dict", []]]],
        "tuple": ["tuple", [_tensor(0)]],
        "namedtuple": ["Observed", [_tensor(0), _other(None), ["tuple", []]]],
        "dict": ["dict", [["rest", ["list", []]], ["pair", ["tuple", []]], [3, _tensor(0)]]],
        "nothing": _other("reach the red cube"),
    }
    if form in alone:
        return alone[form]
    if form == "plain":
        return ["list", [_tensor(number) for number in (*range(PLAIN), REPEATED)]]
    if form == "pairs":
        return [
            "list",
            [_holding([_holding([_tensor(0), _other(inner)], inner) for inner in _KINDS], outer) for outer in _KINDS],
        ]
    state = ["dict", [["joints", _tensor(1)], ["ids", ["list", [_tensor(2), _other(7)]]]]]
    sample = ["Observed", [_tensor(0), state, _other("reach the red cube")]]
    several = ["list", [_other(None), ["tuple", [_tensor(6), _other(2.5)]], _tensor(6), _other(True), ["camera"]]]
    within = ["Observed", [_tensor(4), _other(0), ["list", [_tensor(5)]]]]
    third = ["Observed", [within, ["tuple", [["tuple", []]]], ["dict", []]]]
    least = ["list", [_tensor(7), _tensor(8), _tensor(9)]]
    inner = [[2, ["tuple", [_tensor(3), ["list", [_tensor(6)]]]]], [1, ["set"]], [None, third], ["least", least]]
    return ["OrderedDict", [["first", _tensor(10)], ["z", sample], ["a", several], ["m", ["dict", inner]]]]


def _holding(items: list, kind: str) -> list:
    if kind == "namedtuple":
        return ["Observed", [*items[:2], ["list", items[2:]]]]
    if kind in ("dict", "OrderedDict"):
        return [kind, [[f"{len(items) - number}", item] for number, item in enumerate(items)]]
    return [kind, items]


def difference(found: Any, expected: list, pairs: list[tuple[int, int]]) -> str | None:
    """Why two described nestings differ; ``pairs``: (tensor of the case, tensor that came back)."""
    if expected[0] == "camera":
        return (
            None if found == ["camera", True] else "What is no tensor and no module comes back as it is, `.to` or not."
        )
    if found[0] != expected[0]:
        return f"Where {_kind(expected)} was handed in, {_kind(found)} came back."
    if expected[0] == "tensor":
        pairs.append((expected[1], found[1]))
        return None
    if expected[0] == "set":
        return (
            None
            if found[1:] == [True, 3]
            else "A set is to come back as it is: the same set, with the same things in it."
        )
    if expected[0] == "other":
        same = type(found[1]) is type(expected[1]) and found[1] == expected[1]
        return None if same else "Anything that is not a tensor must come back as the same object."
    if expected[0] in ("dict", "OrderedDict"):
        return _different_items(list(zip(found[1::2], found[2::2])), expected[1], pairs, keyed=True)
    return _different_items(found[1:], expected[1], pairs, keyed=False)


def _different_items(found: list, expected: list, pairs: list, keyed: bool) -> str | None:
    if len(found) != len(expected):
        return "A container came back with another number of items."
    for mine, right in zip(found, expected):
        if keyed:
            if mine[0] != right[0]:
                return "A dictionary came back with other keys, or in another order."
            mine, right = mine[1], right[1]
        problem = difference(mine, right, pairs)
        if problem:
            return problem
    return None


def _kind(described: list) -> str:
    names = {"tensor": "a tensor", "Observed": "a namedtuple", "OrderedDict": "an OrderedDict", "set": "a set"}
    return type_name(described[1]) if described[0] == "other" else names.get(described[0], f"a {described[0]}")
