"""E18.2 kv_bytes: what runs beside the learner's function."""

import torch

from autograder.runner.answers import ask
from autograder.runner.scenario_runner import Learner, describe


def run(learner: Learner, case: dict) -> dict:
    """Ask about each decoder and its requests, in the notebook's classes. Where these change, one more is in the list."""
    function = learner.kv_bytes

    def kv_bytes(config: dict, requests: list, dtype: str) -> object:
        given, stated = (_asked(learner, config, requests) for _ in range(2))
        try:
            return function(*given, getattr(torch, dtype))
        finally:
            if given != stated:
                requests.append("changed")

    return ask(kv_bytes, case, describe)


def _asked(learner: Learner, config: dict, requests: list) -> tuple[object, list]:
    """The notebook's objects for a question's numbers. Equal requests in a row are one object."""
    made = []
    for at, asked in enumerate(requests):
        if at and asked == requests[at - 1]:
            made.append(made[-1])
            continue
        images = tuple(tuple(sides) for sides in asked["images"])
        videos = tuple(learner.Video(*video) for video in asked["videos"])
        made.append(learner.Request(asked["text"], images, videos, asked["generated"]))
    return learner.KVConfig(**config), made
