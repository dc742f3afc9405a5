"""E14.2 best_bucket: what runs beside the learner's function."""

from autograder.runner.answers import ask
from autograder.runner.scenario_runner import Learner, describe


def run(learner: Learner, case: dict) -> dict:
    """Ask every question. Layers that are alike are one object."""
    function = learner.best_bucket

    def best_bucket(layers: list, link: dict, buckets: list) -> object:
        alike: dict = {}
        layers[:] = [alike.setdefault(str(layer), layer) for layer in layers]
        return function(layers, link, buckets)

    return ask(best_bucket, case, describe)
