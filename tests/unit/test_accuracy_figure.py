"""The figure of success by format: every seed is drawn, and told in words."""

import pytest

from gpulab.plots.accuracy import success_by_format


def test_every_seed_is_told_and_the_caption_says_where():
    figure = success_by_format({"float32": [0.975, 1.0], "bfloat16": [0.95, 0.98]}, 200, "measured on a card")
    assert "float32: 97.5%, 100.0%; bfloat16: 95.0%, 98.0%" in figure.alt and "200 episodes" in figure.alt
    assert "same 2 seeds" in figure.caption and figure.caption.endswith("measured on a card.")
    assert "seed 1" in figure.svg and "seed 2" not in figure.svg


@pytest.mark.parametrize("shares", [{}, {"a": []}, {"a": [1.0], "b": [1.0, 0.5]}, {"a": [1.0] * 4}])
def test_formats_with_unequal_seeds_none_or_too_many_are_refused(shares):
    with pytest.raises(ValueError, match="each of at most 3 seeds"):
        success_by_format(shares, 200, "")
