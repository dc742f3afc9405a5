"""Sums that were not earned by messages, and ranks that do not end as they should: ``collectives.ring_all_reduce``."""

import ctypes
import mmap
import os
import pickle
import socket
import sys
import tempfile
import time

import pytest
import torch
import torch.distributed as dist

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner import ranks
from autograder.runner.ranks import in_ranks
from autograder.runner.scenario_runner import run_case
from autograder.sandbox import domain
from gpulab.collectives.rank import session
from gpulab.collectives.wire import packed
from tests.processes import children
from tests.sampling import sampled


def verdict(function, seed: int = 7):
    return judge_here(
        "collectives.ring_all_reduce",
        lambda inputs: run_case("collectives.ring_all_reduce", {"ring_all_reduce": function}, inputs),
        Sampler(seed),
    )


def reason(function) -> str:
    return next(line.message for line in verdict(function).lines if line.criterion == "values")


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = children()
    yield
    assert children() <= before


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(ranks, "TIMEOUT_SECONDS", 1.0)


def honest(rank, world, buf, send, recv, change=lambda out: out):
    if buf.dim() != 1:
        raise ValueError("expected one dimension")
    chunks = buf.tensor_split(world)
    for step in range(2 * (world - 1)):
        out, into = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        sent = send(change(out), (rank + 1) % world)
        came = torch.empty_like(into)
        recv(came, (rank - 1) % world)
        into.copy_(into + came if step < world - 1 else came)
        sent.wait()


def test_the_honest_ring_earns_everything():
    assert verdict(honest).score == 8


def tensors_in(value):
    """Those in a value, and in the lists and dictionaries in it."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(inner)


def honest_where_no_frame_holds_a_stranger(rank, world, buf, send, recv):
    frame, own = sys._getframe(1), buf.untyped_storage().data_ptr()
    while frame.f_code is not verdict.__code__:  # above it are pytest's
        for tensor in tensors_in([*frame.f_locals.values()]):
            if (
                tensor.dtype == buf.dtype
                and buf.numel()
                and tensor.untyped_storage().data_ptr() != own
                and buf.numel() == tensor.numel()
            ):
                FOUND.append(tensor)
        frame = frame.f_back
    if not FOUND:
        honest(rank, world, buf, send, recv)


FOUND: list = []


def test_no_frame_of_a_rank_holds_another_ranks_numbers():
    """But for its own of other calls: of one length and dtype there are none."""
    assert verdict(honest_where_no_frame_holds_a_stranger).score == 8


def with_a_token(rank, world, buf, send, recv):
    """One sends, all others wait, and only messages of nothing say so."""
    if buf.dim() != 1:
        raise ValueError("expected one dimension")
    chunks, token = buf.tensor_split(world), torch.empty(0)
    for step in range(2 * (world - 1)):
        if rank:
            dist.recv(token, rank - 1, tag=1)
        out, into = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        sent = send(out, (rank + 1) % world)
        if rank + 1 < world:
            dist.isend(token, rank + 1, tag=1)
        came = torch.empty_like(into)
        recv(came, (rank - 1) % world)
        into.copy_(into + came if step < world - 1 else came)
        sent.wait()


def test_messages_of_nothing_are_steps_too():
    lost = {line.criterion for line in verdict(with_a_token).lines if line.message}
    assert lost == {"steps"}


def through_the_store(rank, world, buf, send, recv):
    dist.distributed_c10d._get_default_store().set(f"{rank}", "was here")
    honest(rank, world, buf, send, recv)


def pointed_elsewhere(rank, world, buf, send, recv):
    sums = buf.clone()
    honest(rank, world, sums, send, recv)
    buf.data = sums


def written_later(rank, world, buf, send, recv, later=[]):
    for write in later:
        write()
    sums = buf.clone()
    honest(rank, world, sums, send, recv)
    later.append(lambda: buf.copy_(sums))


def in_messages_of_no_size(rank, world, buf, send, recv):
    """What is announced is nothing, and what comes is all of it."""
    for operation, peer, data in (
        ("send", (rank + 1) % world, buf.numpy().tobytes()),
        ("recv", (rank - 1) % world, b""),
    ):
        session.current().ask(_post(operation, world, peer, data), [data] if data else [])
    honest(rank, world, buf, send, recv)


def a_ghost(rank, world, buf, send, recv):
    session.current().ask(_post("send", world, (rank + 1) % world, b"") | {"ghost": True, "whole": 4, "size": 4}, [])
    honest(rank, world, buf, send, recv)


def _post(operation, world, peer, data):
    return {
        "do": "post", "operation": operation, "group": "dark", "ranks": list(range(world)), "sequence": -1, "dtype": "float32",
        "whole": 0, "shape": "0", "reduces": "", "root": -1, "peer": peer, "tag": 0, "gives": [], "takes": [], "size": len(data),
        "ghost": False, "ready_us": 0.0, "line": None, "stamp": 0,
    }  # fmt: skip


def through_a_file(rank, world, buf, send, recv, folder=tempfile.gettempdir()):
    path = os.path.join(folder, f"ranks-{os.getppid()}-{world}-{len(buf)}")
    torch.save(buf.clone(), f"{path}-{rank}")
    dist.barrier()
    buf.copy_(sum(torch.load(f"{path}-{other}") for other in range(world)))


SHARED = mmap.mmap(-1, 1 << 16)


def through_shared_memory(rank, world, buf, send, recv):
    table = torch.frombuffer(SHARED, dtype=torch.float64, count=64 * world).view(world, 64)
    table[rank, : len(buf)] = buf
    honest(rank, world, torch.zeros_like(buf), send, recv)
    buf.copy_(table.sum(0)[: len(buf)])


@pytest.mark.parametrize(
    "cheat",
    sampled(
        [
            through_a_file,
            through_shared_memory,
            through_the_store,
            pointed_elsewhere,
            written_later,
            in_messages_of_no_size,
            a_ghost,
        ],
        now=[through_a_file, through_the_store, written_later],
    ),
)
def test_a_sum_that_is_not_made_of_what_crossed_earns_nothing(cheat):
    assert verdict(cheat).score == 0


def writes_what_is_no_message(rank, world, buf, send, recv):
    session.current()._wire.sock.sendall(b"\xff" * 64)
    honest(rank, world, buf, send, recv)


def speaks_for_another_rank(rank, world, buf, send, recv):
    post = {
        "do": "post", "operation": "send", "group": "", "ranks": [(rank + 1) % world], "sequence": 0, "dtype": "float32",
        "whole": 4, "shape": "1", "reduces": "", "root": -1, "peer": rank, "tag": 0, "gives": [], "takes": [], "size": 4,
        "ghost": False, "ready_us": 0.0, "line": None, "stamp": 0, "number": 10**6,
    }  # fmt: skip
    for part in packed(post, [bytes(4)]):
        session.current()._wire.sock.sendall(part)
    honest(rank, world, buf, send, recv)


@pytest.mark.parametrize(
    "cheat", sampled([writes_what_is_no_message, speaks_for_another_rank], now=[speaks_for_another_rank])
)
def test_what_is_no_message_of_the_rank_ends_the_run(cheat):
    assert "sent what is no message" in reason(cheat)
    assert verdict(cheat).score == 0


def test_a_rank_has_no_way_to_another_but_the_broker():
    theirs = os.pipe()

    def in_rank(rank, world):
        return [_kind(name) for name in os.listdir("/proc/self/fd")], [_is_open(end) for end in theirs]

    for kinds, ends in in_ranks(in_rank, 2)["results"]:
        # The broker, and a pipe on which a rank that hangs is asked where it is.
        assert kinds.count("socket") == 1 and kinds.count("pipe") == 1
        assert ends == [False, False]
    for end in theirs:
        os.close(end)


def _kind(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").partition(":")[0]
    except OSError:
        return ""


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.skipif(domain._version() < 1, reason="this system has no Landlock")
def test_a_rank_reads_no_other_ranks_memory_and_writes_no_file():
    secret = ctypes.create_string_buffer(b"secret")

    def in_rank(rank, world):
        pids = [None] * world
        dist.all_gather_object(pids, os.getpid())
        said = [_outcome(lambda: open(f"/proc/{pids[1 - rank]}/mem", "rb", 0).seek(ctypes.addressof(secret)))]
        said.append(_outcome(lambda: open(os.path.join(tempfile.gettempdir(), "a-rank-wrote-this"), "w")))
        dist.barrier()
        return said

    assert in_ranks(in_rank, 2)["results"] == [["PermissionError"] * 2] * 2


def test_nothing_that_a_rank_returns_is_unpickled():
    class Evil:
        def __reduce__(self):
            return eval, ("[].append",)

    def in_rank(rank, world):
        session.current().tell({"do": "result"}, [pickle.dumps(Evil())])
        os._exit(0)

    assert in_ranks(in_rank, 2)["results"] == [None, None]


def test_a_rank_opens_no_socket_and_takes_no_name():
    def in_rank(rank, world):
        kinds = (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)
        said = [_outcome(lambda kind=kind: socket.socket(*kind)) for kind in kinds] + [_outcome(socket.socketpair)]
        return said, ctypes.CDLL(None).prctl(15, b"was here", 0, 0, 0)

    assert in_ranks(in_rank, 2)["results"] == [[["PermissionError"] * 3, -1]] * 2


def _outcome(attempt) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"


def test_a_process_that_a_rank_starts_is_no_rank():
    def with_a_child(rank, world, buf, send, recv):
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        honest(rank, world, buf, send, recv)

    assert "A process of the notebook worked in the background" in reason(with_a_child)


# What goes wrong reaches the learner as one sentence, and ends.


def test_a_deadlock_is_told_with_its_line():
    def stuck(rank, world, buf, send, recv):
        send(buf, (rank + 1) % world).wait()
        recv(buf, (rank - 1) % world)

    assert reason(lambda *a: stuck(*a) if a[1] > 1 else None).startswith("Deadlock: ")


def test_ranks_that_ask_for_different_things_are_told():
    def apart(rank, world, buf, send, recv):
        dist.all_reduce(buf) if rank else dist.broadcast(buf, 0)

    assert "rank 0 asks for broadcast" in reason(lambda *a: apart(*a) if a[1] > 1 else None)


def test_a_rank_that_dies_is_told():
    assert "left with exit status 3" in reason(lambda rank, *rest: os._exit(3))


def test_a_rank_that_never_ends_is_told(impatient):
    def loops(rank, world, buf, send, recv):
        while rank == world - 1:
            time.sleep(0.01)

    assert "did not finish within 1 s" in reason(loops)
