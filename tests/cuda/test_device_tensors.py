"""Tensors on the device: where they are, how they move, what mixes and what does not."""

import copy
import io

import numpy as np
import pytest
import torch

from gpulab import observe

pytestmark = pytest.mark.usefixtures("cuda")
F = torch.nn.functional

FACTORIES = {
    "zeros": lambda: torch.zeros(2, 3, device="cuda"),
    "ones": lambda: torch.ones(2, 3, device="cuda"),
    "full": lambda: torch.full((2, 3), 7.0, device="cuda"),
    "empty": lambda: torch.empty(2, 3, device="cuda"),
    "rand": lambda: torch.rand(2, 3, device="cuda"),
    "randn": lambda: torch.randn(2, 3, device="cuda"),
    "randint": lambda: torch.randint(0, 9, (2, 3), device="cuda"),
    "randperm": lambda: torch.randperm(6, device="cuda"),
    "arange": lambda: torch.arange(6, device="cuda"),
    "linspace": lambda: torch.linspace(0, 1, 6, device="cuda"),
    "eye": lambda: torch.eye(3, device="cuda"),
    "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda"),
    "as_tensor": lambda: torch.as_tensor(np.ones(3), device="cuda"),
    "empty_strided": lambda: torch.empty_strided((2, 3), (1, 2), device="cuda"),
    "zeros_like": lambda: torch.zeros_like(torch.ones(2), device="cuda"),
    "rand_like": lambda: torch.rand_like(torch.ones(2), device="cuda"),
    "new_zeros": lambda: torch.ones(1, device="cuda").new_zeros(3),
    "new_tensor": lambda: torch.ones(1, device="cuda").new_tensor([1.0]),
    "fftfreq": lambda: torch.fft.fftfreq(4, device="cuda"),
    "tril_indices": lambda: torch.tril_indices(3, 3, device="cuda"),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_makes_a_device_tensor(name):
    made = FACTORIES[name]()
    assert made.device == torch.device("cuda", 0) and made.is_cuda and not made.is_cpu


def test_a_device_without_an_index_means_the_current_one():
    assert str(torch.ones(1, device="cuda").device) == "cuda:0"
    assert torch.ones(1, device=0).device == torch.ones(1, device="cuda:0").device


def test_a_card_that_is_not_there_is_refused():
    index = torch.cuda.device_count()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device=f"cuda:{index}")


def test_requires_grad_at_the_factory_makes_a_leaf():
    x = torch.ones(2, device="cuda", requires_grad=True)
    assert x.is_leaf and x.requires_grad


@pytest.mark.parametrize("move", [lambda t: t.to("cuda"), lambda t: t.cuda(), lambda t: t.to(0)])
def test_moving_copies(move):
    host = torch.ones(3)
    card = move(host)
    host.zero_()
    assert card.is_cuda and card.cpu().tolist() == [1, 1, 1]


def test_to_the_same_device_returns_the_tensor_itself():
    x = torch.ones(2, device="cuda")
    assert x.to("cuda") is x and x.cuda() is x and x.to(x.device) is x


def test_to_with_copy_makes_another():
    x = torch.ones(2, device="cuda")
    assert x.to("cuda", copy=True) is not x


def test_to_another_tensor_takes_its_device_and_dtype():
    x = torch.ones(2, device="cuda", dtype=torch.float16)
    assert torch.zeros(2).to(x).dtype == torch.float16 and torch.zeros(2).to(x).is_cuda


def test_to_moves_and_converts_at_once():
    x = torch.ones(2).to("cuda", torch.float16)
    assert x.is_cuda and x.dtype == torch.float16


def test_type_as_moves():
    assert torch.ones(2).type_as(torch.ones(1, device="cuda")).is_cuda


def test_the_type_names_cuda():
    assert torch.ones(1, device="cuda").type() == "torch.cuda.FloatTensor"


def test_strides_survive_the_move():
    x = torch.ones(3, 4).t()
    assert x.cuda().stride() == x.stride() and x.cuda().cpu().stride() == x.stride()


def test_channels_last_survives_the_move():
    x = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last).cuda()
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_a_view_shares_storage_and_an_in_place_write_shows_in_it():
    x = torch.zeros(4, device="cuda")
    view = x.view(2, 2)
    view.add_(1)
    assert x.tolist() == [1, 1, 1, 1] and view._base is x


def test_the_gradient_of_a_move_travels_back():
    x = torch.ones(3, requires_grad=True)
    (x.cuda() * 2).sum().backward()
    assert not x.grad.is_cuda and x.grad.tolist() == [2, 2, 2]


def test_the_gradient_of_a_device_leaf_is_on_the_device():
    x = torch.ones(3, device="cuda", requires_grad=True)
    (x.cpu() * 2).sum().backward()
    assert x.grad.is_cuda


def test_a_second_derivative_passes_through_a_move():
    x = torch.tensor([3.0], requires_grad=True)
    (first,) = torch.autograd.grad((x.cuda() ** 3).sum(), x, create_graph=True)
    first.backward()
    assert first.tolist() == [27] and x.grad.tolist() == [18]


def test_numpy_of_a_device_tensor_is_refused_in_pytorchs_words():
    message = (
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    for convert in (torch.Tensor.numpy, np.asarray, np.array):
        with pytest.raises(TypeError) as refused:
            x = torch.ones(2, device="cuda")
            x.numpy() if convert is torch.Tensor.numpy else convert(x)
        assert str(refused.value) == message


def test_numpy_with_force_copies():
    assert torch.ones(2, device="cuda").numpy(force=True).tolist() == [1, 1]


def test_mixing_devices_elementwise_is_refused_in_pytorchs_words():
    with pytest.raises(RuntimeError) as refused:
        torch.ones(2, device="cuda") + torch.ones(2)
    assert str(refused.value) == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    )


MIXED = {
    "mm": (lambda: torch.ones(2, 2, device="cuda") @ torch.ones(2, 2), "mat2 is on cpu"),
    "cat": (lambda: torch.cat([torch.ones(2, device="cuda"), torch.ones(2)]), "is on cpu"),
    "embedding": (
        lambda: F.embedding(torch.tensor([0]), torch.ones(2, 2, device="cuda")),
        "index is on cpu",
    ),
    "linear, weights left behind": (
        lambda: torch.nn.Linear(2, 2)(torch.ones(1, 2, device="cuda")),
        "is on cuda:0, different from other tensors on cpu",
    ),
    "linear without a bias": (
        lambda: torch.nn.Linear(2, 2, bias=False)(torch.ones(1, 2, device="cuda")),
        "same device",
    ),
    "in place": (lambda: torch.ones(2).add_(torch.ones(2, device="cuda")), "same device"),
    "where": (
        lambda: torch.where(torch.ones(2, device="cuda") > 0, torch.ones(2), torch.ones(2)),
        "same device",
    ),
    "bmm": (lambda: torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2, device="cuda")), "mat2 is on cuda:0"),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixing_devices_is_refused(name):
    call, text = MIXED[name]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as refused:
        call()
    assert text in str(refused.value)


def test_a_host_scalar_tensor_may_take_part():
    assert (torch.ones(2, device="cuda") * torch.tensor(3.0)).tolist() == [3, 3]


def test_host_indices_may_select_from_a_device_tensor():
    assert torch.arange(4, device="cuda")[torch.tensor([3, 0])].tolist() == [3, 0]


def test_device_indices_may_not_select_from_a_host_tensor():
    with pytest.raises(RuntimeError, match="indices should be either on"):
        torch.arange(4)[torch.tensor([3], device="cuda")]


def test_copy_goes_both_ways():
    card, host = torch.zeros(2, device="cuda"), torch.zeros(2)
    card.copy_(torch.tensor([1.0, 2.0]))
    host.copy_(card)
    assert host.tolist() == [1, 2]


def test_copy_converts():
    card = torch.zeros(2, device="cuda", dtype=torch.float16)
    card.copy_(torch.tensor([1.5, 2.5], dtype=torch.float64))
    assert card.tolist() == [1.5, 2.5] and card.dtype == torch.float16


PRINTED = {
    "tensor([1., 1.], device='cuda:0')": lambda: torch.ones(2, device="cuda"),
    "tensor(3, device='cuda:0')": lambda: torch.tensor(3, device="cuda"),
    "tensor([1.], device='cuda:0', dtype=torch.float16)": lambda: torch.ones(1, device="cuda").half(),
    "tensor([], device='cuda:0', size=(0, 2))": lambda: torch.ones(0, 2, device="cuda"),
    "tensor([True], device='cuda:0')": lambda: torch.ones(1, device="cuda") > 0,
    "tensor([1.], device='cuda:0', requires_grad=True)": lambda: torch.ones(1, device="cuda", requires_grad=True),
    "tensor([2.], device='cuda:0', grad_fn=<MulBackward0>)": lambda: (
        torch.ones(1, device="cuda", requires_grad=True) * 2
    ),
}


@pytest.mark.parametrize("text", PRINTED)
def test_a_tensor_prints_as_pytorch_prints_it(text):
    assert repr(PRINTED[text]()) == text


def test_a_long_tensor_prints_its_device_on_a_line_of_its_own():
    assert repr(torch.arange(14.0, device="cuda")).endswith("13.],\n       device='cuda:0')")


def test_a_parameter_says_that_it_is_one():
    weight = torch.nn.Parameter(torch.ones(1, device="cuda"))
    assert repr(weight).startswith("Parameter containing:\ntensor([1.], device='cuda:0'")


def test_formatting_a_scalar_reads_its_value():
    assert f"{torch.tensor(2.5, device='cuda'):.2f}" == "2.50"


def test_python_scalars_come_out():
    x = torch.tensor([3, 4], device="cuda")
    assert int(x[0]) == 3 and float(x[1]) == 4.0 and bool(x[0] > 2) and x.tolist() == [3, 4]
    assert x.max().item() == 4 and len(x) == 2 and 3 in x


def test_nonzero_and_masks_work():
    x = torch.tensor([0.0, 2.0, 0.0, 3.0], device="cuda")
    assert x.nonzero().flatten().tolist() == [1, 3] and x[x > 0].tolist() == [2, 3]


def test_one_hot_stays_on_the_device():
    assert F.one_hot(torch.tensor([1, 0], device="cuda")).tolist() == [[0, 1], [1, 0]]
    assert F.one_hot(torch.tensor([1], device="cuda"), 3).is_cuda


def test_deepcopy_keeps_the_device_and_copies():
    x = torch.ones(2, device="cuda", requires_grad=True)
    twin = copy.deepcopy(x)
    with torch.no_grad():
        twin.zero_()
    assert twin.is_cuda and twin.requires_grad and x.tolist() == [1, 1]


def saved_and_loaded(what, **options):
    file = io.BytesIO()
    torch.save(what, file)
    file.seek(0)
    return torch.load(file, **options)


def test_load_puts_a_saved_device_tensor_back_on_the_device():
    assert saved_and_loaded(torch.ones(2, device="cuda")).is_cuda


def test_map_location_moves_to_the_host():
    back = saved_and_loaded({"w": torch.arange(3.0, device="cuda")}, map_location="cpu")
    assert not back["w"].is_cuda and back["w"].tolist() == [0, 1, 2]


def test_map_location_moves_to_the_device():
    assert saved_and_loaded(torch.arange(3.0), map_location="cuda").is_cuda


def test_views_saved_together_share_storage_when_loaded():
    x = torch.zeros(4, device="cuda")
    a, b = saved_and_loaded((x, x[:2]))
    b.add_(1)
    assert a.tolist() == [1, 1, 0, 0]


def test_the_default_device_may_be_cuda():
    torch.set_default_device("cuda")
    try:
        assert torch.ones(1).is_cuda and torch.nn.Linear(1, 1).weight.is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.ones(1).is_cuda


def test_a_device_is_a_context():
    with torch.device("cuda"):
        assert torch.ones(1).is_cuda and not torch.ones(1, device="cpu").is_cuda
    assert not torch.ones(1).is_cuda


def test_data_swaps_the_storage():
    x = torch.ones(2, device="cuda")
    x.data = torch.zeros(3, device="cuda")
    assert x.tolist() == [0, 0, 0] and x.data.is_cuda


def test_pinned_memory_is_known_as_such():
    x = torch.ones(4)
    assert not x.is_pinned() and x.pin_memory().is_pinned() and x.pin_memory()[1:].is_pinned()
    assert torch.empty(2, pin_memory=True).is_pinned()


def test_a_pinned_tensor_is_pinned_only_once():
    x = torch.ones(2).pin_memory()
    assert x.pin_memory() is x


def test_a_device_tensor_cannot_be_pinned():
    with pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors"):
        torch.ones(2, device="cuda").pin_memory()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_pins_its_batches(workers):
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)
    assert all(batch.is_pinned() for (batch,) in loader)


def test_the_seed_repeats_the_device_numbers():
    torch.manual_seed(3)
    first = torch.randn(4, device="cuda").tolist()
    torch.cuda.manual_seed(3)
    assert torch.randn(4, device="cuda").tolist() == first


def test_host_and_device_draw_from_generators_of_their_own():
    torch.manual_seed(3)
    host = torch.randn(4).tolist()
    torch.manual_seed(3)
    torch.randn(100, device="cuda")
    assert torch.randn(4).tolist() == host


def test_the_same_seed_gives_other_numbers_on_the_device():
    torch.manual_seed(3)
    assert torch.rand(8).tolist() != torch.rand(8, device="cuda").tolist()


def test_the_random_state_can_be_put_back():
    state = torch.cuda.get_rng_state()
    first = F.dropout(torch.ones(64, device="cuda")).tolist()
    torch.cuda.set_rng_state(state)
    assert F.dropout(torch.ones(64, device="cuda")).tolist() == first


def test_a_generator_of_the_device_draws():
    numbers = [
        torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(5)).tolist() for _ in range(2)
    ]
    assert numbers[0] == numbers[1] and torch.Generator("cuda").device.type == "cuda"


def test_data_taken_from_the_card_makes_a_parameter_one_of_the_card():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.data = weight.data.cuda()
    assert weight.is_cuda and weight.device.type == "cuda" and weight.requires_grad and weight.is_leaf
    assert isinstance(weight, torch.nn.Parameter)
    (weight * 3).sum().backward()
    assert weight.grad.is_cuda and weight.grad.tolist() == [3, 3]


def test_data_taken_from_the_host_makes_a_device_tensor_one_of_the_host():
    x = torch.ones(2, device="cuda")
    x.data = torch.zeros(2)
    assert not x.is_cuda and x.tolist() == [0, 0]


def test_a_module_whose_parameters_data_are_moved_computes_on_the_card():
    layer = torch.nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.data = parameter.data.cuda()
    assert layer(torch.ones(1, 2, device="cuda")).is_cuda


def test_data_on_one_side_is_replaced_as_ever():
    x = torch.ones(2, device="cuda")
    x.data = torch.zeros(3, device="cuda")
    assert x.tolist() == [0, 0, 0]


PINNED = {
    "empty_like": lambda x: torch.empty_like(x, pin_memory=True),
    "zeros_like": lambda x: torch.zeros_like(x, pin_memory=True),
    "full_like": lambda x: torch.full_like(x, 3, pin_memory=True),
    "new_empty": lambda x: x.new_empty(3, pin_memory=True),
    "new_zeros": lambda x: x.new_zeros(3, pin_memory=True),
    "of a device tensor": lambda x: torch.empty_like(x.cuda(), device="cpu", pin_memory=True),
}


@pytest.mark.parametrize("name", PINNED)
def test_memory_like_another_tensors_can_be_pinned(name):
    assert PINNED[name](torch.ones(2)).is_pinned()


def test_memory_of_the_card_is_not_pinned():
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty_like(torch.ones(2, device="cuda"), pin_memory=True)


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_a_host_tensor_makes_new_ones_on_the_card(name):
    made = getattr(torch.ones(2, dtype=torch.float16), name)((3,), device="cuda")
    assert made.is_cuda and made.dtype == torch.float16 and made.shape == (3,)


def test_nothing_is_copied_without_a_wait_or_a_copy():
    with observe() as seen:
        torch.tensor([], device="cuda").cpu()
    assert seen.waits == () and seen.kernels == ()


def test_the_old_way_to_make_a_tensor_like_another_stays_on_the_card():
    x = torch.ones(2, device="cuda", dtype=torch.float16)
    for made, shape in ((x.new(), (0,)), (x.new(3, 2), (3, 2)), (x.new(torch.Size([4])), (4,)), (x.new([1, 2]), (2,))):
        assert made.is_cuda and made.shape == shape and made.dtype == x.dtype


def test_a_memory_format_is_taken_along():
    host, form = torch.ones(1, 2, 3, 3), torch.channels_last
    card = host.cuda()
    for moved in (host.cuda(memory_format=form), card.cuda(memory_format=form), card.cpu(memory_format=form)):
        assert moved.is_contiguous(memory_format=form)
    assert card.is_contiguous()


def test_cuda_means_a_card():
    for tensor in (torch.ones(1), torch.ones(1, device="cuda")):
        with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
            tensor.cuda("cpu")


def test_a_third_kind_of_device_is_not_the_host():
    x = torch.ones(2, 3, device="cuda")
    assert x.to("meta").is_meta and x.to("meta").shape == (2, 3)
    with pytest.raises((RuntimeError, NotImplementedError)):
        x.to("mps")


def test_the_fourth_place_of_to_asks_for_a_copy():
    x = torch.ones(2, device="cuda")
    assert x.to("cuda", torch.float32, False, True) is not x


def test_every_dtype_has_its_name():
    names = [torch.ones(1, device="cuda", dtype=d).type() for d in (torch.uint16, torch.float8_e4m3fn)]
    assert names == ["torch.cuda.UInt16Tensor", "torch.cuda.Float8_e4m3fnTensor"]


def test_host_values_are_not_assigned_by_an_index_of_several():
    x = torch.zeros(4, device="cuda")
    for index in (torch.tensor([0, 1], device="cuda"), x < 1):
        with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"):
            x[index] = torch.ones(int(index.numel() if index.dtype == torch.bool else 2))
    x[x < 1] = torch.tensor(3.0)
    assert x.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("weight", [torch.ones(2, 3), None], ids=["held", "made on the way"])
def test_a_host_matrix_is_refused_inside_composed_functions(weight):
    x = torch.ones(4, 3, device="cuda")
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.functional.linear(x, torch.ones(2, 3) if weight is None else weight)
    with pytest.raises(RuntimeError, match="same device"):
        torch.einsum("ij,kj->ik", x, torch.ones(2, 3) if weight is None else weight)


def test_a_convolution_names_the_types_of_input_and_weight():
    layer, x = torch.nn.Conv1d(2, 2, 1), torch.ones(1, 2, 3)
    names = r"Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same"
    with pytest.raises(RuntimeError, match=names):
        layer(x.cuda())
    with pytest.raises(
        RuntimeError, match="or input should be a MKLDNN tensor and weight is a dense tensor|be on the same device"
    ):
        layer.cuda()(x)


def test_the_device_of_a_tensor_is_a_number_too():
    assert torch.get_device(torch.ones(1, device="cuda")) == 0 and torch.get_device(torch.ones(1)) == -1
    assert torch.get_device_module() is torch.cuda


@pytest.mark.parametrize(
    "tensor",
    [
        lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,)),
        lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.strided),
        lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), device="cuda"),
    ],
    ids=["sparse", "nested", "sparse from the start"],
)
def test_a_layout_that_is_not_modelled_says_so(virtual, tensor):
    from gpulab.cuda import NotModelled

    with pytest.raises(NotModelled):
        tensor().cuda()
