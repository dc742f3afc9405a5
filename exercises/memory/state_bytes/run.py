"""E9.1 state_bytes: what runs beside the learner's function."""

import torch

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask about each recipe; then train a flat model with it for one step where the question says so."""
    answers, held = [], []
    for question in case["questions"]:
        recipe, stated = _typed(question["recipe"]), _typed(question["recipe"])
        answer = outcome(
            lambda: learner.state_bytes(question["parameters"], recipe, *question["ranks"], **question["named"])
        )
        if isinstance(answer.get("returned"), dict):
            answer["returned"] = dict(answer["returned"])  # a Counter is a dictionary too
        answers.append(answer | {"kept": recipe == stated})
        held.append(
            Rank(_typed(question["run"]), question["parameters"], *question["ranks"]).held()
            if question["run"]
            else None
        )
    return {"answers": answers, "held": held}


def _typed(recipe: object) -> object:
    """A recipe with ``torch`` dtypes for their names; a name of a recipe as it is."""
    if not isinstance(recipe, dict):
        return recipe
    typed = {key: getattr(torch, value) if isinstance(value, str) else value for key, value in recipe.items()}
    return typed | {"moments": tuple(getattr(torch, name) for name in recipe["moments"])}


class Rank:
    """The first of ``world`` ranks, after one training step: weights of a flat model, gradients, optimizer.

    The moments are those of SGD, SGD with momentum, Adam and Adam with ``amsgrad``, by their number.
    """

    def __init__(self, recipe: dict, parameters: int, stage: int = 0, world: int = 1) -> None:
        self._recipe, self._world = recipe, world
        whole = torch.linspace(-1, 1, parameters).to(recipe["weights"]).requires_grad_()
        whole.float().square().sum().backward()
        gradients = whole.grad.to(recipe["gradients"])
        kept = {"weights": whole.detach() if stage < 3 else self._share(whole)}
        kept["gradients"] = gradients if stage < 2 else self._share(gradients)
        part = self._share if stage else torch.clone
        kept |= {
            kind: part(x.detach()).to(recipe[kind])
            for kind, x in (("main_gradients", gradients), ("master", whole))
            if recipe[kind]
        }
        updated = torch.nn.Parameter(kept.get("master", part(whole.detach())))
        updated.grad = kept.get("main_gradients", part(gradients)).to(updated.dtype)
        self._kept = kept | {"moments": self._stepped(updated)}

    def _share(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's part of a flat buffer that is padded to be cut into equal ones."""
        padded = torch.nn.functional.pad(x.detach(), (0, -x.numel() % self._world))
        return padded.chunk(self._world)[0].clone()

    def _stepped(self, updated: torch.nn.Parameter) -> list[torch.Tensor]:
        makers = (torch.optim.SGD, _momentum, torch.optim.Adam, _amsgrad)
        optimizer = makers[len(self._recipe["moments"])]([updated])
        optimizer.step()
        return [value for name, value in optimizer.state[updated].items() if name != "step" and value is not None]

    def held(self) -> dict[str, int]:
        """Bytes of the storages, by kind."""
        lists = {kind: kept if isinstance(kept, list) else [kept] for kind, kept in self._kept.items()}
        return {kind: sum(x.untyped_storage().nbytes() for x in kept) for kind, kept in lists.items()}


def _momentum(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, momentum=0.9)


def _amsgrad(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, amsgrad=True)
