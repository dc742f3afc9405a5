"""DTensor on the card: beside plain tensors, with random numbers, from the meta device, and around a wait."""

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh, rand
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from gpulab.collectives import run_ranks
from tests.collectives.libraries import WIDTH, batch, gradients_of_one_process, net, quiet, same

WORLD = 2


def sharded(mesh, of=None) -> DTensor:
    return distribute_tensor(torch.ones(4, 4, device="cuda") if of is None else of, mesh, [Shard(0)])


def said(call) -> str:
    try:
        return str(call())
    except RuntimeError as error:
        return str(error)


def with_gradients(*tensors) -> list:
    parameters = [torch.nn.Parameter(tensor) for tensor in tensors]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return parameters


def test_a_list_that_mixes_plain_tensors_and_dtensors_is_refused_in_pytorchs_words():
    def mix(rank, world):
        t, d = torch.ones(4, 4, device="cuda"), sharded(init_device_mesh("cuda", (world,)))
        return [
            said(lambda: torch.cat([t, d])),
            said(lambda: torch.stack([t, d])),
            said(lambda: torch._foreach_add([t, d], 1.0)),
            said(lambda: torch._foreach_mul([t, t], [d, d])),
            said(lambda: torch.nn.utils.clip_grad_norm_(with_gradients(t, d), 1.0)),
            said(lambda: t + d),
        ]

    for words in run_ranks(mix, WORLD).results:
        assert all("got mixed torch.Tensor and DTensor, need to convert" in word for word in words)


def test_fsdp_takes_a_model_from_the_meta_device():
    def train(rank, world):
        with torch.device("meta"):
            model = net()
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        model.to_empty(device="cuda")
        for mine, whole in zip(model.parameters(), net().parameters(), strict=True):
            mine.data.copy_(distribute_tensor(whole.data.cuda(), mine.device_mesh, mine.placements))
        model(batch(rank).cuda()).square().mean().backward()
        kept = torch.cuda.memory_allocated()
        return [p.grad.full_tensor() for p in model.parameters()], [p.device.type for p in model.parameters()], kept

    for gradients, devices, kept in run_ranks(train, WORLD).results:
        assert same(gradients, gradients_of_one_process(WORLD)) and set(devices) == {"cuda"}
        assert kept < 3 * (WIDTH * WIDTH + WIDTH) * 4 * 2  # half of parameters and half of gradients, and what is small


def test_a_model_from_the_meta_device_gets_its_first_weights_on_the_card():
    def begin(rank, world):
        with torch.device("meta"):
            model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH))
        fully_shard(model)
        model.to_empty(device="cuda")
        torch.manual_seed(3)
        for layer in model:
            layer.reset_parameters()
        torch.nn.init.trunc_normal_(model[0].weight, std=0.02)
        return model[0].weight.full_tensor(), model[1].weight.full_tensor()

    (weight, scale), (other, _) = run_ranks(begin, WORLD).results
    assert torch.equal(weight, other) and torch.equal(scale, torch.ones(WIDTH))
    assert 0.015 < weight.std() < 0.025 and not torch.equal(weight[: WIDTH // 2], weight[WIDTH // 2 :])


def test_shards_draw_other_numbers_and_replicas_the_same():
    def draw(rank, world):
        mesh = init_device_mesh("cuda", (world,))
        torch.manual_seed(5)
        drawn = [
            rand(4, 4, device_mesh=mesh, placements=[Shard(0)]),
            rand(4, 4, device_mesh=mesh, placements=[Replicate()]),
            torch.rand_like(sharded(mesh)),
            sharded(mesh).normal_(),
            torch.nn.functional.dropout(sharded(mesh)),
        ]
        return [tensor.to_local() for tensor in drawn], torch.cuda.get_rng_state()

    (one, state), (other, others) = run_ranks(draw, WORLD).results
    assert [torch.equal(a, b) for a, b in zip(one, other)] == [False, True, False, False, False]
    assert torch.equal(state, others)


def test_a_wait_between_forward_and_backward_changes_no_gradient():
    def train(rank, world, wait):
        quiet()
        model = net(2).cuda()
        parallelize_module(model, init_device_mesh("cuda", (world,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        loss = model(batch(0).cuda()).square().mean()
        if wait:
            torch.cuda.synchronize()
        loss.backward()
        return [getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for p in model.parameters()]

    waited, not_waited = (run_ranks(train, WORLD, args=(wait,)).results[0] for wait in (True, False))
    assert same(waited, not_waited)
