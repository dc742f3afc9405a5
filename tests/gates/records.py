"""The record that trials keep of an exercise with which nothing is wrong, without the minutes they take."""

from autograder.authoring.authored import AuthoredExercise
from autograder.authoring.isolated import IsolatedRuns, Trial
from autograder.authoring.meaning import digest
from autograder.authoring.trials import tried
from autograder.core.layout import ROOT
from autograder.notebooks.cells import solution_of


class AsExpected(IsolatedRuns):
    """Every attempt loses what it must and the solution nothing; mutants and the starter lose all, but mutants called equivalent."""

    def __init__(self, authored: AuthoredExercise) -> None:
        super().__init__()
        self._attempts = {attempt.source: sorted(authored.losses(attempt)) for attempt in authored.attempts}
        self._attempts |= {solution_of(authored.notebook, authored.function): []}
        self._criteria = sorted(authored.criteria)
        self._equivalent = [one.becomes for one in authored.said.equivalent_mutants]

    def after(self, authored: AuthoredExercise, source: str) -> None:
        pass

    def executed(self, authored: AuthoredExercise) -> dict[str, str]:
        return {"autograder/judge/referee.py": digest(ROOT / "autograder/judge/referee.py")}

    def all(self, trials: list[Trial]) -> list[list[list[str]]]:
        return [[self._lost(trial.source)] * len(trial.seeds) for trial in trials]

    def _lost(self, source: str) -> list[str]:
        if source in self._attempts:
            return self._attempts[source]
        return [] if any(line in source for line in self._equivalent) else self._criteria


def record_of(authored: AuthoredExercise) -> dict:
    record, problems = tried(authored, AsExpected(authored))
    assert not problems, problems
    return record
