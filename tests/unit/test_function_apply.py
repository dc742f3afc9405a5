"""gpulab.compat.function_apply: the frame around a Function that runs, and PyTorch's own ``apply`` after the block."""

import sys

import torch
from torch.autograd import Function

from gpulab.compat import function_apply

frames = []


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        frame = sys._getframe(1)
        frames.append(frame.f_locals.get("cls") if frame.f_code is function_apply.CODE else None)
        return 2 * x


def test_inside_the_block_a_function_runs_in_a_frame_that_names_it():
    with function_apply.leaving_a_frame():
        assert Doubled.apply(torch.ones(2)).tolist() == [2, 2]
    assert frames.pop() is Doubled


def test_after_the_last_of_nested_blocks_apply_is_pytorchs_own():
    before = vars(Function)["apply"]
    with function_apply.leaving_a_frame():
        with function_apply.leaving_a_frame():
            pass
        Doubled.apply(torch.ones(2))
    assert frames.pop() is Doubled and vars(Function)["apply"] is before
