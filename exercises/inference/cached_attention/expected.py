"""What attention with a memory is due to give, from all tokens of a sequence, and what it gives to those who misread it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch


@dataclass
class Call:
    """One call: ``x``, in float64, holds the sequences so far, of which the last ``new`` tokens came with it."""

    layer: dict
    x: torch.Tensor
    new: int
    dtype: torch.dtype

    @property
    def start(self) -> int:
        return self.x.shape[1] - self.new

    def expected(self) -> torch.Tensor:
        return self._attended(torch.arange(self.x.shape[1]), self._causal)

    def misread(self) -> Iterator[tuple[torch.Tensor, str]]:
        """What comes out of common misreadings, with the sentence that says which."""
        rows, columns = torch.arange(self.new)[:, None], torch.arange(self.x.shape[1])
        causal, places = self._causal, columns.clone()
        yield (
            self._attended(places, rows >= 0 * columns),
            "Tokens of a call see those that come after them in the same call.",
        )
        tiled = self._attended(places, causal, tiled=True)
        yield tiled, "Query heads use the wrong key heads: those beside each other share one."
        if self.start == 0:
            return
        first = "The causal mask begins at the first token: a call's first row sees all before it, and itself."
        yield self._attended(places, rows >= columns), first
        yield (
            self._attended(places, causal & (columns >= self.start)),
            "Tokens see those of their own call and none before.",
        )
        places[self.start :] -= self.start
        yield self._attended(places, causal), "Positions begin at 0 in each call: they go on from the tokens before."

    @property
    def _causal(self) -> torch.Tensor:
        return torch.arange(self.start, self.x.shape[1])[:, None] >= torch.arange(self.x.shape[1])

    @cached_property
    def _projected(self) -> list[torch.Tensor]:
        """Queries of the new tokens, keys and values of all, each (batch, H, T, head_dim)."""
        weights, head_dim = self.layer["weights"], self.layer["head_dim"]
        parts = (("q_proj", self.x[:, self.start :]), ("k_proj", self.x), ("v_proj", self.x))
        return [(x @ weights[name].double().T).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name, x in parts]

    def _attended(self, places: torch.Tensor, sees: torch.Tensor, tiled: bool = False) -> torch.Tensor:
        q, k, v = self._projected
        q, k = self._turned(q, places[self.start :]), self._turned(k, places)
        groups = self.layer["heads"] // self.layer["kv_heads"]
        k, v = (x.repeat(1, groups, 1, 1) if tiled else x.repeat_interleave(groups, 1) for x in (k, v))
        scores = (q @ k.mT * self.layer["head_dim"] ** -0.5).masked_fill(~sees, -torch.inf)
        y = torch.softmax(scores, -1) @ v
        return y.transpose(1, 2).flatten(2) @ self.layer["weights"]["o_proj"].double().T

    def _turned(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        half = self.layer["head_dim"] // 2
        angle = places.double()[:, None] ** self.layer["bend"] * self.layer["base"] ** (
            -torch.arange(half).double() / half
        )
        pairs = torch.view_as_complex(torch.stack((x[..., :half], x[..., half:]), -1))
        turned = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((turned.real, turned.imag), -1)


class Play:
    """Goes through a case's actions as they are due; knows what each object was made for and has read."""

    def __init__(self, inputs: dict) -> None:
        self._inputs = inputs
        self._plans: dict[int, tuple[int, int, int]] = {}
        self._read: dict[int, torch.Tensor] = {}

    def plan(self) -> tuple[int, int, int]:
        """Layer, batch and capacity of the first object."""
        made = self._inputs["actions"][0]
        return made["layer"], made["batch"], made["capacity"]

    def length(self, action: dict) -> int:
        return self._read[action["of"]].shape[1]

    def next(self, action: dict) -> Call | None:
        """What the action comes to; None where it is refused. What is made or reset has no new tokens."""
        of = action["of"]
        if action["do"] == "make":
            if action["batch"] < 1 or action["capacity"] < 1:
                return None
            self._plans[of] = (action["layer"], action["batch"], action["capacity"])
        number, batch, capacity = self._plans[of]
        layer = self._inputs["layers"][number]
        weight = layer["weights"]["k_proj"]
        if action["do"] != "call":
            self._read[of] = torch.empty(batch, 0, weight.shape[1], dtype=torch.float64)
            return Call(layer, self._read[of], 0, weight.dtype)
        x = action["x"]
        if x.ndim != 3 or x.shape[0] != batch or x.shape[2] != weight.shape[1]:
            return None
        if not 0 < x.shape[1] <= capacity - self._read[of].shape[1]:
            return None
        self._read[of] = torch.cat((self._read[of], x.double()), 1)
        return Call(layer, self._read[of], x.shape[1], weight.dtype)
