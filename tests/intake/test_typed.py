"""Code typed on a phone or copied out of a console is read as what it stands for; what Python can read is never touched."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.intake.typed import mend, readable

BODY = "def f(x):\n    y = x - 1\n    return {'a': y}['a'] + len(\"two\")"
TYPED = {
    "no-break spaces": BODY.replace(" ", "\u00a0"),
    "spaces of a Japanese keyboard": BODY.replace("    ", "\u3000\u3000"),
    "zero-width spaces": BODY.replace("return", "return\u200b"),
    "typographic quotes": BODY.replace("'a'", "\u2018a\u2019").replace('"two"', "\u201ctwo\u201d"),
    "German quotes": BODY.replace('"two"', "\u201etwo\u201c"),
    "a dash": BODY.replace("-", "\u2013"),
    "a minus sign": BODY.replace("-", "\u2212"),
    "full width": BODY.replace("(", "\uff08").replace(")", "\uff09").replace(":", "\uff1a"),
    "line separators": BODY.replace("\n", "\u2028"),
    "a console's prompts": ">>> " + BODY.replace("\n", "\n... "),
    "a console's prompts and answers": ">>> " + BODY.replace("\n", "\n... ") + "\n... \n>>> f(3)\n<a 5>\n",
    "IPython's prompts": "In [3]: " + BODY.replace("\n", "\n   ...: ") + "\n\nIn [4]: f(3)\nOut[4]: 5",
    "a prompt before the first line alone": f">>> {BODY}",
    "indented as a whole": "    " + BODY.replace("\n", "\n    "),
    "all at once": ">>> " + BODY.replace("\n", "\n... ").replace(" ", "\u00a0").replace("'", "\u2019"),
}


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
def test_it_works_as_it_was_meant(typed):
    space: dict = {}
    exec(readable(typed), space)
    assert space["f"](3) == 5


@pytest.mark.parametrize(
    "source",
    [
        "x = '\u201cquoted\u201d \u2013 \u00a0'  # a dash \u2013 in a comment",
        "'''\n>>> f(3)\n5\n'''",
        "x = [\n    ...\n]",
        "!ls \u201cmy folder\u201d\n%time f(3)",
        "%%bash\necho \u201chello\u201d",
        "f\u00fcr = 1",
        "",
    ],
)
def test_what_python_can_read_stays_as_it_is(source):
    assert readable(source) == source


@pytest.mark.parametrize(
    "source", ["def broken(:", "It\u2019s a view \u2013 and no copy", "x = \u201cnever closed", "x" * 60_000 + " y"]
)
def test_what_stays_unreadable_stays_as_it_is(source):
    assert readable(source) == source


def test_signs_in_strings_and_comments_stay_where_the_code_around_them_is_mended():
    mended = readable("x\u00a0= '\u2013 \u201cno\u201d'  # it\u2019s \u2013")
    assert mended == "x = '\u2013 \u201cno\u201d'  # it\u2019s \u2013"
    assert readable("x = \u201ca \u2013 b\u201d") == 'x = "a \u2013 b"'


def test_a_magic_above_it_stays():
    assert readable("%%time\nx\u00a0= 1\n") == "%%time\nx = 1\n"


def test_one_sentence_names_all_such_cells():
    cells = [
        new_markdown_cell("\u201ctext\u201d"),
        new_code_cell("x\u00a0= 1"),
        new_code_cell("y = 1"),
        new_code_cell(">>> z = 1"),
    ]
    (said,) = mend(cells)
    assert "(cells from the top: 2, 4)" in said and "costs nothing" in said
    assert [cell.source for cell in cells] == ["\u201ctext\u201d", "x = 1", "y = 1", "z = 1"]
    assert mend(cells) == []
