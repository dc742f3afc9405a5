"""Tests that settle the claims of the chapter "Autograd as a memory system", one per claim."""

import ctypes
import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gpulab import observe


def leaf(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape or (10,), requires_grad=True)


def regression():
    """A small model, and a batch of it that never changes."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), torch.randn(32, 8), torch.randn(32, 1)


def loss_of(model, x, target):
    return F.mse_loss(model(x), target)


def graph(root):
    """Every node of the graph behind a tensor."""
    found, left = set(), [root.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.add(node)
            left += [following for following, _ in node.next_functions]
    return found


def refused(write, result):
    """Whether backward refuses, because something was written to a tensor that it needs."""
    write()
    try:
        result.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


def test_a_relu_in_place_on_a_leaf_that_requires_grad_raises():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf().relu_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        nn.Parameter(torch.zeros(3)).relu_()


def test_an_activation_in_place_is_refused_where_its_input_was_saved_and_works_where_it_was_not():
    x = leaf()
    for saves, write in (
        (torch.exp, torch.relu_),
        (torch.sigmoid, torch.relu_),
        (torch.tanh, torch.sigmoid_),
        (torch.sqrt, torch.relu_),
    ):
        y = saves(x.abs())
        assert refused(lambda y=y, write=write: write(y), y)
    square = x * 1
    wanted = square.pow(2)
    assert refused(lambda: torch.sigmoid_(square), wanted)
    for keeps_nothing in (lambda x: x + 1, lambda x: x * 2, lambda x: F.linear(x, torch.ones(3, 10)), torch.neg):
        for write in (torch.relu_, torch.sigmoid_, torch.tanh_):
            y = keeps_nothing(x)
            assert not refused(lambda y=y, write=write: write(y), y)


def test_adding_in_place_raises_on_a_leaf_works_on_what_nobody_saved_and_is_refused_on_what_somebody_did():
    x = leaf()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x += 1
    twice, exp = x * 2, x.exp()
    assert not refused(lambda: twice.add_(1), twice)
    assert refused(lambda: exp.add_(1), exp)
    with torch.no_grad():
        x += 1  # as an optimizer does


def gradient_after(write, function=torch.exp):
    """A value of 1, a function's result that was written to, and the gradient that backward then gives."""
    x = torch.ones(1, requires_grad=True)
    y = function(x)
    write(y)
    y.sum().backward()
    return y.item(), x.grad.item()


def through_a_pointer(y):
    ctypes.memset(y.data_ptr(), 0, y.nbytes)


def under_no_grad(y):
    with torch.no_grad():
        y.mul_(3)


def test_writes_that_are_not_counted_or_not_recorded_break_a_gradient_in_silence():
    e = torch.tensor(1.0).exp().item()
    for uncounted in (
        lambda y: y.data.add_(1),
        lambda y: y.detach().numpy().__iadd__(1),
        lambda y: torch.from_dlpack(y.detach()).add_(1),
    ):
        assert gradient_after(uncounted) == pytest.approx((e + 1, e + 1))
    assert gradient_after(through_a_pointer) == (0, 0)
    for unrecorded in (under_no_grad, lambda y: y.detach().mul_(3)):
        assert gradient_after(unrecorded, lambda x: x * 2) == (6, 2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            gradient_after(unrecorded)


def kept_and_peak(run, x):
    with observe(saved=True) as seen:
        result = run(x)
    assert result.requires_grad
    return seen.kept_bytes, seen.peak_bytes


def test_in_place_saves_the_transient_and_none_of_what_backward_keeps():
    layer, x = nn.Linear(256, 256), torch.randn(256, 256)
    size = x.nbytes
    apart = kept_and_peak(lambda x: torch.relu(layer(x) + 1), x)
    in_place = kept_and_peak(lambda x: layer(x).add_(1).relu_(), x)
    assert apart == (2 * size, 2 * size) and in_place == (2 * size, size)
    kept = {
        run: kept_and_peak(lambda x, run=run: run(layer(x)), x)[0] for run in (F.gelu, F.silu, torch.relu, torch.relu_)
    }
    assert kept[F.gelu] == kept[F.silu] == kept[torch.relu] == kept[torch.relu_] == 2 * size


def test_leaky_relu_and_elu_in_place_share_a_storage_with_the_next_layer():
    layer, following, x = nn.Linear(256, 256), nn.Linear(256, 256), torch.randn(256, 256)

    def kept(function):
        return kept_and_peak(lambda x: following(function(layer(x))), x)[0] // x.nbytes

    for apart, in_place in ((F.leaky_relu, F.leaky_relu_), (F.elu, F.elu_)):
        assert (kept(apart), kept(in_place)) == (3, 2)
    assert kept(F.relu) == kept(F.relu_) == 2 and kept(F.hardtanh) == kept(F.hardtanh_) == 3


def test_an_operation_that_saved_its_input_lets_its_result_be_written_to_and_not_the_input():
    x = leaf() * 1
    result = F.gelu(x)
    assert not refused(lambda: torch.relu_(result.add_(1)), result)
    x = leaf() * 1
    result = F.gelu(x)
    assert refused(lambda: x.add_(1), result)


def each_in_a_thread(*runs):
    threads = [threading.Thread(target=run) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_share_a_tensor_lose_updates_in_place_or_not_and_backward_writes_to_what_they_share():
    both_have_read, shared = threading.Barrier(2, timeout=60), {"in place": torch.zeros(3), "anew": torch.zeros(3)}

    def count():
        read = {name: tensor + 1 for name, tensor in shared.items()}
        both_have_read.wait()  # nothing keeps two threads from doing this by chance
        shared["in place"].copy_(read["in place"])
        shared["anew"] = read["anew"]

    each_in_a_thread(count, count)
    assert all(torch.equal(tensor, torch.ones(3)) for tensor in shared.values())  # counted twice, and one is lost
    model, x, target = regression()
    written = []

    def train():
        loss_of(model, x, target).backward()
        written.append((model[0].weight.grad.data_ptr(), model[0].weight.grad._version, model[0].weight.grad.clone()))

    each_in_a_thread(train)
    each_in_a_thread(train)
    (address, version, once), (same_address, later, twice) = written
    assert address == same_address and later > version and torch.equal(twice, 2 * once)


def test_a_training_loop_on_the_cpu_has_one_thread_backward_included():
    model, x, target = regression()
    threads = set()
    for p in model.parameters():
        p.register_hook(lambda gradient: threads.add(threading.get_ident()))
    loss_of(model, x, target).backward()
    assert threads == {threading.get_ident()}


def three_layers():
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(3)]


def test_a_name_that_was_deleted_is_no_longer_there_to_be_given_to_the_next_layer():
    def forward(x, layers):
        x = layers[0](x)
        del x
        return layers[1](x)  # noqa: F821

    with pytest.raises(UnboundLocalError):
        forward(torch.randn(2, 64), three_layers())


def test_del_frees_what_no_node_saved_and_nothing_that_one_did():
    layers, x = three_layers(), torch.randn(128, 64)

    def kept_names(x):
        first = layers[0](x)
        second = layers[1](first)
        return layers[2](second), (first, second)

    def deleted(x):
        first = layers[0](x)
        second = layers[1](first)
        del first
        third = layers[2](second)
        del second
        return third, ()

    def peak(run):
        with observe() as seen:
            result, names = run(x)
        return seen.ops[-1].live_bytes, result, names

    assert peak(kept_names)[0] == peak(deleted)[0]
    with torch.no_grad():
        assert peak(deleted)[0] < peak(kept_names)[0]

    vocabulary, labels = nn.Linear(64, 1000), torch.zeros(128, dtype=torch.long)

    def a_loss(delete):
        logits = vocabulary(x)
        loss = F.cross_entropy(logits, labels)
        if delete:
            del logits
        loss.backward()

    def peak_of(run, delete):
        vocabulary.zero_grad()
        with observe() as seen:
            run(delete)
        return seen.peak_bytes

    assert peak_of(a_loss, False) - peak_of(a_loss, True) == 128 * 1000 * 4

    def before_a_relu(delete):
        total = layers[0][0](x) + 1
        result = total.relu()
        if delete:
            del total
        return result.exp()

    assert peak_of(before_a_relu, False) - peak_of(before_a_relu, True) == x.nbytes


def alive_after(batches, loop):
    """Bytes that a loop over ``batches`` batches leaves alive."""
    model, x, target = regression()
    with observe() as seen:
        kept = loop(model, x, target, batches)
    live = seen.ops[-1].live_bytes
    del kept
    return live


def items(model, x, target, batches):
    return [loss_of(model, x, target).item() for _ in range(batches)]


def tensors(model, x, target, batches):
    return [loss_of(model, x, target) for _ in range(batches)]


def named(model, x, target, batches):
    for _ in range(batches):
        loss = loss_of(model, x, target)
        loss.item()


def predictions(model, x, target, batches):
    return [model(x) for _ in range(batches)]


def tensors_without_gradients(model, x, target, batches):
    with torch.no_grad():
        return tensors(model, x, target, batches)


def test_validation_without_no_grad_grows_only_where_a_tensor_is_kept():
    assert alive_after(2, items) == alive_after(50, items)
    growth = [alive_after(batches, tensors) for batches in (10, 20, 40)]
    assert growth[2] - growth[1] == 2 * (growth[1] - growth[0]) > 40_000
    outputs = [alive_after(batches, predictions) for batches in (10, 20, 40)]
    assert outputs[2] - outputs[1] == 2 * (outputs[1] - outputs[0]) > 40_000
    model, x, target = regression()
    peaks = {}
    for loop in (items, named):
        with observe() as seen:
            loop(model, x, target, 5)
        peaks[loop] = seen.peak_bytes
    assert peaks[named] > peaks[items] + 32 * 16 * 4  # the old graph is there while the next is built
    bare = [alive_after(batches, tensors_without_gradients) for batches in (10, 20)]
    assert bare[1] - bare[0] < (growth[1] - growth[0]) / 10


def trained(model, x, target, batches, log):
    total = 0.0
    for _ in range(batches):
        loss = loss_of(model, x, target)
        loss.backward()
        total = log(total, loss)
    return total


def test_a_logged_loss_keeps_the_graphs_nodes_after_backward_and_its_tensors_without():
    model, x, target = regression()
    with observe(saved=True) as seen:
        total = trained(model, x, target, 100, lambda total, loss: total + loss)
    saved_by_the_model = [saved for saved in seen.saved if saved.bytes > 8]
    assert not any(saved.kept for saved in saved_by_the_model) and saved_by_the_model
    assert len(graph(total)) > 500
    with observe(saved=True) as seen:
        total = sum(loss_of(model, x, target) for _ in range(100))
    assert seen.kept_bytes > 100 * 32 * 16 * 4 and total.requires_grad


def test_a_kept_loss_keeps_the_parameters_and_their_gradients():
    model, x, target = regression()
    loss = loss_of(model, x, target)
    loss.backward()
    held = [weakref.ref(t.untyped_storage()) for p in model.parameters() for t in (p, p.grad)]
    del model
    gc.collect()
    assert all(storage() is not None for storage in held)
    del loss
    gc.collect()
    assert all(storage() is None for storage in held)


def after_backward(clear=False, **how):
    """Bytes saved, bytes of them kept after ``backward(**how)``, and whether the weights outlive the model."""
    model, x, target = regression()
    with observe(saved=True) as seen:
        loss = loss_of(model, x, target)
        loss.backward(**how)
    if clear:
        model.zero_grad()
    weight = weakref.ref(model[0].weight.untyped_storage())
    del model, loss
    gc.collect()
    return seen.saved_bytes, seen.kept_bytes, weight() is not None


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_retain_graph_lets_go_of_nothing_and_create_graph_leaks_the_weights_until_their_gradients_are_cleared():
    saved, kept, alive = after_backward()
    assert saved > kept == 0 and not alive
    saved, kept, alive = after_backward(retain_graph=True)
    assert saved == kept and not alive
    assert after_backward(create_graph=True)[2] and not after_backward(clear=True, create_graph=True)[2]


def test_a_hook_that_returns_a_result_as_it_came_is_a_leak_until_backward_runs():
    def outlives(pack, backward=False):
        x = leaf()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x.exp()
        storage = weakref.ref(y.untyped_storage())
        if backward:
            y.sum().backward()
        del y
        gc.collect()
        return storage() is not None

    assert outlives(lambda t: t) and not outlives(lambda t: t, backward=True) and not outlives(lambda t: t.detach())


def test_item_is_a_number_and_a_detached_loss_holds_no_graph_either():
    model, x, target = regression()
    loss = loss_of(model, x, target)
    assert type(loss.item()) is float and loss.detach().grad_fn is None
    total = trained(model, x, target, 10, lambda total, loss: total + loss.detach())
    assert total.grad_fn is None and not total.requires_grad


def test_the_gradient_points_uphill():
    model, x, target = regression()
    start = loss_of(model, x, target)
    slopes = torch.autograd.grad(start, list(model.parameters()))
    steps = {}
    for sign in (+1, -1):
        with torch.no_grad():
            for p, slope in zip(model.parameters(), slopes):
                p += sign * 1e-2 * slope
            steps[sign] = loss_of(model, x, target)
            for p, slope in zip(model.parameters(), slopes):
                p -= sign * 1e-2 * slope
    assert steps[-1] < start < steps[+1]


def test_the_loss_is_a_height_and_neither_a_distance_nor_the_height_of_the_valley():
    x, noise = torch.linspace(-1, 1, 64), torch.ones(64)
    noise[::2] = -1
    target = 3 * x + noise
    best = torch.linalg.lstsq(x[:, None], target[:, None]).solution.squeeze()
    assert F.mse_loss(best * x, target) > 0.9  # at the bottom

    def bowl(a, b):
        return a * a + 100 * b * b

    assert bowl(0, 0) == 0 and bowl(1, 0) == pytest.approx(bowl(0, 0.1))  # one height; the distances are 1 and 0.1


ORDERS = {"zflbs": True, "fzlbs": True, "flzbs": True, "flbsz": True, "flbzs": False, "flbs": False}


def after(order):
    model, x, target = regression()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        for step in order:
            if step == "z":
                optimizer.zero_grad()
            elif step == "f":
                output = model(x)
            elif step == "l":
                loss = F.mse_loss(output, target)
            elif step == "b":
                loss.backward()
            else:
                optimizer.step()
    return [p.detach() for p in model.parameters()]


def test_the_five_steps_work_in_their_order_and_gradients_may_be_cleared_anywhere_but_between_backward_and_step():
    right, (untrained, *_) = after("zflbs"), regression()
    for order, same in ORDERS.items():
        assert all(torch.equal(a, b) for a, b in zip(after(order), right)) is same, order
    assert all(torch.equal(a, b) for a, b in zip(after("flbzs"), untrained.parameters()))


def test_between_backward_and_step_zeros_are_not_none():
    def moves(optimizer, to_none, **options):
        model, x, target = regression()
        optimizer = optimizer(model.parameters(), lr=0.05, **options)
        loss_of(model, x, target).backward()
        optimizer.step()
        before = [p.clone() for p in model.parameters()]
        loss_of(model, x, target).backward()
        optimizer.zero_grad(set_to_none=to_none)
        optimizer.step()
        return not all(torch.equal(p, old) for p, old in zip(model.parameters(), before))

    momentum = {"momentum": 0.9}
    decay = {"weight_decay": 0.1}
    assert not moves(torch.optim.SGD, True) and not moves(torch.optim.SGD, False)
    for optimizer, options in ((torch.optim.SGD, momentum), (torch.optim.SGD, decay), (torch.optim.AdamW, {})):
        assert moves(optimizer, False, **options) and not moves(optimizer, True, **options)


def test_autograd_differentiates_the_program_that_ran_to_rounding_and_gives_none_to_whom_it_did_not_reach():
    x = torch.linspace(-2, 2, 50, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (x.exp() * x.sin()).sum(), x)
    used, unused, frozen = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 2).requires_grad_(False)
    used(frozen(torch.ones(1, 2))).sum().backward()
    assert used.weight.grad is not None and unused.weight.grad is None and frozen.weight.grad is None
    kink = torch.zeros(1, requires_grad=True)
    kink.relu().backward()
    assert kink.grad == 0  # any number from 0 to 1 would do
    wrong = torch.zeros(1, requires_grad=True)
    torch.where(wrong == 0, torch.zeros(1), wrong.sqrt()).backward()
    assert wrong.grad.isnan()
