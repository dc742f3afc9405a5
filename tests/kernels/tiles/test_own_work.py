"""Who wrote an output: the learner's kernel, PyTorch, or nobody that was seen."""

import pytest
import torch

from gpulab import Observation, observe
from gpulab.observe import Authors
from tests.kernels.tiles import kernels


def softmax_by_kernel(x):
    out = torch.empty_like(x)
    kernels.softmax[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=128)
    return out


def softmax_by_torch_in_passing(x):
    softmax_by_kernel(x)
    return torch.softmax(x, 1)


def softmax_copied_by_a_decoy(x):
    out = torch.empty_like(x)
    kernels.copy[(1,)](torch.softmax(x, 1), out, x.numel(), BLOCK=4096)
    return out


def softmax_half_by_torch(x):
    out = softmax_by_kernel(x)
    out[5:] = torch.softmax(x[5:], 1)
    return out


def softmax_by_numpy(x):
    out = softmax_by_kernel(x)
    e = torch.exp(x).numpy()
    out.numpy()[:] = -e
    return out


def seen_in(fn):
    x = torch.randn(10, 100)
    with observe() as seen:
        out = fn(x)
    return seen, out


def test_the_bytes_of_an_own_kernel_are_its_own():
    seen, out = seen_in(softmax_by_kernel)
    assert seen.authors(out) == Authors(launch_bytes=out.nbytes, op_bytes=0, other_bytes=0)
    assert seen.computing_ops == ()


def test_a_launch_beside_torchs_work_earns_nothing():
    seen, out = seen_in(softmax_by_torch_in_passing)
    assert seen.authors(out) == Authors(0, out.nbytes, 0)
    assert seen.computing_ops == ("aten._softmax",)


def test_a_decoy_that_copies_shows_torchs_operation():
    seen, out = seen_in(softmax_copied_by_a_decoy)
    assert seen.authors(out).launch_bytes == out.nbytes
    assert seen.computing_ops == ("aten._softmax",)


def test_a_part_that_torch_wrote_last_is_torchs():
    seen, out = seen_in(softmax_half_by_torch)
    assert seen.authors(out) == Authors(out.nbytes // 2, out.nbytes // 2, 0)


def test_what_something_else_wrote_since_is_nobodys():
    seen, out = seen_in(softmax_by_numpy)
    assert seen.authors(out).other_bytes > out.nbytes // 2


def test_a_launch_over_torchs_work_is_the_launchs():
    def zeros_first(x):
        out = torch.zeros_like(x)
        kernels.copy[(1,)](x, out, x.numel(), BLOCK=1024)
        return out

    seen, out = seen_in(zeros_first)
    assert seen.authors(out).launch_bytes == out.nbytes


def test_bytes_that_no_one_wrote_are_nobodys():
    seen, out = seen_in(torch.empty_like)
    assert seen.authors(out) == Authors(0, 0, out.nbytes)


def test_a_view_shows_the_authors_of_what_it_shows():
    seen, out = seen_in(softmax_half_by_torch)
    assert seen.authors(out[5:]).launch_bytes == 0
    assert seen.authors(out[:5, ::2]) == Authors(5 * 50 * 4, 0, 0)


def test_in_place_and_out_variants_are_torchs_work():
    def by_out(x):
        out = softmax_by_kernel(x)
        torch.exp(x, out=out)
        return out

    def in_place(x):
        out = softmax_by_kernel(x)
        torch._foreach_add_([out], 1.0)
        return out

    for fn in (by_out, in_place):
        seen, out = seen_in(fn)
        assert seen.authors(out) == Authors(0, out.nbytes, 0)


def test_views_and_bare_allocations_compute_nothing():
    def looks(x):
        y = x.t().reshape(-1)[3:].unsqueeze(0) if x.is_contiguous() else x
        return y if y is None else torch.empty(3).view(3)

    x = torch.randn(4, 4)
    with observe() as seen:
        x.t().unsqueeze(0)[:, 1:].expand(2, 3, 4).detach().select(0, 1)
        torch.empty_like(x).new_empty(3).view(3)
        x.sum().item()
    assert seen.computing_ops == ("aten.sum",)


def test_who_wrote_is_known_in_the_process_that_saw_it():
    seen, out = seen_in(softmax_by_kernel)
    there = Observation.from_dict(seen.to_dict())
    assert there.computing_ops == ()
    with pytest.raises(RuntimeError, match="ask in the process that observed"):
        there.authors(out)


def test_an_operation_that_this_process_does_not_know_counts_as_computing():
    seen, _ = seen_in(softmax_by_kernel)
    data = seen.to_dict()
    data["ops"][0]["op"] = "learners_own.softmax"
    assert Observation.from_dict(data).computing_ops == ("learners_own.softmax",)
