"""Cheating solutions to the chapter "Serving engines" score zero."""

import linecache
import sys
from pathlib import Path

import pytest
import torch

from autograder.authoring.text import read_text_notebook
from autograder.core.exercise import find
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of
from autograder.runner.scenario_runner import run_case
from exercises.engines.place_phases.phases import refused
from gpulab.serving import Chunked, Continuous, Paged, Plan, Static

pytestmark = pytest.mark.audit


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"engines.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


class BatcherWithout:
    """A scheduler that answers with what ``answer`` makes of what it is asked."""

    def __init__(self, answer) -> None:
        self._answer = answer

    def plan(self, waiting, running, blocks, budget):
        return self._answer(waiting, running, blocks, budget)


def batcher_one_by_one(waiting, running, blocks, budget):
    """Nobody beside anybody: never out of blocks, never out of order."""
    live = (list(running) or sorted(waiting, key=lambda live: live.arrival_us))[0]
    blocks.reserve(live, live.left)
    return Plan({live: min(live.left, budget.tokens)})


def batcher_that_ends_them(waiting, running, blocks, budget):
    """Says of all requests that they are done."""
    for live in (*waiting, *running):
        object.__setattr__(live, "told", live.most)
        object.__setattr__(live, "computed", live.tokens - 1)
    return Static().plan(waiting, running, blocks, budget)


def batcher_with_a_cache_of_its_own(waiting, running, blocks, budget):
    """Plans by an allocator in which there is always room."""
    return Continuous().plan(waiting, running, Paged(10**6), budget)


def test_a_cheat_at_continuous_batcher_earns_nothing():
    answers = {
        "no plan": lambda *asked: None,
        "an empty plan": lambda *asked: Plan(),
        "everyone out": lambda waiting, running, blocks, budget: Plan({}, list(running)),
        "one by one": batcher_one_by_one,
        "batches that drain": Static().plan,
        "its requests ended": batcher_that_ends_them,
        "a cache of its own": batcher_with_a_cache_of_its_own,
        "names for requests": lambda waiting, running, blocks, budget: Plan(
            {live.name: 1 for live in (*waiting, *running)}
        ),
    }
    cheats = {what: lambda patience, answer=answer: BatcherWithout(answer) for what, answer in answers.items()}
    cheats |= {"no scheduler": lambda patience: object(), "a class": lambda patience: Plan}
    assert (
        {what: score("continuous_batcher", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
    )


def test_the_packages_own_schedulers_earn_one_point_at_most_at_continuous_batcher():
    assert [score("continuous_batcher", lambda patience: made) for made in (Continuous(), Chunked())] == [1, 1]


def clock_behind(step_us):
    """What the learner's clock asks itself, uncounted: out of an object, or of the cells of a function."""
    if hasattr(step_us, "__self__"):
        return step_us.__self__._step_us
    return next(cell.cell_contents for cell in step_us.__closure__ if callable(cell.cell_contents))


def test_whoever_goes_behind_the_clock_loses_its_calls():
    """The clock that is handed over is never asked, and the one behind it as often as one likes."""
    path, names = Path(__file__).parents[2] / "exercises/engines/notebook.py", {}
    for grade_id in ("chunked_parts", "chunked_prefill"):
        exec(cell_of(read_text_notebook(path), grade_id).source, names)
    assert score("chunked_prefill", names["chunked_prefill"]) == 9
    assert (
        score("chunked_prefill", lambda step_us, gap_us: names["chunked_prefill"](clock_behind(step_us), gap_us)) == 8
    )


def given_to_place_phases(*more: str) -> dict:
    """What the cell before E19.4 defines, and ``more`` cells after it."""
    path = Path(__file__).parents[2] / "exercises/engines/notebook.py"
    namespace: dict = {}
    for grade_id in ("place_phases_given", *more):
        exec(cell_of(read_text_notebook(path), grade_id).source, namespace)
    return namespace


def placed(function, seed: int = 7, **named) -> float:
    namespace = {name: value for name, value in given_to_place_phases().items() if not name.startswith("__")}
    namespace |= named | {"place_phases": function}
    return judge_here(
        "engines.place_phases", lambda inputs: run_case("engines.place_phases", namespace, inputs), Sampler(seed)
    ).score


class AnyWorkload:
    """Takes everything, and equals everything."""

    mix, rate = (), 1

    def __init__(self, *numbers, **named):
        pass

    __eq__ = lambda self, other: True
    __hash__ = None


def same_plan(number, placement="split", even=None):
    times = dict.fromkeys(("ttft_us", "tbt_us", "gap_us", "latency_us"), number)
    split = times | {"exposed_us": number, "prefill": 1, "decode": 1}
    return lambda workload, cluster: {
        "placement": placement,
        "bytes": number,
        "break_even_gbps": even,
        "shared": dict(times),
        "split": dict(split),
    }


def test_other_classes_in_the_place_of_workloads_and_clusters_earn_nothing():
    assert placed(same_plan(1), Workload=AnyWorkload, Cluster=AnyWorkload, Kind=AnyWorkload) == 0


def test_who_refuses_everything_from_the_first_bad_workload_on_has_not_refused_what_is_bad():
    solved, seen = given_to_place_phases("place_phases"), []
    solution = solved["place_phases"]
    solved["require_numbers"] = lambda workload, cluster: None

    def place_phases(workload, cluster):
        if not workload.mix or cluster.instances < 1:
            seen.append(workload)
        if seen:
            raise ValueError("no")
        return solution(workload, cluster)

    assert placed(given_to_place_phases("place_phases")["place_phases"]) == 9
    assert placed(place_phases) == 8


def test_only_the_questions_about_errors_are_refused_at_place_phases():
    drawn = [case for seed in range(1, 22) for case in find("engines.place_phases").cases(Sampler(seed))]
    assert not [case for case in drawn if case.criteria != ("errors",) and any(map(refused, case.inputs["questions"]))]


def test_an_answer_that_is_given_again_is_not_the_callers_own():
    solution, answers = given_to_place_phases("place_phases")["place_phases"], {}

    def place_phases(workload, cluster):
        asked = str((workload, cluster))
        if asked not in answers:
            answers[asked] = solution(workload, cluster)
        return answers[asked]

    assert placed(place_phases) == 8


def paged_solved(edits=()) -> dict:
    """The solution of E19.6, edited, and what the cell before it defines; a kernel is compiled from the source of its cell."""
    path, names = Path(__file__).parents[2] / "exercises/engines/notebook.py", {"torch": torch}
    for grade_id in ("paged_cache", "paged_attention"):
        source = cell_of(read_text_notebook(path), grade_id).source
        for old, new in edits if grade_id == "paged_attention" else ():
            assert old in source
            source = source.replace(old, new)
        file = f"<{grade_id} {hash(source):x}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), names)
    return names


def test_pytorch_has_no_part_in_a_cache_that_is_far_apart():
    """Products of int32 in the kernel, and what the notebook gathers where they would not do."""
    names = paged_solved([(".to(tl.int64)", "")])

    def paged_attention(q, k_cache, *rest):
        return names["paged_attention" if q.is_cuda or k_cache.stride(0) < 2**29 else "gathered_attention"](
            q, k_cache, *rest
        )

    assert score("paged_attention", paged_attention) == 8


def test_a_second_step_is_not_the_first_once_more():
    """The scenario's frame still has the inputs of the first."""
    solution = paged_solved()["paged_attention"]

    def paged_attention(*given):
        first = sys._getframe(1).f_locals.get("given")
        return solution(*(first if isinstance(first, list) else given))

    assert score("paged_attention", paged_attention) == 7


def test_no_case_that_expects_an_exception_is_told_by_its_names():
    told = [(bool(case.raises), frozenset(case.inputs)) for case in find("engines.paged_attention").cases(Sampler(7))]
    assert {names for raises, names in told if raises} == {names for raises, names in told if not raises}
