"""E18.2 kv_bytes: what runs beside the learner's function."""

import torch

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask about each decoder and its requests. An integer crosses as text: it may have more than 64 bits."""
    return {"answers": [_counted(learner, question) for question in case["questions"]]}


def _counted(learner: Learner, question: dict) -> dict:
    (config, requests), stated = _asked(learner, question), _asked(learner, question)
    answer = outcome(lambda: learner.kv_bytes(config, requests, getattr(torch, question["dtype"])))
    whole = {"whole": hex(answer["returned"])} if type(answer.get("returned")) is int else {}
    return answer | whole | {"kept": (config, requests) == stated}


def _asked(learner: Learner, question: dict) -> tuple[object, list]:
    """The notebook's objects for a question's numbers."""
    requests = []
    for asked in question["requests"]:
        images = tuple(tuple(sides) for sides in asked["images"])
        videos = tuple(learner.Video(*video) for video in asked["videos"])
        requests.append(learner.Request(asked["text"], images, videos, asked["generated"]))
    return learner.KVConfig(**question["config"]), requests
