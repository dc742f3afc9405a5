"""Chapter "Tensors are views": wrong solutions, and right ones written another way."""

import math

import torch

from autograder.authoring import alternative, edited, mistake

# E1.1 predict_view ------------------------------------------------------------------------

NOTHING_RIGHT = ("merges", "ones", "expanded", "inferred", "empty", "errors")


only_if_contiguous = edited(
    "predict_view",
    {
        "    runs = evenly": "    if stride != tuple(math.prod(size[d + 1 :]) for d in range(len(size))):\n"
        "        return None\n"
        "    runs = evenly"
    },
    loses=NOTHING_RIGHT,
    because="view is thought to need a contiguous tensor",
)

always_possible = edited(
    "predict_view",
    {"    runs = evenly": "    return tuple(math.prod(new_size[d + 1 :]) for d in range(len(new_size)))\n    runs = evenly"},
    loses=NOTHING_RIGHT,
    because="reshape, which may copy, is taken for view",
)

believes_the_stride_of_ones = edited(
    "predict_view",
    {"        if n == 1:\n            continue\n": ""},
    loses=("ones",),
    because="a dimension of size 1 is held to its stride",
)

merges_repeated_elements = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "(runs[-1][1] == n * step or 0 in (runs[-1][1], step))"},
    loses=("expanded",),
    because="a stride of 0 is thought to merge with any neighbour",
)

keeps_repeated_elements_apart = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "runs[-1][1] == n * step != 0"},
    loses=("expanded",),
    because="a stride of 0 is thought to merge with nothing, not even with another",
)

forgets_zero_elements = edited(
    "predict_view",
    {"and known and elements": "and elements", "    if 0 in new_size:\n        return (1,) * len(new_size)\n": ""},
    loses=("empty",),
    because="-1 is divided out without a look at tensors of no elements",
)

refuses_minus_one = edited(
    "predict_view",
    {"if -1 in new_size and known and elements % known == 0:": "if False:"},
    loses=("inferred", "empty"),
    because="-1 is taken for an ordinary, wrong size",
)

multiplies_the_signs_away = edited(
    "predict_view",
    {"min(new_size, default=0) < -1 or ": ""},
    loses=("errors",),
    because="sizes are thought to fit when their product does, negative ones too",
)


@mistake("predict_view", loses=NOTHING_RIGHT, because="the question is put to PyTorch instead of answered")
def asks_torch(size, stride, new_size):
    try:
        return torch.empty_strided(size, stride, device="meta").view(new_size).stride()
    except RuntimeError as error:
        if "not compatible" in str(error):
            return None
        raise ValueError(str(error)) from None


@alternative("predict_view")
def by_addresses(size, stride, new_size):
    import itertools

    def addresses(shape, steps):
        return [sum(i * s for i, s in zip(index, steps)) for index in itertools.product(*map(range, shape))]

    elements, known = math.prod(size), math.prod(n for n in new_size if n != -1)
    if any(n < -1 for n in new_size) or new_size.count(-1) > 1 or (-1 in new_size and known == 0):
        raise ValueError("no size")
    new_size = [elements // known if n == -1 else n for n in new_size]
    if math.prod(new_size) != elements:
        raise ValueError("another number of elements")
    cells = addresses(size, stride)
    jumps = [math.prod(new_size[d + 1 :]) for d in range(len(new_size))]
    steps = [cells[jump] - cells[0] if jump < elements else 0 for jump in jumps]
    return steps if addresses(new_size, steps) == cells else None


@alternative("predict_view")
def as_pytorch_does_it(size, stride, new_size):
    """Walks both shapes from the inside, as ATen's computeStride."""
    elements, known = math.prod(size), math.prod(n for n in new_size if n != -1)
    if any(n < -1 for n in new_size) or new_size.count(-1) > 1 or (-1 in new_size and known == 0):
        raise ValueError("no size")
    new_size = [elements // known if n == -1 else n for n in new_size]
    if math.prod(new_size) != elements:
        raise ValueError("another number of elements")
    if elements == 0 or not size:
        return tuple(1 for _ in new_size)
    new_stride, at = [0] * len(new_size), len(new_size) - 1
    base, chunk, viewed = stride[-1], 1, 1
    for d in reversed(range(len(size))):
        chunk *= size[d]
        if d and (size[d - 1] == 1 or stride[d - 1] == chunk * base):
            continue
        while at >= 0 and (viewed < chunk or new_size[at] == 1):
            new_stride[at] = viewed * base
            viewed *= new_size[at]
            at -= 1
        if viewed != chunk:
            return None
        base, chunk, viewed = stride[d - 1], 1, 1
    return tuple(new_stride)


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


# E1.3 compact -----------------------------------------------------------------------------

STILL_LARGE = ("compact", "untouched", "kinds", "grad", "released")


@mistake("compact", loses=STILL_LARGE, because="contiguous is thought to copy a slice that is contiguous already")
def contiguous(batch):
    return [tensor.contiguous() for tensor in batch]


@mistake("compact", loses=STILL_LARGE, because="detach is thought to let go of the storage, not only of the graph")
def detach(batch):
    return [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in batch]


@mistake("compact", loses=STILL_LARGE, because="what is contiguous is thought to be compact")
def clones_what_is_not_contiguous(batch):
    return [
        tensor if tensor.is_contiguous() else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake("compact", loses=STILL_LARGE, because="a view that begins at offset 0 is thought to end with its storage")
def clones_what_has_an_offset(batch):
    return [
        tensor.detach().clone().requires_grad_(tensor.requires_grad) if tensor.storage_offset() else tensor
        for tensor in batch
    ]


@mistake("compact", loses=STILL_LARGE, because="deepcopy is thought to copy the elements: it copies the storage")
def deepcopies(batch):
    import copy

    return [copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad) for tensor in batch]


@mistake("compact", loses=STILL_LARGE, because="the storage is shrunk under the batch's own tensors")
def swaps_the_storage_in_place(batch):
    for tensor in batch:
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
    return batch


@mistake("compact", loses=("untouched",), because="to be safe, everything is cloned")
def clones_everything(batch):
    return [
        tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake("compact", loses=("untouched",), because="only a contiguous tensor is thought to fill its storage")
def clones_transposed_tensors_too(batch):
    def is_compact(tensor):
        return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes

    return [
        tensor if is_compact(tensor) else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake("compact", loses=("kinds", "grad"), because="values are carried over through Python numbers, the rest is lost")
def through_python_numbers(batch):
    return [
        tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else torch.tensor(tensor.tolist())
        for tensor in batch
    ]


@mistake("compact", loses=("kinds",), because="a tensor of no elements is thought to have no storage")
def skips_empty_tensors(batch):
    def is_compact(tensor):
        return tensor.numel() == 0 or tensor.untyped_storage().nbytes() <= tensor.nbytes

    return [
        tensor if is_compact(tensor) else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake("compact", loses=("grad",), because="what is stored is thought to need no requires_grad")
def forgets_requires_grad(batch):
    return [
        tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.detach().clone() for tensor in batch
    ]


@mistake("compact", loses=("released",), because="clone is thought to stand alone: its graph holds what it was cut from")
def stays_on_the_graph(batch):
    return [tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.clone() for tensor in batch]


@alternative("compact")
def fills_new_tensors(batch):
    results = []
    for tensor in batch:
        if tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
            new = torch.empty(tensor.shape, dtype=tensor.dtype)
            with torch.no_grad():
                new.copy_(tensor)
            tensor = new.requires_grad_(tensor.requires_grad)
        results.append(tensor)
    return results


@alternative("compact")
def gathers_by_address(batch):
    """Gathers the elements out of the storage by their addresses."""

    def gathered(tensor):
        flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        where = torch.full((), tensor.storage_offset(), dtype=torch.int64)
        for d, (n, step) in enumerate(zip(tensor.shape, tensor.stride())):
            where = where.unsqueeze(-1) + torch.arange(n) * step
        return flat.take(where).requires_grad_(tensor.requires_grad)

    return tuple(t if t.untyped_storage().nbytes() <= t.numel() * t.itemsize else gathered(t) for t in batch)


# E1.4 to_tokens ---------------------------------------------------------------------------

NO_TOKENS = ("reorder", "cast", "as_is", "edges")


@mistake("to_tokens", loses=NO_TOKENS, because="each permute is followed by contiguous, as if it were part of it")
def contiguous_after_each_permute(frames, patch, dtype):
    n, c, h, w = frames.shape
    pixels = frames.contiguous().to(dtype).permute(0, 2, 3, 1).contiguous()
    grid = pixels.view(n, h // patch, patch, w // patch, patch, c).transpose(2, 3).contiguous()
    return grid.view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=NO_TOKENS, because="view is thought to reorder what it merges")
def views_across_the_order(frames, patch, dtype):
    n, c, h, w = frames.shape
    return frames.to(dtype).contiguous().view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=NO_TOKENS, because="the channels are left outermost in a patch, as patchify has them")
def channels_outermost(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=("cast", "edges"), because="a cast is thought to make a contiguous tensor: it keeps the strides")
def casts_first(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.to(dtype).unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=("cast", "edges"), because="reshape writes bytes that the cast then writes again")
def casts_last(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c).to(dtype)


@mistake("to_tokens", loses=NO_TOKENS, because="the way to the dtype leads through another one")
def through_another_dtype(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    grid = grid.to(torch.float16).to(torch.float64).to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=("as_is",), because="one copy is allowed, so one is always made")
def always_copies(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    tokens = torch.empty(grid.shape, dtype=dtype)
    return tokens.copy_(grid).view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=("as_is",), because="camera frames are made contiguous in a layout that they did not need")
def contiguous_when_nothing_is_cast(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    if dtype == frames.dtype:
        grid = grid.clone(memory_format=torch.contiguous_format)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=("edges",), because="-1 is left to be found where there are no elements to divide")
def leaves_the_grid_to_minus_one(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.to(dtype, memory_format=torch.contiguous_format).reshape(n, -1, patch * patch * c)


@mistake(
    "to_tokens",
    loses=("reorder", "as_is", "edges"),
    because="arithmetic is thought to change the layout for free: it allocates, and keeps the strides",
)
def multiplies_by_one(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    if dtype == frames.dtype:
        grid = grid * torch.ones((), dtype=dtype)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake("to_tokens", loses=NO_TOKENS, because="a copy that the table does not show is thought not to count")
def copies_in_numpy(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    kind = str(dtype).removeprefix("torch.")
    array = grid.numpy().astype(kind, order="C", copy=True)
    return torch.from_numpy(array.reshape(n, (h // patch) * (w // patch), patch * patch * c))


@alternative("to_tokens")
def view_or_fill(frames, patch, dtype):
    n, c, h, w = frames.shape
    rows, columns = h // patch, w // patch
    shape = (n, rows * columns, patch * patch * c)
    sn, sc, sh, sw = frames.stride()
    grid = frames.as_strided((n, rows, columns, patch, patch, c), (sn, sh * patch, sw * patch, sh, sw, sc))
    if dtype == frames.dtype:
        try:
            return grid.view(shape)
        except RuntimeError:
            pass
    tokens = torch.empty(shape, dtype=dtype)
    tokens.view(grid.shape).copy_(grid)
    return tokens


@alternative("to_tokens")
def unfolds_and_flattens(frames, patch, dtype):
    grid = frames.movedim(1, -1).unfold(1, patch, patch).unfold(2, patch, patch).movedim(3, -1)
    if grid.dtype != dtype:
        grid = grid.to(dtype, memory_format=torch.contiguous_format)
    n, rows, columns, *_, c = grid.shape
    return grid.reshape(n, rows * columns, patch * patch * c)
