"""The Python that a CUDA kernel may use, and the error messages for what it may not."""

import math

import numpy as np
import pytest
import torch

from gpulab.kernels import CompileError, KernelError, LaunchError, cuda, float32, int32
from tests.kernels.simt.launching import floats, launched, sound, zeros

TILE = 16
PADDED = TILE + 1
OUTSIDE = torch.ones(4)
NUMBERS = [1, 2]


def not_a_device_function(x):
    return x


def a_dict(x):
    d = {0: 1}
    x[0] = d[0]


def a_list(x):
    items = [1, 2]
    x[0] = items[0]


def a_comprehension(x):
    x[0] = max([k for k in range(3)])


def a_try(x):
    try:
        x[0] = 1
    except IndexError:
        x[0] = 2


def a_with(x):
    with open("file"):
        x[0] = 1


def a_raise(x):
    raise ValueError("no")


def an_assert(x):
    assert x[0] > 0


def an_f_string(x):
    print(f"{x[0]}")


def a_string(x):
    x[0] = "text"


def a_slice_assigned(x):
    x[2:4] = 1


def a_slice_of_no_step(x):
    y = x[:: x.size - x.size]
    y[0] = 1


def a_fraction_in_a_slice(x):
    y = x[x[0] :]
    y[0] = 1


def a_numpy_call(x):
    x[0] = np.sum(x)


def a_torch_call(x):
    x[0] = torch.sum(x)


def a_tensor_from_outside(x):
    x[0] = OUTSIDE[0]


def a_list_from_outside(x):
    x[0] = NUMBERS[0]


def a_host_function(x):
    x[0] = not_a_device_function(x[0])


def a_result(x):
    return x[0]


def an_unknown_name(x):
    x[0] = nowhere  # noqa: F821


def a_method(x):
    x[0] = x.sum()


def a_loop_over_a_number(x):
    for value in x[0]:
        x[0] = value


def a_function_that_math_has_and_numba_has_not(x):
    x[0] = math.cbrt(x[0])


def cooperative_groups(x):
    g = cuda.cg.this_grid()
    g.sync()


def a_mixed_tuple(x):
    for value in (1, 2.5):
        x[0] = value


def membership_in_an_array(x):
    x[0] = 3 in x


def a_range_of_fractions(x):
    for k in range(x[0]):
        x[0] = k


@cuda.jit(device=True)
def doubled(x, times=2):
    return x * times


def too_few_arguments(x):
    x[0] = doubled()


def an_argument_twice(x):
    x[0] = doubled(x[0], x=1)


def a_computed_shape(x):
    s = cuda.shared.array(TILE + 1, float32)
    s[0] = 1
    x[0] = s[0]


def a_shape_from_an_argument(x):
    s = cuda.shared.array(x.size, float32)
    s[0] = 1


def a_float_index(x):
    x[cuda.grid(1) / 2] = 1


def too_few_indices(x):
    s = cuda.shared.array((4, 4), float32)
    s[0] = 1


def a_grid_of_four(x):
    x[0] = cuda.grid(4)


def an_inverted_float(x):
    x[0] = ~x[0]


def a_matrix_product(x):
    x[0] = x @ x


def a_lambda(x):
    f = lambda value: value + 1
    x[0] = f(x[0])


def a_vote_on_a_bool(x):
    x[0] = cuda.syncthreads_count(x[0] > 1)


REFUSED = {
    a_dict: "a dict: Numba has no Python objects",
    a_list: "a list: Numba has no Python objects",
    a_comprehension: "a list comprehension",
    a_try: "a GPU has no exceptions",
    a_with: "no context managers",
    a_raise: "raise: it reaches nobody",
    an_assert: "assert: it is checked only with debug=True",
    an_f_string: "a GPU builds no strings",
    a_string: "a string",
    a_slice_assigned: "assigns single elements, in a loop",
    a_slice_of_no_step: "a slice's step is not 0",
    a_fraction_in_a_slice: "a slice's bound is no integer",
    a_function_that_math_has_and_numba_has_not: "math.cbrt: Numba has no such function for a kernel",
    cooperative_groups: "cuda.cg: cooperative groups",
    a_mixed_tuple: "parts of different kinds",
    membership_in_an_array: "in looks through a tuple of numbers",
    a_range_of_fractions: "range takes whole numbers",
    too_few_arguments: "doubled takes 2 arguments (x, times) and gets 0",
    an_argument_twice: "doubled takes 2 arguments",
    a_numpy_call: "np.sum: NumPy works on whole arrays",
    a_torch_call: "a kernel cannot call PyTorch",
    a_tensor_from_outside: "Tensor from outside the kernel",
    a_list_from_outside: "a list from outside",
    a_host_function: "not_a_device_function: a kernel calls device functions only",
    a_result: "a kernel returns nothing",
    an_unknown_name: "the name 'nowhere' is not defined",
    a_method: ".sum: inside a kernel an array has shape",
    a_loop_over_a_number: "a for loop runs over range",
    a_computed_shape: "TILE + 1 is no constant to Numba",
    a_shape_from_an_argument: "the shape must be known",
    a_float_index: "an index of x is no integer",
    too_few_indices: "s[0] is a part of an array",
    a_grid_of_four: "cuda.grid takes 1, 2 or 3",
    an_inverted_float: "invert",
    a_matrix_product: "Write the loop over k",
    a_lambda: "device function",
    a_vote_on_a_bool: "take an integer",
}


@pytest.mark.parametrize("function", list(REFUSED), ids=lambda function: function.__name__)
def test_what_is_outside_the_language_is_refused_with_its_reason_and_line(function):
    with pytest.raises(CompileError) as raised:
        cuda.jit(function)[1, 32](zeros(8))
    text = str(raised.value)
    assert REFUSED[function] in text
    first = function.__code__.co_firstlineno
    assert first < raised.value.line.number <= first + 5
    assert f"line {raised.value.line.number}: {raised.value.line.text}" in text


def test_a_kernel_that_is_refused_writes_nothing():
    x = floats(8)
    with pytest.raises(CompileError):
        cuda.jit(a_result)[1, 32](x)
    assert torch.equal(x, floats(8))


@cuda.jit
def named_shape(out):
    rows = 4
    s = cuda.shared.array((rows, PADDED), float32)
    s[cuda.threadIdx.x // PADDED, cuda.threadIdx.x % PADDED] = 1
    out[cuda.threadIdx.x] = s[cuda.threadIdx.x // PADDED, cuda.threadIdx.x % PADDED]


def test_shapes_may_be_named_constants_inside_or_outside_the_kernel():
    launch = launched(named_shape, 1, 64, zeros(64))
    assert sound(launch) and launch.shared_bytes == 4 * PADDED * 4


def test_a_launch_needs_a_grid_and_a_block():
    with pytest.raises(LaunchError, match=r"named_shape\[blocks, threads\]"):
        named_shape(zeros(64))
    with pytest.raises(LaunchError, match="a grid and a block"):
        named_shape[64](zeros(64))


def test_the_number_of_arguments_is_checked():
    with pytest.raises(LaunchError, match=r"named_shape\(out\) gets 2 arguments"):
        named_shape[1, 64](zeros(64), 1)


def test_intrinsics_outside_a_kernel_say_so():
    with pytest.raises(RuntimeError, match="for use inside a kernel"):
        cuda.grid(1)


# ---- limits of the card


@pytest.mark.parametrize(
    "grid, block, reason",
    [
        (1, 1025, "1025 threads"),
        (1, (32, 33), "1056 threads"),
        (1, (1, 1, 65), "block.z is 65"),
        (0, 32, "every extent is at least 1"),
        ((1, 65536), 32, "grid.y is 65536"),
        (2**31, 32, "grid.x"),
        (1.5, 32, "whole numbers"),
        ((1, 1, 1, 1), 32, "one, two or three"),
    ],
)
def test_a_launch_beyond_cudas_limits_is_refused(grid, block, reason):
    with pytest.raises(LaunchError, match=reason):
        named_shape[grid, block](zeros(64))


@cuda.jit
def too_much_static(out):
    s = cuda.shared.array(12289, float32)
    s[0] = 1


@cuda.jit
def two_arrays_too_much(out):
    s = cuda.shared.array(6144, float32)
    t = cuda.shared.array(6145, float32)
    s[0] = 1
    t[0] = 1


@pytest.mark.parametrize("kernel", [too_much_static, two_arrays_too_much])
def test_static_shared_memory_ends_at_48_kib(kernel):
    with pytest.raises(LaunchError, match="uses too much shared data .*0xc000 max"):
        kernel[1, 1](zeros(1))


@cuda.jit
def dynamic(out):
    s = cuda.shared.array(0, float32)
    s[cuda.threadIdx.x] = 1
    out[cuda.threadIdx.x] = s[cuda.threadIdx.x]


def test_dynamic_shared_memory_goes_up_to_what_the_card_gives_a_block():
    import gpulab

    launch = launched(dynamic, 1, 32, zeros(32), shared_bytes=227 * 1024)
    assert launch.occupancy.limit == "shared memory" and launch.occupancy.blocks == 1
    with pytest.raises(LaunchError, match="gives a block at most 232448"):
        dynamic[1, 32, 0, 227 * 1024 + 1](zeros(32))
    with gpulab.cuda.use("virtual:T4", quiet=True), pytest.raises(LaunchError, match="at most 65536"):
        dynamic[1, 32, 0, 100 * 1024](torch.zeros(32, device="cuda"))


def test_dynamic_shared_memory_has_the_size_that_the_launch_gives_it():
    (fault,) = launched(dynamic, 1, 64, zeros(64), shared_bytes=60 * 4).faults[:1]
    assert (fault.kind, fault.index) == ("out of bounds", (60,))


# ---- arguments


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@pytest.mark.parametrize(
    "argument, reason",
    [
        (torch.zeros(4, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(4, requires_grad=True), r"Pass x.detach\(\)"),
        ([1, 2], "x is a list"),
        ("text", "x is a str"),
        (None, "x is a NoneType"),
        (np.array(["a"]), "dtype <U1"),
        (np.zeros(4)[::-1], "make it contiguous"),
    ],
)
def test_arguments_that_numba_or_the_interpreter_cannot_take_are_refused(argument, reason):
    with pytest.raises(LaunchError, match=reason):
        fill[1, 32](argument, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool])
def test_tensors_are_written_in_place_in_their_own_dtype(dtype):
    x = torch.zeros(5, dtype=dtype)
    fill[1, 32](x, 1)
    assert x.dtype == dtype and x.to(torch.float32).tolist() == [1] * 5


@cuda.jit
def transposed_copy(out, a):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[y, x] = a[y, x]


def test_strides_are_followed():
    base = torch.arange(60, dtype=torch.float32).reshape(6, 10)
    out = zeros(10, 6)
    launched(transposed_copy, (1, 1), (32, 32), out, base.T)
    assert torch.equal(out, base.T)
    out = zeros(3, 5)
    launched(transposed_copy, (1, 1), (32, 32), out, base[::2, ::2])
    assert torch.equal(out, base[::2, ::2])


@cuda.jit
def scalars_and_tuples(out, shape, scale, flag):
    rows, cols = shape
    i = cuda.grid(1)
    if i < out.size and flag:
        out[i] = rows * scale + cols + shape[1]


def test_numbers_and_tuples_are_arguments():
    out = zeros(4)
    scalars_and_tuples[1, 32](out, (3, 5), 0.5, True)
    assert out.tolist() == [11.5] * 4


@cuda.jit
def stays_float32(out, x):
    i = cuda.grid(1)
    total = float32(0)
    for k in range(1000):
        total += x[i]
    out[i] = total


def test_float32_stays_float32():
    x, out = torch.full((32,), 0.1), torch.zeros(32, dtype=torch.float64)
    launched(stays_float32, 1, 32, out, x)
    expected = np.float32(0)
    for _ in range(1000):
        expected += np.float32(0.1)
    assert out[0].item() == float(expected)


@cuda.jit
def wraps(out, x):
    i = cuda.grid(1)
    out[i] = x[i] * 3


def test_a_store_wraps_to_the_arrays_integers():
    x, out = torch.full((4,), 100, dtype=torch.int8), torch.zeros(4, dtype=torch.int8)
    launched(wraps, 1, 4, out, x)
    assert out.tolist() == [np.int64(300).astype(np.int8)] * 4


@cuda.jit
def divides(out, x):
    i = cuda.grid(1)
    out[i, 0] = x[i] / 0
    out[i, 1] = x[i] // 0


def test_a_division_by_zero_raises_nothing():
    out = torch.zeros(1, 2)
    assert sound(launched(divides, 1, 1, out, torch.ones(1)))
    assert math.isinf(out[0, 0])


@cuda.jit
def many_blocks(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = cuda.blockIdx.x * 1000 + cuda.threadIdx.x


@pytest.mark.parametrize("block", [1, 7, 32, 100, 256, 1024])
def test_every_thread_of_every_block_runs_once(block):
    n = 20_000
    out = torch.full((n,), -1, dtype=torch.int32)
    grid = -(-n // block)
    launch = launched(many_blocks, grid, block, out, n)
    i = torch.arange(n)
    assert torch.equal(out.long(), i // block * 1000 + i % block) and sound(launch)
    assert launch.total("stores") == n


@cuda.jit
def says(x):
    i = cuda.grid(1)
    if i < 2:
        print("thread", i, x[i])


def test_print_prints_a_line_for_each_active_lane(capsys):
    says[1, 32](floats(32))
    assert capsys.readouterr().out == "thread 0 0.0\nthread 1 1.0\n"


@cuda.jit(device=True)
def calls_itself(n):
    return calls_itself(n - 1) if n > 0 else 0


@cuda.jit
def recursive(x):
    x[0] = calls_itself(3)


def test_recursion_is_refused():
    with pytest.raises(KernelError, match="calls itself"):
        recursive[1, 1](zeros(1))


@cuda.jit
def atomics(x, counts, olds):
    i = cuda.grid(1)
    olds[i] = cuda.atomic.add(counts, 0, 2)
    cuda.atomic.max(x, (0, 1), i)
    cuda.atomic.exch(counts, 1, 5)
    cuda.atomic.cas(counts, 2, 0, i + 1)
    cuda.atomic.inc(counts, 3, 9)
    cuda.atomic.sub(counts, 4, 1)


def test_atomics_give_what_was_there_before():
    x, counts, olds = zeros(1, 2), torch.zeros(5, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    assert sound(launched(atomics, 2, 32, x, counts, olds))
    assert sorted(olds.tolist()) == list(range(0, 128, 2))
    assert x[0, 1] == 63
    assert counts.tolist() == [128, 5, 1, 64 % 10, -64]


def test_a_dtype_may_be_torchs_numpys_or_numbas():
    from gpulab.kernels.simt.values import as_dtype

    numba = pytest.importorskip("numba")
    for name in ("float32", "int64", "uint8"):
        assert {as_dtype(getattr(module, name)) for module in (np, torch, numba)} == {np.dtype(name)}
    assert as_dtype(int32) == np.int32
