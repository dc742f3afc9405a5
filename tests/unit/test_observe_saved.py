"""What autograd saves for backward: by which operation and line, how many bytes, and for how long."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import gpulab.cuda
from gpulab import Observation, observe

WHERE = ("cpu", "virtual:H100", "ghost:H100")


@pytest.fixture(params=WHERE)
def device(request):
    """A host tensor's device, a modelled card's, and that of a card with shapes and no values."""
    if request.param == "cpu":
        yield "cpu"
        return
    with gpulab.cuda.use(request.param, quiet=True):
        yield "cuda"


def leaf(*shape, device="cpu"):
    return torch.ones(shape or (4,), device=device, requires_grad=True)


def saves(function, *arguments):
    """(operation, argument or result, bytes) of each tensor that a call saves."""
    with observe(saved=True) as seen:
        result = function(*arguments)
    assert result is not None
    return [(saved.op, saved.what, saved.bytes) for saved in seen.saved]


def test_each_operation_saves_what_its_derivative_is_made_of(device):
    x, y = leaf(device=device), leaf(device=device)
    assert saves(torch.relu, x) == [("aten.relu", "result", 16)]
    assert saves(nn.functional.gelu, x) == [("aten.gelu", "argument", 16)]
    assert saves(torch.add, x, y) == saves(torch.neg, x) == saves(torch.Tensor.t, leaf(2, 2, device=device)) == []
    assert sorted(saves(torch.mul, x, y)) == [("aten.mul", "argument", 16)] * 2


def test_a_storage_counts_once_however_often_it_is_saved(device):
    x = leaf(device=device)
    assert [size for _, _, size in saves(lambda: x * x)] == [16, 0]
    with observe(saved=True) as seen:
        rows = (x * 2).exp()
        kept = rows[:2].sin(), rows[2:].sin(), rows.sin()
    assert len(kept) == 3 and len(seen.saved) == 4
    assert {saved.storage for saved in seen.saved} == {1} and seen.saved_bytes == 16
    assert [saved.shape for saved in seen.saved] == [(4,), (2,), (2,), (4,)]


def test_a_view_keeps_the_whole_storage(device):
    x = leaf(1000, device=device)
    assert saves(lambda: (x * 2)[:1].sin()) == [("aten.sin", "argument", 4000)]


def test_a_result_is_told_from_what_the_next_operation_is_given(device):
    x = leaf(2, 3, device=device)
    assert saves(lambda: (x + 1).sin()) == [("aten.sin", "argument", 24)]
    assert saves(lambda: (x + 1).exp().sin()) == [("aten.exp", "result", 24), ("aten.sin", "argument", 0)]
    assert saves(lambda: (x + 1).exp().neg()) == [("aten.exp", "result", 24)]
    norm = saves(lambda: nn.functional.layer_norm(x + 1, (3,)))
    assert norm == [("aten.native_layer_norm", "argument", 24), *[("aten.native_layer_norm", "result", 8)] * 2]


def test_what_was_written_to_a_view_is_that_operations_result(device):
    def written():
        rows = leaf(2, 2, device=device) * 1
        rows[0].exp_()
        return rows, rows[0].sin()

    assert saves(written) == [("aten.exp_", "result", 16), ("aten.sin", "argument", 0)]


def test_the_line_is_the_learners():
    x, layer = leaf(1, 4), nn.Linear(4, 2)
    with observe(saved=True) as seen:
        y = layer(x).exp()  # here
    assert y is not None and {saved.line.text for saved in seen.saved} == {"y = layer(x).exp()  # here"}


def test_parameters_inputs_and_what_the_block_made_are_told_apart(device):
    x, layer = leaf(1, 4, device=device), nn.Linear(4, 4, device=device)
    with observe(saved=True) as seen:
        y = layer(layer(x))
    origins = [(saved.origin, saved.bytes) for saved in seen.saved]
    assert sorted(origins) == [("input", 16), ("new", 16), ("parameter", 0), ("parameter", 64)]
    assert y is not None and seen.saved_bytes == 32


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        cube = square * x
        ctx.save_for_backward(x, square, cube)
        return cube

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient * ctx.saved_tensors[1]


def test_a_function_of_ones_own_saves_under_its_own_name(device):
    x = leaf(device=device)
    with observe(saved=True) as seen:
        Cube.apply(x).sum().backward()
    assert [(s.op, s.what, s.origin) for s in seen.saved] == [
        ("Cube", "argument", "input"),
        ("Cube", "argument", "new"),
        ("Cube", "result", "new"),
    ]


def test_without_gradients_nothing_is_saved(device):
    x = leaf(device=device)
    with observe(saved=True) as seen:
        with torch.no_grad():
            first = x.exp()
        with torch.inference_mode():
            second = x.exp()
        third = x.detach().exp()
    assert (first, second, third) is not None and seen.saved == () and seen.saved_bytes == 0


def test_backward_lets_go_and_a_graph_that_lives_does_not(device):
    x = leaf(device=device)
    with observe(saved=True) as seen:
        x.exp().sum().backward()
        kept = x.exp()
        x.exp()
    assert [saved.kept for saved in seen.saved] == [False, True, False] and kept is not None
    assert seen.kept_bytes == 16 and seen.saved_bytes == 48


def test_a_storage_that_was_freed_does_not_hide_the_next_at_its_address():
    x = leaf(1000)
    with observe(saved=True) as seen:
        for _ in range(20):
            x.exp().sum().backward()
    assert len({saved.storage for saved in seen.saved}) == 20 and seen.saved_bytes == 20 * 4000


def test_backward_that_makes_a_graph_saves_too():
    x = leaf()
    with observe(saved=True) as seen:
        (slope,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
        slope.sum().backward()
    assert torch.equal(x.grad, torch.ones(4).exp())
    assert [saved.op for saved in seen.saved][:2] == ["aten.exp", "aten.mul"]


def illegal():
    x = leaf(2, 3)
    rows = (x * 1).t()
    first, second, third = x.exp(), rows.sin(), (x * 1).max(0)[0]
    fourth, fifth = third.sin(), leaf(3)
    sixth = fifth.sin()
    yield first, first
    yield rows, second
    yield third, fourth
    with torch.no_grad():
        yield fifth, sixth


def complaint(written, result):
    written.add_(1)
    with pytest.raises(RuntimeError) as error:
        result.sum().backward()
    return str(error.value)


def test_what_was_written_to_since_is_refused_in_pytorchs_own_words():
    unwatched = []
    for written, result in illegal():
        unwatched.append((written, result))
    with observe(saved=True):
        watched = list(illegal())
    with torch.no_grad():
        for (written, result), (same, result_too) in zip(unwatched, watched, strict=True):
            assert complaint(written, result) == complaint(same, result_too)


def test_in_place_that_is_legal_stays_legal(device):
    x = leaf(device=device)
    with observe(saved=True):
        y = x * 2
        y.relu_()
        y = y + 1
        y.add_(1)
        y.sum().backward()
    assert x.grad.shape == (4,)


def test_a_second_backward_says_what_pytorch_says():
    x = leaf()
    with observe(saved=True):
        y = x.exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_hooks_from_outside_still_get_every_tensor():
    given, opened, x = [], [], leaf()
    pack = lambda tensor: given.append(tensor.shape) or tensor.detach().numpy().copy()
    with saved_tensors_hooks(pack, lambda array: opened.append(array) or torch.from_numpy(array)):
        with observe(saved=True) as seen:
            y = (x * 3).sin()
    y.sum().backward()
    assert torch.equal(x.grad, 3 * torch.full((4,), 3.0).cos())
    assert len(given) == len(opened) == len(seen.saved) == 1


def test_hooks_from_inside_keep_what_they_take():
    x, packed = leaf(), []
    with observe(saved=True) as seen:
        first = x.exp()
        with saved_tensors_hooks(lambda t: packed.append(t.shape) or t.detach().clone(), lambda t: t):
            second = first.sin()
        third = second.sin()
    third.sum().backward()
    assert len(packed) == 1 and [saved.op for saved in seen.saved] == ["aten.exp", "aten.sin"]
    assert torch.allclose(x.grad, (x.exp().sin().cos() * x.exp().cos() * x.exp()).detach())


def test_saving_on_the_cpu_goes_on_around_a_block_and_in_it():
    for around, within in ((save_on_cpu, torch.enable_grad), (torch.enable_grad, save_on_cpu)):
        x = leaf()
        with around(), observe(saved=True), within():
            y = x.exp()
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())


def test_checkpointed_layers_are_computed_again_and_what_they_save_then_is_not_theirs_to_keep():
    layers = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    x = torch.randn(3, 8, requires_grad=True)
    with observe(saved=True) as plain:
        layers(x).sum().backward()
    right, x.grad = x.grad, None
    with observe(saved=True) as seen:
        checkpoint(layers, x, use_reentrant=False).sum().backward()
    assert torch.equal(x.grad, right) and seen.saved_bytes < plain.saved_bytes


def test_blocks_nest_and_both_know():
    x = leaf()
    with observe(saved=True) as outer:
        first = x.exp()
        with observe(saved=True) as inner, observe() as blind:
            second = first.sin()
    second.sum().backward()
    assert [saved.op for saved in outer.saved] == ["aten.exp", "aten.sin"]
    assert [saved.op for saved in inner.saved] == ["aten.sin"] and blind.ops
    assert torch.allclose(x.grad, (x.exp().cos() * x.exp()).detach())


LEAKY = {
    "result": lambda x: x.exp(),
    "written view": lambda x: (rows := x * 1, rows[0].exp_())[0],
    "two results": lambda x: x.max(0)[0],
    "not differentiable": lambda x: nn.functional.layer_norm(x, (3,)),
    "own function": Cube.apply,
}


@pytest.mark.parametrize("case", LEAKY)
def test_nothing_holds_a_graph_that_nobody_holds(device, case):
    x = leaf(2, 3, device=device)
    gc.collect()
    gc.disable()
    try:
        with observe(saved=True) as seen:
            result = LEAKY[case](x)
        storage = weakref.ref(result.untyped_storage())
        assert seen.kept_bytes == seen.saved_bytes > 0
        del result
        assert storage() is None
    finally:
        gc.enable()


def test_a_graph_that_outlives_the_block_does_not_hold_what_was_recorded():
    x = leaf()
    with observe(saved=True) as seen:
        y = x.exp()
        other = torch.ones(1000)
    storage = weakref.ref(other.untyped_storage())
    del other
    assert storage() is None
    ledger = weakref.ref(seen._origin.__self__)
    del seen
    gc.collect()
    assert ledger() is None and y.grad_fn is not None


def test_hooks_end_with_the_block_also_when_it_raises():
    x = leaf()
    with pytest.raises(KeyError):
        with observe(saved=True) as seen:
            raise KeyError
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert x.exp() is not None and seen.saved == ()


def test_who_does_not_ask_has_no_hooks_and_is_told_so():
    with observe() as seen:
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    for read in (lambda: seen.saved, lambda: seen.saved_bytes, seen.saved_table):
        with pytest.raises(RuntimeError, match=r"observe\(saved=True\)"):
            read()
    again = Observation.from_dict(seen.to_dict())
    assert seen.to_dict()["saved"] is None and "saved" not in vars(again)


def test_asking_changes_no_other_record_but_for_views_of_what_backward_opens(device):
    def step():
        rows = leaf(2, 2, device=device) * 1
        rows[0].exp_()
        nn.functional.layer_norm(rows, (2,)).sum().backward()

    blocks = []
    for asks in (False, True):
        with observe(saved=asks) as seen:
            step()
        others = [(op.op, op.new_bytes, op.live_bytes) for op in seen.ops if op.op != "aten.detach"]
        blocks.append((others, [copy.bytes for copy in seen.copies], seen.peak_bytes))
    assert blocks[0] == blocks[1]


def test_plain_data_and_back():
    with observe(saved=True) as seen:
        y = nn.Linear(4, 4)(leaf(2, 4)).exp()
    again = Observation.from_dict(seen.to_dict())
    assert again.saved == seen.saved and again.table() == seen.table() and y is not None
    assert again.kept_bytes == seen.kept_bytes


def test_the_table_says_what_is_saved_and_counts_a_storage_once():
    x, layer = leaf(2, 4), nn.Linear(4, 4)
    with observe(saved=True) as seen:
        y = layer(x).exp()
        z = y.sin()
    assert z is not None
    head, *rest = seen.saved_table().split("\n\n")
    assert " ".join(head.split()) == (
        "4 tensors saved for backward in 2 storages of 64 B, and in 1 parameter, which the model holds anyway"
    )
    ends = [row.split()[-3:] for row in rest[0].splitlines()[2:]]
    assert ends == [
        ["argument", "32", "B"],
        ["aten.addmm", "argument", "parameter"],
        ["result", "32", "B"],
        ["aten.sin", "argument", "again"],
    ]
    assert seen.saved_table() in seen.table()
    assert max(map(len, seen.table().splitlines())) <= 80


def test_the_table_of_nothing():
    with observe(saved=True) as seen:
        torch.ones(3)
    assert seen.saved_table() == "Nothing was saved for backward."
