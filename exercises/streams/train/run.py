"""E6.2 train: what runs beside the learner's function."""

from collections.abc import Iterable

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.streams.run import callers_stream, plain, spin
from gpulab.cuda.device import state


class Delayed(torch.nn.Module):
    """Layers with a tanh between them, behind a kernel that takes ``us``: so the host can run ahead."""

    def __init__(self, layers: list[torch.nn.Linear], us: float) -> None:
        super().__init__()
        self.layers, self._us = torch.nn.ModuleList(layers), us

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spin(self._us)
        for layer in self.layers[:-1]:
            x = layer(x).tanh()
        return self.layers[-1](x)


def run(learner: Learner, case: dict) -> dict:
    """Train a model of one layer or two, watched; the parameters come back from the model itself."""
    with idle_card(), torch.cuda.stream(callers_stream(case["side_stream"])):
        model = Delayed([_linear(*layer) for layer in case["layers"]], case["us"]).cuda()
        optimizer = torch.optim.SGD(_groups(model, case["lr"], case["groups"]), lr=case["lr"])
        batches = [(x.cuda(), y.cuda()) for x, y in zip(case["xs"], case["ys"], strict=True)]
        if case["stale"]:
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
        torch.cuda.synchronize()
        here = torch.cuda.current_stream().stream_id
        with observe() as seen:
            log = learner.train(model, optimizer, batches, case["every"], case["limit"])
            returned_us = state.device_on().machine.host_us
        torch.cuda.synchronize()
        after = [[layer.weight.detach().cpu(), layer.bias.detach().cpu()] for layer in model.layers]
    return {"log": _plain_log(log), "layers": after, "stream": here, "returned_us": returned_us, "seen": seen.to_dict()}


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def _groups(model: Delayed, lr: float, several: bool) -> Iterable:
    """All parameters, or the biases in a group of their own, with twice the rate."""
    if not several:
        return model.parameters()
    weights, biases = [layer.weight for layer in model.layers], [layer.bias for layer in model.layers]
    return [{"params": weights}, {"params": biases, "lr": 2 * lr}]


def _plain_log(log: object) -> object:
    if not isinstance(log, list):
        return log
    return [{key: plain(value) for key, value in entry.items()} if isinstance(entry, dict) else entry for entry in log]
