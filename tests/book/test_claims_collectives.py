"""Tests that settle the claims of the chapter "Collectives and interconnects", one per claim."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from gpulab.cards.cards import CARDS
from gpulab.cards.links import LINKS, link_named
from gpulab.collectives.network import Network

# Two ordinary processes over gloo, as a reader would start them: neither gpulab nor a GPU takes part.
TWO_PROCESSES = """
import json, os, sys, tempfile
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
folder = tempfile.mkdtemp()
child = os.fork()
rank = 0 if child else 1
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)

x = torch.arange(6.0) ** (rank + 1)
whole = x.clone()
dist.all_reduce(whole)
part, parts = torch.empty(3), torch.empty(6)
dist.reduce_scatter_tensor(part, x)
dist.all_gather_into_tensor(parts, part)

layer = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.ones_(layer.weight)
model = DistributedDataParallel(layer)
model(torch.full((1, 3), float(rank + 1))).sum().backward()
told = {"all_reduce": whole.tolist(), "part": part.tolist(), "again": parts.tolist(), "gradient": layer.weight.grad.tolist()}
if child:
    print(json.dumps(told))
dist.barrier()
os._exit(0) if not child else os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def told():
    done = subprocess.run(
        [sys.executable, "-c", TWO_PROCESSES], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_ddp_synchronises_gradients_over_gloo(told):
    assert told["gradient"] == [[1.5, 1.5, 1.5]]  # the mean of 1 and 2


def test_an_all_reduce_is_a_reduce_scatter_and_then_an_all_gather(told):
    right = [n + n**2 for n in range(6)]
    assert told["all_reduce"] == told["again"] == right
    assert told["part"] == right[:3]


def test_nvlink_is_nine_times_a_port_and_not_two():
    nvlink, port = LINKS["NVLink 4"], LINKS["InfiniBand NDR"]
    assert (nvlink.printed, port.printed) == (900, 400)
    assert nvlink.bytes_per_s / port.bytes_per_s == 9


def test_one_cable_between_two_nodes_makes_an_all_reduce_several_times_as_long():
    eight, one = (
        Network.of(name, nodes=2).duration_us("all_reduce", 2**30, 16) for name in ("DGX H100", "two nodes, one cable")
    )
    assert 3 < one / eight < 9


def test_whether_gradients_hide_behind_the_backward_pass_depends_on_the_ports():
    step = 6 * 70e9 * 4e6 / (512 * 0.55 * CARDS["H100"].flops_per_s["bf16"])
    groups = [tuple(range(i, 512, 8)) for i in range(8)]
    eight, one = (
        Network.of(name, nodes=64).duration_us("all_reduce", int(140e9 / 8), groups[0], groups[1:]) / 1e6
        for name in ("DGX H100", "two nodes, one cable")
    )
    activation = int(4e6 / 64 / 8) * 8192 * 2
    waits = 4 * 80 * 8 * Network.of("DGX H100").duration_us("all_reduce", activation, 8) / 1e6
    assert step / 10 < eight < step / 7 and eight < waits and one > step * 2 / 3


def test_fsdp_with_eight_micro_batches_is_bound_by_the_network_where_zero_1_is_not():
    step = 6 * 70e9 * 4e6 / (512 * 0.55 * CARDS["H100"].flops_per_s["bf16"])
    groups = [tuple(range(i, 512, 8)) for i in range(8)]
    gather, scatter = (
        Network.of("DGX H100", nodes=64).duration_us(kind, int(140e9 / 8), groups[0], groups[1:]) / 1e6
        for kind in ("all_gather", "reduce_scatter")
    )
    assert 8 * (2 * gather + scatter) > step and gather + scatter < step / 7
    assert scatter < step * 2 / 3 / 8, "it hides behind the backward pass of one micro-batch of eight"


def test_sockets_make_the_same_all_reduce_many_times_as_long():
    rdma = Network.of("DGX H100", nodes=2)
    sockets = Network(replace(rdma.node, name="sockets", ports=1, between=link_named("Ethernet 100")), nodes=2)
    assert sockets.duration_us("all_reduce", 2**30, 16) > 10 * rdma.duration_us("all_reduce", 2**30, 16)
