"""The graph of a small network, forward and backward step by step: what is saved, what is alive, what a write spoils."""

from collections.abc import Sequence
from dataclasses import dataclass

import anywidget
import torch
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.graph_stepper.recording import Recording, record

NOTHING = "nothing"


@dataclass(frozen=True)
class Network:
    """statements: see :func:`record`. shapes: of the leaves; upper-case names are parameters.

    writes: what may be written in place: after how many statements, and the statement.
    """

    statements: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    writes: tuple[tuple[int, str], ...]

    def leaves(self) -> dict[str, torch.Tensor]:
        return {name: torch.ones(shape, requires_grad=name.isupper()) for name, shape in self.shapes.items()}

    def recordings(self) -> dict[str, Recording]:
        """One for each write, by what a reader calls it, and one without."""
        found = {NOTHING: record(self.statements, self.leaves())}
        for after, write in self.writes:
            called = f"{write} after line {after}"
            found[called] = record([*self.statements[:after], write, *self.statements[after:]], self.leaves())
        return found


_SHAPES = {"x": (64, 128), "W": (128, 256), "V": (256, 16)}


def _perceptron(activation: str, *writes: tuple[int, str]) -> Network:
    lines = ("h = x @ W", f"a = {activation}(h)", "y = a @ V", "loss = y.square().mean()")
    return Network(lines, _SHAPES, writes)


NETWORKS = {
    "relu between two products": _perceptron(
        "torch.relu",
        (1, "h.add_(1)"),
        (2, "h.add_(1)"),
        (2, "a.mul_(2)"),
        (3, "a.mul_(2)"),
        (3, "y.add_(1)"),
        (3, "V.add_(1)"),
    ),
    "gelu between two products": _perceptron(
        "F.gelu", (1, "h.add_(1)"), (2, "h.add_(1)"), (2, "a.mul_(2)"), (3, "a.mul_(2)")
    ),
    "a residual and a norm": Network(
        ("h = x @ W", "n = F.layer_norm(h, (128,), G)", "a = n.sigmoid()", "r = h + a", "loss = r.exp().sum()"),
        {"x": (64, 128), "W": (128, 128), "G": (128,)},
        ((1, "h.add_(1)"), (2, "h.add_(1)"), (3, "n.add_(1)"), (3, "a.relu_()"), (4, "h.add_(1)"), (4, "r.mul_(2)")),
    ),
}


class GraphStepper(anywidget.AnyWidget):
    """A recorded forward and backward pass in steps: nodes, what each saved, storages alive, versions.

    PyTorch runs every network with every write when the widget is made, on CPU tensors.

    Args:
        network: a key of ``NETWORKS``. write: a key of its recordings: ``nothing``, ``a.mul_(2) after line 2``.
        step: steps that are done at first.

    Raises:
        ValueError: for a network, a write or a step that there is not.
    """

    _esm = module("graph_stepper")
    _css = style("graph_stepper")
    network = traitlets.Unicode().tag(sync=True)
    write = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    recordings = traitlets.Dict().tag(sync=True)

    def __init__(self, network: str = "relu between two products", write: str = NOTHING, step: int = 0):
        recordings = {name: each.recordings() for name, each in NETWORKS.items()}
        _choose("network", network, list(recordings))
        _choose("write", write, list(recordings[network]))
        if step < 0:
            raise ValueError(f"step is 0 or more, not {step}")
        plain = {name: {key: one.plain() for key, one in own.items()} for name, own in recordings.items()}
        super().__init__(network=network, write=write, step=step, recordings=plain)


def _choose(what: str, value: str, among: Sequence[str]) -> None:
    if value not in among:
        raise ValueError(f"{what} is one of {', '.join(among)}, not {value!r}")
