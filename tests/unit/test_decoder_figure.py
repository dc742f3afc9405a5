"""The figure of a decoder layer: every matrix of the shape is drawn with its sizes, and told in words."""

import pytest

from gpulab.memory.shapes import SHAPES
from gpulab.plots.decoder import decoder_layer


@pytest.mark.parametrize("name", ["Llama 2 7B", "Llama 3.1 8B"])
def test_every_matrix_is_drawn_and_told_with_its_sizes(name):
    shape = SHAPES[name]
    figure = decoder_layer(name, shape)
    assert len(shape.products) == 7
    for matrix, (into, out) in shape.products.items():
        assert f"{matrix} from {into:,} to {out:,}" in figure.alt
        assert matrix in figure.svg and f"{into:,} → {out:,}" in figure.svg
    assert f"{shape.heads} heads" in figure.svg and f"{shape.kv_heads} heads" in figure.svg
    assert name in figure.caption and f"group of {shape.heads // shape.kv_heads} query" in figure.caption
