"""memory.checkpoints: turn by turn what a real step of checkpoint_sequential holds."""

import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gpulab.memory.checkpoints import held_bytes, peak_bytes, recomputed_layers, segments_of

ACT, CKPT = 1000, 64
CHAINS = [(n, k) for n in (1, 2, 5, 7, 8, 12) for k in range(1, n + 1)]
REENTRANT = pytest.mark.parametrize("reentrant", [False, True])


class Held:
    """The storages that layers saved and that are still alive."""

    def __init__(self):
        self.living, self.seen = {}, []

    def save(self, *tensors):
        for storage in map(torch.Tensor.untyped_storage, tensors):
            key = storage.data_ptr()
            if key not in self.living:
                self.living[key] = storage.nbytes()
                weakref.finalize(storage, self.living.pop, key)

    def see(self, what, layer):
        self.seen.append((what, layer, sum(self.living.values())))


def layer_of(held, number, act, again):
    """A layer that saves its input and so much more that it is ``act`` bytes; ``again``: the layers that ran already."""

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            held.see("recompute" if number in again else "forward", number)
            again.add(number)
            rest = torch.zeros(act - x.nbytes, dtype=torch.uint8)
            held.save(x, rest)
            ctx.save_for_backward(x, rest)
            return x + 1

        @staticmethod
        def backward(ctx, gradient):
            kept = ctx.saved_tensors  # a checkpointed segment is recomputed here
            held.see("backward", number)
            del kept
            return gradient.clone()

    return Layer.apply


def in_order(layers):
    def run(x):
        for layer in layers:
            x = layer(x)
        return x

    return run


def all_checkpointed(layers, k, x, use_reentrant):
    for segment in segments_of(len(layers), k):
        x = checkpoint(in_order([layers[i] for i in segment]), x, use_reentrant=use_reentrant)
    return x


def seen_before(n, k, last, reentrant):
    """What is held before each layer's turn, and when all are over."""
    held, again = Held(), set()
    layers = [layer_of(held, i, ACT, again) for i in range(n)]
    run = all_checkpointed if last else checkpoint_sequential
    x = torch.zeros(CKPT // 4, requires_grad=True)
    loss = run(layers, k, x.clone(), use_reentrant=reentrant).sum()
    loss.backward()
    held.see("over", 0)
    return held.seen


@REENTRANT
@pytest.mark.parametrize("last", [False, True])
def test_a_real_step_holds_the_modelled_bytes_at_every_turn(last, reentrant):
    for n, k in CHAINS:
        expected = held_bytes(n, k, ACT, CKPT, last)
        before = [0, *(one.held for one in expected)]
        turns = [*((one.phase, one.layer) for one in expected), ("over", 0)]
        assert seen_before(n, k, last, reentrant) == [
            (*turn, held) for turn, held in zip(turns, before, strict=True)
        ], (n, k)


def saved_bytes(model, run, x):
    """What autograd saves of ``run(x)`` and still holds when it returns, each storage once, without the model's weights."""
    kept, weights = weakref.WeakValueDictionary(), {one.data_ptr() for one in model.parameters()}

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    def pack(tensor):
        box = Kept(tensor.detach())
        kept[id(box)] = box
        return box

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        held = run(x)
    sizes = {box.tensor.data_ptr(): box.tensor.untyped_storage().nbytes() for box in kept.values()}
    del held
    return sum(nbytes for where, nbytes in sizes.items() if where not in weights)


def block():
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))


@REENTRANT
def test_saved_tensor_hooks_find_the_modelled_peak_in_real_modules_when_the_forward_pass_is_over(reentrant):
    x = torch.randn(16, 8, requires_grad=True)
    one = block()
    act, ckpt = saved_bytes(one, one, x), x.nbytes
    assert act == 5 * ckpt
    for n, k in ((7, 1), (7, 2), (7, 3), (7, 5), (8, 4), (8, 8), (9, 6)):
        model = nn.Sequential(*(block() for _ in range(n)))
        found = saved_bytes(
            model, lambda given, model=model, k=k: checkpoint_sequential(model, k, given, use_reentrant=reentrant), x
        )
        assert found == peak_bytes(n, k, act, ckpt) == [turn.held for turn in held_bytes(n, k, act, ckpt)][n - 1], (
            n,
            k,
        )


def test_the_layers_that_are_recomputed_are_counted():
    for n, k in CHAINS:
        for last in (False, True):
            phases = [turn.phase for turn in held_bytes(n, k, ACT, CKPT, last)]
            assert phases.count("recompute") == recomputed_layers(n, k, last) and len(
                phases
            ) == 2 * n + recomputed_layers(n, k, last)


def test_the_last_segment_is_the_peak_and_checkpointing_it_does_not_lower_it():
    for n in range(1, 33):
        for k in range(1, n + 1):
            most = (k - 1) * 3 + len(segments_of(n, k)[-1]) * 7
            assert peak_bytes(n, k, 7, 3) == peak_bytes(n, k, 7, 3, last=True) == most <= 7 * n


def test_the_peak_of_32_layers_that_save_only_their_input_is_not_n_over_k():
    assert [peak_bytes(32, k, 1, 1) for k in (1, 2, 4, 8, 16, 32)] == [32, 17, 11, 11, 17, 32]


def test_what_is_no_chain_is_refused():
    for n, k in ((4, 0), (4, 5), (0, 1)):
        with pytest.raises(ValueError, match=f"{n} layers make 1 to {n} segments, not {k}"):
            held_bytes(n, k, 1, 1)
    for act, ckpt in ((1, 2), (1, 0)):
        with pytest.raises(ValueError, match="saves its input among others"):
            held_bytes(4, 2, act, ckpt)
