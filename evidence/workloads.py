"""What is timed on a GPU and in the model: PyTorch code that does not look at values.

Each entry makes its tensors on the device and returns the function that is timed.
"""

from collections.abc import Callable

import torch

from gpulab.model import SIZES, TinyVLA

F = torch.nn.functional
FIGURES = ("us", "us_host_ahead", "peak_bytes")
"""Of each: microseconds a call, as called and once the host is ahead of the card; the most memory allocated."""
HOLDS_THE_HOST = {"HtoD, 64 MiB pageable"}
"""Where the host can never be ahead: it stages the bytes itself."""
_MIB = 1 << 20


def _filled(*shape: int, dtype=torch.float32) -> torch.Tensor:
    """Random values: a product of equal ones draws less power and runs faster on a real card."""
    return torch.randn(*shape, device="cuda", dtype=dtype)


def _of_one(shape: tuple[int, ...], call: Callable, dtype=torch.float32) -> Callable:
    def prepare() -> Callable[[], object]:
        x = _filled(*shape, dtype=dtype)
        return lambda: call(x)

    return prepare


def _product(n: int, dtype, tf32: bool = False) -> Callable:
    def prepare() -> Callable[[], object]:
        a, b = _filled(n, n, dtype=dtype), _filled(n, n, dtype=dtype)

        def run() -> None:
            before = torch.backends.cuda.matmul.allow_tf32
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a @ b
            torch.backends.cuda.matmul.allow_tf32 = before

        return run

    return prepare


def _linear(rows: int) -> Callable:
    def prepare() -> Callable[[], object]:
        x, weight = _filled(rows, 4096, dtype=torch.bfloat16), _filled(4096, 4096, dtype=torch.bfloat16)
        return lambda: F.linear(x, weight)

    return prepare


def _batched_product() -> Callable[[], object]:
    a, b = _filled(64, 512, 512, dtype=torch.float16), _filled(64, 512, 512, dtype=torch.float16)
    return lambda: torch.bmm(a, b)


def _convolution() -> Callable[[], object]:
    x, weight = _filled(32, 64, 56, 56, dtype=torch.float16), _filled(128, 64, 3, 3, dtype=torch.float16)
    return lambda: F.conv2d(x, weight, padding=1)


def _attention() -> Callable[[], object]:
    q, k, v = (_filled(8, 16, 1024, 64, dtype=torch.bfloat16) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _lookup() -> Callable[[], object]:
    table, rows = _filled(50_000, 1024), torch.zeros(8192, device="cuda", dtype=torch.int64)
    return lambda: F.embedding(rows, table)


def _layer_norm() -> Callable[[], object]:
    x, weight = _filled(8192, 4096), _filled(4096)
    return lambda: F.layer_norm(x, (4096,), weight)


def _to_device(pinned: bool) -> Callable:
    def prepare() -> Callable[[], object]:
        host, device = torch.ones(16 * _MIB), torch.empty(16 * _MIB, device="cuda")
        host = host.pin_memory() if pinned else host
        return lambda: device.copy_(host, non_blocking=pinned)

    return prepare


def _within_device() -> Callable[[], object]:
    source, target = _filled(64 * _MIB), torch.empty(64 * _MIB, device="cuda")
    return lambda: target.copy_(source)


def _many_small() -> Callable[[], object]:
    x = _filled(1024)

    def run() -> None:
        for _ in range(100):
            x.add_(1.0)

    return run


def _optimizer_step() -> Callable[[], object]:
    parameters = [torch.nn.Parameter(_filled(1024, 1024)) for _ in range(25)]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return torch.optim.AdamW(parameters, foreach=True).step


def _transformer(width: int, dtype, train: bool) -> Callable:
    def prepare() -> Callable[[], object]:
        layer = torch.nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True)
        layer = layer.to(device="cuda", dtype=dtype)
        x = _filled(8, 512, width, dtype=dtype)
        optimizer = torch.optim.AdamW(layer.parameters(), foreach=True)

        def forward() -> torch.Tensor:
            return layer(x)

        def step() -> None:
            optimizer.zero_grad()
            forward().square().mean().backward()
            optimizer.step()

        return step if train else forward

    return prepare


def _perceptron_step() -> Callable[[], object]:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), _filled(256, 1024)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def _policy_step(size: str, frames: int, dtype=torch.float32, autocast: bool = False) -> Callable:
    """A training step of the book's policy, once AdamW has its moments."""

    def prepare() -> Callable[[], object]:
        config = SIZES[size]
        with torch.device("cuda"):
            model = TinyVLA(config).to(dtype)
        optimizer = torch.optim.AdamW(model.parameters())
        image = torch.zeros(frames, config.image, config.image, 3, dtype=torch.uint8, device="cuda")
        words, actions = (
            torch.zeros(frames, length, dtype=torch.long, device="cuda")
            for length in (config.text_length, config.action_length)
        )

        def step() -> None:
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = model.loss(image, words, actions)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        return step

    return prepare


WORKLOADS: dict[str, Callable[[], Callable[[], object]]] = {
    "add, 1 Mi float32": _of_one((1 * _MIB,), lambda x: x + 1),
    "add, 16 Mi float32": _of_one((16 * _MIB,), lambda x: x + 1),
    "add, 64 Mi float32": _of_one((64 * _MIB,), lambda x: x + 1),
    "add, 64 Mi bfloat16": _of_one((64 * _MIB,), lambda x: x + 1, torch.bfloat16),
    "add in place, 64 Mi float32": _of_one((64 * _MIB,), lambda x: x.add_(1)),
    "exp, 64 Mi float32": _of_one((64 * _MIB,), torch.exp),
    "sum, 64 Mi float32": _of_one((64 * _MIB,), torch.sum),
    "softmax, 8192 x 4096 float32": _of_one((8192, 4096), lambda x: torch.softmax(x, -1)),
    "layer norm, 8192 x 4096 float32": _layer_norm,
    "gelu, 8192 x 4096 bfloat16": _of_one((8192, 4096), F.gelu, torch.bfloat16),
    "transpose and copy, 8192 x 8192 float32": _of_one((8192, 8192), lambda x: x.t().contiguous()),
    "cat of two, 16 Mi float32": _of_one((16 * _MIB,), lambda x: torch.cat([x, x])),
    "embedding, 8192 of 50000 x 1024": _lookup,
    "copy within the device, 256 MiB": _within_device,
    "matmul, 2048 float32": _product(2048, torch.float32),
    "matmul, 4096 float32": _product(4096, torch.float32),
    "matmul, 4096 TF32": _product(4096, torch.float32, tf32=True),
    "matmul, 1024 float16": _product(1024, torch.float16),
    "matmul, 4096 float16": _product(4096, torch.float16),
    "matmul, 8192 bfloat16": _product(8192, torch.bfloat16),
    "linear, 8 x 4096 bfloat16": _linear(8),
    "linear, 4096 x 4096 bfloat16": _linear(4096),
    "bmm, 64 x 512 float16": _batched_product,
    "conv2d 3 x 3, 32 x 64 x 56 x 56 float16": _convolution,
    "causal attention, 8 x 16 x 1024 x 64 bfloat16": _attention,
    "HtoD, 64 MiB pinned": _to_device(pinned=True),
    "HtoD, 64 MiB pageable": _to_device(pinned=False),
    "100 kernels on 1024 elements": _many_small,
    "AdamW step, 25 Mi parameters": _optimizer_step,
    "Transformer layer forward, 1024 wide bfloat16": _transformer(1024, torch.bfloat16, train=False),
    "Transformer layer training step, 1024 wide float32": _transformer(1024, torch.float32, train=True),
    "perceptron training step, 1024-4096-1024 float32": _perceptron_step,
    "TinyVLA 350M training step, 8 frames float32": _policy_step("350M", 8),
    "TinyVLA 350M training step, 8 frames autocast to bfloat16": _policy_step("350M", 8, autocast=True),
    "TinyVLA 350M training step, 8 frames bfloat16": _policy_step("350M", 8, torch.bfloat16),
    "TinyVLA 1B training step, 8 frames bfloat16": _policy_step("1B", 8, torch.bfloat16),
}
