"""What travels behind one line: results that the host needs, indices that the host has. As an H100's profile says."""

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

pytestmark = pytest.mark.usefixtures("cuda")

UP, UP_PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
DOWN, DOWN_PINNED = "Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)"

LINES = {
    "item": (lambda x: x[0].item(), [DOWN_PINNED], True),
    "bool": (lambda x: bool(x[0] > 0), [DOWN_PINNED], True),
    "tolist": (lambda x: x.tolist(), [DOWN], True),
    "to the host": (lambda x: x.cpu(), [DOWN], True),
    "to the host, non_blocking": (lambda x: x.to("cpu", non_blocking=True), [DOWN_PINNED], False),
    "nonzero": (lambda x: x.nonzero(), [DOWN_PINNED], True),
    "where": (lambda x: torch.where(x > 0), [DOWN_PINNED], True),
    "a mask on the card": (lambda x: x[x > 0.5], [DOWN_PINNED], True),
    "a mask on the host": (lambda x: x[torch.ones(64, dtype=torch.bool)], [UP_PINNED], False),
    "a list of places": (lambda x: x[[1, 2]], [UP], True),
    "places on the host": (lambda x: x[torch.tensor([1, 2])], [UP], True),
    "places on the card": (lambda x: x[torch.arange(2, device="cuda")], [], False),
    "equal": (lambda x: torch.equal(x, x + 1), [DOWN_PINNED], True),
    "equal, the same memory": (lambda x: torch.equal(x, x), [], False),
    "unique": (lambda x: x.unique(), [DOWN_PINNED], True),
    "from a list": (lambda x: torch.tensor([1.0], device="cuda"), [UP], True),
    "full": (lambda x: torch.full((3,), 2.0, device="cuda"), [], False),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_copies_and_waits(name):
    line, copies, waits = LINES[name]
    x = torch.linspace(0, 1, 64, device="cuda")
    line(x)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        line(x)
    events = seen.events()
    assert [e.name for e in events if e.device_type == DeviceType.CUDA and e.name.startswith("Memcpy")] == copies
    assert ("cudaStreamSynchronize" in [e.name for e in events]) is waits


def test_no_index_on_the_host_enters_a_capture():
    x, places = torch.ones(64, device="cuda"), torch.tensor([1, 2])
    with pytest.raises((RuntimeError, NotImplementedError)):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x[places]
