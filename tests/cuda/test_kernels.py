"""What a card refuses, what it takes besides, and the kernels that programs bring."""

import warnings

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpulab.cuda

F = torch.nn.functional


def whole(*shape):
    return torch.ones(*shape, dtype=torch.int64, device="cuda")


REFUSED = {
    "mm": (lambda: whole(2, 2) @ whole(2, 2), "addmm_cuda"),
    "linear": (lambda: F.linear(whole(2, 2), whole(2, 2), whole(2)), "addmm_cuda"),
    "bmm": (lambda: whole(1, 2, 2) @ whole(1, 2, 2), "baddbmm_cuda"),
    "einsum": (lambda: torch.einsum("bij,bjk->bik", whole(2, 2, 2), whole(2, 2, 2)), "baddbmm_cuda"),
    "mv": (lambda: whole(2, 2) @ whole(2), "addmv_impl_cuda"),
    "dot": (lambda: whole(2).dot(whole(2)), "dot"),
    "avg_pool2d": (lambda: F.avg_pool2d(whole(1, 1, 4, 4), 2), "avg_pool2d_out_cuda_frame"),
    "max_pool2d": (lambda: F.max_pool2d(whole(1, 1, 4, 4), 2), "max_pool2d_with_indices_out_cuda_frame"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_integers_are_refused_where_the_kernel_is_for_floating_point(cuda, name):
    call, kernel = REFUSED[name]
    with pytest.raises(NotImplementedError, match=f"{kernel}.*not implemented for 'Long'"):
        call()


def test_a_convolution_of_integers_is_refused(cuda):
    with pytest.raises(RuntimeError, match="for '?Long"):  # cuDNN's words or PyTorch's
        F.conv2d(whole(1, 1, 3, 3), whole(1, 1, 2, 2))


def test_a_histogram_has_no_kernel_on_a_card(cuda):
    with pytest.raises(NotImplementedError, match="'aten::histogram.bin_ct' with arguments from the 'CUDA' backend"):
        torch.histogram(torch.ones(4, device="cuda"), 3)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_histc_counts_integers(cuda, dtype):
    experts = torch.tensor([0, 2, 2, 1], device="cuda", dtype=dtype)
    counted = torch.histc(experts, bins=3, min=0, max=2)
    assert counted.tolist() == [1, 1, 2] and counted.dtype == dtype


def test_products_of_halves_come_in_single_precision(cuda):
    a = torch.full((2, 2), 0.1, device="cuda", dtype=torch.bfloat16)
    product = torch.mm(a, a, out_dtype=torch.float32)
    torch.testing.assert_close(product, a.float() @ a.float())
    assert torch.bmm(a[None], a[None], out_dtype=torch.float32).dtype == torch.float32


def test_a_pool_takes_halves(cuda):
    assert F.avg_pool3d(torch.ones(1, 1, 4, 4, 4, device="cuda").half(), 2).dtype == torch.float16


def test_no_refusal_names_a_kernel_of_the_host(virtual):
    with pytest.raises(NotImplementedError) as refusal:
        F.rrelu(torch.ones(3, device="cuda").half(), training=True)
    assert "_cpu" not in str(refusal.value)


def attended(backend, dtype, **options):
    query = torch.ones(1, 2, 8, 16, device="cuda", dtype=dtype)
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(query, query, query, **options)


@pytest.mark.parametrize("backend", ["EFFICIENT_ATTENTION", "MATH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_these_kernels_of_attention_take_any_precision(cuda, backend, dtype):
    assert attended(getattr(SDPBackend, backend), dtype).dtype == dtype


@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "CUDNN_ATTENTION"])
def test_these_kernels_of_attention_are_for_halves(virtual, backend):
    assert attended(getattr(SDPBackend, backend), torch.bfloat16).dtype == torch.bfloat16
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="No available kernel"):
        warnings.simplefilter("ignore")
        attended(getattr(SDPBackend, backend), torch.float32)


def test_flash_attention_takes_no_mask(virtual):
    mask = torch.zeros(8, 8, device="cuda", dtype=torch.bfloat16)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="No available kernel"):
        warnings.simplefilter("ignore")
        attended(SDPBackend.FLASH_ATTENTION, torch.bfloat16, attn_mask=mask)


def test_a_custom_operator_for_the_card_runs_on_device_tensors(cuda):
    @torch.library.custom_op("gpulab_tests::plus_one", mutates_args=(), device_types="cuda")
    def plus_one(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x + 1

    with gpulab.observe() as seen:
        out = plus_one(torch.zeros(2, device="cuda"))
    assert out.is_cuda and out.tolist() == [1, 1]
    assert any(kernel.name == "aten.add" for kernel in seen.kernels) or cuda.kind == "real"


def test_a_kernel_registered_for_the_card_stands_beside_the_hosts_and_has_gradients(cuda):
    @torch.library.custom_op("gpulab_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)

    scaled.register_kernel("cuda")(lambda x: x * 2)
    scaled.register_autograd(lambda ctx, grad: grad * 2)
    x = torch.ones(2, device="cuda", requires_grad=True)
    scaled(x).sum().backward()
    assert x.grad.tolist() == [2, 2] and x.grad.is_cuda
    assert scaled(torch.ones(2)).tolist() == [0, 0]


def test_a_custom_operator_for_the_host_alone_is_refused_on_the_card(cuda):
    @torch.library.custom_op("gpulab_tests::hosts", mutates_args=(), device_types="cpu")
    def hosts(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with pytest.raises(NotImplementedError, match="'CUDA' backend"):
        hosts(torch.ones(2, device="cuda"))


def test_an_unknown_allocator_setting_is_an_error(virtual):
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="foo_bar"):
        torch.cuda.memory._set_allocator_settings("foo_bar:xyz")


@pytest.mark.parametrize("setting", ["expandable_segments:True", "roundup_power2_divisions:1"])
def test_an_allocator_setting_without_a_model_says_so(virtual, setting):
    with pytest.raises(gpulab.cuda.NotModelled, match=setting):
        torch._C._accelerator_setAllocatorSettings(setting)


def test_the_properties_of_a_card_are_equal_to_themselves(cuda):
    assert torch.cuda.get_device_properties(0) == torch.cuda.get_device_properties(0)
