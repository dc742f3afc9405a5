"""nbgrader's Execute, by which a submission is run beside the referee."""

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import default

from autograder.core.flag import Flag
from autograder.core.ledger import Ledger
from autograder.core.unexplained import Unexplained
from autograder.core.verdict import Verdict
from autograder.flags.noticed import with_noticed
from autograder.intake.graded_form import why_not_graded
from autograder.notebooks.run import RunGraded


class ExecuteGraded(RunGraded, Execute):
    """A submission's notebook is run, and its ledger entry is the sheet that is filled in."""

    @default("play_seconds")
    def _play_seconds_of_a_class(self) -> int:
        """Half a second of processor time for each function that lost points is nothing to one learner, and much for a class:
        ``autograder explain`` plays them when it is graded.
        """
        return 0

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict, km=None):
        """Of what nothing could be made nothing runs."""
        return (nb, resources) if why_not_graded(nb) else super().preprocess(nb, resources, km)

    def sheet(self, resources: ResourcesDict) -> "LedgerSheet":
        return LedgerSheet(resources)


class LedgerSheet:
    """A submission's entry in the ledger of the course that nbgrader works on."""

    def __init__(self, resources: ResourcesDict) -> None:
        self._ledger, self._resources = Ledger.of_course(), resources

    def note(self, sentence: str) -> None:
        self._ledger.note(self._resources, sentence)

    def record(self, grade_id: str, verdict: Verdict) -> None:
        with self._ledger.entry(self._resources) as entry:
            entry.verdicts[grade_id] = verdict

    explain = record

    def keep(self, grade_id: str, unexplained: Unexplained) -> None:
        with self._ledger.entry(self._resources) as entry:
            entry.unexplained[grade_id] = unexplained

    def leave(
        self, outcome: str, incidents: list[str], broken: list[str], tracebacks: list[str], flags: list[Flag]
    ) -> None:
        with self._ledger.entry(self._resources) as entry:
            entry.incidents += incidents
            entry.broken += broken
            entry.tracebacks += tracebacks
            entry.flags = with_noticed(entry.flags, flags)
            if entry.outcome == "ran":
                entry.outcome = outcome
