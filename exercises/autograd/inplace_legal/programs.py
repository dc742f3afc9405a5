"""Programs of tensor operations, and what autograd says of one of their steps in place."""

from collections.abc import Iterator

import torch
from torch.nn.functional import gelu

from autograder.core.sampler import Sampler

Program = list[list]
SAVES_RESULT = ("exp", "tanh", "sigmoid", "relu")
SAVES_ARGUMENT = ("sin", "cos", "square")
SAVES_NOTHING = ("neg", "double", "shift")
UNARY = (*SAVES_RESULT, *SAVES_ARGUMENT, *SAVES_NOTHING)
_NO_FORM = ("leaf", "input", "view", "detach", "gelu")
_OTHER_NAMES = {"double": ("mul", 2.0), "shift": ("add", 1.0)}


def verdict(program: Program) -> list[bool]:
    """Of each step, whether autograd takes it in place and no later step reads what it overwrote."""
    return [
        step[0] not in _NO_FORM and not _is_read_later(program, number) and _runs(program, number)
        for number, step in enumerate(program)
    ]


def has_gradient(program: Program) -> bool:
    """Whether the program goes through as it stands, backward pass included."""
    return _runs(program, None)


def _runs(program: Program, in_place: int | None) -> bool:
    try:
        values: list[torch.Tensor] = []
        for number, (operation, *arguments) in enumerate(program):
            values.append(_value(operation, [values[at] for at in arguments], number == in_place))
        values[-1].sum().backward()
    except RuntimeError:
        return False
    return True


def _value(operation: str, arguments: list[torch.Tensor], in_place: bool) -> torch.Tensor:
    if operation in ("leaf", "input"):
        return torch.linspace(0.1, 0.4, 3, dtype=torch.float64).requires_grad_(operation == "leaf")
    x = arguments[0]
    made = {"view": lambda: x.view(x.shape), "detach": x.detach, "gelu": lambda: gelu(x)}.get(operation)
    if made:
        return made()
    name, *constants = _OTHER_NAMES.get(operation, (operation,))
    return getattr(x, f"{name}_" if in_place else name)(*arguments[1:], *constants)


def _is_read_later(program: Program, number: int) -> bool:
    """Whether a later step takes a value that was there before and lies in the memory of this one's first argument."""
    memory: list[int] = []
    for at, (operation, *arguments) in enumerate(program):
        memory.append(memory[arguments[0]] if operation in ("view", "detach") else at)
    written = memory[program[number][1]]
    return any(memory[at] == written and at < number for step in program[number + 1 :] for at in step[1:])


def drawn(sampler: Sampler, length: int) -> Program:
    """A program of steps by chance, with a backward pass, that writes to no leaf and has no second name for anything."""
    while True:
        program: Program = [["leaf"], ["input"], ["double", 0], ["shift", 1]]
        while len(program) < length:
            operation = sampler.choice((*UNARY, "gelu", *["add", "mul"] * 4))
            count = 2 if operation in ("add", "mul") else 1
            program.append([operation, *(sampler.integer(2, len(program) - 1) for _ in range(count))])
        if has_gradient(program):
            return program


def chains(sampler: Sampler) -> Iterator[Program]:
    """Each operation in place behind each other one."""
    for before in sampler.shuffled(*UNARY, "gelu"):
        for then in sampler.shuffled(*UNARY):
            yield [["leaf"], ["shift", 0], [before, 1], [then, 2], [sampler.choice(("shift", "cos")), 3]]


def consumers(sampler: Sampler) -> Iterator[Program]:
    """A value is used, and then written to; the use is backward's business, or it is not."""
    for used in sampler.shuffled(*UNARY, "gelu"):
        then = sampler.choice(UNARY)
        start = [["leaf"], ["input"], ["double", 0]]
        yield [*start, [used, 2], [then, 2], ["add", 3, 4]]
        yield [*start, [used, 2], ["neg", 3], [then, 2], ["mul", 4, 5]]
        yield [*start, [used, 2], [then, 2], ["add", 4, 1]]
        yield [*start, [used, 2], ["detach", 3], [then, 2], ["add", 5, 4]]
        yield [["leaf"], ["input"], ["double", 1], [used, 2], [then, 2], ["add", 3, 4], ["add", 5, 0]]
    for then in sampler.shuffled("neg", "square", "tanh"):
        for made in sampler.shuffled(("mul", 3, 4), ("mul", 4, 3), ("add", 3, 4), ("mul", 3, 3)):
            for source in sampler.shuffled(0, 1):
                start = [["leaf"], ["input"], ["leaf"], ["double", 0], ["double", source], list(made)]
                yield [*start, [then, 3], ["add", 5, 6]]
                yield [*start, [then, 4], ["add", 5, 6]]
    yield [["leaf"], ["double", 0], ["mul", 1, 1]]
    yield [["leaf"], ["input"], ["double", 0], ["mul", 2, 1], ["mul", 3, 2], ["neg", 4]]


def views(sampler: Sampler) -> Iterator[Program]:
    """A value and other names of its memory."""
    for alias in sampler.shuffled("view", "detach"):
        for used in sampler.shuffled("sin", "neg", "exp", "gelu"):
            then = sampler.choice(UNARY)
            start = [["leaf"], ["double", 0], [alias, 1]]
            yield [*start, [used, 1], [then, 2], ["add", 3, 4]]
            yield [*start, [used, 2], [then, 1], ["add", 3, 4]]
            yield [["leaf"], [used, 0], [alias, 1], ["view", 2], [then, 3], ["add", 4, 0]]
            yield [*start, ["view", 2], [used, 3], [then, 1], ["add", 4, 5]]
        yield [["leaf"], ["double", 0], [alias, 1], ["mul", 1, 2], ["neg", 3]]
        yield [["leaf"], ["input"], ["double", 1], [alias, 2], ["mul", 2, 3], ["add", 4, 0]]
        yield [["leaf"], ["double", 0], ["shift", 1], [alias, 2], ["neg", 3], ["add", 4, 1]]
    yield [["leaf"], ["double", 0], ["view", 1]]


def readers(sampler: Sampler) -> Iterator[Program]:
    """A value is read after it would have been written to; or only the result is."""
    for then in sampler.shuffled(*UNARY):
        reads = sampler.choice(("neg", "double", "shift"))
        yield [["leaf"], ["double", 0], [then, 1], [reads, 1], ["add", 2, 3]]
        yield [["leaf"], ["double", 0], [then, 1], [reads, 2], ["add", 3, 2]]
        yield [["leaf"], ["double", 0], ["view", 1], [then, 1], [reads, 2], ["add", 3, 4]]
        yield [["leaf"], ["double", 0], ["detach", 1], [then, 2], ["add", 3, 1]]
        yield [["leaf"], ["double", 0], [then, 1], [reads, 1], ["neg", 2]]
        yield [["leaf"], ["double", 0], [reads, 1], [then, 1], ["view", 3], ["add", 2, 4]]


def leaves(sampler: Sampler) -> Iterator[Program]:
    """Parameters and data."""
    for then in sampler.shuffled(*UNARY):
        yield [["leaf"], ["input"], [then, 0], ["mul", 2, 1]]
        yield [["leaf"], ["view", 0], [then, 1], ["neg", 2]]
        yield [["leaf"], ["input"], [then, 1], ["add", 2, 0]]
        yield [["leaf"], ["input"], ["view", 1], ["view", 2], [then, 3], ["mul", 4, 0]]
        yield [["leaf"], ["neg", 0], ["detach", 0], [then, 2], ["add", 1, 3]]
        yield [["leaf"], ["sin", 0], ["detach", 0], [then, 2], ["add", 1, 3]]
    for operation in sampler.shuffled("add", "mul"):
        yield [["leaf"], ["input"], [operation, 0, 1]]
        yield [["leaf"], ["input"], [operation, 1, 0]]
        yield [["leaf"], ["input"], [operation, 1, 0], ["neg", 1], ["add", 2, 3]]
        yield [["leaf"], ["input"], ["mul", 0, 1], [operation, 1, 0], ["add", 2, 3]]


def long(length: int) -> tuple[Program, list[bool]]:
    """One after another, with the verdict: what stands behind ``exp`` cannot be in place, all else can but the first."""
    pattern = (("exp", True), ("shift", False), ("sin", True), ("neg", True))
    program, expected = [["leaf"], ["double", 0]], [False, False]
    while len(program) < length:
        operation, legal = pattern[len(program) % 4]
        expected.append(legal or program[-1][0] != "exp")
        program.append([operation, len(program) - 1])
    return program, expected
