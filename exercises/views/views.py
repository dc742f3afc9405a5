# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: nbgrader,tags
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Tensors are views: exercises
#
# Four functions. Each is graded for its values and for what the machine did: bytes copied,
# storage shared, storage kept. Write your code where it says `YOUR CODE HERE`, run the cell
# below it, and read the table: it shows what your code did. `gpulab.observe()` works on any
# code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import torch

# %% [markdown]
# ## E1.2 `patchify`
#
# A vision transformer cuts every image into square patches. Write
# `patchify(images, patch)`:
#
# - `images`: a tensor of shape `(N, C, H, W)`, any dtype, **any strides** (it may be
#   `channels_last`, or a crop of something larger; `N` may be 0);
# - `patch`: the side of a patch in pixels;
# - returns a tensor of shape `(N, H // patch, W // patch, C, patch, patch)`: `[n, i, j]` is
#   the patch in row `i`, column `j` of image `n`;
# - **not one byte is copied**: the result is a view of `images`, and writing to a patch
#   changes the image;
# - raises `ValueError` when `patch` is less than 1 or does not divide `H` and `W`.
#
# Why six dimensions and not `(N, patches, C, patch, patch)`? Try to merge the two grid
# dimensions, and look at what the table says.

# %% nbgrader={"grade": false, "grade_id": "patchify", "locked": false, "schema_version": 3, "solution": true, "task": false}
def patchify(images, patch):
    """Cut (N, C, H, W) images into an (N, H/patch, W/patch, C, patch, patch) view."""
    ### BEGIN SOLUTION
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError(f"patches of {patch} pixels do not tile an image of {h} x {w}")
    grid = images.view(n, c, h // patch, patch, w // patch, patch)
    return grid.permute(0, 2, 4, 1, 3, 5)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "patchify_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
images = torch.arange(2 * 3 * 16 * 24).view(2, 3, 16, 24)
with gpulab.observe() as seen:
    patches = patchify(images, 8)
print(seen.table())

assert patches.shape == (2, 2, 3, 3, 8, 8), f"the shape is {tuple(patches.shape)}"
assert torch.equal(patches[1, 0, 2], images[1, :, 0:8, 16:24]), (
    "patches[1, 0, 2] is not the patch in rows 0-7, columns 16-23 of image 1"
)
assert gpulab.shares_storage(patches, images), "the patches are a copy: see the table above"

# %% nbgrader={"grade": true, "grade_id": "patchify_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of patchify: values 2, no copy 3, other layouts 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("views.patchify")
### END HIDDEN TESTS
