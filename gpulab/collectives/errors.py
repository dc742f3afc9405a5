"""RankError, the one error for whatever goes wrong among ranks."""

from dataclasses import asdict, dataclass

from gpulab.observe.records import SourceLine


@dataclass(frozen=True)
class Problem:
    """The first thing that went wrong.

    ``kind``: ``raised`` (a rank's own exception), ``died`` (killed, or left without returning), ``deadlock``,
    ``disagreement`` (ranks asked for different collectives, sizes or dtypes), ``late`` (not done within the
    timeout), ``protocol`` (a rank sent what is no message). ``ranks``: those to look at, with their ``lines``.
    ``text``: one paragraph for a reader. ``exception``: the class of what was raised; ``traceback``: its text.
    """

    kind: str
    text: str
    ranks: tuple[int, ...] = ()
    lines: tuple[SourceLine | None, ...] = ()
    exception: str = ""
    traceback: str = ""

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Problem":
        lines = tuple(None if line is None else SourceLine(**line) for line in data["lines"])
        return cls(**{**data, "ranks": tuple(data["ranks"]), "lines": lines})


class RankError(RuntimeError):
    """The ranks did not do what they were started for; ``problem`` says why, by rank and line.

    ``journal``: what had crossed by then. As text: one paragraph.
    """

    def __init__(self, problem: Problem, journal: tuple = ()) -> None:
        super().__init__(problem.text)
        self.problem, self.journal = problem, journal
