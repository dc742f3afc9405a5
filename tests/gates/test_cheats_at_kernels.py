"""Answers to chapter "Kernels from Python" that were not earned."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import silu
from torch.utils._mode_utils import no_dispatch

import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.kernels import tl, triton
from gpulab.observe import device


@pytest.fixture(autouse=True, params=["off", pytest.param("virtual:H100", marks=pytest.mark.audit)])
def runtime(request):
    """A learner's card may be on or off when the hidden tests begin."""
    with gpulab.cuda.use(request.param, quiet=True):
        yield


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def read_kernel(x_ptr, rows, columns, stride, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    tl.load(x_ptr + tl.program_id(0) * stride + column, mask=column < columns)


@triton.jit
def softmax_in_three_loads(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = x_ptr + tl.program_id(0) * stride + at
    top = tl.max(tl.load(first, mask=at < columns, other=-float("inf")), axis=0)
    total = tl.sum(tl.exp(tl.load(first, mask=at < columns, other=-float("inf")) - top), axis=0)
    e = tl.exp(tl.load(first, mask=at < columns, other=-float("inf")) - top) / total
    tl.store(out_ptr + tl.program_id(0) * columns + at, e, mask=at < columns)


def copied(result):
    """What PyTorch computed, carried into a new tensor by a kernel of one's own."""
    out = torch.empty(result.shape, dtype=result.dtype, device=result.device)
    copy_kernel[(triton.cdiv(result.numel(), 1024),)](result.contiguous(), out, result.numel(), BLOCK=1024)
    return out


def poked(function, *inputs):
    """Computed on copies that no instrument sees, and written into the card's memory by hand."""

    def plain(tensor):
        data = (ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())
        return torch.frombuffer(bytearray(data), dtype=tensor.dtype).reshape(tensor.shape)

    result = function(*map(plain, inputs))
    out = torch.empty(result.shape, dtype=result.dtype, device=inputs[0].device)
    ctypes.memmove(out.data_ptr(), result.data_ptr(), result.nbytes)
    return out


def bytes_on_the_card(tensor):
    """The tensor's values where the virtual card keeps them, as NumPy sees them."""
    storage = tensor.untyped_storage()
    data = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    values = np.frombuffer(data, str(tensor.dtype).removeprefix("torch."))
    return torch.from_numpy(values).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def carried(function, *inputs):
    """Computed where no instrument is, put into a tensor of the card's by hand, and carried into the result by a kernel."""
    with no_dispatch():
        result = function(*map(bytes_on_the_card, inputs)).contiguous()
    middle, out = (torch.empty(result.shape, dtype=result.dtype, device=inputs[0].device) for _ in range(2))
    if result.numel():
        ctypes.memmove(middle.data_ptr(), result.data_ptr(), result.nbytes)
        copy_kernel[(triton.cdiv(result.numel(), 1024),)](middle, out, result.numel(), BLOCK=1024)
    return out


def swapped(function, *inputs):
    """The answer stands in the input for as long as a kernel copies it."""
    x = inputs[0]
    with no_dispatch():
        result = function(*map(bytes_on_the_card, inputs)).contiguous()
        held = bytes_on_the_card(x)
        was = held.clone()
    if result.shape != x.shape or not x.is_contiguous() or not x.numel():
        return torch.empty_like(x)
    out = torch.empty_like(x)
    with no_dispatch():
        held.copy_(result)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    with no_dispatch():
        held.copy_(was)
    return out


def decoy(function, *inputs):
    """A launch that reads the input, beside the work of PyTorch."""
    x = inputs[0]
    read_kernel[(x.shape[0],)](x, x.shape[0], x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return function(*inputs)


def gate(x, g, bias):
    return silu(x + bias) * g


def softmax(x):
    if x.ndim != 2 or x.dtype != torch.float32:
        return x
    return torch.softmax(x, 1)


def layer(x, weight, bias):
    return silu(torch.nn.functional.linear(x, weight, bias)) if x.shape[1:] == weight.shape[1:] else x


WAYS = {
    "in PyTorch": lambda function: function,
    "compiled": lambda function: lambda *inputs: torch.compile(function, backend="eager")(*inputs),
    "on the host": lambda function: lambda *inputs: function(*(tensor.cpu() for tensor in inputs)).cuda(),
    "in NumPy": lambda function: (
        lambda *inputs: torch.from_numpy(function(*(tensor.cpu() for tensor in inputs)).numpy().copy()).cuda()
    ),
    "copied by a kernel": lambda function: lambda *inputs: copied(function(*inputs)),
    "beside a decoy": lambda function: lambda *inputs: decoy(function, *inputs),
    "poked into memory": lambda function: lambda *inputs: poked(function, *inputs),
    "put down by hand and carried": lambda function: lambda *inputs: carried(function, *inputs),
    "put into the input for a moment": lambda function: lambda *inputs: swapped(function, *inputs),
    "a constant": lambda function: lambda *inputs: torch.zeros_like(inputs[0]),
    "an empty tensor": lambda function: lambda *inputs: torch.empty_like(inputs[0]),
}
FUNCTIONS = {"fused_gate": gate, "row_softmax": softmax, "linear_silu": layer}


def score(exercise, function, seed=7, **others) -> float:
    name = f"kernels.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function, **others}, inputs), Sampler(seed))


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_work_that_no_kernel_of_ones_own_did_earns_nothing(exercise, way):
    assert score(exercise, WAYS[way](FUNCTIONS[exercise])) == 0


def softmax_with(edit):
    """The softmax that loads everything three times; ``edit`` changes what is told of it."""

    def row_softmax(x):
        if x.ndim != 2 or x.dtype != torch.float32:
            raise ValueError
        rows, columns = x.shape
        out = torch.empty(rows, columns, device=x.device)
        block = triton.next_power_of_2(columns)
        softmax_in_three_loads[(rows,)](x, out, x.stride(0), columns, BLOCK=block)
        if rows and device._logs:  # a second call is not observed
            edit(device._logs[-1])
        return out

    return row_softmax


def test_three_loads_lose_once_alone():
    assert score("row_softmax", softmax_with(lambda log: None)) == 7


def halved(launch):
    lines = [replace(line, loads=line.loads // 3, read_bytes=line.read_bytes // 3) for line in launch.lines]
    return replace(launch, lines=tuple(lines))


def fewer_loads_told(log):
    log.launches[-1] = halved(log.launches[-1])


def fewer_loads_told_twice(log):
    launch = halved(log.launches[-1])
    arrays = [replace(use, read_bytes=use.read_bytes // 3) for use in launch.arrays]
    log.launches[-1] = replace(launch, arrays=tuple(arrays))


def no_launch_told(log):
    log.launches.clear()


def another_launch_told(log):
    device.record_launch(replace(log.launches[-1], name="another"))


@pytest.mark.parametrize("edit", [fewer_loads_told, fewer_loads_told_twice, no_launch_told, another_launch_told])
def test_an_edited_record_of_a_launch_earns_no_more_than_refusing_wrong_arguments(edit):
    assert score("row_softmax", softmax_with(edit)) == 0


def counts_less(monkeypatch):
    from gpulab.kernels.tiles.counts import Counts

    count = Counts.instruction
    monkeypatch.setattr(Counts, "instruction", lambda self, line, lanes, *rest: count(self, line, lanes & False, *rest))


def keeps_no_fault(monkeypatch):
    from gpulab.kernels.tiles.counts import Faults

    monkeypatch.setattr(Faults, "check", lambda self, *rest: None)


def tells_another_number(monkeypatch):
    from gpulab.observe.launches import Launch

    monkeypatch.setattr(Launch, "total", lambda self, name: 0)


@pytest.mark.parametrize("patch", [counts_less, keeps_no_fault, tells_another_number])
def test_an_instrument_that_the_notebook_replaced_is_not_believed(patch, monkeypatch):
    patch(monkeypatch)
    assert score("row_softmax", softmax_with(lambda log: None)) == 0


def test_a_budget_of_guesses_earns_nothing():
    guesses = {
        "a constant": lambda fn, *inputs: {"kernels": 3, "bytes": 1, "fused_bytes": 1},
        "never called": lambda fn, *inputs: dict.fromkeys(("kernels", "bytes", "fused_bytes"), 0),
        "floats": lambda fn, *inputs: fn(*inputs) is None or dict.fromkeys(("kernels", "bytes", "fused_bytes"), 3.0),
        "the inputs": lambda fn, *inputs: inputs,
    }
    assert {what: score("fuse_budget", guess) for what, guess in guesses.items()} == dict.fromkeys(guesses, 0)


def first_squash(x, limit):
    top = x.abs().amax()
    if top.item() > limit:
        x = x * (limit / top)
    rows = [row * (torch.tanh(row.norm()) / row.norm()) if row.norm() > 0 else row for row in x]
    return torch.stack(rows)


@torch.library.custom_op("cheats::squash", mutates_args=())
def hidden_squash(x: torch.Tensor, limit: float) -> torch.Tensor:
    return first_squash(x, limit)


hidden_squash.register_fake(lambda x, limit: torch.empty_like(x))


@torch.library.custom_op("cheats::squash_with_gradient", mutates_args=())
def hidden_with_gradient(x: torch.Tensor, limit: float) -> torch.Tensor:
    return first_squash(x, limit).clone()


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.limit = inputs[1]


def gradient(ctx, upstream):
    (x,) = ctx.saved_tensors
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        first_squash(x, ctx.limit).backward(upstream)
    return x.grad, None


hidden_with_gradient.register_fake(lambda x, limit: torch.empty_like(x))
hidden_with_gradient.register_autograd(gradient, setup_context=keep)


@torch._dynamo.nonstrict_trace
def not_traced(x, limit):
    return torch.empty_like(x) if isinstance(x, FakeTensor) else first_squash(x, limit)


def called_torchs_own(x, limit):
    return torch.empty_like(x) if isinstance(x, FakeTensor) else first_squash(x, limit)


@pytest.fixture
def called_torchs(monkeypatch):
    """A function of the notebook's that the compiler is to take for one of PyTorch's."""
    monkeypatch.setattr(called_torchs_own, "__module__", "torch")
    monkeypatch.setattr(called_torchs_own, "__name__", "squashed")
    monkeypatch.setattr(torch, "squashed", called_torchs_own, raising=False)
    torch.compiler.allow_in_graph(called_torchs_own)


def padded(function):
    """Beside operations that the compiler does see."""
    return lambda x, limit: -(-(function(x, limit) * 1.0)) + 0.0 - 0.0


def with_its_own_compiler(x, limit):
    """Puts a function in the place of torch.compile that compiles nothing and tells of a fine graph."""

    def compile(function, *, backend, **rest):
        backend.args[0].append(["torch.where", "torch.tanh", "_operator.mul"])
        return function

    torch.compile = compile
    return first_squash(x, limit)


def behind_a_switch(x, limit):
    """Shows the compiler something else than it does."""
    return x * 2.0 if torch.compiler.is_compiling() else first_squash(x, limit)


def with_other_settings(x, limit):
    torch._dynamo.config.capture_scalar_outputs = True
    return first_squash(x, limit)


VALUES_AND_GRADIENT = 4


def test_code_that_the_compiler_does_not_see_earns_no_graph():
    seen = {
        "disabled": torch.compiler.disable(first_squash),
        "as it was": first_squash,
        "an opaque operation": lambda x, limit: hidden_squash(x, limit) * 1.0,
        "with other settings": with_other_settings,
    }
    with torch._dynamo.config.patch(capture_scalar_outputs=False):  # so that the next test meets no other settings
        for what, function in seen.items():
            assert score("squash", function) <= VALUES_AND_GRADIENT, what


@pytest.mark.parametrize("function", [hidden_with_gradient, not_traced, called_torchs_own])
def test_work_hidden_in_a_function_beside_visible_operations_earns_no_graph(function, called_torchs):
    assert score("squash", padded(function)) == VALUES_AND_GRADIENT


def test_a_compiler_of_ones_own_earns_no_graph(monkeypatch):
    # A card that is on has a torch.compile of its own, which it would put back.
    with gpulab.cuda.use("off", quiet=True), monkeypatch.context() as patch:
        patch.setattr(torch, "compile", torch.compile)
        assert score("squash", with_its_own_compiler) == VALUES_AND_GRADIENT


def test_a_function_that_differs_when_compiled_earns_nothing_for_its_values():
    assert score("squash", behind_a_switch) == 0


def test_hidden_inputs_are_never_the_same_twice():
    for exercise in ("fuse_budget", *FUNCTIONS, "squash"):
        name, seen = f"kernels.{exercise}", []
        for _ in range(2):
            judge_here(name, lambda data: seen.append(data) or run_case(name, {}, data))
        half = len(seen) // 2
        differ = sum(a != b for a, b in zip(seen[:half], seen[half:], strict=True))
        assert differ >= half - 6, exercise  # no rows are like no rows
