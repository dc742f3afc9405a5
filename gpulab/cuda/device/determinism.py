"""``torch.use_deterministic_algorithms``: the card's operations of which CUDA has no deterministic kernel.

Nothing is said where CUDA takes another kernel in that mode (``index_add``, ``scatter_add``, ``cumsum``), of products of
matrices (PyTorch asks for no ``CUBLAS_WORKSPACE_CONFIG`` any more), and of ``kthvalue``, which an H100 runs in silence.
The host's kernels alert by themselves, in the same words, for ``max_unpool`` and for ``put_`` without ``accumulate``.
Source: ``alertNotDeterministic`` in PyTorch's ``aten/src/ATen/native/cuda``, whose names these are; PyTorch's
documentation still lists ``cumsum``.
"""

import sys
import warnings
from collections.abc import Callable

import torch

from gpulab.compat.dispatch import OpOverload
from gpulab.observe.lines import is_learners

_NONE, _MAX_OF_BAG, _BILINEAR, _ZEROS = 0, 2, 0, 0
_MOST_CHANNELS_OF_CUDNN = 1024


def _floats(given) -> bool:
    return given["self"].is_floating_point()


def _without_cudnn(given) -> bool:
    fits = given["input"].shape[1] <= _MOST_CHANNELS_OF_CUDNN and given["input"].dtype != torch.bfloat16
    sampling = (given["interpolation_mode"], given["padding_mode"], given["align_corners"])
    return not (torch.backends.cudnn.enabled and fits and sampling == (_BILINEAR, _ZEROS, True))


def _has_indices(given) -> bool:
    return given["index"].numel() > 0


# Of an operator the name in CUDA's alert, or pairs of that name and the arguments that it is for.
_ALERTS: dict[str, str | tuple[str, Callable[[dict], bool]]] = {
    "avg_pool3d_backward": "avg_pool3d_backward_cuda",
    "_adaptive_avg_pool2d_backward": "adaptive_avg_pool2d_backward_cuda",
    "_adaptive_avg_pool3d_backward": "adaptive_avg_pool3d_backward_cuda",
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d_backward_cuda",
    "fractional_max_pool2d_backward": "fractional_max_pool2d_backward_cuda",
    "fractional_max_pool3d_backward": "fractional_max_pool3d_backward_cuda",
    "max_pool3d_with_indices_backward": "max_pool3d_with_indices_backward_cuda",
    "upsample_linear1d_backward": "upsample_linear1d_backward_out_cuda",
    "upsample_bilinear2d_backward": "upsample_bilinear2d_backward_out_cuda",
    "upsample_bicubic2d_backward": "upsample_bicubic2d_backward_out_cuda",
    "upsample_trilinear3d_backward": "upsample_trilinear3d_backward_out_cuda",
    "_upsample_bilinear2d_aa_backward": "upsample_bilinear2d_aa_backward_out_cuda",
    "_upsample_bicubic2d_aa_backward": "upsample_bicubic2d_aa_backward_out_cuda",
    "reflection_pad1d_backward": "reflection_pad1d_backward_out_cuda",
    "reflection_pad2d_backward": "reflection_pad2d_backward_cuda",
    "reflection_pad3d_backward": "reflection_pad3d_backward_out_cuda",
    "replication_pad1d_backward": "replication_pad1d_backward_cuda",
    "replication_pad2d_backward": "replication_pad2d_backward_cuda",
    "replication_pad3d_backward": "replication_pad3d_backward_cuda",
    "grid_sampler_2d_backward": ("grid_sampler_2d_backward_cuda", _without_cudnn),
    "grid_sampler_3d_backward": "grid_sampler_3d_backward_cuda",
    "nll_loss2d_forward": ("nll_loss2d_forward_out_cuda_template", lambda given: given["reduction"] != _NONE),
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "_embedding_bag_backward": (
        "embedding_bag_backward_cuda_max",
        lambda given: given["mode"] == _MAX_OF_BAG and not given["sparse"],
    ),
    "_embedding_bag_dense_backward": ("embedding_bag_backward_cuda_max", lambda given: given["mode"] == _MAX_OF_BAG),
    "put": ("put_", lambda given: given["accumulate"]),
    "histc": ("_histc_cuda with floating point input", _floats),
    "bincount": ("_bincount_cuda", lambda given: given["weights"] is not None),
    "median.dim": "median CUDA with indices output",
    "nanmedian.dim": "median CUDA with indices output",
    "index_reduce": "index_reduce_cuda",
    "scatter.reduce": (
        "scatter_reduce_cuda_kernel",
        lambda given: given["reduce"] == "multiply" and _has_indices(given),
    ),
    "scatter_reduce.two": (
        "scatter_reduce_cuda_prod_",
        lambda given: given["reduce"] == "prod" and _has_indices(given),
    ),
}


def alert_of(op: OpOverload):
    """What raises, or warns, with an operation's ``(args, kwargs)`` in deterministic mode; None: CUDA's kernel is deterministic."""
    if op.namespace != "aten":
        return None
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    overload = op._schema.overload_name.removesuffix("_out").removesuffix("_values")
    row = _ALERTS.get(f"{name}.{overload}") or _ALERTS.get(name)
    if row is None:
        return None
    caller, applies = row if isinstance(row, tuple) else (row, None)

    def alert(args, kwargs) -> None:
        if applies is None or applies(_given(op._schema.arguments, args, kwargs)):
            _alert_not_deterministic(caller)

    return alert


def _given(arguments, args, kwargs) -> dict:
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    return {**defaults, **dict(zip((argument.name for argument in arguments), args)), **kwargs}


def _alert_not_deterministic(caller: str) -> None:
    text = (
        f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    )
    issues = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
    issues += "support for this operation."
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(f"{text}, warn_only=True)'. You can {issues}", stacklevel=_frames_to_learner())
        return
    raise RuntimeError(
        f"{text})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if "
        f"that's acceptable for your application. You can also {issues}"
    )


def _frames_to_learner() -> int:
    """``stacklevel`` of a warning of the caller's."""
    frame, level = sys._getframe(1), 1
    while frame is not None and not is_learners(frame):
        frame, level = frame.f_back, level + 1
    return level
