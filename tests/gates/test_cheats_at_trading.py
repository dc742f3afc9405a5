"""Cheating solutions to the chapter "Trading and debugging memory" score zero."""

from importlib import import_module

import torch

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from exercises.autograd.run import no_collector
from exercises.trading.classify_growth.run_growth import Loop
from gpulab import cuda
from tests.solved import solved


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"trading.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


accumulated = solved("trading", "accumulate")


def with_losses_made_up(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """The work of the solution, and other numbers than the loss function gave."""
    answer = accumulated(model, optimizer, micro_batches, group, loss_fn, no_sync)
    return [0.0] * len(answer)


def test_losses_made_up_do_not_earn_the_point_for_losses():
    assert score("accumulate", with_losses_made_up) == score("accumulate", accumulated) - 1


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
