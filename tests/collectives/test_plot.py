"""The figure of bandwidth against size says in words what it shows."""

import pytest

from gpulab.collectives.network import Network
from gpulab.plots.network import bandwidth_by_size


def test_the_words_hold_both_ends_of_every_line():
    figure = bandwidth_by_size({"eight H100": (Network.of("DGX H100"), 8)}, most=33)
    assert "478 GB/s at 8 GiB" in figure.alt and "at 1 KiB" in figure.alt and figure.caption.startswith("Modelled")


def test_more_lines_than_colours_are_refused():
    with pytest.raises(ValueError, match="1 to 3"):
        bandwidth_by_size({})
