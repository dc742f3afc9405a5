"""The strip figure draws every storage cell with its letter, in order."""

import re

import pytest

from gpulab.plots.storage import storage_strips


def test_every_cell_is_drawn_with_its_letter_in_order():
    figure = storage_strips({"first": "RRGG", "second": "RGRG"}, alt="Two strips.")
    letters = re.findall(r">\s*([RG])\s*</text>", figure.svg)
    assert "".join(letters) == "RRGGRGRG"
    assert "first" in figure.svg and "second" in figure.svg


def test_colours_follow_first_appearance():
    svg = storage_strips({"only": "RGB"}, alt="A strip.").svg
    assert svg.index("#d1495b") < svg.index("#3a9d5d") < svg.index("#3b7dd8")


@pytest.mark.parametrize("cells", ["", "ABCDEFG"])
def test_nothing_or_too_many_letters_are_refused(cells):
    with pytest.raises(ValueError, match="different letters"):
        storage_strips({"bad": cells}, alt="A strip.")
