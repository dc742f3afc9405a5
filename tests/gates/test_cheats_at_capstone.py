"""Cheating solutions to the chapter "Capstone: fix a slow, unstable job" score zero."""

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from gpulab import capstone


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"capstone.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def test_a_cheat_at_triage_earns_nothing():
    repairs = [name for name, option in capstone.OPTIONS.items() if option.repairs]

    def forged(job):
        """Runs that never were: the record says what is wished for."""
        healthy = capstone.healthy()
        job.made[:] = [(tuple(repairs[:count]), healthy) for count in range(len(repairs))]
        return [(name, "step_us", 2.0, 1.0) for name in repairs[: job.changes]]

    def without_targets(job):
        """The targets are moved to where the job is."""
        job.targets.update(job.run().figures)
        return []

    def more_runs(job):
        """The limit is lifted, and the first repairs of the list are made."""
        job.runs = 10**6
        return [
            (name, "step_us", job.run(repairs[:number])["step_us"], 0.0)
            for number, name in enumerate(repairs[: job.changes])
        ]

    cheats = {"forged": forged, "without targets": without_targets, "more runs": more_runs, "nothing": lambda job: []}
    assert {what: score("triage", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_figures_that_no_run_gave_justify_no_change():
    """Who knows the faults has still to measure: the referee runs the job and compares."""

    def guessed(job):
        figures = {"input_us": "workers read ahead", "races": "pinned buffers", "reads": "clip by one norm"}
        return [
            (change, figure, job.targets[figure] + 1, 0.0) for figure, change in list(figures.items())[: job.changes]
        ]

    assert score("triage", guessed) == 0


def test_a_cheat_at_design_review_earns_nothing():
    def wished(spec):
        """Whatever was asked for, promised."""
        if spec["mode"] == "serve":
            return {
                "tensor": 1,
                "replicas": 1,
                "batch": spec["users"],
                "between_tokens_s": 1e-9,
                "dollars_per_hour": 1e-9,
            }
        plan = {"tensor": 1, "pipeline": 1, "data": 1, "stage": 0, "micro_batch": 1, "save_every_s": 1.0}
        return plan | {"days": spec["max_days"], "dollars": spec["max_dollars"]}

    cheats = {
        "a wish": wished,
        "no is always safe": lambda spec: {"refused": "cost"},
        "the question": lambda spec: spec,
        "not a number": lambda spec: wished(spec) | {"days": float("nan"), "dollars": float("inf")},
    }
    assert {what: score("design_review", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
