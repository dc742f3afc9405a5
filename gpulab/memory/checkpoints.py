"""What a chain of equal layers holds for its backward pass under ``torch.utils.checkpoint.checkpoint_sequential``.

Counted are the bytes that are saved for the backward pass, each storage once: a layer saves its own input
among others, and of a segment's first layer that input is the segment's checkpoint. What lives only while
one layer runs, gradients and weights are not counted.
"""

from typing import NamedTuple


class Pass(NamedTuple):
    """One layer's turn. ``phase``: forward, recompute or backward. ``layer``: from 0. ``held``: bytes, when it is over."""

    phase: str
    layer: int
    held: int


def segments_of(n: int, k: int) -> list[range]:
    """The layers, from 0, of each of ``k`` segments: ``n // k`` of them, and in the last what is left of ``n``.

    Raises:
        ValueError: unless 1 <= k <= n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"{n} layers make 1 to {n} segments, not {k}")
    size = n // k
    return [*(range(i * size, (i + 1) * size) for i in range(k - 1)), range((k - 1) * size, n)]


def held_bytes(n: int, k: int, act: int, ckpt: int, last: bool = False) -> list[Pass]:
    """Every layer's turns in a training step, in order, with the bytes that are held after each.

    A segment's checkpoint is held from its forward pass until its backward pass is over. Its layers hold
    nothing until they are recomputed, all of them, right before their backward pass.

    Args:
        n: layers. k: segments, 1 to n. act: bytes that a layer saves, its input among them.
        ckpt: bytes of a segment's input, at most ``act``.
        last: whether the last segment is checkpointed too; ``checkpoint_sequential`` does not.

    Raises:
        ValueError: for another number of segments, and unless 0 < ckpt <= act.
    """
    if not 0 < ckpt <= act:
        raise ValueError(f"a layer saves its input among others: {act} bytes cannot hold a checkpoint of {ckpt}")
    segments = [(i, layers, last or i < k - 1) for i, layers in enumerate(segments_of(n, k))]
    ahead = [one for i, layers, dropped in segments for one in _forward(i * ckpt, layers, act, ckpt, dropped)]
    return ahead + [
        one for i, layers, dropped in reversed(segments) for one in _backward(i * ckpt, layers, act, dropped)
    ]


def peak_bytes(n: int, k: int, act: int, ckpt: int, last: bool = False) -> int:
    """The most that is held at once. Arguments and errors as of :func:`held_bytes`."""
    return max(one.held for one in held_bytes(n, k, act, ckpt, last))


def recomputed_layers(n: int, k: int, last: bool = False) -> int:
    """Layers that run forward a second time. Raises ValueError unless 1 <= k <= n."""
    return sum(len(layers) for layers in segments_of(n, k)[: k if last else k - 1])


def _forward(before: int, layers: range, act: int, ckpt: int, dropped: bool) -> list[Pass]:
    """``before``: bytes of the earlier segments' checkpoints."""
    return [Pass("forward", layer, before + (ckpt if dropped else act * many)) for many, layer in enumerate(layers, 1)]


def _backward(before: int, layers: range, act: int, dropped: bool) -> list[Pass]:
    """What was dropped is recomputed first."""
    again = [Pass("recompute", layer, before + act * many) for many, layer in enumerate(layers, 1)]
    freed = [Pass("backward", layer, before + act * many) for many, layer in enumerate(layers)]
    return (again if dropped else []) + freed[::-1]
