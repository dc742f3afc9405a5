"""memory.track: what holds the bytes, on every kind of device."""

import gc

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import gpulab.cuda
from gpulab import memory
from gpulab.model import SIZES, Cache
from gpulab.observe.errors import InstrumentError
from tests.memory.steps import allocated, asked_for, batch, on, policy

EVERYWHERE = pytest.mark.parametrize("where", ["cpu", "meta", "virtual", "ghost"])
CARDS = pytest.mark.parametrize("where", ["virtual", "ghost"])
FLOATS = 4 * SIZES["tiny"].parameters
TINY = SIZES["tiny"]


@EVERYWHERE
def test_each_part_of_a_training_step_is_held_as_what_it_is(where):
    with on(where):
        model, given = policy(where), batch(where)
        optimizer = torch.optim.AdamW(model.parameters())
        with memory.track(model, optimizer) as held:
            assert held.now == memory.Bytes(parameters=FLOATS)
            loss = model.loss(*given)
            forward = held.now
            loss.backward()
            backward = held.now
            optimizer.step()
            stepped = held.now
            optimizer.zero_grad()
            zeroed = held.now
    assert forward.activations > 0 and (forward.parameters, forward.gradients, forward.optimizer) == (FLOATS, 0, 0)
    assert (backward.gradients, backward.optimizer) == (FLOATS, 0) and backward.activations < forward.activations / 10
    steps = 4 * len(list(model.parameters()))
    assert stepped.gradients == FLOATS and 2 * FLOATS <= stepped.optimizer <= 2 * FLOATS + steps
    assert zeroed.gradients == 0 and zeroed.optimizer == stepped.optimizer and zeroed.cache == 0


@CARDS
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW, None])
def test_the_sum_is_what_was_asked_of_the_cards_allocator(where, optimizer):
    with on(where):
        model, given = policy(where), batch(where)
        optimizer = optimizer and optimizer(model.parameters(), lr=0.1)
        with memory.track(model, optimizer) as held:
            for _ in range(2):
                loss = model.loss(*given)
                assert held.now.total == asked_for("current")
                loss.backward()
                assert held.now.total == asked_for("current")
                if optimizer:
                    optimizer.step()
                model.zero_grad()
                del loss
                assert held.now.total == asked_for("current")
        assert held.peak.total == asked_for("peak") > 2 * FLOATS
        assert 0 <= allocated("peak") - held.peak.total <= 0.01 * held.peak.total, "more than rounding to 512 bytes"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocasts_copies_of_the_weights_are_activations(dtype):
    with on("virtual"):
        model, given = policy("virtual"), batch("virtual")
        with memory.track(model) as plain:
            loss = model.loss(*given)
            plain_forward = plain.now
        del loss
        model.zero_grad()
        with memory.track(model) as held:
            with torch.autocast("cuda", dtype=dtype):
                loss = model.loss(*given)
            forward = held.now
            loss.backward()
            assert held.now.total == asked_for("current")
        assert forward.parameters == FLOATS
        assert forward.activations < plain_forward.activations + FLOATS // 2


@EVERYWHERE
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers_leave_their_inputs_alone(where, reentrant):
    with on(where):
        model, given = policy(where), batch(where, frames=8)
        with memory.track(model) as held:
            model.loss(*given).backward()
        _checkpoint(model, reentrant)
        model.zero_grad()
        with memory.track(model) as lean:
            loss = model.loss(*given)
            left = lean.now.activations
            loss.backward()
            if where in ("virtual", "ghost"):
                assert lean.now.total == asked_for("current")
        assert left < held.peak.activations / 3 and lean.peak.activations < held.peak.activations / 1.5
        assert any(name.startswith("recomputation: ") for name, _ in lean.timeline)


def _checkpoint(model, reentrant):
    for layer in model.layers:
        forward = layer.forward
        layer.forward = lambda *args, forward=forward: checkpoint(forward, *args, use_reentrant=reentrant)


@EVERYWHERE
def test_activations_are_what_autograd_saves(where):
    with on(where):
        model, given = policy(where), batch(where)
        weights = {p.untyped_storage()._cdata for p in model.parameters()}
        saved = {}

        def keep(tensor):
            storage = tensor.untyped_storage()
            if storage._cdata not in weights:
                saved[storage._cdata] = storage.nbytes()
            return tensor

        with memory.track(model) as held, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = model.loss(*given)
            activations = held.now.activations
        assert sum(saved.values()) <= activations <= 1.02 * sum(saved.values()) + sum(t.nbytes for t in given), (
            "the batch and the mask are held too"
        )
        del loss


@EVERYWHERE
def test_a_cache_is_told_apart(where):
    with on(where), torch.no_grad():
        model, (image, text, _) = policy(where), batch(where)
        x = model.embed(image, text)
        cache = Cache(TINY, len(x), TINY.prefix + TINY.action_length, like=x)
        with memory.track(model, cache=cache) as held:
            y = model.decode(x, None, cache)
        size = 2 * TINY.layers * 4 * TINY.kv_heads * (TINY.prefix + TINY.action_length) * TINY.head_dim * 4
        assert held.now.cache == held.peak.cache == size
        assert held.peak.activations == held.peak.gradients == 0 and held.now.temporaries >= y.nbytes


@EVERYWHERE
def test_without_a_backward_pass_to_come_nothing_is_an_activation(where):
    with on(where), torch.no_grad():
        model, given = policy(where), batch(where)
        with memory.track(model) as held:
            model.loss(*given)
        assert held.peak.activations == 0 and held.peak.temporaries > 0
        assert held.peak_at.phase == "inference" and held.peak_at.operation.startswith("aten.")


@EVERYWHERE
def test_storages_and_no_tensors_are_counted(where):
    """Tied weights and views hold their bytes once; buffers count as parameters."""
    with on(where):
        model = policy(where)
        model.lm_head.weight = model.embed_tokens.weight
        model.register_buffer("table", torch.zeros(100, device=model.patch_place.device))
        with memory.track(model) as held:
            view = model.table[10:20]
        assert held.now.parameters == FLOATS - 4 * TINY.vocabulary * TINY.width + 400 and view.numel() == 10


@CARDS
def test_what_the_host_holds_is_not_the_cards(where):
    with on(where):
        model, given = policy(where), batch("cpu")
        with memory.track(model) as held:
            torch.zeros(1 << 20) + 1
            on_card = [t.to("cuda") for t in given]
            on_card = [t.add_(0) for t in on_card]
        assert held.peak.total == FLOATS + sum(t.nbytes for t in on_card)


@EVERYWHERE
def test_master_weights_are_the_optimizers(where):
    with on(where):
        model = policy(where, dtype=torch.bfloat16)
        masters = [p.detach().float().requires_grad_() for p in model.parameters()]
        optimizer = torch.optim.SGD(masters, lr=0.1)
        with memory.track(model, optimizer) as held:
            for master in masters:
                master.grad = torch.zeros_like(master)
            optimizer.step()
        assert (held.now.parameters, held.now.optimizer, held.now.gradients) == (FLOATS // 2, FLOATS, FLOATS)


@EVERYWHERE
def test_gradients_of_a_frozen_model_are_those_of_what_trains(where):
    with on(where):
        model, given = policy(where), batch(where)
        model.requires_grad_(False)
        model.lm_head.requires_grad_(True)
        with memory.track(model) as held:
            model.loss(*given).backward()
        assert held.now.gradients == model.lm_head.weight.nbytes


@EVERYWHERE
def test_the_timeline_ends_where_the_block_ended_and_holds_the_peak(where):
    with on(where):
        model, given = policy(where), batch(where)
        with memory.track(model) as held:
            model.loss(*given).backward()
        assert held.timeline[-1][1] == held.now
        assert max(bytes.total for _, bytes in held.timeline) == held.peak.total
        assert f"{held.peak_at.phase}: {held.peak_at.operation}" in [name for name, _ in held.timeline]


def test_the_table_fits_eighty_columns():
    model, given = policy("cpu"), batch("cpu")
    with memory.track(model) as held:
        model.loss(*given).backward()
    lines = held.table().splitlines()
    assert max(map(len, lines)) <= 80 and [line.split()[0] for line in lines[1:8]] == [*memory.CATEGORIES, "total"]


def test_a_storage_that_grows_is_followed():
    model, grows = torch.nn.Linear(2, 2), torch.zeros(1000)
    with memory.track(model) as held, torch.no_grad():
        grows.resize_(5000)
        grows.add_(1)
        assert held.now.temporaries == 20_000
        grows.untyped_storage().resize_(400)
        grows[:100].add_(1)
        assert held.now.temporaries == 400
    assert held.peak.temporaries == 20_000


def test_a_storage_that_is_emptied_between_two_operations_holds_nothing_from_the_next_on():
    """As FSDP frees what it gathered."""
    model, gathered = torch.nn.Linear(2, 2), torch.zeros(1000)
    with memory.track(model) as held, torch.no_grad():
        gathered.add_(1)
        gathered.untyped_storage().resize_(0)
        torch.zeros(500)
        assert held.now.temporaries == 0
    assert held.peak.temporaries == 4000


def test_the_figures_stay_when_what_was_held_is_gone():
    model, given = policy("cpu"), batch("cpu")
    with memory.track(model) as held:
        model.loss(*given).backward()
    now, peak = held.now, held.peak
    del model
    gc.collect()
    assert (held.now, held.peak) == (now, peak) and peak.parameters == FLOATS


def test_a_block_that_raised_is_read_as_far_as_it_came():
    model, given = policy("cpu"), batch("cpu")
    with pytest.raises(ZeroDivisionError):
        with memory.track(model) as held:
            model.loss(*given).backward()
            1 / 0
    assert held.peak.gradients > 0


def test_a_block_in_which_nothing_ran_is_an_error():
    with pytest.raises(InstrumentError, match="no operation"):
        with memory.track(policy("cpu")):
            pass


def test_a_model_that_holds_nothing_is_refused():
    with pytest.raises(ValueError, match="without parameters"):
        with memory.track(torch.nn.ReLU()):
            pass


def test_pytorch_is_as_before_afterwards():
    from torch.optim import optimizer as hooks

    before = len(hooks._global_optimizer_pre_hooks), len(hooks._global_optimizer_post_hooks)
    model = policy("cpu")
    with memory.track(model):
        model.zero_grad()
        model(*batch("cpu"))
    assert (len(hooks._global_optimizer_pre_hooks), len(hooks._global_optimizer_post_hooks)) == before
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


@pytest.mark.audit
def test_a_seven_billion_parameter_model_is_followed_on_a_ghost_card():
    with gpulab.cuda.use("ghost:H200", quiet=True):
        model = policy("ghost", SIZES["7B"], torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with memory.track(model, optimizer) as held:
            model.loss(*batch("ghost", SIZES["7B"], 1)).backward()
            optimizer.step()
        weights = 2 * SIZES["7B"].parameters
        assert (held.now.parameters, held.now.gradients) == (weights, weights)
        assert held.peak.total == asked_for("peak") > 8 * SIZES["7B"].parameters
