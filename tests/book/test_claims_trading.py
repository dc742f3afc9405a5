"""Tests that settle the claims of the chapter "Trading and debugging memory", one per claim."""

import gc
import weakref
from collections import defaultdict
from contextlib import nullcontext
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

import gpulab.cuda
from gpulab import observe
from gpulab.model import SIZES, TinyVLA

MiB = 1 << 20


def wide():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))


def loss_of(net, size):
    return net(torch.randn(size, 128)).square().mean()


def kept(net, size):
    """Bytes that one forward pass keeps for backward, without the caller's input."""
    with observe(saved=True) as seen:
        loss = loss_of(net, size)
    assert loss.requires_grad
    return seen.kept_bytes


def peak(run):
    with observe() as seen:
        run()
    return seen.peak_bytes


def nbytes(net):
    return sum(p.nbytes for p in net.parameters())


def accumulate(net, size, turns):
    for _ in range(turns):
        (loss_of(net, size) / turns).backward()


def test_the_micro_batch_decides_what_backward_keeps_and_accumulation_adds_the_gradients():
    net, peaks = wide(), {}
    for size, turns in ((256, 1), (256, 4), (1024, 1)):
        net.zero_grad()
        peaks[size, turns] = peak(lambda size=size, turns=turns: accumulate(net, size, turns))
    net.zero_grad()
    assert kept(net, 1024) == 4 * kept(net, 256)
    more = peaks[256, 4] - peaks[256, 1]
    assert 0 < more <= nbytes(net) and peaks[1024, 1] > 2 * peaks[256, 4]
    assert all(p.grad is None for p in net.parameters())


def test_a_smaller_batch_shrinks_activations_in_proportion_and_the_state_not_at_all():
    net = wide()
    assert [kept(net, size) // kept(net, 8) for size in (8, 16, 64)] == [1, 2, 8]
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)

    def state():
        tensors = [*net.parameters(), *(p.grad for p in net.parameters())]
        return sum(t.nbytes for t in [*tensors, *(t for s in optimizer.state.values() for t in s.values() if t.ndim)])

    def step(size):
        optimizer.zero_grad()
        loss_of(net, size).backward()
        optimizer.step()

    found = []
    for size in (512, 8, 1):
        step(size)
        found.append((state(), peak(lambda size=size: step(size))))
    assert {held for held, _ in found} == {4 * nbytes(net)}
    (_, at_512), (_, at_8), (_, at_1) = found
    assert at_512 > 3 * at_8 and at_8 == at_1  # the optimizer's step is the peak: smaller does not help any more


class Layer(nn.Module):
    """Keeps one new tensor for backward: its result, which is also the next one's input."""

    calls = 0

    def __init__(self, width=64):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        Layer.calls += 1
        return self.linear(x).relu()


def chain(count):
    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(count)))


def test_what_checkpointing_holds_is_a_u_over_the_segments_and_least_near_the_root():
    layers, x = chain(36), torch.randn(2048, 64)
    held, again = {}, {}
    for k in (1, 2, 3, 4, 6, 9, 12, 18, 36):
        layers.zero_grad()
        Layer.calls = 0
        held[k] = peak(lambda k=k: checkpoint_sequential(layers, k, x, use_reentrant=False).sum().backward()) / x.nbytes
        again[k] = Layer.calls - 36
    assert min(held, key=held.get) == 6
    assert held[1] > held[2] > held[3] > held[4] > held[6] < held[9] < held[12] < held[18] < held[36]
    assert all(k + 36 / k - 2 <= held[k] <= k + 36 / k + 4 for k in held)
    assert again == {k: 36 - 36 // k for k in held}  # the last segment is not computed again
    layers.zero_grad()
    Layer.calls = 0
    checkpoint_sequential(layers, 8, x, use_reentrant=False).sum().backward()
    assert Layer.calls - 36 == 28  # seven segments of 4, and a last one of 8


def test_three_of_eight_and_the_stretch_between_them_are_more_than_half():
    layers, x = chain(8), torch.randn(4096, 64)

    def plain():
        layers(x).sum().backward()

    def picture():
        first = layers[0](x)
        third = checkpoint(layers[1:4], first, use_reentrant=False)
        checkpoint(layers[4:8], third, use_reentrant=False).sum().backward()

    plain()
    layers.zero_grad()
    whole = peak(plain)
    layers.zero_grad()
    assert 0.5 < peak(picture) / whole < 1


def flops(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def keeping_products():
    product = torch.ops.aten.addmm.default

    def policy(context, operation, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if operation is product else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def test_checkpointing_costs_at_most_one_more_forward_pass_and_keeping_products_next_to_nothing():
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU()) for _ in range(4)]
    x = torch.randn(32, 64, requires_grad=True)

    def run(**how):
        h = x
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False, **how) if how.pop("again", True) else block(h)
        h.sum().backward()

    def plain():
        h = x
        for block in blocks:
            h = block(h)
        h.sum().backward()

    once = flops(plain)
    assert flops(run) / once == pytest.approx(4 / 3)
    assert flops(lambda: run(context_fn=keeping_products)) == once
    ends = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)) for _ in range(4)]

    def early():
        h = x
        for block in ends:
            h = checkpoint(block, h, use_reentrant=False)
        h.sum().backward()

    blocks = ends
    assert flops(early) / flops(plain) == pytest.approx(7 / 6)  # the last product is not computed again


def test_where_weights_are_frozen_one_more_forward_pass_is_half_more():
    block = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU()).requires_grad_(False)
    x = torch.randn(32, 64, requires_grad=True)
    plain = flops(lambda: block(x).sum().backward())
    again = flops(lambda: checkpoint(block, x, use_reentrant=False).sum().backward())
    assert again / plain == pytest.approx(3 / 2)


def test_checkpointing_saves_most_where_activations_are_most_and_little_where_the_state_is():
    def saving(size):
        layers, x = chain(16), torch.randn(size, 64)
        optimizer = torch.optim.AdamW(layers.parameters(), foreach=False)

        def step(k):
            optimizer.zero_grad()
            checkpoint_sequential(layers, k, x, use_reentrant=False).sum().backward()
            optimizer.step()

        step(1)
        held = 3 * nbytes(layers)  # weights and moments, there before the step and after it
        before, after = (held + peak(partial(step, k)) for k in (1, 4))
        return 1 - after / before

    assert saving(16_384) > 0.5 and saving(1) < 0.1


def tokens(count):
    return torch.randn(count, 16), torch.randint(8, (count,))


def gradient(model, pieces, divisor):
    model.zero_grad()
    for x, y in pieces:
        (F.cross_entropy(model(x), y, reduction="sum") / divisor(y)).backward()
    return model.weight.grad.clone()


def test_dividing_by_micro_batches_is_right_for_equal_counts_and_full_groups_only():
    torch.manual_seed(0)
    model = nn.Linear(16, 8)
    for lengths, right in (((8, 8, 8, 8), True), ((30, 2, 9, 1), False)):
        pieces = [tokens(count) for count in lengths]
        whole = gradient(model, [tuple(map(torch.cat, zip(*pieces)))], lambda y: sum(lengths))
        assert torch.allclose(gradient(model, pieces, lambda y: sum(lengths)), whole, atol=1e-6)
        assert torch.allclose(gradient(model, pieces, lambda y: 4 * len(y)), whole, atol=1e-6) is right

    optimizer, stepped = torch.optim.SGD(model.parameters(), 0.1), 0
    model.zero_grad()
    for i in range(10):
        (model(torch.randn(4, 16)).mean() / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
            stepped = i + 1
    assert stepped == 8 and model.weight.grad is not None  # two are left for the next epoch's first step


def test_the_sample_repeats_one_batch_never_clears_and_counts_a_partial_group_as_full():
    sample = """
accumulation_steps = 4
for i in range(0, len(dataloader), accumulation_steps):
    for j in range(accumulation_steps):
        loss = model(batch) / accumulation_steps
        loss.backward()
    optimizer.step()
"""
    seen, gradients = [], []
    weight = nn.Parameter(torch.zeros(1))

    def model(batch):
        seen.append(batch)
        return (weight * batch).sum()

    class Optimizer:
        def step(self):
            gradients.append(weight.grad.item())

    names = {"dataloader": range(10), "model": model, "optimizer": Optimizer()}
    with pytest.raises(NameError, match="batch"):
        exec(sample, dict(names))
    exec(sample, {**names, "batch": 1.0})
    assert seen == [1.0] * 12 and gradients == [1.0, 2.0, 3.0]


def test_ddp_sends_in_every_micro_step_unless_told_not_to(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        sent = {}
        for quiet in (False, True):
            ddp, buckets = DistributedDataParallel(nn.Linear(4, 4)), []

            def hook(state, bucket, buckets=buckets):
                buckets.append(bucket.index())
                done = torch.futures.Future()
                done.set_result(bucket.buffer())
                return done

            ddp.register_comm_hook(None, hook)
            for turn in range(20):
                with ddp.no_sync() if quiet and (turn + 1) % 4 else nullcontext():
                    ddp(torch.randn(2, 4)).sum().backward()
            sent[quiet] = len(buckets)
    finally:
        dist.destroy_process_group()
    assert sent == {False: 20, True: 5}


def test_memory_summary_names_pools_and_counters_and_no_weights_gradients_or_activations(monkeypatch):
    monkeypatch.setattr(
        torch.cuda.memory, "memory_stats", lambda device=None: defaultdict(int, num_ooms=0, num_alloc_retries=0)
    )
    text = torch.cuda.memory.memory_summary(device=0).lower()
    assert all(
        row in text for row in ("allocated memory", "gpu reserved memory", "non-releasable memory", "from small pool")
    )
    assert not any(kind in text for kind in ("weight", "parameter", "gradient", "activation", "optimizer"))


def test_a_step_that_comes_late_can_need_more_with_nothing_kept():
    net = wide()

    def step(size):
        net.zero_grad()
        loss_of(net, size).backward()

    step(8)
    with observe() as seen:
        for size in (64, 64, 64, 2048):
            step(size)
    late = seen.peak_bytes
    assert late > 5 * peak(lambda: [step(64) for _ in range(100)])
    assert seen.ops[-1].live_bytes <= nbytes(net) + 64  # the gradients, in place of those before


def test_collecting_garbage_frees_a_circle_and_leaves_what_is_held():
    class Trainer:
        pass

    gc.disable()
    try:
        in_a_circle, held = Trainer(), []
        in_a_circle.me, in_a_circle.output = in_a_circle, torch.ones(1000)
        held.append(torch.ones(1000))
        circle, leak = (weakref.ref(t.untyped_storage()) for t in (in_a_circle.output, held[0]))
        del in_a_circle
        assert circle() is not None and leak() is not None
        assert isinstance(gc.collect(), int)  # a number of objects, and no word of who they were
        assert circle() is None and leak() is not None
    finally:
        gc.enable()
    held.clear()
    assert leak() is None


def test_a_growing_list_holds_whole_storages_with_or_without_a_graph():
    net = wide()

    def alive(steps, look):
        held = []
        with observe() as seen, torch.no_grad():
            for _ in range(steps):
                held.append(look(net(torch.randn(64, 128))))
        return seen.ops[-1].live_bytes

    output = 64 * 128 * 4
    assert alive(20, lambda out: out) - alive(10, lambda out: out) == 10 * output
    assert alive(20, lambda out: out[0]) - alive(10, lambda out: out[0]) == 10 * output
    assert alive(20, lambda out: out[0].clone()) - alive(10, lambda out: out[0].clone()) == 10 * 128 * 4


def test_the_functions_of_the_snapshot_are_there():
    for name in ("_record_memory_history", "_dump_snapshot", "_snapshot"):
        assert callable(getattr(torch.cuda.memory, name))


def bytes_on_card(size):
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


def pieces(order, limit):
    """Live tensors of 5 MiB: those marked "s", after the others are gone. The card may give ``limit`` bytes."""
    card = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((limit + MiB / 2) / card)
    made = [(kind, bytes_on_card(5 * MiB)) for kind in order]
    return [tensor for kind, tensor in made if kind == "s"]


def test_empty_cache_returns_whole_segments_and_none_with_a_live_block_in_it():
    for order, left in (("sggg" * 10, 200), ("s" * 10 + "g" * 30, 60)):
        with gpulab.cuda.use("virtual:RTX4090", quiet=True):
            stays = pieces(order, 200 * MiB)
            assert torch.cuda.memory_allocated() == 50 * MiB and torch.cuda.memory_reserved() == 200 * MiB
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == left * MiB and len(stays) == 10
            if left == 200:
                with pytest.raises(torch.OutOfMemoryError, match=r"150.00 MiB is reserved by PyTorch but unallocated"):
                    bytes_on_card(16 * MiB)
            else:
                assert bytes_on_card(16 * MiB).nbytes == 16 * MiB
            del stays
    with gpulab.cuda.use("virtual:RTX4090", quiet=True):
        stays = pieces("s" * 10 + "g" * 30, 200 * MiB)
        bytes_on_card(30 * MiB)  # no empty_cache before it: PyTorch does that by itself
        assert torch.cuda.memory_stats()["num_alloc_retries"] == 1 and len(stays) == 10
        del stays


def test_emptying_the_cache_leaves_the_peak_of_a_step_and_costs_its_time():
    found = {}
    for empties in (False, True):
        with gpulab.cuda.use("virtual:H100", quiet=True):
            net = wide().cuda()

            def step(net=net):
                net.zero_grad()
                net(torch.ones(4096, 128, device="cuda")).square().mean().backward()
                if empties:
                    torch.cuda.empty_cache()

            step()
            torch.cuda.reset_peak_memory_stats()
            began = torch.cuda.memory_stats()["num_device_alloc"]
            step()
            found[empties] = torch.cuda.max_memory_allocated(), torch.cuda.memory_stats()["num_device_alloc"] - began
            del net, step
    assert found[True][0] == found[False][0]
    assert found[True][1] > found[False][1] == 0


def batch_on_card(config, size):
    image = torch.zeros(size, config.image, config.image, 3, dtype=torch.uint8, device="cuda")
    words, actions = (
        torch.zeros(size, length, dtype=torch.long, device="cuda")
        for length in (config.text_length, config.action_length)
    )
    return image, words, actions


def trains(sizes, before_step=lambda: None):
    config = SIZES["350M"]
    with gpulab.cuda.use("ghost:RTX4090", quiet=True):
        with torch.device("cuda"):
            model = TinyVLA(config)
        optimizer = torch.optim.AdamW(model.parameters())
        for size in sizes:
            optimizer.zero_grad()
            before_step()
            model.loss(*batch_on_card(config, size)).backward()
            optimizer.step()
        optimizer.zero_grad()
        return torch.cuda.memory_allocated()


def test_one_batch_fits_alone_and_not_after_others():
    assert trains((24, 24)) > 0
    with pytest.raises(torch.OutOfMemoryError, match=r"[1-9]\.\d+ GiB is reserved by PyTorch but unallocated"):
        trains((16, 20, 24))


def test_what_fails_after_other_batches_fits_where_the_cache_is_emptied_between_them():
    assert trains((16, 20, 24), torch.cuda.empty_cache) > 0
    assert trains((24, 16, 20, 24)) > 0


def test_a_snapshot_has_the_stack_of_each_block_that_was_recorded():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        before = bytes_on_card(3 * MiB)
        torch.cuda.memory._record_memory_history()
        after = bytes_on_card(5 * MiB)
        blocks = [block for segment in torch.cuda.memory._snapshot()["segments"] for block in segment["blocks"]]
        live = {
            block["size"]: [frame["name"] for frame in block["frames"]]
            for block in blocks
            if block["state"] == "active_allocated"
        }
        torch.cuda.memory._record_memory_history(enabled=None)
        assert live[before.nbytes] == [] and live[after.nbytes][0] == "bytes_on_card"
        del before, after


def test_without_use_reentrant_pytorch_warns_and_frozen_inputs_lose_every_gradient():
    layer, frozen = nn.Linear(8, 8), torch.randn(2, 8)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        old = checkpoint(layer, frozen)
    assert not old.requires_grad
    checkpoint(layer, frozen, use_reentrant=False).sum().backward()
    assert layer.weight.grad is not None


def test_no_module_of_pytorch_has_a_switch_for_checkpointing():
    with pytest.raises(AttributeError, match="gradient_checkpointing_enable"):
        nn.TransformerEncoderLayer(8, 1).gradient_checkpointing_enable()
