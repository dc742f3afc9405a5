"""The record that trials keep of an exercise with which nothing is wrong, without the minutes they take."""

from autograder.authoring.apart import Apart, Trial
from autograder.authoring.bench import Bench
from autograder.authoring.trials import tried
from autograder.notebooks.cells import solution_of


class AsDue(Apart):
    """Every attempt loses what it must and the solution nothing; mutants and the starter lose all, but mutants called harmless."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._attempts = {attempt.as_cell(): list(attempt.loses) for attempt in bench.attempts}
        self._attempts |= {solution_of(bench.notebook, bench.function): []}
        self._criteria = sorted(bench.criteria)
        self._harmless = [one.becomes for one in bench.harmless]

    def after(self, bench: Bench, source: str) -> None:
        pass

    def all(self, trials: list[Trial]) -> list[list[list[str]]]:
        return [[self._lost(trial.source)] * len(trial.seeds) for trial in trials]

    def _lost(self, source: str) -> list[str]:
        if source in self._attempts:
            return self._attempts[source]
        return [] if any(line in source for line in self._harmless) else self._criteria


def record_of(bench: Bench) -> dict:
    record, problems = tried(bench, AsDue(bench))
    assert not problems, problems
    return record
