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
import io
import math

import gpulab
import torch

# %% [markdown]
# ## E1.1 `predict_view`
#
# A tensor of size `(3, 4)` is transposed: size `(4, 3)`, stride `(1, 4)`. It is not
# contiguous. Which of these views exist, `(2, 2, 3)`, `(4, 3, 1)`, `(12,)`? Decide before you
# read on.
#
# `view` never copies. It finds strides that reach the same elements in the same order, or it
# raises. Write `predict_view(size, stride, new_size)`, which predicts the result of `view`:
#
# - [c1] `size`, `stride`: tuples of integers, perhaps empty, that describe a tensor of at most a
#   million elements. A size may be 0 or 1; strides count elements, and none is negative;
# - [c2] a stride of 0 repeats one element, as `expand` does, and elements may overlap, as in the
#   windows of `unfold`;
# - [c3] `new_size`: a tuple of integers, one of which may be -1: the size inferred from the
#   number of elements;
# - [c4] returns the **strides of the view** that `Tensor.view` makes, a tuple or a list with one
#   integer for each dimension of `new_size`, or **None** when no strides reach the elements in
#   order, so that a copy is required;
# - [c5] where a dimension of the result has size 1, or the tensor has no elements, the stride is
#   never used: any integer is accepted;
# - [c6] raises `ValueError` when `new_size` is invalid for the tensor: the number of elements
#   differs, an entry is less than -1, two are -1, or -1 is ambiguous (`(0, -1)` for a tensor of
#   no elements);
# - [c7] **is plain Python**: it calls neither PyTorch nor NumPy.

# %% nbgrader={"grade": false, "grade_id": "predict_view", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_view(size, stride, new_size):
    """The strides of a (size, stride) tensor viewed as new_size; None if it takes a copy."""
    ### BEGIN SOLUTION
    new_size = resolve(new_size, math.prod(size))
    if 0 in new_size:
        return (1,) * len(new_size)
    runs = evenly_spaced_runs(size, stride)
    new_stride = []
    for n in reversed(new_size):
        if n == 1:
            new_stride.append(1)
            continue
        elements, step = runs.pop()
        if elements % n:
            return None
        new_stride.append(step)
        if elements > n:
            runs.append((elements // n, step * n))
    return tuple(reversed(new_stride))


def evenly_spaced_runs(size, stride):
    """Dimensions that one stride can walk through, merged: (elements, step), outermost first."""
    runs = []
    for n, step in zip(size, stride):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        else:
            runs.append((n, step))
    return runs


def resolve(new_size, elements):
    """new_size with -1 replaced. Raises ValueError when it cannot hold the elements."""
    known = math.prod(n for n in new_size if n != -1)
    if any(n < -1 for n in new_size) or new_size.count(-1) > 1:
        raise ValueError(f"{new_size} is no size")
    if -1 in new_size and known and elements % known == 0:
        new_size = tuple(elements // known if n == -1 else n for n in new_size)
    if -1 in new_size or math.prod(new_size) != elements:
        raise ValueError(f"{elements} elements do not fit a size of {new_size}")
    return new_size
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "predict_view_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_predict_view():
    """Your strides beside those of Tensor.view."""
    questions = {
        "transposed, split": (torch.empty(3, 4).t(), (2, 2, 3)),
        "transposed, a 1 added": (torch.empty(3, 4).t(), (4, 3, 1)),
        "transposed, flattened": (torch.empty(3, 4).t(), (12,)),
        "every other row": (torch.empty(8, 6)[::2], (4, 3, 2)),
        "every other row, rows merged": (torch.empty(8, 6)[::2], (24,)),
        "every other column, all merged": (torch.empty(2, 3, 8)[:, :, ::2], (-1,)),
        "channels_last, pixels merged": (torch.empty(2, 3, 4, 4).to(memory_format=torch.channels_last), (2, 3, -1)),
    }
    answers = {}
    with gpulab.observe() as seen:
        for name, (tensor, new_size) in questions.items():
            answers[name] = predict_view(tuple(tensor.shape), tensor.stride(), new_size)
    print(seen.table(), "\n")

    def used(strides, shape):
        return [stride for stride, n in zip(strides, shape) if n > 1]

    print(f"{'tensor':32}{'predicted':16}{'Tensor.view':16}")
    for name, (tensor, new_size) in questions.items():
        try:
            view = tensor.view(new_size)
            truth = view.stride()
        except RuntimeError:
            truth = None
        print(f"{name:32}{answers[name]!s:16}{truth!s:16}")
        assert (answers[name] is None) == (truth is None), f"{name}: Tensor.view gives {truth}, predict_view {answers[name]}"
        if truth is not None:
            assert used(answers[name], view.shape) == used(truth, view.shape), f"{name}: expected strides {truth}, found {answers[name]}"
    assert not seen.ops, "predict_view called PyTorch: predict the strides from the integers alone"


_see_predict_view()

# %% nbgrader={"grade": true, "grade_id": "predict_view_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of predict_view: split and merged dimensions 3, ones 1, repeated elements 1,
# minus one 1, no elements 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("views.predict_view")
### END HIDDEN TESTS

# %% [markdown]
# ## E1.2 `patchify`
#
# A vision transformer cuts every image into square patches. Write
# `patchify(images, patch)`:
#
# - [c1] `images`: a tensor of shape `(N, C, H, W)`, any dtype, **any strides** (it may be
#   `channels_last`, a crop of a larger tensor, or expanded). `N` may be 0, the other sizes are 1
#   or more;
# - [c2] `patch`: the side of a patch in pixels;
# - [c3] returns a tensor of shape `(N, H // patch, W // patch, C, patch, patch)`: `[n, i, j]` is
#   the patch in row `i`, column `j` of image `n`;
# - [c4] **not one byte is copied**, and no other storage is allocated: the result shares the
#   storage of `images` (with no images there is none to share), and writing to a patch changes
#   the image;
# - [c5] `images` is unchanged: its values, its shape and its strides;
# - [c6] raises `ValueError` when `patch` is less than 1 or does not divide both `H` and `W`.
#
# Why six dimensions and not `(N, patches, C, patch, patch)`? Try to merge the two grid
# dimensions, and look at the copies in the table.

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
def _see_patchify():
    """The patches of two images, and the copies made."""
    images = torch.arange(2 * 3 * 16 * 24).view(2, 3, 16, 24)
    with gpulab.observe() as seen:
        patches = patchify(images, 8)
    print(seen.table())

    assert isinstance(patches, torch.Tensor), f"expected a tensor, patchify returned {patches!r}"
    assert patches.shape == (2, 2, 3, 3, 8, 8), f"expected shape (2, 2, 3, 3, 8, 8), found {tuple(patches.shape)}"
    assert torch.equal(patches[1, 0, 2], images[1, :, 0:8, 16:24]), (
        "patches[1, 0, 2] is not the patch in rows 0-7, columns 16-23 of image 1"
    )
    assert gpulab.shares_storage(patches, images), "the patches are a copy, expected a view of the storage of images: see the table above"
    others = images.clone()
    assert gpulab.shares_storage(patchify(others, 8), others), (
        "other images of this size: the patches do not share their storage; was a result of the first call kept?"
    )


_see_patchify()

# %% nbgrader={"grade": true, "grade_id": "patchify_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of patchify: values 2, no copy 3, other layouts 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("views.patchify")
### END HIDDEN TESTS

# %% [markdown]
# ## E1.3 `compact`
#
# A robot records 1,000 readings of 1,024 numbers each, 4 MB in all, and keeps one, 4 KB:
# `kept = readings[10]`. How large is the file that `torch.save(kept, ...)` writes? And after
# `kept.contiguous()`? Predict both sizes, then run the check below.
#
# Write `compact(batch)`, which prepares tensors for a file or a replay buffer:
#
# - [c1] `batch`: a list of tensors on the CPU, perhaps empty, of any dtype, shape and strides.
#   They may share storages, require grad, or be part of an autograd graph;
# - [c2] returns one tensor for each entry, in a list or a tuple;
# - [c3] result `i` has the values, shape, dtype and `requires_grad` of `batch[i]`, and **its
#   storage holds no more bytes than its elements take** (`numel * itemsize`, 0 for a tensor of no
#   elements);
# - [c4] a tensor whose storage already holds no more than that is returned **as it is**
#   (`results[i] is batch[i]`), not one byte copied, whatever its strides. That includes an
#   expanded tensor with at least as many elements as its storage;
# - [c5] each copy is a **leaf** of autograd: nothing in it refers back to the tensor it was
#   copied from, so the large storage is freed once the batch is gone;
# - [c6] the batch and its tensors are unchanged: the list, values, storages, `requires_grad`,
#   graphs.
#
# How you copy, and the strides of a copy, are your choice. Two results need not share a storage
# that two entries shared.

# %% nbgrader={"grade": false, "grade_id": "compact", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compact(batch):
    """The tensors of batch, each in a storage of no more bytes than its elements take."""
    ### BEGIN SOLUTION
    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]


def is_compact(tensor):
    return tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.itemsize


def cut_loose(tensor):
    """A copy with a storage of its own that no graph ties to the old one."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "compact_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_compact():
    """The storage bytes of a batch's tensors, and the bytes that torch.save writes, before and after."""

    def file_bytes(tensor):
        """How many bytes torch.save writes for tensor."""
        file = io.BytesIO()
        torch.save(tensor, file)
        return file.tell()

    readings = torch.rand(1000, 1024)
    batch = [readings[10], readings[:, 7], readings[:3].t(), torch.rand(64, 64).t(), torch.rand(1, 8).expand(500, 8)]
    stored = [gpulab.storage_bytes(tensor) for tensor in batch]
    with gpulab.observe() as seen:
        kept = compact(batch)
    print(seen.table(), "\n")
    assert isinstance(kept, (list, tuple)) and len(kept) == 5, f"expected 5 tensors in a list or a tuple, compact returned {kept!r:.40}"
    assert [gpulab.storage_bytes(tensor) for tensor in batch] == stored, "the tensors of the batch were changed"

    print(f"{'elements':>10}{'storage before':>16}{'after':>10}{'file before':>14}{'after':>10}{'contiguous()':>14}   (bytes)")
    for before, after in zip(batch, kept):
        print(
            f"{before.nbytes:10}{gpulab.storage_bytes(before):16}{gpulab.storage_bytes(after):10}"
            f"{file_bytes(before):14}{file_bytes(after):10}{file_bytes(before.contiguous()):14}"
        )
        assert torch.equal(before, after), "a result does not have the values of its tensor in the batch"
        assert gpulab.storage_bytes(after) <= before.nbytes, (
            f"expected a storage of at most {before.nbytes} bytes, found {gpulab.storage_bytes(after)}"
        )
    assert all(before is after for before, after in zip(batch[3:], kept[3:])), (
        "a tensor that is already compact was copied, expected the same object"
    )


_see_compact()

# %% nbgrader={"grade": true, "grade_id": "compact_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of compact: own storage 3, untouched when compact 2, every kind of tensor 1,
# requires_grad 1, large storages freed 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("views.compact")
### END HIDDEN TESTS

# %% [markdown]
# ## E1.4 `to_tokens`
#
# The camera of TinyVLA, this course's robot policy, delivers `uint8` frames of shape
# `(N, H, W, C)`; `permute` makes them the `(N, C, H, W)` that PyTorch's layers expect. The
# policy's first layer takes tokens: one row of numbers for each patch. The function below returns
# the correct tokens. How many copies of the frames does it make? Decide, then run the cell.

# %% nbgrader={"grade": false, "grade_id": "first_try", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _first_try(frames, patch, dtype):
    """Tokens of (N, C, H, W) frames: correct, with redundant copies."""
    n, c, h, w = frames.shape
    rows, columns = h // patch, w // patch
    pixels = frames.contiguous().to(dtype)
    pixels = pixels.permute(0, 2, 3, 1).contiguous()
    grid = pixels.view(n, rows, patch, columns, patch, c).transpose(2, 3)
    return grid.reshape(n, rows * columns, patch * patch * c)


_camera = torch.randint(256, (4, 64, 64, 3), dtype=torch.uint8)
_frames = _camera.permute(0, 3, 1, 2)
with gpulab.observe() as _seen:
    _expected = _first_try(_frames, 8, torch.float32)
print(_seen.table())

# %% [markdown]
# Write `to_tokens(frames, patch, dtype)`, with the same result and without redundant copies:
#
# - [c1] `frames`: a tensor of shape `(N, C, H, W)`, any real dtype, **any strides**: a camera's
#   (`channels_last`), contiguous, a crop, expanded. `N` may be 0, the other sizes are 1 or more;
# - [c2] `patch`: the side of a patch in pixels, which divides `H` and `W`. `dtype`: a real
#   `torch.dtype`;
# - [c3] returns a tensor of shape `(N, H // patch * (W // patch), patch * patch * C)` and of
#   `dtype`: the patches of each image in row-major order, each patch flattened in row-major
#   order, the channels of a pixel innermost;
# - [c4] **at most one copy** of each element, by one operation or by several that copy a part
#   each. Together they copy and allocate no more bytes than the result takes, whatever the
#   strides and the dtypes;
# - [c5] **no copy at all**, and a result in the frames' own storage, when they have this dtype
#   already and strides exist that reach their elements in this order, as for camera frames with
#   patches of one pixel or as wide as the image (which question of E1.1 is that?);
# - [c6] it is written in PyTorch, whose operations `gpulab.observe()` records;
# - [c7] the frames are unchanged: their values, their shape and their strides.

# %% nbgrader={"grade": false, "grade_id": "to_tokens", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_tokens(frames, patch, dtype):
    """(N, C, H, W) frames as (N, patches, patch * patch * C) tokens of dtype, one copy at most."""
    ### BEGIN SOLUTION
    n, c, h, w = frames.shape
    rows, columns = h // patch, w // patch
    pixels = frames.permute(0, 2, 3, 1)
    grid = pixels.unflatten(2, (columns, patch)).unflatten(1, (rows, patch)).transpose(2, 3)
    # By default a cast keeps the strides, and reshape would have to copy once more.
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, rows * columns, patch * patch * c)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "to_tokens_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_to_tokens():
    """Your tokens beside those of the first try."""
    frames = _camera.clone().permute(0, 3, 1, 2)
    with gpulab.observe() as seen:
        tokens = to_tokens(frames, 8, torch.float32)
    print(seen.table(), "\n")
    assert isinstance(tokens, torch.Tensor), f"expected a tensor, to_tokens returned {tokens!r}"
    with gpulab.observe() as seen_strips:
        strips = to_tokens(frames, 64, torch.uint8)
    print(seen_strips.table())

    assert torch.equal(frames, _camera.permute(0, 3, 1, 2)), "the frames were changed"
    assert tokens.dtype == torch.float32 and tokens.shape == _expected.shape, (
        f"expected shape {tuple(_expected.shape)} and torch.float32, found {tuple(tokens.shape)} and {tokens.dtype}"
    )
    assert torch.equal(tokens, _expected), "the tokens are not those of _first_try"
    assert torch.equal(strips, _first_try(frames, 64, torch.uint8)), (
        "patches as wide as the image: the tokens are not those of _first_try"
    )
    assert max(seen.copied_bytes, seen.new_bytes) <= tokens.nbytes, (
        f"expected at most {tokens.nbytes} bytes copied and allocated, found {seen.copied_bytes} and {seen.new_bytes}: "
        "see the first table"
    )
    assert not seen_strips.copies and gpulab.shares_storage(strips, frames), (
        "patches as wide as the image: expected a view, found a copy; see the second table"
    )


_see_to_tokens()

# %% nbgrader={"grade": true, "grade_id": "to_tokens_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of to_tokens: another order 2, another dtype 3, no copy where none is needed 2,
# crops and empty batches 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("views.to_tokens")
### END HIDDEN TESTS
