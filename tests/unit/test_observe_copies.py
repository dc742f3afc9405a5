"""What observe() calls a copy, and what it does not."""

import pytest
import torch

from gpulab import observe, shares_storage
from gpulab.observe import device

X = torch.arange(24.0).view(4, 6)


def kinds(action) -> list[str]:
    with observe() as seen:
        action()
    return [copy.kind for copy in seen.copies]


@pytest.mark.parametrize(
    "view",
    [
        lambda: X.t(),
        lambda: X[1:3, ::2],
        lambda: X.view(2, 12),
        lambda: X.expand(3, 4, 6),
        lambda: X.t().t().reshape(24),
        lambda: X.contiguous(),
        lambda: X.to(torch.float32),
        lambda: X.unfold(0, 2, 2),
        lambda: X.detach(),
    ],
)
def test_a_view_is_no_copy(view):
    with observe() as seen:
        result = view()
    assert seen.copies == () and seen.new_bytes == 0
    assert shares_storage(result, X)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("clone", lambda: X.clone()),
        ("clone", lambda: X.t().contiguous()),
        ("clone", lambda: X.t().reshape(24)),
        ("clone", lambda: X.to(torch.float32, copy=True)),
        ("cast", lambda: X.to(torch.float64)),
        ("cast", lambda: X.int()),
        ("gather", lambda: X[torch.tensor([0, 2])]),
        ("gather", lambda: X.index_select(0, torch.tensor([1]))),
        ("gather", lambda: X[X > 3]),
        ("gather", lambda: X.flip(0)),
        ("gather", lambda: torch.roll(X, 1, 0)),
        ("cat", lambda: torch.cat([X, X])),
        ("cat", lambda: torch.stack([X, X])),
        ("cat", lambda: X.repeat(2, 1)),
        ("pad", lambda: torch.nn.functional.pad(X, (1, 1))),
    ],
)
def test_an_operation_that_only_moves_elements_is_a_copy_of_its_kind(kind, action):
    assert kinds(action) == [kind]


def test_arithmetic_allocates_and_is_no_copy():
    with observe() as seen:
        X * 2
    assert seen.copies == () and seen.new_bytes == X.nbytes


def test_copy_into_a_tensor_of_the_same_dtype_is_copy_():
    target = torch.empty(4, 6)
    assert kinds(lambda: target.copy_(X)) == ["copy_"]


def test_copy_into_a_tensor_of_another_dtype_is_a_cast():
    target = torch.empty(4, 6, dtype=torch.float64)
    assert kinds(lambda: target.copy_(X)) == ["cast"]


def test_slice_assignment_is_copy_():
    target = torch.zeros(8, 6)

    def assign():
        target[:4] = X

    assert kinds(assign) == ["copy_"]


def test_a_copy_counts_the_bytes_written():
    with observe() as seen:
        X.to(torch.float64)
        X[:2].clone()
    assert [copy.bytes for copy in seen.copies] == [24 * 8, 12 * 4]
    assert seen.copied_bytes == 24 * 8 + 12 * 4


def test_a_copy_inside_backward_is_seen():
    x = X.clone().requires_grad_()
    with observe() as seen:
        x.t().reshape(24).sum().backward()
    assert "aten.clone" in [copy.op for copy in seen.copies]
    assert any(op.op == "aten.expand" for op in seen.ops)


class Card:
    """A device whose instrument records what crosses, as a GPU's profiler does."""

    description = "a card, measured"

    def start(self, log):
        self.log = log

    def stop(self, log):
        log.copy("HtoD", 96, False, 0, 0.0, 1.0, None)

    def host_operation(self, name, tensors):
        pass


def test_what_crosses_to_a_device_that_is_watched_is_its_instruments_alone(monkeypatch):
    """PyTorch's own operation for it would be the same copy once more; its "meta" stands for a GPU here."""
    monkeypatch.setattr(device, "_device", Card())
    assert kinds(lambda: X.to("meta")) == ["HtoD"]
    assert kinds(lambda: X.clone()) == ["clone", "HtoD"]
