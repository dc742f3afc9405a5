"""Sixty of PyTorch's own operations, on the host and on the virtual card; ``make opinfo`` compares all."""

import os

import pytest
import torch

from tests.cuda import opinfo

DTYPES = (torch.float32, torch.complex64, torch.int64)
AGREE = (
    "sgn", "copysign", "nextafter", "repeat", "linalg_pinv", "linalg_matrix_rank", "cat", "to", "histc",
    "__rdiv__", "_softmax_backward_data", "argsort", "atleast_3d", "chalf", "conj", "cumsum",
    "div_no_rounding_mode", "erf", "fft_fftn", "fft_irfft2", "floor_divide", "gradient", "igamma", "int",
    "linalg_cross", "linalg_lstsq", "linalg_pinv_singular", "linspace", "logical_and", "mH", "masked_median",
    "max_binary", "nanquantile", "new_ones", "nn_functional_cosine_similarity",
    "nn_functional_gaussian_nll_loss", "nn_functional_interpolate_bicubic",
    "nn_functional_linear_cross_entropy_chunked_none", "nn_functional_mish",
    "nn_functional_pad_replicate_negative", "nn_functional_scaled_dot_product_attention",
    "nn_functional_layer_norm", "nn_functional_embedding", "nn_functional_silu",
    "nn_functional_unfold", "ones_like", "positive", "real", "round", "scatter_reduce_sum",
    "signal_windows_general_hamming", "sort", "special_ndtr", "split_list_args", "stft", "trapz",
)  # fmt: skip
# A card has no products or convolutions of integers.
NO_INTEGERS = ("addmv", "mm", "tensordot", "nn_functional_conv2d")


@pytest.fixture(scope="module")
def operations():
    return opinfo.operations()


@pytest.mark.parametrize("name", AGREE)
def test_an_operation_gives_the_hosts_results_and_gradients(operations, name):
    assert opinfo.compared(operations[name], samples=2, dtypes=DTYPES) == {"outcome": opinfo.AGREES}


@pytest.mark.parametrize("name", NO_INTEGERS)
def test_a_product_agrees_in_floating_point_and_is_refused_for_integers(operations, name):
    floating = opinfo.compared(operations[name], samples=2, dtypes=(torch.float32, torch.complex64))
    assert floating == {"outcome": opinfo.AGREES}
    integer = opinfo.compared(operations[name], samples=2, dtypes=(torch.int64,))
    assert integer["outcome"] == opinfo.REFUSED and "not implemented for 'Long'" in integer["reason"]


def test_a_wrong_value_is_seen(operations, monkeypatch):
    from gpulab.cuda.device import dispatch

    computed = dispatch._computed
    monkeypatch.setattr(dispatch, "_computed", lambda *args: computed(*args).detach() + 1)
    row = opinfo.compared(operations["sin"], samples=1, dtypes=(torch.float32,))
    assert row["outcome"] == opinfo.DIFFERS


def test_a_process_that_dies_is_a_row():
    class Deadly:
        op, name = None, "deadly"
        dtypes = property(lambda self: os._exit(3))

    row = opinfo.table({"deadly": Deadly()}, jobs=1)["deadly"]
    assert row == {"outcome": opinfo.DIFFERS, "reason": "the process died"}
