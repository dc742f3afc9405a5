"""Figures are inline SVG in the page's text colour, with a text alternative."""

import re

import matplotlib.pyplot as plt
import pytest
import torch

from gpulab import observe
from gpulab.plots import Figure
from gpulab.plots.figure import INK, style


def drawn(**words) -> Figure:
    with style():
        figure, axes = plt.subplots(figsize=(2, 1))
        axes.plot([0, 1], [0, 1])
        axes.set_xlabel("bytes")
    return Figure.of(figure, **words)


def test_ink_is_the_pages_text_colour():
    svg = drawn(alt="a line").svg
    assert "currentColor" in svg and INK not in svg


def test_text_stays_text():
    assert re.search(r"<text[^>]*>bytes</text>", drawn(alt="a line").svg)


def test_a_figure_without_alt_text_is_refused():
    with style():
        figure = plt.figure()
    with pytest.raises(ValueError, match="alt text"):
        Figure.of(figure, alt="  ")
    plt.close(figure)


def test_alt_and_caption_are_escaped():
    html = drawn(alt='a "line" <script>', caption="<b>1 & 2</b>")._repr_html_()
    assert 'aria-label="a &quot;line&quot; &lt;script&gt;"' in html
    assert "<figcaption>&lt;b&gt;1 &amp; 2&lt;/b&gt;</figcaption>" in html
    assert 'role="img"' in html


def test_ids_of_two_figures_on_a_page_differ():
    ids = [set(re.findall(r'id="([^"]+)"', drawn(alt="a line")._repr_html_())) for _ in range(2)]
    assert ids[0] and not ids[0] & ids[1]


def test_references_inside_a_figure_still_resolve():
    html = drawn(alt="a line")._repr_html_()
    ids = set(re.findall(r'id="([^"]+)"', html))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', html))
    assert used and used <= ids


def test_a_figure_closes_what_it_drew():
    before = len(plt.get_fignums())
    drawn(alt="a line")
    assert len(plt.get_fignums()) == before


def test_the_timeline_says_in_words_what_it_shows():
    with observe() as seen:
        torch.ones(16, 16).t().contiguous()
    figure = seen.timeline()
    assert figure.alt == "3 operations in order; 1 copy of 1.0 KiB in all; new storage peaks at 2.0 KiB."
    assert ">clone<" in figure.svg


def test_a_timeline_of_nothing_is_refused():
    with observe() as seen:
        pass
    with pytest.raises(ValueError, match="nothing to draw"):
        seen.timeline()
