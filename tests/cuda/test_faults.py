"""An index out of range on the card: the launch returns, a later wait raises, and the card is lost."""

import pytest
import torch

import gpulab.cuda

F = torch.nn.functional
SAID = "device-side assert triggered"


@pytest.fixture
def card():
    """A virtual card that a test may ruin."""
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def outside():
    return torch.tensor([5], device="cuda")


def rows():
    return torch.ones(3, 2, device="cuda")


def assigned():
    x = rows()
    x[outside()] = 0.0


LAUNCHES = {
    "index": lambda: rows()[outside()],
    "assignment": assigned,
    "embedding": lambda: F.embedding(outside(), rows()),
    "embedding_bag": lambda: F.embedding_bag(outside()[None], rows()),
    "cross_entropy": lambda: F.cross_entropy(rows(), torch.tensor([0, 1, 7], device="cuda")),
    "gather": lambda: rows().gather(0, outside()[None]),
    "scatter_": lambda: rows().scatter_(0, outside()[None], 1.0),
    "index_select": lambda: rows().index_select(0, outside()),
    "index_add": lambda: rows().index_add(0, outside(), rows()[:1]),
    "one_hot": lambda: F.one_hot(outside(), 3),
    "take": lambda: rows().take(torch.tensor([50], device="cuda")),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(rows() * 2, rows()),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_launch_returns_and_the_next_wait_raises(card, name, capsys):
    LAUNCHES[name]()
    rows() + 1
    with pytest.raises(torch.AcceleratorError, match=SAID):
        torch.cuda.synchronize()
    assert "Assertion" in capsys.readouterr().err


def test_a_read_of_the_result_waits_and_raises(card):
    looked_up = rows()[outside()]
    assert looked_up.shape == (1, 2)
    with pytest.raises(torch.AcceleratorError, match=SAID):
        looked_up.sum().item()


def test_the_card_is_of_no_use_afterwards(card):
    x = rows()
    x[outside()]
    for call in (torch.cuda.synchronize, rows, lambda: x + 1, lambda: x.cpu(), torch.cuda.synchronize):
        with pytest.raises(torch.AcceleratorError, match=SAID):
            call()


def test_a_new_card_works(card):
    rows()[outside()]
    with gpulab.cuda.use("virtual:H100", quiet=True):
        assert rows().sum().item() == 6


def test_a_blocking_launch_raises_where_it_is_made(card, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    x, index = rows(), outside()
    with pytest.raises(torch.AcceleratorError, match=SAID):
        x[index]


def test_what_the_host_can_see_is_an_error_at_once(cuda):
    with pytest.raises(IndexError):
        rows()[5]
    with pytest.raises(IndexError, match="Dimension out of range"):
        rows().index_select(4, outside())
    torch.cuda.synchronize()


def test_a_division_of_integers_by_zero_is_no_error(cuda):
    x = torch.ones(3, dtype=torch.int64, device="cuda")
    for result in (x // 0, x // torch.zeros_like(x), x % 0):
        assert result.shape == x.shape
    torch.cuda.synchronize()
    assert (x // torch.tensor([1, 0, 1], device="cuda"))[::2].tolist() == [1, 1]
