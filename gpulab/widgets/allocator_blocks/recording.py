"""Two training steps on a virtual card: what its allocator was asked for, and what each block was for."""

from collections import OrderedDict
from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from gpulab.cards.cards import card_named
from gpulab.compat.dispatch import DispatchMode
from gpulab.cuda import use
from gpulab.cuda.device.state import device_on
from gpulab.widgets.allocator_blocks.traces import Trace

CARD = "H100"
ROWS, WIDTH, HIDDEN = 256, 512, 2048
ABOUT = (
    f"Recorded on a virtual {CARD}: a batch of {ROWS} rows, linear1 ({WIDTH} to {HIDDEN}), gelu, linear2 ({HIDDEN} to {WIDTH}), "
    "cross-entropy, float32, two steps of AdamW. The second step needs no new segment."
)


@cache
def training_step() -> Trace:
    """Two steps of a small model. Leaves the card that is on, and PyTorch's random numbers, as they were."""
    with torch.random.fork_rng(devices=[]), use(f"virtual:{CARD}", quiet=True), _Recorder() as recorder:
        actions = _train(recorder, steps=2)
    return Trace(ABOUT, card_named(CARD).memory_bytes, actions)


def _train(recorder: "_Recorder", steps: int) -> tuple[dict, ...]:
    """Returns what was done while model and optimizer are alive: nothing of their end."""
    recorder.phase = "before the first step"
    layers = ("linear1", nn.Linear(WIDTH, HIDDEN)), ("gelu", nn.GELU()), ("linear2", nn.Linear(HIDDEN, WIDTH))
    model = nn.Sequential(OrderedDict(layers)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = recorder.name("batch", torch.randn(ROWS, WIDTH, device="cuda"))
    targets = recorder.name("targets", torch.randint(WIDTH, (ROWS,), device="cuda"))
    for name, parameter in model.named_parameters():
        recorder.name(name, parameter)
    for name, layer in model.named_children():
        layer.register_forward_hook(recorder.names_output(name))
    for step in range(1, steps + 1):
        _step(recorder, f"step {step}", model, optimizer, batch, targets)
    return tuple(recorder.actions)


def _step(recorder: "_Recorder", step: str, model, optimizer, batch, targets) -> None:
    recorder.phase = f"{step}, forward"
    loss = recorder.name("loss", nn.functional.cross_entropy(model(batch), targets))
    recorder.phase = f"{step}, backward"
    loss.backward()
    for name, parameter in model.named_parameters():
        recorder.name(f"gradient of {name}", parameter.grad)
    recorder.phase = f"{step}, AdamW"
    optimizer.step()
    for name, parameter in model.named_parameters():
        for key in ("exp_avg", "exp_avg_sq"):
            recorder.name(f"{key} of {name}", optimizer.state[parameter][key])
    recorder.phase = f"{step}, zero_grad"
    optimizer.zero_grad()


class _Recorder(DispatchMode):
    """Writes down what the allocator of the card that is on hands out and gets back, while it is entered.

    A block is named after the operation that asked for it until ``name`` knows better.
    """

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[dict] = []
        self.phase = ""
        self._operation = ""
        self._held: dict[int, int] = {}

    def __enter__(self):
        self._memory, self._allocator = device_on().memory, device_on().machine.allocator
        self._allocator.trace = self._note
        return super().__enter__()

    def __exit__(self, *exc):
        self._allocator.trace = None
        return super().__exit__(*exc)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._operation = func.overloadpacket.__name__
        return func(*args, **(kwargs or {}))

    def _note(self, action: str, address: int, size: int, stream: int) -> None:
        if action == "alloc":
            self._held[address] = len(self.actions)
            name = f"a result of {self._operation}"
            self.actions.append(
                {"kind": "malloc", "bytes": self._requested(address), "name": name, "phase": self.phase}
            )
        elif action == "free_completed":
            self.actions.append({"kind": "free", "of": self._held.pop(address), "phase": self.phase})

    def _requested(self, address: int) -> int:
        blocks = (block for segment in self._allocator.segments.values() for block in segment.blocks())
        return next(block.requested for block in blocks if block.address == address)

    def name(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Say what the block of ``tensor``'s storage is for; returns ``tensor``."""
        self.actions[self._held[self._memory.of(tensor).block.address]]["name"] = name
        return tensor

    def names_output(self, layer: str) -> Callable:
        """A forward hook that names the output of ``layer``, and its gradient when that comes."""

        def hook(module, inputs, output) -> None:
            self.name(f"output of {layer}", output)
            output.register_hook(named_gradient)

        def named_gradient(gradient) -> None:
            self.name(f"gradient of output of {layer}", gradient)

        return hook
