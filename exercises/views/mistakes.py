"""Chapter "Tensors are views": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, mistake

# E1.2 patchify ----------------------------------------------------------------------------


@mistake("patchify", loses=("no_copy", "layouts"), because="reshape is taken for a view whatever it merges")
def merges_the_grid(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    grid = images.view(n, c, h // patch, patch, w // patch, patch).permute(0, 2, 4, 1, 3, 5)
    merged = grid.reshape(n, (h // patch) * (w // patch), c, patch, patch)
    return merged.view(n, h // patch, w // patch, c, patch, patch)


@mistake("patchify", loses=("layouts",), because="view is thought to need a contiguous tensor")
def contiguous_first(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    grid = images.contiguous().view(n, c, h // patch, patch, w // patch, patch)
    return grid.permute(0, 2, 4, 1, 3, 5)


@mistake("patchify", loses=("layouts",), because="strides are computed from the shape instead of read")
def assumes_contiguous_strides(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    size = (n, h // patch, w // patch, c, patch, patch)
    stride = (c * h * w, patch * w, patch, h * w, w, 1)
    return torch.as_strided(images, size, stride, images.storage_offset())


@mistake(
    "patchify",
    loses=("values", "no_copy", "layouts", "errors"),
    because="the grid's rows and columns are exchanged",
)
def columns_before_rows(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    grid = images.view(n, c, h // patch, patch, w // patch, patch).permute(0, 4, 2, 1, 3, 5)
    return grid.reshape(n, h // patch, w // patch, c, patch, patch)


@mistake("patchify", loses=("no_copy", "layouts"), because="F.unfold is taken for Tensor.unfold: it materialises")
def functional_unfold(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    if n == 0:
        return images.new_empty(0, h // patch, w // patch, c, patch, patch)
    columns = torch.nn.functional.unfold(images.double(), patch, stride=patch)
    columns = columns.view(n, c, patch, patch, h // patch, w // patch)
    return columns.permute(0, 4, 5, 1, 2, 3).to(images.dtype)


@mistake("patchify", loses=("errors",), because="integer division is trusted to tile the image")
def drops_the_remainder(images, patch):
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


@alternative("patchify")
def unfolds_twice(images, patch):
    if patch < 1 or images.shape[2] % patch or images.shape[3] % patch:
        raise ValueError("patch does not tile the image")
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


@alternative("patchify")
def strides_by_hand(images, patch):
    n, c, h, w = images.shape
    sn, sc, sh, sw = images.stride()
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    size = (n, h // patch, w // patch, c, patch, patch)
    stride = (sn, sh * patch, sw * patch, sc, sh, sw)
    return images.as_strided(size, stride)
