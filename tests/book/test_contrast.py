"""Functions side by side: what is drawn is what ran."""

import pytest
import torch
from bs4 import BeautifulSoup

from gpulab.book import contrast


def copied(x):
    return x.t().contiguous()


def looked_at(x):
    return x.t()


def drawn(*functions):
    return BeautifulSoup(contrast(*functions, argument=torch.ones(256, 256))._repr_html_(), "html.parser")


def test_each_function_stands_with_its_source_and_what_it_copied():
    first, second = drawn(copied, looked_at).select("li")
    assert "x.t().contiguous()" in first.pre.text and first.strong.text == "256.0 KiB"
    assert "return x.t()" in second.pre.text and second.strong.text == "0 B"


def test_the_bars_are_as_long_as_the_bytes():
    assert [bar["style"] for bar in drawn(copied, looked_at).select(".bar span")] == ["width: 100%", "width: 0%"]


def test_functions_that_differ_are_refused():
    with pytest.raises(ValueError, match="wrong and looked_at return different values"):

        def wrong(x):
            return x.t() + 1

        contrast(looked_at, wrong, argument=torch.ones(4, 4))
