"""``torch.use_deterministic_algorithms``: what CUDA has no deterministic kernel for says so, and nothing else does."""

import pytest
import torch
from torch._prims_common import alert_not_deterministic

F = torch.nn.functional


@pytest.fixture(autouse=True)
def deterministic():
    """Deterministic mode, switched on after the fixtures of the card."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def randn(*shape, grad=False):
    return torch.randn(*shape, device="cuda", requires_grad=grad)


def image(dimensions, channels=1):
    return randn(1, channels, *[4] * dimensions, grad=True)


def indices(*values):
    return torch.tensor(values, device="cuda")


def classes():
    return torch.zeros(1, 4, 4, dtype=torch.long, device="cuda")


def resized(dimensions, mode, **options):
    return F.interpolate(image(dimensions), scale_factor=2, mode=mode, **options)


def padded(dimensions, mode):
    return F.pad(image(dimensions), (1,) * 2 * dimensions, mode=mode)


def sampled(dimensions, align_corners):
    return F.grid_sample(image(dimensions), randn(1, *[2] * dimensions, dimensions).tanh(), align_corners=align_corners)


def bag(mode):
    return F.embedding_bag(indices(0, 1)[None], randn(4, 4, grad=True), mode=mode)


def ctc():
    lengths = indices(10)
    return F.ctc_loss(
        randn(10, 1, 5, grad=True).log_softmax(2), indices(1, 2).view(1, 2), lengths, torch.tensor([2]).cuda()
    )


ALERTS = {
    "median CUDA with indices output": lambda: randn(4, 4).median(0),
    "_bincount_cuda": lambda: torch.bincount(indices(1, 2), weights=randn(2)),
    "_histc_cuda with floating point input": lambda: torch.histc(randn(4)),
    "index_reduce_cuda": lambda: randn(4, 4).index_reduce_(0, indices(0), randn(1, 4), "amax"),
    "scatter_reduce_cuda_prod_": lambda: randn(4).scatter_reduce(0, indices(0, 1), randn(2), "prod"),
    "scatter_reduce_cuda_kernel": lambda: randn(4).scatter_(0, indices(0, 1), randn(2), reduce="multiply"),
    "nll_loss2d_forward_out_cuda_template": lambda: F.cross_entropy(image(2, channels=3), classes()),
    "max_unpooling2d_forward_out": lambda: F.max_unpool2d(randn(1, 1, 2, 2), indices(0, 2, 8, 10).view(1, 1, 2, 2), 2),
    "put_": lambda: randn(4).put_(indices(0), randn(1), accumulate=True),
}
ALERTS_BACKWARD = {
    "avg_pool3d_backward_cuda": lambda: F.avg_pool3d(image(3), 2),
    "adaptive_avg_pool2d_backward_cuda": lambda: F.adaptive_avg_pool2d(image(2), 2),
    "adaptive_avg_pool3d_backward_cuda": lambda: F.adaptive_avg_pool3d(image(3), 2),
    "adaptive_max_pool2d_backward_cuda": lambda: F.adaptive_max_pool2d(image(2), 2),
    "fractional_max_pool2d_backward_cuda": lambda: F.fractional_max_pool2d(image(2), 2, output_size=2),
    "fractional_max_pool3d_backward_cuda": lambda: F.fractional_max_pool3d(image(3), 2, output_size=2),
    "max_pool3d_with_indices_backward_cuda": lambda: F.max_pool3d(image(3), 2),
    "upsample_linear1d_backward_out_cuda": lambda: resized(1, "linear"),
    "upsample_bilinear2d_backward_out_cuda": lambda: resized(2, "bilinear"),
    "upsample_bicubic2d_backward_out_cuda": lambda: resized(2, "bicubic"),
    "upsample_trilinear3d_backward_out_cuda": lambda: resized(3, "trilinear"),
    "upsample_bilinear2d_aa_backward_out_cuda": lambda: resized(2, "bilinear", antialias=True),
    "reflection_pad1d_backward_out_cuda": lambda: padded(1, "reflect"),
    "reflection_pad2d_backward_cuda": lambda: padded(2, "reflect"),
    "reflection_pad3d_backward_out_cuda": lambda: padded(3, "reflect"),
    "replication_pad1d_backward_cuda": lambda: padded(1, "replicate"),
    "replication_pad2d_backward_cuda": lambda: padded(2, "replicate"),
    "replication_pad3d_backward_cuda": lambda: padded(3, "replicate"),
    "grid_sampler_2d_backward_cuda": lambda: sampled(2, align_corners=False),
    "grid_sampler_3d_backward_cuda": lambda: sampled(3, align_corners=True),
    "ctc_loss_backward_gpu": ctc,
    "embedding_bag_backward_cuda_max": lambda: bag("max"),
}
DETERMINISTIC = {
    "a product of matrices": lambda: randn(4, 4) @ randn(4, 4),
    "cumsum": lambda: randn(4).cumsum(0),
    "histc of integers": lambda: torch.histc(indices(1, 2)),
    "bincount": lambda: torch.bincount(indices(1, 2)),
    "kthvalue": lambda: randn(4).kthvalue(2),
    "median without indices": lambda: randn(4).median(),
    "index_add": lambda: randn(4).index_add(0, indices(0), randn(1)),
    "scatter": lambda: randn(4).scatter(0, indices(0), randn(1)),
    "scatter_add": lambda: randn(4).scatter_add(0, indices(0), randn(1)),
    "scatter_reduce of sums": lambda: randn(4).scatter_reduce(0, indices(0, 1), randn(2), "sum"),
    "nll_loss of a batch": lambda: F.nll_loss(randn(1, 3), indices(0)),
    "nll_loss2d without a reduction": lambda: F.nll_loss(image(2, channels=3), classes(), reduction="none"),
    "the gradient of gather": lambda: randn(4, grad=True).gather(0, indices(0)).sum().backward(),
    "the gradient of bilinear interpolation in the mode": lambda: resized(2, "bilinear").sum().backward(),
    "the gradient of replication padding in the mode": lambda: padded(2, "replicate").sum().backward(),
    "the gradient of cuDNN's sampler": lambda: sampled(2, align_corners=True).sum().backward(),
    "the gradient of sums of bags": lambda: bag("sum").sum().backward(),
}


def words(caller):
    with pytest.raises(RuntimeError) as said:
        alert_not_deterministic(caller)
    return str(said.value)


@pytest.mark.parametrize("caller", ALERTS)
def test_what_has_no_deterministic_kernel_raises_in_pytorchs_words(cuda, caller):
    with pytest.raises(RuntimeError) as said:
        ALERTS[caller]()
    assert str(said.value) == words(caller)


@pytest.mark.parametrize("caller", ALERTS_BACKWARD)
def test_a_gradient_without_deterministic_kernel_raises(cuda, caller):
    torch.use_deterministic_algorithms(False)
    out = ALERTS_BACKWARD[caller]()
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError) as said:
        out.sum().backward()
    assert str(said.value) == words(caller)


@pytest.mark.parametrize("what", DETERMINISTIC)
def test_what_has_a_deterministic_kernel_runs(cuda, what):
    DETERMINISTIC[what]()


def test_warn_only_warns_once_a_call_and_runs(cuda):
    torch.use_deterministic_algorithms(True, warn_only=True)
    for run in (ALERTS["median CUDA with indices output"], ALERTS["put_"], ALERTS["max_unpooling2d_forward_out"]):
        with pytest.warns(UserWarning, match=r"warn_only=True\)'. You can file an issue") as seen:
            run()
        assert len(seen) == 1


def test_a_warning_names_the_line_that_called(cuda):
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="median CUDA with indices") as seen:
        F.relu(randn(4)).median(0)
    assert seen[0].filename == __file__


def test_an_operation_that_alerts_changes_nothing(cuda):
    x = torch.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="put_"):
        x.put_(indices(0), randn(1), accumulate=True)
    torch.use_deterministic_algorithms(False)
    assert x.tolist() == [1.0, 1.0]
