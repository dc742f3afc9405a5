"""E8.2: a job as it is to go, on the host."""

import torch
from torch import Tensor

from exercises.precision.dynamic_scaler.shared import Optimized

LEAST, MOST = 1.0, 2.0**24


class Truth(Optimized):
    """``job``: as :class:`exercises.precision.dynamic_scaler.cases.Job` describes it. Actions are methods."""

    def __init__(self, job: dict) -> None:
        super().__init__(job, "cpu")
        self._rounds = job["half"]
        self._scale, self._interval = float(job["scaler"]["init_scale"]), job["scaler"]["growth_interval"]
        self._clean = 0
        self._finite: dict[int, bool] = {}
        self._stepped: set[int] = set()

    def play(self, actions: list[dict]) -> dict:
        """What each action comes to, and what holds afterwards; ``before``: the scale."""
        before = self._scale
        for parameter in self.parameters:
            parameter.grad = None
        outcomes = [getattr(self, action["do"])(**action["by"]) for action in actions]
        return {
            "outcomes": outcomes,
            "parameters": self.values(),
            "gradients": [p.grad if p.grad is None else p.grad.clone() for p in self.parameters],
            "states": self.states(),
            "scale": self._scale,
            "before": before,
        }

    def backward(self, gradients: list, loss: str) -> Tensor:
        pairs = [(p, g) for p, g in zip(self.parameters, gradients, strict=True) if g is not None]
        for p, g in pairs:
            scaled = (g * self._scale).half().float() if self._rounds else g * self._scale
            p.grad = scaled if p.grad is None else p.grad + scaled
        return sum((p.detach() * g).sum() for p, g in pairs).to(getattr(torch, loss)).float() * self._scale

    def unscale(self, of: int) -> str | None:
        if of in self._finite:
            return "RuntimeError"
        gradients = [p.grad for p in self.groups[of] if p.grad is not None]
        for gradient in gradients:
            gradient /= self._scale
        self._finite[of] = all(bool(gradient.isfinite().all()) for gradient in gradients)
        return None

    def step(self, of: int, max_norm: float | None = None) -> bool | str:
        if of in self._stepped:
            return "RuntimeError"
        if of not in self._finite:
            self.unscale(of)
        self._stepped.add(of)
        if self._finite[of]:
            if max_norm is not None:
                self.clip(of, max_norm)
            self.optimizers[of].step()
        return self._finite[of]

    def other(self, finite: bool) -> None:
        """Another scaler's step changes nothing here."""

    def update(self) -> str | None:
        if not self._finite:
            return "RuntimeError"
        self._clean = self._clean + 1 if all(self._finite.values()) else 0
        if not self._clean:
            self._scale = max(self._scale / 2, LEAST)
        elif self._clean >= self._interval:
            self._scale, self._clean = min(self._scale * 2, MOST), 0
        self._finite, self._stepped = {}, set()
        return None
