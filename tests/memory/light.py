"""Stand-ins for kernels that only a GPU has: the same bytes held, in plain PyTorch.

bitsandbytes' 8-bit Adam and 4-bit linear layer run compiled CUDA code, which a virtual card cannot.
"""

import torch
from torch import Tensor, nn

STATE_BLOCK, WEIGHT_BLOCK, AT_ONCE = 256, 64, 1 << 24


class Adam8bit(torch.optim.Optimizer):
    """Both moments as a byte an element with a float32 scale for each block of 256."""

    def __init__(self, parameters, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            state = self.state[parameter] or self._begun(parameter)
            weights, gradient = parameter.view(-1), parameter.grad.view(-1)
            for start in range(0, parameter.numel(), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                self._update(weights[part], gradient[part].float(), state, start)

    def _begun(self, parameter: Tensor) -> dict:
        blocks = -(-parameter.numel() // STATE_BLOCK)
        for moment in ("first", "second"):
            self.state[parameter][moment] = torch.zeros(
                blocks * STATE_BLOCK, dtype=torch.uint8, device=parameter.device
            )
            self.state[parameter][f"{moment}_scales"] = torch.zeros(blocks, device=parameter.device)
        return self.state[parameter]

    def _update(self, weights: Tensor, gradient: Tensor, state: dict, start: int) -> None:
        first = self._mixed(state, "first", start, gradient, 0.9)
        second = self._mixed(state, "second", start, gradient.square(), 0.999)
        weights.sub_(first.div_(second.sqrt_().add_(1e-8)).mul_(self.param_groups[0]["lr"]))

    @staticmethod
    def _mixed(state: dict, moment: str, start: int, news: Tensor, keep: float) -> Tensor:
        """The moment in float32, after it was brought up to date and written back."""
        end = start + -(-len(news) // STATE_BLOCK) * STATE_BLOCK
        codes = state[moment][start:end].view(-1, STATE_BLOCK)
        scales = state[f"{moment}_scales"][start // STATE_BLOCK : end // STATE_BLOCK, None]
        values = codes.float().sub_(128).mul_(scales / 127)
        values.view(-1)[: len(news)].lerp_(news, 1 - keep)
        scales.copy_(values.abs().amax(1, keepdim=True))
        codes.copy_((values / (scales / 127).clamp_(min=1e-30)).add_(128.5))
        return values.view(-1)[: len(news)]


class Linear4bit(nn.Module):
    """A frozen matrix, two elements a byte and a float32 scale for each 64, written out for every product."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = self.shape = weight.shape
        flat = weight.detach().view(-1, WEIGHT_BLOCK)
        self.register_buffer("scales", flat.abs().amax(1).float() / 7)
        codes = (flat / self.scales[:, None]).round_().add_(8).to(torch.uint8).view(-1, 2)
        self.register_buffer("packed", codes[:, 0] | codes[:, 1] << 4)

    def forward(self, x: Tensor) -> Tensor:
        return _Product.apply(x, self)

    def written_out(self, dtype: torch.dtype) -> Tensor:
        """The matrix in ``dtype``."""
        out = torch.empty(self.packed.numel(), 2, dtype=dtype, device=self.packed.device)
        out[:, 0].copy_(self.packed & 15)
        out[:, 1].copy_(self.packed >> 4)
        out.sub_(8).view(-1, WEIGHT_BLOCK).mul_(self.scales[:, None])
        return out.view(self.shape)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, layer: Linear4bit) -> Tensor:
        ctx.layer = layer
        return x @ layer.written_out(x.dtype).T

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient @ ctx.layer.written_out(gradient.dtype), None


class Adapted(nn.Module):
    """A linear layer, frozen, with a pair of small matrices beside it that train: LoRA."""

    def __init__(self, base: nn.Module, rank: int, like: Tensor) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False, device=like.device, dtype=like.dtype)
        self.up = nn.Linear(rank, base.out_features, bias=False, device=like.device, dtype=like.dtype)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x)) * 2.0
