"""Cheating solutions to the chapter "Trading and debugging memory" score zero."""

from importlib import import_module
from pathlib import Path

import torch

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import solution_of
from autograder.runner.scenario_runner import run_case
from exercises.autograd.run import no_collector
from exercises.trading.classify_growth.run_growth import Loop
from gpulab import cuda
from gpulab.cuda.machine.allocator import Allocator, OutOfMemory
from tests.gates.threads import in_a_thread

TRADING = Path(__file__).parents[2] / "exercises" / "trading" / "notebook.py"


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"trading.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


class AnyInteger(int):
    """An integer that is equal to every other, and neither less nor more."""

    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __hash__ = int.__hash__


def what_judges_it(n, act, ckpt, budget):
    """The answer of the referee, where it can be imported."""
    from exercises.trading.choose_segments import judge

    return judge


def refuse_all(*asked):
    raise ValueError("no")


def test_a_cheat_at_choose_segments_earns_nothing():
    cheats = {
        "one": lambda n, act, ckpt, budget: 1,
        "all": lambda n, act, ckpt, budget: n,
        "any": lambda n, act, ckpt, budget: AnyInteger(1),
        "the root": lambda n, act, ckpt, budget: round(n**0.5),
        "one or none": lambda n, act, ckpt, budget: 1 if n * act <= budget else None,
        "nothing": lambda n, act, ckpt, budget: None,
        "a guess": lambda n, act, ckpt, budget: max(n // 2, 1) if budget else None,
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    assert {what: score("choose_segments", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def steps_alone(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """A step for each group, on whatever gradients there are."""
    count = sum(1 for _ in micro_batches)
    for _ in range(0, count, group):
        optimizer.step()
    return [0.0] * -(-count // group)


def forward_passes_alone(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """The mean losses, and no step."""
    sums = []
    for inputs, targets in micro_batches:
        with torch.no_grad():
            sums.append((loss_fn(model(inputs), targets).item(), int((targets != -100).sum())))
    groups = [sums[first : first + group] for first in range(0, len(sums), group)]
    return [sum(loss for loss, _ in each) / sum(tokens for _, tokens in each) for each in groups]


def without_the_last_of_each_group(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """Half of the work: only what is not the last of a group goes through the model."""
    losses = []
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        if number % group:
            with no_sync():
                loss_fn(model(inputs), targets).backward()
        else:
            optimizer.step()
            losses.append(1.0)
            optimizer.zero_grad()
    return losses


def solved(name):
    """The solution's function."""
    namespace = {"torch": torch}
    exec(solution_of(read_text_notebook(TRADING), name), namespace)
    return namespace[name]


accumulated = solved("accumulate")


def with_losses_made_up(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """The work of the solution, and numbers of which the loss function's notes are made to say the same."""
    answer = accumulated(model, optimizer, micro_batches, group, loss_fn, no_sync)
    loss_fn.values[:] = [0.0] * len(loss_fn.values)
    return [0.0] * len(answer)


def test_losses_made_up_do_not_earn_the_point_for_losses():
    assert score("accumulate", with_losses_made_up) == score("accumulate", accumulated) - 1


def test_a_cheat_at_accumulate_earns_nothing():
    cheats = {
        "no work at all": lambda *given: [],
        "nothing but steps": steps_alone,
        "no step": forward_passes_alone,
        "a part of each group": without_the_last_of_each_group,
        "what the hooks wrote down": lambda model, *given: [hook() for hook in model._forward_pre_hooks.values()],
        "everything refused": lambda *given: (_ for _ in ()).throw(ValueError()),
    }
    assert {what: score("accumulate", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class Endless:
    """An allocator that hands out addresses one after the other, keeps no books, and says what ``said`` says."""

    def __init__(self, capacity, step=512, **said):
        self.top, self.step, self.said = 0x7F00_0000_0000, step, said
        self.allocated = self.reserved = 0

    def malloc(self, size):
        self.top += self.step
        return self.top - self.step

    def free(self, address):
        if self.said.get("refuses"):
            raise ValueError(address)

    def empty_cache(self):
        pass

    def segments(self):
        return []


class Agreeable(int):
    """Equal to whatever one likes, on this side of the wire."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return True


class OfTheCard:
    """The virtual card's allocator; ``ask`` calls what asks it."""

    allocated = property(lambda self: self.ask(lambda: self.card.allocated))
    reserved = property(lambda self: self.ask(lambda: self.card.reserved))

    def __init__(self, capacity, ask):
        self.ask, self.used = ask, {}
        self.card = ask(lambda: Allocator(capacity, int, int, lambda stream: stream, lambda use: True))

    def malloc(self, size):
        if size < 1:
            raise ValueError(size)
        try:
            block = self.ask(lambda: self.card.malloc(size, 0))
        except OutOfMemory:
            raise MemoryError(f"{size} {self.reserved - self.allocated}") from None
        self.used[block.address] = block
        return block.address

    def free(self, address):
        if address not in self.used:
            raise ValueError(address)
        self.ask(lambda: self.card.free(self.used.pop(address)))

    def empty_cache(self):
        self.ask(self.card.empty_cache)

    def segments(self):
        return self.ask(lambda: [(s.address, s.size, _blocks(s)) for s in self.card.segments.values()])


def _blocks(segment):
    return [(block.address, block.size, not block.is_free) for block in segment.blocks()]


class Devised(Endless):
    """Everything that is asked for is equal to everything."""

    def malloc(self, size):
        return Agreeable(super().malloc(size))


def test_a_cheat_at_caching_allocator_earns_nothing():
    cheats = {
        "nothing": lambda capacity: None,
        "methods that do nothing": Endless,
        "every free is an error": lambda capacity: Endless(capacity, refuses=True),
        "segments of its own": lambda capacity: Endless(capacity, step=20 << 20),
        "agreeable": Devised,
        "everything refused": lambda capacity: (_ for _ in ()).throw(ValueError()),
        "memory has run out": lambda capacity: (_ for _ in ()).throw(MemoryError("0 1 2 3")),
        "the card's own": lambda capacity: Allocator(capacity, int, int, int, bool),
        "the card's own, asked": lambda capacity: OfTheCard(capacity, lambda ask: ask()),
    }
    assert {what: score("caching_allocator", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


class AgreeableKind(str):
    """Whatever one likes to hear."""

    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = str.__hash__


class AgreeableRate(float):
    """A number that is as large as one likes."""

    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = lambda self, *other: self
    __hash__ = float.__hash__


def called_first(step, steps, answer):
    """``answer``, after all the calls."""
    for _ in range(steps):
        step()
    return answer


def test_a_cheat_at_classify_growth_earns_nothing():
    kinds = ("flat", "plateau", "leak", "fragmentation")
    cheats = {
        **{f"always {kind}": lambda step, steps, kind=kind: called_first(step, steps, (kind, 0.0)) for kind in kinds},
        **{f"{kind} without a call": lambda step, steps, kind=kind: (kind, 0.0) for kind in kinds},
        "agreeable": lambda step, steps: called_first(step, steps, (AgreeableKind("leak"), AgreeableRate(512))),
        "all kinds": lambda step, steps: called_first(step, steps, (list(kinds), 0.0)),
        "not a number": lambda step, steps: called_first(step, steps, (kinds[2], float("nan"))),
        "another thread": lambda step, steps: in_a_thread(lambda: called_first(step, steps, ("plateau", 0.0))),
        "everything refused": lambda step, steps: (_ for _ in ()).throw(ValueError()),
        "the function": lambda step, steps: step,
    }
    assert {what: score("classify_growth", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_the_loops_hold_on_the_card_what_the_judge_says_and_as_the_statement_promises():
    growth = import_module("exercises.trading.classify_growth.judge")
    plans = [plan for case in growth.exercise.cases(Sampler(3)) if not case.raises for plan in case.inputs["loops"]]
    kinds = set()
    for plan in plans:
        with cuda.use("virtual:H100", quiet=True), no_collector():
            held, reserved = readings(plan)
        assert (held, reserved) == (growth._held(plan), growth._reserved(plan))
        epoch = plan["steps"] // 4
        assert len({late - early for early, late in zip(held[2 * epoch : 3 * epoch], held[3 * epoch :])}) == 1
        kinds.add(growth._expected(plan)[0])
    assert kinds == {"flat", "plateau", "leak", "fragmentation"}


def readings(plan):
    """Bytes held and reserved after each step, beyond those before the first."""
    loop, columns = Loop(plan), ([], [])
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(plan["steps"]):
        loop.step()
        columns[0].append(torch.cuda.memory_allocated() - before[0])
        columns[1].append(torch.cuda.memory_reserved() - before[1])
    return columns
