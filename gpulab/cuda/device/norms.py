"""Layer and batch normalisation of half precision: a card computes them, and keeps mean and rstd, in float32.

The host keeps them in the dtype of the weights. Sources: ``layer_norm_cuda`` and ``batch_norm_cuda`` in PyTorch's
``aten/src/ATen/native/cuda`` (``toAccumulateType``); an H100 (``evidence``, "formats that a card keeps").
A group norm's are of the input's dtype there, too.
"""

import torch

Tensor = torch.Tensor
_to_copy = torch.ops.aten._to_copy.default
_copy = torch.ops.aten.copy_.default
_HALVES = (torch.float16, torch.bfloat16)
_FORWARD = {
    "aten::native_layer_norm",
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit_no_training",
    "aten::_batch_norm_with_update",
    "aten::_batch_norm_no_update",
}
_BACKWARD = {"aten::native_layer_norm_backward", "aten::native_batch_norm_backward", "aten::batch_norm_backward"}


def in_float32(func):
    """What is called in the place of ``func``; None where it is no such normalisation."""
    schema = func._schema
    if schema.overload_name.endswith("out"):
        return None
    if schema.name in _FORWARD:
        return _forward(
            func, [i for i, argument in enumerate(schema.arguments) if argument.name.startswith("running_")]
        )
    return _backward(func, *_places(schema, "input", "weight")) if schema.name in _BACKWARD else None


def _places(schema, *names: str) -> list[int]:
    arguments = [argument.name for argument in schema.arguments]
    return [arguments.index(name) for name in names]


def _forward(func, running: list[int]):
    def normalised(*args, **kwargs):
        if args[0].dtype not in _HALVES:
            return func(*args, **kwargs)
        wide = [_widened(value) for value in args]
        out, *statistics = func(*wide, **kwargs)
        for place in running:
            if wide[place] is not args[place]:
                _copy(args[place], wide[place])
        return _to_copy(out, dtype=args[0].dtype), *statistics

    return normalised


def _backward(func, source: int, weight: int):
    def gradients(*args, **kwargs):
        dtype = args[source].dtype
        if dtype not in _HALVES:
            return func(*args, **kwargs)
        of_weight = dtype if args[weight] is None else args[weight].dtype
        grads = func(*map(_widened, args), **kwargs)
        return tuple(
            grad if grad is None else _to_copy(grad, dtype=to) for grad, to in zip(grads, (dtype, of_weight, of_weight))
        )

    return gradients


def _widened(value):
    return _to_copy(value, dtype=torch.float32) if isinstance(value, Tensor) and value.dtype in _HALVES else value
