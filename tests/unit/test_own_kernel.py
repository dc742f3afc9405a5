"""What a learner is told of a race in a kernel of their own: whether it is between two programs or inside one."""

import pytest
import torch

from exercises.kernels.own_kernel import fault_problem
from gpulab import observe
from gpulab.kernels import tl, triton

N = 16


@triton.jit
def one_element_for_all(tmp_ptr, out_ptr, N: tl.constexpr):
    tl.store(tmp_ptr, tl.program_id(0))


@triton.jit
def loaded_in_reverse(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def in_pairs(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i // 2, 2.0 * i)


SAID = (
    (one_element_for_all, 2, "two programs use one element of tmp_ptr."),
    (
        loaded_in_reverse,
        1,
        "it loads an element of tmp_ptr that the same program stored at another place of a tile, and no "
        "`tl.debug_barrier()` stands between the two.",
    ),
    (in_pairs, 1, "two lanes of one store write different values to one element of tmp_ptr."),
)


@pytest.mark.parametrize(("kernel", "programs", "said"), SAID, ids=[kernel.__name__ for kernel, *_ in SAID])
def test_a_race_is_said_to_be_of_those_who_race(kernel, programs, said):
    with observe() as seen:
        kernel[(programs,)](torch.zeros(N), torch.zeros(N), N=N)
    assert fault_problem(seen).endswith(f"`: {said}")
