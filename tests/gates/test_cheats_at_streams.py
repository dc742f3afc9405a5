"""Answers to chapter "Asynchronous execution" that were not earned."""

import ctypes

import pytest
import torch
from torch.nn.functional import mse_loss

import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.observe import device


@pytest.fixture(autouse=True, params=["off", "virtual:H100"])
def runtime(request):
    """A learner's card may be on or off when the hidden tests begin."""
    with gpulab.cuda.use(request.param, quiet=True):
        yield


class Agreeable(float):
    """A number that is as large as one likes."""

    __eq__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True


def trained(model, optimizer, batches, every, limit):
    """The updates, right, and the losses on the device."""
    losses = []
    for x, y in batches:
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        (loss * (loss <= limit)).backward()
        optimizer.step()
        losses.append(loss.detach())
    return [losses[at : at + every] for at in range(0, len(losses), every)]


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"streams.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def test_a_log_left_on_the_device_earns_the_updates_alone():
    def train(model, optimizer, batches, every, limit):
        windows = trained(model, optimizer, batches, every, limit)
        return [{"mean": sum(w) / len(w), "worst": max(w), "skipped": 0} for w in windows]

    assert score("train", train) == 2


def test_a_log_made_up_earns_the_updates_alone():
    def train(model, optimizer, batches, every, limit):
        windows = trained(model, optimizer, batches, every, limit)
        return [{"mean": Agreeable(), "worst": Agreeable(), "skipped": Agreeable()} for _ in windows]

    assert score("train", train) == 2


def test_losses_read_behind_the_devices_back_earn_the_updates_alone():
    def train(model, optimizer, batches, every, limit):
        windows = trained(model, optimizer, batches, every, limit)
        values = [[ctypes.c_float.from_address(loss.data_ptr()).value for loss in window] for window in windows]
        return [{"mean": sum(w) / len(w), "worst": max(w), "skipped": sum(v > limit for v in w)} for w in values]

    assert score("train", train) == 2


def on_the_side(image_model, action_model, image, state):
    """A right answer."""
    here, side = torch.cuda.current_stream(), another_stream()
    side.wait_stream(here)
    image.record_stream(side)
    with torch.cuda.stream(side):
        seen_by = image_model(image)
    done_by = action_model(state)
    here.wait_stream(side)
    seen_by.record_stream(here)
    return seen_by, done_by


def without_waits(image_model, action_model, image, state):
    """Two streams, and nothing that puts them in order."""
    with torch.cuda.stream(another_stream()):
        seen_by = image_model(image)
    return seen_by, action_model(state)


def another_stream():
    """A new one that is not the caller's."""
    return next(filter(torch.cuda.current_stream().__ne__, iter(torch.cuda.Stream, None)))


def test_the_models_run_twice_do_not_count_as_run_together():
    assert score("run_two_models", on_the_side) == 8
    assert score("run_two_models", lambda *job: (on_the_side(*job), on_the_side(*job))[1]) == 0


def test_one_line_without_a_stream_earns_its_values_alone():
    assert score("run_two_models", lambda a, b, image, state: (a(image), b(state))) == 1


def test_races_struck_from_the_record_cost_the_case():
    def struck(*job):
        pair = without_waits(*job)
        for log in device._logs:
            log.races = Deaf()
        return pair

    assert score("run_two_models", struck) < score("run_two_models", without_waits) == 3


class Deaf(list):
    def append(self, item):
        pass


def test_waits_struck_from_the_record_cost_the_case():
    def train(model, optimizer, batches, every, limit):
        windows = trained(model, optimizer, batches, every, limit)
        values = [[loss.item() for loss in window] for window in windows]
        for log in device._logs:
            del log.waits[len(values) :]
        return [{"mean": sum(w) / len(w), "worst": max(w), "skipped": sum(v > limit for v in w)} for w in values]

    assert score("train", train) == 0


def test_a_card_switched_off_inside_the_function_earns_nothing():
    def run_two_models(image_model, action_model, image, state):
        gpulab.cuda.use("off", quiet=True)
        return image_model(image), action_model(state)

    assert score("run_two_models", run_two_models) == 0


def test_the_learners_tensors_outlive_the_hidden_tests_on_the_same_card():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        mine = torch.ones(3, device="cuda")
        score("run_two_models", lambda a, b, x, y: (a(x), b(y)))
        assert mine.sum().item() == 3


def test_hidden_inputs_are_never_the_same_twice():
    for exercise in ("honest_time", "train", "run_two_models"):
        name, runs = f"streams.{exercise}", ([], [])
        for seen in runs:
            judge_here(name, lambda data, seen=seen: seen.append(data) or run_case(name, {}, data))
        fewest = min(map(len, runs))  # pairs of strata may be met by a case more or less
        assert sum(a != b for a, b in zip(*runs)) >= fewest - 2, exercise


def test_a_loss_read_by_an_operator_that_is_called_otherwise_is_waited_for():
    def train(model, optimizer, batches, every, limit):
        losses, log = [], []
        for x, y in batches:
            loss = mse_loss(model(x), y)
            optimizer.zero_grad()
            (loss * (loss <= limit)).backward()
            optimizer.step()
            losses.append(torch.ops.prims.item(loss.detach()))
        for window in [losses[at : at + every] for at in range(0, len(losses), every)]:
            log.append(
                {"mean": sum(window) / len(window), "worst": max(window), "skipped": sum(v > limit for v in window)}
            )
        return log

    assert score("train", train) == 5


def two_models_in_no_order(backward):
    """Each in a stream of its own that waits for nobody; ``backward``: PyTorch says meanwhile that a backward pass is running."""

    def run_two_models(image_model, action_model, image, state):
        streams = [torch.cuda.Stream(priority=-1), torch.cuda.Stream(priority=-1)]
        asked = torch._C._current_graph_task_id
        torch._C._current_graph_task_id = (lambda: 0) if backward else asked
        try:
            with torch.cuda.stream(streams[0]):
                seen = image_model(image)
            with torch.cuda.stream(streams[1]):
                return seen, action_model(state)
        finally:
            torch._C._current_graph_task_id = asked

    return run_two_models


@pytest.mark.parametrize("backward", [False, True])
def test_who_orders_no_stream_earns_neither_inputs_nor_outputs_whatever_pytorch_is_made_to_say(backward):
    assert score("run_two_models", two_models_in_no_order(backward)) == 3


def test_work_in_a_hook_of_a_backward_pass_is_ordered_by_nobody_else():
    def run_two_models(image_model, action_model, image, state):
        found = {}

        def hook(gradient):
            for name, model, x in (("image", image_model, image), ("action", action_model, state)):
                with torch.cuda.stream(torch.cuda.Stream(priority=-1)):
                    found[name] = model(x)

        with torch.enable_grad():
            one = torch.ones(1, device="cuda", requires_grad=True)
            two = one * 1
            two.register_hook(hook)
            two.backward()
        return found["image"], found["action"]

    assert score("run_two_models", run_two_models) <= 3
