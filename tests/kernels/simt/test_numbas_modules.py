"""``cuda.random``, ``cuda.libdevice``, constant memory, ``forall``, defaults, and the host's side of ``cuda``."""

import math

import numpy as np
import pytest
import torch

import gpulab
from gpulab.kernels import CompileError, LaunchError, cuda
from gpulab.kernels.cuda import libdevice
from gpulab.kernels.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)
from tests.kernels.simt.launching import floats, launched, sound, zeros

pytest.importorskip("numba", reason="numba is a test dependency: pip install -e .[test]")
DRAWS = ("next", "uniform_float32", "uniform_float64", "normal_float32", "normal_float64")


# ---- random numbers


@cuda.jit
def draws(states, whole, out):
    i = cuda.grid(1)
    for k in range(3):
        whole[i, k] = xoroshiro128p_next(states, i)
        out[i, 4 * k] = xoroshiro128p_uniform_float32(states, i)
        out[i, 4 * k + 1] = xoroshiro128p_uniform_float64(states, i)
        out[i, 4 * k + 2] = xoroshiro128p_normal_float32(states, i)
        out[i, 4 * k + 3] = xoroshiro128p_normal_float64(states, i)


def numbas_states(count, seed, first):
    from numba.cuda import random

    states = np.empty(count, random.xoroshiro128p_dtype)
    random.init_xoroshiro128p_states_cpu(states, seed, first)
    return states


@pytest.mark.parametrize("count, seed, first", [(1, 0, 0), (33, 7, 0), (5, 2**62 + 9, 17)])
def test_the_states_are_numbas_bit_for_bit(count, seed, first):
    ours = create_xoroshiro128p_states(count, seed, first).copy_to_host()
    assert np.array_equal(ours, numbas_states(count, seed, first).view(np.uint64).reshape(count, 2))


def test_the_numbers_are_numbas_bit_for_bit():
    from numba.cuda import random

    states, whole, out = create_xoroshiro128p_states(32, 11), np.zeros((32, 3), np.uint64), np.zeros((32, 12))
    draws[1, 32](states, whole, out)
    theirs = numbas_states(32, 11, 0)
    for i in range(32):
        for k in range(3):
            number, *rest = (getattr(random, f"xoroshiro128p_{draw}")(theirs, i) for draw in DRAWS)
            assert whole[i, k] == number and out[i, 4 * k] == rest[0] and out[i, 4 * k + 1] == rest[1]
            np.testing.assert_allclose(out[i, 4 * k + 2 : 4 * k + 4], rest[2:], rtol=2e-6)
    assert np.array_equal(states.copy_to_host(), theirs.view(np.uint64).reshape(32, 2))


@cuda.jit
def shares_one_state(states, out):
    out[cuda.grid(1)] = xoroshiro128p_uniform_float32(states, 0)


def test_threads_that_share_a_state_race():
    races = launched(shares_one_state, 1, 32, create_xoroshiro128p_states(1, 1), zeros(32)).races
    assert {race.array for race in races} == {"states"}


# ---- libdevice and constant memory


@cuda.jit
def by_libdevice(out, x):
    i = cuda.grid(1)
    out[i, 0] = libdevice.sinf(x[i])
    out[i, 1] = libdevice.rsqrt(x[i])
    out[i, 2] = cuda.libdevice.fmaf(x[i], 2.0, 1.0)
    out[i, 3] = libdevice.fast_expf(x[i]) + libdevice.round(x[i])


def test_libdevice_computes_in_the_width_that_its_name_says():
    x, out = np.array([0.5, 1.25, 2.5]), np.zeros((3, 4))
    by_libdevice[1, 3](out, x)
    narrow = x.astype(np.float32)
    assert np.array_equal(out[:, 0], np.sin(narrow).astype(np.float64))
    np.testing.assert_allclose(out[:, 1], 1 / np.sqrt(x), rtol=1e-15)
    assert np.array_equal(out[:, 2], 2 * x + 1)
    np.testing.assert_allclose(out[:, 3], np.exp(narrow) + np.array([1.0, 1.0, 3.0]), rtol=1e-6)


def test_each_name_of_our_libdevice_is_one_of_numbas():
    from numba.cuda import libdevice as theirs

    from gpulab.kernels.simt.intrinsics import Operation, meaning_of

    ours = {name: thing for name, thing in vars(libdevice).items() if isinstance(thing, Operation)}
    assert len(ours) > 80 and set(ours) <= set(dir(theirs))
    assert all(meaning_of(getattr(theirs, name)) is thing for name, thing in ours.items())


@cuda.jit
def by_an_unknown_function(out):
    out[0] = libdevice.j0(out[0])


TABLE = np.arange(4.0)


@cuda.jit
def writes_a_constant(out):
    table = cuda.const.array_like(TABLE)
    table[0] = 1


@cuda.jit
def reads_a_constant(out):
    table = cuda.const.array_like(TABLE)
    out[cuda.grid(1)] = table[cuda.grid(1) % 4]


def test_constant_memory_is_read_only_and_no_global_traffic():
    launch = launched(reads_a_constant, 1, 32, zeros(32))
    assert sound(launch) and launch.total("read_sectors") == 0
    with pytest.raises(CompileError, match="constant memory: a kernel cannot write"):
        writes_a_constant[1, 1](zeros(1))
    with pytest.raises(CompileError, match="libdevice.j0"):
        by_an_unknown_function[1, 1](zeros(1))


# ---- launches


@cuda.jit
def scales(x, factor=2, shift=0.5):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor + shift


@pytest.mark.parametrize("given, expected", [((), 2.5), ((3,), 3.5), ((3, 0), 3)])
def test_a_kernels_arguments_may_have_defaults(given, expected):
    x = torch.ones(5)
    scales[1, 32](x, *given)
    assert x.tolist() == [expected] * 5


def test_a_launch_takes_no_named_arguments_and_no_text_as_default():
    with pytest.raises(LaunchError, match="positional arguments, and no factor="):
        scales[1, 32](torch.ones(5), factor=3)

    def with_text(x, name="a"):
        x[0] = 1

    with pytest.raises(CompileError, match="the default of name is no number"):
        cuda.jit(with_text)[1, 1](zeros(1))


def test_forall_makes_enough_threads():
    x = torch.ones(3000)
    with gpulab.observe() as seen:
        scales.forall(3000)(x)
        scales.forall(3000, tpb=128)(x)
    assert [(launch.grid[0], launch.block[0]) for launch in seen.launches] == [(3, 1024), (24, 128)]
    assert x[-1] == 5.5 and scales.forall(0)(x) is None
    with pytest.raises(ValueError):
        scales.forall(-1)
    with gpulab.cuda.use("virtual:A10", quiet=True):
        assert scales.forall(3000).block[0] == 768


# ---- the host's side


def test_what_is_copied_to_the_device_comes_back_only_by_a_copy():
    host = np.ones(5, dtype=np.float32)
    there = cuda.to_device(host)
    scales[1, 32](there)
    assert host.tolist() == [1] * 5
    assert there.copy_to_host().tolist() == [2.5] * 5 and there[0] == 2.5
    there.copy_to_host(host)
    assert host.tolist() == [2.5] * 5


def test_device_arrays_have_numbas_attributes():
    made = cuda.device_array((3, 4), np.int32)
    assert (made.shape, made.size, made.ndim, made.dtype, made.nbytes) == ((3, 4), 12, 2, np.int32, 48)
    like = cuda.device_array_like(made)
    like.copy_to_device(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert like[1].copy_to_host().tolist() == [4, 5, 6, 7] and len(like) == 3
    with pytest.raises(ValueError):
        like.copy_to_device(np.zeros(3))


def test_memory_of_the_device_that_nobody_wrote_holds_no_zeros():
    assert np.isnan(cuda.device_array(4, np.float32).copy_to_host()).all()


def test_on_a_card_they_lie_on_the_card_and_copies_are_seen():
    with gpulab.cuda.use("virtual:H100", quiet=True), gpulab.observe() as seen:
        stream = cuda.stream()
        there = cuda.to_device(np.ones(256, dtype=np.float32), stream)
        scales[1, 256, stream](there)
        stream.synchronize()
        back = there.copy_to_host()
    assert there.tensor.is_cuda and back.tolist() == [2.5] * 256
    assert len(seen.launches) == 1
    assert [(copy.kind, copy.bytes) for copy in seen.copies] == [("HtoD", 1024), ("DtoH", 1024)]
    assert seen.races == ()


def test_without_a_card_streams_mean_nothing_and_are_taken():
    stream = cuda.stream()
    x = torch.ones(4)
    with stream.auto_synchronize():
        scales[1, 32, stream](x)
    assert x.tolist() == [2.5] * 4 and not cuda.is_available()


def test_what_numba_cuda_has_and_we_have_not_is_named():
    with pytest.raises(AttributeError, match="cuda.gpus: use torch.cuda.device_count"):
        cuda.gpus
    with pytest.raises(AttributeError, match="cuda.nowhere: this interpreter has no such name"):
        cuda.nowhere


@cuda.jit
def more_warp_functions(out, agreed, x):
    i = cuda.grid(1)
    mask, same = cuda.match_all_sync(0xFFFFFFFF, int(x[i]) // 32)
    out[i], agreed[i] = cuda.popc(mask) + cuda.cbrt(27.0), same
    cuda.nanosleep(10)


def test_match_all_sync_tells_whether_a_warp_agrees():
    out, agreed = zeros(64), torch.zeros(64, dtype=torch.bool)
    assert sound(launched(more_warp_functions, 1, 64, out, agreed, floats(64, start=16)))
    assert not agreed.any()
    assert sound(launched(more_warp_functions, 1, 64, out, agreed, floats(64)))
    assert agreed.all() and out.tolist() == [35] * 64


def test_math_matches_python_at_its_corners():
    from gpulab.kernels.simt import mathematics

    x = np.array([0.0, -0.0, 5.5, -5.5, 1e300, math.inf, 2.5, 7.5])
    for y in (1.0, -3.0, math.inf, 5.0):
        with np.errstate(invalid="ignore"):
            found = mathematics.remainder(x, np.full(8, y))
        for ours, value in zip(found, x):
            theirs = math.nan if math.isinf(value) else math.remainder(value, y)
            assert ours == theirs or math.isnan(ours) and math.isnan(theirs), (value, y)
    assert mathematics.gamma(np.array([5.0, 0.0, -1.0, 200.0])).tolist()[:2] == [24.0, math.inf]
