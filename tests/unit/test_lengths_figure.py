"""The figure of peaks by length: its words are its numbers."""

import pytest

from gpulab.plots.lengths import peaks_by_length

GIB = 1 << 30


def test_every_peak_and_every_card_is_said_in_words():
    figure = peaks_by_length([1024, 4096], {"LoRA": [8 * GIB, 29 * GIB]}, {"RTX 4090": 24 * GIB})
    assert "LoRA: 8.0 GiB at 1,024, 29.0 GiB at 4,096." in figure.alt and "RTX 4090 24.0 GiB" in figure.alt
    assert ">4,096<" in figure.svg and ">LoRA<" in figure.svg


@pytest.mark.parametrize("peaks", [{}, {"LoRA": [GIB]}])
def test_a_job_without_a_peak_for_each_length_is_refused(peaks):
    with pytest.raises(ValueError, match="each of 2 lengths"):
        peaks_by_length([1024, 4096], peaks, {"RTX 4090": 24 * GIB})
