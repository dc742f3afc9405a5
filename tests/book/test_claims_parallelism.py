"""Tests that settle the claims of the chapter "Tensor, pipeline and 3D parallelism", one per claim."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

from gpulab.collectives import run_ranks
from gpulab.parallel import (
    INTERVIEW_NOTES,
    gpipe,
    idle_share,
    most_in_flight,
    of_torch,
    one_f_one_b,
    orders,
    orders_of_torch,
    slots,
    timed,
    violations,
)

GLOO = {"card": "off", "backend": "gloo"}
WIDTH, TOKENS, MICROBATCHES = 16, 12, 4
PAIR = {"0": ColwiseParallel(), "2": RowwiseParallel()}
FIGURE = {"0": ColwiseParallel(output_layouts=Replicate()), "2": ColwiseParallel(output_layouts=Replicate())}


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    up, down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
    return torch.nn.Sequential(up, torch.nn.GELU(), down)


def two_passes(rank, world, plan):
    warnings.simplefilter("ignore")
    model = parallelize_module(mlp(), init_device_mesh("cpu", (world,)), plan)
    x = torch.linspace(-1, 1, TOKENS * WIDTH).view(TOKENS, WIDTH).requires_grad_()
    dist.barrier()
    y = model(x)
    dist.barrier()
    y.sum().backward()
    return torch.allclose(y, mlp()(x), atol=1e-5)


def crossed(plan) -> list[list[tuple[str, int]]]:
    """What crosses in the forward and in the backward pass."""
    run = run_ranks(two_passes, 4, args=(plan,), **GLOO)
    assert run.results == [True] * 4
    first, second = (i for i, entry in enumerate(run.journal) if entry.operation == "barrier")
    return [
        [(e.operation, e.bytes) for e in part] for part in (run.journal[first + 1 : second], run.journal[second + 1 :])
    ]


def test_columns_then_rows_need_no_gather():
    output = 4 * TOKENS * WIDTH
    assert crossed(PAIR) == [[("all_reduce", output)], [("all_reduce", output)]]
    forward, backward = crossed(FIGURE)
    assert forward == [("all_gather", 4 * output), ("all_gather", output)]
    assert backward == [("all_reduce", 4 * output), ("all_reduce", output)]


def pipelined(rank, world):
    stage = PipelineStage(torch.nn.Linear(WIDTH, WIDTH), rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(
        stage, n_microbatches=MICROBATCHES, loss_fn=lambda y, expected: (y - expected).square().mean()
    )
    x = torch.ones(MICROBATCHES * TOKENS, WIDTH)
    schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == world - 1 else {}))


def test_a_pipeline_sends_a_tensor_a_border_and_tensor_parallelism_several_a_layer():
    border = 4 * TOKENS * WIDTH
    sends = [e for e in run_ranks(pipelined, 2, **GLOO).journal if e.operation == "send" and e.bytes == border]
    assert len(sends) == 2 * MICROBATCHES and {e.ranks for e in sends} == {(0, 1), (1, 0)}
    assert sum(len(part) for part in crossed(PAIR)) == 2, "of the MLP alone; attention has as many"


def test_the_figures_schedule_breaks_five_rules_and_lacks_two_slots():
    found = [(one.kind, str(one.action)) for one in violations(INTERVIEW_NOTES)]
    assert found == [("missing", "3B3"), ("early", "2B0"), ("early", "2B1"), ("early", "2B2"), ("early", "2B3")]
    assert slots(INTERVIEW_NOTES) == 12 and slots(gpipe(4, 4)) == 2 * (4 + 4 - 1) == 14
    assert violations(gpipe(4, 4)) == violations(one_f_one_b(4, 4)) == violations(of_torch("GPipe", 4, 4)) == []
    assert [idle_share(table) for table in (gpipe(4, 4), one_f_one_b(4, 4))] == pytest.approx([3 / 7, 3 / 7])


def length(of, stages_each: int) -> float:
    """Of a step in which a GPU's whole share takes 1 forward, 2 backward."""
    takes = {kind: time / stages_each for kind, time in zip("FBIW", (1, 2, 1, 1), strict=True)}
    return max(row[-1].end for row in timed(of, takes))


def test_a_backward_pass_in_halves_leaves_less_of_the_bubble():
    busy = 8 * 3
    whole, interleaved, halves = (
        length(orders_of_torch(name, 4, 8, each), each) - busy
        for name, each in (("1F1B", 1), ("Interleaved1F1B", 2), ("ZBVZeroBubble", 2))
    )
    assert whole == 3 * 3 and halves < interleaved == whole / 2
    assert length(orders(one_f_one_b(4, 8)), 1) - busy == whole
    assert most_in_flight(of_torch("1F1B", 4, 8)) == [4, 3, 2, 1] and most_in_flight(of_torch("GPipe", 4, 8)) == [8] * 4


def rank_13(rank, world):
    """In a process of its own: a second world in one process has no groups."""
    dist.init_process_group("fake", store=FakeStore(), rank=13, world_size=64)
    mesh = init_device_mesh("cpu", (8, 4, 2), mesh_dim_names=("dp", "pp", "tp"))
    return mesh.get_coordinate(), {
        name: dist.get_process_group_ranks(mesh[name].get_group()) for name in mesh.mesh_dim_names
    }


def test_rank_13_of_8_by_4_by_2():
    ((coordinate, groups),) = run_ranks(rank_13, 1, card="off", backend=None).results
    assert tuple(coordinate) == (1, 2, 1)
    assert groups == {"dp": list(range(5, 64, 8)), "pp": [9, 11, 13, 15], "tp": [12, 13]}
    assert (
        len({rank // 8 for rank in groups["pp"] + groups["tp"]}) == 1 and len({rank // 8 for rank in groups["dp"]}) == 8
    )
