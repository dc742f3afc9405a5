"""Events leave the process as they are made, and an observation that was edited afterwards does not match them."""

import copy
import gc

import pytest
import torch

import gpulab.cuda
from autograder.judge.event_log import EventLog, disagreement
from autograder.protocol import wire
from autograder.protocol.event_sink import MAX_EVENT_BYTES, sending_events
from autograder.runner.observed import observe
from gpulab.kernels import cuda
from gpulab.observe.launches import LineCounts


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def on_the_card():
    """Copies, kernels, a wait, a race, a launch and allocations."""
    x = torch.ones(64).cuda()
    with torch.cuda.stream(torch.cuda.Stream()):
        (x * 2).sum()
    x.add_(1)
    torch.ones(3, pin_memory=True).to("cuda", non_blocking=True)
    double[2, 32](x)
    x.sum().item()


def on_the_host():
    x = torch.ones(8, 8, requires_grad=True)
    torch.cat([x.t().reshape(-1), torch.zeros(3)]).to(torch.float64).sum().backward()


def logged(block, saved=False) -> tuple[list[bytes], dict]:
    events: list[bytes] = []
    with gpulab.cuda.use("virtual:H100", quiet=True), sending_events(events.append), observe(saved) as seen:
        block()
    return events, wire.decode(wire.encode(seen.to_dict()))


@pytest.mark.parametrize("block", [lambda: None, on_the_host, on_the_card])
def test_an_honest_observation_matches_its_events(block):
    assert disagreement(*logged(block)) is None


def test_what_autograd_saved_is_logged_and_an_edit_does_not_match():
    def block():
        on_the_host()
        x = torch.ones(3, requires_grad=True)
        return x.exp().sin(), torch.nn.functional.layer_norm(x, (3,))

    events, seen = logged(block, saved=True)
    assert disagreement(events, seen) is None and len(seen["saved"]) == 5
    for edit in (
        list.clear,
        list.pop,
        lambda saved: saved[0].update(bytes=0),
        lambda saved: saved[-1].update(what="argument"),
    ):
        edited = copy.deepcopy(seen)
        edit(edited["saved"])
        assert edited != seen and disagreement(events, edited) is not None
    assert disagreement(events, seen | {"saved": None}) is not None


def test_every_kind_of_record_is_logged():
    _, seen = logged(on_the_card)
    assert all(seen[name] for name in ("ops", "copies", "kernels", "waits", "races", "launches"))


EDITS = {
    **{
        f"no {name}": lambda seen, name=name: seen[name].clear()
        for name in ("ops", "copies", "kernels", "waits", "races", "launches")
    },
    "one wait less": lambda seen: seen["waits"].pop(),
    "one kernel twice": lambda seen: seen["kernels"].append(seen["kernels"][0]),
    "a faster kernel": lambda seen: seen["kernels"][0].update(end_us=0.0),
    "a smaller kernel": lambda seen: seen["kernels"][0].update(bytes_read=0),
    "fewer sectors": lambda seen: [line.update(read_sectors=0) for line in seen["launches"][0]["lines"]],
    "nothing allocated": lambda seen: seen.update(new_bytes=0),
    "nothing alive": lambda seen: seen.update(peak_bytes=0),
    "copies of none": lambda seen: seen["copies"][0].update(bytes=0),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_observation_does_not_match(edit):
    events, seen = logged(on_the_card)
    edited = copy.deepcopy(seen)
    edit(edited)
    assert edited != seen and disagreement(events, edited) is not None


def test_records_edited_on_the_heap_do_not_match():
    def edits():
        on_the_card()
        for found in gc.get_objects():
            if type(found) is LineCounts:
                object.__setattr__(found, "read_sectors", 0)

    assert "launches" in disagreement(*logged(edits))


def test_an_observation_without_events_does_not_match():
    _, seen = logged(on_the_host)
    assert "no event" in disagreement([], seen)


def test_a_second_observation_does_not_replace_the_first():
    events: list[bytes] = []
    with sending_events(events.append):
        with observe():
            on_the_host()
        with observe() as seen:
            pass
    assert "more than one" in disagreement(events, seen.to_dict())


def test_an_observation_of_the_learners_own_sends_no_events():
    def nested():
        with gpulab.observe():
            on_the_host()

    assert disagreement(*logged(nested)) is None


def test_the_event_log_is_bounded():
    log = EventLog()
    for _ in range(20):
        log.add(b"x" * (MAX_EVENT_BYTES // 4))
    assert sum(map(len, log.events)) <= 2 * MAX_EVENT_BYTES
    assert len(log.events) < 20


def test_without_an_event_sink_an_observation_works_as_ever():
    with observe() as seen:
        torch.ones(3).clone()
    assert [copy.op for copy in seen.copies] == ["aten.clone"]
