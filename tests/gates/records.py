"""The record that trials keep of an exercise with which nothing is wrong, without the minutes they take."""

from autograder.authoring.apart import Apart, Trial
from autograder.authoring.bench import Bench
from autograder.authoring.trials import tried


class AsDue(Apart):
    """Every mutant loses, but those called harmless; every attempt loses what it must."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._attempts = {attempt.as_cell(): list(attempt.loses) for attempt in bench.attempts}
        self._harmless = [one.becomes for one in bench.harmless]

    def after(self, bench: Bench, source: str) -> None:
        pass

    def all(self, trials: list[Trial]) -> list[list[list[str]]]:
        return [[self._lost(trial.source)] * len(trial.seeds) for trial in trials]

    def _lost(self, source: str) -> list[str]:
        if source in self._attempts:
            return self._attempts[source]
        return [] if any(line in source for line in self._harmless) else ["something"]


def record_of(bench: Bench) -> dict:
    record, problems = tried(bench, AsDue(bench))
    assert not problems, problems
    return record
