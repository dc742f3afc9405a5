"""``run_ranks``: what goes in, what comes back, what crossed."""

import os

import pytest
import torch
import torch.distributed as dist

import gpulab
from gpulab.collectives import RankError, run_ranks


class Link:
    """5 us, and 25 kB a microsecond."""

    def duration_us(self, operation, nbytes, ranks):
        return 5 + nbytes / 25_000


def summed(rank, world):
    x = torch.full((1000,), float(rank), device="cuda")
    dist.all_reduce(x)
    return x


def ring_all_reduce(x):
    """Each chunk goes round twice: once to be added to, once to be handed out."""
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = list(x.chunk(n))
    for step in range(2 * (n - 1)):
        gathers = step >= n - 1
        out = (rank - step + gathers * n) % n
        room = torch.empty_like(chunks[0])
        ops = [dist.P2POp(dist.isend, chunks[out], (rank + 1) % n), dist.P2POp(dist.irecv, room, (rank - 1) % n)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        target = chunks[(out - 1) % n]
        target.copy_(room) if gathers else target.add_(room)


def test_results_come_back_by_rank_device_tensors_as_host_tensors(world):
    run = run_ranks(summed, world)
    assert [result.device.type for result in run.results] == ["cpu"] * world
    assert all(torch.equal(result, torch.full((1000,), world * (world - 1) / 2)) for result in run.results)


def test_the_journal_holds_what_crossed(world):
    run = run_ranks(summed, world, network=Link())
    (entry,) = run.journal
    assert (entry.operation, entry.reduces, entry.bytes, entry.dtype) == ("all_reduce", "SUM", 4000, "float32")
    assert entry.ranks == tuple(range(world)) and entry.sent == (4000,) * world
    assert entry.start_us == max(entry.ready_us) and entry.us == pytest.approx(5 + 4000 / 25_000)
    assert {line.text for line in entry.lines} == {"dist.all_reduce(x)"}
    assert "dist.all_reduce(x)" in run.table() and "3.9 KiB" in run.table()


def test_each_rank_observes_its_part(world):
    run = run_ranks(summed, world, network=Link())
    for seen in run.seen:
        (collective,) = seen.collectives
        assert (
            collective.operation == "all_reduce"
            and collective.bytes == 4000
            and collective.line.text == "dist.all_reduce(x)"
        )
        assert collective.end_us == run.journal[0].end_us and collective.stream not in (0, None)
        assert [kernel.name for kernel in seen.kernels] == ["aten.full", "nccl:all_reduce"]


def test_a_ring_by_hand_sends_what_the_closed_form_says(world):
    def ring(rank, world):
        x = torch.arange(64.0, device="cuda") * (rank + 1)
        ring_all_reduce(x)
        return x

    run = run_ranks(ring, world)
    assert all(torch.equal(x, torch.arange(64.0) * (world * (world + 1) // 2)) for x in run.results)
    assert sum(entry.bytes for entry in run.journal) == 2 * (world - 1) * 64 * 4
    assert {entry.operation for entry in run.journal} == {"send"}
    assert all(entry.ranks[1] == (entry.ranks[0] + 1) % world for entry in run.journal)


def test_a_closure_and_arguments_are_taken():
    factor = 3
    assert run_ranks(lambda rank, world, add: rank * factor + add, 2, args=(10,)).results == [10, 13]


def test_what_a_rank_changes_stays_in_it():
    mine = [0]
    run_ranks(lambda rank, world: mine.append(rank), 2)
    assert mine == [0]


def test_lines_that_ranks_print_are_told_apart(capsys):
    run_ranks(lambda rank, world: print(f"I am {rank}", end=""), 2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[rank 0] I am 0", "[rank 1] I am 1"]


def test_an_ordinary_script_begins_with_its_own_process_group(world):
    def script(rank, world):
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        x = torch.ones(4, device="cuda") * dist.get_rank()
        dist.all_reduce(x)
        backend = dist.get_backend()
        dist.destroy_process_group()
        return backend, x.sum().item()

    assert run_ranks(script, world, backend=None).results == [("nccl", 2.0 * world * (world - 1))] * world


def test_the_card_of_a_rank_has_its_number(world):
    def where(rank, world):
        torch.cuda.set_device(rank)
        x = torch.ones(2, device=f"cuda:{rank}") + torch.ones(2, device=rank) + torch.ones(2).cuda()
        return str(x.device), x.get_device(), torch.cuda.current_device(), torch.cuda.device_count(), str(x)[-16:]

    expected = [(f"cuda:{rank}", rank, rank, world, f"device='cuda:{rank}')") for rank in range(world)]
    assert run_ranks(where, world).results == expected


def test_another_ranks_card_is_out_of_reach():
    with pytest.raises(RankError, match="rank 1 raised NotModelled.*cuda:0 in the rank of cuda:1"):
        run_ranks(lambda rank, world: torch.ones(2, device="cuda:0"), 2)


def test_a_card_that_is_not_there_is_refused_as_cuda_does():
    with pytest.raises(RankError, match="invalid device ordinal"):
        run_ranks(lambda rank, world: torch.cuda.set_device(2), 2)


def test_a_script_may_end_with_exit():
    assert run_ranks(lambda rank, world: exit(), 2).results == [None, None]


def test_each_rank_has_a_new_card_and_a_clock_that_begins_at_0():
    def fresh(rank, world):
        return torch.cuda.memory_allocated(), torch.cuda.get_device_name()

    with gpulab.cuda.use("virtual:A100", quiet=True):
        kept = torch.ones(1000, device="cuda")
        assert run_ranks(fresh, 2, card="virtual:L40S").results == [(0, "NVIDIA L40S (virtual)")] * 2
        assert gpulab.cuda.current() == "virtual:A100" and kept.sum().item() == 1000


def test_two_runs_are_alike():
    first, second = (run_ranks(summed, 4, network=Link()) for _ in range(2))
    assert first.table() == second.table() and first.seen[0].to_dict() == second.seen[0].to_dict()


def test_without_observation_there_is_the_journal_alone():
    run = run_ranks(summed, 2, observe=False)
    assert run.seen == [None, None] and len(run.journal) == 1


def test_without_a_card_host_tensors_cross():
    def on_the_host(rank, world):
        x = torch.tensor([float(rank)])
        dist.all_reduce(x)
        return x.item()

    assert run_ranks(on_the_host, 2, card="off", backend="gloo").results == [1.0, 1.0]


def test_a_host_tensor_over_nccl_is_refused():
    with pytest.raises(RankError, match="No backend type associated with device type cpu"):
        run_ranks(lambda rank, world: dist.all_reduce(torch.ones(1)), 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"world_size": 0}, "0 ranks are none"),
        ({"world_size": 2, "transport": "pigeon"}, "'broker', 'gloo', 'nccl'"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, said):
    with pytest.raises(ValueError, match=said):
        run_ranks(print, **asked)


def test_a_single_element_of_a_strided_tensor_crosses():
    def f(rank, world):
        x = torch.arange(4.0)[1::2][:1]
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        return x.item()

    assert run_ranks(f, 2, card="off", backend="gloo").results == [1.0, 1.0]
