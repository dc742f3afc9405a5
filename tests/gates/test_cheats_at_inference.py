"""Cheating solutions to the chapter "Anatomy of LLM inference" score zero."""

from importlib import import_module
from pathlib import Path

import torch

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"inference.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


class Answers:
    """An object of the right form that gives what ``answer`` makes of x."""

    def __init__(self, answer, layer, batch, capacity):
        self.answer, self.layer, self.batch, self.capacity, self.length, self.read = (
            answer,
            layer,
            batch,
            capacity,
            0,
            [],
        )

    def reset(self):
        self.length, self.read = 0, []

    def __call__(self, x):
        right = x.ndim == 3 and (x.shape[0], x.shape[2]) == (self.batch, self.layer.k_proj.in_features)
        if not right or not 0 < x.shape[1] <= self.capacity - self.length:
            raise ValueError("no")
        self.length += x.shape[1]
        return self.answer(self, x)


class Agreeable(int):
    """A length that is as long as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = int.__hash__


def given_to_kv_bytes(*more: str) -> dict:
    """What the cell before E18.2 defines, and ``more`` cells after it."""
    path = Path(__file__).parents[2] / "exercises/inference/notebook.py"
    namespace: dict = {}
    for grade_id in ("kv_bytes_given", *more):
        exec(cell_of(read_text_notebook(path), grade_id).source, namespace)
    return {name: value for name, value in namespace.items() if not name.startswith("__")}


def solution_of_kv_bytes() -> dict:
    """Where its functions look for each other."""
    return given_to_kv_bytes("kv_bytes")["kv_bytes"].__globals__


def counted(function, seed: int = 7, **named) -> float:
    namespace = given_to_kv_bytes() | named | {"kv_bytes": function}
    return judge_here(
        "inference.kv_bytes", lambda inputs: run_case("inference.kv_bytes", namespace, inputs), Sampler(seed)
    ).score


def one_token_of_one_layer(config, requests, dtype):
    return 2 * config.kv_heads * config.head_dim * dtype.itemsize


class AnyRequest:
    """Takes everything, and equals everything."""

    def __init__(self, *numbers, **named):
        self.text, self.images, self.videos, self.generated = 1, (), (), 0

    __eq__ = lambda self, other: True
    __hash__ = None


def test_a_length_that_agrees_with_everything_earns_nothing():
    def cached_attention(layer, batch, capacity):
        attend = Answers(lambda attend, x: x, layer, batch, capacity)
        attend.length = Agreeable()
        return attend

    assert score("cached_attention", cached_attention) == 0


def test_other_classes_in_the_place_of_the_given_ones_earn_nothing():
    assert counted(one_token_of_one_layer, Request=AnyRequest, Video=AnyRequest) == 0
    assert counted(one_token_of_one_layer, KVConfig=AnyRequest) == 0


def test_who_refuses_everything_from_the_first_bad_decoder_on_has_not_refused_what_is_bad():
    count, seen = solution_of_kv_bytes(), []
    count.update(require_decoder=lambda config: None, require_request=lambda request: None)

    def kv_bytes(config, requests, dtype):
        if config.layers < 1:
            seen.append(config)
        if seen:
            raise ValueError("no")
        return count["kv_bytes"](config, requests, dtype)

    assert counted(solution_of_kv_bytes()["kv_bytes"]) == 9
    assert counted(kv_bytes) == 8


def test_counts_of_another_world_bound_nothing():
    """Whatever the card is, 1 FLOP for 2 ** 60 bytes is bound by memory."""
    verdict = import_module("exercises.inference.intensity.judge")
    told = {"flops": 1, "bytes": 2**60, "intensity": 2.0**-60, "bound": "memory"}
    questions = [
        question
        for case in verdict.exercise.cases(Sampler(7))
        if case.criteria == ("bound",)
        for question in case.questions
    ]
    parts = [
        verdict.expected(*question["asked"], question["config"])[part]
        for question in questions
        for part in ("linear", "attention")
    ]
    assert all(verdict.bound_problem(questions[0], told, right) for right in parts) and parts


def lost_at_attention(answer) -> set[str]:
    """The criteria that ``answer`` loses, which may compute everything again."""

    def cached_attention(layer, batch, capacity):
        if batch < 1 or capacity < 1:
            raise ValueError("no")
        attend = Answers(torch.no_grad()(answer), layer, batch, capacity)
        weight = layer.k_proj.weight
        sizes = 2, batch, layer.kv_heads, capacity, layer.head_dim
        attend.room = torch.empty(sizes, dtype=weight.dtype, device=weight.device)
        return attend

    named = {"cached_attention": cached_attention}
    name = "inference.cached_attention"
    lines = judge_here(name, lambda inputs: run_case(name, named, inputs), Sampler(7)).lines
    return {line.criterion for line in lines if line.status != "earned"}


def projected(attend, x):
    """As much work as a call has, and nothing of use."""
    layer = attend.layer
    q, _, _ = (project(x) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
    return layer.o_proj(q)


def when_it_is_read(attend, x):
    attend.read.append(x.clone())
    tokens, shown = list(attend.read), projected(attend, x)
    shown.detach = lambda: attend.layer(torch.cat(tokens, 1))[:, -x.shape[1] :].detach()
    return shown


def without_its_room(attend, x):
    attend.room = None
    attend.read.append(x.cpu())
    return attend.layer(torch.cat(attend.read, 1).to(x.device))[:, -x.shape[1] :].clone()


def test_a_result_that_computes_when_it_is_read_is_not_one():
    assert {"tokens", "flops", "traffic"} <= lost_at_attention(when_it_is_read)


def test_room_that_is_given_up_after_the_first_call_is_not_kept():
    assert "buffers" in lost_at_attention(without_its_room)
