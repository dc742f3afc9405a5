"""E6.3 run_two_models: what runs beside the learner's function."""

import itertools
from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.streams.run import callers_stream, spin
from gpulab import Observation
from gpulab.cuda.device import state

CALLERS = 6
"""Streams that one function is called from, each once."""


STREAMS = 32
"""So many streams of a priority PyTorch hands out, in turn."""


_LATER_US = 20_000


def run(learner: Learner, case: dict) -> dict:
    """Play one robot's ticks, watched; ``outputs``: what the caller made of them, tick by tick."""
    with idle_card(), torch.set_grad_enabled(case["grad"]):
        worked_in: list[torch.cuda.Stream] = []
        models = [_model(weight, us, worked_in) for weight, us in zip(case["weights"], case["us"], strict=True)]
        raw = [case["image"].cuda(), case["state"].cuda()]
        torch.cuda.synchronize()
        robot = Robot(lambda *inputs: learner.run_two_models(*models, *inputs), raw, worked_in)
        seen = _TICKS[case["tick"]](robot)
        torch.cuda.synchronize()
        return {**robot.told(), "seen": seen.to_dict()}


def _model(
    weight: torch.Tensor, us: float, worked_in: list[torch.cuda.Stream]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """One layer behind a kernel that fills one multiprocessor for ``us`` microseconds; it notes its streams."""
    weight = weight.cuda()

    def model(x: torch.Tensor) -> torch.Tensor:
        worked_in.append(torch.cuda.current_stream())
        spin(us)
        return torch.tanh(x @ weight)

    return model


class Robot:
    """The caller: writes inputs, runs the models and uses their outputs, all in its current stream.

    ``worked_in``: the stream of each call of a model so far.
    """

    def __init__(self, run: Callable, raw: list[torch.Tensor], worked_in: list[torch.cuda.Stream]) -> None:
        self._run, self._raw, self.worked_in = run, raw, worked_in
        self._used: list = []
        self.host_us: list[float] = []
        self.stays: list[bool] = []

    def inputs(self, tick: int, behind_us: float) -> list[torch.Tensor]:
        """Inputs of a tick that the current stream has yet to write, behind other work."""
        spin(behind_us)
        return [tensor + (1 + tick) for tensor in self._raw]

    def call(self, inputs: list[torch.Tensor]) -> object:
        machine, here = state.device_on().machine, torch.cuda.current_stream()
        before = machine.host_us
        outputs = self._run(*inputs)
        self.host_us.append(machine.host_us - before)
        self.stays.append(torch.cuda.current_stream() == here)
        return outputs

    def use(self, outputs: object) -> None:
        """Read the outputs in the current stream."""
        self._used.append([_doubled(output) for output in outputs] if isinstance(outputs, tuple) else outputs)

    def told(self) -> dict:
        return {"outputs": [_on_host(pair) for pair in self._used], "host_us": self.host_us, "stays": self.stays}


def _doubled(output: object) -> object:
    return output * 2 if isinstance(output, torch.Tensor) and output.is_cuda else None


def _on_host(used: object) -> object:
    if not isinstance(used, list):
        return used
    return [value.cpu() if isinstance(value, torch.Tensor) else value for value in used]


def _late_inputs(robot: Robot) -> Observation:
    """The inputs are still being written, at each of two calls; the outputs are used after the host has waited."""
    kept, outputs = [], []
    with observe() as seen:
        for tick in range(2):
            kept.append(robot.inputs(tick, behind_us=2500))
            outputs.append(robot.call(kept[-1]))
    torch.cuda.synchronize()
    for pair in outputs:
        robot.use(pair)
    return seen


def _early_use(robot: Robot) -> Observation:
    """The inputs are ready; the outputs are used at once, and those of the first call once more after the second."""
    inputs = [robot.inputs(tick, behind_us=200) for tick in range(2)]
    torch.cuda.synchronize()
    with observe() as seen:
        first = robot.call(inputs[0])
        robot.use(first)
        robot.use(robot.call(inputs[1]))
        robot.use(first)
    return seen


def _inputs_let_go(robot: Robot) -> Observation:
    """The caller lets go of the inputs at once, and writes other tensors of their sizes."""
    inputs = robot.inputs(0, behind_us=200)
    torch.cuda.synchronize()
    with observe() as seen:
        outputs = robot.call(inputs)
        sizes = [tensor.shape for tensor in inputs]
        del inputs
        others = [torch.full(size, 9.0, device="cuda") for size in sizes]
    torch.cuda.synchronize()
    robot.use(outputs)
    del others
    return seen


def _alone(robot: Robot) -> Observation:
    """Nothing but the call."""
    inputs = robot.inputs(0, behind_us=200)
    torch.cuda.synchronize()
    with observe() as seen:
        outputs = robot.call(inputs)
    torch.cuda.synchronize()
    robot.use(outputs)
    return seen


def _several_callers(robot: Robot) -> Observation:
    """Called from one stream and then from another; each reads late and lets go.

    Between the calls the pools of streams have come round: whoever asks for new ones at each call
    gets those of the call before.
    """
    streams = [callers_stream(side=True) for _ in range(CALLERS)]
    newest = {priority: torch.cuda.Stream(priority=priority) for priority in (0, -1)}
    with observe() as seen:
        for tick, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                outputs = robot.call(robot.inputs(tick, behind_us=200))
                spin(3000)
                robot.use(outputs)
                del outputs
            for priority, stream in newest.items():
                while torch.cuda.Stream(priority=priority) != stream:
                    pass
    return seen


def _streams_of_its_own(robot: Robot) -> Observation:
    """Called from the streams that it works in itself: those of its first call, and the first or second it will be given."""
    with observe() as seen:
        _tick(robot, 0, torch.cuda.default_stream())
        for tick, stream in enumerate((*robot.worked_in, *[torch.cuda.default_stream()] * 2)[:2], 1):
            _tick(robot, tick, stream)
        for tick, (priority, place) in enumerate(itertools.product((0, -1), (1, 2)), 3):
            _tick(robot, tick, _handed_out_again(priority, place))
    return seen


def _tick(robot: Robot, tick: int, stream: torch.cuda.Stream) -> None:
    """One call, begun when the device is long done with the one before."""
    with torch.cuda.stream(stream):
        robot.use(robot.call(robot.inputs(tick, behind_us=0)))
    state.device_on().machine.host_us += _LATER_US


def _handed_out_again(priority: int, place: int) -> torch.cuda.Stream:
    """The stream that PyTorch hands out next, or after the next."""
    stream = torch.cuda.Stream(priority=priority)
    for _ in range(STREAMS - place):
        torch.cuda.Stream(priority=priority)
    return stream


_TICKS = {
    "late inputs": _late_inputs,
    "early use": _early_use,
    "inputs let go": _inputs_let_go,
    "alone": _alone,
    "several callers": _several_callers,
    "streams of its own": _streams_of_its_own,
}
