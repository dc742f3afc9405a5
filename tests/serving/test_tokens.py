"""serving.tokens: an image is as many tokens as a real patch embedding makes of it, padded to whole squares."""

import itertools

import pytest
import torch

from gpulab.serving.tokens import Contents, image_tokens


def test_an_image_has_the_tokens_of_a_convolution_over_its_padded_pixels():
    for height, width, patch, merge in itertools.product((1, 27, 28, 29, 224), (13, 56, 57), (4, 14), (1, 2, 3)):
        side = patch * merge
        padded = torch.zeros(1, 1, height + -height % side, width + -width % side)
        patches = torch.nn.functional.max_pool2d(padded, patch)
        assert image_tokens(height, width, patch, merge) == torch.nn.functional.max_pool2d(patches, merge).numel()


def test_a_request_counts_images_and_begun_frames():
    assert Contents(10, 3, 224, 336, 14, 2, 0.5, 5).tokens == {"text": 10, "images": 3 * 8 * 12, "video": 3 * 8 * 12}
    assert [Contents(0, seconds=seconds, frames_per_s=0.25).frames for seconds in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert Contents(0).tokens == {"text": 0, "images": 0, "video": 0}


def test_what_cannot_be_is_refused():
    least = {"text": 0, "images": 0, "seconds": 0, "frames_per_s": 0, "height": 1, "width": 1, "patch": 1, "merge": 1}
    for name, fewest in least.items():
        Contents(**{"text": 1, name: fewest})
        with pytest.raises(ValueError, match=f"{name} is {fewest - 1}: at least {fewest}"):
            Contents(**{"text": 1, name: fewest - 1})
