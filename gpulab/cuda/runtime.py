"""``use()``: which CUDA runtime ``device="cuda"`` means from now on."""

import torch

from gpulab.cuda.machine.cards import Card, card_named

DEFAULT_CARD = "H100"


class Runtime:
    """What CUDA is at the moment. A context manager: leaving it restores what was before."""

    def __init__(self, kind: str, description: str, card: Card | None, before: str) -> None:
        self.kind, self.description, self.card = kind, description, card
        self._before = before

    def __repr__(self) -> str:
        return self.description

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *exc) -> None:
        use(self._before, quiet=True)


_installation = None


def use(which: str = "auto", *, quiet: bool = False) -> Runtime:
    """Choose the CUDA runtime and say in one line what it is.

    ``"auto"``: the GPU where there is one, else the virtual card. ``"real"``: the GPU, or
    RuntimeError. ``"virtual"`` or ``"virtual:A100"``: a virtual card, also where there is a
    GPU. ``"ghost:A100"``: the same with tensors that have shapes and no values, for models
    too large for this machine. ``"off"``: neither; PyTorch is left as it was installed. A new
    virtual card starts with empty memory and its clock at 0. Raises ValueError for a card that
    is not known.
    """
    before = current()
    kind, _, key = which.partition(":")
    if kind not in ("auto", "real", "virtual", "ghost", "off"):
        known = "'auto', 'real', 'virtual', 'virtual:CARD', 'ghost:CARD' or 'off'"
        raise ValueError(f"use({which!r}): say {known}")
    card = card_named(key or DEFAULT_CARD)
    _remove()
    if kind == "auto":
        kind = "real" if torch.cuda.is_available() else "virtual"
    runtime = _start(kind, card, before)
    if not quiet:
        print(runtime)
    return runtime


def current() -> str:
    """What :func:`use` would be called with to get the runtime that is on now."""
    if _installation is not None:
        kind = "ghost" if _installation.device.ghost else "virtual"
        return f"{kind}:{_installation.device.card.key}"
    return "real" if torch.cuda.is_available() else "off"


def _start(kind: str, card: Card, before: str) -> Runtime:
    global _installation
    if kind == "off":
        return Runtime(kind, "CUDA: off", None, before)
    if kind == "real":
        return _real(before)
    from gpulab.cuda.device.install import Installation

    _installation = Installation(card, ghost=kind == "ghost")
    values = "There are no values" if kind == "ghost" else "Values are computed on the CPU"
    text = f"CUDA: {kind} {card.name}. {values}; time, memory and order are modelled."
    return Runtime(kind, text, card, before)


def _real(before: str) -> Runtime:
    if not torch.cuda.is_available():
        raise RuntimeError("use('real'): PyTorch sees no GPU here; use('virtual') needs none")
    name, version = torch.cuda.get_device_name(), torch.version.cuda
    text = f"CUDA: {name}, CUDA {version}, PyTorch {torch.__version__}. Measured."
    return Runtime("real", text, None, before)


def _remove() -> None:
    global _installation
    if _installation is not None:
        _installation.remove()
        _installation = None
