"""``use()``: which CUDA runtime ``device="cuda"`` means from now on."""

import torch

from gpulab.cards.cards import Card, card_named

DEFAULT_CARD = "H100"


class Runtime:
    """What CUDA is at the moment. As a context manager: a fresh card, and what was on before afterwards."""

    def __init__(self, kind: str, description: str, card: Card | None, before, kept: bool = False) -> None:
        self.kind, self.description, self.card = kind, description, card
        self._before, self._kept = before, kept

    def __repr__(self) -> str:
        return self.description

    def __enter__(self) -> "Runtime":
        if self._kept:
            _switch_to(_installed(self.kind, self.card))
        return self

    def __exit__(self, *exc) -> None:
        _switch_to(self._before)


_installation = None


def use(which: str = "auto", *, quiet: bool = False) -> Runtime:
    """Choose the CUDA runtime and say in one line what it is.

    ``"auto"``: the GPU where there is one, else the virtual card. ``"real"``: the GPU, or
    RuntimeError. ``"virtual"`` or ``"virtual:A100"``: a virtual card, also where there is a
    GPU. ``"ghost:A100"``: the same with tensors that have shapes and no values, for models
    too large for this machine. ``"off"``: neither; PyTorch is left as it was installed.

    A new virtual card starts with empty memory and its clock at 0. Asked for the card that is
    on, ``use`` keeps it, with its tensors. ``with use(...)`` starts a new one for the block
    and then goes back to the one before, whose tensors are as they were. Raises ValueError for
    a card that is not known, NotModelled where the environment's ``PYTORCH_ALLOC_CONF`` asks for what a virtual card's
    allocator does not do.
    """
    kind, _, key = which.partition(":")
    if kind not in ("auto", "real", "virtual", "ghost", "off"):
        known = "'auto', 'real', 'virtual', 'virtual:CARD', 'ghost:CARD' or 'off'"
        raise ValueError(f"use({which!r}): say {known}")
    card = card_named(key or DEFAULT_CARD)
    if kind == "auto":
        kind = "real" if _gpu_is_there() else "virtual"
    runtime = _chosen(kind, card)
    if not quiet:
        print(runtime)
    return runtime


def current() -> str:
    """What :func:`use` would be called with to get the runtime that is on now."""
    if _installation is not None:
        kind = "ghost" if _installation.device.ghost else "virtual"
        return f"{kind}:{_installation.device.card.key}"
    return "real" if torch.cuda.is_available() else "off"


def _gpu_is_there() -> bool:
    before = _installation
    _switch_to(None)
    try:
        return torch.cuda.is_available()
    finally:
        _switch_to(before)


def _chosen(kind: str, card: Card) -> Runtime:
    before = _installation
    if kind in ("virtual", "ghost"):
        kept = current() == f"{kind}:{card.key}"
        if not kept:
            _switch_to(_installed(kind, card))
        return Runtime(kind, _in_words(kind, card), card, before, kept)
    _switch_to(None)
    if kind == "off":
        return Runtime(kind, "CUDA: off", None, before)
    if not torch.cuda.is_available():
        _switch_to(before)
        raise RuntimeError("use('real'): PyTorch sees no GPU here; use('virtual') needs none")
    name, version = torch.cuda.get_device_name(), torch.version.cuda
    text = f"CUDA: {name}, CUDA {version}, PyTorch {torch.__version__}. Measured."
    return Runtime("real", text, None, before)


def _in_words(kind: str, card: Card) -> str:
    values = "There are no values" if kind == "ghost" else "Values are computed on the CPU"
    return f"CUDA: {kind} {card.name}. {values}; time, memory and order are modelled."


def _installed(kind: str, card: Card):
    from gpulab.cuda.device.install import Installation

    return Installation(card, ghost=kind == "ghost")


def _switch_to(installation) -> None:
    global _installation
    if _installation is not None and installation is not _installation and _installation.device.machine.logs:
        raise RuntimeError("the CUDA runtime cannot be switched inside observe(): the record would end with the card")
    if _installation is not None:
        _installation.remove()
    _installation = None
    if installation is not None:
        installation.install()
        _installation = installation
