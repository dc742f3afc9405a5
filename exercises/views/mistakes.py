"""Chapter "Tensors are views": wrong solutions, and right ones written another way."""

import math

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E1.1 predict_view ------------------------------------------------------------------------

NOTHING_RIGHT = ("merges", "ones", "expanded", "inferred", "empty", "errors")
_MERGED_RUNS = "    runs = evenly"
_REFUSED = '        raise ValueError(f"{elements} elements do not fit a size of {new_size}")\n'


only_if_contiguous = edited(
    "predict_view",
    {
        _MERGED_RUNS: "    if stride != tuple(math.prod(size[d + 1 :]) for d in range(len(size))):\n"
        "        return None\n"
        "    runs = evenly"
    },
    loses=NOTHING_RIGHT,
    because="view is thought to need a contiguous tensor",
    breaks="returns the strides of the view",
)

always_possible = edited(
    "predict_view",
    {_MERGED_RUNS: "    return tuple(math.prod(new_size[d + 1 :]) for d in range(len(new_size)))\n    runs = evenly"},
    loses=NOTHING_RIGHT,
    because="reshape, which may copy, is taken for view",
    breaks="when no strides reach the elements in order, so that a copy is required",
)

whatever_is_dense = edited(
    "predict_view",
    {
        _MERGED_RUNS: "    gaps = sorted((s, n) for n, s in zip(size, stride) if n > 1)\n"
        "    if all(s * n == t for (s, n), (t, _) in zip(gaps, gaps[1:])):\n"
        "        return tuple(math.prod(new_size[d + 1 :]) for d in range(len(new_size)))\n"
        "    runs = evenly"
    },
    loses=NOTHING_RIGHT,
    because="elements without gaps are thought to be viewable in any order",
    breaks="no strides reach the elements in order",
)

steps_of_its_own_size = edited(
    "predict_view",
    {
        "runs[-1][1] == n * step": "runs[-1][1] == runs[-1][0] * step",
    },
    loses=NOTHING_RIGHT,
    because="a dimension's stride is compared with its own size, not with that of the next",
    breaks="It agrees with `Tensor.view`",
)

gaps_do_not_matter = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "runs[-1][1] >= n * step"},
    loses=NOTHING_RIGHT,
    because="strides that fall are thought to be enough to merge",
    breaks="no strides reach the elements in order",
)

innermost_step_of_one = edited(
    "predict_view",
    {_MERGED_RUNS: "    if stride and 1 not in stride:\n        return None\n    runs = evenly"},
    loses=NOTHING_RIGHT,
    because="some dimension is thought to have to step by one",
    breaks="strides count elements",
)

forgets_the_step = edited(
    "predict_view",
    {"new_stride.append(step)": "new_stride.append(step if elements == n else max(1, step // step if step else 0))"},
    loses=("merges", "ones", "expanded", "inferred", "empty", "errors"),
    because="a split dimension is thought to step by one",
    breaks="returns the strides of the view",
)

no_overlap = edited(
    "predict_view",
    {
        _MERGED_RUNS: "    steps = [s for n, s in zip(size, stride) if n > 1 and s]\n"
        "    if len(set(steps)) < len(steps):\n"
        "        return None\n"
        "    runs = evenly"
    },
    loses=NOTHING_RIGHT,
    because="elements that two indices reach are thought to have no view",
    breaks="elements may overlap, as in the windows of `unfold`",
)

in_order_of_the_result_reversed = edited(
    "predict_view",
    {"return tuple(reversed(new_stride))": "return tuple(new_stride)"},
    loses=NOTHING_RIGHT,
    because="strides found from the inside out are returned so",
    breaks="one integer for each dimension of `new_size`",
)

true_division = edited(
    "predict_view",
    {"runs.append((elements // n, step * n))": "runs.append((elements / n, step * n / 1))"},
    loses=NOTHING_RIGHT,
    because="/ is taken for a division of integers",
    breaks="a tuple or a list with one integer for each dimension of `new_size`",
)

leaves_out_ones = edited(
    "predict_view",
    {"            new_stride.append(1)\n            continue": "            continue"},
    loses=("ones", "inferred"),
    because="a dimension of size 1 is thought to need no stride, so none is given",
    breaks="one integer for each dimension of `new_size`",
)

believes_the_stride_of_ones = edited(
    "predict_view",
    {"        if n == 1:\n            continue\n": ""},
    loses=("ones",),
    because="a dimension of size 1 is held to its stride",
    breaks="a size may be 0 or 1",
)

ones_end_a_run = edited(
    "predict_view",
    {"        if n == 1:\n            continue\n": "        if n == 1:\n            runs.append((1, 0))\n            continue\n"},
    loses=("ones",),
    because="a dimension of size 1 is thought to part its neighbours",
    breaks="a size may be 0 or 1",
)

ones_take_elements = edited(
    "predict_view",
    {"        if n == 1:\n            new_stride.append(1)\n            continue\n": ""},
    loses=("ones", "inferred"),
    because="a dimension of size 1 is thought to need elements of its own",
    breaks="where a dimension of the result has size 1",
)

no_dimensions_no_view = edited(
    "predict_view",
    {_MERGED_RUNS: "    if not size or not new_size:\n        return None\n    runs = evenly"},
    loses=("ones", "inferred"),
    because="a tensor of no dimensions is thought to have no element",
    breaks="both tuples may be empty",
)

merges_repeated_elements = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "(runs[-1][1] == n * step or 0 in (runs[-1][1], step))"},
    loses=("expanded",),
    because="a stride of 0 is thought to merge with any neighbour",
    breaks="a stride of 0 repeats one element, as `expand` does",
)

merges_repeats_with_the_outer = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "(runs[-1][1] == n * step or step == 0)"},
    loses=("expanded",),
    because="a step of 0 inside is thought to change nothing outside",
    breaks="a stride of 0 repeats one element, as `expand` does",
)

keeps_repeated_elements_apart = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "runs[-1][1] == n * step != 0"},
    loses=("expanded", "ones"),
    because="a stride of 0 is thought to merge with nothing, not even with another",
    breaks="a stride of 0 repeats one element, as `expand` does",
)

repeats_have_no_view = edited(
    "predict_view",
    {_MERGED_RUNS: "    if any(s == 0 for n, s in zip(size, stride) if n > 1):\n        return None\n    runs = evenly"},
    loses=("expanded", "ones"),
    because="an expanded tensor is thought to need a copy before any view",
    breaks="a stride of 0 repeats one element, as `expand` does",
)

splits_no_repeats = edited(
    "predict_view",
    {"if elements % n:": "if elements % n or (elements > n and not step):"},
    loses=("expanded",),
    because="one repeated element is thought to be one dimension only",
    breaks="a stride of 0 repeats one element, as `expand` does",
)

refuses_minus_one = edited(
    "predict_view",
    {"if -1 in new_size and known and elements % known == 0:": "if False:"},
    loses=("inferred", "empty"),
    because="-1 is taken for an ordinary, wrong size",
    breaks="one of them may be -1, which stands for the size inferred from the number of elements",
)

minus_one_at_the_end = edited(
    "predict_view",
    {"if -1 in new_size and known and": "if new_size[-1:] == (-1,) and known and"},
    loses=("inferred", "empty"),
    because="-1 is thought to stand at the end",
    breaks="one of them may be -1",
)

minus_one_is_never_one = edited(
    "predict_view",
    {"if -1 in new_size and known and": "if -1 in new_size and known and known != elements and"},
    loses=("inferred",),
    because="-1 is thought to stand for more than one element",
    breaks="the size inferred from the number of elements",
)

rounds_minus_one_down = edited(
    "predict_view",
    {
        "known and elements % known == 0:\n": "known:\n",
        "    if -1 in new_size or math.prod(new_size) != elements:": "        return new_size\n"
        "    if -1 in new_size or math.prod(new_size) != elements:",
    },
    loses=("errors",),
    because="// is trusted to leave no remainder",
    breaks="is invalid for the tensor",
)

forgets_zero_elements = edited(
    "predict_view",
    {"and known and elements": "and elements", "    if 0 in new_size:\n        return (1,) * len(new_size)\n": ""},
    loses=("empty", "errors"),
    because="-1 is divided out without a look at tensors of no elements",
    breaks="or -1 is ambiguous (`(0, -1)` for a tensor of no elements)",
)

any_size_will_do = edited(
    "predict_view",
    {"    if -1 in new_size or math": "    if -1 in new_size and not known and not elements:\n        return (0,) * len(new_size)\n    if -1 in new_size or math"},
    loses=("empty",),
    because="an open size is thought to be 0 where nothing else is known",
    breaks="-1 is ambiguous",
)

lays_out_nothing = edited(
    "predict_view",
    {"    if 0 in new_size:\n        return (1,) * len(new_size)\n": ""},
    loses=("empty",),
    because="a tensor of no elements is held to its strides",
    breaks="or the tensor has no elements, the stride is never used",
)

nothing_to_view = edited(
    "predict_view",
    {"        return (1,) * len(new_size)\n": "        return None\n"},
    loses=("empty",),
    because="a tensor of no elements is thought to have no view",
    breaks="any integer is accepted there",
)

multiplies_the_signs_away = edited(
    "predict_view",
    {"any(n < -1 for n in new_size) or ": ""},
    loses=("errors",),
    because="sizes are thought to fit when their product does, negative ones too",
    breaks="an entry is less than -1",
)

any_negative_is_open = edited(
    "predict_view",
    {
        "def resolve(new_size, elements):\n": "def resolve(new_size, elements):\n    new_size = tuple(max(n, -1) for n in new_size)\n",
    },
    loses=("errors",),
    because="any negative size is taken for -1",
    breaks="an entry is less than -1",
)

several_left_open = edited(
    "predict_view",
    {" or new_size.count(-1) > 1": ""},
    loses=("errors",),
    because="each -1 is thought to be the size that is missing",
    breaks="two are -1",
)

holds_at_least = edited(
    "predict_view",
    {"math.prod(new_size) != elements": "math.prod(new_size) > elements", "        if elements % n:\n": "        if elements % n or elements < n:\n"},
    loses=("errors",),
    because="a size that holds fewer elements is thought to fit",
    breaks="the number of elements differs",
)

none_for_a_misfit = edited(
    "predict_view",
    {
        "    new_size = resolve(new_size, math.prod(size))\n": "    try:\n        new_size = resolve(new_size, math.prod(size))\n"
        "    except ValueError:\n        return None\n"
    },
    loses=("empty", "errors"),
    because="a size that does not fit is taken for one that needs a copy",
    breaks="raises `ValueError` when `new_size` is invalid for the tensor",
)

raises_for_a_copy = edited(
    "predict_view",
    {"            return None\n": '            raise ValueError("not viewable")\n'},
    loses=NOTHING_RIGHT,
    because="what needs a copy is refused, as Tensor.view does, instead of told",
    breaks="or None when no strides reach the elements in order",
)

another_error = edited(
    "predict_view",
    {_REFUSED: _REFUSED.replace("ValueError", "RuntimeError")},
    loses=("empty", "errors"),
    because="Tensor.view's own RuntimeError is raised",
    breaks="raises `ValueError` when",
)

remembers_without_strides = edited(
    "predict_view",
    {
        "def predict_view(size, stride, new_size):": "def predict_view(size, stride, new_size, known={}):",
        "    new_stride = []\n": "    if (size, new_size) in known:\n        return known[size, new_size]\n"
        "    new_stride = known[size, new_size] = []\n",
        "return tuple(reversed(new_stride))": "new_stride.reverse()\n    return new_stride",
    },
    loses=NOTHING_RIGHT,
    because="an answer is kept for the next tensor of that size",
    breaks="It agrees with `Tensor.view`",
)

counts_with_numpy = edited(
    "predict_view",
    {"resolve(new_size, math.prod(size))": "resolve(new_size, int(__import__('numpy').prod(size)))"},
    loses=NOTHING_RIGHT,
    because="NumPy is taken for plain Python",
    breaks="it calls neither PyTorch nor NumPy",
)


@mistake(
    "predict_view",
    loses=NOTHING_RIGHT,
    because="the question is put to PyTorch instead of answered",
    breaks="it calls neither PyTorch nor NumPy, it predicts from the integers alone",
)
def asks_torch(size, stride, new_size):
    try:
        return torch.empty_strided(size, stride, device="meta").view(new_size).stride()
    except RuntimeError as error:
        if "not compatible" in str(error):
            return None
        raise ValueError(str(error)) from None


@mistake(
    "predict_view",
    loses=NOTHING_RIGHT,
    because="each dimension of the result is thought to lie inside one dimension of the tensor",
    breaks="It agrees with `Tensor.view`",
)
def splits_only(size, stride, new_size):
    elements, known = math.prod(size), math.prod(n for n in new_size if n != -1)
    if any(n < -1 for n in new_size) or new_size.count(-1) > 1 or (-1 in new_size and known == 0):
        raise ValueError("no size")
    new_size = [elements // known if n == -1 else n for n in new_size]
    if math.prod(new_size) != elements:
        raise ValueError("another number of elements")
    left, steps = [[n, s] for n, s in zip(size, stride) if n > 1], []
    for n in reversed(new_size):
        if n > 1 and elements:
            if left[-1][0] % n:
                return None
            steps.append(left[-1][1])
            left[-1] = [left[-1][0] // n, left[-1][1] * n]
            left = left[:-1] if left[-1][0] == 1 else left
        else:
            steps.append(0)
    return steps[::-1]


@mistake(
    "predict_view",
    loses=NOTHING_RIGHT,
    because="each element is compared by a call of its own, and calls are thought to nest without end",
    breaks="the tensor has at most a million elements",
)
def a_call_for_each_element(size, stride, new_size):
    elements, new_size = math.prod(size), list(new_size)
    if any(n < -1 for n in new_size) or new_size.count(-1) > 1:
        raise ValueError("no size")
    known = math.prod(n for n in new_size if n != -1)
    if -1 in new_size and known and elements % known == 0:
        new_size[new_size.index(-1)] = elements // known
    if -1 in new_size or math.prod(new_size) != elements:
        raise ValueError("another number of elements")

    def place(number, of, by):
        at = 0
        for n, step in zip(reversed(of), reversed(by)):
            at, number = at + number % n * step, number // n
        return at

    def alike(number):
        if number == elements:
            return True
        return place(number, size, stride) == place(number, new_size, found) and alike(number + 1)

    if not elements:
        return [1] * len(new_size)
    found = [place(math.prod(new_size[d + 1 :]) % elements, size, stride) for d in range(len(new_size))]
    return found if alike(0) else None


evenly_to_a_float = edited(
    "predict_view",
    {"runs[-1][1] == n * step": "runs[-1][1] / n == float(step)"},
    loses=NOTHING_RIGHT,
    because="a quotient is thought to be exact",
    breaks="tuples of integers that describe a tensor",
)


@alternative("predict_view")
def by_addresses(size, stride, new_size):
    def addresses(shape, steps):
        found = [0]
        for n, step in zip(shape, steps):
            found = [address + i * step for address in found for i in range(n)]
        return found

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


@alternative("predict_view")
def in_prime_factors(size, stride, new_size):
    """Every dimension is split into primes; those of the result are merged from them. A list, with wild unused strides."""

    class DoesNotFit(ValueError):
        pass

    def primes(n):
        found, p = [], 2
        while n > 1:
            while n % p == 0:
                found.append(p)
                n //= p
            p += 1
        return found

    elements = 1
    for n in size:
        elements *= n
    open_places = [i for i, n in enumerate(new_size) if n == -1]
    rest = 1
    for n in new_size:
        rest *= 1 if n == -1 else n
        if n < -1:
            raise DoesNotFit(n)
    if len(open_places) > 1 or (open_places and (rest == 0 or elements % rest)):
        raise DoesNotFit(new_size)
    wanted = [elements // rest if n == -1 else n for n in new_size]
    if (elements if open_places else rest) != elements:
        raise DoesNotFit(new_size)
    if not elements:
        return [-99 for _ in wanted]
    atoms = []  # from the inside out: (prime, step), in any order of primes within one evenly spaced run
    for n, step in reversed([*zip(size, stride)]):
        if n > 1:
            if atoms and atoms[-1][0] * atoms[-1][1] == step:
                atoms[-1] = (atoms[-1][0] * n, atoms[-1][1])
            else:
                atoms.append((n, step))
    answer = []
    for n in reversed(wanted):
        if n == 1:
            answer.insert(0, -99)
            continue
        have, step = atoms[0]
        missing = primes(n)
        for p in missing:
            if have % p:
                return None
            have //= p
        answer.insert(0, step)
        atoms[0:1] = [(have, step * n)] if have > 1 else []
    return answer


@alternative("predict_view")
def from_the_outside_in(size, stride, new_size):
    """Group by group, from the left: a group of old and of new dimensions that hold as many elements."""
    from dataclasses import dataclass

    @dataclass
    class Group:
        elements: int
        step: int

    def counted(wanted):
        missing = [n for n in wanted if n < 0]
        if missing and missing != [-1]:
            raise ValueError("no such size")
        total, fixed = math.prod(size), math.prod(n for n in wanted if n >= 0)
        if not missing and fixed != total:
            raise ValueError("another number")
        if missing:
            try:
                quotient, rest = divmod(total, fixed)
            except ZeroDivisionError:
                raise ValueError("could be any size") from None
            if rest:
                raise ValueError("does not divide")
            return tuple(quotient if n < 0 else n for n in wanted)
        return wanted

    wanted = counted(new_size)
    if math.prod(size) == 0:
        return wanted
    groups = []
    for n, step in zip(size, stride):
        if n > 1 and groups and groups[-1].step == n * step:
            groups[-1] = Group(groups[-1].elements * n, step)
        elif n > 1:
            groups.append(Group(n, step))
    result, at = [], 0
    for group in groups:
        inside = 1
        while inside < group.elements:
            inside *= wanted[at]
            if group.elements % inside:
                return None
            result.append(group.elements // inside * group.step)
            at += 1
    return tuple(result) + (0,) * (len(wanted) - at)


_UNUSED = "the stride is never used there: any integer will do"
clear_of_predict_view = [
    equivalent_mutant("predict_view", "return (1,) * len(new_size)", "return (2,) * len(new_size)", _UNUSED),
    equivalent_mutant("predict_view", "return (1,) * len(new_size)", "return (0,) * len(new_size)", _UNUSED),
    equivalent_mutant("predict_view", "new_stride.append(1)", "new_stride.append(2)", _UNUSED),
    equivalent_mutant("predict_view", "new_stride.append(1)", "new_stride.append(0)", _UNUSED),
    unbreakable("predict_view", "tuples of integers that describe a tensor", "it says what is handed in"),
    unbreakable("predict_view", "`new_size`: a tuple of integers", "it says what is handed in"),
    unbreakable("predict_view", "the tensor has at most a million elements", "it says what is handed in"),
]


# E1.2 patchify ----------------------------------------------------------------------------

NO_PATCHES = ("values", "no_copy", "layouts", "errors")
_GRID = "images.view(n, c, h // patch, patch, w // patch, patch)"
_CHECK = "patch < 1 or h % patch or w % patch"

merges_the_grid = edited(
    "patchify",
    {
        "return grid.permute(0, 2, 4, 1, 3, 5)": "merged = grid.permute(0, 2, 4, 1, 3, 5).reshape(n, (h // patch) * (w // patch), c, patch, patch)\n"
        "    return merged.view(n, h // patch, w // patch, c, patch, patch)"
    },
    loses=("no_copy", "layouts"),
    because="reshape is taken for a view whatever it merges",
    breaks="not one byte is copied",
)

contiguous_first = edited(
    "patchify",
    {"images.view(": "images.contiguous().view("},
    loses=("layouts",),
    because="view is thought to need a contiguous tensor",
    breaks="any strides",
)

clones_what_repeats = edited(
    "patchify",
    {"    grid =": "    if 0 in images.stride():\n        images = images.clone()\n    grid ="},
    loses=("layouts",),
    because="an expanded tensor is thought to have no view",
    breaks="or an expanded tensor",
)

clones_what_is_a_crop = edited(
    "patchify",
    {"    grid =": "    if images.untyped_storage().nbytes() > images.nbytes:\n        images = images.clone()\n    grid ="},
    loses=("layouts",),
    because="a part of something larger is thought to have no view",
    breaks="a crop of a larger tensor",
)

columns_before_rows = edited(
    "patchify",
    {"grid.permute(0, 2, 4, 1, 3, 5)": "grid.permute(0, 4, 2, 1, 3, 5).reshape(n, h // patch, w // patch, c, patch, patch)"},
    loses=NO_PATCHES,
    because="the grid's rows and columns are exchanged",
    breaks="is the patch in row `i`, column `j` of image `n`",
)

turns_each_patch = edited(
    "patchify",
    {"grid.permute(0, 2, 4, 1, 3, 5)": "grid.permute(0, 2, 4, 1, 5, 3)"},
    loses=NO_PATCHES,
    because="rows and columns are exchanged inside each patch",
    breaks="is the patch in row `i`, column `j` of image `n`",
)

channels_innermost = edited(
    "patchify",
    {"grid.permute(0, 2, 4, 1, 3, 5)": "grid.permute(0, 2, 4, 3, 5, 1)"},
    loses=NO_PATCHES,
    because="channels are put where NumPy's pictures have them",
    breaks="returns a tensor of shape `(N, H // patch, W // patch, C, patch, patch)`",
)

strided_pixels = edited(
    "patchify",
    {
        "images.view(n, c, h // patch, patch, w // patch, patch)": "images.view(n, c, patch, h // patch, patch, w // patch)",
        "grid.permute(0, 2, 4, 1, 3, 5)": "grid.permute(0, 3, 5, 1, 2, 4)",
    },
    loses=NO_PATCHES,
    because="a side is split into places and patches, not into patches and places: every patch holds pixels that lie apart",
    breaks="is the patch in row `i`, column `j` of image `n`",
)

leaves_a_side_to_minus_one = edited(
    "patchify",
    {_GRID: "images.view(n, c, -1, patch, w // patch, patch)"},
    loses=NO_PATCHES,
    because="-1 is left to be found where there are no elements to divide",
    breaks="`N` may be 0",
)

as_floats = edited(
    "patchify",
    {_GRID: "images.float().view(n, c, h // patch, patch, w // patch, patch)"},
    loses=NO_PATCHES,
    because="images are thought to hold floats",
    breaks="any dtype",
)

a_pixel_is_no_patch = edited(
    "patchify",
    {"patch < 1": "patch <= 1"},
    loses=NO_PATCHES,
    because="a patch is thought to be more than a pixel",
    breaks="when `patch` is less than 1",
)

an_image_is_no_patch = edited(
    "patchify",
    {"patch < 1 or": "patch < 1 or patch >= h or"},
    loses=NO_PATCHES,
    because="a patch is thought to be less than an image",
    breaks="the side of a patch in pixels",
)

copies_to_look = edited(
    "patchify",
    {"    grid =": "    if (images * 1).shape != images.shape:\n        raise ValueError\n    grid ="},
    loses=("no_copy", "layouts"),
    because="a copy that is thrown away is thought not to count",
    breaks="no other storage is allocated",
)

no_patch_of_zero = edited(
    "patchify",
    {"patch < 1": "patch == 0"},
    loses=("errors",),
    because="a negative side is thought not to divide",
    breaks="is less than 1",
)

less_than_zero = edited(
    "patchify",
    {"patch < 1": "patch < 0"},
    loses=("errors",),
    because="the remainder of a division by 0 is thought to be something",
    breaks="is less than 1",
)

looks_at_rows = edited(
    "patchify",
    {" or w % patch": ""},
    loses=("errors",),
    because="images are thought to be square",
    breaks="does not divide both `H` and `W`",
)

looks_at_columns = edited(
    "patchify",
    {" or h % patch": ""},
    loses=("errors",),
    because="images are thought to be square",
    breaks="does not divide both `H` and `W`",
)

looks_at_the_area = edited(
    "patchify",
    {_CHECK: "patch < 1 or (h * w) % patch"},
    loses=("errors",),
    because="the pixels' number is divided, not the sides",
    breaks="does not divide both `H` and `W`",
)

both_sides_have_to_be_wrong = edited(
    "patchify",
    {_CHECK: "patch < 1 or (h % patch and w % patch)"},
    loses=("errors",),
    because="'does not divide both H and W' is read as 'divides neither'",
    breaks="does not divide both `H` and `W`",
)

asserts = edited(
    "patchify",
    {
        f'    if {_CHECK}:\n        raise ValueError(f"patches of {{patch}} pixels do not tile an image of {{h}} x {{w}}")\n': (
            "    assert patch > 0 and h % patch == 0 and w % patch == 0\n"
        )
    },
    loses=("errors",),
    because="an assertion is taken for a check of arguments",
    breaks="raises `ValueError` when",
)

no_images_are_always_right = edited(
    "patchify",
    {f"if {_CHECK}": f"if not images.numel():\n        return images.new_empty(0, 1, 1, c, patch, patch)\n    if {_CHECK}"},
    loses=NO_PATCHES,
    because="of no images any result will do",
    breaks="returns a tensor of shape `(N, H // patch, W // patch, C, patch, patch)`",
)

does_not_check_no_images = edited(
    "patchify",
    {f"if {_CHECK}": f"if n and ({_CHECK})", "    grid =": "    patch = max(patch, 1)\n    grid =", "images.view(n": "images[..., : h // patch * patch, : w // patch * patch].view(n"},
    loses=("errors",),
    because="of no images no patch is thought to be wrong",
    breaks="raises `ValueError` when",
)


expanded_is_written_out_for_writing = edited(
    "patchify",
    {"    grid =": "    if any(step == 0 and size > 1 for size, step in zip(images.shape, images.stride())):\n        images = images.contiguous()\n    grid ="},
    loses=("layouts",),
    because="patches of an expanded tensor are thought to have to be written to one by one",
    breaks="or an expanded tensor",
)

expanded_images_are_written_out = edited(
    "patchify",
    {"    grid =": "    if n > 1 and images.stride(0) == 0:\n        images = images.clone()\n    grid ="},
    loses=("layouts",),
    because="one image that stands for many is thought to need a copy for each",
    breaks="or an expanded tensor",
)

strides_kept_by_shape = edited(
    "patchify",
    {
        "def patchify(images, patch):": "def patchify(images, patch, known={}):",
        "    return grid.permute(0, 2, 4, 1, 3, 5)": "    grid = grid.permute(0, 2, 4, 1, 3, 5)\n"
        "    return images.as_strided(grid.shape, known.setdefault((images.shape, patch), grid.stride()))",
    },
    loses=("layouts",),
    because="images of one shape are thought to have the same strides",
    breaks="any strides",
)

turned_where_all_is_square = edited(
    "patchify",
    {"    return grid.permute(0, 2, 4, 1, 3, 5)": "    if h == w:\n        return grid.permute(0, 4, 2, 1, 3, 5)\n    return grid.permute(0, 2, 4, 1, 3, 5)"},
    loses=NO_PATCHES,
    because="in a square grid rows and columns are taken for the same",
    breaks="is the patch in row `i`, column `j` of image `n`",
)


@mistake(
    "patchify",
    loses=("layouts",),
    because="strides are computed from the shape instead of read",
    breaks="any strides",
)
def assumes_contiguous_strides(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    size = (n, h // patch, w // patch, c, patch, patch)
    stride = (c * h * w, patch * w, patch, h * w, w, 1)
    return torch.as_strided(images, size, stride, images.storage_offset())


@mistake(
    "patchify",
    loses=("layouts",),
    because="a view is thought to begin where its storage begins",
    breaks="a crop of a larger tensor",
)
def forgets_the_offset(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    sn, sc, sh, sw = images.stride()
    return torch.as_strided(images, (n, h // patch, w // patch, c, patch, patch), (sn, sh * patch, sw * patch, sc, sh, sw), 0)


@mistake(
    "patchify",
    loses=("layouts",),
    because="the pixels of a row are thought to lie side by side",
    breaks="any strides",
)
def steps_by_one_pixel(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    sn, sc, sh, _ = images.stride()
    return torch.as_strided(images, (n, h // patch, w // patch, c, patch, patch), (sn, sh * patch, patch, sc, sh, 1))


@mistake(
    "patchify",
    loses=NO_PATCHES,
    because="the in-place method is taken for the one that gives a view",
    breaks="`images` is unchanged",
)
def in_place(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    sn, sc, sh, sw = images.stride()
    return images.as_strided_((n, h // patch, w // patch, c, patch, patch), (sn, sh * patch, sw * patch, sc, sh, sw))


@mistake(
    "patchify",
    loses=NO_PATCHES,
    because="the pixels are reordered where they lie, so that plain strides will do",
    breaks="its values, its shape and its strides",
)
def reorders_the_storage(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    grid = images.view(n, c, h // patch, patch, w // patch, patch).permute(0, 2, 4, 1, 3, 5)
    if not images.is_contiguous():
        return grid
    images.copy_(grid.reshape(images.shape))
    return images.view(grid.shape)


@mistake(
    "patchify",
    loses=NO_PATCHES,
    because="F.unfold is taken for Tensor.unfold: it materialises, and knows floats only",
    breaks="any dtype",
)
def functional_unfold(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    columns = torch.nn.functional.unfold(images.float(), patch, stride=patch)
    columns = columns.view(n, c, patch, patch, h // patch, w // patch)
    return columns.permute(0, 4, 5, 1, 2, 3).to(images.dtype)


@mistake(
    "patchify",
    loses=("no_copy", "layouts"),
    because="stack is thought to hold views: it writes all of them out",
    breaks="writing to a patch changes the image",
)
def stacks_patches(images, patch):
    n, c, h, w = images.shape
    if patch < 1 or h % patch or w % patch:
        raise ValueError("patch does not tile the image")
    rows = [torch.stack(row.split(patch, 3), 1) for row in images.split(patch, 2)]
    return torch.stack(rows, 1)


@mistake(
    "patchify",
    loses=("errors",),
    because="integer division is trusted to tile the image",
    breaks="raises `ValueError` when `patch` is less than 1 or does not divide both `H` and `W`",
)
def drops_the_remainder(images, patch):
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


the_pixels_alone_divide = edited(
    "patchify",
    {
        "h % patch or w % patch": "h * w % patch**2 or min(h, w) < patch",
        "    grid = images.view(": "    images = images[:, :, : h // patch * patch, : w // patch * patch]\n    grid = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))\n    return grid.permute(0, 2, 4, 1, 3, 5)\n    grid = images.view(",
    },
    loses=("errors",),
    because="as many pixels as whole patches hold are thought to be whole patches",
    breaks="does not divide both `H` and `W`",
)

kept_by_layout = edited(
    "patchify",
    {
        "def patchify(images, patch):": "def patchify(images, patch, known={}):",
        "    return grid.permute(0, 2, 4, 1, 3, 5)": (
            "    return known.setdefault((images.shape, images.stride(), images.dtype, patch), grid.permute(0, 2, 4, 1, 3, 5))"
        ),
    },
    loses=("layouts",),
    because="images of one layout are thought to be the same images",
    breaks="the result shares the storage of `images`",
)


kept_by_address = edited(
    "patchify",
    {
        "def patchify(images, patch):": "def patchify(images, patch, known={}):",
        "    return grid.permute(0, 2, 4, 1, 3, 5)": (
            "    return known.setdefault((images.data_ptr(), images.dtype, images.shape, patch), grid.permute(0, 2, 4, 1, 3, 5))"
        ),
    },
    loses=("layouts",),
    because="what lies at one address is thought to be read in one way",
    breaks="any strides",
)


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


@alternative("patchify")
def on_the_storage(images, patch):
    """A tensor of no elements is set on the images' storage: no view by autograd's account, and one by its memory."""
    (n, c, h, w), (sn, sc, sh, sw) = images.shape, images.stride()
    try:
        (rows, lower), (columns, right) = divmod(h, patch), divmod(w, patch)
    except ZeroDivisionError:
        raise ValueError("no patch") from None
    if patch < 0 or (lower, right) != (0, 0):
        raise ValueError("patch does not tile the image")
    empty = torch.empty(0, dtype=images.dtype)
    size, stride = (n, rows, columns, c, patch, patch), (sn, sh * patch, sw * patch, sc, sh, sw)
    return empty.set_(images.untyped_storage(), images.storage_offset(), size, stride)


@alternative("patchify")
def detached_and_reshaped(images, patch):
    class DoesNotTile(ValueError):
        pass

    for side in images.shape[-2:]:
        if patch not in [divisor for divisor in range(1, side + 1) if side % divisor == 0]:
            raise DoesNotTile(patch)
    rows = images.detach().reshape(*images.shape[:2], images.shape[2] // patch, patch, images.shape[3])
    return rows.unflatten(4, (images.shape[3] // patch, patch)).transpose(1, 2).movedim(4, 2)


@alternative("patchify")
def axes_by_name(images, patch):
    """Einsum of one operand is a permutation."""
    if patch < 1 or any(side % patch for side in images.shape[2:]):
        raise ValueError("patch does not tile the image")
    if images.dtype is torch.bool or not images.numel():
        return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)
    n, c, h, w = images.shape
    return torch.einsum("ncyhxw->nyxchw", images.view(n, c, h // patch, patch, w // patch, patch))


clear_of_patchify = [
    unbreakable("patchify", "With no images there is no storage to share", "it frees from a clause"),
]


# E1.3 compact -----------------------------------------------------------------------------

STILL_LARGE = ("compact", "untouched", "kinds", "grad", "released")


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="contiguous is thought to copy a slice that is contiguous already",
    breaks="its storage holds no more bytes than its elements take",
)
def contiguous(batch):
    return [tensor.contiguous() for tensor in batch]


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="detach is thought to let go of the storage, not only of the graph",
    breaks="its storage holds no more bytes than its elements take",
)
def detach(batch):
    return [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in batch]


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="what is contiguous is thought to be compact",
    breaks="its storage holds no more bytes than its elements take",
)
def clones_what_is_not_contiguous(batch):
    return [
        tensor if tensor.is_contiguous() else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="a view that begins at offset 0 is thought to end with its storage",
    breaks="its storage holds no more bytes than its elements take",
)
def clones_what_has_an_offset(batch):
    return [
        tensor.detach().clone().requires_grad_(tensor.requires_grad) if tensor.storage_offset() else tensor
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="deepcopy is thought to copy the elements: it copies the storage",
    breaks="its storage holds no more bytes than its elements take",
)
def deepcopies(batch):
    import copy

    return [copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad) for tensor in batch]


@mistake(
    "compact",
    loses=STILL_LARGE,
    because="the storage is shrunk under the batch's own tensors",
    breaks="the batch and its tensors are unchanged",
)
def swaps_the_storage_in_place(batch):
    for tensor in batch:
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
    return batch


@mistake(
    "compact",
    loses=("untouched",),
    because="to be safe, everything is cloned",
    breaks="not one byte copied",
)
def clones_everything(batch):
    return [
        tensor.detach().clone(memory_format=torch.contiguous_format).requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=("untouched",),
    because="only a contiguous tensor is thought to fill its storage",
    breaks="whatever its strides",
)
def clones_transposed_tensors_too(batch):
    def is_compact(tensor):
        return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes

    return [
        tensor if is_compact(tensor) else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=("kinds", "grad", "released"),
    because="values are carried over through Python numbers, the rest is lost",
    breaks="Result `i` has the values, shape, dtype",
)
def through_python_numbers(batch):
    return [
        tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else torch.tensor(tensor.tolist())
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=("kinds",),
    because="a tensor of no elements is thought to have no storage",
    breaks="0 for a tensor of no elements",
)
def skips_empty_tensors(batch):
    def is_compact(tensor):
        return tensor.numel() == 0 or tensor.untyped_storage().nbytes() <= tensor.nbytes

    return [
        tensor if is_compact(tensor) else tensor.detach().clone().requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


@mistake(
    "compact",
    loses=("grad",),
    because="what is stored is thought to need no requires_grad",
    breaks="and `requires_grad` of `batch[i]`",
)
def forgets_requires_grad(batch):
    return [
        tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.detach().clone() for tensor in batch
    ]


@mistake(
    "compact",
    loses=("released",),
    because="clone is thought to stand alone: its graph holds what it was cut from",
    breaks="nothing in it refers back to the tensor it was copied from",
)
def stays_on_the_graph(batch):
    return [tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.clone() for tensor in batch]


@mistake(
    "compact",
    loses=("untouched",),
    because="a batch is thought to be short",
    breaks="returns one tensor for each entry, in a list or a tuple",
)
def a_call_for_each_tensor(batch):
    def from_place(i):
        if i == len(batch):
            return []
        tensor = batch[i]
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            tensor = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return [tensor, *from_place(i + 1)]

    return from_place(0)


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


_CUT = "tensor.detach().clone().requires_grad_(tensor.requires_grad)"
_COMPACT = "tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.itemsize"

counts_four_bytes_each = edited(
    "compact",
    {"tensor.numel() * tensor.itemsize": "tensor.numel() * 4"},
    loses=("untouched", "kinds"),
    because="every element is thought to take four bytes",
    breaks="any dtype, shape and strides",
)

counts_whole_elements = edited(
    "compact",
    {_COMPACT: "tensor.untyped_storage().nbytes() // tensor.itemsize <= tensor.numel()"},
    loses=("kinds",),
    because="bytes that make no whole element are thought not to count",
    breaks="its storage holds no more bytes than its elements take",
)

nearly_all_is_all = edited(
    "compact",
    {"<= tensor.numel()": "<= 1.5 * tensor.numel()"},
    loses=STILL_LARGE,
    because="a few elements too many are thought to do no harm",
    breaks="holds no more bytes than its elements take",
)

full_is_not_enough = edited(
    "compact",
    {"nbytes() <=": "nbytes() <"},
    loses=("untouched",),
    because="a storage that holds exactly the elements is thought too large",
    breaks="a tensor whose storage already holds no more than that",
)

expanded_only_if_equal = edited(
    "compact",
    {"nbytes() <=": "nbytes() =="},
    loses=("untouched",),
    because="a storage is thought never to be smaller than what it shows",
    breaks="That includes an expanded tensor that has at least as many elements as its storage",
)

expanded_is_compact = edited(
    "compact",
    {_COMPACT: f"0 in tensor.stride() or {_COMPACT}"},
    loses=("kinds",),
    because="an expanded tensor is thought to store one element only",
    breaks="an expanded tensor that has at least as many elements as its storage",
)

nothing_is_compact = edited(
    "compact",
    {_COMPACT: f"tensor.numel() and {_COMPACT}"},
    loses=("untouched",),
    because="a tensor of no elements is always made anew",
    breaks="0 for a tensor of no elements",
)

whole_batch_or_none = edited(
    "compact",
    {"    return [tensor if is_compact(tensor) else": "    every = all(map(is_compact, batch))\n    return [tensor if every else"},
    loses=("untouched",),
    because="one that has to be copied is a reason to copy all",
    breaks="is returned as it is",
)

another_over_the_storage = edited(
    "compact",
    {"[tensor if is": "[tensor.view_as(tensor) if is"},
    loses=("untouched",),
    because="a new tensor over the same storage is taken for the tensor",
    breaks="the same object (`results[i] is batch[i]`)",
)

detaches_what_is_compact = edited(
    "compact",
    {"[tensor if is": "[tensor.detach().requires_grad_(tensor.requires_grad) if is"},
    loses=("untouched",),
    because="what is kept is thought to have to leave its graph",
    breaks="the same object (`results[i] is batch[i]`)",
)

asks_autograd = edited(
    "compact",
    {_COMPACT: "tensor._base is None"},
    loses=STILL_LARGE,
    because="what autograd knows as no view is thought to fill its storage",
    breaks="its storage holds no more bytes than its elements take",
)

one_element_at_least = edited(
    "compact",
    {"    return [": "    if not batch[0].numel():\n        pass\n    return ["},
    loses=("kinds",),
    because="a batch is thought to have a first tensor",
    breaks="it may be empty",
)

by_address = edited(
    "compact",
    {
        "    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]": "    made = {}\n"
        "    for tensor in batch:\n"
        "        if tensor.data_ptr() not in made:\n"
        "            made[tensor.data_ptr()] = tensor if is_compact(tensor) else cut_loose(tensor)\n"
        "    return [made[tensor.data_ptr()] for tensor in batch]"
    },
    loses=STILL_LARGE,
    because="tensors that begin at one address are taken for one tensor",
    breaks="They may share storages",
)

by_address_and_shape = edited(
    "compact",
    {
        "    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]": "    made = {}\n"
        "    for tensor in batch:\n"
        "        key = (tensor.data_ptr(), tensor.shape, tensor.dtype)\n"
        "        if key not in made:\n"
        "            made[key] = tensor if is_compact(tensor) else cut_loose(tensor)\n"
        "    return [made[tensor.data_ptr(), tensor.shape, tensor.dtype] for tensor in batch]"
    },
    loses=STILL_LARGE,
    because="tensors of one address and shape are taken for one tensor",
    breaks="They may share storages",
)

copies_storages_once = edited(
    "compact",
    {
        "    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]": "    copies = {}\n"
        "    for tensor in batch:\n"
        "        storage = tensor.untyped_storage()\n"
        "        copies.setdefault(storage.data_ptr(), storage.clone())\n"
        "    return [\n"
        "        tensor if is_compact(tensor) else torch.empty(0, dtype=tensor.dtype).set_(\n"
        "            copies[tensor.untyped_storage().data_ptr()], tensor.storage_offset(), tensor.shape, tensor.stride()\n"
        "        ).requires_grad_(tensor.requires_grad)\n"
        "        for tensor in batch\n"
        "    ]"
    },
    loses=STILL_LARGE,
    because="what shares a storage is thought to have to share one after",
    breaks="its storage holds no more bytes than its elements take",
)

fills_the_list_in_place = edited(
    "compact",
    {
        "    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]": "    for i, tensor in enumerate(batch):\n"
        "        batch[i] = tensor if is_compact(tensor) else cut_loose(tensor)\n"
        "    return batch"
    },
    loses=("compact", "untouched", "kinds", "grad", "released"),
    because="the caller's list is thought to be one's own",
    breaks="the batch and its tensors are unchanged: the list",
)

empties_the_list = edited(
    "compact",
    {
        "    return [tensor if is_compact(tensor) else cut_loose(tensor) for tensor in batch]": "    results = []\n"
        "    while batch:\n"
        "        tensor = batch.pop(0)\n"
        "        results.append(tensor if is_compact(tensor) else cut_loose(tensor))\n"
        "    return results"
    },
    loses=STILL_LARGE,
    because="a list is emptied to let its tensors go",
    breaks="the batch and its tensors are unchanged: the list",
)

detaches_the_batch = edited(
    "compact",
    {"[tensor if is": "[tensor.detach_().requires_grad_(tensor.requires_grad) if is"},
    loses=("untouched",),
    because="detach_ is taken for detach: the caller's tensor leaves its graph",
    breaks="`requires_grad`, graphs",
)

takes_the_grad_from_the_batch = edited(
    "compact",
    {_CUT: "tensor.data.clone().requires_grad_(tensor.requires_grad) if tensor.grad_fn else tensor.requires_grad_(False).clone()"},
    loses=("grad",),
    because="requires_grad is switched off on the caller's tensor, to copy without a graph",
    breaks="the batch and its tensors are unchanged",
)

refuses_complex_grad = edited(
    "compact",
    {"requires_grad_(tensor.requires_grad)": "requires_grad_(tensor.requires_grad and tensor.is_floating_point())"},
    loses=("grad",),
    because="only floating point is thought to take gradients",
    breaks="and `requires_grad` of `batch[i]`",
)

everything_asks_for_grad = edited(
    "compact",
    {"requires_grad_(tensor.requires_grad)": "requires_grad_(tensor.is_floating_point() or tensor.is_complex())"},
    loses=("grad",),
    because="floats are thought to be parameters",
    breaks="and `requires_grad` of `batch[i]`",
)

drops_the_imaginary_part = edited(
    "compact",
    {_CUT: "tensor.detach().to(torch.float64).to(tensor.dtype).requires_grad_(tensor.requires_grad) if tensor.dtype != torch.float64 else " + _CUT},
    loses=("kinds", "grad", "released"),
    because="float64 is thought to hold every number",
    breaks="Result `i` has the values, shape, dtype",
)

leaves_off_the_graph_only_leaves = edited(
    "compact",
    {_CUT: "(tensor.detach() if tensor.is_leaf else tensor).clone()" + " if tensor.requires_grad and not tensor.is_leaf else " + _CUT},
    loses=("released",),
    because="a tensor on a graph is thought to have to stay on it",
    breaks="nothing in it refers back to the tensor it was copied from",
)

clones_leaves = edited(
    "compact",
    {_CUT: "tensor.clone() if tensor.is_leaf else " + _CUT},
    loses=("released",),
    because="a leaf is thought to have no graph that a clone could hang on",
    breaks="nothing in it refers back to the tensor it was copied from",
)

hangs_on_itself = edited(
    "compact",
    {_CUT: _CUT + ".clone()"},
    loses=("released",),
    because="a copy that is let go is thought to leave a leaf behind",
    breaks="each copy is a leaf of autograd",
)

remembers_the_batch = edited(
    "compact",
    {
        "def compact(batch):": "def compact(batch, seen=[]):",
        "    return [": "    seen.extend(batch)\n    return [",
    },
    loses=("released",),
    because="a default argument lives as long as the function: it keeps every batch",
    breaks="so the large storage is freed once the batch is gone",
)

one_for_each_object = edited(
    "compact",
    {" for tensor in batch]": " for tensor in {id(tensor): tensor for tensor in batch}.values()]"},
    loses=STILL_LARGE,
    because="a tensor that comes twice is given back once",
    breaks="returns one tensor for each entry",
)


@mistake(
    "compact",
    loses=("kinds", "grad", "released"),
    because="NumPy is thought to have all of PyTorch's dtypes",
    breaks="any dtype",
)
def through_numpy(batch):
    return [
        tensor
        if tensor.untyped_storage().nbytes() <= tensor.nbytes
        else torch.from_numpy(tensor.detach().numpy().copy()).requires_grad_(tensor.requires_grad)
        for tensor in batch
    ]


copies_kept_by_address = edited(
    "compact",
    {
        "def compact(batch):": "def compact(batch, made={}):",
        "else cut_loose(tensor) for": "else made.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype), cut_loose(tensor)) for",
    },
    loses=STILL_LARGE,
    because="what lies at an address is thought to stay the same from call to call",
    breaks="Result `i` has the values, shape, dtype and `requires_grad` of `batch[i]`",
)


@alternative("compact")
def copies_twice(batch):
    """Contiguous first, then a clone: two copies where one would do."""
    results = []
    for tensor in batch:
        if len(tensor.untyped_storage()) > tensor.nelement() * tensor.element_size():
            with torch.no_grad():
                tensor = tensor.flatten().clone().view(tensor.shape).clone().detach().requires_grad_(tensor.requires_grad)
        results.append(tensor)
    return results


@alternative("compact")
def through_a_file(batch):
    import io

    def thinned(tensor):
        stored = tensor.storage().nbytes()
        if stored <= tensor.nbytes:
            return tensor
        file = io.BytesIO()
        torch.save(tensor.detach().to(tensor.dtype, copy=True), file)
        file.seek(0)
        return torch.load(file).requires_grad_(tensor.requires_grad)

    return list(map(thinned, batch))


@alternative("compact")
def remembers_by_object(batch):
    """The same entry twice is copied once: its two results are one tensor."""
    made = {}
    for tensor in batch:
        if id(tensor) not in made:
            small = tensor.untyped_storage().nbytes() <= tensor.nbytes
            made[id(tensor)] = tensor if small else torch.empty_like(tensor, requires_grad=False).copy_(tensor.detach())
            if not small and tensor.requires_grad:
                made[id(tensor)].requires_grad_()
    return tuple(made[id(tensor)] for tensor in batch)


clear_of_compact = [
    unbreakable("compact", "two results need not share a storage that two entries shared", "it leaves a choice to the learner"),
]


# E1.4 to_tokens ---------------------------------------------------------------------------

NO_TOKENS = ("reorder", "cast", "as_is", "edges")


@mistake(
    "to_tokens",
    loses=NO_TOKENS,
    because="each permute is followed by contiguous, as if it were part of it",
    breaks="at most one copy of each element",
)
def contiguous_after_each_permute(frames, patch, dtype):
    n, c, h, w = frames.shape
    pixels = frames.contiguous().to(dtype).permute(0, 2, 3, 1).contiguous()
    grid = pixels.view(n, h // patch, patch, w // patch, patch, c).transpose(2, 3).contiguous()
    return grid.view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=NO_TOKENS,
    because="view is thought to reorder what it merges",
    breaks="the patches of each image in row-major order",
)
def views_across_the_order(frames, patch, dtype):
    n, c, h, w = frames.shape
    return frames.to(dtype).contiguous().view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=NO_TOKENS,
    because="the channels are left outermost in a patch, as patchify has them",
    breaks="the channels of a pixel innermost",
)
def channels_outermost(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=("cast", "edges"),
    because="a cast is thought to make a contiguous tensor: it keeps the strides",
    breaks="at most one copy of each element",
)
def casts_first(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.to(dtype).unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=("cast", "edges"),
    because="reshape writes bytes that the cast then writes again",
    breaks="at most one copy of each element",
)
def casts_last(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c).to(dtype)


@mistake(
    "to_tokens",
    loses=NO_TOKENS,
    because="the way to the dtype leads through another one",
    breaks="at most one copy of each element",
)
def through_another_dtype(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    grid = grid.to(torch.float16).to(torch.float64).to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=("as_is",),
    because="one copy is allowed, so one is always made",
    breaks="no copy at all",
)
def always_copies(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    tokens = torch.empty(grid.shape, dtype=dtype)
    return tokens.copy_(grid).view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=("as_is",),
    because="camera frames are made contiguous in a layout that they did not need",
    breaks="no copy at all",
)
def contiguous_when_nothing_is_cast(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    if dtype == frames.dtype:
        grid = grid.clone(memory_format=torch.contiguous_format)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.view(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=("edges",),
    because="-1 is left to be found where there are no elements to divide",
    breaks="`N` may be 0",
)
def leaves_the_grid_to_minus_one(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.to(dtype, memory_format=torch.contiguous_format).reshape(n, -1, patch * patch * c)


@mistake(
    "to_tokens",
    loses=("reorder", "as_is", "edges"),
    because="arithmetic is thought to change the layout for free: it allocates, and keeps the strides",
    breaks="and a result in the frames' own storage",
)
def multiplies_by_one(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    if dtype == frames.dtype:
        grid = grid * torch.ones((), dtype=dtype)
    grid = grid.to(dtype, memory_format=torch.contiguous_format)
    return grid.reshape(n, (h // patch) * (w // patch), patch * patch * c)


@mistake(
    "to_tokens",
    loses=NO_TOKENS,
    because="a copy that the table does not show is thought not to count",
    breaks="it is written in PyTorch, whose operations `gpulab.observe()` records",
)
def copies_in_numpy(frames, patch, dtype):
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    kind = str(dtype).removeprefix("torch.")
    array = grid.numpy().astype(kind, order="C", copy=True)
    return torch.from_numpy(array.reshape(n, (h // patch) * (w // patch), patch * patch * c))


views_kept_by_layout = edited(
    "to_tokens",
    {
        "def to_tokens(frames, patch, dtype):": "def to_tokens(frames, patch, dtype, known={}):",
        "    return grid.reshape(n, rows * columns, patch * patch * c)": (
            "    tokens = grid.reshape(n, rows * columns, patch * patch * c)\n"
            "    if tokens.untyped_storage().data_ptr() != frames.untyped_storage().data_ptr():\n"
            "        return tokens\n"
            "    return known.setdefault((frames.shape, frames.stride(), patch, dtype), tokens)"
        ),
    },
    loses=("as_is", "edges"),
    because="a view of frames of one layout is thought to be a view of all of them",
    breaks="and a result in the frames' own storage",
)


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


_TO = "grid.to(dtype, memory_format=torch.contiguous_format)"

as_memory_lies = edited(
    "to_tokens",
    {f"    grid = {_TO}\n": "    grid = grid.to(dtype)\n"},
    loses=("cast", "edges"),
    because="a cast is thought to make a contiguous tensor: it keeps the strides",
    breaks="at most one copy of each element",
)

reorders_before_the_cast = edited(
    "to_tokens",
    {_TO: "grid.contiguous().to(dtype)"},
    loses=("cast", "as_is", "edges"),
    because="the elements are put in order, and then converted",
    breaks="no more bytes are copied than the result takes",
)

columns_of_patches_first = edited(
    "to_tokens",
    {"unflatten(1, (rows, patch)).transpose(2, 3)": "unflatten(1, (rows, patch)).permute(0, 3, 1, 2, 4, 5)"},
    loses=NO_TOKENS,
    because="patches are taken column by column",
    breaks="the patches of each image in row-major order",
)

turns_each_token = edited(
    "to_tokens",
    {"unflatten(1, (rows, patch)).transpose(2, 3)": "unflatten(1, (rows, patch)).permute(0, 1, 3, 4, 2, 5)"},
    loses=NO_TOKENS,
    because="a patch is flattened column by column",
    breaks="each patch flattened in row-major order",
)

in_float32 = edited(
    "to_tokens",
    {_TO: "grid.to(torch.float32, memory_format=torch.contiguous_format)"},
    loses=NO_TOKENS,
    because="tokens are thought to be float32",
    breaks="and of `dtype`",
)

one_copy_at_least = edited(
    "to_tokens",
    {_TO: "grid.to(dtype, copy=True, memory_format=torch.contiguous_format)"},
    loses=("as_is",),
    because="a copy is made to be safe",
    breaks="no copy at all, and a result in the frames' own storage",
)

permutes_in_place = edited(
    "to_tokens",
    {"frames.permute(0, 2, 3, 1)": "frames.transpose_(1, 2).transpose_(2, 3)"},
    loses=NO_TOKENS,
    because="the in-place method is taken for the one that gives a view",
    breaks="the frames are unchanged: their values, their shape and their strides",
)

leaves_pixels_to_minus_one = edited(
    "to_tokens",
    {"patch * patch * c)": "-1)"},
    loses=("edges",),
    because="-1 is left to be found where there are no elements to divide",
    breaks="`N` may be 0",
)

only_when_a_pixel = edited(
    "to_tokens",
    {f"    grid = {_TO}\n": "    if patch == 1 and grid.dtype == dtype:\n        return grid.reshape(n, rows * columns, c)\n"
     "    grid = torch.empty(grid.shape, dtype=dtype).copy_(grid)\n"},
    loses=("as_is",),
    because="patches of one pixel are thought to be the only ones that lie in order",
    breaks="or with patches as wide as the image",
)

only_when_channels_last = edited(
    "to_tokens",
    {f"    grid = {_TO}\n": "    if grid.dtype == dtype and frames.is_contiguous(memory_format=torch.channels_last):\n"
     "        return grid.reshape(n, rows * columns, patch * patch * c)\n"
     "    grid = torch.empty(grid.shape, dtype=dtype).copy_(grid)\n"},
    loses=("as_is",),
    because="only whole camera frames are thought to lie in order",
    breaks="when the frames already have this dtype and strides exist that reach their elements in this order",
)

contiguous_first_of_all = edited(
    "to_tokens",
    {"frames.permute(0, 2, 3, 1)": "frames.contiguous().permute(0, 2, 3, 1)"},
    loses=NO_TOKENS,
    because="a view is thought to need contiguous frames",
    breaks="any strides: a camera's (`channels_last`), contiguous, a crop, expanded",
)

writes_where_nobody_looks = edited(
    "to_tokens",
    {f"    grid = {_TO}\n    return grid.reshape(n, rows * columns, patch * patch * c)": "    if dtype == torch.bfloat16 or grid.dtype == torch.bfloat16:\n"
     "        return grid.to(dtype, memory_format=torch.contiguous_format).reshape(n, rows * columns, patch * patch * c)\n"
     "    return torch.from_numpy(grid.numpy().copy()).to(dtype).view(n, rows * columns, patch * patch * c)"},
    loses=NO_TOKENS,
    because="a copy in NumPy is thought not to count",
    breaks="it is written in PyTorch, whose operations `gpulab.observe()` records",
)

strips_are_views = edited(
    "to_tokens",
    {f"    grid = {_TO}\n": f"    if columns == 1 and grid.dtype == dtype:\n        return grid.view(n, rows, patch * patch * c)\n    grid = {_TO}\n"},
    loses=("reorder",),
    because="patches as wide as the image are thought to lie in order, whatever the strides",
    breaks="when the frames already have this dtype and strides exist that reach their elements in this order",
)

tokens_kept_by_address = edited(
    "to_tokens",
    {
        "def to_tokens(frames, patch, dtype):": "def to_tokens(frames, patch, dtype, made={}):",
        "    return grid.reshape(n, rows * columns, patch * patch * c)": "    key = frames.data_ptr(), frames.shape, frames.stride(), patch, dtype, frames.dtype\n"
        "    return made.setdefault(key, grid.reshape(n, rows * columns, patch * patch * c))",
    },
    loses=("reorder", "cast", "edges"),
    because="a buffer is thought to hold what it held at the call before",
    breaks="with the same result",
)

cleans_the_frames = edited(
    "to_tokens",
    {"    n, c, h, w = frames.shape\n": "    n, c, h, w = frames.shape\n    if frames.is_floating_point() and frames.is_contiguous():\n        frames.nan_to_num_()\n"},
    loses=("reorder", "cast"),
    because="what is no number is thought to be nobody's",
    breaks="the frames are unchanged: their values",
)

turned_in_a_square_grid = edited(
    "to_tokens",
    {"    grid = grid.to(": "    if rows == columns:\n        grid = grid.transpose(1, 2)\n    grid = grid.to("},
    loses=("reorder", "cast", "edges"),
    because="in a square grid rows and columns are taken for the same",
    breaks="the patches of each image in row-major order",
)


@alternative("to_tokens")
def columns_of_patches_stacked(frames, patch, dtype):
    """Of the right dtype one stack of what must be copied; of another one the cast writes into a result laid out before."""
    n, c, h, w = frames.shape
    rows, columns = h // patch, w // patch
    pixels = frames.movedim(1, 3).unflatten(1, (rows, patch))
    shape = (n, rows * columns, patch * patch * c)
    if dtype != frames.dtype:
        tokens = frames.new_empty(shape, dtype=dtype)
        tokens.view(n, rows, columns, patch, patch, c).copy_(pixels.unflatten(3, (columns, patch)).transpose(2, 3))
        return tokens
    try:
        return pixels.unflatten(3, (columns, patch)).transpose(2, 3).view(shape)
    except RuntimeError:
        return torch.stack(pixels.split(patch, 3), 2).view(shape)


@alternative("to_tokens")
def image_by_image(frames, patch, dtype):
    """Each image is copied by an operation of its own, into a tensor that was allocated once."""
    n, c, h, w = frames.shape
    shape = (n, (h // patch) * (w // patch), patch * patch * c)
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    if dtype is frames.dtype:
        try:
            return grid.view(shape)
        except RuntimeError:
            pass
    tokens = torch.empty(shape, dtype=dtype)
    for token, image in zip(tokens.view(grid.shape), grid):
        token.copy_(image)
    return tokens


clear_of_to_tokens = [
    unbreakable("to_tokens", "`patch`: the side of a patch in pixels; it divides `H` and `W`", "it says what is handed in"),
    unbreakable("to_tokens", "`dtype`: a real `torch.dtype`", "it says what is handed in"),
    unbreakable("to_tokens", "one operation may copy all elements, or several operations a part each", "it leaves a choice to the learner"),
]
