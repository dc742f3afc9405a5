"""Memory that one stream frees and another uses: both races of PyTorch's notes on CUDA semantics.

https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams and ``Tensor.record_stream``.
"""

import pytest
import torch

import gpulab

ELEMENTS = 1 << 20
FIRST_WRITES = {
    "fill_": lambda a: a.fill_(7.0),
    "normal_": lambda a: a.normal_(),
    "copy_ from pinned memory": lambda a: a.copy_(torch.ones(ELEMENTS).pin_memory(), non_blocking=True),
    "add_": lambda a: a.add_(1.0),
    "out=": lambda a: torch.full((ELEMENTS,), 7.0, out=a),
}

pytestmark = pytest.mark.usefixtures("virtual")


def freed_with_work_pending():
    """A block of the default stream that goes back while a kernel still writes it."""
    x = torch.ones(ELEMENTS, device="cuda")
    y = x + 1
    del y


def races(program):
    with gpulab.observe() as seen:
        program()
    torch.cuda.synchronize()
    return seen.races


@pytest.mark.parametrize("name", FIRST_WRITES)
def test_recycled_memory_first_written_by_another_stream_is_a_race(name):
    side = torch.cuda.Stream()

    def program():
        freed_with_work_pending()
        a = torch.empty(ELEMENTS, device="cuda")
        with torch.cuda.stream(side):
            FIRST_WRITES[name](a)
        torch.cuda.synchronize()

    found = races(program)
    assert found and all(race.reuse for race in found)


@pytest.mark.parametrize("name", FIRST_WRITES)
def test_the_wait_without_a_read_dependency_mends_it(name):
    side = torch.cuda.Stream()

    def program():
        freed_with_work_pending()
        a = torch.empty(ELEMENTS, device="cuda")
        side.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(side):
            FIRST_WRITES[name](a)
        torch.cuda.synchronize()

    assert not races(program)


def test_a_wait_by_the_host_mends_it_too():
    side = torch.cuda.Stream()

    def program():
        freed_with_work_pending()
        a = torch.empty(ELEMENTS, device="cuda")
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(side):
            a.fill_(7.0)

    assert not races(program)


def test_fresh_memory_needs_no_wait():
    side = torch.cuda.Stream()

    def program():
        a = torch.empty(ELEMENTS, device="cuda")
        with torch.cuda.stream(side):
            a.fill_(7.0)

    assert not races(program)


def test_memory_of_the_side_stream_itself_needs_no_wait():
    side = torch.cuda.Stream()

    def program():
        freed_with_work_pending()
        with torch.cuda.stream(side):
            torch.empty(ELEMENTS, device="cuda").fill_(7.0)

    assert not races(program)


def freed_too_early(keep):
    side = torch.cuda.Stream()
    a = torch.ones(ELEMENTS, device="cuda")
    side.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(side):
        a.mul(2.0)
    if keep == "record_stream":
        a.record_stream(side)
    if keep == "wait":
        torch.cuda.default_stream().wait_stream(side)
    del a
    torch.zeros(ELEMENTS, device="cuda")


@pytest.mark.parametrize("keep", [None, "record_stream", "wait"])
def test_memory_freed_before_a_side_stream_is_done_with_it_is_a_race_unless_it_is_kept(keep):
    assert bool(races(lambda: freed_too_early(keep))) == (keep is None)


def test_a_recorded_stream_does_not_hide_the_work_of_the_owner():
    side, third = torch.cuda.Stream(), torch.cuda.Stream()

    def program():
        a = torch.ones(ELEMENTS, device="cuda")
        side.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(side):
            a.mul(2.0)
        a.record_stream(side)
        torch.cuda._sleep(10_000_000)
        a.add_(1.0)
        del a
        side.synchronize()
        b = torch.empty(ELEMENTS, device="cuda")
        with torch.cuda.stream(third):
            b.fill_(7.0)

    assert races(program)


def test_a_neighbours_work_is_no_race():
    side = torch.cuda.Stream()

    def program():
        whole = torch.empty(4 * ELEMENTS, device="cuda", dtype=torch.uint8)
        del whole
        busy = torch.empty(2 * ELEMENTS, device="cuda", dtype=torch.uint8)
        other = torch.empty(2 * ELEMENTS, device="cuda", dtype=torch.uint8)
        busy.fill_(1)
        del busy, other
        first = torch.empty(2 * ELEMENTS, device="cuda", dtype=torch.uint8)
        second = torch.empty(2 * ELEMENTS, device="cuda", dtype=torch.uint8)
        with torch.cuda.stream(side):
            second.fill_(1)
        del first

    assert not races(program)
