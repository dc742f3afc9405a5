"""A function is called once before, while its tensors' memory holds something else."""

import torch

from exercises.views.compact.run_refilled import zeroed_first


def test_the_first_call_sees_zeros_and_then_everything_is_as_it_was():
    base = torch.arange(1.0, 13).reshape(3, 4)
    base[0, 0] = torch.nan
    cut, repeated, flags = base[1:].t(), base[:1].expand(5, 4), torch.tensor([True, False])
    before, seen = [tensor.clone() for tensor in (cut, repeated, flags)], []
    zeroed_first(
        lambda: seen.append([int(tensor.count_nonzero()) for tensor in (cut, repeated, flags)]), cut, repeated, flags
    )
    assert seen == [[0, 0, 0]]
    for after, expected in zip((cut, repeated, flags), before):
        assert (
            after.equal(expected)
            or after.isnan().equal(expected.isnan())
            and after.nan_to_num().equal(expected.nan_to_num())
        )


def test_a_tensor_that_requires_grad_stays_on_its_graph():
    leaf = torch.ones(3, requires_grad=True)
    hanging = leaf.view_as(leaf)
    zeroed_first(lambda: None, leaf, hanging)
    (hanging * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2] and leaf.tolist() == [1, 1, 1]


def test_no_tensor_is_one_call():
    called = []
    zeroed_first(lambda: called.append(1))
    assert called == [1]
