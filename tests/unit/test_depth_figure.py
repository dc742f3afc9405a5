"""The figure of gradient norms by depth: every line is drawn where it can be, and told in words."""

import math

import pytest

from gpulab.plots.depth import norms_and_depth


def test_every_line_is_told_and_an_infinity_is_left_out_of_the_drawing():
    figure = norms_and_depth((2, 8), {"plain": [0.1, 1e-20], "residual": [0.2, math.inf]}, "A caption.")
    assert "plain: from 1e-01 to 1e-20; residual: from 2e-01 to inf" in figure.alt
    assert "inf" not in figure.svg and "nan" not in figure.svg and "A caption." in figure._repr_html_()


def test_a_line_of_another_length_is_refused():
    with pytest.raises(ValueError, match="every line has 2 points"):
        norms_and_depth((2, 8), {"plain": [0.1]}, "")
